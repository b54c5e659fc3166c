//! The content of `manifest.json`: what a run was, field for field and in the order of `specs/artifacts.md`.

use serde::{Deserialize, Serialize};

use super::{FailReason, Status};
use crate::RunId;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Manifest {
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
    pub run_id: RunId,
    pub task_id: Option<String>,
    pub timestamp_start: String,
    pub timestamp_end: String,
    pub commit_sha: Option<String>,
    /// `PASS`, `FAIL` or `INFRA_ERROR`.
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
    pub status: Status,
    #[cfg_attr(any(test, feature = "testing"), schemars(with = "Option<String>"))]
    pub reason: Option<FailReason>,
    pub commands_executed: Vec<CommandExecuted>,
    pub platform: Platform,
    /// The registry's digest, or the image's id where no registry knows it.
    pub image_digest: String,
    /// None when the tree could not be read.
    pub tree_digest: Option<String>,
    pub tree_digest_after: Option<String>,
    pub pipeline_sha256: String,
    pub workspace: String,
    pub engine: EngineIdentity,
    pub components: Vec<ComponentDigest>,
    pub audit_head: Option<String>,
    pub act_version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct CommandExecuted {
    pub name: String,
    pub command: String,
    /// None when the command did not end by itself.
    pub exit_code: Option<i64>,
    pub duration_ms: u64,
    pub timed_out: bool,
    pub oom: bool,
    /// `on` or `off`, as in `agent.yaml`.
    pub network: String,
    pub source_writes: Vec<SourceWrite>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct SourceWrite {
    pub path: String,
    pub change: String,
}

/// Where the commands ran: the image's system, not the host's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Platform {
    pub os: String,
    pub arch: String,
    pub container_image: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct EngineIdentity {
    pub name: String,
    pub version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ComponentDigest {
    pub name: String,
    pub sha256: String,
}
