//! The journals of all tasks, read as far as their lines are whole, and the readers that are told when they grow.
//!
//! On Linux the kernel reports each write (inotify), so an event is known within a millisecond and a journal that rests costs
//! nothing. Elsewhere the lengths are compared ten times a second. Tasks are neither asked nor slowed down: their journals are
//! read, and nothing is written.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::watch;

use crate::cursor::{MAX_OPEN, Mark, Position};
use act_core::Failure;
use act_task::{Observer, TaskId};

/// Maximum number of bytes of a line that is sent. The longest that tasks write are patches of dry runs.
const MAX_LINE: usize = 1 << 20;
/// Bytes of journals and of the cursors behind their lines that one step of a reader takes at most, so that no reader holds
/// more memory. A cursor has as many bytes as 20 lines when hundreds of journals are open.
const BATCH: usize = 256 << 10;
/// Bytes of one read.
const PIECE: usize = 64 << 10;
/// Number of the newest tasks whose journals are looked at when the server begins, beside those that wait or run.
const NEWEST: usize = 100;
/// Time that the thread which follows waits at most before it looks whether it is still wanted.
const ROUND: Duration = Duration::from_millis(500);
/// Number of tasks that one query of the store returns.
const PAGE: u32 = 500;
/// Number of journals whose lengths are remembered. Beyond it those that have ended are measured again when a reader asks.
const MAX_KNOWN: usize = 4096;

pub(crate) struct Journals {
    observer: Arc<Observer>,
    known: RwLock<Known>,
    /// Counts the changes.
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct Known {
    /// The order of the newest task.
    seen: u64,
    journals: BTreeMap<String, Length>,
}

/// The length of a journal, as it was measured last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Length {
    /// The place behind the last whole line.
    whole: Mark,
    /// The bytes between the last whole line and this place have no end of a line, so they are not searched again.
    half: u64,
    /// The last line is the end of the task.
    ended: bool,
    /// There is no such file.
    gone: bool,
}

/// An item of the stream, with the position behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    /// A line of a journal, as JSON without control characters.
    Line(String),
    /// Events that cannot be sent.
    Gap(Gap),
}

/// Events of a task that cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Gap {
    pub task_id: String,
    /// Number of the last event before the gap.
    pub after: u64,
    /// Number of the last event in the gap; null where that is not known.
    pub until: Option<u64>,
    /// `gone`: the journal is no longer on disk; `changed`: it is shorter than it was; `unreadable`: a line is no event;
    /// `too_long`: a line is longer than 1 MiB.
    pub why: &'static str,
}

/// The fields of a line that the server looks at.
#[derive(Deserialize)]
struct Line {
    seq: u64,
    r#type: String,
}

impl Journals {
    /// Looks at the journals for the first time.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub(crate) fn new(observer: Arc<Observer>) -> Result<Arc<Self>, Failure> {
        let journals = Self { observer, known: RwLock::default(), changed: watch::Sender::new(0) };
        let (mut seen, mut newest) = (0, vec![]);
        loop {
            let page = journals.observer.accepted_after(seen, PAGE)?;
            let Some((last, _)) = page.last() else { break };
            seen = *last;
            newest.extend(page.into_iter().map(|(_, task_id)| task_id));
            newest.drain(..newest.len().saturating_sub(NEWEST));
        }
        newest.extend(journals.observer.unfinished()?);
        journals.write().seen = u64::try_from(seen).unwrap_or_default();
        for task_id in &newest {
            journals.measure(task_id);
        }
        Ok(Arc::new(journals))
    }

    /// Returns a handle that reports each change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Returns the position behind everything that was written so far.
    pub(crate) fn now(&self) -> Position {
        let known = self.read();
        let open = known.journals.iter().filter(|(_, length)| !length.ended && !length.gone);
        let open = open.map(|(task_id, length)| (task_id.clone(), length.whole));
        Position { seen: known.seen, open: open.take(MAX_OPEN).collect() }
    }

    /// Takes the next items behind a position, at most about [`BATCH`] bytes of them, and moves the position behind them. Each
    /// item comes with the cursor behind it.
    pub(crate) fn next(&self, position: &mut Position) -> Vec<(String, Item)> {
        self.add_new(position);
        let (mut items, mut taken) = (vec![], 0);
        let open: Vec<String> = position.open.keys().cloned().collect();
        for task_id in open {
            if taken >= BATCH {
                break;
            }
            taken += self.take(&task_id, position, &mut items, BATCH - taken);
        }
        items
    }

    /// Opens the journals of tasks that the position does not know.
    fn add_new(&self, position: &mut Position) {
        while position.seen < self.read().seen && position.open.len() < MAX_OPEN {
            let after = i64::try_from(position.seen).unwrap_or(i64::MAX);
            let room = u32::try_from(MAX_OPEN - position.open.len()).unwrap_or(PAGE);
            let Ok(new) = self.observer.accepted_after(after, room.min(PAGE)) else { return };
            if new.is_empty() {
                // The newest tasks were removed from the queue.
                position.seen = self.read().seen;
            }
            for (order, task_id) in new {
                position.seen = u64::try_from(order).unwrap_or_default();
                position.open.entry(task_id).or_default();
            }
        }
    }

    /// Takes items of one journal. Returns the number of their bytes.
    fn take(
        &self,
        task_id: &str,
        position: &mut Position,
        items: &mut Vec<(String, Item)>,
        most: usize,
    ) -> usize {
        let Some(mut mark) = position.open.get(task_id).copied() else { return 0 };
        let length = self.length(task_id);
        let mut taken = 0;
        let gap = |after, until, why| Gap { task_id: task_id.to_owned(), after, until, why };
        if length.gone {
            position.open.remove(task_id);
            let until = (length.whole.seq > 0).then_some(length.whole.seq);
            items.push((position.encode(), Item::Gap(gap(mark.seq, until, "gone"))));
            return 1;
        }
        if length.whole.offset < mark.offset {
            // The lines that were written anew repeat numbers that the reader has seen, so only later lines are sent.
            position.open.insert(task_id.to_owned(), length.whole);
            let item = gap(mark.seq, Some(length.whole.seq), "changed");
            items.push((position.encode(), Item::Gap(item)));
            return 1;
        }
        if length.whole.offset == mark.offset {
            if length.ended {
                position.open.remove(task_id);
            }
            return 0;
        }
        let Ok(Some(file)) = self.observer.artifacts().open_journal(task_id) else { return 0 };
        let mut lines = Lines::new(&file, mark.offset, length.whole.offset);
        while taken < most
            && let Some((line, end)) = lines.next()
        {
            let item = match &line {
                Some(line) => match readable(line) {
                    Some((json, seq)) => {
                        mark.seq = seq;
                        Item::Line(json)
                    }
                    None => Item::Gap(gap(mark.seq, None, "unreadable")),
                },
                None => Item::Gap(gap(mark.seq, None, "too_long")),
            };
            mark.offset = end;
            if end == length.whole.offset && length.ended {
                position.open.remove(task_id);
            } else {
                position.open.insert(task_id.to_owned(), mark);
            }
            let cursor = position.encode();
            taken += line.as_ref().map_or(0, Vec::len) + cursor.len() + size_of::<(String, Item)>();
            items.push((cursor, item));
        }
        taken
    }

    /// Returns the length of a journal. A cursor may name any task, and one that the store does not know has no journal.
    fn length(&self, task_id: &str) -> Length {
        if let Some(known) = self.read().journals.get(task_id) {
            return *known;
        }
        match self.observer.is_task(task_id) {
            true => self.measure(task_id),
            false => Length { gone: true, ..Length::default() },
        }
    }

    /// Looks at the length of a journal.
    fn measure(&self, task_id: &str) -> Length {
        let before = self.read().journals.get(task_id).copied().unwrap_or_default();
        let now = match self.observer.artifacts().open_journal(task_id) {
            Ok(Some(file)) => match file.metadata() {
                Ok(about) => measured(&file, about.len(), before),
                Err(_) => before,
            },
            // A link or a directory in its place is no journal.
            _ => Length { gone: true, ..before },
        };
        let mut known = self.write();
        known.journals.insert(task_id.to_owned(), now);
        if known.journals.len() > MAX_KNOWN {
            known.journals.retain(|of, length| of == task_id || !length.ended && !length.gone);
        }
        now
    }

    /// Looks at what the kernel has reported.
    fn look(&self, changes: Changes) {
        match changes {
            Changes::Of(names) => {
                let known = |task_id: &String| self.read().journals.contains_key(task_id);
                if !names.iter().all(known) {
                    self.look_for_new();
                }
                // A journal without a row is never read.
                let with_row = |task_id: &&String| known(task_id) || self.observer.is_task(task_id);
                for task_id in names.iter().filter(with_row) {
                    self.measure(task_id);
                }
            }
            // A task may have begun and ended in what was lost, so the store is asked for all that were accepted since.
            Changes::Unknown | Changes::DirectoryGone => {
                self.look_for_new();
                for task_id in &self.open() {
                    self.measure(task_id);
                }
            }
        }
        self.changed.send_modify(|count| *count += 1);
    }

    /// Looks at the journals of the tasks that were accepted since the newest one that is known.
    fn look_for_new(&self) {
        loop {
            let seen = i64::try_from(self.read().seen).unwrap_or(i64::MAX);
            let Ok(new) = self.observer.accepted_after(seen, PAGE) else { return };
            let Some(newest) = new.last().and_then(|(last, _)| u64::try_from(*last).ok()) else {
                return;
            };
            for (_, task_id) in &new {
                self.measure(task_id);
            }
            // Only now: a position that knows the task must know its journal.
            self.write().seen = newest;
        }
    }

    /// Returns the tasks whose journals may grow.
    fn open(&self) -> BTreeSet<String> {
        let mut ids: BTreeSet<String> = {
            let known = self.read();
            let open = known.journals.iter().filter(|(_, length)| !length.ended && !length.gone);
            open.map(|(task_id, _)| task_id.clone()).collect()
        };
        ids.extend(self.observer.unfinished().unwrap_or_default());
        ids
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the journals on a thread of its own, until the server has ended.
    ///
    /// # Errors
    ///
    /// The directory of the journals cannot be created or watched, or there is no thread.
    pub(crate) fn follow(self: &Arc<Self>) -> io::Result<()> {
        let mut watcher = Watcher::of(self)?;
        // Between the first look and the watch a journal may have grown.
        self.look(Changes::Unknown);
        let journals = Arc::downgrade(self);
        let follow = move || {
            while let Some(journals) = journals.upgrade() {
                let changes = watcher.changes();
                let is_gone = matches!(changes, Changes::DirectoryGone);
                if !matches!(&changes, Changes::Of(names) if names.is_empty()) {
                    journals.look(changes);
                }
                if is_gone {
                    // The directory is made anew for the next task.
                    match Watcher::of(&journals) {
                        Ok(new) => watcher = new,
                        Err(_) => std::thread::sleep(ROUND),
                    }
                }
            }
        };
        std::thread::Builder::new().name("journals".into()).spawn(follow)?;
        Ok(())
    }
}

/// A report of the kernel.
enum Changes {
    /// The journals of these tasks may have changed.
    Of(BTreeSet<String>),
    /// Reports were lost, or there were none yet.
    Unknown,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only inotify reports it"))]
    DirectoryGone,
}

/// Waits for changes in the directory of the journals.
#[cfg(target_os = "linux")]
struct Watcher {
    queue: OwnedFd,
    /// The handle by which the directory is watched, so that nothing else can be put in its place.
    _directory: act_fs::Dir,
}

#[cfg(target_os = "linux")]
impl Watcher {
    fn of(journals: &Journals) -> io::Result<Self> {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
        let watched = WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR;
        let directory = journals.observer.artifacts().state()?.private_subdirectory("journal")?;
        let queue = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&std::os::fd::AsFd::as_fd(&directory));
        add_watch(&queue, format!("/proc/self/fd/{fd}"), watched)?;
        Ok(Self { queue, _directory: directory })
    }

    /// Waits for changes, at most one round.
    fn changes(&mut self) -> Changes {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        use rustix::fs::inotify::{ReadFlags, Reader};
        let round = Timespec { tv_sec: 0, tv_nsec: ROUND.subsec_nanos().into() };
        let _ = poll(&mut [PollFd::new(&self.queue, PollFlags::IN)], Some(&round));
        let mut names = BTreeSet::new();
        let (mut lost, mut gone) = (false, false);
        let mut buffer = [std::mem::MaybeUninit::uninit(); 16 << 10];
        let mut reader = Reader::new(&self.queue, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    lost |= event.events().contains(ReadFlags::QUEUE_OVERFLOW);
                    gone |= event.events().contains(ReadFlags::IGNORED);
                    let name = event.file_name().and_then(|name| name.to_str().ok());
                    names.extend(name.and_then(task_of));
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        match (gone, lost) {
            (true, _) => Changes::DirectoryGone,
            (false, true) => Changes::Unknown,
            (false, false) => Changes::Of(names),
        }
    }
}

/// Compares the lengths of the journals from time to time.
#[cfg(not(target_os = "linux"))]
struct Watcher {
    journals: std::sync::Weak<Journals>,
}

#[cfg(not(target_os = "linux"))]
impl Watcher {
    fn of(journals: &Arc<Journals>) -> io::Result<Self> {
        Ok(Self { journals: Arc::downgrade(journals) })
    }

    fn changes(&mut self) -> Changes {
        std::thread::sleep(ROUND / 5);
        let open = self.journals.upgrade().map(|journals| journals.open()).unwrap_or_default();
        Changes::Of(open)
    }
}

/// Returns the task whose journal has this name.
#[cfg(target_os = "linux")]
fn task_of(name: &str) -> Option<String> {
    name.strip_suffix(".jsonl").filter(|name| TaskId::is_one(name)).map(str::to_owned)
}

/// Returns the length of a journal of `end` bytes that was `before` when it was last looked at.
fn measured(file: &impl FileExt, end: u64, before: Length) -> Length {
    let mut length = match end < before.whole.offset {
        // It was cut or written anew.
        true => Length::default(),
        false => Length { gone: false, ..before },
    };
    // A half line may be as long as the disk has room, and it is read anew only when it has an end.
    let searched = if length.half <= end { length.half } else { 0 };
    let searched = searched.max(length.whole.offset);
    length.half = end;
    if !has_line_end(file, searched, end) {
        return length;
    }
    let mut lines = Lines::new(file, length.whole.offset, end);
    while let Some((line, end)) = lines.next() {
        length.whole.offset = end;
        let line = line.and_then(|line| serde_json::from_slice::<Line>(&line).ok());
        length.ended = line.as_ref().is_some_and(|line| line.r#type == "task_finished");
        length.whole.seq = line.map_or(length.whole.seq, |line| line.seq);
    }
    length
}

/// Returns whether a part of a file has the end of a line.
fn has_line_end(file: &impl FileExt, mut from: u64, end: u64) -> bool {
    let mut piece = vec![0; PIECE];
    while from < end {
        let most = usize::try_from(end - from).unwrap_or(PIECE).min(PIECE);
        let room = piece.get_mut(..most).unwrap_or_default();
        match file.read_at(room, from) {
            Ok(read @ 1..) => {
                if room.iter().take(read).any(|byte| *byte == b'\n') {
                    return true;
                }
                from += read as u64;
            }
            _ => return false,
        }
    }
    false
}

/// Returns an event as JSON that breaks no frame of the stream, and its number. Returns `None` where the line is no event.
fn readable(line: &[u8]) -> Option<(String, u64)> {
    let value: serde_json::Value = serde_json::from_slice(line).ok()?;
    let seq = value.get("seq")?.as_u64()?;
    value.get("type")?.as_str()?;
    let json = value.to_string();
    Some((act_core::terminal_text::json(&json).into_owned(), seq))
}

/// The whole lines of a part of a file, each with the place behind it. A line that is too long is `None`.
struct Lines<'f, F> {
    file: &'f F,
    at: u64,
    until: u64,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were handed out.
    used: usize,
    /// Place of `buffer` in the file.
    start: u64,
}

impl<'f, F: FileExt> Lines<'f, F> {
    fn new(file: &'f F, from: u64, until: u64) -> Self {
        Self { file, at: from, until, buffer: vec![], used: 0, start: from }
    }

    fn next(&mut self) -> Option<(Option<Vec<u8>>, u64)> {
        let mut too_long = false;
        let mut searched = self.used;
        loop {
            let rest = self.buffer.get(searched..).unwrap_or_default();
            if let Some(found) = rest.iter().position(|byte| *byte == b'\n') {
                let end = searched + found;
                let line = self.buffer.get(self.used..end).unwrap_or_default();
                let line = (!too_long && line.len() <= MAX_LINE).then(|| line.to_vec());
                self.used = end + 1;
                return Some((line, self.start + self.used as u64));
            }
            self.buffer.drain(..self.used);
            self.start += self.used as u64;
            self.used = 0;
            if self.buffer.len() > MAX_LINE {
                too_long = true;
                self.start += self.buffer.len() as u64;
                self.buffer.clear();
            }
            searched = self.buffer.len();
            let left = usize::try_from(self.until.saturating_sub(self.at)).unwrap_or(PIECE);
            let mut piece = vec![0; left.min(PIECE)];
            let read = self.file.read_at(&mut piece, self.at).unwrap_or_default();
            if read == 0 {
                return None;
            }
            self.at += read as u64;
            self.buffer.extend(piece.get(..read).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use act_core::Outcome;
    use act_core::process::Process;

    use super::*;
    use crate::tests::{Place, end, event, write};

    fn journals(place: &Place) -> Arc<Journals> {
        Journals::new(Arc::new(Observer::of(Arc::clone(&place.artifacts)).unwrap())).unwrap()
    }

    // WATCH-22
    #[test]
    fn tasks_that_came_and_ended_while_reports_were_lost_are_sent_once() {
        let place = Place::new();
        let journals = journals(&place);
        let mut position = journals.now();
        // More tasks than one query of the store returns.
        let count = 2 * PAGE as usize + 1;
        for number in 0..count {
            let task_id = format!("t-{number:06}");
            let mut journal = place.task(&task_id, "x");
            write(&mut journal, &(event(&task_id, 1) + &end(&task_id, 2)));
            place.store.end(&task_id, &Process::this(), &Outcome::Success).unwrap();
        }
        journals.look(Changes::Unknown);
        let mut lines = BTreeSet::new();
        loop {
            let items = journals.next(&mut position);
            if items.is_empty() {
                break;
            }
            for (_, item) in items {
                let Item::Line(line) = item else { panic!("{item:?}") };
                assert!(lines.insert(line), "nothing is repeated");
            }
        }
        assert_eq!(lines.len(), 2 * count);
        journals.look(Changes::Unknown);
        assert_eq!(journals.next(&mut position), []);
    }

    // attack 649
    #[test]
    fn tasks_that_a_cursor_invents_are_gaps_and_are_not_remembered() {
        let place = Place::new();
        place.task("t-aaaaaa", "x");
        let journals = journals(&place);
        for round in 0..100 {
            let ids =
                (0..MAX_OPEN).map(|number| (format!("t-{round:02}{number:04}"), Mark::default()));
            let mut forged = Position { seen: u64::MAX, open: ids.collect() };
            let gaps = journals.next(&mut forged);
            assert_eq!((gaps.len(), forged.open.len()), (MAX_OPEN, 0));
        }
        assert_eq!(journals.read().journals.len(), 1);
    }

    // WATCH-22
    #[test]
    fn of_many_journals_those_that_have_ended_are_forgotten_and_found_again() {
        let place = Place::new();
        let journals = journals(&place);
        let mut journal = place.task("t-aaaaaa", "x");
        write(&mut journal, &(event("t-aaaaaa", 1) + &end("t-aaaaaa", 2)));
        place.task("t-bbbbbb", "x");
        journals.look(Changes::Unknown);
        let ended = Length { ended: true, ..Length::default() };
        let others = (0..MAX_KNOWN).map(|number| (format!("t-{number:06}"), ended));
        journals.write().journals.extend(others);
        journals.measure("t-bbbbbb");
        assert_eq!(journals.read().journals.keys().collect::<Vec<_>>(), ["t-bbbbbb"]);
        let items = journals.next(&mut Position::default());
        assert_eq!(items.len(), 2, "{items:?}");
    }

    /// A file that counts the bytes that are read from it.
    struct Counted {
        bytes: Vec<u8>,
        read: Cell<usize>,
    }

    impl FileExt for Counted {
        fn read_at(&self, into: &mut [u8], from: u64) -> io::Result<usize> {
            let rest = &self.bytes[usize::try_from(from).unwrap().min(self.bytes.len())..];
            let length = rest.len().min(into.len());
            into[..length].copy_from_slice(&rest[..length]);
            self.read.set(self.read.get() + length);
            Ok(length)
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            unreachable!("journals are only read")
        }
    }

    // attack 648
    #[test]
    fn a_half_line_that_grows_is_searched_once_and_read_when_it_is_whole() {
        let mut file = Counted { bytes: vec![], read: Cell::new(0) };
        let first = b"{\"seq\":1,\"type\":\"milestone\"}\n";
        file.bytes.extend(first);
        let mut length = Length::default();
        for _ in 0..100 {
            file.bytes.extend(vec![b' '; 10_000]);
            length = measured(&file, file.bytes.len() as u64, length);
        }
        assert_eq!(length.whole, Mark { offset: first.len() as u64, seq: 1 });
        let (read, bytes) = (file.read.get(), file.bytes.len());
        assert!(read < bytes + 2 * 10_000, "{read} bytes of {bytes} were read");
        file.bytes.extend(b"{\"seq\":2,\"type\":\"task_finished\"}\n");
        length = measured(&file, file.bytes.len() as u64, length);
        assert_eq!(length.whole, Mark { offset: file.bytes.len() as u64, seq: 2 });
        assert!(length.ended);
        // The half line may be cut, and written anew.
        file.bytes.extend(b"half a line");
        length = measured(&file, file.bytes.len() as u64, length);
        file.bytes.truncate(file.bytes.len() - 9);
        file.bytes.extend(b"\n");
        length = measured(&file, file.bytes.len() as u64, length);
        assert_eq!(length.whole.offset, file.bytes.len() as u64);
    }
}
