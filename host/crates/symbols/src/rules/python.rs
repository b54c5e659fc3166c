//! Python. A module that has `__all__` exports nothing else.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::{Inside, unquoted};
use crate::SymbolKind::{Constant, Function, Method, Test, Type};
use crate::scope::OutlineBuilder;

/// Names that `__all__` lists, if the file has it.
#[derive(Default)]
pub(crate) struct DunderAll(Option<BTreeSet<String>>);

impl DunderAll {
    pub(super) fn visit(&mut self, node: Node<'_>, builder: &mut OutlineBuilder<'_>) -> Inside {
        match node.kind() {
            "import_statement" => {
                let mut cursor = node.walk();
                let names: Vec<_> = node.children_by_field_name("name", &mut cursor).collect();
                for name in names {
                    let target = without_alias(name, builder);
                    builder.import(name, &target, vec![]);
                }
                Inside::Nothing
            }
            "import_from_statement" => {
                let target = builder.field(node, "module_name").unwrap_or_default();
                let mut cursor = node.walk();
                let taken: Vec<_> = node.children_by_field_name("name", &mut cursor).collect();
                let mut names: Vec<_> =
                    taken.into_iter().map(|name| without_alias(name, builder)).collect();
                let mut cursor = node.walk();
                if node.children(&mut cursor).any(|child| child.kind() == "wildcard_import") {
                    names.push("*".to_owned());
                }
                builder.import(node, &target, names);
                Inside::Nothing
            }
            "class_definition" => {
                let name = builder.field(node, "name").unwrap_or_default();
                let exported = is_public(&name) && builder.is_around_exported();
                if !builder.in_function() {
                    builder.symbol(node, &name, Type, exported);
                }
                Inside::Type { name, exported }
            }
            "function_definition" => {
                let name = builder.field(node, "name").unwrap_or_default();
                if !builder.in_function() {
                    let kind = match () {
                        () if is_test(&name, builder) => Test,
                        () if builder.is_in_type() => Method,
                        () => Function,
                    };
                    let exported = kind != Test && is_public(&name) && builder.is_around_exported();
                    builder.symbol(node, &name, kind, exported);
                }
                Inside::Function
            }
            "lambda" => Inside::Function,
            "assignment" => {
                self.assignment(node, builder);
                Inside::Look
            }
            "comment" | "string" => Inside::Nothing,
            _ => Inside::Look,
        }
    }

    fn assignment(&mut self, node: Node<'_>, builder: &mut OutlineBuilder<'_>) {
        let left = node.child_by_field_name("left").filter(|left| left.kind() == "identifier");
        let Some(left) = left.filter(|_| !builder.in_function() && !builder.is_in_type()) else {
            return;
        };
        let name = builder.text(left);
        if name == "__all__" {
            if let Some(right) = node.child_by_field_name("right") {
                let mut cursor = right.walk();
                let listed =
                    right.named_children(&mut cursor).filter(|child| child.kind() == "string");
                let listed = listed.map(|name| unquoted(&builder.text(name)).to_owned()).collect();
                self.0 = Some(listed);
            }
        } else if is_constant(&name) {
            builder.symbol(node, &name, Constant, is_public(&name));
        }
    }

    pub(super) fn end(&mut self, builder: &mut OutlineBuilder<'_>) {
        if let Some(all) = self.0.take().filter(|all| !all.is_empty()) {
            builder.export_only(|name| all.contains(name));
        }
    }
}

fn without_alias(name: Node<'_>, builder: &OutlineBuilder<'_>) -> String {
    match name.kind() {
        "aliased_import" => builder.field(name, "name").unwrap_or_default(),
        _ => builder.text(name),
    }
}

/// Returns whether pytest or unittest collects a function of this name from this file.
fn is_test(name: &str, builder: &OutlineBuilder<'_>) -> bool {
    let stem = builder.file.split('.').next().unwrap_or_default();
    let collected = stem.starts_with("test_") || stem.ends_with("_test") || stem == "tests";
    collected && name.starts_with("test")
}

fn is_public(name: &str) -> bool {
    !name.starts_with('_') || (name.starts_with("__") && name.ends_with("__"))
}

fn is_constant(name: &str) -> bool {
    name.chars().any(char::is_uppercase) && !name.chars().any(char::is_lowercase)
}
