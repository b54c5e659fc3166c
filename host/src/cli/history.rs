//! `act history`: the tasks of a repository, newest first.

use super::repo_arg::RepoArg;
use super::task_line;
use crate::output::{Line, Output, Tone};
use crate::task;
use act_core::Failure;
use act_core::exit::Exit;
use act_records::store::Task;

const AFTER_HELP: &str = "\
Examples:
  act history
  act history --all --limit 100 --json";

/// List the tasks of a repository, newest first
///
/// Waiting and running tasks are included. Each task is shown with its last run; `act logs` prints the log of a run.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct History {
    /// List the tasks of every repository, not only of this one
    #[arg(long)]
    all: bool,
    /// Maximum number of tasks to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    at: RepoArg,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

impl History {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let history = task::history(&self.at.repo, self.all, self.limit)?;
        if self.json {
            output.document(&history);
        } else {
            let lines = history.tasks.iter().flat_map(|task| lines(task, self.all, output));
            lines.for_each(|line| output.result_line(&line));
            if history.more {
                let left_out = "Older tasks are not listed; --limit shows more";
                output.result_line(&Line::of(Tone::Faint, left_out));
            }
            if history.tasks.is_empty() {
                output.result_line(&Line::plain("There are no tasks in this repository yet"));
            }
        }
        Ok(Exit::Ok)
    }
}

/// As `act queue` shows it, then where it was, if that is not here, and its last run.
fn lines(task: &Task, all: bool, output: &Output) -> Vec<Line> {
    let mut lines = task_line::lines("", task, output).to_vec();
    if all {
        lines.push(task_line::detail(&format!("in {}", task.repo)));
    }
    let runs = task.run_ids.len();
    lines.extend(task.run_ids.last().map(|last| match runs {
        1 => task_line::detail(last),
        _ => task_line::detail(&format!("{last}, the last of {runs}")),
    }));
    lines
}
