//! A log in a directory of its own for each test, and a checkpoint store in memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::{
    Audit, AuditReader, CheckpointError, CheckpointStore, Entry, Event, Head, LogLine,
    LogVerification, LogVerifier, Record, Restart, verify_all,
};
use act_core::secret::Secrets;
use act_fs::Dir;

#[derive(Default)]
pub(super) struct Memory {
    pub(super) head: Mutex<Option<Head>>,
    grants: Mutex<Option<String>>,
    pub(super) restarts: Mutex<BTreeMap<u64, Restart>>,
}

impl CheckpointStore for Memory {
    fn head(&self) -> Result<Option<Head>, CheckpointError> {
        Ok(self.head.lock().unwrap().clone())
    }

    fn store_head(&self, head: &Head) -> Result<(), CheckpointError> {
        let mut kept = self.head.lock().unwrap();
        if kept.as_ref().is_none_or(|kept| kept.seq < head.seq) {
            *kept = Some(head.clone());
        }
        Ok(())
    }

    fn restarted(&self, head: &Head, line: &str) -> Result<(), CheckpointError> {
        *self.head.lock().unwrap() = Some(head.clone());
        let beginning = Restart { hash: head.hash.clone(), line: Some(line.to_owned()) };
        self.restarts.lock().unwrap().insert(head.seq, beginning);
        *self.grants.lock().unwrap() = None;
        Ok(())
    }

    fn restarts(&self) -> Result<BTreeMap<u64, Restart>, CheckpointError> {
        Ok(self.restarts.lock().unwrap().clone())
    }

    fn grants(&self) -> Result<Option<String>, CheckpointError> {
        Ok(self.grants.lock().unwrap().clone())
    }

    fn store_grants(&self, sha256: &str) -> Result<(), CheckpointError> {
        *self.grants.lock().unwrap() = Some(sha256.to_owned());
        Ok(())
    }
}

pub(super) struct TempLog {
    pub(super) dir: tempfile::TempDir,
    pub(super) keeper: Arc<Memory>,
}

impl TempLog {
    pub(super) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), keeper: Arc::default() }
    }

    pub(super) fn state(&self) -> Dir {
        state(self.dir.path())
    }

    /// Opens the log as another process would.
    pub(super) fn audit(&self) -> Audit {
        let keeper = Arc::<Memory>::clone(&self.keeper);
        Audit::new(self.state(), self.dir.path(), keeper, Secrets::default())
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.path().join(super::NAME)
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path()).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    pub(super) fn write_lines(&self, lines: &[String]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(self.path(), text).unwrap();
    }

    pub(super) fn records(&self) -> Vec<Record> {
        let mut reader = AuditReader::open(&self.state(), self.dir.path()).unwrap();
        std::iter::from_fn(|| reader.next_line().unwrap())
            .filter_map(
                |item| if let LogLine::Record(record) = item { Some(*record) } else { None },
            )
            .collect()
    }

    pub(super) fn verify(&self) -> LogVerification {
        self.verify_with(LogVerifier::new(self.keeper.head().unwrap(), Default::default(), None))
    }

    pub(super) fn verify_with(&self, verifier: LogVerifier) -> LogVerification {
        let verifier = verifier.restarted(self.keeper.restarts().unwrap());
        verify_all(&self.state(), self.dir.path(), verifier).unwrap()
    }

    /// Accepts everything that is missing or unknown.
    pub(super) fn accept(&self, found: &LogVerification) {
        let audit = self.audit();
        for entry in found.to_accept() {
            audit.append(entry).unwrap();
        }
        audit.settle().unwrap();
    }

    /// Returns a settled log with `count` records.
    pub(super) fn filled(count: usize) -> Self {
        let place = Self::new();
        let audit = place.audit();
        for number in 0..count {
            audit.append(edit(&format!("src/{number}.rs"))).unwrap();
        }
        audit.settle().unwrap();
        place
    }
}

pub(super) fn state(path: &Path) -> Dir {
    Dir::open(path).unwrap()
}

pub(super) fn edit(path: &str) -> Entry {
    Entry::new(Event::Edit).object(path)
}
