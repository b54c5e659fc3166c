//! The end of the chain as somebody else remembers it: what shows that a log was cut or written anew.

use serde::Serialize;

/// The last record at some moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "AuditHead"))]
pub struct Head {
    pub seq: u64,
    pub hash: String,
    /// Bytes of the log up to the end of its line.
    #[serde(skip)]
    pub end: u64,
}

/// What is remembered outside of the log. Errors are words for people.
pub trait Keeper: Send + Sync {
    fn head(&self) -> Result<Option<Head>, String>;

    /// Never replaces a later one. May be forgotten when the place is busy: the next edge says it again.
    fn keep(&self, head: &Head) -> Result<(), String>;

    /// The digest of the user's grants as they were last recorded.
    fn grants(&self) -> Result<Option<String>, String>;

    fn keep_grants(&self, sha256: &str) -> Result<(), String>;
}
