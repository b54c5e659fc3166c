//! What a task was asked for.

use std::path::PathBuf;

use act_model::scripted::Script;
use act_records::store::{Flags, TaskRecord};

/// What kind of work a task is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// To a green run; with `baseline` the pipeline is asked before the first edit.
    Run { baseline: bool },
    /// To a proposal.
    DryRun,
    /// The proposal of a dry run, and then to a green run.
    Apply { dry_run: String },
}

impl From<Flags> for Mode {
    fn from(flags: Flags) -> Self {
        match flags {
            Flags { apply: Some(dry_run), .. } => Self::Apply { dry_run },
            Flags { dry_run: true, .. } => Self::DryRun,
            Flags { baseline, .. } => Self::Run { baseline },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunArgs {
    /// The task as it was given, not yet parsed.
    pub text: String,
    /// Where the search for the repository's root begins.
    pub repo: PathBuf,
    pub verbose: bool,
    /// Globs of guarded paths that this task may change.
    pub allow_paths: Vec<String>,
    /// Tokens that all roles together may spend.
    pub max_tokens: Option<u64>,
    pub mode: Mode,
    /// Plays this script in place of the model that the environment names; `act demo` only.
    pub script: Option<Script>,
}

impl RunArgs {
    /// What another process was asked for.
    pub(super) fn of(record: &TaskRecord, root: PathBuf) -> Self {
        Self {
            text: record.text.clone(),
            repo: root,
            verbose: false,
            allow_paths: record.flags.allow_paths.clone(),
            max_tokens: record.flags.max_tokens,
            mode: record.flags.clone().into(),
            script: None,
        }
    }

    /// What another process needs to run it.
    pub(super) fn flags(&self) -> Flags {
        let (allow_paths, max_tokens) = (self.allow_paths.clone(), self.max_tokens);
        let flags = Flags { allow_paths, max_tokens, ..Flags::default() };
        match &self.mode {
            Mode::Run { baseline } => Flags { baseline: *baseline, ..flags },
            Mode::DryRun => Flags { dry_run: true, ..flags },
            Mode::Apply { dry_run } => Flags { apply: Some(dry_run.clone()), ..flags },
        }
    }
}
