//! Go.

use tree_sitter::Node;

use super::{Inside, unquoted};
use crate::symbols::SymbolKind::{Constant, Function, Method, Test, Type};
use crate::symbols::scope::Found;

pub(super) fn visit(node: Node<'_>, found: &mut Found<'_>) -> Inside {
    match node.kind() {
        "import_spec" => {
            let path = found.field(node, "path").unwrap_or_default();
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
            Inside::Nothing
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

fn named(node: Node<'_>, found: &mut Found<'_>, kind: crate::symbols::SymbolKind) {
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
