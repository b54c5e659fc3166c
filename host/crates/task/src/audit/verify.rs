//! `act audit verify` checks that the log is as it was written, and `act audit restart` begins a new one if it is not.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::audit::{Logbook, anchor, stored};
use crate::prepare;
use crate::status::Lookup;
use act_audit::{
    CheckpointStore, History, LogVerification, LogVerifier, ManifestFacts, verify_all,
};
use act_core::RunId;
use act_core::event::Events;
use act_core::verification::Status;
use act_core::{Document, Failure};
use act_records::artifacts::ArtifactDir;

/// Checks the chain of records, and compares it with the head and the rows of the store, with the manifests of all runs, and
/// with `asked`, a hash that it must contain.
///
/// # Errors
///
/// The log or the store cannot be read. A log that was changed is a result and no error.
pub fn audit_verify(start: &Path, asked: Option<&str>) -> Result<LogVerification, Failure> {
    let found = verify_but(start, None, asked)?;
    let book = Logbook::open(start)?;
    let store = prepare::store(&book.artifacts)?;
    Ok(found.compared_with_rows(stored::differences(&book, &store)?))
}

/// Checks the log like [`audit_verify`], but without the manifest of the run `but`, which the caller compares itself.
pub(super) fn verify_but(
    start: &Path,
    but: Option<&str>,
    asked: Option<&str>,
) -> Result<LogVerification, Failure> {
    let book = Logbook::open(start)?;
    let store = prepare::store(&book.artifacts)?;
    let kept = store.head()?;
    // Read after the heads, so that a run that ends meanwhile does not look like one whose record is missing.
    let mut runs = BTreeMap::new();
    let mut all = book.artifacts.run_ids().unwrap_or_default();
    all.extend(book.artifacts.proof_ids().unwrap_or_default());
    all.sort();
    all.dedup();
    for run in all.into_iter().filter(|run| but != Some(run.as_str())) {
        let stored = store.run(run.as_str())?.and_then(|run| run.end_hash);
        // Whoever asks about one run has its logs compared there, and the others may be long.
        if let Some(facts) = facts(&book.artifacts, &run, stored, but.is_none()) {
            runs.insert(run.to_string(), facts);
        }
    }
    let restarts = store.restarts()?;
    let verifier = LogVerifier::new(kept, runs, asked.map(str::to_owned)).restarted(restarts);
    let (state, path) = prepare::state(&book.artifacts)?;
    Ok(verify_all(&state, &path, verifier)?)
}

/// Returns what the manifests of a run say, or `None` where there is none, or where the end of the run could not be recorded,
/// so that it proves nothing. Two manifests that differ agree with no record.
fn facts(
    artifacts: &ArtifactDir,
    run: &RunId,
    stored: Option<String>,
    with_logs: bool,
) -> Option<ManifestFacts> {
    let unreadable = ManifestFacts::default();
    let Ok(places) = artifacts.places(run) else { return Some(unreadable) };
    let mut all: Option<ManifestFacts> = None;
    for place in places {
        let recorded = match place.manifest() {
            Ok(Some(recorded)) => recorded,
            Ok(None) => continue,
            Err(_) => return Some(unreadable),
        };
        let head = recorded.manifest.audit_head.clone();
        if head.is_none() && recorded.manifest.status == Status::InfraError {
            continue;
        }
        let (mut changed, mut cut) = (vec![], vec![]);
        if with_logs {
            changed = place.changed_logs(&recorded.manifest);
            cut = place.cut_logs(&recorded.manifest);
        }
        match &mut all {
            None => {
                all = Some(ManifestFacts {
                    head,
                    sha256: recorded.sha256,
                    stored: stored.clone(),
                    logs_changed: changed,
                    logs_cut: cut,
                    evidence: recorded.evidence_sha256,
                });
            }
            // One of the two was changed. No record has both digests.
            Some(first) if first.head != head || first.sha256 != recorded.sha256 => {
                first.sha256 = format!("{} and {}", first.sha256, recorded.sha256);
            }
            Some(first) => {
                if first.evidence != recorded.evidence_sha256 {
                    let both = [first.evidence.take(), recorded.evidence_sha256];
                    let both = both.map(|one| one.unwrap_or_else(|| "none".to_owned()));
                    first.evidence = Some(both.join(" and "));
                }
                // The directory of the run is first, and has the whole logs.
                first.logs_changed.extend(changed);
            }
        }
    }
    all
}

/// Checks the log, and accepts the gap before record `seq`, where the log was restarted. The acceptance is recorded
/// and covers nothing else. With any other `seq` the log is only checked.
///
/// # Errors
///
/// The log or the store cannot be used, or the policy requires an anchor that fails.
pub fn audit_accept(
    start: &Path,
    asked: Option<&str>,
    seq: u64,
    events: &Events,
) -> Result<LogVerification, Failure> {
    let found = audit_verify(start, asked)?;
    let open = found.bad.is_none() && found.history == History::Missing;
    if !open || found.restarted_at != Some(seq) {
        return Ok(found);
    }
    let root = act_config::find_root(start)?.map(|root| root.path);
    let audit = Lookup::open(start)?.audit()?;
    anchor::before(root.as_deref(), &audit)?;
    for entry in found.to_accept() {
        audit.append(entry)?;
    }
    audit.settle()?;
    anchor::after(root.as_deref(), &audit, events);
    audit_verify(start, asked)
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct AuditRestarted {
    /// Name of the archived log in `state/`; null when there was no log.
    pub kept_as: Option<String>,
    /// Number of the record with which the new log begins.
    pub seq: u64,
}

impl Document for AuditRestarted {
    const NAME: &'static str = "audit-restart";
}

/// Archives a log that was changed under another name and starts a new one. Records the grants in force again, because
/// their records may be gone.
///
/// # Errors
///
/// The log is in order (`audit_whole`), cannot be replaced, or the policy requires an anchor that fails.
pub fn audit_restart(start: &Path, events: &Events) -> Result<AuditRestarted, Failure> {
    if audit_verify(start, None).is_ok_and(|found| found.bad.is_none()) {
        return Err(Failure::refused("audit_whole", "the audit log is in order")
            .hint("there is no reason to start a new log"));
    }
    let root = act_config::find_root(start)?.map(|root| root.path);
    let lookup = Lookup::open(start)?;
    let audit = lookup.audit()?;
    let kept = lookup.store.head()?;
    let sent = anchor::before_restart(root.as_deref(), kept)?;
    let kept_as = audit.restart()?;
    let seq = audit.head().map_or(0, |head| head.seq);
    sent.map(|sent| sent.record(&audit)).transpose()?;
    prepare::recorded_registry(root.as_deref(), &audit)?;
    anchor::after(root.as_deref(), &audit, events);
    Ok(AuditRestarted { kept_as, seq })
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schemas_are_published() {
        // EVENT-8
        schema::document_holds::<LogVerification>();
        schema::document_holds::<AuditRestarted>();
    }
}
