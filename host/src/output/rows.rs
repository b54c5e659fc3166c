//! Rows of a result that change in place on a terminal, such as the tasks of `act status --follow`. What is printed as a line
//! appears above them and stays.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::line::Line;
use super::live::{ROOM, Terminal};
use act_core::secret::Secrets;

/// Redraws per second: as often as the tasks are looked at, and few enough for a slow connection.
const REDRAWS_PER_SECOND: u8 = 10;
/// Columns of a line where no terminal reports its size.
const COLUMNS: usize = 100;

/// The rows at the end of stdout, which is a terminal.
pub struct Rows {
    all: MultiProgress,
    rows: Vec<ProgressBar>,
    colour: bool,
    secrets: Secrets,
}

impl Rows {
    pub(super) fn new(colour: bool, secrets: Secrets) -> Self {
        let terminal = Box::new(Terminal::stdout());
        let target = ProgressDrawTarget::term_like_with_hz(terminal, REDRAWS_PER_SECOND);
        Self { all: MultiProgress::with_draw_target(target), rows: vec![], colour, secrets }
    }

    /// Shows these lines in place of the last ones. Those that a screen has no room for are counted in its last row.
    pub fn show(&mut self, lines: &[Line]) {
        let room = usize::from(super::live::size_of(std::io::stdout()).1).saturating_sub(1).max(1);
        let mut texts: Vec<String> = lines.iter().map(|line| self.text(line)).collect();
        if texts.len() > room {
            let hidden = texts.len() - (room - 1);
            texts.truncate(room - 1);
            texts.push(format!("and {hidden} more"));
        }
        for row in self.rows.drain(texts.len().min(self.rows.len())..) {
            row.finish_and_clear();
            self.all.remove(&row);
        }
        while self.rows.len() < texts.len() {
            let style = ProgressStyle::with_template("{msg}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_spinner());
            self.rows.push(self.all.add(ProgressBar::new_spinner().with_style(style)));
        }
        for (row, text) in self.rows.iter().zip(texts) {
            if row.message() != text {
                row.set_message(text);
                row.tick();
            }
        }
    }

    /// Prints a line above the rows.
    pub fn print(&self, line: &Line) {
        // The terminal is written by a queue, which reports no error.
        let _ = self.all.println(self.text(line));
    }

    fn text(&self, line: &Line) -> String {
        let text = line.render(self.colour);
        self.secrets.redact(text.trim_end_matches('\n')).into_owned()
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.rows.drain(..).for_each(|row| row.finish_and_clear());
    }
}

/// Returns how many columns a row of stdout may have, so that it stays one row and leaves room for what a person types.
pub(super) fn columns() -> usize {
    let found = terminal_size::terminal_size_of(std::io::stdout());
    let found = found.map(|(width, _)| usize::from(width.0.saturating_sub(ROOM)));
    let from_environment =
        || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    found.or_else(from_environment).unwrap_or(COLUMNS)
}
