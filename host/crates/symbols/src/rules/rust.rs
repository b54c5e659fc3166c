//! Rust, with the paths that `use a::{b, c::{d, e as f}, self, *}` imports.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::Inside;
use crate::SymbolKind::{Constant, Function, Macro, Method, Module, Test, Type};
use crate::scope::OutlineBuilder;

#[derive(Default)]
pub(crate) struct State {
    /// The attributes of the next item.
    attributes: Vec<String>,
    /// The paths that were imported already.
    paths: BTreeSet<String>,
}

impl State {
    pub(super) fn visit(&mut self, node: Node<'_>, builder: &mut OutlineBuilder<'_>) -> Inside {
        let kind = node.kind();
        match kind {
            "attribute_item" => {
                self.attributes.push(builder.text(node));
                return Inside::Nothing;
            }
            "line_comment" | "block_comment" => return Inside::Nothing,
            "scoped_identifier" | "scoped_type_identifier" => {
                self.path(node, builder);
                return Inside::Nothing;
            }
            "visibility_modifier" | "token_tree" | "string_literal" => return Inside::Nothing,
            _ => {}
        }
        let attributes = std::mem::take(&mut self.attributes);
        match kind {
            "use_declaration" => {
                let argument = builder.field(node, "argument").unwrap_or_default();
                for target in targets(&argument) {
                    let target = of_file(target, builder.modules_around());
                    self.paths.insert(target.clone());
                    builder.import(node, &target, vec![]);
                }
                Inside::Nothing
            }
            "extern_crate_declaration" => {
                let name = builder.field(node, "name").unwrap_or_default();
                builder.import(node, &name, vec![]);
                Inside::Nothing
            }
            "mod_item" => module(node, &attributes, builder),
            "impl_item" => {
                let of = builder.field(node, "type").unwrap_or_default();
                // The methods of a trait are as public as the trait.
                let exported = node.child_by_field_name("trait").is_some();
                Inside::Type { name: bare(&of).to_owned(), exported }
            }
            "trait_item" => {
                let exported = is_public(node);
                let name = named(node, builder, Type, exported);
                Inside::Type { name, exported }
            }
            "struct_item" | "enum_item" | "union_item" | "type_item" => {
                named(node, builder, Type, is_public(node));
                Inside::Look
            }
            "const_item" | "static_item" => {
                named(node, builder, Constant, is_public(node));
                Inside::Look
            }
            "macro_definition" => {
                let exported = attributes.iter().any(|text| path_of(text) == "macro_export");
                named(node, builder, Macro, exported);
                Inside::Nothing
            }
            "function_item" | "function_signature_item" => {
                let promised = builder.is_in_type() && builder.is_around_exported();
                let kind = match () {
                    () if attributes.iter().any(|text| is_test(text)) => Test,
                    () if builder.is_in_type() => Method,
                    () => Function,
                };
                named(node, builder, kind, kind != Test && (promised || is_public(node)));
                Inside::Function
            }
            "closure_expression" => Inside::Function,
            _ => Inside::Look,
        }
    }

    /// Adds the import of a path that is used without `use`.
    fn path(&mut self, node: Node<'_>, builder: &mut OutlineBuilder<'_>) {
        let text = builder.text(node);
        let ours = matches!(text.split("::").next(), Some("crate" | "super"));
        let plain = text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':');
        let text = of_file(text, builder.modules_around());
        if ours && plain && !text.starts_with("self::") && self.paths.insert(text.clone()) {
            builder.import(node, &text, vec![]);
        }
    }
}

/// Rewrites a path so that it starts in the file's own module: `super` of a module inside the file is the file.
fn of_file(path: String, modules: usize) -> String {
    let (mut rest, mut left, mut inside) = (path.as_str(), modules, false);
    while let Some(further) = rest.strip_prefix("super::").filter(|_| left > 0) {
        (rest, left, inside) = (further, left - 1, true);
    }
    if inside && !rest.starts_with("super::") { format!("self::{rest}") } else { rest.to_owned() }
}

fn named(
    node: Node<'_>,
    builder: &mut OutlineBuilder<'_>,
    kind: crate::SymbolKind,
    exported: bool,
) -> String {
    let name = builder.field(node, "name").unwrap_or_default();
    if !builder.in_function() {
        builder.symbol(node, &name, kind, exported);
    }
    name
}

fn module(node: Node<'_>, attributes: &[String], builder: &mut OutlineBuilder<'_>) -> Inside {
    let name = builder.field(node, "name").unwrap_or_default();
    if node.child_by_field_name("body").is_some() {
        let exported = is_public(node);
        if !builder.in_function() {
            builder.symbol(node, &name, Module, exported);
        }
        return Inside::Module { name, exported };
    }
    let placed = attributes.iter().find(|text| path_of(text) == "path");
    let placed = placed.and_then(|text| text.split('"').nth(1));
    let target = placed.map_or_else(|| format!("self::{name}"), str::to_owned);
    builder.import(node, &target, vec![]);
    Inside::Nothing
}

fn is_public(node: Node<'_>) -> bool {
    let mut cursor = node.walk();
    // The modifier precedes the name, so it is among the first children.
    let modifier =
        node.children(&mut cursor).take(3).find(|child| child.kind() == "visibility_modifier");
    modifier.is_some_and(|modifier| modifier.byte_range().len() < 3 + 6 || !is_self(modifier))
}

/// Returns whether a modifier is `pub(self)`, which exports nothing.
fn is_self(modifier: Node<'_>) -> bool {
    let mut cursor = modifier.walk();
    modifier.children(&mut cursor).any(|child| child.kind() == "self")
}

/// Returns the path of an attribute: `tokio::test` for `#[tokio::test(flavor = "x")]`.
fn path_of(attribute: &str) -> &str {
    let path = attribute.trim_start_matches(['#', '[', ' ']);
    let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    &path[..end.unwrap_or(path.len())]
}

fn is_test(attribute: &str) -> bool {
    let last = path_of(attribute).rsplit("::").next().unwrap_or_default();
    matches!(last, "test" | "rstest" | "test_case" | "bench")
}

/// Returns the name of a type without its path and parameters.
fn bare(text: &str) -> &str {
    let text = text.split('<').next().unwrap_or(text).trim_start_matches(['&', '*']);
    text.rsplit("::").next().unwrap_or(text).trim()
}

/// Maximum number of paths of one declaration, and of nested braces.
const PATHS: usize = 200;
const DEPTH: usize = 16;

/// Returns every path that a `use` imports, without its alias.
pub(super) fn targets(argument: &str) -> Vec<String> {
    let mut found = vec![];
    expand("", argument, DEPTH, &mut found);
    found
}

fn expand(before: &str, tree: &str, depth: usize, found: &mut Vec<String>) {
    if found.len() >= PATHS {
        return;
    }
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        found.push(path(before, tree));
        return;
    };
    let (head, group) = tree.split_at(open);
    let group = group.strip_prefix('{').unwrap_or(group).trim_end();
    let group = group.strip_suffix('}').unwrap_or(group);
    let prefix = format!("{before}{}", head.split_whitespace().collect::<String>());
    if depth == 0 {
        found.push(prefix.trim_end_matches(':').to_owned());
        return;
    }
    for part in parts(group) {
        expand(&prefix, part, depth - 1, found);
    }
}

fn path(before: &str, leaf: &str) -> String {
    let leaf = leaf.split(" as ").next().unwrap_or(leaf);
    let leaf = leaf.split_whitespace().collect::<String>();
    let path = format!("{before}{leaf}");
    match path.strip_suffix("::self") {
        Some(module) => module.to_owned(),
        None => path,
    }
}

/// Splits a group at its outermost commas.
fn parts(group: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let parts = group.split(move |c| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.filter(|part| !part.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_the_paths_that_they_mean() {
        let cases = [
            ("std::fs", vec!["std::fs"]),
            ("a :: {b, c::{d, e as f}, self, *}", vec!["a::b", "a::c::d", "a::c::e", "a", "a::*"]),
            ("{x, y::z,}", vec!["x", "y::z"]),
            ("self::a as b", vec!["self::a"]),
            ("a::{", vec![]),
            ("a::{b", vec!["a::b"]),
        ];
        for (tree, expected) in cases {
            assert_eq!(targets(tree), expected, "{tree}");
        }
    }

    #[test]
    fn braces_without_end_are_bounded() {
        assert_eq!(targets(&"a::{".repeat(5_000)).len(), 1);
        assert_eq!(targets(&format!("a::{{{}}}", "b,".repeat(5_000))).len(), PATHS);
    }
}
