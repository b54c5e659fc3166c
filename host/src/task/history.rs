//! Tasks of the past, the newest first: `act history`.

use std::path::Path;

use serde::Serialize;

use super::lookup::Lookup;
use act_core::Failure;
use act_records::store::{Task, TaskState};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct History {
    /// The newest first; those that wait or run as well.
    pub tasks: Vec<Task>,
    /// There are older ones, which `--limit` left out.
    pub more: bool,
}

/// Of the repository at `start`, or of `all`; at most `limit`.
pub fn history(start: &Path, all: bool, limit: u32) -> Result<History, Failure> {
    let lookup = Lookup::open(start)?;
    let repo = if all { None } else { Some(lookup.context()?.0.repo) };
    let mut tasks = vec![];
    let mut records = lookup.store.history(repo.as_deref(), limit.saturating_add(1))?;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = records.len() > most;
    records.truncate(most);
    for record in records {
        let position = match record.state {
            TaskState::Queued => position(&lookup, &record.repo, &record.task_id)?,
            _ => None,
        };
        tasks.push(lookup.show(record, position));
    }
    Ok(History { tasks, more })
}

/// Among those that wait in a repository, from 1.
fn position(lookup: &Lookup, repo: &str, task_id: &str) -> Result<Option<u32>, Failure> {
    let line = lookup.store.unfinished(Some(repo))?;
    let waiting = line.iter().filter(|place| place.state == TaskState::Queued);
    Ok((1..).zip(waiting).find(|(_, place)| place.task_id == task_id).map(|(at, _)| at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::holds::<History>("history");
    }
}
