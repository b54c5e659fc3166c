//! Which ends of tasks somebody still has to look at.

use act_core::TaskState;
use rusqlite::params;

use super::{Result, Store, TaskRecord};

impl Store {
    /// Returns whether nobody has to look at the end of a task any more. A task that waits or runs has no end to look at, and a
    /// success or a cancelled task needs nobody.
    ///
    /// - STUCK and INFRA_ERROR: its stuck report is resolved. Without a report of its own: a later task of the repository came to
    ///   one of these two ends or to a success.
    /// - PROPOSED: its proposal was applied or removed, a later dry run of the repository has proposed something, or a later
    ///   task there succeeded.
    /// - REFUSED: a later task of the repository was accepted.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn is_settled(&self, task: &TaskRecord) -> Result<bool> {
        let TaskRecord { task_id, repo, seq, state, .. } = task;
        let later = |condition: &str| {
            let query = format!(
                "SELECT EXISTS (SELECT 1 FROM tasks WHERE repo = ?1 AND seq > ?2 AND {condition})"
            );
            let found: Option<bool> = self.one(&query, params![repo, seq], |row| row.get(0))?;
            Ok(found.unwrap_or_default())
        };
        match state {
            TaskState::Stuck | TaskState::InfraError => {
                let query = "SELECT resolved_at IS NOT NULL FROM stuck_reports WHERE task_id = ?1 \
                             ORDER BY id DESC LIMIT 1";
                let resolved: Option<bool> = self.one(query, [task_id], |row| row.get(0))?;
                match resolved {
                    Some(resolved) => Ok(resolved),
                    None => later("state IN ('SUCCESS', 'STUCK', 'INFRA_ERROR')"),
                }
            }
            TaskState::Proposed => {
                let query =
                    "SELECT 1 FROM proposals WHERE task_id = ?1 AND state IN ('OPEN', 'APPLYING')";
                let open: Option<bool> = self.one(query, [task_id], |row| row.get(0))?;
                Ok(open.is_none() || later("state IN ('SUCCESS', 'PROPOSED')")?)
            }
            TaskState::Refused => later("TRUE"),
            TaskState::Success | TaskState::Cancelled | TaskState::Queued | TaskState::Running => {
                Ok(true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use act_core::Outcome;

    use super::super::testing::{process, store, submit};
    use super::super::{NewStuckReport, ProposalState};
    use super::*;

    /// Ends a task of the repository `repo`.
    fn end(store: &Store, repo: &str, task_id: &str, state: TaskState) {
        submit(store, repo, task_id, 1);
        store.start(task_id, &process(1)).unwrap();
        let how = Outcome::recorded(state, Some("x".into())).unwrap();
        assert!(store.end(task_id, &process(1), &how).unwrap());
    }

    fn settled(store: &Store, task_id: &str) -> bool {
        store.is_settled(&store.task(task_id).unwrap().unwrap()).unwrap()
    }

    // NOTIFY-1
    #[test]
    fn a_stuck_task_is_settled_with_its_report_and_one_without_a_report_by_a_later_end() {
        let store = &store();
        end(store, "r", "t-1", TaskState::Stuck);
        let report = |task_id| NewStuckReport {
            task_id,
            repo: "r",
            path: "agent/stuck_report.md",
            sha256: "ab",
            run_ids: &[],
        };
        store.add_stuck_report(&report("t-1")).unwrap();
        end(store, "r", "t-2", TaskState::InfraError);
        end(store, "other", "t-3", TaskState::Success);
        end(store, "r", "t-4", TaskState::Cancelled);
        end(store, "r", "t-5", TaskState::Proposed);
        assert!(!settled(store, "t-1") && !settled(store, "t-2"));
        assert!(settled(store, "t-3") && settled(store, "t-4"));
        assert!(store.resolve_stuck_report("r").unwrap());
        assert!(settled(store, "t-1") && !settled(store, "t-2"), "the second has no report");
        end(store, "r", "t-6", TaskState::Stuck);
        assert!(settled(store, "t-2") && !settled(store, "t-6"));
        store.add_stuck_report(&report("t-6")).unwrap();
        end(store, "r", "t-7", TaskState::Success);
        assert!(settled(store, "t-6"));
    }

    // NOTIFY-1
    #[test]
    fn a_proposal_waits_until_it_is_applied_removed_or_overtaken() {
        let store = &store();
        let propose = |repo, task_id| {
            end(store, repo, task_id, TaskState::Proposed);
            assert!(settled(store, task_id), "its proposal was not saved");
            store.add_proposal(task_id, repo, "ab").unwrap();
            assert!(!settled(store, task_id));
        };
        propose("r", "t-1");
        propose("other", "t-2");
        assert!(!settled(store, "t-1"));
        store.set_proposal("t-1", ProposalState::Applying, Some("t-9")).unwrap();
        assert!(!settled(store, "t-1"), "it is applied in part");
        store.set_proposal("t-1", ProposalState::Applied, Some("t-9")).unwrap();
        assert!(settled(store, "t-1"));
        propose("r", "t-3");
        propose("r", "t-4");
        assert!(settled(store, "t-3"));
        store.set_proposal("t-4", ProposalState::Removed, None).unwrap();
        assert!(settled(store, "t-4"));
        end(store, "other", "t-5", TaskState::Stuck);
        assert!(!settled(store, "t-2"));
        end(store, "other", "t-6", TaskState::Success);
        assert!(settled(store, "t-2"));
    }

    // NOTIFY-1
    #[test]
    fn a_refused_task_is_settled_by_the_next_one_that_is_accepted() {
        let store = &store();
        submit(store, "r", "t-1", 1);
        let how = Outcome::Refused { reason: "component_unapproved".into() };
        assert!(store.end("t-1", &process(1), &how).unwrap());
        submit(store, "other", "t-2", 1);
        assert!(!settled(store, "t-1"));
        submit(store, "r", "t-3", 1);
        assert!(settled(store, "t-1"));
    }
}
