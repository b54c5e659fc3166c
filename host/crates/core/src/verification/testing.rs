//! Verifications for tests that have no verifier.

#![allow(clippy::unwrap_used, reason = "only tests call this")]

use super::{
    CommandExecuted, EngineIdentity, Manifest, Platform, Status, Verdict, Verification, Warning,
};
use crate::RunId;

/// The id of [`verification`].
pub const RUN_ID: &str = "run_20261121_100000_abc123";

/// A run whose manifest lists `steps` and whose combined log is `log`.
pub fn verification(verdict: Verdict, steps: &[&str], log: &str) -> Verification {
    let run_id = RunId::parse(RUN_ID).unwrap();
    let (status, reason) = (verdict.status(), verdict.fail_reason());
    let last = steps.len().saturating_sub(1);
    let executed = steps.iter().enumerate().map(|(at, step)| {
        let code = i64::from(at == last && status != Status::Pass);
        command(step, Some(code))
    });
    Verification {
        run_id: Some(run_id.clone()),
        verdict,
        tail: Some(log.to_owned()),
        artifact_paths: vec![],
        manifest: Some(Manifest {
            run_id,
            task_id: None,
            timestamp_start: "2026-11-21T10:00:00Z".into(),
            timestamp_end: "2026-11-21T10:00:01Z".into(),
            commit_sha: None,
            status,
            reason,
            commands_executed: executed.collect(),
            platform: Platform {
                os: "linux".into(),
                arch: "amd64".into(),
                container_image: "image".into(),
            },
            image_digest: "sha256:1".into(),
            tree_digest: Some("tree".into()),
            tree_digest_after: Some("tree".into()),
            git_tree: None,
            pipeline_sha256: "pipeline".into(),
            workspace: "copy".into(),
            base: None,
            network_closed: None,
            engine: EngineIdentity {
                name: "fake".into(),
                version: "1".into(),
                id: None,
                cluster: None,
                namespace: None,
                entry: None,
            },
            node: None,
            begun_anew: None,
            components: vec![],
            tests_weakened: vec![],
            evidence: None,
            audit_head: None,
            act_version: "0".into(),
        }),
        warnings: Vec::<Warning>::new(),
        reused: None,
    }
}

/// A step that ran without anything special.
pub fn command(name: &str, exit_code: Option<i64>) -> CommandExecuted {
    CommandExecuted {
        name: name.to_owned(),
        command: name.to_owned(),
        exit_code,
        duration_ms: 1,
        timed_out: false,
        oom: false,
        network: "off".into(),
        source_writes: vec![],
        log_sha256: None,
        log_bytes: None,
        log_end_sha256: None,
    }
}
