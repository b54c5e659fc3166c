//! One verification in a container, from top to bottom: `verify` asks the engine, `execute` starts the container and runs
//! the steps, `finalize` writes the manifest. Each run is recorded in the audit log before its first step and before its
//! manifest is written, and whatever a run leaves is cleaned or removed.

use crate::blocking::blocking;
use crate::container::Container;
use crate::docker_error::Phase;
use crate::engine::Engine;
use crate::engine::WORK;
use crate::environment::step_environment;
use crate::image::ResolvedImage;
use crate::image::passwd_of;
use crate::owner;
use crate::passwd::PASSWD;
use crate::passwd::with_user;
use crate::pipeline::Gate;
use crate::pipeline::StepResults;
use crate::pipeline::oom_warning;
use crate::pipeline::run_steps;
use crate::pipeline::settle;
use crate::prepare::Prepared;
use crate::prepare::RunSpec;
use crate::prepare::prepare;
use crate::remote_engine::VolumeStore;
use crate::remote_engine::prepare_remote;
use crate::request::ContainerRequest;
use crate::request::StepUser;
use crate::request::bind;
use crate::source_writes::TreeDiff;
use crate::step::ContainerSteps;
use crate::step::RunLog;
use crate::view::View;
use act_audit::Audit;
use act_audit::AuditError;
use act_audit::Decision;
use act_audit::Entry;
use act_audit::Event;
use act_config::User;
use act_config::Workspace;
use act_core::event::EventKind;
use act_core::event::Events;
use act_core::process::Process;
use act_core::verification::ComponentDigest;
use act_core::verification::ErrorType;
use act_core::verification::FailReason;
use act_core::verification::InfraError;
use act_core::verification::Manifest;
use act_core::verification::Platform;
use act_core::verification::Verdict;
use act_core::verification::Verification;
use act_core::verification::Verifier;
use act_core::verification::Warning;
use act_core::verification::WarningCode;
use act_core::verification::marks;
use act_records::artifacts::ARTIFACTS;
use act_records::artifacts::ArtifactDir;
use act_records::artifacts::Cache;
use act_records::artifacts::RunDir;
use act_records::artifacts::STEP_PARTS;
use act_records::artifacts::Swept;
use act_records::artifacts::manifest_digest;
use act_records::artifacts::steps_digest;
use act_workspace::CopyError;
use act_workspace::HeldRoot;
use act_workspace::PathGlobs;
use act_workspace::RootMoved;
use act_workspace::head_commit;
use act_workspace::tree_digest;
use bollard::exec::StartExecOptions;
use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use chrono::DateTime;
use chrono::Utc;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use rustix::process::getegid;
use rustix::process::geteuid;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

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
        let mut metadata = RunMetadata { commit, ..RunMetadata::default() };
        let judged = match self.record_start(&run_id, attempt).await {
            Ok(()) => self.execute(&run, &mut metadata, cancel).await.unwrap_or_else(infra),
            Err(error) => infra(error),
        };
        let Some(judged) = judged else {
            self.record_cancelled(&run_id);
            // Nobody is left to hear that it failed.
            let _ = self.reclaim(&run, &metadata).await;
            let run = run.clone();
            let cleanup = blocking(move || run.remove_scratch());
            // What is left then goes with the run's directory.
            let _ = tokio::time::timeout(CANCELLED_CLEANUP, cleanup).await;
            return None;
        };
        self.clean(&run, &mut metadata).await;
        let verification = self.finalize(&run, metadata, judged, start).await;
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
    async fn execute(
        &self,
        run: &Arc<RunDir>,
        metadata: &mut RunMetadata,
        cancel: &CancellationToken,
    ) -> Result<Option<StepResults>, InfraError> {
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
        let Some(started) = self.start(run, &include, metadata, cancel).await? else {
            return Ok(None);
        };
        // In this order, so that the files outlive the container whatever happens.
        let StartedRun { store, container, watch, view } = started;

        let mut steps = ContainerSteps {
            container: &container,
            gate: &self.gate,
            view,
            watch: Some(watch),
            store: store.as_ref(),
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
        let (removed, after) = tokio::join!(container.remove(), self.digest_after(include, cancel));
        let mut warnings = vec![];
        if let Err(error) = removed {
            let message =
                format!("{}; the next start of act removes it", InfraError::from(error).message);
            warnings.push(Warning { code: WarningCode::ContainerLeft, step: None, message });
            metadata.container_left = true;
        }
        if let Some(store) = store {
            let fetch = judged.is_some() && !metadata.container_left;
            warnings.extend(self.empty(store, run, fetch, cancel).await);
        }
        let (Some(mut judged), Some(after)) = (judged, after) else { return Ok(None) };
        judged.warnings.append(&mut warnings);
        let infra = matches!(judged.verdict, Verdict::Infra(_));
        metadata.tail = (log.printed() || !infra).then(|| log.tail());
        judged.verdict = compare(judged.verdict, after, self.repo.stays(), metadata);
        Ok(Some(judged))
    }
}

fn infra(error: InfraError) -> Option<StepResults> {
    Some(StepResults { verdict: Verdict::Infra(error), commands: vec![], warnings: vec![] })
}

/// Beyond the steps' own time, before a forgotten container ends by itself.
const LIFETIME_SLACK: u64 = 600;
/// A cancelled run does not wait longer than this for its own files.
const CANCELLED_CLEANUP: Duration = Duration::from_millis(250);

/// A run that can begin its steps.
struct StartedRun {
    pub(crate) store: Option<VolumeStore>,
    pub(crate) container: Container,
    pub(crate) watch: TreeDiff,
    pub(crate) view: View,
}

impl DockerVerifier {
    /// A running container over a prepared view; None when cancelled. An engine that turns out not to see our
    /// files is sent them, and an overlay that nobody asked for by name gives way to a copy where the engine
    /// cannot mount it.
    async fn start(
        &self,
        run: &Arc<RunDir>,
        include: &Arc<PathGlobs>,
        metadata: &mut RunMetadata,
        cancel: &CancellationToken,
    ) -> Result<Option<StartedRun>, InfraError> {
        // To their end, cancelled or not: removing what the engine is still making would miss it.
        metadata.elsewhere = !self.engine.shares_files(run, &self.image).await?;
        let passwd = self.passwd(run).await?;
        if cancel.is_cancelled() {
            return Ok(None);
        }
        let mut without_overlay = false;
        loop {
            let order = self.order(run, include, without_overlay);
            let (name, labels) = (order.name.clone(), order.labels.clone());
            let prepared = if !metadata.elsewhere {
                self.prepare(order, run, cancel).await?
            } else {
                let (engine, image, ids) = (&self.engine, &self.image, self.user().ids());
                prepare_remote(engine, image, order, run, ids, &self.audit, cancel).await?
            };
            let Some(prepared) = prepared else { return Ok(None) };
            let Prepared { view, watch, mut mounts, volume, mut files, cache, store, .. } =
                prepared;
            (metadata.digest, metadata.commit) = (Some(prepared.digest), prepared.commit);
            (metadata.view, metadata.cache) = (Some(view), cache);
            metadata.warnings.extend(prepared.warnings);
            if let Some(text) = passwd.clone() {
                if !metadata.elsewhere {
                    let lent = run.lend_file("passwd", &text);
                    let lent = lent.map_err(|error| InfraError::from_io("lend a file", &error))?;
                    mounts.push(bind(&lent, PASSWD, true)?);
                } else {
                    files.push((PASSWD, text));
                }
            }
            let request = ContainerRequest { mounts, volume, files, ..self.request(view, labels) };
            let (image, audit) = (&self.image, &self.audit);
            match Container::start(&self.engine, name, request, image, audit, cancel).await {
                Ok(Some(container)) => {
                    return Ok(Some(StartedRun { store, container, watch, view }));
                }
                Ok(None) => {
                    if let Some(store) = store {
                        store.remove().await?;
                    }
                    return Ok(None);
                }
                Err(error) if error.error_type != ErrorType::ContainerCreation => {
                    return Err(error);
                }
                Err(_)
                    if !metadata.elsewhere
                        && self.engine.shares_no_files(run, &self.image).await? =>
                {
                    metadata.elsewhere = true;
                    metadata.warnings.clear();
                }
                Err(error)
                    if view == View::Overlay && self.gate.pipeline.workspace == Workspace::Auto =>
                {
                    without_overlay = true;
                    metadata.warnings = vec![copied_instead(&error)];
                }
                Err(error) => return Err(error),
            }
            metadata.cache = None;
            let run = run.clone();
            blocking(move || run.remove_scratch())
                .await
                .map_err(|error| InfraError::from_io("begin again", &error))?;
        }
    }

    fn order(&self, run: &RunDir, include: &Arc<PathGlobs>, without_overlay: bool) -> RunSpec {
        RunSpec {
            repo: self.repo.path().to_owned(),
            gate: self.gate.clone(),
            include: include.clone(),
            artifacts: self.artifacts.clone(),
            image_digest: self.image.digest.clone(),
            downloads: self.downloads,
            name: format!("act-{}", run.id()),
            labels: self.labels(run),
            without_overlay,
        }
    }

    /// What does not depend on how the tree got there.
    fn request(&self, view: View, labels: HashMap<String, String>) -> ContainerRequest {
        let pipeline = &self.gate.pipeline;
        let (readonly, ca_bundle) = (view == View::Readonly, pipeline.ca_bundle.is_some());
        ContainerRequest {
            image_id: self.image.id.clone(),
            mounts: vec![],
            volume: None,
            files: vec![],
            environment: step_environment(self.image.path.as_deref(), readonly, ca_bundle),
            user: self.user(),
            limits: pipeline.limits,
            network: pipeline.steps.iter().any(|step| step.network),
            lifetime_seconds: self.lifetime(),
            labels,
        }
    }

    fn labels(&self, run: &RunDir) -> HashMap<String, String> {
        owner::labels(Process::this(), run.id().as_str(), self.deadline())
    }

    /// The image's `/etc/passwd` with a line for whom the steps run as, if it needs one.
    async fn passwd(&self, run: &RunDir) -> Result<Option<Vec<u8>>, InfraError> {
        let name = format!("act-{}-image", run.id());
        let (engine, image, artifacts) = (&self.engine, &self.image, &self.artifacts);
        let text = passwd_of(engine, image, artifacts, &name, self.labels(run)).await?;
        let user = self.user().named();
        Ok(text.zip(user).and_then(|(text, (uid, gid))| with_user(text, uid, gid)))
    }

    /// None when cancelled.
    async fn prepare(
        &self,
        order: RunSpec,
        run: &Arc<RunDir>,
        cancel: &CancellationToken,
    ) -> Result<Option<Prepared>, InfraError> {
        let (run, stop) = (run.clone(), cancel.clone());
        let work = blocking(move || Ok(prepare(&order, &run, &stop)));
        tokio::pin!(work);
        let done = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                let _ = tokio::time::timeout(CANCELLED_CLEANUP, work).await;
                return Ok(None);
            }
            done = &mut work => done,
        };
        done.map_err(|error| InfraError::from_io("prepare the run", &error))?.map(Some)
    }

    fn user(&self) -> StepUser {
        match self.gate.pipeline.user {
            User::Root => StepUser::Root,
            User::Caller if self.engine.is_rootless() => StepUser::Rootless,
            User::Caller => StepUser::Ids { uid: geteuid().as_raw(), gid: getegid().as_raw() },
        }
    }

    fn lifetime(&self) -> u64 {
        let steps = u64::try_from(self.gate.pipeline.steps.len()).unwrap_or(u64::MAX);
        let steps = self.gate.step_timeout.as_secs().saturating_mul(steps);
        // What every `sleep` takes.
        steps.saturating_add(LIFETIME_SLACK).min(u64::from(u32::MAX / 2))
    }

    fn deadline(&self) -> i64 {
        let lifetime = i64::try_from(self.lifetime()).unwrap_or(i64::MAX);
        act_core::clock::now().timestamp().saturating_add(lifetime)
    }
}

fn copied_instead(error: &InfraError) -> Warning {
    Warning {
        code: WarningCode::OverlayUnavailable,
        step: None,
        message: format!("the tree was copied instead: {}", error.message),
    }
}

impl DockerVerifier {
    /// The tree's digest once more; None when cancelled.
    async fn digest_after(
        &self,
        include: Arc<PathGlobs>,
        cancel: &CancellationToken,
    ) -> Option<io::Result<Result<String, CopyError>>> {
        let repo = self.repo.path().to_owned();
        tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            after = blocking(move || Ok(tree_digest(&repo, &include))) => Some(after),
        }
    }
}

/// A run of a directory that was replaced says nothing about the repository.
fn root_moved(moved: RootMoved) -> InfraError {
    let message =
        format!("{moved}, so nothing is proved about the repository; {}", RootMoved::HINT);
    InfraError::new(ErrorType::Unknown, message)
}

/// What the tree after the run makes of the verdict.
fn compare(
    verdict: Verdict,
    after: io::Result<Result<String, CopyError>>,
    stays: Result<(), RootMoved>,
    metadata: &mut RunMetadata,
) -> Verdict {
    if let Err(moved) = stays {
        return Verdict::Infra(root_moved(moved));
    }
    match (after, &metadata.digest) {
        (Ok(Ok(after)), Some(before)) => {
            let verdict = settle(verdict, before, &after);
            metadata.digest_after = Some(after);
            verdict
        }
        // It changes even now.
        (Ok(Err(CopyError::Changed { .. })), _) if verdict == Verdict::Pass => {
            Verdict::Fail(FailReason::TreeChanged)
        }
        (Ok(Err(error)), _) if verdict == Verdict::Pass => Verdict::Infra(InfraError::from_io(
            "read the repository after the run",
            &io::Error::other(error),
        )),
        (Err(error), _) if verdict == Verdict::Pass => {
            Verdict::Infra(InfraError::from_io("read the repository after the run", &error))
        }
        _ => verdict,
    }
}

/// What a run learns beside its verdict.
#[derive(Default)]
struct RunMetadata {
    /// None as long as it is not decided.
    pub(crate) view: Option<View>,
    /// The engine does not see our files.
    pub(crate) elsewhere: bool,
    pub(crate) cache: Option<Cache>,
    pub(crate) commit: Option<String>,
    pub(crate) digest: Option<String>,
    pub(crate) digest_after: Option<String>,
    pub(crate) tail: Option<String>,
    /// The container could not be removed, so something may still write in the run's directory.
    pub(crate) container_left: bool,
    pub(crate) warnings: Vec<Warning>,
}

impl DockerVerifier {
    /// Writes the manifest and answers. Nothing of the run changes after this.
    async fn finalize(
        &self,
        run: &Arc<RunDir>,
        metadata: RunMetadata,
        judged: StepResults,
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
            commit_sha: metadata.commit,
            status: verdict.status(),
            reason: verdict.fail_reason(),
            commands_executed: judged.commands,
            platform: Platform {
                os: self.image.os.clone(),
                arch: self.image.arch.clone(),
                container_image: self.image.reference.clone(),
            },
            image_digest: self.image.digest.clone(),
            tree_digest: metadata.digest,
            tree_digest_after: metadata.digest_after,
            pipeline_sha256: self.gate.sha256.clone(),
            workspace: metadata
                .view
                .map_or_else(|| asked.to_owned(), |view| view.as_str().to_owned()),
            engine: self.engine.identity().clone(),
            components: self.components.clone(),
            audit_head: None,
            act_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let mut warnings = judged.warnings;
        warnings.extend(metadata.warnings);
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
            tail: metadata.tail,
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

/// A run that cannot be recorded proves nothing, so trouble with the audit log ends it.
pub(crate) fn unrecorded(error: AuditError) -> InfraError {
    let error_type = match error {
        AuditError::Unusable { full: true, .. } => ErrorType::ResourceExhaustion,
        _ => ErrorType::Unknown,
    };
    InfraError::new(error_type, format!("{error}; {}", error.hint()))
}

impl DockerVerifier {
    /// Without this record the gate does not run, and not without room for the one of its end.
    async fn record_start(&self, run_id: &str, attempt: u32) -> Result<(), InfraError> {
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
    async fn record_end(
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
    fn record_cancelled(&self, run_id: &str) {
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

impl DockerVerifier {
    /// Fetches the artifacts of a run whose container is gone if `wanted`, and removes what held them.
    pub(crate) async fn empty(
        &self,
        store: VolumeStore,
        run: &Arc<RunDir>,
        wanted: bool,
        cancel: &CancellationToken,
    ) -> Vec<Warning> {
        let mut warnings = vec![];
        let mut warn = |code: WarningCode, message: String| {
            warnings.push(Warning { code, step: None, message });
        };
        if wanted {
            let fetched = tokio::select! {
                biased;
                () = cancel.cancelled() => Ok(None),
                fetched = fetch(&store, run) => fetched,
            };
            match fetched {
                Ok(incomplete) => {
                    if let Some(message) = incomplete {
                        warn(WarningCode::ArtifactsIncomplete, message);
                    }
                }
                Err(error) => warn(WarningCode::ArtifactsIncomplete, error.message),
            }
        }
        if let Err(error) = store.remove().await {
            let message =
                format!("{}; the next start of act removes it", InfraError::from(error).message);
            warn(WarningCode::ContainerLeft, message);
        }
        warnings
    }

    /// Where the caller is not root, root's files in the run's directory become the caller's.
    async fn reclaim(&self, run: &RunDir, metadata: &RunMetadata) -> Result<(), InfraError> {
        let ids = (geteuid().as_raw(), getegid().as_raw());
        let by_root = self.gate.pipeline.user == User::Root || metadata.view == Some(View::Overlay);
        if ids.0 == 0 || !by_root || self.engine.is_rootless() || metadata.elsewhere {
            return Ok(());
        }
        let cache = metadata.cache.as_ref().map(Cache::path);
        reclaim(&self.engine, &self.image, &self.audit, run.path(), cache, ids).await
    }

    /// Not while something may still write there; then retention removes what is left.
    async fn clean(&self, run: &Arc<RunDir>, metadata: &mut RunMetadata) {
        if metadata.container_left {
            return;
        }
        if let Err(error) = self.reclaim(run, metadata).await {
            metadata.warnings.push(Warning {
                code: WarningCode::CleanupFailed,
                step: None,
                message: format!("root's files in the run's directory stay root's: {error}"),
            });
        }
        let (run, cache) = (run.clone(), metadata.cache.take());
        let cleaned = blocking(move || {
            let mut swept = Swept::default();
            if let Some(cache) = cache {
                swept += cache.tidy()?;
            }
            run.remove_scratch()?;
            swept += run.sweep()?;
            Ok(swept)
        });
        let mut warn = |code: WarningCode, message: String| {
            metadata.warnings.push(Warning { code, step: None, message });
        };
        match cleaned.await {
            Ok(swept) if swept == Swept::default() => {}
            Ok(Swept { privileged, foreign, too_deep }) => warn(
                WarningCode::ArtifactsChanged,
                format!(
                    "made harmless in the run's directory: {privileged} setuid or setgid files, \
                     {foreign} files of another owner and {too_deep} too deep directories removed"
                ),
            ),
            Err(error) => warn(
                WarningCode::CleanupFailed,
                format!("failed to clean the run's directory: {error}"),
            ),
        }
    }
}

/// What the steps wrote, into the run's directory; the answer says what is missing there.
async fn fetch(store: &VolumeStore, run: &Arc<RunDir>) -> Result<Option<String>, InfraError> {
    let mut allowance = ARTIFACTS;
    let (mut entries, mut cut) = (0, false);
    for part in STEP_PARTS {
        let run = run.clone();
        let received = store.read_part(part, move |archive| {
            let left_out = run.receive(part, archive, &mut allowance)?;
            Ok((left_out, allowance))
        });
        let (left_out, left) = received.await?;
        allowance = left;
        entries += left_out.entries;
        cut |= left_out.cut;
    }
    Ok((entries > 0 || cut).then(|| {
        let more = if cut { ", and all beyond 4 GiB or 200,000 names" } else { "" };
        format!(
            "of what the steps wrote, {entries} names of no file, directory or link are not here{more}"
        )
    }))
}

/// For a tree of any size that a run leaves.
const LIMIT: Duration = Duration::from_secs(90);

/// Makes `ids` the owner of everything in the run's directory and in `cache`, links themselves included.
async fn reclaim(
    engine: &Engine,
    image: &ResolvedImage,
    audit: &Audit,
    run: &Path,
    cache: Option<&Path>,
    ids: (u32, u32),
) -> Result<(), InfraError> {
    let inside = STEP_PARTS.into_iter().chain(["overlay", "view"]).map(|part| run.join(part));
    let directories = inside.chain(cache.map(Path::to_owned));
    let directories: Vec<PathBuf> = directories.filter(|path| path.is_dir()).collect();
    let mut mounts = vec![];
    for (number, directory) in directories.iter().enumerate() {
        mounts.push(bind(directory, &format!("/reclaim/{number}"), false)?);
    }
    let name = run.file_name().unwrap_or_default().to_string_lossy();
    let deadline = act_core::clock::now().timestamp() + 600;
    let labels = owner::labels(Process::this(), &name, deadline);
    let request = ContainerRequest::helper(image, mounts, 600, labels);
    let never = CancellationToken::new();
    let name = format!("act-{name}-reclaim");
    let Some(container) = Container::start(engine, name, request, image, audit, &never).await?
    else {
        return Ok(());
    };
    let (uid, gid) = ids;
    let script = format!("chown -hR {uid}:{gid} /reclaim; chmod -R u+rwX /reclaim");
    let done = tokio::time::timeout(LIMIT, run_in(engine, &container.name, script)).await;
    container.remove().await?;
    done.unwrap_or(Ok(()))
}

async fn run_in(engine: &Engine, container: &str, script: String) -> Result<(), InfraError> {
    let config = ExecConfig {
        attach_stdout: Some(true),
        cmd: Some(vec!["/bin/sh".to_owned(), "-c".to_owned(), script]),
        ..ExecConfig::default()
    };
    let exec = engine.call(Phase::Exec, WORK, engine.docker.create_exec(container, config)).await?;
    let options = StartExecOptions { detach: false, tty: false, output_capacity: None };
    let started = engine.docker.start_exec(&exec.id, Some(options));
    if let StartExecResults::Attached { mut output, .. } =
        engine.call(Phase::Exec, WORK, started).await?
    {
        // Its end is the script's; whether all went well shows when the host cleans up.
        while let Some(Ok(_)) = output.next().await {}
    }
    Ok(())
}
