//! `act apply`: applies and verifies the proposal of a dry run, or only shows it.

use std::path::PathBuf;

use super::block_on;
use crate::output::Output;
use act_core::exit::Exit;
use act_core::{Failure, Usd};
use act_task::{self as task, ApplyArgs};

const AFTER_HELP: &str = "\
Examples:
  act apply              the newest proposal of this repository
  act apply t-p2jww3     the proposal of this dry run
  act apply --show       print the patch and change nothing

Exit codes:
  0 SUCCESS, 1 refused and nothing changed, 3 STUCK, 4 INFRA_ERROR,
  130 CANCELLED";

/// Apply and verify the changes of a dry run
///
/// Either all files are changed or none. A proposal is refused if it was edited, if one of its files has changed since,
/// or if it changes a path that a task may not change. Then the pipeline runs, and failures are repaired as in any
/// task. The model is used only if something fails, but its settings are required, as for any task.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Apply {
    /// Id of the dry run; default: the newest proposal of the repository
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Repository, or a directory in it
    #[arg(long, value_name = "DIR", default_value = ".")]
    repo: PathBuf,
    /// Show each edit, the diagnosis and the output of the steps
    #[arg(short, long)]
    verbose: bool,
    /// Write every event to stdout as one line of JSON, for programs
    #[arg(long)]
    json: bool,
    /// Print the patch of the proposal and change nothing
    #[arg(long, conflicts_with_all = ["verbose", "max_tokens", "max_cost"])]
    show: bool,
    /// Token budget of this task, in place of the one in agent.yaml: input and output of all roles; when it is spent, the
    /// task ends STUCK
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// The most that this task may cost, in place of `limits.max_cost` in agent.yaml and config.toml: dollars for all requests;
    /// when they are spent, the task ends STUCK
    #[arg(long, value_name = "USD", value_parser = super::run::dollars)]
    max_cost: Option<Usd>,
}

impl Apply {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let Self { task, repo, json, show, max_tokens, max_cost, .. } = self;
        if show {
            let proposed = task::proposed(&repo, task.as_deref())?;
            match json {
                true => output.document(&proposed),
                false => output.patch(&proposed.patch.0),
            }
            return Ok(Exit::Ok);
        }
        let args = task::apply(ApplyArgs { task, repo, max_tokens, max_cost })?;
        block_on(task::run(args, output.sinks()))?
    }
}
