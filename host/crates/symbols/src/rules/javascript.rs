//! JavaScript and TypeScript, modules of both kinds.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::{Inside, unquoted};
use crate::SymbolKind::{Constant, Function, Method, Module, Test, Type};
use crate::scope::Found;

/// Names that one import takes at most.
const NAMES: usize = 200;

/// Names that are given away apart from where they are defined.
#[derive(Default)]
pub(crate) struct Exports(BTreeSet<String>);

impl Exports {
    pub(super) fn visit(&mut self, node: Node<'_>, found: &mut Found<'_>) -> Inside {
        match node.kind() {
            // The clause is that of `import x = require("y")`.
            "import_statement" | "import_require_clause" => {
                source(node, found);
                Inside::Look
            }
            "export_statement" => {
                source(node, found);
                if let Some(value) =
                    node.child_by_field_name("value").filter(|value| value.kind() == "identifier")
                {
                    self.0.insert(found.text(value));
                }
                Inside::Export
            }
            "export_specifier" => {
                self.0.extend(found.field(node, "name"));
                Inside::Nothing
            }
            "function_declaration" | "generator_function_declaration" | "function_signature" => {
                top(node, found, Function);
                Inside::Function
            }
            "class_declaration" | "abstract_class_declaration" => {
                let exported = found.is_export();
                Inside::Type { name: top(node, found, Type), exported }
            }
            "interface_declaration" | "type_alias_declaration" | "enum_declaration" => {
                top(node, found, Type);
                Inside::Nothing
            }
            "internal_module" | "module" => {
                let exported = found.is_export();
                let name = found.field(node, "name").unwrap_or_default();
                let name = unquoted(&name).to_owned();
                if !found.in_function() {
                    found.symbol(node, &name, Module, exported);
                }
                Inside::Module { name, exported }
            }
            "method_definition" | "abstract_method_signature" => {
                method(node, found);
                Inside::Function
            }
            "public_field_definition" | "field_definition" => {
                let value = node.child_by_field_name("value");
                if value.is_some_and(is_function) && found.is_in_type() {
                    method(node, found);
                }
                Inside::Look
            }
            "variable_declarator" => {
                variable(node, found);
                Inside::Look
            }
            "assignment_expression" => {
                self.common_js(node, found);
                Inside::Look
            }
            "call_expression" => {
                call(node, found);
                Inside::Look
            }
            "arrow_function" | "function_expression" | "generator_function" => Inside::Function,
            "comment" | "string" | "regex" => Inside::Nothing,
            _ => Inside::Look,
        }
    }

    /// `module.exports = …` and `exports.name = …`.
    fn common_js(&mut self, node: Node<'_>, found: &mut Found<'_>) {
        let (Some(left), Some(right)) =
            (node.child_by_field_name("left"), node.child_by_field_name("right"))
        else {
            return;
        };
        if left.kind() != "member_expression" || left.byte_range().len() > 300 {
            return;
        }
        let target = found.text(left);
        let name =
            target.strip_prefix("module.exports.").or_else(|| target.strip_prefix("exports."));
        match (name, right.kind()) {
            (Some(name), _) if is_function(right) && !name.contains('.') => {
                found.symbol(node, name, Function, true);
            }
            (Some(_), "identifier") => {
                self.0.insert(found.text(right));
            }
            (None, "identifier") if target == "module.exports" => {
                self.0.insert(found.text(right));
            }
            (None, "object") if target == "module.exports" => {
                let mut cursor = right.walk();
                for part in right.named_children(&mut cursor) {
                    match part.kind() {
                        "shorthand_property_identifier" => {
                            self.0.insert(found.text(part));
                        }
                        "pair" => self
                            .0
                            .extend(found.field(part, "value").filter(|text| text.len() < 100)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn end(&mut self, found: &mut Found<'_>) {
        let given = std::mem::take(&mut self.0);
        found.export(|name| given.contains(name));
    }
}

fn source(node: Node<'_>, found: &mut Found<'_>) {
    if let Some(target) = found.field(node, "source") {
        let names = names(node, found);
        found.import(node, unquoted(&target), names);
    }
}

/// What stands in the braces, by the names that the other file has for it.
fn names(node: Node<'_>, found: &Found<'_>) -> Vec<String> {
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
            names.extend(found.field(specifier, "name"));
        }
    }
    names
}

/// A definition by its name; those in a function are its own.
fn top(node: Node<'_>, found: &mut Found<'_>, kind: crate::SymbolKind) -> String {
    let name = found.field(node, "name").unwrap_or_else(|| "default".to_owned());
    if !found.in_function() {
        found.symbol(node, &name, kind, found.is_export());
    }
    name
}

fn method(node: Node<'_>, found: &mut Found<'_>) {
    let name =
        found.field(node, "name").or_else(|| found.field(node, "property")).unwrap_or_default();
    if found.in_function() || !found.is_in_type() {
        return;
    }
    let mut cursor = node.walk();
    let hidden = name.starts_with('#')
        || node.children(&mut cursor).take(4).any(|child| {
            child.kind() == "accessibility_modifier" && found.text(child) == "private"
        });
    found.symbol(node, &name, Method, !hidden && found.is_around_exported());
}

fn variable(node: Node<'_>, found: &mut Found<'_>) {
    let named = node.child_by_field_name("name").filter(|name| name.kind() == "identifier");
    let (Some(name), false) = (named, found.in_function()) else { return };
    let name = found.text(name);
    let kind = match node.child_by_field_name("value") {
        Some(value) if is_function(value) => Function,
        Some(value) if value.kind() == "class" => Type,
        Some(value) if is_require(value, found) => return,
        _ => Constant,
    };
    found.symbol(node, &name, kind, found.is_export());
}

fn is_require(value: Node<'_>, found: &Found<'_>) -> bool {
    let function = value.child_by_field_name("function").filter(|f| f.kind() == "identifier");
    function.is_some_and(|function| found.text(function) == "require")
}

/// `require("x")`, `import("x")` and tests.
fn call(node: Node<'_>, found: &mut Found<'_>) {
    let Some(function) = node.child_by_field_name("function") else { return };
    let Some(arguments) = node.child_by_field_name("arguments") else { return };
    let Some(first) = arguments.named_child(0) else { return };
    if !matches!(first.kind(), "string" | "template_string") || function.byte_range().len() > 60 {
        return;
    }
    let callee = found.text(function);
    if callee == "require" || callee == "import" {
        let target = found.text(first);
        found.import(node, unquoted(&target), vec![]);
        return;
    }
    let word = callee.split(['.', '(']).next().unwrap_or_default();
    let tests = ["describe", "it", "test", "suite", "context", "specify", "Deno"];
    if tests.contains(&word) && (1..4).filter_map(|at| arguments.named_child(at)).any(is_function) {
        let name = found.text(first);
        found.symbol(node, unquoted(&name), Test, false);
    }
}

fn is_function(node: Node<'_>) -> bool {
    matches!(
        node.kind(),
        "arrow_function" | "function_expression" | "function" | "generator_function"
    )
}
