//! The files that a verification sees: what git tracks, what git would track, and what the configuration adds.
//!
//! [`CopySet`] reads them by handle, without the exclusions that keep secrets and binaries from components;
//! [`tree_digest`] is their identity. [`VerificationScope`] answers for one path whether it belongs to them, which a
//! task asks before it writes. [`special_files`] finds what a copy cannot hold and a read-only mount does not protect.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use act_fs::{DIRECTORY, MAX_DEPTH, READ, Root, hex};
use rustix::fs::{AtFlags, FileType, Stat, fstat, statat};
use rustix::io::Errno;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::exclusion::is_temporary;
use super::git::IgnoreRules;
use super::listing::{TreeWalk, WalkEntry};
use super::notes::notes_dir_of;
use super::paths::{PathGlobs, name_of};
use super::reading::regular;
use super::view::{Kind, StopCheck};

/// Maximum number of files and links in one set.
const MAX_FILES: usize = 2_000_000;
/// Number of bytes that a reader of whole trees reads at a time.
pub const READ_AT_ONCE: usize = 64 << 10;
/// Maximum number of names beside a set that are compared. A comparison of more takes seconds.
const MAX_BESIDE: usize = 500_000;
/// Seconds in which a file may change again without another time of change, on file systems that count in seconds.
const JUST_NOW: i64 = 1;
/// Maximum number of special files, and of mounts, that are named.
const MAX_SPECIAL: usize = 256;
/// Maximum number of names that are looked at for special files.
const MAX_NAMES: usize = 10_000_000;

/// The regular files and links that a verification sees. `.git` at any depth and the directory of act's notes are not
/// among them.
#[derive(Debug)]
pub struct CopySet {
    root: Root,
    ignores: IgnoreRules,
    notes: Option<&'static str>,
    /// Sorted by path, component by component.
    pub entries: Vec<CopyEntry>,
    /// The marks of the entries, in their order.
    marks: Vec<Mark>,
}

/// What the system says about one file without reading it: if it is the same twice, the file has not changed between. The
/// time of the last change of an inode is part of it, which no program can set.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// The first bytes of a SHA-256. An accident is excluded; somebody who can choose inodes and times writes the file anyway.
    digest: [u8; 8],
    /// Nanoseconds since 1970 of the last change.
    changed: i128,
}

impl Mark {
    fn of(stat: &Stat) -> Self {
        let times = (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
        let of_file = (stat.st_mode, stat.st_size, stat.st_ino, stat.st_dev);
        let mut digest = [0; 8];
        let whole = Sha256::digest(format!("{of_file:?} {times:?}"));
        digest.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
        let changed = i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec);
        Self { digest, changed }
    }
}

/// The marks of all files of a [`CopySet`]: much cheaper than a [`Tree`], which reads every file, and enough to see that
/// nothing has changed on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeMarks {
    /// SHA-256 over path and mark of every file, as 64 hexadecimal digits.
    pub digest: String,
    /// Path and mark of each file, in the order of the paths.
    pub files: Vec<(PathBuf, String)>,
    /// Nanoseconds since 1970 of the newest change of a file. A file that changes twice within a tick of the system's clock
    /// may have one mark for both.
    pub newest: Option<i128>,
}

/// A file or link of a [`CopySet`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyEntry {
    /// Relative to the root. The path need not be UTF-8.
    pub path: PathBuf,
    /// A file or a link.
    pub kind: Kind,
    /// The permission bits.
    pub mode: u32,
    pub size: u64,
}

/// The digests of a set of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// SHA-256 over path, git's mode and content digest of every file, as 64 hexadecimal digits.
    pub digest: String,
    /// In the order of the paths.
    pub files: Vec<TreeFile>,
}

/// A file or link of a [`Tree`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFile {
    pub path: PathBuf,
    /// `100644`, `100755` or `120000`. git stores no other permission bits.
    pub mode: &'static str,
    pub sha256: String,
    /// The number of bytes that were read.
    pub size: u64,
    /// The name of the content as a blob of git, by SHA-1; `None` where the file changed its size while it was read.
    pub blob: Option<[u8; 20]>,
}

impl Tree {
    /// Returns the text whose SHA-256 is the digest: path, mode and content digest of each file, each with a NUL at its end.
    pub fn list(&self) -> Vec<u8> {
        let parts = |file: &TreeFile| {
            let path = file.path.as_os_str().as_bytes().to_vec();
            [path, file.mode.into(), file.sha256.clone().into_bytes()]
        };
        let mut list = vec![];
        for part in self.files.iter().flat_map(parts) {
            list.extend(part);
            list.push(0);
        }
        list
    }

    /// Returns the name of the tree in git, as `git write-tree` returns it when these files are in the index with these bytes.
    pub fn git_tree(&self) -> Option<String> {
        let mut top = GitTree::default();
        for file in &self.files {
            let parts: Vec<_> =
                file.path.as_os_str().as_bytes().split(|byte| *byte == b'/').collect();
            let (name, above) = parts.split_last()?;
            let mut directory = &mut top;
            for part in above {
                directory = directory.directories.entry(part.to_vec()).or_default();
            }
            directory.files.insert(name.to_vec(), (file.mode, file.blob?));
        }
        Some(hex(&top.name()))
    }
}

/// A directory of a tree of git.
#[derive(Default)]
struct GitTree {
    directories: BTreeMap<Vec<u8>, GitTree>,
    files: BTreeMap<Vec<u8>, (&'static str, [u8; 20])>,
}

impl GitTree {
    fn name(&self) -> [u8; 20] {
        let files = self.files.iter().map(|(name, (mode, id))| (name.clone(), name, *mode, *id));
        // git sorts a directory as if its name ended with a slash.
        let directories = self.directories.iter().map(|(name, directory)| {
            ([name.as_slice(), b"/"].concat(), name, "40000", directory.name())
        });
        let mut entries: Vec<_> = files.chain(directories).collect();
        entries.sort();
        let mut object = vec![];
        for (_, name, mode, id) in entries {
            object.extend([mode.as_bytes(), b" ", name, b"\0", &id].concat());
        }
        let mut hash = object_hash("tree", object.len() as u64);
        hash.update(&object);
        hash.finalize().into()
    }
}

/// Begins the hash of an object of git. Its names are SHA-1, which says nothing against an attacker; the digest beside it does.
fn object_hash(kind: &str, size: u64) -> Sha1 {
    Sha1::new().chain_update(format!("{kind} {size}\0"))
}

/// Returns the files in which two lists of a [`Tree`] differ, sorted. A list that cannot be read has no files.
pub fn differing_files(one: &[u8], other: &[u8]) -> Vec<String> {
    let (one, other) = (read_list(one), read_list(other));
    let mut found: Vec<_> = one
        .iter()
        .filter(|(path, file)| other.get(*path) != Some(*file))
        .map(|(path, _)| *path)
        .chain(other.keys().filter(|path| !one.contains_key(*path)).copied())
        .collect();
    found.sort_unstable();
    found.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
}

fn read_list(list: &[u8]) -> BTreeMap<&[u8], (&[u8], &[u8])> {
    let parts: Vec<_> = list.split(|byte| *byte == 0).collect();
    parts
        .chunks_exact(3)
        .filter_map(|file| match file {
            [path, mode, sha256] => Some((*path, (*mode, *sha256))),
            _ => None,
        })
        .collect()
}

/// Computes a [`Tree`] from entries, which are added in their order.
#[derive(Default)]
pub struct TreeBuilder {
    whole: Sha256,
    files: Vec<TreeFile>,
}

impl TreeBuilder {
    /// Adds a link.
    pub fn link(&mut self, entry: &CopyEntry, target: &OsStr) {
        let size = target.len() as u64;
        let mut blob = object_hash("blob", size);
        blob.update(target.as_bytes());
        let sha256 = hex(&Sha256::digest(target.as_bytes()));
        self.add(entry, "120000", (sha256, Some(blob.finalize().into())), size);
    }

    /// Reads `from` to its end and hands every piece to `copy`, so that the copy is exactly what the digest covers.
    ///
    /// # Errors
    /// An error of the system while reading, or of `copy`.
    pub fn file(
        &mut self,
        entry: &CopyEntry,
        from: &mut impl Read,
        buffer: &mut [u8],
        copy: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut hash, mut size) = (Sha256::new(), 0);
        let mut blob = object_hash("blob", entry.size);
        loop {
            let read = match from.read(buffer) {
                Ok(0) => break,
                Ok(count) => buffer.get(..count).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            size += read.len() as u64;
            hash.update(read);
            blob.update(read);
            copy(read)?;
        }
        let mode = if entry.is_executable() { "100755" } else { "100644" };
        let blob = (size == entry.size).then(|| blob.finalize().into());
        self.add(entry, mode, (hex(&hash.finalize()), blob), size);
        Ok(())
    }

    fn add(
        &mut self,
        entry: &CopyEntry,
        mode: &'static str,
        (sha256, blob): (String, Option<[u8; 20]>),
        size: u64,
    ) {
        for part in [entry.path.as_os_str().as_bytes(), mode.as_bytes(), sha256.as_bytes()] {
            self.whole.update(part);
            self.whole.update([0]);
        }
        self.files.push(TreeFile { path: entry.path.clone(), mode, sha256, size, blob });
    }

    /// Returns the tree of the entries that were added.
    pub fn finish(self) -> Tree {
        Tree { digest: hex(&self.whole.finalize()), files: self.files }
    }
}

/// Why a set of files cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CopyError {
    #[error("more than {MAX_FILES} files; add ignored directories to .gitignore")]
    TooMany,
    #[error("{} changed while it was read", path.display())]
    Changed { path: PathBuf },
    #[error("{} cannot be read: {errno}", path.display())]
    Failed { path: PathBuf, errno: Errno },
}

impl CopySet {
    /// Finds the files of the repository at `root`. Ignored files that match `include` are added.
    ///
    /// # Errors
    /// `TooMany` files, or `Failed` with the error of the system.
    pub fn of(root: &Path, include: &PathGlobs) -> Result<Self, CopyError> {
        let failed = |errno| CopyError::Failed { path: root.to_owned(), errno };
        let root = Root::open(root).map_err(failed)?;
        let ignores = IgnoreRules::new(&root);
        let notes = notes_dir_of(&root, &ignores);
        let start = root.open_real(b"", DIRECTORY).map_err(failed)?;
        let never = StopCheck::default();
        let mut walk =
            TreeWalk::start((&ignores, None), &never, b"", start, None).map_err(failed)?;
        let (mut entries, mut marks) = (vec![], vec![]);
        while let Some(found) = walk.next().map_err(failed)? {
            if is_left_out(&found, notes) {
                continue;
            }
            let path = PathBuf::from(OsString::from_vec(found.path.clone()));
            let failed = |errno| CopyError::Failed { path: path.clone(), errno };
            if found.kind == Kind::Directory {
                if !found.ignored || include.may_match_below(&found.path) {
                    walk.enter(&found).map_err(failed)?;
                }
                continue;
            }
            if found.ignored && !include.matches_bytes(&found.path) {
                continue;
            }
            if entries.len() >= MAX_FILES {
                return Err(CopyError::TooMany);
            }
            let Some(dir) = walk.dir() else { continue };
            let stat = match statat(dir, found.name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(failed(errno)),
            };
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            let mode = (stat.st_mode as u32) & 0o7777;
            marks.push(Mark::of(&stat));
            entries.push(CopyEntry { path, kind: found.kind, mode, size });
        }
        if walk.cut {
            return Err(CopyError::TooMany);
        }
        Ok(Self { root, ignores, notes, entries, marks })
    }

    /// Returns whether git ignores a path, by the rules at the time when the set was made. The path need not exist.
    pub fn ignores(&self, path: &Path, is_dir: bool) -> bool {
        self.ignores.ignores_path(path.as_os_str().as_bytes(), is_dir)
    }

    /// Returns the name of the directory that holds act's notes, which is no part of the set.
    pub fn notes_dir(&self) -> Option<&'static str> {
        self.notes
    }

    /// Returns the marks of the files. They were taken while the set was made, and no file is read.
    pub fn marks(&self) -> TreeMarks {
        let mut whole = Sha256::new();
        let mut files = Vec::with_capacity(self.entries.len());
        for (entry, mark) in self.entries.iter().zip(&self.marks) {
            let path = entry.path.as_os_str().as_bytes();
            whole.update(path);
            whole.update([0]);
            whole.update(mark.digest);
            files.push((entry.path.clone(), hex(&mark.digest)));
        }
        let newest = self.marks.iter().map(|mark| mark.changed).max();
        TreeMarks { digest: hex(&whole.finalize()), files, newest }
    }

    /// Removes the entries for which `is_wanted` returns false.
    pub(super) fn retain(&mut self, mut is_wanted: impl FnMut(&CopyEntry) -> bool) {
        let kept: Vec<_> = self.entries.iter().map(&mut is_wanted).collect();
        let mut of_entries = kept.iter();
        self.entries.retain(|_| of_entries.next().copied().unwrap_or(true));
        let mut of_marks = kept.iter();
        self.marks.retain(|_| of_marks.next().copied().unwrap_or(true));
    }

    /// Returns the number of bytes of all files together.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.size).sum()
    }

    /// Opens the regular file of an entry.
    ///
    /// # Errors
    /// `Changed` when it is no regular file any more, or `Failed` with the error of the system.
    pub fn open(&self, entry: &CopyEntry) -> Result<File, CopyError> {
        let opened = self.root.open_real(entry.path.as_os_str().as_bytes(), READ);
        let (fd, _) = opened.and_then(regular).map_err(|errno| explain(entry, errno))?;
        Ok(File::from(fd))
    }

    /// Reads the target of the link of an entry.
    ///
    /// # Errors
    /// The errors of [`CopySet::open`].
    pub fn link_target(&self, entry: &CopyEntry) -> Result<OsString, CopyError> {
        let path = entry.path.as_os_str().as_bytes();
        let dir = path
            .strip_suffix(name_of(path))
            .map_or(path, |dir| dir.strip_suffix(b"/").unwrap_or(dir));
        let target = self
            .root
            .open_real(dir, DIRECTORY)
            .and_then(|dir| rustix::fs::readlinkat(dir, OsStr::from_bytes(name_of(path)), vec![]))
            .map_err(|errno| explain(entry, errno))?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Reads every file once and computes the digests.
    ///
    /// # Errors
    /// The errors of [`CopySet::open`].
    pub fn tree(&self) -> Result<Tree, CopyError> {
        self.tree_seen(&mut |_, _| {})
    }

    /// Reads every file once, hands each piece of it to `see`, and computes the digests.
    ///
    /// # Errors
    /// The errors of [`CopySet::open`].
    pub fn tree_seen(&self, see: &mut dyn FnMut(&CopyEntry, &[u8])) -> Result<Tree, CopyError> {
        let mut tree = TreeBuilder::default();
        let mut buffer = vec![0; READ_AT_ONCE];
        for entry in &self.entries {
            match entry.kind {
                Kind::Link => tree.link(entry, &self.link_target(entry)?),
                _ => {
                    let mut piece = |bytes: &[u8]| {
                        see(entry, bytes);
                        Ok(())
                    };
                    tree.file(entry, &mut self.open(entry)?, &mut buffer, &mut piece).map_err(
                        |error| explain(entry, Errno::from_io_error(&error).unwrap_or(Errno::IO)),
                    )?
                }
            }
        }
        Ok(tree.finish())
    }

    /// Returns a digest of the files below the root that are not in the set, but for `.git` of the root itself: of their
    /// paths, sizes, numbers and times of change, because they may be many gigabytes and no program can set the time at
    /// which an inode changed. Returns `None` where they cannot be compared: there are too many, or one changed just now,
    /// so that it may change again at the same time as the system counts it.
    pub fn beside(&self) -> Option<String> {
        let inside: HashSet<&[u8]> =
            self.entries.iter().map(|entry| entry.path.as_os_str().as_bytes()).collect();
        let now = act_core::clock::now().timestamp();
        let start = self.root.open_real(b"", DIRECTORY).ok()?;
        let mut names = act_fs::Walk::new(start).ok()?;
        let mut found = vec![];
        while let Some(act_fs::Entry { name, .. }) = names.next_entry().ok()? {
            let path = names.path(&name);
            if path == b".git" || inside.contains(path.as_slice()) {
                continue;
            }
            if found.len() >= MAX_BESIDE {
                return None;
            }
            let Ok(stat) = statat(names.here(), &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let mut hash = Sha256::new();
            hash.update(&path);
            hash.update(format!("\0{:o}", stat.st_mode));
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                // A directory that cannot be read is closed to the steps as well, which run as the same user.
                if let Ok(handle) = names.open(&name) {
                    if names.depth() >= MAX_DEPTH {
                        return None;
                    }
                    names.enter(&name, handle).ok()?;
                }
            } else {
                if stat.st_ctime >= now.saturating_sub(JUST_NOW) {
                    return None;
                }
                let times = (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
                hash.update(format!(" {} {} {times:?}", stat.st_size, stat.st_ino));
            }
            found.push(hash.finalize());
        }
        // The system lists names in any order.
        found.sort_unstable();
        let mut whole = Sha256::new();
        found.iter().for_each(|one| whole.update(one));
        Some(hex(&whole.finalize()))
    }
}

impl CopyEntry {
    /// Returns whether the owner may execute the file, which is the one permission that git stores.
    pub fn is_executable(&self) -> bool {
        self.mode & 0o100 != 0
    }
}

/// Returns the digest of everything that a verification sees.
///
/// # Errors
/// The errors of [`CopySet::of`] and [`CopySet::open`].
pub fn tree_digest(root: &Path, include: &PathGlobs) -> Result<String, CopyError> {
    Ok(CopySet::of(root, include)?.tree()?.digest)
}

fn is_left_out(found: &WalkEntry, notes: Option<&str>) -> bool {
    let name = found.name();
    name.eq_ignore_ascii_case(b".git")
        || std::str::from_utf8(name).is_ok_and(is_temporary)
        || notes.is_some_and(|notes| found.path == notes.as_bytes())
}

fn explain(entry: &CopyEntry, errno: Errno) -> CopyError {
    let path = entry.path.clone();
    match errno {
        Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::ISDIR | Errno::INVAL | Errno::NXIO => {
            CopyError::Changed { path }
        }
        errno => CopyError::Failed { path, errno },
    }
}

/// A changed file that the next verification does not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnverifiedFile {
    pub path: String,
    /// True if the user allowed the path for this task.
    pub allowed: bool,
}

/// Decides which paths the next verification sees. A task must not write other files, because no verification would
/// prove them. The ignore rules are read when the value is created: a task may change them between two calls.
pub(super) struct VerificationScope<'a> {
    ignores: IgnoreRules,
    include: &'a PathGlobs,
}

impl<'a> VerificationScope<'a> {
    /// `include` are the globs of `agent.yaml` that add ignored files.
    pub(super) fn now(root: &Root, include: &'a PathGlobs) -> Self {
        Self { ignores: IgnoreRules::new(root), include }
    }

    /// Returns whether a file of that path is in the tree, or would be if it existed. Names that are never in it, like `.git`,
    /// are not considered here, because they may not be written anyway.
    pub(super) fn holds(&self, path: &str) -> bool {
        !self.ignores.ignores_path(path.as_bytes(), false) || self.include.matches(path)
    }
}

/// Names in a repository through which a program could reach something outside, although the repository is mounted
/// read-only: a read-only mount stops neither a connection to a socket nor a write into a FIFO.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SpecialFiles {
    /// Sockets and FIFOs, relative to the root, `.git` included.
    pub channels: Vec<PathBuf>,
    /// Directories on which another file system is mounted. They are not searched.
    pub mounts: Vec<PathBuf>,
    /// More names exist than are looked at.
    pub cut: bool,
}

/// Looks at every name below the root, ignored ones as well. Directories that cannot be read are skipped: the steps run
/// as the same user, so they cannot read them either.
///
/// # Errors
/// The error of the system.
pub fn special_files(root: &Path) -> Result<SpecialFiles, Errno> {
    let start = Root::open(root)?.open_real(b"", DIRECTORY)?;
    let mount = mount_of(&start)?;
    let mut found = SpecialFiles::default();
    let mut names = act_fs::Walk::new(start)?;
    let mut looked_at = 0;
    while let Some(act_fs::Entry { name, kind }) = names.next_entry()? {
        looked_at += 1;
        if looked_at > MAX_NAMES {
            found.cut = true;
            break;
        }
        let kind = match kind {
            FileType::Unknown => match statat(names.here(), &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(_) => continue,
            },
            known => known,
        };
        let path = || PathBuf::from(OsString::from_vec(names.path(&name)));
        match kind {
            FileType::Fifo | FileType::Socket => push(&mut found.channels, path(), &mut found.cut),
            FileType::Directory => {
                let Ok(inside) = names.open(&name) else { continue };
                if mount_of(&inside)? != mount {
                    push(&mut found.mounts, path(), &mut found.cut);
                } else if names.depth() >= MAX_DEPTH {
                    found.cut = true;
                } else {
                    names.enter(&name, inside)?;
                }
            }
            _ => {}
        }
    }
    found.channels.sort();
    found.mounts.sort();
    Ok(found)
}

/// Returns the device and the mount of a directory. A bind mount has the device of its source, so the device alone is
/// not enough.
#[cfg(target_os = "linux")]
fn mount_of(directory: &OwnedFd) -> Result<(u64, u64), Errno> {
    use rustix::fs::{StatxFlags, statx};
    let device = fstat(directory)?.st_dev;
    let flags = AtFlags::EMPTY_PATH;
    // Before Linux 5.8 the system does not report the mount.
    let mount =
        statx(directory, c"", flags, StatxFlags::MNT_ID).map_or(0, |about| about.stx_mnt_id);
    Ok((device, mount))
}

#[cfg(not(target_os = "linux"))]
fn mount_of(directory: &OwnedFd) -> Result<(u64, u64), Errno> {
    Ok((fstat(directory)?.st_dev as u64, 0))
}

fn push(list: &mut Vec<PathBuf>, path: PathBuf, cut: &mut bool) {
    if list.len() < MAX_SPECIAL {
        list.push(path);
    } else {
        *cut = true;
    }
}

#[cfg(test)]
mod tests;
