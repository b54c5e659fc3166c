//! A run of the gate in the audit log: on the disk before its first step, and before its manifest is written.

use super::blocking::blocking;
use super::conclusion::Facts;
use super::docker_error::InfraError;
use super::docker_verifier::DockerVerifier;
use super::response::{ErrorType, FailReason, Status};
use crate::artifacts::CommandExecuted;
use crate::audit::{AuditError, Decision, Entry, Event};
use crate::workspace::digest;

impl From<AuditError> for InfraError {
    fn from(error: AuditError) -> Self {
        let error_type = match error {
            AuditError::Unusable { full: true, .. } => ErrorType::ResourceExhaustion,
            _ => ErrorType::Unknown,
        };
        Self::new(error_type, format!("{error}; {}", error.hint()))
    }
}

impl DockerVerifier {
    /// Without this record the gate does not run, and not without room for the one of its end.
    pub(super) async fn record_start(&self, run_id: &str, attempt: u32) -> Result<(), InfraError> {
        self.audit.ready()?;
        let components = self.components.iter();
        let entry = self
            .by_this_gate(Event::GateStarted, run_id)
            .decision(Decision::Allow)
            .count("attempt", u64::from(attempt))
            .count("steps", self.gate.pipeline.steps.len() as u64)
            .names(components.map(|component| format!("{} {}", component.name, component.sha256)));
        self.at_the_edge(entry).await.map(|_| ())
    }

    /// The hash of the record, for the manifest.
    pub(super) async fn record_end(
        &self,
        run_id: &str,
        facts: &Facts,
        commands: &[CommandExecuted],
        (status, reason): (Status, Option<FailReason>),
        error: Option<&InfraError>,
    ) -> Result<String, InfraError> {
        let steps = serde_json::to_vec(commands).ok().map(|json| digest(&json));
        let entry = self
            .by_this_gate(Event::GateFinished, run_id)
            .digest("tree", facts.digest.as_deref())
            .digest("tree_after", facts.digest_after.as_deref())
            // So that what the manifest says of the steps cannot be changed unseen either.
            .digest("steps", steps.as_deref());
        let entry = match (status, reason, error) {
            (Status::Pass, ..) => entry.decision(Decision::Allow).reason("pass"),
            (Status::Fail, reason, _) => {
                entry.decision(Decision::Deny).reason(reason.map_or("fail", FailReason::as_str))
            }
            (Status::InfraError, _, Some(error)) => entry.reason(error.error_type.as_str()),
            (Status::InfraError, ..) => entry.reason("infra_error"),
        };
        self.at_the_edge(entry).await
    }

    /// Nobody waits for it: it is on the disk with the end of the task.
    pub(super) fn record_cancelled(&self, run_id: &str) {
        let _ =
            self.audit.append(self.by_this_gate(Event::GateFinished, run_id).reason("cancelled"));
    }

    fn by_this_gate(&self, event: Event, run_id: &str) -> Entry {
        let image = self.image.digest.as_str();
        Entry::new(event)
            .object(run_id)
            .digest("pipeline", Some(&self.gate.sha256))
            .digest("image", Some(image.strip_prefix("sha256:").unwrap_or(image)))
    }

    async fn at_the_edge(&self, entry: Entry) -> Result<String, InfraError> {
        let audit = self.audit.clone();
        let recorded = blocking(move || {
            let head = audit.append(entry);
            Ok(head.and_then(|head| audit.settle().map(|()| head.hash)))
        });
        let recorded =
            recorded.await.map_err(|error| InfraError::from_io("record the run", &error))?;
        Ok(recorded?)
    }
}
