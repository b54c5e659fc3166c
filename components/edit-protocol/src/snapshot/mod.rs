//! A document snapshot: lines by index, a version, and further fields of its author.
//!
//! Only `version` and `lines` are changed. Every other field keeps its text, so that big numbers, the order of keys and
//! escapes are preserved.

mod fields;

use crate::edit::{check_content, check_line};
use crate::lines::max_index;
use crate::{Refusal, expect};
use fields::{Fields, Lines};

/// Maximum version: the largest integer that readers in other languages represent exactly.
pub const MAX_VERSION: u64 = i64::MAX as u64;

/// The reason why a text is no snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadDocument(pub String);

/// A snapshot `{doc_id, version, meta, lines: {"0": …}}`. Lines are counted from 0 without a gap.
#[derive(Debug, Clone)]
pub struct Snapshot {
    fields: Fields,
    doc_id: String,
    version: u64,
    lines: Vec<String>,
}

/// An author's decision about a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The document is ready to be published.
    Pass,
    /// A person has to review the document first.
    Hold,
}

impl Decision {
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Hold => "hold",
        }
    }
}

impl Snapshot {
    /// Parses the JSON text of a snapshot.
    ///
    /// # Errors
    ///
    /// A [`BadDocument`] that names the field and the rule that it breaks.
    pub fn parse(text: &str) -> Result<Self, BadDocument> {
        let bad = |what: &str| {
            let what = what.to_owned();
            move |error: serde_json::Error| BadDocument(format!("{what}{error}"))
        };
        let fields: Fields = serde_json::from_str(text).map_err(bad(""))?;
        let field = |name: &str| {
            fields.get(name).ok_or_else(|| BadDocument(format!("there is no field {name}")))
        };
        let doc_id = serde_json::from_str(field("doc_id")?).map_err(bad("doc_id: "))?;
        let version = serde_json::from_str(field("version")?).map_err(bad("version: "))?;
        if version > MAX_VERSION {
            return Err(BadDocument(format!("version: {version} is above {MAX_VERSION}")));
        }
        if fields.get("meta").is_some_and(|meta| !meta.starts_with('{')) {
            return Err(BadDocument("meta: not an object".to_owned()));
        }
        let Lines(lines) = serde_json::from_str(field("lines")?).map_err(bad("lines: "))?;
        Ok(Self { doc_id, version, lines, fields })
    }

    /// Returns the snapshot as JSON text. Unchanged fields keep their text.
    pub fn print(&self) -> String {
        let lines = fields::print_lines(&self.lines);
        self.fields.print(&[("version", &self.version.to_string()), ("lines", &lines)])
    }

    pub fn doc_id(&self) -> &str {
        &self.doc_id
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    pub fn max_index(&self) -> i64 {
        max_index(self.lines.len())
    }

    /// Replaces one line by `new`.
    ///
    /// # Errors
    ///
    /// `version_mismatch` if `expected` is another version; `index_out_of_bounds` if there is no such line;
    /// `new_has_newline` or `bad_arguments` if `new` is not one line of text; `version_exhausted`.
    pub fn edit_line(&self, expected: u64, index: usize, new: &str) -> Result<Self, Refusal> {
        expect(expected, self.version)?;
        check_line(index, self.lines.len(), new)?;
        let mut lines = self.lines.clone();
        if let Some(line) = lines.get_mut(index) {
            new.clone_into(line);
        }
        self.next(lines)
    }

    /// Replaces the document by `content`, split at every `\n`. A `\n` at the end starts a last, empty line.
    ///
    /// # Errors
    ///
    /// `version_mismatch` if `expected` is another version; `content_empty`, or `bad_arguments` for a NUL; `version_exhausted`.
    pub fn full_rewrite(&self, expected: u64, content: &str) -> Result<Self, Refusal> {
        expect(expected, self.version)?;
        check_content(content)?;
        self.next(content.split('\n').map(str::to_owned).collect())
    }

    /// Checks a decision about this version and returns it. The document is unchanged.
    ///
    /// # Errors
    ///
    /// `version_mismatch` if `expected` is another version; `invalid_decision` if `decision` is neither `pass` nor `hold`.
    pub fn finish(&self, expected: u64, decision: &str) -> Result<Decision, Refusal> {
        expect(expected, self.version)?;
        [Decision::Pass, Decision::Hold]
            .into_iter()
            .find(|known| known.word() == decision)
            .ok_or(Refusal::InvalidDecision)
    }

    /// Raises the version by one. The version never wraps around.
    fn next(&self, lines: Vec<String>) -> Result<Self, Refusal> {
        if self.version >= MAX_VERSION {
            return Err(Refusal::VersionExhausted);
        }
        let (fields, doc_id) = (self.fields.clone(), self.doc_id.clone());
        Ok(Self { fields, doc_id, version: self.version + 1, lines })
    }
}

#[cfg(test)]
mod tests;
