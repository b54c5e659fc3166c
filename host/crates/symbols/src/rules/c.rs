//! C and C++. In a header a declaration without a body counts as well, because other files use it.

use tree_sitter::Node;

use super::{Inside, unquoted};
use crate::SymbolKind::{Constant, Function, Macro, Method, Module, Test, Type};
use crate::scope::OutlineBuilder;

/// Maximum number of declarators around a name.
const NESTED: usize = 32;

pub(super) fn visit(node: Node<'_>, builder: &mut OutlineBuilder<'_>) -> Inside {
    match node.kind() {
        "preproc_include" => {
            let path = builder.field(node, "path").unwrap_or_default();
            builder.import(node, unquoted(&path), vec![]);
            Inside::Nothing
        }
        "function_definition" => {
            function(node, builder);
            Inside::Function
        }
        "declaration" | "field_declaration" => {
            if let Some(name) = declared_function(node, builder) {
                let kind = if builder.is_in_type() { Method } else { Function };
                builder.symbol(node, &name, kind, is_shared(node, builder));
            }
            Inside::Look
        }
        "struct_specifier" | "union_specifier" | "enum_specifier" | "class_specifier" => {
            let named = builder.field(node, "name");
            match (named, node.child_by_field_name("body")) {
                (Some(name), Some(_)) => {
                    if !builder.in_function() {
                        builder.symbol(node, &name, Type, builder.is_around_exported());
                    }
                    Inside::Type { name, exported: builder.is_around_exported() }
                }
                _ => Inside::Look,
            }
        }
        "type_definition" | "alias_declaration" => {
            let name = match node.child_by_field_name("declarator") {
                Some(declarator) => name(declarator, builder).map(|(name, _)| name),
                None => builder.field(node, "name"),
            };
            if let (Some(name), false) = (name, builder.in_function()) {
                builder.symbol(node, &name, Type, builder.is_around_exported());
            }
            Inside::Look
        }
        "namespace_definition" => {
            let name = builder.field(node, "name");
            // Other files cannot name the members of a namespace without a name.
            let exported = name.is_some() && builder.is_around_exported();
            if let Some(name) = &name {
                builder.symbol(node, name, Module, exported);
            }
            Inside::Module { name: name.unwrap_or_default(), exported }
        }
        "preproc_function_def" => {
            let name = builder.field(node, "name").unwrap_or_default();
            builder.symbol(node, &name, Macro, is_header(builder));
            Inside::Nothing
        }
        "preproc_def" => {
            // A definition without a value is a guard or a switch.
            if node.child_by_field_name("value").is_some() {
                let name = builder.field(node, "name").unwrap_or_default();
                builder.symbol(node, &name, Constant, is_header(builder));
            }
            Inside::Nothing
        }
        "lambda_expression" => Inside::Function,
        "comment" | "string_literal" => Inside::Nothing,
        _ => Inside::Look,
    }
}

fn function(node: Node<'_>, builder: &mut OutlineBuilder<'_>) {
    let Some(declarator) = node.child_by_field_name("declarator") else { return };
    let Some((name, parameters)) = name(declarator, builder) else { return };
    if builder.in_function() {
        return;
    }
    if let ("TEST" | "TEST_F" | "TEST_P" | "TYPED_TEST", Some(parameters)) = (&*name, parameters) {
        let words = builder.text(parameters);
        let words = words.trim_matches(['(', ')']).replace(',', ".");
        builder.symbol(node, &words.split_whitespace().collect::<String>(), Test, false);
        return;
    }
    let exported = is_shared(node, builder);
    match name.rsplit_once("::") {
        Some((container, name)) => {
            let container = container.rsplit("::").next().unwrap_or(container);
            builder.symbol_in(node, name, Method, exported, Some(container.to_owned()));
        }
        None => {
            let kind = if builder.is_in_type() { Method } else { Function };
            builder.symbol(node, &name, kind, exported);
        }
    }
}

/// Returns the name of a function that a header declares and another file defines.
fn declared_function(node: Node<'_>, builder: &OutlineBuilder<'_>) -> Option<String> {
    if !is_header(builder) || builder.in_function() {
        return None;
    }
    let (name, parameters) = name(node.child_by_field_name("declarator")?, builder)?;
    parameters.map(|_| name)
}

/// Returns the name in a declarator, and the parameters if it declares a function.
fn name<'t>(
    declarator: Node<'t>,
    builder: &OutlineBuilder<'_>,
) -> Option<(String, Option<Node<'t>>)> {
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
                return Some((builder.text(node), parameters));
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

/// Returns whether other files can name a definition: it is not `static` and not in a namespace without a name.
fn is_shared(node: Node<'_>, builder: &OutlineBuilder<'_>) -> bool {
    let mut cursor = node.walk();
    let private = !builder.is_in_type()
        && node.children(&mut cursor).take(6).any(|child| {
            child.kind() == "storage_class_specifier" && builder.text(child) == "static"
        });
    !private && builder.is_around_exported()
}

fn is_header(builder: &OutlineBuilder<'_>) -> bool {
    builder.file.rsplit_once('.').is_some_and(|(_, extension)| extension.starts_with('h'))
}
