//! Outlines of source files by tree-sitter: what a file defines and what it imports.
//!
//! The crate takes bytes and returns an [`Outline`]; it opens no file of the repository. The bytes may be written by an
//! attacker and the parsers are C code, so size, work, time and the number of names are bounded and the walk over the
//! tree does not recurse. A file that does not parse as a whole still has the outline of what was found in it. The component
//! crate serves `symbols` to components with it, and the agent crate finds the tests of a file.
//!
//! - [`outline`] parses one file of a [`Language`].
//! - [`Summary`] and [`NameFilter`] shorten outlines for a caller that looks at many files.
//! - `Index`, with the feature `index`, caches outlines, by the state of a file in the file system and by its content.
//!
//! ```
//! use act_symbols::{Language, outline};
//! let source = b"pub fn price() {}\n";
//! let parsed = outline(Language::Rust, "shop.rs", source, &|| false).unwrap();
//! assert_eq!(parsed.outline.symbols[0].name, "price");
//! ```

mod brief;
#[cfg(feature = "index")]
mod index;
mod language;
mod parse;
mod rules;
mod scope;

pub use brief::{Brief, MAX_WANTED, NameFilter, Summary, TooManyNames};
#[cfg(feature = "index")]
pub use index::{Index, Key, NewEntry, Place, Stamp, Stored};
pub use language::Language;
pub use parse::{MAX_SOURCE, Parsed, outline};

use serde::{Deserialize, Serialize};

/// The kind of a definition.
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
    /// Returns the word in answers to components.
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
    /// The rules of the language let other files use the name.
    pub exported: bool,
}

/// An import as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Import {
    pub line: u32,
    pub target: String,
    /// The imported names, where they are written apart from the target.
    pub names: Vec<String>,
}

/// The definitions and imports of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    pub language: Language,
    /// Number of lines; a last line without a newline counts as well.
    pub lines: u32,
    /// Sorted by first line.
    pub symbols: Vec<Symbol>,
    /// Sorted by line.
    pub imports: Vec<Import>,
    /// False when the file did not parse as a whole or was cut.
    pub complete: bool,
}

#[cfg(test)]
mod tests;
