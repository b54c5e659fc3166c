//! Which files the newest commits changed, from git's own objects.
//!
//! [`history`] walks from `HEAD` along first parents and compares the tree of each commit with that of its parent. It reads
//! commits and trees alone: no content of a file, no rename, no name of a person.
//!
//! All files are opened by handle beneath the git directory, without following a link, and only if they belong to the
//! owner of the repository or to the superuser; [`OwnGit`] refuses a git directory that is not the repository's own. gix
//! never gets a path: it parses bytes that were read here. Nothing is mapped into memory, because a file that another
//! process truncates would end the program.
//!
//! The author of a repository writes its objects. Every pass is therefore bounded in commits, time and bytes
//! ([`HistoryLimits`]), and each object in size and in deltas. What breaks a bound or a format ends the pass; the changes
//! that were found until then are returned, and [`History::complete`] is false. Alternates are not followed, so an object
//! in another repository is a missing one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use act_fs::{DIRECTORY, READ, Root};
use gix_diff::tree::visit::{self, Change};
use gix_diff::tree::{Recorder, State, Visit};
use gix_index::hash::{ObjectId, oid};
use gix_object::bstr::BStr;
use gix_object::{CommitRefIter, Kind, TreeRefIter};
use gix_pack::cache::Never;
use gix_pack::data::decode::entry::ResolvedBase;
use gix_pack::data::entry::Header;
use gix_zlib::{Inflate, Status};
use rustix::fs::{AtFlags, Dir, fstat, statat};

use super::git::{OwnGit, trusted};
use super::reading::{read_whole, regular};
use super::view::{FollowLinks, Kind as EntryKind, RepoView};

/// Number of files above which a commit is left out: a change of everything, such as a new licence header, says nothing
/// about which files belong together.
const MAX_FILES: usize = 30;
/// Number of differing files and directories above which a commit is left out. Thirty files in directories of their own, at
/// the depth of most projects, have a few hundred; a tree that contains itself has no end.
const MAX_DIFFERENCES: usize = 1_000;
/// Maximum number of bytes of a commit or tree. A directory of 100,000 files takes about as much.
const MAX_OBJECT: usize = 4 << 20;
/// Maximum number of deltas from one object to the next whole one; git's own packs have at most 50, or 250 when repacked
/// aggressively by an old version.
const MAX_DELTAS: usize = 256;
/// Maximum number of bytes of objects that are remembered, because they are the bases of the next ones.
const MAX_REMEMBERED: usize = 16 << 20;
/// Maximum number of packs. git repacks at 50.
const MAX_PACKS: usize = 64;
/// Maximum number of names in the directory of packs; each pack has up to seven files.
const MAX_NAMES: usize = 8 * MAX_PACKS;
/// Number of bytes that are read at first of an entry in a pack. Most commits and deltas of trees are smaller.
const PROBE: usize = 512;
/// Maximum number of bytes of the paths that one pass remembers, in view or not: 100,000 paths of usual length. Paths of deleted
/// files are in no answer, and a compressed tree may name many long ones.
const MAX_KNOWN: usize = 8 << 20;
/// Bytes that a path and a list of files cost beside their content, in an answer to a component.
const ENTRY: usize = 32;

pub(super) const HASH: gix_index::hash::Kind = gix_index::hash::Kind::Sha1;

/// The bounds of one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Number of commits. Files that changed together longer ago say little about the code of today.
    pub commits: usize,
    /// Maximum time of the pass. A task begins with it, and the user should not have to wait for it.
    pub time: Duration,
    /// Bytes that are read from files of git; indexes of packs are held in memory.
    pub bytes: u64,
    /// Bytes of the answer.
    pub answer_bytes: usize,
}

impl Default for HistoryLimits {
    fn default() -> Self {
        Self {
            commits: 2_000,
            time: Duration::from_millis(300),
            bytes: 32 << 20,
            answer_bytes: 4 << 20,
        }
    }
}

/// The files that one commit changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitFiles {
    /// Number of commits between this one and `HEAD`.
    pub age: u32,
    /// Positions in [`History::paths`], in the order of the paths.
    pub files: Vec<u32>,
}

/// The files that the newest commits changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Each file in view that a commit changed, once; the file that was changed last is first.
    pub paths: Vec<String>,
    /// The newest commit is first. Commits without a file in view and commits that changed too many files are left out.
    pub changes: Vec<CommitFiles>,
    /// Number of commits that were looked at.
    pub commits: u32,
    /// True if `limits.commits` commits or all commits were looked at.
    pub complete: bool,
}

/// Returns which files in view the newest commits changed. The history is empty and incomplete without git, for a git
/// directory that is not the repository's own, and for a repository that is shallow, partial or named by SHA-256.
pub fn history(view: &RepoView, limits: HistoryLimits) -> History {
    let mut history = History::default();
    let pass = AssertUnwindSafe(|| walk(view, limits, &mut history));
    // gix reports damage as an error. A damage that it overlooks ends the pass as well, and never the program.
    let complete = std::panic::catch_unwind(pass).ok().flatten();
    history.complete = complete.is_some();
    history
}

/// Collects the changes. Returns `None` if the pass ended before it had looked at as many commits as requested.
fn walk(view: &RepoView, limits: HistoryLimits, history: &mut History) -> Option<()> {
    let git = OwnGit::of(view.root())?;
    let id = ObjectId::from_hex(git.head.as_bytes()).ok()?;
    let objects = RefCell::new(Objects::open(&git, view, limits)?);
    let mut names = Names { view, prefix: &git.prefix, known: HashMap::new(), left: MAX_KNOWN };
    let mut room = limits.answer_bytes;
    let mut commit = objects.borrow_mut().commit(&id)?;
    let mut state = State::default();
    loop {
        if history.commits as usize == limits.commits {
            return Some(());
        }
        let parent = match commit.parent {
            Some(parent) => Some(objects.borrow_mut().commit(&parent)?),
            None => None,
        };
        let before = parent.as_ref().map(|parent| parent.tree);
        if let Some(files) = changed(&objects, before, commit.tree, &mut state)? {
            let mut shown = vec![];
            for path in files {
                objects.borrow_mut().meter.go_on()?;
                if let Some(file) = names.shown(&path, history, &mut room)? {
                    shown.push(file);
                }
            }
            if !shown.is_empty() {
                room = room.checked_sub(ENTRY + shown.len() * size_of::<u32>())?;
                history.changes.push(CommitFiles { age: history.commits, files: shown });
            }
        }
        history.commits += 1;
        match parent {
            Some(parent) => commit = parent,
            None => return Some(()),
        }
    }
}

/// The paths of the answer.
struct Names<'v> {
    view: &'v RepoView,
    prefix: &'v [u8],
    /// The position of each path that a commit named, or `None` if it is not in view.
    known: HashMap<Vec<u8>, Option<u32>>,
    /// Bytes of paths that may still be remembered.
    left: usize,
}

impl Names<'_> {
    /// Returns the position of a path, or `Some(None)` for a path that is not a file in view. Returns `None` if the answer
    /// has no room left, or the paths are too many.
    fn shown(
        &mut self,
        path: &[u8],
        history: &mut History,
        room: &mut usize,
    ) -> Option<Option<u32>> {
        if let Some(known) = self.known.get(path) {
            return Some(*known);
        }
        self.left = self.left.checked_sub(ENTRY + path.len())?;
        let position = match self.in_view(path) {
            Some(name) => {
                *room = room.checked_sub(ENTRY + name.len())?;
                let position = u32::try_from(history.paths.len()).ok()?;
                history.paths.push(name);
                Some(position)
            }
            None => None,
        };
        self.known.insert(path.to_owned(), position);
        Some(position)
    }

    /// Returns the path from the root if the view shows a file under exactly this name. A tree may hold names such as `..`,
    /// which the view resolves to another one.
    fn in_view(&self, path: &[u8]) -> Option<String> {
        let name = std::str::from_utf8(path.strip_prefix(self.prefix)?).ok()?;
        let seen = self.view.resolve("", name, FollowLinks::No).ok()?;
        (seen.kind == EntryKind::File && seen.path == name).then_some(seen.path)
    }
}

/// Returns the files in which two trees differ, sorted, or `Some(None)` if there are too many. Returns `None` if an object
/// cannot be read or a bound is reached.
fn changed(
    objects: &RefCell<Objects<'_>>,
    before: Option<ObjectId>,
    after: ObjectId,
    state: &mut State,
) -> Option<Option<Vec<Vec<u8>>>> {
    let (old, new) = {
        let mut objects = objects.borrow_mut();
        let old = match before {
            Some(before) => Some(objects.tree(&before)?),
            None => None,
        };
        (old, objects.tree(&after)?)
    };
    let old = old.as_ref().map_or(&[][..], |old| &old.bytes);
    let mut found = Differences::default();
    let lhs = TreeRefIter::from_bytes(old, HASH);
    let rhs = TreeRefIter::from_bytes(&new.bytes, HASH);
    let compared = gix_diff::tree(lhs, rhs, state, Found(objects), &mut found);
    if found.too_many {
        return Some(None);
    }
    compared.ok()?;
    found.files.sort_unstable();
    found.files.dedup();
    Some(Some(found.files))
}

/// The differing files of two trees.
#[derive(Default)]
struct Differences {
    /// Follows the path; it records nothing.
    at: Recorder,
    files: Vec<Vec<u8>>,
    seen: usize,
    too_many: bool,
}

impl Visit for Differences {
    fn pop_front_tracked_path_and_set_current(&mut self) {
        self.at.pop_front_tracked_path_and_set_current();
    }

    fn push_back_tracked_path_component(&mut self, component: &BStr) {
        self.at.push_back_tracked_path_component(component);
    }

    fn push_path_component(&mut self, component: &BStr) {
        self.at.push_path_component(component);
    }

    fn pop_path_component(&mut self) {
        self.at.pop_path_component();
    }

    fn visit(&mut self, change: Change) -> visit::Action {
        let is_file = match &change {
            Change::Modification { previous_entry_mode, entry_mode, .. } => {
                previous_entry_mode.is_blob() || entry_mode.is_blob()
            }
            Change::Addition { entry_mode, .. } | Change::Deletion { entry_mode, .. } => {
                entry_mode.is_blob()
            }
        };
        self.seen += 1;
        if is_file {
            self.files.push(self.at.path().to_vec());
        }
        self.too_many = self.files.len() > MAX_FILES
            || self.seen > MAX_DIFFERENCES
            || self.at.path().len() > super::view::MAX_PATH;
        if self.too_many { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Lets gix look up the trees below the two that it compares.
struct Found<'o, 'v>(&'o RefCell<Objects<'v>>);

impl gix_object::Find for Found<'_, '_> {
    fn try_find<'a>(
        &self,
        id: &oid,
        buffer: &'a mut Vec<u8>,
    ) -> gix_error::Result<Option<gix_object::Data<'a>>> {
        let Some(object) = self.0.borrow_mut().find(id) else { return Ok(None) };
        buffer.clear();
        buffer.extend_from_slice(&object.bytes);
        Ok(Some(gix_object::Data::new(buffer, object.kind, HASH)))
    }
}

/// What a pass may still use.
struct Meter<'v> {
    view: &'v RepoView,
    until: Instant,
    bytes: u64,
}

impl Meter<'_> {
    /// Returns `None` if the time is over or the caller has gone.
    fn go_on(&self) -> Option<()> {
        self.view.stop().go_on().ok()?;
        (Instant::now() < self.until).then_some(())
    }

    /// Takes bytes that are about to be read. Returns `None` if fewer are left.
    fn read(&mut self, bytes: usize) -> Option<()> {
        self.go_on()?;
        self.bytes = self.bytes.checked_sub(bytes as u64)?;
        Some(())
    }
}

/// A decompressed object. Its digest is not computed; a wrong object makes a wrong history and nothing else.
pub(super) struct Object {
    pub(super) kind: Kind,
    pub(super) bytes: Vec<u8>,
}

/// The parts of a commit that a pass reads.
pub(super) struct Commit {
    pub(super) tree: ObjectId,
    parent: Option<ObjectId>,
}

/// Where an object is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    /// In a pack of [`Objects::packs`], at an offset.
    Pack(usize, u64),
    Loose(ObjectId),
}

struct Pack {
    index: gix_pack::index::File<Vec<u8>>,
    data: File,
    size: u64,
}

/// The object store of one repository.
pub(super) struct Objects<'v> {
    dir: Root,
    owner: u32,
    packs: Vec<Pack>,
    remembered: HashMap<Place, Rc<Object>>,
    /// Bytes of the remembered objects.
    held: usize,
    inflate: Inflate,
    meter: Meter<'v>,
    /// Maximum number of bytes of one object.
    max_object: usize,
}

impl<'v> Objects<'v> {
    /// Opens the objects for a walk over commits. Returns `None` for a store that holds only a part of the history.
    fn open(git: &OwnGit, view: &'v RepoView, limits: HistoryLimits) -> Option<Self> {
        let is_shallow = statat(&git.common, "shallow", AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if is_shallow {
            return None;
        }
        Self::open_within(git, view, (limits.time, limits.bytes), MAX_OBJECT)
    }

    /// Opens the objects and reads the indexes of all packs. Returns `None` for a store that holds only a part of the objects.
    pub(super) fn open_within(
        git: &OwnGit,
        view: &'v RepoView,
        (time, bytes): (Duration, u64),
        max_object: usize,
    ) -> Option<Self> {
        let dir = Root::new(git.common.open_real(b"objects", DIRECTORY).ok()?);
        let meter = Meter { view, until: Instant::now() + time, bytes };
        let mut objects = Self {
            max_object,
            dir,
            owner: git.owner,
            packs: vec![],
            remembered: HashMap::new(),
            held: 0,
            inflate: Inflate::default(),
            meter,
        };
        objects.is_own(&objects.dir)?;
        for name in objects.pack_names()? {
            let pack = objects.pack(&name)?;
            objects.packs.push(pack);
        }
        Some(objects)
    }

    /// Returns `None` for a file or directory of another user.
    fn is_own(&self, opened: impl std::os::fd::AsFd) -> Option<()> {
        trusted(fstat(opened).ok()?.st_uid, self.owner).then_some(())
    }

    /// Returns the names of the packs without their ending, sorted. Returns `None` if there are too many, and for a partial
    /// repository, whose packs are marked as promised by a server.
    fn pack_names(&self) -> Option<Vec<String>> {
        let Ok(dir) = self.dir.open_real(b"pack", DIRECTORY) else { return Some(vec![]) };
        self.is_own(&dir)?;
        let mut names = vec![];
        for (seen, entry) in Dir::read_from(&dir).ok()?.enumerate() {
            let entry = entry.ok()?;
            let name = entry.file_name().to_str().unwrap_or_default();
            if seen > MAX_NAMES || name.ends_with(".promisor") {
                return None;
            }
            names.extend(name.strip_suffix(".idx").map(str::to_owned));
        }
        names.sort_unstable();
        (names.len() <= MAX_PACKS).then_some(names)
    }

    fn pack(&mut self, name: &str) -> Option<Pack> {
        let (index, size) = self.open_file(format!("pack/{name}.idx").as_bytes())?;
        self.meter.read(usize::try_from(size).ok()?)?;
        let index = read_whole(index.into(), size).ok()??;
        let index = gix_pack::index::File::from_data(index, PathBuf::new(), HASH).ok()?;
        let (data, size) = self.open_file(format!("pack/{name}.pack").as_bytes())?;
        Some(Pack { index, data, size })
    }

    /// Opens a regular file of the owner beneath the directory of the objects. Returns it with its size.
    fn open_file(&self, path: &[u8]) -> Option<(File, u64)> {
        let (fd, stat) = regular(self.dir.open_real(path, READ).ok()?).ok()?;
        trusted(stat.st_uid, self.owner).then_some(())?;
        Some((File::from(fd), u64::try_from(stat.st_size).ok()?))
    }

    pub(super) fn commit(&mut self, id: &oid) -> Option<Commit> {
        let object = self.find(id).filter(|object| object.kind == Kind::Commit)?;
        let mut commit = CommitRefIter::from_bytes(&object.bytes, HASH);
        let tree = commit.tree_id().ok()?;
        Some(Commit { tree, parent: commit.parent_ids().next() })
    }

    pub(super) fn tree(&mut self, id: &oid) -> Option<Rc<Object>> {
        self.find(id).filter(|object| object.kind == Kind::Tree)
    }

    pub(super) fn find(&mut self, id: &oid) -> Option<Rc<Object>> {
        self.meter.go_on()?;
        match self.place(id) {
            Place::Pack(pack, offset) => self.packed(pack, offset),
            place @ Place::Loose(_) => self.loose(place, id),
        }
    }

    fn place(&self, id: &oid) -> Place {
        let packed = self.packs.iter().enumerate().find_map(|(at, Pack { index, .. })| {
            Some(Place::Pack(at, index.pack_offset_at_index(index.lookup(id)?)))
        });
        packed.unwrap_or_else(|| Place::Loose(id.to_owned()))
    }

    /// Reads an object from a pack: its deltas down to a whole object, and then up again.
    fn packed(&mut self, pack: usize, offset: u64) -> Option<Rc<Object>> {
        let mut deltas = vec![];
        let mut at = Place::Pack(pack, offset);
        let mut object = loop {
            if let Some(known) = self.remembered.get(&at) {
                break Rc::clone(known);
            }
            let (pack, offset) = match at {
                Place::Pack(pack, offset) => (pack, offset),
                Place::Loose(id) => break self.loose(at, &id)?,
            };
            let entry = self.entry(pack, offset)?;
            let base = match entry.parsed.header {
                Header::OfsDelta { base_distance } => {
                    Place::Pack(pack, Header::verified_base_pack_offset(offset, base_distance)?)
                }
                Header::RefDelta { base_id } => self.place(&base_id),
                _ => {
                    let whole = entry.decode(None, &mut self.inflate, self.max_object)?;
                    break self.remember(at, whole);
                }
            };
            if deltas.len() == MAX_DELTAS {
                return None;
            }
            deltas.push((at, entry));
            at = base;
        };
        while let Some((at, delta)) = deltas.pop() {
            self.meter.go_on()?;
            let made = delta.decode(Some(&object), &mut self.inflate, self.max_object)?;
            object = self.remember(at, made);
        }
        Some(object)
    }

    /// Reads the compressed bytes of one entry of a pack. Their number is not stored, so as many are read as the entry can
    /// have at most.
    fn entry(&mut self, pack: usize, offset: u64) -> Option<Entry> {
        let Pack { data, size, .. } = self.packs.get(pack)?;
        let left = usize::try_from(size.checked_sub(offset)?).unwrap_or(usize::MAX);
        let mut bytes = Entry::BEGINNING.to_vec();
        let probe = left.min(PROBE);
        self.meter.read(probe)?;
        append(data, &mut bytes, offset, probe)?;
        let begins = bytes.get(Entry::BEGINNING.len()..)?;
        let parsed =
            gix_pack::data::Entry::from_bytes(begins, Entry::BEGINNING.len() as u64, HASH).ok()?;
        let size = usize::try_from(parsed.decompressed_size).ok()?;
        if size > self.max_object {
            return None;
        }
        let header =
            usize::try_from(parsed.data_offset).ok()?.checked_sub(Entry::BEGINNING.len())?;
        let whole = left.min(header + most_compressed(size));
        if whole > probe {
            self.meter.read(whole - probe)?;
            append(data, &mut bytes, offset + probe as u64, whole - probe)?;
        }
        bytes.extend_from_slice(&Entry::END);
        Some(Entry { parsed, bytes })
    }

    fn loose(&mut self, place: Place, id: &oid) -> Option<Rc<Object>> {
        if let Some(known) = self.remembered.get(&place) {
            return Some(Rc::clone(known));
        }
        let hex = id.to_hex().to_string();
        let (file, size) = self.open_file(format!("{}/{}", &hex[..2], &hex[2..]).as_bytes())?;
        self.meter.read(usize::try_from(size).ok()?)?;
        let bytes = read_whole(file.into(), size).ok()??;
        let mut begins = [0; 64];
        self.inflate.reset();
        let (_, _, written) = self.inflate.once(&bytes, &mut begins).ok()?;
        let (kind, size, header) = gix_object::decode::loose_header(begins.get(..written)?).ok()?;
        let size = usize::try_from(size).ok().filter(|size| *size <= self.max_object)?;
        let mut whole = vec![0; header + size];
        self.inflate.reset();
        let (status, _, written) = self.inflate.once(&bytes, &mut whole).ok()?;
        if status != Status::StreamEnd || written != whole.len() {
            return None;
        }
        whole.drain(..header);
        Some(self.remember(place, Object { kind, bytes: whole }))
    }

    /// Remembers an object. git stores an older tree as a delta of a newer one, and a pass goes from new to old, so the base
    /// of the next object is almost always among the last ones. When there are too many, all are forgotten.
    fn remember(&mut self, place: Place, object: Object) -> Rc<Object> {
        if self.held + object.bytes.len() > MAX_REMEMBERED {
            self.remembered.clear();
            self.held = 0;
        }
        self.held += object.bytes.len();
        let object = Rc::new(object);
        self.remembered.insert(place, Rc::clone(&object));
        object
    }
}

/// One entry of a pack, as a pack of its own: gix decodes entries of packs, and this one fits into memory.
struct Entry {
    parsed: gix_pack::data::Entry,
    bytes: Vec<u8>,
}

impl Entry {
    /// The beginning of a pack of version 2 with one object.
    const BEGINNING: [u8; 12] = *b"PACK\0\0\0\x02\0\0\0\x01";
    /// Takes the place of the pack's digest, which nothing checks.
    const END: [u8; 20] = [0; 20];

    /// Decompresses the entry, and applies it to the base if it is a delta.
    fn decode(
        self,
        base: Option<&Object>,
        inflate: &mut Inflate,
        max_object: usize,
    ) -> Option<Object> {
        let Self { mut parsed, bytes } = self;
        if base.is_some() {
            // The base is not in the pack of one entry, so gix asks for it by an id.
            parsed.header = Header::RefDelta { base_id: ObjectId::null(HASH) };
        }
        let pack = gix_pack::data::File::from_data(bytes.as_slice(), PathBuf::new(), HASH).ok()?;
        // gix holds base, result and delta at the same time.
        let pack = pack.with_alloc_limit_bytes(Some(3 * max_object));
        let resolve = |_: &oid, out: &mut Vec<u8>| {
            Ok(base.map(|base| {
                out.clear();
                out.extend_from_slice(&base.bytes);
                ResolvedBase::OutOfPack { kind: base.kind, end: base.bytes.len() }
            }))
        };
        let mut out = vec![];
        let made = pack.decode_entry(parsed, &mut out, inflate, &resolve, &mut Never).ok()?;
        out.shrink_to_fit();
        (out.len() <= max_object).then_some(Object { kind: made.kind, bytes: out })
    }
}

/// Maximum number of bytes to which zlib compresses `size` bytes: its own bound.
fn most_compressed(size: usize) -> usize {
    size + (size >> 12) + (size >> 14) + (size >> 25) + 13
}

/// Appends `length` bytes of a file to `bytes`.
fn append(file: &File, bytes: &mut Vec<u8>, offset: u64, length: usize) -> Option<()> {
    let from = bytes.len();
    bytes.resize(from + length, 0);
    file.read_exact_at(bytes.get_mut(from..)?, offset).ok()
}

#[cfg(test)]
mod tests;
