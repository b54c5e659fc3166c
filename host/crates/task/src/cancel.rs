//! Ends a task of another process: a waiting task is removed from the queue, a running one is asked to end.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Serialize;

use crate::status::Lookup;
use act_core::process::{self, Life};
use act_core::{Document, Failure};
use act_records::store::{TaskRecord, TaskState};

/// Longest time for the owner of a running task to end it; most of it is for a container that does not stop.
const MAX_WAIT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(10);

/// The task that is cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CancelTarget {
    /// The task that runs in the repository.
    Running,
    /// The position among those that wait in the repository, from 1.
    Position(u32),
    /// The id of a task of any repository.
    Id(String),
}

/// The document of `act cancel --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Cancellation {
    pub task_id: String,
    /// State of the task before the command.
    pub was: TaskState,
    /// False when the task was asked to end and has not ended yet.
    pub ended: bool,
}

impl Document for Cancellation {
    const NAME: &'static str = "cancel";
}

/// Ends a task of another process: a waiting one is removed from the queue, a running one is asked to end.
///
/// # Errors
///
/// There is no such task (`task_unknown` or its like), it has ended, or the store cannot be written.
pub fn cancel(which: &CancelTarget, start: &Path) -> Result<Cancellation, Failure> {
    cancel_in(&Lookup::open(start)?, which)
}

/// Ends a task like [`cancel`], in an ARTIFACT_DIR that is open.
pub(super) fn cancel_in(lookup: &Lookup, which: &CancelTarget) -> Result<Cancellation, Failure> {
    let mut record = find(lookup, which)?;
    if record.state == TaskState::Queued {
        if lookup.store.forget(&record.task_id)? {
            // A journal without a row is never read, so a failure does not matter.
            let _ = lookup.artifacts.remove_journal(&record.task_id);
            return Ok(Cancellation {
                task_id: record.task_id,
                was: TaskState::Queued,
                ended: true,
            });
        }
        // The task started in this moment.
        record = find(lookup, &CancelTarget::Id(record.task_id))?;
    }
    if record.state.is_final() || !lookup.store.request_cancel(&record.task_id)? {
        return Err(has_ended(&record));
    }
    wake(lookup, &record);
    let ended = wait(lookup, &record)?;
    Ok(Cancellation { task_id: record.task_id, was: TaskState::Running, ended })
}

/// Returns whether `act cancel` was called for a task of the repository at `start`. A process that runs several tasks finds out
/// by this that a signal is for one of them alone.
pub fn cancel_was_requested(start: &Path, task_id: &str) -> bool {
    let found = Lookup::open(start).and_then(|lookup| Ok(lookup.store.task(task_id)?));
    found.is_ok_and(|task| task.is_some_and(|task| task.cancel_requested))
}

fn find(lookup: &Lookup, which: &CancelTarget) -> Result<TaskRecord, Failure> {
    let none = |message: String| {
        Failure::refused("nothing_to_cancel", message)
            .hint("`act queue` shows what runs and what waits")
    };
    if let CancelTarget::Id(task_id) = which {
        let found = lookup.store.task(task_id)?;
        return found.ok_or_else(|| none(format!("there is no task {task_id}")));
    }
    let (context, root) = lookup.context()?;
    let line = lookup.store.unfinished_records(&context.repo)?;
    let in_state = |state| line.iter().filter(move |record| record.state == state).cloned();
    let waiting = in_state(TaskState::Queued).count();
    match which {
        CancelTarget::Position(at) => {
            let at = usize::try_from(*at).unwrap_or(usize::MAX);
            let found = in_state(TaskState::Queued).nth(at.saturating_sub(1));
            found.ok_or_else(|| {
                none(format!(
                    "no task waits at position {at} in {}; {waiting} wait",
                    root.display()
                ))
            })
        }
        _ => in_state(TaskState::Running)
            .next()
            .ok_or_else(|| none(format!("no task runs in {}; {waiting} wait", root.display()))),
    }
}

fn has_ended(record: &TaskRecord) -> Failure {
    let message = format!("{} has ended as {}", record.task_id, record.state.as_str());
    Failure::refused("nothing_to_cancel", message)
}

/// Signals the owner. It finds the request in the store anyway; the signal makes it faster.
fn wake(lookup: &Lookup, record: &TaskRecord) {
    let signals: &[Signal] = match record.owner.life(&lookup.this, process::look_up) {
        Life::Runs => &[Signal::TERM],
        // A stopped process cannot end, so it is continued as well.
        Life::Stalled => &[Signal::TERM, Signal::CONT],
        Life::Dead | Life::Unknown => &[],
    };
    for signal in signals {
        // A signal that cannot be sent is no error: the owner finds the request in its row.
        let _ = record.owner.send_signal(*signal);
    }
}

/// Waits for the end of the task. Returns false if that takes too long.
fn wait(lookup: &Lookup, record: &TaskRecord) -> Result<bool, Failure> {
    let start = Instant::now();
    while start.elapsed() < MAX_WAIT {
        lookup.record_dead_tasks(Some(&record.repo))?;
        match lookup.store.task(&record.task_id)? {
            Some(now) if now.state == TaskState::Cancelled => return Ok(true),
            Some(now) if now.state.is_final() => return Err(has_ended(&now)),
            // The task was removed before it started.
            None => return Ok(true),
            Some(_) => std::thread::sleep(POLL),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_of_a_cancellation_is_published() {
        // EVENT-8
        schema::document_holds::<Cancellation>();
    }
}
