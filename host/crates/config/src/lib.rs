//! `agent.yaml`, the user's `config.toml` and the environment, read once and checked completely before a task starts.
//!
//! - [`load`] finds and checks `agent.yaml`; [`find_root`] finds the repository without it.
//! - [`effective`] is the rule that combines a value of `agent.yaml` with those of the user and the administrator, and
//!   [`Config::lower`] applies it to every key that costs or endangers the user.
//! - [`UserSettings`] is `config.toml`: the model with its key, time limits, and limits for every `agent.yaml`.
//! - [`UserSettings::price`] is the price of a model: the user's own, or that of the table `prices.toml`.
//! - [`Engines`] is `engines.toml`, the container engines of the user.
//! - [`model_access`] selects the model from environment or `config.toml`, and [`secrets`] collects every key of the
//!   environment for redaction.
//!
//! The command line, the tasks and `act doctor` call this crate. `agent.yaml` belongs to the repository and is not trusted: it
//! cannot name a key, the address of a model or a grant.

mod agent_yaml;
mod ceiling;
mod checks;
mod engines;
mod error;
mod load;
mod prices;
mod scalar;
mod selection;
#[cfg(test)]
mod tests;
mod user;

use std::path::PathBuf;
use std::time::Duration;

pub use agent_yaml::STEP_TIMEOUT;
pub use ceiling::{
    COST_LIMIT, ConfigCeiling, DEFAULT_MAX_TOKENS, VerifierTable, effective, is_cost_limit,
};
pub use checks::{CheckMode, CheckRefused, CheckTemplate, Checks, MAX_CHECK};
pub use engines::{ClusterPlace, EngineKind, EnginePlace, EngineSettings, Engines, Labels};
pub use error::{ConfigError, ModelAccessError, Position, SettingsError};
pub use load::{Root, find_root, load};
pub use prices::{PriceSource, Priced, cost_limit, toml_cost_limit};
pub use selection::{Selected, Sources, model_access, secrets};
pub use user::{CheckLimits, RegistrySettings, UserSettings};

use act_core::Usd;

pub use act_core::evidence::EvidenceRule;
pub use act_model::{DeadlineSettings, ModelAccess};

/// The configuration of one task. It does not change after it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Absolute path of the repository, without links.
    pub root: PathBuf,
    pub pipeline: Pipeline,
    /// The directory of the package in work, relative to the repository.
    pub monorepo_package: Option<String>,
    pub step_timeout: Duration,
    pub scout_timeout: Duration,
    /// Time limits of the model that the repository sets; they only shorten.
    pub model_timeouts: DeadlineSettings,
    pub components: Vec<ComponentRequest>,
    /// Token budget that the repository sets for a task; `None` if it sets none.
    pub max_tokens: Option<u64>,
    /// The most that a task may cost by the word of the repository; `None` if it sets none.
    pub max_cost: Option<Usd>,
    /// A task may add a line to the root's `.gitignore` that hides the notes of `act`.
    pub gitignore: bool,
    /// The model gets the instructions of the repository: `AGENTS.md` or `CLAUDE.md`.
    pub agents_md: bool,
    /// What the tests of a task must prove.
    pub evidence: EvidenceRule,
    /// The commands that the model may run while it works.
    pub checks: Checks,
    /// SHA-256 of the bytes of the file, as hex.
    pub sha256: String,
}

/// The pipeline that the Verifier runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Pipeline {
    pub image: String,
    /// The steps that install, fetch and build. They run before `steps`, or once for a warm base of many runs.
    pub prepare: Vec<Step>,
    /// Globs of the files that decide what `prepare` makes; empty if every file of the repository may.
    pub prepare_inputs: Vec<String>,
    /// The runs that may start from a warm base, as `agent.yaml` says and, after [`Config::lower`], as is in force. `None`
    /// if `agent.yaml` does not say.
    pub warm: Option<Warm>,
    /// The steps in their order; there is at least one.
    pub steps: Vec<Step>,
    pub workspace: Workspace,
    /// Globs of git-ignored files that the container needs.
    pub include: Vec<String>,
    pub source_writes: SourceWrites,
    pub user: User,
    /// A file of certificates, as an absolute path on the host.
    pub ca_bundle: Option<PathBuf>,
    pub limits: Limits,
    /// The labels that the engine of a run must have. A repository names no engine.
    pub engine: Labels,
    /// Steps with a network reach private addresses. Only `config.toml` and `policy.toml` take that away.
    pub private_network: bool,
    /// Names of the steps whose network was removed by `cut_off`.
    pub cut_off: Vec<String>,
}

impl Pipeline {
    /// Returns the steps of a run that begins with nothing: `prepare`, then `steps`.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.prepare.iter().chain(&self.steps)
    }

    /// Returns which runs may start from a warm base. Without `prepare` there is no base.
    pub fn warm(&self) -> Warm {
        if self.prepare.is_empty() { Warm::Off } else { self.warm.unwrap_or(Warm::Attempts) }
    }

    /// Removes the network from every step, whatever `agent.yaml` says.
    pub fn cut_off(&mut self) {
        let steps = self.prepare.iter_mut().chain(&mut self.steps);
        for step in steps.filter(|step| step.network) {
            step.network = false;
            self.cut_off.push(step.name.clone());
        }
    }
}

/// One step of the pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub name: String,
    /// The script that `/bin/sh -c` runs.
    pub command: String,
    /// The step has a network, by its own setting or that of the pipeline.
    pub network: bool,
}

/// The runs of a task that may start from a warm base. The order is that of how much they rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Warm {
    /// None: every run is cold.
    Off,
    /// The attempts. A green one counts only after a cold run.
    Attempts,
    /// Also the run that ends a task. A person chooses this, never a repository.
    Final,
}

/// How a container sees the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workspace {
    Auto,
    Copy,
    Overlay,
    Readonly,
}

/// The result of a step that changes the repository's files.
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

/// The resources of one step.
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
    /// Relative path in the repository, or the name of an artifact in a registry, which only the person fetches.
    pub path: String,
    /// Digest of the file, as lower-case hex.
    pub sha256: String,
    pub kind: ComponentKind,
    pub replaces: Option<String>,
}

impl ComponentRequest {
    /// Returns whether the path names an artifact in a registry instead of a file of the repository.
    pub fn is_in_registry(&self) -> bool {
        is_in_registry(&self.path)
    }
}

/// Returns whether a text is the name of an artifact in a registry instead of the path of a file.
pub fn is_in_registry(path: &str) -> bool {
    path.starts_with("oci://")
}

/// The kind of a requested component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComponentKind {
    Scout,
    Tool,
}
