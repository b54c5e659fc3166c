//! What the task's tests prove. Tests that demand less than at the start of the task are named to the model with the edit, with
//! each run and before the end, so that a green run of weaker tests never passes for one of the old ones.

use std::collections::BTreeSet;

use super::Session;
use super::tools::Answer;
use crate::context::VerifiedRun;
use crate::gate_inputs::{FileChange, Weakening};
use act_core::verification::{Status, Verification, Warning, WarningCode};

/// The changed tests that the model and the user have heard of.
#[derive(Debug, Default)]
pub(super) struct Weakened {
    /// Named in an answer to an edit.
    named: BTreeSet<Weakening>,
    /// Named in a refusal of `done`. Called again, `done` stands for a reason.
    refused: BTreeSet<Weakening>,
    /// The sentence about a green run that ran fewer tests than the one before, until a run has as many again.
    fewer: Option<String>,
    fewer_refused: Option<String>,
}

/// Places that one answer lists; a task that changes more of them needs a look at the files.
const LISTED: usize = 20;

impl Session<'_> {
    /// Calls `work` with the changed files of the task and their texts.
    pub(super) fn with_changes<T>(&self, work: impl FnOnce(&[FileChange<'_>]) -> T) -> T {
        let writer = &self.editor.writer;
        let files: Vec<_> =
            writer.changed().into_iter().map(|file| (writer.text(&file.path), file)).collect();
        let changes: Vec<_> = files
            .iter()
            .map(|(text, file)| FileChange {
                path: &file.path,
                sha256_before: file.sha256_before.as_deref(),
                sha256_now: file.sha256_now.as_deref(),
                text_before: text.before.text(),
                text_now: text.now.text(),
            })
            .collect();
        work(&changes)
    }

    /// The places where tests demand less than at the start of the task, or something else.
    pub(super) fn weakened(&self) -> Vec<Weakening> {
        self.with_changes(|changes| self.tests.weakened(changes))
    }

    /// The sentences about changed tests for the answer to the edit that changed them.
    pub(super) fn newly_weakened(&mut self) -> Option<String> {
        let now = self.weakened();
        let new: Vec<_> =
            now.iter().filter(|one| !self.weaker.named.contains(one)).cloned().collect();
        self.weaker.named = now.into_iter().collect();
        (!new.is_empty()).then(|| {
            format!(
                "existing tests demand less now, or something else:\n{}\nrestore what the task does not ask for; done \
                 asks for the reason of the rest",
                listed(&new)
            )
        })
    }

    /// Adds what is to be said about the tests of a run to its warnings. `run` is not among the runs of the plans yet.
    pub(super) fn warn_of_tests(&mut self, run: &VerifiedRun, verification: &mut Verification) {
        if run.status == Status::Pass {
            let green = self.plans.runs().iter().rfind(|run| run.status == Status::Pass);
            let earlier = green.or(self.baseline.as_ref().map(|baseline| baseline.run()));
            if let Some(earlier) = earlier {
                self.weaker.fewer = fewer_tests(run, earlier, self.weaker.fewer.take());
            }
        }
        let warning = |code, message| Warning { code, step: None, message };
        let weakened = self.weakened();
        if !weakened.is_empty() {
            let message = format!(
                "existing tests demand less than at the start of the task, or something else:\n{}",
                listed(&weakened)
            );
            verification.warnings.push(warning(WarningCode::TestsWeakened, message));
        }
        if let Some(fewer) = self.weaker.fewer.clone().filter(|_| run.status == Status::Pass) {
            verification.warnings.push(warning(WarningCode::FewerTestsRan, fewer));
        }
    }

    /// Refuses `done` once for the tests that demand less, with their places.
    pub(super) fn refuse_weakened(&mut self) -> Option<Answer> {
        let now = self.weakened();
        let new: Vec<_> =
            now.iter().filter(|one| !self.weaker.refused.contains(one)).cloned().collect();
        if new.is_empty() {
            return None;
        }
        self.weaker.refused.extend(new.iter().cloned());
        let message = format!(
            "existing tests demand less than at the start of the task, or something else:\n{}\nrestore them, or call \
             done again and say in `tests` why the task wants each; the user reads the places and your reason",
            listed(&new)
        );
        Some(Answer::refusal("tests_weakened", &message))
    }

    /// Refuses `done` once for a green run that ran fewer tests than the one before.
    pub(super) fn refuse_fewer_tests(&mut self) -> Option<Answer> {
        let fewer = self.weaker.fewer.clone()?;
        if self.weaker.fewer_refused.as_ref() == Some(&fewer) {
            return None;
        }
        self.weaker.fewer_refused = Some(fewer.clone());
        let message = format!(
            "{fewer}; let them run again, or call done again and say in `tests` why the task wants it"
        );
        Some(Answer::refusal("tests_weakened", &message))
    }

    /// What the summary says about tests that demand less, one item for each place.
    pub(super) fn weakened_lines(&self) -> Vec<String> {
        let weakened = self.weakened();
        weakened.iter().map(ToString::to_string).chain(self.weaker.fewer.clone()).collect()
    }
}

/// A list of places, cut behind the first ones.
pub(super) fn listed(weakened: &[Weakening]) -> String {
    let mut lines: Vec<_> = weakened.iter().take(LISTED).map(|one| format!("- {one}")).collect();
    if let more @ 1.. = weakened.len().saturating_sub(LISTED) {
        lines.push(format!("- and {more} more"));
    }
    lines.join("\n")
}

/// The sentence about a green run in which fewer tests passed than ran before. `known`: the one in force, which stays until as
/// many tests run again.
fn fewer_tests(run: &VerifiedRun, before: &VerifiedRun, known: Option<String>) -> Option<String> {
    let ran = |run: &VerifiedRun| {
        let counts = if run.status == Status::Pass { run.passed } else { run.failures.counts };
        let (passed, failed) = (counts.passed?, counts.failed.unwrap_or(0));
        Some(passed.saturating_add(failed))
    };
    let (Some(now), Some(then)) = (ran(run), ran(before)) else { return known };
    let id = before.run_id.as_deref().unwrap_or("the run before");
    match now.cmp(&then) {
        std::cmp::Ordering::Less => {
            Some(format!("fewer tests ran than in {id}: {now} instead of {then}"))
        }
        std::cmp::Ordering::Equal => known,
        std::cmp::Ordering::Greater => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_reports::failures::{Failures, Log, Passed};

    // EDITOR-80
    #[test]
    fn a_green_run_with_fewer_tests_is_told_until_they_run_again() {
        let green = |attempt, log: &str| VerifiedRun {
            status: Status::Pass,
            passed: Passed::of(&Log::of(log)).counts,
            ..VerifiedRun::failed(attempt, "test", "")
        };
        let eight = green(1, "==== 8 passed in 0.1s ====\n");
        let seven = green(2, "==== 7 passed, 1 skipped in 0.1s ====\n");
        let told = fewer_tests(&seven, &eight, None);
        assert_eq!(told.as_deref(), Some("fewer tests ran than in run_1: 7 instead of 8"));
        assert_eq!(fewer_tests(&seven, &seven, told.clone()), told);
        assert_eq!(fewer_tests(&eight, &seven, told), None);
        let quiet = green(3, "all is well\n");
        assert_eq!(fewer_tests(&quiet, &eight, None), None);
        let log = Log::of("FAILED tests/a.py::test_a - x\n==== 1 failed, 9 passed in 0.1s ====\n");
        let red = VerifiedRun {
            failures: Failures::of(&log, &|_| None),
            ..VerifiedRun::failed(0, "test", "")
        };
        let told = fewer_tests(&eight, &red, None);
        assert_eq!(told.as_deref(), Some("fewer tests ran than in run_0: 8 instead of 10"));
    }
}
