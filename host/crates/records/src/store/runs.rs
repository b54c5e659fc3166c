//! Runs of the Verifier, of tasks and of `act verify`, and how long Scouts and verifications took, from which
//! `act metrics` computes its figures. Timings stay when runs and journals are removed.

use std::collections::BTreeMap;
use std::time::Duration;

use act_core::Usd;
use act_core::event::ModelUsage;
use act_core::process::Process;
use chrono::DateTime;
use rusqlite::{Row, params};

use super::tasks::{cost, owner, state};
use super::{Result, Store, Synchronous, TaskState, json, now};

/// Maximum number of timings. A new one then replaces the oldest.
const MAX_TIMINGS: u32 = 100_000;

/// The row of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRecord {
    pub run_id: String,
    /// `None` for a run of `act verify`.
    pub task_id: Option<String>,
    pub repo: String,
    /// `PASS`, `FAIL` or `INFRA_ERROR`; `None` while the run lasts, and when its process died.
    pub status: Option<String>,
    pub started_at: String,
    pub finished_at: Option<String>,
    /// Hash of the audit record of its end; `None` without such a record, and for runs of an earlier version.
    pub end_hash: Option<String>,
    /// The run began with a warm base.
    pub warm: bool,
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
            warm: row.get("warm")?,
            owner: owner(row)?,
        })
    }
}

/// An operation whose duration is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Measured {
    /// One attempt of a Scout's query, however it ended, unless it was cancelled.
    Scout { name: String },
    /// A verification with a verdict. The attempts of a task count from 1; 0 is any other verification.
    Verify { attempt: u32 },
}

/// The sums over all tasks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// The time when the first task was accepted.
    pub since: Option<String>,
    /// The number of tasks that have ended, by state.
    pub tasks: BTreeMap<TaskState, u64>,
    /// Tasks that have ended and were verified at least once.
    pub verified_tasks: u64,
    /// Attempts of the verified tasks.
    pub attempts: u64,
    /// REPLANs of the verified tasks.
    pub replans: u64,
    pub tokens: BTreeMap<String, ModelUsage>,
    /// The cost of all tasks whose cost is known.
    pub cost: Usd,
    /// Number of tasks that sent requests and whose cost is not known.
    pub unknown_costs: u64,
    /// Number of tasks that are not counted, because their rows are damaged.
    pub damaged: u64,
    /// Milliseconds by Scout, each list sorted.
    pub scouts: BTreeMap<String, Vec<u64>>,
    /// Milliseconds, sorted.
    pub verifications: Vec<u64>,
}

impl Store {
    /// Stores a run before it begins, so that pruning cannot take its directory for an old one.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn run_started(
        &self,
        run_id: &str,
        task_id: Option<&str>,
        repo: &str,
        warm: bool,
        owner: &Process,
    ) -> Result<()> {
        let Process { pid, start_time, boot_id, pid_namespace } = owner;
        self.change(
            "INSERT INTO runs (run_id, task_id, repo, started_at, owner_pid, owner_start, owner_boot, \
             owner_namespace, warm) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![run_id, task_id, repo, now(), pid, start_time, boot_id, pid_namespace, warm],
        )?;
        Ok(())
    }

    /// Stores the end of a run.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn run_finished(&self, run_id: &str, status: &str, end_hash: Option<&str>) -> Result<()> {
        self.change(
            "UPDATE runs SET status = ?2, finished_at = ?3, end_hash = ?4 WHERE run_id = ?1",
            params![run_id, status, now(), end_hash],
        )?;
        Ok(())
    }

    /// Returns a run by its id.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn run(&self, run_id: &str) -> Result<Option<RunRecord>> {
        self.one("SELECT * FROM runs WHERE run_id = ?1", [run_id], RunRecord::read)
    }

    /// Returns the place of a run in the order in which the runs of all repositories began.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn run_order(&self, run_id: &str) -> Result<Option<i64>> {
        self.one("SELECT rowid FROM runs WHERE run_id = ?1", [run_id], |row| row.get(0))
    }

    /// Returns the newest run of a repository, of a task or of `act verify`.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn last_run(&self, repo: &str) -> Result<Option<RunRecord>> {
        let query = "SELECT * FROM runs WHERE repo = ?1 ORDER BY rowid DESC LIMIT 1";
        self.one(query, [repo], RunRecord::read)
    }

    /// Returns how long the newest run of a repository that passed has taken, else the newest that failed.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn last_verdict_took(&self, repo: &str) -> Result<Option<Duration>> {
        let query = "SELECT * FROM runs WHERE repo = ?1 AND status IN ('PASS', 'FAIL') \
                     AND finished_at IS NOT NULL ORDER BY status = 'PASS' DESC, rowid DESC LIMIT 1";
        let run = self.one(query, [repo], RunRecord::read)?;
        let time = |text: &str| DateTime::parse_from_rfc3339(text).ok();
        Ok(run.and_then(|run| {
            let took = time(run.finished_at.as_deref()?)? - time(&run.started_at)?;
            took.to_std().ok()
        }))
    }

    /// Returns the runs of a task, the oldest first.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn runs_of(&self, task_id: &str) -> Result<Vec<RunRecord>> {
        let query = "SELECT * FROM runs WHERE task_id = ?1 ORDER BY rowid";
        self.all(query, [task_id], RunRecord::read)
    }

    /// Stores how long an operation took.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn measured(&self, task_id: Option<&str>, what: &Measured, duration_ms: u64) -> Result<()> {
        let (kind, name, attempt) = match what {
            Measured::Scout { name } => ("scout", name.as_str(), 0),
            Measured::Verify { attempt } => ("verify", "", *attempt),
        };
        let duration_ms = i64::try_from(duration_ms).unwrap_or(i64::MAX);
        self.write(Synchronous::Normal, |db| {
            db.execute(
                "INSERT INTO timings (kind, name, task_id, attempt, duration_ms, at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![kind, name, task_id, attempt, duration_ms, now()],
            )?;
            let old = "DELETE FROM timings WHERE id <= (SELECT max(id) FROM timings) - ?1";
            db.execute(old, [MAX_TIMINGS])
        })?;
        Ok(())
    }

    /// Returns the sums over all tasks.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn totals(&self) -> Result<Totals> {
        self.read(|db| {
            let mut totals = Totals {
                since: db.query_row("SELECT min(submitted_at) FROM tasks", [], |row| row.get(0))?,
                ..Totals::default()
            };
            let mut all = db.prepare(
                "SELECT state, tokens, cost_nanos, replans, (SELECT count(*) FROM timings \
                 WHERE timings.task_id = tasks.task_id AND kind = 'verify' AND timings.attempt > 0) \
                 AS attempts FROM tasks",
            )?;
            let mut rows = all.query([])?;
            while let Some(row) = rows.next()? {
                let read = || -> rusqlite::Result<(BTreeMap<String, ModelUsage>, TaskState)> {
                    Ok((json(row, "tokens")?, state(row)?))
                };
                let Ok((tokens, state)) = read() else {
                    totals.damaged += 1;
                    continue;
                };
                match cost(row)? {
                    Some(cost) => totals.cost += cost,
                    // A task without a request cost nothing.
                    None => totals.unknown_costs += u64::from(!tokens.is_empty()),
                }
                for (role, usage) in tokens {
                    *totals.tokens.entry(role).or_default() += usage;
                }
                let attempts: u32 = row.get("attempts")?;
                if !state.is_final() {
                    continue;
                }
                *totals.tasks.entry(state).or_default() += 1;
                if attempts > 0 {
                    totals.verified_tasks += 1;
                    totals.attempts += u64::from(attempts);
                    totals.replans += u64::from(row.get::<_, u32>("replans")?);
                }
            }
            let mut all =
                db.prepare("SELECT kind, name, duration_ms FROM timings ORDER BY duration_ms")?;
            let mut rows = all.query([])?;
            while let Some(row) = rows.next()? {
                let (kind, name): (String, String) = (row.get("kind")?, row.get("name")?);
                let duration: i64 = row.get("duration_ms")?;
                let duration = u64::try_from(duration).unwrap_or_default();
                match kind.as_str() {
                    "scout" => totals.scouts.entry(name).or_default().push(duration),
                    _ => totals.verifications.push(duration),
                }
            }
            Ok(totals)
        })
    }
}

#[cfg(test)]
mod tests {
    use act_core::Outcome;

    use super::super::Progress;
    use super::super::testing::{process, store, submit};
    use super::*;

    #[test]
    fn order_is_that_of_the_rows_whatever_the_clock_said() {
        // TASK-21, security line 137
        let store = &store();
        for task_id in ["t-1", "t-2"] {
            submit(store, "r", task_id, 1);
            store.start(task_id, &process(1)).unwrap();
            for run in ["a", "b"] {
                let run_id = format!("{task_id}-{run}");
                store.run_started(&run_id, Some(task_id), "r", false, &process(1)).unwrap();
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
        let order = |run: &str| store.run_order(run).unwrap();
        assert!(order("t-1-b") < order("t-2-a") && order("t-2-a") < order("t-2-b"));
        assert!(store.task_order("t-1").unwrap() < store.task_order("t-2").unwrap());
        assert_eq!((order("t-3-a"), store.task_order("t-3").unwrap()), (None, None));
        let of_task: Vec<_> =
            store.runs_of("t-2").unwrap().into_iter().map(|run| run.run_id).collect();
        assert_eq!(of_task, ["t-2-a", "t-2-b"]);
    }

    #[test]
    fn a_run_is_found_by_its_id_and_the_newest_by_its_repository() {
        // STORE-5
        let store = &store();
        assert_eq!(store.last_run("r").unwrap(), None);
        store.run_started("run_a", Some("t-1"), "r", false, &process(1)).unwrap();
        store.run_started("run_b", None, "r", false, &process(1)).unwrap();
        store.run_started("run_c", None, "other", false, &process(1)).unwrap();
        store.run_finished("run_a", "FAIL", Some("aa")).unwrap();
        assert_eq!(store.last_run("r").unwrap().unwrap().run_id, "run_b");
        let run = store.run("run_a").unwrap().unwrap();
        assert_eq!((run.task_id.as_deref(), run.status.as_deref()), (Some("t-1"), Some("FAIL")));
        assert_eq!(run.end_hash.as_deref(), Some("aa"));
        assert_eq!(store.run("run_x").unwrap(), None);
    }

    // EDITOR-71
    #[test]
    fn the_last_verdict_took_as_long_as_the_newest_run_that_passed() {
        let store = &store();
        let took = || store.last_verdict_took("r").unwrap().map(|took| took.as_secs());
        assert_eq!(took(), None);
        for (run, status, seconds) in [
            ("run_a", "FAIL", 5),
            ("run_b", "PASS", 40),
            ("run_c", "PASS", 30),
            ("run_d", "FAIL", 2),
            ("run_e", "INFRA_ERROR", 1),
        ] {
            store.run_started(run, None, "r", false, &process(1)).unwrap();
            store.run_finished(run, status, None).unwrap();
            let times = format!(
                "UPDATE runs SET started_at = '2026-01-01T00:00:00.000Z', \
                 finished_at = '2026-01-01T00:00:{seconds:02}.000Z' WHERE run_id = '{run}'"
            );
            store.connection().execute_batch(&times).unwrap();
            let expected = match run {
                "run_a" => 5,
                "run_b" => 40,
                _ => 30,
            };
            assert_eq!(took(), Some(expected), "{run}");
        }
        assert_eq!(store.last_verdict_took("other").unwrap(), None);
    }

    #[test]
    fn attempts_and_replans_are_those_of_tasks_that_were_verified() {
        // STORE-21
        let store = &store();
        assert_eq!(store.totals().unwrap(), Totals::default());
        for (task_id, state) in [("t-1", TaskState::Success), ("t-2", TaskState::Proposed)] {
            submit(store, "r", task_id, 1);
            store.start(task_id, &process(1)).unwrap();
            let usage = ModelUsage { input: 3, cached: 2, cache_write: 0, output: 1 };
            let so_far = Progress {
                replans: 1,
                tokens: BTreeMap::from([("editor".to_owned(), usage)]),
                cost: (task_id == "t-1").then_some(Usd::from_nanos(7)),
                ..Progress::default()
            };
            store.progress(task_id, &so_far).unwrap();
            let how = Outcome::recorded(state, None).unwrap();
            store.end(task_id, &process(1), &how).unwrap();
        }
        submit(store, "r", "t-3", 1);
        for (attempt, duration) in [(0, 7), (1, 9), (2, 5)] {
            store.measured(Some("t-1"), &Measured::Verify { attempt }, duration).unwrap();
        }
        let scout = Measured::Scout { name: "scout-a".into() };
        store.measured(Some("t-2"), &scout, 40).unwrap();
        let totals = store.totals().unwrap();
        assert!(totals.since.is_some());
        let ended = BTreeMap::from([(TaskState::Success, 1), (TaskState::Proposed, 1)]);
        assert_eq!(totals.tasks, ended, "one that waits has no end");
        assert_eq!((totals.verified_tasks, totals.attempts, totals.replans), (1, 2, 1));
        assert_eq!(totals.verifications, [5, 7, 9]);
        assert_eq!(totals.scouts["scout-a"], [40]);
        assert_eq!(
            totals.tokens["editor"],
            ModelUsage { input: 6, cached: 4, cache_write: 0, output: 2 }
        );
        // The task that waits has sent no request, so its cost is not unknown.
        assert_eq!((totals.cost, totals.unknown_costs), (Usd::from_nanos(7), 1));
    }
}
