//! The tools that change files. Each reads a file under a version, computes the new bytes and asks the host to write.

use crate::answer::{Refused, Trouble};
use crate::reading::{MAX_FILE, slice, too_large, whole};
use crate::{path, shown};
use act_kit::tool::{Change, EditError, EditableRepository, Outcome};
use act_kit::world::{Refusal, Version};
use edit_protocol::{
    Document, Edit, Occurrences, Reason, check_text, edit_many, expect, full_rewrite, replace,
};
use std::ops::Range;

/// Maximum number of places of a text that a refusal shows.
const PLACES: usize = 5;

/// An edit of an existing file.
pub(crate) enum Rewrite {
    /// Replaces `old`, which occurs once, or everywhere with `all`.
    Text {
        old: String,
        new: String,
        all: bool,
    },
    Lines(Vec<LineEdit>),
    /// Adds lines behind line `after`, from 1; 0 is the top.
    Insert {
        after: usize,
        new: String,
    },
    Full(String),
}

/// Replaces the lines from `start` to `end`, counted from 1, both included.
#[derive(Debug, Clone)]
pub(crate) struct LineEdit {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) new: String,
}

impl LineEdit {
    /// The lines by index. A range that the file does not have may be empty.
    fn range(&self) -> Range<usize> {
        let start = self.start.saturating_sub(1);
        start..self.end.max(start)
    }
}

/// A file that is edited.
struct Target<'a> {
    path: &'a str,
    version: u64,
    document: &'a Document<'a>,
}

impl Target<'_> {
    /// Refuses an edit and shows the lines around some places.
    fn refuse(&self, refused: Refused, places: &[Range<usize>]) -> Refused {
        refused.showing(shown::around(self.path, self.version, self.document, places))
    }

    fn refused(&self, reason: Reason, message: String, place: Range<usize>) -> Refused {
        self.refuse(Refused::new(reason, message), &[place])
    }

    /// Says that a line is not in the file.
    fn no_line(&self, line: usize, place: Range<usize>) -> Refused {
        let count = self.document.lines.len();
        let line = match line {
            usize::MAX => "no such line".to_owned(),
            line => format!("no line {line}"),
        };
        let message =
            format!("{} has {line}; it has {count}, counted from 1", shown::path(self.path));
        self.refused(Reason::IndexOutOfBounds, message, place)
    }
}

impl Rewrite {
    /// Returns the lines that the edit is about, by index, for the lines that a refusal shows.
    fn places(&self, document: &Document<'_>) -> Vec<Range<usize>> {
        let place = match self {
            Self::Text { old, .. } if !old.is_empty() => {
                Occurrences::of(document, old, 1).lines(document).pop()
            }
            Self::Lines(edits) => edits.first().map(LineEdit::range),
            Self::Insert { after, .. } => Some(*after..*after),
            Self::Text { .. } | Self::Full(_) => None,
        };
        vec![place.unwrap_or(0..0)]
    }

    /// Computes the new bytes of the file.
    fn bytes(&self, target: &Target<'_>) -> Result<Vec<u8>, Refused> {
        let document = target.document;
        match self {
            Self::Full(content) => Ok(full_rewrite(document, content)?),
            Self::Text { old, new, all } => {
                unique(target, old, *all)?;
                Ok(replace(document, old, new)?)
            }
            Self::Insert { after, new } => {
                if *after > document.lines.len() {
                    let end = document.lines.len();
                    return Err(target.no_line(*after, end..end));
                }
                lines(target, &[Edit { start: *after, end: *after, new: new.clone() }])
            }
            Self::Lines(edits) => {
                let edits = checked(target, edits)?;
                lines(target, &edits)
            }
        }
    }
}

/// Checks that a text occurs in the file, and only once unless `all` is set.
fn unique(target: &Target<'_>, old: &str, all: bool) -> Result<(), Refused> {
    if old.is_empty() {
        let message = "old is empty; name the text to replace, or call insert";
        return Err(Refused::new(Reason::BadArguments, message));
    }
    let (document, name) = (target.document, shown::path(target.path));
    let found = Occurrences::of(document, old, PLACES);
    if found.count() == 0 {
        let alike = alike(document, old);
        let hint = match alike.is_empty() {
            true => "read the file again",
            false => "the lines below have the same words; copy the text with its white space",
        };
        let message = format!("old does not occur in {name}; {hint}");
        return Err(target.refuse(Refused::new(Reason::NotFound, message), &alike));
    }
    if found.count() > 1 && !all {
        let places = found.lines(document);
        let at: Vec<_> = places.iter().map(|place| (place.start + 1).to_string()).collect();
        let more = if found.has_more { ", …" } else { "" };
        let message = format!(
            "old occurs more than once in {name}, at the lines {}{more}; add lines around it until it occurs \
             once, or set all",
            at.join(", ")
        );
        return Err(target.refuse(Refused::new(Reason::BadArguments, message), &places));
    }
    Ok(())
}

/// Lines whose words are those of the first line of a text with words, by index: the white space differs, or what follows.
fn alike(document: &Document<'_>, text: &str) -> Vec<Range<usize>> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let Some(wanted) = text.lines().map(words).find(|words| !words.is_empty()) else {
        return vec![];
    };
    let same = |(_, line): &(usize, &edit_protocol::Line<'_>)| words(&line.shown()) == wanted;
    let found = document.lines.iter().enumerate().filter(same).take(2);
    found.map(|(index, _)| index..index + text.lines().count()).collect()
}

/// Checks the numbers of lines and converts them into indices.
fn checked(target: &Target<'_>, edits: &[LineEdit]) -> Result<Vec<Edit>, Refused> {
    let count = target.document.lines.len();
    if edits.is_empty() {
        return Err(Refused::new(Reason::BadArguments, "edits: at least one is needed"));
    }
    for (at, edit) in edits.iter().enumerate() {
        let LineEdit { start, end, .. } = edit;
        let named = |refused: Refused| if edits.len() > 1 { refused.of_edit(at) } else { refused };
        if *start == 0 || *start > count || *end > count {
            let line = if (1..=count).contains(start) { *end } else { *start };
            return Err(named(target.no_line(line, edit.range())));
        }
        if start > end {
            let message = format!("start {start} is behind end {end}; to add lines, call insert");
            return Err(named(target.refused(Reason::BadArguments, message, edit.range())));
        }
    }
    let mut order: Vec<usize> = (0..edits.len()).collect();
    order.sort_by_key(|at| edits[*at].start);
    for pair in order.windows(2) {
        let (earlier, later) = (&edits[pair[0]], &edits[pair[1]]);
        if later.start <= earlier.end {
            let message = format!(
                "the lines {}-{} overlap with the lines {}-{} of another edit; make them one edit",
                later.start, later.end, earlier.start, earlier.end
            );
            let refused = target.refused(Reason::BadArguments, message, later.range());
            return Err(refused.of_edit(pair[1]));
        }
    }
    let edit =
        |edit: &LineEdit| Edit { start: edit.start - 1, end: edit.end, new: edit.new.clone() };
    Ok(edits.iter().map(edit).collect())
}

fn lines(target: &Target<'_>, edits: &[Edit]) -> Result<Vec<u8>, Refused> {
    edit_many(target.document, edits).map_err(|(at, refusal)| {
        let place = edits.get(at).map_or(0..0, |edit| edit.start..edit.end);
        let refused = target.refuse(refusal.into(), &[place]);
        if edits.len() > 1 { refused.of_edit(at) } else { refused }
    })
}

/// Edits an existing file, of the expected version if one is given.
///
/// # Errors
///
/// A refusal with the current lines around the edit.
pub(crate) fn rewrite(
    repository: &impl EditableRepository,
    path: &str,
    expected: Option<u64>,
    rewrite: &Rewrite,
) -> Result<Outcome, Trouble> {
    let path = path::clean_file(path)?;
    let file = whole(repository, &path).map_err(|trouble| unseen(repository, &path, trouble))?;
    let document = Document::parse(&file.bytes)?;
    let target = Target { path: &path, version: file.version.number, document: &document };
    if expected.is_some_and(|expected| expect(expected, file.version.number).is_err()) {
        let refused = Refused::stale(&shown::path(&path), file.version.number);
        return Err(target.refuse(refused, &rewrite.places(&document)).into());
    }
    let bytes = rewrite.bytes(&target)?;
    if bytes == file.bytes {
        let (name, version, count) =
            (shown::path(&path), file.version.number, document.lines.len());
        let text = format!(
            "unchanged {name} · version {version} · {count} lines: the file has this text already"
        );
        return Ok(Outcome::text(text));
    }
    within(bytes.len()).map_err(|refused| target.refuse(refused, &rewrite.places(&document)))?;
    let count = Document::parse(&bytes)?.lines.len();
    match repository.apply(Change::Replace((path.clone(), file.version, bytes))) {
        Ok(now) => Ok(Outcome::text(changed("edited", &path, now.as_ref(), Some(count)))),
        Err(EditError::Conflict((_, Some(_)))) => Err(fresh(repository, &path, rewrite)?),
        Err(error) => Err(error.into()),
    }
}

/// Checks that the result of an edit is small enough to be edited again.
fn within(size: usize) -> Result<(), Refused> {
    if size as u64 > MAX_FILE { Err(too_large(size as u64)) } else { Ok(()) }
}

/// Refuses an edit of a file that changed between the read and the write, with the lines that it has now.
fn fresh(
    repository: &impl EditableRepository,
    path: &str,
    rewrite: &Rewrite,
) -> Result<Trouble, Trouble> {
    let file = whole(repository, path)?;
    let document = Document::parse(&file.bytes)?;
    let target = Target { path, version: file.version.number, document: &document };
    let refused = Refused::stale(&shown::path(path), file.version.number).by_host();
    Ok(target.refuse(refused, &rewrite.places(&document)).into())
}

pub(crate) fn create(
    repository: &impl EditableRepository,
    path: &str,
    content: String,
) -> Result<Outcome, Trouble> {
    let path = path::clean_file(path)?;
    check_text("content", &content)?;
    within(content.len())?;
    let count = content.split_inclusive('\n').count();
    let now = repository.apply(Change::Create((path.clone(), content.into_bytes())))?;
    Ok(Outcome::text(changed("created", &path, now.as_ref(), Some(count))))
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
    Ok(Outcome::text(changed("deleted", &path, None, None)))
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
    let moved = format!("moved {} to", shown::path(&from));
    Ok(Outcome::text(changed(&moved, &to, now.as_ref(), None)))
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
    if expect(expected, version.number).is_err() {
        let refused = Refused::stale(&shown::path(path), version.number);
        return Err(with_lines(repository, path, refused).into());
    }
    Ok(version)
}

/// Adds the lines of a file that changed between the read and the write.
fn stale(repository: &impl EditableRepository, path: &str, error: EditError) -> Trouble {
    match error {
        EditError::Conflict((_, Some(now))) => {
            let refused = Refused::stale(&shown::path(path), now.number).by_host();
            with_lines(repository, path, refused).into()
        }
        error => error.into(),
    }
}

/// Adds the first lines of the file, if it is text and small enough.
fn with_lines(repository: &impl EditableRepository, path: &str, refused: Refused) -> Refused {
    let Ok(file) = whole(repository, path) else { return refused };
    match Document::parse(&file.bytes) {
        Ok(document) => {
            let top = std::slice::from_ref(&(0..0));
            let lines = shown::around(path, file.version.number, &document, top);
            refused.showing(lines)
        }
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

/// The first line of the answer of an edit: `edited src/a.py · version 4 · 120 lines`.
fn changed(verb: &str, path: &str, now: Option<&Version>, count: Option<usize>) -> String {
    let mut text = format!("{verb} {}", shown::path(path));
    if let Some(now) = now {
        text.push_str(&format!(" · version {}", now.number));
    }
    if let Some(count) = count {
        text.push_str(&format!(" · {count} lines"));
    }
    text
}
