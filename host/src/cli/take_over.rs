//! The process that `act run --detach` leaves behind; nobody types this.

use super::repo_arg::RepoArg;
use super::runtime;
use crate::output::Output;
use crate::task;
use act_core::Failure;
use act_core::exit::Exit;

/// Run a task that another process has accepted
#[derive(Debug, clap::Args)]
pub(super) struct TakeOver {
    task_id: String,
    #[arg(long, value_name = "PID")]
    from: u32,
    #[command(flatten)]
    at: RepoArg,
}

impl TakeOver {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let Self { task_id, from, at: RepoArg { repo } } = self;
        runtime::block_on(task::take_over(task::TakeOver { task_id, from, repo }, output))?
    }
}
