//! Which parser a file is for, by its name, and for a header by what stands in it.

use serde::{Deserialize, Serialize};

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
    /// TypeScript with markup in it: another grammar, the same language for everybody else.
    Tsx,
}

/// Of a header that is looked at for words that only C++ has.
const PROBE: usize = 64 << 10;

impl Language {
    /// What `outlines` can parse, as guests are told.
    pub const WORDS: [&str; 8] =
        ["c", "cpp", "go", "java", "javascript", "python", "rust", "typescript"];

    /// None for a name that no parser here is for.
    pub fn of(path: &str, source: &[u8]) -> Option<Self> {
        match path.rsplit('/').next()?.rsplit_once('.')?.1 {
            "c" => Some(Self::C),
            "h" => Some(header(source)),
            "cc" | "cpp" | "cxx" | "hh" | "hpp" | "hxx" => Some(Self::Cpp),
            "go" => Some(Self::Go),
            "java" => Some(Self::Java),
            "js" | "mjs" | "cjs" | "jsx" => Some(Self::JavaScript),
            "py" | "pyi" => Some(Self::Python),
            "rs" => Some(Self::Rust),
            "ts" | "mts" | "cts" => Some(Self::TypeScript),
            "tsx" => Some(Self::Tsx),
            _ => None,
        }
    }

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
