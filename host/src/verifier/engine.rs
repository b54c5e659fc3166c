//! The container engine: finding it, every call bounded in time, and removing what dead owners left.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bollard::errors::Error;
use bollard::query_parameters::{
    KillContainerOptions, ListContainersOptions, ListVolumesOptions, RemoveContainerOptions,
    RemoveVolumeOptions,
};
use bollard::{API_DEFAULT_VERSION, ClientVersion, Docker};
use rustix::process::geteuid;

use super::docker_error::{EngineError, EngineUnavailable, InfraError, Phase, io_cause};
use super::engine_host::{self, Address};
use super::owner::{RUN_ID, is_orphan};
use super::sight::Sight;
use crate::artifacts::EngineIdentity;
use crate::process::{self, Process};

/// For questions that an engine answers from memory.
pub(super) const QUICK: Duration = Duration::from_secs(20);
/// For work of the engine: unpacking, mounting, killing.
pub(super) const WORK: Duration = Duration::from_secs(110);

const PODMAN: &str = "podman";
/// In seconds, for the client's own limit: each call has a shorter one of ours, and some streams none.
const NO_LIMIT: u64 = 24 * 60 * 60;

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
    /// The engine that the environment names, else the one of the Docker context, else the first of the known
    /// sockets that exists.
    pub async fn connect() -> Result<Self, EngineUnavailable> {
        Self::connect_with(|name| std::env::var(name).ok()).await
    }

    /// The same with `env` in place of the process environment.
    pub async fn connect_with(
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, EngineUnavailable> {
        Self::connect_at(&engine_host::find(env)).await
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
        let sight = Arc::new(Sight::of(host, podman, info.name.as_deref()));
        Ok(Self { docker, host: host.to_owned(), identity, rootless, sight })
    }

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

    /// Names of the containers of runs whose owner is dead.
    pub async fn left_over(&self) -> Result<Vec<String>, InfraError> {
        let orphans = self.orphans().await?.into_iter();
        Ok(orphans.map(|(_, name)| name).collect())
    }

    /// Removes the containers of runs whose owner is dead; how many.
    pub async fn reap_orphans(&self) -> Result<usize, InfraError> {
        let orphans = self.orphans().await?;
        for (id, _) in &orphans {
            self.remove(id).await?;
        }
        // Of runs that died between making their volume and their container as well.
        let (this, now) = (Process::this(), crate::clock::now().timestamp());
        let filters = HashMap::from([("label".to_owned(), vec![RUN_ID.to_owned()])]);
        let options = ListVolumesOptions { filters: Some(filters) };
        let listed =
            self.call(Phase::Inspect, QUICK, self.docker.list_volumes(Some(options))).await?;
        for volume in listed.volumes.unwrap_or_default() {
            if is_orphan(&volume.labels, (&this, geteuid()), now, process::look) {
                self.remove_volume(&volume.name).await?;
            }
        }
        Ok(orphans.len())
    }

    /// Ids and names.
    async fn orphans(&self) -> Result<Vec<(String, String)>, InfraError> {
        let filters = HashMap::from([("label".to_owned(), vec![RUN_ID.to_owned()])]);
        let options =
            ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
        let listed =
            self.call(Phase::Inspect, QUICK, self.docker.list_containers(Some(options))).await?;
        let (this, now) = (Process::this(), crate::clock::now().timestamp());
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

    pub(super) fn is_podman(&self) -> bool {
        self.identity.name == PODMAN
    }

    /// Whether root in a container is nobody but the caller.
    pub(super) fn is_rootless(&self) -> bool {
        self.rootless
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

    /// Kills and removes with anonymous volumes; a container that is gone already is fine.
    pub(super) async fn remove(&self, container: &str) -> Result<(), EngineError> {
        if self.is_podman() {
            // Else it first asks politely, and waits.
            let _ = self.kill(container).await;
        }
        let removed = self.docker.remove_container(
            container,
            Some(RemoveContainerOptions { v: true, force: true, link: false }),
        );
        match self.call(Phase::Remove, WORK, removed).await {
            // 409: somebody else's removal is under way.
            Err(error) if matches!(error.status(), Some(404 | 409)) => Ok(()),
            other => other,
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
