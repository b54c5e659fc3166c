//! What `act run` was asked for.

use std::path::PathBuf;

use crate::store::TaskRecord;

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
        }
    }
}
