//! What `act run` was asked for.

use std::path::PathBuf;

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
