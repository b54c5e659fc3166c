//! Everything that is printed: events, results and failures. No other code prints.
//!
//! stdout gets the result, stderr the progress. All text is sanitised by `terminal_text`. A closed pipe
//! (`act run … | head -1`) is no failure: the exit code is that of the task.

mod hints;
mod human;
mod line;
mod live;
mod panic;
mod patch_out;
mod progress;
mod queued_writer;
mod rows;
mod sanitized_copy;
#[cfg(test)]
mod schemas;
mod task_end;

use std::borrow::Cow;
use std::io::{IsTerminal, Read, Write};
use std::time::Duration;

use act_core::{Document, Failure, Schema, terminal_text};
use serde::Serialize;

use act_core::event::{Events, Sink};
use act_core::exit::Exit;
use act_core::secret::Secrets;

use act_task::JsonLines;

pub use hints::{RepoHint, from_here};
pub use line::{ColourWish, Line, Tone};
pub use panic::install_hook as install_panic_hook;
pub(crate) use progress::cost;
pub use rows::Rows;

/// Width of a line when no terminal reports its size.
const COLUMNS: usize = 100;

/// The output options of one command.
#[derive(Debug, Clone, Default)]
pub struct Style {
    pub colour: ColourWish,
    pub verbose: bool,
    /// stdout is for a program.
    pub json: bool,
    /// stdout is for the patch of a dry run, unless it is for a program.
    pub dry_run: bool,
    /// The version of the documents on stdout.
    pub schema: Schema,
    /// Keys that must not be printed.
    pub secrets: Secrets,
    /// The repository that `--repo` named; `None` for a command that works in the current directory.
    pub repo: Option<RepoHint>,
}

/// The output of one command.
#[derive(Debug, Clone)]
pub struct Output {
    colour_out: bool,
    colour_err: bool,
    /// stdout is a terminal.
    terminal_out: bool,
    /// stderr is a terminal that can redraw a row.
    redraws: bool,
    /// stdout is one.
    redraws_out: bool,
    verbose: bool,
    json: bool,
    dry_run: bool,
    schema: Schema,
    secrets: Secrets,
    repo: Option<RepoHint>,
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
            redraws_out: out && !dumb,
            verbose: style.verbose,
            json: style.json,
            dry_run: style.dry_run,
            schema: style.schema,
            secrets: style.secrets,
            repo: style.repo,
        }
    }

    /// Completes the commands in a message of act, so that they work in the current directory.
    pub fn with_repo<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.repo.as_ref().map_or(Cow::Borrowed(text), |repo| repo.complete(text))
    }

    /// Returns whether `--repo` was typed.
    pub fn names_repo(&self) -> bool {
        self.repo.is_some()
    }

    /// Completes one command, so that it works in the current directory.
    pub fn command<'t>(&self, command: &'t str) -> Cow<'t, str> {
        self.repo.as_ref().map_or(Cow::Borrowed(command), |repo| repo.command(command))
    }

    /// Returns the sinks of a task: progress on stderr; on stdout the result, or for a program every event.
    pub fn sinks(&self) -> Vec<Box<dyn Sink>> {
        let (out, secrets) = (queued_writer::stdout(), || self.secrets.clone());
        let mut sinks = vec![self.progress_sink()];
        if self.json {
            sinks.push(self.completed(JsonLines::new(out, secrets())));
        } else if self.dry_run {
            let columns = || columns_of(std::io::stderr());
            let end = task_end::TaskEnd::new(queued_writer::stderr(), self.colour_err, secrets());
            sinks.push(self.completed(end.in_columns(columns).of_dry_run()));
            sinks.push(Box::new(patch_out::PatchOut::new(out, self.terminal_out, secrets())));
        } else {
            let columns = || columns_of(std::io::stdout());
            let end = task_end::TaskEnd::new(out, self.colour_out, secrets());
            sinks.push(self.completed(end.in_columns(columns)));
        }
        sinks
    }

    /// Returns the sink for progress alone, for a command whose result is not an event.
    pub fn progress_sink(&self) -> Box<dyn Sink> {
        self.human_sink(self.human())
    }

    /// Returns the sink for the progress of a verification without a task, which also shows the steps.
    pub fn verification_sink(&self) -> Box<dyn Sink> {
        self.human_sink(self.human().with_steps())
    }

    fn human(&self) -> human::Human<queued_writer::QueuedWriter> {
        human::Human::new(
            queued_writer::stderr(),
            self.colour_err,
            self.verbose,
            self.secrets.clone(),
        )
    }

    fn human_sink(&self, human: human::Human<queued_writer::QueuedWriter>) -> Box<dyn Sink> {
        let live = self.redraws.then(|| live::Live::new(self.secrets.clone()));
        self.completed(human.with_live(live).in_columns(|| columns_of(std::io::stderr())))
    }

    /// Returns a stream of events that prints progress and notices, for a command whose result is not an event.
    pub fn events(&self) -> Events {
        Events::new("", vec![self.progress_sink()])
    }

    /// Lets a sink see every command in the messages of act so that it works in the current directory.
    fn completed(&self, sink: impl Sink + 'static) -> Box<dyn Sink> {
        match self.repo.clone() {
            None => Box::new(sink),
            Some(repo) => Box::new(hints::Completed { repo, sink }),
        }
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Prints the result of a command for a program: one line of JSON, in the version that the caller wants.
    pub fn document(&self, document: &impl Document) {
        self.line_of_json(&self.schema.to_json(document));
    }

    /// Prints one line of JSON whose shape is defined elsewhere, by a standard, by another program, or by the file that holds
    /// it, so that it has no version of ours.
    pub fn verbatim(&self, value: &impl Serialize) {
        // Serialisation fails only for maps whose keys are not text.
        self.line_of_json(&serde_json::to_string(value).unwrap_or_default());
    }

    fn line_of_json(&self, text: &str) {
        self.out(&format!("{}\n", terminal_text::json(text)));
    }

    /// Prints the result of a command without events, with a line feed at its end.
    pub fn result(&self, text: &str) {
        let text = line::block(text, columns_of(std::io::stdout()));
        let end = if text.ends_with('\n') { "" } else { "\n" };
        self.out(&format!("{text}{end}"));
    }

    /// Prints a result of any length while it is read; stops reading when stdout is closed.
    ///
    /// # Errors
    ///
    /// Returns the first error of reading.
    pub fn copy(&self, from: impl Read) -> std::io::Result<()> {
        queued_writer::stdout().drain(None);
        let mut out = std::io::stdout().lock();
        sanitized_copy::copy(from, |piece| {
            let text = self.secrets.redact(piece);
            out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
        })
    }

    /// Prints a result that is one JSON document already.
    pub fn json(&self, document: &str) {
        let text = terminal_text::json(document);
        let end = if text.ends_with('\n') { "" } else { "\n" };
        write(&mut queued_writer::stdout(), &format!("{text}{end}"));
    }

    /// Cuts a text to the rest of a line of the result, of which `taken` columns are used.
    pub fn excerpt(&self, text: &str, taken: usize) -> String {
        let width = terminal_size::terminal_size_of(std::io::stdout());
        let from_environment =
            || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
        let columns = width.map(|(width, _)| usize::from(width.0)).or_else(from_environment);
        let columns = columns.unwrap_or(COLUMNS);
        line::excerpt(&self.secrets.redact(text), columns.saturating_sub(taken))
    }

    /// Returns the rows at the end of stdout that change in place; `None` for a program and where rows cannot be redrawn.
    pub fn rows(&self) -> Option<Rows> {
        let redraws = self.redraws_out && !self.json;
        redraws.then(|| Rows::new(self.colour_out, self.secrets.clone()))
    }

    /// Returns how many columns a row of the result has.
    pub fn columns(&self) -> usize {
        rows::columns()
    }

    /// Cuts a text to this number of columns.
    pub fn cut(&self, text: &str, columns: usize) -> String {
        line::excerpt(&self.secrets.redact(text), columns)
    }

    /// Returns whether the reader of stdout has gone.
    pub fn is_closed(&self) -> bool {
        queued_writer::stdout().is_broken()
    }

    /// Prints a patch: exact bytes for a program, except for keys; sanitised for a terminal.
    pub fn patch(&self, bytes: &[u8]) {
        patch_out::write(&mut queued_writer::stdout(), bytes, self.terminal_out, &self.secrets);
    }

    /// Prints one line of the result, folded on a narrow terminal.
    pub fn result_line(&self, line: &Line) {
        self.out(&line::rendered(line, columns_of(std::io::stdout()), self.colour_out));
    }

    /// Prints one line of progress, folded on a narrow terminal.
    pub fn progress(&self, line: &Line) {
        self.err(&line::rendered(line, columns_of(std::io::stderr()), self.colour_err));
    }

    /// Prints a warning.
    pub fn caution(&self, what: &str) {
        self.progress(&progress::warning(&self.with_repo(what)));
    }

    /// Prints several lines of progress.
    pub fn notice(&self, text: &str) {
        self.err(&line::block(text, columns_of(std::io::stderr())));
    }

    /// Prints a failure on stderr, and with `--json` also on stdout.
    pub fn failure(&self, failure: &Failure) {
        let failure = &Failure {
            hint: failure.hint.as_deref().map(|hint| self.with_repo(hint).into_owned()),
            ..failure.clone()
        };
        failure_lines(failure).iter().for_each(|line| self.progress(line));
        // A usage error is for the person who typed the command.
        if self.json && failure.exit != Exit::Usage {
            self.document(&failure.document());
        }
    }

    fn out(&self, text: &str) {
        queued_writer::stderr().wait_briefly();
        write(&mut queued_writer::stdout(), &self.secrets.redact(text));
    }

    fn err(&self, text: &str) {
        write(&mut queued_writer::stderr(), &self.secrets.redact(text));
    }
}

/// How long the process waits, before it ends, for a reader that has stopped reading.
const LAST_CHANCE: Duration = Duration::from_secs(10);
/// The same limit after a signal. It is shorter, because the user wants the process to end.
const LAST_CHANCE_CANCELLED: Duration = Duration::from_secs(2);

/// Returns the message and the hint of a failure, one line each.
fn failure_lines(failure: &Failure) -> Vec<Line> {
    let message = Line::of(Tone::Bad, "act:").and(Tone::Plain, format!(" {}", failure.message));
    let hint = failure
        .hint
        .as_ref()
        .map(|hint| Line::of(Tone::Strong, "hint:").and(Tone::Plain, format!(" {hint}")));
    std::iter::once(message).chain(hint).collect()
}

/// Waits until everything is written, without a limit. Not for commands that catch signals.
pub fn wait_for_readers() {
    queued_writer::stderr().drain(None);
    queued_writer::stdout().drain(None);
}

/// Flushes the output at the end of the process, and reports lines that were dropped.
pub fn drain(exit: Exit) {
    let still = match exit {
        Exit::Cancelled => LAST_CHANCE_CANCELLED,
        _ => LAST_CHANCE,
    };
    let out = queued_writer::stdout();
    out.drain(Some(still));
    if out.lost() > 0 {
        let lost = out.lost();
        let _ = queued_writer::stderr().put(
            format!(
                "act: stdout was not read in time: {lost} lines are missing there; the journal has all\n"
            )
            .as_bytes(),
        );
    }
    queued_writer::stderr().drain(Some(still));
}

/// Writes a text and waits a short time, so that output on the other stream appears below it.
fn write(stream: &mut queued_writer::QueuedWriter, text: &str) {
    put(stream, text);
    stream.wait_briefly();
}

/// Writes a text; a closed stream is ignored.
fn put(stream: &mut impl Write, text: &str) {
    let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
}

/// Returns the width of a terminal; not limited for other streams.
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
