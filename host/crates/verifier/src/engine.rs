//! The container engine of a run, whichever [`Driver`] is behind it: its calls, each with a time limit, the questions that are
//! asked again, and the removal of containers whose process is dead. What holds for every engine is here and above.

use crate::docker::{Address, DockerApi, find_address, named_address};
use crate::driver::{
    Ability, Answer, Command, Driver, DriverError, ExecState, Facts, Inspected, Labelled, Machine,
    Output,
};
use crate::engine_error::{EngineError, EngineUnavailable, Phase};
use crate::kubernetes::KubernetesApi;
use crate::remote_engine::FileSharing;
use crate::request::{ContainerRequest, NewVolume};
use act_config::{EnginePlace, EngineSettings, Labels, Pipeline, User};
use act_core::process::{self, Life, LookupResult, Process};
use act_core::verification::{EngineIdentity, ErrorType, InfraError};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, stream};
use rustix::process::{Uid, geteuid};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Time limit for a question that an engine answers from memory.
pub(crate) const QUICK: Duration = Duration::from_secs(20);
/// Time limit for work that an engine does, such as unpacking, mounting and killing.
pub(crate) const WORK: Duration = Duration::from_secs(110);
/// Pause between two polls of something that is about to change.
const POLL_PAUSE: Duration = Duration::from_millis(20);
/// How long a question is asked again that the engine answers with an error: it may be busy, or the container may be in a state
/// that only its engine has a name for. Nothing that starts a container or a step is ever sent twice.
pub(crate) const ASK_LIMIT: Duration = Duration::from_secs(10);
/// The longest pause between two such questions.
const ASK_PAUSE: Duration = Duration::from_millis(500);

/// A container engine that has answered. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Engine {
    driver: Arc<dyn Driver>,
    /// What the engine says of itself, and its name in `engines.toml`.
    identity: Arc<EngineIdentity>,
    /// The labels of `engines.toml`, and the architecture that the engine reports.
    labels: Arc<Labels>,
    /// Remembers whether the engine mounts directories of this machine.
    pub(crate) sharing: Arc<FileSharing>,
    /// Remembers whether the engine mounts overlays; unset until it was asked for one.
    overlays: Arc<OnceLock<bool>>,
    /// How many runs the engine has at once; `None` for as many as want.
    slots: Option<u32>,
}

/// A container whose process is dead, or whose time is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    pub name: String,
    /// The process that the container belonged to, and its user, if its labels say so.
    pub pid: Option<u32>,
    pub uid: Option<u32>,
    /// The process is known to have ended. Otherwise it cannot be looked up from here, and the container is past its deadline.
    pub ended: bool,
}

impl Engine {
    /// Connects to the engine that the environment names, else to that of the Docker context, else to the first known
    /// socket that exists.
    ///
    /// # Errors
    /// No engine answers at that address, or the address is of a kind that is not supported. The error names the
    /// address and a remedy.
    pub async fn connect() -> Result<Self, EngineUnavailable> {
        Self::connect_with(|name| std::env::var(name).ok()).await
    }

    /// Connects like [`Engine::connect`], with `env` in place of the process environment.
    ///
    /// # Errors
    /// The errors of [`Engine::connect`].
    pub async fn connect_with(
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, EngineUnavailable> {
        Self::connect_at(&find_address(env)).await
    }

    /// Connects to the engine at `unix://PATH` or `tcp://HOST:PORT`, without TLS.
    ///
    /// # Errors
    /// The errors of [`Engine::connect`].
    pub async fn connect_to(host: &str) -> Result<Self, EngineUnavailable> {
        Self::connect_at(&Address::plain(host)).await
    }

    /// Connects to an engine of `engines.toml`.
    ///
    /// # Errors
    /// The errors of [`Engine::connect`], and an engine of another kind than the file says.
    pub async fn connect_to_named(settings: &EngineSettings) -> Result<Self, EngineUnavailable> {
        let named = |host: &str| format!("{host} ({} in engines.toml)", settings.name);
        let wrong = |host: String, why: String| EngineUnavailable {
            host: named(&host),
            why,
            hint: format!("correct the engine {} in engines.toml", settings.name),
        };
        let connected = match &settings.place {
            EnginePlace::Cluster(place) => {
                KubernetesApi::connect(place).await.map(|api| Self::of(Arc::new(api)))
            }
            place => {
                let address = named_address(place, |name| std::env::var(name).ok())
                    .map_err(|error| EngineUnavailable { host: named(&error.host), ..error })?;
                Self::connect_at(&address).await
            }
        };
        let mut engine = connected.map_err(|error| EngineUnavailable {
            host: named(&error.host),
            hint: format!(
                "start it, or correct the engine {0} in engines.toml; `act engines check {0}` asks again",
                settings.name
            ),
            ..error
        })?;
        let host = engine.host().to_owned();
        let (kind, found) = (settings.kind.as_str(), engine.identity().name.as_str());
        if kind != found {
            return Err(wrong(
                host,
                format!("{found} answers there, and engines.toml says {kind}"),
            ));
        }
        let found = engine.identity().id.as_deref();
        if let Some(id) = settings.id.as_deref().filter(|id| found != Some(*id)) {
            let found = found.unwrap_or("none");
            return Err(wrong(host, format!("its id is {found}, and engines.toml says {id}")));
        }
        let mut labels = settings.labels.clone();
        if let Some(arch) = engine.labels.get(ARCH) {
            let said = labels.entry(ARCH.to_owned()).or_insert_with(|| arch.clone());
            if said != arch {
                let why = format!("its architecture is {arch}, and engines.toml labels it {said}");
                return Err(wrong(host, why));
            }
        }
        let entry = Some(settings.name.clone());
        engine.identity = Arc::new(EngineIdentity { entry, ..(*engine.identity).clone() });
        engine.labels = Arc::new(labels);
        engine.slots = Some(settings.slots);
        Ok(engine)
    }

    async fn connect_at(address: &Address) -> Result<Self, EngineUnavailable> {
        Ok(Self::of(Arc::new(DockerApi::connect(address).await?)))
    }

    /// Returns the engine behind a driver.
    pub fn of(driver: Arc<dyn Driver>) -> Self {
        let facts = driver.facts();
        let sharing = Arc::new(FileSharing::new(facts.sharing));
        let identity = Arc::new(facts.identity.clone());
        let arch = facts.arch.iter().map(|arch| (ARCH.to_owned(), arch.clone()));
        let labels = Arc::new(arch.collect());
        Self { driver, identity, labels, sharing, overlays: Arc::default(), slots: None }
    }

    /// Returns the interface to the engine, without the rules that hold for every one.
    pub fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    /// Returns the address that the engine was found at.
    pub fn host(&self) -> &str {
        &self.driver().facts().host
    }

    /// Returns what the engine says of itself, with its name in `engines.toml`.
    pub fn identity(&self) -> &EngineIdentity {
        &self.identity
    }

    /// Returns what `verification.engine` in `agent.yaml` is compared with.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Returns how many runs the engine has at once, or `None` for as many as want.
    pub fn slots(&self) -> Option<u32> {
        self.slots
    }

    /// Returns the engine for runs that wait for no slot, as on one that is not in `engines.toml`.
    #[must_use]
    pub fn without_slots(self) -> Self {
        Self { slots: None, ..self }
    }

    /// Returns what a run on one engine has in common with no run on another.
    pub(crate) fn fingerprint(&self) -> [&str; 4] {
        let EngineIdentity { name, version, id, .. } = self.identity();
        [name, version, id.as_deref().unwrap_or_default(), self.host()]
    }

    /// Returns what the engine cannot do, each with the reason.
    pub fn lacks(&self) -> Vec<String> {
        let lacks = self.driver().facts().lacks.iter();
        lacks.map(|(ability, why)| format!("{}: {why}", verb(*ability))).collect()
    }

    /// Returns whether the engine has an ability.
    pub fn can(&self, ability: Ability) -> bool {
        self.driver().facts().lacks.iter().all(|(lacking, _)| *lacking != ability)
    }

    /// Checks that the engine can do everything that runs of a pipeline need.
    ///
    /// # Errors
    /// `container_creation` with the first thing that it cannot do, and why.
    pub fn check_abilities(&self, pipeline: &Pipeline) -> Result<(), InfraError> {
        let Facts { host, lacks, .. } = self.driver().facts();
        let needs = needs(pipeline);
        let Some((ability, why)) = lacks.iter().find(|(ability, _)| needs.contains(ability)) else {
            return Ok(());
        };
        let EngineIdentity { name, version, .. } = self.identity();
        Err(InfraError::new(
            ErrorType::ContainerCreation,
            format!(
                "the engine {name} {version} at {host} cannot {}, which this pipeline needs: {why}; or use another engine",
                verb(*ability)
            ),
        ))
    }

    /// Asks for the size of the engine's machine.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn machine(&self) -> Result<Machine, InfraError> {
        Ok(self.call(Phase::Inspect, QUICK, self.driver().machine()).await?)
    }

    /// Asks for what a person should know of the engine, such as rights that no run needs.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn concerns(&self) -> Result<Vec<String>, InfraError> {
        Ok(self.call(Phase::Inspect, QUICK, self.driver().concerns()).await?)
    }

    /// Returns whether root in a container has only the rights of the caller.
    pub(crate) fn is_rootless(&self) -> bool {
        self.driver().facts().rootless
    }

    /// Returns whether the kernel knows routing rules for ports, as every one since 4.17 does.
    pub(crate) fn has_rules_for_ports(&self) -> bool {
        self.driver().facts().kernel.is_some_and(|version| version >= (4, 17))
    }

    /// Returns whether the engine mounts overlays, as far as that is known.
    pub(crate) fn may_mount_overlays(&self) -> bool {
        self.overlays.get() != Some(&false)
    }

    pub(crate) fn has_mounted_overlays(&self) -> bool {
        self.overlays.get() == Some(&true)
    }

    /// Remembers whether the engine has mounted an overlay.
    pub(crate) fn mounted_overlays(&self, mounted: bool) {
        let _ = self.overlays.set(mounted);
    }

    pub(crate) async fn ping(&self) -> Result<(), EngineError> {
        self.call(Phase::Connect, QUICK, self.driver().ping()).await
    }

    /// Creates a volume. An existing volume of that name is left as it is.
    pub(crate) async fn create_volume(&self, volume: NewVolume) -> Result<(), EngineError> {
        self.call(Phase::Create, WORK, self.driver().create_volume(volume)).await
    }

    /// Removes a volume. A missing one is not an error.
    pub(crate) async fn remove_volume(&self, name: &str) -> Result<(), EngineError> {
        match self.call(Phase::Remove, WORK, self.driver().remove_volume(name)).await {
            Err(error) if error.status() == Some(404) => Ok(()),
            other => other,
        }
    }

    /// Lists the volumes with a label, given as `NAME` or `NAME=VALUE`.
    pub(crate) async fn labelled_volumes(
        &self,
        label: String,
    ) -> Result<Vec<Labelled>, EngineError> {
        self.call(Phase::Inspect, QUICK, self.driver().volumes(label)).await
    }

    /// Creates a container with its files, without starting it.
    pub(crate) async fn create(
        &self,
        name: &str,
        request: &ContainerRequest,
    ) -> Result<(), EngineError> {
        self.call(Phase::Create, WORK, self.driver().create(name, request)).await
    }

    pub(crate) async fn start(&self, container: &str) -> Result<(), EngineError> {
        self.call(Phase::Start, WORK, self.driver().start(container)).await
    }

    pub(crate) async fn inspect(&self, container: &str) -> Result<Inspected, EngineError> {
        self.settled(|| self.driver().inspect(container)).await
    }

    /// Returns whether a container that is created, running or stopped holds `path`.
    pub(crate) async fn has_path(&self, container: &str, path: &str) -> Result<bool, EngineError> {
        match self.call(Phase::Prepare, QUICK, self.driver().stat(container, path)).await {
            Ok(()) => Ok(true),
            Err(error) if error.status() == Some(404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sends an archive that is unpacked at `path` with the owners that it names. The caller bounds the time.
    pub(crate) async fn upload(
        &self,
        container: &str,
        path: &str,
        pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Result<(), EngineError> {
        let upload = self.driver().upload(container, path, pieces.boxed());
        upload.await.map_err(|error| EngineError::new(Phase::Prepare, error))
    }

    /// Returns an archive of `path`, piece by piece. The caller bounds the time.
    pub(crate) fn download<'a>(
        &'a self,
        container: &'a str,
        path: &str,
        phase: Phase,
    ) -> BoxStream<'a, Result<Bytes, EngineError>> {
        let pieces = self.driver().download(container, path);
        pieces.map(move |piece| piece.map_err(|error| EngineError::new(phase, error))).boxed()
    }

    /// Waits until a started container ends, and returns whether its exit code is 0. A container that runs too long
    /// counts as failed.
    pub(crate) async fn wait_for_success(&self, container: &str) -> Result<bool, EngineError> {
        Ok(self.wait_for_end(container).await? == Some(0))
    }

    /// Waits until a started container ends, and returns its exit code, or `None` for a container that runs too long.
    pub(crate) async fn wait_for_end(&self, container: &str) -> Result<Option<i64>, EngineError> {
        match tokio::time::timeout(WORK, self.driver().wait(container)).await {
            Ok(ended) => ended.map_err(|error| EngineError::new(Phase::Prepare, error)),
            Err(_) => Ok(None),
        }
    }

    /// Returns the `oom` events of a container, earlier ones included, until the connection fails.
    pub(crate) fn oom_events(&self, container: &str) -> BoxStream<'static, ()> {
        self.driver().oom_events(container)
    }

    /// Prepares a command in a running container and returns the id of the exec.
    pub(crate) async fn create_exec(
        &self,
        container: &str,
        command: Command,
    ) -> Result<String, EngineError> {
        self.call(Phase::Exec, WORK, self.driver().prepare_exec(container, command)).await
    }

    /// Starts a prepared command and returns the stream of its output.
    pub(crate) async fn start_exec(
        &self,
        exec: &str,
    ) -> Result<BoxStream<'static, Result<Output, DriverError>>, EngineError> {
        self.call(Phase::Exec, WORK, self.driver().start_exec(exec)).await
    }

    pub(crate) async fn inspect_exec(&self, exec: &str) -> Result<ExecState, EngineError> {
        self.call(Phase::Inspect, QUICK, self.driver().exec_state(exec)).await
    }

    /// Disconnects a container from all its networks and returns their names, for [`Engine::connect_networks`].
    pub(crate) async fn disconnect_networks(
        &self,
        container: &str,
    ) -> Result<Vec<String>, EngineError> {
        let names = self.call(Phase::Network, QUICK, self.driver().networks(container)).await?;
        for network in &names {
            self.call(Phase::Network, WORK, self.driver().disconnect(container, network)).await?;
        }
        Ok(names)
    }

    pub(crate) async fn connect_networks(
        &self,
        container: &str,
        networks: &[String],
    ) -> Result<(), EngineError> {
        for network in networks {
            self.call(Phase::Network, WORK, self.driver().connect(container, network)).await?;
        }
        Ok(())
    }

    /// Returns the digest of the tree that the processes of a started container see, if it is another one than was sent and the
    /// engine can say so.
    pub(crate) async fn sees_another_tree(
        &self,
        container: &str,
        path: &str,
        sent: &str,
    ) -> Result<Option<String>, EngineError> {
        self.call(Phase::Prepare, WORK, self.driver().sees_another_tree(container, path, sent))
            .await
    }

    /// Kills all processes of a container at once; no process in it can delay or survive that.
    pub(crate) async fn kill(&self, container: &str) -> Result<(), EngineError> {
        match self.call(Phase::Remove, WORK, self.driver().kill(container)).await {
            // The container has stopped, or was removed.
            Err(error) if matches!(error.status(), Some(404 | 409)) => Ok(()),
            other => other,
        }
    }

    /// Kills a container and removes it with its anonymous volumes. Returns when it is gone, whoever removed it.
    pub(crate) async fn remove(&self, container: &str) -> Result<(), EngineError> {
        self.remove_within(QUICK, container).await
    }

    /// Removes a container, and waits up to `limit` for a removal that another process has begun.
    async fn remove_within(&self, limit: Duration, container: &str) -> Result<(), EngineError> {
        if self.driver().facts().removes_politely {
            let _ = self.kill(container).await;
        }
        let conflict = match self.call(Phase::Remove, WORK, self.driver().remove(container)).await {
            Err(error) if error.status() == Some(404) => return Ok(()),
            // Another removal is under way.
            Err(error) if error.status() == Some(409) => error,
            other => return other,
        };
        let deadline = tokio::time::Instant::now() + limit;
        while tokio::time::Instant::now() < deadline {
            match self.call(Phase::Remove, QUICK, self.driver().inspect(container)).await {
                Err(error) if error.status() == Some(404) => return Ok(()),
                Err(error) if error.unreachable() => return Err(error),
                _ => tokio::time::sleep(POLL_PAUSE).await,
            }
        }
        Err(conflict)
    }

    /// Asks a question about containers, again while the answer is an error or cannot be parsed: between running and exited
    /// Podman reports a state that Docker does not have. A container that is missing is an answer.
    async fn settled<'a, T>(&self, ask: impl Fn() -> Answer<'a, T>) -> Result<T, EngineError> {
        let deadline = tokio::time::Instant::now() + ASK_LIMIT;
        let mut pause = POLL_PAUSE;
        loop {
            match self.call(Phase::Inspect, QUICK, ask()).await {
                Err(error)
                    if !error.unreachable()
                        && error.status() != Some(404)
                        && tokio::time::Instant::now() < deadline =>
                {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(ASK_PAUSE);
                }
                other => return other,
            }
        }
    }

    /// Waits for an answer up to `limit`. `phase` decides how an error is classified.
    pub(crate) async fn call<T>(
        &self,
        phase: Phase,
        limit: Duration,
        answer: impl Future<Output = Result<T, DriverError>>,
    ) -> Result<T, EngineError> {
        match tokio::time::timeout(limit + self.driver().facts().away, answer).await {
            Ok(answer) => answer.map_err(|error| EngineError::new(phase, error)),
            Err(_) => Err(EngineError::silent(phase)),
        }
    }

    /// Returns the containers that [`Engine::reap_orphans`] would remove.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn orphaned_containers(&self) -> Result<Vec<Orphan>, InfraError> {
        Ok(self.orphans().await?.into_iter().map(|(_, orphan)| orphan).collect())
    }

    /// Removes the containers and volumes whose process is dead.
    ///
    /// # Errors
    /// The engine does not answer, or refuses to remove one of them. The others are removed all the same.
    pub async fn reap_orphans(&self) -> Result<(), InfraError> {
        let orphans = self.orphans().await?;
        let removals = stream::iter(orphans).map(|(id, _)| async move {
            let removed = self.remove_within(ORPHAN_LIMIT, &id);
            // An engine may wait much longer for a node that is lost.
            let removed = tokio::time::timeout(LOST_ORPHAN_LIMIT, removed).await;
            removed.unwrap_or_else(|_| Err(EngineError::silent(Phase::Remove)))
        });
        let mut removed: Result<(), EngineError> = removals
            .buffer_unordered(PARALLEL_REMOVALS)
            .fold(Ok(()), async |all, one| all.and(one))
            .await;
        // A process may have died after it created its volumes and before it created the container.
        let (this, now) = (Process::this(), act_core::clock::now().timestamp());
        for volume in self.labelled_volumes(RUN_ID.to_owned()).await? {
            if is_orphan(&volume.labels, (&this, geteuid()), now, process::look_up) {
                removed = removed.and(self.remove_volume(&volume.id).await);
            }
        }
        Ok(removed?)
    }

    /// Lists the containers of all runs, of whatever process.
    pub(crate) async fn containers_of_runs(&self) -> Result<Vec<Labelled>, EngineError> {
        self.settled(|| self.driver().containers(RUN_ID)).await
    }

    /// Returns the containers whose process is dead, with their ids.
    async fn orphans(&self) -> Result<Vec<(String, Orphan)>, InfraError> {
        let listed = self.containers_of_runs().await?;
        let (this, now) = (Process::this(), act_core::clock::now().timestamp());
        let orphans = listed.into_iter().filter_map(|container| {
            let name = container.name.unwrap_or_else(|| container.id.clone());
            let this = (&this, geteuid());
            let found = orphan(name, &container.labels, this, now, process::look_up)?;
            Some((container.id, found))
        });
        Ok(orphans.collect())
    }
}

/// Returns what runs of a pipeline need beyond what every engine can do.
fn needs(pipeline: &Pipeline) -> Vec<Ability> {
    let mut needs = vec![Ability::LimitMemory, Ability::LimitCpus, Ability::LimitProcesses];
    let with = pipeline.all_steps().any(|step| step.network);
    let without = pipeline.all_steps().any(|step| !step.network);
    let mut need = |needed: bool, ability| needs.extend(needed.then_some(ability));
    need(with, Ability::Network);
    need(without, Ability::NoNetwork);
    need(with && without, Ability::SwitchNetwork);
    need(with && !pipeline.private_network, Ability::CloseAddresses);
    need(pipeline.user == User::Root, Ability::Root);
    needs
}

fn verb(ability: Ability) -> &'static str {
    match ability {
        Ability::LimitMemory => "limit memory",
        Ability::LimitCpus => "limit CPU time",
        Ability::LimitProcesses => "limit the number of processes",
        Ability::Network => "give a step the network",
        Ability::NoNetwork => "run a step without network",
        Ability::SwitchNetwork => "switch the network between steps",
        Ability::CloseAddresses => "close private addresses",
        Ability::Root => "run steps as root",
        Ability::KeepVolumes => "keep a volume for later runs",
    }
}

/// How long the removal of an orphan may take. A new task waits for it, and an orphan costs little.
const ORPHAN_LIMIT: Duration = Duration::from_secs(5);
/// Time limit for such a removal on an engine that waits for something else, such as a lost node.
const LOST_ORPHAN_LIMIT: Duration = Duration::from_secs(15);
/// Number of removals that an engine gets at once.
const PARALLEL_REMOVALS: usize = 4;

/// The label that every engine has that reports its architecture.
const ARCH: &str = "arch";

const RUN_ID: &str = "act.run_id";
pub(crate) const PID: &str = "act.pid";
const START_TIME: &str = "act.start_time";
pub(crate) const BOOT_ID: &str = "act.boot_id";
const PID_NAMESPACE: &str = "act.pid_namespace";
pub(crate) const UID: &str = "act.uid";
const DEADLINE: &str = "act.deadline";

/// Seconds after its deadline in which a container is left alone, because two clocks may differ.
const GRACE_SECONDS: i64 = 300;

/// Returns the labels that say which process a container or volume belongs to, and when it ends by itself.
pub(crate) fn owner_labels(owner: Process, run_id: &str, deadline: i64) -> HashMap<String, String> {
    HashMap::from([
        (RUN_ID.to_owned(), run_id.to_owned()),
        (PID.to_owned(), owner.pid.to_string()),
        (START_TIME.to_owned(), owner.start_time),
        (BOOT_ID.to_owned(), owner.boot_id),
        (PID_NAMESPACE.to_owned(), owner.pid_namespace),
        (UID.to_owned(), geteuid().as_raw().to_string()),
        (DEADLINE.to_owned(), deadline.to_string()),
    ])
}

/// Returns whether the process that a container belongs to is dead. Another machine or another PID namespace may use
/// the same engine, and a system may hide the processes of other users; where the process cannot be looked up, the
/// deadline decides alone.
fn is_orphan(
    labels: &HashMap<String, String>,
    (this, uid): (&Process, Uid),
    now: i64,
    look: impl Fn(u32) -> LookupResult,
) -> bool {
    let label = |name: &str| labels.get(name).map(String::as_str).unwrap_or_default();
    if label(RUN_ID).is_empty() {
        return false;
    }
    let overdue = label(DEADLINE)
        .parse::<i64>()
        .is_ok_and(|deadline| now > deadline.saturating_add(GRACE_SECONDS));
    let Ok(pid) = label(PID).parse() else { return overdue };
    let visible = uid.is_root() || label(UID).parse() == Ok(uid.as_raw());
    // Another boot id may mean another machine, so it does not prove that this machine has restarted.
    if label(BOOT_ID) != this.boot_id || !visible {
        return overdue;
    }
    let owner = Process {
        pid,
        start_time: label(START_TIME).to_owned(),
        boot_id: label(BOOT_ID).to_owned(),
        pid_namespace: label(PID_NAMESPACE).to_owned(),
    };
    match owner.life(this, look) {
        Life::Runs | Life::Stalled => false,
        Life::Dead => true,
        Life::Unknown => overdue,
    }
}

/// Returns the container with its owner if it is an orphan.
fn orphan(
    name: String,
    labels: &HashMap<String, String>,
    this: (&Process, Uid),
    now: i64,
    look: impl Fn(u32) -> LookupResult,
) -> Option<Orphan> {
    is_orphan(labels, this, now, &look).then(|| Orphan {
        name,
        pid: labels.get(PID).and_then(|pid| pid.parse().ok()),
        uid: labels.get(UID).and_then(|uid| uid.parse().ok()),
        // At a time before every deadline, only the death of the owner makes an orphan.
        ended: is_orphan(labels, this, i64::MIN, &look),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::process::ProcessState;

    fn process() -> Process {
        Process::invented(7)
    }

    fn orphaned(
        change: impl Fn(&mut HashMap<String, String>),
        running: Option<&str>,
        now: i64,
    ) -> bool {
        let mut changed = owner_labels(process(), "run_x", 1_000);
        changed.insert(UID.to_owned(), "1000".to_owned());
        change(&mut changed);
        let seen = |start: &str| ProcessState { start_time: start.to_owned(), stopped: false };
        is_orphan(&changed, (&process(), Uid::from_raw(1000)), now, |_| Ok(running.map(seen)))
    }

    // VERIFIER-18, security line 111
    #[test]
    fn a_container_is_an_orphan_when_its_very_owner_is_dead() {
        let same = |_: &mut HashMap<String, String>| {};
        assert!(!orphaned(same, Some("100"), 0), "the owner runs");
        assert!(!orphaned(same, Some("100"), 1_000_000), "even past the deadline");
        assert!(orphaned(same, None, 0), "the owner is gone");
        assert!(orphaned(same, Some("200"), 0), "another process has its number");
    }

    // VERIFIER-18
    #[test]
    fn what_cannot_be_known_is_left_alone_until_its_deadline() {
        for (name, value) in
            [(BOOT_ID, "other"), (PID_NAMESPACE, "pid:[2]"), (PID, "x"), (UID, "1001")]
        {
            let change = |labels: &mut HashMap<String, String>| {
                labels.insert(name.to_owned(), value.to_owned());
            };
            assert!(!orphaned(change, None, 1_000), "{name}");
            assert!(orphaned(change, None, 1_000 + GRACE_SECONDS + 1), "{name}");
        }
    }

    // DOCTOR-21
    #[test]
    fn an_orphan_has_its_owner_and_whether_that_has_ended() {
        let mut labels = owner_labels(process(), "run_x", 1_000);
        labels.insert(UID.to_owned(), "1000".to_owned());
        let late = 1_000 + GRACE_SECONDS + 1;
        let found = |labels: &HashMap<String, String>, now, running: Option<&str>| {
            let seen = |start: &str| ProcessState { start_time: start.to_owned(), stopped: false };
            let this = (&process(), Uid::from_raw(1000));
            orphan("act-run_x".to_owned(), labels, this, now, |_| Ok(running.map(seen)))
        };
        let named =
            |ended| Some(Orphan { name: "act-run_x".into(), pid: Some(7), uid: Some(1000), ended });
        assert_eq!(found(&labels, 0, None), named(true));
        assert_eq!(found(&labels, late, Some("100")), None, "it runs");
        labels.insert(BOOT_ID.to_owned(), "another machine".to_owned());
        assert_eq!(found(&labels, late, None), named(false));
    }

    #[test]
    fn a_container_without_our_label_is_never_ours() {
        assert!(!orphaned(
            |labels| {
                labels.remove(RUN_ID);
            },
            None,
            i64::MAX
        ));
    }
}
