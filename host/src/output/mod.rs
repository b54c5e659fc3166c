//! What a person, a pipe or a log sees: readers of events, results and failures. Nothing else prints.
//!
//! stdout gets the result, stderr everything on the way to it. All text goes through `terminal_text`.
//! A reader that went away (`act run … | head -1`) is no failure: the exit code tells how the task ended.

mod hints;
mod human;
mod json_lines;
mod line;
mod live;
mod outcome;
mod outlet;
mod panic;
mod patch_out;
mod pieces;
mod progress;
#[cfg(test)]
mod schemas;

use std::borrow::Cow;
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::time::Duration;

use act_core::{Failure, terminal_text};
use serde::Serialize;

use act_core::event::Sink;
use act_core::exit::Exit;
use act_core::secret::Secrets;

pub use hints::{Place, from_here};
pub use line::{ColourWish, Line, Tone};
pub use panic::install_hook as install_panic_hook;

/// Of a line for which no terminal says how long it may be.
const COLUMNS: usize = 100;

/// How one command was asked to speak.
#[derive(Debug, Clone, Default)]
pub struct Style {
    pub colour: ColourWish,
    pub verbose: bool,
    /// stdout is for a program.
    pub json: bool,
    /// stdout is for the patch of a dry run, unless it is for a program.
    pub dry_run: bool,
    /// What no stream may carry.
    pub secrets: Secrets,
    /// None where a command works in the directory that it was typed in.
    pub place: Option<Place>,
}

/// Chooses the readers of one command and holds what they have in common.
#[derive(Debug, Clone)]
pub struct Output {
    colour_out: bool,
    colour_err: bool,
    /// Nobody but a person reads stdout.
    terminal_out: bool,
    /// stderr is a terminal that can redraw a line.
    redraws: bool,
    verbose: bool,
    json: bool,
    dry_run: bool,
    secrets: Secrets,
    place: Option<Place>,
}

impl Output {
    pub fn new(style: Style) -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let around = |terminal| line::Surroundings { terminal, no_color: set("NO_COLOR"), dumb };
        let (out, err) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
        Self {
            colour_out: line::wanted(style.colour, around(out)),
            colour_err: line::wanted(style.colour, around(err)),
            terminal_out: out,
            redraws: err && !dumb,
            verbose: style.verbose,
            json: style.json,
            dry_run: style.dry_run,
            secrets: style.secrets,
            place: style.place,
        }
    }

    /// Our own words, with what they tell to type so that it works here.
    pub fn told<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.place.as_ref().map_or(Cow::Borrowed(text), |place| place.complete(text))
    }

    /// A command of ours, so that it works here.
    pub fn command<'t>(&self, command: &'t str) -> Cow<'t, str> {
        self.place.as_ref().map_or(Cow::Borrowed(command), |place| place.command(command))
    }

    /// The readers of a task's events: progress on stderr, on stdout the result or, for a program, all.
    pub fn sinks(&self) -> Vec<Box<dyn Sink>> {
        let (out, secrets) = (outlet::stdout(), || self.secrets.clone());
        let mut sinks = vec![self.progress_sink()];
        if self.json {
            sinks.push(Box::new(json_lines::JsonLines::new(out, secrets())));
        } else if self.dry_run {
            let columns = || columns_of(std::io::stderr());
            let words = outcome::Outcome::new(outlet::stderr(), self.colour_err, secrets());
            sinks.push(Box::new(words.in_columns(columns).of_dry_run()));
            sinks.push(Box::new(patch_out::PatchOut::new(out, self.terminal_out, secrets())));
        } else {
            let columns = || columns_of(std::io::stdout());
            let words = outcome::Outcome::new(out, self.colour_out, secrets());
            sinks.push(Box::new(words.in_columns(columns)));
        }
        sinks
    }

    /// Progress alone, for a command whose result is no event.
    pub fn progress_sink(&self) -> Box<dyn Sink> {
        let live = self.redraws.then(|| live::Live::new(self.secrets.clone()));
        let human = human::Human::new(
            outlet::stderr(),
            self.colour_err,
            self.verbose,
            self.secrets.clone(),
        );
        Box::new(human.with_live(live).in_columns(|| columns_of(std::io::stderr())))
    }

    /// The reader that keeps a task's events in a file. Without one the task goes on; it is said once, and `lost`
    /// is told.
    pub fn journal(
        &self,
        file: std::io::Result<File>,
        lost: impl FnOnce() + Send + 'static,
    ) -> Option<Box<dyn Sink>> {
        let output = self.clone();
        let trouble = move |error: std::io::Error| {
            lost();
            output.caution(&format!("the journal of this task cannot be written: {error}"));
        };
        match file {
            Ok(file) => {
                let lines = json_lines::JsonLines::new(file, self.secrets.clone());
                Some(Box::new(lines.or_say(trouble)))
            }
            Err(error) => {
                trouble(error);
                None
            }
        }
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    /// What no file that is written for people may hold either.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The result of a command for a program: one line.
    pub fn document(&self, document: &impl Serialize) {
        // Only a map with keys that are no text would fail.
        let text = serde_json::to_string(document).unwrap_or_default();
        self.out(&format!("{}\n", terminal_text::json(&text)));
    }

    /// Result text of a command without events; several lines, ends with a line feed.
    pub fn result(&self, text: &str) {
        let text = line::block(text, columns_of(std::io::stdout()));
        let end = if text.ends_with('\n') { "" } else { "\n" };
        self.out(&format!("{text}{end}"));
    }

    /// Result text of any length; read as it is printed, and no further than somebody reads on.
    pub fn copy(&self, from: impl Read) -> std::io::Result<()> {
        outlet::stdout().see_off(None);
        let mut out = std::io::stdout().lock();
        pieces::copy(from, |piece| {
            let text = self.secrets.redact(piece);
            out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
        })
    }

    /// The result of a command that answers with one JSON document.
    pub fn json(&self, document: &str) {
        let text = terminal_text::json(document);
        let end = if text.ends_with('\n') { "" } else { "\n" };
        write(&mut outlet::stdout(), &format!("{text}{end}"));
    }

    /// The beginning of a text for the rest of a line of the result, `taken` columns of which are used.
    pub fn excerpt(&self, text: &str, taken: usize) -> String {
        let width = terminal_size::terminal_size_of(std::io::stdout());
        let told = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
        let columns = width.map(|(width, _)| usize::from(width.0)).or_else(told);
        let columns = columns.unwrap_or(COLUMNS);
        line::excerpt(&self.secrets.redact(text), columns.saturating_sub(taken))
    }

    /// A patch: byte for byte for a program, but for keys; on a terminal without effect on it.
    pub fn patch(&self, bytes: &[u8]) {
        patch_out::write(&mut outlet::stdout(), bytes, self.terminal_out, &self.secrets);
    }

    /// One line of the result, in as many rows as a narrow terminal needs; a program gets one.
    pub fn result_line(&self, line: &Line) {
        self.out(&line::rendered(line, columns_of(std::io::stdout()), self.colour_out));
    }

    /// The same on the way to it.
    pub fn progress(&self, line: &Line) {
        self.err(&line::rendered(line, columns_of(std::io::stderr()), self.colour_err));
    }

    /// Trouble that ends nothing.
    pub fn caution(&self, what: &str) {
        let what = format!(" {}", self.told(what));
        self.progress(&Line::of(Tone::Caution, "act:").and(Tone::Plain, what));
    }

    /// Several lines on the way to the result.
    pub fn notice(&self, text: &str) {
        self.err(&line::block(text, columns_of(std::io::stderr())));
    }

    /// The one place where a failure is written: for people, and for a program if it is one that reads.
    pub fn failure(&self, failure: &Failure) {
        let failure = &Failure {
            hint: failure.hint.as_deref().map(|hint| self.told(hint).into_owned()),
            ..failure.clone()
        };
        failure_lines(failure).iter().for_each(|line| self.progress(line));
        // What makes no sense as a command line is told to whoever wrote it.
        if self.json && failure.exit != Exit::Usage {
            self.out(&format!("{}\n", terminal_text::json(&failure.to_json())));
        }
    }

    fn out(&self, text: &str) {
        outlet::stderr().settle();
        write(&mut outlet::stdout(), &self.secrets.redact(text));
    }

    fn err(&self, text: &str) {
        write(&mut outlet::stderr(), &self.secrets.redact(text));
    }
}

/// For a reader that has stopped reading, when the process has nothing else left to do.
const LAST_CHANCE: Duration = Duration::from_secs(10);
/// The same when somebody wants the end.
const LAST_CHANCE_CANCELLED: Duration = Duration::from_secs(2);

/// The message and the hint of a failure, a line each.
fn failure_lines(failure: &Failure) -> Vec<Line> {
    let message = Line::of(Tone::Bad, "act:").and(Tone::Plain, format!(" {}", failure.message));
    let hint = failure
        .hint
        .as_ref()
        .map(|hint| Line::of(Tone::Strong, "hint:").and(Tone::Plain, format!(" {hint}")));
    std::iter::once(message).chain(hint).collect()
}

/// Waits until everything has been read, whenever that is. Not where signals are caught.
pub fn wait_for_readers() {
    outlet::stderr().see_off(None);
    outlet::stdout().see_off(None);
}

/// The last thing a process does: gives those who read the time to do so.
pub fn see_off(exit: Exit) {
    let still = match exit {
        Exit::Cancelled => LAST_CHANCE_CANCELLED,
        _ => LAST_CHANCE,
    };
    let out = outlet::stdout();
    out.see_off(Some(still));
    if out.lost() > 0 {
        let lost = out.lost();
        let _ = outlet::stderr().put(
            format!(
                "act: nobody read stdout: {lost} lines are missing there; the journal has all\n"
            )
            .as_bytes(),
        );
    }
    outlet::stderr().see_off(Some(still));
}

/// On its way, and usually there: what comes next on the other stream stands below it.
fn write(stream: &mut outlet::Outlet, text: &str) {
    put(stream, text);
    stream.settle();
}

/// Writes and flushes; a stream that nobody reads is no reason to stop.
fn put(stream: &mut impl Write, text: &str) {
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
}

/// Without end where nobody looks.
fn columns_of(stream: impl std::os::fd::AsFd) -> usize {
    terminal_size::terminal_size_of(stream).map_or(usize::MAX, |(width, _)| usize::from(width.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_and_its_hint_another() {
        let failure = Failure::refused("task_empty", "task is empty\x1b[2J\nact: all is well")
            .hint("say what to do");
        let text: String = failure_lines(&failure).iter().map(|line| line.render(false)).collect();
        assert_eq!(text, "act: task is empty\\nact: all is well\nhint: say what to do\n");
    }
}
