//! Where the engine is: `DOCKER_HOST`, else the Docker context, else the first known socket that exists.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

const DEFAULT: &str = "/var/run/docker.sock";
/// Bytes of one of the Docker client's files.
const MAX_FILE: u64 = 1024 * 1024;

/// `env` answers for the process environment.
pub(super) fn find(env: impl Fn(&str) -> Option<String>) -> String {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    if let Some(host) = set("DOCKER_HOST") {
        return host;
    }
    let home = set("HOME").map(PathBuf::from);
    let client = set("DOCKER_CONFIG")
        .map(PathBuf::from)
        .or_else(|| home.as_ref().map(|home| home.join(".docker")));
    if let Some(host) = client.and_then(|client| context(&client, set("DOCKER_CONTEXT"))) {
        return host;
    }
    let runtime = set("XDG_RUNTIME_DIR").map(PathBuf::from);
    let sockets = sockets(home.as_deref(), runtime.as_deref());
    let found = sockets.iter().find(|socket| socket.exists());
    format!("unix://{}", found.map_or(Path::new(DEFAULT), PathBuf::as_path).display())
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
fn context(client: &Path, chosen: Option<String>) -> Option<String> {
    let chosen = chosen.or_else(|| {
        let config = json(&client.join("config.json"))?;
        Some(config.get("currentContext")?.as_str()?.to_owned())
    })?;
    if chosen.is_empty() || chosen == "default" {
        return None;
    }
    let digest = Sha256::digest(chosen.as_bytes());
    let directory: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let meta = json(&client.join("contexts/meta").join(directory).join("meta.json"))?;
    Some(meta.get("Endpoints")?.get("docker")?.get("Host")?.as_str()?.to_owned())
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

    fn found(variables: &[(&str, &str)]) -> String {
        find(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    // VERIFIER-19
    #[test]
    fn docker_host_wins_over_the_context_and_the_context_over_sockets() {
        let home = tempfile::tempdir().unwrap();
        let client = home.path().join(".docker");
        // The directory of a context is the digest of its name; this is that of `far`.
        let digest: String =
            Sha256::digest(b"far").iter().map(|byte| format!("{byte:02x}")).collect();
        let meta = client.join("contexts/meta").join(digest);
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
        assert!(found(&[at_home]).starts_with("unix:///"));
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
