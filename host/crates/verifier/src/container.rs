//! One container, from its creation to its removal. It is removed however the run ends, also by a panic. The audit log
//! records what was requested before the container exists, and what the engine reports once it runs.

use crate::docker_verifier::unrecorded;
use crate::driver::{Description, Inspected};
use crate::engine::Engine;
use crate::engine_error::EngineError;
use crate::image::ResolvedImage;
use crate::oom::{KillCounter, OomWatch};
use crate::request::{ContainerRequest, Mount};
use act_audit::{Audit, Decision, Entry, Event};
use act_core::verification::{ErrorType, InfraError};
use act_workspace::digest;
use std::future::{Future, ready};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a thread that drops a container waits for its removal. The next start of `act` removes a container that is
/// left.
const DROP_LIMIT: Duration = Duration::from_secs(10);
/// How long a cancelled run waits for a container that the engine is still creating.
const CANCELLED_CREATE: Duration = Duration::from_secs(2);

pub(crate) struct Container {
    pub(crate) engine: Engine,
    pub(crate) name: String,
    pub(crate) oom: OomWatch,
    /// The process id of PID 1 on this machine, if the engine runs here.
    pub(crate) pid: Option<u32>,
    /// The machine of the engine that it is on, where the engine has several.
    pub(crate) node: Option<String>,
    guard: Guard,
}

/// The state of a container, as the engine reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) running: bool,
    pub(crate) oom_killed: bool,
}

impl Container {
    /// Creates a container and starts it. Returns `None` when cancelled.
    ///
    /// # Errors
    /// The errors of [`Container::create`] and [`Created::start`].
    pub(crate) async fn start(
        engine: &Engine,
        name: String,
        request: ContainerRequest,
        image: &ResolvedImage,
        audit: &Audit,
        cancel: &CancellationToken,
    ) -> Result<Option<Self>, InfraError> {
        match Self::create(engine, name, request, image, audit, cancel).await? {
            Some(created) => created.start(ready(Ok(true)), audit, cancel).await,
            None => Ok(None),
        }
    }

    /// Creates a container with its files. Returns `None` when cancelled.
    ///
    /// `act` chooses the name and arms the guard before the engine is asked, so the container cannot be lost at any
    /// moment.
    ///
    /// # Errors
    /// The engine or the audit log fails, or a volume of the image would hide a mount. No container is left then.
    pub(crate) async fn create(
        engine: &Engine,
        name: String,
        mut request: ContainerRequest,
        image: &ResolvedImage,
        audit: &Audit,
        cancel: &CancellationToken,
    ) -> Result<Option<Created>, InfraError> {
        if let Some(volume) = hiding_volume(&image.volumes, &request.mounts) {
            return Err(InfraError::new(
                ErrorType::ContainerCreation,
                format!(
                    "image {} declares a volume at {volume}, which would hide the files of the run; use an image \
                     without it",
                    image.reference
                ),
            ));
        }
        let volumes = std::mem::take(&mut request.volumes);
        let names = volumes.iter().map(|volume| volume.name.clone()).collect();
        let guard = Guard::arm(engine, &name, names);
        audit.append(requested(engine, &name, &request)).map_err(unrecorded)?;
        let create = async {
            for volume in volumes {
                engine.create_volume(volume).await?;
            }
            engine.create(&name, &request).await
        };
        tokio::pin!(create);
        let created = tokio::select! {
            created = &mut create => created,
            () = cancel.cancelled() => {
                // A removal before the engine has created the container would miss it.
                let _ = tokio::time::timeout(CANCELLED_CREATE, create).await;
                guard.remove().await?;
                return Ok(None);
            }
        };
        match created {
            Ok(()) => Ok(Some(Created { engine: engine.clone(), name: name.clone(), guard })),
            Err(error) => {
                // The first failure is the one to report.
                let _ = guard.remove().await;
                Err(creation_failed(image, error))
            }
        }
    }

    /// Kills and removes the container. If the engine refuses, the guard tries once more when it is dropped.
    pub(crate) async fn remove(self) -> Result<(), EngineError> {
        self.guard.remove().await
    }

    pub(crate) async fn kill(&self) -> Result<(), EngineError> {
        self.engine.kill(&self.name).await
    }

    /// Asks the engine for the state. A container that was removed counts as stopped.
    pub(crate) async fn state(&self) -> Result<State, EngineError> {
        match self.engine.inspect(&self.name).await {
            Ok(found) => Ok(State { running: found.running, oom_killed: found.oom_killed }),
            Err(error) if error.status() == Some(404) => {
                Ok(State { running: false, oom_killed: false })
            }
            Err(error) => Err(error),
        }
    }
}

/// A container that has its files and was not started. It is removed when this is dropped.
pub(crate) struct Created {
    engine: Engine,
    name: String,
    guard: Guard,
}

impl Created {
    /// Starts the container while `filled` gives its volumes what they need, which is false when cancelled. Returns `None` when
    /// cancelled.
    ///
    /// # Errors
    /// The error of `filled`; the engine or the audit log fails. No container is left then.
    pub(crate) async fn start(
        self,
        filled: impl Future<Output = Result<bool, InfraError>>,
        audit: &Audit,
        cancel: &CancellationToken,
    ) -> Result<Option<Container>, InfraError> {
        let Self { engine, name, guard } = self;
        let started = async {
            let mut oom = OomWatch::new(&engine, &name);
            let started = async { Ok(engine.start(&name).await?) };
            // No process of a step runs before both are done.
            let (filled, ()) = tokio::try_join!(filled, started)?;
            if !filled {
                return Ok(None);
            }
            let found = engine.inspect(&name).await?;
            audit.append(inspected(&name, &found)).map_err(unrecorded)?;
            let pid = local_pid(&engine, &found);
            oom.count_with(kill_counter(pid, &found));
            Ok::<_, InfraError>(Some((oom, pid, found.node)))
        };
        let started = cancel.run_until_cancelled(started).await;
        match started {
            Some(Ok(Some((oom, pid, node)))) => {
                Ok(Some(Container { engine: engine.clone(), name, oom, pid, node, guard }))
            }
            None | Some(Ok(None)) => {
                guard.remove().await?;
                Ok(None)
            }
            Some(Err(error)) => {
                // The first failure is the one to report.
                let _ = guard.remove().await;
                Err(error)
            }
        }
    }
}

/// Returns the process id of PID 1. The engine's process ids are valid on this machine only if the engine runs here, without a
/// virtual machine between.
fn local_pid(engine: &Engine, found: &Inspected) -> Option<u32> {
    if !engine.is_known_to_share_files() || !cfg!(target_os = "linux") {
        return None;
    }
    u32::try_from(found.pid?).ok()
}

/// Returns the counter of the container's cgroup.
fn kill_counter(pid: Option<u32>, found: &Inspected) -> Option<KillCounter> {
    KillCounter::find(Path::new("/"), pid?, found.id.as_deref()?)
}

/// Returns a volume of the image that would be mounted inside one of the run's mounts, where no mount replaces it.
fn hiding_volume<'a>(volumes: &'a [String], mounts: &[Mount]) -> Option<&'a str> {
    let targets: Vec<&Path> = mounts.iter().map(|mount| Path::new(&mount.target)).collect();
    let inside = |volume: &Path| targets.iter().any(|target| volume.starts_with(target));
    let replaced = |volume: &Path| targets.contains(&volume);
    volumes.iter().map(String::as_str).find(|volume| {
        let volume = Path::new(volume);
        inside(volume) && !replaced(volume)
    })
}

pub(crate) fn creation_failed(image: &ResolvedImage, error: EngineError) -> InfraError {
    let missing = error.status() == Some(404);
    let mut error = InfraError::from(error);
    if missing {
        error.message =
            format!("image {} is gone from the engine: {}", image.reference, error.message);
    }
    error
}

/// Removes a container and then its volumes when it is dropped, unless [`Guard::remove`] has done so.
pub(crate) struct Guard {
    engine: Engine,
    name: String,
    volumes: Vec<String>,
    armed: AtomicBool,
}

impl Guard {
    /// Creates the guard. Call this before the engine is asked to create the container or a volume.
    pub(crate) fn arm(engine: &Engine, name: &str, volumes: Vec<String>) -> Self {
        Self { engine: engine.clone(), name: name.to_owned(), volumes, armed: true.into() }
    }

    /// Leaves the container to another guard.
    pub(crate) fn disarm(&self) {
        self.armed.store(false, Ordering::Relaxed);
    }

    pub(crate) async fn remove(&self) -> Result<(), EngineError> {
        let mut removed = self.engine.remove(&self.name).await;
        for volume in &self.volumes {
            if removed.is_ok() {
                removed = self.engine.remove_volume(volume).await;
            }
        }
        // An engine that cannot be reached is not asked again.
        if removed.as_ref().is_ok() || removed.as_ref().is_err_and(EngineError::unreachable) {
            self.disarm();
        }
        removed
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !*self.armed.get_mut() {
            return;
        }
        // The tokio runtime may be shutting down, so the removal runs on a thread with a runtime of its own.
        let (engine, name) = (self.engine.clone(), self.name.clone());
        let volumes = std::mem::take(&mut self.volumes);
        let (done, wait) = std::sync::mpsc::channel();
        let removal = std::thread::Builder::new().name("act-remove".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                // A failure cannot be reported here; the labels let a later start find the container.
                let removed = async {
                    let _ = engine.remove(&name).await;
                    for volume in volumes {
                        let _ = engine.remove_volume(&volume).await;
                    }
                };
                let _ = runtime.block_on(async { tokio::time::timeout(DROP_LIMIT, removed).await });
            }
            let _ = done.send(());
        });
        if removal.is_ok() {
            let _ = wait.recv_timeout(DROP_LIMIT);
        }
    }
}

/// Returns the audit record of a container that is about to be created.
pub(crate) fn requested(engine: &Engine, name: &str, request: &ContainerRequest) -> Entry {
    let request = engine.driver().describe(request);
    Entry::new(Event::ContainerRequested)
        .object(name)
        .decision(Decision::Allow)
        .digest("request", Some(&canonical_digest(&request)))
        .names(isolation(&request))
}

/// Returns the audit record of a running container, as the engine reports it.
fn inspected(name: &str, found: &Inspected) -> Entry {
    Entry::new(Event::ContainerInspected)
        .object(name)
        .digest("inspect", Some(&canonical_digest(&found.description)))
        .digest("container", found.id.as_deref())
        .names(isolation(&found.description))
        .names(found.node.iter().map(|node| format!("node={node}")))
}

/// Returns the digest of a description's JSON with sorted keys.
pub(crate) fn canonical_digest(description: &Description) -> String {
    let mut value = description.whole.clone();
    value.sort_all_objects();
    digest(value.to_string().as_bytes())
}

/// Returns the settings that isolate a container from the machine, one word or phrase each.
pub(crate) fn isolation(description: &Description) -> Vec<String> {
    let mut words = vec![format!("user={}", description.user.as_deref().unwrap_or_default())];
    let Some(walls) = &description.isolation else { return words };
    words.extend([
        format!("privileged={}", walls.privileged),
        format!("cap_drop={}", walls.dropped_capabilities.join(",")),
        format!("cap_add={}", walls.added_capabilities.join(",")),
        format!("security_opt={}", walls.security_options.join(",")),
        format!("network={}", walls.network.as_deref().unwrap_or("default")),
        format!("ipc={}", walls.ipc.as_deref().unwrap_or_default()),
        format!("pid={}", walls.pid.as_deref().unwrap_or_default()),
        format!("memory={}", walls.memory_bytes),
        format!("pids={}", walls.processes),
        format!("devices={}", walls.devices),
    ]);
    let binds = walls.binds.iter().map(|bind| format!("bind {bind}"));
    let mounts = walls.mounts.iter().map(|(target, read_only)| {
        let how = if *read_only { "ro" } else { "rw" };
        format!("mount {target} {how}")
    });
    words.extend(binds.chain(mounts));
    words
}
