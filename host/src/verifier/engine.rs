//! The container engine: finding it, every call bounded in time, and removing what dead owners left.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::{
    ListContainersOptions, ListVolumesOptions, RemoveContainerOptions, RemoveVolumeOptions,
};
use rustix::process::geteuid;

use super::docker_error::{EngineError, EngineUnavailable, InfraError, Phase, io_cause};
use super::engine_host;
use super::owner::{RUN_ID, is_orphan};
use crate::artifacts::EngineIdentity;
use crate::process::{self, Process};

/// For questions that an engine answers from memory.
pub(super) const QUICK: Duration = Duration::from_secs(20);
/// For work of the engine: unpacking, mounting, killing.
pub(super) const WORK: Duration = Duration::from_secs(110);

/// An engine that answered.
#[derive(Debug, Clone)]
pub struct Engine {
    pub(super) docker: Docker,
    host: String,
    identity: EngineIdentity,
    rootless: bool,
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
        let host = engine_host::find(|name| std::env::var(name).ok());
        Self::connect_to(&host).await
    }

    /// The engine at `unix://PATH`, or at `tcp://` on this machine.
    pub async fn connect_to(host: &str) -> Result<Self, EngineUnavailable> {
        let unavailable = |why: String, hint: &str| EngineUnavailable {
            host: host.to_owned(),
            why,
            hint: hint.to_owned(),
        };
        if !is_local(host) {
            return Err(unavailable(
                "only an engine on this machine can see the repository".to_owned(),
                "set DOCKER_HOST to unix://PATH of a local engine, or unset it",
            ));
        }
        let failed = |error: &Error| {
            unavailable(EngineError::new(Phase::Connect, error).message, hint(error))
        };
        let docker = Docker::connect_with_host(host).map_err(|error| failed(&error))?;
        // Side by side: an engine starts programs of its own to answer each, and every task waits for it.
        // None of the three depends on the version that is negotiated, which clones share.
        let asked = async {
            tokio::try_join!(docker.clone().negotiate_version(), docker.version(), docker.info())
        };
        let (docker, version, info) = tokio::time::timeout(QUICK, asked)
            .await
            .unwrap_or(Err(Error::RequestTimeoutError))
            .map_err(|error| failed(&error))?;
        let parts = version.components.unwrap_or_default();
        let podman = parts.iter().any(|part| part.name.to_lowercase().contains("podman"));
        let identity = EngineIdentity {
            name: if podman { "podman" } else { "docker" }.to_owned(),
            version: version.version.unwrap_or_default(),
        };
        let security = info.security_options.unwrap_or_default();
        let rootless = security.iter().any(|option| option.contains("name=rootless"));
        Ok(Self { docker, host: host.to_owned(), identity, rootless })
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

    /// Whether the engine sees the files of this machine.
    pub(super) fn is_local(&self) -> bool {
        is_local(&self.host)
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

    /// Kills and removes with anonymous volumes; a container that is gone already is fine.
    pub(super) async fn remove(&self, container: &str) -> Result<(), EngineError> {
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

fn is_local(host: &str) -> bool {
    let Some(address) = host.strip_prefix("tcp://").or_else(|| host.strip_prefix("http://")) else {
        return host.starts_with("unix://");
    };
    let address = address.split('/').next().unwrap_or_default();
    let name = match address.strip_prefix('[') {
        Some(v6) => v6.split(']').next(),
        None => address.split(':').next(),
    };
    name.is_some_and(|name| {
        name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
    })
}

fn hint(error: &Error) -> &'static str {
    match io_cause(error).map(io::Error::kind) {
        Some(io::ErrorKind::PermissionDenied) => {
            "add your user to the group of the socket (usually `docker`) and log in again"
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
    fn an_engine_is_local_behind_a_socket_or_a_loopback_address() {
        for host in
            ["unix:///x.sock", "tcp://127.0.0.1:2375", "tcp://localhost:1", "http://[::1]:2"]
        {
            assert!(is_local(host), "{host}");
        }
        for host in
            ["tcp://10.0.0.1:2375", "tcp://127.0.0.1.example.com:1", "ssh://me@box", "", "x"]
        {
            assert!(!is_local(host), "{host}");
        }
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
