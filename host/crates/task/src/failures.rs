//! The failures of a red run with their places in the repository: for `act logs --failures`, and for the answer to another
//! agent.

use std::collections::HashSet;
use std::path::Path;

use serde::Serialize;

use crate::prepare;
use act_core::verification::Status;
use act_core::{Document, Failure, RunId};
use act_records::artifacts::{ArtifactDir, LogError};
use act_reports::failures::{Failures, Log};
use act_workspace::{CopySet, PathGlobs};

/// Maximum number of bytes of a log that are parsed. The end of a log names the failure.
const LOG: u64 = 4 << 20;
/// Maximum number of failures in a document, which is more than a person reads.
const LISTED: usize = 100;

/// The document of `act logs --failures --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct FailureList {
    pub run_id: String,
    /// `PASS`, `FAIL` or `INFRA_ERROR`.
    pub status: Status,
    /// The step that ended the run; null unless the run failed in a step.
    pub step: Option<String>,
    /// At most 100, in the order of the log. Empty if no tool was recognised.
    pub failures: Vec<PlacedFailure>,
    /// The number of failures that are not in the list.
    pub more: usize,
}

impl Document for FailureList {
    const NAME: &'static str = "failures";
}

/// One failure: a test, or an error of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct PlacedFailure {
    /// The test; empty for an error of a compiler or of a tool.
    pub name: String,
    pub message: String,
    /// A file of the repository; null if the log names none.
    pub path: Option<String>,
    pub line: Option<u32>,
}

impl PlacedFailure {
    /// Describes the failure on one line.
    pub fn line(&self) -> String {
        let named = [&*self.name, &*self.message].into_iter().filter(|text| !text.is_empty());
        let text = named.collect::<Vec<_>>().join(": ");
        match (&self.path, self.line) {
            (Some(path), Some(line)) if !text.contains(&format!("{path}:{line}")) => {
                format!("{text} ({path}:{line})")
            }
            _ => text,
        }
    }
}

/// Reads the log of a run and returns its failures. `of` is as in [`log`](crate::log()).
///
/// # Errors
///
/// The errors of [`log`](crate::log()); the run has no manifest (`run_unreadable`).
pub fn failures(start: &Path, of: Option<&str>) -> Result<FailureList, Failure> {
    let run_id = crate::logs::log(start, of, None)?.run_id;
    let root = act_config::find_root(start)?.map(|root| root.path);
    let artifacts = prepare::artifacts(root.as_deref().unwrap_or(start))?;
    let id = RunId::parse(&run_id).map_err(LogError::from)?;
    let unreadable = |why: String| Failure::refused("run_unreadable", why);
    let manifest = artifacts.read_manifest(&id).map_err(|error| unreadable(error.to_string()))?;
    let manifest = manifest
        .ok_or_else(|| unreadable(format!("run {run_id} has no manifest: it did not end")))?
        .manifest;
    let failed = manifest.status == Status::Fail;
    let step = manifest.commands_executed.last().filter(|_| failed).map(|step| step.name.clone());
    let mut list = FailureList { run_id, status: manifest.status, step, failures: vec![], more: 0 };
    if let Some(step) = &list.step {
        let config = root.as_deref().and_then(|root| act_config::load(root).ok());
        let package = config.as_ref().and_then(|config| config.monorepo_package.as_deref());
        let files = root.as_deref().and_then(|root| {
            let include = config.as_ref().map_or(&[][..], |config| &*config.pipeline.include);
            CopySet::of(root, &PathGlobs::new(include).ok()?).ok()
        });
        let entries = files.iter().flat_map(|files| &files.entries);
        let known: HashSet<&Path> = entries.map(|entry| entry.path.as_path()).collect();
        let log = artifacts.read_log(&list.run_id, Some(step), LOG)?.text;
        (list.failures, list.more) = parsed(&log, package, &|path| known.contains(path));
    }
    Ok(list)
}

/// Returns the failures in the log of a step, and how many more there are. `tail` is the log where that of the step is gone.
pub(super) fn of_step(
    artifacts: &ArtifactDir,
    (run_id, step, tail): (&str, Option<&str>, &str),
    package: Option<&str>,
    known: &dyn Fn(&Path) -> bool,
) -> (Vec<PlacedFailure>, usize) {
    let log = artifacts.read_log(run_id, step, LOG);
    parsed(&log.map_or_else(|_| tail.to_owned(), |log| log.text), package, known)
}

fn parsed(
    log: &str,
    package: Option<&str>,
    known: &dyn Fn(&Path) -> bool,
) -> (Vec<PlacedFailure>, usize) {
    // Steps run below /workspace, in the directory of the package.
    let own = |path: &str| {
        let path = path.trim_start_matches("file://").trim_start_matches("/workspace/");
        let path = path.trim_start_matches("./").to_owned();
        let inside = package.map(|package| format!("{package}/{path}"));
        [Some(path), inside].into_iter().flatten().find(|path| known(Path::new(path)))
    };
    let Failures { failures, more, .. } = Failures::of(&Log::of(log), &own);
    let more = more + failures.len().saturating_sub(LISTED);
    let placed = failures.into_iter().take(LISTED).map(|failure| {
        let place = failure.place.filter(|place| known(Path::new(&place.path)));
        PlacedFailure {
            name: failure.name,
            message: failure.message,
            line: place.as_ref().map(|place| place.line),
            path: place.map(|place| place.path),
        }
    });
    (placed.collect(), more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::document_holds::<FailureList>();
    }

    #[test]
    fn a_failure_has_a_place_only_in_a_file_of_the_repository() {
        let log = "FAILED\n==== FAILURES ====\n____ test_total ____\n\n    def test_total():\n>       assert total() == 3\nE       assert 2 == 3\n\n/workspace/tests/test_price.py:4: AssertionError\n==== short test summary info ====\nFAILED tests/test_price.py::test_total - assert 2 == 3\n==== 1 failed in 0.1s ====\n";
        let known = |path: &Path| path == Path::new("tests/test_price.py");
        let (found, more) = parsed(log, None, &known);
        assert_eq!((found.len(), more), (1, 0), "{found:?}");
        assert_eq!(found[0].path.as_deref(), Some("tests/test_price.py"));
        assert_eq!(found[0].line, Some(4));
        assert!(found[0].line().ends_with("(tests/test_price.py:4)"), "{}", found[0].line());
        let (found, _) = parsed(log, None, &|_| false);
        assert!(found.iter().all(|one| one.path.is_none() && one.line.is_none()), "{found:?}");
    }
}
