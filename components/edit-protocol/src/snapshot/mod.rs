//! A document snapshot: lines under an index, a version, and whatever else its author keeps with them.
//!
//! Only `version` and `lines` are ever changed. Every other field is kept as the text that it was, so that
//! nothing is lost which this program does not know: big numbers, order, escapes.

mod fields;

use crate::edit::{check_content, check_line};
use crate::lines::max_index;
use crate::{Refusal, expect};
use fields::{Fields, Lines};

/// The highest version that there is; readers in other languages have no larger integers.
pub const MAX_VERSION: u64 = i64::MAX as u64;

/// What a text lacks to be a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadDocument(pub String);

/// `{doc_id, version, meta, lines: {"0": …}}`, lines counted from 0 without a gap.
#[derive(Debug, Clone)]
pub struct Snapshot {
    fields: Fields,
    doc_id: String,
    version: u64,
    lines: Vec<String>,
}

/// What its author thinks of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Ready to be published.
    Pass,
    /// Somebody has to look at it first.
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

    /// JSON text; unchanged fields as they were written.
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

    /// One line becomes `new`.
    pub fn edit_line(&self, expected: u64, index: usize, new: &str) -> Result<Self, Refusal> {
        expect(expected, self.version)?;
        check_line(index, self.lines.len(), new)?;
        let mut lines = self.lines.clone();
        if let Some(line) = lines.get_mut(index) {
            new.clone_into(line);
        }
        self.next(lines)
    }

    /// The document becomes `content`, split at every `\n`; one at the end begins a last, empty line.
    pub fn full_rewrite(&self, expected: u64, content: &str) -> Result<Self, Refusal> {
        expect(expected, self.version)?;
        check_content(content)?;
        self.next(content.split('\n').map(str::to_owned).collect())
    }

    /// The document stays as it is.
    pub fn finish(&self, expected: u64, decision: &str) -> Result<Decision, Refusal> {
        expect(expected, self.version)?;
        [Decision::Pass, Decision::Hold]
            .into_iter()
            .find(|known| known.word() == decision)
            .ok_or(Refusal::InvalidDecision)
    }

    /// Exactly one version further, never round again.
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
