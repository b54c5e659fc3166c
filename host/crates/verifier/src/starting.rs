//! From the first look at the engine's sight of our files to a container that can take its first step.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{getegid, geteuid};
use tokio_util::sync::CancellationToken;

use super::blocking::blocking;
use super::conclusion::Facts;
use super::container::Container;
use super::docker_verifier::DockerVerifier;
use super::elsewhere::{Depot, prepare_elsewhere};
use super::environment::step_environment;
use super::image::passwd_of;
use super::owner;
use super::passwd::{PASSWD, with_user};
use super::prepare::{Order, Prepared, prepare};
use super::request::{ContainerRequest, StepUser, bind};
use super::source_writes::SourceWatch;
use super::view::View;
use act_config::{User, Workspace};
use act_core::process::Process;
use act_core::verification::{ErrorType, InfraError, Warning, WarningCode};
use act_records::artifacts::RunDir;
use act_workspace::PathGlobs;

/// Beyond the steps' own time, before a forgotten container ends by itself.
const LIFETIME_SLACK: u64 = 600;
/// A cancelled run does not wait longer than this for its own files.
pub(super) const CANCELLED_CLEANUP: Duration = Duration::from_millis(250);

/// A run that can begin its steps.
pub(super) struct Started {
    pub(super) depot: Option<Depot>,
    pub(super) container: Container,
    pub(super) watch: SourceWatch,
    pub(super) view: View,
}

impl DockerVerifier {
    /// A running container over a prepared view; None when cancelled. An engine that turns out not to see our
    /// files is sent them, and an overlay that nobody asked for by name gives way to a copy where the engine
    /// cannot mount it.
    pub(super) async fn start(
        &self,
        run: &Arc<RunDir>,
        include: &Arc<PathGlobs>,
        facts: &mut Facts,
        cancel: &CancellationToken,
    ) -> Result<Option<Started>, InfraError> {
        // To their end, cancelled or not: removing what the engine is still making would miss it.
        facts.elsewhere = !self.engine.find_sight(run, &self.image).await?;
        let passwd = self.passwd(run).await?;
        if cancel.is_cancelled() {
            return Ok(None);
        }
        let mut without_overlay = false;
        loop {
            let order = self.order(run, include, without_overlay);
            let (name, labels) = (order.name.clone(), order.labels.clone());
            let prepared = if !facts.elsewhere {
                self.prepare(order, run, cancel).await?
            } else {
                let (engine, image, ids) = (&self.engine, &self.image, self.user().ids());
                prepare_elsewhere(engine, image, order, run, ids, &self.audit, cancel).await?
            };
            let Some(prepared) = prepared else { return Ok(None) };
            let Prepared { view, watch, mut mounts, volume, mut files, cache, depot, .. } =
                prepared;
            (facts.digest, facts.commit) = (Some(prepared.digest), prepared.commit);
            (facts.view, facts.cache) = (Some(view), cache);
            facts.warnings.extend(prepared.warnings);
            if let Some(text) = passwd.clone() {
                if !facts.elsewhere {
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
                    return Ok(Some(Started { depot, container, watch, view }));
                }
                Ok(None) => {
                    if let Some(depot) = depot {
                        depot.remove().await?;
                    }
                    return Ok(None);
                }
                Err(error) if error.error_type != ErrorType::ContainerCreation => {
                    return Err(error);
                }
                Err(_) if !facts.elsewhere && self.engine.was_blind(run, &self.image).await? => {
                    facts.elsewhere = true;
                    facts.warnings.clear();
                }
                Err(error)
                    if view == View::Overlay && self.gate.pipeline.workspace == Workspace::Auto =>
                {
                    without_overlay = true;
                    facts.warnings = vec![copied_instead(&error)];
                }
                Err(error) => return Err(error),
            }
            facts.cache = None;
            let run = run.clone();
            blocking(move || run.remove_scratch())
                .await
                .map_err(|error| InfraError::from_io("begin again", &error))?;
        }
    }

    fn order(&self, run: &RunDir, include: &Arc<PathGlobs>, without_overlay: bool) -> Order {
        Order {
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
