//! Changing files so that every change can be rolled back, inside directories that are held by handle.
//!
//! Bytes are written beside their target under a recognisable temporary name and are durable before they get the real
//! name, so a killed process leaves the old or the new file, never half of one; [`sweep_tree`] and [`sweep_directory`]
//! remove the temporary files that it leaves. A name is taken over by exchange or only while it is free. Nothing is
//! ever written through an existing file, so a hard link to a file outside of the repository is broken rather than
//! followed. A new file gets the owner, mode, attributes and access list of the file that it replaces.
//!
//! `act_fs::Dir::replace` is not used here: it replaces whatever has the name, while an edit must find out, in one step
//! with the write, whether another program changed the file meanwhile.

#[cfg(test)]
mod metadata_tests;

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use act_core::fail_point;
use act_fs::{DIRECTORY, MAX_DEPTH, NEW, READ, Root, hex};
use rustix::fs::{AtFlags, FileType, Gid, Mode, RawMode, RenameFlags, Stat, Uid, XattrFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::exclusion::{
    TEMPORARY_PREFIX, TEMPORARY_SUFFIX, by_name, is_in_build_directory, is_temporary,
};
use super::listing::first_names;
use super::paths::{RepoPath, join};
use super::reading::{digest, read_whole, regular};
use super::view::{Kind, Profile};
use super::writer::{Checked, EditError, LeftState, NotRolledBack};

/// Maximum number of times to put back a file that another program keeps replacing. Such a program wins several rounds in a
/// row on a busy machine, so the number is far above that. A round exchanges two names and hashes one file.
const MAX_SWAPS: usize = 100;

/// Changes that were made and not yet committed.
pub(super) struct Transaction<'r> {
    root: &'r Root,
    exchange: bool,
    /// Maximum number of bytes of a file that is read to compare its digest.
    most: u64,
    stopped: &'r dyn Fn() -> bool,
    undo: Vec<Undo>,
}

/// One change that was made, with what is needed to undo it.
enum Undo {
    MadeDirectory {
        parent: Arc<OwnedFd>,
        name: String,
    },
    Created {
        file: Target,
        digest: String,
    },
    /// `old` holds the old bytes until the transaction ends.
    Replaced {
        file: Target,
        old: Temp,
        digest: String,
    },
    Deleted {
        file: Target,
        old: Temp,
    },
    Moved {
        from: Target,
        to: Target,
    },
}

/// A file of the repository in its open directory.
struct Target {
    path: RepoPath,
    dir: Arc<OwnedFd>,
}

impl Target {
    fn new(path: &RepoPath, dir: &Arc<OwnedFd>) -> Self {
        Self { path: path.clone(), dir: dir.clone() }
    }

    fn name(&self) -> &str {
        self.path.split().1
    }

    fn left(&self, state: LeftState) -> NotRolledBack {
        NotRolledBack { path: self.path.to_string(), state }
    }
}

impl<'r> Transaction<'r> {
    pub(super) fn new(
        root: &'r Root,
        exchange: bool,
        most: u64,
        stopped: &'r dyn Fn() -> bool,
    ) -> Self {
        Self { root, exchange, most, stopped, undo: vec![] }
    }

    /// Stops before the next change, if the task was cancelled.
    fn go_on(&self) -> Result<(), EditError> {
        if (self.stopped)() { Err(EditError::Stopped) } else { Ok(()) }
    }

    /// Makes all changes in order, or none.
    ///
    /// # Errors
    /// The change that failed, or `RollbackFailed` when the ones before it could not all be rolled back.
    pub(super) fn make(mut self, changes: &[Checked]) -> Result<(), EditError> {
        for change in changes {
            let made = match (change.op, &change.expect, &change.to) {
                ("create", _, _) => self.create(change),
                ("replace", Some(expect), _) => self.replace(change, expect),
                ("delete", Some(expect), _) => self.delete(change, expect),
                (_, Some(expect), Some(to)) => self.rename(change, expect, to),
                (op, _, _) => {
                    Err(EditError::Arguments(format!("{op} of a file that was not read")))
                }
            };
            if let Err(error) = made {
                let left = self.roll_back();
                return Err(match left.is_empty() {
                    true => error,
                    false => EditError::RollbackFailed { why: Box::new(error), left },
                });
            }
            fail_point::reach("written");
        }
        Ok(())
    }

    /// Undoes all changes, the last one first. Files that another program changed meanwhile are left alone and
    /// returned, in the order in which they were changed here.
    fn roll_back(mut self) -> Vec<NotRolledBack> {
        self.stopped = &|| false;
        let mut left = vec![];
        while let Some(done) = self.undo.pop() {
            left.extend(self.undo(done).into_iter().flatten());
        }
        left.reverse();
        left
    }

    fn undo(&self, done: Undo) -> [Option<NotRolledBack>; 2] {
        let only =
            |file: &Target, holds: Option<LeftState>| [holds.map(|holds| file.left(holds)), None];
        match done {
            Undo::MadeDirectory { parent, name } => {
                // Fails when another program has created something in it; then it stays.
                let _ = rustix::fs::unlinkat(&parent, &name, AtFlags::REMOVEDIR);
                [None, None]
            }
            Undo::Created { file, digest } => {
                let out = self.move_aside(&file.dir, file.name(), &digest);
                let holds = out.err().map(|_| self.state_of_written(&file, &digest));
                // A missing file is the state before the change.
                only(&file, holds.filter(|holds| *holds != LeftState::Nothing))
            }
            Undo::Replaced { file, old, digest } => {
                let back = self.restore(&file, &old, &digest);
                only(&file, (!back).then(|| self.state_of_written(&file, &digest)))
            }
            Undo::Deleted { file, old } => {
                let dir = file.dir.as_fd();
                let back = rename_new(dir, &old.name, dir, file.name());
                only(&file, back.err().map(|_| self.state_of_removed(&file)))
            }
            Undo::Moved { from, to } => {
                let (into, out_of) = (from.dir.as_fd(), to.dir.as_fd());
                match rename_new(out_of, to.name(), into, from.name()) {
                    Ok(()) => [None, None],
                    Err(_) => {
                        let there = self.state_of_removed(&to) != LeftState::Nothing;
                        let there = there.then(|| to.left(LeftState::Written));
                        [there, Some(from.left(self.state_of_removed(&from)))]
                    }
                }
            }
        }
    }

    fn restore(&self, file: &Target, old: &Temp, digest: &str) -> bool {
        let (dir, name) = (&file.dir, file.name());
        let swapped = match self.exchange {
            true => self.swap(dir, old, name, digest),
            false => Err(Swap::Unsupported),
        };
        match swapped {
            Err(Swap::Unsupported) => {
                self.has_digest(dir, name, digest)
                    && rustix::fs::renameat(dir, &old.name, dir, name).is_ok()
            }
            swapped => swapped.is_ok(),
        }
    }

    /// Returns the state of a file that was written and could not be rolled back.
    fn state_of_written(&self, file: &Target, digest: &str) -> LeftState {
        match state_of(&file.dir, file.name(), self.most) {
            Ok(FileState::Nothing) => LeftState::Nothing,
            Ok(FileState::File { digest: now, .. }) if now == digest => LeftState::Written,
            _ => LeftState::Changed,
        }
    }

    /// Returns the state of the name of a file that was removed and could not be restored.
    fn state_of_removed(&self, file: &Target) -> LeftState {
        match state_of(&file.dir, file.name(), self.most) {
            Ok(FileState::Nothing) => LeftState::Nothing,
            _ => LeftState::Other,
        }
    }

    fn create(&mut self, change: &Checked) -> Result<(), EditError> {
        let dir = self.directory_made(&change.path)?;
        let name = change.path.split().1;
        let temp = Temp::write(&dir, &change.bytes, change.like.as_ref(), change.mode)
            .map_err(failed(&change.path))?;
        self.go_on()?;
        match rename_new(dir.as_fd(), &temp.name, dir.as_fd(), name) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(EditError::Exists { path: change.path.to_string() }),
            Err(errno) => return Err(failed(&change.path)(errno.into())),
        }
        let digest = digest(&change.bytes);
        self.undo.push(Undo::Created { file: Target::new(&change.path, &dir), digest });
        Ok(())
    }

    fn replace(&mut self, change: &Checked, expect: &str) -> Result<(), EditError> {
        let dir = self.directory(&change.path)?;
        let name = change.path.split().1;
        let conflict = || EditError::Conflict { path: change.path.to_string(), current: None };
        let failed = failed(&change.path);
        let like = match state_of(&dir, name, self.most).map_err(&failed)? {
            FileState::File { digest, file, .. } if digest == expect => Metadata::of(file),
            _ => return Err(conflict()),
        };
        let like = like.map_err(&failed)?;
        let temp = Temp::write(&dir, &change.bytes, Some(&like), None).map_err(&failed)?;
        let digest = digest(&change.bytes);
        let done = |old| Undo::Replaced { file: Target::new(&change.path, &dir), old, digest };
        match if self.exchange {
            self.swap(&dir, &temp, name, expect)
        } else {
            Err(Swap::Unsupported)
        } {
            Ok(()) => {
                self.undo.push(done(temp));
                Ok(())
            }
            Err(Swap::Stopped) => Err(EditError::Stopped),
            Err(Swap::Unexpected) => Err(conflict()),
            Err(Swap::Failed(Errno::NOENT)) => Err(conflict()),
            Err(Swap::Failed(errno)) => Err(failed(errno.into())),
            Err(Swap::Unsupported) => {
                // A hard link preserves the old bytes for an undo, on file systems that have hard links.
                let old = Temp::free(&dir);
                let _ = rustix::fs::linkat(&dir, name, &dir, &old.name, AtFlags::empty());
                if !self.has_digest(&dir, name, expect) {
                    return Err(conflict());
                }
                self.go_on()?;
                rustix::fs::renameat(&dir, &temp.name, &dir, name)
                    .map_err(|errno| failed(errno.into()))?;
                self.undo.push(done(old));
                Ok(())
            }
        }
    }

    fn delete(&mut self, change: &Checked, expect: &str) -> Result<(), EditError> {
        let dir = self.directory(&change.path)?;
        let name = change.path.split().1;
        self.go_on()?;
        match self.move_aside(&dir, name, expect) {
            Ok(old) => {
                self.undo.push(Undo::Deleted { file: Target::new(&change.path, &dir), old });
                Ok(())
            }
            Err(Swap::Stopped) => Err(EditError::Stopped),
            Err(Swap::Unexpected | Swap::Failed(Errno::NOENT)) => {
                Err(EditError::Conflict { path: change.path.to_string(), current: None })
            }
            Err(Swap::Failed(errno)) => Err(failed(&change.path)(errno.into())),
            Err(Swap::Unsupported) => Err(failed(&change.path)(Errno::OPNOTSUPP.into())),
        }
    }

    fn rename(&mut self, change: &Checked, expect: &str, to: &RepoPath) -> Result<(), EditError> {
        let (from, old) = (self.directory(&change.path)?, change.path.split().1);
        let (into, new) = (self.directory_made(to)?, to.split().1);
        let conflict = || EditError::Conflict { path: change.path.to_string(), current: None };
        self.go_on()?;
        match rename_new(from.as_fd(), old, into.as_fd(), new) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(EditError::Exists { path: to.to_string() }),
            Err(Errno::NOENT) => return Err(conflict()),
            Err(errno) => return Err(failed(&change.path)(errno.into())),
        }
        if !self.has_digest(&into, new, expect) {
            let _ = rename_new(into.as_fd(), new, from.as_fd(), old);
            return Err(conflict());
        }
        self.undo.push(Undo::Moved {
            from: Target::new(&change.path, &from),
            to: Target::new(to, &into),
        });
        Ok(())
    }

    /// Exchanges `temp` and `name`, if the file that had the name is the expected one. Otherwise the newest bytes that
    /// another program wrote are put back under the name.
    fn swap(&self, dir: &Arc<OwnedFd>, temp: &Temp, name: &str, expect: &str) -> Result<(), Swap> {
        let exchange = || exchange(dir, &temp.name, name);
        let put_in = self.digest_at(dir, &temp.name);
        if (self.stopped)() {
            return Err(Swap::Stopped);
        }
        exchange().map_err(Swap::of)?;
        let mut came_out = self.digest_at(dir, &temp.name);
        if came_out.as_deref() == Some(expect) {
            return Ok(());
        }
        let mut under_the_name = put_in;
        for _ in 0..MAX_SWAPS {
            exchange().map_err(Swap::of)?;
            let now = self.digest_at(dir, &temp.name);
            // The file that was put under the name came back, so nothing newer is lost.
            if now == under_the_name {
                break;
            }
            under_the_name = came_out;
            came_out = now;
        }
        Err(Swap::Unexpected)
    }

    /// Gives the file a temporary name, if it is the expected one.
    fn move_aside(&self, dir: &Arc<OwnedFd>, name: &str, expect: &str) -> Result<Temp, Swap> {
        let out = Temp::free(dir);
        rename_new(dir.as_fd(), name, dir.as_fd(), &out.name).map_err(Swap::of)?;
        if self.has_digest(dir, &out.name, expect) {
            return Ok(out);
        }
        // If another program has taken the name meanwhile, its file is newer, and this one stays aside.
        let _ = rename_new(dir.as_fd(), &out.name, dir.as_fd(), name);
        Err(Swap::Unexpected)
    }

    fn has_digest(&self, dir: &Arc<OwnedFd>, name: &str, expect: &str) -> bool {
        self.digest_at(dir, name).as_deref() == Some(expect)
    }

    /// Returns the digest of a regular file, or `None` for everything else.
    fn digest_at(&self, dir: &Arc<OwnedFd>, name: &str) -> Option<String> {
        match state_of(dir, name, self.most) {
            Ok(FileState::File { digest, .. }) => Some(digest),
            _ => None,
        }
    }

    fn directory(&self, path: &RepoPath) -> Result<Arc<OwnedFd>, EditError> {
        directory(self.root, path.split().0, path)?
            .map(Arc::new)
            .ok_or_else(|| EditError::Conflict { path: path.to_string(), current: None })
    }

    /// Opens the directory of `path`, and creates what is missing of it.
    fn directory_made(&mut self, path: &RepoPath) -> Result<Arc<OwnedFd>, EditError> {
        let dir = path.split().0;
        if let Some(fd) = directory(self.root, dir, path)? {
            return Ok(Arc::new(fd));
        }
        let here =
            self.root.open_real(b"", DIRECTORY).map_err(|errno| failed(path)(errno.into()))?;
        let mut here = Arc::new(here);
        for name in dir.split('/') {
            match rustix::fs::mkdirat(&here, name, Mode::from_raw_mode(0o777)) {
                Ok(()) => {
                    self.undo
                        .push(Undo::MadeDirectory { parent: here.clone(), name: name.to_owned() });
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(path)(errno.into())),
            }
            let fd = rustix::fs::openat(&here, name, DIRECTORY, Mode::empty());
            here = Arc::new(fd.map_err(|errno| on_the_way(errno, path))?);
        }
        Ok(here)
    }
}

/// Why a file did not get or give up its name.
#[derive(Debug, PartialEq, Eq)]
enum Swap {
    /// The task was cancelled.
    Stopped,
    /// The file under the name is not the expected one.
    Unexpected,
    /// The file system cannot rename in this way.
    Unsupported,
    Failed(Errno),
}

impl Swap {
    fn of(errno: Errno) -> Self {
        if is_unsupported(errno) { Self::Unsupported } else { Self::Failed(errno) }
    }
}

/// Opens the real directory `dir`, or returns `None` when it does not exist. A link on the way is an error.
pub(super) fn directory(
    root: &Root,
    dir: &str,
    path: &RepoPath,
) -> Result<Option<OwnedFd>, EditError> {
    if dir.split('/').count() >= MAX_DEPTH {
        return Err(EditError::Arguments(format!("more than {MAX_DEPTH} directories on the way")));
    }
    match root.open_real(dir.as_bytes(), DIRECTORY) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(on_the_way(errno, path)),
    }
}

pub(super) fn on_the_way(errno: Errno, path: &RepoPath) -> EditError {
    match errno {
        Errno::LOOP | Errno::NOTDIR | Errno::XDEV => EditError::NotAFile { path: path.to_string() },
        other => failed(path)(other.into()),
    }
}

fn failed(path: &RepoPath) -> impl Fn(std::io::Error) -> EditError {
    let path = path.to_string();
    move |error| EditError::Failed { path: path.clone(), why: error.to_string() }
}

/// A temporary file in the directory of its target. The name is removed when this value is dropped.
#[derive(Debug)]
pub(super) struct Temp {
    dir: Arc<OwnedFd>,
    pub(super) name: String,
}

impl Temp {
    /// Chooses a random name.
    pub(super) fn free(dir: &Arc<OwnedFd>) -> Self {
        let name = format!("{TEMPORARY_PREFIX}{:016x}{TEMPORARY_SUFFIX}", rand::random::<u64>());
        Self { dir: dir.clone(), name }
    }

    /// Writes a new file with these bytes and syncs it. It gets the metadata `like` of another file, or `mode`, or what
    /// the system gives a new file.
    pub(super) fn write(
        dir: &Arc<OwnedFd>,
        bytes: &[u8],
        like: Option<&Metadata>,
        mode: Option<u32>,
    ) -> std::io::Result<Self> {
        let temp = Self::free(dir);
        let first = if like.is_some() || mode.is_some() { 0o600 } else { 0o666 };
        let fd = rustix::fs::openat(dir, &temp.name, NEW, Mode::from_raw_mode(first))?;
        match (like, mode) {
            (Some(like), _) => like.apply_to(&fd)?,
            (None, Some(mode)) => {
                rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode as RawMode))?;
            }
            (None, None) => {}
        }
        let mut file = File::from(fd);
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(temp)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        // The file may have been renamed already, or never created.
        let _ = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty());
    }
}

/// Exchanges the files of two names, which must both exist.
pub(super) fn exchange(dir: &OwnedFd, a: &str, b: &str) -> Result<(), Errno> {
    rustix::fs::renameat_with(dir, a, dir, b, RenameFlags::EXCHANGE)
}

/// Returns whether the file system, or the kernel, cannot do what a rename flag asks for.
pub(super) fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

/// Renames a file, and fails with `EXIST` when the new name is taken.
pub(super) fn rename_new(
    from: BorrowedFd<'_>,
    old: &str,
    to: BorrowedFd<'_>,
    new: &str,
) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        Err(errno) if is_unsupported(errno) => {
            // A hard link fails when the name is taken, and does not follow a link.
            rustix::fs::linkat(from, old, to, new, AtFlags::empty())?;
            rustix::fs::unlinkat(from, old, AtFlags::empty())
        }
        other => other,
    }
}

/// The state of a name in a directory.
pub(super) enum FileState {
    Nothing,
    File {
        digest: String,
        stat: Stat,
        /// The open file.
        file: File,
    },
    /// A link, a directory or something special.
    Other,
    TooLarge,
}

/// Looks at a name without following a link, and reads at most `most` bytes.
pub(super) fn state_of(dir: impl AsFd, name: &str, most: u64) -> std::io::Result<FileState> {
    let fd = match rustix::fs::openat(&dir, name, READ, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(FileState::Nothing),
        Err(Errno::LOOP | Errno::NXIO | Errno::MLINK) => return Ok(FileState::Other),
        Err(errno) => return Err(errno.into()),
    };
    let stat = rustix::fs::fstat(&fd)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(FileState::Other);
    }
    let file = File::from(fd);
    Ok(match digest_of(&file, most)? {
        Some(digest) => FileState::File { digest, stat, file },
        None => FileState::TooLarge,
    })
}

/// Reads a regular file of at most `most` bytes without following a link. Returns `None` for everything else.
pub(super) fn bytes(dir: impl AsFd, name: &str, most: usize) -> Option<Vec<u8>> {
    whole(dir, name, most as u64).map(|(bytes, _)| bytes)
}

/// Reads a file like [`bytes`], and returns its metadata as well.
pub(super) fn whole(dir: impl AsFd, name: &str, most: u64) -> Option<(Vec<u8>, Stat)> {
    let fd = rustix::fs::openat(&dir, name, READ, Mode::empty()).ok()?;
    let (fd, stat) = regular(fd).ok()?;
    Some((read_whole(fd, most).ok()??, stat))
}

/// Returns the digest of a file, or `None` when it has more than `most` bytes.
pub(super) fn digest_of(file: &File, most: u64) -> std::io::Result<Option<String>> {
    let mut file = file.take(most.saturating_add(1));
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    let mut total = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                total += count as u64;
                hash.update(&buffer[..count]);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((total <= most).then(|| hex(&hash.finalize())))
}

/// Maximum number of bytes of all attribute names, and of one value; Linux allows no more.
const MAX_BYTES: usize = 64 << 10;
const MAX_ATTRIBUTES: usize = 256;
/// Maximum number of bytes of all values.
const MAX_TOTAL: usize = 1 << 20;
/// The extended attributes that hold access lists.
#[cfg(target_os = "linux")]
const ACCESS: &[&CStr] = &[c"system.posix_acl_access", c"system.nfs4_acl"];
/// On other systems access lists are no extended attributes, and reading them needs unsafe code.
#[cfg(not(target_os = "linux"))]
const ACCESS: &[&CStr] = &[];

/// The owner, group, mode, extended attributes and access list of a file. An access list is preserved or nothing is
/// written, because it may restrict somebody; everything else is preserved where the system allows it.
#[derive(Debug, Clone)]
pub(super) struct Metadata {
    stat: Stat,
    /// The value of each attribute in `ACCESS`, or `None` where the file does not have it.
    access: Vec<Option<Vec<u8>>>,
    attributes: Vec<(CString, Vec<u8>)>,
}

impl Metadata {
    pub(super) fn of(file: impl AsFd) -> io::Result<Self> {
        let stat = rustix::fs::fstat(&file)?;
        let access = |name: &&CStr| value(&file, name).map_err(|errno| not_preserved(name, errno));
        let access = ACCESS.iter().map(access).collect::<Result<_, _>>()?;
        Ok(Self { stat, access, attributes: attributes(&file) })
    }

    /// Applies the metadata to an empty file that nobody else can open yet, so that a user who may not read the bytes
    /// does not have the file open when they are written.
    pub(super) fn apply_to(&self, to: impl AsFd) -> io::Result<()> {
        for (name, value) in &self.attributes {
            let _ = rustix::fs::fsetxattr(&to, name.as_c_str(), value, XattrFlags::empty());
        }
        let its_group = give_owner(&to, &self.stat)?;
        let set = |(name, value): (&&CStr, &Option<Vec<u8>>)| match value {
            Some(value) => rustix::fs::fsetxattr(&to, *name, value, XattrFlags::empty()),
            // A new file may inherit an access list from its directory.
            None => rustix::fs::fremovexattr(&to, *name),
        };
        let tried: Vec<_> = ACCESS.iter().zip(&self.access).map(set).collect();
        let mode = self.stat.st_mode & 0o777;
        let mode = if its_group { mode } else { for_another_group(mode) };
        rustix::fs::fchmod(&to, Mode::from_raw_mode(mode))?;
        for ((name, value), tried) in ACCESS.iter().zip(&self.access).zip(tried) {
            let errno = tried.err().unwrap_or(Errno::PERM);
            // An entry for the group of the file would apply to another group.
            let same_group = value.is_none() || its_group;
            if !same_group || self::value(&to, name) != Ok(value.clone()) {
                return Err(not_preserved(name, errno));
            }
        }
        Ok(())
    }
}

fn not_preserved(name: &CStr, errno: Errno) -> io::Error {
    let why = io::Error::from(errno);
    let name = name.to_string_lossy();
    io::Error::new(why.kind(), format!("its access list ({name}) cannot be preserved: {why}"))
}

/// Gives the file the owner and group of `like` where the system allows it. Returns whether it has that group.
fn give_owner(to: impl AsFd, like: &Stat) -> io::Result<bool> {
    let now = rustix::fs::fstat(&to)?;
    let owner = (now.st_uid != like.st_uid).then(|| Uid::from_raw(like.st_uid));
    let group = (now.st_gid != like.st_gid).then(|| Gid::from_raw(like.st_gid));
    if owner.is_none() && group.is_none() {
        return Ok(true);
    }
    // Only root may change the owner, but a member of a group may give his files to it.
    if rustix::fs::fchown(&to, owner, group).is_err() {
        let _ = rustix::fs::fchown(&to, None, group);
    }
    Ok(rustix::fs::fstat(&to)?.st_gid == like.st_gid)
}

/// Returns the mode for a file that gets another group. Members of the old group become others and the other way
/// round, so both get only the permissions that both had.
fn for_another_group(mode: RawMode) -> RawMode {
    let both = (mode >> 3) & mode & 0o7;
    (mode & 0o700) | (both << 3) | both
}

/// Reads an attribute, or returns `None` when the file or the file system has none of that name.
fn value(file: impl AsFd, name: &CStr) -> Result<Option<Vec<u8>>, Errno> {
    let mut value = vec![0; MAX_BYTES];
    match rustix::fs::fgetxattr(file, name, value.as_mut_slice()) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(NO_ATTRIBUTE | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
        Err(errno) => Err(errno),
    }
}

#[cfg(target_vendor = "apple")]
const NO_ATTRIBUTE: Errno = Errno::NOATTR;
#[cfg(not(target_vendor = "apple"))]
const NO_ATTRIBUTE: Errno = Errno::NODATA;

/// Reads the attributes to preserve, as many as the bounds allow.
fn attributes(file: impl AsFd) -> Vec<(CString, Vec<u8>)> {
    let mut names = vec![0_u8; MAX_BYTES];
    let Ok(length) = rustix::fs::flistxattr(&file, names.as_mut_slice()) else { return vec![] };
    let names = names.get(..length).unwrap_or_default();
    let names = names.split_inclusive(|byte| *byte == 0).map(CStr::from_bytes_with_nul);
    let mut total = 0;
    let read = |name: &CStr| {
        let value = value(&file, name).ok().flatten()?;
        Some((name.to_owned(), value))
    };
    names
        .flatten()
        .filter(|name| is_preserved(name.to_bytes()))
        .take(MAX_ATTRIBUTES)
        .filter_map(read)
        .take_while(|(_, value)| {
            total += value.len();
            total <= MAX_TOTAL
        })
        .collect()
}

/// Returns whether an attribute is preserved: the user's own and the labels of the system are. Not preserved are attributes of
/// the old bytes (`security.ima`), those that give a program more rights than its review covered
/// (`security.capability`, as with set-id bits), and the file system's own (`trusted.*`).
fn is_preserved(name: &[u8]) -> bool {
    cfg!(target_vendor = "apple")
        || name.starts_with(b"user.")
        || [&b"security.selinux"[..], b"security.SMACK64"].contains(&name)
}

/// Maximum number of names to look at while sweeping a tree: shallow directories first, so that a large tree costs
/// little. A directory that is written to is swept in any case.
const MAX_NAMES: usize = 20_000;
const MAX_WAITING: usize = 4_000;

/// Removes the temporary files of killed writers. Every writer that is opened does this, because no sign says that there
/// are none: the store knows only the tasks of its own ARTIFACT_DIR, a mark in the repository would be a file of ours
/// among those of the user, and either would miss what an older version left.
pub(super) fn sweep_tree(root: &Root) {
    let mut waiting = VecDeque::from([String::new()]);
    let mut looked_at = 0;
    while let Some(dir) = waiting.pop_front() {
        let Ok(fd) = root.open_real(dir.as_bytes(), DIRECTORY) else { continue };
        for (name, kind) in clear(&fd) {
            looked_at += 1;
            let Ok(name) = std::str::from_utf8(&name) else { continue };
            let path = join(&dir, name);
            let skip = by_name(Profile::Tool, &path, Some(kind)).is_some()
                || is_in_build_directory(&path, Some(kind));
            if kind == Kind::Directory && !skip && waiting.len() < MAX_WAITING {
                waiting.push_back(path);
            }
        }
        if looked_at >= MAX_NAMES {
            return;
        }
    }
}

pub(super) fn sweep_directory(root: &Root, dir: &str) {
    if let Ok(fd) = root.open_real(dir.as_bytes(), DIRECTORY) {
        clear(&fd);
    }
}

/// Removes temporary files of killed writers from a directory, and returns its other names as well.
pub(super) fn clear(dir: &OwnedFd) -> Vec<(Vec<u8>, Kind)> {
    let Ok(names) = first_names(dir) else { return vec![] };
    for (name, kind) in &names {
        if *kind != Kind::Directory && std::str::from_utf8(name).is_ok_and(is_temporary) {
            let _ = rustix::fs::unlinkat(dir, name.as_slice(), AtFlags::empty());
        }
    }
    names
}
