//! How far a running task is; told often, so it survives the process and not the machine.

use std::collections::BTreeMap;

use rusqlite::params;

use super::record::to_json;
use super::{Store, StoreError, Survives};
use act_core::event::ModelUsage;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    pub phase: Option<String>,
    pub attempt: u32,
    pub replans: u32,
    pub tokens: BTreeMap<String, ModelUsage>,
}

impl Store {
    /// Also of a task that has just ended: its last figures.
    pub fn progress(&self, task_id: &str, so_far: &Progress) -> Result<(), StoreError> {
        let Progress { phase, attempt, replans, tokens } = so_far;
        self.write(Survives::Process, |db| {
            db.execute(
                "UPDATE tasks SET phase = ?2, attempt = ?3, replans = ?4, tokens = ?5 WHERE task_id = ?1",
                params![task_id, phase, attempt, replans, to_json(tokens)],
            )?;
            Ok(())
        })
    }
}
