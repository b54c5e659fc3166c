//! The audit log: who did what with which right, as records that are chained by their hashes.
//!
//! A record is appended before an action is taken, or right after it where it tells what came out; where a
//! record cannot be written, nothing goes on. `chain` says what a line is (pure), `log` appends under a lock
//! that holds between processes, `verify` finds the first record that is not what it was.

mod accepted;
mod chain;
mod earlier;
mod entry;
mod error;
mod file;
mod grants;
mod head;
mod inert;
mod log;
mod reader;
mod record;
mod tail;
#[cfg(test)]
mod testing;
mod verification;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use chain::GENESIS;
pub use earlier::verify_all;
pub use entry::{Entry, Event};
pub use error::AuditError;
pub use file::NAME;
pub use grants::{Approval, GrantsSeen, NO_BYTES};
pub use head::{Beginning, Head, Keeper, Unkept};
pub use reader::{AuditReader, Item};
pub use record::{Decision, Place, Record, Subject};
pub use verification::{Bad, EarlierLog, History, UnknownRun, Verification};
pub use verify::{OfManifest, Verifier, cure};

use act_core::secret::Secrets;
use act_fs::Dir;
use log::Log;

/// The log, in the name of one task or of none. Clones append to the same one. Costs nothing until the first
/// record.
#[derive(Clone)]
pub struct Audit {
    log: Arc<Log>,
    task: Option<Arc<str>>,
    repo: Option<Arc<Place>>,
}

impl Audit {
    /// The log in the directory `state`, which `path` names in messages. `keeper` holds its head elsewhere.
    pub fn new(state: Dir, path: &Path, keeper: Arc<dyn Keeper>, secrets: Secrets) -> Self {
        Self {
            log: Arc::new(Log::new(state, path.join(NAME), keeper, secrets)),
            task: None,
            repo: None,
        }
    }

    /// The same log, in the name of a task.
    #[must_use]
    pub fn of_task(&self, task_id: &str) -> Self {
        Self { task: Some(task_id.into()), ..self.clone() }
    }

    /// The same log, about a repository at a commit.
    #[must_use]
    pub fn about(&self, repo: Place) -> Self {
        Self { repo: Some(Arc::new(repo)), ..self.clone() }
    }

    pub fn path(&self) -> PathBuf {
        self.log.path().to_owned()
    }

    /// Appends; what could not be appended is kept and tried again with the next one, and until then nothing
    /// is `ready`. Not yet on the disk when this returns.
    pub fn append(&self, entry: Entry) -> Result<Head, AuditError> {
        self.log.append(entry.bound(self.task.as_deref(), self.repo.as_deref()))
    }

    /// Whether the next record can be written: everything before it was, and there is room.
    pub fn ready(&self) -> Result<(), AuditError> {
        self.log.ready()
    }

    /// The edge of a task or of a gate: on the disk, and the head in the keeper's hands, when this returns.
    pub fn settle(&self) -> Result<(), AuditError> {
        self.log.settle()
    }

    /// Of the last record that this process knows of.
    pub fn head(&self) -> Option<Head> {
        self.log.head()
    }

    /// Sets a log aside that is not what it was, and begins a new one that says so and goes on counting.
    /// Answers the name under which the old one is kept; none when there was no file.
    pub fn restart(&self) -> Result<Option<String>, AuditError> {
        self.log.restart()
    }
}

impl std::fmt::Debug for Audit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audit").field("path", &self.log.path()).finish()
    }
}
