//! The log as a file: reached by handle, never through a link, for its owner alone, locked while one appends.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use act_fs::lock::{self, Kind};
use act_fs::{Dir, Identity};
use super::chain::{Line, MAX_LINE, judge};
use super::error::AuditError;
use super::record::Record;

pub const NAME: &str = "audit.jsonl";
/// Whoever holds the log longer does not append, but hangs.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// What every record of every version begins with.
const BEGINNING: &str = r#"{"v":"#;

#[derive(Debug)]
pub(super) struct LogFile {
    pub(super) file: File,
    identity: Identity,
}

impl LogFile {
    /// Made when there is none.
    pub(super) fn open(state: &Dir, path: &Path) -> Result<Self, AuditError> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
        Self::new(state, NAME, path, flags)?.ok_or_else(|| AuditError::io(path, Errno::NOENT))
    }

    /// Only to look at it.
    pub(super) fn existing(state: &Dir, path: &Path) -> Result<Option<Self>, AuditError> {
        Self::new(state, NAME, path, OFlags::RDONLY)
    }

    /// One that was set aside under this name.
    pub(super) fn aside(
        state: &Dir,
        name: &str,
        path: &Path,
    ) -> Result<Option<Self>, AuditError> {
        Self::new(state, name, path, OFlags::RDONLY)
    }

    /// Of all its bytes, in hex.
    pub(super) fn sha256(&self, path: &Path) -> Result<String, AuditError> {
        let (mut hasher, mut at, mut buffer) = (Sha256::new(), 0, vec![0; MAX_LINE]);
        loop {
            match self.file.read_at(&mut buffer, at) {
                Ok(0) => return Ok(act_fs::Sha256::from(hasher).to_string()),
                Ok(count) => {
                    hasher.update(buffer.get(..count).unwrap_or_default());
                    at += count as u64;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(AuditError::io(path, error)),
            }
        }
    }

    fn new(
        state: &Dir,
        name: &str,
        path: &Path,
        flags: OFlags,
    ) -> Result<Option<Self>, AuditError> {
        let foreign =
            |what: &str| AuditError::Foreign { path: path.to_owned(), what: what.to_owned() };
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file: File = match openat(state, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(handle) => handle.into(),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(foreign("a symbolic link")),
            Err(Errno::ISDIR) => return Err(foreign("a directory")),
            Err(Errno::NXIO) => return Err(foreign("a FIFO or a socket")),
            Err(errno) => return Err(AuditError::io(path, errno)),
        };
        let meta = file.metadata().map_err(|error| AuditError::io(path, error))?;
        if !meta.is_file() {
            return Err(foreign("no regular file"));
        }
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return Err(foreign("of another user"));
        }
        let found = Self {
            identity: Identity::of_handle(&file).map_err(|error| AuditError::io(path, error))?,
            file,
        };
        found.begins_as_ours(path)?;
        Ok(Some(found))
    }

    fn begins_as_ours(&self, path: &Path) -> Result<(), AuditError> {
        let mut first = [0; 16];
        let mut read = 0;
        while let Some(rest) = first.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, read as u64) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(AuditError::io(path, error)),
            }
        }
        // A first line that was torn is short.
        let first = first.get(..read).unwrap_or_default().split(|byte| *byte == b'\n').next();
        let first = first.unwrap_or_default();
        let known = BEGINNING.len().min(first.len());
        if first.get(..known) != BEGINNING.as_bytes().get(..known) {
            let what = "a file of something else".to_owned();
            return Err(AuditError::Foreign { path: path.to_owned(), what });
        }
        // `{"v":1,` and nothing else, as far as it is written.
        match first.get(BEGINNING.len()..BEGINNING.len() + 2) {
            None | Some(b"1,") => Ok(()),
            Some(_) => Err(AuditError::Future { path: path.to_owned() }),
        }
    }

    pub(super) fn size(&self, path: &Path) -> Result<u64, AuditError> {
        Ok(self.file.metadata().map_err(|error| AuditError::io(path, error))?.len())
    }

    /// Whether its name still means this file.
    pub(super) fn is_named(&self, state: &Dir) -> bool {
        state.stat(NAME).is_ok_and(|named| Identity::of_stat(&named) == self.identity)
    }

    /// Until dropped. Shared for those who only read.
    pub(super) fn lock(&self, path: &Path, shared: bool) -> Result<Locked<'_>, AuditError> {
        let kind = if shared { Kind::Shared } else { Kind::Exclusive };
        match lock::wait(&self.file, kind, LONGEST_WAIT) {
            Ok(true) => Ok(Locked(&self.file)),
            Ok(false) => Err(AuditError::Busy { path: path.to_owned() }),
            Err(error) => Err(AuditError::io(path, error)),
        }
    }

    /// The first record; none while there is none, or where it is not what it was.
    pub(super) fn first(&self) -> Option<Record> {
        let mut bytes = vec![0; MAX_LINE];
        let read = self.file.read_at(&mut bytes, 0).ok()?;
        let line = bytes.get(..read)?.split(|byte| *byte == b'\n').next()?;
        match judge(line) {
            Line::Record(record) => Some(*record),
            Line::Torn | Line::Bad(_) => None,
        }
    }

    /// The record whose line ends at `end`.
    pub(super) fn ending_at(&self, end: u64) -> Option<Record> {
        let from = end.saturating_sub(MAX_LINE as u64);
        let mut bytes = vec![0; usize::try_from(end - from).ok()?];
        self.file.read_exact_at(&mut bytes, from).ok()?;
        let line = bytes.strip_suffix(b"\n")?;
        let line = line.rsplit(|byte| *byte == b'\n').next()?;
        match judge(line) {
            Line::Record(record) => Some(*record),
            Line::Torn | Line::Bad(_) => None,
        }
    }
}

pub(super) struct Locked<'a>(&'a File);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // The file is closed with the process in any case.
        let _ = lock::unlock(self.0);
    }
}
