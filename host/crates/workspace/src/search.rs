//! Searching the text files in view for lines that match a regular expression, in path order.
//!
//! A component chooses the pattern, so its cost is bounded: the compiled size, the bytes that are searched and the
//! number of hits. A pattern is matched against one line at a time. Only where a match may span lines it is matched
//! against a whole file, which must be smaller, and each match begins after the one before. Between two attempts the
//! search checks whether the answer is still wanted.

use edit_protocol::{BYTE_ORDER_MARK, Line};
use regex::bytes::{Regex, RegexBuilder};
use rustix::fs::Stat;

use super::listing::{Selection, SelectionError, SelectionWalk, Step};
use super::reading::{is_binary, read_at};
use super::view::{FollowLinks, Handle, Kind, RepoView, StopCheck, ViewError};

/// Maximum number of hits in one answer.
pub const MAX_HITS: usize = 1_000;
/// Maximum number of bytes of a line in a hit. A longer line is cut and ends in `…`.
pub const MAX_HIT_BYTES: usize = 400;
/// Maximum number of bytes of a file that is searched. A larger file is skipped, and the answer says so.
const MAX_FILE: u64 = 8 << 20;
/// Like `MAX_FILE`, where a match may span lines: one attempt to match cannot be interrupted.
const MAX_SPANNED: u64 = 1 << 20;
/// Number of bytes of a line that are searched.
const MAX_LINE: usize = 64 << 10;
/// Number of bytes that one call reads before it returns a cursor.
const MAX_SEARCHED: u64 = 128 << 20;
/// Maximum number of bytes of a pattern.
const MAX_PATTERN: usize = 4096;
/// Maximum number of bytes of the compiled pattern, and of its lazily built tables.
const MAX_COMPILED: usize = 1 << 20;
const MAX_TABLES: usize = 8 << 20;

/// The regular expression to search for.
#[derive(Debug, Clone, Default)]
pub struct Pattern {
    pub regex: String,
    pub ignore_case: bool,
    /// True if a match may span lines. The hit is its first line.
    pub multi_line: bool,
    /// Number of bytes of each file that the caller may read; `None` for all.
    pub file_bytes: Option<u64>,
}

/// A line that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    pub path: String,
    /// The number of the line, from 1.
    pub line: u32,
    /// The byte of the line at which the match starts, from 1.
    pub column: u32,
    pub text: String,
}

/// One page of hits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hits {
    pub items: Vec<Hit>,
    /// The cursor for the next call, or `None` at the end.
    pub next: Option<String>,
    /// A file was too large, or a directory too deep, to be searched.
    pub truncated: bool,
}

/// Why a search cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    #[error(transparent)]
    Selection(#[from] SelectionError),
    #[error("the pattern is not a regular expression: {0}")]
    Pattern(String),
}

impl From<ViewError> for SearchError {
    fn from(error: ViewError) -> Self {
        Self::Selection(error.into())
    }
}

/// Searches the selected files. Links are skipped, because their targets are found under their own names.
///
/// # Errors
/// `Pattern` for an invalid regular expression; `Selection` as for [`super::list`].
pub fn search(
    view: &RepoView,
    want: &Pattern,
    within: &Selection,
    cursor: Option<&str>,
) -> Result<Hits, SearchError> {
    let matcher = Matcher::new(want, view.stop())?;
    let cursor = cursor.map(Cursor::parse).transpose()?;
    let selection = Selection { kinds: vec![Kind::File], ..within.clone() };
    let mut hits = Hits::default();
    let mut searched = 0;
    // A cursor names a line of a file. The search continues in that file after the line.
    let mut walk = SelectionWalk::new(view, &selection, cursor.as_ref().map(|c| c.path.as_str()))?;
    if let Some(cursor) = cursor.filter(|cursor| cursor.line > 0) {
        match view.resolve("", &cursor.path, FollowLinks::No) {
            Ok(seen) if seen.kind == Kind::File && seen.path == cursor.path => {
                view.record_read(&cursor.path);
                let text =
                    matcher.read(&seen.handle, &seen.stat, &mut searched, &mut hits.truncated);
                matcher.find(&cursor.path, &text, cursor.line, &mut hits)?;
            }
            // The file was removed meanwhile.
            _ => {}
        }
    }
    while hits.next.is_none() {
        if searched >= MAX_SEARCHED {
            hits.next = walk.at.take().map(|path| Cursor { path, line: 0 }.to_string());
            break;
        }
        match walk.step()? {
            Step::End => break,
            Step::Pause => {
                hits.next = walk.at.take().map(|path| Cursor { path, line: 0 }.to_string())
            }
            Step::Item(item) => {
                let path = item.path.clone();
                let Ok((handle, stat)) = walk.open(item) else { continue };
                view.record_read(&path);
                let text = matcher.read(&handle, &stat, &mut searched, &mut hits.truncated);
                matcher.find(&path, &text, 0, &mut hits)?;
            }
        }
    }
    hits.truncated |= walk.cut || walk.not_utf8 > 0;
    Ok(hits)
}

/// The line of a file after which a search continues. Line 0 means after the whole file.
struct Cursor {
    path: String,
    line: u32,
}

impl Cursor {
    fn parse(text: &str) -> Result<Self, SelectionError> {
        let parsed = text.split_once(':').and_then(|(line, path)| Some((line.parse().ok()?, path)));
        let (line, path) =
            parsed.ok_or(SelectionError::Invalid("not a cursor of an earlier answer"))?;
        Ok(Self { path: path.to_owned(), line })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.line, self.path)
    }
}

struct Matcher<'v> {
    regex: Regex,
    multi_line: bool,
    /// A line can only match if the whole text does, so the whole text is tried first.
    whole_first: bool,
    stop: &'v StopCheck,
    /// Number of bytes of a file that the caller may read.
    most: u64,
}

impl<'v> Matcher<'v> {
    fn new(want: &Pattern, stop: &'v StopCheck) -> Result<Self, SearchError> {
        if want.regex.len() > MAX_PATTERN {
            return Err(SearchError::Pattern(format!("more than {MAX_PATTERN} bytes")));
        }
        let regex = RegexBuilder::new(&want.regex)
            .case_insensitive(want.ignore_case)
            .multi_line(true)
            .crlf(true)
            .size_limit(MAX_COMPILED)
            .dfa_size_limit(MAX_TABLES)
            .build()
            .map_err(|error| SearchError::Pattern(error.to_string()))?;
        let most = want.file_bytes.unwrap_or(u64::MAX);
        // Anchors at the ends of the text mean each line here, and a group with flags may contain such an anchor.
        let plain = want.regex.replace("(?:", "(");
        let whole_first =
            !want.multi_line && !["\\A", "\\z", "(?"].iter().any(|ends| plain.contains(ends));
        Ok(Self { regex, multi_line: want.multi_line, whole_first, stop, most })
    }

    /// Returns the text of a file, which is empty when the file is binary or too large.
    fn read(
        &self,
        file: &Handle,
        stat: &Stat,
        searched: &mut u64,
        truncated: &mut bool,
    ) -> Vec<u8> {
        let most = if self.multi_line { MAX_SPANNED } else { MAX_FILE };
        // One byte beyond the bound shows that the file is larger.
        let length = u64::try_from(stat.st_size).unwrap_or(0).min(most + 1);
        let Ok(mut text) = read_at(file, 0, length) else { return vec![] };
        *searched += text.len() as u64;
        if is_binary(&text) {
            return vec![];
        }
        if text.len() as u64 > most {
            *truncated = true;
            return vec![];
        }
        if text.len() as u64 > self.most {
            *truncated = true;
            text.truncate(usize::try_from(self.most).unwrap_or(usize::MAX));
        }
        // The byte order mark belongs to no line.
        if text.starts_with(BYTE_ORDER_MARK) {
            text.drain(..BYTE_ORDER_MARK.len());
        }
        text
    }

    /// Adds the hits after line `after`, at most one for each line.
    fn find(
        &self,
        path: &str,
        text: &[u8],
        after: u32,
        hits: &mut Hits,
    ) -> Result<(), SelectionError> {
        self.stop.go_on()?;
        if self.whole_first && lines_are_alike(text) && !self.regex.is_match(text) {
            return Ok(());
        }
        let mut lines = Lines { text, number: 0, end: 0 };
        let mut from = 0;
        while from < text.len() {
            self.stop.go_on()?;
            let matched = match self.multi_line {
                true => match self.regex.find_at(text, from) {
                    Some(found) => Some(found.range()),
                    None => return Ok(()),
                },
                false => None,
            };
            let at = matched.as_ref().map_or(from, |found| found.start);
            let Some((number, start, raw)) = lines.at(at) else { return Ok(()) };
            let line = raw.strip_suffix(b"\n").unwrap_or(raw);
            let next_line = start + line.len() + 1;
            from = matched.as_ref().map_or(next_line, |found| found.end.max(next_line));
            if number <= after {
                continue;
            }
            let column = match matched {
                Some(found) => Some(found.start - start),
                None => self.column(line, &mut hits.truncated),
            };
            let Some(column) = column else { continue };
            if hits.items.len() >= MAX_HITS {
                let line = (number - 1).max(after);
                hits.next = Some(Cursor { path: path.to_owned(), line }.to_string());
                return Ok(());
            }
            let column = u32::try_from(column + 1).unwrap_or(u32::MAX);
            let text = shown(raw);
            hits.items.push(Hit { path: path.to_owned(), line: number, column, text });
        }
        Ok(())
    }

    fn column(&self, line: &[u8], truncated: &mut bool) -> Option<usize> {
        let searched = &line[..line.len().min(MAX_LINE)];
        let found = self.regex.find(searched).map(|found| found.start());
        *truncated |= found.is_none() && searched.len() < line.len();
        found
    }
}

/// Returns whether each line matches in the whole text exactly if it matches alone. A line that ends in `\r\n` or is cut may
/// not.
fn lines_are_alike(text: &[u8]) -> bool {
    text.len() <= MAX_LINE && !text.contains(&b'\r')
}

/// Finds lines of a text by offset. Offsets are asked for in ascending order.
struct Lines<'t> {
    text: &'t [u8],
    number: u32,
    /// The end of the last line that was counted.
    end: usize,
}

impl<'t> Lines<'t> {
    /// Returns the line that holds the byte `at`: its number, its start, and its bytes with the newline.
    fn at(&mut self, at: usize) -> Option<(u32, usize, &'t [u8])> {
        loop {
            let rest = self.text.get(self.end..).filter(|rest| !rest.is_empty())?;
            let newline = rest.iter().position(|byte| *byte == b'\n');
            let length = newline.map_or(rest.len(), |at| at + 1);
            let start = self.end;
            self.end += length;
            self.number = self.number.saturating_add(1);
            if at < self.end {
                return Some((self.number, start, &rest[..length]));
            }
        }
    }
}

/// Returns a line as the reading tools show it, cut where it is too long.
fn shown(raw: &[u8]) -> String {
    let Line { text, ending } = Line::of(raw);
    // A character that is split here lies after the cut below.
    let head = &text[..text.len().min(MAX_HIT_BYTES + 4)];
    let shown = Line { text: head, ending }.shown();
    match shown.floor_char_boundary(MAX_HIT_BYTES) {
        cut if cut < shown.len() => format!("{}…", &shown[..cut]),
        _ => shown.into_owned(),
    }
}

#[cfg(test)]
mod tests;
