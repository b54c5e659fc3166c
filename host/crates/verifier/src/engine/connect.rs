//! Finding the engine and speaking to it in a version that it knows.

use std::io;
use std::sync::Arc;

use bollard::errors::Error;
use bollard::{API_DEFAULT_VERSION, ClientVersion, Docker};

use super::host::{self, Address};
use super::{Engine, PODMAN, QUICK};
use crate::docker_error::{EngineError, EngineUnavailable, Phase, io_cause};
use crate::elsewhere::Sight;
use act_core::verification::EngineIdentity;

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
        Self::connect_at(&host::find(env)).await
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
