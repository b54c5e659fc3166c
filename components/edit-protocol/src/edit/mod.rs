//! The edits: which bytes come out, and what is refused before anything happens.
//!
//! Indices are those of the text as it was read, 0-based, ends exclusive.

use crate::lines::max_index;
use crate::{Document, Line, Refusal};
use serde::Deserialize;

/// Lines `start..end` become `new`; equal ends insert before `start`, an empty `new` deletes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    #[serde(deserialize_with = "crate::index")]
    pub start: usize,
    #[serde(deserialize_with = "crate::index")]
    pub end: usize,
    pub new: String,
}

/// Replaces the text of one line; its ending stays.
pub fn edit_line(document: &Document<'_>, index: usize, new: &str) -> Result<Vec<u8>, Refusal> {
    check_line(index, document.lines.len(), new)?;
    let lines = document.lines.iter().enumerate().map(|(at, line)| match at == index {
        true => Line { text: new.as_bytes(), ending: line.ending },
        false => *line,
    });
    Ok(assemble(document.mark, lines))
}

/// Whether one of `count` lines may become `new`.
pub(crate) fn check_line(index: usize, count: usize, new: &str) -> Result<(), Refusal> {
    if index >= count {
        return Err(Refusal::IndexOutOfBounds { max_index: max_index(count) });
    }
    // A carriage return at the end would merge with the ending and be read back as part of it.
    if new.contains('\n') || new.ends_with('\r') {
        return Err(Refusal::NewHasNewline);
    }
    check_text("new", new)
}

/// What is to replace everything: something, and text.
pub(crate) fn check_content(content: &str) -> Result<(), Refusal> {
    if content.is_empty() {
        return Err(Refusal::ContentEmpty);
    }
    check_text("content", content)
}

/// A NUL would turn a text into something that no line edit takes any more.
pub fn check_text(name: &str, text: &str) -> Result<(), Refusal> {
    match text.contains('\0') {
        true => {
            Err(Refusal::BadArguments { message: format!("{name}: a NUL character is no text") })
        }
        false => Ok(()),
    }
}

/// Replaces a range of lines.
pub fn edit_lines(document: &Document<'_>, edit: &Edit) -> Result<Vec<u8>, Refusal> {
    edit_many(document, std::slice::from_ref(edit)).map_err(|(_, refusal)| refusal)
}

/// Replaces several ranges: all of them or none. A refusal says which edit it is about.
pub fn edit_many(document: &Document<'_>, edits: &[Edit]) -> Result<Vec<u8>, (usize, Refusal)> {
    let bad = |message: String| Refusal::BadArguments { message };
    if edits.is_empty() {
        return Err((0, bad("edits: at least one is needed".to_owned())));
    }
    let count = document.lines.len();
    for (at, edit) in edits.iter().enumerate() {
        if edit.start.max(edit.end) > count {
            return Err((at, Refusal::IndexOutOfBounds { max_index: document.max_index() }));
        }
        if edit.start > edit.end {
            let message = format!("start {} is behind end {}", edit.start, edit.end);
            return Err((at, bad(message)));
        }
        check_text("new", &edit.new).map_err(|refusal| (at, refusal))?;
    }
    // Stable, so that insertions at one place keep the order in which they were given.
    let mut order = (0..edits.len()).collect::<Vec<_>>();
    order.sort_by_key(|at| (edits[*at].start, edits[*at].end));
    for pair in order.windows(2) {
        let (earlier, later) = (&edits[pair[0]], &edits[pair[1]]);
        if later.start < earlier.end {
            let message = format!(
                "lines {}..{} overlap with lines {}..{}",
                later.start, later.end, earlier.start, earlier.end
            );
            return Err((pair[1], bad(message)));
        }
    }

    let mut lines = Vec::with_capacity(count);
    let mut copied = 0;
    for at in order {
        let edit = &edits[at];
        lines.extend_from_slice(&document.lines[copied..edit.start]);
        replacement(document, edit, &mut lines);
        copied = edit.end;
    }
    lines.extend_from_slice(&document.lines[copied..]);
    // Only the last line of the text may lack an ending; what was last before may now stand before others.
    // And where text was put behind a last line that had none, the file goes on having none.
    let open = document.lines.last().is_some_and(|line| line.ending.is_empty());
    let touches_end = edits.iter().any(|edit| edit.end == count && !edit.new.is_empty());
    if let Some((last, others)) = lines.split_last_mut() {
        let style = neighbour(document, count);
        for line in others.iter_mut().filter(|line| line.ending.is_empty()) {
            line.ending = style;
        }
        if open && touches_end {
            last.ending = b"";
        }
    }
    Ok(assemble(document.mark, lines.into_iter()))
}

/// Replaces everything. The byte order mark stays, and a file whose endings are all `\r\n` keeps them when
/// the new content has only `\n`.
pub fn full_rewrite(document: &Document<'_>, content: &str) -> Result<Vec<u8>, Refusal> {
    check_content(content)?;
    let mark = if content.starts_with('\u{FEFF}') { b"" } else { document.mark };
    let body = if document.is_crlf() && !content.contains('\r') {
        content.replace('\n', "\r\n")
    } else {
        content.to_owned()
    };
    Ok([mark, body.as_bytes()].concat())
}

/// The lines of `new`, each with the ending of the line whose place it takes, else of its neighbour.
fn replacement<'a>(document: &Document<'a>, edit: &'a Edit, lines: &mut Vec<Line<'a>>) {
    let replaced = &document.lines[edit.start..edit.end];
    let style = neighbour(document, edit.end);
    for (at, raw) in edit.new.split_inclusive('\n').enumerate() {
        let text = raw.strip_suffix('\n').unwrap_or(raw);
        let text = text.strip_suffix('\r').unwrap_or(text);
        let own = replaced.get(at).map(|line| line.ending).filter(|ending| !ending.is_empty());
        lines.push(Line { text: text.as_bytes(), ending: own.unwrap_or(style) });
    }
}

/// The ending of the nearest line that has one, looking back from `end` first; `\n` in a text without any.
fn neighbour<'a>(document: &Document<'a>, end: usize) -> &'a [u8] {
    let (before, after) = document.lines.split_at(end);
    let mut nearest = before.iter().rev().chain(after).map(|line| line.ending);
    nearest.find(|ending| !ending.is_empty()).unwrap_or(b"\n")
}

fn assemble<'a>(mark: &[u8], lines: impl Iterator<Item = Line<'a>>) -> Vec<u8> {
    let mut bytes = mark.to_vec();
    for line in lines {
        bytes.extend_from_slice(line.text);
        bytes.extend_from_slice(line.ending);
    }
    bytes
}

#[cfg(test)]
mod tests;
