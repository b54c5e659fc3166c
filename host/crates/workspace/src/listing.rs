//! Reading a tree in path order, from one directory up to a page of entries that a component gets.
//!
//! - [`scan`] reads one directory of any size in bounded memory, with an overlay over it.
//! - [`TreeWalk`] descends by handle, one directory opened inside the other, and knows what git ignores.
//! - [`SelectionWalk`] keeps to what a view shows and a caller selected, and can continue after a cursor.
//! - [`list`] and [`files`] are what other crates call; `search.rs` uses the walk as well.
//!
//! Paths are ordered component by component, so that a walk can continue after any path that it has returned.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, HashSet};
use std::ops::Bound;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

use act_fs::{DIRECTORY, MAX_DEPTH, READ};
use rustix::fs::{AtFlags, Dir, FileType, Mode, Stat};
use rustix::io::Errno;

use super::git::{DirRules, IgnoreRules};
use super::overlay::{Lookup, Overlay};
use super::paths::{GlobError, PathGlobs, is_at_or_below, name_of};
use super::reading::regular;
use super::view::{
    FollowLinks, Handle, JudgedDirectory, Kind, MAX_PATH, OpenEntry, RepoView, StopCheck, ViewError,
};

/// Maximum number of entries in one answer.
pub const MAX_ENTRIES: usize = 5_000;
/// Maximum number of names of one directory that are held at a time. The others are found by scanning again.
pub(super) const WINDOW: usize = 20_000;
/// Maximum number of names that are looked at in one directory.
const MAX_NAMES: usize = 2_000_000;
/// Number of names between two checks whether the result is still wanted.
const BETWEEN_CHECKS: usize = 1_024;
/// Maximum number of entries that one call looks at, in view or not, before it returns a cursor.
const MAX_LOOKED_AT: usize = 50_000;
/// Number of entries of an answer from which on a second thread asks for the sizes of files: less than it takes to begin a thread
/// is not shared.
const BEFORE_THREAD: usize = 256;
/// Number of directories that wait open for that thread. A process may have 1,024 open files.
const OPEN_DIRECTORIES: usize = 32;
/// Maximum number of paths that one call may name.
const MAX_UNDER: usize = 256;

/// One entry of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub path: String,
    pub kind: Kind,
    /// The number of bytes of a file, and 0 for other kinds.
    pub size: u64,
}

/// One page of entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries {
    pub items: Vec<Entry>,
    /// The cursor for the next call, or `None` at the end.
    pub next: Option<String>,
    /// Something is too deep or too large to be listed at all, or has a name that is not UTF-8.
    pub truncated: bool,
    /// Like `truncated`, without the names that are not UTF-8.
    pub cut: bool,
    /// Number of entries of this page whose names are not UTF-8. A directory counts once, whatever kinds were selected.
    pub not_utf8: u64,
}

/// The part of a view that a call is about. An empty list restricts nothing.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    pub under: Vec<String>,
    pub globs: Vec<String>,
    pub kinds: Vec<Kind>,
}

/// Why a selection cannot be listed or searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    #[error(transparent)]
    View(#[from] ViewError),
    #[error(transparent)]
    Glob(#[from] GlobError),
    #[error("{0}")]
    Invalid(&'static str),
}

impl From<Errno> for SelectionError {
    fn from(errno: Errno) -> Self {
        Self::View(errno.into())
    }
}

/// Lists a selection in path order. A cursor stays valid: entries that were added or removed before it are not
/// reported.
///
/// # Errors
/// `Invalid` and `Glob` for a selection or cursor that cannot be used; `View` for a path in `under` that cannot be
/// resolved and for a reader that was stopped.
pub fn list(
    view: &RepoView,
    want: &Selection,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Entries, SelectionError> {
    let limit = limit.clamp(1, MAX_ENTRIES);
    std::thread::scope(|scope| {
        let mut walk = SelectionWalk::new(view, want, cursor)?;
        let (mut answer, mut sizes) = (Entries::default(), None::<Sizes<'_>>);
        let mut not_utf8_before = 0;
        loop {
            match walk.step()? {
                Step::End => {
                    answer.not_utf8 = walk.not_utf8;
                    break;
                }
                Step::Pause => {
                    answer.next = walk.at.clone();
                    answer.not_utf8 = match answer.next {
                        Some(_) => walk.not_utf8_at,
                        // No name behind which the listing could continue was found, so this is its last page.
                        None => walk.not_utf8,
                    };
                    break;
                }
                Step::Item(item) => {
                    if answer.items.len() >= limit {
                        answer.next = answer.items.last().map(|last| last.path.clone());
                        // The next page begins behind the last entry that was given, and counts the names from there on.
                        answer.not_utf8 = not_utf8_before;
                        break;
                    }
                    let at = answer.items.len();
                    if at >= BEFORE_THREAD && sizes.is_none() {
                        sizes = Sizes::begin(scope);
                    }
                    let later = sizes.as_mut().zip(walk.plain_file(&item));
                    let is_later = later.is_some_and(|(sizes, dir)| sizes.add(at, &item.path, dir));
                    let size = match is_later {
                        true => 0,
                        // The entry may have been removed meanwhile.
                        false => match walk.stat(&item) {
                            Ok(stat) => size_of(item.kind, &stat),
                            Err(_) => continue,
                        },
                    };
                    not_utf8_before = walk.not_utf8;
                    answer.items.push(Entry { path: item.path, kind: item.kind, size });
                }
            }
        }
        if let Some(sizes) = sizes {
            sizes.put_into(&mut answer.items);
        }
        answer.cut = walk.cut;
        answer.truncated = answer.cut || answer.not_utf8 > 0;
        Ok(answer)
    })
}

fn size_of(kind: Kind, stat: &Stat) -> u64 {
    if kind == Kind::File { u64::try_from(stat.st_size).unwrap_or(0) } else { 0 }
}

/// A thread that asks for the sizes of files while the walk goes on: half of the time of a long listing is the kernel's.
struct Sizes<'s> {
    batches: SyncSender<SizeBatch>,
    thread: ScopedJoinHandle<'s, Vec<(usize, Option<u64>)>>,
    batch: Option<SizeBatch>,
}

/// Files of one directory.
struct SizeBatch {
    path: String,
    dir: OwnedFd,
    /// The place of each file in the answer, and its name.
    files: Vec<(usize, String)>,
}

impl<'s> Sizes<'s> {
    /// Returns `None` where there is no second processor or no thread for this.
    fn begin(scope: &'s Scope<'s, '_>) -> Option<Self> {
        if !std::thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
            return None;
        }
        let (batches, received) = sync_channel::<SizeBatch>(OPEN_DIRECTORIES);
        let work = move || {
            let mut sizes = vec![];
            for SizeBatch { dir, files, .. } in received {
                sizes.extend(files.into_iter().map(|(at, name)| {
                    let stat = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW);
                    (at, stat.ok().map(|stat| size_of(Kind::File, &stat)))
                }));
            }
            sizes
        };
        let thread = std::thread::Builder::new().name("listing".to_owned());
        let thread = thread.spawn_scoped(scope, work).ok()?;
        Some(Self { batches, thread, batch: None })
    }

    /// Adds a file of a directory. Returns false if the directory cannot be kept open for the thread.
    fn add(&mut self, at: usize, path: &str, dir: BorrowedFd<'_>) -> bool {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        if self.batch.as_ref().is_none_or(|batch| batch.path != directory) {
            let Ok(dir) = dir.try_clone_to_owned() else { return false };
            let batch = SizeBatch { path: directory.to_owned(), dir, files: vec![] };
            self.send(Some(batch));
        }
        if let Some(batch) = &mut self.batch {
            batch.files.push((at, name.to_owned()));
        }
        true
    }

    /// Gives the files so far to the thread, and begins with others.
    fn send(&mut self, next: Option<SizeBatch>) {
        if let Some(batch) = std::mem::replace(&mut self.batch, next) {
            let _ = self.batches.send(batch);
        }
    }

    /// Puts the sizes into an answer. Entries that were removed meanwhile are left out.
    fn put_into(mut self, items: &mut Vec<Entry>) {
        self.send(None);
        let Self { batches, thread, .. } = self;
        drop(batches);
        let mut gone = HashSet::new();
        for (at, size) in thread.join().unwrap_or_default() {
            match (items.get_mut(at), size) {
                (Some(item), Some(size)) => item.size = size,
                _ => drop(gone.insert(at)),
            }
        }
        if !gone.is_empty() {
            let mut at = 0..;
            items.retain(|_| at.next().is_some_and(|at| !gone.contains(&at)));
        }
    }
}

/// Returns the paths of all files in view, without looking at the files.
///
/// # Errors
/// The errors of [`list`].
pub fn files(view: &RepoView) -> Result<HashSet<String>, SelectionError> {
    let want = Selection { kinds: vec![Kind::File], ..Selection::default() };
    let (mut found, mut cursor) = (HashSet::new(), None);
    loop {
        let mut walk = SelectionWalk::new(view, &want, cursor.as_deref())?;
        loop {
            match walk.step()? {
                Step::End => return Ok(found),
                Step::Pause => break,
                Step::Item(item) => found.insert(item.path),
            };
        }
        cursor = walk.at;
        if cursor.is_none() {
            return Ok(found);
        }
    }
}

/// Walks through a selection. Each entry in view is returned once, and links are returned as links.
pub(super) struct SelectionWalk<'v> {
    view: &'v RepoView,
    globs: PathGlobs,
    kinds: Vec<Kind>,
    /// The real names to start at, the last one first. Each is opened when the walk reaches it.
    starts: Vec<String>,
    after: Option<String>,
    walk: Option<TreeWalk<'v>>,
    /// A directory that was returned and is not entered yet.
    pending: Option<WalkEntry>,
    /// The directory of the file that was looked at last.
    judged: Option<JudgedDirectory>,
    looked_at: usize,
    /// The path that was looked at last, after which another call continues.
    pub(super) at: Option<String>,
    /// Something was too deep or too large to be looked at.
    pub(super) cut: bool,
    /// Number of selected entries whose names are not UTF-8, and how many of them came before `at`.
    pub(super) not_utf8: u64,
    not_utf8_at: u64,
}

pub(super) enum Step {
    Item(Item),
    /// The call has looked at enough entries; there may be more after [`SelectionWalk::at`].
    Pause,
    End,
}

pub(super) struct Item {
    pub(super) path: String,
    pub(super) kind: Kind,
    /// The open file, when the selection names it.
    seen: Option<Box<OpenEntry>>,
}

impl<'v> SelectionWalk<'v> {
    pub(super) fn new(
        view: &'v RepoView,
        want: &Selection,
        after: Option<&str>,
    ) -> Result<Self, SelectionError> {
        if after.is_some_and(|after| after.len() > MAX_PATH || after.is_empty()) {
            return Err(SelectionError::Invalid("not a cursor of an earlier answer"));
        }
        if want.under.len() > MAX_UNDER {
            return Err(SelectionError::Invalid(
                "more than 256 paths to look under; name wider ones",
            ));
        }
        let globs = PathGlobs::new(&want.globs)?;
        let mut starts = vec![];
        for path in &want.under {
            view.stop().go_on()?;
            starts.push(view.resolve("", path, FollowLinks::Yes)?.path);
        }
        if want.under.is_empty() {
            starts.push(String::new());
        }
        starts.sort_by(|a, b| in_order(a, b));
        // A start inside another one is visited with that one.
        starts.dedup_by(|later, first| is_at_or_below(later.as_bytes(), first.as_bytes()));
        starts.reverse();
        Ok(Self {
            view,
            globs,
            kinds: want.kinds.clone(),
            starts,
            after: after.map(String::from),
            walk: None,
            pending: None,
            judged: None,
            looked_at: 0,
            at: None,
            cut: false,
            not_utf8: 0,
            not_utf8_at: 0,
        })
    }

    pub(super) fn step(&mut self) -> Result<Step, SelectionError> {
        loop {
            self.view.stop().go_on()?;
            if self.walk.is_none() {
                let Some(start) = self.next_start()? else { return Ok(Step::End) };
                if start.kind == Kind::File {
                    return Ok(Step::Item(Item {
                        path: start.path.clone(),
                        kind: Kind::File,
                        seen: Some(Box::new(start)),
                    }));
                }
                // Only one start can hold the cursor.
                let rest = self.after.as_deref().and_then(|after| below(after, &start.path));
                let after = rest.filter(|rest| !rest.is_empty()).map(str::as_bytes);
                self.walk = Some(TreeWalk::start(
                    (self.view.ignores(), self.view.overlay()),
                    self.view.stop(),
                    start.path.as_bytes(),
                    start.handle.into_directory()?,
                    after,
                )?);
            }
            if self.looked_at >= MAX_LOOKED_AT {
                return Ok(Step::Pause);
            }
            if let Some(item) = self.walk_on()? {
                return Ok(Step::Item(item));
            }
        }
    }

    /// Opens the next start: a directory to walk, or a file to return.
    fn next_start(&mut self) -> Result<Option<OpenEntry>, SelectionError> {
        while let Some(start) = self.starts.pop() {
            let holds_cursor = match self.after.as_deref() {
                None => false,
                Some(after) if below(after, &start).is_some() => true,
                Some(after) if in_order(&start, after) == Ordering::Greater => false,
                // The start lies before the cursor, so an earlier call has visited it.
                Some(_) => continue,
            };
            // The name was resolved before, so a link is something that changed since.
            let path = if start.is_empty() { "." } else { &start };
            let start = match self.view.resolve("", path, FollowLinks::No) {
                Ok(start) => start,
                Err(ViewError::NotFound | ViewError::Excluded { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            match start.kind {
                Kind::Link => {}
                Kind::Directory => return Ok(Some(start)),
                Kind::File if !holds_cursor && self.is_wanted(&start.path, Kind::File) => {
                    self.looked_at += 1;
                    self.at = Some(start.path.clone());
                    self.not_utf8_at = self.not_utf8;
                    return Ok(Some(start));
                }
                Kind::File => {}
            }
        }
        Ok(None)
    }

    /// Looks at one entry. Returns `None` when it was not selected or the walk has ended.
    fn walk_on(&mut self) -> Result<Option<Item>, SelectionError> {
        let Some(walk) = self.walk.as_mut() else { return Ok(None) };
        if let Some(directory) = self.pending.take() {
            // A directory that is unreadable or too deep is left out; the others are still an answer.
            self.cut |= walk.enter(&directory).is_err();
        }
        let Some(mut found) = walk.next()? else {
            self.cut |= walk.cut;
            self.walk = None;
            return Ok(None);
        };
        self.looked_at += 1;
        let (kind, named_before, ignored) = (found.kind, found.named_before, found.ignored);
        // Only a directory is needed again, to enter it.
        let path = match kind {
            Kind::Directory => found.path.clone(),
            Kind::File | Kind::Link => std::mem::take(&mut found.path),
        };
        let path = match String::from_utf8(path) {
            Ok(path) => path,
            Err(odd) => {
                // No component can name the entry, so the listing says that it is not whole.
                let shown = String::from_utf8_lossy(odd.as_bytes());
                if self.view.rule_with(&shown, Some(kind), || ignored).is_none() {
                    // The entries below a directory are not looked at, so the directory counts for them.
                    let kind_is_wanted = kind == Kind::Directory
                        || self.kinds.is_empty()
                        || self.kinds.contains(&kind);
                    let glob_matches = self.globs.is_empty() || self.globs.matches(&shown);
                    self.not_utf8 += u64::from(kind_is_wanted && glob_matches);
                }
                return Ok(None);
            }
        };
        if path.len() > MAX_PATH {
            self.cut = true;
            return Ok(None);
        }
        if !named_before {
            path.clone_into(self.at.get_or_insert_default());
            self.not_utf8_at = self.not_utf8;
        }
        if self.is_hidden(&path, kind, ignored) {
            return Ok(None);
        }
        if kind == Kind::Directory {
            self.pending = Some(found);
        }
        let wanted = !named_before && self.is_wanted(&path, kind);
        Ok(wanted.then_some(Item { path, kind, seen: None }))
    }

    fn is_hidden(&mut self, path: &str, kind: Kind, ignored: bool) -> bool {
        if kind != Kind::File {
            return self.view.rule_with(path, Some(kind), || ignored).is_some();
        }
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let judged = self.judged.take().filter(|judged| judged.path == directory);
        let judged = judged.unwrap_or_else(|| self.view.judge(directory));
        let hidden = self.view.hides_file(&judged, path, || ignored);
        self.judged = Some(judged);
        hidden
    }

    fn is_wanted(&self, path: &str, kind: Kind) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&kind))
            && (self.globs.is_empty() || self.globs.matches(path))
    }

    /// Returns the directory of the item that the last step returned, if the item is a file in it and of no overlay.
    fn plain_file(&self, item: &Item) -> Option<BorrowedFd<'_>> {
        let is_plain =
            item.kind == Kind::File && item.seen.is_none() && !self.view.is_in_overlay(&item.path);
        self.walk.as_ref().filter(|_| is_plain)?.dir()
    }

    /// Returns the metadata of the item that the last step returned, without following a link.
    pub(super) fn stat(&self, item: &Item) -> Result<Stat, Errno> {
        match (&item.seen, self.walk.as_ref().and_then(TreeWalk::dir)) {
            (Some(seen), _) => Ok(seen.stat),
            (None, Some(_)) if self.view.is_in_overlay(&item.path) => self
                .view
                .resolve("", &item.path, FollowLinks::No)
                .map(|seen| seen.stat)
                .map_err(gone),
            (None, Some(dir)) => {
                let name = name_of(item.path.as_bytes());
                rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
            }
            (None, None) => Err(Errno::NOENT),
        }
    }

    /// Opens the regular file that the last step returned.
    pub(super) fn open(&self, item: Item) -> Result<(Handle, Stat), Errno> {
        match (item.seen, self.walk.as_ref().and_then(TreeWalk::dir)) {
            (Some(seen), _) => Ok((seen.handle, seen.stat)),
            (None, Some(_)) if self.view.is_in_overlay(&item.path) => {
                let seen = self.view.resolve("", &item.path, FollowLinks::No).map_err(gone)?;
                if seen.kind == Kind::File {
                    Ok((seen.handle, seen.stat))
                } else {
                    Err(Errno::ISDIR)
                }
            }
            (None, Some(dir)) => {
                let name = name_of(item.path.as_bytes());
                let (fd, stat) = regular(rustix::fs::openat(dir, name, READ, Mode::empty())?)?;
                Ok((Handle::Real(fd), stat))
            }
            (None, None) => Err(Errno::NOENT),
        }
    }
}

fn gone(_: ViewError) -> Errno {
    Errno::NOENT
}

/// Compares paths component by component, so that the entries of a directory follow it at once.
fn in_order(a: &str, b: &str) -> Ordering {
    a.split('/').cmp(b.split('/'))
}

/// Returns the rest of `path` inside `dir`, which is empty when both are equal, or `None` when `path` lies elsewhere.
fn below<'p>(path: &'p str, dir: &str) -> Option<&'p str> {
    if dir.is_empty() {
        return Some(path);
    }
    let rest = path.strip_prefix(dir)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// A walk through a tree. The caller drives: [`TreeWalk::next`] returns an entry, and [`TreeWalk::enter`] descends into
/// it.
pub(super) struct TreeWalk<'a> {
    ignores: &'a IgnoreRules,
    stop: &'a StopCheck,
    overlay: Option<&'a Overlay>,
    frames: Vec<Frame>,
    /// The rest of the path to continue after, in reverse. Its first name is looked for in the next directory entered.
    resume: Vec<Vec<u8>>,
    /// A directory had more names than are looked at.
    pub(super) cut: bool,
}

struct Frame {
    path: Vec<u8>,
    fd: OwnedFd,
    rules: Arc<DirRules>,
    names: std::vec::IntoIter<(Vec<u8>, Kind)>,
    last: Vec<u8>,
    more: bool,
    /// The name to continue below, until the walk has reached it.
    resume: Option<Vec<u8>>,
}

/// An entry of a tree. It is opened by its last name in [`TreeWalk::dir`].
pub(super) struct WalkEntry {
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) ignored: bool,
    /// An earlier walk has returned this entry, so only the entries below it are new.
    pub(super) named_before: bool,
}

impl WalkEntry {
    pub(super) fn name(&self) -> &[u8] {
        name_of(&self.path)
    }
}

impl<'a> TreeWalk<'a> {
    /// Begins in the directory `path`, after the path `after` in it.
    pub(super) fn start(
        (ignores, overlay): (&'a IgnoreRules, Option<&'a Overlay>),
        stop: &'a StopCheck,
        path: &[u8],
        fd: OwnedFd,
        after: Option<&[u8]>,
    ) -> Result<Self, Errno> {
        let mut walk = Self { ignores, stop, overlay, frames: vec![], resume: vec![], cut: false };
        if let Some(after) = after {
            walk.resume = after.split(|byte| *byte == b'/').map(<[u8]>::to_vec).rev().collect();
        }
        let rules = ignores.of_dir(path);
        walk.push(path.to_vec(), fd, rules)?;
        Ok(walk)
    }

    pub(super) fn next(&mut self) -> Result<Option<WalkEntry>, Errno> {
        loop {
            let Some(frame) = self.frames.last_mut() else { return Ok(None) };
            if let Some((name, kind)) = frame.names.next() {
                let path = if frame.path.is_empty() {
                    name.clone()
                } else {
                    [frame.path.as_slice(), b"/", &name].concat()
                };
                let named_before = frame.resume.take().is_some_and(|resume| resume == name);
                if !named_before {
                    self.resume.clear();
                }
                frame.last = name;
                let ignored = self.ignores.ignores(&frame.rules, &path, kind == Kind::Directory);
                return Ok(Some(WalkEntry { path, kind, ignored, named_before }));
            }
            if frame.more {
                let after = Bound::Excluded(frame.last.as_slice());
                let next = scan_over(self.overlay, self.stop, &frame.path, &frame.fd, after)?;
                frame.more = next.more;
                frame.names = next.names.into_iter();
                self.cut |= next.cut;
            } else {
                self.frames.pop();
            }
        }
    }

    /// Descends into the directory that was returned last. Returns false when it is no directory any more.
    pub(super) fn enter(&mut self, found: &WalkEntry) -> Result<bool, Errno> {
        if self.frames.len() >= MAX_DEPTH {
            return Err(Errno::NAMETOOLONG);
        }
        let Some(frame) = self.frames.last() else { return Ok(false) };
        let in_overlay = is_in_overlay(self.overlay, &found.path);
        let opened = match in_overlay {
            // Such a directory is listed from the overlay, so any handle does.
            true => frame.fd.try_clone().map_err(|_| Errno::MFILE),
            false => rustix::fs::openat(&frame.fd, found.name(), DIRECTORY, Mode::empty()),
        };
        let fd = match opened {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(false),
            Err(errno) => return Err(errno),
        };
        let own = (!in_overlay).then(|| fd.as_fd());
        let rules = self.ignores.inside(&frame.rules, &found.path, own);
        self.push(found.path.clone(), fd, rules)?;
        Ok(true)
    }

    /// Returns the directory that holds the entry returned last.
    pub(super) fn dir(&self) -> Option<BorrowedFd<'_>> {
        self.frames.last().map(|frame| frame.fd.as_fd())
    }

    fn push(&mut self, path: Vec<u8>, fd: OwnedFd, rules: Arc<DirRules>) -> Result<(), Errno> {
        let resume = self.resume.pop();
        let from = resume.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let first = scan_over(self.overlay, self.stop, &path, &fd, from)?;
        self.cut |= first.cut;
        let names = first.names.into_iter();
        self.frames.push(Frame { path, fd, rules, names, last: vec![], more: first.more, resume });
        Ok(())
    }
}

fn scan_over(
    overlay: Option<&Overlay>,
    stop: &StopCheck,
    path: &[u8],
    fd: &OwnedFd,
    from: Bound<&[u8]>,
) -> Result<Scan, Errno> {
    let over = overlay.zip(std::str::from_utf8(path).ok());
    let over = over.map_or_else(OverlayNames::new, |(over, path)| over.names(path));
    scan((!is_in_overlay(overlay, path)).then_some(fd), &over, from, WINDOW, stop)
}

/// Returns whether a directory exists in the overlay alone.
fn is_in_overlay(overlay: Option<&Overlay>, path: &[u8]) -> bool {
    let Some((over, path)) = overlay.zip(std::str::from_utf8(path).ok()) else { return false };
    matches!(over.lookup(path), Lookup::Directory)
}

/// The names that an overlay has in a directory, with `None` for a removed one.
type OverlayNames = BTreeMap<Vec<u8>, Option<Kind>>;

#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Files, directories and links, sorted by name.
    pub(super) names: Vec<(Vec<u8>, Kind)>,
    /// The directory has names after the last one.
    pub(super) more: bool,
    /// The directory has more names than are looked at.
    pub(super) cut: bool,
}

/// Returns the first names of a directory that nothing is laid over. A directory has more of them only if it is huge.
pub(super) fn first_names(dir: impl AsFd) -> Result<Vec<(Vec<u8>, Kind)>, Errno> {
    let nothing = OverlayNames::new();
    let scanned = scan(Some(dir), &nothing, Bound::Unbounded, WINDOW, &StopCheck::default())?;
    Ok(scanned.names)
}

/// Returns at most `window` names from `from` on: those of `dir`, if there is one, with the overlay's names over them.
pub(super) fn scan(
    dir: Option<impl AsFd>,
    over: &OverlayNames,
    from: Bound<&[u8]>,
    window: usize,
    stop: &StopCheck,
) -> Result<Scan, Errno> {
    let mut found = Window { names: BinaryHeap::new(), size: window, scan: Scan::default() };
    let wanted = |name: &[u8]| match from {
        Bound::Unbounded => true,
        Bound::Included(first) => name >= first,
        Bound::Excluded(last) => name > last,
    };
    for (name, kind) in over.iter().filter(|(name, _)| wanted(name)) {
        found.offer(name, || *kind);
    }
    let Some(dir) = dir else { return Ok(found.into_scan()) };
    for (looked_at, entry) in Dir::read_from(&dir)?.enumerate() {
        if looked_at % BETWEEN_CHECKS == 0 {
            stop.go_on()?;
        }
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") || !wanted(name) || over.contains_key(name) {
            continue;
        }
        if looked_at >= MAX_NAMES {
            found.scan.cut = true;
            break;
        }
        found.offer(name, || kind_of(&dir, name, entry.file_type()));
    }
    Ok(found.into_scan())
}

/// The first names, in order, of all that are offered.
struct Window {
    names: BinaryHeap<(Vec<u8>, Kind)>,
    size: usize,
    scan: Scan,
}

impl Window {
    fn offer(&mut self, name: &[u8], kind: impl FnOnce() -> Option<Kind>) {
        let Self { names, size, scan } = self;
        if names.len() >= *size && names.peek().is_some_and(|(last, _)| last.as_slice() < name) {
            scan.more = true;
            return;
        }
        let Some(kind) = kind() else { return };
        names.push((name.to_vec(), kind));
        if names.len() > *size {
            names.pop();
            scan.more = true;
        }
    }

    fn into_scan(self) -> Scan {
        let mut names = self.names.into_vec();
        // Faster than the heap's own sort.
        names.sort_unstable();
        Scan { names, ..self.scan }
    }
}

/// Returns the kind of a name, also on a file system whose listing leaves it out.
fn kind_of(dir: impl AsFd, name: &[u8], listed: FileType) -> Option<Kind> {
    let known = match listed {
        FileType::Unknown => {
            let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            FileType::from_raw_mode(stat.st_mode)
        }
        known => known,
    };
    Kind::of(known)
}

#[cfg(test)]
mod tests;
