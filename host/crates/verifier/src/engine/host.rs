//! Where the engine is: `DOCKER_HOST`, else the Docker context, else the first known socket that exists; and with
//! which certificates it is spoken to, as Docker's own client does.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use act_workspace::digest;

const DEFAULT: &str = "/var/run/docker.sock";
/// Bytes of one of the Docker client's files.
const MAX_FILE: u64 = 1024 * 1024;

/// Where an engine listens, and who we are to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    /// A directory with `ca.pem`, `cert.pem` and `key.pem`: then the connection is TLS.
    pub(super) certificates: Option<PathBuf>,
}

impl Address {
    /// Plain.
    pub(super) fn of(host: &str) -> Self {
        Self { host: host.to_owned(), certificates: None }
    }
}

/// `env` answers for the process environment.
pub(super) fn find(env: impl Fn(&str) -> Option<String>) -> Address {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn address(variables: &[(&str, &str)]) -> Address {
        find(|name| {
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
