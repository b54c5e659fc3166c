//! Splits a file into lines, each with its text and its ending.
//!
//! The lines put together are the file, so that everything which is not edited stays byte for byte: mixed endings, a missing
//! last one, a byte order mark, bytes that are no UTF-8.

use crate::Refusal;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// Number of bytes that are searched for a NUL. A file without one there counts as text.
pub const SNIFFED: usize = 8 * 1024;
pub const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// Number of lines on either side of an edit that a refusal shows.
const AROUND: usize = 3;
/// Maximum number of bytes of a line that a refusal shows.
const SHOWN: usize = 400;

/// Returns whether a file is binary, by its first bytes.
pub fn is_binary(head: &[u8]) -> bool {
    // The crate compares more bytes at once than the standard library, and every file of a repository is searched.
    memchr::memchr(0, &head[..head.len().min(SNIFFED)]).is_some()
}

/// One line: `text` without `ending`, which is `\n`, `\r\n` or, at the end of a file only, nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    pub text: &'a [u8],
    pub ending: &'a [u8],
}

impl<'a> Line<'a> {
    /// Splits the bytes of a line into text and ending.
    pub fn of(raw: &'a [u8]) -> Self {
        let ending = match raw {
            [.., b'\r', b'\n'] => 2,
            [.., b'\n'] => 1,
            _ => 0,
        };
        let (text, ending) = raw.split_at(raw.len() - ending);
        Self { text, ending }
    }

    /// Returns the text for people and models. Bytes that are no UTF-8 are replaced here, and never in the file.
    pub fn shown(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.text)
    }
}

/// A text file as lines, counted from 0. A final line ending belongs to the last line and starts no further one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document<'a> {
    /// The byte order mark, or nothing. It belongs to no line.
    pub mark: &'a [u8],
    pub lines: Vec<Line<'a>>,
}

impl<'a> Document<'a> {
    /// Splits a file into lines.
    ///
    /// # Errors
    ///
    /// `binary` when the file is not text.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        if is_binary(bytes) {
            return Err(Refusal::Binary);
        }
        let mark = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let (mark, body) = bytes.split_at(mark);
        let lines = body.split_inclusive(|byte| *byte == b'\n').map(Line::of).collect();
        Ok(Self { mark, lines })
    }

    /// Returns the index of the last line; -1 for an empty file.
    pub fn max_index(&self) -> i64 {
        max_index(self.lines.len())
    }

    /// Returns the ending of the nearest line before `end`, else behind it; `\n` in a text without line endings.
    pub(crate) fn ending_near(&self, end: usize) -> &'a [u8] {
        let (before, after) = self.lines.split_at(end);
        let mut nearest = before.iter().rev().chain(after).map(|line| line.ending);
        nearest.find(|ending| !ending.is_empty()).unwrap_or(b"\n")
    }

    /// Returns whether all line endings are `\r\n`.
    pub fn is_crlf(&self) -> bool {
        let mut endings =
            self.lines.iter().map(|line| line.ending).filter(|ending| !ending.is_empty());
        endings.next() == Some(b"\r\n") && endings.all(|ending| ending == b"\r\n")
    }

    /// Returns the lines around a range by index, so that a refusal shows the current lines.
    pub fn around(&self, place: Range<usize>) -> BTreeMap<usize, String> {
        let count = self.lines.len();
        let start = place.start.min(count).saturating_sub(AROUND);
        let end = place.end.clamp(place.start, place.start.saturating_add(AROUND));
        let end = end.saturating_add(AROUND).min(count);
        let shown = |line: &Line<'_>| {
            let text = line.shown();
            let cut = text.floor_char_boundary(SHOWN.min(text.len()));
            text[..cut].to_owned()
        };
        let lines = self.lines.iter().enumerate().take(end).skip(start);
        lines.map(|(index, line)| (index, shown(line))).collect()
    }
}

/// Returns the last of `count` indices; -1 when there is none.
pub(crate) fn max_index(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(bytes: &[u8]) -> Vec<(String, String)> {
        let document = Document::parse(bytes).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        document.lines.iter().map(|line| (text(line.text), text(line.ending))).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    // EDIT-1, EDIT-2
    #[test]
    fn every_line_keeps_its_own_ending() {
        assert_eq!(
            texts(b"a\r\nb\n\nc"),
            pairs(&[("a", "\r\n"), ("b", "\n"), ("", "\n"), ("c", "")])
        );
    }

    #[test]
    fn a_final_line_ending_begins_no_line_and_an_empty_file_has_none() {
        assert_eq!(texts(b"a\n"), pairs(&[("a", "\n")]));
        assert_eq!(Document::parse(b"").unwrap().max_index(), -1);
        assert_eq!(Document::parse(b"\n").unwrap().max_index(), 0);
    }

    // EDIT-3
    #[test]
    fn a_byte_order_mark_is_part_of_no_line() {
        let document = Document::parse(b"\xEF\xBB\xBFa\n").unwrap();
        assert_eq!((document.mark, document.lines[0].text), (&b"\xEF\xBB\xBF"[..], &b"a"[..]));
    }

    // EDIT-4
    #[test]
    fn a_nul_near_the_beginning_is_binary_and_other_bytes_are_text() {
        assert_eq!(Document::parse(b"a\0b"), Err(Refusal::Binary));
        assert!(Document::parse(b"latin \xE9\n").is_ok());
        let far = [vec![b'x'; SNIFFED], vec![0]].concat();
        assert!(Document::parse(&far).is_ok());
    }

    // EDIT-15
    #[test]
    fn a_refusal_shows_at_most_nine_lines_and_cuts_long_ones_between_characters() {
        let text = format!("{}\n", "é".repeat(300)).repeat(50);
        let document = Document::parse(text.as_bytes()).unwrap();
        let around = document.around(10..40);
        assert_eq!(around.keys().copied().collect::<Vec<_>>(), (7..16).collect::<Vec<_>>());
        assert_eq!(around[&7].len(), 400);
        assert_eq!(document.around(99..99).keys().copied().collect::<Vec<_>>(), [47, 48, 49]);
    }
}
