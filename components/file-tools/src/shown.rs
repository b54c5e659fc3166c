//! How a file is shown to the model: a header line, then lines with their numbers.

use act_kit::world::{Kind, Repository, Selection};
use edit_protocol::Document;
use std::ops::Range;

/// Maximum number of names of other files that a refusal suggests.
const NEAR: usize = 3;
/// Maximum number of names that are searched for similar ones.
const NAMES: usize = 50_000;
/// Maximum length of names that are compared by their letters.
const COMPARED: usize = 64;

/// A path or name on one line: a control character in it is escaped.
pub(crate) fn path(path: &str) -> String {
    let shown = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    path.chars().map(shown).collect()
}

/// The header of lines of a file: `src/a.py · version 3 · lines 41-102 of 1005`, and what is unusual about its bytes. `lines` are
/// counted from 0, the end exclusive.
pub(crate) fn header(
    name: &str,
    version: u64,
    document: &Document<'_>,
    lines: Range<usize>,
) -> String {
    let count = document.lines.len();
    let mut text = format!("{} · version {version} · ", path(name));
    text.push_str(&match lines.is_empty() {
        true => format!("{count} lines"),
        false => format!("lines {}-{} of {count}", lines.start + 1, lines.end),
    });
    if document.is_crlf() {
        text.push_str(" · CRLF");
    } else if document.lines.iter().any(|line| line.ending == b"\r\n") {
        text.push_str(" · CRLF and LF");
    }
    if !document.mark.is_empty() {
        text.push_str(" · BOM");
    }
    if document.lines.last().is_some_and(|line| line.ending.is_empty()) {
        text.push_str(" · no newline at the end");
    }
    text
}

/// One line of a file, as `41| text`, cut at `most` bytes of its text. `index` counts from 0.
pub(crate) fn line(index: usize, mark: char, text: &str, most: usize) -> String {
    let cut = text.floor_char_boundary(most.min(text.len()));
    match text.len() - cut {
        0 => format!("{}{mark} {text}", index + 1),
        more => format!("{}{mark} {}… [{more} bytes more]", index + 1, &text[..cut]),
    }
}

/// The lines around each place, below a header. Places are counted from 0.
pub(crate) fn around(
    name: &str,
    version: u64,
    document: &Document<'_>,
    places: &[Range<usize>],
) -> String {
    let mut shown = vec![];
    let mut next = 0;
    let mut whole = None::<Range<usize>>;
    for place in places {
        let mut lines = document.around(place.clone());
        lines.retain(|index, _| *index >= next);
        if let Some(first) = lines.keys().next() {
            if !shown.is_empty() && *first > next {
                shown.push("…".to_owned());
            }
            whole.get_or_insert(*first..*first);
        }
        for (index, text) in lines {
            shown.push(line(index, '|', &text, usize::MAX));
            next = index + 1;
        }
    }
    let whole = whole.map_or(0..0, |whole| whole.start..next);
    shown.insert(0, header(name, version, document, whole));
    shown.join("\n")
}

/// Names of files in view that resemble a path which names none, as the end of a sentence.
pub(crate) fn near(repository: &impl Repository, wanted: &str) -> String {
    let kinds = vec![Kind::File, Kind::Link];
    let want = Selection { under: vec![], globs: vec![], kinds };
    let Ok(found) = repository.list_all(&want, NAMES) else { return String::new() };
    let base = |path: &str| path.rsplit('/').next().unwrap_or_default().to_lowercase();
    let stem = |name: &str| name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned();
    let name = base(wanted);
    let mut near: Vec<(usize, usize, String)> = vec![];
    for entry in found.items {
        let other = base(&entry.path);
        let rank = match () {
            () if other == name => 0,
            () if distance(&name, &other).is_some_and(|distance| distance <= 2) => 1,
            () if stem(&other) == stem(&name) => 2,
            () => continue,
        };
        let common = entry.path.bytes().zip(wanted.bytes()).take_while(|(a, b)| a == b).count();
        near.push((rank, usize::MAX - common, entry.path));
    }
    near.sort();
    let near: Vec<_> = near.iter().take(NEAR).map(|(_, _, name)| path(name)).collect();
    if near.is_empty() { String::new() } else { format!("; similar: {}", near.join(", ")) }
}

/// The number of letters to change, add or remove to make one short name the other.
fn distance(a: &str, b: &str) -> Option<usize> {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().max(b.len()) > COMPARED || a.len().abs_diff(b.len()) > 2 || a.len() < 4 {
        return None;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_kit::testing::Files;

    // TOOLS-7
    #[test]
    fn a_header_names_what_is_unusual_about_the_bytes() {
        let header = |bytes: &[u8]| {
            let document = Document::parse(bytes).unwrap();
            header("a", 3, &document, 0..document.lines.len())
        };
        assert_eq!(header(b"x\ny\n"), "a · version 3 · lines 1-2 of 2");
        assert_eq!(header(b""), "a · version 3 · 0 lines");
        assert_eq!(header(b"x\r\n"), "a · version 3 · lines 1-1 of 1 · CRLF");
        assert_eq!(
            header(b"\xEF\xBB\xBFx\r\ny"),
            "a · version 3 · lines 1-2 of 2 · CRLF · BOM · no newline at the end"
        );
        assert_eq!(header(b"x\r\ny\n"), "a · version 3 · lines 1-2 of 2 · CRLF and LF");
    }

    // TOOLS-14
    #[test]
    fn similar_names_are_suggested_and_the_nearest_comes_first() {
        let files = [
            ("src/price.py", ""),
            ("lib/price.py", ""),
            ("src/prices.py", ""),
            ("price.md", ""),
            ("x", ""),
        ];
        let repository = Files::of(&files);
        assert_eq!(
            near(&repository, "src/a/price.py"),
            "; similar: src/price.py, lib/price.py, src/prices.py"
        );
        assert_eq!(
            near(&repository, "price.rs"),
            "; similar: price.md, lib/price.py, src/price.py"
        );
        assert_eq!(near(&repository, "src/other.py"), "");
        assert_eq!(near(&repository, "y"), "");
    }

    #[test]
    fn no_name_breaks_a_line() {
        assert_eq!(path("a\nb\u{1b}c"), "a\\nb\\u{1b}c");
    }

    // EDIT-15
    #[test]
    fn distant_places_are_shown_below_one_header() {
        let text: String = (1..=30).map(|n| format!("{n}\n")).collect();
        let document = Document::parse(text.as_bytes()).unwrap();
        let shown = around("a", 1, &document, &[4..5, 6..7, 20..21]);
        assert!(shown.starts_with("a · version 1 · lines 2-24 of 30\n2| 2\n3| 3\n"), "{shown}");
        assert!(shown.contains("\n10| 10\n…\n18| 18\n") && shown.ends_with("\n24| 24"), "{shown}");
    }
}
