//! What each verification of a task said, kept for diagnosis, REPLAN and the stuck report.

use std::sync::LazyLock;

use regex::Regex;

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

/// The first of the failing lines; empty where the log is empty.
fn first_failing_line(log: &str) -> String {
    failing_lines(log).into_iter().next().unwrap_or_default()
}

/// The lines of a log that report a failure, each once: first those that a tool marks as one, then those that only
/// mention one. A line that reports that something passed is neither. Without any, the last line that is not blank.
pub(super) fn failing_lines(log: &str) -> Vec<String> {
    let lines = || log.lines().map(str::trim).filter(|line| !line.is_empty());
    let of = |wanted: Sign| lines().filter(move |line| sign(line) == wanted);
    let mut found: Vec<String> = vec![];
    for line in of(Sign::Failure).chain(of(Sign::Mention)) {
        let line: String = line.chars().take(LINE).collect();
        if !found.contains(&line) {
            found.push(line);
        }
        if found.len() == LINES {
            break;
        }
    }
    if found.is_empty() {
        found.extend(lines().next_back().map(|line| line.chars().take(LINE).collect()));
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// A tool marks this line as a failure: `error:`, `FAILED`, `panicked at`.
    Failure,
    /// The line holds a word that is also in names and in passing text.
    Mention,
    None,
}

fn sign(line: &str) -> Sign {
    static PASSED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"(?i)(\.\.\.|…) *(ok|passed|ignored|skipped)\b|^[\W_]*(ok|pass|passed|skip|skipped|xfail)\b[\W_]|^[✓✔√]|\bPASSED\b|\b(0|no) (failed|failures?|errors?)\b",
        )
        .ok()
    });
    static FAILED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"(?x)
            \b(error|Error|ERROR)(\[\w+\])?: | \w+(Error|Exception)\b(:|$) | ^E\s{2,} |
            \bFAIL(ED|URE)?\b | \bpanicked\ at\b | \bassertion\b.*\bfailed\b | ^Assertion | ^Traceback\b |
            ^not\ ok\b | ^[✗✘✕×] | (?i:\bfatal(\ error)?:) | :\ not\ found$ | command\ not\ found |
            No\ such\ file\ or\ directory",
        )
        .ok()
    });
    static COUNT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?i)\b[1-9]\d* (failed|failures?|errors?)\b").ok());
    const MENTIONS: [&str; 7] =
        ["error", "fail", "panic", "assert", "exception", "not found", "expected"];
    let is =
        |pattern: &LazyLock<Option<Regex>>| pattern.as_ref().is_some_and(|re| re.is_match(line));
    let lowered = line.to_lowercase();
    if is(&COUNT) {
        // A summary says that something failed, and not what.
        Sign::Mention
    } else if is(&PASSED) && !lowered.starts_with("not ok") {
        Sign::None
    } else if is(&FAILED) {
        Sign::Failure
    } else if MENTIONS.iter().any(|word| lowered.contains(word)) {
        Sign::Mention
    } else {
        Sign::None
    }
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
    /// EDITOR-25
    #[test]
    fn a_line_that_reports_a_pass_is_not_the_failure() {
        let many: String =
            (0..60).map(|n| format!("test parse_error_{n}_is_reported ... ok\n")).collect();
        let log = format!("{many}expected output follows\nerror[E0308]: mismatched types\n");
        assert_eq!(
            failing_lines(&log),
            ["error[E0308]: mismatched types", "expected output follows"]
        );
        for (passed, failed) in [
            ("test result: ok. 3 passed; 0 failed; 0 ignored", "test a ... FAILED"),
            ("ok 1 - handles errors", "not ok 2 - handles errors"),
            ("✓ throws an error (3 ms)", "✕ adds"),
            (
                "tests/test_error.py::test_error PASSED [ 50%]",
                "FAILED tests/test_a.py::test_b - assert 1 == 2",
            ),
            ("--- PASS: TestError (0.00s)", "--- FAIL: TestAdd (0.00s)"),
            ("PASS src/error.test.js", "FAIL src/add.test.js"),
            ("the error handler was loaded", "thread 'main' panicked at src/lib.rs:3:5:"),
            ("test_error (x.Test) ... ok", "ValueError: no"),
        ] {
            assert_eq!(first_failing_line(&format!("{passed}\n{failed}\nend\n")), failed);
        }
    }
}
