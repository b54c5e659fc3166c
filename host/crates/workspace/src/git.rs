//! Reads git's own files about a directory: its working tree and git directory, the tracked paths, and the commit that
//! `HEAD` means. git itself is never run, because in a foreign repository its configuration names programs.
//!
//! Of the configuration only `core.hooksPath` and `core.autocrlf` are read. A `.git` file (a linked worktree, a submodule) is followed for reading only; a `.git`
//! that is a link counts as no git at all. A working tree around the directory counts as well, because its rules and
//! its index cover the directory. An index that cannot be read, is split over files or is too large counts as none:
//! then no path is tracked.
//!
//! [`IgnoreRules`] knows `.git/info/exclude` and one `.gitignore` per directory. The files are opened by handle and
//! never through a link, as git does. Patterns are matched with case. Rules are read once per value, so a changed
//! `.gitignore` needs a new one. Where rules are too large or cannot be read, everything that they cover counts as
//! ignored.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use act_fs::{DIRECTORY, READ, Root, hex};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::lock::RootIdentity;
use super::reading::{read_whole, regular};

/// Maximum number of bytes of a `.git` file, `commondir`, `HEAD` or loose reference. Each holds one path or name.
const MAX_POINTER: u64 = 4096;

/// Maximum number of bytes of a `config` in which `core.hooksPath` is looked for.
const MAX_CONFIG: u64 = 1024 * 1024;

/// The two directories of a working tree. They are the same directory unless the tree is a linked worktree.
#[derive(Debug)]
struct GitDir {
    /// `HEAD` and the index.
    own: Root,
    /// References, objects and `info/exclude`.
    common: Root,
}

impl GitDir {
    /// Opens the git directory of the working tree whose top is `root`.
    fn of(root: &Root) -> Option<Self> {
        let own = match root.open_real(b".git", DIRECTORY) {
            Ok(fd) => fd,
            Err(_) => {
                let pointer = small(root, b".git", MAX_POINTER)?;
                let target = pointer.strip_prefix("gitdir:")?.trim().to_owned();
                elsewhere(root, &target)?
            }
        };
        let own = Root::new(own);
        let common = match small(&own, b"commondir", MAX_POINTER) {
            Some(target) => Root::new(elsewhere(&own, target.trim())?),
            None => own.clone(),
        };
        Some(Self { own, common })
    }

    /// Returns true if the directories belong to the working tree whose top is `top`: they are its directory `.git`, or
    /// the part of a linked worktree that points back to it. The author of the repository chooses where a `.git` file
    /// and a `commondir` lead, so other directories may be those of another repository.
    fn belongs_to(&self, top: &Root) -> bool {
        if let Ok(inside) = top.open_real(b".git", DIRECTORY) {
            return is_same(&inside, &self.own) && is_same(&self.own, &self.common);
        }
        self.points_back(top).unwrap_or(false)
    }

    fn points_back(&self, top: &Root) -> Option<bool> {
        let pointer = small(top, b".git", MAX_POINTER)?;
        let name = Path::new(pointer.strip_prefix("gitdir:")?.trim()).file_name()?;
        let place = [b"worktrees/", name.as_bytes()].concat();
        let in_place = self.common.open_real(&place, DIRECTORY).ok()?;
        let back = small(&self.own, b"gitdir", MAX_POINTER)?;
        let back = elsewhere(&self.own, Path::new(back.trim()).parent()?.to_str()?)?;
        Some(is_same(&in_place, &self.own) && is_same(&back, top))
    }

    /// Returns the commit that `HEAD` means.
    fn head(&self) -> Option<String> {
        let mut text = small(&self.own, b"HEAD", MAX_POINTER)?;
        for _ in 0..MAX_HOPS {
            let line = text.trim();
            let Some(name) = line.strip_prefix("ref:") else { return commit(line) };
            let name = name.trim().to_owned();
            if !name.starts_with("refs/")
                || name.split('/').any(|part| matches!(part, "" | "." | ".."))
            {
                return None;
            }
            let loose = [&self.own, &self.common]
                .iter()
                .find_map(|dir| small(dir, name.as_bytes(), MAX_POINTER));
            match loose {
                Some(next) => text = next,
                None => return packed(self, &name),
            }
        }
        None
    }
}

/// Returns true if both handles are those of one directory.
fn is_same(a: impl AsFd, b: impl AsFd) -> bool {
    let identity = |fd: BorrowedFd<'_>| fstat(fd).ok().map(|stat| (stat.st_dev, stat.st_ino));
    let a = identity(a.as_fd());
    a.is_some() && a == identity(b.as_fd())
}

/// The location of the git directory of a working tree, for a container that mounts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitPlace {
    /// The directory has no `.git`.
    None,
    /// A real directory of that name.
    Directory,
    /// A linked worktree: `common` is shared, and `inside` is the path of this tree's own part in it.
    Linked { common: PathBuf, inside: PathBuf },
    /// A link, or a file that points to a directory which does not point back. The author of the repository chose its
    /// target.
    Elsewhere,
}

/// Finds the git directory of the working tree at `path`.
///
/// A `.git` file may name any directory of the machine, so the named directory must prove that it belongs to this tree:
/// it lies below a `worktrees` directory and points back.
///
/// # Errors
/// The directory cannot be opened or looked at.
pub fn git_place(path: &Path) -> Result<GitPlace, Errno> {
    let root = Root::open(path)?;
    let stat = match rustix::fs::statat(&root, ".git", AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(GitPlace::None),
        Err(errno) => return Err(errno),
    };
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => GitPlace::Directory,
        FileType::RegularFile => linked(&root, path).unwrap_or(GitPlace::Elsewhere),
        FileType::Symlink => GitPlace::Elsewhere,
        _ => GitPlace::None,
    })
}

/// Returns the directories that a `.git` file or link of the working tree at `root` and a `commondir` lead to. They exist,
/// and may lie anywhere.
pub(super) fn git_directories(root: &Path) -> Vec<PathBuf> {
    let Ok(top) = Root::open(root) else { return vec![] };
    let own = match small(&top, b".git", MAX_POINTER) {
        Some(pointer) => pointer.strip_prefix("gitdir:").map(|target| root.join(target.trim())),
        None => Some(root.join(".git")),
    };
    let Some(own) = own.and_then(|own| own.canonicalize().ok()) else { return vec![] };
    let common = Root::open(&own).ok().and_then(|own| small(&own, b"commondir", MAX_POINTER));
    let common = common.and_then(|target| own.join(target.trim()).canonicalize().ok());
    [own].into_iter().chain(common).collect()
}

/// Returns the directory whose hooks git runs in the working tree at `root`, where its configuration names one. Files that
/// the configuration includes are not read.
pub(super) fn hooks_path(root: &Path) -> Option<PathBuf> {
    let git = git_directories(root).pop()?;
    let found = core_setting(&Root::open(&git).ok()?, "hookspath")?;
    Some(root.join(found))
}

/// Returns the directory in which git looks for hooks of the working tree at `root`, which need not exist: that of
/// `core.hooksPath` in the configuration of the repository, the user or the machine, or else `hooks` in the git directory.
/// Files that a configuration includes are not read. Returns `None` where `root` has no `.git` of its own, or one that leads
/// to the directory of another tree.
pub fn hooks_directory(root: &Path) -> Option<PathBuf> {
    let common = match git_place(root).ok()? {
        GitPlace::Directory => root.join(".git"),
        GitPlace::Linked { common, .. } => common,
        GitPlace::None | GitPlace::Elsewhere => return None,
    };
    if let Some(found) = hooks_path(root) {
        return Some(found);
    }
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = set("HOME");
    let below = |name: &str| home.as_ref().map(|home| home.join(name));
    let user =
        set("XDG_CONFIG_HOME").or_else(|| below(".config")).map(|base| base.join("git/config"));
    for file in [below(".gitconfig"), user, Some("/etc/gitconfig".into())].into_iter().flatten() {
        let (Some(dir), Some(name)) = (file.parent(), file.file_name()) else { continue };
        let Ok(dir) = Root::open(dir) else { continue };
        let text = small(&dir, name.as_bytes(), MAX_CONFIG).unwrap_or_default();
        if let Some(found) = core_value(&text, "hookspath") {
            let found = match found.strip_prefix("~/") {
                Some(rest) => below(rest)?,
                None => root.join(found),
            };
            return Some(found);
        }
    }
    Some(common.join("hooks"))
}

/// Returns whether the configuration of the repository lets git convert line ends.
pub(super) fn converts_line_ends(root: &Root) -> bool {
    let git = WorkTree::of(root).map(|tree| tree.git.common);
    let setting = git.and_then(|git| core_setting(&git, "autocrlf"));
    setting.is_some_and(|value| !value.eq_ignore_ascii_case("false"))
}

/// Returns a setting of the section `core` in the configuration of a git directory.
fn core_setting(git: &Root, name: &str) -> Option<String> {
    core_value(&small(git, b"config", MAX_CONFIG)?, name)
}

fn core_value(text: &str, name: &str) -> Option<String> {
    let mut in_core = false;
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            in_core =
                section.split(']').next().is_some_and(|name| name.eq_ignore_ascii_case("core"));
        } else if let Some((key, value)) = line.split_once('=').filter(|_| in_core)
            && key.trim().eq_ignore_ascii_case(name)
        {
            // The last one counts, as for git.
            found = Some(value.trim().trim_matches('"').to_owned());
        }
    }
    found
}

/// Returns whether git would take a directory for one of its own: a bare repository under any name, the target of a `.git`
/// file, the part of a linked worktree, or what a `commondir` names. `has` tells whether a name is in the directory.
pub(super) fn is_git_directory(has: impl Fn(&str) -> bool) -> bool {
    let head = has("HEAD");
    (head && has("commondir")) || (has("objects") && has("refs") && (head || has("config")))
}

fn linked(root: &Root, path: &Path) -> Option<GitPlace> {
    let pointer = small(root, b".git", MAX_POINTER)?;
    let own = path.join(pointer.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let handle = Root::open(&own).ok()?;
    let common = own.join(small(&handle, b"commondir", MAX_POINTER)?.trim()).canonicalize().ok()?;
    let inside = own.strip_prefix(&common).ok()?.to_owned();
    let mut parts = inside.components();
    let in_place = parts.next()?.as_os_str() == "worktrees" && parts.next().is_some();
    let back = own.join(small(&handle, b"gitdir", MAX_POINTER)?.trim());
    let points_back = RootIdentity::of(back.parent()?).ok()? == RootIdentity::of(path).ok()?;
    (in_place && parts.next().is_none() && points_back)
        .then_some(GitPlace::Linked { common, inside })
}

/// Reads a small text file beneath `root`, or returns `None` when it is missing, too large or not UTF-8.
fn small(root: &Root, path: &[u8], most: u64) -> Option<String> {
    String::from_utf8(bytes(root, path, most)?).ok()
}

fn bytes(root: &Root, path: &[u8], most: u64) -> Option<Vec<u8>> {
    let opened = root.open_real(path, READ).ok()?;
    let (fd, _) = regular(opened).ok()?;
    read_whole(fd, most).ok()?
}

/// A file with ignore rules exists and cannot be read, or is too large.
#[derive(Debug)]
struct Unreadable;

/// Reads a file with ignore rules of at most [`MAX_RULES_FILE`] bytes. Returns `None` where git reads none either: a
/// missing file, a link, another kind of file.
fn read_rules(opened: Result<OwnedFd, Errno>) -> Result<Option<Vec<u8>>, Unreadable> {
    let opened = opened.and_then(regular);
    match opened {
        Ok((fd, _)) => match read_whole(fd, MAX_RULES_FILE) {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            Ok(None) | Err(_) => Err(Unreadable),
        },
        Err(
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ISDIR | Errno::INVAL | Errno::NXIO,
        ) => Ok(None),
        Err(_) => Err(Unreadable),
    }
}

/// Opens a directory that git's own files point at, which may lie outside of the repository.
fn elsewhere(from: impl AsFd, path: &str) -> Option<OwnedFd> {
    let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
    (!path.is_empty()).then(|| rustix::fs::openat(from, path, flags, Mode::empty()).ok())?
}

/// Maximum number of directories between a root and the top of its working tree.
const MAX_ABOVE: usize = 64;

#[derive(Debug)]
pub(super) struct WorkTree {
    git: GitDir,
    /// The directories from the top to the one above the root, each with its path from the top, which is empty or ends
    /// in `/`. The list is empty where the root is the top.
    above: Vec<(Vec<u8>, Root)>,
    /// The path from the top to the root, which is empty or ends in `/`.
    prefix: Vec<u8>,
}

impl WorkTree {
    /// Finds the working tree as git does: upwards, on one file system, to the first `.git`. A tree around `root`
    /// counts only when the owner of `root` or the superuser owns it, because its rules decide what a verification
    /// leaves out.
    pub(super) fn of(root: &Root) -> Option<Self> {
        if has_git(root) {
            return Some(Self { git: GitDir::of(root)?, above: vec![], prefix: vec![] });
        }
        let owner = fstat(root).ok()?.st_uid;
        let mut at = root.clone();
        let mut steps = vec![];
        while steps.len() < MAX_ABOVE {
            let parent = openat(&at, "..", DIRECTORY, Mode::empty()).ok()?;
            let (inner, outer) = (fstat(&at).ok()?, fstat(&parent).ok()?);
            if outer.st_dev != inner.st_dev || outer.st_ino == inner.st_ino {
                return None;
            }
            at = Root::new(parent);
            steps.push((at.clone(), inner));
            if has_git(&at) {
                let git = GitDir::of(&at)?;
                let entry = statat(&at, ".git", AtFlags::SYMLINK_NOFOLLOW).ok()?;
                let ours = [outer.st_uid, entry.st_uid, fstat(&git.own).ok()?.st_uid];
                return ours
                    .iter()
                    .all(|uid| trusted(*uid, owner))
                    .then(|| Self::around(git, steps))?;
            }
        }
        None
    }

    /// `steps` are the directories above the root, the nearest first, each with the metadata of the one below it.
    fn around(git: GitDir, steps: Vec<(Root, Stat)>) -> Option<Self> {
        let (mut above, mut prefix) = (vec![], vec![]);
        for (dir, inner) in steps.into_iter().rev() {
            let name = name_of(&dir, &inner)?;
            above.push((prefix.clone(), dir));
            prefix.extend_from_slice(&name);
            prefix.push(b'/');
        }
        Some(Self { git, above, prefix })
    }

    /// Returns the tracked paths in the root, relative to it.
    pub(super) fn tracked(&self) -> Tracked {
        Tracked::read(&self.git, &self.prefix)
    }
}

/// Returns the path from the top of git's working tree to `root`: empty at the top and without git, else with a `/` at
/// its end.
pub fn prefix_in_git(root: &Path) -> Vec<u8> {
    let tree = Root::open(root).ok().and_then(|root| WorkTree::of(&root));
    tree.map(|tree| tree.prefix).unwrap_or_default()
}

fn has_git(dir: &Root) -> bool {
    statat(dir, ".git", AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Returns whether files of `uid` may decide about files of `owner`.
pub(super) fn trusted(uid: u32, owner: u32) -> bool {
    uid == owner || uid == 0
}

/// Returns the name of a directory in the one above it.
fn name_of(parent: &Root, inner: &Stat) -> Option<Vec<u8>> {
    let same = |name: &CStr| {
        let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (stat.st_dev == inner.st_dev && stat.st_ino == inner.st_ino)
            .then(|| name.to_bytes().to_vec())
    };
    let mut others = vec![];
    for entry in Dir::read_from(parent).ok()? {
        let entry = entry.ok()?;
        let name = entry.file_name();
        match entry.file_type() {
            _ if matches!(name.to_bytes(), b"." | b"..") => {}
            FileType::Directory | FileType::Unknown if entry.ino() == inner.st_ino => {
                if let Some(name) = same(name) {
                    return Some(name);
                }
            }
            // Some file systems list other inode numbers than `stat` returns.
            FileType::Directory | FileType::Unknown => others.push(name.to_owned()),
            _ => {}
        }
    }
    others.iter().find_map(|name| same(name))
}

/// Maximum number of bytes of an index; a million files take about half of it.
const MAX_INDEX: u64 = 256 << 20;
/// Maximum number of bytes that decoding may allocate at once.
const MAX_DECODED: usize = 512 << 20;

/// The paths that git tracks. An ignore rule never applies to a tracked file.
#[derive(Debug, Default)]
pub(super) struct Tracked {
    /// Sorted and without duplicates.
    paths: Vec<Vec<u8>>,
}

impl Tracked {
    /// Reads the tracked paths below `prefix`, which is empty or ends in `/`, relative to it.
    fn read(git: &GitDir, prefix: &[u8]) -> Self {
        let found = bytes(&git.own, b"index", MAX_INDEX).and_then(|bytes| decode(&bytes));
        let mut paths = found.unwrap_or_default();
        if !prefix.is_empty() {
            paths =
                paths.iter().filter_map(|path| Some(path.strip_prefix(prefix)?.into())).collect();
        }
        Self { paths }
    }

    pub(super) fn paths(&self) -> &[Vec<u8>] {
        &self.paths
    }

    fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    fn has(&self, path: &[u8]) -> bool {
        self.paths.binary_search_by(|known| known.as_slice().cmp(path)).is_ok()
    }

    /// Returns whether anything below the directory is tracked.
    fn has_below(&self, dir: &[u8]) -> bool {
        let below = [dir, b"/"].concat();
        let first = self.paths.partition_point(|known| known.as_slice() < below.as_slice());
        self.paths.get(first).is_some_and(|known| known.starts_with(&below))
    }
}

/// What the index knows of a tracked file: enough to see without reading it that it is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexedFile {
    pub(super) id: gix_index::hash::ObjectId,
    /// The size and the time of the last change when the file was added, as the index stores them.
    size: u32,
    modified: (u32, u32),
    /// The file may have changed after it was added without another time: it is as young as the index.
    racy: bool,
}

impl IndexedFile {
    /// Returns whether a file with this metadata is certainly the one that was added.
    pub(super) fn is_same(&self, stat: &Stat) -> bool {
        // The index stores the lower 32 bits.
        let low = |number: i128| (number & i128::from(u32::MAX)) as u32;
        let modified = (low(i128::from(stat.st_mtime)), low(i128::from(stat.st_mtime_nsec)));
        !self.racy && self.size == low(i128::from(stat.st_size)) && self.modified == modified
    }
}

/// Returns what the index knows of the files below `root`, by their paths from there.
pub(super) fn indexed_files(root: &Root) -> HashMap<Vec<u8>, IndexedFile> {
    let read = || {
        let WorkTree { git, prefix, .. } = governing_tree(root).0?;
        let opened = git.own.open_real(b"index", READ).ok()?;
        let (fd, written) = regular(opened).ok()?;
        let state = index(&read_whole(fd, MAX_INDEX).ok()??)?;
        let seconds = u32::try_from(written.st_mtime).ok()?;
        let files = state.entries().iter().filter_map(|entry| {
            let path = entry.path(&state).strip_prefix(prefix.as_slice())?.to_vec();
            let gix_index::entry::Stat { mtime, size, .. } = entry.stat;
            let (modified, racy) = ((mtime.secs, mtime.nsecs), mtime.secs >= seconds);
            Some((path, IndexedFile { id: entry.id, size, modified, racy }))
        });
        Some(files.collect())
    };
    read().unwrap_or_default()
}

fn decode(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let state = index(bytes)?;
    // `git add -N` only announces a file: its content was never added to the index.
    let added =
        |entry: &&gix_index::Entry| !entry.flags.contains(gix_index::entry::Flags::INTENT_TO_ADD);
    let entries = state.entries().iter().filter(added);
    let mut paths: Vec<Vec<u8>> = entries.map(|entry| entry.path(&state).to_vec()).collect();
    paths.sort_unstable();
    paths.dedup();
    Some(paths)
}

/// Decodes an index that is in one file.
fn index(bytes: &[u8]) -> Option<gix_index::State> {
    let options = gix_index::decode::Options {
        thread_limit: Some(1),
        alloc_limit_bytes: Some(MAX_DECODED),
        ..Default::default()
    };
    let hash = gix_index::hash::Kind::Sha1;
    let (state, _) =
        gix_index::State::from_bytes(bytes, filetime::FileTime::zero(), hash, options).ok()?;
    state.link().is_none().then_some(state)
}

/// Maximum number of bytes of `packed-refs`; a hundred thousand references take about ten million.
const MAX_PACKED: u64 = 32 << 20;
/// Maximum number of symbolic references on the way, as in git.
const MAX_HOPS: usize = 5;

/// Returns the commit that `HEAD` means, or `None` before the first commit, without git, or where references are stored
/// in a form that is not read here.
pub fn head_commit(root: &Path) -> Option<String> {
    governing_tree(&Root::open(root).ok()?).0?.git.head()
}

/// Maximum number of references in files of their own.
const MAX_LOOSE: usize = 100_000;

/// Returns a digest of what commands of git report about the working tree at `root` beside its files: HEAD, index,
/// references and configuration. A directory without git has one too. Returns `None` where they cannot be read whole.
pub fn git_state(root: &Path) -> Option<String> {
    let mut hash = Sha256::default();
    let Some(tree) = governing_tree(&Root::open(root).ok()?).0 else {
        return Some(hex(&hash.finalize()));
    };
    for dir in [&tree.git.own, &tree.git.common] {
        // References are in tables, whose format is not read here.
        if bytes(dir, b"reftable/tables.list", MAX_PACKED).is_some() {
            return None;
        }
        for name in ["HEAD", "index", "packed-refs", "config"] {
            let most = if name == "index" { MAX_INDEX } else { MAX_PACKED };
            let bytes = match act_fs::file(dir, name) {
                Ok(file) => Some(act_fs::read_bounded(file, most).ok()?),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(_) => return None,
            };
            hash.update(format!("{name}\0{:?}\0", bytes.as_ref().map(Vec::len)));
            hash.update(bytes.unwrap_or_default());
        }
        let Ok(refs) = dir.open_real(b"refs", DIRECTORY) else { continue };
        let mut names = act_fs::Walk::new(refs).ok()?;
        let mut loose = BTreeMap::new();
        while let Some(act_fs::Entry { name, .. }) = names.next_entry().ok()? {
            if let Ok(inside) = names.open(&name) {
                if names.depth() >= act_fs::MAX_DEPTH {
                    return None;
                }
                names.enter(&name, inside).ok()?;
                continue;
            }
            let file = act_fs::file(names.here(), &*name).ok()?;
            loose.insert(names.path(&name), act_fs::read_bounded(file, MAX_POINTER).ok()?);
            if loose.len() > MAX_LOOSE {
                return None;
            }
        }
        for (name, id) in loose {
            hash.update([&name[..], b"\0", &id[..], b"\0"].concat());
        }
    }
    Some(hex(&hash.finalize()))
}

/// The git directory of a root, from which its history may be read.
#[derive(Debug)]
pub(super) struct OwnGit {
    /// The directory with the objects.
    pub(super) common: Root,
    /// The commit that `HEAD` means.
    pub(super) head: String,
    /// The path from the top of the working tree to the root, which is empty or ends in `/`.
    pub(super) prefix: Vec<u8>,
    /// The owner of the root. Only files of this user and of the superuser are read.
    pub(super) owner: u32,
}

impl OwnGit {
    /// Returns `None` without git, before the first commit, and for a git directory that does not belong to the working tree
    /// or to its owner.
    pub(super) fn of(root: &Root) -> Option<Self> {
        let WorkTree { git, above, prefix } = governing_tree(root).0?;
        let top = above.first().map_or(root, |(_, dir)| dir);
        let owner = fstat(root).ok()?.st_uid;
        let is_owned = |dir: &Root| fstat(dir).is_ok_and(|stat| trusted(stat.st_uid, owner));
        if !git.belongs_to(top) || !is_owned(&git.own) || !is_owned(&git.common) {
            return None;
        }
        Some(Self { head: git.head()?, common: git.common, prefix, owner })
    }
}

fn packed(git: &GitDir, name: &str) -> Option<String> {
    let all = small(&git.common, b"packed-refs", MAX_PACKED)?;
    all.lines().find_map(|line| {
        let (id, of) = line.split_once(' ')?;
        (of == name).then(|| commit(id))?
    })
}

/// Returns the text if it is an object name, of SHA-1 or SHA-256.
fn commit(text: &str) -> Option<String> {
    let is_name =
        matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then(|| text.to_ascii_lowercase())
}

/// Maximum number of bytes and lines of one file with rules. Beyond it, everything in its directory is ignored.
const MAX_RULES_FILE: u64 = 128 << 10;
const MAX_PATTERNS: usize = 4096;
/// Maximum number of lines of the files from the root to a directory. Beyond it, everything in that directory is
/// ignored.
const MAX_PATTERNS_ON_PATH: usize = 4 * MAX_PATTERNS;
/// Maximum number of directories whose rules are remembered, and of lines of their files. Beyond it, they are read
/// again.
const MAX_REMEMBERED: usize = 100_000;
const MAX_PATTERNS_REMEMBERED: usize = 16 * MAX_PATTERNS;

/// The rules that apply in one directory.
#[derive(Debug)]
pub(super) struct DirRules {
    /// The directory itself is ignored, and so is everything in it that is not tracked.
    ignored: bool,
    /// The directory is one of git's own, or lies in one ([`is_git_directory`]).
    of_git: bool,
    /// The number of lines that `sets` was made of.
    patterns: usize,
    /// The sets of patterns, outermost first, each with the number of bytes of a path that it does not match against.
    sets: Vec<(usize, Arc<Gitignore>)>,
}

#[derive(Debug)]
pub(super) struct IgnoreRules {
    root: Root,
    tree: Option<WorkTree>,
    /// The root's own path in its working tree, which is put before each path for matching.
    prefix: Vec<u8>,
    outermost: Arc<DirRules>,
    tracked: OnceLock<Tracked>,
    remembered: Mutex<Remembered>,
}

#[derive(Debug, Default)]
struct Remembered {
    rules: HashMap<Vec<u8>, Arc<DirRules>>,
    patterns: usize,
}

/// The content of a file with rules.
enum Rules {
    None,
    Some {
        set: Arc<Gitignore>,
        patterns: usize,
    },
    /// The file has rules that cannot be read.
    Unknown,
}

impl IgnoreRules {
    pub(super) fn new(root: &Root) -> Self {
        let (tree, around) = governing_tree(root);
        let prefix = tree.as_ref().map(|tree| tree.prefix.clone()).unwrap_or_default();
        Self {
            root: root.clone(),
            tree,
            outermost: around.with(prefix.len(), parse(open_rules(root.as_fd()))),
            prefix,
            tracked: OnceLock::new(),
            remembered: Mutex::default(),
        }
    }

    /// Returns whether git tracks a file in the directory `path`, or `path` itself.
    pub(super) fn tracks_below(&self, path: &[u8]) -> bool {
        self.is_tracked(path, true)
    }

    /// Returns the rules inside the directory `path`, which lies in a directory with the rules `around`.
    pub(super) fn inside(
        &self,
        around: &Arc<DirRules>,
        path: &[u8],
        dir: Option<BorrowedFd<'_>>,
    ) -> Arc<DirRules> {
        if let Some(known) = self.known(path) {
            return known;
        }
        let holds = |name: &str| {
            dir.is_some_and(|dir| rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok())
        };
        let of_git = around.of_git || is_git_directory(holds);
        let rules = if around.ignored || self.matched(around, path, true) {
            DirRules::all_ignored()
        } else {
            around.with(
                self.prefix.len() + path.len() + 1,
                dir.map_or(Rules::None, |dir| parse(open_rules(dir))),
            )
        };
        let rules = if of_git { rules.of_git() } else { rules };
        self.remember(path, around, &rules);
        rules
    }

    /// Returns whether git ignores `path`, which lies in a directory with the rules `around`. A directory that holds a tracked
    /// file is not ignored itself, but its other files are.
    pub(super) fn ignores(&self, around: &DirRules, path: &[u8], is_dir: bool) -> bool {
        (around.ignored || self.matched(around, path, is_dir)) && !self.is_tracked(path, is_dir)
    }

    /// Returns whether git ignores a path. It need not exist.
    pub(super) fn ignores_path(&self, path: &[u8], is_dir: bool) -> bool {
        let dir =
            path.iter().rposition(|byte| *byte == b'/').map_or(&b""[..], |slash| &path[..slash]);
        self.ignores(&self.of_dir(dir), path, is_dir)
    }

    /// Returns whether a path lies in a directory of git's own that has another name than `.git`.
    pub(super) fn is_of_git(&self, path: &[u8]) -> bool {
        let slash = path.iter().rposition(|byte| *byte == b'/');
        slash.is_some_and(|slash| self.of_dir(&path[..slash]).of_git)
    }

    /// Returns the rules inside a directory of the repository.
    pub(super) fn of_dir(&self, dir: &[u8]) -> Arc<DirRules> {
        let mut rules = self.outermost.clone();
        if dir.is_empty() {
            return rules;
        }
        if let Some(known) = self.known(dir) {
            return known;
        }
        for end in ends(dir) {
            let path = &dir[..end];
            rules = match self.known(path) {
                Some(known) => known,
                None => {
                    let fd = (!rules.of_git).then(|| self.root.open_real(path, DIRECTORY).ok());
                    self.inside(&rules, path, fd.flatten().as_ref().map(AsFd::as_fd))
                }
            };
        }
        rules
    }

    fn known(&self, path: &[u8]) -> Option<Arc<DirRules>> {
        self.remembered().rules.get(path).cloned()
    }

    fn remember(&self, path: &[u8], around: &DirRules, rules: &Arc<DirRules>) {
        let mut remembered = self.remembered();
        remembered.patterns += rules.patterns.saturating_sub(around.patterns);
        if remembered.rules.len() >= MAX_REMEMBERED || remembered.patterns > MAX_PATTERNS_REMEMBERED
        {
            *remembered = Remembered::default();
        }
        remembered.rules.insert(path.to_vec(), rules.clone());
    }

    /// Returns whether git tracks the file `path`; `None` without git.
    pub(super) fn tracks(&self, path: &[u8]) -> Option<bool> {
        self.tree.as_ref().map(|_| self.is_tracked(path, false))
    }

    fn is_tracked(&self, path: &[u8], is_dir: bool) -> bool {
        let Some(tree) = &self.tree else { return false };
        let tracked = self.tracked.get_or_init(|| tree.tracked());
        if is_dir { tracked.has(path) || tracked.has_below(path) } else { tracked.has(path) }
    }

    fn matched(&self, around: &DirRules, path: &[u8], is_dir: bool) -> bool {
        if self.prefix.is_empty() || around.sets.is_empty() {
            return matched(around, path, is_dir);
        }
        matched(around, &[&self.prefix, path].concat(), is_dir)
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the working tree that the root belongs to, and the rules at the root. A working tree that ignores the whole
/// root and tracks nothing in it does not count: a home directory may be a repository that ignores everything.
fn governing_tree(root: &Root) -> (Option<WorkTree>, Arc<DirRules>) {
    let Some(tree) = WorkTree::of(root) else { return (None, DirRules::none()) };
    let owner = fstat(root).map_or(0, |stat| stat.st_uid);
    let rules = rules_around(&tree, owner);
    if !tree.prefix.is_empty() && rules.ignored && tree.tracked().is_empty() {
        return (None, DirRules::none());
    }
    (Some(tree), rules)
}

/// Reads the rules of `info/exclude` and of the directories above the root.
fn rules_around(tree: &WorkTree, owner: u32) -> Arc<DirRules> {
    let exclude = tree.git.common.open_real(b"info/exclude", READ);
    let mut rules = DirRules::none().with(0, parse(read_rules(exclude)));
    for (path, dir) in &tree.above {
        if rules.ignored || (!path.is_empty() && matched(&rules, without_slash(path), true)) {
            return DirRules::all_ignored();
        }
        let opened = openat(dir, ".gitignore", READ, Mode::empty());
        let owner_of = |fd: &OwnedFd| Some(fstat(fd).ok()?.st_uid);
        if opened.as_ref().ok().and_then(owner_of).is_some_and(|uid| trusted(uid, owner)) {
            rules = rules.with(path.len(), parse(read_rules(opened)));
        }
    }
    let ignored = !tree.prefix.is_empty() && matched(&rules, without_slash(&tree.prefix), true);
    if ignored { DirRules::all_ignored() } else { rules }
}

fn without_slash(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

impl DirRules {
    fn none() -> Arc<Self> {
        Arc::new(Self { ignored: false, of_git: false, patterns: 0, sets: vec![] })
    }

    /// Returns whether the directory is one of git's own, or lies in one.
    pub(super) fn is_of_git(&self) -> bool {
        self.of_git
    }

    fn of_git(&self) -> Arc<Self> {
        let Self { ignored, patterns, .. } = *self;
        Arc::new(Self { ignored, of_git: true, patterns, sets: self.sets.clone() })
    }

    fn all_ignored() -> Arc<Self> {
        Arc::new(Self { ignored: true, of_git: false, patterns: 0, sets: vec![] })
    }

    /// Returns these rules and those of one more file, which match against the bytes of a path from `start` on.
    fn with(self: &Arc<Self>, start: usize, own: Rules) -> Arc<Self> {
        match own {
            Rules::None => self.clone(),
            Rules::Some { set, patterns } if self.patterns + patterns <= MAX_PATTERNS_ON_PATH => {
                let mut sets = self.sets.clone();
                sets.push((start, set));
                let patterns = self.patterns + patterns;
                Arc::new(Self { ignored: self.ignored, of_git: self.of_git, patterns, sets })
            }
            Rules::Some { .. } | Rules::Unknown => Self::all_ignored(),
        }
    }
}

fn parse(read: Result<Option<Vec<u8>>, Unreadable>) -> Rules {
    let bytes = match read {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Rules::None,
        Err(Unreadable) => return Rules::Unknown,
    };
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes));
    let patterns = text.lines().count();
    if patterns > MAX_PATTERNS {
        return Rules::Unknown;
    }
    let mut builder = GitignoreBuilder::new("");
    for line in text.lines() {
        // git skips a line that is not a pattern as well.
        let _ = builder.add_line(None, line);
    }
    match builder.build() {
        Ok(set) if set.is_empty() => Rules::None,
        Ok(set) => Rules::Some { set: Arc::new(set), patterns },
        Err(_) => Rules::Unknown,
    }
}

/// Returns whether the patterns ignore a path. The last matching pattern of the innermost set decides.
fn matched(around: &DirRules, path: &[u8], is_dir: bool) -> bool {
    for (start, set) in around.sets.iter().rev() {
        let Some(relative) = path.get(*start..) else { continue };
        match set.matched(Path::new(OsStr::from_bytes(relative)), is_dir) {
            Match::None => {}
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => return false,
        }
    }
    false
}

fn open_rules(dir: BorrowedFd<'_>) -> Result<Option<Vec<u8>>, Unreadable> {
    read_rules(openat(dir, ".gitignore", READ, Mode::empty()))
}

/// Returns where each directory on a path ends.
fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    slashes.chain([path.len()])
}

#[cfg(test)]
mod ignore_tests;

#[cfg(test)]
mod git_dir_tests {
    use std::fs;

    use super::*;

    /// A worktree `tree` of the repository `main`, as git lays them out.
    fn worktree() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (own, tree) = (top.join("main/.git/worktrees/w"), top.join("tree"));
        fs::create_dir_all(&own).unwrap();
        fs::create_dir(&tree).unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        fs::write(own.join("gitdir"), format!("{}\n", tree.join(".git").display())).unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        (dir, tree, own)
    }

    #[test]
    fn a_worktrees_git_directory_is_lent_when_it_points_back() {
        let (_dir, tree, own) = worktree();
        let common = own.parent().unwrap().parent().unwrap().to_owned();
        let inside = PathBuf::from("worktrees/w");
        assert_eq!(git_place(&tree), Ok(GitPlace::Linked { common, inside }));
        fs::write(own.join("gitdir"), "/elsewhere/.git\n").unwrap();
        assert_eq!(git_place(&tree), Ok(GitPlace::Elsewhere));
    }

    // WORKSPACE-19, WORKSPACE-20
    #[test]
    fn git_directories_and_hooks_are_found_where_git_looks_for_them() {
        let (_dir, tree, own) = worktree();
        let common = own.parent().unwrap().parent().unwrap().to_owned();
        assert_eq!(git_directories(&tree), [own, common.clone()]);
        assert_eq!(hooks_path(&tree), None);
        for (config, expected) in [
            ("[core]\n\thooksPath = .hooks\n", Some(".hooks")),
            ("[Core]\nbare = false\nHOOKSPATH=\"tools/git hooks\"\n", Some("tools/git hooks")),
            ("[core]\nhooksPath = a\n[core]\nhooksPath = b\n", Some("b")),
            ("[other]\nhooksPath = a\n", None),
        ] {
            fs::write(common.join("config"), config).unwrap();
            assert_eq!(hooks_path(&tree), expected.map(|name| tree.join(name)), "{config}");
            if let Some(name) = expected {
                assert_eq!(hooks_directory(&tree), Some(tree.join(name)), "{config}");
            }
        }
    }

    #[test]
    fn a_git_file_cannot_lend_a_directory_of_its_choice() {
        let (dir, tree, own) = worktree();
        let private = dir.path().join("private");
        fs::create_dir(&private).unwrap();
        for (commondir, pointer) in [
            (private.display().to_string(), own.clone()),
            ("../..".to_owned(), private.clone()),
            ("..".to_owned(), own.clone()),
        ] {
            fs::write(own.join("commondir"), commondir).unwrap();
            fs::write(tree.join(".git"), format!("gitdir: {}", pointer.display())).unwrap();
            assert_eq!(git_place(&tree), Ok(GitPlace::Elsewhere), "{}", pointer.display());
        }
    }

    #[test]
    fn a_directory_is_one_and_a_link_leads_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(git_place(dir.path()), Ok(GitPlace::None));
        std::os::unix::fs::symlink("/", dir.path().join(".git")).unwrap();
        assert_eq!(git_place(dir.path()), Ok(GitPlace::Elsewhere));
        fs::remove_file(dir.path().join(".git")).unwrap();
        fs::create_dir(dir.path().join(".git")).unwrap();
        assert_eq!(git_place(dir.path()), Ok(GitPlace::Directory));
    }
}

#[cfg(test)]
mod tracked_tests {
    use super::*;

    fn tracked(paths: &[&str]) -> Tracked {
        Tracked { paths: paths.iter().map(|path| path.as_bytes().to_vec()).collect() }
    }

    #[test]
    fn a_directory_is_known_by_what_is_tracked_in_it() {
        let tracked = tracked(&["a-b/x", "a.txt", "a/b/c"]);
        assert!(tracked.has(b"a/b/c") && !tracked.has(b"a/b"));
        assert!(tracked.has_below(b"a") && tracked.has_below(b"a/b"));
        assert!(
            !tracked.has_below(b"a/b/c") && !tracked.has_below(b"b") && !tracked.has_below(b"a.")
        );
    }

    #[test]
    fn a_damaged_index_is_no_index() {
        assert_eq!(decode(b""), None);
        assert_eq!(decode(b"DIRC\0\0\0\x02\xff\xff\xff\xff and nothing of what it promised"), None);
    }

    #[test]
    fn no_changed_byte_of_an_index_ends_the_host() {
        let whole = crate::testing::index(&["a", "b/c", "b/d/e.rs"]);
        assert_eq!(decode(&whole).unwrap(), [&b"a"[..], b"b/c", b"b/d/e.rs"]);
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                let _ = decode(&changed);
            }
            let _ = decode(&whole[..at]);
        }
    }
}

#[cfg(test)]
mod revision_tests {
    use std::fs;

    use super::*;

    const A: &str = "0123456789abcdef0123456789abcdef01234567";
    const B: &str = "fedcba9876543210fedcba9876543210fedcba98";

    fn repo(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn head_is_found_detached_loose_and_packed() {
        let detached = repo(&[(".git/HEAD", &format!("{A}\n"))]);
        assert_eq!(head_commit(detached.path()).as_deref(), Some(A));
        let head = (".git/HEAD", "ref: refs/heads/main\n");
        let packed = format!(
            "# pack-refs with: peeled\n{B} refs/heads/mainline\n{A} refs/heads/main\n^{B}\n"
        );
        let packed = (".git/packed-refs", packed.as_str());
        assert_eq!(head_commit(repo(&[head, packed]).path()).as_deref(), Some(A));
        let loose = repo(&[head, packed, (".git/refs/heads/main", B)]);
        assert_eq!(
            head_commit(loose.path()).as_deref(),
            Some(B),
            "a loose reference is the newer one"
        );
    }

    #[test]
    fn a_linked_worktree_is_followed_to_the_shared_references() {
        let root = repo(&[
            ("main/.git/refs/heads/topic", A),
            ("main/.git/worktrees/w/HEAD", "ref: refs/heads/topic\n"),
            ("main/.git/worktrees/w/commondir", "../..\n"),
        ]);
        let tree = root.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let target = root.path().join("main/.git/worktrees/w");
        fs::write(tree.join(".git"), format!("gitdir: {}\n", target.display())).unwrap();
        assert_eq!(head_commit(&tree).as_deref(), Some(A));
        fs::write(tree.join(".git"), "gitdir: ../main/.git/worktrees/w\n").unwrap();
        assert_eq!(head_commit(&tree).as_deref(), Some(A));
    }

    #[test]
    fn what_is_no_commit_is_none() {
        for files in [
            &[][..],
            &[(".git/HEAD", "ref: refs/heads/unborn\n")],
            &[(".git/HEAD", "ref: refs/heads/../../../secret\n"), ("secret", A)],
            &[(".git/HEAD", "ref: HEAD\n")],
            &[(".git/HEAD", "ref: refs/heads/a\n"), (".git/refs/heads/a", "ref: refs/heads/a\n")],
            &[(".git/HEAD", "not a commit")],
            &[(".git", "gitdir:")],
        ] {
            assert_eq!(head_commit(repo(files).path()), None, "{files:?}");
        }
    }
}
