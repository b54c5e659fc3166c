//! The files that tasks leave for their user, stuck reports and proposals. A digest in the store shows that a file was
//! written by `act`.

use rusqlite::{Row, Transaction, params};

use super::{Result, Store, Synchronous, json, now, to_json};

/// A stuck report that was just written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewStuckReport<'a> {
    pub task_id: &'a str,
    pub repo: &'a str,
    /// Path of the file, relative to the repository's root.
    pub path: &'a str,
    /// SHA-256 of the file's bytes, as hex.
    pub sha256: &'a str,
    pub run_ids: &'a [String],
}

/// The row of a stuck report.
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

const RESOLVE: &str =
    "UPDATE stuck_reports SET resolved_at = ?2 WHERE repo = ?1 AND resolved_at IS NULL";

impl Store {
    /// Stores a stuck report. It resolves the one before it, whose file it has overwritten.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn add_stuck_report(&self, report: &NewStuckReport<'_>) -> Result<()> {
        let NewStuckReport { task_id, repo, path, sha256, run_ids } = report;
        self.write(Synchronous::Full, |db| {
            let now = now();
            db.execute(RESOLVE, [repo, now.as_str()])?;
            db.execute(
                "INSERT INTO stuck_reports (task_id, repo, path, sha256, run_ids, written_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![task_id, repo, path, sha256, to_json(run_ids), now],
            )
        })?;
        Ok(())
    }

    /// Returns the last stuck report of a repository, resolved or not.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn stuck_report(&self, repo: &str) -> Result<Option<StuckReportRecord>> {
        let query = "SELECT * FROM stuck_reports WHERE repo = ?1 ORDER BY id DESC LIMIT 1";
        self.one(query, [repo], StuckReportRecord::read)
    }

    /// Returns the unresolved stuck reports of every repository. Their runs are not pruned.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn unresolved_stuck_reports(&self) -> Result<Vec<StuckReportRecord>> {
        let query = "SELECT * FROM stuck_reports WHERE resolved_at IS NULL ORDER BY id";
        self.all(query, [], StuckReportRecord::read)
    }

    /// Returns the newest unresolved reports of all repositories, at most `most`, the newest first.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn newest_unresolved_stuck_reports(&self, most: usize) -> Result<Vec<StuckReportRecord>> {
        let query =
            "SELECT * FROM stuck_reports WHERE resolved_at IS NULL ORDER BY id DESC LIMIT ?1";
        self.all(query, [i64::try_from(most).unwrap_or(i64::MAX)], StuckReportRecord::read)
    }

    /// Resolves the stuck report of a repository. Returns false when it has none.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn resolve_stuck_report(&self, repo: &str) -> Result<bool> {
        Ok(self.change(RESOLVE, params![repo, now()])? > 0)
    }
}

/// Resolves the stuck report of the repository that a task worked in.
pub(super) fn resolve_of_task(db: &Transaction<'_>, task_id: &str) -> rusqlite::Result<()> {
    let repo: String =
        db.query_row("SELECT repo FROM tasks WHERE task_id = ?1", [task_id], |row| row.get(0))?;
    db.execute(RESOLVE, params![repo, now()])?;
    Ok(())
}

/// The state of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProposalState {
    Open,
    /// Its files were being written. A process that died leaves this state.
    Applying,
    Applied,
    /// Its file was removed.
    Removed,
}

impl ProposalState {
    const ALL: [Self; 4] = [Self::Open, Self::Applying, Self::Applied, Self::Removed];

    fn as_str(self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::Applying => "APPLYING",
            Self::Applied => "APPLIED",
            Self::Removed => "REMOVED",
        }
    }
}

/// The row of a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposalRecord {
    /// The id of the dry run.
    pub task_id: String,
    /// Identity of the repository's root directory.
    pub repo: String,
    /// SHA-256 of the file's bytes, as hex.
    pub sha256: String,
    pub state: ProposalState,
    pub written_at: String,
    /// The task that applied it, or began to.
    pub applied_by: Option<String>,
}

impl ProposalRecord {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let word: String = row.get("state")?;
        let state = ProposalState::ALL.into_iter().find(|state| state.as_str() == word);
        Ok(Self {
            task_id: row.get("task_id")?,
            repo: row.get("repo")?,
            sha256: row.get("sha256")?,
            // A proposal in an unknown state cannot be applied.
            state: state.unwrap_or(ProposalState::Removed),
            written_at: row.get("written_at")?,
            applied_by: row.get("applied_by")?,
        })
    }
}

impl Store {
    /// Stores the open proposal of a dry run.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn add_proposal(&self, task_id: &str, repo: &str, sha256: &str) -> Result<()> {
        self.change(
            "INSERT INTO proposals (task_id, repo, sha256, state, written_at) VALUES (?1, ?2, ?3, 'OPEN', ?4)",
            params![task_id, repo, sha256, now()],
        )?;
        Ok(())
    }

    /// Returns the proposal of a dry run.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn proposal(&self, task_id: &str) -> Result<Option<ProposalRecord>> {
        let query = "SELECT * FROM proposals WHERE task_id = ?1";
        self.one(query, [task_id], ProposalRecord::read)
    }

    /// Returns the proposals of a repository, the newest first.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn proposals(&self, repo: &str) -> Result<Vec<ProposalRecord>> {
        let query = "SELECT * FROM proposals WHERE repo = ?1 ORDER BY written_at DESC, rowid DESC";
        self.all(query, [repo], ProposalRecord::read)
    }

    /// Returns the proposals of a repository whose application was interrupted, the newest first. A task that ended green
    /// there since then settles the matter.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn half_applied(&self, repo: &str) -> Result<Vec<ProposalRecord>> {
        let query = "SELECT * FROM proposals WHERE repo = ?1 AND state = 'APPLYING' AND NOT EXISTS ( \
                     SELECT 1 FROM tasks WHERE tasks.repo = ?1 AND tasks.state = 'SUCCESS' AND tasks.seq > \
                     (SELECT seq FROM tasks WHERE task_id = proposals.applied_by)) \
                     ORDER BY written_at DESC, rowid DESC";
        self.all(query, [repo], ProposalRecord::read)
    }

    /// Returns all proposals that have a file, in every repository, except the newest `count`.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn old_proposals(&self, count: u32) -> Result<Vec<ProposalRecord>> {
        let query = "SELECT * FROM proposals WHERE state != 'REMOVED' \
                     ORDER BY written_at DESC, rowid DESC LIMIT -1 OFFSET ?1";
        self.all(query, [count], ProposalRecord::read)
    }

    /// Stores that a task applies a proposal, synced. Returns false, and stores nothing, when the proposal was applied or
    /// removed before.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn begin_applying(&self, task_id: &str, by: &str) -> Result<bool> {
        let statement = "UPDATE proposals SET state = 'APPLYING', applied_by = ?2 \
                         WHERE task_id = ?1 AND state IN ('OPEN', 'APPLYING')";
        Ok(self.change(statement, params![task_id, by])? == 1)
    }

    /// Stores the state of a proposal, synced. `by` is the task that applies it, if one does.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn set_proposal(
        &self,
        task_id: &str,
        state: ProposalState,
        by: Option<&str>,
    ) -> Result<()> {
        let statement = "UPDATE proposals SET state = ?2, applied_by = ?3 WHERE task_id = ?1";
        self.change(statement, params![task_id, state.as_str(), by])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use act_core::Outcome;

    use super::super::TaskState;
    use super::super::testing::{process, store, submit};
    use super::*;

    fn report<'a>(task_id: &'a str, repo: &'a str, run_ids: &'a [String]) -> NewStuckReport<'a> {
        NewStuckReport { task_id, repo, path: "agent/stuck_report.md", sha256: "ab", run_ids }
    }

    #[test]
    fn a_repository_has_at_most_one_unresolved_report() {
        // STORE-8
        let store = &store();
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
        let newest = store.newest_unresolved_stuck_reports(1).unwrap();
        assert_eq!(newest.iter().map(|report| &*report.task_id).collect::<Vec<_>>(), ["t-3"]);
        let last = store.stuck_report("r").unwrap().unwrap();
        assert_eq!((last.run_ids.as_slice(), last.resolved_at), (&runs[..], None));
        assert!(store.resolve_stuck_report("r").unwrap());
        assert!(!store.resolve_stuck_report("r").unwrap());
        assert!(store.stuck_report("r").unwrap().unwrap().resolved_at.is_some());
    }

    #[test]
    fn resolving_the_report_of_one_repository_leaves_those_of_others() {
        // STORE-8, security line 325
        let store = &store();
        store.add_stuck_report(&report("t-1", "r", &[])).unwrap();
        store.add_stuck_report(&report("t-2", "other", &[])).unwrap();
        assert!(!store.resolve_stuck_report("none").unwrap());
        assert!(store.resolve_stuck_report("r").unwrap());
        let left = store.unresolved_stuck_reports().unwrap();
        assert_eq!(left.iter().map(|report| report.repo.as_str()).collect::<Vec<_>>(), ["other"]);
    }

    #[test]
    fn a_success_in_the_repository_resolves_it_and_no_other_end_does() {
        // CONTEXT-12, STORE-8
        let store = &store();
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

    #[test]
    fn a_proposal_is_known_by_its_task_and_digest_until_it_is_removed() {
        // STORE-20
        let store = &store();
        assert_eq!(store.proposal("t-1").unwrap(), None);
        store.add_proposal("t-1", "r", "ab").unwrap();
        store.add_proposal("t-2", "r", "cd").unwrap();
        store.add_proposal("t-3", "other", "ef").unwrap();
        let names = |records: Vec<ProposalRecord>| -> Vec<_> {
            records.into_iter().map(|record| record.task_id).collect()
        };
        assert_eq!(names(store.proposals("r").unwrap()), ["t-2", "t-1"]);
        store.set_proposal("t-1", ProposalState::Applying, Some("t-9")).unwrap();
        let first = store.proposal("t-1").unwrap().unwrap();
        assert_eq!(first.state, ProposalState::Applying);
        assert_eq!((first.sha256.as_str(), first.applied_by.as_deref()), ("ab", Some("t-9")));
        assert_eq!(names(store.old_proposals(1).unwrap()), ["t-2", "t-1"]);
        store.set_proposal("t-2", ProposalState::Removed, None).unwrap();
        assert_eq!(names(store.old_proposals(1).unwrap()), ["t-1"]);
    }

    #[test]
    fn only_a_proposal_that_is_there_can_be_applied() {
        // TASK-42
        let store = &store();
        assert!(!store.begin_applying("t-1", "t-9").unwrap());
        for (state, begins) in [
            (ProposalState::Open, true),
            (ProposalState::Applying, true),
            (ProposalState::Applied, false),
            (ProposalState::Removed, false),
        ] {
            let task_id = state.as_str();
            store.add_proposal(task_id, "r", "ab").unwrap();
            store.set_proposal(task_id, state, None).unwrap();
            assert_eq!(store.begin_applying(task_id, "t-9").unwrap(), begins, "{state:?}");
            let after = store.proposal(task_id).unwrap().unwrap();
            let expected = if begins { ProposalState::Applying } else { state };
            assert_eq!(after.state, expected);
            assert_eq!(after.applied_by.is_some(), begins);
        }
    }

    #[test]
    fn half_of_a_proposal_is_told_until_a_later_task_is_green_and_not_again() {
        // TASK-43
        let store = &store();
        store.add_proposal("t-1", "r", "ab").unwrap();
        let end = |task_id: &str, state| {
            submit(store, "r", task_id, 1);
            store.start(task_id, &process(1)).unwrap();
            let how = Outcome::recorded(state, None).unwrap();
            assert!(store.end(task_id, &process(1), &how).unwrap());
        };
        let told = || !store.half_applied("r").unwrap().is_empty();
        end("t-2", TaskState::Success);
        end("t-3", TaskState::InfraError);
        store.set_proposal("t-1", ProposalState::Applying, Some("t-3")).unwrap();
        assert!(told());
        end("t-4", TaskState::Stuck);
        assert!(told());
        end("t-5", TaskState::Success);
        assert!(!told());
        end("t-6", TaskState::Proposed);
        assert!(!told());
    }
}
