//! One record as it stands in the log: plain data, one line of JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Raised when a field stops meaning what it meant; new fields and events do not raise it.
pub(super) const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(title = "AuditRecord")
)]
pub struct Record {
    /// Of this format.
    pub v: u32,
    /// From 1, without gaps.
    pub seq: u64,
    /// ISO 8601 in UTC, to the millisecond; of the machine's clock, which may be set.
    pub time: String,
    /// Milliseconds since the machine's boot `boot_id`; cannot be set.
    pub mono_ms: u64,
    pub boot_id: String,
    pub act_version: String,
    pub uid: u32,
    pub pid: u32,
    pub task: Option<String>,
    pub repo: Option<Place>,
    /// A stable word.
    pub event: String,
    /// The component that it is about.
    pub subject: Option<Subject>,
    /// What was reached for: a path, a run, an image. Characters that a terminal acts on are written as `\u{…}`.
    pub object: Option<String>,
    pub decision: Option<Decision>,
    /// A stable word.
    pub reason: Option<String>,
    /// Of the capabilities that were in force, as JSON.
    pub effective_sha256: Option<String>,
    pub counts: BTreeMap<String, u64>,
    /// Of inputs and outputs, in hex; never their content.
    pub digests: BTreeMap<String, String>,
    /// What several of one kind were: capabilities, origins, runs.
    pub names: Vec<String>,
    /// The hash of the record before, 64 zeros for the first.
    pub prev: String,
    /// sha256 of `act-audit-v1`, `prev` and the line without this field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(any(test, feature = "testing"), schemars(required))]
    pub hash: String,
}

/// A repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "AuditRepo")
)]
pub struct Place {
    /// Equal for every path that means this directory.
    pub identity: String,
    /// Its commit when the task began.
    pub head: Option<String>,
}

/// A component.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Subject {
    pub name: String,
    /// Of its bytes.
    pub sha256: String,
    pub world: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    Allow,
    /// No right to it.
    Deny,
    /// A right to it, and no more of it.
    Limit,
}

impl Decision {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Limit => "limit",
        }
    }
}
