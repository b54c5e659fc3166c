//! What each verification of a task said, kept for diagnosis, REPLAN and the stuck report.

use crate::context::VerifiedRun;
use act_core::verification::{FailReason, Verification};

/// One failed attempt as the failure matrix shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempt {
    pub number: u32,
    pub run_id: String,
    /// Number of the strategy, from 1.
    pub strategy: u32,
    /// The step that ended the run.
    pub step: Option<String>,
    pub exit_code: Option<i64>,
    pub reason: &'static str,
    /// The first line that looks like the failure itself.
    pub first_failing_line: String,
    /// All such lines, as far as they are told apart.
    pub failing_lines: Vec<String>,
}

/// Failing lines of one log.
const LINES: usize = 50;
const LINE: usize = 200;

impl Attempt {
    pub(super) fn of(number: u32, strategy: u32, verification: &Verification) -> Self {
        let step = verification.failing_step();
        let log = verification.tail.as_deref().unwrap_or_default();
        Self {
            number,
            run_id: verification.run_id.as_ref().map(ToString::to_string).unwrap_or_default(),
            strategy,
            step: step.map(|step| step.name.clone()),
            exit_code: step.and_then(|step| step.exit_code),
            reason: verification.verdict.fail_reason().unwrap_or(FailReason::StepFailed).as_str(),
            first_failing_line: first_failing_line(log),
            failing_lines: failing_lines(log),
        }
    }
}

impl Attempt {
    /// The same for people, whatever the status.
    pub(super) fn shown(&self, verification: &Verification) -> VerifiedRun {
        let failed = verification.failed();
        VerifiedRun {
            attempt: self.number,
            strategy: self.strategy,
            run_id: verification.run_id.as_ref().map(ToString::to_string),
            status: verification.verdict.status(),
            steps_run: verification.steps().len(),
            failing_step: self.step.clone().filter(|_| failed),
            reason: verification.verdict.reason_word().map(str::to_owned),
            first_failing_line: failed.then(|| self.first_failing_line.clone()),
        }
    }
}

/// A line that names an error or a failure, else the last one that says anything.
fn first_failing_line(log: &str) -> String {
    failing_lines(log).into_iter().next().unwrap_or_default()
}

/// The lines that name an error or a failure, each once, else the last one that says anything.
pub(super) fn failing_lines(log: &str) -> Vec<String> {
    const SIGNS: [&str; 7] =
        ["error", "fail", "panic", "assert", "exception", "not found", "expected"];
    let mut lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let sign = |line: &&str| {
        let line = line.to_lowercase();
        SIGNS.iter().any(|sign| line.contains(sign))
    };
    let mut found: Vec<String> = vec![];
    for line in lines.clone().filter(sign) {
        let line: String = line.chars().take(LINE).collect();
        if !found.contains(&line) {
            found.push(line);
        }
        if found.len() == LINES {
            break;
        }
    }
    if found.is_empty() {
        found.extend(lines.next_back().map(|line| line.chars().take(LINE).collect()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_names_the_failure_wins_over_the_last_one() {
        assert_eq!(
            first_failing_line("run 1\nFAIL: add 2 3: expected 5, got -1\n1 of 2 done\n"),
            "FAIL: add 2 3: expected 5, got -1"
        );
        assert_eq!(first_failing_line("one\n\ntwo\n"), "two");
        assert_eq!(first_failing_line(""), "");
    }
}
