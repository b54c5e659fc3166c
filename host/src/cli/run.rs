//! `act run`: one task in one repository, to a green run of its pipeline.

use std::path::PathBuf;

use clap::ArgGroup;

use super::repo_arg::RepoArg;
use super::runtime;
use super::task_text::Source;
use crate::output::Output;
use crate::task::{Errand, RunArgs};
use act_core::Failure;
use act_core::exit::Exit;
use act_workspace::{GlobError, PathGlobs};

const AFTER_HELP: &str = "\
Examples:
  act run \"fix the failing test in parser\"
  act run --file task.md --verbose 2> progress.txt
  act run --dry-run \"use tabs\" | git apply --check
  act run --json --max-tokens 500000 \"fix the parser\" > events.jsonl
  act run --again t-4k2m9x

Exit codes:
  0 SUCCESS or PROPOSED, 1 refused, 3 STUCK, 4 INFRA_ERROR, 130 CANCELLED
`act --help` lists what the environment says.";

/// Run one task until the pipeline of `agent.yaml` is green
///
/// The text is free. Lines that are just `Constraints:`, `Non-goals:` or `Boundaries:` open lists that hold
/// for the whole task. The working tree is left changed for you to review; nothing is committed.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("source").required(true).args(["text", "file", "again"]))]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Run {
    /// What is to be done; `-` reads it from standard input
    text: Option<String>,
    /// Read the task from a file; `-` is standard input
    #[arg(long)]
    file: Option<PathBuf>,
    /// Run an ended task of this repository again, with its text and its mode; permissions and budgets are not inherited
    #[arg(long, value_name = "TASK", conflicts_with_all = ["dry_run", "baseline"])]
    again: Option<String>,
    #[command(flatten)]
    at: RepoArg,
    /// Show summaries of the Scouts, the diagnosis, each edit and what the steps print
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Write every event to stdout, one line of JSON each, for programs
    #[arg(long)]
    pub(super) json: bool,
    /// Let this task change guarded paths that match; may be repeated
    #[arg(long = "allow-path", value_name = "GLOB", value_parser = glob)]
    allow_path: Vec<String>,
    /// Tokens that the task may spend, input and output of all roles together; then it ends STUCK
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// Think it through and print a patch for `git apply`; the repository is not touched, nothing is verified
    #[arg(long, conflicts_with = "baseline")]
    pub(super) dry_run: bool,
    /// Run the pipeline before the first edit too, so that failures that were there before are named as such
    #[arg(long)]
    baseline: bool,
    /// Print the task's id and return; the task goes on without this terminal
    #[arg(long)]
    detach: bool,
}

impl Run {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let text = match self.again {
            None => Source::of(self.text, self.file).read()?,
            Some(_) => String::new(),
        };
        let mut args = RunArgs {
            text,
            repo: self.at.repo,
            verbose: self.verbose,
            allow_paths: self.allow_path,
            max_tokens: self.max_tokens,
            errand: match self.dry_run {
                true => Errand::DryRun,
                false => Errand::Run { baseline: self.baseline },
            },
        };
        if let Some(task_id) = &self.again {
            args = crate::task::again(task_id, args)?;
        }
        if self.detach {
            let detached = runtime::block_on(crate::task::detach(args))??;
            if self.json {
                output.document(&detached);
            } else {
                output.result(&detached.task_id);
            }
            return Ok(Exit::Ok);
        }
        runtime::block_on(crate::task::run(args, output))?
    }
}

fn glob(text: &str) -> Result<String, GlobError> {
    let glob = text.to_owned();
    PathGlobs::new(std::slice::from_ref(&glob)).map(|_| glob)
}
