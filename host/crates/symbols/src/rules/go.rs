//! Go. The files of a directory are one package, and use each other's names without an import.

use tree_sitter::Node;

use super::{Inside, Uses, unquoted};
use crate::SymbolKind::{Constant, Function, Method, Test, Type};
use crate::scope::OutlineBuilder;

pub(super) fn visit(node: Node<'_>, builder: &mut OutlineBuilder<'_>, uses: &mut Uses) -> Inside {
    declarations(node, builder, uses);
    match node.kind() {
        "package_clause" => {
            uses.package(node, ".");
            Inside::Nothing
        }
        "identifier" | "type_identifier" => {
            uses.uses(node, builder);
            Inside::Nothing
        }
        // The type belongs to another package.
        "qualified_type" => Inside::Nothing,
        "keyed_element" => {
            // The key is a field more often than a name of the package.
            let key = node.named_child(0).map(|key| key.named_child(0).unwrap_or(key));
            if let Some(key) = key.filter(|key| key.kind() == "identifier") {
                uses.pass_over(key);
            }
            Inside::Look
        }
        "import_spec" => {
            let path = builder.field(node, "path").unwrap_or_default();
            let name = unquoted(&path).rsplit('/').next().unwrap_or_default();
            uses.declares(name);
            uses.declares(&builder.field(node, "name").unwrap_or_default());
            builder.import(node, unquoted(&path), vec![]);
            Inside::Nothing
        }
        "function_declaration" => {
            let name = builder.field(node, "name").unwrap_or_default();
            let kind = if is_test(&name, builder) { Test } else { Function };
            builder.symbol(node, &name, kind, kind == Function && is_public(&name));
            Inside::Function
        }
        "method_declaration" => {
            let name = builder.field(node, "name").unwrap_or_default();
            let receiver = builder.field(node, "receiver").map(|text| receiver(&text));
            builder.symbol_in(node, &name, Method, is_public(&name), receiver);
            Inside::Function
        }
        "type_spec" | "type_alias" => {
            named(node, builder, Type);
            Inside::Look
        }
        "const_spec" | "var_spec" => {
            let mut cursor = node.walk();
            let names: Vec<_> = node.children_by_field_name("name", &mut cursor).collect();
            for name in names.into_iter().filter(|name| name.kind() == "identifier") {
                let name = builder.text(name);
                if !builder.in_function() && name != "_" {
                    builder.symbol(node, &name, Constant, is_public(&name));
                }
            }
            Inside::Look
        }
        "func_literal" => Inside::Function,
        "comment" | "interpreted_string_literal" | "raw_string_literal" => Inside::Nothing,
        _ => Inside::Look,
    }
}

/// Records the names that a node declares.
fn declarations(node: Node<'_>, builder: &OutlineBuilder<'_>, uses: &mut Uses) {
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
                uses.declares(builder.raw(name));
            }
        }
    }
}

fn named(node: Node<'_>, builder: &mut OutlineBuilder<'_>, kind: crate::SymbolKind) {
    let name = builder.field(node, "name").unwrap_or_default();
    if !builder.in_function() {
        builder.symbol(node, &name, kind, is_public(&name));
    }
}

/// Returns the type of a receiver: `Stack` for `(s *Stack[T])`.
fn receiver(text: &str) -> String {
    let text = text.trim_matches(['(', ')', ' ']);
    let text = text.split('[').next().unwrap_or(text);
    text.rsplit([' ', '*']).next().unwrap_or(text).to_owned()
}

fn is_public(name: &str) -> bool {
    name.chars().next().is_some_and(char::is_uppercase)
}

fn is_test(name: &str, builder: &OutlineBuilder<'_>) -> bool {
    builder.file.ends_with("_test.go")
        && ["Test", "Benchmark", "Fuzz", "Example"].iter().any(|word| name.starts_with(word))
}
