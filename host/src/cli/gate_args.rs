//! What commands that run the gate without a task take.

use super::repo_arg::RepoArg;

#[derive(Debug, clap::Args)]
pub(super) struct GateArgs {
    #[command(flatten)]
    pub(super) at: RepoArg,
    /// Show what the steps print
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}
