//! One task as lines for people; `status`, `queue` and `history` share them.

use crate::output::{Line, Output, Tone};
use act_records::store::{Task, TaskState};

/// Columns before the text of a task.
const INDENT: &str = "  ";

/// Id, state and how far it is, then the beginning of its text.
pub(super) fn lines(title: &str, task: &Task, output: &Output) -> [Line; 2] {
    let gap = if title.is_empty() { "" } else { " " };
    let head = Line::of(Tone::Strong, title).and(Tone::Plain, format!("{gap}{}", task.task_id));
    let head = head.and(tone(task.state), format!(" {}", task.state.as_str()));
    let head = head.and(Tone::Plain, how(task)).and(Tone::Caution, output.told(&owner(task)));
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
        Some("dead") => ", its process has died; the next act here cancels it".to_owned(),
        Some("unknown") => format!(", process {pid} of another container or machine"),
        _ => String::new(),
    }
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
            submitted_at: "2026-11-21T10:00:00.000Z".into(),
            started_at: None,
            finished_at: None,
            exit_code: None,
            reason: None,
            owner_pid: Some(7),
            owner: Some("runs"),
            tokens: Default::default(),
            repo: "/r".into(),
        }
    }

    fn text(task: &Task) -> String {
        let output = Output::new(Style::default());
        lines("now", task, &output).iter().map(|line| line.render(false)).collect()
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
