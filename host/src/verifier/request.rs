//! What the engine is asked for: one container, closed by default. Plain data, so a test can read it.

use std::collections::HashMap;
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountBindOptions,
    MountType,
};

use super::docker_error::InfraError;
use super::pipeline::Limits;
use super::response::ErrorType;
use crate::artifacts::STEP_PARTS;

/// The scheduler's period; the quota says how much of it the container gets.
const CPU_PERIOD: i64 = 100_000;
const MIB: u64 = 1024 * 1024;

/// Where the steps work; the copy view.
pub(super) const VIEW: &str = "/artifacts/build/tree";

pub(super) struct ContainerRequest {
    pub(super) image_id: String,
    pub(super) mounts: Vec<Mount>,
    pub(super) environment: Vec<String>,
    /// `uid:gid`.
    pub(super) user: String,
    pub(super) limits: Limits,
    pub(super) network: bool,
    /// The container ends by itself after this long, should nobody be left to remove it.
    pub(super) lifetime_seconds: u64,
    pub(super) labels: HashMap<String, String>,
}

impl ContainerRequest {
    pub(super) fn body(self) -> ContainerCreateBody {
        let memory = i64::try_from(self.limits.memory_mb.saturating_mul(MIB)).unwrap_or(i64::MAX);
        let host = HostConfig {
            // Not `NanoCpus`: engines refuse more of those than the machine has cores.
            cpu_period: Some(CPU_PERIOD),
            cpu_quota: Some((self.limits.cpus * CPU_PERIOD as f64) as i64),
            memory: Some(memory),
            // Equal to memory, else the engine grants as much swap again.
            memory_swap: Some(memory),
            pids_limit: Some(self.limits.pids),
            cap_drop: Some(vec!["ALL".to_owned()]),
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
            user: Some(self.user),
            env: Some(self.environment),
            entrypoint: Some(vec!["/bin/sh".to_owned(), "-c".to_owned()]),
            cmd: Some(vec![format!("exec sleep {}", self.lifetime_seconds)]),
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

/// The repository read-only, the step parts of the run writable, the repository's `.git` read-only inside
/// the view. Always `Mounts`: `Binds` would create a missing source on the host, as root.
pub(super) fn mounts(repo: &Path, run: &Path, git: bool) -> Result<Vec<Mount>, InfraError> {
    let mut mounts = vec![bind(repo, "/workspace", true)?];
    for part in STEP_PARTS {
        mounts.push(bind(&run.join(part), &format!("/artifacts/{part}"), false)?);
    }
    if git {
        mounts.push(bind(&repo.join(".git"), &format!("{VIEW}/.git"), true)?);
    }
    Ok(mounts)
}

fn bind(source: &Path, target: &str, read_only: bool) -> Result<Mount, InfraError> {
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

    // VERIFIER-5, VERIFIER-6
    #[test]
    fn only_the_step_parts_are_writable_and_logs_and_manifest_are_not_there() {
        let mounts = mounts(Path::new("/r,e:p o"), Path::new("/a/runs/x"), true).unwrap();
        let shown: Vec<_> = mounts
            .iter()
            .map(|mount| {
                assert_eq!(mount.typ, Some(MountType::BIND));
                let options = mount.bind_options.as_ref().unwrap();
                assert_eq!(options.non_recursive, Some(true));
                let rights = if mount.read_only == Some(true) { "ro" } else { "rw" };
                let (source, target) = (mount.source.as_ref(), mount.target.as_ref());
                format!("{} {} {rights}", source.unwrap(), target.unwrap())
            })
            .collect();
        assert_eq!(
            shown,
            [
                "/r,e:p o /workspace ro",
                "/a/runs/x/build /artifacts/build rw",
                "/a/runs/x/tmp /artifacts/tmp rw",
                "/a/runs/x/db /artifacts/db rw",
                "/a/runs/x/snapshots /artifacts/snapshots rw",
                "/a/runs/x/home /artifacts/home rw",
                "/a/runs/x/cache /artifacts/cache rw",
                "/r,e:p o/.git /artifacts/build/tree/.git ro",
            ]
        );
    }

    // VERIFIER-8
    #[test]
    fn limits_are_a_quota_and_memory_without_swap() {
        let request = |cpus, network| ContainerRequest {
            image_id: "sha256:x".into(),
            mounts: vec![],
            environment: vec![],
            user: "7:8".into(),
            limits: Limits { cpus, memory_mb: 64, pids: 9 },
            network,
            lifetime_seconds: 61,
            labels: HashMap::new(),
        };
        let body = request(0.5, false).body();
        let host = body.host_config.unwrap();
        assert_eq!(
            (host.cpu_period, host.cpu_quota, host.nano_cpus),
            (Some(100_000), Some(50_000), None)
        );
        assert_eq!((host.memory, host.memory_swap), (Some(64 << 20), Some(64 << 20)));
        assert_eq!(host.network_mode.as_deref(), Some("none"));
        assert_eq!(host.binds, None);
        assert_eq!(body.cmd.unwrap(), ["exec sleep 61"]);
        assert_eq!(request(4.0, true).body().host_config.unwrap().network_mode, None);
    }
}
