//! One task as lines for people; `status`, `queue` and `history` share them.

use crate::output::{Line, Output, Tone};
use crate::store::{Task, TaskState};

/// Columns before the text of a task.
const INDENT: &str = "  ";

/// Id, state and how far it is, then the beginning of its text.
pub(super) fn lines(title: &str, task: &Task, output: &Output) -> [Line; 2] {
    let gap = if title.is_empty() { "" } else { " " };
    let head = Line::of(Tone::Strong, title).and(Tone::Plain, format!("{gap}{}", task.task_id));
    let head = head.and(tone(task.state), format!(" {}", task.state.as_str()));
    let head = head.and(Tone::Plain, how(task)).and(Tone::Caution, owner(task));
    let text = output.excerpt(&task.text, INDENT.len());
    [head, Line::of(Tone::Faint, format!("{INDENT}{text}"))]
}

/// One more line about it.
pub(super) fn detail(text: &str) -> Line {
    Line::plain(format!("{INDENT}{text}"))
}

fn tone(state: TaskState) -> Tone {
    match state {
        TaskState::Success | TaskState::Proposed => Tone::Good,
        TaskState::Stuck | TaskState::InfraError | TaskState::Refused => Tone::Bad,
        TaskState::Queued | TaskState::Running | TaskState::Cancelled => Tone::Plain,
    }
}

/// What is worth knowing in this state.
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

/// A process that does not go on by itself.
fn owner(task: &Task) -> String {
    let pid = task.owner_pid.unwrap_or_default();
    match task.owner {
        Some("stalled") => format!(", process {pid} is stopped"),
        Some("dead") => ", its process is gone; the next act here runs it".to_owned(),
        Some("unknown") => format!(", process {pid} of another container or machine"),
        _ => String::new(),
    }
}
