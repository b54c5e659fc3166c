//! What is written and answered at the end of a run: the manifest, then the response.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::blocking::blocking;
use super::docker_verifier::DockerVerifier;
use super::pipeline::Judged;
use super::view::View;
use act_config::Workspace;
use act_core::verification::{InfraError, Manifest, Platform, Verdict, Verification, Warning};
use act_records::artifacts::{Cache, RunDir};

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
    ) -> Verification {
        let mut verdict = judged.verdict;
        let asked = match self.gate.pipeline.workspace {
            Workspace::Auto => "auto",
            Workspace::Copy => "copy",
            Workspace::Overlay => "overlay",
            Workspace::Readonly => "readonly",
        };
        let mut manifest = Manifest {
            run_id: run.id().clone(),
            task_id: self.task_id.clone(),
            timestamp_start: act_core::clock::seconds(start),
            timestamp_end: act_core::clock::seconds(act_core::clock::now()),
            commit_sha: facts.commit,
            status: verdict.status(),
            reason: verdict.fail_reason(),
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
        match self.record_end(&manifest, &warnings, &verdict).await {
            Ok(hash) => manifest.audit_head = Some(hash),
            // Without its records a run proves nothing.
            Err(failed) => {
                verdict = trouble(verdict, failed);
                (manifest.status, manifest.reason) = (verdict.status(), None);
            }
        }
        let (dir, written) = (run.clone(), manifest.clone());
        let written = blocking(move || dir.write_manifest(&written)).await;
        let manifest = match written {
            Ok(()) => Some(manifest),
            Err(failed) => {
                verdict = trouble(verdict, InfraError::from_io("write the manifest", &failed));
                None
            }
        };
        let dir = run.clone();
        Verification {
            run_id: Some(run.id().clone()),
            verdict,
            tail: facts.tail,
            artifact_paths: blocking(move || dir.artifact_paths()).await.unwrap_or_default(),
            manifest,
            warnings,
        }
    }
}

/// The first trouble is the one to report.
fn trouble(verdict: Verdict, error: InfraError) -> Verdict {
    match verdict {
        Verdict::Infra(_) => verdict,
        Verdict::Pass | Verdict::Fail(_) => Verdict::Infra(error),
    }
}
