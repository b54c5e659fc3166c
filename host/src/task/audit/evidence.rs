//! What a run proves, as far as log, store and manifest agree on it: the ground of `act audit export` and
//! `act verify-claim`.

use std::path::Path;

use super::Logbook;
use super::explain::{Explanation, ManifestCheck, audit_explain};
use super::verification::verify_but;
use act_audit::cure;
use act_core::Failure;
use act_core::RunId;
use act_core::verification::{CommandExecuted, lessens};

/// A run that ended with a verdict, in a log that is what was written.
#[derive(Debug, Clone)]
pub(in crate::task) struct Evidence {
    pub(in crate::task) run: Explanation,
    pub(in crate::task) passed: bool,
    /// Null where the manifest is gone, or is of a time when the log did not hold the digest of its steps.
    pub(in crate::task) steps: Option<Vec<StepClaim>>,
    /// As the pipeline named it; null where the log does not cover it.
    pub(in crate::task) image: Option<String>,
}

/// What a run said of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::task) struct StepClaim {
    pub(in crate::task) name: String,
    pub(in crate::task) exit_code: Option<i64>,
    pub(in crate::task) timed_out: bool,
    pub(in crate::task) network: String,
    /// It passed, and something is to be said of it: a kill for memory, writes to the source.
    pub(in crate::task) warned: bool,
}

impl StepClaim {
    pub(in crate::task) fn of(step: &CommandExecuted) -> Self {
        Self {
            name: step.name.clone(),
            exit_code: step.exit_code,
            timed_out: step.timed_out,
            network: step.network.clone(),
            warned: step.oom || !step.source_writes.is_empty(),
        }
    }
}

impl Evidence {
    pub(in crate::task) fn of(start: &Path, run_id: &str) -> Result<Self, Failure> {
        let run = audit_explain(start, run_id)?;
        let log = verify_but(start, Some(run_id), None)?;
        if let Some(bad) = log.bad {
            let message = format!(
                "nothing is claimed from a log that was touched: record {}: {}",
                bad.seq, bad.why
            );
            return Err(disputed(message).hint("`act audit verify` says what is wrong with it"));
        }
        if let Some(why) = &run.disputed {
            let message = format!("what the log says of {run_id} is not what act wrote: {why}");
            return Err(disputed(message).hint(
                "run `act verify`, and take the run that it names; `act audit list` shows the log",
            ));
        }
        if let ManifestCheck::Differs(fields) = &run.manifest {
            return Err(differs(run_id, fields));
        }
        let Some(passed) = run.verdict() else {
            let outcome = run.outcome.as_deref().unwrap_or("no end");
            let message = format!("{run_id} has no verdict: {outcome}");
            return Err(Failure::refused("no_verdict", message)
                .hint("run `act verify`, and take the run that it names"));
        };
        let mut evidence = Self { passed, run, steps: None, image: None };
        if evidence.run.manifest == ManifestCheck::Agrees {
            evidence.take_manifest(start, run_id)?;
        }
        Ok(evidence)
    }

    /// Read again, so compared again.
    fn take_manifest(&mut self, start: &Path, run_id: &str) -> Result<(), Failure> {
        let id = RunId::parse(run_id)
            .map_err(|error| Failure::refused("run_id_invalid", error.to_string()))?;
        let Ok(manifest) = Logbook::open(start)?.artifacts.read_manifest(&id) else {
            return Err(differs(run_id, &["all of it, which cannot be read".to_owned()]));
        };
        // Gone in this moment.
        let Some(recorded) = manifest else {
            self.run.manifest = ManifestCheck::Gone;
            return Ok(());
        };
        if let ManifestCheck::Differs(fields) = self.run.compare(&recorded) {
            return Err(differs(run_id, &fields));
        }
        if self.run.steps_sha256.is_some() {
            let steps = recorded.manifest.commands_executed.iter();
            self.steps = Some(steps.map(StepClaim::of).collect());
        }
        if self.run.manifest_sha256.is_some() {
            self.image = Some(recorded.manifest.platform.container_image);
        }
        Ok(())
    }

    /// What takes something from the verdict; null where the log does not tell.
    pub(in crate::task) fn warnings(&self) -> Option<Vec<String>> {
        let marks = self.run.warnings.as_ref()?;
        Some(marks.iter().filter(|mark| lessens(mark).is_some()).cloned().collect())
    }
}

fn disputed(message: String) -> Failure {
    Failure::refused("evidence_disputed", message)
}

fn differs(run_id: &str, fields: &[String]) -> Failure {
    let fields = fields.join(", ");
    disputed(format!("log and manifest of {run_id} do not say the same: {fields}"))
        .hint(format!("{}; `act audit explain` shows what the log says", cure(run_id)))
}
