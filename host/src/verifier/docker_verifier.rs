//! One run of the gate, from the first question to the engine to the last byte of the manifest.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rustix::process::{getegid, geteuid};
use tokio_util::sync::CancellationToken;

use super::Verifier;
use super::conclusion::Facts;
use super::container::Container;
use super::depot::Depot;
use super::docker_error::InfraError;
use super::engine::Engine;
use super::environment::step_environment;
use super::image::ResolvedImage;
use super::image_probe::passwd_of;
use super::owner;
use super::passwd::{PASSWD, with_user};
use super::pipeline::{Gate, Judged, Verdict, oom_warning, run_steps, settle};
use super::prepare::{Order, Prepared, prepare};
use super::prepare_elsewhere::prepare_elsewhere;
use super::reclaim::reclaim;
use super::request::{ContainerRequest, StepUser, bind};
use super::response::{ErrorType, FailReason, VerifyResponse, Warning};
use super::source_writes::Guard;
use super::step::ContainerSteps;
use super::step_log::RunLog;
use super::view::View;
use crate::artifacts::{ARTIFACTS, ArtifactDir, Cache, ComponentDigest, RunDir, STEP_PARTS, Swept};
use crate::audit::Audit;
use crate::config::{User, Workspace};
use crate::event::{EventKind, Events};
use crate::process::Process;
use crate::workspace::{CopyError, HeldRoot, PathGlobs, RootMoved, tree_digest};

/// Beyond the steps' own time, before a forgotten container ends by itself.
const LIFETIME_SLACK: u64 = 600;
/// A cancelled run does not wait longer than this for its own files.
const CANCELLED_CLEANUP: Duration = Duration::from_millis(250);

/// A run that can begin its steps.
struct Started {
    depot: Option<Depot>,
    container: Container,
    guard: Guard,
    view: View,
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
    ) -> BoxFuture<'a, Option<VerifyResponse>> {
        Box::pin(self.verify(attempt, cancel))
    }
}

impl DockerVerifier {
    async fn verify(&self, attempt: u32, cancel: &CancellationToken) -> Option<VerifyResponse> {
        let (began, start) = (Instant::now(), crate::clock::now());
        let answered = tokio::select! {
            biased;
            () = cancel.cancelled() => return None,
            answered = self.engine.ping() => answered,
        };
        if let Err(error) = answered {
            return Some(InfraError::from(error).into());
        }
        let artifacts = self.artifacts.clone();
        let run = match blocking(move || artifacts.create_run(start)).await {
            Ok(run) => Arc::new(run),
            Err(error) => {
                return Some(InfraError::from_io("create the run's directory", &error).into());
            }
        };
        let run_id = run.id().to_string();
        self.events.emit(EventKind::VerifyStarted { run_id: run_id.clone(), attempt });

        let mut facts = Facts::default();
        let judged = match self.record_start(&run_id, attempt).await {
            Ok(()) => self.judge(&run, &mut facts, cancel).await.unwrap_or_else(infra),
            Err(error) => infra(error),
        };
        if judged.verdict == Verdict::Cancelled {
            self.record_cancelled(&run_id);
            // Nobody is left to hear that it failed.
            let _ = self.reclaim(&run, &facts).await;
            let run = run.clone();
            let cleanup = blocking(move || run.remove_scratch());
            // What is left then goes with the run's directory.
            let _ = tokio::time::timeout(CANCELLED_CLEANUP, cleanup).await;
            return None;
        }
        self.clean(&run, &mut facts).await;
        let response = self.conclude(&run, facts, judged, start).await;
        self.events.emit(EventKind::VerifyFinished {
            run_id,
            status: response.status.as_str().to_owned(),
            error_type: response.error_type.map(|error| error.as_str().to_owned()),
            reason: response.reason.map(|reason| reason.as_str().to_owned()),
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        Some(response)
    }

    /// From the tree to the verdict. No container is left when this returns.
    async fn judge(
        &self,
        run: &Arc<RunDir>,
        facts: &mut Facts,
        cancel: &CancellationToken,
    ) -> Result<Judged, InfraError> {
        let include = PathGlobs::new(&self.gate.pipeline.include).map_err(|error| {
            InfraError::new(
                ErrorType::ContainerCreation,
                format!("verification.include in agent.yaml: {error}"),
            )
        })?;
        let include = Arc::new(include);
        self.repo.stays()?;
        let mut log = RunLog::create(run)
            .map_err(|error| InfraError::from_io("create the run's log", &error))?;
        let Some(started) = self.start(run, &include, facts, cancel).await? else {
            return Ok(cancelled());
        };
        // In this order, so that the files outlive the container whatever happens.
        let Started { depot, container, guard, view } = started;

        let mut steps = ContainerSteps {
            container: &container,
            gate: &self.gate,
            view,
            guard: Some(guard),
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
        if judged.verdict == Verdict::Pass
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
        if let Err(error) = removed {
            let message =
                format!("{}; the next start of act removes it", InfraError::from(error).message);
            judged.warnings.push(Warning {
                code: "container_left".to_owned(),
                step: None,
                message,
            });
            facts.container_left = true;
        }
        if let Some(depot) = depot {
            self.empty(depot, run, &mut judged, facts, cancel).await;
        }
        let infra = matches!(judged.verdict, Verdict::Infra(_));
        facts.tail = (log.printed() || !infra).then(|| log.tail());
        if judged.verdict != Verdict::Cancelled {
            judged.verdict = compare(judged.verdict, after, self.repo.stays(), facts);
        }
        Ok(judged)
    }

    /// A running container over a prepared view; None when cancelled. An overlay that nobody asked for by name
    /// gives way to a copy where the engine cannot mount it.
    async fn start(
        &self,
        run: &Arc<RunDir>,
        include: &Arc<PathGlobs>,
        facts: &mut Facts,
        cancel: &CancellationToken,
    ) -> Result<Option<Started>, InfraError> {
        // To their end, cancelled or not: removing what the engine is still making would miss it.
        let sees_files = self.engine.sees_files(run, &self.image).await?;
        facts.elsewhere = !sees_files;
        let passwd = self.passwd(run).await?;
        if cancel.is_cancelled() {
            return Ok(None);
        }
        let mut without_overlay = false;
        loop {
            let labels = owner::labels(Process::this(), run.id().as_str(), self.deadline());
            let order = Order {
                repo: self.repo.path().to_owned(),
                gate: self.gate.clone(),
                include: include.clone(),
                artifacts: self.artifacts.clone(),
                image_digest: self.image.digest.clone(),
                name: format!("act-{}", run.id()),
                labels: labels.clone(),
                without_overlay,
            };
            let prepared = if sees_files {
                self.prepare(order, run, cancel).await?
            } else {
                let ids = self.user().ids();
                prepare_elsewhere(&self.engine, &self.image, order, run, ids, cancel).await?
            };
            let Some(prepared) = prepared else { return Ok(None) };
            let Prepared { view, guard, mut mounts, volume, mut files, cache, depot, .. } =
                prepared;
            (facts.digest, facts.commit) = (Some(prepared.digest), prepared.commit);
            (facts.view, facts.cache) = (Some(view), cache);
            facts.warnings.extend(prepared.warnings);
            if let Some(text) = passwd.clone() {
                if sees_files {
                    let lent = run.lend_file("passwd", &text);
                    let lent = lent.map_err(|error| InfraError::from_io("lend a file", &error))?;
                    mounts.push(bind(&lent, PASSWD, true)?);
                } else {
                    files.push((PASSWD, text));
                }
            }
            let readonly = view == View::Readonly;
            let ca_bundle = self.gate.pipeline.ca_bundle.is_some();
            let request = ContainerRequest {
                image_id: self.image.id.clone(),
                mounts,
                volume,
                files,
                environment: step_environment(self.image.path.as_deref(), readonly, ca_bundle),
                user: self.user(),
                limits: self.gate.pipeline.limits,
                network: self.gate.pipeline.steps.iter().any(|step| step.network),
                lifetime_seconds: self.lifetime(),
                labels,
            };
            let name = format!("act-{}", run.id());
            let (image, audit) = (&self.image, &self.audit);
            match Container::start(&self.engine, name, request, image, audit, cancel).await {
                Ok(Some(container)) => {
                    return Ok(Some(Started { depot, container, guard, view }));
                }
                Ok(None) => {
                    if let Some(depot) = depot {
                        depot.remove().await?;
                    }
                    return Ok(None);
                }
                Err(error)
                    if view == View::Overlay
                        && self.gate.pipeline.workspace == Workspace::Auto
                        && error.error_type == ErrorType::ContainerCreation =>
                {
                    without_overlay = true;
                    facts.warnings.clear();
                    facts.warnings.push(Warning {
                        code: "overlay_unavailable".to_owned(),
                        step: None,
                        message: format!("the tree was copied instead: {}", error.message),
                    });
                    facts.cache = None;
                    let run = run.clone();
                    blocking(move || run.remove_scratch())
                        .await
                        .map_err(|error| InfraError::from_io("remove the overlay", &error))?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The image's `/etc/passwd` with a line for whom the steps run as, if it needs one.
    async fn passwd(&self, run: &RunDir) -> Result<Option<Vec<u8>>, InfraError> {
        let name = format!("act-{}-image", run.id());
        let labels = owner::labels(Process::this(), run.id().as_str(), self.deadline());
        let text = passwd_of(&self.engine, &self.image, &self.artifacts, &name, labels).await?;
        let user = self.user().named();
        Ok(text.zip(user).and_then(|(text, (uid, gid))| with_user(text, uid, gid)))
    }

    /// None when cancelled.
    async fn prepare(
        &self,
        order: Order,
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

    /// Fetches the artifacts of a run whose container is gone, and removes what held them.
    async fn empty(
        &self,
        depot: Depot,
        run: &Arc<RunDir>,
        judged: &mut Judged,
        facts: &mut Facts,
        cancel: &CancellationToken,
    ) {
        let mut warn = |code: &str, message: String| {
            judged.warnings.push(Warning { code: code.to_owned(), step: None, message });
        };
        if judged.verdict != Verdict::Cancelled && !facts.container_left {
            let fetched = tokio::select! {
                biased;
                () = cancel.cancelled() => Ok(None),
                fetched = fetch(&depot, run) => fetched,
            };
            match fetched {
                Ok(incomplete) => {
                    if let Some(message) = incomplete {
                        warn("artifacts_incomplete", message);
                    }
                }
                Err(error) => warn("artifacts_incomplete", error.message),
            }
        }
        if let Err(error) = depot.remove().await {
            let message =
                format!("{}; the next start of act removes it", InfraError::from(error).message);
            warn("container_left", message);
        }
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
        crate::clock::now().timestamp().saturating_add(lifetime)
    }

    /// The tree's digest once more; None when cancelled.
    async fn look_again(
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

    /// Where the caller is not root, root's files in the run's directory become the caller's.
    async fn reclaim(&self, run: &RunDir, facts: &Facts) -> Result<(), InfraError> {
        let ids = (geteuid().as_raw(), getegid().as_raw());
        let by_root = self.gate.pipeline.user == User::Root || facts.view == Some(View::Overlay);
        if ids.0 == 0 || !by_root || self.engine.is_rootless() || facts.elsewhere {
            return Ok(());
        }
        let cache = facts.cache.as_ref().map(Cache::path);
        reclaim(&self.engine, &self.image, &self.audit, run.path(), cache, ids).await
    }

    /// Not while something may still write there; then retention removes what is left.
    async fn clean(&self, run: &Arc<RunDir>, facts: &mut Facts) {
        if facts.container_left {
            return;
        }
        if let Err(error) = self.reclaim(run, facts).await {
            facts.warnings.push(Warning {
                code: "cleanup_failed".to_owned(),
                step: None,
                message: format!("root's files in the run's directory stay root's: {error}"),
            });
        }
        let (run, cache) = (run.clone(), facts.cache.take());
        let cleaned = blocking(move || {
            let mut swept = Swept::default();
            if let Some(cache) = cache {
                swept += cache.tidy()?;
            }
            run.remove_scratch()?;
            swept += run.sweep()?;
            Ok(swept)
        });
        let mut warn = |code: &str, message: String| {
            facts.warnings.push(Warning { code: code.to_owned(), step: None, message });
        };
        match cleaned.await {
            Ok(swept) if swept == Swept::default() => {}
            Ok(Swept { privileged, foreign, too_deep }) => warn(
                "artifacts_changed",
                format!(
                    "made harmless in the run's directory: {privileged} setuid or setgid files, \
                     {foreign} files of another owner and {too_deep} too deep directories removed"
                ),
            ),
            Err(error) => {
                warn("cleanup_failed", format!("failed to clean the run's directory: {error}"))
            }
        }
    }
}

impl From<RootMoved> for InfraError {
    fn from(moved: RootMoved) -> Self {
        let message =
            format!("{moved}, so nothing is proved about the repository; {}", RootMoved::HINT);
        Self::new(ErrorType::Unknown, message)
    }
}

/// Was it one tree all the way?
fn compare(
    verdict: Verdict,
    after: Option<io::Result<Result<String, CopyError>>>,
    stays: Result<(), RootMoved>,
    facts: &mut Facts,
) -> Verdict {
    let Some(after) = after else { return Verdict::Cancelled };
    if let Err(moved) = stays {
        return Verdict::Infra(moved.into());
    }
    match (after, &facts.digest) {
        (Ok(Ok(after)), Some(before)) => {
            let verdict = settle(verdict, before, &after);
            facts.digest_after = Some(after);
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

/// What the steps wrote, into the run's directory; the answer says what is missing there.
async fn fetch(depot: &Depot, run: &Arc<RunDir>) -> Result<Option<String>, InfraError> {
    let mut allowance = ARTIFACTS;
    let (mut entries, mut cut) = (0, false);
    for part in STEP_PARTS {
        let run = run.clone();
        let received = depot.read_part(part, move |archive| {
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

fn infra(error: InfraError) -> Judged {
    Judged { verdict: Verdict::Infra(error), commands: vec![], warnings: vec![] }
}

fn cancelled() -> Judged {
    Judged { verdict: Verdict::Cancelled, commands: vec![], warnings: vec![] }
}

/// Off the runtime's threads; a panic goes on where it was waited for.
pub(super) async fn blocking<T: Send + 'static>(
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
