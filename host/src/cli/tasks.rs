//! `act status`, `act queue` and `act history`: lists of the tasks of a repository.

use std::path::Path;

use super::{CommonOptions, answer};
use crate::output::{Line, Output, Tone, from_here};
use act_core::Failure;
use act_core::exit::Exit;
use act_records::store::{Task, TaskState};
use act_task::{self as task, Origin};

/// Columns before the text of a task.
const INDENT: &str = "  ";

/// Returns a line with id, state and progress of a task, and one with the beginning of its text.
fn task_lines(title: &str, task: &Task, output: &Output) -> [Line; 2] {
    let gap = if title.is_empty() { "" } else { " " };
    let head = Line::of(Tone::Strong, title).and(Tone::Plain, format!("{gap}{}", task.task_id));
    let head = head.and(tone(task.state), format!(" {}", task.state.as_str()));
    let head = head.and(Tone::Plain, how(task)).and(Tone::Caution, output.with_repo(&owner(task)));
    let text = output.excerpt(&task.text, INDENT.len());
    [head, Line::of(Tone::Faint, format!("{INDENT}{text}"))]
}

/// Returns one more line about a task.
fn detail(text: &str) -> Line {
    Line::plain(format!("{INDENT}{text}"))
}

fn tone(state: TaskState) -> Tone {
    match state {
        TaskState::Success | TaskState::Proposed => Tone::Good,
        TaskState::Stuck | TaskState::InfraError | TaskState::Refused => Tone::Bad,
        TaskState::Queued | TaskState::Running | TaskState::Cancelled => Tone::Plain,
    }
}

/// Returns reason, phase, attempt and time, as far as the state has them.
fn how(task: &Task) -> String {
    let mut how = String::new();
    if let Some(reason) = task.reason.as_ref().filter(|_| task.state.is_final()) {
        how.push_str(&format!(", {reason}"));
    }
    if let Some(phase) = &task.phase {
        how.push_str(&format!(", {}", phase.trim_end_matches('.')));
    }
    if task.attempt > 0 {
        how.push_str(&format!(", attempt {}/{}", task.attempt, task.max_attempts));
    }
    match (task.state, &task.started_at, &task.finished_at) {
        (TaskState::Queued, ..) => how.push_str(&format!(", since {}", task.submitted_at)),
        (TaskState::Running, Some(at), _) => how.push_str(&format!(", since {at}")),
        (_, _, Some(at)) => how.push_str(&format!(", {at}")),
        _ => {}
    }
    how
}

/// Returns a remark if the process of a task does not run.
fn owner(task: &Task) -> String {
    let pid = task.owner_pid.unwrap_or_default();
    match task.owner {
        Some("stalled") => format!(", process {pid} is stopped"),
        Some("dead") => ", its process has died; the next act here cancels it".to_owned(),
        Some("unknown") => format!(", process {pid} of another container or machine"),
        _ => String::new(),
    }
}

const STATUS_HELP: &str = "\
Examples:
  act status
  act status --json";

/// Show the running, waiting and last task
#[derive(Debug, clap::Args)]
#[command(after_long_help = STATUS_HELP)]
pub(super) struct Status {
    #[command(flatten)]
    common: CommonOptions,
}

impl Status {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let status = task::status(&self.common.repo)?;
        answer(output, &status, || status_lines(&status, output));
        Ok(Exit::Ok)
    }
}

fn status_lines(status: &task::Status, output: &Output) -> Vec<Line> {
    let line = |title: &str, text: &str| Line::of(Tone::Strong, title).and(Tone::Plain, text);
    let root = status.repo.root();
    let mut lines = vec![line("Repository:", &format!(" {root}"))];
    match &status.running {
        Some(task) => lines.extend(task_lines("Running:", task, output)),
        None => lines.push(line("Running:", " nothing")),
    }
    lines.push(line("Waiting:", &format!(" {}", status.queued_count)));
    if let Some(task) = &status.last {
        lines.extend(task_lines("Last:", task, output));
    }
    if let Some(report) = &status.stuck_report {
        let whose = match (report.origin, &report.task_id) {
            (Origin::Foreign, _) => ", not written by this act".to_owned(),
            (Origin::Own, Some(task_id)) => format!(" of {task_id}"),
            (Origin::Own, None) => String::new(),
        };
        let path = from_here(Path::new(root), &report.path);
        let resolved = if report.resolved { ", resolved" } else { "" };
        lines.push(line("Stuck report:", &format!(" {path}{whose}{resolved}")));
    }
    for task_id in &status.half_applied {
        let finish = format!("act apply {task_id}");
        let finish = output.command(&finish);
        lines.push(line(
            "Half applied:",
            &format!(" the proposal of {task_id}; `{finish}` finishes it"),
        ));
    }
    lines
}

const QUEUE_HELP: &str = "\
Examples:
  act queue
  act queue --repo ../other --json";

/// List the running and waiting tasks in order
///
/// `act cancel --id` takes the number of a waiting task.
#[derive(Debug, clap::Args)]
#[command(after_long_help = QUEUE_HELP)]
pub(super) struct Queue {
    #[command(flatten)]
    common: CommonOptions,
}

impl Queue {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let queue = task::queue(&self.common.repo)?;
        answer(output, &queue, || queue_lines(&queue, output));
        Ok(Exit::Ok)
    }
}

fn queue_lines(queue: &task::Queue, output: &Output) -> Vec<Line> {
    let running = queue.running.iter().map(|task| ("now".to_owned(), task));
    let waiting = queue.queued.iter().map(|task| {
        let position = task.position.unwrap_or_default();
        (format!("{position:>3}"), task)
    });
    let lines: Vec<_> =
        running.chain(waiting).flat_map(|(title, task)| task_lines(&title, task, output)).collect();
    match lines.is_empty() {
        true => {
            let root = queue.repo.root();
            vec![Line::plain(format!("Nothing runs or waits in {root}"))]
        }
        false => lines,
    }
}

const HISTORY_HELP: &str = "\
Examples:
  act history
  act history --all --limit 100 --json";

/// List the tasks of a repository, newest first
///
/// Waiting and running tasks are included. Each task is shown with its last run; `act logs` prints the log of a run.
#[derive(Debug, clap::Args)]
#[command(after_long_help = HISTORY_HELP)]
pub(super) struct History {
    /// List the tasks of every repository, not only of this one
    #[arg(long)]
    all: bool,
    /// Maximum number of tasks to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    common: CommonOptions,
}

impl History {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let history = task::history(&self.common.repo, self.all, self.limit)?;
        answer(output, &history, || {
            let lines = history.tasks.iter().flat_map(|task| history_lines(task, self.all, output));
            let mut lines: Vec<_> = lines.collect();
            if history.more {
                let left_out = "Older tasks are not listed; --limit shows more";
                lines.push(Line::of(Tone::Faint, left_out));
            }
            if lines.is_empty() {
                lines.push(Line::plain("There are no tasks in this repository yet"));
            }
            lines
        });
        Ok(Exit::Ok)
    }
}

/// Returns the lines of `act queue`, the repository if tasks of all repositories are listed, and the last run.
fn history_lines(task: &Task, all: bool, output: &Output) -> Vec<Line> {
    let mut lines = task_lines("", task, output).to_vec();
    if all {
        lines.extend(task.repo.path.as_ref().map(|root| detail(&format!("in {root}"))));
    }
    let runs = task.run_ids.len();
    lines.extend(task.run_ids.last().map(|last| {
        let warm = if task.warm_run_ids.contains(last) { " (warm)" } else { "" };
        match runs {
            1 => detail(&format!("{last}{warm}")),
            _ => detail(&format!("{last}{warm}, the last of {runs}")),
        }
    }));
    // A task that has sent no request has nothing to say about its cost.
    if !task.tokens.is_empty() {
        lines.push(detail(&format!("cost: {}", crate::output::cost(task.cost_usd))));
    }
    lines.extend(task.evidence.as_ref().map(|words| detail(&format!("tests: {words}"))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Style;

    fn task(state: TaskState) -> Task {
        Task {
            task_id: "t-abc123".into(),
            state,
            position: None,
            text: "fix\nthe parser".into(),
            phase: None,
            attempt: 0,
            max_attempts: 12,
            replans: 0,
            run_ids: vec![],
            warm_run_ids: vec![],
            evidence: None,
            submitted_at: "2026-11-21T10:00:00.000Z".into(),
            started_at: None,
            finished_at: None,
            exit_code: None,
            reason: None,
            owner_pid: Some(7),
            owner: Some("runs"),
            tokens: Default::default(),
            cost_usd: None,
            repo: Default::default(),
        }
    }

    fn text(task: &Task) -> String {
        let output = Output::new(Style::default());
        task_lines("now", task, &output).iter().map(|line| line.render(false)).collect()
    }

    #[test]
    fn a_task_is_two_lines_in_each_state() {
        // CLI-23, TASK-20
        let waits = task(TaskState::Queued);
        let said = "now t-abc123 QUEUED, since 2026-11-21T10:00:00.000Z\n  fix the parser\n";
        assert_eq!(text(&waits), said);
        let orphan = Task { owner: Some("dead"), ..waits };
        assert!(text(&orphan).contains(", its process has died; the next act here cancels it\n"));
        let runs = Task {
            phase: Some("Running verification...".into()),
            attempt: 2,
            started_at: Some("2026-11-21T10:01:00.000Z".into()),
            owner: Some("stalled"),
            ..task(TaskState::Running)
        };
        let said = "now t-abc123 RUNNING, Running verification, attempt 2/12, since \
                    2026-11-21T10:01:00.000Z, process 7 is stopped\n  fix the parser\n";
        assert_eq!(text(&runs), said);
        let ended = Task {
            reason: Some("interrupted".into()),
            finished_at: Some("2026-11-21T10:02:00.000Z".into()),
            owner: None,
            ..task(TaskState::InfraError)
        };
        let said =
            "now t-abc123 INFRA_ERROR, interrupted, 2026-11-21T10:02:00.000Z\n  fix the parser\n";
        assert_eq!(text(&ended), said);
    }
}
