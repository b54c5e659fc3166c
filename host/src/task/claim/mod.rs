//! `act verify-claim`: what a run said, said again by a run of the same gate over the same tree in the same image.

mod compared;

use std::path::Path;

use tokio_util::sync::CancellationToken;

pub use compared::{ClaimCheck, Difference, Note, Said};

use super::audit::evidence::Evidence;
use super::audit::explain::ManifestCheck;
use super::verify::{Purpose, run_gate};
use act_audit::{Audit, AuditError, Decision, Entry, Event};
use act_config::Config;
use act_core::Failure;
use act_core::event::{Events, Sink};
use act_core::verification::{InfraError, Verification};
use act_verifier::{Engine, FoundImage, NameNow, RecordedImage, ResolvedImage};
use act_workspace::{PathGlobs, tree_digest};

/// None when cancelled. Refused, before anything runs, where gate or tree are not what they were, or the image is not to
/// be had.
pub async fn verify_claim(
    repo: &Path,
    run_id: &str,
    sinks: Vec<Box<dyn Sink>>,
) -> Result<Option<ClaimCheck>, Failure> {
    let mut claim = Claim::of(Evidence::of(repo, run_id)?);
    let response = run_gate(repo, Purpose::CheckClaim(&mut claim), sinks).await?;
    Ok(response.map(|response| ClaimCheck::of(&claim.evidence, claim.notes, response)))
}

pub(super) struct Claim {
    evidence: Evidence,
    notes: Vec<Note>,
}

fn changed(code: &'static str, what: &str, was: Option<&str>, is: &str) -> Failure {
    let was = was.unwrap_or("unknown");
    let message = format!("{what} is not the one of the claim: it was {was}, it is {is}");
    Failure::refused(code, message)
}

impl Claim {
    fn of(evidence: Evidence) -> Self {
        let mut notes = vec![];
        if evidence.steps.is_none() {
            let why = match evidence.run.manifest {
                ManifestCheck::Gone => "the manifest is gone",
                _ => "the log is older than their digest",
            };
            notes.push(Note::new("steps_unknown", format!("steps are not compared: {why}")));
        }
        if evidence.run.warnings.is_none() {
            let why = "warnings are not compared: the log is older than their record".to_owned();
            notes.push(Note::new("warnings_unknown", why));
        }
        Self { evidence, notes }
    }

    /// Whether gate and tree are what they were; reads the whole tree.
    pub(super) async fn is_about(&self, config: &Config) -> Result<(), Failure> {
        let run = &self.evidence.run;
        if run.pipeline_sha256.as_deref() != Some(config.sha256.as_str()) {
            let was = run.pipeline_sha256.as_deref();
            return Err(changed("claim_gate_changed", "agent.yaml", was, &config.sha256)
                .hint("put back the agent.yaml of that run"));
        }
        let (root, include) = (config.root.clone(), config.pipeline.include.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let include = PathGlobs::new(&include).map_err(|error| error.to_string())?;
            tree_digest(&root, &include).map_err(|error| error.to_string())
        });
        let digest = reading.await.unwrap_or_else(|stopped| Err(stopped.to_string()));
        let digest = digest.map_err(|why| {
            Failure::refused("repository_unusable", format!("the tree cannot be read: {why}"))
        })?;
        if run.tree_digest.as_deref() == Some(digest.as_str()) {
            return Ok(());
        }
        let base = run.repo.as_ref().and_then(|repo| repo.head.as_ref());
        let base = base.map_or_else(String::new, |commit| format!(", above commit {commit}"));
        Err(changed("claim_tree_changed", "the tree", run.tree_digest.as_deref(), &digest)
            .hint(format!("bring back the files of that run{base}; ignored files do not count")))
    }

    /// The image that was recorded, whatever `name`, which is that of the gate, means by now. None when cancelled; the
    /// inner error is the engine's trouble.
    pub(super) async fn image(
        &mut self,
        engine: &Engine,
        name: &str,
        events: &Events,
        cancel: &CancellationToken,
    ) -> Result<Result<Option<ResolvedImage>, InfraError>, Failure> {
        let run = &self.evidence.run;
        let digest = run.image_digest.as_deref().unwrap_or_default();
        let recorded = RecordedImage { name, id: run.image_id.as_deref(), digest };
        let id = recorded.id.unwrap_or(digest);
        let (image, named) = match engine.recorded_image(recorded, events, cancel).await {
            Ok(Some(FoundImage::Found(image, named))) => (*image, named),
            Ok(Some(FoundImage::Unavailable(why))) => {
                let message =
                    format!("the image of the claim is gone: {id}, which was {name}: {why}");
                return Err(Failure::refused("claim_image_gone", message).hint(format!(
                    "bring it back with `docker load` or `docker pull`; `docker image inspect {id}` shows it then"
                )));
            }
            Ok(None) => return Ok(Ok(None)),
            Err(error) => return Ok(Err(error)),
        };
        let note = match named {
            NameNow::Same => None,
            NameNow::Other(now) => {
                Some(format!("{name} is {now} by now; the claim's image was taken, {id}"))
            }
            NameNow::Missing => {
                Some(format!("nothing is {name} any more; the claim's image was taken, {id}"))
            }
        };
        self.notes.extend(note.map(|message| Note::new("image_name_moved", message)));
        Ok(Ok(Some(image)))
    }

    /// On the disk when this returns.
    pub(super) fn record(&self, audit: &Audit, response: &Verification) -> Result<(), AuditError> {
        let (decision, word) = match compared::holds(&self.evidence, response) {
            None => (None, "no_verdict"),
            Some(true) => (Some(Decision::Allow), "holds"),
            Some(false) => (Some(Decision::Deny), "differs"),
        };
        let entry = Entry::new(Event::ClaimChecked)
            .object(&self.evidence.run.run_id)
            .reason(word)
            .names(response.run_id.as_ref().map(ToString::to_string));
        audit.append(decision.map_or(entry.clone(), |decision| entry.decision(decision)))?;
        audit.settle()
    }
}
