//! `act status`: the running task, waiting tasks and the last task of a repository.

use std::path::Path;

use super::repo_arg::RepoArg;
use super::task_line;
use crate::output::{Line, Output, Tone, from_here};
use crate::task::{self, Origin};
use act_core::Failure;
use act_core::exit::Exit;

const AFTER_HELP: &str = "\
Examples:
  act status
  act status --json";

/// Show the running task, waiting tasks and the last task of a repository
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Status {
    #[command(flatten)]
    at: RepoArg,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

impl Status {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let status = task::status(&self.at.repo)?;
        if self.json {
            output.document(&status);
        } else {
            lines(&status, output).iter().for_each(|line| output.result_line(line));
        }
        Ok(Exit::Ok)
    }
}

fn lines(status: &task::Status, output: &Output) -> Vec<Line> {
    let said = |title: &str, text: &str| Line::of(Tone::Strong, title).and(Tone::Plain, text);
    let mut lines = vec![said("Repository:", &format!(" {}", status.repo.root))];
    match &status.running {
        Some(task) => lines.extend(task_line::lines("Running:", task, output)),
        None => lines.push(said("Running:", " nothing")),
    }
    lines.push(said("Waiting:", &format!(" {}", status.queued)));
    if let Some(task) = &status.last {
        lines.extend(task_line::lines("Last:", task, output));
    }
    if let Some(report) = &status.stuck_report {
        let whose = match (report.origin, &report.task_id) {
            (Origin::Foreign, _) => ", not written by this act".to_owned(),
            (Origin::Own, Some(task_id)) => format!(" of {task_id}"),
            (Origin::Own, None) => String::new(),
        };
        let path = from_here(Path::new(&status.repo.root), &report.path);
        let resolved = if report.resolved { ", resolved" } else { "" };
        lines.push(said("Stuck report:", &format!(" {path}{whose}{resolved}")));
    }
    for task_id in &status.half_applied {
        let finish = format!("act apply {task_id}");
        let finish = output.command(&finish);
        lines.push(said(
            "Half applied:",
            &format!(" the proposal of {task_id}; `{finish}` finishes it"),
        ));
    }
    lines
}
