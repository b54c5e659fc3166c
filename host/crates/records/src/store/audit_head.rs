//! The store's copy of the audit log's head, restarts and grants: a log that was cut or rewritten disagrees with it.

use std::collections::BTreeMap;

use act_audit::{CheckpointError, CheckpointStore, Head, Restart};
use rusqlite::{Row, params};

use super::{Store, StoreError, Synchronous};

impl From<StoreError> for CheckpointError {
    fn from(error: StoreError) -> Self {
        let full = matches!(error, StoreError::Full { .. });
        Self { reason: error.to_string(), full }
    }
}

impl CheckpointStore for Store {
    fn head(&self) -> Result<Option<Head>, CheckpointError> {
        let read = |row: &Row<'_>| {
            let number = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
            Ok(Head { seq: number(0)?, hash: row.get(1)?, end: number(2)? })
        };
        Ok(self.one("SELECT seq, hash, log_end FROM audit_head", [], read)?)
    }

    fn store_head(&self, head: &Head) -> Result<(), CheckpointError> {
        // The log itself is synced by now, so its head only has to outlive the process.
        let stored = self.write(Synchronous::Normal, |db| {
            db.execute(
                "INSERT INTO audit_head (id, seq, hash, log_end) VALUES (1, ?1, ?2, ?3) \
                 ON CONFLICT (id) DO UPDATE SET seq = ?1, hash = ?2, log_end = ?3 WHERE seq < ?1",
                params![head.seq.cast_signed(), head.hash, head.end.cast_signed()],
            )
        });
        match stored {
            Ok(_) | Err(StoreError::Busy { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn restarted(&self, head: &Head, line: &str) -> Result<(), CheckpointError> {
        self.write(Synchronous::Full, |db| {
            let Head { seq, hash, end } = head;
            db.execute("DELETE FROM audit_head", [])?;
            db.execute(
                "INSERT INTO audit_head (id, seq, hash, log_end) VALUES (1, ?1, ?2, ?3)",
                params![seq.cast_signed(), hash, end.cast_signed()],
            )?;
            db.execute(
                "INSERT OR REPLACE INTO audit_restarts (seq, hash, line) VALUES (?1, ?2, ?3)",
                params![seq.cast_signed(), hash, line],
            )?;
            db.execute("DELETE FROM audit_grants", [])
        })?;
        Ok(())
    }

    fn restarts(&self) -> Result<BTreeMap<u64, Restart>, CheckpointError> {
        let read = |row: &Row<'_>| {
            let restart = Restart { hash: row.get(1)?, line: row.get(2)? };
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), restart))
        };
        let all = self.all("SELECT seq, hash, line FROM audit_restarts", [], read)?;
        Ok(all.into_iter().collect())
    }

    fn grants(&self) -> Result<Option<String>, CheckpointError> {
        Ok(self.one("SELECT sha256 FROM audit_grants", [], |row| row.get(0))?)
    }

    fn store_grants(&self, sha256: &str) -> Result<(), CheckpointError> {
        self.change(
            "INSERT INTO audit_grants (id, sha256) VALUES (1, ?1) \
             ON CONFLICT (id) DO UPDATE SET sha256 = ?1",
            [sha256],
        )?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::store;
    use super::*;

    fn head(seq: u64) -> Head {
        Head { seq, hash: format!("hash {seq}"), end: seq * 100 }
    }

    // VERIFIER-21: a full disk is reported as one, in whichever file it was found.
    #[test]
    fn a_full_disk_is_told_as_one() {
        let sqlite = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        let full =
            |code| CheckpointError::from(StoreError::of("act.db".as_ref(), sqlite(code))).full;
        assert!(full(rusqlite::ffi::SQLITE_FULL));
        assert!(!full(rusqlite::ffi::SQLITE_READONLY) && !full(rusqlite::ffi::SQLITE_CORRUPT));
    }

    // AUDIT-12
    #[test]
    fn a_head_is_never_replaced_by_an_earlier_one() {
        let store = store();
        let checkpoints: &dyn CheckpointStore = &*store;
        assert_eq!(checkpoints.head().unwrap(), None);
        for seq in [3, 7, 5] {
            checkpoints.store_head(&head(seq)).unwrap();
        }
        assert_eq!(checkpoints.head().unwrap(), Some(head(7)));
    }

    // AUDIT-14
    #[test]
    fn a_new_beginning_is_remembered_for_good_and_forgets_the_grants() {
        let store = store();
        let checkpoints: &dyn CheckpointStore = &*store;
        checkpoints.store_head(&head(7)).unwrap();
        checkpoints.store_grants("aa").unwrap();
        checkpoints.restarted(&head(8), "line 8\n").unwrap();
        assert_eq!(
            (checkpoints.head().unwrap(), checkpoints.grants().unwrap()),
            (Some(head(8)), None)
        );
        checkpoints.restarted(&head(20), "line 20\n").unwrap();
        let all = [8, 20].map(|seq| {
            let line = Some(format!("line {seq}\n"));
            (seq, Restart { hash: format!("hash {seq}"), line })
        });
        assert_eq!(checkpoints.restarts().unwrap(), all.into());
    }

    #[test]
    fn grants_are_remembered_as_they_were_last_recorded() {
        let store = store();
        let checkpoints: &dyn CheckpointStore = &*store;
        assert_eq!(checkpoints.grants().unwrap(), None);
        checkpoints.store_grants("aa").unwrap();
        checkpoints.store_grants("bb").unwrap();
        assert_eq!(checkpoints.grants().unwrap().as_deref(), Some("bb"));
    }
}
