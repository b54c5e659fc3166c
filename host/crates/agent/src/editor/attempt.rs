//! What each verification of a task said, kept for diagnosis, REPLAN and the stuck report.

use crate::context::VerifiedRun;
use act_verifier::{FailReason, Status, VerifyResponse};

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
    pub(super) fn of(number: u32, strategy: u32, response: &VerifyResponse) -> Self {
        let (step, exit_code) = failing_step(response);
        let log = response.tail_log.as_deref().unwrap_or_default();
        Self {
            number,
            run_id: response.run_id.clone().unwrap_or_default(),
            strategy,
            step,
            exit_code,
            reason: reason_word(response.reason),
            first_failing_line: first_failing_line(log),
            failing_lines: failing_lines(log),
        }
    }
}

impl Attempt {
    /// The same for people, whatever the status.
    pub(super) fn shown(&self, response: &VerifyResponse) -> VerifiedRun {
        let failed = response.status == Status::Fail;
        VerifiedRun {
            attempt: self.number,
            strategy: self.strategy,
            run_id: response.run_id.clone(),
            status: response.status.as_str().to_owned(),
            steps_run: commands(response).len(),
            failing_step: self.step.clone().filter(|_| failed),
            reason: match response.status {
                Status::Pass => None,
                Status::Fail => Some(self.reason.to_owned()),
                Status::InfraError => response.error_type.map(|error| error.as_str().to_owned()),
            },
            first_failing_line: failed.then(|| self.first_failing_line.clone()),
        }
    }
}

fn reason_word(reason: Option<FailReason>) -> &'static str {
    match reason {
        Some(FailReason::StepFailed) | None => "step_failed",
        Some(FailReason::Timeout) => "timeout",
        Some(FailReason::SourceWrites) => "source_writes",
        Some(FailReason::TreeChanged) => "tree_changed",
    }
}

fn commands(response: &VerifyResponse) -> &[serde_json::Value] {
    let manifest = response.manifest.as_ref();
    let executed = manifest.and_then(|manifest| manifest.get("commands_executed")?.as_array());
    executed.map(Vec::as_slice).unwrap_or_default()
}

/// The last executed command of the manifest: the pipeline stops at the first failure. No step is to blame
/// when the tree changed under the run.
pub(super) fn failing_step(response: &VerifyResponse) -> (Option<String>, Option<i64>) {
    let Some(last) =
        commands(response).last().filter(|_| response.reason != Some(FailReason::TreeChanged))
    else {
        return (None, None);
    };
    (
        last.get("name").and_then(|name| name.as_str()).map(str::to_owned),
        last.get("exit_code").and_then(serde_json::Value::as_i64),
    )
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
