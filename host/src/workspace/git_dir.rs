//! Where git keeps what belongs to a working tree, found and read without running git.
//!
//! Nothing here reads configuration. A `.git` file (a linked worktree, a submodule) is followed, for
//! reading only; a `.git` that is a link is taken for none.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::handle::{self, DIRECTORY, Root};

/// Bytes of a `.git` file, `commondir`, `HEAD` or loose reference at most.
pub(super) const MAX_POINTER: u64 = 4096;

/// The two directories of a working tree; the same one twice where nothing is shared.
#[derive(Debug)]
pub(super) struct GitDir {
    /// `HEAD` and the index.
    pub(super) own: Root,
    /// References and `info/exclude`.
    pub(super) common: Root,
}

impl GitDir {
    pub(super) fn of(root: &Root) -> Option<Self> {
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
}

/// A small text file beneath `root`, if it is there and is one.
pub(super) fn small(root: &Root, path: &[u8], most: u64) -> Option<String> {
    String::from_utf8(bytes(root, path, most)?).ok()
}

pub(super) fn bytes(root: &Root, path: &[u8], most: u64) -> Option<Vec<u8>> {
    let opened = root.open_real(path, handle::READ).ok()?;
    let (fd, _) = handle::regular(opened).ok()?;
    handle::read_whole(fd, most).ok()?
}

/// A file with rules is there and cannot be read, or is too large to be.
#[derive(Debug)]
pub(super) struct Unreadable;

/// The bytes of such a file. None where git reads none: nothing there, a link, no regular file.
pub(super) fn rules(
    opened: Result<OwnedFd, Errno>,
    most: u64,
) -> Result<Option<Vec<u8>>, Unreadable> {
    let opened = opened.and_then(handle::regular);
    match opened {
        Ok((fd, _)) => match handle::read_whole(fd, most) {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            Ok(None) | Err(_) => Err(Unreadable),
        },
        Err(
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ISDIR | Errno::INVAL | Errno::NXIO,
        ) => Ok(None),
        Err(_) => Err(Unreadable),
    }
}

/// A directory that git's own files point at; it may lie anywhere.
fn elsewhere(from: impl AsFd, path: &str) -> Option<OwnedFd> {
    let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
    (!path.is_empty()).then(|| rustix::fs::openat(from, path, flags, Mode::empty()).ok())?
}
