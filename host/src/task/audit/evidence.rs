//! What a run proves, as far as log and manifest agree on it: the ground of `act audit export` and `act verify-claim`.

use std::path::Path;

use serde_json::Value;

use super::explain::{Explanation, ManifestCheck, audit_explain};
use super::{Logbook, audit_verify};
use crate::artifacts::RunId;
use crate::output::Failure;

/// A run that ended with a verdict, in a log that is what was written.
#[derive(Debug, Clone)]
pub(in crate::task) struct Evidence {
    pub(in crate::task) run: Explanation,
    pub(in crate::task) passed: bool,
    /// Null where the manifest is gone, or is of a time when the log did not hold the digest of its steps.
    pub(in crate::task) steps: Option<Vec<StepClaim>>,
    /// From the manifest, as long as it is there.
    pub(in crate::task) image: Option<String>,
    pub(in crate::task) commit: Option<String>,
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

impl Evidence {
    pub(in crate::task) fn of(start: &Path, run_id: &str) -> Result<Self, Failure> {
        let run = audit_explain(start, run_id)?;
        let log = audit_verify(start, None, None)?;
        if let Some(bad) = log.bad {
            let message = format!(
                "nothing is claimed from a log that was touched: record {}: {}",
                bad.seq, bad.why
            );
            return Err(Failure::refused("evidence_disputed", message)
                .hint("`act audit verify` says what is wrong with it"));
        }
        if let ManifestCheck::Differs(fields) = &run.manifest {
            let message =
                format!("log and manifest of {run_id} do not say the same: {}", fields.join(", "));
            return Err(Failure::refused("evidence_disputed", message)
                .hint("`act audit explain` shows what the log says"));
        }
        let Some(passed) = run.verdict() else {
            let outcome = run.outcome.as_deref().unwrap_or("no end");
            let message = format!("{run_id} has no verdict: {outcome}");
            return Err(Failure::refused("no_verdict", message)
                .hint("run `act verify`, and take the run that it names"));
        };
        let mut evidence = Self { passed, run, steps: None, image: None, commit: None };
        if evidence.run.manifest == ManifestCheck::Agrees {
            evidence.take_manifest(start, run_id)?;
        }
        Ok(evidence)
    }

    fn take_manifest(&mut self, start: &Path, run_id: &str) -> Result<(), Failure> {
        let run_id = RunId::parse(run_id)
            .map_err(|error| Failure::refused("run_id_invalid", error.to_string()))?;
        let manifest = Logbook::open(start)?.artifacts.read_manifest(&run_id).ok().flatten();
        // Gone in this moment.
        let Some(manifest) = manifest else { return Ok(()) };
        if self.run.steps_sha256.is_some() {
            self.steps = Some(steps(&manifest));
        }
        let text = |at: &str| manifest.pointer(at).and_then(Value::as_str).map(str::to_owned);
        self.image = text("/platform/container_image");
        self.commit = text("/commit_sha");
        Ok(())
    }
}

/// Of a manifest.
pub(in crate::task) fn steps(manifest: &Value) -> Vec<StepClaim> {
    let all = manifest.get("commands_executed").and_then(Value::as_array);
    let flag = |step: &Value, name: &str| step.get(name).and_then(Value::as_bool) == Some(true);
    let text = |step: &Value, name: &str| {
        step.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let step = |step: &Value| {
        let wrote = step.get("source_writes").and_then(Value::as_array);
        StepClaim {
            name: text(step, "name"),
            exit_code: step.get("exit_code").and_then(Value::as_i64),
            timed_out: flag(step, "timed_out"),
            network: text(step, "network"),
            warned: flag(step, "oom") || wrote.is_some_and(|writes| !writes.is_empty()),
        }
    };
    all.into_iter().flatten().map(step).collect()
}
