//! One line of output as spans with a tone; the only way from somebody else's text to a stream.

use std::fmt::Write as _;

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
    /// Parameters of the terminal's "select graphic rendition".
    fn rendition(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Strong => Some("1"),
            Self::Faint => Some("2"),
            Self::Good => Some("32"),
            Self::Bad => Some("31"),
            Self::Caution => Some("33"),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    spans: Vec<(Option<&'static str>, String)>,
}

impl Line {
    pub fn plain(text: impl Into<String>) -> Self {
        Self::default().and(Tone::Plain, text)
    }

    pub fn of(tone: Tone, text: impl Into<String>) -> Self {
        Self::default().and(tone, text)
    }

    pub fn and(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.spans.push((tone.rendition(), text.into()));
        self
    }

    pub(super) fn spans(&self) -> &[(Option<&'static str>, String)] {
        &self.spans
    }

    pub(super) fn push(&mut self, rendition: Option<&'static str>, text: &str) {
        match self.spans.last_mut() {
            Some((last, before)) if *last == rendition => before.push_str(text),
            _ => self.spans.push((rendition, text.to_owned())),
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

    /// With its line feed. Makes sense without colour.
    pub fn render(&self, colour: bool) -> String {
        let mut out = String::new();
        for (rendition, text) in &self.spans {
            let text = terminal_text::line(text);
            match rendition.filter(|_| colour && !text.is_empty()) {
                Some(code) => {
                    // Writing to a string does not fail.
                    let _ = write!(out, "\x1b[{code}m{text}\x1b[0m");
                }
                None => out.push_str(&text),
            }
        }
        out.push('\n');
        out
    }
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
