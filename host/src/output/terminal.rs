//! The terminal as the live line sees it: with room behind the line for what the keyboard echoes.
//!
//! The line is padded to its full width. On the real width the `^C` of a person would begin a line of its own,
//! and the one that is cleared at the end would not be ours.
//! A frame goes out whole, by the same queue as the lines around it.

use std::fmt::Write as _;
use std::io::Result;
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::TermLike;

use super::outlet::{self, Outlet};

/// `^C`, and the column in which the cursor waits.
const ROOM: u16 = 3;
/// Of a terminal that does not say its size.
const USUAL: (u16, u16) = (79, 24);

pub(super) struct Terminal {
    out: Outlet,
    frame: Mutex<String>,
}

impl Terminal {
    pub(super) fn stderr() -> Self {
        Self { out: outlet::stderr(), frame: Mutex::default() }
    }

    fn frame(&self) -> MutexGuard<'_, String> {
        self.frame.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cursor(&self, by: usize, to: char) -> Result<()> {
        if by > 0 {
            // Writing to a string does not fail.
            let _ = write!(self.frame(), "\x1b[{by}{to}");
        }
        Ok(())
    }
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Terminal")
    }
}

fn size() -> (u16, u16) {
    let found = terminal_size::terminal_size_of(std::io::stderr());
    found.map_or(USUAL, |(width, height)| (width.0, height.0))
}

impl TermLike for Terminal {
    fn width(&self) -> u16 {
        size().0.saturating_sub(ROOM)
    }

    fn height(&self) -> u16 {
        size().1
    }

    fn move_cursor_up(&self, lines: usize) -> Result<()> {
        self.cursor(lines, 'A')
    }

    fn move_cursor_down(&self, lines: usize) -> Result<()> {
        self.cursor(lines, 'B')
    }

    fn move_cursor_right(&self, columns: usize) -> Result<()> {
        self.cursor(columns, 'C')
    }

    fn move_cursor_left(&self, columns: usize) -> Result<()> {
        self.cursor(columns, 'D')
    }

    fn write_line(&self, text: &str) -> Result<()> {
        let mut frame = self.frame();
        frame.push_str(text);
        frame.push('\n');
        Ok(())
    }

    fn write_str(&self, text: &str) -> Result<()> {
        self.frame().push_str(text);
        Ok(())
    }

    fn clear_line(&self) -> Result<()> {
        self.frame().push_str("\r\x1b[2K");
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        let frame = std::mem::take(&mut *self.frame());
        if !frame.is_empty() {
            self.out.put_live(frame.as_bytes());
        }
        Ok(())
    }
}
