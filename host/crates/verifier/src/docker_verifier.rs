//! One verification in a container, from top to bottom: `verify` records the run and executes it, `execute` starts the
//! container, runs the steps and compares the tree, and `finish` writes the manifest.
//!
//! The audit log records each run before its first step and before its manifest is written. Files, containers and
//! volumes that a run leaves behind are cleaned or removed.

use crate::container::Container;
use crate::driver::Command;
use crate::engine::{Engine, owner_labels};
use crate::image::ResolvedImage;
use crate::inputs::{Beside, Inputs, Reading};
use crate::passwd::{PASSWD, passwd_of, with_user};
use crate::pipeline::{
    VerificationConfig, after_run, cut_off_warning, dev_warning, oom_warning, run_steps,
};
use crate::remote_engine::{self, VolumeStore};
use crate::request::{ContainerRequest, Network, Role, StepUser, bind, step_environment};
use crate::step_times::StepTimes;
use crate::steps::{ContainerSteps, RunLog};
use crate::warm::{WarmEnd, WarmRuns};
use crate::workspace::{
    Beginning, COPY, CacheLayer, Differences, Overlays, View, WORKSPACE, Workspace,
};
use act_audit::{Audit, AuditError, Decision, Entry, Event};
use act_config::{Step, User, Workspace as ConfiguredWorkspace};
use act_core::RunId;
use act_core::event::{EventKind, Events};
use act_core::process::Process;
use act_core::verification::{
    ComponentDigest, DEV_COMPONENT, ErrorType, FailReason, InfraError, Manifest, Platform, Status,
    Verdict, Verification, Verifier, Warning, WarningCode, marks,
};
use act_fs::{Dir, Identity};
use act_records::artifacts::{
    ARTIFACTS, ArtifactDir, Base, RunDir, STEP_PARTS, Swept, manifest_digest, steps_digest,
};
use act_workspace::{CopyError, OpenRoot, PathGlobs, RootMoved, head_commit};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use rustix::process::{getegid, geteuid};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Seconds that a container outlives the time limits of its steps, in case its process dies and cannot remove it.
const LIFETIME_SLACK: u64 = 600;
/// How long a cancelled run waits for its own files. The directory of the run is removed later with what is left.
const CANCELLED_CLEANUP: Duration = Duration::from_millis(250);
/// Time limit for changing the owner of everything that a run left.
const RECLAIM_LIMIT: Duration = Duration::from_secs(90);
/// Seconds after which the container that changes the owner ends by itself.
const RECLAIM_LIFETIME: u64 = 600;

/// The downloads of package managers that the steps find in `/artifacts/cache`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Downloads {
    /// The downloads of earlier runs of this repository in this image. Later runs find the downloads of this run.
    Shared,
    /// No earlier downloads, so that no step of an earlier run influences this one. The downloads of this run are deleted.
    Private,
}

/// Says that a run judges another tree than the working tree, and why.
#[derive(Debug, Clone)]
pub struct Variant {
    /// The repository whose files the tree mostly has. Its git directory and its downloads are used.
    pub of: OpenRoot,
    /// Why the run is made, as the audit log records it.
    pub purpose: &'static str,
}

/// Verifies the working tree of one task in containers.
#[derive(Clone)]
pub struct DockerVerifier {
    pub engine: Engine,
    pub image: ResolvedImage,
    pub artifacts: Arc<ArtifactDir>,
    /// The root of the repository, absolute and without links. A run fails when its path leads to another directory.
    pub repo: OpenRoot,
    pub config: Arc<VerificationConfig>,
    /// `None` for the working tree. `repo` is a directory that the host wrote otherwise, and the view is always a copy.
    pub variant: Option<Variant>,
    pub downloads: Downloads,
    /// The warm runs of the task; `None` where every run is cold.
    pub warm: Option<Arc<WarmRuns>>,
    /// Places where the tests of the task demand less than at its start, for the manifest.
    pub tests_weakened: Arc<Mutex<Vec<String>>>,
    /// What the steps took last time, for people.
    pub step_times: StepTimes,
    pub task_id: Option<String>,
    /// The components that take part in the task.
    pub components: Vec<ComponentDigest>,
    /// The log that records every run. A run that cannot be recorded does not start.
    pub audit: Audit,
    pub events: Events,
}

impl Verifier for DockerVerifier {
    fn tests_weakened(&self, places: Vec<String>) {
        *self.tests_weakened.lock().unwrap_or_else(PoisonError::into_inner) = places;
    }

    fn run<'a>(
        &'a self,
        attempt: u32,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Option<Verification>> {
        Box::pin(async move {
            if let Err(error) = cancel.run_until_cancelled(self.engine.ping()).await? {
                return Some(Verification::not_started(error.into()));
            }
            if let Err(error) = self.engine.check_abilities(&self.config.pipeline) {
                return Some(Verification::not_started(error));
            }
            let green = match &self.warm {
                None => None,
                Some(warm) => match warm.attempt(self, attempt, cancel).await? {
                    WarmEnd::Counts(verification) => return Some(*verification),
                    WarmEnd::Green(run_id) => Some(run_id),
                    WarmEnd::Cold => None,
                },
            };
            let verification = self.run_once(attempt, None, green.clone(), cancel).await?;
            if let (Some(warm), Some(green)) = (&self.warm, &green) {
                warm.followed_by(&verification);
                if verification.failed() {
                    warm.disproved(self, green, &verification).await;
                }
            }
            Some(verification)
        })
    }
}

/// What a warm run begins with.
pub(crate) type WarmBeginning = (Arc<Base>, Box<Differences>);

impl DockerVerifier {
    /// Returns the repository whose git directory the steps get.
    pub(crate) fn home(&self) -> &Path {
        self.variant.as_ref().map_or(self.repo.path(), |variant| variant.of.path())
    }

    /// Returns the repository whose downloads the steps get.
    pub(crate) fn downloads_home(&self) -> &Path {
        self.config.downloads_of.as_deref().unwrap_or(self.home())
    }

    /// Runs the pipeline once: warm with a beginning, and otherwise cold. `green` is the warm run that was green before a cold
    /// one of the same attempt. Returns `None` when cancelled.
    pub(crate) async fn run_once(
        &self,
        attempt: u32,
        beginning: Option<WarmBeginning>,
        green: Option<RunId>,
        cancel: &CancellationToken,
    ) -> Option<Verification> {
        let (began, start) = (Instant::now(), act_core::clock::now());
        let artifacts = self.artifacts.clone();
        let dir = match blocking(move || artifacts.create_run(start)).await {
            Ok(dir) => Arc::new(dir),
            Err(error) => {
                let error = InfraError::from_io("create the run's directory", &error);
                return Some(Verification::not_started(error));
            }
        };
        let run_id = dir.id().to_string();
        let warm = beginning.is_some();
        self.events.emit(EventKind::VerifyStarted { run_id: run_id.clone(), attempt, warm });

        let run = Run::new(self, cancel, dir, start, beginning, green);
        let verification = run.verify(attempt).await?;

        let verdict = &verification.verdict;
        let manifest = verification.manifest.as_ref();
        self.events.emit(EventKind::VerifyFinished {
            run_id,
            status: verdict.status(),
            error_type: verdict.infra().map(|error| error.error_type),
            reason: verdict.fail_reason(),
            audit_head: manifest.and_then(|manifest| manifest.audit_head.clone()),
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            warm,
        });
        Some(verification)
    }

    /// Returns the user that the steps run as.
    pub(crate) fn user(&self) -> StepUser {
        match self.config.pipeline.user {
            User::Root => StepUser::Root,
            User::Caller if self.engine.is_rootless() => StepUser::Rootless,
            User::Caller => StepUser::Ids { uid: geteuid().as_raw(), gid: getegid().as_raw() },
        }
    }

    /// Returns the labels of the containers and volumes of a run.
    pub(crate) fn labels(&self, run: &RunDir) -> HashMap<String, String> {
        let lifetime = i64::try_from(self.lifetime()).unwrap_or(i64::MAX);
        let deadline = act_core::clock::now().timestamp().saturating_add(lifetime);
        owner_labels(Process::this(), run.id().as_str(), deadline)
    }

    /// Returns whether steps run as root of the machine although the caller is another user.
    pub(crate) fn is_root_elsewhere(&self) -> bool {
        self.config.pipeline.user == User::Root
    }

    /// Returns the image's `/etc/passwd` with a line for the user of the steps, or `None` when it needs none.
    pub(crate) async fn passwd(&self, run: &RunDir) -> Result<Option<Vec<u8>>, InfraError> {
        let Self { engine, image, artifacts, .. } = self;
        let name = format!("{}-image", container_name(run));
        let passwd = passwd_of(engine, image, artifacts, &name, self.labels(run)).await?;
        let StepUser::Ids { uid, gid } = self.user() else { return Ok(None) };
        Ok(passwd.and_then(|text| with_user(text, uid, gid)))
    }

    /// Returns the request for the container of a run of these steps.
    pub(crate) fn request(
        &self,
        run: &RunDir,
        workspace: &mut Workspace,
        image_id: &str,
        steps: &[Step],
    ) -> ContainerRequest {
        let Self { image, config, .. } = self;
        let pipeline = &config.pipeline;
        let readonly = workspace.view == View::Readonly;
        let ca_bundle = pipeline.ca_bundle.is_some();
        ContainerRequest {
            role: Role::Steps,
            image_id: image_id.to_owned(),
            mounts: std::mem::take(&mut workspace.mounts),
            volumes: std::mem::take(&mut workspace.overlays),
            files: std::mem::take(&mut workspace.files),
            environment: step_environment(image.path.as_deref(), readonly, ca_bundle),
            user: self.user(),
            limits: pipeline.limits,
            network: match steps.iter().any(|step| step.network) {
                true => Network::On { icmp: pipeline.private_network },
                false => Network::Off,
            },
            script: None,
            lifetime_seconds: self.lifetime(),
            labels: self.labels(run),
        }
    }

    /// Makes the caller the owner of everything that root wrote into the directory of the run and the cache. A
    /// container does so, because a caller who is not root may not.
    pub(crate) async fn reclaim(
        &self,
        dir: &RunDir,
        cache: Option<&CacheLayer>,
    ) -> Result<(), InfraError> {
        let Self { engine, image, audit, .. } = self;
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        if uid == 0 || engine.is_rootless() {
            return Ok(());
        }
        let parts = STEP_PARTS.into_iter().chain(["overlay", "view"]);
        let directories = parts.map(|part| dir.path().join(part));
        let own = cache.and_then(CacheLayer::own_directory).map(Path::to_owned);
        let directories = directories.chain(own);
        let mut mounts = vec![];
        for (number, directory) in directories.filter(|path| path.is_dir()).enumerate() {
            mounts.push(bind(&directory, &format!("/reclaim/{number}"), false)?);
        }
        let deadline = act_core::clock::now().timestamp() + RECLAIM_LIFETIME as i64;
        let labels = owner_labels(Process::this(), dir.id().as_str(), deadline);
        let request = ContainerRequest::helper(image, mounts, RECLAIM_LIFETIME, labels);
        let name = format!("{}-reclaim", container_name(dir));
        let never = CancellationToken::new();
        let started = Container::start(engine, name, request, image, audit, &never).await?;
        let Some(container) = started else { return Ok(()) };
        let script = format!("chown -hR {uid}:{gid} /reclaim; chmod -R u+rwX /reclaim");
        let chown = async {
            let arguments = vec!["/bin/sh".to_owned(), "-c".to_owned(), script];
            let command = Command { arguments, directory: None };
            let exec = engine.create_exec(&container.name, command).await?;
            let mut output = engine.start_exec(&exec).await?;
            // The output ends with the script. The cleanup that follows shows whether it succeeded.
            while let Some(Ok(_)) = output.next().await {}
            Ok(())
        };
        let done = tokio::time::timeout(RECLAIM_LIMIT, chown).await;
        container.remove().await?;
        done.unwrap_or(Ok(()))
    }

    /// Returns the seconds after which the container of a run ends by itself.
    fn lifetime(&self) -> u64 {
        let steps = u64::try_from(self.config.pipeline.all_steps().count()).unwrap_or(u64::MAX);
        let steps = self.config.step_timeout.as_secs().saturating_mul(steps);
        // Every `sleep` takes a number of this size.
        steps.saturating_add(LIFETIME_SLACK).min(u64::from(u32::MAX / 2))
    }
}

/// Returns the name of the container of a run. Those of its volumes begin with it.
pub(crate) fn container_name(run: &RunDir) -> String {
    format!("act-{}", run.id())
}

/// Returns the steps of a run: a warm one begins with what `prepare` left.
fn run_of(config: &VerificationConfig, warm: bool) -> impl Iterator<Item = &Step> {
    let prepare = if warm { &[][..] } else { &config.pipeline.prepare };
    prepare.iter().chain(&config.pipeline.steps)
}

/// One run: what it works with, and what it has found out so far.
struct Run<'a> {
    verifier: &'a DockerVerifier,
    cancel: &'a CancellationToken,
    dir: Arc<RunDir>,
    /// Written at the end; its fields are set as they become known.
    manifest: Manifest,
    warnings: Vec<Warning>,
    tail: Option<String>,
    /// `None` until a view is prepared.
    view: Option<View>,
    /// The download cache on this machine, until the downloads of the run are taken over or dropped.
    cache: Option<CacheLayer>,
    /// The base of a warm run, and what differs from its commit until the run is prepared.
    base: Option<(Arc<Base>, Option<Box<Differences>>)>,
    /// The warm run that was green before this cold one.
    green: Option<RunId>,
    /// The engine does not mount directories of this machine.
    remote: bool,
    /// The inputs of a cold run of the working tree, if none of them changed while it ran.
    inputs: Option<Inputs>,
    /// The container could not be removed, so its processes may still write into the directory of the run.
    container_left: bool,
}

impl<'a> Run<'a> {
    fn new(
        verifier: &'a DockerVerifier,
        cancel: &'a CancellationToken,
        dir: Arc<RunDir>,
        start: chrono::DateTime<chrono::Utc>,
        beginning: Option<WarmBeginning>,
        green: Option<RunId>,
    ) -> Self {
        let base = beginning.map(|(base, differences)| (base, Some(differences)));
        let DockerVerifier { image, config, .. } = verifier;
        let wanted = match config.pipeline.workspace {
            ConfiguredWorkspace::Auto => "auto",
            ConfiguredWorkspace::Copy => "copy",
            ConfiguredWorkspace::Overlay => "overlay",
            ConfiguredWorkspace::Readonly => "readonly",
        };
        let start = act_core::clock::seconds(start);
        let manifest = Manifest {
            run_id: dir.id().clone(),
            task_id: verifier.task_id.clone(),
            timestamp_start: start.clone(),
            timestamp_end: start,
            commit_sha: None,
            // Replaced at the end, with `timestamp_end`.
            status: Status::InfraError,
            reason: None,
            commands_executed: vec![],
            platform: Platform {
                os: image.os.clone(),
                arch: image.arch.clone(),
                container_image: image.reference.clone(),
            },
            image_digest: image.digest.clone(),
            tree_digest: None,
            tree_digest_after: None,
            git_tree: None,
            pipeline_sha256: config.sha256.clone(),
            workspace: wanted.to_owned(),
            base: base.as_ref().map(|(base, _)| base.record.key.clone()),
            network_closed: None,
            engine: verifier.engine.identity().clone(),
            node: None,
            begun_anew: None,
            components: verifier.components.clone(),
            tests_weakened: verifier
                .tests_weakened
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            evidence: None,
            audit_head: None,
            act_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        Self {
            verifier,
            cancel,
            dir,
            manifest,
            warnings: vec![],
            tail: None,
            view: None,
            cache: None,
            base,
            green,
            remote: false,
            inputs: None,
            container_left: false,
        }
    }

    /// Records the run, executes it and cleans up. Returns `None` when cancelled.
    async fn verify(mut self, attempt: u32) -> Option<Verification> {
        self.read_commit().await;
        let ended = match self.record_start(attempt).await {
            Ok(()) => self.execute().await,
            Err(error) => Err(error),
        };
        let verdict = match ended {
            Ok(Some(verdict)) => verdict,
            Err(error) => Verdict::Infra(error),
            Ok(None) => {
                // The caller does not wait for a result, so failures of the cleanup are not reported.
                let record = self.record(Event::GateFinished).reason("cancelled");
                let _ = self.verifier.audit.append(record);
                let _ = self.reclaim().await;
                let cleanup = blocking(move || self.dir.remove_scratch());
                let _ = tokio::time::timeout(CANCELLED_CLEANUP, cleanup).await;
                return None;
            }
        };
        // Only what a cold green run downloaded is there for the runs that follow.
        let accepted = self.base.is_none() && self.verifier.variant.is_none();
        self.clean(accepted && verdict == Verdict::Pass).await;
        Some(self.finish(verdict).await)
    }

    /// Puts the commit at HEAD into the manifest.
    async fn read_commit(&mut self) {
        let repo = self.verifier.home().to_owned();
        self.manifest.commit_sha = blocking(move || Ok(head_commit(&repo))).await.ok().flatten();
    }

    /// Waits for a slot of the engine and runs the pipeline in it. Returns `None` when cancelled.
    async fn execute(&mut self) -> Result<Option<Verdict>, InfraError> {
        let Some(slot) = self.verifier.slot(&self.dir, self.cancel).await? else {
            return Ok(None);
        };
        let ended = self.execute_in_slot().await;
        if let Err(error) = slot.release().await {
            self.warn(WarningCode::ContainerLeft, left_for_next_start(error.into()));
        }
        ended
    }

    /// Starts the container, runs the steps and compares the tree. Returns `None` when cancelled. No container is left
    /// when this returns, unless `container_left` is set.
    async fn execute_in_slot(&mut self) -> Result<Option<Verdict>, InfraError> {
        let DockerVerifier { repo, config, .. } = self.verifier;
        let include = PathGlobs::new(&config.pipeline.include).map_err(|error| {
            InfraError::new(
                ErrorType::ContainerCreation,
                format!("verification.include in agent.yaml: {error}"),
            )
        })?;
        let include = Arc::new(include);
        repo.check_not_moved().map_err(root_moved)?;
        let mut log = RunLog::create(&self.dir)
            .map_err(|error| InfraError::from_io("create the run's log", &error))?;
        let before = self.beside(&include).await;
        // Dropped in reverse order, so that the volumes of the workspace outlive the container.
        let Some((mut workspace, container)) = self.start(&include).await? else {
            return Ok(None);
        };
        // The tree that was copied may belong to a later commit than the one at the start.
        self.read_commit().await;

        self.warnings.extend(cut_off_warning(&config.pipeline));
        self.warnings.extend(dev_warning(&self.verifier.components));
        let mut steps = ContainerSteps {
            verifier: self.verifier,
            container: &container,
            workspace: &mut workspace,
            run: &self.dir,
            log: &mut log,
            warnings: &mut self.warnings,
            cancel: self.cancel,
            disconnected: None,
            trouble: None,
        };
        let warm = self.base.is_some();
        let commands = &mut self.manifest.commands_executed;
        let verdict = run_steps(run_of(config, warm), &mut steps, commands).await;
        let no_kill = self.manifest.commands_executed.iter().all(|command| !command.oom);
        if verdict == Some(Verdict::Pass) && no_kill && !container.oom.is_counted() {
            // An event may arrive late or never. The engine sets its flag when the container stops.
            let stopped = container.kill().await;
            if stopped.is_ok() && matches!(container.state().await, Ok(state) if state.oom_killed) {
                self.warnings.push(oom_warning(None));
            }
        }

        // The container cannot write to the repository, so the tree is read while the engine removes the container.
        let (path, settings) = (repo.path().to_owned(), config.clone());
        let after = blocking(move || Ok(Reading::of(&path, &include, &settings)));
        let after = self.cancel.run_until_cancelled(after);
        let (removed, after) = tokio::join!(container.remove(), after);
        if let Err(error) = removed {
            self.container_left = true;
            self.warn(WarningCode::ContainerLeft, left_for_next_start(error.into()));
        }
        if let Some(volumes) = workspace.volumes.take() {
            if verdict.is_some() && !self.container_left {
                self.fetch_artifacts(&volumes).await;
            }
            if let Err(error) = volumes.remove().await {
                self.warn(WarningCode::ContainerLeft, left_for_next_start(error.into()));
            }
        }
        let (Some(verdict), Some(after)) = (verdict, after) else { return Ok(None) };
        let infra = matches!(verdict, Verdict::Infra(_));
        self.tail = (log.printed() || !infra).then(|| log.tail());
        if let (Some(before), Ok(Ok(after))) = (&before, &after) {
            self.inputs = after.inputs_since(before, self.verifier);
        }
        let after = after.map(|after| after.map(|after| after.tree));
        Ok(Some(self.compare_trees(verdict, after)))
    }

    /// Reads what lies beside the tree before a run that may be answered with later: a cold one of the working tree.
    async fn beside(&self, include: &Arc<PathGlobs>) -> Option<Beside> {
        if self.base.is_some() || self.verifier.variant.is_some() {
            return None;
        }
        let (path, include) = (self.verifier.repo.path().to_owned(), include.clone());
        // A tree that cannot be read is reported when the run reads it.
        blocking(move || Ok(Beside::of(&path, &include).ok())).await.ok()?
    }

    /// Prepares the workspace and starts the container over it; returns `None` when cancelled.
    ///
    /// An engine that turns out to be remote gets the tree as an archive instead. Where the engine cannot mount an
    /// overlay that `agent.yaml` does not ask for by name, the tree is copied instead. When the engine takes a container away
    /// before a step has started, the run begins anew once, with the same image and the same tree.
    async fn start(
        &mut self,
        include: &Arc<PathGlobs>,
    ) -> Result<Option<(Workspace, Container)>, InfraError> {
        let verifier = self.verifier;
        let DockerVerifier { engine, image, audit, config, .. } = verifier;
        // The probe is not cancelled: the removal of a container that the engine is still creating would miss it.
        self.remote = !engine.shares_files(&self.dir, image).await?;
        let passwd = self.verifier.passwd(&self.dir).await?;
        if self.cancel.is_cancelled() {
            return Ok(None);
        }
        let mut with = Overlays { view: true, cache: engine.may_mount_overlays() };
        let mut sent_before = String::new();
        loop {
            let Some(mut workspace) = self.prepare(include, with).await? else {
                return Ok(None);
            };
            self.view = Some(workspace.view);
            self.cache = workspace.cache.take();
            self.warnings.append(&mut workspace.warnings);
            if let Some(passwd) = passwd.clone() {
                workspace.add_file(&self.dir, PASSWD, passwd)?;
            }
            let base =
                self.base.as_ref().and_then(|(base, _)| base.record.container_image.as_ref());
            let steps: Vec<Step> = run_of(config, self.base.is_some()).cloned().collect();
            let image_id = base.unwrap_or(&image.id);
            let request = self.verifier.request(&self.dir, &mut workspace, image_id, &steps);
            let layered = !request.volumes.is_empty();
            let name = container_name(&self.dir);
            act_core::fail_point::reach("run_prepared");
            let created = Container::create(engine, name, request, image, audit, self.cancel).await;
            let started = match created {
                Ok(Some(created)) => {
                    act_core::fail_point::reach("container_created");
                    let sent = workspace.send(verifier, &self.dir, self.cancel);
                    created.start(sent, audit, self.cancel).await
                }
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            let error = match started {
                Ok(Some(container)) => {
                    self.manifest.tree_digest = Some(workspace.digest.clone());
                    self.manifest.git_tree.clone_from(&workspace.git_tree);
                    self.manifest.node.clone_from(&container.node);
                    if ![String::new(), workspace.digest.clone()].contains(&sent_before) {
                        container.remove().await?;
                        return Err(InfraError::new(
                            ErrorType::Unknown,
                            "the tree changed between the two beginnings of the run; run it again",
                        ));
                    }
                    if layered {
                        engine.mounted_overlays(true);
                    }
                    if !self.remote
                        && let Err(error) = self.check_mounts(workspace.view, &container).await
                    {
                        container.remove().await?;
                        return Err(error);
                    }
                    if self.remote
                        && let Err(error) = check_tree(&workspace, &container).await
                    {
                        container.remove().await?;
                        return Err(error);
                    }
                    let closed =
                        verifier.close_network(&self.dir, &container, &steps, self.cancel).await;
                    match closed {
                        Ok(None) => {}
                        Ok(Some(Ok(closed))) => self.manifest.network_closed = Some(closed),
                        Ok(Some(Err(open))) => {
                            self.manifest.network_closed = Some(vec![]);
                            self.warnings.push(open);
                        }
                        Err(error) => {
                            container.remove().await?;
                            return Err(error);
                        }
                    }
                    return Ok(Some((workspace, container)));
                }
                Ok(None) => {
                    if let Some(volumes) = workspace.volumes {
                        volumes.remove().await?;
                    }
                    return Ok(None);
                }
                Err(error) => error,
            };
            if error.error_type != ErrorType::ContainerCreation || self.base.is_some() {
                return Err(error);
            }
            if error.lost && self.manifest.begun_anew.is_none() {
                if let Some(volumes) = workspace.volumes.take() {
                    volumes.remove().await?;
                }
                let record = self.record(Event::GateBegunAnew).reason("container_lost");
                self.write_record(record.names([error.message.clone()])).await?;
                self.manifest.begun_anew = Some(error.message);
                self.warnings.clear();
                sent_before = workspace.digest;
            } else if !self.remote && engine.turned_out_remote(&self.dir, image).await? {
                self.remote = true;
                self.warnings.clear();
            } else if workspace.view == View::Overlay
                && config.pipeline.workspace == ConfiguredWorkspace::Auto
            {
                with = Overlays { view: false, cache: false };
                self.warnings.clear();
                let message = format!("the tree was copied instead: {}", error.message);
                self.warn(WarningCode::OverlayUnavailable, message);
            } else if layered && with.cache && !self.remote && !engine.has_mounted_overlays() {
                // The run works without a layer above the cache: it gets a copy.
                with.cache = false;
                engine.mounted_overlays(false);
                self.warnings.clear();
            } else {
                return Err(error);
            }
            self.cache = None;
            let dir = self.dir.clone();
            blocking(move || dir.remove_scratch())
                .await
                .map_err(|error| InfraError::from_io("begin again", &error))?;
        }
    }

    /// Checks that the container has the directories that were prepared. An engine mounts paths, and who can write a directory
    /// on the way could have given a path to another directory meanwhile, with another tree and other tests.
    async fn check_mounts(&self, view: View, container: &Container) -> Result<(), InfraError> {
        let artifacts = self.verifier.artifacts.clone();
        let (dir, pid) = (self.dir.clone(), container.pid);
        // Overlays have files of their own in place of the mounted ones.
        let plain = if self.base.is_some() { None } else { pid };
        let in_place = blocking(move || {
            let mut in_place = artifacts.is_in_place(&dir)?;
            if let Some(pid) = plain {
                let parts = STEP_PARTS.map(|part| (part, format!("/artifacts/{part}")));
                let paths = if view == View::Copy { &[COPY, WORKSPACE][..] } else { &[] };
                let view = paths.iter().map(|path| ("view", (*path).to_owned()));
                for (name, target) in parts.into_iter().chain(view) {
                    in_place &= is_mounted(pid, &target, dir.identity_of(name)?);
                }
            }
            Ok(in_place)
        });
        match in_place.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(replaced(self.dir.path(), "another directory has its path")),
            Err(error) => Err(replaced(self.dir.path(), &error.to_string())),
        }
    }

    /// Prepares the view and its mounts; returns `None` when cancelled.
    async fn prepare(
        &mut self,
        include: &Arc<PathGlobs>,
        with: Overlays,
    ) -> Result<Option<Workspace>, InfraError> {
        if self.remote {
            return remote_engine::prepare(self.verifier, &self.dir, include, self.cancel).await;
        }
        let (verifier, dir) = (self.verifier.clone(), self.dir.clone());
        let (include, cancel) = (include.clone(), self.cancel.clone());
        let beginning = match &mut self.base {
            None => Beginning::Nothing,
            Some((base, differences)) => match differences.take() {
                Some(differences) => Beginning::Base(Arc::clone(base), differences),
                None => return Err(InfraError::new(ErrorType::Unknown, "a warm run began twice")),
            },
        };
        let work = blocking(move || {
            Ok(Workspace::local(&verifier, &dir, &include, beginning, with, &cancel))
        });
        tokio::pin!(work);
        let Some(done) = self.cancel.run_until_cancelled(&mut work).await else {
            let _ = tokio::time::timeout(CANCELLED_CLEANUP, work).await;
            return Ok(None);
        };
        done.map_err(|error| InfraError::from_io("prepare the run", &error))?.map(Some)
    }

    /// Returns the verdict after the tree was read again.
    fn compare_trees(
        &mut self,
        verdict: Verdict,
        after: io::Result<Result<String, CopyError>>,
    ) -> Verdict {
        if let Err(moved) = self.verifier.repo.check_not_moved() {
            return Verdict::Infra(root_moved(moved));
        }
        let unreadable =
            |error: &io::Error| InfraError::from_io("read the repository after the run", error);
        match (after, &self.manifest.tree_digest) {
            (Ok(Ok(after)), Some(before)) => {
                let verdict = after_run(verdict, before, &after);
                self.manifest.tree_digest_after = Some(after);
                verdict
            }
            _ if verdict != Verdict::Pass => verdict,
            // The tree changes while it is read.
            (Ok(Err(CopyError::Changed { .. })), _) => Verdict::Fail(FailReason::TreeChanged),
            (Ok(Err(error)), _) => Verdict::Infra(unreadable(&io::Error::other(error))),
            (Err(error), _) => Verdict::Infra(unreadable(&error)),
            (Ok(Ok(_)), None) => verdict,
        }
    }

    /// Copies what the steps wrote from a remote engine into the directory of the run.
    async fn fetch_artifacts(&mut self, volumes: &VolumeStore) {
        let dir = &self.dir;
        let fetch = async {
            let mut allowance = ARTIFACTS;
            let (mut entries, mut cut) = (0, false);
            for part in STEP_PARTS {
                let dir = dir.clone();
                let received = volumes.read_part(part, move |archive| {
                    let left_out = dir.receive(part, archive, &mut allowance)?;
                    Ok((left_out, allowance))
                });
                let (left_out, left) = received.await?;
                allowance = left;
                entries += left_out.entries;
                cut |= left_out.cut;
            }
            Ok::<_, InfraError>((entries, cut))
        };
        let message = match self.cancel.run_until_cancelled(fetch).await {
            None | Some(Ok((0, false))) => return,
            Some(Ok((entries, cut))) => {
                let more = if cut { ", nor anything beyond 4 GiB or 200,000 names" } else { "" };
                format!(
                    "{entries} special files or unsafe names that the steps wrote were not copied{more}"
                )
            }
            Some(Err(error)) => error.message,
        };
        self.warn(WarningCode::ArtifactsIncomplete, message);
    }

    /// Cleans the directory of the run and the cache. Nothing is cleaned while a container may still write there;
    /// retention removes the directory later.
    async fn clean(&mut self, accepted: bool) {
        if self.container_left {
            return;
        }
        if let Err(error) = self.reclaim().await {
            let message = format!(
                "files that root owns in the run's directory could not be given to you: {error}"
            );
            self.warn(WarningCode::CleanupFailed, message);
        }
        let (dir, cache) = (self.dir.clone(), self.cache.take());
        let cleaned = blocking(move || {
            let mut swept = Swept::default();
            if let Some(cache) = cache.filter(|_| accepted) {
                swept += cache.accept()?;
            }
            dir.remove_scratch()?;
            swept += dir.sweep()?;
            Ok(swept)
        });
        match cleaned.await {
            Ok(swept) if swept == Swept::default() => {}
            Ok(Swept { privileged, foreign, too_deep }) => self.warn(
                WarningCode::ArtifactsChanged,
                format!(
                    "made harmless in the run's directory: {privileged} setuid or setgid files, \
                     {foreign} files of another owner and {too_deep} too deep directories removed"
                ),
            ),
            Err(error) => self.warn(
                WarningCode::CleanupFailed,
                format!("failed to clean the run's directory: {error}"),
            ),
        }
    }

    /// Makes the caller the owner of what root wrote into the directory of the run.
    async fn reclaim(&self) -> Result<(), InfraError> {
        let by_kernel = self.base.is_some() || self.view == Some(View::Overlay);
        if self.remote || !(self.verifier.is_root_elsewhere() || by_kernel) {
            return Ok(());
        }
        self.verifier.reclaim(&self.dir, self.cache.as_ref()).await
    }

    /// Records the end of the run and writes the manifest.
    async fn finish(mut self, mut verdict: Verdict) -> Verification {
        if let (Some(green), Verdict::Fail(_)) = (&self.green, &verdict) {
            let message = format!(
                "the warm run {green} of this tree passed and this cold run, which counts, failed: the steps depend on \
                 something that `prepare` left, or a test is not deterministic"
            );
            self.warn(WarningCode::BaseDisproved, message);
        }
        if let Some(view) = self.view {
            self.manifest.workspace = view.as_str().to_owned();
        }
        self.manifest.timestamp_end = act_core::clock::seconds(act_core::clock::now());
        (self.manifest.status, self.manifest.reason) = (verdict.status(), verdict.fail_reason());
        match self.record_end(&verdict).await {
            Ok(hash) => self.manifest.audit_head = Some(hash),
            // A run without its records proves nothing.
            Err(error) => {
                verdict = infra(verdict, error);
                (self.manifest.status, self.manifest.reason) = (verdict.status(), None);
            }
        }
        let (dir, manifest) = (self.dir.clone(), self.manifest.clone());
        let written = blocking(move || dir.write_manifest(&manifest)).await;
        let manifest = match written {
            Ok(()) => Some(self.manifest),
            Err(error) => {
                verdict = infra(verdict, InfraError::from_io("write the manifest", &error));
                None
            }
        };
        let dir = self.dir.clone();
        Verification {
            run_id: Some(self.dir.id().clone()),
            verdict,
            tail: self.tail,
            artifact_paths: blocking(move || dir.artifact_paths()).await.unwrap_or_default(),
            manifest,
            warnings: self.warnings,
            reused: None,
        }
    }

    fn warn(&mut self, code: WarningCode, message: String) {
        self.warnings.push(Warning { code, step: None, message });
    }

    /// Records the start of the run. The run does not begin without this record, nor without room for that of its end.
    async fn record_start(&self, attempt: u32) -> Result<(), InfraError> {
        let DockerVerifier { audit, components, config, engine, .. } = self.verifier;
        audit.ready().map_err(unrecorded)?;
        let components = components.iter();
        let record = self
            .record(Event::GateStarted)
            .decision(Decision::Allow)
            .count("attempt", u64::from(attempt))
            .count("steps", config.pipeline.all_steps().count() as u64)
            .names([format!("engine={}", engine.identity())])
            .names(components.flat_map(|ComponentDigest { name, sha256, dev_component }| {
                let dev = dev_component.then(|| format!("{DEV_COMPONENT}{name} {sha256}"));
                std::iter::once(format!("{name} {sha256}")).chain(dev)
            }));
        let record = match &self.verifier.variant {
            Some(variant) => record.reason(variant.purpose),
            None => record,
        };
        self.write_record(record).await.map(drop)
    }

    /// Records the end of the run with the digest of its manifest, so that the manifest cannot be changed unnoticed.
    /// Returns the hash of the record, which is the last field of the manifest.
    async fn record_end(&self, verdict: &Verdict) -> Result<String, InfraError> {
        let manifest = &self.manifest;
        let steps = steps_digest(&manifest.commands_executed);
        let names: Vec<_> =
            manifest.commands_executed.iter().map(|step| step.name.as_str()).collect();
        let record = self
            .record(Event::GateFinished)
            .digest("tree", manifest.tree_digest.as_deref())
            .digest("tree_after", manifest.tree_digest_after.as_deref())
            .digest("steps", steps.as_deref())
            .digest("manifest", manifest_digest(manifest).as_deref())
            .digest("inputs", self.inputs.as_ref().map(|inputs| inputs.others.as_str()))
            .count("warnings", self.warnings.len() as u64)
            .names(marks(&self.warnings, &names));
        let record = match verdict {
            Verdict::Pass => record.decision(Decision::Allow).reason("pass"),
            Verdict::Fail(reason) => record.decision(Decision::Deny).reason(reason.as_str()),
            Verdict::Infra(error) => record.reason(error.error_type.as_str()),
        };
        self.write_record(record).await
    }

    fn record(&self, event: Event) -> Entry {
        let DockerVerifier { config, image, .. } = self.verifier;
        let bare = |digest| Some(str::strip_prefix(digest, "sha256:").unwrap_or(digest));
        Entry::new(event)
            .object(self.dir.id().as_str())
            .digest("pipeline", Some(&config.sha256))
            .digest("image", bare(&image.digest))
            .digest("image_id", bare(&image.id))
            .digest("base", self.manifest.base.as_deref())
    }

    /// Appends a record, waits until it is on the disk and returns its hash.
    async fn write_record(&self, record: Entry) -> Result<String, InfraError> {
        let audit = self.verifier.audit.clone();
        let recorded = blocking(move || {
            let head = audit.append(record);
            Ok(head.and_then(|head| audit.settle().map(|()| head.hash)))
        });
        let recorded =
            recorded.await.map_err(|error| InfraError::from_io("record the run", &error))?;
        recorded.map_err(unrecorded)
    }
}

/// Returns the verdict of a run with further trouble. The first trouble is the one to report.
fn infra(verdict: Verdict, error: InfraError) -> Verdict {
    match verdict {
        Verdict::Infra(_) => verdict,
        Verdict::Pass | Verdict::Fail(_) => Verdict::Infra(error),
    }
}

/// Returns the error of a run that the audit log cannot record.
pub(crate) fn unrecorded(error: AuditError) -> InfraError {
    let error_type = match error {
        AuditError::Unusable { full: true, .. } => ErrorType::ResourceExhaustion,
        _ => ErrorType::Unknown,
    };
    InfraError::new(error_type, format!("{error}; {}", error.hint()))
}

/// Returns whether a path of a container is this directory, or cannot be looked at from here: that needs the rights of the
/// container's user.
fn is_mounted(pid: u32, target: &str, prepared: Identity) -> bool {
    match Dir::open(Path::new(&format!("/proc/{pid}/root{target}"))) {
        Ok(mounted) => mounted.identity().is_ok_and(|mounted| mounted == prepared),
        Err(_) => true,
    }
}

/// Checks that the steps see the tree that was sent, where the engine can say so.
async fn check_tree(workspace: &Workspace, container: &Container) -> Result<(), InfraError> {
    let (engine, sent) = (&container.engine, &workspace.digest);
    let root = workspace.view.root();
    let Some(found) = engine.sees_another_tree(&container.name, root, sent).await? else {
        return Ok(());
    };
    Err(InfraError::new(
        ErrorType::Unknown,
        format!(
            "the container has another tree ({found}) than the one that was sent ({sent}); verify again, and if it happens \
             again ask who else works on the engine"
        ),
    ))
}

/// Returns the error of a run whose container got other directories than the host has prepared.
fn replaced(dir: &Path, why: &str) -> InfraError {
    let message = format!(
        "the directory of the run, {}, was replaced while its container was created: {why}; nothing was run. See who can \
         write the directories above it, or set AGENT_ARTIFACT_DIR to a directory of your own",
        dir.display()
    );
    InfraError::new(ErrorType::Unknown, message)
}

/// Returns the error of a run whose repository was replaced by another directory.
fn root_moved(moved: RootMoved) -> InfraError {
    let message =
        format!("{moved}, so this run proves nothing about the repository; {}", RootMoved::HINT);
    InfraError::new(ErrorType::Unknown, message)
}

fn left_for_next_start(error: InfraError) -> String {
    format!("{}; the next start of act removes it", error.message)
}

/// Runs work that waits for a disk on a thread for such work. A panic continues in the caller.
///
/// # Errors
/// The error of the work, or the program is shutting down.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(io::Error::other("the program is shutting down")),
        },
    }
}
