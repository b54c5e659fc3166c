//! Components whose doings are recorded in a real log, with a real store beside it.

use std::path::PathBuf;
use std::sync::Arc;

use act_audit::{Audit, AuditReader, CheckpointStore, LogLine, Record};
use act_component::ComponentHost;
use act_core::secret::Secrets;
use act_records::artifacts::ArtifactDir;
use act_records::store::Store;

pub(crate) struct Recorded {
    place: tempfile::TempDir,
    audit: Audit,
}

impl Recorded {
    pub(crate) fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let artifacts = place.path().join("artifacts");
        let dir = ArtifactDir::open_for(&artifacts, None).unwrap();
        let state = artifacts.join("state");
        let keeper: Arc<dyn CheckpointStore> =
            Arc::new(Store::open(&dir.state().unwrap(), &state).unwrap());
        let audit = Audit::new(dir.state().unwrap(), &state, keeper, Secrets::default());
        Self { place, audit }
    }

    /// Returns a host that writes to this log.
    pub(crate) fn host(&self) -> ComponentHost {
        crate::hostile::host().audited(self.audit.clone())
    }

    fn artifacts(&self) -> PathBuf {
        self.place.path().join("artifacts")
    }

    /// Every record of this event.
    pub(crate) fn of(&self, event: &str) -> Vec<Record> {
        let dir = ArtifactDir::open_for(&self.artifacts(), None).unwrap();
        let state = self.artifacts().join("state");
        let mut reader = AuditReader::open(&dir.state().unwrap(), &state).unwrap();
        std::iter::from_fn(|| reader.next_line().unwrap())
            .filter_map(|item| match item {
                LogLine::Record(record) if record.event == event => Some(*record),
                _ => None,
            })
            .collect()
    }

    /// Replaces the log by another file, so that nothing can be recorded any more.
    pub(crate) fn break_it(&self) {
        let log = self.artifacts().join("state/audit.jsonl");
        std::fs::remove_file(&log).unwrap();
        std::fs::create_dir(&log).unwrap();
    }
}
