//! Java. Everything that is not private can be named by other files, at least of its package, which need no import.

use tree_sitter::Node;

use super::{Inside, Uses};
use crate::SymbolKind::{Constant, Method, Test, Type};
use crate::scope::OutlineBuilder;

pub(super) fn visit(node: Node<'_>, builder: &mut OutlineBuilder<'_>, uses: &mut Uses) -> Inside {
    match node.kind() {
        "program" => {
            // Without a package declaration the package is the directory.
            let mut cursor = node.walk();
            let clause = node.named_children(&mut cursor);
            let clause = clause.into_iter().find(|child| child.kind() == "package_declaration");
            uses.package(
                clause.unwrap_or(node),
                &clause.map_or_else(|| ".".to_owned(), |clause| package(clause, builder)),
            );
            Inside::Look
        }
        "package_declaration" => Inside::Nothing,
        "type_identifier" => {
            uses.uses(node, builder);
            Inside::Nothing
        }
        "scoped_type_identifier" => {
            // The path begins with a type of this package, or is a full path that needs no import.
            first_of(node, builder, uses);
            Inside::Nothing
        }
        "method_invocation" | "field_access" => {
            if let Some(object) = node.child_by_field_name("object") {
                a_type(object, builder, uses);
            }
            Inside::Look
        }
        "method_reference" => {
            if let Some(object) = node.named_child(0) {
                a_type(object, builder, uses);
            }
            Inside::Look
        }
        "type_parameter" => {
            let mut cursor = node.walk();
            let children = node.named_children(&mut cursor);
            let name = children.into_iter().find(|child| child.kind() == "type_identifier");
            uses.declares(name.map_or("", |name| builder.raw(name)));
            Inside::Look
        }
        "import_declaration" => {
            let text = builder.text(node);
            let target = text.trim().trim_start_matches("import").trim_end_matches(';').trim();
            let target = target.strip_prefix("static ").unwrap_or(target);
            let target = target.split_whitespace().collect::<String>();
            uses.declares(target.rsplit('.').next().unwrap_or_default());
            builder.import(node, &target, vec![]);
            Inside::Nothing
        }
        "class_declaration"
        | "interface_declaration"
        | "enum_declaration"
        | "record_declaration"
        | "annotation_type_declaration" => {
            let name = builder.field(node, "name").unwrap_or_default();
            let exported = !is_private(node, builder) && builder.is_around_exported();
            uses.declares(&name);
            if !builder.in_function() {
                builder.symbol(node, &name, Type, exported);
            }
            Inside::Type { name, exported }
        }
        "method_declaration" | "constructor_declaration" | "compact_constructor_declaration" => {
            let name = builder.field(node, "name").unwrap_or_default();
            let kind = if is_test(node, builder) { Test } else { Method };
            let exported =
                kind == Method && !is_private(node, builder) && builder.is_around_exported();
            if !builder.in_function() {
                builder.symbol(node, &name, kind, exported);
            }
            Inside::Function
        }
        "field_declaration" | "constant_declaration" => {
            let text = modifiers(node, builder).unwrap_or_default();
            let constant = node.kind() == "constant_declaration"
                || (text.contains("static") && text.contains("final"));
            let name = node.child_by_field_name("declarator");
            let name = name.and_then(|declarator| builder.field(declarator, "name"));
            if let (true, false, Some(name)) = (constant, builder.in_function(), name) {
                let exported = !is_private(node, builder) && builder.is_around_exported();
                builder.symbol(node, &name, Constant, exported);
            }
            Inside::Look
        }
        "lambda_expression" => Inside::Function,
        "line_comment" | "block_comment" | "string_literal" | "modifiers" => Inside::Nothing,
        _ => Inside::Look,
    }
}

fn package(clause: Node<'_>, builder: &OutlineBuilder<'_>) -> String {
    let mut cursor = clause.walk();
    let names = clause.named_children(&mut cursor);
    let name = names.into_iter().find(|child| child.kind().ends_with("identifier"));
    name.map_or_else(String::new, |name| builder.text(name).split_whitespace().collect())
}

/// Records a use if the object is a type. By custom only a type begins with a capital letter and is followed by a dot.
fn a_type(object: Node<'_>, builder: &OutlineBuilder<'_>, uses: &mut Uses) {
    if object.kind() == "identifier" && builder.raw(object).starts_with(char::is_uppercase) {
        uses.uses(object, builder);
    }
}

fn first_of(scoped: Node<'_>, builder: &OutlineBuilder<'_>, uses: &mut Uses) {
    let mut first = scoped;
    while let Some(inner) = first.named_child(0).filter(|_| first.kind() != "type_identifier") {
        first = inner;
    }
    if first.kind() == "type_identifier" && builder.raw(first).starts_with(char::is_uppercase) {
        uses.uses(first, builder);
    }
}

/// Returns the text of the modifiers, which are the first child of a declaration.
fn modifiers(node: Node<'_>, builder: &OutlineBuilder<'_>) -> Option<String> {
    let first = node.child(0).filter(|child| child.kind() == "modifiers")?;
    Some(builder.text(first))
}

fn is_private(node: Node<'_>, builder: &OutlineBuilder<'_>) -> bool {
    let text = modifiers(node, builder).unwrap_or_default();
    text.split_whitespace().any(|word| word == "private")
}

/// Returns whether a method has an annotation of JUnit, or one of the same name.
fn is_test(node: Node<'_>, builder: &OutlineBuilder<'_>) -> bool {
    let text = modifiers(node, builder).unwrap_or_default();
    let annotations = text.split('@').skip(1);
    let mut names = annotations
        .map(|text| text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default());
    names.any(|name| matches!(name, "Test" | "ParameterizedTest" | "RepeatedTest" | "TestFactory"))
}
