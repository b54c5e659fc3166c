//! The parser for a file, chosen by its name, and for a header by its content.

use act_reports::source::{PARSED, extension, language};
use serde::{Deserialize, Serialize};

/// The languages that have a parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    C,
    Cpp,
    Go,
    Java,
    #[serde(rename = "javascript")]
    JavaScript,
    Python,
    Rust,
    #[serde(rename = "typescript")]
    TypeScript,
    /// TypeScript with markup, which has another grammar and the same name for callers.
    Tsx,
}

/// Number of bytes of a header that are searched for words of C++.
const PROBE: usize = 64 << 10;

impl Language {
    /// Returns the words of the languages that `outlines` can parse.
    pub fn words() -> [&'static str; 8] {
        PARSED.map(|(_, word)| word)
    }

    /// Returns the parser for a file, or `None` when there is none for its name.
    pub fn of(path: &str, source: &[u8]) -> Option<Self> {
        match (language(path)?, extension(path)?) {
            ("C", "h") => Some(header(source)),
            ("C", _) => Some(Self::C),
            ("C++", _) => Some(Self::Cpp),
            ("Go", _) => Some(Self::Go),
            ("Java", _) => Some(Self::Java),
            ("JavaScript", _) => Some(Self::JavaScript),
            ("Python", _) => Some(Self::Python),
            ("Rust", _) => Some(Self::Rust),
            ("TypeScript", "tsx") => Some(Self::Tsx),
            ("TypeScript", _) => Some(Self::TypeScript),
            _ => None,
        }
    }

    /// Returns the name of the language in answers to components.
    pub fn word(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Cpp => "cpp",
            Self::Go => "go",
            Self::Java => "java",
            Self::JavaScript => "javascript",
            Self::Python => "python",
            Self::Rust => "rust",
            Self::TypeScript | Self::Tsx => "typescript",
        }
    }

    pub(super) fn grammar(self) -> tree_sitter::Language {
        match self {
            Self::C => tree_sitter_c::LANGUAGE,
            Self::Cpp => tree_sitter_cpp::LANGUAGE,
            Self::Go => tree_sitter_go::LANGUAGE,
            Self::Java => tree_sitter_java::LANGUAGE,
            Self::JavaScript => tree_sitter_javascript::LANGUAGE,
            Self::Python => tree_sitter_python::LANGUAGE,
            Self::Rust => tree_sitter_rust::LANGUAGE,
            Self::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT,
            Self::Tsx => tree_sitter_typescript::LANGUAGE_TSX,
        }
        .into()
    }
}

/// Returns C++ for a header with a line that only C++ has.
fn header(source: &[u8]) -> Language {
    let head = source.get(..PROBE).unwrap_or(source);
    let begins = |line: &[u8]| {
        let line = line.trim_ascii_start();
        [&b"class "[..], b"namespace ", b"template", b"using ", b"public:", b"private:"]
            .iter()
            .any(|word| line.starts_with(word))
    };
    if head.split(|byte| *byte == b'\n').any(begins) { Language::Cpp } else { Language::C }
}
