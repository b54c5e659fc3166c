//! Lines that match, in path order, over everything in view that is text.
//!
//! The pattern comes from a component. A pattern is held against one line after the other, so it costs the
//! same whatever it could cross; only where a match may span lines it is held against a whole, smaller file,
//! and every match begins behind the one before. Compiled size, bytes and hits are bounded, and between two
//! attempts to match somebody looks whether the answer is still wanted.

use std::fs::File;
use std::os::fd::OwnedFd;

use edit_protocol::{BYTE_ORDER_MARK, Line};
use regex::bytes::{Regex, RegexBuilder};
use rustix::fs::Stat;

use super::reading::{is_binary, read_at};
use super::selection::{Selection, SelectionError, Step, Sweep};
use super::stop::StopCheck;
use super::view::{Kind, RepoView, ViewError};

/// Hits in one answer at most.
pub const MAX_HITS: usize = 1_000;
/// A line is shown up to here, and behind that a mark that it was cut.
pub const MAX_HIT_BYTES: usize = 400;
/// Bytes of a file that is searched at most; a larger one is passed over and the answer says so.
const MAX_FILE: u64 = 8 << 20;
/// The same where a match may span lines: one attempt to match cannot be interrupted.
const MAX_SPANNED: u64 = 1 << 20;
/// Bytes of a line that are searched.
const MAX_LINE: usize = 64 << 10;
/// Bytes that one call reads before it answers with a cursor.
const MAX_SEARCHED: u64 = 128 << 20;
const MAX_PATTERN: usize = 4096;
/// Bytes of the compiled pattern and of its lazily built tables.
const MAX_COMPILED: usize = 1 << 20;
const MAX_TABLES: usize = 8 << 20;

#[derive(Debug, Clone, Default)]
pub struct Pattern {
    pub regex: String,
    pub ignore_case: bool,
    /// A match may span lines; its first line is the hit.
    pub multi_line: bool,
    /// Bytes of any one file that may be known; all of it where none.
    pub file_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    pub path: String,
    /// From 1.
    pub line: u32,
    /// The byte of the line at which the match starts, from 1.
    pub column: u32,
    pub text: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hits {
    pub items: Vec<Hit>,
    pub next: Option<String>,
    /// A file was too large, or a directory too deep, to be searched.
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    #[error(transparent)]
    Selection(#[from] SelectionError),
    #[error("the pattern is no regular expression: {0}")]
    Pattern(String),
}

impl From<ViewError> for SearchError {
    fn from(error: ViewError) -> Self {
        Self::Selection(error.into())
    }
}

/// Links are passed over: what they mean is found under its own name.
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
    // A cursor stands at a line of a file: that file comes again, from the line after.
    let mut sweep = Sweep::new(view, &selection, cursor.as_ref().map(|c| c.path.as_str()))?;
    if let Some(cursor) = cursor.filter(|cursor| cursor.line > 0) {
        match view.resolve("", &cursor.path, super::view::Last::Link) {
            Ok(seen) if seen.kind == Kind::File && seen.path == cursor.path => {
                view.note(&cursor.path);
                let text = matcher.read(seen.fd, &seen.stat, &mut searched, &mut hits.truncated);
                matcher.find(&cursor.path, &text, cursor.line, &mut hits)?;
            }
            // Gone meanwhile: its hits went with it.
            _ => {}
        }
    }
    while hits.next.is_none() {
        if searched >= MAX_SEARCHED {
            hits.next = sweep.at.take().map(|path| Cursor { path, line: 0 }.to_string());
            break;
        }
        match sweep.step()? {
            Step::End => break,
            Step::Pause => {
                hits.next = sweep.at.take().map(|path| Cursor { path, line: 0 }.to_string())
            }
            Step::Item(item) => {
                let path = item.path.clone();
                let Ok((fd, stat)) = sweep.open(item) else { continue };
                view.note(&path);
                let text = matcher.read(fd, &stat, &mut searched, &mut hits.truncated);
                matcher.find(&path, &text, 0, &mut hits)?;
            }
        }
    }
    hits.truncated |= sweep.cut;
    Ok(hits)
}

/// After which line of which file to go on; line 0 means after the file.
struct Cursor {
    path: String,
    line: u32,
}

impl Cursor {
    fn parse(text: &str) -> Result<Self, SelectionError> {
        let parsed = text.split_once(':').and_then(|(line, path)| Some((line.parse().ok()?, path)));
        let (line, path) = parsed.ok_or(SelectionError::Invalid("no cursor of ours"))?;
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
    /// A line can only match where the text that it stands in does.
    whole_first: bool,
    stop: &'v StopCheck,
    /// Bytes of a file that may be known.
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
        // What is said about the ends of a text holds for each line; groups with flags may say it as well.
        let plain = want.regex.replace("(?:", "(");
        let whole_first =
            !want.multi_line && !["\\A", "\\z", "(?"].iter().any(|ends| plain.contains(ends));
        Ok(Self { regex, multi_line: want.multi_line, whole_first, stop, most })
    }

    /// The file's text; nothing when it is binary or too large.
    fn read(&self, fd: OwnedFd, stat: &Stat, searched: &mut u64, truncated: &mut bool) -> Vec<u8> {
        let most = if self.multi_line { MAX_SPANNED } else { MAX_FILE };
        // One byte more than is searched tells that there is more.
        let said = u64::try_from(stat.st_size).unwrap_or(0).min(most + 1);
        let Ok(mut text) = read_at(&File::from(fd), 0, said) else { return vec![] };
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
        // It belongs to no line.
        if text.starts_with(BYTE_ORDER_MARK) {
            text.drain(..BYTE_ORDER_MARK.len());
        }
        text
    }

    /// Adds the hits after line `after`, one for each line at most.
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

/// Whether a line matches no more and no less for standing among others: none ends in `\r\n` or is cut.
fn lines_are_alike(text: &[u8]) -> bool {
    text.len() <= MAX_LINE && !text.contains(&b'\r')
}

/// Lines of a text by offset, counted as they are passed.
struct Lines<'t> {
    text: &'t [u8],
    number: u32,
    /// Just after the last line that was counted.
    end: usize,
}

impl<'t> Lines<'t> {
    /// The line that holds the byte `at`: its number, where it starts, its bytes with the newline.
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

/// A line as whoever reads the file sees it.
fn shown(raw: &[u8]) -> String {
    let Line { text, ending } = Line::of(raw);
    // A character that this splits lies behind the cut.
    let head = &text[..text.len().min(MAX_HIT_BYTES + 4)];
    let shown = Line { text: head, ending }.shown();
    match shown.floor_char_boundary(MAX_HIT_BYTES) {
        cut if cut < shown.len() => format!("{}…", &shown[..cut]),
        _ => shown.into_owned(),
    }
}

#[cfg(test)]
mod tests;
