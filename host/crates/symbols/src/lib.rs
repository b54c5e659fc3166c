//! What a parser can say about a source file without understanding it: what it defines and what it imports.
//!
//! Bytes go in, an [`Outline`] comes out; nothing here opens a file. The bytes are written by an attacker, and the
//! parsers are C: size, work, time, names and their number are bounded, the walk over the tree does not recurse, and a
//! file that does not parse as a whole still says what was found in it. [`Index`] keeps outlines by content.

mod brief;
mod index;
mod language;
mod parse;
mod rules;
mod scope;

pub use brief::{Brief, MAX_WANTED, Summary, TooMuchWanted, Wanted};
pub use index::{Index, Key};
pub use language::Language;
pub use parse::{MAX_SOURCE, Parsed, outline};

use serde::{Deserialize, Serialize};

/// What a definition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SymbolKind {
    Function,
    Method,
    Type,
    /// A named value of a file or type, whether or not it may change.
    Constant,
    Macro,
    Module,
    Test,
}

impl SymbolKind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Method => "method",
            Self::Type => "type",
            Self::Constant => "constant",
            Self::Macro => "macro",
            Self::Module => "module",
            Self::Test => "test",
        }
    }
}

/// A definition. Lines count from 1, both ends included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol {
    pub name: String,
    pub kind: SymbolKind,
    /// The type or module around it.
    pub container: Option<String>,
    pub first_line: u32,
    pub last_line: u32,
    /// Whether other files can name it, by the rules of the language.
    pub exported: bool,
}

/// An import as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Import {
    pub line: u32,
    pub target: String,
    /// What is taken from the target, where that is written apart from it.
    pub names: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    pub language: Language,
    /// Lines of the file; the last one counts without its newline too.
    pub lines: u32,
    /// By first line.
    pub symbols: Vec<Symbol>,
    /// By line.
    pub imports: Vec<Import>,
    /// False when the file did not parse as a whole or was cut.
    pub complete: bool,
}

#[cfg(test)]
mod tests;
