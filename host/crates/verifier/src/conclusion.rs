//! What is written and answered at the end of a run: the manifest, then the response.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::blocking::blocking;
use super::docker_error::InfraError;
use super::docker_verifier::DockerVerifier;
use super::pipeline::{Judged, Verdict};
use super::response::{FailReason, Status, VerifyResponse, Warning};
use super::view::View;
use act_config::Workspace;
use act_records::artifacts::{Cache, Manifest, Platform, RunDir};

/// What a run learns beside its verdict.
#[derive(Default)]
pub(super) struct Facts {
    /// None as long as it is not decided.
    pub(super) view: Option<View>,
    /// The engine does not see our files.
    pub(super) elsewhere: bool,
    pub(super) cache: Option<Cache>,
    pub(super) commit: Option<String>,
    pub(super) digest: Option<String>,
    pub(super) digest_after: Option<String>,
    pub(super) tail: Option<String>,
    /// The container could not be removed, so something may still write in the run's directory.
    pub(super) container_left: bool,
    pub(super) warnings: Vec<Warning>,
}

impl DockerVerifier {
    /// Writes the manifest and answers. Nothing of the run changes after this.
    pub(super) async fn conclude(
        &self,
        run: &Arc<RunDir>,
        facts: Facts,
        judged: Judged,
        start: DateTime<Utc>,
    ) -> VerifyResponse {
        let (mut status, mut reason, mut error) = parts(judged.verdict);
        let asked = match self.gate.pipeline.workspace {
            Workspace::Auto => "auto",
            Workspace::Copy => "copy",
            Workspace::Overlay => "overlay",
            Workspace::Readonly => "readonly",
        };
        let mut manifest = Manifest {
            run_id: run.id().to_string(),
            task_id: self.task_id.clone(),
            timestamp_start: act_core::clock::seconds(start),
            timestamp_end: act_core::clock::seconds(act_core::clock::now()),
            commit_sha: facts.commit,
            status: status.as_str().to_owned(),
            reason: reason.map(|reason| reason.as_str().to_owned()),
            commands_executed: judged.commands,
            platform: Platform {
                os: self.image.os.clone(),
                arch: self.image.arch.clone(),
                container_image: self.image.reference.clone(),
            },
            image_digest: self.image.digest.clone(),
            tree_digest: facts.digest,
            tree_digest_after: facts.digest_after,
            pipeline_sha256: self.gate.sha256.clone(),
            workspace: facts.view.map_or_else(|| asked.to_owned(), |view| view.as_str().to_owned()),
            engine: self.engine.identity().clone(),
            components: self.components.clone(),
            audit_head: None,
            act_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let mut warnings = judged.warnings;
        warnings.extend(facts.warnings);
        match self.record_end(&manifest, &warnings, (status, reason), error.as_ref()).await {
            Ok(hash) => manifest.audit_head = Some(hash),
            // Without its records a run proves nothing.
            Err(failed) => {
                (status, reason) = (Status::InfraError, None);
                (manifest.status, manifest.reason) = (status.as_str().to_owned(), None);
                error.get_or_insert(failed);
            }
        }
        let (dir, written) = (run.clone(), manifest.clone());
        let written = blocking(move || dir.write_manifest(&written)).await;
        let manifest = match written {
            Ok(()) => serde_json::to_value(&manifest).ok(),
            Err(failed) => {
                (status, reason) = (Status::InfraError, None);
                error.get_or_insert(InfraError::from_io("write the manifest", &failed));
                None
            }
        };
        let dir = run.clone();
        VerifyResponse {
            status,
            run_id: Some(run.id().to_string()),
            tail_log: facts.tail,
            artifact_paths: blocking(move || dir.artifact_paths()).await.unwrap_or_default(),
            manifest,
            error_type: error.as_ref().map(|error| error.error_type),
            error_message: error.map(|error| error.message),
            reason,
            warnings,
        }
    }
}

fn parts(verdict: Verdict) -> (Status, Option<FailReason>, Option<InfraError>) {
    match verdict {
        Verdict::Pass => (Status::Pass, None, None),
        Verdict::Fail(reason) => (Status::Fail, Some(reason), None),
        Verdict::Infra(error) => (Status::InfraError, None, Some(error)),
        // Handled before anything is concluded.
        Verdict::Cancelled => (Status::InfraError, None, None),
    }
}
