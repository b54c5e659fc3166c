//! A difference as the Editor's model reads it: lines with the numbers that its tools use. Pure.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

/// Lines around a change that are shown with it.
const AROUND: usize = 1;
/// Of one line.
const LINE: usize = 400;
/// A difference that takes longer to find is shown less exactly.
const PATIENCE: Duration = Duration::from_millis(200);

pub(super) struct LineDiff {
    pub text: String,
    /// Nothing was cut off its end.
    pub whole: bool,
}

/// `-12: gone`, `+12: come`, ` 13: as it was`, counted from 0 in the text before and in the text now; `…`
/// between places. About `most` bytes.
pub(super) fn line_diff(before: &str, now: &str, most: usize) -> LineDiff {
    let (old, new) = (lines(before), lines(now));
    let diff = TextDiff::configure().timeout(PATIENCE).diff_slices(&old, &new);
    let mut text = String::new();
    for (at, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if at > 0 {
            text.push_str("…\n");
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let (sign, index) = match change.tag() {
                ChangeTag::Delete => ('-', change.old_index()),
                ChangeTag::Insert => ('+', change.new_index()),
                ChangeTag::Equal => (' ', change.new_index()),
            };
            let line = change.value().trim_end_matches('\n');
            let cut = line.floor_char_boundary(LINE.min(line.len()));
            let more = if cut < line.len() { "…" } else { "" };
            let row = format!("{sign}{}: {}{more}\n", index.unwrap_or_default(), &line[..cut]);
            if text.len() + row.len() > most {
                return LineDiff { text: text + "… (cut)", whole: false };
            }
            text.push_str(&row);
        }
    }
    text.truncate(text.trim_end_matches('\n').len());
    LineDiff { text, whole: true }
}

/// By `\n` alone, as the tools count; a lone `\r` ends no line, and a byte order mark belongs to none.
fn lines(text: &str) -> Vec<&str> {
    text.strip_prefix('\u{feff}').unwrap_or(text).split_inclusive('\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EDITOR-13
    #[test]
    fn lines_have_the_numbers_that_the_tools_use() {
        let before = "a\nb\r\nc\nd\ne\nf\ng\n";
        let diff = line_diff(before, "a\nB\r\nc\nd\ne\nf\nnew\ng\n", 1000);
        assert!(diff.whole);
        assert_eq!(diff.text, " 0: a\n-1: b\r\n+1: B\r\n 2: c\n…\n 5: f\n+6: new\n 7: g");
        assert_eq!(line_diff("a\rb\n", "a\rc\n", 100).text, "-0: a\rb\n+0: a\rc");
        assert_eq!(line_diff("same", "same", 100).text, "");
        assert_eq!(line_diff("a", "a\n", 100).text, "-0: a\n+0: a");
        // EDIT-3
        assert_eq!(line_diff("\u{feff}a\n", "\u{feff}b\n", 100).text, "-0: a\n+0: b");
        assert_eq!(line_diff("\u{feff}a\n", "\u{feff}", 100).text, "-0: a");
    }

    #[test]
    fn a_long_difference_is_cut_and_says_so() {
        let now: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let diff = line_diff("", &now, 60);
        assert!(!diff.whole && diff.text.ends_with("\n… (cut)"), "{}", diff.text);
        assert!(line_diff("", &"é".repeat(500), 5000).text.ends_with("…"));
    }
}
