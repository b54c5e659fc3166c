//! What counts as a definition or an import, one file for each language.

mod c;
mod go;
mod java;
mod javascript;
mod python;
mod rust;
mod uses;

use tree_sitter::Node;

use super::Language;
use super::scope::Found;

/// How the children of a node are visited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Inside {
    Nothing,
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
    Go(uses::Uses),
    Java(uses::Uses),
    JavaScript(javascript::Exports),
    Python(python::All),
    Rust(rust::Seen),
}

impl Rules {
    pub(super) fn new(language: Language) -> Self {
        match language {
            Language::C | Language::Cpp => Self::C,
            Language::Go => Self::Go(uses::Uses::default()),
            Language::Java => Self::Java(uses::Uses::default()),
            Language::JavaScript | Language::TypeScript | Language::Tsx => {
                Self::JavaScript(javascript::Exports::default())
            }
            Language::Python => Self::Python(python::All::default()),
            Language::Rust => Self::Rust(rust::Seen::default()),
        }
    }

    pub(super) fn visit(&mut self, node: Node<'_>, found: &mut Found<'_>) -> Inside {
        match self {
            Self::C => c::visit(node, found),
            Self::Go(uses) => go::visit(node, found, uses),
            Self::Java(uses) => java::visit(node, found, uses),
            Self::JavaScript(exports) => exports.visit(node, found),
            Self::Python(all) => all.visit(node, found),
            Self::Rust(seen) => seen.visit(node, found),
        }
    }

    /// Adds what only the whole file shows.
    pub(super) fn end(&mut self, found: &mut Found<'_>) {
        match self {
            Self::JavaScript(exports) => exports.end(found),
            Self::Python(all) => all.end(found),
            Self::Go(uses) | Self::Java(uses) => uses.tell(found),
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
