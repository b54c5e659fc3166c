//! Appending: one at a time, in all processes, at the end that is there then.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::fdatasync;
use rustix::io::Errno;

use super::chain::{GENESIS, Line, judge, seal};
use super::entry::{Entry, Event};
use super::error::AuditError;
use super::file::{LONGEST_WAIT, LogFile, NAME};
use super::head::{Head, Keeper};
use super::record::Record;
use super::tail::{Tail, TailError, tail};
use act_fs::lock::{self, Kind};
use act_fs::Dir;
use act_core::fail_point;
use act_core::process::Process;
use act_core::secret::Secrets;

/// Records that wait for a disk with room. Nothing new begins while one waits, so that only what was at work
/// already adds to them.
const MOST_WAITING: usize = 10_000;
/// Bytes asked for ahead of the end, and how many of them must be left before an action.
#[cfg(target_os = "linux")]
const RESERVE: u64 = 256 << 10;
#[cfg(target_os = "linux")]
const NEEDED: u64 = 128 << 10;
/// Logs that were set aside under one name each.
const MOST_ASIDE: u32 = 1000;

pub(super) struct Log {
    state: Dir,
    path: PathBuf,
    keeper: Arc<dyn Keeper>,
    secrets: Secrets,
    boot_id: OnceLock<String>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    file: Option<LogFile>,
    /// As this process left it.
    tail: Option<Tail>,
    waiting: VecDeque<Entry>,
    /// Records for which there was no place among the waiting.
    lost: u64,
    /// Up to here there is room on the disk.
    reserved: u64,
    /// Told to the keeper and on the disk.
    settled: u64,
}

impl Log {
    pub(super) fn new(
        state: Dir,
        path: PathBuf,
        keeper: Arc<dyn Keeper>,
        secrets: Secrets,
    ) -> Self {
        Self { state, path, keeper, secrets, boot_id: OnceLock::new(), open: Mutex::default() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn head(&self) -> Option<Head> {
        head_of(self.open().tail.as_ref()?)
    }

    pub(super) fn append(&self, entry: Entry) -> Result<Head, AuditError> {
        let open = &mut *self.open();
        if open.waiting.len() < MOST_WAITING {
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
        self.keep(&head)?;
        open.settled = head.seq;
        Ok(())
    }

    fn keep(&self, head: &Head) -> Result<(), AuditError> {
        self.keeper
            .keep(head)
            .map_err(|reason| AuditError::keeper(&self.path, "its head cannot be kept", &reason))
    }

    pub(super) fn kept_grants(&self) -> Result<Option<String>, AuditError> {
        self.keeper.grants().map_err(|reason| {
            AuditError::keeper(&self.path, "the last known grants cannot be looked up", &reason)
        })
    }

    pub(super) fn keep_grants(&self, sha256: &str) -> Result<(), AuditError> {
        self.keeper.keep_grants(sha256).map_err(|reason| {
            AuditError::keeper(&self.path, "the grants cannot be remembered", &reason)
        })
    }

    /// Everything that waits, at the end of the file that is there now.
    fn write_waiting(&self, open: &mut Open) -> Result<(), AuditError> {
        let Open { file, tail: known, waiting, lost, reserved, .. } = open;
        if file.as_ref().is_none_or(|file| !file.is_named(&self.state)) {
            let opened = LogFile::open(&self.state, &self.path)?;
            self.agrees(&opened, known.as_ref().and_then(head_of))?;
            (*known, *reserved) = (None, 0);
            *file = Some(opened);
        }
        let Some(file) = file else { return Ok(()) };
        if waiting.is_empty() && known.is_some() {
            return Ok(());
        }
        let _turn = file.lock(&self.path, false)?;
        if !file.is_named(&self.state) {
            // Set aside while this waited for its turn: nothing is added to it any more.
            return Err(AuditError::Busy { path: self.path.clone() });
        }
        let size = file.size(&self.path)?;
        if known.as_ref().is_some_and(|tail| size < tail.size) {
            self.agrees(file, known.as_ref().and_then(head_of))?;
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
                // Nobody needs to find the half of it; what stays is recovered by the next one.
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

    /// A log that was cut or written anew since somebody remembered its head is none to go on with.
    fn agrees(&self, file: &LogFile, known: Option<Head>) -> Result<(), AuditError> {
        let kept = self.keeper.head().map_err(|reason| {
            AuditError::keeper(&self.path, "its head cannot be looked up", &reason)
        })?;
        let restarts = self.keeper.restarts().map_err(|reason| {
            AuditError::keeper(&self.path, "its beginnings cannot be looked up", &reason)
        })?;
        for head in kept.into_iter().chain(known) {
            let there = |record: Record| (record.seq, &record.hash) == (head.seq, &head.hash);
            // Begun anew after that by `restart`, and not by somebody who only says so.
            let begun = |first: Record| {
                first.seq > head.seq
                    && restarts.get(&first.seq).is_some_and(|known| known.hash == first.hash)
            };
            if !file.ending_at(head.end).is_some_and(there) && !file.first().is_some_and(begun) {
                return Err(AuditError::Cut { path: self.path.clone(), seq: head.seq });
            }
        }
        Ok(())
    }

    /// Room for what the next action will have to say.
    #[cfg(target_os = "linux")]
    fn reserve(&self, open: &mut Open) -> Result<(), AuditError> {
        use rustix::fs::{FallocateFlags, fallocate};
        let (Some(file), Some(tail)) = (&open.file, &open.tail) else { return Ok(()) };
        if tail.size + NEEDED <= open.reserved {
            return Ok(());
        }
        match fallocate(&file.file, FallocateFlags::KEEP_SIZE, tail.size, RESERVE) {
            // Not every file system can; then the record itself has to show it.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                open.reserved = tail.size + RESERVE;
                Ok(())
            }
            Err(errno) => Err(AuditError::io(&self.path, errno)),
        }
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "it is used where there is something to reserve")]
    fn reserve(&self, _open: &mut Open) -> Result<(), AuditError> {
        Ok(())
    }

    pub(super) fn restart(&self) -> Result<Option<String>, AuditError> {
        let io = |error: io::Error| AuditError::io(&self.path, error);
        let open = &mut *self.open();
        // One at a time; those who append meanwhile see that the name means another file.
        let turn = self.state.reopen().map_err(io)?;
        if !lock::wait(&turn, Kind::Exclusive, LONGEST_WAIT).map_err(io)? {
            return Err(AuditError::Busy { path: self.path.clone() });
        }
        let kept = self.keeper.head().map_err(|reason| {
            AuditError::keeper(&self.path, "its head cannot be looked up", &reason)
        })?;
        let aside = match self.state.contains(NAME).map_err(io)? {
            false => None,
            true => Some(self.free_name(&self.taken_names()?)?),
        };
        let last = super::reader::last_seq(&self.state, &self.path);
        let sha256 = match &aside {
            Some(aside) => self.set_aside(aside)?,
            None => None,
        };
        let file = LogFile::open(&self.state, &self.path)?;
        let kept_seq = kept.as_ref().map_or(0, |head| head.seq);
        let prev = kept.map_or_else(|| GENESIS.to_owned(), |head| head.hash);
        let entry = Entry::new(Event::ChainRestarted)
            .object(aside.as_deref().unwrap_or(NAME))
            .reason(if aside.is_some() { "set_aside" } else { "gone" })
            .count("kept_seq", kept_seq)
            .count("last_seq", last)
            .digest("set_aside", sha256.as_deref());
        let record = entry.into_record(self.boot_id(), &self.secrets);
        let seq = kept_seq.max(last).saturating_add(1);
        let sealed = seal(record, seq, &prev);
        let Some((Record { hash, .. }, line)) = sealed else { return Ok(aside) };
        write(&file.file, line.as_bytes()).map_err(|error| AuditError::io(&self.path, error))?;
        fdatasync(&file.file).map_err(|errno| io(errno.into()))?;
        self.state.sync().map_err(io)?;
        let size = line.len() as u64;
        let head = Head { seq, hash: hash.clone(), end: size };
        self.keeper.restarted(&head, &line).map_err(|reason| {
            AuditError::keeper(&self.path, "its new beginning cannot be kept", &reason)
        })?;
        open.tail = Some(Tail { seq, hash, size, open_line: false, torn: None });
        (open.file, open.settled, open.reserved) = (Some(file), seq, 0);
        Ok(aside)
    }

    /// Its digest from then on; none of what is no file of ours.
    fn set_aside(&self, aside: &str) -> Result<Option<String>, AuditError> {
        let old = LogFile::existing(&self.state, &self.path).ok().flatten();
        let turn = old.as_ref().map(|old| old.lock(&self.path, false)).transpose()?;
        self.state
            .rename(NAME, aside)
            .map_err(|error| AuditError::io(&self.path, error))?;
        let sha256 = old.as_ref().map(|old| old.sha256(&self.path)).transpose();
        drop(turn);
        sha256
    }

    /// Of logs that were set aside, whether they are still there or not: another one in its place would be taken for it.
    fn taken_names(&self) -> Result<Vec<String>, AuditError> {
        let restarts = self.keeper.restarts().map_err(|reason| {
            AuditError::keeper(&self.path, "its beginnings cannot be looked up", &reason)
        })?;
        let lines = restarts.into_values().filter_map(|beginning| beginning.line);
        let name = |line: String| match judge(line.trim_end().as_bytes()) {
            Line::Record(record) => record.object,
            _ => None,
        };
        Ok(lines.filter_map(name).collect())
    }

    fn free_name(&self, taken: &[String]) -> Result<String, AuditError> {
        let names = (1..=MOST_ASIDE).map(|number| format!("audit.{number}.jsonl"));
        let free = names.filter(|name| !taken.contains(name)).find(|name| {
            self.state.contains(&**name).is_ok_and(|taken| !taken)
        });
        let none = || io::Error::other("too many logs were set aside; move some of them away");
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

#[cfg(test)]
mod tests;
