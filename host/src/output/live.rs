//! The last row of a terminal while a task runs: a spinner, the elapsed time, the current work and the tokens so far; a bar
//! while an image is pulled. The row is redrawn in place and removed when the task ends.
//!
//! The row is padded to its full width, less the room for the `^C` that a person types: on the full width the echo would
//! begin a new row, and the row that is cleared at the end would be another one. A frame is written as a whole, by the
//! same queue as the lines around it.

use std::fmt::Write as _;
use std::io::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use super::human::so_far;
use super::progress::last_time;
use super::queued_writer::{self, QueuedWriter};
use act_core::event::EventKind;
use act_core::secret::Secrets;
use act_core::terminal_text;

/// Redraws of the row per second: enough for a smooth spinner, and few enough for a slow connection.
const REDRAWS_PER_SECOND: u8 = 10;
const TICK: Duration = Duration::from_millis(120);
const WORK: &str = "{spinner} {elapsed} {wide_msg}";
const PULL: &str = "{spinner} {elapsed} {bar:10} {percent:>3}% {wide_msg}";

static SHOWN: AtomicBool = AtomicBool::new(false);

/// Returns whether the live row may be visible on stderr.
pub(super) fn is_shown() -> bool {
    SHOWN.load(Ordering::Relaxed)
}

pub(super) struct Live {
    bar: ProgressBar,
    status: Status,
    pulling: bool,
    secrets: Secrets,
}

impl Live {
    /// Shows the row on stderr, which is a terminal.
    pub(super) fn new(secrets: Secrets) -> Self {
        let terminal = Box::new(Terminal::stderr());
        let target = ProgressDrawTarget::term_like_with_hz(terminal, REDRAWS_PER_SECOND);
        let bar = ProgressBar::with_draw_target(None, target).with_style(style(WORK));
        Self { bar, status: Status::default(), pulling: false, secrets }
    }

    /// Removes the row while `write` runs.
    pub(super) fn step_aside(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }

    pub(super) fn observe(&mut self, kind: &EventKind) {
        if matches!(kind, EventKind::TaskFinished { .. }) {
            self.end();
            return;
        }
        // A notice may follow the end of the task.
        if matches!(kind, EventKind::Notice(_)) {
            return;
        }
        if !SHOWN.swap(true, Ordering::Relaxed) {
            self.bar.enable_steady_tick(TICK);
        }
        self.pull(kind);
        if self.status.take(kind) {
            let text = self.status.text();
            self.bar.set_message(self.secrets.redact(&text).into_owned());
        }
    }

    fn pull(&mut self, kind: &EventKind) {
        if let EventKind::ImagePull { current, total: Some(total), .. } = kind {
            if !self.pulling {
                self.bar.set_style(style(PULL));
            }
            self.pulling = true;
            self.bar.set_length(*total);
            self.bar.set_position(current.unwrap_or_default().min(*total));
        } else if self.pulling && !matches!(kind, EventKind::ImagePull { .. }) {
            self.pulling = false;
            self.bar.set_style(style(WORK));
            self.bar.unset_length();
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
        SHOWN.store(false, Ordering::Relaxed);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.end();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// The current work, derived from events.
#[derive(Debug, Default)]
struct Status {
    phase: String,
    /// The Scouts that are asked at the moment: `A`, `B`.
    asked: Vec<&'static str>,
    attempt: String,
    tokens: u64,
}

impl Status {
    /// Takes an event and returns whether the text has changed.
    fn take(&mut self, kind: &EventKind) -> bool {
        match kind {
            EventKind::Milestone { text, attempt } => {
                let text = text.trim_end_matches('.').to_owned();
                match (attempt, text.as_str()) {
                    (None, "Querying Scout A") => self.asks("A"),
                    (None, "Querying Scout B") => self.asks("B"),
                    (Some(_), _) => {
                        self.attempt = text;
                        self.phase = "Editing".into();
                    }
                    (None, _) => self.phase = text,
                }
            }
            // A Scout that failed is asked again, without another milestone.
            EventKind::ScoutStarted { scout, .. } => match letter(scout) {
                Some(letter) => self.asks(letter),
                None => return false,
            },
            EventKind::ScoutFinished { scout, .. } => {
                let letter = letter(scout);
                self.asked.retain(|asked| Some(*asked) != letter);
            }
            EventKind::TaskStarted { .. } => self.phase = "Preparing".into(),
            EventKind::Waiting { .. } => self.phase = "Waiting".into(),
            EventKind::ImagePull { image, status, current, total } => {
                self.phase = format!("{status}{} · {image}", so_far(*current, *total));
            }
            EventKind::ModelRequest { usage, .. } => {
                self.tokens = self.tokens.saturating_add(usage.input).saturating_add(usage.output);
            }
            EventKind::StepStarted { name, last_ms, .. } => {
                self.phase = format!("Running verification, {name}{}", last_time(*last_ms));
            }
            EventKind::StepFinished { name, .. } => {
                self.phase = format!("Running verification, {name} has ended");
            }
            EventKind::CheckStarted { command } => self.phase = format!("Checking: {command}"),
            EventKind::CheckFinished { .. } => self.phase = "Editing".into(),
            EventKind::VerifyFinished { status, warm, .. } => {
                let warm = if *warm { ", warm" } else { "" };
                self.phase = format!("Verified: {}{warm}", status.as_str());
            }
            _ => return false,
        }
        true
    }

    /// Adds a Scout to those that are asked. Both may work at the same time; the phase before continues when all have answered.
    fn asks(&mut self, letter: &'static str) {
        if !self.asked.contains(&letter) {
            self.asked.push(letter);
            self.asked.sort_unstable();
        }
    }

    /// Returns the text of the row. The shortest part is first, because a narrow terminal cuts the end.
    fn text(&self) -> String {
        let tokens = match self.tokens {
            0 => String::new(),
            few @ 1..1000 => format!("{few} tokens"),
            many => format!("{}.{}k tokens", many / 1000, many % 1000 / 100),
        };
        let asked = match self.asked.as_slice() {
            [] => None,
            [one] => Some(format!("Querying Scout {one}")),
            several => Some(format!("Querying Scouts {}", several.join(" and "))),
        };
        let phase = asked.as_deref().unwrap_or(&self.phase);
        let parts = [self.attempt.as_str(), tokens.as_str(), phase];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        terminal_text::line(&parts.join(" · ")).into_owned()
    }
}

/// Returns the letter of a built-in Scout.
fn letter(scout: &str) -> Option<&'static str> {
    match scout {
        "scout-a" => Some("A"),
        "scout-b" => Some("B"),
        _ => None,
    }
}

/// Columns for `^C` and the cursor.
pub(super) const ROOM: u16 = 3;
/// Size of a terminal that does not report it.
const USUAL: (u16, u16) = (79, 24);

/// A terminal that is written by the queue of its stream.
pub(super) struct Terminal {
    out: QueuedWriter,
    size: fn() -> (u16, u16),
    frame: Mutex<String>,
}

impl Terminal {
    fn stderr() -> Self {
        let size = || size_of(std::io::stderr());
        Self { out: queued_writer::stderr(), size, frame: Mutex::default() }
    }

    pub(super) fn stdout() -> Self {
        let size = || size_of(std::io::stdout());
        Self { out: queued_writer::stdout(), size, frame: Mutex::default() }
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

/// Returns the columns and rows of a terminal.
pub(super) fn size_of(stream: impl std::os::fd::AsFd) -> (u16, u16) {
    let found = terminal_size::terminal_size_of(stream);
    found.map_or(USUAL, |(width, height)| (width.0, height.0))
}

impl TermLike for Terminal {
    fn width(&self) -> u16 {
        (self.size)().0.saturating_sub(ROOM)
    }

    fn height(&self) -> u16 {
        (self.size)().1
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
            self.out.put_frame(frame.as_bytes());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::{Milestone, ModelUsage};

    #[test]
    fn the_line_says_attempt_tokens_and_phase() {
        let mut status = Status::default();
        status.take(&Milestone::Analyzing.into());
        assert_eq!(status.text(), "Analyzing codebase");
        status.take(&Milestone::QueryingScoutA.into());
        status.take(&Milestone::QueryingScoutB.into());
        assert_eq!(status.text(), "Querying Scouts A and B");
        for scout in ["scout-a", "scout-b"] {
            status.take(&finished(scout, "ok"));
        }
        status.take(&EventKind::ModelRequest {
            role: "editor".into(),
            request_id: None,
            status: Some(200),
            cost_usd: None,
            attempt: 1,
            usage: ModelUsage { input: 12_000, cached: 9_000, cache_write: 0, output: 345 },
            duration_ms: 1,
            error: None,
        });
        status.take(&Milestone::Attempt { number: 2, of: 12 }.into());
        assert_eq!(status.text(), "Attempt 2/12 · 12.3k tokens · Editing");
        status.take(&Milestone::Verifying.into());
        assert_eq!(status.text(), "Attempt 2/12 · 12.3k tokens · Running verification");
    }

    // CLI-14
    #[test]
    fn the_row_names_the_step_that_runs() {
        let mut status = Status::default();
        status.take(&Milestone::Verifying.into());
        let (run_id, name) = ("run_x".to_owned(), "unit tests".to_owned());
        let started = |last_ms| {
            let (run_id, name) = (run_id.clone(), name.clone());
            EventKind::StepStarted { run_id, name, last_ms }
        };
        status.take(&started(None));
        assert_eq!(status.text(), "Running verification, unit tests");
        status.take(&started(Some(12_345)));
        assert_eq!(status.text(), "Running verification, unit tests (12.3 s last time)");
    }

    fn finished(scout: &str, outcome: &str) -> EventKind {
        let (scout, outcome) = (scout.to_owned(), outcome.to_owned());
        EventKind::ScoutFinished {
            scout,
            outcome,
            duration_ms: 1,
            summary: String::new(),
            error: None,
        }
    }

    #[test]
    fn a_query_is_over_when_the_scouts_have_answered() {
        let mut status = Status::default();
        let mut after = |kind: EventKind| {
            status.take(&kind);
            status.text()
        };
        let started = EventKind::ScoutStarted {
            scout: "scout-a".into(),
            sha256: String::new(),
            attempt: 2,
            question: "where?".into(),
        };
        for (kind, text) in [
            (Milestone::Analyzing.into(), "Analyzing codebase"),
            (Milestone::QueryingScoutA.into(), "Querying Scout A"),
            (Milestone::QueryingScoutB.into(), "Querying Scouts A and B"),
            (finished("scout-b", "ok"), "Querying Scout A"),
            (finished("scout-a", "failed"), "Analyzing codebase"),
            (started, "Querying Scout A"),
            (finished("licences", "ok"), "Querying Scout A"),
            (finished("scout-a", "ok"), "Analyzing codebase"),
        ] {
            assert_eq!(after(kind), text);
        }
    }

    #[test]
    fn names_from_elsewhere_are_inert_in_the_line() {
        // security line 166
        let mut status = Status::default();
        status.take(&EventKind::ImagePull {
            image: "evil\x1b[2J\n".into(),
            status: "down\rloading".into(),
            current: Some(1 << 20),
            total: Some(10 << 20),
        });
        assert_eq!(status.text(), "down\\rloading 1.0 MiB of 10.0 MiB · evil\\n");
    }

    #[test]
    fn both_templates_are_valid() {
        for template in [WORK, PULL] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
