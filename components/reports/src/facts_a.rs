//! Scout A's facts, schema version 1: what it computes without a model.
//!
//! The comments on fields are the descriptions in `specs/schemas/scout-a-facts.json`.

use crate::report_a::{Excerpt, Level};
use crate::version::{SchemaError, checked, nullable};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FactsA {
    pub schema_version: String,
    /// `a`.
    pub scout: String,
    #[serde(deserialize_with = "nullable")]
    pub question: Option<String>,
    /// Something was left out: of the files, or of a list (`left_out` says how much).
    pub truncated: bool,
    pub inventory: Inventory,
    /// By path and line.
    pub symbols: Vec<Symbol>,
    /// Files that import files; what lies outside the repository is not here.
    pub imports: Vec<Import>,
    pub entry_points: Vec<String>,
    pub tests: Vec<Test>,
    /// Best first, cut to about 2,000 tokens.
    pub map: Vec<Mapped>,
    /// Lines of the files of the map that the question is about, those of the file with the best match first, at most
    /// 12 kB. Missing when nothing matches, and in facts of components that were built before there were excerpts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excerpts: Vec<Excerpt>,
    pub conventions: Vec<Convention>,
    /// Most risky first.
    pub risk: Vec<Risk>,
    /// Name of a list to the number of its entries that are missing; `files_too_large` for a parser,
    /// `files_incomplete`: of these a parser did not see everything, and `not_looked_at`: source files for which the time
    /// did not suffice.
    pub left_out: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Inventory {
    /// Files in view whose names are UTF-8.
    pub files: u64,
    pub bytes: u64,
    /// Names in view that are not UTF-8, so that no path in these facts names them; a directory counts once. Missing when
    /// there are none, and in facts of components that were built before they were counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_utf8: u64,
    /// Most lines first.
    pub languages: Vec<Language>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Language {
    pub name: String,
    pub files: u64,
    pub lines: u64,
    pub bytes: u64,
}

/// Lines from 1, both ends included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Symbol {
    pub path: String,
    pub name: String,
    /// `function`, `method`, `type`, `constant`, `macro`, `module` or `test`.
    pub kind: String,
    /// The type or module around it.
    #[serde(deserialize_with = "nullable")]
    pub container: Option<String>,
    pub start_line: u32,
    pub end_line: u32,
    /// Whether other files can name it.
    pub exported: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Import {
    pub from: String,
    pub to: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Test {
    pub path: String,
    pub exercises: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mapped {
    pub path: String,
    /// 1 for the best.
    pub score: f64,
    /// Names that the file defines, those first that the question is about.
    pub symbols: Vec<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What most of the source does: `count` of `total` cases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Convention {
    pub topic: String,
    #[serde(deserialize_with = "nullable")]
    pub language: Option<String>,
    pub value: String,
    pub count: u64,
    pub total: u64,
    pub examples: Vec<Example>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Example {
    pub path: String,
    pub line: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Risk {
    pub path: String,
    /// Files that import it.
    pub fan_in: u64,
    pub lines: u32,
    /// Whether a test exercises it.
    pub tested: bool,
    pub public_symbols: u64,
    pub level: Level,
}

impl FactsA {
    /// Reads facts that a component returned.
    ///
    /// # Errors
    ///
    /// As [`checked`].
    pub fn parse(json: &str) -> Result<Self, SchemaError> {
        checked(json)
    }

    /// Returns every file that the facts name.
    pub fn paths(&self) -> BTreeSet<&str> {
        let symbols = self.symbols.iter().map(|symbol| &symbol.path);
        let imports = self.imports.iter().flat_map(|import| [&import.from, &import.to]);
        let tests =
            self.tests.iter().flat_map(|test| std::iter::once(&test.path).chain(&test.exercises));
        let map = self.map.iter().map(|mapped| &mapped.path);
        let map = map.chain(self.excerpts.iter().map(|excerpt| &excerpt.file));
        let examples = self.conventions.iter().flat_map(|convention| &convention.examples);
        let risk = self.risk.iter().map(|risk| &risk.path);
        let all = symbols.chain(imports).chain(&self.entry_points).chain(tests).chain(map);
        all.chain(examples.map(|example| &example.path)).chain(risk).map(String::as_str).collect()
    }

    /// Returns the last line that the facts name in each file.
    pub fn last_lines(&self) -> BTreeMap<&str, u32> {
        let symbols = self.symbols.iter().map(|symbol| (&symbol.path, symbol.end_line));
        let examples = self.conventions.iter().flat_map(|convention| &convention.examples);
        let risk = self.risk.iter().map(|risk| (&risk.path, risk.lines));
        let excerpts = self.excerpts.iter().map(|excerpt| (&excerpt.file, excerpt.end_line));
        let all = symbols.chain(examples.map(|example| (&example.path, example.line))).chain(risk);
        let all = all.chain(excerpts);
        let mut last = BTreeMap::new();
        for (path, line) in all {
            let known = last.entry(path.as_str()).or_insert(0);
            *known = line.max(*known);
        }
        last
    }

    /// Summarises the facts in one line, for people.
    pub fn summary(&self) -> String {
        let languages =
            self.inventory.languages.iter().take(3).map(|language| format!(", {}", language.name));
        let languages = languages.collect::<String>();
        let cut = if self.truncated { "; not everything is listed" } else { "" };
        let unseen = |name: &str, said: &str| match self.left_out.get(name) {
            Some(count) if *count > 0 => format!("; {count} {said}"),
            _ => String::new(),
        };
        let large = unseen("files_too_large", "too large to be parsed");
        let incomplete = unseen("files_incomplete", "not parsed as a whole");
        format!(
            "{} files{languages}; {} symbols, {} imports, {} files with tests{cut}{large}{incomplete}",
            self.inventory.files,
            self.symbols.len() as u64 + self.left_out.get("symbols").unwrap_or(&0),
            self.imports.len() as u64 + self.left_out.get("imports").unwrap_or(&0),
            self.tests.len() as u64 + self.left_out.get("tests").unwrap_or(&0),
        )
    }
}
