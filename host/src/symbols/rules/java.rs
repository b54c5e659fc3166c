//! Java. What is not private can be named by other files, if only of its package.

use tree_sitter::Node;

use super::Inside;
use crate::symbols::SymbolKind::{Constant, Method, Test, Type};
use crate::symbols::scope::Found;

pub(super) fn visit(node: Node<'_>, found: &mut Found<'_>) -> Inside {
    match node.kind() {
        "import_declaration" => {
            let text = found.text(node);
            let target = text.trim().trim_start_matches("import").trim_end_matches(';').trim();
            let target = target.strip_prefix("static ").unwrap_or(target);
            found.import(node, &target.split_whitespace().collect::<String>(), vec![]);
            Inside::Nothing
        }
        "class_declaration"
        | "interface_declaration"
        | "enum_declaration"
        | "record_declaration"
        | "annotation_type_declaration" => {
            let name = found.field(node, "name").unwrap_or_default();
            let exported = !is_private(node, found) && found.is_around_exported();
            if !found.in_function() {
                found.symbol(node, &name, Type, exported);
            }
            Inside::Type { name, exported }
        }
        "method_declaration" | "constructor_declaration" | "compact_constructor_declaration" => {
            let name = found.field(node, "name").unwrap_or_default();
            let kind = if is_test(node, found) { Test } else { Method };
            let exported = kind == Method && !is_private(node, found) && found.is_around_exported();
            if !found.in_function() {
                found.symbol(node, &name, kind, exported);
            }
            Inside::Function
        }
        "field_declaration" | "constant_declaration" => {
            let text = modifiers(node, found).unwrap_or_default();
            let constant = node.kind() == "constant_declaration"
                || (text.contains("static") && text.contains("final"));
            let name = node.child_by_field_name("declarator");
            let name = name.and_then(|declarator| found.field(declarator, "name"));
            if let (true, false, Some(name)) = (constant, found.in_function(), name) {
                let exported = !is_private(node, found) && found.is_around_exported();
                found.symbol(node, &name, Constant, exported);
            }
            Inside::Look
        }
        "lambda_expression" => Inside::Function,
        "line_comment" | "block_comment" | "string_literal" | "modifiers" => Inside::Nothing,
        _ => Inside::Look,
    }
}

/// They stand first.
fn modifiers(node: Node<'_>, found: &Found<'_>) -> Option<String> {
    let first = node.child(0).filter(|child| child.kind() == "modifiers")?;
    Some(found.text(first))
}

fn is_private(node: Node<'_>, found: &Found<'_>) -> bool {
    let text = modifiers(node, found).unwrap_or_default();
    text.split_whitespace().any(|word| word == "private")
}

/// JUnit's annotations, and those that are named after them.
fn is_test(node: Node<'_>, found: &Found<'_>) -> bool {
    let text = modifiers(node, found).unwrap_or_default();
    let annotations = text.split('@').skip(1);
    let mut names = annotations
        .map(|text| text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default());
    names.any(|name| matches!(name, "Test" | "ParameterizedTest" | "RepeatedTest" | "TestFactory"))
}
