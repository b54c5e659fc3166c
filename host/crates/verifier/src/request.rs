//! The request for a container, closed by default, and the environment of the steps. Both are plain data that a test
//! can read and that every engine gets.

use crate::image::ResolvedImage;
use act_config::Limits;
use act_core::verification::{ErrorType, InfraError};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

const MIB: u64 = 1024 * 1024;

/// The capabilities that root needs to install packages.
const ROOT_CAPABILITIES: [&str; 5] = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"];

/// The user that the steps run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepUser {
    Ids {
        uid: u32,
        gid: u32,
    },
    /// Root in a rootless engine, which has only the rights of the caller.
    Rootless,
    /// Root, because `agent.yaml` asks for it.
    Root,
}

impl StepUser {
    pub fn ids(self) -> (u32, u32) {
        match self {
            Self::Ids { uid, gid } => (uid, gid),
            Self::Rootless | Self::Root => (0, 0),
        }
    }
}

/// A file that is written into a container. Root owns it.
#[derive(Debug, Clone)]
pub struct SentFile {
    pub path: &'static str,
    pub mode: u32,
    pub content: Vec<u8>,
}

impl SentFile {
    /// Returns an archive of files, which is unpacked at the root of a container.
    ///
    /// # Errors
    /// A path is too long for an archive.
    pub(crate) fn archive(files: &[Self]) -> io::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(vec![]);
        for file in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(file.content.len() as u64);
            header.set_mode(file.mode);
            archive.append_data(&mut header, file.path.trim_start_matches('/'), &*file.content)?;
        }
        archive.into_inner()
    }
}

/// The network of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    Off,
    /// The network that the engine gives. Without `icmp` no process can open a socket for ICMP.
    On {
        icmp: bool,
    },
    /// The namespace of another container, in which `program` runs with NET_ADMIN, in place of waiting.
    Of {
        container: String,
        program: &'static str,
    },
}

/// What is mounted at a path of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub target: String,
    pub read_only: bool,
    pub source: MountSource,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountSource {
    /// A file or directory of this machine, without the file systems that are mounted below it. A missing one is an error.
    Path(String),
    /// A volume of the engine, as it is. An empty one is not filled from the image.
    Volume(String),
    /// An empty file system in memory with this size and mode.
    Memory { bytes: u32, mode: u32 },
}

/// A volume that the engine creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVolume {
    pub name: String,
    pub labels: HashMap<String, String>,
    /// For an overlay, the directory of this machine that holds its layers `lower`, `upper` and `work`. Extended attributes of
    /// the layers are in the namespace `user`, which lets a user without root read the upper layer.
    pub layers: Option<PathBuf>,
    /// A name of what is in it. An engine may store the contents of a volume, if the steps cannot change them, and have less sent
    /// when the next volume of that name is filled.
    pub content: Option<String>,
}

/// What runs as the first process of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Main {
    /// A script for `/bin/sh -c`, below an init process that reaps orphans and forwards signals.
    Script(String),
    /// One program without arguments and without an init process.
    Program(&'static str),
}

/// The purpose of a container. Engines that keep containers which never start need not tell these apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It is started, and commands run in it.
    Steps,
    /// It never starts. Its volumes are filled and read through it.
    Files,
    /// It never starts. Files of its image are read through it.
    Image,
    /// It never starts. Its name, which no other container can have, is all that counts.
    Name,
}

/// A container, as every engine has to make it.
///
/// It is not privileged and has no capability but those of [`ContainerRequest::capabilities`]; its processes get no new
/// privileges; its IPC, PID and UTS namespaces are its own; it has no devices beyond the usual ones, and swap does not add to
/// its memory. The engine keeps no second copy of its output and runs no health check of the image.
#[derive(Debug, Clone)]
pub struct ContainerRequest {
    pub role: Role,
    pub image_id: String,
    pub mounts: Vec<Mount>,
    pub environment: Vec<String>,
    /// Volumes that are created before the container and removed after it.
    pub volumes: Vec<NewVolume>,
    /// Files that are written into the container before it starts.
    pub files: Vec<SentFile>,
    pub user: StepUser,
    pub limits: Limits,
    pub network: Network,
    /// A script that runs in place of waiting; the container ends with it.
    pub script: Option<String>,
    /// The container ends by itself after this time, in case its process dies and cannot remove it.
    pub lifetime_seconds: u64,
    pub labels: HashMap<String, String>,
}

impl ContainerRequest {
    /// Requests a container for work of `act` itself: root without network, with small limits.
    pub(crate) fn helper(
        image: &ResolvedImage,
        mounts: Vec<Mount>,
        lifetime_seconds: u64,
        labels: HashMap<String, String>,
    ) -> Self {
        Self {
            role: Role::Steps,
            image_id: image.id.clone(),
            mounts,
            volumes: vec![],
            files: vec![],
            environment: vec![],
            user: StepUser::Root,
            limits: Limits { cpus: 1.0, memory_mb: 256, pids: 64 },
            network: Network::Off,
            script: None,
            lifetime_seconds,
            labels,
        }
    }

    /// Requests a container that runs one program in the network namespace of another container, and ends.
    pub(crate) fn in_network_of(
        image: &ResolvedImage,
        container: &str,
        (path, content): (&'static str, Vec<u8>),
        labels: HashMap<String, String>,
    ) -> Self {
        let container = container.to_owned();
        Self {
            files: vec![SentFile { path, mode: 0o755, content }],
            network: Network::Of { container, program: path },
            ..Self::helper(image, vec![], 1, labels)
        }
    }

    /// Returns the capabilities that processes of the container may have. Only root has any.
    pub fn capabilities(&self) -> &'static [&'static str] {
        match (&self.network, self.user) {
            (Network::Of { .. }, _) => &["NET_ADMIN"],
            (_, StepUser::Root) => &ROOT_CAPABILITIES,
            (_, StepUser::Ids { .. } | StepUser::Rootless) => &[],
        }
    }

    /// Returns what the container runs: by default it waits for its end.
    pub fn main(&self) -> Main {
        match (&self.network, &self.script) {
            (Network::Of { program, .. }, _) => Main::Program(program),
            (_, Some(script)) => Main::Script(script.clone()),
            (_, None) => Main::Script(keepalive(self.lifetime_seconds)),
        }
    }

    pub fn memory_bytes(&self) -> u64 {
        self.limits.memory_mb.saturating_mul(MIB)
    }
}

/// Returns the shell script of PID 1, which sleeps. Test scripts that kill every `sleep`, or every process that they
/// may signal, do not end it; only SIGKILL does.
fn keepalive(seconds: u64) -> String {
    const SLICE: u64 = 15;
    let slices = seconds.div_ceil(SLICE);
    // The `sleep` inherits the ignored signals.
    format!(
        "trap '' HUP INT TERM USR1 USR2; n={slices}; while [ $n -gt 0 ]; do sleep {SLICE}; n=$((n-1)); done"
    )
}

/// Mounts a small file system in memory at `/artifacts`. The directories in it are mount points, which the steps cannot move
/// away, even as root.
pub(crate) fn artifacts_tmpfs() -> Mount {
    Mount {
        target: "/artifacts".to_owned(),
        read_only: false,
        source: MountSource::Memory { bytes: 64 * 1024, mode: 0o755 },
    }
}

/// Requests a new volume of the engine.
pub(crate) fn new_volume(name: &str, labels: HashMap<String, String>) -> NewVolume {
    NewVolume { name: name.to_owned(), labels, layers: None, content: None }
}

/// Mounts a volume as it is.
pub(crate) fn volume(name: &str, target: &str, read_only: bool) -> Mount {
    let source = MountSource::Volume(name.to_owned());
    Mount { target: target.to_owned(), read_only, source }
}

/// Mounts a file or directory of this machine.
///
/// # Errors
/// `container_creation` when the path is not valid UTF-8.
pub(crate) fn bind(source: &Path, target: &str, read_only: bool) -> Result<Mount, InfraError> {
    let source = source.to_str().ok_or_else(|| {
        InfraError::new(
            ErrorType::ContainerCreation,
            format!("{} cannot be mounted: its path is not valid UTF-8", source.display()),
        )
    })?;
    let source = MountSource::Path(source.to_owned());
    Ok(Mount { target: target.to_owned(), read_only, source })
}

/// `PATH` of a container whose image sets none.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The variables of every step, besides `PATH` and those of the image. The repository is read-only at `/workspace`, so
/// tools get paths below `/artifacts`, and tools that rewrite snapshots get a variable that forbids it.
const FIXED: [(&str, &str); 26] = [
    ("CI", "1"),
    ("HOME", "/artifacts/home"),
    ("TMPDIR", "/artifacts/tmp"),
    ("TEST_DB_PATH", "/artifacts/db"),
    ("SNAPSHOT_DIR", "/artifacts/snapshots"),
    ("INSTA_UPDATE", "no"),
    ("XDG_CACHE_HOME", "/artifacts/cache/xdg"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PIP_CACHE_DIR", "/artifacts/cache/pip"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("UV_CACHE_DIR", "/artifacts/cache/uv"),
    ("npm_config_cache", "/artifacts/cache/npm"),
    // pnpm would otherwise create its store beside the project.
    ("npm_config_store_dir", "/artifacts/cache/pnpm"),
    // This cache would hold builds, and `/artifacts/cache` is for downloads only.
    ("npm_config_side_effects_cache", "false"),
    ("npm_config_update_notifier", "false"),
    ("YARN_CACHE_FOLDER", "/artifacts/cache/yarn"),
    ("CARGO_HOME", "/artifacts/cache/cargo"),
    ("GOCACHE", "/artifacts/cache/go-build"),
    ("GOMODCACHE", "/artifacts/cache/go-mod"),
    ("GRADLE_USER_HOME", "/artifacts/cache/gradle"),
    ("MAVEN_OPTS", "-Dmaven.repo.local=/artifacts/cache/maven"),
    // The tree may belong to another user than the steps, which git refuses by default.
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "safe.directory"),
    ("GIT_CONFIG_VALUE_0", "*"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
];

/// Variables for a read-only tree: tools that can build elsewhere do so.
const READONLY: [(&str, &str); 3] = [
    ("CARGO_TARGET_DIR", "/artifacts/build/target"),
    ("PYTEST_ADDOPTS", "-pno:cacheprovider"),
    ("PYTHONPYCACHEPREFIX", "/artifacts/build/pycache"),
];

/// The path of the certificates that `ca_bundle` names, and the variables that programs read it from.
pub(crate) const CA_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
const CA_VARIABLES: [&str; 7] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "CARGO_HTTP_CAINFO",
    "GIT_SSL_CAINFO",
];

/// Returns the environment of every step as `NAME=value`. It adds to the image's own; nothing of the host's is in it.
pub(crate) fn step_environment(
    image_path: Option<&str>,
    readonly: bool,
    ca_bundle: bool,
) -> Vec<String> {
    // Programs that pip installed for a user without root are found first.
    let path = format!("PATH=/artifacts/home/.local/bin:{}", image_path.unwrap_or(DEFAULT_PATH));
    let readonly = READONLY.iter().filter(|_| readonly);
    let fixed = FIXED.iter().chain(readonly).map(|(name, value)| format!("{name}={value}"));
    let ca = CA_VARIABLES.iter().filter(|_| ca_bundle).map(|name| format!("{name}={CA_BUNDLE}"));
    fixed.chain(ca).chain([path]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-9
    #[test]
    fn keeps_the_images_path_behind_the_users_own_programs() {
        let of = |path| step_environment(path, false, false).pop().unwrap();
        assert_eq!(of(Some("/opt/bin")), "PATH=/artifacts/home/.local/bin:/opt/bin");
        assert!(of(None).ends_with(":/usr/bin:/sbin:/bin"));
    }

    // VERIFIER-9
    #[test]
    fn a_readonly_view_and_a_ca_bundle_add_what_they_need() {
        let all = step_environment(None, true, true);
        assert!(all.contains(&"CARGO_TARGET_DIR=/artifacts/build/target".to_owned()));
        assert!(all.contains(&format!("NODE_EXTRA_CA_CERTS={CA_BUNDLE}")));
        assert_eq!(step_environment(None, false, false).len(), FIXED.len() + 1);
    }
}
