//! One line of output as spans with a tone, and how a line is rendered: sanitised, coloured, folded or cut to the width
//! of a terminal. No other code turns somebody else's text into bytes for a stream.
//!
//! Not `anstream`: it writes to the stream itself, but a queue writes here; and it reads further variables than
//! `NO_COLOR` and `TERM`. Not `textwrap`: a line is made of spans, its rows are indented to the column of the first value,
//! and a command in backticks stays on one row.

use std::borrow::Cow;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use act_core::terminal_text;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
    Caution,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Strong => Style::new().bold(),
            Self::Faint => Style::new().dimmed(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
            Self::Caution => AnsiColor::Yellow.on_default(),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    spans: Vec<(Style, String)>,
    /// Each row of the line begins with [`QUOTE`].
    quoted: bool,
}

/// The beginning of each row that quotes a stranger, in columns as wide as in characters.
const QUOTE: &str = "│ ";

impl Line {
    pub fn plain(text: impl Into<String>) -> Self {
        Self::default().and(Tone::Plain, text)
    }

    pub fn of(tone: Tone, text: impl Into<String>) -> Self {
        Self::default().and(tone, text)
    }

    pub fn and(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.spans.push((tone.style(), text.into()));
        self
    }

    /// Returns a line of somebody else's words: each of its rows begins with a mark, so that none looks like a line of act,
    /// and a run of blanks is one blank, so that the text does not choose where its rows begin.
    pub fn quoted(self) -> Self {
        let mut blank = true;
        let mut single_spaced = |text: &str| {
            let mut single = String::with_capacity(text.len());
            for c in text.chars() {
                if !c.is_whitespace() {
                    single.push(c);
                } else if !blank {
                    single.push(' ');
                }
                blank = c.is_whitespace();
            }
            single
        };
        // Codes of invisible characters take columns, so they are written before the line is folded.
        let spans = self
            .spans
            .iter()
            .map(|(style, text)| (*style, terminal_text::line(&single_spaced(text)).into_owned()));
        Self { spans: spans.collect(), quoted: true }
    }

    pub(super) fn spans(&self) -> &[(Style, String)] {
        &self.spans
    }

    pub(super) fn push(&mut self, style: Style, text: &str) {
        match self.spans.last_mut() {
            Some((last, before)) if *last == style => before.push_str(text),
            _ => self.spans.push((style, text.to_owned())),
        }
    }

    pub(super) fn without_trailing_blanks(mut self) -> Self {
        while let Some((_, last)) = self.spans.last_mut() {
            last.truncate(last.trim_end_matches(' ').len());
            if !last.is_empty() {
                break;
            }
            self.spans.pop();
        }
        self
    }

    /// Returns the line with its line feed; it can be understood without colour.
    pub fn render(&self, colour: bool) -> String {
        let mut out = if self.quoted { QUOTE.to_owned() } else { String::new() };
        for (style, text) in &self.spans {
            let text = terminal_text::line(text);
            if colour && !text.is_empty() {
                // Writing to a string does not fail.
                let _ = write!(out, "{style}{text}{style:#}");
            } else {
                out.push_str(&text);
            }
        }
        out.push('\n');
        out
    }
}

/// The value of `--color`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ColourWish {
    #[default]
    Auto,
    Always,
    Never,
}

/// The facts about stream and environment that decide whether output is coloured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surroundings {
    pub(super) terminal: bool,
    /// `NO_COLOR` is set and not empty.
    pub(super) no_color: bool,
    /// `TERM` is `dumb`.
    pub(super) dumb: bool,
}

/// Returns whether to use colour. `--color` takes precedence over `NO_COLOR`, and `NO_COLOR` over the kind of the stream.
pub(super) fn wanted(wish: ColourWish, around: Surroundings) -> bool {
    match wish {
        ColourWish::Always => true,
        ColourWish::Never => false,
        ColourWish::Auto => around.terminal && !around.no_color && !around.dumb,
    }
}

/// A first span of at most this many columns is a name, and its value stays on the same row.
const NAME: usize = 24;
/// Minimum width in columns: a narrower terminal gets rows of this width.
const LEAST: usize = 20;

/// Returns the text of a line, with its line feeds, for a stream of the given width.
pub(super) fn rendered(line: &Line, columns: usize, colour: bool) -> String {
    folded(line, columns).iter().map(|row| row.render(colour)).collect()
}

/// Returns a text of several lines folded to the width of a terminal; a program gets the text unchanged.
pub(super) fn block(text: &str, columns: usize) -> Cow<'_, str> {
    let text = terminal_text::block(text);
    if columns == usize::MAX {
        return text;
    }
    text.lines().map(|line| rendered(&Line::plain(line), columns, false)).collect()
}

/// Folds a line into rows that fit into the width, as few as possible.
fn folded(line: &Line, columns: usize) -> Vec<Line> {
    if line.quoted {
        return quoted_rows(line, columns);
    }
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

/// Folds a quoted line. A word that is wider than a row is broken, because the terminal would begin a row without the mark.
fn quoted_rows(line: &Line, columns: usize) -> Vec<Line> {
    let row = |text: &str| Line { quoted: true, ..Line::plain(text) };
    let room = columns.saturating_sub(QUOTE.width()).max(LEAST / 2);
    let (mut rows, mut now, mut at) = (vec![], row(""), 0);
    for (style, text) in line.spans() {
        for word in text.split_inclusive(' ') {
            let whole = drawn(word.trim_end());
            let hang = if rows.is_empty() { 0 } else { QUOTED_HANG.len() };
            if at > hang && at + whole > room && whole <= room - QUOTED_HANG.len() {
                rows.push(std::mem::replace(&mut now, row(QUOTED_HANG)).without_trailing_blanks());
                at = QUOTED_HANG.len();
            }
            for c in word.chars() {
                let width = drawn(c.encode_utf8(&mut [0; 4]));
                if at + width > room && c != ' ' {
                    rows.push(
                        std::mem::replace(&mut now, row(QUOTED_HANG)).without_trailing_blanks(),
                    );
                    at = QUOTED_HANG.len();
                }
                now.push(*style, c.encode_utf8(&mut [0; 4]));
                at += width;
            }
        }
    }
    rows.push(now.without_trailing_blanks());
    rows
}

/// The beginning of the second row and of the following rows of a quoted line.
const QUOTED_HANG: &str = "  ";

/// Returns how many columns a text takes at most. Terminals disagree about characters outside of ASCII, and a row that is
/// drawn wider than it was measured would go on in a row without a mark.
fn drawn(text: &str) -> usize {
    text.chars().map(|c| if c.is_ascii() { 1 } else { c.width().unwrap_or(0).max(2) }).sum()
}

/// Splits a text into words, each with the spaces that follow it.
fn words(text: &str, room: usize) -> Vec<&str> {
    let (mut words, mut begun, mut end) = (vec![], 0, 0);
    // The number of bytes up to which every backtick has a partner.
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

/// Cuts a text to at most `columns`, with an ellipsis in place of the rest.
pub(super) fn excerpt(text: &str, columns: usize) -> String {
    let words: Vec<_> = text.split_whitespace().take(columns.max(1)).collect();
    let line = terminal_text::line(&words.join(" ")).into_owned();
    if line.width() <= columns {
        return line;
    }
    let (mut cut, mut wide) = (String::new(), 1);
    for c in line.chars() {
        wide += c.width().unwrap_or(0);
        if wide > columns {
            break;
        }
        cut.push(c);
    }
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_ours_and_text_cannot_add_any() {
        let line = Line::plain("name ").and(Tone::Bad, "evil\x1b[32m\n");
        assert_eq!(line.render(true), "name \x1b[31mevil\\n\x1b[0m\n");
        assert_eq!(line.render(false), "name evil\\n\n");
    }
}

#[cfg(test)]
mod colour_tests {
    use super::*;

    const TERMINAL: Surroundings = Surroundings { terminal: true, no_color: false, dumb: false };

    #[test]
    fn automatic_colour_needs_a_capable_terminal_and_no_objection() {
        assert!(wanted(ColourWish::Auto, TERMINAL));
        assert!(!wanted(ColourWish::Auto, Surroundings { terminal: false, ..TERMINAL }));
        assert!(!wanted(ColourWish::Auto, Surroundings { no_color: true, ..TERMINAL }));
        assert!(!wanted(ColourWish::Auto, Surroundings { dumb: true, ..TERMINAL }));
    }

    #[test]
    fn the_option_wins_over_the_environment() {
        let pipe = Surroundings { terminal: false, no_color: true, dumb: true };
        assert!(wanted(ColourWish::Always, pipe));
        assert!(!wanted(ColourWish::Never, TERMINAL));
    }
}

#[cfg(test)]
mod fold_tests {
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

#[cfg(test)]
mod quote_tests {
    use super::*;

    // CAPABILITY-21, security line 50
    #[test]
    fn no_row_of_a_quotation_is_without_its_mark_and_no_blanks_choose_where_rows_begin() {
        let quoted = |text: &str| Line::of(Tone::Strong, "about: ").and(Tone::Plain, text).quoted();
        let shown = |text: &str, columns| rendered(&quoted(text), columns, false);
        let padded = "one \u{3000}\t\n two\u{a0}\u{2003} three";
        assert_eq!(shown(padded, usize::MAX), "│ about: one two three\n");
        assert_eq!(shown(padded, 20), "│ about: one two\n│   three\n");
        for text in ["x".repeat(200), "é".repeat(90), "你".repeat(90), "y ".repeat(90)] {
            for columns in [1, 12, 20, 80, 200] {
                for row in shown(&text, columns).lines() {
                    assert!(row.starts_with("│ "), "{row}");
                    assert!(row.width() <= columns.max(LEAST), "{columns}: {row}");
                }
            }
        }
        let hidden = shown(&"\u{200d}".repeat(30), 40);
        assert!(hidden.lines().all(|row| row.starts_with("│ ") && row.width() <= 40), "{hidden}");
        assert!(quoted("a").render(true).starts_with("│ "), "the mark has no colour of others");
    }
}

#[cfg(test)]
mod excerpt_tests {
    use super::*;

    #[test]
    fn a_text_is_cut_by_its_width_and_stays_on_its_line() {
        // CLI-8, security line 165
        assert_eq!(excerpt("fix\n\nthe  parser", 20), "fix the parser");
        assert_eq!(excerpt("fix the parser", 8), "fix the…");
        assert_eq!(excerpt("你好你好", 5), "你好…");
        assert_eq!(excerpt("\u{1b}[2Ja\u{202e}b", 20), "a\\u{202e}b");
        assert_eq!(excerpt("anything", 0), "…");
    }
}
