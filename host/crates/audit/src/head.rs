//! The end of the chain as somebody else remembers it: what shows that a log was cut or written anew.

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

/// The first record of a log that was begun anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beginning {
    pub hash: String,
    /// All of it, as it was sealed: what it says of the log before it outlives the log that it stands in. None where an
    /// earlier version kept the hash alone.
    pub line: Option<String>,
}

/// Why something is not remembered, in words for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unkept {
    pub reason: String,
    /// There is no room for it.
    pub full: bool,
}

/// What is remembered outside of the log.
pub trait Keeper: Send + Sync {
    fn head(&self) -> Result<Option<Head>, Unkept>;

    /// Never replaces a later one. May be forgotten when the place is busy: the next edge says it again.
    fn keep(&self, head: &Head) -> Result<(), Unkept>;

    /// `head` is that of the first record of a log that was begun anew, and `line` the record: kept in place of any
    /// other, and for good. The grants are forgotten, so that they are recorded again.
    fn restarted(&self, head: &Head, line: &str) -> Result<(), Unkept>;

    /// All such records, by their numbers.
    fn restarts(&self) -> Result<BTreeMap<u64, Beginning>, Unkept>;

    /// The digest of the user's grants as they were last recorded.
    fn grants(&self) -> Result<Option<String>, Unkept>;

    fn keep_grants(&self, sha256: &str) -> Result<(), Unkept>;
}

impl From<Unkept> for act_core::Failure {
    fn from(error: Unkept) -> Self {
        let hint = match error.full {
            true => "make room in the artifact directory, or set AGENT_ARTIFACT_DIR",
            false => {
                "look at the owner, the modes and the free space of the artifact directory, or set AGENT_ARTIFACT_DIR"
            }
        };
        Self::refused("store_unusable", error.reason).hint(hint)
    }
}
