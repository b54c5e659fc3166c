//! Appends to the log file. The file is opened by handle, never through a link, and belongs to its owner alone. A lock lets
//! one process append at a time, at the end that the file has then.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use act_core::fail_point;
use act_core::process::Process;
use act_core::secret::Secrets;
use act_fs::lock::{self, Kind};
use act_fs::{Dir, Identity};
use rustix::fs::{Mode, OFlags, fdatasync, openat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::chain::{GENESIS, LogLine, MAX_LINE, Tail, TailError, last_seq, parse_line, seal, tail};
use super::error::AuditError;
use super::head::{CheckpointError, CheckpointStore, Head};
use super::record::{Entry, Event, Record};

/// Name of the log in `state/`.
pub const NAME: &str = "audit.jsonl";
/// Maximum wait for the lock. Appending takes less than a millisecond, so a process that holds it longer has stopped.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The beginning of every record of every version.
const BEGINNING: &str = r#"{"v":"#;

/// An open log.
#[derive(Debug)]
pub(super) struct LogFile {
    pub(super) file: File,
    identity: Identity,
}

impl LogFile {
    /// Opens the log for appending, and creates it when it is missing.
    pub(super) fn open(state: &Dir, path: &Path) -> Result<Self, AuditError> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
        Self::new(state, NAME, path, flags)?.ok_or_else(|| AuditError::io(path, Errno::NOENT))
    }

    /// Opens the log for reading.
    pub(super) fn existing(state: &Dir, path: &Path) -> Result<Option<Self>, AuditError> {
        Self::new(state, NAME, path, OFlags::RDONLY)
    }

    /// Opens an archived log for reading.
    pub(super) fn archived(
        state: &Dir,
        name: &str,
        path: &Path,
    ) -> Result<Option<Self>, AuditError> {
        Self::new(state, name, path, OFlags::RDONLY)
    }

    /// Returns the SHA-256 digest of the whole file, as hex.
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
            return Err(foreign("a file of another user"));
        }
        let found = Self {
            identity: Identity::of_handle(&file).map_err(|error| AuditError::io(path, error))?,
            file,
        };
        found.begins_as_ours(path)?;
        Ok(Some(found))
    }

    /// Refuses a file that does not begin with a record of this version.
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
        // A torn first line is short.
        let first = first.get(..read).unwrap_or_default().split(|byte| *byte == b'\n').next();
        let first = first.unwrap_or_default();
        let known = BEGINNING.len().min(first.len());
        if first.get(..known) != BEGINNING.as_bytes().get(..known) {
            let what = "a file of another program".to_owned();
            return Err(AuditError::Foreign { path: path.to_owned(), what });
        }
        // The first line begins with `{"v":1,`, or with a part of it.
        match first.get(BEGINNING.len()..BEGINNING.len() + 2) {
            None | Some(b"1,") => Ok(()),
            Some(_) => Err(AuditError::Future { path: path.to_owned() }),
        }
    }

    pub(super) fn size(&self, path: &Path) -> Result<u64, AuditError> {
        Ok(self.file.metadata().map_err(|error| AuditError::io(path, error))?.len())
    }

    /// Returns whether the name of the log still belongs to this file.
    pub(super) fn is_named(&self, state: &Dir) -> bool {
        state.stat(NAME).is_ok_and(|named| Identity::of_stat(&named) == self.identity)
    }

    /// Takes the lock until the result is dropped: shared for readers, else exclusively.
    pub(super) fn lock(&self, path: &Path, shared: bool) -> Result<Locked<'_>, AuditError> {
        let kind = if shared { Kind::Shared } else { Kind::Exclusive };
        match lock::wait(&self.file, kind, LONGEST_WAIT) {
            Ok(true) => Ok(Locked(&self.file)),
            Ok(false) => Err(AuditError::Busy { path: path.to_owned() }),
            Err(error) => Err(AuditError::io(path, error)),
        }
    }

    /// Returns the first record, or `None` when there is none or it was changed.
    pub(super) fn first(&self) -> Option<Record> {
        let mut bytes = vec![0; MAX_LINE];
        let read = self.file.read_at(&mut bytes, 0).ok()?;
        let line = bytes.get(..read)?.split(|byte| *byte == b'\n').next()?;
        match parse_line(line) {
            LogLine::Record(record) => Some(*record),
            LogLine::Torn(_) | LogLine::Bad(_) => None,
        }
    }

    /// Returns the record whose line ends at byte `end`.
    pub(super) fn ending_at(&self, end: u64) -> Option<Record> {
        let from = end.saturating_sub(MAX_LINE as u64);
        let mut bytes = vec![0; usize::try_from(end - from).ok()?];
        self.file.read_exact_at(&mut bytes, from).ok()?;
        let line = bytes.strip_suffix(b"\n")?;
        let line = line.rsplit(|byte| *byte == b'\n').next()?;
        match parse_line(line) {
            LogLine::Record(record) => Some(*record),
            LogLine::Torn(_) | LogLine::Bad(_) => None,
        }
    }
}

pub(super) struct Locked<'a>(&'a File);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // A failure is ignored: the end of the process releases the lock in any case.
        let _ = lock::unlock(self.0);
    }
}

/// Maximum number of records that wait while they cannot be written. No action begins while one waits, so only actions
/// that had begun before add to them.
const MAX_WAITING: usize = 10_000;
/// Number of bytes to reserve beyond the end of the log, and how many of them must be free before an action.
#[cfg(target_os = "linux")]
const RESERVE: u64 = 256 << 10;
#[cfg(target_os = "linux")]
const NEEDED: u64 = 128 << 10;
/// Maximum number of archived logs.
const MAX_ARCHIVED: u32 = 1000;

pub(super) struct Log {
    state: Dir,
    path: PathBuf,
    checkpoints: Arc<dyn CheckpointStore>,
    secrets: Secrets,
    boot_id: OnceLock<String>,
    open: Mutex<OpenLog>,
}

#[derive(Default)]
struct OpenLog {
    file: Option<LogFile>,
    /// The end of the log as this process left it.
    tail: Option<Tail>,
    waiting: VecDeque<Entry>,
    /// Number of records that were dropped because too many waited.
    lost: u64,
    /// The disk has room up to this byte.
    reserved: u64,
    /// Number of the last record that is on the disk and in the checkpoint store.
    settled: u64,
}

impl Log {
    pub(super) fn new(
        state: Dir,
        path: PathBuf,
        checkpoints: Arc<dyn CheckpointStore>,
        secrets: Secrets,
    ) -> Self {
        Self { state, path, checkpoints, secrets, boot_id: OnceLock::new(), open: Mutex::default() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self) -> MutexGuard<'_, OpenLog> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn head(&self) -> Option<Head> {
        head_of(self.open().tail.as_ref()?)
    }

    pub(super) fn append(&self, entry: Entry) -> Result<Head, AuditError> {
        let open = &mut *self.open();
        if open.waiting.len() < MAX_WAITING {
            open.waiting.push_back(entry);
        } else {
            open.lost += 1;
        }
        self.write_waiting(open)?;
        let head = open.tail.as_ref().and_then(head_of);
        head.ok_or_else(|| AuditError::io(&self.path, io::Error::other("nothing was written")))
    }

    pub(super) fn ready(&self) -> Result<(), AuditError> {
        let open = &mut *self.open();
        self.write_waiting(open)?;
        self.reserve(open)
    }

    pub(super) fn settle(&self) -> Result<(), AuditError> {
        let open = &mut *self.open();
        self.write_waiting(open)?;
        let (Some(file), Some(tail)) = (&open.file, &open.tail) else { return Ok(()) };
        let Some(head) = head_of(tail).filter(|head| head.seq > open.settled) else {
            return Ok(());
        };
        let first = open.settled == 0;
        fdatasync(&file.file).map_err(|errno| AuditError::io(&self.path, errno))?;
        if first {
            self.state.sync().map_err(|error| AuditError::io(&self.path, error))?;
        }
        self.checkpoint("its head cannot be stored", self.checkpoints.store_head(&head))?;
        open.settled = head.seq;
        Ok(())
    }

    /// Adds to an error of the checkpoint store what could not be done.
    fn checkpoint<T>(
        &self,
        what: &str,
        result: Result<T, CheckpointError>,
    ) -> Result<T, AuditError> {
        result.map_err(|error| AuditError::checkpoint(&self.path, what, &error))
    }

    pub(super) fn stored_grants(&self) -> Result<Option<String>, AuditError> {
        self.checkpoint("the last known grants cannot be looked up", self.checkpoints.grants())
    }

    pub(super) fn store_grants(&self, sha256: &str) -> Result<(), AuditError> {
        self.checkpoint("the grants cannot be stored", self.checkpoints.store_grants(sha256))
    }

    /// Appends all records that wait to the file that has the name of the log now.
    fn write_waiting(&self, open: &mut OpenLog) -> Result<(), AuditError> {
        let OpenLog { file, tail: known, waiting, lost, reserved, .. } = open;
        if file.as_ref().is_none_or(|file| !file.is_named(&self.state)) {
            let opened = LogFile::open(&self.state, &self.path)?;
            self.check_heads(&opened, known.as_ref().and_then(head_of))?;
            (*known, *reserved) = (None, 0);
            *file = Some(opened);
        }
        let Some(file) = file else { return Ok(()) };
        if waiting.is_empty() && known.is_some() {
            return Ok(());
        }
        let _lock = file.lock(&self.path, false)?;
        if !file.is_named(&self.state) {
            // Another process archived the log while this call waited for the lock.
            return Err(AuditError::Busy { path: self.path.clone() });
        }
        let size = file.size(&self.path)?;
        if known.as_ref().is_some_and(|tail| size < tail.size) {
            self.check_heads(file, known.as_ref().and_then(head_of))?;
        }
        let mut at = match known.take().filter(|tail| tail.size == size && tail.torn.is_none()) {
            Some(tail) => tail,
            None => self.end(file, size)?,
        };
        let (mut text, mut count) = (String::new(), 0);
        if let Some(torn) = &at.torn {
            let entry = Entry::new(Event::LogRecovered)
                .reason("torn_line")
                .count("bytes", torn.bytes)
                .digest("torn", Some(&torn.sha256));
            waiting.push_front(entry);
        }
        if *lost > 0 {
            let entry =
                Entry::new(Event::LogRecovered).reason("records_lost").count("records", *lost);
            waiting.push_back(entry);
        }
        if at.open_line && !waiting.is_empty() {
            text.push('\n');
        }
        let (mut seq, mut prev) = (at.seq, at.hash.clone());
        for entry in waiting.iter() {
            let record = entry.clone().into_record(self.boot_id(), &self.secrets);
            let Some((record, line)) = seal(record, seq.saturating_add(1), &prev) else { continue };
            (seq, prev) = (record.seq, record.hash);
            text.push_str(&line);
            count += 1;
        }
        if count > 0 {
            if let Err(error) = write(&file.file, text.as_bytes()) {
                // Removes the incomplete record. If that fails, the next append records it as torn.
                let _ = file.file.set_len(size);
                if at.torn.is_some() {
                    waiting.pop_front();
                }
                if *lost > 0 {
                    waiting.pop_back();
                }
                return Err(AuditError::io(&self.path, error));
            }
            at = Tail {
                seq,
                hash: prev,
                size: size + text.len() as u64,
                open_line: false,
                torn: None,
            };
        }
        (*known, *lost) = (Some(at), 0);
        waiting.clear();
        Ok(())
    }

    fn boot_id(&self) -> &str {
        self.boot_id.get_or_init(|| Process::this().boot_id)
    }

    fn end(&self, file: &LogFile, size: u64) -> Result<Tail, AuditError> {
        tail(&file.file, size).map_err(|error| match error {
            TailError::Io(error) => AuditError::io(&self.path, error),
            TailError::Bad(why) => AuditError::Damaged { path: self.path.clone(), why },
        })
    }

    /// Refuses a log that was cut or rewritten since its head was stored.
    fn check_heads(&self, file: &LogFile, known: Option<Head>) -> Result<(), AuditError> {
        let kept = self.checkpoint("its head cannot be looked up", self.checkpoints.head())?;
        let restarts =
            self.checkpoint("its restarts cannot be looked up", self.checkpoints.restarts())?;
        for head in kept.into_iter().chain(known) {
            let is_head = |record: Record| (record.seq, &record.hash) == (head.seq, &head.hash);
            // `restart` began this log after that head. The store has the first record of every such log.
            let begun = |first: Record| {
                first.seq > head.seq
                    && restarts.get(&first.seq).is_some_and(|known| known.hash == first.hash)
            };
            if !file.ending_at(head.end).is_some_and(is_head) && !file.first().is_some_and(begun) {
                return Err(AuditError::Cut { path: self.path.clone(), seq: head.seq });
            }
        }
        Ok(())
    }

    /// Reserves room for the records of the next action.
    #[cfg(target_os = "linux")]
    fn reserve(&self, open: &mut OpenLog) -> Result<(), AuditError> {
        use rustix::fs::{FallocateFlags, fallocate};
        let (Some(file), Some(tail)) = (&open.file, &open.tail) else { return Ok(()) };
        if tail.size + NEEDED <= open.reserved {
            return Ok(());
        }
        match fallocate(&file.file, FallocateFlags::KEEP_SIZE, tail.size, RESERVE) {
            // Some file systems cannot reserve. Appending the record fails there when the disk is full.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                open.reserved = tail.size + RESERVE;
                Ok(())
            }
            Err(errno) => Err(AuditError::io(&self.path, errno)),
        }
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "it is used where there is something to reserve")]
    fn reserve(&self, _open: &mut OpenLog) -> Result<(), AuditError> {
        Ok(())
    }

    pub(super) fn restart(&self) -> Result<Option<String>, AuditError> {
        let io = |error: io::Error| AuditError::io(&self.path, error);
        let open = &mut *self.open();
        // One restart at a time. A process that appends meanwhile finds that the name belongs to another file.
        let handle = self.state.reopen().map_err(io)?;
        if !lock::wait(&handle, Kind::Exclusive, LONGEST_WAIT).map_err(io)? {
            return Err(AuditError::Busy { path: self.path.clone() });
        }
        let kept = self.checkpoint("its head cannot be looked up", self.checkpoints.head())?;
        let archived = match self.state.contains(NAME).map_err(io)? {
            false => None,
            true => Some(self.free_name(&self.taken_names()?)?),
        };
        let last = last_seq(&self.state, &self.path);
        let sha256 = match &archived {
            Some(archived) => self.archive(archived)?,
            None => None,
        };
        let file = LogFile::open(&self.state, &self.path)?;
        let kept_seq = kept.as_ref().map_or(0, |head| head.seq);
        let prev = kept.map_or_else(|| GENESIS.to_owned(), |head| head.hash);
        let entry = Entry::new(Event::ChainRestarted)
            .object(archived.as_deref().unwrap_or(NAME))
            .reason(if archived.is_some() { "set_aside" } else { "gone" })
            .count("kept_seq", kept_seq)
            .count("last_seq", last)
            .digest("set_aside", sha256.as_deref());
        let record = entry.into_record(self.boot_id(), &self.secrets);
        let seq = kept_seq.max(last).saturating_add(1);
        let sealed = seal(record, seq, &prev);
        let Some((Record { hash, .. }, line)) = sealed else { return Ok(archived) };
        write(&file.file, line.as_bytes()).map_err(|error| AuditError::io(&self.path, error))?;
        fdatasync(&file.file).map_err(|errno| io(errno.into()))?;
        self.state.sync().map_err(io)?;
        let size = line.len() as u64;
        let head = Head { seq, hash: hash.clone(), end: size };
        self.checkpoint("its restart cannot be stored", self.checkpoints.restarted(&head, &line))?;
        open.tail = Some(Tail { seq, hash, size, open_line: false, torn: None });
        (open.file, open.settled, open.reserved) = (Some(file), seq, 0);
        Ok(archived)
    }

    /// Renames the log, and returns the digest of the archived file, or `None` when it was not a log.
    fn archive(&self, archived: &str) -> Result<Option<String>, AuditError> {
        let old = LogFile::existing(&self.state, &self.path).ok().flatten();
        let lock = old.as_ref().map(|old| old.lock(&self.path, false)).transpose()?;
        self.state.rename(NAME, archived).map_err(|error| AuditError::io(&self.path, error))?;
        let sha256 = old.as_ref().map(|old| old.sha256(&self.path)).transpose();
        drop(lock);
        sha256
    }

    /// Returns the names of all archived logs, whether their files still exist or not: a new file of that name would be
    /// mistaken for the archived one.
    fn taken_names(&self) -> Result<Vec<String>, AuditError> {
        let restarts =
            self.checkpoint("its restarts cannot be looked up", self.checkpoints.restarts())?;
        let lines = restarts.into_values().filter_map(|beginning| beginning.line);
        let name = |line: String| match parse_line(line.trim_end().as_bytes()) {
            LogLine::Record(record) => record.object,
            _ => None,
        };
        Ok(lines.filter_map(name).collect())
    }

    fn free_name(&self, taken: &[String]) -> Result<String, AuditError> {
        let names = (1..=MAX_ARCHIVED).map(|number| format!("audit.{number}.jsonl"));
        let free = names
            .filter(|name| !taken.contains(name))
            .find(|name| self.state.contains(&**name).is_ok_and(|taken| !taken));
        let none = || io::Error::other("too many logs were archived; move some of them away");
        free.ok_or_else(|| AuditError::io(&self.path, none()))
    }
}

fn head_of(tail: &Tail) -> Option<Head> {
    let Tail { seq, hash, size, .. } = tail;
    (*seq > 0).then(|| Head { seq: *seq, hash: hash.clone(), end: *size })
}

fn write(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    if fail_point::is_wanted("half_a_record") {
        file.write_all(bytes.get(..bytes.len() / 2).unwrap_or_default())?;
        fail_point::reach("half_a_record");
    }
    file.write_all(bytes)
}
