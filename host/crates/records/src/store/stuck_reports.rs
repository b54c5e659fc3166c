//! Stuck reports that this act wrote: what makes the file in a repository ours, and its runs worth keeping.

use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::record::{json, to_json};
use super::{Store, StoreError, Survives};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewStuckReport<'a> {
    pub task_id: &'a str,
    pub repo: &'a str,
    /// From the repository's root.
    pub path: &'a str,
    /// Of the file's bytes, in hex.
    pub sha256: &'a str,
    pub run_ids: &'a [String],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckReportRecord {
    pub task_id: String,
    pub repo: String,
    pub path: String,
    pub sha256: String,
    pub run_ids: Vec<String>,
    pub written_at: String,
    pub resolved_at: Option<String>,
}

impl StuckReportRecord {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            task_id: row.get("task_id")?,
            repo: row.get("repo")?,
            path: row.get("path")?,
            sha256: row.get("sha256")?,
            run_ids: json(row, "run_ids")?,
            written_at: row.get("written_at")?,
            resolved_at: row.get("resolved_at")?,
        })
    }
}

impl Store {
    /// Takes the place of the one before it, whose file it has overwritten.
    pub fn add_stuck_report(&self, report: &NewStuckReport<'_>) -> Result<(), StoreError> {
        let NewStuckReport { task_id, repo, path, sha256, run_ids } = report;
        self.write(Survives::Machine, |db| {
            let now = super::queue::now();
            db.execute(
                "UPDATE stuck_reports SET resolved_at = ?2 WHERE repo = ?1 AND resolved_at IS NULL",
                [repo, now.as_str()],
            )?;
            db.execute(
                "INSERT INTO stuck_reports (task_id, repo, path, sha256, run_ids, written_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![task_id, repo, path, sha256, to_json(run_ids), now],
            )?;
            Ok(())
        })
    }

    /// The last one of a repository, resolved or not.
    pub fn stuck_report(&self, repo: &str) -> Result<Option<StuckReportRecord>, StoreError> {
        self.read(|db| {
            let last = "SELECT * FROM stuck_reports WHERE repo = ?1 ORDER BY id DESC LIMIT 1";
            db.query_row(last, [repo], StuckReportRecord::read).optional()
        })
    }

    /// Of every repository: their runs are pinned.
    pub fn unresolved_stuck_reports(&self) -> Result<Vec<StuckReportRecord>, StoreError> {
        self.read(|db| {
            let mut all =
                db.prepare("SELECT * FROM stuck_reports WHERE resolved_at IS NULL ORDER BY id")?;
            all.query_map([], StuckReportRecord::read)?.collect()
        })
    }

    /// The path of a repository when a task was last submitted there.
    pub fn last_root(&self, repo: &str) -> Result<Option<String>, StoreError> {
        self.read(|db| {
            let last = "SELECT root FROM tasks WHERE repo = ?1 ORDER BY seq DESC LIMIT 1";
            db.query_row(last, [repo], |row| row.get(0)).optional()
        })
    }

    /// Whether there was one to resolve.
    pub fn resolve_stuck_report(&self, repo: &str) -> Result<bool, StoreError> {
        self.write(Survives::Machine, |db| {
            let resolve =
                "UPDATE stuck_reports SET resolved_at = ?2 WHERE repo = ?1 AND resolved_at IS NULL";
            Ok(db.execute(resolve, params![repo, super::queue::now()])? > 0)
        })
    }
}

/// Of the repository that a task worked in.
pub(super) fn resolve_of_task(db: &Transaction<'_>, task_id: &str) -> rusqlite::Result<()> {
    let resolve = "UPDATE stuck_reports SET resolved_at = ?2 WHERE resolved_at IS NULL \
        AND repo = (SELECT repo FROM tasks WHERE task_id = ?1)";
    db.execute(resolve, params![task_id, super::queue::now()])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::store;
    use super::*;

    fn report<'a>(task_id: &'a str, repo: &'a str, run_ids: &'a [String]) -> NewStuckReport<'a> {
        NewStuckReport { task_id, repo, path: "agent/stuck_report.md", sha256: "ab", run_ids }
    }

    #[test]
    fn a_repository_has_at_most_one_unresolved_report() {
        // STORE-8
        let place = store();
        let store = &place.store;
        let runs = ["run_a".to_owned(), "run_b".to_owned()];
        assert_eq!(store.stuck_report("r").unwrap(), None);
        store.add_stuck_report(&report("t-1", "r", &[])).unwrap();
        store.add_stuck_report(&report("t-2", "r", &runs)).unwrap();
        store.add_stuck_report(&report("t-3", "other", &[])).unwrap();
        let unresolved: Vec<_> = store
            .unresolved_stuck_reports()
            .unwrap()
            .into_iter()
            .map(|report| report.task_id)
            .collect();
        assert_eq!(unresolved, ["t-2", "t-3"]);
        let last = store.stuck_report("r").unwrap().unwrap();
        assert_eq!((last.run_ids.as_slice(), last.resolved_at), (&runs[..], None));
        assert!(store.resolve_stuck_report("r").unwrap());
        assert!(!store.resolve_stuck_report("r").unwrap());
        assert!(store.stuck_report("r").unwrap().unwrap().resolved_at.is_some());
    }

    #[test]
    fn a_success_in_the_repository_resolves_it_and_no_other_end_does() {
        // CONTEXT-12, STORE-8
        use super::super::TaskState;
        use super::super::testing::{process, submit};
        use act_core::Outcome;
        let place = store();
        let store = &place.store;
        store.add_stuck_report(&report("t-1", "r", &[])).unwrap();
        let ends = |task_id: &str, repo: &str, state: TaskState| {
            submit(store, repo, task_id, 1);
            store.start(task_id, &process(1)).unwrap();
            let how = Outcome::recorded(state, None).unwrap();
            assert!(store.end(task_id, &process(1), &how).unwrap());
            store.unresolved_stuck_reports().unwrap().len()
        };
        for (at, state) in TaskState::ALL.into_iter().filter(|state| state.is_final()).enumerate() {
            if state != TaskState::Success {
                assert_eq!(ends(&format!("t-r{at}"), "r", state), 1, "{state:?}");
            }
        }
        assert_eq!(ends("t-x", "other", TaskState::Success), 1, "of another repository");
        assert_eq!(ends("t-y", "r", TaskState::Success), 0);
    }
}
