//! A log as lines of plain text: without colours, overwritten progress, carriage returns and time stamps of CI.

use std::collections::VecDeque;

/// Maximum size of one line in bytes; a longer line loses its end. A minified file in a message is longer than that.
const LINE: usize = 4_000;
/// Maximum size in bytes and number of lines of each half of a log. A log that exceeds both halves loses its middle:
/// the first failures are near the beginning of the report, the counts at its end. 250,000 lines of 60 bytes are 15 MB,
/// four times the largest log of a real test run that we met.
const HALF_BYTES: usize = 16 * 1024 * 1024;
const HALF_LINES: usize = 250_000;

/// A log, as [`LogReader`] read it. Its lines are numbered from 0; [`Log::number`] returns the number in the file.
#[derive(Debug, Default)]
pub struct Log {
    text: String,
    /// Where each line ends in `text`.
    ends: Vec<usize>,
    /// The number of lines of the file before the first one here.
    first: usize,
    /// The number of lines before the middle that was left out.
    head: usize,
    /// The number of lines that were left out in the middle.
    skipped: usize,
}

impl Log {
    /// Reads a log from memory.
    pub fn of(text: &str) -> Self {
        let mut reader = LogReader::default();
        reader.push(text.as_bytes());
        reader.finish()
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the size of the text in bytes.
    pub(super) fn size(&self) -> usize {
        self.text.len()
    }

    /// Returns the number of a line in the file, from 1.
    pub fn number(&self, at: usize) -> usize {
        self.first + if at < self.head { at + 1 } else { at + self.skipped + 1 }
    }

    /// Returns how many lines from the first one on follow each other in the file. A later part of a very long log is read
    /// with [`LogReader::starting_at`].
    pub fn contiguous(&self) -> usize {
        if self.skipped == 0 { self.len() } else { self.head }
    }

    /// Returns the number of lines of the file.
    pub fn total(&self) -> usize {
        self.first + self.len() + self.skipped
    }

    /// Returns the last lines, of about `most` bytes together.
    pub fn end(&self, most: usize) -> &str {
        let from = self.text.len().saturating_sub(most);
        let line = self.ends.partition_point(|end| *end < from);
        let from = self.ends.get(line).copied().filter(|_| from > 0).unwrap_or(0);
        self.text.get(from..).unwrap_or_default()
    }

    /// Returns a line; an empty text behind the end.
    pub fn line(&self, at: usize) -> &str {
        let Some(end) = self.ends.get(at) else { return "" };
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).unwrap_or(&0);
        self.text.get(*start..end.saturating_sub(1)).unwrap_or_default()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &str)> {
        (0..self.len()).map(|at| (at, self.line(at)))
    }

    /// Iterates over the lines from one on.
    pub fn from(&self, at: usize) -> impl Iterator<Item = (usize, &str)> {
        (at..self.len()).map(|at| (at, self.line(at)))
    }

    /// Iterates over a range of lines.
    pub fn lines(
        &self,
        range: std::ops::Range<usize>,
    ) -> impl DoubleEndedIterator<Item = (usize, &str)> {
        (range.start..range.end.min(self.len())).map(|at| (at, self.line(at)))
    }

    pub fn position(&self, what: impl Fn(&str) -> bool) -> Option<usize> {
        (0..self.len()).find(|at| what(self.line(*at)))
    }

    pub fn last(&self, what: impl Fn(&str) -> bool) -> Option<usize> {
        (0..self.len()).rev().find(|at| what(self.line(*at)))
    }

    pub fn holds(&self, word: &str) -> bool {
        self.position(|line| line.contains(word)).is_some()
    }

    /// Returns the first line from one on that is not blank.
    pub fn next_text(&self, at: usize) -> Option<(usize, &str)> {
        self.from(at).find(|(_, line)| !line.trim().is_empty())
    }

    fn add(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        self.ends.push(self.text.len());
    }
}

/// Reads a log piece by piece, in memory that does not depend on the length of the log.
#[derive(Debug, Default)]
pub struct LogReader {
    log: Log,
    /// The lines behind the first half, the newest last.
    tail: VecDeque<String>,
    tail_bytes: usize,
    skipped: usize,
    /// Lines that are still to be left out at the beginning.
    ahead: usize,
    /// The bytes of the current line.
    line: Vec<u8>,
    returned: bool,
}

impl LogReader {
    /// Returns a reader that leaves out the lines before this one, counted from 1.
    pub fn starting_at(line: usize) -> Self {
        Self { ahead: line.saturating_sub(1), ..Self::default() }
    }

    /// Reads the next bytes of the log.
    pub fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                b'\r' => self.returned = true,
                byte => {
                    // What follows a carriage return overwrites the line.
                    if std::mem::take(&mut self.returned) {
                        self.line.clear();
                    }
                    // Colours and a time stamp are removed later, so more than a line's length is needed.
                    if self.line.len() < 4 * LINE {
                        self.line.push(*byte);
                    }
                }
            }
        }
    }

    fn end_line(&mut self) {
        self.returned = false;
        if self.ahead > 0 {
            self.ahead -= 1;
            self.log.first += 1;
            self.line.clear();
            return;
        }
        let line = plain(&String::from_utf8_lossy(&self.line));
        self.line.clear();
        let fits = self.log.text.len() + line.len() <= HALF_BYTES && self.log.len() < HALF_LINES;
        if fits && self.tail.is_empty() {
            self.log.add(&line);
            return;
        }
        self.tail_bytes += line.len();
        self.tail.push_back(line);
        while self.tail_bytes > HALF_BYTES || self.tail.len() > HALF_LINES {
            let Some(oldest) = self.tail.pop_front() else { break };
            self.tail_bytes -= oldest.len();
            self.skipped += 1;
        }
    }

    /// Returns the whole log.
    pub fn finish(mut self) -> Log {
        if !self.line.is_empty() || self.returned {
            self.end_line();
        }
        let mut log = self.log;
        (log.head, log.skipped) = (log.len(), self.skipped);
        for line in &self.tail {
            log.add(line);
        }
        log
    }
}

/// Returns a line without control sequences and without a time stamp.
pub fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len().min(LINE));
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\u{1b}' => match characters.next() {
                // A control sequence ends with a letter; an operating system command ends with a bell or `ESC \`.
                Some('[') => {
                    let _ = characters.by_ref().find(|c| ('@'..='~').contains(c));
                }
                Some(']') => {
                    let end = characters.by_ref().find(|c| matches!(c, '\u{7}' | '\u{1b}'));
                    if end == Some('\u{1b}') {
                        characters.next();
                    }
                }
                _ => {}
            },
            '\u{feff}' => {}
            '\t' => out.push('\t'),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out.truncate(out.floor_char_boundary(LINE));
    match out.split_once(' ') {
        Some((stamp, rest)) if is_stamp(stamp) => rest.trim_end().to_owned(),
        _ => out.trim_end().to_owned(),
    }
}

/// Returns whether a word is a time stamp that CI puts before each line: `2026-01-31T12:00:00.1234567Z`.
fn is_stamp(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    word.len() >= 20
        && digits >= 14
        && word.ends_with('Z')
        && word.as_bytes().get(10) == Some(&b'T')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_returns_progress_and_stamps_are_gone() {
        let log = Log::of(
            "\u{1b}[31mred\u{1b}[0m\r\n10%\r100%\n\u{1b}]8;;file://x\u{7}link\u{1b}]8;;\u{1b}\\ end\n\
             2026-01-31T12:00:00.1234567Z stamped\na\u{0}b\tc",
        );
        let lines = log.iter().map(|(_, line)| line).collect::<Vec<_>>();
        assert_eq!(lines, ["red", "100%", "link end", "stamped", "ab\tc"]);
        assert!(Log::of(&"x".repeat(10_000_000)).line(0).len() <= LINE);
        assert_eq!(Log::of("\u{1b}").line(0), "");
    }

    #[test]
    fn a_log_of_any_length_keeps_its_beginning_its_end_and_its_numbers() {
        let mut reader = LogReader::default();
        for number in 1..=600_000 {
            reader.push(format!("line {number}\n").as_bytes());
        }
        let log = reader.finish();
        assert_eq!(log.len(), 2 * HALF_LINES);
        for at in [0, HALF_LINES - 1, HALF_LINES, 2 * HALF_LINES - 1] {
            assert_eq!(log.line(at), format!("line {}", log.number(at)));
        }
        let mut reader = LogReader::default();
        for _ in 0..50 {
            reader.push(&vec![b'x'; 1024 * 1024]);
        }
        assert!(reader.line.capacity() < 100_000);
        let mut reader = LogReader::starting_at(3);
        reader.push(b"a\nb\nc\nd");
        let log = reader.finish();
        assert_eq!((log.len(), log.line(0), log.number(1), log.total()), (2, "c", 4, 4));
        assert_eq!((log.end(2), log.end(100)), ("d\n", "c\nd\n"));
        let mut reader = LogReader::default();
        reader.push(&vec![b'x'; 1024 * 1024]);
        assert_eq!(reader.finish().len(), 1);
    }
}
