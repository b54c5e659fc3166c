//! A task as `status`, `queue` and `history` tell it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{TaskRecord, TaskState};
use act_core::event::ModelUsage;
use act_core::process::Life;

/// The hard stop of the debug loop.
pub const MAX_ATTEMPTS: u32 = 12;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Task {
    pub task_id: String,
    pub state: TaskState,
    /// Among the waiting tasks of its repository, from 1; null unless QUEUED.
    pub position: Option<u32>,
    pub text: String,
    /// What it is at, in the words of the milestones; null unless RUNNING.
    pub phase: Option<String>,
    /// Verifications asked for so far; 0 before the first.
    pub attempt: u32,
    pub max_attempts: u32,
    pub replans: u32,
    /// Oldest first.
    pub run_ids: Vec<String>,
    /// ISO 8601 in UTC, to the millisecond, like the next two.
    pub submitted_at: String,
    pub started_at: Option<String>,
    pub finished_at: Option<String>,
    /// Of the process that ran it.
    pub exit_code: Option<u8>,
    /// A stable word for every end but SUCCESS.
    pub reason: Option<String>,
    /// Null once it has ended.
    pub owner_pid: Option<u32>,
    /// `runs`, `stalled` (stopped by a signal), `dead` or `unknown`; null once the task has ended.
    pub owner: Option<&'static str>,
    pub tokens: BTreeMap<String, ModelUsage>,
    /// Path of the repository's root.
    pub repo: String,
}

impl Task {
    pub fn of(record: TaskRecord, position: Option<u32>, life: Life) -> Self {
        let ended = record.state.is_final();
        Self {
            task_id: record.task_id,
            state: record.state,
            position: position.filter(|_| record.state == TaskState::Queued),
            text: record.text,
            phase: record.phase.filter(|_| record.state == TaskState::Running),
            attempt: record.attempt,
            max_attempts: MAX_ATTEMPTS,
            replans: record.replans,
            run_ids: record.run_ids,
            submitted_at: record.submitted_at,
            started_at: record.started_at,
            finished_at: record.finished_at,
            exit_code: record.exit_code,
            reason: record.reason,
            owner_pid: (!ended).then_some(record.owner.pid),
            owner: (!ended).then_some(match life {
                Life::Runs => "runs",
                Life::Stalled => "stalled",
                Life::Dead => "dead",
                Life::Unknown => "unknown",
            }),
            tokens: record.tokens,
            repo: record.root,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_of_a_task_is_published() {
        // EVENT-8
        schema::holds::<Task>("task");
    }
}
