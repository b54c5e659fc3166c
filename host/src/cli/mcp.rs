//! `act mcp`: serves other agents over the Model Context Protocol.

use std::path::PathBuf;

use crate::mcp::{self, Allowed};
use crate::output::Output;
use act_core::exit::Exit;
use act_core::{Failure, Usd};

/// Repositories of one server. A client gets the list with some errors.
const MAX_REPOS: usize = 32;

const AFTER_HELP: &str = "\
Examples:
  act mcp                                      in the working directory
  act mcp --repo ~/a --repo ~/b
  act mcp --tools all --max-cost 2.50 --max-tasks 5
  claude mcp add act -- act mcp
  codex mcp add act -- act mcp

Exit codes:
  0 the client has closed the connection, 1 refused";

/// Serve the gate to another agent (MCP, stdio)
///
/// The tools are verify, status, logs, report, claim and cancel; with `--tools all` also run, dry_run and apply. A client
/// reaches the named repositories alone and can only lower the budgets. No tool approves or configures anything. What the
/// server has begun is cancelled when the client closes the connection.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Mcp {
    /// Repository of the server; may be repeated. Default: the working directory
    #[arg(long, value_name = "DIR")]
    repo: Vec<PathBuf>,
    /// Which tools a client gets: verify, or all, which lets it run tasks
    #[arg(long, value_name = "TOOLS", value_enum, default_value_t)]
    tools: Tools,
    /// With `--tools all`: token budget of each task, which a call may only lower. Default: the limit in force
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// With `--tools all`: the most that each task may cost, in dollars, which a call may only lower. Default: the limit in
    /// force. Tasks are refused if the price of the model is not known
    #[arg(long, value_name = "USD", value_parser = super::run::dollars)]
    max_cost: Option<Usd>,
    /// With `--tools all`: number of tasks, dry runs and applications that the server starts in all
    #[arg(long, value_name = "N", default_value_t = 20)]
    max_tasks: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Tools {
    #[default]
    Verify,
    All,
}

impl Mcp {
    pub(super) fn run(self, _output: &Output) -> Result<Exit, Failure> {
        let Self { mut repo, tools, max_tokens, max_cost, max_tasks } = self;
        if repo.is_empty() {
            repo.push(PathBuf::from("."));
        }
        if repo.len() > MAX_REPOS {
            return Err(Failure::usage(format!("more than {MAX_REPOS} repositories")));
        }
        let tasks = tools == Tools::All;
        let allowed = Allowed { repos: repo, tasks, max_tokens, max_cost, max_tasks };
        // One thread: the server waits for processes, and these end with the thread that started them.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(
            |error| {
                Failure::refused(
                    "no_runtime",
                    format!("failed to start the async runtime: {error}"),
                )
            },
        )?;
        let served = runtime.block_on(mcp::serve(allowed));
        // A thread that waits for stdin must not keep the process alive.
        runtime.shutdown_background();
        served.map(|()| Exit::Ok)
    }
}
