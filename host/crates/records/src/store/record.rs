//! A task as it is kept: one row.

use std::collections::BTreeMap;

use rusqlite::Row;
use rusqlite::types::Type;
use serde::{Deserialize, Serialize};

use super::TaskState;
use super::state::state;
use act_core::event::ModelUsage;
use act_core::process::Process;

/// What `act run` was told beside the text, so that another process can run the task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flags {
    /// Globs of guarded paths that this task may change.
    pub allow_paths: Vec<String>,
    /// Tokens that all roles together may spend.
    pub max_tokens: Option<u64>,
    /// Ends with a proposal.
    pub dry_run: bool,
    /// Asks the pipeline before the first edit.
    pub baseline: bool,
    /// The dry run whose proposal it applies.
    pub apply: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TaskRecord {
    /// Order of acceptance, whatever clocks say.
    pub seq: i64,
    pub task_id: String,
    /// Identity of the repository's root directory.
    pub repo: String,
    /// Its path when the task was submitted; to show, never to open.
    pub root: String,
    pub text: String,
    pub flags: Flags,
    pub state: TaskState,
    pub phase: Option<String>,
    pub attempt: u32,
    pub replans: u32,
    pub submitted_at: String,
    pub started_at: Option<String>,
    pub finished_at: Option<String>,
    pub exit_code: Option<u8>,
    pub reason: Option<String>,
    /// The process that waits with it or runs it; of one that has ended, the last.
    pub owner: Process,
    pub tokens: BTreeMap<String, ModelUsage>,
    pub cancel_requested: bool,
    /// Its verifications, oldest first.
    pub run_ids: Vec<String>,
}

impl TaskRecord {
    /// To be followed by conditions on `tasks`.
    pub(super) const SELECT: &str = "SELECT *, (SELECT json_group_array(run_id) FROM \
        (SELECT run_id FROM runs WHERE runs.task_id = tasks.task_id ORDER BY rowid)) \
        AS run_ids FROM tasks";

    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get("seq")?,
            task_id: row.get("task_id")?,
            repo: row.get("repo")?,
            root: row.get("root")?,
            text: row.get("text")?,
            flags: json(row, "flags")?,
            state: state(row)?,
            phase: row.get("phase")?,
            attempt: row.get("attempt")?,
            replans: row.get("replans")?,
            submitted_at: row.get("submitted_at")?,
            started_at: row.get("started_at")?,
            finished_at: row.get("finished_at")?,
            exit_code: row.get("exit_code")?,
            reason: row.get("reason")?,
            owner: owner(row)?,
            tokens: json(row, "tokens")?,
            cancel_requested: row.get("cancel_requested")?,
            run_ids: json(row, "run_ids")?,
        })
    }
}

pub(super) fn owner(row: &Row<'_>) -> rusqlite::Result<Process> {
    Ok(Process {
        pid: row.get("owner_pid")?,
        start_time: row.get("owner_start")?,
        boot_id: row.get("owner_boot")?,
        pid_namespace: row.get("owner_namespace")?,
    })
}

pub(super) fn json<T: for<'a> Deserialize<'a>>(row: &Row<'_>, name: &str) -> rusqlite::Result<T> {
    let text: String = row.get(name)?;
    serde_json::from_str(&text).map_err(|error| {
        let column = row.as_ref().column_index(name).unwrap_or_default();
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    })
}

/// Types of ours, which always have a text.
pub(super) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
