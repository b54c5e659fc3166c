//! The container engine: what is known of it, and every call bounded in time.

mod connect;
mod host;
mod orphans;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, VolumeCreateRequest};
use bollard::query_parameters::{
    CreateContainerOptions, InspectContainerOptions, KillContainerOptions, RemoveContainerOptions,
    RemoveVolumeOptions,
};

use super::docker_error::{EngineError, Phase};
use super::elsewhere::Sight;
use act_core::verification::{EngineIdentity, InfraError};

/// For questions that an engine answers from memory.
pub(super) const QUICK: Duration = Duration::from_secs(20);
/// For work of the engine: unpacking, mounting, killing.
pub(super) const WORK: Duration = Duration::from_secs(110);
/// Between two looks at something that is about to change.
const AGAIN: Duration = Duration::from_millis(20);
/// For a container to come out of a state that only its engine has a name for.
const SETTLES: Duration = Duration::from_secs(5);

const PODMAN: &str = "podman";

/// An engine that answered.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(super) docker: Docker,
    host: String,
    identity: EngineIdentity,
    rootless: bool,
    /// Whether it sees the files of this machine.
    pub(super) sight: Arc<Sight>,
}

/// Of the machine that the engine runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    pub cpus: u64,
    pub memory_bytes: u64,
}

impl Engine {
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn identity(&self) -> &EngineIdentity {
        &self.identity
    }

    /// What the engine has to give.
    pub async fn machine(&self) -> Result<Machine, InfraError> {
        let info = self.call(Phase::Inspect, QUICK, self.docker.info()).await?;
        let positive = |number: Option<i64>| u64::try_from(number.unwrap_or_default()).unwrap_or(0);
        Ok(Machine { cpus: positive(info.ncpu), memory_bytes: positive(info.mem_total) })
    }

    pub(super) fn is_podman(&self) -> bool {
        self.identity.name == PODMAN
    }

    /// Whether root in a container is nobody but the caller.
    pub(super) fn is_rootless(&self) -> bool {
        self.rootless
    }

    /// One of that name that is there stays as it is.
    pub(super) async fn create_volume(
        &self,
        request: VolumeCreateRequest,
    ) -> Result<(), EngineError> {
        self.call(Phase::Create, WORK, self.docker.create_volume(request)).await.map(drop)
    }

    pub(super) async fn remove_volume(&self, name: &str) -> Result<(), EngineError> {
        let removed = self.docker.remove_volume(name, None::<RemoveVolumeOptions>);
        match self.call(Phase::Remove, WORK, removed).await {
            Err(error) if error.status() == Some(404) => Ok(()),
            other => other,
        }
    }

    pub(super) async fn ping(&self) -> Result<(), EngineError> {
        self.call(Phase::Connect, QUICK, self.docker.ping()).await.map(drop)
    }

    /// A container that has not been started.
    pub(super) async fn create(
        &self,
        name: &str,
        body: ContainerCreateBody,
    ) -> Result<(), EngineError> {
        let options = CreateContainerOptions { name: Some(name.to_owned()), ..Default::default() };
        let create = self.docker.create_container(Some(options), body);
        self.call(Phase::Create, WORK, create).await.map(drop)
    }

    /// Ends all processes of a container at once; nothing in it can delay or survive that.
    pub(super) async fn kill(&self, container: &str) -> Result<(), EngineError> {
        let options = KillContainerOptions { signal: "KILL".to_owned() };
        let kill = self.docker.kill_container(container, Some(options));
        match self.call(Phase::Remove, WORK, kill).await {
            // Not running any more, or gone.
            Err(error) if matches!(error.status(), Some(404 | 409)) => Ok(()),
            other => other,
        }
    }

    /// Kills and removes with anonymous volumes; then it is gone, whoever removed it.
    pub(super) async fn remove(&self, container: &str) -> Result<(), EngineError> {
        self.remove_within(QUICK, container).await
    }

    /// Waits so long for a removal that somebody else has begun.
    async fn remove_within(&self, patience: Duration, container: &str) -> Result<(), EngineError> {
        if self.is_podman() {
            // Else it first asks politely, and waits.
            let _ = self.kill(container).await;
        }
        let removed = self.docker.remove_container(
            container,
            Some(RemoveContainerOptions { v: true, force: true, link: false }),
        );
        match self.call(Phase::Remove, WORK, removed).await {
            Err(error) if error.status() == Some(404) => Ok(()),
            // Somebody else's removal is under way.
            Err(error) if error.status() == Some(409) => {
                self.gone(patience, container, error).await
            }
            other => other,
        }
    }

    /// Waits until a container is gone; `why` it could not be removed by us when it stays.
    async fn gone(
        &self,
        patience: Duration,
        container: &str,
        why: EngineError,
    ) -> Result<(), EngineError> {
        let deadline = tokio::time::Instant::now() + patience;
        while tokio::time::Instant::now() < deadline {
            let inspect = self.docker.inspect_container(container, None::<InspectContainerOptions>);
            match self.call(Phase::Remove, QUICK, inspect).await {
                Err(error) if error.status() == Some(404) => return Ok(()),
                Err(error) if error.unreachable() => return Err(error),
                _ => tokio::time::sleep(AGAIN).await,
            }
        }
        Err(why)
    }

    /// A question about containers. It is asked again while the answer makes no sense: between running and exited Podman
    /// tells of a state that Docker does not have.
    pub(super) async fn settled<T, F>(&self, ask: impl Fn() -> F) -> Result<T, EngineError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let deadline = tokio::time::Instant::now() + SETTLES;
        loop {
            match self.call(Phase::Inspect, QUICK, ask()).await {
                Err(error) if error.is_garbled() && tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(AGAIN).await;
                }
                other => return other,
            }
        }
    }

    pub(super) async fn call<T>(
        &self,
        phase: Phase,
        limit: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, EngineError> {
        match tokio::time::timeout(limit, call).await {
            Ok(answer) => answer.map_err(|error| EngineError::new(phase, &error)),
            Err(_) => Err(EngineError::silent(phase)),
        }
    }
}
