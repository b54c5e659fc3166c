//! Where the repository is that a command is about.

use std::path::PathBuf;

// No words of its own: they would take the place of the command's.
#[derive(Debug, clap::Args)]
pub(super) struct RepoArg {
    /// Repository, or a directory in it
    // Global: where the command has subcommands, also behind theirs.
    #[arg(long, global = true, value_name = "DIR", default_value = ".")]
    pub(super) repo: PathBuf,
}
