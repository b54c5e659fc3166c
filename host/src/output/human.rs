//! Writes events for a person: lines on stderr as they happen.
//!
//! Each line is written at once and as a whole. On a terminal a live row below the lines shows the current work.

use std::collections::BTreeSet;
use std::io::Write;

use super::line::{Line, Tone};
use super::live::Live;
use super::{line, progress};
use act_core::event::{Event, EventKind, Sink, StepOutput};
use act_core::secret::Secrets;

pub(super) struct Human<W> {
    out: W,
    colour: bool,
    verbose: bool,
    secrets: Secrets,
    /// The beginning and the end of each step get a line, unless the live row shows them.
    steps: bool,
    /// The live row; only on a terminal.
    live: Option<Live>,
    columns: fn() -> usize,
    pull: PullLines,
    step: StepLines,
}

impl<W: Write> Human<W> {
    pub(super) fn new(out: W, colour: bool, verbose: bool, secrets: Secrets) -> Self {
        let (pull, step) = (PullLines::default(), StepLines::default());
        Self {
            out,
            colour,
            verbose,
            secrets,
            steps: false,
            live: None,
            columns: || usize::MAX,
            pull,
            step,
        }
    }

    /// Shows the beginning and the end of each step also without `--verbose`: for a command that does nothing else.
    pub(super) fn with_steps(mut self) -> Self {
        self.steps = true;
        self
    }

    pub(super) fn with_live(mut self, live: Option<Live>) -> Self {
        self.live = live;
        self
    }

    /// Sets how the width is measured: a terminal may be resized at any time.
    pub(super) fn in_columns(mut self, columns: fn() -> usize) -> Self {
        self.columns = columns;
        self
    }

    fn show(&mut self, lines: impl IntoIterator<Item = Line>) {
        let columns = (self.columns)();
        let lines = lines.into_iter();
        let text: String = lines.map(|line| line::rendered(&line, columns, self.colour)).collect();
        if text.is_empty() {
            return;
        }
        let text = self.secrets.redact(&text);
        match &self.live {
            Some(live) => live.step_aside(|| super::put(&mut self.out, &text)),
            None => super::put(&mut self.out, &text),
        }
    }
}

/// Marks a line of a step, so that the step cannot imitate messages of act.
fn step_line(text: String) -> Line {
    Line::of(Tone::Faint, "  | ").and(Tone::Plain, text)
}

impl<W: Write + Send> Sink for Human<W> {
    fn event(&mut self, event: &Event) {
        if let Some(live) = &mut self.live {
            live.observe(&event.kind);
        }
        match &event.kind {
            EventKind::StepOutput(StepOutput(bytes)) => {
                if self.verbose {
                    let lines = self.step.push(bytes);
                    self.show(lines.into_iter().map(step_line));
                }
            }
            // The live row shows it better.
            EventKind::ImagePull { .. } if self.live.is_some() => {}
            EventKind::ImagePull { image, status, current, total } => {
                let line = self.pull.line(image, status, *current, *total);
                self.show(line);
            }
            kind @ (EventKind::StepStarted { .. } | EventKind::StepFinished { .. })
                if self.steps && !self.verbose && self.live.is_none() =>
            {
                self.show(progress::details(kind));
            }
            kind => {
                let rest = match kind {
                    EventKind::StepFinished { .. } | EventKind::VerifyFinished { .. } => {
                        self.step.take()
                    }
                    _ => None,
                };
                self.show(
                    rest.map(step_line).into_iter().chain(progress::lines(kind, self.verbose)),
                );
            }
        }
    }
}

/// Largest number of different statuses that are shown. Engines have fewer; a hostile registry may invent more.
const MAX_STATUSES: usize = 40;

/// Selects the reports of an image pull that get a line: each status once, since layers pass through them in parallel,
/// and each further tenth of the bytes.
#[derive(Debug, Default)]
pub(super) struct PullLines {
    image: String,
    statuses: BTreeSet<String>,
    tenths: u64,
}

impl PullLines {
    pub(super) fn line(
        &mut self,
        image: &str,
        status: &str,
        current: Option<u64>,
        total: Option<u64>,
    ) -> Option<Line> {
        if self.image != image {
            *self = Self { image: image.into(), ..Self::default() };
        }
        let tenths = match (current, total) {
            (Some(current), Some(total)) if total > 0 => {
                u64::try_from(u128::from(current.min(total)) * 10 / u128::from(total)).unwrap_or(10)
            }
            _ => 0,
        };
        let new = self.statuses.len() < MAX_STATUSES && self.statuses.insert(status.into());
        if !new && tenths <= self.tenths {
            return None;
        }
        self.tenths = self.tenths.max(tenths);
        let so_far = so_far(current, total);
        Some(Line::of(Tone::Faint, format!("Image {image}: {status}{so_far}")))
    }
}

/// Returns the progress with a leading space, or an empty text.
pub(super) fn so_far(current: Option<u64>, total: Option<u64>) -> String {
    match (current, total) {
        (Some(current), Some(total)) => {
            format!(" {} of {}", mebibytes(current), mebibytes(total))
        }
        (Some(current), None) => format!(" {}", mebibytes(current)),
        _ => String::new(),
    }
}

fn mebibytes(bytes: u64) -> String {
    const MEBIBYTE: u64 = 1 << 20;
    format!("{}.{} MiB", bytes / MEBIBYTE, bytes % MEBIBYTE * 10 / MEBIBYTE)
}

/// Largest line of a step in bytes. Longer lines are shown in pieces, so that memory stays bounded.
const MAX_LINE: usize = 8 * 1024;

#[derive(Debug, Default)]
struct StepLines {
    pending: Vec<u8>,
}

impl StepLines {
    /// Returns the lines that these bytes complete. A carriage return ends a line as well: progress bars use it.
    fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = vec![];
        for &byte in bytes {
            match byte {
                b'\n' | b'\r' => lines.extend(self.take()),
                _ => self.pending.push(byte),
            }
            if self.pending.len() >= MAX_LINE {
                lines.extend(self.take());
            }
        }
        lines
    }

    /// Returns the unfinished line when the step has ended.
    fn take(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.pending);
        (!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use act_core::event::Milestone;
    use act_core::secret::Secret;

    fn shown(verbose: bool, kinds: Vec<EventKind>) -> String {
        let mut human =
            Human::new(vec![], false, verbose, Secrets::new([Secret::new("sk-canary")]));
        for kind in kinds {
            human.event(&Event {
                seq: 1,
                time: act_core::clock::now(),
                task_id: "t-000000".into(),
                kind,
            });
        }
        String::from_utf8(human.out).unwrap()
    }

    fn story() -> Vec<EventKind> {
        vec![
            Milestone::Attempt { number: 1, of: 12 }.into(),
            Milestone::Verifying.into(),
            EventKind::StepOutput(StepOutput(Bytes::from_static(
                b"ok 1\nAttempt 9/12...\n\x1b[31mno",
            ))),
            EventKind::StepFinished {
                run_id: "run_x".into(),
                name: "test".into(),
                exit_code: Some(1),
                duration_ms: 40,
            },
            Milestone::VerificationFailed.into(),
        ]
    }

    #[test]
    fn without_verbose_only_milestones() {
        assert_eq!(
            shown(false, story()),
            "Attempt 1/12...\nRunning verification...\nVerification failed, debugging...\n"
        );
    }

    // CLI-18
    #[test]
    fn a_verification_without_a_terminal_shows_each_step() {
        let mut human = Human::new(vec![], false, false, Secrets::default()).with_steps();
        let (run_id, name) = ("run_x".to_owned(), "test".to_owned());
        let began = EventKind::StepStarted { run_id, name, last_ms: None };
        for kind in std::iter::once(began).chain(story()) {
            let (seq, time, task_id) = (1, act_core::clock::now(), "t-000000".into());
            human.event(&Event { seq, time, task_id, kind });
        }
        let shown = String::from_utf8(human.out).unwrap();
        assert!(shown.starts_with("  step test has begun\n"), "{shown}");
        assert!(shown.contains("verification...\n  step test: exit 1 after 0.0 s\n"), "{shown}");
    }

    #[test]
    fn step_output_is_marked_sanitised_and_complete() {
        // security line 108
        assert_eq!(
            shown(true, story()),
            "Attempt 1/12...\nRunning verification...\n  | ok 1\n  | Attempt 9/12...\n  | no\n  \
             step test: exit 1 after 0.0 s\nVerification failed, debugging...\n"
        );
    }

    // CLI-55
    #[test]
    fn a_terminal_that_is_narrow_breaks_no_word_and_a_step_stays_marked_off() {
        let out = b"Attempt 1/12... and more of it\n";
        let kind = EventKind::StepOutput(StepOutput(Bytes::from_static(out)));
        let secrets = Secrets::default();
        let mut human = Human::new(vec![], false, true, secrets).in_columns(|| 20);
        human.event(&Event {
            seq: 1,
            time: act_core::clock::now(),
            task_id: "t-000000".into(),
            kind,
        });
        let shown = String::from_utf8(human.out).unwrap();
        assert_eq!(shown, "  | Attempt 1/12...\n    and more of it\n");
    }

    #[test]
    fn no_key_is_shown() {
        // EVENT-5, security line 162
        let said = EventKind::Diagnosis { text: "it uses sk-canary here".into() };
        assert_eq!(shown(true, vec![said]), "  diagnosis:\n    it uses [redacted] here\n");
    }
}

#[cfg(test)]
mod image_pull_tests {
    use super::*;

    fn shown(pull: &mut PullLines, image: &str, status: &str, current: u64) -> Option<String> {
        let line = pull.line(image, status, Some(current << 20), Some(100 << 20))?;
        Some(line.render(false))
    }

    #[test]
    fn a_pull_shows_each_status_and_each_tenth_once() {
        let mut pull = PullLines::default();
        let first = shown(&mut pull, "i", "downloading", 1);
        assert_eq!(first.as_deref(), Some("Image i: downloading 1.0 MiB of 100.0 MiB\n"));
        assert_eq!(shown(&mut pull, "i", "downloading", 5), None);
        assert!(shown(&mut pull, "i", "waiting", 5).is_some());
        assert_eq!(shown(&mut pull, "i", "downloading", 6), None);
        assert!(shown(&mut pull, "i", "downloading", 10).is_some());
        assert_eq!(shown(&mut pull, "i", "waiting", 11), None);
        assert!(shown(&mut pull, "another", "waiting", 11).is_some());
    }

    #[test]
    fn statuses_without_end_are_not_all_shown() {
        let mut pull = PullLines::default();
        let lines =
            (0..1000).filter(|n| shown(&mut pull, "i", &format!("status {n}"), 1).is_some());
        assert_eq!(lines.count(), MAX_STATUSES);
    }
}

#[cfg(test)]
mod step_lines_tests {
    use super::*;

    #[test]
    fn pieces_become_lines_and_the_rest_comes_at_the_end() {
        let mut lines = StepLines::default();
        assert_eq!(lines.push("Gr\u{fc}".as_bytes().get(..3).unwrap()), Vec::<String>::new());
        assert_eq!(lines.push(b"\xbc\xc3\x9fe\r\n10%\r20%\r"), ["Grüße", "10%", "20%"]);
        assert_eq!(lines.push(b"no end"), Vec::<String>::new());
        assert_eq!(lines.take().as_deref(), Some("no end"));
        assert_eq!(lines.take(), None);
    }

    #[test]
    fn a_line_without_end_is_shown_in_pieces() {
        let mut lines = StepLines::default();
        let shown = lines.push(&vec![b'x'; MAX_LINE * 2 + 1]);
        assert_eq!(shown.len(), 2);
        assert_eq!(lines.take().as_deref(), Some("x"));
    }
}
