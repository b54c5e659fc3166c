//! One container from create to remove. Whatever ends the run, an unwinding panic included, removes it.

use std::path::Path;
use std::time::Duration;

use bollard::models::{
    ContainerInspectResponse, ContainerState, EndpointSettings, Mount, NetworkConnectRequest,
    NetworkDisconnectRequest,
};
use bollard::query_parameters::{InspectContainerOptions, StartContainerOptions};
use tokio_util::sync::CancellationToken;

use crate::container_audit;
use crate::docker_error::{EngineError, Phase};
use crate::docker_verifier::unrecorded;
use crate::engine::{Engine, QUICK, WORK};
use crate::image::ResolvedImage;
use crate::oom::KillCounter;
use crate::oom::OomWatch;
use crate::passwd::put_file;
use crate::request::ContainerRequest;
use act_audit::Audit;
use act_core::verification::{ErrorType, InfraError};

/// How long a dropped container may hold its thread; afterwards the next start's sweep has to find it.
const LAST_MOMENT: Duration = Duration::from_secs(10);
/// A cancelled run waits this long for an answer that would tell whether there is a container.
const CANCELLED_CREATE: Duration = Duration::from_secs(2);

pub(crate) struct Container {
    pub(crate) engine: Engine,
    pub(crate) name: String,
    pub(crate) oom: OomWatch,
    guard: Guard,
}

/// Whether the container runs, and what its end looked like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) running: bool,
    pub(crate) oom_killed: bool,
}

impl Container {
    /// Creates, prepares and starts; what is asked for is recorded before, what the engine made of it after.
    /// None when cancelled. The name is ours and the guard is armed before the
    /// engine hears of it, so there is no moment in which a container could be lost.
    pub(crate) async fn start(
        engine: &Engine,
        name: String,
        mut request: ContainerRequest,
        image: &ResolvedImage,
        audit: &Audit,
        cancel: &CancellationToken,
    ) -> Result<Option<Self>, InfraError> {
        if let Some(hidden) = hidden(&image.volumes, &request.mounts) {
            return Err(InfraError::new(
                ErrorType::ContainerCreation,
                format!(
                    "image {} wants a volume of its own at {hidden}, which would hide what the steps are to see; \
                     use an image without it",
                    image.reference
                ),
            ));
        }
        let (volume, files) = (request.volume.take(), std::mem::take(&mut request.files));
        let volumes = volume.iter().map(|_| name.clone()).collect();
        let guard = Guard::arm(engine, &name, volumes);
        let body = request.body();
        audit.append(container_audit::requested(&name, &body)).map_err(unrecorded)?;
        let create = async {
            if let Some(volume) = volume {
                engine.create_volume(volume).await?;
            }
            engine.create(&name, body).await
        };
        tokio::pin!(create);
        let created = tokio::select! {
            created = &mut create => created,
            () = cancel.cancelled() => {
                // Removing what the engine is still making would miss it.
                let _ = tokio::time::timeout(CANCELLED_CREATE, create).await;
                guard.remove().await?;
                return Ok(None);
            }
        };
        let started = async {
            created.map_err(|error| creation_failed(image, error))?;
            for (path, content) in &files {
                put_file(engine, &name, path, content).await?;
            }
            let mut oom = OomWatch::new(engine, &name);
            let start = engine.docker.start_container(&name, None::<StartContainerOptions>);
            engine.call(Phase::Start, WORK, start).await?;
            let inspect =
                || engine.docker.inspect_container(&name, None::<InspectContainerOptions>);
            let found = engine.settled(inspect).await?;
            audit.append(container_audit::inspected(&name, &found)).map_err(unrecorded)?;
            oom.count_with(kill_counter(engine, found));
            Ok::<_, InfraError>(oom)
        };
        let started = tokio::select! {
            started = started => started,
            () = cancel.cancelled() => {
                guard.remove().await?;
                return Ok(None);
            }
        };
        match started {
            Ok(oom) => Ok(Some(Self { engine: engine.clone(), name: name.clone(), oom, guard })),
            Err(error) => {
                // The first failure is the one to tell.
                let _ = guard.remove().await;
                Err(error)
            }
        }
    }

    /// Kills and removes. An engine that refuses is asked once more by the guard, one that is gone is not.
    pub(crate) async fn remove(self) -> Result<(), EngineError> {
        self.guard.remove().await
    }

    pub(crate) async fn kill(&self) -> Result<(), EngineError> {
        self.engine.kill(&self.name).await
    }

    /// A container that is gone does not run.
    pub(crate) async fn state(&self) -> Result<State, EngineError> {
        let inspect =
            || self.engine.docker.inspect_container(&self.name, None::<InspectContainerOptions>);
        match self.engine.settled(inspect).await {
            Ok(found) => Ok(read_state(found.state.unwrap_or_default())),
            Err(error) if error.status() == Some(404) => {
                Ok(State { running: false, oom_killed: false })
            }
            Err(error) => Err(error),
        }
    }

    /// Takes every network away; what was taken is the answer, for `attach`.
    pub(crate) async fn detach(&self) -> Result<Vec<String>, EngineError> {
        let inspect =
            self.engine.docker.inspect_container(&self.name, None::<InspectContainerOptions>);
        let found = self.engine.call(Phase::Network, QUICK, inspect).await?;
        let networks = found.network_settings.and_then(|settings| settings.networks);
        let names: Vec<String> = networks.unwrap_or_default().into_keys().collect();
        for network in &names {
            let request =
                NetworkDisconnectRequest { container: self.name.clone(), force: Some(true) };
            let call = self.engine.docker.disconnect_network(network, request);
            self.engine.call(Phase::Network, WORK, call).await?;
        }
        Ok(names)
    }

    pub(crate) async fn attach(&self, networks: &[String]) -> Result<(), EngineError> {
        for network in networks {
            let request = NetworkConnectRequest {
                container: self.name.clone(),
                endpoint_config: Some(EndpointSettings::default()),
            };
            let call = self.engine.docker.connect_network(network, request);
            self.engine.call(Phase::Network, WORK, call).await?;
        }
        Ok(())
    }
}

/// The engine's process numbers are ours where it is on this machine and no namespace stands between.
fn kill_counter(engine: &Engine, found: ContainerInspectResponse) -> Option<KillCounter> {
    if !engine.sees_files() || !cfg!(target_os = "linux") {
        return None;
    }
    let pid = found.state.and_then(|state| u32::try_from(state.pid?).ok())?;
    KillCounter::find(Path::new("/"), pid, &found.id?)
}

/// A volume of the image that would come to lie inside of what is mounted, and that no mount takes the place of.
fn hidden<'a>(volumes: &'a [String], mounts: &[Mount]) -> Option<&'a str> {
    let targets: Vec<&Path> =
        mounts.iter().filter_map(|mount| mount.target.as_deref()).map(Path::new).collect();
    let inside = |volume: &Path| targets.iter().any(|target| volume.starts_with(target));
    let taken = |volume: &Path| targets.contains(&volume);
    volumes.iter().map(String::as_str).find(|volume| {
        let volume = Path::new(volume);
        inside(volume) && !taken(volume)
    })
}

fn read_state(state: ContainerState) -> State {
    State { running: state.running.unwrap_or(false), oom_killed: state.oom_killed.unwrap_or(false) }
}

pub(crate) fn creation_failed(image: &ResolvedImage, error: EngineError) -> InfraError {
    let gone = error.status() == Some(404);
    let mut error = InfraError::from(error);
    if gone {
        error.message =
            format!("image {} is gone from the engine: {}", image.reference, error.message);
    }
    error
}

/// Removes a container, then its volumes, unless somebody did so properly.
pub(crate) struct Guard {
    engine: Engine,
    name: String,
    volumes: Vec<String>,
    armed: std::sync::atomic::AtomicBool,
}

impl Guard {
    /// Before the engine hears of any of them.
    pub(crate) fn arm(engine: &Engine, name: &str, volumes: Vec<String>) -> Self {
        Self { engine: engine.clone(), name: name.to_owned(), volumes, armed: true.into() }
    }

    pub(crate) async fn remove(&self) -> Result<(), EngineError> {
        let mut removed = self.engine.remove(&self.name).await;
        for volume in &self.volumes {
            if removed.is_ok() {
                removed = self.engine.remove_volume(volume).await;
            }
        }
        if removed.as_ref().is_ok() || removed.as_ref().is_err_and(EngineError::unreachable) {
            self.armed.store(false, std::sync::atomic::Ordering::Relaxed);
        }
        removed
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !*self.armed.get_mut() {
            return;
        }
        // The runtime may be unwinding or gone, so the removal brings its own; the wait is bounded.
        let (engine, name) = (self.engine.clone(), self.name.clone());
        let volumes = std::mem::take(&mut self.volumes);
        let (done, wait) = std::sync::mpsc::channel();
        let removal = std::thread::Builder::new().name("act-remove".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                // Nobody is left to hear of a failure; the labels let a later start find it.
                let removed = async {
                    let _ = engine.remove(&name).await;
                    for volume in volumes {
                        let _ = engine.remove_volume(&volume).await;
                    }
                };
                let _ =
                    runtime.block_on(async { tokio::time::timeout(LAST_MOMENT, removed).await });
            }
            let _ = done.send(());
        });
        if removal.is_ok() {
            let _ = wait.recv_timeout(LAST_MOMENT);
        }
    }
}
