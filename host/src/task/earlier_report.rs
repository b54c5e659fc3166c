//! The stuck report in a repository's `agent/`: whether it is ours, and what follows from that.
//!
//! A clone can ship any file under that name. Ours is what the store has a record of, byte for byte.

use std::path::Path;

use super::status::{Origin, StuckReportNote};
use act_agent::context::STUCK_REPORT;
use act_agent::editor::EarlierReport;
use act_records::store::{Store, StoreError, StuckReportRecord};
use act_workspace::{NotesDir, digest};

/// More than any report of ours; a longer file is not read to its end, and is foreign.
const MOST: u64 = 256 * 1024;

/// A file under the report's name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) note: StuckReportNote,
    pub(super) run_ids: Vec<String>,
    pub(super) written_at: Option<String>,
    /// None when it is no regular file.
    pub(super) text: Option<String>,
}

/// None when nothing has the name.
pub(super) fn find(store: &Store, repo: &str, root: &Path) -> Result<Option<Found>, StoreError> {
    let Some((path, bytes)) = read(root) else { return Ok(None) };
    Ok(Some(judge(path, bytes.as_deref(), store.stuck_report(repo)?)))
}

/// What a new task in this repository begins with.
pub(super) fn unresolved(found: Option<Found>) -> Option<EarlierReport> {
    let Found { note, run_ids, text, .. } = found?;
    let ours = note.origin == Origin::Own && !note.resolved;
    ours.then(|| EarlierReport { text: text.unwrap_or_default(), run_ids })
}

/// Returns the path of the report and its bytes, if they can be read; `None` where there is no such file.
fn read(root: &Path) -> Option<(String, Option<Vec<u8>>)> {
    // A directory that is not ours holds no file of ours.
    let notes = NotesDir::open_existing(root).ok()??;
    let path = format!("{}/{STUCK_REPORT}", notes.name());
    let bytes = notes.read(STUCK_REPORT, MOST + 1).map_or(Some(None), |bytes| bytes.map(Some))?;
    Some((path, bytes))
}

/// By the last record of the repository (pure).
fn judge(path: String, bytes: Option<&[u8]>, record: Option<StuckReportRecord>) -> Found {
    let digest = bytes.filter(|bytes| bytes.len() as u64 <= MOST).map(digest);
    let text = bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    match record.filter(|ours| Some(&ours.sha256) == digest.as_ref() && ours.path == path) {
        Some(ours) => Found {
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
        None => Found {
            note: StuckReportNote { path, task_id: None, origin: Origin::Foreign, resolved: false },
            run_ids: vec![],
            written_at: None,
            text,
        },
    }
}

#[cfg(test)]
mod tests {
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
        let own = judge(PATH.into(), Some(TEXT.as_bytes()), record(|_| {}));
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
            let found = judge(PATH.into(), bytes, record);
            assert_eq!((found.note.origin, &found.note.task_id), (Origin::Foreign, &None));
            assert!(found.run_ids.is_empty());
            assert_eq!(unresolved(Some(found)), None, "starts nothing");
        }
    }

    // CONTEXT-12
    #[test]
    fn a_resolved_report_starts_nothing() {
        let done = record(|record| record.resolved_at = Some("2026-11-22T10:00:00.000Z".into()));
        let found = judge(PATH.into(), Some(TEXT.as_bytes()), done);
        assert!(found.note.origin == Origin::Own && found.note.resolved);
        assert_eq!(unresolved(Some(found)), None);
        assert_eq!(unresolved(None), None);
    }

    // CONTEXT-11
    #[test]
    fn a_file_beyond_all_bounds_is_foreign_even_with_a_digest_to_match() {
        let large = "x".repeat(MOST as usize + 1);
        let record = record(|record| record.sha256 = digest(large.as_bytes()));
        assert_eq!(judge(PATH.into(), Some(large.as_bytes()), record).note.origin, Origin::Foreign);
    }
}
