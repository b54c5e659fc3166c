//! Whether the process that has a task lives, by everything that can be known about it.

use act_core::process::{self, Life, Process};
use act_records::artifacts::ArtifactDir;

pub(super) fn life(
    artifacts: &ArtifactDir,
    this: &Process,
    owner: &Process,
    task_id: &str,
) -> Life {
    match owner.life(this, process::look) {
        // Alive it would hold the task's journal, and locks are seen from every container of a machine.
        Life::Unknown if artifacts.is_left_alone(task_id) => Life::Dead,
        life => life,
    }
}
