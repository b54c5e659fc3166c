//! `act apply`: the proposal of a dry run, made and verified, or only shown.

use super::repo_arg::RepoArg;
use super::runtime;
use crate::output::Output;
use crate::task::{self, ApplyArgs};
use act_core::Failure;
use act_core::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  act apply              the newest proposal of this repository
  act apply t-p2jww3     this one
  act apply --show       what it would change, as a patch

Exit codes:
  0 SUCCESS, 1 refused and nothing changed, 3 STUCK, 4 INFRA_ERROR, 130 CANCELLED";

/// Make the changes that a dry run proposed, and verify them
///
/// All files are changed or none. A proposal is refused when it was edited, when one of its files has changed
/// since, or when it touches what a task may not change. Then the pipeline runs; what fails is mended as in any
/// task. The model is asked only when something fails, but its settings must be there, as for any task.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Apply {
    /// The dry run, as it was named; the newest proposal of the repository without one
    #[arg(value_name = "TASK")]
    task: Option<String>,
    #[command(flatten)]
    at: RepoArg,
    /// Show each edit, the diagnosis and what the steps print
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Write every event to stdout, one line of JSON each, for programs
    #[arg(long)]
    pub(super) json: bool,
    /// Print the proposal's patch, as its dry run did, and change nothing
    #[arg(long, conflicts_with_all = ["verbose", "max_tokens"])]
    pub(super) show: bool,
    /// Tokens that the task may spend, input and output of all roles together; then it ends STUCK
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
}

impl Apply {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let Self { task, at: RepoArg { repo }, verbose, json, show, max_tokens } = self;
        if show {
            let proposed = task::proposed(&repo, task.as_deref())?;
            match json {
                true => output.document(&proposed),
                false => output.patch(&proposed.patch.0),
            }
            return Ok(Exit::Ok);
        }
        let args = task::apply(ApplyArgs { task, repo, verbose, max_tokens })?;
        runtime::block_on(task::run(args, output))?
    }
}
