//! The container engine: where it listens, the version of its API, calls that are bounded in time, and the removal of
//! what runs of dead processes left on it.

use crate::docker_error::EngineError;
use crate::docker_error::EngineUnavailable;
use crate::docker_error::Phase;
use crate::docker_error::io_cause;
use crate::owner::RUN_ID;
use crate::owner::is_orphan;
use crate::remote_engine::FileSharing;
use act_core::process;
use act_core::process::Process;
use act_core::verification::EngineIdentity;
use act_core::verification::InfraError;
use act_workspace::digest;
use bollard::API_DEFAULT_VERSION;
use bollard::ClientVersion;
use bollard::Docker;
use bollard::errors::Error;
use bollard::models::ContainerCreateBody;
use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::CreateContainerOptions;
use bollard::query_parameters::InspectContainerOptions;
use bollard::query_parameters::KillContainerOptions;
use bollard::query_parameters::ListContainersOptions;
use bollard::query_parameters::ListVolumesOptions;
use bollard::query_parameters::RemoveContainerOptions;
use bollard::query_parameters::RemoveVolumeOptions;
use futures_util::StreamExt;
use futures_util::stream;
use rustix::process::geteuid;
use std::collections::HashMap;
use std::fs::File;
use std::future::Future;
use std::io;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// For questions that an engine answers from memory.
pub(crate) const QUICK: Duration = Duration::from_secs(20);
/// For work of the engine: unpacking, mounting, killing.
pub(crate) const WORK: Duration = Duration::from_secs(110);
/// Between two looks at something that is about to change.
const AGAIN: Duration = Duration::from_millis(20);
/// For a container to come out of a state that only its engine has a name for.
const SETTLES: Duration = Duration::from_secs(5);

const PODMAN: &str = "podman";

/// An engine that answered.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(crate) docker: Docker,
    host: String,
    identity: EngineIdentity,
    rootless: bool,
    /// Whether it sees the files of this machine.
    pub(crate) sharing: Arc<FileSharing>,
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

    pub(crate) fn is_podman(&self) -> bool {
        self.identity.name == PODMAN
    }

    /// Whether root in a container is nobody but the caller.
    pub(crate) fn is_rootless(&self) -> bool {
        self.rootless
    }

    /// One of that name that is there stays as it is.
    pub(crate) async fn create_volume(
        &self,
        request: VolumeCreateRequest,
    ) -> Result<(), EngineError> {
        self.call(Phase::Create, WORK, self.docker.create_volume(request)).await.map(drop)
    }

    pub(crate) async fn remove_volume(&self, name: &str) -> Result<(), EngineError> {
        let removed = self.docker.remove_volume(name, None::<RemoveVolumeOptions>);
        match self.call(Phase::Remove, WORK, removed).await {
            Err(error) if error.status() == Some(404) => Ok(()),
            other => other,
        }
    }

    pub(crate) async fn ping(&self) -> Result<(), EngineError> {
        self.call(Phase::Connect, QUICK, self.docker.ping()).await.map(drop)
    }

    /// A container that has not been started.
    pub(crate) async fn create(
        &self,
        name: &str,
        body: ContainerCreateBody,
    ) -> Result<(), EngineError> {
        let options = CreateContainerOptions { name: Some(name.to_owned()), ..Default::default() };
        let create = self.docker.create_container(Some(options), body);
        self.call(Phase::Create, WORK, create).await.map(drop)
    }

    /// Ends all processes of a container at once; nothing in it can delay or survive that.
    pub(crate) async fn kill(&self, container: &str) -> Result<(), EngineError> {
        let options = KillContainerOptions { signal: "KILL".to_owned() };
        let kill = self.docker.kill_container(container, Some(options));
        match self.call(Phase::Remove, WORK, kill).await {
            // Not running any more, or gone.
            Err(error) if matches!(error.status(), Some(404 | 409)) => Ok(()),
            other => other,
        }
    }

    /// Kills and removes with anonymous volumes; then it is gone, whoever removed it.
    pub(crate) async fn remove(&self, container: &str) -> Result<(), EngineError> {
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
    pub(crate) async fn settled<T, F>(&self, ask: impl Fn() -> F) -> Result<T, EngineError>
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
}

/// In seconds, for the client's own limit: each call has a shorter one of ours, and some streams none.
const NO_LIMIT: u64 = 24 * 60 * 60;

impl Engine {
    /// The engine that the environment names, else the one of the Docker context, else the first of the known
    /// sockets that exists.
    pub async fn connect() -> Result<Self, EngineUnavailable> {
        Self::connect_with(|name| std::env::var(name).ok()).await
    }

    /// The same with `env` in place of the process environment.
    pub async fn connect_with(
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, EngineUnavailable> {
        Self::connect_at(&find_address(env)).await
    }

    /// The engine at `unix://PATH` or `tcp://HOST:PORT`, without TLS.
    pub async fn connect_to(host: &str) -> Result<Self, EngineUnavailable> {
        Self::connect_at(&Address::of(host)).await
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
        // What it is comes from one answer, and so does the version to speak; an engine starts programs of its
        // own for each, and every task waits for it.
        let docker = client(address, API_DEFAULT_VERSION).map_err(|error| failed(&error))?;
        let asked = async { tokio::try_join!(docker.version(), docker.info()) };
        let (version, info) = tokio::time::timeout(QUICK, asked)
            .await
            .unwrap_or(Err(Error::RequestTimeoutError))
            .map_err(|error| failed(&error))?;
        let spoken = spoken(version.api_version.as_deref());
        let docker = client(address, &spoken).map_err(|error| failed(&error))?;
        let parts = version.components.unwrap_or_default();
        let podman = parts.iter().any(|part| part.name.to_lowercase().contains("podman"));
        let identity = EngineIdentity {
            name: if podman { PODMAN } else { "docker" }.to_owned(),
            version: version.version.unwrap_or_default(),
        };
        let security = info.security_options.unwrap_or_default();
        let rootless = security.iter().any(|option| option.contains("name=rootless"));
        let sharing = Arc::new(FileSharing::of(host, podman, info.name.as_deref()));
        Ok(Self { docker, host: host.to_owned(), identity, rootless, sharing })
    }
}

/// The newest version that both sides know.
fn spoken(engine: Option<&str>) -> ClientVersion {
    let ours = || ClientVersion { ..*API_DEFAULT_VERSION };
    let theirs = engine.and_then(|version| {
        let (major, minor) = version.split_once('.')?;
        let version = ClientVersion {
            major_version: major.parse().ok()?,
            minor_version: minor.parse().ok()?,
        };
        Some(version)
    });
    theirs.filter(|theirs| *theirs < ours()).unwrap_or_else(ours)
}

fn client(address: &Address, version: &ClientVersion) -> Result<Docker, Error> {
    let host = address.host.as_str();
    if host.starts_with("unix://") {
        return Docker::connect_with_unix(host, NO_LIMIT, version);
    }
    if !["tcp://", "http://", "https://"].iter().any(|scheme| host.starts_with(scheme)) {
        return Err(Error::UnsupportedURISchemeError { uri: host.to_owned() });
    }
    let Some(place) = &address.certificates else {
        return Docker::connect_with_http(host, NO_LIMIT, version);
    };
    let [key, cert, ca] = ["key.pem", "cert.pem", "ca.pem"].map(|name| place.join(name));
    Docker::connect_with_ssl(host, &key, &cert, &ca, NO_LIMIT, version)
}

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

const DEFAULT: &str = "/var/run/docker.sock";
/// Bytes of one of the Docker client's files.
const MAX_FILE: u64 = 1024 * 1024;

/// Where an engine listens, and who we are to it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    pub(crate) host: String,
    /// A directory with `ca.pem`, `cert.pem` and `key.pem`: then the connection is TLS.
    pub(crate) certificates: Option<PathBuf>,
}

impl Address {
    /// Plain.
    pub(crate) fn of(host: &str) -> Self {
        Self { host: host.to_owned(), certificates: None }
    }
}

/// `env` answers for the process environment.
fn find_address(env: impl Fn(&str) -> Option<String>) -> Address {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    let home = set("HOME").map(PathBuf::from);
    let client = set("DOCKER_CONFIG")
        .map(PathBuf::from)
        .or_else(|| home.as_ref().map(|home| home.join(".docker")));
    if let Some(host) = set("DOCKER_HOST") {
        let wanted = set("DOCKER_TLS_VERIFY").is_some() || host.starts_with("https://");
        let place = set("DOCKER_CERT_PATH").map(PathBuf::from).or(client);
        return Address { host, certificates: place.filter(|_| wanted) };
    }
    if let Some(address) = client.and_then(|client| context(&client, set("DOCKER_CONTEXT"))) {
        return address;
    }
    let runtime = set("XDG_RUNTIME_DIR").map(PathBuf::from);
    let sockets = sockets(home.as_deref(), runtime.as_deref());
    let found = sockets.iter().find(|socket| socket.exists());
    Address::of(&format!("unix://{}", found.map_or(Path::new(DEFAULT), PathBuf::as_path).display()))
}

/// The default one first, then those of rootless Docker, Docker Desktop, Colima, OrbStack, Rancher and Podman.
fn sockets(home: Option<&Path>, runtime: Option<&Path>) -> Vec<PathBuf> {
    let mut sockets = vec![PathBuf::from(DEFAULT)];
    sockets.extend(runtime.map(|runtime| runtime.join("docker.sock")));
    let homes = [
        ".docker/run/docker.sock",
        ".docker/desktop/docker.sock",
        ".colima/default/docker.sock",
        ".orbstack/run/docker.sock",
        ".rd/docker.sock",
    ];
    sockets.extend(home.iter().flat_map(|home| homes.map(|socket| home.join(socket))));
    sockets.extend(runtime.map(|runtime| runtime.join("podman/podman.sock")));
    sockets.push(PathBuf::from("/run/podman/podman.sock"));
    sockets
}

/// The address of the chosen context; none for the default one, which has no files.
fn context(client: &Path, chosen: Option<String>) -> Option<Address> {
    let chosen = chosen.or_else(|| {
        let config = json(&client.join("config.json"))?;
        Some(config.get("currentContext")?.as_str()?.to_owned())
    })?;
    if chosen.is_empty() || chosen == "default" {
        return None;
    }
    let directory = digest(chosen.as_bytes());
    let meta = json(&client.join("contexts/meta").join(&directory).join("meta.json"))?;
    let host = meta.get("Endpoints")?.get("docker")?.get("Host")?.as_str()?.to_owned();
    let certificates = client.join("contexts/tls").join(&directory).join("docker");
    Some(Address { host, certificates: Some(certificates).filter(|place| place.is_dir()) })
}

fn json(path: &Path) -> Option<serde_json::Value> {
    let mut bytes = vec![];
    File::open(path).ok()?.take(MAX_FILE).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// For an orphan that somebody else removes; one that cannot be removed is no reason to hold up a task for long.
const PATIENCE: Duration = Duration::from_secs(5);
/// Removals that an engine is asked for at once.
const AT_ONCE: usize = 4;

impl Engine {
    /// Names of the containers of runs whose owner is dead.
    pub async fn left_over(&self) -> Result<Vec<String>, InfraError> {
        let orphans = self.orphans().await?.into_iter();
        Ok(orphans.map(|(_, name)| name).collect())
    }

    /// Removes the containers of runs whose owner is dead. Each is tried; the first that stays is the error.
    pub async fn reap_orphans(&self) -> Result<(), InfraError> {
        let orphans = self.orphans().await?;
        let removals = stream::iter(&orphans).map(|(id, _)| self.remove_within(PATIENCE, id));
        let mut removed: Result<(), EngineError> =
            removals.buffer_unordered(AT_ONCE).fold(Ok(()), async |all, one| all.and(one)).await;
        // Of runs that died between making their volume and their container as well.
        let (this, now) = (Process::this(), act_core::clock::now().timestamp());
        let filters = HashMap::from([("label".to_owned(), vec![RUN_ID.to_owned()])]);
        let options = ListVolumesOptions { filters: Some(filters) };
        let listed =
            self.call(Phase::Inspect, QUICK, self.docker.list_volumes(Some(options))).await?;
        for volume in listed.volumes.unwrap_or_default() {
            if is_orphan(&volume.labels, (&this, geteuid()), now, process::look) {
                removed = removed.and(self.remove_volume(&volume.name).await);
            }
        }
        Ok(removed?)
    }

    /// Ids and names.
    async fn orphans(&self) -> Result<Vec<(String, String)>, InfraError> {
        let filters = HashMap::from([("label".to_owned(), vec![RUN_ID.to_owned()])]);
        let options =
            ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
        let listed = self.settled(|| self.docker.list_containers(Some(options.clone()))).await?;
        let (this, now) = (Process::this(), act_core::clock::now().timestamp());
        let orphans = listed.into_iter().filter_map(|container| {
            let labels = container.labels.unwrap_or_default();
            let id = container
                .id
                .filter(|_| is_orphan(&labels, (&this, geteuid()), now, process::look))?;
            let name = container.names.unwrap_or_default().into_iter().next();
            let name = name.map(|name| name.trim_start_matches('/').to_owned());
            Some((id.clone(), name.unwrap_or(id)))
        });
        Ok(orphans.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_older_of_two_versions_is_spoken() {
        let of = |version| spoken(version).to_string();
        assert_eq!(of(Some("1.41")), "1.41");
        assert_eq!(of(Some("1.9999")), API_DEFAULT_VERSION.to_string());
        assert_eq!(of(Some("new")), of(None));
    }

    // VERIFIER-35
    #[tokio::test]
    async fn what_cannot_be_spoken_to_is_refused_with_a_way_out() {
        let refused =
            async |address: Address| Engine::connect_at(&address).await.unwrap_err().to_string();
        let ssh = refused(Address::of("ssh://me@box")).await;
        assert!(ssh.contains("ssh -nNT -L") && ssh.contains("DOCKER_HOST"), "{ssh}");
        assert!(refused(Address::of("ftp://x")).await.contains("unix://PATH or tcp://HOST:PORT"));
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
        let all = sockets(Some(Path::new("/home/me")), Some(Path::new("/run/user/7")));
        let shown: Vec<_> = all.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(shown.first(), Some(&DEFAULT));
        assert!(shown.contains(&"/run/user/7/podman/podman.sock"));
        assert!(shown.contains(&"/home/me/.docker/run/docker.sock"));
        assert!(found(&[]).starts_with("unix:///"));
    }
}
