//! The container engine: how it is found, the calls to it, each with a time limit, and the removal of containers whose
//! process is dead. This file and `image` are the only ones that call the client.

use crate::docker_error::{EngineError, EngineUnavailable, Phase, io_cause};
use crate::remote_engine::FileSharing;
use crate::request::SentFile;
use act_core::process::{self, Life, LookupResult, Process};
use act_core::verification::{EngineIdentity, InfraError};
use act_workspace::digest;
use bollard::errors::Error;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, EndpointSettings, ExecConfig,
    ExecInspectResponse, NetworkConnectRequest, NetworkDisconnectRequest, Volume,
    VolumeCreateRequest,
};
use bollard::query_parameters::{
    ContainerArchiveInfoOptions, CreateContainerOptions, DownloadFromContainerOptions,
    EventsOptions, InspectContainerOptions, KillContainerOptions, ListContainersOptions,
    ListVolumesOptions, RemoveContainerOptions, RemoveVolumeOptions, StartContainerOptions,
    UploadToContainerOptions, WaitContainerOptions,
};
use bollard::{API_DEFAULT_VERSION, ClientVersion, Docker};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, stream};
use rustix::process::{Uid, geteuid};
use std::collections::HashMap;
use std::fs::File;
use std::future::{Future, ready};
use std::io;
use std::path::{Path, PathBuf};
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
/// Time limit, in seconds, that the client library gets. It is longer than any limit of [`Engine::call`], and streams
/// such as the output of a step have none.
const CLIENT_LIMIT: u64 = 24 * 60 * 60;

const PODMAN: &str = "podman";

/// A container engine that has answered. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) docker: Docker,
    host: String,
    identity: EngineIdentity,
    rootless: bool,
    /// Major and minor version of the kernel, if the engine says which it is.
    kernel: Option<(u32, u32)>,
    /// Remembers whether the engine mounts directories of this machine.
    pub(crate) sharing: Arc<FileSharing>,
    /// Remembers whether the engine mounts overlays; unset until it was asked for one.
    overlays: Arc<OnceLock<bool>>,
}

/// The size of the machine that the engine runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    pub cpus: u64,
    pub memory_bytes: u64,
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

    async fn connect_at(address: &Address) -> Result<Self, EngineUnavailable> {
        let host = address.host.as_str();
        let unavailable = |why: String, hint: &str| EngineUnavailable {
            host: host.to_owned(),
            why,
            hint: hint.to_owned(),
        };
        if host.starts_with("ssh://") {
            return Err(unavailable(
                "an engine behind ssh is reached by forwarding its socket".to_owned(),
                "run `ssh -nNT -L 127.0.0.1:2375:/var/run/docker.sock USER@HOST` and set DOCKER_HOST to \
                 tcp://127.0.0.1:2375",
            ));
        }
        let failed = |error: &Error| {
            unavailable(EngineError::new(Phase::Connect, error).message, hint(address, error))
        };
        // Both questions are asked at once, because every task waits for their answers.
        let docker = client(address, API_DEFAULT_VERSION).map_err(|error| failed(&error))?;
        let asked = async { tokio::try_join!(docker.version(), docker.info()) };
        let (version, info) = tokio::time::timeout(QUICK, asked)
            .await
            .unwrap_or(Err(Error::RequestTimeoutError))
            .map_err(|error| failed(&error))?;
        let api_version = common_version(version.api_version.as_deref());
        let docker = client(address, &api_version).map_err(|error| failed(&error))?;
        let parts = version.components.unwrap_or_default();
        let podman = parts.iter().any(|part| part.name.to_lowercase().contains("podman"));
        let identity = EngineIdentity {
            name: if podman { PODMAN } else { "docker" }.to_owned(),
            version: version.version.unwrap_or_default(),
        };
        let security = info.security_options.unwrap_or_default();
        // Podman 4 does not say so there. Its service has the rights of the owner of its socket.
        let rootless = security.iter().any(|option| option.contains("name=rootless"))
            || (podman && socket_owner(host).is_some_and(|uid| uid != 0));
        let kernel = info.kernel_version.as_deref().and_then(kernel_version);
        let sharing = Arc::new(FileSharing::new(host, podman, info.name.as_deref()));
        let overlays = Arc::default();
        Ok(Self { docker, host: host.to_owned(), identity, rootless, kernel, sharing, overlays })
    }

    /// Returns the address that the engine was found at.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the name and the version of the engine.
    pub fn identity(&self) -> &EngineIdentity {
        &self.identity
    }

    /// Asks for the size of the engine's machine.
    ///
    /// # Errors
    /// The engine does not answer.
    pub async fn machine(&self) -> Result<Machine, InfraError> {
        let info = self.call(Phase::Inspect, QUICK, self.docker.info()).await?;
        let positive = |number: Option<i64>| u64::try_from(number.unwrap_or_default()).unwrap_or(0);
        Ok(Machine { cpus: positive(info.ncpu), memory_bytes: positive(info.mem_total) })
    }

    pub(crate) fn is_podman(&self) -> bool {
        self.identity.name == PODMAN
    }

    /// Returns whether root in a container has only the rights of the caller.
    pub(crate) fn is_rootless(&self) -> bool {
        self.rootless
    }

    /// Returns whether the kernel knows routing rules for ports, as every one since 4.17 does.
    pub(crate) fn has_rules_for_ports(&self) -> bool {
        self.kernel.is_some_and(|version| version >= (4, 17))
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
        self.call(Phase::Connect, QUICK, self.docker.ping()).await.map(drop)
    }

    /// Creates a volume. An existing volume of that name is left as it is.
    pub(crate) async fn create_volume(
        &self,
        request: VolumeCreateRequest,
    ) -> Result<(), EngineError> {
        self.call(Phase::Create, WORK, self.docker.create_volume(request)).await.map(drop)
    }

    /// Removes a volume. A missing one is not an error.
    pub(crate) async fn remove_volume(&self, name: &str) -> Result<(), EngineError> {
        let removed = self.docker.remove_volume(name, None::<RemoveVolumeOptions>);
        match self.call(Phase::Remove, WORK, removed).await {
            Err(error) if error.status() == Some(404) => Ok(()),
            other => other,
        }
    }

    /// Lists the volumes with a label, given as `NAME` or `NAME=VALUE`.
    pub(crate) async fn labelled_volumes(&self, label: String) -> Result<Vec<Volume>, EngineError> {
        let filters = HashMap::from([("label".to_owned(), vec![label])]);
        let list = self.docker.list_volumes(Some(ListVolumesOptions { filters: Some(filters) }));
        let listed = self.call(Phase::Inspect, QUICK, list).await?;
        Ok(listed.volumes.unwrap_or_default())
    }

    /// Creates a container without starting it.
    pub(crate) async fn create(
        &self,
        name: &str,
        body: ContainerCreateBody,
    ) -> Result<(), EngineError> {
        let options = CreateContainerOptions { name: Some(name.to_owned()), ..Default::default() };
        let create = self.docker.create_container(Some(options), body);
        self.call(Phase::Create, WORK, create).await.map(drop)
    }

    pub(crate) async fn start(&self, container: &str) -> Result<(), EngineError> {
        let start = self.docker.start_container(container, None::<StartContainerOptions>);
        self.call(Phase::Start, WORK, start).await
    }

    pub(crate) async fn inspect(
        &self,
        container: &str,
    ) -> Result<ContainerInspectResponse, EngineError> {
        self.settled(|| self.docker.inspect_container(container, None::<InspectContainerOptions>))
            .await
    }

    /// Returns whether a container that is created, running or stopped holds `path`.
    pub(crate) async fn has_path(&self, container: &str, path: &str) -> Result<bool, EngineError> {
        let options = ContainerArchiveInfoOptions { path: path.to_owned() };
        let probe = self.docker.get_container_archive_info(container, Some(options));
        match self.call(Phase::Prepare, QUICK, probe).await {
            Ok(_) => Ok(true),
            Err(error) if error.status() == Some(404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes a file into a created container.
    pub(crate) async fn put_file(
        &self,
        container: &str,
        file: &SentFile,
    ) -> Result<(), EngineError> {
        let Some(archive) = archive_of(file.path, file.mode, &file.content) else { return Ok(()) };
        let body = bollard::body_full(Bytes::from(archive));
        let upload = self.docker.upload_to_container(container, Some(upload_options("/")), body);
        self.call(Phase::Prepare, WORK, upload).await
    }

    /// Sends an archive that is unpacked at `path` with the owners that it names. The caller bounds the time.
    pub(crate) async fn upload(
        &self,
        container: &str,
        path: &str,
        pieces: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Result<(), EngineError> {
        let body = bollard::body_try_stream(pieces);
        let upload = self.docker.upload_to_container(container, Some(upload_options(path)), body);
        upload.await.map_err(|error| EngineError::new(Phase::Prepare, &error))
    }

    /// Returns an archive of `path`, piece by piece. The caller bounds the time.
    pub(crate) fn download<'a>(
        &'a self,
        container: &'a str,
        path: &str,
        phase: Phase,
    ) -> BoxStream<'a, Result<Bytes, EngineError>> {
        let options = DownloadFromContainerOptions { path: path.to_owned() };
        let pieces = self.docker.download_from_container(container, Some(options));
        pieces.map(move |piece| piece.map_err(|error| EngineError::new(phase, &error))).boxed()
    }

    /// Waits until a started container ends, and returns whether its exit code is 0. A container that runs too long
    /// counts as failed.
    pub(crate) async fn wait_for_success(&self, container: &str) -> Result<bool, EngineError> {
        Ok(self.wait_for_end(container).await? == Some(0))
    }

    /// Waits until a started container ends, and returns its exit code, or `None` for a container that runs too long. The state
    /// is not polled, because Podman has states that the client cannot parse.
    pub(crate) async fn wait_for_end(&self, container: &str) -> Result<Option<i64>, EngineError> {
        let ended = async {
            let wait = self.docker.wait_container(container, None::<WaitContainerOptions>);
            match Box::pin(wait).next().await {
                Some(Ok(ended)) => Ok(Some(ended.status_code)),
                Some(Err(Error::DockerContainerWaitError { code, .. })) => Ok(Some(code)),
                None => Ok(None),
                Some(Err(error)) => Err(EngineError::new(Phase::Prepare, &error)),
            }
        };
        tokio::time::timeout(WORK, ended).await.unwrap_or(Ok(None))
    }

    /// Returns the `oom` events of a container, earlier ones included, until the connection fails.
    pub(crate) fn oom_events(&self, container: &str) -> BoxStream<'static, ()> {
        let filter = |name: &str, value: &str| (name.to_owned(), vec![value.to_owned()]);
        let options = EventsOptions {
            since: Some("1".to_owned()),
            until: None,
            filters: Some(HashMap::from([
                filter("type", "container"),
                filter("container", container),
                filter("event", "oom"),
            ])),
        };
        let events = self.docker.events(Some(options));
        events.take_while(|event| ready(event.is_ok())).map(drop).boxed()
    }

    /// Prepares a command in a running container and returns the id of the exec.
    pub(crate) async fn create_exec(
        &self,
        container: &str,
        config: ExecConfig,
    ) -> Result<String, EngineError> {
        let create = self.docker.create_exec(container, config);
        Ok(self.call(Phase::Exec, WORK, create).await?.id)
    }

    /// Starts a prepared command and returns the stream of its output.
    pub(crate) async fn start_exec(&self, exec: &str) -> Result<StartExecResults, EngineError> {
        let options =
            StartExecOptions { detach: false, tty: false, output_capacity: Some(64 * 1024) };
        self.call(Phase::Exec, WORK, self.docker.start_exec(exec, Some(options))).await
    }

    pub(crate) async fn inspect_exec(
        &self,
        exec: &str,
    ) -> Result<ExecInspectResponse, EngineError> {
        self.call(Phase::Inspect, QUICK, self.docker.inspect_exec(exec)).await
    }

    /// Disconnects a container from all its networks and returns their names, for [`Engine::connect_networks`].
    pub(crate) async fn disconnect_networks(
        &self,
        container: &str,
    ) -> Result<Vec<String>, EngineError> {
        let inspect = self.docker.inspect_container(container, None::<InspectContainerOptions>);
        let found = self.call(Phase::Network, QUICK, inspect).await?;
        let networks = found.network_settings.and_then(|settings| settings.networks);
        let names: Vec<String> = networks.unwrap_or_default().into_keys().collect();
        for network in &names {
            let request =
                NetworkDisconnectRequest { container: container.to_owned(), force: Some(true) };
            let call = self.docker.disconnect_network(network, request);
            self.call(Phase::Network, WORK, call).await?;
        }
        Ok(names)
    }

    pub(crate) async fn connect_networks(
        &self,
        container: &str,
        networks: &[String],
    ) -> Result<(), EngineError> {
        for network in networks {
            let request = NetworkConnectRequest {
                container: container.to_owned(),
                endpoint_config: Some(EndpointSettings::default()),
            };
            let call = self.docker.connect_network(network, request);
            self.call(Phase::Network, WORK, call).await?;
        }
        Ok(())
    }

    /// Kills all processes of a container at once; no process in it can delay or survive that.
    pub(crate) async fn kill(&self, container: &str) -> Result<(), EngineError> {
        let options = KillContainerOptions { signal: "KILL".to_owned() };
        let kill = self.docker.kill_container(container, Some(options));
        match self.call(Phase::Remove, WORK, kill).await {
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
        if self.is_podman() {
            // Podman would otherwise send SIGTERM first and wait.
            let _ = self.kill(container).await;
        }
        let removed = self.docker.remove_container(
            container,
            Some(RemoveContainerOptions { v: true, force: true, link: false }),
        );
        let conflict = match self.call(Phase::Remove, WORK, removed).await {
            Err(error) if error.status() == Some(404) => return Ok(()),
            // Another removal is under way.
            Err(error) if error.status() == Some(409) => error,
            other => return other,
        };
        let deadline = tokio::time::Instant::now() + limit;
        while tokio::time::Instant::now() < deadline {
            let inspect = self.docker.inspect_container(container, None::<InspectContainerOptions>);
            match self.call(Phase::Remove, QUICK, inspect).await {
                Err(error) if error.status() == Some(404) => return Ok(()),
                Err(error) if error.unreachable() => return Err(error),
                _ => tokio::time::sleep(POLL_PAUSE).await,
            }
        }
        Err(conflict)
    }

    /// Asks a question about containers, again while the answer is an error or cannot be parsed: between running and exited
    /// Podman reports a state that Docker does not have. A container that is missing is an answer.
    async fn settled<T, F>(&self, ask: impl Fn() -> F) -> Result<T, EngineError>
    where
        F: Future<Output = Result<T, Error>>,
    {
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
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, EngineError> {
        match tokio::time::timeout(limit, call).await {
            Ok(answer) => answer.map_err(|error| EngineError::new(phase, &error)),
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
        let removals = stream::iter(&orphans).map(|(id, _)| self.remove_within(ORPHAN_LIMIT, id));
        let mut removed: Result<(), EngineError> = removals
            .buffer_unordered(PARALLEL_REMOVALS)
            .fold(Ok(()), async |all, one| all.and(one))
            .await;
        // A process may have died after it created its volumes and before it created the container.
        let (this, now) = (Process::this(), act_core::clock::now().timestamp());
        for volume in self.labelled_volumes(RUN_ID.to_owned()).await? {
            if is_orphan(&volume.labels, (&this, geteuid()), now, process::look_up) {
                removed = removed.and(self.remove_volume(&volume.name).await);
            }
        }
        Ok(removed?)
    }

    /// Returns the containers whose process is dead, with their ids.
    async fn orphans(&self) -> Result<Vec<(String, Orphan)>, InfraError> {
        let filters = HashMap::from([("label".to_owned(), vec![RUN_ID.to_owned()])]);
        let options =
            ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
        let listed = self.settled(|| self.docker.list_containers(Some(options.clone()))).await?;
        let (this, now) = (Process::this(), act_core::clock::now().timestamp());
        let orphans = listed.into_iter().filter_map(|container| {
            let name = container.names.unwrap_or_default().into_iter().next();
            let name = name.map(|name| name.trim_start_matches('/').to_owned());
            let labels = container.labels.unwrap_or_default();
            let name = name.or_else(|| container.id.clone())?;
            let found = orphan(name, &labels, (&this, geteuid()), now, process::look_up)?;
            Some((container.id?, found))
        });
        Ok(orphans.collect())
    }
}

fn upload_options(path: &str) -> UploadToContainerOptions {
    UploadToContainerOptions {
        path: path.to_owned(),
        // Without this, some engines make the container's user the owner of everything.
        copy_uidgid: Some("false".to_owned()),
        ..UploadToContainerOptions::default()
    }
}

/// Returns an archive with one file. `path` is absolute.
pub(crate) fn archive_of(path: &str, mode: u32, content: &[u8]) -> Option<Vec<u8>> {
    let mut header = tar::Header::new_ustar();
    header.set_size(content.len() as u64);
    header.set_mode(mode);
    let mut archive = tar::Builder::new(vec![]);
    archive.append_data(&mut header, path.trim_start_matches('/'), content).ok()?;
    archive.into_inner().ok()
}

/// Returns major and minor number of a kernel's version, such as `6.1.0-18-amd64`.
fn kernel_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Returns the newest version of the API that both sides know.
fn common_version(engine: Option<&str>) -> ClientVersion {
    let ours = || ClientVersion { ..*API_DEFAULT_VERSION };
    let theirs = engine.and_then(|version| {
        let (major, minor) = version.split_once('.')?;
        Some(ClientVersion {
            major_version: major.parse().ok()?,
            minor_version: minor.parse().ok()?,
        })
    });
    theirs.filter(|theirs| *theirs < ours()).unwrap_or_else(ours)
}

fn client(address: &Address, version: &ClientVersion) -> Result<Docker, Error> {
    let host = address.host.as_str();
    if host.starts_with("unix://") {
        return Docker::connect_with_unix(host, CLIENT_LIMIT, version);
    }
    if !["tcp://", "http://", "https://"].iter().any(|scheme| host.starts_with(scheme)) {
        return Err(Error::UnsupportedURISchemeError { uri: host.to_owned() });
    }
    let Some(directory) = &address.certificates else {
        return Docker::connect_with_http(host, CLIENT_LIMIT, version);
    };
    let [key, cert, ca] = ["key.pem", "cert.pem", "ca.pem"].map(|name| directory.join(name));
    Docker::connect_with_ssl(host, &key, &cert, &ca, CLIENT_LIMIT, version)
}

/// Returns what the user can do when the engine does not answer.
fn hint(address: &Address, error: &Error) -> &'static str {
    if address.certificates.is_some() {
        return "DOCKER_CERT_PATH must hold the ca.pem, cert.pem and key.pem that the engine takes";
    }
    if matches!(error, Error::UnsupportedURISchemeError { .. }) {
        return "set DOCKER_HOST to unix://PATH or tcp://HOST:PORT";
    }
    match io_cause(error).map(io::Error::kind) {
        Some(io::ErrorKind::PermissionDenied) => {
            "add your user to the group of the socket (usually `docker`) and log in again"
        }
        _ if !address.host.starts_with("unix://") => {
            "start it with its address as `--host`, or set DOCKER_HOST to another engine's"
        }
        _ if cfg!(target_os = "macos") => {
            "start it with `open -a Docker`, or set DOCKER_HOST to its socket"
        }
        _ => "start it with `sudo systemctl start docker`, or set DOCKER_HOST to its socket",
    }
}

const DEFAULT_SOCKET: &str = "/var/run/docker.sock";
/// Maximum size of a configuration file of the Docker client, in bytes. Such files have a few kilobytes.
const MAX_CLIENT_FILE: u64 = 1024 * 1024;

/// The address of an engine and how to authenticate to it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    host: String,
    /// A directory with `ca.pem`, `cert.pem` and `key.pem`. Its presence makes the connection TLS.
    certificates: Option<PathBuf>,
}

impl Address {
    fn plain(host: &str) -> Self {
        Self { host: host.to_owned(), certificates: None }
    }
}

/// Finds the address as Docker's client does: `DOCKER_HOST`, the chosen context, then the known sockets.
fn find_address(env: impl Fn(&str) -> Option<String>) -> Address {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    let home = set("HOME").map(PathBuf::from);
    let client = set("DOCKER_CONFIG")
        .map(PathBuf::from)
        .or_else(|| home.as_ref().map(|home| home.join(".docker")));
    if let Some(host) = set("DOCKER_HOST") {
        let wanted = set("DOCKER_TLS_VERIFY").is_some() || host.starts_with("https://");
        let directory = set("DOCKER_CERT_PATH").map(PathBuf::from).or(client);
        return Address { host, certificates: directory.filter(|_| wanted) };
    }
    if let Some(address) = client.and_then(|client| context_address(&client, set("DOCKER_CONTEXT")))
    {
        return address;
    }
    let runtime = set("XDG_RUNTIME_DIR").map(PathBuf::from);
    let sockets = known_sockets(home.as_deref(), runtime.as_deref());
    let socket = sockets.iter().find(|socket| socket.exists());
    let socket = socket.map_or(Path::new(DEFAULT_SOCKET), PathBuf::as_path);
    Address::plain(&format!("unix://{}", socket.display()))
}

/// Returns the user who owns the socket of an engine, or `None` for another address.
fn socket_owner(host: &str) -> Option<u32> {
    let path = host.strip_prefix("unix://")?;
    Some(std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(path).ok()?))
}

/// Returns the default socket, then those of rootless Docker, Docker Desktop, Colima, OrbStack, Rancher and Podman.
fn known_sockets(home: Option<&Path>, runtime: Option<&Path>) -> Vec<PathBuf> {
    let mut sockets = vec![PathBuf::from(DEFAULT_SOCKET)];
    sockets.extend(runtime.map(|runtime| runtime.join("docker.sock")));
    let in_home = [
        ".docker/run/docker.sock",
        ".docker/desktop/docker.sock",
        ".colima/default/docker.sock",
        ".orbstack/run/docker.sock",
        ".rd/docker.sock",
    ];
    sockets.extend(home.iter().flat_map(|home| in_home.map(|socket| home.join(socket))));
    sockets.extend(runtime.map(|runtime| runtime.join("podman/podman.sock")));
    sockets.push(PathBuf::from("/run/podman/podman.sock"));
    sockets
}

/// Returns the address of the chosen Docker context, or `None` for the default context, which has no files.
fn context_address(client: &Path, chosen: Option<String>) -> Option<Address> {
    let chosen = chosen.or_else(|| {
        let config = read_json(&client.join("config.json"))?;
        Some(config.get("currentContext")?.as_str()?.to_owned())
    })?;
    if chosen.is_empty() || chosen == "default" {
        return None;
    }
    let directory = digest(chosen.as_bytes());
    let meta = read_json(&client.join("contexts/meta").join(&directory).join("meta.json"))?;
    let host = meta.get("Endpoints")?.get("docker")?.get("Host")?.as_str()?.to_owned();
    let certificates = client.join("contexts/tls").join(&directory).join("docker");
    Some(Address { host, certificates: Some(certificates).filter(|path| path.is_dir()) })
}

fn read_json(path: &Path) -> Option<serde_json::Value> {
    let bytes = act_fs::read_bounded(File::open(path).ok()?, MAX_CLIENT_FILE).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// How long the removal of an orphan may take. A new task waits for it, and an orphan costs little.
const ORPHAN_LIMIT: Duration = Duration::from_secs(5);
/// Number of removals that an engine gets at once.
const PARALLEL_REMOVALS: usize = 4;

const RUN_ID: &str = "act.run_id";
const PID: &str = "act.pid";
const START_TIME: &str = "act.start_time";
const BOOT_ID: &str = "act.boot_id";
const PID_NAMESPACE: &str = "act.pid_namespace";
const UID: &str = "act.uid";
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
    use std::fs;

    // VERIFIER-7
    #[test]
    fn the_owner_of_a_socket_is_known_and_an_address_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engine.sock");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let owner = socket_owner(&format!("unix://{}", path.display()));
        assert_eq!(owner, Some(rustix::process::geteuid().as_raw()));
        assert_eq!(socket_owner("tcp://127.0.0.1:2375"), None);
        assert_eq!(socket_owner("unix:///nowhere/engine.sock"), None);
    }

    #[test]
    fn the_version_of_a_kernel_is_its_first_two_numbers() {
        assert_eq!(kernel_version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(kernel_version("4.9-rc1"), Some((4, 9)));
        assert_eq!(kernel_version("linux"), None);
    }

    #[test]
    fn the_older_of_two_versions_is_spoken() {
        let of = |version| common_version(version).to_string();
        assert_eq!(of(Some("1.41")), "1.41");
        assert_eq!(of(Some("1.9999")), API_DEFAULT_VERSION.to_string());
        assert_eq!(of(Some("new")), of(None));
    }

    // VERIFIER-35
    #[tokio::test]
    async fn what_cannot_be_spoken_to_is_refused_with_a_way_out() {
        let refused =
            async |address: Address| Engine::connect_at(&address).await.unwrap_err().to_string();
        let ssh = refused(Address::plain("ssh://me@box")).await;
        assert!(ssh.contains("ssh -nNT -L") && ssh.contains("DOCKER_HOST"), "{ssh}");
        assert!(
            refused(Address::plain("ftp://x")).await.contains("unix://PATH or tcp://HOST:PORT")
        );
        let empty = tempfile::tempdir().unwrap();
        let certificates = Some(empty.path().to_owned());
        let tls = refused(Address { host: "tcp://127.0.0.1:1".to_owned(), certificates }).await;
        assert!(tls.contains("ca.pem"), "{tls}");
    }

    // VERIFIER-19
    #[tokio::test]
    async fn an_absent_engine_is_named_with_its_socket_and_how_to_start_it() {
        let dir = tempfile::tempdir().unwrap();
        let missing = format!("unix://{}", dir.path().join("none.sock").display());
        let dead = dir.path().join("dead.sock");
        drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
        let dead = format!("unix://{}", dead.display());
        for host in [missing.as_str(), dead.as_str(), "tcp://127.0.0.1:1"] {
            let message = Engine::connect_to(host).await.unwrap_err().to_string();
            assert!(message.starts_with("Docker unavailable"), "{message}");
            assert!(message.contains(host) && message.contains("start it with"), "{message}");
        }
    }

    fn address(variables: &[(&str, &str)]) -> Address {
        find_address(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn found(variables: &[(&str, &str)]) -> String {
        address(variables).host
    }

    // VERIFIER-19
    #[test]
    fn docker_host_wins_over_the_context_and_the_context_over_sockets() {
        let home = tempfile::tempdir().unwrap();
        let client = home.path().join(".docker");
        // The directory of a context is the digest of its name; this is that of `far`.
        let meta = client.join("contexts/meta").join(digest(b"far"));
        fs::create_dir_all(&meta).unwrap();
        fs::write(client.join("config.json"), r#"{"currentContext":"far"}"#).unwrap();
        let text = r#"{"Name":"far","Endpoints":{"docker":{"Host":"tcp://127.0.0.1:9"}}}"#;
        fs::write(meta.join("meta.json"), text).unwrap();
        let at_home = ("HOME", home.path().to_str().unwrap());
        assert_eq!(found(&[at_home]), "tcp://127.0.0.1:9");
        assert_eq!(found(&[at_home, ("DOCKER_HOST", "unix:///x.sock")]), "unix:///x.sock");
        assert!(found(&[at_home, ("DOCKER_CONTEXT", "default")]).starts_with("unix:///"));
        fs::write(client.join("config.json"), "no json").unwrap();
        assert_eq!(found(&[at_home, ("DOCKER_CONTEXT", "far")]), "tcp://127.0.0.1:9");
        assert_eq!(address(&[at_home, ("DOCKER_CONTEXT", "far")]).certificates, None);
        let tls = client.join("contexts/tls").join(meta.file_name().unwrap()).join("docker");
        fs::create_dir_all(&tls).unwrap();
        assert_eq!(address(&[at_home, ("DOCKER_CONTEXT", "far")]).certificates, Some(tls));
        assert!(found(&[at_home]).starts_with("unix:///"));
    }

    // VERIFIER-35
    #[test]
    fn certificates_are_used_when_they_are_asked_for_and_where_dockers_client_has_them() {
        let host = ("DOCKER_HOST", "tcp://10.0.0.1:2376");
        let (home, verify) = (("HOME", "/home/me"), ("DOCKER_TLS_VERIFY", "1"));
        let of = |more: &[(&str, &str)]| {
            let set: Vec<_> = [host, home].iter().chain(more).copied().collect();
            address(&set).certificates.map(|place| place.display().to_string())
        };
        let path = ("DOCKER_CERT_PATH", "/certs");
        assert_eq!(of(&[path]), None);
        assert_eq!(of(&[verify, path]).as_deref(), Some("/certs"));
        assert_eq!(of(&[verify]).as_deref(), Some("/home/me/.docker"));
        assert_eq!(of(&[("DOCKER_TLS_VERIFY", ""), path]), None);
    }

    // VERIFIER-19
    #[test]
    fn known_sockets_are_tried_in_order_and_the_default_is_named_when_none_is_there() {
        let all = known_sockets(Some(Path::new("/home/me")), Some(Path::new("/run/user/7")));
        let shown: Vec<_> = all.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(shown.first(), Some(&DEFAULT_SOCKET));
        assert!(shown.contains(&"/run/user/7/podman/podman.sock"));
        assert!(shown.contains(&"/home/me/.docker/run/docker.sock"));
        assert!(found(&[]).starts_with("unix:///"));
    }

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
