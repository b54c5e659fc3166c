//! The tools that change something: read under a version, compute the bytes, ask the host.

use crate::answer::{Refused, Trouble};
use crate::path;
use crate::reading::{MAX_FILE, whole};
use crate::repository::{Change, Denial, Repository, Version};
use act_kit::tool::Outcome;
use edit_protocol::{
    Document, Edit, check_text, edit_line, edit_lines, edit_many, expect, full_rewrite,
};
use serde_json::{Value, json};
use std::ops::Range;

/// What becomes of a file's bytes.
pub(crate) enum Rewrite {
    Line { index: usize, new: String },
    Lines(Edit),
    Many(Vec<Edit>),
    Full(String),
}

impl Rewrite {
    fn op(&self) -> &'static str {
        match self {
            Self::Line { .. } => "edit_line",
            Self::Lines(_) => "edit_lines",
            Self::Many(_) => "edit_many",
            Self::Full(_) => "full_rewrite",
        }
    }

    /// The lines that it is about, for a refusal that concerns the whole.
    fn place(&self) -> Range<usize> {
        match self {
            Self::Line { index, .. } => *index..index.saturating_add(1),
            Self::Lines(edit) => edit.start..edit.end.max(edit.start),
            Self::Many(edits) => {
                edits.first().map_or(0..0, |edit| edit.start..edit.end.max(edit.start))
            }
            Self::Full(_) => 0..0,
        }
    }

    /// The new bytes, or the refusal as it is shown to the model.
    fn bytes(&self, document: &Document<'_>) -> Result<Vec<u8>, Refused> {
        let here =
            |refusal: edit_protocol::Refusal| Refused::from(refusal).around(document, self.place());
        match self {
            Self::Line { index, new } => edit_line(document, *index, new).map_err(here),
            Self::Lines(edit) => edit_lines(document, edit).map_err(here),
            Self::Full(content) => full_rewrite(document, content).map_err(here),
            Self::Many(edits) => edit_many(document, edits).map_err(|(at, refusal)| {
                let place = edits.get(at).map_or(0..0, |edit| edit.start..edit.end.max(edit.start));
                Refused::from(refusal).with("edit", at).around(document, place)
            }),
        }
    }
}

/// Edits a file that exists.
pub(crate) fn rewrite(
    repository: &dyn Repository,
    path: &str,
    expected: u64,
    rewrite: Rewrite,
) -> Result<Outcome, Trouble> {
    let path = path::clean_file(path)?;
    let file = whole(repository, &path).map_err(|trouble| unseen(repository, &path, trouble))?;
    let document = Document::parse(&file.bytes)?;
    expect(expected, file.version.number)
        .map_err(|refusal| Refused::from(refusal).around(&document, rewrite.place()))?;
    let bytes = rewrite.bytes(&document)?;
    within(bytes.len()).map_err(|refused| refused.around(&document, rewrite.place()))?;
    let line_count = Document::parse(&bytes).map_or(0, |after| after.lines.len());
    let change = Change::Replace(path.clone(), file.version.clone(), bytes);
    match repository.apply(change) {
        Ok(now) => {
            Ok(changed(rewrite.op(), &path, Some(&file.version), now.as_ref(), Some(line_count)))
        }
        Err(Denial::Conflict(Some(_))) => Err(fresh(repository, &path, rewrite.place())?),
        Err(denial) => Err(denial.into()),
    }
}

/// What an edit leaves can be edited again.
fn within(size: usize) -> Result<(), Refused> {
    match size as u64 > MAX_FILE {
        true => Err(Refused::new("too_large").with("size", size).with("max_size", MAX_FILE)),
        false => Ok(()),
    }
}

/// The file changed between the look and the edit: the refusal shows what is there now.
fn fresh(repository: &dyn Repository, path: &str, place: Range<usize>) -> Result<Trouble, Trouble> {
    let file = whole(repository, path)?;
    let document = Document::parse(&file.bytes)?;
    let refused = Refused::new("version_mismatch").with("current_version", file.version.number);
    Ok(refused.around(&document, place).into())
}

pub(crate) fn create(
    repository: &dyn Repository,
    path: &str,
    content: String,
) -> Result<Outcome, Trouble> {
    let path = path::clean_file(path)?;
    check_text("content", &content)?;
    within(content.len())?;
    let now = repository.apply(Change::Create(path.clone(), content.into_bytes()))?;
    Ok(changed("create", &path, None, now.as_ref(), None))
}

pub(crate) fn delete(
    repository: &dyn Repository,
    path: &str,
    expected: u64,
) -> Result<Outcome, Trouble> {
    let path = path::clean_file(path)?;
    let version = expected_version(repository, &path, expected)?;
    repository
        .apply(Change::Delete(path.clone(), version.clone()))
        .map_err(|denial| stale(repository, &path, denial))?;
    Ok(changed("delete", &path, Some(&version), None, None))
}

pub(crate) fn rename(
    repository: &dyn Repository,
    from: &str,
    to: &str,
    expected: u64,
) -> Result<Outcome, Trouble> {
    let (from, to) = (path::clean_file(from)?, path::clean_file(to)?);
    let version = expected_version(repository, &from, expected)?;
    let now = repository
        .apply(Change::Move(from.clone(), version.clone(), to.clone()))
        .map_err(|denial| stale(repository, &from, denial))?;
    Ok(changed("move", &to, Some(&version), now.as_ref(), None))
}

/// The version of a file of any content and size, if it is the expected one.
fn expected_version(
    repository: &dyn Repository,
    path: &str,
    expected: u64,
) -> Result<Version, Trouble> {
    let chunk = repository.read(path, 0, 0);
    let version = chunk.map_err(|denial| unseen(repository, path, denial.into()))?.version;
    expect(expected, version.number)
        .map_err(|refusal| with_lines(repository, path, refusal.into()))?;
    Ok(version)
}

/// A file that changed between the look and the deed.
fn stale(repository: &dyn Repository, path: &str, denial: Denial) -> Trouble {
    match denial {
        Denial::Conflict(Some(now)) => {
            let refused = Refused::new("version_mismatch").with("current_version", now.number);
            with_lines(repository, path, refused).into()
        }
        denial => denial.into(),
    }
}

/// How the file begins now, if it is text of a size that is shown.
fn with_lines(repository: &dyn Repository, path: &str, refused: Refused) -> Refused {
    let Ok(file) = whole(repository, path) else { return refused };
    match Document::parse(&file.bytes) {
        Ok(document) => refused.around(&document, 0..0),
        Err(_) => refused,
    }
}

/// What cannot be seen may still be a name that is protected: the host is asked, because it says which rule
/// stands in the way. No file has an empty digest, so what is asked for can never happen.
fn unseen(repository: &dyn Repository, path: &str, trouble: Trouble) -> Trouble {
    match &trouble {
        Trouble::Refused(refused) if refused.reason == "not_found" => {}
        _ => return trouble,
    }
    let nothing = Version { number: 0, digest: String::new() };
    match repository.apply(Change::Replace(path.to_owned(), nothing, vec![])) {
        Err(denial @ (Denial::Protected(..) | Denial::Denied(_))) => denial.into(),
        _ => trouble,
    }
}

fn changed(
    op: &str,
    path: &str,
    before: Option<&Version>,
    after: Option<&Version>,
    line_count: Option<usize>,
) -> Outcome {
    let mut text = json!({"ok": true, "path": path});
    if let Some(after) = after {
        text["new_version"] = Value::from(after.number);
    }
    if let Some(count) = line_count {
        text["line_count"] = Value::from(count);
    }
    let data = json!({
        "op": op,
        "path": path,
        "version": after.map(|version| version.number),
        "sha256_before": before.map(|version| &version.digest),
        "sha256_after": after.map(|version| &version.digest),
    });
    Outcome { text: text.to_string(), data: Some(data.to_string()), is_error: false }
}
