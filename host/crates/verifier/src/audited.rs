//! A run of the gate in the audit log: on the disk before its first step, and before its manifest is written.

use super::blocking::blocking;
use super::docker_verifier::DockerVerifier;
use act_audit::{AuditError, Decision, Entry, Event};
use act_core::verification::{ErrorType, InfraError, Manifest, Verdict, Warning, marks};
use act_records::artifacts::{manifest_digest, steps_digest};

/// A run that cannot be recorded proves nothing, so trouble with the audit log ends it.
pub(super) fn unrecorded(error: AuditError) -> InfraError {
    let error_type = match error {
        AuditError::Unusable { full: true, .. } => ErrorType::ResourceExhaustion,
        _ => ErrorType::Unknown,
    };
    InfraError::new(error_type, format!("{error}; {}", error.hint()))
}

impl DockerVerifier {
    /// Without this record the gate does not run, and not without room for the one of its end.
    pub(super) async fn record_start(&self, run_id: &str, attempt: u32) -> Result<(), InfraError> {
        self.audit.ready().map_err(unrecorded)?;
        let components = self.components.iter();
        let entry = self
            .by_this_gate(Event::GateStarted, run_id)
            .decision(Decision::Allow)
            .count("attempt", u64::from(attempt))
            .count("steps", self.gate.pipeline.steps.len() as u64)
            .names(components.map(|component| format!("{} {}", component.name, component.sha256)));
        self.at_the_edge(entry).await.map(|_| ())
    }

    /// The hash of the record, for the manifest, which lacks nothing else.
    pub(super) async fn record_end(
        &self,
        manifest: &Manifest,
        warnings: &[Warning],
        verdict: &Verdict,
    ) -> Result<String, InfraError> {
        let steps = steps_digest(&manifest.commands_executed);
        let whole = manifest_digest(manifest);
        let names: Vec<_> =
            manifest.commands_executed.iter().map(|step| step.name.as_str()).collect();
        let entry = self
            .by_this_gate(Event::GateFinished, manifest.run_id.as_str())
            .digest("tree", manifest.tree_digest.as_deref())
            .digest("tree_after", manifest.tree_digest_after.as_deref())
            // So that what the manifest says cannot be changed unseen either.
            .digest("steps", steps.as_deref())
            .digest("manifest", whole.as_deref())
            .count("warnings", warnings.len() as u64)
            .names(marks(warnings, &names));
        let entry = match verdict {
            Verdict::Pass => entry.decision(Decision::Allow).reason("pass"),
            Verdict::Fail(reason) => entry.decision(Decision::Deny).reason(reason.as_str()),
            Verdict::Infra(error) => entry.reason(error.error_type.as_str()),
        };
        self.at_the_edge(entry).await
    }

    /// Nobody waits for it: it is on the disk with the end of the task.
    pub(super) fn record_cancelled(&self, run_id: &str) {
        let _ =
            self.audit.append(self.by_this_gate(Event::GateFinished, run_id).reason("cancelled"));
    }

    fn by_this_gate(&self, event: Event, run_id: &str) -> Entry {
        let bare = |digest| Some(str::strip_prefix(digest, "sha256:").unwrap_or(digest));
        Entry::new(event)
            .object(run_id)
            .digest("pipeline", Some(&self.gate.sha256))
            .digest("image", bare(&self.image.digest))
            .digest("image_id", bare(&self.image.id))
    }

    async fn at_the_edge(&self, entry: Entry) -> Result<String, InfraError> {
        let audit = self.audit.clone();
        let recorded = blocking(move || {
            let head = audit.append(entry);
            Ok(head.and_then(|head| audit.settle().map(|()| head.hash)))
        });
        let recorded =
            recorded.await.map_err(|error| InfraError::from_io("record the run", &error))?;
        recorded.map_err(unrecorded)
    }
}
