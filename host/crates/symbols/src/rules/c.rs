//! C and C++. In a header, what is only declared is what others name.

use tree_sitter::Node;

use super::{Inside, unquoted};
use crate::SymbolKind::{Constant, Function, Macro, Method, Module, Test, Type};
use crate::scope::Found;

/// Declarators that lie around a name at most.
const NESTED: usize = 32;

pub(super) fn visit(node: Node<'_>, found: &mut Found<'_>) -> Inside {
    match node.kind() {
        "preproc_include" => {
            let path = found.field(node, "path").unwrap_or_default();
            found.import(node, unquoted(&path), vec![]);
            Inside::Nothing
        }
        "function_definition" => {
            function(node, found);
            Inside::Function
        }
        "declaration" | "field_declaration" => {
            if let Some(name) = declared_function(node, found) {
                let kind = if found.is_in_type() { Method } else { Function };
                found.symbol(node, &name, kind, is_shared(node, found));
            }
            Inside::Look
        }
        "struct_specifier" | "union_specifier" | "enum_specifier" | "class_specifier" => {
            let named = found.field(node, "name");
            match (named, node.child_by_field_name("body")) {
                (Some(name), Some(_)) => {
                    if !found.in_function() {
                        found.symbol(node, &name, Type, found.is_around_exported());
                    }
                    Inside::Type { name, exported: found.is_around_exported() }
                }
                _ => Inside::Look,
            }
        }
        "type_definition" | "alias_declaration" => {
            let name = match node.child_by_field_name("declarator") {
                Some(declarator) => name(declarator, found).map(|(name, _)| name),
                None => found.field(node, "name"),
            };
            if let (Some(name), false) = (name, found.in_function()) {
                found.symbol(node, &name, Type, found.is_around_exported());
            }
            Inside::Look
        }
        "namespace_definition" => {
            let name = found.field(node, "name");
            // What has no name cannot be named.
            let exported = name.is_some() && found.is_around_exported();
            if let Some(name) = &name {
                found.symbol(node, name, Module, exported);
            }
            Inside::Module { name: name.unwrap_or_default(), exported }
        }
        "preproc_function_def" => {
            let name = found.field(node, "name").unwrap_or_default();
            found.symbol(node, &name, Macro, is_header(found));
            Inside::Nothing
        }
        "preproc_def" => {
            // Without a value it guards or switches something.
            if node.child_by_field_name("value").is_some() {
                let name = found.field(node, "name").unwrap_or_default();
                found.symbol(node, &name, Constant, is_header(found));
            }
            Inside::Nothing
        }
        "lambda_expression" => Inside::Function,
        "comment" | "string_literal" => Inside::Nothing,
        _ => Inside::Look,
    }
}

fn function(node: Node<'_>, found: &mut Found<'_>) {
    let Some(declarator) = node.child_by_field_name("declarator") else { return };
    let Some((name, parameters)) = name(declarator, found) else { return };
    if found.in_function() {
        return;
    }
    if let ("TEST" | "TEST_F" | "TEST_P" | "TYPED_TEST", Some(parameters)) = (&*name, parameters) {
        let words = found.text(parameters);
        let words = words.trim_matches(['(', ')']).replace(',', ".");
        found.symbol(node, &words.split_whitespace().collect::<String>(), Test, false);
        return;
    }
    let exported = is_shared(node, found);
    match name.rsplit_once("::") {
        Some((container, name)) => {
            let container = container.rsplit("::").next().unwrap_or(container);
            found.symbol_in(node, name, Method, exported, Some(container.to_owned()));
        }
        None => {
            let kind = if found.is_in_type() { Method } else { Function };
            found.symbol(node, &name, kind, exported);
        }
    }
}

/// The name of a function that is declared in a header and defined elsewhere.
fn declared_function(node: Node<'_>, found: &Found<'_>) -> Option<String> {
    if !is_header(found) || found.in_function() {
        return None;
    }
    let (name, parameters) = name(node.child_by_field_name("declarator")?, found)?;
    parameters.map(|_| name)
}

/// The name in a declarator, and the parameters if it is a function's.
fn name<'t>(declarator: Node<'t>, found: &Found<'_>) -> Option<(String, Option<Node<'t>>)> {
    let (mut node, mut parameters) = (declarator, None);
    for _ in 0..NESTED {
        match node.kind() {
            "identifier"
            | "field_identifier"
            | "type_identifier"
            | "qualified_identifier"
            | "destructor_name"
            | "operator_name"
            | "primitive_type" => {
                return Some((found.text(node), parameters));
            }
            "function_declarator" => {
                parameters = parameters.or_else(|| node.child_by_field_name("parameters"));
            }
            // A pointer to a function is a variable.
            "parenthesized_declarator" if parameters.is_some() => parameters = None,
            _ => {}
        }
        node = node.child_by_field_name("declarator").or_else(|| node.named_child(0))?;
    }
    None
}

/// Not `static` and not in a namespace without a name.
fn is_shared(node: Node<'_>, found: &Found<'_>) -> bool {
    let mut cursor = node.walk();
    let private = !found.is_in_type()
        && node.children(&mut cursor).take(6).any(|child| {
            child.kind() == "storage_class_specifier" && found.text(child) == "static"
        });
    !private && found.is_around_exported()
}

fn is_header(found: &Found<'_>) -> bool {
    found.file.rsplit_once('.').is_some_and(|(_, extension)| extension.starts_with('h'))
}
