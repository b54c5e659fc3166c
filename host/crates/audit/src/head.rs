//! Checkpoints: the head and the restarts of the log, stored outside of it, so that a log that was cut or rewritten is found.

use std::collections::BTreeMap;

use serde::Serialize;

/// The last record at some moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "AuditHead")
)]
pub struct Head {
    pub seq: u64,
    pub hash: String,
    /// Bytes of the log up to the end of its line.
    #[serde(skip)]
    pub end: u64,
}

/// The first record of a log that `act audit restart` began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restart {
    pub hash: String,
    /// The whole line of the record. The store has it as well, so that what it says about the archived log survives the
    /// log that it is written in. `None` where an earlier version stored the hash alone.
    pub line: Option<String>,
}

/// The checkpoint store cannot be read or written; `reason` is for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointError {
    pub reason: String,
    /// The disk is full.
    pub full: bool,
}

/// Stores the head of the log outside of it. The store of the host implements it.
pub trait CheckpointStore: Send + Sync {
    /// Returns the last head that was stored.
    ///
    /// # Errors
    /// The store cannot be read.
    fn head(&self) -> Result<Option<Head>, CheckpointError>;

    /// Stores a head, unless a later one is stored. A busy store may drop it, because the next call of
    /// [`Audit::settle`](crate::Audit::settle) stores a later one.
    ///
    /// # Errors
    /// The store cannot be written.
    fn store_head(&self, head: &Head) -> Result<(), CheckpointError>;

    /// Stores the first record of a new log, for good and in place of any other head. The store forgets the grants, so
    /// that they are recorded again.
    ///
    /// # Errors
    /// The store cannot be written.
    fn restarted(&self, head: &Head, line: &str) -> Result<(), CheckpointError>;

    /// Returns all records with which a log began, by their numbers.
    ///
    /// # Errors
    /// The store cannot be read.
    fn restarts(&self) -> Result<BTreeMap<u64, Restart>, CheckpointError>;

    /// Returns the digest of the user's grants as they were last recorded.
    ///
    /// # Errors
    /// The store cannot be read.
    fn grants(&self) -> Result<Option<String>, CheckpointError>;

    /// Stores that digest.
    ///
    /// # Errors
    /// The store cannot be written.
    fn store_grants(&self, sha256: &str) -> Result<(), CheckpointError>;
}

impl From<CheckpointError> for act_core::Failure {
    fn from(error: CheckpointError) -> Self {
        let hint = match error.full {
            true => "make room in the artifact directory, or set AGENT_ARTIFACT_DIR",
            false => {
                "look at the owner, the modes and the free space of the artifact directory, or set AGENT_ARTIFACT_DIR"
            }
        };
        Self::refused("store_unusable", error.reason).hint(hint)
    }
}
