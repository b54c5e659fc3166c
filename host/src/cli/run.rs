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

Exit codes:
  0 SUCCESS or PROPOSED, 1 refused, 3 STUCK, 4 INFRA_ERROR, 130 CANCELLED
`act --help` lists the environment variables.";

/// Run one task until the pipeline of `agent.yaml` passes
///
/// The task is free text. A line that consists of `Constraints:`, `Non-goals:` or `Boundaries:` starts a list that
/// applies to the whole task. The changes stay in the working tree for you to review; nothing is committed.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("source").required(true).args(["text", "file"]))]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Run {
    /// The task; `-` reads it from standard input
    text: Option<String>,
    /// Read the task from a file; `-` reads standard input
    #[arg(long)]
    file: Option<PathBuf>,
    #[command(flatten)]
    at: RepoArg,
    /// Show the summaries of the Scouts, the diagnosis, each edit and the output of the steps
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Write every event to stdout as one line of JSON, for programs
    #[arg(long)]
    pub(super) json: bool,
    /// Let this task change guarded paths that match the glob; may be repeated
    #[arg(long = "allow-path", value_name = "GLOB", value_parser = glob)]
    allow_path: Vec<String>,
    /// Maximum number of tokens, input and output of all roles together; then the task ends STUCK
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// Print a patch for `git apply` instead of changing the repository; nothing is verified
    #[arg(long, conflicts_with = "baseline")]
    pub(super) dry_run: bool,
    /// Also run the pipeline before the first edit, so that earlier failures are reported as such
    #[arg(long)]
    baseline: bool,
    /// Run the task in the background: print its id and return
    #[arg(long)]
    detach: bool,
}

impl Run {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let text = Source::of(self.text, self.file).read()?;
        let args = RunArgs {
            text,
            repo: self.at.repo,
            verbose: self.verbose,
            allow_paths: self.allow_path,
            max_tokens: self.max_tokens,
            errand: match self.dry_run {
                true => Errand::DryRun,
                false => Errand::Run { baseline: self.baseline },
            },
            script: None,
        };
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
