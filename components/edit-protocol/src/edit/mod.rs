//! Computes the bytes after an edit, or refuses the edit.
//!
//! Indices refer to the text before the edit. They are 0-based, and the end of a range is exclusive.

use crate::lines::max_index;
use crate::{Document, Line, Refusal};

/// Replaces the lines `start..end` by `new`. An empty range inserts before `start`, an empty `new` deletes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub start: usize,
    pub end: usize,
    pub new: String,
}

/// Checks that a text of `count` lines has this line, and that `new` is one line.
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

/// Checks the new content of a whole file: it must be text and not empty.
pub(crate) fn check_content(content: &str) -> Result<(), Refusal> {
    if content.is_empty() {
        return Err(Refusal::ContentEmpty);
    }
    check_text("content", content)
}

/// Checks that a text has no NUL, which would make a file binary, so that no line edit would accept it any more.
///
/// # Errors
///
/// `bad_arguments`, with `name` as the argument's name.
pub fn check_text(name: &str, text: &str) -> Result<(), Refusal> {
    match text.contains('\0') {
        true => {
            Err(Refusal::BadArguments { message: format!("{name}: a NUL character is no text") })
        }
        false => Ok(()),
    }
}

/// Replaces several ranges, all of them or none.
///
/// # Errors
///
/// The index of the edit that is refused, with `index_out_of_bounds` or `bad_arguments`.
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
    // The sort is stable, so that insertions at the same index keep their order.
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
    // Only the last line may have no ending. A line that was the last before may now have lines behind it.
    // A file without a final line ending keeps having none when text is added at its end.
    let open = document.lines.last().is_some_and(|line| line.ending.is_empty());
    let touches_end = edits.iter().any(|edit| edit.end == count && !edit.new.is_empty());
    if let Some((last, others)) = lines.split_last_mut() {
        let style = document.ending_near(count);
        for line in others.iter_mut().filter(|line| line.ending.is_empty()) {
            line.ending = style;
        }
        if open && touches_end {
            last.ending = b"";
        }
    }
    Ok(assemble(document.mark, lines.into_iter()))
}

/// Replaces the whole text. The byte order mark stays, and a file whose endings are all `\r\n` keeps them when the new
/// content has only `\n`.
///
/// # Errors
///
/// `content_empty`, or `bad_arguments` for a NUL.
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

/// Splits `new` into lines, each with the ending of the line that it replaces, else of the nearest line.
fn replacement<'a>(document: &Document<'a>, edit: &'a Edit, lines: &mut Vec<Line<'a>>) {
    let replaced = &document.lines[edit.start..edit.end];
    let style = document.ending_near(edit.end);
    for (at, raw) in edit.new.split_inclusive('\n').enumerate() {
        let text = raw.strip_suffix('\n').unwrap_or(raw);
        let text = text.strip_suffix('\r').unwrap_or(text);
        let own = replaced.get(at).map(|line| line.ending).filter(|ending| !ending.is_empty());
        lines.push(Line { text: text.as_bytes(), ending: own.unwrap_or(style) });
    }
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
