//! The gate without a task: the pipeline of `agent.yaml` on the tree as it is.

use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::apply;
use super::audit::anchoring;
use super::claim::Claim;
use super::preflight::{self, GateReady};
use super::queue::TaskContext;
use super::queue::lock_failed;
use super::recorder::RunSink;
use super::recorder::TimingSink;
use super::{retention, signals};
use act_audit::Audit;
use act_core::Failure;
use act_core::event::{Events, Sink};
use act_core::verification::{Verification, Verifier, Warning, WarningCode};
use act_records::store::ProposalRecord;
use act_verifier::{DockerVerifier, Downloads, VerificationConfig};
use act_workspace::{OpenRoot, RepoLock};

/// None when cancelled. Refused while a task runs in the repository: its edits would change the tree under the
/// steps.
pub async fn verify(
    repo: &Path,
    downloads: Downloads,
    sinks: Vec<Box<dyn Sink>>,
) -> Result<Option<Verification>, Failure> {
    run_gate(repo, Purpose::Verify(downloads), sinks).await
}

/// What a run of the gate is.
pub(super) enum Purpose<'a> {
    Verify(Downloads),
    /// On a claim: about the same gate, tree and image, with nothing that was downloaded before.
    CheckClaim(&'a mut Claim),
}

/// The gate over the tree as it is.
pub(super) async fn run_gate(
    repo: &Path,
    mut purpose: Purpose<'_>,
    sinks: Vec<Box<dyn Sink>>,
) -> Result<Option<Verification>, Failure> {
    let ready = preflight::gate(repo).await?;
    let cancel = signals::cancelled_by_signals()?;
    let root = ready.config.root.clone();
    let lock = lock(&root)?;
    if let Purpose::CheckClaim(claim) = &purpose {
        tokio::select! {
            about = claim.is_about(&ready.config) => about?,
            () = cancel.cancelled() => return Ok(None),
        }
    }
    let context = preflight::open_context(&ready.artifacts, &root)?;
    let audit = context.audit_here(&root)?;
    anchoring::first(ready.anchored, &context.audit, &root, &cancel).await?;
    let runs = Box::new(RunSink::new(&context, None));
    let timing = Box::new(TimingSink::new(&context, None));
    let recording: [Box<dyn Sink>; 2] = [runs, timing];
    let events = Events::new("", recording.into_iter().chain(sinks).collect());
    let surroundings = Surroundings { root: lock.root(), audit: &audit, events: &events };
    // With the lock nobody is still at it.
    let half = match purpose {
        Purpose::Verify(_) => half_applied(&context)?,
        Purpose::CheckClaim(_) => vec![],
    };
    let mut response = judge(ready, surroundings, &mut purpose, &cancel).await?;
    if let Some(response) = &mut response {
        response.warnings.extend(half);
    }
    if let (Purpose::CheckClaim(claim), Some(response)) = (&purpose, &response) {
        claim.record(&audit, response)?;
    }
    drop(lock);
    retention::make_room(&context, &cancel, &events).await;
    anchoring::anchor(&context.audit, &root, &cancel, &events).await;
    Ok(response)
}

/// The verdict is about a tree that nobody meant.
fn half_applied(context: &TaskContext) -> Result<Vec<Warning>, Failure> {
    let warning = |record: ProposalRecord| Warning {
        code: WarningCode::ProposalUnfinished,
        step: None,
        message: apply::half_applied_text(&record.task_id),
    };
    Ok(context.store.half_applied(&context.repo)?.into_iter().map(warning).collect())
}

/// Where a run takes place, and who hears of it.
struct Surroundings<'a> {
    root: &'a OpenRoot,
    audit: &'a Audit,
    events: &'a Events,
}

async fn judge(
    ready: GateReady,
    Surroundings { root, audit, events }: Surroundings<'_>,
    purpose: &mut Purpose<'_>,
    cancel: &CancellationToken,
) -> Result<Option<Verification>, Failure> {
    let GateReady { config, artifacts, engine, anchored: _ } = ready;
    let engine = match engine {
        Ok(engine) => engine,
        Err(gone) => return Ok(Some(Verification::not_started(gone.into()))),
    };
    // What dead runs left is no reason not to start this one.
    tokio::select! {
        () = cancel.cancelled() => return Ok(None),
        _ = engine.reap_orphans() => {}
    }
    let name = &config.pipeline.image;
    let (resolved, downloads) = match purpose {
        Purpose::Verify(downloads) => (engine.ensure_image(name, events, cancel).await, *downloads),
        Purpose::CheckClaim(claim) => {
            (claim.image(&engine, name, events, cancel).await?, Downloads::Private)
        }
    };
    let image = match resolved {
        Ok(Some(image)) => image,
        Ok(None) => return Ok(None),
        Err(error) => return Ok(Some(Verification::not_started(error))),
    };
    let verifier = DockerVerifier {
        engine,
        image,
        artifacts,
        repo: root.clone(),
        config: Arc::new(VerificationConfig::of(&config)),
        downloads,
        task_id: None,
        components: vec![],
        audit: audit.clone(),
        events: events.clone(),
    };
    Ok(verifier.run(1, cancel).await)
}

fn lock(root: &Path) -> Result<RepoLock, Failure> {
    match RepoLock::try_acquire(root) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(Failure::refused(
            "task_running",
            "a task or a verification runs in this repository",
        )
        .hint("wait for it to end; `act status` says what it is, `act cancel` ends a task")),
        Err(error) => Err(lock_failed(root, &error)),
    }
}
