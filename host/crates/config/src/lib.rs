//! `agent.yaml` and the environment, read once and checked completely before a task starts.
//!
//! The entry points are [`load`], which finds and checks `agent.yaml`; [`find_root`], which finds the repository without
//! it; [`model_access`], which selects the model from the environment; and [`secrets`], which collects every key for
//! redaction. The command line, the tasks and `act doctor` call them. `agent.yaml` belongs to the repository and is not
//! trusted: it cannot name a key, the address of a model or a grant.

mod agent_yaml;
mod ceiling;
mod environment;
mod error;
mod load;
mod nearest;
mod scalar;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

pub use ceiling::{ConfigCeiling, DEFAULT_MAX_TOKENS, effective};
pub use environment::{artifact_dir, model_access, secrets};
pub use error::{ConfigError, EnvironmentError, Place};
pub use load::{Root, find_root, load};

pub use act_model::ModelAccess;

/// The configuration of one task. It does not change after it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Absolute path of the repository without links.
    pub root: PathBuf,
    pub pipeline: Pipeline,
    /// A directory in the repository, relative, with `/` between its parts.
    pub monorepo_package: Option<String>,
    pub step_timeout: Duration,
    pub scout_timeout: Duration,
    pub components: Vec<ComponentRequest>,
    /// Token budget that the repository sets for a task; `None` if it sets none.
    pub max_tokens: Option<u64>,
    /// Whether a task may add the line to the root's `.gitignore` that hides act's notes.
    pub gitignore: bool,
    /// SHA-256 of the bytes of the file, as hex.
    pub sha256: String,
}

/// The pipeline that the Verifier runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    pub image: String,
    /// The steps in their order; there is at least one.
    pub steps: Vec<Step>,
    pub workspace: Workspace,
    /// Globs of ignored files that the copied view needs.
    pub include: Vec<String>,
    pub source_writes: SourceWrites,
    pub user: User,
    /// An absolute path on the host.
    pub ca_bundle: Option<PathBuf>,
    pub limits: Limits,
    /// Names of the steps whose network was removed by `cut_off`.
    pub cut_off: Vec<String>,
}

impl Pipeline {
    /// Removes the network from every step, whatever `agent.yaml` says.
    pub fn cut_off(&mut self) {
        for step in self.steps.iter_mut().filter(|step| step.network) {
            step.network = false;
            self.cut_off.push(step.name.clone());
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub name: String,
    /// For `/bin/sh -c`.
    pub command: String,
    /// The step's own setting, else the pipeline's.
    pub network: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workspace {
    Auto,
    Copy,
    Overlay,
    Readonly,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceWrites {
    Fail,
    Warn,
}

/// The user of a step's processes. The order is that of their rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub enum User {
    Caller,
    Root,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    pub cpus: f64,
    pub memory_mb: u64,
    pub pids: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { cpus: 4.0, memory_mb: 8192, pids: 2048 }
    }
}

/// A component that the repository requests. A request grants nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentRequest {
    pub name: String,
    /// Relative path in the repository.
    pub path: String,
    /// Digest of the file, as lower-case hex.
    pub sha256: String,
    pub kind: ComponentKind,
    pub replaces: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComponentKind {
    Scout,
    Tool,
}
