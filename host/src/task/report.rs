//! The stuck report of a repository, shown and resolved: `act report`.

use std::path::Path;

use serde::Serialize;

use super::earlier_report::{self, Found};
use super::lookup::Lookup;
use super::status::Origin;
use act_core::Failure;

/// What stands in `agent/stuck_report.md`, and whose it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// From the repository's root.
    pub path: String,
    /// Null for a foreign one, like `written_at`.
    pub task_id: Option<String>,
    pub origin: Origin,
    pub resolved: bool,
    /// ISO 8601 in UTC, to the millisecond.
    pub written_at: Option<String>,
    /// Of an own one; kept as long as it is unresolved.
    pub run_ids: Vec<String>,
    /// Null when it is no regular file.
    pub text: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Resolved {
    /// Whose report it was.
    pub task_id: String,
    /// No longer kept for it.
    pub run_ids: Vec<String>,
}

pub fn report(start: &Path) -> Result<Report, Failure> {
    let lookup = Lookup::open(start)?;
    let (context, root) = lookup.context()?;
    let Some(found) = earlier_report::find(&lookup.store, &context.repo, root)? else {
        let none = Failure::refused("no_report", "there is no stuck report in this repository");
        let record = lookup.store.stuck_report(&context.repo)?;
        return Err(match record.filter(|record| record.resolved_at.is_none()) {
            None => none.hint("`act history` says how the tasks here ended"),
            Some(record) => none.hint(format!(
                "the file of {} is gone; `act report --resolve` lets go of its runs",
                record.task_id
            )),
        });
    };
    let Found { note, run_ids, written_at, text } = found;
    Ok(Report {
        path: note.path,
        task_id: note.task_id,
        origin: note.origin,
        resolved: note.resolved,
        written_at,
        run_ids,
        text,
    })
}

/// By the record alone: the file may be gone or changed.
pub fn resolve_report(start: &Path) -> Result<Resolved, Failure> {
    let lookup = Lookup::open(start)?;
    let (context, root) = lookup.context()?;
    let record = lookup.store.stuck_report(&context.repo)?;
    let resolved = lookup.store.resolve_stuck_report(&context.repo)?;
    if let Some(record) = record.filter(|_| resolved) {
        return Ok(Resolved { task_id: record.task_id, run_ids: record.run_ids });
    }
    let nothing = Failure::refused("no_report", "no unresolved stuck report in this repository");
    Err(match earlier_report::find(&lookup.store, &context.repo, root)? {
        Some(Found { note, .. }) if note.origin == Origin::Foreign => {
            nothing.hint(format!("{} is foreign: it starts nothing and keeps nothing", note.path))
        }
        _ => nothing.hint("the next task here begins without one"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schemas_are_published() {
        // EVENT-8
        schema::holds::<Report>("report");
        schema::holds::<Resolved>("report-resolved");
    }
}
