//! How long Scouts and verifications took, and what tasks came to: kept for the figures of `act metrics`, whatever
//! becomes of runs and journals.

use std::collections::BTreeMap;

use rusqlite::params;

use super::record::json;
use super::state::state;
use super::{Store, StoreError, Survives, TaskState};
use act_core::event::ModelUsage;

/// Timings that are kept; with more, the oldest go.
const KEPT: u32 = 100_000;

/// What was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Measured {
    /// One attempt of a Scout's query, however it ended but for a cancel.
    Scout { name: String },
    /// A verification with a verdict. Attempts of a task count from 1; 0 is any other.
    Verify { attempt: u32 },
}

/// What all tasks came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// When the first one was accepted.
    pub since: Option<String>,
    /// Those that have ended.
    pub tasks: BTreeMap<TaskState, u64>,
    /// Tasks that have ended and were verified at least once.
    pub verified_tasks: u64,
    /// Their attempts and REPLANs together.
    pub attempts: u64,
    pub replans: u64,
    pub tokens: BTreeMap<String, ModelUsage>,
    /// In milliseconds, each list sorted.
    pub scouts: BTreeMap<String, Vec<u64>>,
    pub verifications: Vec<u64>,
}

impl Store {
    pub fn measured(
        &self,
        task_id: Option<&str>,
        what: &Measured,
        duration_ms: u64,
    ) -> Result<(), StoreError> {
        let (kind, name, attempt) = match what {
            Measured::Scout { name } => ("scout", name.as_str(), 0),
            Measured::Verify { attempt } => ("verify", "", *attempt),
        };
        self.write(Survives::Process, |db| {
            let duration_ms = i64::try_from(duration_ms).unwrap_or(i64::MAX);
            db.execute(
                "INSERT INTO timings (kind, name, task_id, attempt, duration_ms, at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![kind, name, task_id, attempt, duration_ms, super::queue::now()],
            )?;
            let old = "DELETE FROM timings WHERE id <= (SELECT max(id) FROM timings) - ?1";
            db.execute(old, [KEPT])?;
            Ok(())
        })
    }

    pub fn totals(&self) -> Result<Totals, StoreError> {
        self.read(|db| {
            let mut totals = Totals {
                since: db.query_row("SELECT min(submitted_at) FROM tasks", [], |row| row.get(0))?,
                ..Totals::default()
            };
            let mut all = db.prepare(
                "SELECT state, tokens, replans, (SELECT count(*) FROM timings \
                 WHERE timings.task_id = tasks.task_id AND kind = 'verify' AND timings.attempt > 0) \
                 AS attempts FROM tasks",
            )?;
            let mut rows = all.query([])?;
            while let Some(row) = rows.next()? {
                let tokens: BTreeMap<String, ModelUsage> = json(row, "tokens")?;
                for (role, usage) in tokens {
                    *totals.tokens.entry(role).or_default() += usage;
                }
                let (state, attempts): (TaskState, u32) = (state(row)?, row.get("attempts")?);
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
    use super::super::Progress;
    use super::super::testing::{process, store, submit};
    use super::*;
    use act_core::Outcome;

    #[test]
    fn attempts_and_replans_are_those_of_tasks_that_were_verified() {
        // STORE-21
        let place = store();
        let store = &place.store;
        assert_eq!(store.totals().unwrap(), Totals::default());
        for (task_id, state) in [("t-1", TaskState::Success), ("t-2", TaskState::Proposed)] {
            submit(store, "r", task_id, 1);
            store.start(task_id, &process(1)).unwrap();
            let usage = ModelUsage { input: 3, cached: 2, output: 1 };
            let so_far = Progress {
                replans: 1,
                tokens: BTreeMap::from([("editor".to_owned(), usage)]),
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
        assert_eq!(totals.tokens["editor"], ModelUsage { input: 6, cached: 4, output: 2 });
    }
}
