//! `act acp`: an agent of the Agent Client Protocol, for editors.

use std::path::PathBuf;
use std::sync::Arc;

use super::{block_on, secrets};
use act_acp::{Options, TasksOfThisUser};
use act_core::exit::Exit;
use act_core::{Failure, Usd};

const AFTER_HELP: &str = "\
Examples:
  act acp                        what an editor starts
  act acp --repo ~/src/parser    only for this repository
  act acp --max-cost 2.50        a task costs at most $2.50

An entry for Zed, in settings.json:
  \"agent_servers\": {\"act\": {\"type\": \"custom\", \"command\": \"act\",
                             \"args\": [\"acp\"]}}
README.md has those of other editors.

Exit codes:
  0 the editor has closed the stream, 1 refused";

/// Serve an editor over standard streams
///
/// An editor that speaks the Agent Client Protocol starts this command and runs tasks with it: a prompt is a task. The modes are
/// run, dry run and verify. The editor asks you before a task changes a guarded path, and before a proposal is applied. When the
/// editor goes away, its tasks are cancelled.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Acp {
    /// Serve this repository only; may be repeated. Default: every repository of yours that the editor opens
    #[arg(long, value_name = "DIR")]
    repo: Vec<PathBuf>,
    /// Token budget of each task, in place of the one in agent.yaml: input and output of all roles; when it is spent, the
    /// task ends STUCK
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// The most that each task may cost, in place of `limits.max_cost` in agent.yaml and config.toml: dollars for all requests;
    /// when they are spent, the task ends STUCK. Tasks are refused if the price of the model is not known
    #[arg(long, value_name = "USD", value_parser = super::run::dollars)]
    max_cost: Option<Usd>,
}

impl Acp {
    pub(super) fn run(self) -> Result<Exit, Failure> {
        let root = |directory: &PathBuf| {
            let found = act_config::find_root(directory)?;
            found.map(|root| root.path).ok_or_else(|| {
                let message = format!("there is no repository at {}", directory.display());
                Failure::refused("no_repository", message).hint("name a repository with --repo")
            })
        };
        let repositories = self.repo.iter().map(root).collect::<Result<_, Failure>>()?;
        let options = Options {
            repositories,
            max_tokens: self.max_tokens,
            max_cost: self.max_cost,
            secrets: secrets(),
            patience: None,
        };
        let streams = (Box::new(std::io::stdin()) as _, Box::new(std::io::stdout()) as _);
        block_on(act_acp::serve(streams, Arc::new(TasksOfThisUser), options))??;
        Ok(Exit::Ok)
    }
}
