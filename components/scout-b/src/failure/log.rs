//! A log as lines of plain text: without colours, overwritten progress, carriage returns and time stamps.

/// Maximum size in bytes: a longer log loses its beginning, and a longer line its end.
const LOG: usize = 256 * 1024;
const LINE: usize = 4_000;

pub(super) struct Log {
    lines: Vec<String>,
}

impl Log {
    pub(super) fn of(text: &str) -> Self {
        let from = text.ceil_char_boundary(text.len().saturating_sub(LOG));
        let kept = text.get(from..).unwrap_or_default();
        Self { lines: kept.split('\n').map(plain).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns a line; an empty text behind the end.
    pub(super) fn line(&self, at: usize) -> &str {
        self.lines.get(at).map_or("", String::as_str)
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &str)> {
        self.lines.iter().map(String::as_str).enumerate()
    }

    /// Iterates over the lines from one on.
    pub(super) fn from(&self, at: usize) -> impl Iterator<Item = (usize, &str)> {
        self.iter().skip(at)
    }

    pub(super) fn position(&self, what: impl Fn(&str) -> bool) -> Option<usize> {
        self.lines.iter().position(|line| what(line))
    }

    pub(super) fn last(&self, what: impl Fn(&str) -> bool) -> Option<usize> {
        self.lines.iter().rposition(|line| what(line))
    }

    pub(super) fn holds(&self, word: &str) -> bool {
        self.lines.iter().any(|line| line.contains(word))
    }

    /// Returns the first line from one on that is not blank.
    pub(super) fn next_text(&self, at: usize) -> Option<(usize, &str)> {
        self.from(at).find(|(_, line)| !line.trim().is_empty())
    }
}

fn plain(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    let line = line.rsplit('\r').next().unwrap_or(line);
    let line = line.get(..line.floor_char_boundary(LINE)).unwrap_or_default();
    let mut out = String::with_capacity(line.len());
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
    match out.split_once(' ') {
        Some((stamp, rest)) if is_stamp(stamp) => rest.trim_end().to_owned(),
        _ => out.trim_end().to_owned(),
    }
}

/// Removes a time stamp that CI puts before each line: `2026-01-31T12:00:00.1234567Z`.
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
}
