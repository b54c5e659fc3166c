//! The tools that change files. Each reads a file under a version, computes the new bytes and asks the host to write.

use crate::answer::{Refused, Trouble};
use crate::path;
use crate::reading::{MAX_FILE, slice, whole};
use act_kit::tool::{Change, EditError, EditableRepository, Outcome};
use act_kit::world::{Refusal, Version};
use edit_protocol::{
    Document, Edit, Reason, check_text, edit_line, edit_lines, edit_many, expect, full_rewrite,
};
use serde_json::{Value, json};
use std::ops::Range;

/// An edit of an existing file.
pub(crate) enum Rewrite {
    Line { index: usize, new: String },
    Lines(Edit),
    Many(Vec<Edit>),
    Full(String),
}

impl Rewrite {
    /// Returns the lines that the edit is about, for the lines that a refusal shows.
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

    /// Computes the new bytes of the file.
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

/// Edits an existing file.
///
/// # Errors
///
/// A refusal with the current lines around the edit.
pub(crate) fn rewrite(
    repository: &impl EditableRepository,
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
    match repository.apply(Change::Replace((path.clone(), file.version, bytes))) {
        Ok(now) => Ok(changed(&path, now.as_ref(), Some(line_count))),
        Err(EditError::Conflict((_, Some(_)))) => Err(fresh(repository, &path, rewrite.place())?),
        Err(error) => Err(error.into()),
    }
}

/// Checks that the result of an edit is small enough to be edited again.
fn within(size: usize) -> Result<(), Refused> {
    match size as u64 > MAX_FILE {
        true => Err(Refused::new(Reason::TooLarge).with("size", size).with("max_size", MAX_FILE)),
        false => Ok(()),
    }
}

/// Refuses an edit of a file that changed between the read and the write, with the lines that it has now.
fn fresh(
    repository: &impl EditableRepository,
    path: &str,
    place: Range<usize>,
) -> Result<Trouble, Trouble> {
    let file = whole(repository, path)?;
    let document = Document::parse(&file.bytes)?;
    Ok(Refused::stale(file.version.number).by_host().around(&document, place).into())
}

pub(crate) fn create(
    repository: &impl EditableRepository,
    path: &str,
    content: String,
) -> Result<Outcome, Trouble> {
    let path = path::clean_file(path)?;
    check_text("content", &content)?;
    within(content.len())?;
    let now = repository.apply(Change::Create((path.clone(), content.into_bytes())))?;
    Ok(changed(&path, now.as_ref(), None))
}

pub(crate) fn delete(
    repository: &impl EditableRepository,
    path: &str,
    expected: u64,
) -> Result<Outcome, Trouble> {
    let path = path::clean_file(path)?;
    let version = expected_version(repository, &path, expected)?;
    repository
        .apply(Change::Delete((path.clone(), version)))
        .map_err(|error| stale(repository, &path, error))?;
    Ok(changed(&path, None, None))
}

pub(crate) fn rename(
    repository: &impl EditableRepository,
    from: &str,
    to: &str,
    expected: u64,
) -> Result<Outcome, Trouble> {
    let (from, to) = (path::clean_file(from)?, path::clean_file(to)?);
    let version = expected_version(repository, &from, expected)?;
    let now = repository
        .apply(Change::Move((from.clone(), version, to.clone())))
        .map_err(|error| stale(repository, &from, error))?;
    Ok(changed(&to, now.as_ref(), None))
}

/// Returns the version of a file of any content and size.
///
/// # Errors
///
/// `version_mismatch` when it is not the expected one, or the host's refusal.
fn expected_version(
    repository: &impl EditableRepository,
    path: &str,
    expected: u64,
) -> Result<Version, Trouble> {
    let read = slice(repository, path, 0, 0);
    let (_, _, version) = read.map_err(|trouble| unseen(repository, path, trouble))?;
    expect(expected, version.number)
        .map_err(|refusal| with_lines(repository, path, refusal.into()))?;
    Ok(version)
}

/// Adds the lines of a file that changed between the read and the write.
fn stale(repository: &impl EditableRepository, path: &str, error: EditError) -> Trouble {
    match error {
        EditError::Conflict((_, Some(now))) => {
            with_lines(repository, path, Refused::stale(now.number).by_host()).into()
        }
        error => error.into(),
    }
}

/// Adds the first lines of the file, if it is text and small enough.
fn with_lines(repository: &impl EditableRepository, path: &str, refused: Refused) -> Refused {
    let Ok(file) = whole(repository, path) else { return refused };
    match Document::parse(&file.bytes) {
        Ok(document) => refused.around(&document, 0..0),
        Err(_) => refused,
    }
}

/// A file that the component cannot see may still have a protected name. The host knows the rule, so it is asked to write;
/// no file has an empty digest, so it never does.
fn unseen(repository: &impl EditableRepository, path: &str, trouble: Trouble) -> Trouble {
    let Trouble::Refused(refused) = trouble else { return trouble };
    if refused.reason != Reason::NotFound {
        return refused.into();
    }
    let nothing = Version { number: 0, digest: String::new() };
    match repository.apply(Change::Replace((path.to_owned(), nothing, vec![]))) {
        Err(error @ (EditError::Protected(_) | EditError::Refused(Refusal::Denied(_)))) => {
            error.into()
        }
        _ => refused.by_host().into(),
    }
}

/// Answers a change that was made.
fn changed(path: &str, after: Option<&Version>, line_count: Option<usize>) -> Outcome {
    let mut text = json!({"ok": true, "path": path});
    if let Some(after) = after {
        text["new_version"] = Value::from(after.number);
    }
    if let Some(count) = line_count {
        text["line_count"] = Value::from(count);
    }
    Outcome::text(text.to_string())
}
