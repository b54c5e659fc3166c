//! Foreign text inside our Markdown. No such text can become a heading, a list item or a statement of the host.

use std::fmt::Write as _;

/// Wraps `payload` in a code block, byte for byte. The fence is longer than any run of backticks in the payload.
pub(super) fn fence(language: &str, payload: &str) -> String {
    let fence = "`".repeat(longest_backtick_run(payload).max(2) + 1);
    format!("{fence}{language}\n{payload}\n{fence}\n")
}

/// Wraps text in a code span of one line, delimited by more backticks than it contains. Line breaks and controls are
/// escaped.
pub(super) fn code(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    let fence = "`".repeat(longest_backtick_run(&line) + 1);
    // Markdown removes one space from each side when both have one.
    let pad =
        if line.starts_with('`') || line.ends_with('`') || line.is_empty() { " " } else { "" };
    format!("{fence}{pad}{line}{pad}{fence}")
}

/// Quotes prose. Every line is marked, so no text inside can end the quotation.
pub(super) fn quote(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return "> (nothing)\n".into();
    }
    let mut out = String::new();
    // A lone carriage return ends a line of Markdown as well.
    for line in text.replace("\r\n", "\n").split(['\n', '\r']) {
        let _ = writeln!(out, "{}", format!("> {line}").trim_end());
    }
    out
}

/// A list of code spans, or the word `none`.
pub(super) fn code_list<S: AsRef<str>>(items: &[S]) -> String {
    if items.is_empty() {
        return "none\n".into();
    }
    items.iter().fold(String::new(), |mut out, item| {
        let _ = writeln!(out, "- {}", code(item.as_ref()));
        out
    })
}

/// The first `most` items, each rendered by `show`, and how many more there are.
pub(super) fn some<T>(items: &[T], most: usize, show: impl Fn(&T) -> String) -> String {
    if items.is_empty() {
        return "none".into();
    }
    let shown: Vec<_> = items.iter().take(most).map(show).collect();
    match items.len().saturating_sub(most) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The first `most` characters, and how many more there were.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((at, _)) => {
            let (kept, rest) = text.split_at(at);
            format!("{kept} [{} more characters]", rest.chars().count())
        }
    }
}

fn longest_backtick_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_fence_is_longer_than_any_run_inside() {
        assert_eq!(fence("json", "{}"), "```json\n{}\n```\n");
        assert_eq!(fence("json", "a\n````\n# mine"), "`````json\na\n````\n# mine\n`````\n");
    }

    #[test]
    fn a_code_span_is_one_line_and_holds_backticks() {
        assert_eq!(code("src/a.rs"), "`src/a.rs`");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(code("a\n# b\u{1b}"), "`a\\n# b\\u{1b}`");
    }

    #[test]
    fn prose_cannot_leave_its_quotation() {
        assert_eq!(
            quote("fixed\n\n# How verified\nrun_x\r\n"),
            "> fixed\n>\n> # How verified\n> run_x\n"
        );
        assert_eq!(quote(" \n"), "> (nothing)\n");
    }

    #[test]
    fn long_texts_and_lists_say_what_is_missing() {
        assert_eq!(cut("äbc", 3), "äbc");
        assert_eq!(cut("äbcd", 2), "äb [2 more characters]");
        let show = |n: &i32| n.to_string();
        assert_eq!(some(&[], 2, show), "none");
        assert_eq!(some(&[1, 2], 2, show), "1, 2");
        assert_eq!(some(&[1, 2, 3], 2, show), "1, 2 and 1 more");
    }

    proptest! {
        #[test]
        fn what_a_fence_holds_can_be_read_back(payload in "[`~a\n\r {}]{0,60}") {
            let text = fence("json", &payload);
            let (opening, rest) = text.split_once('\n').unwrap();
            let closing = format!("\n{}\n", opening.trim_end_matches("json"));
            prop_assert_eq!(rest.find(&closing), Some(payload.len()));
            prop_assert_eq!(&rest[..payload.len()], payload);
        }

        #[test]
        fn every_line_of_a_quotation_is_marked(text in "[#`>a\n\r -]{0,60}") {
            prop_assert!(quote(&text).split(['\n', '\r']).all(|line| line.is_empty() || line.starts_with('>')));
        }
    }
}
