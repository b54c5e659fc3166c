//! How long each step of a repository's pipeline took last time, which a person sees while the step runs again.

use std::collections::BTreeMap;

use rusqlite::params;

use super::{Result, Store, Synchronous};

/// Maximum number of rows. A new one then replaces the one that was written longest ago. A pipeline has some ten steps.
const MAX_STEPS: u32 = 10_000;
/// Maximum number of bytes of the name of a step that is stored. Longer names have no row, because `agent.yaml` chooses them.
const LONGEST_NAME: usize = 200;

impl Store {
    /// Stores how long a step took that has ended by itself. A step that passed says more about the next run than one that
    /// failed, which may have ended early: it replaces any earlier figure, and a failure replaces only that of a failure.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn step_took(&self, repo: &str, name: &str, passed: bool, duration_ms: u64) -> Result<()> {
        if name.len() > LONGEST_NAME {
            return Ok(());
        }
        let duration_ms = i64::try_from(duration_ms).unwrap_or(i64::MAX);
        self.write(Synchronous::Normal, |db| {
            let better =
                "SELECT EXISTS (SELECT 1 FROM step_times WHERE repo = ?1 AND name = ?2 AND passed)";
            if !passed && db.query_row(better, [repo, name], |row| row.get(0))? {
                return Ok(());
            }
            // The new row is the newest, whichever it replaces.
            let statement = "INSERT OR REPLACE INTO step_times (repo, name, passed, duration_ms) \
                             VALUES (?1, ?2, ?3, ?4)";
            db.execute(statement, params![repo, name, passed, duration_ms])?;
            let old = "DELETE FROM step_times WHERE id <= (SELECT max(id) FROM step_times) - ?1";
            db.execute(old, [MAX_STEPS])?;
            Ok(())
        })
    }

    /// Returns the milliseconds that each step of a repository took last time, by its name.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn step_times(&self, repo: &str) -> Result<BTreeMap<String, u64>> {
        let query = "SELECT name, duration_ms FROM step_times WHERE repo = ?1";
        let rows = self.all(query, [repo], |row| {
            let duration: i64 = row.get("duration_ms")?;
            Ok((row.get("name")?, u64::try_from(duration).unwrap_or_default()))
        })?;
        Ok(rows.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::store;
    use super::*;

    // STORE-24
    #[test]
    fn a_step_took_as_long_as_when_it_last_passed() {
        let store = &store();
        let took = |repo| store.step_times(repo).unwrap().into_iter().collect::<Vec<_>>();
        assert_eq!(took("r"), []);
        for (name, passed, duration, expected) in [
            ("test", false, 3, 3),
            ("test", false, 4, 4),
            ("test", true, 900, 900),
            ("test", false, 5, 900),
            ("test", true, 700, 700),
        ] {
            store.step_took("r", name, passed, duration).unwrap();
            assert_eq!(took("r"), [(name.to_owned(), expected)]);
        }
        store.step_took("other", "test", true, 1).unwrap();
        store.step_took("r", "build", true, 2).unwrap();
        store.step_took("r", &"x".repeat(LONGEST_NAME + 1), true, 2).unwrap();
        assert_eq!(took("r"), [("build".to_owned(), 2), ("test".to_owned(), 700)]);
    }

    // STORE-24
    #[test]
    fn a_pipeline_of_endless_names_fills_no_disk() {
        let store = &store();
        store.step_took("r", "first", true, 1).unwrap();
        let ahead = "UPDATE sqlite_sequence SET seq = seq + 9999 WHERE name = 'step_times'";
        store.connection().execute_batch(ahead).unwrap();
        store.step_took("r", "second", true, 2).unwrap();
        let names: Vec<_> = store.step_times("r").unwrap().into_keys().collect();
        assert_eq!(names, ["second"]);
    }
}
