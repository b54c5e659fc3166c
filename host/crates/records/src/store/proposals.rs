//! Proposals of dry runs: what makes a file in `state/proposals/` ours, and what became of it.

use rusqlite::{OptionalExtension, Row, params};

use super::{Store, StoreError, Survives};

/// What became of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProposalState {
    Open,
    /// Its files were being written. A process that died left it so.
    Applying,
    Applied,
    /// Its file is gone.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposalRecord {
    /// Of the dry run.
    pub task_id: String,
    /// Identity of the repository's root.
    pub repo: String,
    /// Of the file's bytes, in hex.
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
            // A word of nobody's is no proposal that could be applied.
            state: state.unwrap_or(ProposalState::Removed),
            written_at: row.get("written_at")?,
            applied_by: row.get("applied_by")?,
        })
    }
}

impl Store {
    pub fn add_proposal(&self, task_id: &str, repo: &str, sha256: &str) -> Result<(), StoreError> {
        self.write(Survives::Machine, |db| {
            db.execute(
                "INSERT INTO proposals (task_id, repo, sha256, state, written_at) \
                 VALUES (?1, ?2, ?3, 'OPEN', ?4)",
                params![task_id, repo, sha256, super::queue::now()],
            )?;
            Ok(())
        })
    }

    pub fn proposal(&self, task_id: &str) -> Result<Option<ProposalRecord>, StoreError> {
        self.read(|db| {
            let one = "SELECT * FROM proposals WHERE task_id = ?1";
            db.query_row(one, [task_id], ProposalRecord::read).optional()
        })
    }

    /// Of a repository, the newest first.
    pub fn proposals(&self, repo: &str) -> Result<Vec<ProposalRecord>, StoreError> {
        self.read(|db| {
            let mut all = db.prepare(
                "SELECT * FROM proposals WHERE repo = ?1 ORDER BY written_at DESC, rowid DESC",
            )?;
            all.query_map([repo], ProposalRecord::read)?.collect()
        })
    }

    /// Those that somebody began to apply who died on the way, the newest first; a green task in the repository since
    /// then makes it a matter of the past.
    pub fn half_applied(&self, repo: &str) -> Result<Vec<ProposalRecord>, StoreError> {
        self.read(|db| {
            let mut all = db.prepare(
                "SELECT * FROM proposals WHERE repo = ?1 AND state = 'APPLYING' AND NOT EXISTS ( \
                 SELECT 1 FROM tasks WHERE tasks.repo = ?1 AND tasks.state = 'SUCCESS' AND tasks.seq > \
                 (SELECT seq FROM tasks WHERE task_id = proposals.applied_by)) \
                 ORDER BY written_at DESC, rowid DESC",
            )?;
            all.query_map([repo], ProposalRecord::read)?.collect()
        })
    }

    /// Of every repository, those with a file, but for the newest.
    pub fn old_proposals(&self, kept: u32) -> Result<Vec<ProposalRecord>, StoreError> {
        self.read(|db| {
            let mut all = db.prepare(
                "SELECT * FROM proposals WHERE state != 'REMOVED' \
                 ORDER BY written_at DESC, rowid DESC LIMIT -1 OFFSET ?1",
            )?;
            all.query_map([kept], ProposalRecord::read)?.collect()
        })
    }

    /// Durable when this returns. `by` is the task that applies it, if it is being applied.
    pub fn set_proposal(
        &self,
        task_id: &str,
        state: ProposalState,
        by: Option<&str>,
    ) -> Result<(), StoreError> {
        self.write(Survives::Machine, |db| {
            db.execute(
                "UPDATE proposals SET state = ?2, applied_by = ?3 WHERE task_id = ?1",
                params![task_id, state.as_str(), by],
            )?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::TaskState;
    use super::super::testing::{process, store, submit};
    use super::*;
    use act_core::Outcome;

    #[test]
    fn a_proposal_is_known_by_its_task_and_digest_until_it_is_removed() {
        // STORE-20
        let place = store();
        let store = &place.store;
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
    fn half_of_a_proposal_is_told_until_a_later_task_is_green_and_not_again() {
        // TASK-43
        let place = store();
        let store = &place.store;
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
