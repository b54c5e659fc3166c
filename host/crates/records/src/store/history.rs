//! Tasks of the past.

use rusqlite::OptionalExtension;

use super::{Store, StoreError, TaskRecord};

impl Store {
    /// Of one repository or of all, the newest first, at most `limit`; those that wait or run as well.
    pub fn history(&self, repo: Option<&str>, limit: u32) -> Result<Vec<TaskRecord>, StoreError> {
        let select = TaskRecord::SELECT;
        self.read(|db| {
            let mut all = db.prepare(&format!(
                "{select} WHERE ?1 IS NULL OR repo = ?1 ORDER BY seq DESC LIMIT ?2"
            ))?;
            all.query_map((repo, limit), TaskRecord::read)?.collect()
        })
    }

    /// Returns the task of a repository that ended last. Tasks that ran ended in the order in which they were accepted,
    /// whatever clocks say; one whose process died while it waited counts only where there is no other.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn last_ended(&self, repo: &str) -> Result<Option<TaskRecord>, StoreError> {
        let select = TaskRecord::SELECT;
        self.read(|db| {
            let last = format!(
                "{select} WHERE repo = ?1 AND state NOT IN ('QUEUED', 'RUNNING') \
                 ORDER BY reason IS 'owner_died', seq DESC LIMIT 1"
            );
            db.query_row(&last, [repo], TaskRecord::read).optional()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::Progress;
    use super::super::testing::{process, store, submit};
    use act_core::Outcome;
    use act_core::event::ModelUsage;

    #[test]
    fn the_newest_is_first_and_says_how_far_it_came() {
        // TASK-26, STORE-5
        let place = store();
        let store = &place.store;
        for (task_id, repo) in [("t-1", "r"), ("t-2", "other"), ("t-3", "r")] {
            submit(store, repo, task_id, 1);
        }
        store.start("t-1", &process(1)).unwrap();
        store.run_started("run_a", Some("t-1"), "r", &process(1)).unwrap();
        store.run_started("run_b", Some("t-1"), "r", &process(1)).unwrap();
        store.run_finished("run_a", "FAIL", None).unwrap();
        let usage = ModelUsage { input: 3, cached: 2, output: 1 };
        let so_far = Progress {
            phase: Some("Implementing changes...".into()),
            attempt: 2,
            replans: 1,
            tokens: BTreeMap::from([("editor".to_owned(), usage)]),
        };
        store.progress("t-1", &so_far).unwrap();
        let names = |repo, limit| -> Vec<_> {
            let history = store.history(repo, limit).unwrap();
            history.into_iter().map(|task| task.task_id).collect()
        };
        assert_eq!(names(None, 10), ["t-3", "t-2", "t-1"]);
        assert_eq!(names(None, 1), ["t-3"]);
        assert_eq!(names(Some("r"), 10), ["t-3", "t-1"]);
        let task = store.task("t-1").unwrap().unwrap();
        assert_eq!((task.attempt, task.replans, task.phase), (2, 1, so_far.phase));
        assert_eq!(task.run_ids, ["run_a", "run_b"]);
        assert_eq!(task.tokens, so_far.tokens);
        let live: Vec<_> =
            store.unfinished_runs().unwrap().into_iter().map(|run| run.run_id).collect();
        assert_eq!(live, ["run_b"]);
        assert_eq!(store.last_ended("r").unwrap(), None);
        let how = Outcome::Success;
        store.end("t-1", &process(1), &how).unwrap();
        assert_eq!(store.last_ended("r").unwrap().unwrap().task_id, "t-1");
    }
}
