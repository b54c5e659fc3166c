//! JavaScript and TypeScript, with ECMAScript modules and CommonJS.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::{Inside, unquoted};
use crate::SymbolKind::{Constant, Function, Method, Module, Test, Type};
use crate::scope::OutlineBuilder;

/// Maximum number of names of one import.
const NAMES: usize = 200;

/// Names that are exported apart from their definitions.
#[derive(Default)]
pub(crate) struct Exports(BTreeSet<String>);

impl Exports {
    pub(super) fn visit(&mut self, node: Node<'_>, builder: &mut OutlineBuilder<'_>) -> Inside {
        match node.kind() {
            // The clause is part of `import x = require("y")`.
            "import_statement" | "import_require_clause" => {
                source(node, builder);
                Inside::Look
            }
            "export_statement" => {
                source(node, builder);
                if let Some(value) =
                    node.child_by_field_name("value").filter(|value| value.kind() == "identifier")
                {
                    self.0.insert(builder.text(value));
                }
                Inside::Export
            }
            "export_specifier" => {
                self.0.extend(builder.field(node, "name"));
                Inside::Nothing
            }
            "function_declaration" | "generator_function_declaration" | "function_signature" => {
                top(node, builder, Function);
                Inside::Function
            }
            "class_declaration" | "abstract_class_declaration" => {
                let exported = builder.is_export();
                Inside::Type { name: top(node, builder, Type), exported }
            }
            "interface_declaration" | "type_alias_declaration" | "enum_declaration" => {
                top(node, builder, Type);
                Inside::Nothing
            }
            "internal_module" | "module" => {
                let exported = builder.is_export();
                let name = builder.field(node, "name").unwrap_or_default();
                let name = unquoted(&name).to_owned();
                if !builder.in_function() {
                    builder.symbol(node, &name, Module, exported);
                }
                Inside::Module { name, exported }
            }
            "method_definition" | "abstract_method_signature" => {
                method(node, builder);
                Inside::Function
            }
            "public_field_definition" | "field_definition" => {
                let value = node.child_by_field_name("value");
                if value.is_some_and(is_function) && builder.is_in_type() {
                    method(node, builder);
                }
                Inside::Look
            }
            "variable_declarator" => {
                variable(node, builder);
                Inside::Look
            }
            "assignment_expression" => {
                self.common_js(node, builder);
                Inside::Look
            }
            "call_expression" => {
                call(node, builder);
                Inside::Look
            }
            "arrow_function" | "function_expression" | "generator_function" => Inside::Function,
            "comment" | "string" | "regex" => Inside::Nothing,
            _ => Inside::Look,
        }
    }

    /// `module.exports = …` and `exports.name = …`.
    fn common_js(&mut self, node: Node<'_>, builder: &mut OutlineBuilder<'_>) {
        let (Some(left), Some(right)) =
            (node.child_by_field_name("left"), node.child_by_field_name("right"))
        else {
            return;
        };
        if left.kind() != "member_expression" || left.byte_range().len() > 300 {
            return;
        }
        let target = builder.text(left);
        let name =
            target.strip_prefix("module.exports.").or_else(|| target.strip_prefix("exports."));
        match (name, right.kind()) {
            (Some(name), _) if is_function(right) && !name.contains('.') => {
                builder.symbol(node, name, Function, true);
            }
            (Some(_), "identifier") => {
                self.0.insert(builder.text(right));
            }
            (None, "identifier") if target == "module.exports" => {
                self.0.insert(builder.text(right));
            }
            (None, "object") if target == "module.exports" => {
                let mut cursor = right.walk();
                for part in right.named_children(&mut cursor) {
                    match part.kind() {
                        "shorthand_property_identifier" => {
                            self.0.insert(builder.text(part));
                        }
                        "pair" => self
                            .0
                            .extend(builder.field(part, "value").filter(|text| text.len() < 100)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn end(&mut self, builder: &mut OutlineBuilder<'_>) {
        let given = std::mem::take(&mut self.0);
        builder.export(|name| given.contains(name));
    }
}

fn source(node: Node<'_>, builder: &mut OutlineBuilder<'_>) {
    if let Some(target) = builder.field(node, "source") {
        let names = names(node, builder);
        builder.import(node, unquoted(&target), names);
    }
}

/// Returns the names in the braces of an import, as the other file calls them.
fn names(node: Node<'_>, builder: &OutlineBuilder<'_>) -> Vec<String> {
    let mut names = vec![];
    let mut cursor = node.walk();
    let mut clause = node.named_children(&mut cursor).take(4);
    let clause = clause.find(|child| matches!(child.kind(), "import_clause" | "export_clause"));
    let Some(clause) = clause else { return names };
    let mut cursor = clause.walk();
    let inner =
        clause.named_children(&mut cursor).take(4).find(|child| child.kind() == "named_imports");
    let list = inner.unwrap_or(clause);
    let mut cursor = list.walk();
    for specifier in list.named_children(&mut cursor).take(NAMES) {
        if matches!(specifier.kind(), "import_specifier" | "export_specifier") {
            names.extend(builder.field(specifier, "name"));
        }
    }
    names
}

/// Adds a definition, unless it is local to a function, and returns its name.
fn top(node: Node<'_>, builder: &mut OutlineBuilder<'_>, kind: crate::SymbolKind) -> String {
    let name = builder.field(node, "name").unwrap_or_else(|| "default".to_owned());
    if !builder.in_function() {
        builder.symbol(node, &name, kind, builder.is_export());
    }
    name
}

fn method(node: Node<'_>, builder: &mut OutlineBuilder<'_>) {
    let name =
        builder.field(node, "name").or_else(|| builder.field(node, "property")).unwrap_or_default();
    if builder.in_function() || !builder.is_in_type() {
        return;
    }
    let mut cursor = node.walk();
    let hidden = name.starts_with('#')
        || node.children(&mut cursor).take(4).any(|child| {
            child.kind() == "accessibility_modifier" && builder.text(child) == "private"
        });
    builder.symbol(node, &name, Method, !hidden && builder.is_around_exported());
}

fn variable(node: Node<'_>, builder: &mut OutlineBuilder<'_>) {
    let named = node.child_by_field_name("name").filter(|name| name.kind() == "identifier");
    let (Some(name), false) = (named, builder.in_function()) else { return };
    let name = builder.text(name);
    let kind = match node.child_by_field_name("value") {
        Some(value) if is_function(value) => Function,
        Some(value) if value.kind() == "class" => Type,
        Some(value) if is_require(value, builder) => return,
        _ => Constant,
    };
    builder.symbol(node, &name, kind, builder.is_export());
}

fn is_require(value: Node<'_>, builder: &OutlineBuilder<'_>) -> bool {
    let function = value.child_by_field_name("function").filter(|f| f.kind() == "identifier");
    function.is_some_and(|function| builder.text(function) == "require")
}

/// Adds the import of `require("x")` and `import("x")`, and the tests of the usual runners.
fn call(node: Node<'_>, builder: &mut OutlineBuilder<'_>) {
    let Some(function) = node.child_by_field_name("function") else { return };
    let Some(arguments) = node.child_by_field_name("arguments") else { return };
    let Some(first) = arguments.named_child(0) else { return };
    if !matches!(first.kind(), "string" | "template_string") || function.byte_range().len() > 60 {
        return;
    }
    let callee = builder.text(function);
    if callee == "require" || callee == "import" {
        let target = builder.text(first);
        builder.import(node, unquoted(&target), vec![]);
        return;
    }
    let word = callee.split(['.', '(']).next().unwrap_or_default();
    let tests = ["describe", "it", "test", "suite", "context", "specify", "Deno"];
    if tests.contains(&word) && (1..4).filter_map(|at| arguments.named_child(at)).any(is_function) {
        let name = builder.text(first);
        builder.symbol(node, unquoted(&name), Test, false);
    }
}

fn is_function(node: Node<'_>) -> bool {
    matches!(
        node.kind(),
        "arrow_function" | "function_expression" | "function" | "generator_function"
    )
}
