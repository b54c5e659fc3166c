//! The journals of all tasks, as far as their whole lines go, and who wants to know when they grow.
//!
//! On Linux the kernel reports each write (inotify), so an event is known within a millisecond and a journal that rests costs
//! nothing. Elsewhere the lengths are compared ten times a second. Tasks are neither asked nor slowed down: their journals are
//! read, and nothing is written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
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

/// How much of a journal there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Length {
    /// The place behind the last whole line.
    whole: Mark,
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
        newest.iter().for_each(|task_id| journals.measure(task_id));
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
            // What was written anew has numbers that the reader has seen, so only what follows is sent.
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

    fn length(&self, task_id: &str) -> Length {
        let known = self.read().journals.get(task_id).copied();
        known.unwrap_or_else(|| {
            self.measure(task_id);
            self.read().journals.get(task_id).copied().unwrap_or_default()
        })
    }

    /// Looks at the length of a journal.
    fn measure(&self, task_id: &str) {
        let before = self.read().journals.get(task_id).copied().unwrap_or_default();
        let now = match self.observer.artifacts().open_journal(task_id) {
            Ok(Some(file)) => measured(&file, before),
            // A link or a directory in its place is no journal.
            _ => Length { gone: true, ..before },
        };
        self.write().journals.insert(task_id.to_owned(), now);
    }

    /// Looks at the journals of these tasks, and at the tasks that were accepted meanwhile.
    fn look(&self, names: &BTreeSet<String>) {
        let is_new = {
            let known = self.read();
            names.iter().any(|task_id| !known.journals.contains_key(task_id))
        };
        let (mut ids, mut newest) = (names.clone(), None);
        if is_new {
            let seen = i64::try_from(self.read().seen).unwrap_or(i64::MAX);
            if let Ok(new) = self.observer.accepted_after(seen, PAGE) {
                newest = new.last().and_then(|(last, _)| u64::try_from(*last).ok());
                ids.extend(new.into_iter().map(|(_, task_id)| task_id));
            }
            // A journal without a row is never read.
            ids.retain(|task_id| {
                self.read().journals.contains_key(task_id)
                    || self.observer.task(task_id).is_ok_and(|task| task.is_some())
            });
        }
        ids.iter().for_each(|task_id| self.measure(task_id));
        if let Some(newest) = newest {
            // Only now: a position that knows the task must know its journal.
            self.write().seen = newest;
        }
        self.changed.send_modify(|count| *count += 1);
    }

    /// Looks at every journal that may have changed.
    fn look_at_all(&self) {
        self.look(&self.open());
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

    /// Follows the journals on a thread of its own, until nobody holds them any more.
    ///
    /// # Errors
    ///
    /// The directory of the journals cannot be created or watched, or there is no thread.
    pub(crate) fn follow(self: &Arc<Self>) -> io::Result<()> {
        let mut watcher = Watcher::of(self)?;
        // Between the first look and the watch a journal may have grown.
        self.look_at_all();
        let journals = Arc::downgrade(self);
        let follow = move || {
            while let Some(journals) = journals.upgrade() {
                match watcher.changes() {
                    Changes::Of(names) if names.is_empty() => {}
                    Changes::Of(names) => journals.look(&names),
                    Changes::Unknown => journals.look_at_all(),
                    Changes::DirectoryGone => {
                        journals.look_at_all();
                        // The directory is made anew for the next task.
                        match Watcher::of(&journals) {
                            Ok(new) => watcher = new,
                            Err(_) => std::thread::sleep(ROUND),
                        }
                    }
                }
            }
        };
        std::thread::Builder::new().name("journals".into()).spawn(follow)?;
        Ok(())
    }
}

/// What the kernel reported.
enum Changes {
    /// The journals of these tasks may have changed.
    Of(BTreeSet<String>),
    /// Reports were lost.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only inotify loses reports"))]
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

/// Returns the length of a journal that was `before` when it was last looked at.
fn measured(file: &File, before: Length) -> Length {
    let Ok(about) = file.metadata() else { return before };
    let mut length = match about.len() < before.whole.offset {
        // It was cut or written anew.
        true => Length::default(),
        false => Length { gone: false, ..before },
    };
    let mut lines = Lines::new(file, length.whole.offset, about.len());
    while let Some((line, end)) = lines.next() {
        length.whole.offset = end;
        let line = line.and_then(|line| serde_json::from_slice::<Line>(&line).ok());
        length.ended = line.as_ref().is_some_and(|line| line.r#type == "task_finished");
        length.whole.seq = line.map_or(length.whole.seq, |line| line.seq);
    }
    length
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
struct Lines<'f> {
    file: &'f File,
    at: u64,
    until: u64,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were handed out.
    used: usize,
    /// Place of `buffer` in the file.
    start: u64,
}

impl<'f> Lines<'f> {
    fn new(file: &'f File, from: u64, until: u64) -> Self {
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
