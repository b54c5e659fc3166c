//! What a log was found to be, as `act audit verify` says it: shapes, and whether they add up to a log in order.

use serde::Serialize;

use super::head::Head;

/// What a whole log was found to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(title = "AuditVerification")
)]
pub struct Verification {
    pub ok: bool,
    /// That are in their place, from the first on.
    pub records: u64,
    pub head: Option<Head>,
    /// The first record that is not what it was; null when there is none.
    pub bad: Option<Bad>,
    /// Number of the record with which the log begins anew after another one was set aside; null for a whole one.
    pub restarted_at: Option<u64>,
    /// The logs before it, the latest one first.
    pub earlier: Vec<EarlierLog>,
    pub history: History,
    /// Lines that a stopped writer left and the next one recorded.
    pub recovered: u64,
    /// Bytes of such a line at the end, which nobody has recorded yet.
    pub torn_bytes: u64,
    /// The head in the store; null when it keeps none.
    pub store: Option<Head>,
    /// Runs whose manifest names a head that was compared.
    pub runs_compared: u64,
    /// Runs whose record is in none of the logs that are there, beside one that is missing.
    pub runs_unknown: Vec<UnknownRun>,
    /// Runs with a verdict whose manifest names no head, or cannot be read, and of which no record tells.
    pub runs_without_head: Vec<String>,
    /// Number of the record that has the hash that was asked for; null when none was asked for or found.
    pub asked_seq: Option<u64>,
}

impl Verification {
    /// From all the others, whether everything is in order; `found`: what was asked for stands somewhere.
    pub(super) fn conclude(mut self, found: bool) -> Self {
        self.ok = self.bad.is_none()
            && self.history != History::Missing
            && self.runs_without_head.is_empty()
            && found;
        self
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "AuditBad")
)]
pub struct Bad {
    pub seq: u64,
    /// From 1; null for a record that is gone.
    pub line: Option<u64>,
    pub why: String,
}

/// Whether everything before a new beginning is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "AuditHistory", inline)
)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// Or there was no new beginning.
    Whole,
    Missing,
    /// It is missing, and somebody has accepted that as it stands.
    Accepted,
}

/// A log that was set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "AuditEarlierLog")
)]
pub struct EarlierLog {
    /// In `state/`.
    pub name: String,
    /// Number of the record with which the log after it begins.
    pub restart: u64,
    /// The last record that it had to have.
    pub seq: u64,
    /// That are in their place, from its first on.
    pub records: u64,
    /// The last of these.
    pub head: Option<Head>,
    /// As the file stands now; null where there is none that could be a log.
    pub sha256: Option<String>,
    /// Why it does not tell what was before; null when it does.
    pub missing: Option<String>,
    /// The same as a stable word.
    pub reason: Option<String>,
    /// Number of the record by which that was accepted, as it stands.
    pub accepted_seq: Option<u64>,
}

impl EarlierLog {
    /// It is missing, and nobody has accepted that.
    pub(super) fn is_open(&self) -> bool {
        self.missing.is_some() && self.accepted_seq.is_none()
    }
}

/// A run whose record would stand in what is missing: whether its manifest is true cannot be known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "AuditUnknownRun")
)]
pub struct UnknownRun {
    pub run_id: String,
    /// That its manifest names.
    pub head: String,
    /// Of the rest of its manifest.
    pub sha256: String,
    /// Number of the record by which that was accepted.
    pub accepted_seq: Option<u64>,
}
