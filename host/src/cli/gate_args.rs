//! Arguments of the commands that run the pipeline without a task.

use super::repo_arg::RepoArg;

#[derive(Debug, clap::Args)]
pub(super) struct GateArgs {
    #[command(flatten)]
    pub(super) at: RepoArg,
    /// Show the output of the steps
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}
