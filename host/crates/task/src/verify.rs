//! The pipeline without a task: `act verify` runs it on the working tree or answers with an earlier run of it, and `act verify-claim` repeats an earlier run with
//! the same pipeline, tree and image and compares the results.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::audit::anchor;
use crate::audit::attestation::exported;
use crate::audit::explain::{Evidence, ManifestCheck, StepClaim};
use crate::audit::signature::{self, Signed};
use crate::prepare::VerificationParts;
use crate::queue::{TaskContext, lock_failed};
use crate::sinks::{RunSink, TimingSink};
use crate::{prepare, proposal, retention, reuse, run};
use act_audit::{Audit, AuditError, Decision, Entry, Event};
use act_config::Config;
use act_core::event::{Events, Sink};
use act_core::verification::{
    ErrorType, InfraError, Verdict, Verification, Verifier, Warning, WarningCode, lessens, marks,
};
use act_core::{Document, Failure, RunId};
use act_fs::Dir;
use act_fs::lock::{Kind, try_lock};
use act_records::artifacts::ArtifactDir;
use act_records::store::{ProposalRecord, Store};
use act_verifier::{
    DockerVerifier, Downloads, Engine, FoundImage, NameNow, RecordedImage, ResolvedImage, StepTimes,
};
use act_workspace::{CopySet, PathGlobs, RepoLock, RootIdentity, bare_digest, differing_files};
use serde_json::Value;

/// What a caller of [`verify`] wants.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub downloads: Downloads,
    /// The pipeline is run even if an earlier run would be the answer.
    pub fresh: bool,
    /// The name of an engine in `engines.toml`; `None` for the usual engine.
    pub engine: Option<String>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { downloads: Downloads::Shared, fresh: false, engine: None }
    }
}

/// Verifies the working tree with the pipeline of `agent.yaml`. An unchanged tree is answered from its last green run, and
/// a verification that runs is waited for, in this process or another one; the result says so. Returns `None` when
/// cancelled.
///
/// # Errors
///
/// The configuration is refused, or a task runs in the repository (`task_running`): its edits would change the tree
/// under the steps. A machine that cannot verify is a result and no error.
pub async fn verify(
    repo: &Path,
    wanted: Wanted,
    sinks: Vec<Box<dyn Sink>>,
) -> Result<Option<Verification>, Failure> {
    let cancel = run::cancelled_by_signals()?;
    run_pipeline(repo, Purpose::Verify(wanted), sinks, &cancel).await
}

/// Verifies the working tree like [`verify`], for a client that cancels it. Returns `None` when cancelled.
///
/// # Errors
///
/// As for [`verify`].
pub async fn verify_for(
    repo: &Path,
    wanted: Wanted,
    sinks: Vec<Box<dyn Sink>>,
    cancel: &CancellationToken,
) -> Result<Option<Verification>, Failure> {
    run_pipeline(repo, Purpose::Verify(wanted), sinks, cancel).await
}

/// The command that runs the pipeline.
pub(super) enum Purpose<'a> {
    Verify(Wanted),
    /// `act verify-claim`: with the pipeline, tree and image of the claim, and without earlier downloads.
    CheckClaim(&'a mut Claim),
}

/// Runs the pipeline on the working tree, for either command.
pub(super) async fn run_pipeline(
    repo: &Path,
    mut purpose: Purpose<'_>,
    sinks: Vec<Box<dyn Sink>>,
    cancel: &CancellationToken,
) -> Result<Option<Verification>, Failure> {
    let engine = match &purpose {
        Purpose::Verify(wanted) => wanted.engine.as_deref(),
        Purpose::CheckClaim(_) => None,
    };
    let ready = prepare::verification(repo, engine).await?;
    let root = ready.config.root.clone();
    let waits = matches!(purpose, Purpose::Verify(_));
    let Some(turn) = Turn::take(&ready.artifacts, &root, waits, cancel).await? else {
        return Ok(None);
    };
    if let Purpose::CheckClaim(claim) = &purpose {
        tokio::select! {
            about = claim.is_about(&ready.config, &ready.artifacts) => about?,
            () = cancel.cancelled() => return Ok(None),
        }
    }
    let context = prepare::open_context(&ready.artifacts, &root)?;
    let audit = context.audit_here(&root)?;
    context.reserve_room()?;
    anchor::first(ready.anchored, &context.audit, &root, cancel).await?;
    let runs = Box::new(RunSink::new(&context, None));
    let timing = Box::new(TimingSink::new(&context, None));
    let recording: [Box<dyn Sink>; 2] = [runs, timing];
    let events = Events::new("", recording.into_iter().chain(sinks).collect());
    prepare::notices().into_iter().for_each(|text| events.warn(text));
    ready.engine_why.iter().for_each(|why| events.inform(why));
    let surroundings =
        Surroundings { turn: &turn, context: &context, audit: &audit, events: &events };
    // This process has the lock, so no process is still writing a proposal.
    let half = match purpose {
        Purpose::Verify(_) => half_applied(&context)?,
        Purpose::CheckClaim(_) => vec![],
    };
    let mut response = run_and_report(ready, surroundings, &mut purpose, cancel).await?;
    context.use_room();
    if let Some(response) = &mut response {
        response.warnings.extend(half);
        keep_end(&context.store, response);
    }
    if let (Purpose::CheckClaim(claim), Some(response)) = (&purpose, &response) {
        claim.record(&audit, response)?;
    }
    drop(turn);
    // The caller has not printed the result yet, so the run stays live as long as this process.
    retention::make_room(&context, cancel, &events).await;
    anchor::anchor(&context.audit, &root, cancel, &events).await;
    Ok(response)
}

/// Makes a failure of a run whose end the store does not have: later commands believe the store.
fn keep_end(store: &Store, response: &mut Verification) {
    let Some(run_id) = &response.run_id else { return };
    let status = response.verdict.status().as_str();
    let is_stored = || match store.run(run_id.as_str()) {
        Ok(Some(run)) if run.status.as_deref() == Some(status) => Ok(true),
        Ok(_) => Ok(false),
        Err(error) => Err(error),
    };
    let head = response.manifest.as_ref().and_then(|manifest| manifest.audit_head.as_deref());
    let stored = match is_stored() {
        Ok(false) => store.run_finished(run_id.as_str(), status, head).and_then(|()| is_stored()),
        stored => stored,
    };
    let why = match stored {
        Ok(true) => return,
        Ok(false) => "the database does not have the run any more".to_owned(),
        Err(error) => error.to_string(),
    };
    // An error that came first is the one to report.
    if response.verdict.infra().is_none() {
        let message =
            format!("the run ended as {status}, but the result could not be saved: {why}");
        response.verdict = Verdict::Infra(InfraError::new(ErrorType::EndNotKept, message));
        response.manifest = None;
    }
}

/// Warns of proposals that were written in part: the verdict is then about an incomplete change.
fn half_applied(context: &TaskContext) -> Result<Vec<Warning>, Failure> {
    let warning = |record: ProposalRecord| Warning {
        code: WarningCode::ProposalUnfinished,
        step: None,
        message: proposal::half_applied_text(&record.task_id),
    };
    Ok(context.store.half_applied(&context.repo)?.into_iter().map(warning).collect())
}

/// The turn of a verification in its repository, until the value is dropped.
struct Turn {
    lock: RepoLock,
    /// Held from before the lock on the repository, so that other verifications know what they wait for.
    _verifying: Dir,
    /// Runs of other verifications that were waited for.
    joined: Vec<String>,
}

/// Pause before a verification looks again whether the one before it has ended.
const POLL: Duration = Duration::from_millis(50);

impl Turn {
    /// Takes the locks. Verifications of one ARTIFACT_DIR wait for each other where `waits` is set. Returns `None` when
    /// cancelled.
    ///
    /// # Errors
    ///
    /// A task, or a verification that cannot be waited for, runs in the repository.
    async fn take(
        artifacts: &Arc<ArtifactDir>,
        root: &Path,
        waits: bool,
        cancel: &CancellationToken,
    ) -> Result<Option<Self>, Failure> {
        let failed = |error: io::Error| lock_failed(root, &error);
        let repo = RootIdentity::of(root).map_err(failed)?.to_string();
        let verifying = artifacts.verifying(&repo).map_err(failed)?;
        let mut joined = vec![];
        while !try_lock(&verifying, Kind::Exclusive).map_err(failed)? {
            if !waits {
                return Err(busy());
            }
            // The one that runs writes its row when its container is about to be created.
            if let Some(run) = prepare::store(artifacts)?.last_run(&repo)?
                && run.status.is_none()
                && run.task_id.is_none()
                && !joined.contains(&run.run_id)
            {
                joined.push(run.run_id);
            }
            tokio::select! {
                () = cancel.cancelled() => return Ok(None),
                () = tokio::time::sleep(POLL) => {}
            }
        }
        match RepoLock::try_acquire(root) {
            Ok(Some(lock)) => Ok(Some(Self { lock, _verifying: verifying, joined })),
            Ok(None) => Err(busy()),
            Err(error) => Err(lock_failed(root, &error)),
        }
    }
}

fn busy() -> Failure {
    Failure::refused("task_running", "a task or a verification runs in this repository")
        .hint("wait for it to end; `act status` shows it, `act cancel` ends a task")
}

/// The repository of a run, and where the run is reported.
struct Surroundings<'a> {
    turn: &'a Turn,
    context: &'a TaskContext,
    audit: &'a Audit,
    events: &'a Events,
}

async fn run_and_report(
    ready: VerificationParts,
    Surroundings { turn, context, audit, events }: Surroundings<'_>,
    purpose: &mut Purpose<'_>,
    cancel: &CancellationToken,
) -> Result<Option<Verification>, Failure> {
    let VerificationParts { config, artifacts, engine, engine_why: _, anchored: _ } = ready;
    let engine = match engine {
        Ok(engine) => engine,
        Err(gone) => return Ok(Some(Verification::not_started(gone.into()))),
    };
    // Containers that earlier runs left behind do not prevent this run, even if they cannot be removed.
    tokio::select! {
        () = cancel.cancelled() => return Ok(None),
        _ = engine.reap_orphans() => {}
    }
    retention::sweep_killed(&artifacts, events).await;
    let name = &config.pipeline.image;
    let (resolved, downloads) = match purpose {
        Purpose::Verify(wanted) => {
            (engine.ensure_image(name, events, cancel).await, wanted.downloads)
        }
        Purpose::CheckClaim(claim) => {
            (claim.image(&engine, name, events, cancel).await?, Downloads::Private)
        }
    };
    let image = match resolved {
        Ok(Some(image)) => image,
        Ok(None) => return Ok(None),
        Err(error) => return Ok(Some(Verification::not_started(error))),
    };
    let config_in_use = prepare::verification_config(&config, &artifacts);
    let verifier = DockerVerifier {
        engine,
        image,
        artifacts,
        repo: turn.lock.root().clone(),
        config: Arc::new(config_in_use),
        variant: None,
        tests_weakened: Arc::default(),
        downloads,
        // The result for a person or for a claim is always that of a run that began without a warm base.
        warm: None,
        step_times: step_times(context),
        task_id: None,
        components: vec![],
        audit: audit.clone(),
        events: events.clone(),
    };
    // Without the downloads of earlier runs is another run than with them.
    let may_reuse = matches!(
        purpose,
        Purpose::Verify(Wanted { fresh: false, downloads: Downloads::Shared, .. })
    );
    if may_reuse {
        let found = reuse::earlier_run(&verifier, context, &turn.joined);
        if let Some(earlier) = cancel.run_until_cancelled(found).await.transpose()?.flatten() {
            return Ok(Some(earlier));
        }
    }
    Ok(verifier.run(1, cancel).await)
}

/// Returns what the steps of a repository took last time. A run goes on without the figures if the store cannot be read.
pub(super) fn step_times(context: &TaskContext) -> StepTimes {
    StepTimes::of(context.store.step_times(&context.repo).unwrap_or_default())
}

/// Repeats a run and compares the results. Returns `None` when cancelled.
///
/// # Errors
///
/// Pipeline or tree have changed, the image is gone, or the log has no verdict of the run. Nothing was run then.
pub async fn verify_claim(
    repo: &Path,
    run_id: &str,
    signed_by: Option<SignedBy<'_>>,
    sinks: Vec<Box<dyn Sink>>,
) -> Result<Option<ClaimCheck>, Failure> {
    // The signature is first: without it the rest of the statement means nothing.
    let signed = signed_by.map(|by| signature::checked(by.statement, by.key)).transpose()?;
    let mut claim = Claim::of(Evidence::of(repo, run_id)?);
    if let Some(signed) = signed {
        claim.compare_statement(&signed)?;
    }
    let cancel = run::cancelled_by_signals()?;
    let response = run_pipeline(repo, Purpose::CheckClaim(&mut claim), sinks, &cancel).await?;
    Ok(response.map(|response| ClaimCheck::of(&claim.evidence, claim.notes, response)))
}

/// A signed statement and the public key of whoever signed it.
#[derive(Debug, Clone, Copy)]
pub struct SignedBy<'a> {
    /// The file of a DSSE envelope.
    pub statement: &'a Path,
    /// The file of a public key in PEM.
    pub key: &'a Path,
}

pub(super) struct Claim {
    evidence: Evidence,
    notes: Vec<Note>,
}

fn changed(code: &'static str, what: &str, was: Option<&str>, is: &str) -> Failure {
    let was = was.unwrap_or("unknown");
    let message = format!("{what} differs from the claim: it was {was} and is now {is}");
    Failure::refused(code, message)
}

impl Claim {
    fn of(evidence: Evidence) -> Self {
        let mut notes = vec![];
        if evidence.steps.is_none() {
            let why = match evidence.run.manifest {
                ManifestCheck::Gone => "the manifest is gone",
                _ => "the log was written before their digest was recorded",
            };
            notes.push(Note::new("steps_unknown", format!("steps are not compared: {why}")));
        }
        if evidence.run.warnings.is_none() {
            let why =
                "warnings are not compared: the log was written before warnings were recorded"
                    .to_owned();
            notes.push(Note::new("warnings_unknown", why));
        }
        if evidence.run.worktree_identity.is_some() {
            let why = "the run of the claim tested a worktree of its repository, and not the working tree of that";
            notes.push(Note::new("run_in_worktree", why.to_owned()));
        }
        if evidence.run.base.is_some() {
            let why = "the run of the claim is warm: it began with a base; this one is cold";
            notes.push(Note::new("run_warm", why.to_owned()));
        }
        Self { evidence, notes }
    }

    /// Checks that a signed statement says what the log of this machine says about the run.
    ///
    /// # Errors
    ///
    /// The statement says something else (`statement_differs`), or the log does not hold enough to compare.
    fn compare_statement(&mut self, signed: &Signed) -> Result<(), Failure> {
        let run_id = self.evidence.run.run_id.clone();
        let ours = exported(&self.evidence, &run_id)?;
        let ours = serde_json::to_value(&ours).unwrap_or_default();
        let theirs: Value = serde_json::from_slice(&signed.payload).unwrap_or_default();
        let places = [
            ("_type", "/_type"),
            ("subject", "/subject"),
            ("predicateType", "/predicateType"),
            ("result", "/predicate/result"),
            ("configuration", "/predicate/configuration"),
            ("passedTests", "/predicate/passedTests"),
            ("warnedTests", "/predicate/warnedTests"),
            ("failedTests", "/predicate/failedTests"),
        ];
        let differs = |(_, place): &(&str, &str)| ours.pointer(place) != theirs.pointer(place);
        let mut differing: Vec<_> =
            places.into_iter().filter(differs).map(|(name, _)| name).collect();
        if differing.is_empty() && ours != theirs {
            differing.push("other fields");
        }
        if !differing.is_empty() {
            let message = format!(
                "the signed statement differs from the log about {run_id} in: {}",
                differing.join(", ")
            );
            return Err(Failure::refused("statement_differs", message).hint(
                "name the run of the statement: the annotation `run_id` of its `audit-record`",
            ));
        }
        let message = format!("the statement is signed with the key {}", signed.keyid);
        self.notes.push(Note::new("statement_signed", message));
        Ok(())
    }

    /// Checks that pipeline and tree have the digests of the claim; reads the whole tree.
    ///
    /// # Errors
    ///
    /// `claim_gate_changed`, `claim_tree_changed`, or the tree cannot be read.
    pub(super) async fn is_about(
        &self,
        config: &Config,
        artifacts: &ArtifactDir,
    ) -> Result<(), Failure> {
        let run = &self.evidence.run;
        if run.pipeline_sha256.as_deref() != Some(config.sha256.as_str()) {
            let was = run.pipeline_sha256.as_deref();
            return Err(changed("claim_gate_changed", "agent.yaml", was, &config.sha256)
                .hint("restore the agent.yaml of that run"));
        }
        let (root, include) = (config.root.clone(), config.pipeline.include.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let include = PathGlobs::new(&include).map_err(|error| error.to_string())?;
            CopySet::of(&root, &include)
                .and_then(|set| set.tree())
                .map_err(|error| error.to_string())
        });
        let tree = reading.await.unwrap_or_else(|stopped| Err(stopped.to_string()));
        let tree = tree.map_err(|why| {
            Failure::refused("repository_unusable", format!("the tree cannot be read: {why}"))
        })?;
        if run.tree_digest.as_deref() == Some(tree.digest.as_str()) {
            return Ok(());
        }
        let list = RunId::parse(&run.run_id).ok().zip(run.tree_digest.as_deref());
        let list = list.and_then(|(run, digest)| artifacts.tree_list(&run, digest));
        let files = list.map(|list| differing_files(&list, &tree.list()));
        let base = run.repo.as_ref().and_then(|repo| repo.head.as_ref());
        let base = base.map_or_else(String::new, |commit| format!(", above commit {commit}"));
        let mut refusal =
            changed("claim_tree_changed", "the tree", run.tree_digest.as_deref(), &tree.digest);
        refusal.message.push_str(&match files {
            Some(files) => format!("; files that differ: {}", named_files(&files)),
            None => "; the list of the files of that run is not stored any more".to_owned(),
        });
        Err(refusal
            .hint(format!("restore the files of that run{base}; ignored files do not count")))
    }

    /// Returns the image of the claim, whatever `name`, the image of the pipeline, means now. The outer option is
    /// `None` when cancelled; the inner error is a failure of the engine.
    ///
    /// # Errors
    ///
    /// The image is gone (`claim_image_gone`).
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
                    "restore it with `docker load` or `docker pull`; `docker image inspect {id}` shows it then"
                )));
            }
            Ok(None) => return Ok(Ok(None)),
            Err(error) => return Ok(Err(error)),
        };
        let note = match named {
            NameNow::Same => None,
            NameNow::Other(now) => {
                Some(format!("{name} now means {now}; the image of the claim, {id}, was used"))
            }
            NameNow::Missing => Some(format!(
                "no image has the name {name} any more; the image of the claim, {id}, was used"
            )),
        };
        self.notes.extend(note.map(|message| Note::new("image_name_moved", message)));
        Ok(Ok(Some(image)))
    }

    /// Records the result of the comparison in the audit log. The record is on the disk when this returns.
    ///
    /// # Errors
    ///
    /// The log cannot be written.
    pub(super) fn record(&self, audit: &Audit, response: &Verification) -> Result<(), AuditError> {
        let (decision, word) = match holds(&self.evidence, response) {
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

/// Maximum number of files that a message names.
const NAMED: usize = 20;

fn named_files(files: &[String]) -> String {
    let shown = files.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match files.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The result of repeating a verification: the document of `act verify-claim --json`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ClaimCheck {
    /// The run whose verdict was checked.
    pub run_id: String,
    /// True if both runs have the same result. False if the second run has no verdict.
    pub holds: bool,
    pub claimed: ClaimSide,
    pub found: ClaimSide,
    /// The differences between the runs. Empty if there are none, and if the second run has no verdict.
    pub differences: Vec<Difference>,
    /// Remarks that are not differences.
    pub notes: Vec<Note>,
    /// The second run, in the form of `act verify --json`.
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "serde_json::Value"))]
    pub response: Verification,
}

impl Document for ClaimCheck {
    const NAME: &'static str = "verify-claim";
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "ClaimSaid")
)]
pub struct ClaimSide {
    pub run_id: Option<String>,
    /// `PASS` or `FAIL`; for the second run also `INFRA_ERROR`.
    pub status: String,
    /// Reason of a failure; null otherwise.
    pub reason: Option<String>,
    /// Codes of warnings that weaken the verdict, each with the numbers of its steps; null when the log does not hold
    /// them.
    pub warnings: Option<Vec<String>>,
    pub pipeline_sha256: Option<String>,
    pub image_digest: Option<String>,
    pub tree_digest: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "ClaimDifference")
)]
pub struct Difference {
    /// Name of a field of the manifest, or `warnings`.
    pub field: String,
    pub claimed: Option<String>,
    pub found: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "ClaimNote")
)]
pub struct Note {
    /// The remark, as a stable word.
    pub code: String,
    pub message: String,
}

impl Note {
    pub(super) fn new(code: &str, message: String) -> Self {
        Self { code: code.to_owned(), message }
    }
}

impl ClaimCheck {
    pub(super) fn of(evidence: &Evidence, notes: Vec<Note>, response: Verification) -> Self {
        Self {
            run_id: evidence.run.run_id.clone(),
            holds: holds(evidence, &response) == Some(true),
            claimed: claimed(evidence),
            found: found(&response),
            differences: compared(evidence, &response).unwrap_or_default(),
            notes,
            response,
        }
    }
}

/// Returns whether the claim holds, or `None` if the second run has no verdict.
pub(super) fn holds(evidence: &Evidence, response: &Verification) -> Option<bool> {
    compared(evidence, response).map(|differences| differences.is_empty())
}

fn compared(evidence: &Evidence, response: &Verification) -> Option<Vec<Difference>> {
    if let Verdict::Infra(_) = response.verdict {
        return None;
    }
    let (claimed, found) = (claimed(evidence), found(response));
    let again: Vec<_> = response.steps().iter().map(StepClaim::of).collect();
    Some(differences((&claimed, evidence.steps.as_deref()), (&found, &again)))
}

fn claimed(evidence: &Evidence) -> ClaimSide {
    let (run, passed) = (&evidence.run, evidence.passed);
    ClaimSide {
        run_id: Some(run.run_id.clone()),
        status: if passed { "PASS" } else { "FAIL" }.to_owned(),
        reason: run.outcome.clone().filter(|_| !passed),
        warnings: evidence.warnings(),
        pipeline_sha256: run.pipeline_sha256.clone(),
        image_digest: run.image_digest.clone(),
        tree_digest: run.tree_digest.clone(),
    }
}

fn found(response: &Verification) -> ClaimSide {
    let manifest = response.manifest.as_ref();
    let names: Vec<_> = response.steps().iter().map(|step| step.name.as_str()).collect();
    let warnings = marks(&response.warnings, &names).into_iter();
    ClaimSide {
        run_id: response.run_id.as_ref().map(ToString::to_string),
        status: response.verdict.status().as_str().to_owned(),
        reason: response.verdict.fail_reason().map(|reason| reason.as_str().to_owned()),
        warnings: Some(warnings.filter(|mark| lessens(mark).is_some()).collect()),
        pipeline_sha256: manifest.map(|manifest| manifest.pipeline_sha256.clone()),
        image_digest: manifest
            .map(|manifest| format!("sha256:{}", bare_digest(&manifest.image_digest))),
        tree_digest: response.tree_digest().map(str::to_owned),
    }
}

/// Compares verdict, digests, warnings, and the end and the network of each step. Durations are not compared, and
/// neither is what the log does not hold about the first run.
fn differences(
    (claimed, claimed_steps): (&ClaimSide, Option<&[StepClaim]>),
    (found, found_steps): (&ClaimSide, &[StepClaim]),
) -> Vec<Difference> {
    let mut all = vec![];
    let mut compare = |field: String, claimed: Option<String>, found: Option<String>| {
        if claimed != found {
            all.push(Difference { field, claimed, found });
        }
    };
    compare("status".into(), Some(claimed.status.clone()), Some(found.status.clone()));
    compare("reason".into(), claimed.reason.clone(), found.reason.clone());
    for (name, one, other) in [
        ("pipeline_sha256", &claimed.pipeline_sha256, &found.pipeline_sha256),
        ("image_digest", &claimed.image_digest, &found.image_digest),
        ("tree_digest", &claimed.tree_digest, &found.tree_digest),
    ] {
        compare(name.to_owned(), one.clone(), other.clone());
    }
    if claimed.warnings.is_some() {
        let listed = |side: &ClaimSide| {
            side.warnings.as_ref().map(|all| all.join("; ")).filter(|text| !text.is_empty())
        };
        compare("warnings".to_owned(), listed(claimed), listed(found));
    }
    let claimed_steps = claimed_steps.unwrap_or(found_steps);
    for at in 0..claimed_steps.len().max(found_steps.len()) {
        let step = |steps: &[StepClaim]| steps.get(at).map(step_text);
        compare(format!("commands_executed[{at}]"), step(claimed_steps), step(found_steps));
    }
    all
}

fn step_text(step: &StepClaim) -> String {
    let end = match (step.timed_out, step.exit_code) {
        (true, _) => "timed out".to_owned(),
        (false, Some(code)) => format!("exit code {code}"),
        (false, None) => "no exit code".to_owned(),
    };
    let warned = if step.warned { ", with a warning" } else { "" };
    format!("{}: {end}, network {}{warned}", step.name, step.network)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finish::testing::accepted;
    use act_core::event::schema;
    use act_core::process::Process;
    use act_core::verification::FailReason;

    fn run(status: &str) -> ClaimSide {
        ClaimSide {
            run_id: None,
            status: status.to_owned(),
            reason: None,
            warnings: Some(vec![]),
            pipeline_sha256: Some("p".into()),
            image_digest: Some("sha256:i".into()),
            tree_digest: Some("t".into()),
        }
    }

    fn step(exit_code: i64) -> StepClaim {
        StepClaim {
            name: "test".into(),
            exit_code: Some(exit_code),
            timed_out: false,
            network: "on".into(),
            warned: false,
        }
    }

    // AUDIT-25
    #[test]
    fn a_claim_holds_when_verdict_digests_and_steps_are_the_same() {
        let pass = run("PASS");
        let green = [step(0)];
        assert_eq!(differences((&pass, Some(&green)), (&pass, &green)), []);
        // Without the steps of the first run there is nothing to compare them with.
        assert_eq!(differences((&pass, None), (&pass, &green)), []);
        let fields = |side: &ClaimSide, steps: &[StepClaim]| {
            let all = differences((&pass, Some(&green)), (side, steps));
            all.into_iter().map(|one| one.field).collect::<Vec<_>>()
        };
        assert_eq!(fields(&run("FAIL"), &[step(1)]), ["status", "commands_executed[0]"]);
        assert_eq!(fields(&pass, &[step(0), step(0)]), ["commands_executed[1]"]);
        let offline = StepClaim { network: "off".into(), ..step(0) };
        assert_eq!(fields(&pass, &[offline]), ["commands_executed[0]"]);
        let elsewhere = ClaimSide { tree_digest: Some("u".into()), ..run("PASS") };
        assert_eq!(fields(&elsewhere, &green), ["tree_digest"]);
        let doubted = ClaimSide { warnings: Some(vec!["no_tests_ran 1".into()]), ..run("PASS") };
        assert_eq!(fields(&doubted, &green), ["warnings"]);
        let older = ClaimSide { warnings: None, ..run("PASS") };
        assert_eq!(differences((&older, Some(&green)), (&doubted, &green)), []);
    }

    // VERIFIER-61, TASK-30
    #[test]
    fn a_run_whose_end_the_store_does_not_have_is_a_failure_whatever_its_verdict() {
        let task = accepted(true);
        let store = &task.owned_task.context.store;
        let ended = |id: &str, verdict: Verdict| {
            let run_id = Some(RunId::try_from(id.to_owned()).unwrap());
            let none = Verification::not_started(InfraError::new(ErrorType::Unknown, "none"));
            let mut response = Verification { run_id, verdict, ..none };
            keep_end(store, &mut response);
            response
        };
        let id = "run_20261121_100000_abc123";
        let failed = Verdict::Fail(FailReason::StepFailed);
        for verdict in [Verdict::Pass, failed.clone()] {
            let lost = ended(id, verdict);
            let error = lost.verdict.infra().unwrap();
            assert_eq!(error.error_type, ErrorType::EndNotKept, "{error:?}");
        }
        // A run that the store knows is stored with its end, also when the first try failed.
        store.run_started(id, None, "/repo", false, &Process::this()).unwrap();
        for verdict in [Verdict::Pass, failed] {
            let status = verdict.status().as_str();
            assert!(ended(id, verdict).verdict.infra().is_none());
            assert_eq!(store.run(id).unwrap().unwrap().status.as_deref(), Some(status));
        }
    }

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::document_holds::<ClaimCheck>();
    }
}
