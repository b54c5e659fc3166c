//! What the pipeline said before the first edit, and which later failures are the same.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::attempt::{Attempt, failing_lines};
use super::ending::Ending;
use super::session::{End, Session};
use act_core::event::{EventKind, Milestone};
use act_core::verification::{Verdict, Verification};

/// Failing lines that are shown.
const SHOWN: usize = 10;

pub(super) struct Baseline {
    run_id: Option<String>,
    /// None when it was green.
    failure: Option<Failure>,
}

struct Failure {
    /// As the first attempt would have been.
    as_attempt: Attempt,
    /// Lines of the log that look like failures, in order.
    lines: Vec<String>,
}

impl Session<'_> {
    /// One run that is no attempt: it moves no counter.
    pub(super) async fn look_before_the_first_edit(&mut self) -> Result<(), End> {
        self.milestone(Milestone::Verifying);
        let verification = self.editor.verifier.run(0, &self.editor.cancel).await;
        let Some(verification) = verification.filter(|_| !self.editor.cancel.is_cancelled()) else {
            return Err(End::Cancelled);
        };
        if let Verdict::Infra(error) = verification.verdict {
            return Err(End::Stuck(Ending::infra(error.error_type.as_str(), error.message)));
        }
        let baseline = Baseline::of(&verification);
        self.editor.events.emit(EventKind::Baseline {
            run_id: baseline.run_id.clone(),
            status: verification.verdict.status().as_str().to_owned(),
            step: baseline.failure.as_ref().and_then(|failure| failure.as_attempt.step.clone()),
            failures: baseline.lines(),
        });
        self.baseline = Some(baseline);
        Ok(())
    }
}

impl Baseline {
    fn of(verification: &Verification) -> Self {
        let failure = verification.failed().then(|| Failure {
            as_attempt: Attempt::of(0, 0, verification),
            lines: failing_lines(verification.tail.as_deref().unwrap_or_default()),
        });
        Self { run_id: verification.run_id.as_ref().map(ToString::to_string), failure }
    }

    pub(super) fn run_id(&self) -> Option<&String> {
        self.run_id.as_ref()
    }

    fn lines(&self) -> Vec<String> {
        let lines = self.failure.iter().flat_map(|failure| &failure.lines);
        lines.take(SHOWN).cloned().collect()
    }

    fn named_run(&self) -> &str {
        self.run_id.as_deref().unwrap_or("a run")
    }

    /// For the model, before its first plan.
    pub(super) fn told(&self) -> String {
        let run = self.named_run();
        match &self.failure {
            None => format!("Before any edit the pipeline was green ({run})."),
            Some(failure) => {
                let step = failure.as_attempt.step.as_deref().unwrap_or("-");
                let mut text = format!(
                    "Before any edit the pipeline failed in step {step} ({run}; `read_log` takes it)."
                );
                text.push_str(match failure.lines.as_slice() {
                    [] => " It printed nothing.",
                    _ => " What failed then:",
                });
                self.lines().iter().for_each(|line| text.push_str(&format!("\n- {line}")));
                text
            }
        }
    }

    /// Whether an attempt failed as it did before the first edit: in that step, with lines of that log alone.
    fn knows(&self, attempt: &Attempt) -> bool {
        let Some(failure) = &self.failure else { return false };
        let known: BTreeSet<_> = failure.lines.iter().map(|line| untimed(line)).collect();
        failure.as_attempt.step == attempt.step
            && failure.as_attempt.reason == attempt.reason
            && !attempt.failing_lines.is_empty()
            && attempt.failing_lines.iter().all(|line| known.contains(&untimed(line)))
    }

    /// For the model, beside a failure.
    pub(super) fn comparison(&self, attempt: &Attempt) -> Option<&'static str> {
        Some(match self.knows(attempt) {
            true => "it failed so before your first edit",
            false => "before your first edit it did not fail so",
        })
    }

    /// For the summary and the report.
    pub(super) fn for_people(&self, attempts: &[Attempt]) -> String {
        let run = self.named_run();
        let Some(failure) = &self.failure else {
            return format!("The pipeline was green in {run}: every failure below is new.");
        };
        let step = failure.as_attempt.step.as_deref().unwrap_or("-");
        let end = if failure.lines.is_empty() { ", and printed nothing." } else { ":" };
        let mut text = format!("The pipeline failed in {run}, step {step}{end}\n");
        self.lines().iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        let (known, new): (Vec<_>, Vec<_>) = attempts.iter().partition(|one| self.knows(one));
        let numbers = |attempts: &[&Attempt]| {
            let numbers: Vec<_> = attempts.iter().map(|one| one.number.to_string()).collect();
            numbers.join(", ")
        };
        if !known.is_empty() {
            text.push_str(&format!("Failed so as well: attempts {}.\n", numbers(&known)));
        }
        if !new.is_empty() {
            text.push_str(&format!("Failed otherwise, so new: attempts {}.\n", numbers(&new)));
        }
        text
    }
}

/// Without what differs from run to run: how long something took.
fn untimed(line: &str) -> Cow<'_, str> {
    static DURATION: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\b\d+(\.\d+)? ?(s|ms|us|sec|seconds)\b").ok());
    match &*DURATION {
        Some(duration) => duration.replace_all(line, "#"),
        None => line.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::verification::FailReason;
    use act_core::verification::testing::{RUN_ID, verification};

    fn failed(log: &str) -> Verification {
        verification(Verdict::Fail(FailReason::StepFailed), &["test"], log)
    }

    fn attempt(number: u32, log: &str) -> Attempt {
        Attempt::of(number, 1, &failed(log))
    }

    // EDITOR-51
    #[test]
    fn failures_that_were_there_before_are_told_from_new_ones() {
        let baseline = Baseline::of(&failed("FAIL old one\nFAIL old two\nFAIL: 1 in 0.3s"));
        let attempts = [
            attempt(1, "FAIL old two\n"),
            attempt(2, "FAIL old two\nFAIL new\n"),
            attempt(3, ""),
            attempt(4, "FAIL: 1 in 0.25s"),
        ];
        let known: Vec<_> = attempts.iter().map(|one| baseline.knows(one)).collect();
        assert_eq!(known, [true, false, false, true]);
        assert_eq!(
            baseline.for_people(&attempts),
            format!(
                "The pipeline failed in {RUN_ID}, step test:\n  FAIL old one\n  FAIL old two\n  \
             FAIL: 1 in 0.3s\nFailed so as well: attempts 1, 4.\nFailed otherwise, so new: attempts 2, 3.\n"
            )
        );
        assert!(baseline.told().contains(":\n- FAIL old one\n- FAIL old two\n"));
    }

    // EDITOR-51
    #[test]
    fn after_a_green_baseline_every_failure_is_new() {
        let green = verification(Verdict::Pass, &["test"], "FAIL is a word here\n");
        let baseline = Baseline::of(&green);
        assert!(!baseline.knows(&attempt(1, "FAIL is a word here\n")));
        assert!(baseline.for_people(&[]).contains("every failure below is new"));
    }
}
