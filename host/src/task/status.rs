//! What goes on in a repository: `act status` and `act queue`.

use std::path::Path;

use serde::Serialize;

use super::earlier_report;
use super::lookup::Lookup;
use act_core::Failure;
use act_records::store::Task;
use act_workspace::NotesDir;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Repo {
    pub root: String,
    /// Equal for every path that means this directory.
    pub identity: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Status {
    pub repo: Repo,
    pub running: Option<Task>,
    /// How many wait.
    pub queued: usize,
    /// The one that ended last.
    pub last: Option<Task>,
    pub stuck_report: Option<StuckReportNote>,
    /// The directory of act's notes, from the repository's root; null when `agent/` and `.act/` are both the user's.
    pub notes_dir: Option<String>,
    /// Dry runs whose proposals stand in the tree in part: whoever wrote them died on the way. Left out where there
    /// are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub half_applied: Vec<String>,
}

/// The stuck report of a repository.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StuckReportNote {
    /// From the repository's root.
    pub path: String,
    pub task_id: Option<String>,
    pub origin: Origin,
    pub resolved: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Written by an act with this ARTIFACT_DIR.
    Own,
    /// Came with the repository, or was changed since.
    Foreign,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Queue {
    pub repo: Repo,
    pub running: Option<Task>,
    /// In the order in which they will start.
    pub queued: Vec<Task>,
}

pub fn status(start: &Path) -> Result<Status, Failure> {
    let lookup = Lookup::open(start)?;
    let (context, root) = lookup.context()?;
    // Before the line is looked at: one that begins in between is not taken for dead.
    let half_applied = context.store.half_applied(&context.repo)?.into_iter();
    let (running, queued) = lookup.line(&context.repo)?;
    let last = lookup.store.last_ended(&context.repo)?.map(|record| lookup.show(record, None));
    let found = earlier_report::find(&lookup.store, &context.repo, root)?;
    let stuck_report = found.map(|found| found.note);
    let notes_dir = NotesDir::name_in(root).ok().map(str::to_owned);
    // One of a task that runs is being written.
    let dead = |by: Option<&str>| by != running.as_ref().map(|task| task.task_id.as_str());
    let half_applied = half_applied.filter(|record| dead(record.applied_by.as_deref()));
    let half_applied = half_applied.map(|record| record.task_id).collect();
    let repo = Repo { root: root.display().to_string(), identity: context.repo };
    let queued = queued.len();
    Ok(Status { repo, running, queued, last, stuck_report, notes_dir, half_applied })
}

pub fn queue(start: &Path) -> Result<Queue, Failure> {
    let lookup = Lookup::open(start)?;
    let (context, root) = lookup.context()?;
    let (running, queued) = lookup.line(&context.repo)?;
    let repo = Repo { root: root.display().to_string(), identity: context.repo };
    Ok(Queue { repo, running, queued })
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schemas_are_published() {
        // EVENT-8
        schema::holds::<Status>("status");
        schema::holds::<Queue>("queue");
    }
}
