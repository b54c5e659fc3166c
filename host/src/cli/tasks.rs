//! `act status`, `act queue` and `act history`: lists of the tasks of a repository.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};
use unicode_width::UnicodeWidthStr;

use super::{CommonOptions, answer, block_on};
use crate::output::{Line, Output, Tone, from_here};
use act_core::Failure;
use act_core::exit::Exit;
use act_records::store::{Task, TaskState};
use act_task::{self as task, Attention, FollowedTask, Follower, Origin};

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
  act status --all                     with the worktrees of this repository
  act status --follow                  every task of yours, until Ctrl-C
  act status --follow --json           one document a line for each change";

/// Show the running, waiting and last task
///
/// With `--follow`, every task of yours that runs or waits in any repository has one line with its step, until Ctrl-C. On a
/// terminal the lines change in place.
#[derive(Debug, clap::Args)]
#[command(after_long_help = STATUS_HELP)]
pub(super) struct Status {
    /// Follow the tasks of every repository until Ctrl-C
    #[arg(long)]
    follow: bool,
    /// Also list the worktrees in which tasks of this repository work
    #[arg(long, conflicts_with = "follow")]
    all: bool,
    #[command(flatten)]
    common: CommonOptions,
}

impl Status {
    pub(super) fn catches_signals(&self) -> bool {
        self.follow
    }

    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        if self.follow {
            block_on(follow(&self.common.repo, output))??;
            return Ok(Exit::Ok);
        }
        let status = task::status(&self.common.repo, self.all)?;
        answer(output, &status, || status_lines(&status, output));
        Ok(Exit::Ok)
    }
}

/// Pause between two looks at the tasks: a person takes what is a fifth of a second old for new.
const LOOK: Duration = Duration::from_millis(200);

/// Shows the tasks until a signal, or until the reader of stdout has gone.
async fn follow(start: &Path, output: &Output) -> Result<(), Failure> {
    let cancel = task::cancelled_by_signals()?;
    let mut follower = Follower::open(start)?;
    let mut rows = output.rows();
    let mut printed = BTreeMap::new();
    let mut idle_said = false;
    while !cancel.is_cancelled() && !output.is_closed() {
        let changed = follower.look()?;
        let now = Utc::now();
        let columns = output.columns();
        for task in &changed {
            if output.is_json() {
                output.document(task);
                continue;
            }
            let ended = task.state.is_final();
            let line = followed_line(task, columns, None, output);
            match &rows {
                Some(rows) if ended => rows.print(&line),
                Some(_) => {}
                // A change that no column shows needs no line.
                None if printed.get(&task.task_id) == Some(&line) => {}
                None => output.result_line(&line),
            }
            match ended {
                true => drop(printed.remove(&task.task_id)),
                false => drop(printed.insert(task.task_id.clone(), line)),
            }
        }
        let is_idle = follower.tasks().next().is_none();
        if let Some(rows) = &mut rows {
            let lines =
                follower.tasks().map(|task| followed_line(task, columns, Some(now), output));
            let mut lines: Vec<_> = lines.collect();
            if is_idle {
                lines.push(Line::of(Tone::Faint, NOTHING));
            }
            rows.show(&lines);
        } else if is_idle && !output.is_json() && !std::mem::replace(&mut idle_said, true) {
            output.result_line(&Line::of(Tone::Faint, NOTHING));
        }
        idle_said &= is_idle;
        tokio::select! {
            () = cancel.cancelled() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
    if let Some(rows) = rows {
        drop(rows);
        // What was last on the screen stays readable above the prompt.
        for task in follower.tasks() {
            output.result_line(&followed_line(task, output.columns(), None, output));
        }
    }
    Ok(())
}

const NOTHING: &str = "No task runs or waits (Ctrl-C ends this)";

/// Columns of the attempt: `12/12`.
const ATTEMPT: usize = 5;
/// The least and the most columns of the name of the repository.
const NAME: std::ops::RangeInclusive<usize> = 6..=24;
/// Columns for id, attempt and what the task does, without the name of the repository.
const OTHERS: usize = 46;

/// Returns the row of a task: its id, the name of its repository, the attempt and what it does, cut to the columns. `now` is
/// there where the row changes in place, and then it says how long the step has been running.
fn followed_line(
    task: &FollowedTask,
    columns: usize,
    now: Option<DateTime<Utc>>,
    output: &Output,
) -> Line {
    let root = task.repo.root();
    let name = Path::new(root).file_name().unwrap_or(root.as_ref());
    let wide = columns.saturating_sub(OTHERS).clamp(*NAME.start(), *NAME.end());
    let name = output.cut(&name.to_string_lossy(), wide);
    let blanks = " ".repeat(wide.saturating_sub(name.width()));
    let attempt = match task.attempt {
        0 => String::new(),
        attempt => format!("{attempt}/{}", task.max_attempts),
    };
    let head = format!("{} {name}{blanks} {attempt:>ATTEMPT$} ", task.task_id);
    let room = columns.saturating_sub(head.width()).max(1);
    let (tone, what) = followed_work(task, now);
    Line::plain(head).and(tone, output.cut(&what, room))
}

/// Returns what a task does, or how it ended.
fn followed_work(task: &FollowedTask, now: Option<DateTime<Utc>>) -> (Tone, String) {
    let needs = task.needs.map(Attention::in_words);
    if task.state.is_final() {
        let why = task.reason.as_ref().map(|reason| format!(", {reason}")).unwrap_or_default();
        return (tone(task.state), format!("{}{why}", task.state.as_str()));
    }
    if let Some(needs) = needs {
        return (Tone::Caution, format!("NEEDS YOU: {needs}"));
    }
    match (task.owner, task.position, &task.step, &task.doing) {
        (Some("stalled"), ..) => (Tone::Caution, "its process is stopped".to_owned()),
        (_, Some(position), ..) => (Tone::Plain, format!("waits, place {position}")),
        (.., Some(step), _) => {
            let since = now.and_then(|now| {
                let began = DateTime::parse_from_rfc3339(&step.started_at).ok()?;
                (now - began.to_utc()).to_std().ok()
            });
            let since = since.map(|since| format!(", {}", brief(since.as_secs())));
            let last = step.last_ms.map(|last| format!(" ({} last time)", brief(last / 1000)));
            let text = [Some(step.name.clone()), since, last].into_iter().flatten().collect();
            (Tone::Strong, text)
        }
        (.., Some(doing)) => (Tone::Plain, doing.trim_end_matches('.').to_owned()),
        _ => (Tone::Plain, "begins".to_owned()),
    }
}

/// Returns a time in seconds, or from a hundred on in minutes.
fn brief(seconds: u64) -> String {
    match seconds {
        0..100 => format!("{seconds} s"),
        _ => format!("{} min {:02} s", seconds / 60, seconds % 60),
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
    if let Some(worktrees) = &status.worktrees {
        lines.push(line("Worktrees:", &format!(" {}", worktrees.len())));
        lines.extend(worktrees.iter().flat_map(|tree| super::worktrees::lines(tree, output)));
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
            lines.extend(
                history
                    .damaged
                    .iter()
                    .map(|task| Line::plain(format!("{}  damaged: {}", task.task_id, task.why))),
            );
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
    if let Some(worktree) = &task.worktree {
        lines.push(detail(&format!("in the worktree {}", worktree.path)));
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
    use act_core::Repo;

    fn task(state: TaskState) -> Task {
        Task {
            worktree: None,
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

    fn followed(change: impl Fn(&mut FollowedTask)) -> FollowedTask {
        let mut task = FollowedTask {
            task_id: "t-abc123".into(),
            repo: Repo { path: Some("/home/me/parser".into()), ..Repo::default() },
            worktree: None,
            state: TaskState::Running,
            position: None,
            doing: Some("Running verification...".into()),
            step: None,
            attempt: 2,
            max_attempts: 12,
            needs: None,
            owner: Some("runs"),
            cost_usd: None,
            reason: None,
            exit_code: None,
            run_id: None,
        };
        change(&mut task);
        task
    }

    fn step(name: &str) -> Option<act_task::FollowedStep> {
        let started_at = "2026-11-21T10:00:00.000Z".to_owned();
        Some(act_task::FollowedStep { name: name.into(), started_at, last_ms: Some(140_500) })
    }

    fn row(task: &FollowedTask, columns: usize, seconds: Option<i64>) -> String {
        let begun = DateTime::parse_from_rfc3339("2026-11-21T10:00:00.000Z").unwrap().to_utc();
        let now = seconds.map(|seconds| begun + chrono::TimeDelta::seconds(seconds));
        let output = Output::new(Style::default());
        let row = followed_line(task, columns, now, &output).render(false);
        row.trim_end_matches('\n').to_owned()
    }

    // CLI-75
    #[test]
    fn a_followed_task_is_one_row_that_says_what_it_does() {
        let tests = followed(|task| task.step = step("test"));
        assert_eq!(
            row(&tests, 80, Some(12)),
            "t-abc123 parser                    2/12 test, 12 s (2 min 20 s last time)"
        );
        assert_eq!(
            row(&tests, 60, None),
            "t-abc123 parser          2/12 test (2 min 20 s last time)"
        );
        for (task, what) in [
            (followed(|_| ()), "Running verification"),
            (followed(|task| task.owner = Some("stalled")), "its process is stopped"),
            (
                followed(|task| {
                    (task.step, task.needs) = (step("test"), Some(Attention::Permission))
                }),
                "NEEDS YOU: wants a permission",
            ),
            (
                followed(|task| {
                    (task.state, task.position) = (TaskState::Queued, Some(3));
                    task.attempt = 0;
                }),
                "waits, place 3",
            ),
            (
                followed(|task| {
                    (task.state, task.reason) = (TaskState::Stuck, Some("hard_stop".into()));
                    task.needs = Some(Attention::Stuck);
                }),
                "STUCK, hard_stop",
            ),
            (followed(|task| task.doing = None), "begins"),
        ] {
            let row = row(&task, 60, None);
            assert!(row.starts_with("t-abc123 parser ") && row.ends_with(what), "{row}");
        }
    }

    // CLI-75
    #[test]
    fn no_name_makes_a_row_longer_than_the_terminal_or_two_of_it() {
        let long = "a\u{1b}[2J name \n日本語".repeat(20);
        let task = followed(|task| {
            task.repo.path = Some(format!("/r/{long}"));
            task.step = step(&long);
        });
        for columns in [30, 60, 100, 200] {
            let row = row(&task, columns, Some(5));
            assert!(row.width() <= columns, "{columns}: {row}");
            assert!(!row.contains(['\n', '\u{1b}']), "{row:?}");
        }
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
