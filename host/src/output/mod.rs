//! What a person, a pipe or a log sees: readers of events, results and failures. Nothing else prints.
//!
//! stdout gets the result, stderr everything on the way to it. All text goes through `terminal_text`.
//! A reader that went away (`act run … | head -1`) is no failure: the exit code tells how the task ended.

mod colour;
mod failure;
mod human;
mod image_pull;
mod line;
mod outcome;
mod panic;
mod progress;
mod step_lines;
pub mod terminal_text;

use std::io::{IsTerminal, Write};

use crate::event::Sink;

pub use colour::ColourWish;
pub use failure::Failure;
pub use line::{Line, Tone};
pub use panic::install_hook as install_panic_hook;

/// Chooses the readers of one command and holds what they have in common.
#[derive(Debug, Clone)]
pub struct Output {
    colour_out: bool,
    colour_err: bool,
    verbose: bool,
}

impl Output {
    pub fn new(wish: ColourWish, verbose: bool) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let around = |terminal| colour::Surroundings {
            terminal,
            no_color: set("NO_COLOR"),
            dumb: std::env::var_os("TERM").is_some_and(|term| term == "dumb"),
        };
        Self {
            colour_out: colour::wanted(wish, around(std::io::stdout().is_terminal())),
            colour_err: colour::wanted(wish, around(std::io::stderr().is_terminal())),
            verbose,
        }
    }

    /// The readers of a task's events: progress on stderr, the result on stdout.
    pub fn sinks(&self) -> Vec<Box<dyn Sink>> {
        vec![
            Box::new(human::Human::new(std::io::stderr(), self.colour_err, self.verbose)),
            Box::new(outcome::Outcome::new(std::io::stdout(), self.colour_out)),
        ]
    }

    /// Result text of a command without events; several lines, ends with a line feed.
    pub fn result(&self, text: &str) {
        let text = terminal_text::block(text);
        let end = if text.ends_with('\n') { "" } else { "\n" };
        put(&mut std::io::stdout().lock(), &format!("{text}{end}"));
    }

    /// The result of a command that answers with one JSON document.
    pub fn json(&self, document: &str) {
        let text = terminal_text::json(document);
        let end = if text.ends_with('\n') { "" } else { "\n" };
        put(&mut std::io::stdout().lock(), &format!("{text}{end}"));
    }

    /// One line of the result.
    pub fn result_line(&self, line: &Line) {
        put(&mut std::io::stdout().lock(), &line.render(self.colour_out));
    }

    /// One line on the way to the result.
    pub fn progress(&self, line: &Line) {
        put(&mut std::io::stderr().lock(), &line.render(self.colour_err));
    }

    /// Several lines on the way to the result.
    pub fn notice(&self, text: &str) {
        put(&mut std::io::stderr().lock(), &terminal_text::block(text));
    }

    /// The one place where a failure is written.
    pub fn failure(&self, failure: &Failure) {
        let text: String =
            failure.lines().iter().map(|line| line.render(self.colour_err)).collect();
        put(&mut std::io::stderr().lock(), &text);
    }
}

/// Writes and flushes; a stream that nobody reads is no reason to stop.
fn put(stream: &mut impl Write, text: &str) {
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
}
