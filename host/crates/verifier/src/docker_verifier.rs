//! One run of the gate, from the first question to the engine to the last byte of the manifest.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::blocking::blocking;
use super::conclusion::Facts;
use super::engine::Engine;
use super::image::ResolvedImage;
use super::pipeline::{Gate, Judged, oom_warning, run_steps};
use super::same_tree::{compare, root_moved};
use super::starting::{CANCELLED_CLEANUP, Started};
use super::step::ContainerSteps;
use super::step_log::RunLog;
use act_audit::Audit;
use act_core::event::{EventKind, Events};
use act_core::verification::{
    ComponentDigest, ErrorType, InfraError, Verdict, Verification, Verifier, Warning, WarningCode,
};
use act_records::artifacts::{ArtifactDir, RunDir};
use act_workspace::{HeldRoot, PathGlobs, head_commit};

/// What the tools of a step find below `/artifacts/cache`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Downloads {
    /// What earlier runs of this repository in this image downloaded; it is kept for later ones.
    Kept,
    /// Nothing, and nothing of it is kept: no step of an earlier run has a say.
    Own,
}

/// The gate of one task.
#[derive(Clone)]
pub struct DockerVerifier {
    pub engine: Engine,
    pub image: ResolvedImage,
    pub artifacts: Arc<ArtifactDir>,
    /// The repository's root, absolute and with its links resolved. A run judges this directory or none.
    pub repo: HeldRoot,
    pub gate: Arc<Gate>,
    pub downloads: Downloads,
    pub task_id: Option<String>,
    /// Of the components that took part in the task.
    pub components: Vec<ComponentDigest>,
    /// Nothing runs that could not be recorded.
    pub audit: Audit,
    pub events: Events,
}

impl Verifier for DockerVerifier {
    fn run<'a>(
        &'a self,
        attempt: u32,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Option<Verification>> {
        Box::pin(self.verify(attempt, cancel))
    }
}

impl DockerVerifier {
    async fn verify(&self, attempt: u32, cancel: &CancellationToken) -> Option<Verification> {
        let (began, start) = (Instant::now(), act_core::clock::now());
        let answered = tokio::select! {
            biased;
            () = cancel.cancelled() => return None,
            answered = self.engine.ping() => answered,
        };
        if let Err(error) = answered {
            return Some(Verification::not_started(error.into()));
        }
        let artifacts = self.artifacts.clone();
        let run = match blocking(move || artifacts.create_run(start)).await {
            Ok(run) => Arc::new(run),
            Err(error) => {
                let error = InfraError::from_io("create the run's directory", &error);
                return Some(Verification::not_started(error));
            }
        };
        let run_id = run.id().to_string();
        self.events.emit(EventKind::VerifyStarted { run_id: run_id.clone(), attempt });

        let repo = self.repo.path().to_owned();
        // Also of a run that never gets a container.
        let commit = blocking(move || Ok(head_commit(&repo))).await.ok().flatten();
        let mut facts = Facts { commit, ..Facts::default() };
        let judged = match self.record_start(&run_id, attempt).await {
            Ok(()) => self.judge(&run, &mut facts, cancel).await.unwrap_or_else(infra),
            Err(error) => infra(error),
        };
        let Some(judged) = judged else {
            self.record_cancelled(&run_id);
            // Nobody is left to hear that it failed.
            let _ = self.reclaim(&run, &facts).await;
            let run = run.clone();
            let cleanup = blocking(move || run.remove_scratch());
            // What is left then goes with the run's directory.
            let _ = tokio::time::timeout(CANCELLED_CLEANUP, cleanup).await;
            return None;
        };
        self.clean(&run, &mut facts).await;
        let verification = self.conclude(&run, facts, judged, start).await;
        let verdict = &verification.verdict;
        self.events.emit(EventKind::VerifyFinished {
            run_id,
            status: verdict.status(),
            error_type: verdict.infra().map(|error| error.error_type),
            reason: verdict.fail_reason(),
            audit_head: verification
                .manifest
                .as_ref()
                .and_then(|manifest| manifest.audit_head.clone()),
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        Some(verification)
    }

    /// From the tree to the verdict; `None` when cancelled. No container is left when this returns.
    async fn judge(
        &self,
        run: &Arc<RunDir>,
        facts: &mut Facts,
        cancel: &CancellationToken,
    ) -> Result<Option<Judged>, InfraError> {
        let include = PathGlobs::new(&self.gate.pipeline.include).map_err(|error| {
            InfraError::new(
                ErrorType::ContainerCreation,
                format!("verification.include in agent.yaml: {error}"),
            )
        })?;
        let include = Arc::new(include);
        self.repo.stays().map_err(root_moved)?;
        let mut log = RunLog::create(run)
            .map_err(|error| InfraError::from_io("create the run's log", &error))?;
        let Some(started) = self.start(run, &include, facts, cancel).await? else {
            return Ok(None);
        };
        // In this order, so that the files outlive the container whatever happens.
        let Started { depot, container, watch, view } = started;

        let mut steps = ContainerSteps {
            container: &container,
            gate: &self.gate,
            view,
            watch: Some(watch),
            depot: depot.as_ref(),
            run,
            log: &mut log,
            events: &self.events,
            cancel,
            warnings: vec![],
            detached: None,
        };
        let mut judged = run_steps(&self.gate.pipeline, &mut steps).await;
        let uncounted = !container.oom.is_counted();
        if let Some(judged) = &mut judged
            && judged.verdict == Verdict::Pass
            && uncounted
            && judged.commands.iter().all(|command| !command.oom)
        {
            // An event may come late or not at all; the flag is set once the container has stopped.
            let stopped = container.kill().await;
            if stopped.is_ok() && matches!(container.state().await, Ok(state) if state.oom_killed) {
                judged.warnings.push(oom_warning(None));
            }
        }
        // Nothing can reach the repository, so it is read while the container ends.
        let (removed, after) = tokio::join!(container.remove(), self.look_again(include, cancel));
        let mut warnings = vec![];
        if let Err(error) = removed {
            let message =
                format!("{}; the next start of act removes it", InfraError::from(error).message);
            warnings.push(Warning { code: WarningCode::ContainerLeft, step: None, message });
            facts.container_left = true;
        }
        if let Some(depot) = depot {
            let fetch = judged.is_some() && !facts.container_left;
            warnings.extend(self.empty(depot, run, fetch, cancel).await);
        }
        let (Some(mut judged), Some(after)) = (judged, after) else { return Ok(None) };
        judged.warnings.append(&mut warnings);
        let infra = matches!(judged.verdict, Verdict::Infra(_));
        facts.tail = (log.printed() || !infra).then(|| log.tail());
        judged.verdict = compare(judged.verdict, after, self.repo.stays(), facts);
        Ok(Some(judged))
    }
}

fn infra(error: InfraError) -> Option<Judged> {
    Some(Judged { verdict: Verdict::Infra(error), commands: vec![], warnings: vec![] })
}
