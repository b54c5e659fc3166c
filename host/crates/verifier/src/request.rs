//! The request for a container, closed by default, and the environment of the steps. Both are plain data that a test
//! can read.

use crate::image::ResolvedImage;
use act_config::Limits;
use act_core::verification::{ErrorType, InfraError};
use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountBindOptions,
    MountTmpfsOptions, MountType, MountVolumeOptions, VolumeCreateRequest,
};
use std::collections::HashMap;
use std::path::Path;

/// Period of the CPU scheduler in microseconds. The quota is the part of it that the container gets.
const CPU_PERIOD: i64 = 100_000;
const MIB: u64 = 1024 * 1024;

/// The capabilities that root needs to install packages.
const ROOT_CAPABILITIES: [&str; 5] = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"];

/// The user that the steps run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepUser {
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
    pub(crate) fn ids(self) -> (u32, u32) {
        match self {
            Self::Ids { uid, gid } => (uid, gid),
            Self::Rootless | Self::Root => (0, 0),
        }
    }
}

/// A file that is written into a container. Root owns it.
#[derive(Debug, Clone)]
pub(crate) struct SentFile {
    pub(crate) path: &'static str,
    pub(crate) mode: u32,
    pub(crate) content: Vec<u8>,
}

/// The network of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Network {
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

pub(crate) struct ContainerRequest {
    pub(crate) image_id: String,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) environment: Vec<String>,
    /// Volumes that are created before the container and removed after it.
    pub(crate) volumes: Vec<VolumeCreateRequest>,
    /// Files that are written into the container before it starts.
    pub(crate) files: Vec<SentFile>,
    pub(crate) user: StepUser,
    pub(crate) limits: Limits,
    pub(crate) network: Network,
    /// The container ends by itself after this time, in case its process dies and cannot remove it.
    pub(crate) lifetime_seconds: u64,
    pub(crate) labels: HashMap<String, String>,
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
            image_id: image.id.clone(),
            mounts,
            volumes: vec![],
            files: vec![],
            environment: vec![],
            user: StepUser::Root,
            limits: Limits { cpus: 1.0, memory_mb: 256, pids: 64 },
            network: Network::Off,
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

    /// Returns the body of the API call.
    pub(crate) fn body(self) -> ContainerCreateBody {
        let memory = i64::try_from(self.limits.memory_mb.saturating_mul(MIB)).unwrap_or(i64::MAX);
        let program = match self.network {
            Network::Of { program, .. } => Some(program),
            Network::Off | Network::On { .. } => None,
        };
        // No group is from 1 to 0, so the kernel refuses the socket to everybody without CAP_NET_RAW, which no step has.
        let no_icmp = || ("net.ipv4.ping_group_range".to_owned(), "1 0".to_owned());
        let sysctls = (self.network == Network::On { icmp: false }).then(|| [no_icmp()].into());
        let capabilities = match (program, self.user) {
            (Some(_), _) => Some(vec!["NET_ADMIN".to_owned()]),
            (None, StepUser::Root) => Some(ROOT_CAPABILITIES.map(str::to_owned).to_vec()),
            (None, _) => None,
        };
        let (uid, gid) = self.user.ids();
        let host = HostConfig {
            // `NanoCpus` would be simpler, but engines refuse a value above the number of cores.
            cpu_period: Some(CPU_PERIOD),
            cpu_quota: Some((self.limits.cpus * CPU_PERIOD as f64) as i64),
            memory: Some(memory),
            // Equal to `memory`, because the engine would otherwise add as much swap.
            memory_swap: Some(memory),
            pids_limit: Some(i64::try_from(self.limits.pids).unwrap_or(i64::MAX)),
            cap_drop: Some(vec!["ALL".to_owned()]),
            cap_add: capabilities,
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            privileged: Some(false),
            ipc_mode: Some("private".to_owned()),
            // An init process reaps orphans and forwards signals.
            init: Some(program.is_none()),
            network_mode: match &self.network {
                Network::Off => Some("none".to_owned()),
                Network::On { .. } => None,
                Network::Of { container, .. } => Some(format!("container:{container}")),
            },
            sysctls,
            mounts: Some(self.mounts),
            // The output of steps arrives by exec; a log driver would store a second, inexact copy.
            log_config: Some(HostConfigLogConfig {
                typ: Some("none".to_owned()),
                ..HostConfigLogConfig::default()
            }),
            ..HostConfig::default()
        };
        ContainerCreateBody {
            image: Some(self.image_id),
            // A container in the network of another one has the name of that one.
            hostname: program.is_none().then(|| "act".to_owned()),
            user: Some(format!("{uid}:{gid}")),
            env: Some(self.environment),
            entrypoint: Some(match program {
                Some(program) => vec![program.to_owned()],
                None => vec!["/bin/sh".to_owned(), "-c".to_owned()],
            }),
            cmd: program.is_none().then(|| vec![keepalive(self.lifetime_seconds)]),
            working_dir: Some("/".to_owned()),
            labels: Some(self.labels),
            // The health check of an image would run a command that no step asked for.
            healthcheck: Some(HealthConfig {
                test: Some(vec!["NONE".to_owned()]),
                ..HealthConfig::default()
            }),
            host_config: Some(host),
            ..ContainerCreateBody::default()
        }
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

/// Mounts a small tmpfs at `/artifacts`. The directories in it are mount points, which the steps cannot move away, even
/// as root.
pub(crate) fn artifacts_tmpfs() -> Mount {
    Mount {
        typ: Some(MountType::TMPFS),
        target: Some("/artifacts".to_owned()),
        tmpfs_options: Some(MountTmpfsOptions {
            size_bytes: Some(64 * 1024),
            mode: Some(0o755),
            ..MountTmpfsOptions::default()
        }),
        ..Mount::default()
    }
}

/// Requests a new volume of the engine.
pub(crate) fn new_volume(name: &str, labels: HashMap<String, String>) -> VolumeCreateRequest {
    VolumeCreateRequest {
        name: Some(name.to_owned()),
        driver: Some("local".to_owned()),
        labels: Some(labels),
        ..VolumeCreateRequest::default()
    }
}

/// Mounts a volume as it is. Without `no_copy`, an engine fills an empty volume from the image's directory.
pub(crate) fn volume(name: &str, target: &str, read_only: bool) -> Mount {
    Mount {
        typ: Some(MountType::VOLUME),
        source: Some(name.to_owned()),
        target: Some(target.to_owned()),
        read_only: Some(read_only),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(true),
            ..MountVolumeOptions::default()
        }),
        ..Mount::default()
    }
}

/// Mounts a file or directory of this machine. `Mounts` is used and not `Binds`, which would create a missing source on
/// the host, as root.
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
    Ok(Mount {
        typ: Some(MountType::BIND),
        source: Some(source.to_owned()),
        target: Some(target.to_owned()),
        read_only: Some(read_only),
        bind_options: Some(MountBindOptions {
            // A file system mounted below the source would stay writable under a read-only bind.
            non_recursive: Some(true),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    })
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

    // VERIFIER-8
    #[test]
    fn limits_are_a_quota_and_memory_without_swap() {
        let request = |cpus, network, user| ContainerRequest {
            image_id: "sha256:x".into(),
            mounts: vec![],
            volumes: vec![],
            files: vec![],
            environment: vec![],
            user,
            limits: Limits { cpus, memory_mb: 64, pids: 9 },
            network: if network { Network::On { icmp: true } } else { Network::Off },
            lifetime_seconds: 61,
            labels: HashMap::new(),
        };
        let caller = StepUser::Ids { uid: 7, gid: 8 };
        let body = request(0.5, false, caller).body();
        let host = body.host_config.unwrap();
        assert_eq!(
            (host.cpu_period, host.cpu_quota, host.nano_cpus),
            (Some(100_000), Some(50_000), None)
        );
        assert_eq!((host.memory, host.memory_swap), (Some(64 << 20), Some(64 << 20)));
        assert_eq!(host.network_mode.as_deref(), Some("none"));
        assert_eq!(host.binds, None);
        let [keepalive] = &body.cmd.unwrap()[..] else { panic!("one command") };
        assert!(keepalive.contains("n=5;") && keepalive.contains("sleep 15"), "{keepalive}");
        assert_eq!((body.user.as_deref(), host.cap_add), (Some("7:8"), None));
        assert_eq!(request(4.0, true, caller).body().host_config.unwrap().network_mode, None);
    }

    // VERIFIER-7
    #[test]
    fn only_root_by_request_gets_capabilities_and_only_five() {
        let request = ContainerRequest {
            image_id: "sha256:x".into(),
            mounts: vec![],
            volumes: vec![],
            files: vec![],
            environment: vec![],
            user: StepUser::Root,
            limits: Limits::default(),
            network: Network::Off,
            lifetime_seconds: 61,
            labels: HashMap::new(),
        };
        let body = request.body();
        let host = body.host_config.unwrap();
        assert_eq!(body.user.as_deref(), Some("0:0"));
        assert_eq!(host.cap_drop.unwrap(), ["ALL"]);
        assert_eq!(host.cap_add.unwrap(), ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]);
        assert_eq!(host.security_opt.unwrap(), ["no-new-privileges"]);
        assert_eq!(StepUser::Rootless.ids(), (0, 0));
    }

    // VERIFIER-70
    #[test]
    fn the_helper_of_a_network_runs_one_program_with_one_capability() {
        let request = ContainerRequest {
            image_id: "sha256:x".into(),
            mounts: vec![],
            volumes: vec![],
            files: vec![],
            environment: vec![],
            user: StepUser::Root,
            limits: Limits::default(),
            network: Network::Of { container: "act-run".into(), program: "/helper" },
            lifetime_seconds: 1,
            labels: HashMap::new(),
        };
        let body = request.body();
        assert_eq!((body.entrypoint.unwrap(), body.cmd), (vec!["/helper".to_owned()], None));
        assert_eq!(body.hostname, None);
        let host = body.host_config.unwrap();
        assert_eq!(host.network_mode.as_deref(), Some("container:act-run"));
        assert_eq!(host.cap_add.unwrap(), ["NET_ADMIN"]);
        assert_eq!(
            (host.cap_drop.unwrap(), host.privileged),
            (vec!["ALL".to_owned()], Some(false))
        );
    }

    // VERIFIER-71
    #[test]
    fn a_network_without_icmp_has_no_group_that_may_open_its_sockets() {
        let sysctls = |network| {
            let request = ContainerRequest {
                image_id: "sha256:x".into(),
                mounts: vec![],
                volumes: vec![],
                files: vec![],
                environment: vec![],
                user: StepUser::Root,
                limits: Limits::default(),
                network,
                lifetime_seconds: 61,
                labels: HashMap::new(),
            };
            request.body().host_config.unwrap().sysctls
        };
        assert_eq!(sysctls(Network::Off), None);
        assert_eq!(sysctls(Network::On { icmp: true }), None);
        let closed = sysctls(Network::On { icmp: false }).unwrap();
        assert_eq!(closed["net.ipv4.ping_group_range"], "1 0");
    }

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
