//! What the tests of a task prove: whether they fail on the code of the task's start, and whether the tests of the start pass on
//! its code. [`Evidence`] is the representation from the runs to the last line printed; [`VariantVerifier`] makes the runs.

use std::future::Future;
use std::pin::Pin;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::verification::Verification;

/// A file as it was when the task began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileAtStart {
    pub path: String,
    /// `None` when the file did not exist.
    pub sha256: Option<String>,
}

/// A run of a [`VariantVerifier`] under way.
pub type VariantRun<'a> =
    Pin<Box<dyn Future<Output = Option<Result<Verification, String>>> + Send + 'a>>;

/// Runs the pipeline on trees that are neither the one of the task's start nor the working tree. Such a run counts as no
/// attempt and changes no file of the repository.
pub trait VariantVerifier: Send + Sync {
    /// Verifies the working tree in which `files` are as they were at the start. `purpose` names the run in the audit log.
    ///
    /// The inner error says why the tree could not be made. Returns `None` when the run was cancelled.
    fn run<'a>(
        &'a self,
        purpose: &'static str,
        files: &'a [FileAtStart],
        cancel: &'a CancellationToken,
    ) -> VariantRun<'a>;
}

/// The rule of `verification.evidence`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvidenceRule {
    /// The evidence is shown.
    #[default]
    Report,
    /// A task without evidence does not succeed.
    Require,
}

/// The result of the task's tests on the code of its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RedFirst {
    /// A test fails there and passes with the change.
    RedFirst,
    /// The pipeline fails there for another reason.
    RedOther,
    /// The pipeline passes there: no test tells the difference.
    NotShown,
    /// The task changed no file of tests.
    None,
    /// The run could not be made.
    Unavailable,
}

impl RedFirst {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RedFirst => "red_first",
            Self::RedOther => "red_other",
            Self::NotShown => "not_shown",
            Self::None => "none",
            Self::Unavailable => "unavailable",
        }
    }
}

/// The result of the tests of the task's start on its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OldTests {
    Pass,
    Fail,
    Unavailable,
}

impl OldTests {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Unavailable => "unavailable",
        }
    }
}

/// The reason of a `red_other` whose tests do not compile with the code of the start.
pub const DOES_NOT_COMPILE: &str = "does_not_compile";

/// The result of one comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Shown<T> {
    pub result: T,
    /// `does_not_compile`, or a sentence.
    pub reason: Option<String>,
    /// Names of tests that failed, at most 20; places where there are no names.
    pub failed: Vec<String>,
    /// The run, where one was made.
    pub run_id: Option<String>,
}

impl<T> Shown<T> {
    /// A result without a run.
    pub fn without_run(result: T, reason: impl Into<String>) -> Self {
        Self { result, reason: Some(reason.into()), failed: vec![], run_id: None }
    }
}

/// What the tests of a task prove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Evidence {
    pub red_first: Shown<RedFirst>,
    /// `None` where the task changed and deleted no test file of the start.
    pub old_tests: Option<Shown<OldTests>>,
}

impl Evidence {
    /// The results in stable words: `red_first`, or `not_shown, old_tests fail`.
    pub fn words(&self) -> String {
        let old = self.old_tests.as_ref();
        let old = old.map(|old| format!(", old_tests {}", old.result.as_str()));
        format!("{}{}", self.red_first.result.as_str(), old.unwrap_or_default())
    }

    /// One sentence for each result, for people.
    pub fn sentences(&self) -> Vec<String> {
        let red = &self.red_first;
        let told = match red.result {
            RedFirst::RedFirst => {
                "red first: the changed tests fail on the code of the task's start and pass with the change"
            }
            RedFirst::RedOther => {
                "red for another reason: the code of the task's start fails with the changed tests"
            }
            RedFirst::NotShown => {
                "not shown: no test tells the code of the task's start from the changed code"
            }
            RedFirst::None => "none: nothing was compared with the code of the task's start",
            RedFirst::Unavailable => {
                "unavailable: the tests could not be run on the code of the task's start"
            }
        };
        let mut all = vec![told.to_owned() + &red.details()];
        if let Some(old) = &self.old_tests {
            let told = match old.result {
                OldTests::Pass => {
                    "old tests: pass; the tests of the task's start pass on the changed code"
                }
                OldTests::Fail => {
                    "old tests: fail; tests of the task's start fail on the changed code"
                }
                OldTests::Unavailable => {
                    "old tests: unavailable; the tests of the task's start could not be run on the changed code"
                }
            };
            all.push(told.to_owned() + &old.details());
        }
        all
    }
}

/// Names that a sentence shows.
const NAMED: usize = 5;

impl<T> Shown<T> {
    fn details(&self) -> String {
        let mut text = self.reason.iter().map(|reason| format!(" ({reason})")).collect::<String>();
        if !self.failed.is_empty() {
            let named = self.failed.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>();
            let more = match self.failed.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            text.push_str(&format!(": {}{more}", named.join(", ")));
        }
        if let Some(run) = &self.run_id {
            text.push_str(&format!(" [{run}]"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_result_is_one_sentence_with_its_names_and_its_run() {
        let failed = (1..=7).map(|n| format!("test_{n}")).collect();
        let run_id = Some("run_a".to_owned());
        let red_first = Shown { result: RedFirst::RedFirst, reason: None, failed, run_id };
        let old_tests = Some(Shown::without_run(OldTests::Unavailable, "no room"));
        let [red, old] = &Evidence { red_first, old_tests }.sentences()[..] else { panic!() };
        assert!(
            red.ends_with("change: test_1, test_2, test_3, test_4, test_5 and 2 more [run_a]"),
            "{red}"
        );
        assert!(old.ends_with("changed code (no room)"), "{old}");
        for result in [
            RedFirst::RedFirst,
            RedFirst::RedOther,
            RedFirst::NotShown,
            RedFirst::None,
            RedFirst::Unavailable,
        ] {
            assert_eq!(serde_json::to_value(result).unwrap(), result.as_str());
        }
        for result in [OldTests::Pass, OldTests::Fail, OldTests::Unavailable] {
            assert_eq!(serde_json::to_value(result).unwrap(), result.as_str());
        }
    }
}
