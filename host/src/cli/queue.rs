//! `act queue`: the running and waiting tasks of a repository.

use super::repo_arg::RepoArg;
use super::task_line;
use crate::output::{Line, Output};
use crate::task;
use act_core::Failure;
use act_core::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  act queue
  act queue --repo ../other --json";

/// List the running task and the waiting tasks of a repository, in order
///
/// `act cancel --id` takes the number of a waiting task.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Queue {
    #[command(flatten)]
    at: RepoArg,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

impl Queue {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let queue = task::queue(&self.at.repo)?;
        if self.json {
            output.document(&queue);
        } else {
            lines(&queue, output).iter().for_each(|line| output.result_line(line));
        }
        Ok(Exit::Ok)
    }
}

fn lines(queue: &task::Queue, output: &Output) -> Vec<Line> {
    let running = queue.running.iter().map(|task| ("now".to_owned(), task));
    let waiting = queue.queued.iter().map(|task| {
        let position = task.position.unwrap_or_default();
        (format!("{position:>3}"), task)
    });
    let lines: Vec<_> = running
        .chain(waiting)
        .flat_map(|(title, task)| task_line::lines(&title, task, output))
        .collect();
    match lines.is_empty() {
        true => vec![Line::plain(format!("Nothing runs or waits in {}", queue.repo.root))],
        false => lines,
    }
}
