//! The audit log of a test, and records that a forger who knows the rules would write.

use std::fs;
use std::path::PathBuf;

use act_workspace::digest;
use serde_json::Value;

use super::Act;

impl Act {
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.artifacts().join("state/audit.jsonl")
    }

    /// Returns no records if there is no log.
    pub(crate) fn audit_records(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.audit_log()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Computes the hash of a record after the record with the hash `prev`, by the published rule (AUDIT-3). Returns the
/// line and its hash.
pub(crate) fn sealed(mut record: Value, prev: &str) -> (String, String) {
    record["prev"] = prev.into();
    record.as_object_mut().unwrap().shift_remove("hash");
    let body = record.to_string();
    let hash = digest(format!("act-audit-v1{prev}{body}").as_bytes());
    (format!("{},\"hash\":\"{hash}\"}}", body.strip_suffix('}').unwrap()), hash)
}
