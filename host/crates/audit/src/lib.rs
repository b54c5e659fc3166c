//! The audit log: who did what with which permission, as records that are chained by their hashes.
//!
//! The crate promises that a record which was changed, removed or added later is found. A record that cannot be written
//! waits in memory and is written first as soon as that is possible; until then [`Audit::ready`] returns an error. Tasks,
//! queries, edits of components and verifications call it before they begin, so that they do not run unrecorded. Every
//! crate above may append; only the program itself verifies, restarts and prints the log.
//!
//! - [`Audit::append`] and [`Audit::settle`] write; [`Entry`] is the content of a record.
//! - [`AuditReader`] reads the log from its beginning.
//! - [`verify_all`] judges the log and all logs that were archived before it.
//! - [`CheckpointStore`] stores the head outside of the log, so that a cut log is found.
//!
//! In the source, `record` is one line of the log, `chain` links lines by their hashes, `log` appends under a lock that
//! holds between processes, `verify` judges one log, and `history` the archived ones.
//!
//! ```
//! # use std::collections::BTreeMap;
//! # use std::sync::Arc;
//! # use act_audit::{CheckpointError, CheckpointStore, Head, Restart};
//! use act_audit::{Audit, AuditReader, Entry, Event, LogLine};
//! use act_fs::Dir;
//! # struct Forgetful;
//! # impl CheckpointStore for Forgetful {
//! #     fn head(&self) -> Result<Option<Head>, CheckpointError> { Ok(None) }
//! #     fn store_head(&self, _: &Head) -> Result<(), CheckpointError> { Ok(()) }
//! #     fn restarted(&self, _: &Head, _: &str) -> Result<(), CheckpointError> { Ok(()) }
//! #     fn restarts(&self) -> Result<BTreeMap<u64, Restart>, CheckpointError> { Ok(BTreeMap::new()) }
//! #     fn grants(&self) -> Result<Option<String>, CheckpointError> { Ok(None) }
//! #     fn store_grants(&self, _: &str) -> Result<(), CheckpointError> { Ok(()) }
//! # }
//! # let temporary = tempfile::tempdir().unwrap();
//! # let checkpoints = Arc::new(Forgetful);
//! let state = Dir::open(temporary.path()).unwrap();
//! let audit = Audit::new(state.try_clone().unwrap(), temporary.path(), checkpoints, Default::default());
//! audit.append(Entry::new(Event::Edit).object("src/main.rs")).unwrap();
//! audit.settle().unwrap();
//! let mut reader = AuditReader::open(&state, temporary.path()).unwrap();
//! assert!(matches!(reader.next_line().unwrap(), Some(LogLine::Record(record)) if record.seq == 1));
//! ```

mod chain;
mod error;
mod grants;
mod head;
mod history;
mod log;
mod record;
#[cfg(test)]
mod testing;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use chain::{AuditReader, GENESIS, LogLine};
pub use error::AuditError;
pub use grants::{Approval, GrantsSeen, NO_BYTES};
pub use head::{CheckpointError, CheckpointStore, Head, Restart};
pub use history::verify_all;
pub use log::NAME;
pub use record::{Decision, Entry, Event, Record, RepoIdentity, Subject, as_object};
pub use verify::{
    Bad, EarlierLog, History, LogVerification, LogVerifier, ManifestFacts, UnknownEvidence,
    UnknownRun, cure,
};

use act_core::secret::Secrets;
use act_fs::Dir;
use log::Log;

/// Appends to the log, on behalf of one task or of none. Clones append to the same log. Nothing is opened before the
/// first record.
#[derive(Clone)]
pub struct Audit {
    log: Arc<Log>,
    task: Option<Arc<str>>,
    repo: Option<Arc<RepoIdentity>>,
}

impl Audit {
    /// Returns the log in the directory `state`, which `path` names in messages. `checkpoints` stores its head outside
    /// of the log.
    pub fn new(
        state: Dir,
        path: &Path,
        checkpoints: Arc<dyn CheckpointStore>,
        secrets: Secrets,
    ) -> Self {
        Self {
            log: Arc::new(Log::new(state, path.join(NAME), checkpoints, secrets)),
            task: None,
            repo: None,
        }
    }

    /// Returns the same log; its records name the task.
    #[must_use]
    pub fn of_task(&self, task_id: &str) -> Self {
        Self { task: Some(task_id.into()), ..self.clone() }
    }

    /// Returns the same log; its records name the repository and its commit.
    #[must_use]
    pub fn about(&self, repo: RepoIdentity) -> Self {
        Self { repo: Some(Arc::new(repo)), ..self.clone() }
    }

    /// Returns the path of the log.
    pub fn path(&self) -> PathBuf {
        self.log.path().to_owned()
    }

    /// Appends a record. It is not yet on the disk when the call returns; [`Audit::settle`] writes it there.
    ///
    /// # Errors
    /// The record could not be written. It waits and is written before the next one, and until then [`Audit::ready`]
    /// fails.
    pub fn append(&self, entry: Entry) -> Result<Head, AuditError> {
        self.log.append(entry.bound(self.task.as_deref(), self.repo.as_deref()))
    }

    /// Makes sure that the next record can be written: all records before it were, and the disk has room.
    ///
    /// # Errors
    /// A record that waits cannot be written, or the disk has no room. The action that was to be recorded must not
    /// begin.
    pub fn ready(&self) -> Result<(), AuditError> {
        self.log.ready()
    }

    /// Writes all records to the disk and their head to the checkpoint store: at the beginning and the end of a task or
    /// a verification.
    ///
    /// # Errors
    /// The log or the checkpoint store cannot be written.
    pub fn settle(&self) -> Result<(), AuditError> {
        self.log.settle()
    }

    /// Returns the head: the last record that this process has written or found.
    pub fn head(&self) -> Option<Head> {
        self.log.head()
    }

    /// Archives a log that was cut or changed, and begins a new one that records this and continues the numbers.
    /// Returns the name of the archived log, or `None` when there was no file.
    ///
    /// # Errors
    /// Another process holds the lock for too long, or one of the files cannot be written.
    pub fn restart(&self) -> Result<Option<String>, AuditError> {
        self.log.restart()
    }
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit").field("path", &self.log.path()).finish()
    }
}
