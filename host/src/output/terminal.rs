//! The terminal as the live line sees it: with room behind the line for what the keyboard echoes.
//!
//! The line is padded to its full width. On the real width the `^C` of a person would begin a line of its own,
//! and the one that is cleared at the end would not be ours.

use std::io::Result;

use console::Term;
use indicatif::TermLike;

/// `^C`, and the column in which the cursor waits.
const ROOM: u16 = 3;

#[derive(Debug)]
pub(super) struct Terminal(Term);

impl Terminal {
    pub(super) fn stderr() -> Self {
        Self(Term::buffered_stderr())
    }
}

impl TermLike for Terminal {
    fn width(&self) -> u16 {
        TermLike::width(&self.0).saturating_sub(ROOM)
    }

    fn height(&self) -> u16 {
        TermLike::height(&self.0)
    }

    fn move_cursor_up(&self, lines: usize) -> Result<()> {
        self.0.move_cursor_up(lines)
    }

    fn move_cursor_down(&self, lines: usize) -> Result<()> {
        self.0.move_cursor_down(lines)
    }

    fn move_cursor_right(&self, columns: usize) -> Result<()> {
        self.0.move_cursor_right(columns)
    }

    fn move_cursor_left(&self, columns: usize) -> Result<()> {
        self.0.move_cursor_left(columns)
    }

    fn write_line(&self, text: &str) -> Result<()> {
        self.0.write_line(text)
    }

    fn write_str(&self, text: &str) -> Result<()> {
        self.0.write_str(text)
    }

    fn clear_line(&self) -> Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> Result<()> {
        self.0.flush()
    }
}
