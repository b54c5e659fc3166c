//! The stuck report of a repository: who wrote it, its use by the next task, and `act report`.
//!
//! A clone can contain any file of that name. A report is ours only if the store holds the digest of its bytes.

use std::path::Path;

use serde::Serialize;

use crate::status::Lookup;
use act_agent::context::STUCK_REPORT;
use act_agent::editor::EarlierReport;
use act_core::{Document, Failure};
use act_records::store::{Store, StoreError, StuckReportRecord};
use act_workspace::{NotesDir, digest};

/// Bytes of the largest report that is read; act writes none that is larger, so a larger file is foreign.
const MAX_BYTES: u64 = 256 * 1024;

/// The stuck report of a repository.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct StuckReportNote {
    /// Path from the repository's root.
    pub path: String,
    pub task_id: Option<String>,
    pub origin: Origin,
    pub resolved: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// An act with this ARTIFACT_DIR wrote the report.
    Own,
    /// The report is part of the repository, or was changed since act wrote it.
    Foreign,
}

/// A file with the name of the report.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FoundReport {
    pub(super) note: StuckReportNote,
    pub(super) run_ids: Vec<String>,
    pub(super) written_at: Option<String>,
    /// The text; `None` if the file is not a regular file.
    pub(super) text: Option<String>,
}

/// Returns the stuck report of a repository, or `None` if there is no file of that name.
///
/// # Errors
///
/// The store cannot be read.
pub(super) fn find(
    store: &Store,
    repo: &str,
    root: &Path,
) -> Result<Option<FoundReport>, StoreError> {
    let Some((path, bytes)) = read(root) else { return Ok(None) };
    Ok(Some(attribute(path, bytes.as_deref(), store.stuck_report(repo)?)))
}

/// Returns the report that a new task starts with: one of ours that is unresolved.
pub(super) fn unresolved(found: Option<FoundReport>) -> Option<EarlierReport> {
    let FoundReport { note, run_ids, text, .. } = found?;
    let ours = note.origin == Origin::Own && !note.resolved;
    ours.then(|| EarlierReport { text: text.unwrap_or_default(), run_ids })
}

/// Returns the path of the report and its bytes, if they can be read; `None` where there is no such file.
fn read(root: &Path) -> Option<(String, Option<Vec<u8>>)> {
    // A directory of the user's contains no report of ours.
    let notes = NotesDir::open_existing(root).ok()??;
    let path = format!("{}/{STUCK_REPORT}", notes.name());
    let bytes =
        notes.read(STUCK_REPORT, MAX_BYTES + 1).map_or(Some(None), |bytes| bytes.map(Some))?;
    Some((path, bytes))
}

/// Decides from the newest record of the repository whether the file is ours (pure).
fn attribute(path: String, bytes: Option<&[u8]>, record: Option<StuckReportRecord>) -> FoundReport {
    let digest = bytes.filter(|bytes| bytes.len() as u64 <= MAX_BYTES).map(digest);
    let text = bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    match record.filter(|ours| Some(&ours.sha256) == digest.as_ref() && ours.path == path) {
        Some(ours) => FoundReport {
            note: StuckReportNote {
                path,
                task_id: Some(ours.task_id),
                origin: Origin::Own,
                resolved: ours.resolved_at.is_some(),
            },
            run_ids: ours.run_ids,
            written_at: Some(ours.written_at),
            text,
        },
        None => FoundReport {
            note: StuckReportNote { path, task_id: None, origin: Origin::Foreign, resolved: false },
            run_ids: vec![],
            written_at: None,
            text,
        },
    }
}

/// The content of `agent/stuck_report.md`, and who wrote it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Report {
    /// Path from the repository's root.
    pub path: String,
    /// The task that wrote the report; null for a foreign report, like `written_at`.
    pub task_id: Option<String>,
    pub origin: Origin,
    pub resolved: bool,
    /// ISO 8601 in UTC, to the millisecond.
    pub written_at: Option<String>,
    /// Runs of the task that wrote the report. They are not removed until the report is resolved.
    pub run_ids: Vec<String>,
    /// The text; null when the file is not a regular file.
    pub text: Option<String>,
}

impl Document for Report {
    const NAME: &'static str = "report";
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Resolved {
    /// The task that wrote the report.
    pub task_id: String,
    /// Runs that the report no longer keeps from being removed.
    pub run_ids: Vec<String>,
}

impl Document for Resolved {
    const NAME: &'static str = "report-resolved";
}

/// Returns the stuck report of the repository at `start`.
///
/// # Errors
///
/// There is no report (`no_report`), or the store cannot be read.
pub fn report(start: &Path) -> Result<Report, Failure> {
    let lookup = Lookup::open(start)?;
    let (context, root) = lookup.context()?;
    let Some(found) = find(&lookup.store, &context.repo, root)? else {
        let none = Failure::refused("no_report", "there is no stuck report in this repository");
        let record = lookup.store.stuck_report(&context.repo)?;
        return Err(match record.filter(|record| record.resolved_at.is_none()) {
            None => none.hint("`act history` shows how the tasks here ended"),
            Some(record) => none.hint(format!(
                "the file of {} is missing; `act report --resolve` lets its runs be removed",
                record.task_id
            )),
        });
    };
    let FoundReport { note, run_ids, written_at, text } = found;
    Ok(Report {
        path: note.path,
        task_id: note.task_id,
        origin: note.origin,
        resolved: note.resolved,
        written_at,
        run_ids,
        text,
    })
}

/// Marks the newest report of the repository as resolved, so that its runs may be removed. Only the record counts:
/// the file may be gone or changed.
///
/// # Errors
///
/// There is no unresolved report (`no_report`), or the store cannot be written.
pub fn resolve_report(start: &Path) -> Result<Resolved, Failure> {
    let lookup = Lookup::open(start)?;
    let (context, root) = lookup.context()?;
    let record = lookup.store.stuck_report(&context.repo)?;
    let resolved = lookup.store.resolve_stuck_report(&context.repo)?;
    if let Some(record) = record.filter(|_| resolved) {
        return Ok(Resolved { task_id: record.task_id, run_ids: record.run_ids });
    }
    let nothing = Failure::refused("no_report", "no unresolved stuck report in this repository");
    Err(match find(&lookup.store, &context.repo, root)? {
        Some(FoundReport { note, .. }) if note.origin == Origin::Foreign => nothing.hint(format!(
            "act did not write {}, so no task starts with it and no runs are kept for it",
            note.path
        )),
        _ => nothing.hint("the next task here starts without one"),
    })
}

#[cfg(test)]
mod earlier_report_tests {
    use super::*;

    const PATH: &str = "agent/stuck_report.md";
    const TEXT: &str = "# Stuck report\n";

    fn record(change: impl Fn(&mut StuckReportRecord)) -> Option<StuckReportRecord> {
        let mut record = StuckReportRecord {
            task_id: "t-abc123".into(),
            repo: "repo".into(),
            path: "agent/stuck_report.md".into(),
            sha256: digest(TEXT.as_bytes()),
            run_ids: vec!["run_20261121_100000_abc123".into()],
            written_at: "2026-11-21T10:00:00.000Z".into(),
            resolved_at: None,
        };
        change(&mut record);
        Some(record)
    }

    // CONTEXT-11
    #[test]
    fn ours_is_what_the_store_has_a_record_of_byte_for_byte() {
        let own = attribute(PATH.into(), Some(TEXT.as_bytes()), record(|_| {}));
        assert_eq!(own.note.task_id.as_deref(), Some("t-abc123"));
        assert_eq!((own.note.origin, own.note.resolved), (Origin::Own, false));
        let earlier = unresolved(Some(own)).unwrap();
        assert_eq!((earlier.text.as_str(), earlier.run_ids.len()), (TEXT, 1));

        let edited = format!("{TEXT}x");
        let other_path = record(|record| record.path = "stuck_report.md".into());
        for (bytes, record) in [
            (Some(TEXT.as_bytes()), None),
            (Some(edited.as_bytes()), record(|_| {})),
            (Some(TEXT.as_bytes()), other_path),
            (None, record(|_| {})),
        ] {
            let found = attribute(PATH.into(), bytes, record);
            assert_eq!((found.note.origin, &found.note.task_id), (Origin::Foreign, &None));
            assert!(found.run_ids.is_empty());
            assert_eq!(unresolved(Some(found)), None, "starts nothing");
        }
    }

    // CONTEXT-12
    #[test]
    fn a_resolved_report_starts_nothing() {
        let done = record(|record| record.resolved_at = Some("2026-11-22T10:00:00.000Z".into()));
        let found = attribute(PATH.into(), Some(TEXT.as_bytes()), done);
        assert!(found.note.origin == Origin::Own && found.note.resolved);
        assert_eq!(unresolved(Some(found)), None);
        assert_eq!(unresolved(None), None);
    }

    // CONTEXT-11
    #[test]
    fn a_file_beyond_all_bounds_is_foreign_even_with_a_digest_to_match() {
        let large = "x".repeat(MAX_BYTES as usize + 1);
        let record = record(|record| record.sha256 = digest(large.as_bytes()));
        assert_eq!(
            attribute(PATH.into(), Some(large.as_bytes()), record).note.origin,
            Origin::Foreign
        );
    }
}

#[cfg(test)]
mod report_tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schemas_are_published() {
        // EVENT-8
        schema::document_holds::<Report>();
        schema::document_holds::<Resolved>();
    }
}
