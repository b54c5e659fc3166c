//! A line on a terminal that is too narrow for it: broken between words, and indented to where its value began. What
//! has no space in it, like a digest, stays in one piece, so that it can be copied; so does a command in backticks that
//! has room in a row.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

use super::line::Line;
use act_core::terminal_text;

/// A first span up to here is a name, and its value stays beside it.
const NAME: usize = 24;
/// Nothing is laid out in less.
const LEAST: usize = 20;

/// The text of a line for a stream with so many columns, with its line feeds.
pub(super) fn rendered(line: &Line, columns: usize, colour: bool) -> String {
    folded(line, columns).iter().map(|row| row.render(colour)).collect()
}

/// The same of a text of several lines, which for a program stays as it is.
pub(super) fn block(text: &str, columns: usize) -> Cow<'_, str> {
    let text = terminal_text::block(text);
    if columns == usize::MAX {
        return text;
    }
    text.lines().map(|line| rendered(&Line::plain(line), columns, false)).collect()
}

/// As few lines as it takes.
fn folded(line: &Line, columns: usize) -> Vec<Line> {
    let wide: usize = line.spans().iter().map(|(_, text)| text.width()).sum();
    if wide <= columns || columns < LEAST {
        return vec![line.clone()];
    }
    let hang = hang(line).min(columns / 2);
    let (mut lines, mut now, mut at, mut begun) = (vec![], Line::default(), 0, false);
    for (tone, text) in line.spans() {
        for word in words(text, columns - hang) {
            let width = word.trim_end().width();
            if begun && width > 0 && at + width > columns {
                lines.push(std::mem::take(&mut now).without_trailing_blanks());
                now = Line::plain(" ".repeat(hang));
                at = hang;
            }
            now.push(*tone, word);
            at += word.width();
            begun |= width > 0;
        }
    }
    lines.push(now);
    lines
}

/// Words with the spaces behind them.
fn words(text: &str, room: usize) -> Vec<&str> {
    let (mut words, mut begun, mut end) = (vec![], 0, 0);
    // Up to where backticks are paired.
    let mut paired = 0;
    for word in text.split_inclusive(' ') {
        end += word.len();
        if end < paired {
            continue;
        }
        if text[paired..end].matches('`').count() % 2 == 1
            && let Some(closing) = text[end..].find('`')
        {
            paired = end + closing + 1;
            continue;
        }
        paired = end;
        let unit = &text[begun..end];
        match unit.trim_end().width() <= room {
            true => words.push(unit),
            false => words.extend(unit.split_inclusive(' ')),
        }
        begun = end;
    }
    words
}

fn hang(line: &Line) -> usize {
    let spans: Vec<_> = line.spans().iter().filter(|(_, text)| !text.is_empty()).collect();
    let Some((_, first)) = spans.first() else { return 0 };
    match spans.len() {
        2.. if first.width() <= NAME => first.width(),
        _ => first.len() - first.trim_start().len() + 2,
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::Tone;
    use super::*;

    fn text(line: &Line, columns: usize) -> String {
        rendered(line, columns, false)
    }

    #[test]
    fn a_value_stays_beside_its_name() {
        let line = Line::of(Tone::Faint, "  may      ").and(Tone::Plain, "read one two three four");
        assert_eq!(text(&line, 80), "  may      read one two three four\n");
        assert_eq!(text(&line, 22), "  may      read one\n           two three\n           four\n");
        let digest = Line::of(Tone::Faint, "  sha256   ").and(Tone::Plain, "a".repeat(64));
        assert_eq!(text(&digest, 40).replace(['\n', ' '], "").len(), 64 + "sha256".len());
        assert!(text(&digest, 40).contains(&"a".repeat(64)), "in one piece");
        // CLI-55
        let untitled = Line::of(Tone::Strong, "").and(Tone::Plain, "t-abc123");
        let untitled = untitled.and(Tone::Good, " SUCCESS").and(Tone::Plain, ", today");
        assert_eq!(text(&untitled, 20), "t-abc123 SUCCESS,\n        today\n");
        let command = Line::of(Tone::Strong, "hint:").and(Tone::Plain, " or `act run x y`, if `so");
        assert_eq!(text(&command, 20), "hint: or\n     `act run x y`,\n     if `so\n");
        let long = Line::plain("a `command that has no room` b");
        assert_eq!(text(&long, 20), "a `command that has\n  no room` b\n");
        // A blank behind the last column would begin a row of its own.
        let full = Line::plain(format!("{} {}", "x".repeat(20), "y"));
        assert_eq!(text(&full, 20), format!("{}\n  y\n", "x".repeat(20)));
        let help = "  a  b\n\nact runs one task\tuntil";
        assert_eq!(block(help, usize::MAX), help);
        assert_eq!(block(help, 20), "  a  b\n\nact runs one\n  task\tuntil\n");
        let bare = Line::plain("  one two three four five six");
        assert_eq!(text(&bare, 20), "  one two three four\n    five six\n");
    }
}
