//! The rules by which a syntax tree becomes an outline, one file for each language. A file is a match over the kinds of
//! nodes of its grammar.

mod c;
mod go;
mod java;
mod javascript;
mod python;
mod rust;

use std::collections::{BTreeSet, HashSet};

use tree_sitter::Node;

use super::Language;
use super::scope::OutlineBuilder;

/// How the children of a node are visited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Inside {
    /// Skips the children.
    Nothing,
    /// Visits the children in the same scope.
    Look,
    Type {
        name: String,
        exported: bool,
    },
    Module {
        name: String,
        exported: bool,
    },
    /// Definitions inside a function are local; imports are not.
    Function,
    /// Declarations directly inside are exported.
    Export,
}

/// The rules of a language and what they remember of a file.
pub(super) enum Rules {
    C,
    Go(Uses),
    Java(Uses),
    JavaScript(javascript::Exports),
    Python(python::DunderAll),
    Rust(rust::State),
}

impl Rules {
    pub(super) fn new(language: Language) -> Self {
        match language {
            Language::C | Language::Cpp => Self::C,
            Language::Go => Self::Go(Uses::default()),
            Language::Java => Self::Java(Uses::default()),
            Language::JavaScript | Language::TypeScript | Language::Tsx => {
                Self::JavaScript(javascript::Exports::default())
            }
            Language::Python => Self::Python(python::DunderAll::default()),
            Language::Rust => Self::Rust(rust::State::default()),
        }
    }

    pub(super) fn visit(&mut self, node: Node<'_>, builder: &mut OutlineBuilder<'_>) -> Inside {
        match self {
            Self::C => c::visit(node, builder),
            Self::Go(uses) => go::visit(node, builder, uses),
            Self::Java(uses) => java::visit(node, builder, uses),
            Self::JavaScript(exports) => exports.visit(node, builder),
            Self::Python(all) => all.visit(node, builder),
            Self::Rust(state) => state.visit(node, builder),
        }
    }

    /// Adds what only the whole file shows.
    pub(super) fn end(&mut self, builder: &mut OutlineBuilder<'_>) {
        match self {
            Self::JavaScript(exports) => exports.end(builder),
            Self::Python(all) => all.end(builder),
            Self::Go(uses) | Self::Java(uses) => uses.end(builder),
            Self::C | Self::Rust(_) => {}
        }
    }
}

/// The text of a string without its quotes.
fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let mut chars = text.chars();
    match (chars.next(), chars.next_back()) {
        (Some('"'), Some('"'))
        | (Some('\''), Some('\''))
        | (Some('`'), Some('`'))
        | (Some('<'), Some('>')) => chars.as_str(),
        _ => text,
    }
}

/// Maximum number of names of one file; files written by people have fewer.
const MAX_USES: usize = 1_000;

/// Names that a file uses and neither declares nor imports. In Go and Java they belong to other files of the same
/// package, which need no import. A name that the file declares anywhere is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Uses {
    /// The package as an import would name it, and the line of its declaration.
    package: Option<(usize, String)>,
    used: BTreeSet<String>,
    declared: HashSet<String>,
    /// The first bytes of nodes that look like a use and are none.
    passed_over: HashSet<usize>,
    cut: bool,
}

impl Uses {
    fn package(&mut self, node: Node<'_>, name: &str) {
        self.package.get_or_insert((node.start_position().row, name.to_owned()));
    }

    /// Records the name of a node as used.
    fn uses(&mut self, node: Node<'_>, builder: &OutlineBuilder<'_>) {
        let name = builder.raw(node);
        if self.passed_over.remove(&node.start_byte()) || self.used.contains(name) {
            return;
        }
        if self.used.len() >= MAX_USES {
            self.cut = true;
        } else if !name.is_empty() {
            self.used.insert(name.to_owned());
        }
    }

    fn declares(&mut self, name: &str) {
        if !self.declared.contains(name) {
            self.declared.insert(name.to_owned());
        }
    }

    /// Excludes a node that looks like a use and is none.
    fn pass_over(&mut self, node: Node<'_>) {
        self.passed_over.insert(node.start_byte());
    }

    /// Adds an import of the file's own package with these names.
    fn end(&mut self, builder: &mut OutlineBuilder<'_>) {
        let Some((row, package)) = self.package.take() else { return };
        let used = std::mem::take(&mut self.used).into_iter();
        let names: Vec<_> = used.filter(|name| !self.declared.contains(name)).collect();
        if !names.is_empty() {
            builder.import_at(row, &package, names);
        }
        if self.cut {
            builder.was_cut();
        }
    }
}
