//! What the engine is asked for: one container, closed by default. Plain data, so a test can read it.

use std::collections::HashMap;
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountBindOptions,
    MountTmpfsOptions, MountType, MountVolumeOptions, VolumeCreateRequest,
};

use crate::image::ResolvedImage;
use act_config::Limits;
use act_core::verification::{ErrorType, InfraError};

/// The scheduler's period; the quota says how much of it the container gets.
const CPU_PERIOD: i64 = 100_000;
const MIB: u64 = 1024 * 1024;

/// What root needs to install packages, and no more.
const ROOT_CAPABILITIES: [&str; 5] = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"];

/// Whom the steps run as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepUser {
    Ids {
        uid: u32,
        gid: u32,
    },
    /// Root in an engine without privileges of its own, which is nobody but the caller.
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

    /// Whose name the container's `/etc/passwd` must know.
    pub(crate) fn named(self) -> Option<(u32, u32)> {
        match self {
            Self::Ids { uid, gid } => Some((uid, gid)),
            Self::Rootless | Self::Root => None,
        }
    }
}

pub(crate) struct ContainerRequest {
    pub(crate) image_id: String,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) environment: Vec<String>,
    /// Made before the container and removed after it.
    pub(crate) volume: Option<VolumeCreateRequest>,
    /// Paths and contents, written into the container before it starts, where it cannot mount them.
    pub(crate) files: Vec<(&'static str, Vec<u8>)>,
    pub(crate) user: StepUser,
    pub(crate) limits: Limits,
    pub(crate) network: bool,
    /// The container ends by itself after this long, should nobody be left to remove it.
    pub(crate) lifetime_seconds: u64,
    pub(crate) labels: HashMap<String, String>,
}

impl ContainerRequest {
    /// For a task of our own beside the steps: root, without network, and as small as such a task needs.
    pub(crate) fn helper(
        image: &ResolvedImage,
        mounts: Vec<Mount>,
        lifetime_seconds: u64,
        labels: HashMap<String, String>,
    ) -> Self {
        Self {
            image_id: image.id.clone(),
            mounts,
            volume: None,
            files: vec![],
            environment: vec![],
            user: StepUser::Root,
            limits: Limits { cpus: 1.0, memory_mb: 256, pids: 64 },
            network: false,
            lifetime_seconds,
            labels,
        }
    }

    pub(crate) fn body(self) -> ContainerCreateBody {
        let memory = i64::try_from(self.limits.memory_mb.saturating_mul(MIB)).unwrap_or(i64::MAX);
        let capabilities =
            (self.user == StepUser::Root).then(|| ROOT_CAPABILITIES.map(str::to_owned).to_vec());
        let (uid, gid) = self.user.ids();
        let host = HostConfig {
            // Not `NanoCpus`: engines refuse more of those than the machine has cores.
            cpu_period: Some(CPU_PERIOD),
            cpu_quota: Some((self.limits.cpus * CPU_PERIOD as f64) as i64),
            memory: Some(memory),
            // Equal to memory, else the engine grants as much swap again.
            memory_swap: Some(memory),
            pids_limit: Some(i64::try_from(self.limits.pids).unwrap_or(i64::MAX)),
            cap_drop: Some(vec!["ALL".to_owned()]),
            cap_add: capabilities,
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            privileged: Some(false),
            ipc_mode: Some("private".to_owned()),
            // Reaps orphans and makes PID 1 obey signals.
            init: Some(true),
            network_mode: (!self.network).then(|| "none".to_owned()),
            mounts: Some(self.mounts),
            // Step output comes by exec; a log driver would only hold a second, inexact copy.
            log_config: Some(HostConfigLogConfig {
                typ: Some("none".to_owned()),
                ..HostConfigLogConfig::default()
            }),
            ..HostConfig::default()
        };
        ContainerCreateBody {
            image: Some(self.image_id),
            hostname: Some("act".to_owned()),
            user: Some(format!("{uid}:{gid}")),
            env: Some(self.environment),
            entrypoint: Some(vec!["/bin/sh".to_owned(), "-c".to_owned()]),
            cmd: Some(vec![keepalive(self.lifetime_seconds)]),
            working_dir: Some("/".to_owned()),
            labels: Some(self.labels),
            // An image's own check would be a command that no step asked for.
            healthcheck: Some(HealthConfig {
                test: Some(vec!["NONE".to_owned()]),
                ..HealthConfig::default()
            }),
            host_config: Some(host),
            ..ContainerCreateBody::default()
        }
    }
}

/// Outlives what test scripts do to a `sleep` or to everything they may signal; only SIGKILL ends it early.
fn keepalive(seconds: u64) -> String {
    const SLICE: u64 = 15;
    let slices = seconds.div_ceil(SLICE);
    // What is ignored stays ignored in the `sleep`.
    format!(
        "trap '' HUP INT TERM USR1 USR2; n={slices}; while [ $n -gt 0 ]; do sleep {SLICE}; n=$((n-1)); done"
    )
}

/// What the places in `/artifacts` are mounted in: a mount point cannot be moved away, not by root either.
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

/// A volume that the engine is to make.
pub(crate) fn new_volume(name: &str, labels: HashMap<String, String>) -> VolumeCreateRequest {
    VolumeCreateRequest {
        name: Some(name.to_owned()),
        driver: Some("local".to_owned()),
        labels: Some(labels),
        ..VolumeCreateRequest::default()
    }
}

/// A volume of ours, as it is: an engine would otherwise copy the image's directory into it.
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

/// Always `Mounts`: `Binds` would create a missing source on the host, as root.
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

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-8
    #[test]
    fn limits_are_a_quota_and_memory_without_swap() {
        let request = |cpus, network, user| ContainerRequest {
            image_id: "sha256:x".into(),
            mounts: vec![],
            volume: None,
            files: vec![],
            environment: vec![],
            user,
            limits: Limits { cpus, memory_mb: 64, pids: 9 },
            network,
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
            volume: None,
            files: vec![],
            environment: vec![],
            user: StepUser::Root,
            limits: Limits::default(),
            network: false,
            lifetime_seconds: 61,
            labels: HashMap::new(),
        };
        let body = request.body();
        let host = body.host_config.unwrap();
        assert_eq!(body.user.as_deref(), Some("0:0"));
        assert_eq!(host.cap_drop.unwrap(), ["ALL"]);
        assert_eq!(host.cap_add.unwrap(), ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]);
        assert_eq!(host.security_opt.unwrap(), ["no-new-privileges"]);
        assert_eq!(StepUser::Rootless.named(), None);
    }
}
