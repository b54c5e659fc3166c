//! Go. Files of a directory are one package and name each other's things without an import.

use tree_sitter::Node;

use super::uses::Uses;
use super::{Inside, unquoted};
use crate::SymbolKind::{Constant, Function, Method, Test, Type};
use crate::scope::Found;

pub(super) fn visit(node: Node<'_>, found: &mut Found<'_>, uses: &mut Uses) -> Inside {
    declarations(node, found, uses);
    match node.kind() {
        "package_clause" => {
            uses.package(node, ".");
            Inside::Nothing
        }
        "identifier" | "type_identifier" => {
            uses.uses(node, found);
            Inside::Nothing
        }
        // Another package's.
        "qualified_type" => Inside::Nothing,
        "keyed_element" => {
            // A field more often than a name of the package.
            let key = node.named_child(0).map(|key| key.named_child(0).unwrap_or(key));
            if let Some(key) = key.filter(|key| key.kind() == "identifier") {
                uses.pass_over(key);
            }
            Inside::Look
        }
        "import_spec" => {
            let path = found.field(node, "path").unwrap_or_default();
            let name = unquoted(&path).rsplit('/').next().unwrap_or_default();
            uses.declares(name);
            uses.declares(&found.field(node, "name").unwrap_or_default());
            found.import(node, unquoted(&path), vec![]);
            Inside::Nothing
        }
        "function_declaration" => {
            let name = found.field(node, "name").unwrap_or_default();
            let kind = if is_test(&name, found) { Test } else { Function };
            found.symbol(node, &name, kind, kind == Function && is_public(&name));
            Inside::Function
        }
        "method_declaration" => {
            let name = found.field(node, "name").unwrap_or_default();
            let receiver = found.field(node, "receiver").map(|text| receiver(&text));
            found.symbol_in(node, &name, Method, is_public(&name), receiver);
            Inside::Function
        }
        "type_spec" | "type_alias" => {
            named(node, found, Type);
            Inside::Look
        }
        "const_spec" | "var_spec" => {
            let mut cursor = node.walk();
            let names: Vec<_> = node.children_by_field_name("name", &mut cursor).collect();
            for name in names.into_iter().filter(|name| name.kind() == "identifier") {
                let name = found.text(name);
                if !found.in_function() && name != "_" {
                    found.symbol(node, &name, Constant, is_public(&name));
                }
            }
            Inside::Look
        }
        "func_literal" => Inside::Function,
        "comment" | "interpreted_string_literal" | "raw_string_literal" => Inside::Nothing,
        _ => Inside::Look,
    }
}

/// What has a name of its own in the file, wherever.
fn declarations(node: Node<'_>, found: &Found<'_>, uses: &mut Uses) {
    let field = match node.kind() {
        "short_var_declaration" | "range_clause" | "receive_statement" => "left",
        "type_switch_statement" => "alias",
        "function_declaration"
        | "type_spec"
        | "type_alias"
        | "const_spec"
        | "var_spec"
        | "parameter_declaration"
        | "variadic_parameter_declaration"
        | "type_parameter_declaration" => "name",
        _ => return,
    };
    let mut cursor = node.walk();
    for declared in node.children_by_field_name(field, &mut cursor) {
        let mut inner = declared.walk();
        let list =
            declared.named_children(&mut inner).filter(|_| declared.kind() == "expression_list");
        for name in std::iter::once(declared).chain(list) {
            if matches!(name.kind(), "identifier" | "type_identifier") {
                uses.declares(found.raw(name));
            }
        }
    }
}

fn named(node: Node<'_>, found: &mut Found<'_>, kind: crate::SymbolKind) {
    let name = found.field(node, "name").unwrap_or_default();
    if !found.in_function() {
        found.symbol(node, &name, kind, is_public(&name));
    }
}

/// `Stack` of `(s *Stack[T])`.
fn receiver(text: &str) -> String {
    let text = text.trim_matches(['(', ')', ' ']);
    let text = text.split('[').next().unwrap_or(text);
    text.rsplit([' ', '*']).next().unwrap_or(text).to_owned()
}

fn is_public(name: &str) -> bool {
    name.chars().next().is_some_and(char::is_uppercase)
}

fn is_test(name: &str, found: &Found<'_>) -> bool {
    found.file.ends_with("_test.go")
        && ["Test", "Benchmark", "Fuzz", "Example"].iter().any(|word| name.starts_with(word))
}
