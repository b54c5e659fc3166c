//! Who waits and who works in a repository, without what they were asked: looked at often.

use rusqlite::Row;

use super::record::owner;
use super::state::state;
use super::{Store, StoreError, TaskState};
use act_core::process::Process;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub task_id: String,
    /// QUEUED or RUNNING.
    pub state: TaskState,
    pub owner: Process,
}

impl Place {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { task_id: row.get("task_id")?, state: state(row)?, owner: owner(row)? })
    }
}

const SELECT: &str = "SELECT task_id, state, owner_pid, owner_start, owner_boot, owner_namespace \
    FROM tasks";

impl Store {
    /// Returns the tasks that wait or run, in every repository.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn unfinished(&self) -> Result<Vec<Place>, StoreError> {
        self.read(|db| {
            let mut all =
                db.prepare(&format!("{SELECT} WHERE state IN ('QUEUED', 'RUNNING') ORDER BY seq"))?;
            all.query_map([], Place::read)?.collect()
        })
    }

    /// In order of acceptance.
    pub fn line(&self, repo: &str) -> Result<Vec<Place>, StoreError> {
        self.read(|db| {
            let mut all = db.prepare(&format!(
                "{SELECT} WHERE repo = ?1 AND state IN ('QUEUED', 'RUNNING') ORDER BY seq"
            ))?;
            all.query_map([repo], Place::read)?.collect()
        })
    }
}
