//! The reader of events for a person: lines on stderr as things happen.
//!
//! Each line is written whole and at once. On a terminal one more line, which is redrawn, says what is going
//! on right now.

use std::io::Write;

use super::fold;
use super::image_pull::PullLines;
use super::line::{Line, Tone};
use super::live::Live;
use super::progress;
use super::step_lines::StepLines;
use act_core::event::{Event, EventKind, Sink, StepOutput};
use act_core::secret::Secrets;

pub(super) struct Human<W> {
    out: W,
    colour: bool,
    verbose: bool,
    secrets: Secrets,
    /// On a terminal.
    live: Option<Live>,
    columns: fn() -> usize,
    pull: PullLines,
    step: StepLines,
}

impl<W: Write> Human<W> {
    pub(super) fn new(out: W, colour: bool, verbose: bool, secrets: Secrets) -> Self {
        let (pull, step) = (PullLines::default(), StepLines::default());
        Self { out, colour, verbose, secrets, live: None, columns: || usize::MAX, pull, step }
    }

    pub(super) fn with_live(mut self, live: Option<Live>) -> Self {
        self.live = live;
        self
    }

    /// A terminal may get wider or narrower at any time.
    pub(super) fn in_columns(mut self, columns: fn() -> usize) -> Self {
        self.columns = columns;
        self
    }

    fn show(&mut self, lines: impl IntoIterator<Item = Line>) {
        let columns = (self.columns)();
        let lines = lines.into_iter();
        let text: String = lines.map(|line| fold::rendered(&line, columns, self.colour)).collect();
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

/// Marked, so that a step cannot speak in our name.
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
            // The line that is redrawn shows it better.
            EventKind::ImagePull { .. } if self.live.is_some() => {}
            EventKind::ImagePull { image, status, current, total } => {
                let line = self.pull.line(image, status, *current, *total);
                self.show(line);
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
