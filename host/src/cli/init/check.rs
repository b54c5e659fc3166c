//! `act init --check`: runs the pipeline once, and looks for tests in what the steps print.

use std::io::Read;
use std::path::Path;

use crate::cli::{block_on, verify};
use crate::output::{Line, Output, Tone};
use act_core::Failure;
use act_core::exit::Exit;
use act_core::verification::{FailReason, Status, Verification, WarningCode};
use act_reports::failures::{LogReader, Ran};
use act_task::Wanted;

/// The result of one run of the pipeline.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Tried {
    status: Status,
    /// The run, for `act logs`; null if no container was started.
    run_id: Option<String>,
    /// Whether the output of a step shows that a test ran.
    tests_seen: bool,
    /// The number of tests that ran; null if no tool printed one.
    tests: Option<u64>,
}

/// Runs the pipeline of the repository at `root`. Returns `None` if a signal ended it.
///
/// # Errors
///
/// As `act verify`.
pub(super) fn run(root: &Path, output: &Output) -> Result<Option<(Tried, Exit)>, Failure> {
    let work = act_task::verify(root, Wanted::default(), vec![output.progress_sink()]);
    let Some(verification) = block_on(work)?? else { return Ok(None) };
    let ran = seen(root, &verification);
    let tried = Tried {
        status: verification.verdict.status(),
        run_id: verification.run_id.clone().map(|id| id.to_string()),
        tests_seen: ran.is_some(),
        tests: ran.and_then(|ran| ran.tests),
    };
    if !output.is_json() {
        output.result(&verify::text(&verification));
        output.result_line(&tried.line(verification.verdict.fail_reason()));
    }
    let exit = tried.exit();
    Ok(Some((tried, exit)))
}

/// Returns the tests that the logs of the steps show. A step that the Verifier found without tests shows none.
fn seen(root: &Path, verification: &Verification) -> Option<Ran> {
    let run_id = verification.run_id.as_ref()?.to_string();
    let without = |name: &str| {
        let warned = |code, step: &Option<String>| {
            code == WarningCode::NoTestsRan && step.as_deref() == Some(name)
        };
        verification.warnings.iter().any(|warning| warned(warning.code, &warning.step))
    };
    let steps = verification.steps().iter().filter(|step| !without(&step.name));
    let found = steps.filter_map(|step| {
        // A log that cannot be read shows no test.
        let log = act_task::log(root, Some(&run_id), Some(&step.name)).ok()?;
        let (mut reader, mut file, mut chunk) =
            (LogReader::default(), log.file, vec![0; 64 * 1024]);
        loop {
            match file.read(&mut chunk).ok()? {
                0 => break,
                count => reader.push(chunk.get(..count)?),
            }
        }
        Ran::of(&reader.finish())
    });
    found.reduce(Ran::plus)
}

impl Tried {
    fn exit(&self) -> Exit {
        match (self.status, self.tests_seen) {
            (Status::Pass, true) => Exit::Ok,
            (Status::Pass, false) => Exit::Refused,
            (Status::Fail, _) => Exit::Stuck,
            (Status::InfraError, _) => Exit::Infra,
        }
    }

    fn line(&self, reason: Option<FailReason>) -> Line {
        let count = match self.tests {
            Some(1) => "1 test ran".to_owned(),
            Some(count) => format!("{count} tests ran"),
            None => "tests ran".to_owned(),
        };
        match (self.status, self.tests_seen) {
            (Status::Pass, true) => Line::of(Tone::Good, "Checked").and(Tone::Plain, format!(": the steps pass, and {count}.")),
            (Status::Pass, false) => Line::of(Tone::Caution, "No test seen").and(
                Tone::Plain,
                ": the steps pass, but their output shows no test that ran. Such a gate catches no broken change; \
                 correct the test step in agent.yaml.",
            ),
            (Status::Fail, _) if reason == Some(FailReason::SourceWrites) => Line::of(Tone::Bad, "Fails").and(
                Tone::Plain,
                ": the steps pass, but one writes to its copy of the source. Add what it makes to .gitignore, or set \
                 `source_writes: warn` under `verification` in agent.yaml.",
            ),
            (Status::Fail, _) => Line::of(Tone::Bad, "Fails").and(
                Tone::Plain,
                ": a task on this tree could not end with success. Correct the step, or the project.",
            ),
            (Status::InfraError, _) => {
                Line::of(Tone::Bad, "Not checked").and(Tone::Plain, ": the machine failed, so nothing is known about the steps.")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // CLI-58
    #[test]
    fn the_exit_code_tells_a_pass_with_tests_from_one_without() {
        let exit =
            |status, tests_seen| Tried { status, run_id: None, tests_seen, tests: None }.exit();
        assert_eq!(exit(Status::Pass, true), Exit::Ok);
        assert_eq!(exit(Status::Pass, false), Exit::Refused);
        assert_eq!(exit(Status::Fail, true), Exit::Stuck);
        assert_eq!(exit(Status::InfraError, false), Exit::Infra);
    }
}
