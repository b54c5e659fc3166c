//! Verifications, of tasks and of `act verify`: which run belongs to whom, and which are still at work.

use rusqlite::{OptionalExtension, Row, params};

use super::record::owner;
use super::{Store, StoreError, Survives};
use act_core::process::Process;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRecord {
    pub run_id: String,
    /// None of `act verify`.
    pub task_id: Option<String>,
    pub repo: String,
    /// `PASS`, `FAIL` or `INFRA_ERROR`; none while it runs, or when its process died.
    pub status: Option<String>,
    pub started_at: String,
    pub finished_at: Option<String>,
    /// Hash of the record of its end in the audit log; none where it has none, or of an earlier version.
    pub end_hash: Option<String>,
    pub owner: Process,
}

impl RunRecord {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            run_id: row.get("run_id")?,
            task_id: row.get("task_id")?,
            repo: row.get("repo")?,
            status: row.get("status")?,
            started_at: row.get("started_at")?,
            finished_at: row.get("finished_at")?,
            end_hash: row.get("end_hash")?,
            owner: owner(row)?,
        })
    }
}

impl Store {
    /// Known before its directory can be taken for an old one.
    pub fn run_started(
        &self,
        run_id: &str,
        task_id: Option<&str>,
        repo: &str,
        owner: &Process,
    ) -> Result<(), StoreError> {
        let Process { pid, start_time, boot_id, pid_namespace } = owner;
        self.write(Survives::Machine, |db| {
            db.execute(
                "INSERT INTO runs (run_id, task_id, repo, started_at, owner_pid, owner_start, owner_boot, \
                 owner_namespace) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![run_id, task_id, repo, super::queue::now(), pid, start_time, boot_id, pid_namespace],
            )?;
            Ok(())
        })
    }

    pub fn run_finished(
        &self,
        run_id: &str,
        status: &str,
        end_hash: Option<&str>,
    ) -> Result<(), StoreError> {
        self.write(Survives::Machine, |db| {
            db.execute(
                "UPDATE runs SET status = ?2, finished_at = ?3, end_hash = ?4 WHERE run_id = ?1",
                params![run_id, status, super::queue::now(), end_hash],
            )?;
            Ok(())
        })
    }

    pub fn run(&self, run_id: &str) -> Result<Option<RunRecord>, StoreError> {
        self.read(|db| {
            let one = "SELECT * FROM runs WHERE run_id = ?1";
            db.query_row(one, [run_id], RunRecord::read).optional()
        })
    }

    /// The newest of a repository, of a task or of `act verify`.
    pub fn last_run(&self, repo: &str) -> Result<Option<RunRecord>, StoreError> {
        self.read(|db| {
            let last = "SELECT * FROM runs WHERE repo = ?1 ORDER BY rowid DESC LIMIT 1";
            db.query_row(last, [repo], RunRecord::read).optional()
        })
    }

    /// Runs without an end; whether they live is for their owners to show.
    pub fn unfinished_runs(&self) -> Result<Vec<RunRecord>, StoreError> {
        self.read(|db| {
            let mut all =
                db.prepare("SELECT * FROM runs WHERE finished_at IS NULL ORDER BY rowid")?;
            all.query_map([], RunRecord::read)?.collect()
        })
    }

    pub fn runs_of(&self, task_id: &str) -> Result<Vec<RunRecord>, StoreError> {
        self.read(|db| {
            let mut all = db.prepare("SELECT * FROM runs WHERE task_id = ?1 ORDER BY rowid")?;
            all.query_map([task_id], RunRecord::read)?.collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{process, store};

    #[test]
    fn order_is_that_of_the_rows_whatever_the_clock_said() {
        // TASK-21, security line 137
        use super::super::testing::submit;
        use act_core::Outcome;
        let place = store();
        let store = &place.store;
        for task_id in ["t-1", "t-2"] {
            submit(store, "r", task_id, 1);
            store.start(task_id, &process(1)).unwrap();
            for run in ["a", "b"] {
                let run_id = format!("{task_id}-{run}");
                store.run_started(&run_id, Some(task_id), "r", &process(1)).unwrap();
            }
            let how = Outcome::Success;
            store.end(task_id, &process(1), &how).unwrap();
        }
        // The clock was put back a hundred years after everything that came first.
        let later = "UPDATE runs SET started_at = '2100-01-01T00:00:00.000Z' WHERE run_id IN ('t-1-a', 't-1-b', 't-2-a');
            UPDATE tasks SET finished_at = '2100-01-01T00:00:00.000Z' WHERE task_id = 't-1'";
        store.connection().execute_batch(later).unwrap();
        assert_eq!(store.last_ended("r").unwrap().unwrap().task_id, "t-2");
        assert_eq!(store.last_run("r").unwrap().unwrap().run_id, "t-2-b");
        assert_eq!(store.task("t-2").unwrap().unwrap().run_ids, ["t-2-a", "t-2-b"]);
        let of_task: Vec<_> =
            store.runs_of("t-2").unwrap().into_iter().map(|run| run.run_id).collect();
        assert_eq!(of_task, ["t-2-a", "t-2-b"]);
    }

    #[test]
    fn a_run_is_found_by_its_id_and_the_newest_by_its_repository() {
        // STORE-5
        let place = store();
        let store = &place.store;
        assert_eq!(store.last_run("r").unwrap(), None);
        store.run_started("run_a", Some("t-1"), "r", &process(1)).unwrap();
        store.run_started("run_b", None, "r", &process(1)).unwrap();
        store.run_started("run_c", None, "other", &process(1)).unwrap();
        store.run_finished("run_a", "FAIL", Some("aa")).unwrap();
        assert_eq!(store.last_run("r").unwrap().unwrap().run_id, "run_b");
        let run = store.run("run_a").unwrap().unwrap();
        assert_eq!((run.task_id.as_deref(), run.status.as_deref()), (Some("t-1"), Some("FAIL")));
        assert_eq!(run.end_hash.as_deref(), Some("aa"));
        assert_eq!(store.run("run_x").unwrap(), None);
    }
}
