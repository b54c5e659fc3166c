//! Finds a text in a file and replaces it, whatever the line endings of the file.

use crate::{Document, Line, Refusal, check_text};
use memchr::memmem;
use std::ops::Range;

/// Maximum number of places that one edit replaces: more than any careful edit has, and few enough to hold in memory.
const REPLACED: usize = 10_000;

/// The places of a text in a document. In both, `\n` stands for `\n` and for `\r\n`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrences {
    /// Bytes of the document without its mark, in order.
    places: Vec<Range<usize>>,
    /// There are more places than were asked for.
    pub has_more: bool,
}

/// A document's bytes without its mark and without the `\r` of each `\r\n`.
struct Flat {
    bytes: Vec<u8>,
    /// Indices into `bytes` of each `\n` whose `\r` was left out, in order.
    shortened: Vec<usize>,
}

impl Flat {
    fn of(document: &Document<'_>) -> Self {
        let mut flat = Self { bytes: vec![], shortened: vec![] };
        for Line { text, ending } in &document.lines {
            flat.bytes.extend_from_slice(text);
            if *ending == b"\r\n" {
                flat.shortened.push(flat.bytes.len());
            }
            flat.bytes.extend_from_slice(&ending[ending.len().saturating_sub(1)..]);
        }
        flat
    }

    /// Returns the bytes of the document at `start` in `bytes`.
    fn place(&self, start: usize, length: usize) -> Range<usize> {
        let index = |at: usize| at + self.shortened.partition_point(|newline| *newline < at);
        index(start)..index(start + length)
    }
}

impl Occurrences {
    /// Finds the first `most` places of `old`, which must not be empty. Places may overlap.
    pub fn of(document: &Document<'_>, old: &str, most: usize) -> Self {
        let (flat, old) = (Flat::of(document), old.replace("\r\n", "\n"));
        let finder = memmem::Finder::new(old.as_bytes());
        let mut found = Self { places: vec![], has_more: false };
        let mut from = 0;
        while let Some(at) = flat.bytes.get(from..).and_then(|rest| finder.find(rest)) {
            if found.places.len() == most {
                found.has_more = true;
                break;
            }
            let start = from + at;
            found.places.push(flat.place(start, old.len()));
            from = start + 1;
        }
        found
    }

    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// Returns the lines of each place, by index.
    pub fn lines(&self, document: &Document<'_>) -> Vec<Range<usize>> {
        let ends = line_ends(document);
        self.places.iter().map(|place| lines_of(&ends, place)).collect()
    }
}

/// Returns the index behind each line of a document without its mark.
fn line_ends(document: &Document<'_>) -> Vec<usize> {
    let sizes = document.lines.iter().map(|line| line.text.len() + line.ending.len());
    sizes
        .scan(0, |end, size| {
            *end += size;
            Some(*end)
        })
        .collect()
}

/// Returns the lines, by index, that a place of at least one byte touches.
fn lines_of(ends: &[usize], place: &Range<usize>) -> Range<usize> {
    let line = |at: usize| ends.partition_point(|end| *end <= at);
    line(place.start)..line(place.end.saturating_sub(1)) + 1
}

/// Replaces every place of `old`, which must not be empty, by `new`; a place that overlaps with the one before stays. A new line
/// takes the ending of the one that it replaces, else of the nearest line.
///
/// # Errors
///
/// `bad_arguments` for a NUL in `new`, and for more than 10,000 places.
pub fn replace(document: &Document<'_>, old: &str, new: &str) -> Result<Vec<u8>, Refusal> {
    check_text("new", new)?;
    let (flat, old) = (Flat::of(document), old.replace("\r\n", "\n"));
    let found = memmem::find_iter(&flat.bytes, old.as_bytes()).take(REPLACED + 1);
    let places: Vec<_> = found.map(|start| flat.place(start, old.len())).collect();
    if places.len() > REPLACED {
        let message = format!("old: it occurs more than {REPLACED} times");
        return Err(Refusal::BadArguments { message });
    }
    let parts = document.lines.iter().flat_map(|line| [line.text, line.ending]);
    let body: Vec<u8> = parts.flatten().copied().collect();
    let ends = line_ends(document);
    let new = new.replace("\r\n", "\n");
    let mut bytes = document.mark.to_vec();
    let mut copied = 0;
    for place in places {
        bytes.extend_from_slice(&body[copied..place.start]);
        let lines = lines_of(&ends, &place);
        let style = document.ending_near(lines.start + 1);
        let mut endings = document.lines[lines].iter().map(|line| line.ending);
        for line in new.split_inclusive('\n') {
            let text = line.strip_suffix('\n');
            bytes.extend_from_slice(text.unwrap_or(line).as_bytes());
            if text.is_some() {
                let own = endings.next().filter(|ending| !ending.is_empty());
                bytes.extend_from_slice(own.unwrap_or(style));
            }
        }
        copied = place.end;
    }
    bytes.extend_from_slice(&body[copied..]);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(text: &str, old: &str, new: &str) -> String {
        let document = Document::parse(text.as_bytes()).unwrap();
        String::from_utf8(replace(&document, old, new).unwrap()).unwrap()
    }

    fn lines(text: &str, old: &str) -> Vec<Range<usize>> {
        let document = Document::parse(text.as_bytes()).unwrap();
        Occurrences::of(&document, old, 9).lines(&document)
    }

    // EDIT-37
    #[test]
    fn a_newline_in_the_text_matches_the_line_ending_of_the_file() {
        assert_eq!(replaced("a\r\nb\r\nc", "a\nb", "x\ny\nz"), "x\r\ny\r\nz\r\nc");
        assert_eq!(replaced("a\nb\n", "a\r\nb\r\n", "x\r\n"), "x\n");
        assert_eq!(replaced("a\r\nb\nc\n", "a\nb\n", "1\n2\n3\n"), "1\r\n2\n3\r\nc\n");
        assert_eq!(replaced("a\r\nb", "\n", " "), "a b");
        assert_eq!(replaced("a\r\nb\r\n", "b", ""), "a\r\n\r\n");
        assert_eq!(replaced("\u{feff}a\n", "a", "b"), "\u{feff}b\n");
        // A lone carriage return is text.
        assert_eq!(replaced("a\rb\n", "a\rb", "c"), "c\n");
    }

    // EDIT-37
    #[test]
    fn every_place_is_replaced_from_the_front_without_overlap() {
        assert_eq!(replaced("aaa a", "aa", "b"), "ba a");
        assert_eq!(replaced("x = 1\nx = 1\n", "x", "yy"), "yy = 1\nyy = 1\n");
    }

    // EDIT-37
    #[test]
    fn places_overlap_and_are_named_by_their_lines() {
        assert_eq!(lines("a\nb\na\nb", "a\nb"), [0..2, 2..4]);
        assert_eq!(lines("a\r\nb\r\n", "a\n"), vec![0..1]);
        assert_eq!(lines("aaa", "aa"), [0..1, 0..1]);
        assert_eq!(lines("a\n", "b"), []);
        let document = Document::parse(b"aaaa").unwrap();
        let found = Occurrences::of(&document, "a", 2);
        assert!(found.has_more && found.count() == 2);
    }

    // EDIT-16
    #[test]
    fn bytes_that_are_no_text_stay() {
        let document = Document::parse(b"\xE9 old\r\n\xFF").unwrap();
        assert_eq!(replace(&document, "old", "new").unwrap(), b"\xE9 new\r\n\xFF");
        assert_eq!(replace(&document, "old", "\0").unwrap_err().reason(), "bad_arguments");
    }
}
