//! Opening below a directory's handle without ever following a link.
//!
//! `openat2` does it in one call where the kernel has it; elsewhere one component is opened after the other,
//! each with no-follow. Everything is opened non-blocking: a FIFO named like a source file must not hang
//! the host before it can be looked at.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

pub(super) use act_fs::{DIRECTORY, NEW, READ};

/// How a link itself is opened: good for looking at it, not for reading.
#[cfg(not(target_vendor = "apple"))]
pub(super) const LINK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(target_vendor = "apple")]
pub(super) const LINK: OFlags = OFlags::SYMLINK.union(OFlags::CLOEXEC);
/// Directories on a path at most; every one of them may be an open handle at once.
pub(super) const MAX_DEPTH: usize = 256;

/// The root of a tree; clones share the handle.
#[derive(Debug, Clone)]
pub(super) struct Root {
    fd: Arc<OwnedFd>,
    fast: bool,
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Root {
    /// The path is the user's own: links in it are followed.
    pub(super) fn open(path: &Path) -> Result<Self, Errno> {
        let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
        Ok(Self::new(rustix::fs::open(path, flags, Mode::empty())?))
    }

    pub(super) fn new(fd: OwnedFd) -> Self {
        Self { fd: Arc::new(fd), fast: cfg!(target_os = "linux") }
    }

    /// Always walk, as on a kernel without `openat2`.
    pub(super) fn without_openat2(mut self) -> Self {
        self.fast = false;
        self
    }

    /// `path` beneath the root in one call, if the kernel can and no link is on the way. None: walk instead.
    pub(super) fn straight(&self, path: &[u8], flags: OFlags) -> Option<Result<OwnedFd, Errno>> {
        #[cfg(target_os = "linux")]
        if self.fast {
            use rustix::fs::ResolveFlags as R;
            let at = if path.is_empty() { b"." } else { path };
            let how = R::BENEATH | R::NO_SYMLINKS | R::NO_MAGICLINKS;
            return match rustix::fs::openat2(&self.fd, at, flags, Mode::empty(), how) {
                // A link on the way, an old kernel, a sandbox that forbids the call, a rename meanwhile.
                Err(Errno::LOOP | Errno::NOSYS | Errno::PERM | Errno::AGAIN) => None,
                other => Some(other),
            };
        }
        let _ = (path, flags);
        None
    }

    /// `path` beneath the root; a link anywhere on it is an error (`LOOP` or `NOTDIR`).
    pub(super) fn open_real(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        if let Some(opened) = self.straight(path, flags | OFlags::NOFOLLOW) {
            return opened;
        }
        let mut names = path.split(|b| *b == b'/').filter(|name| !name.is_empty()).peekable();
        let mut at: Option<OwnedFd> = None;
        let mut depth = 0;
        while let Some(name) = names.next() {
            depth += 1;
            if name == b".." || depth > MAX_DEPTH {
                return Err(Errno::XDEV);
            }
            let dir = at.as_ref().map_or(self.as_fd(), AsFd::as_fd);
            let how = if names.peek().is_some() { DIRECTORY } else { flags | OFlags::NOFOLLOW };
            at = Some(rustix::fs::openat(dir, name, how, Mode::empty())?);
        }
        match at {
            Some(fd) => Ok(fd),
            None => rustix::fs::openat(self, ".", flags, Mode::empty()),
        }
    }
}

/// Judges the open handle itself, so that nothing can be swapped between the look and the use.
pub(super) fn regular(fd: OwnedFd) -> Result<(OwnedFd, Stat), Errno> {
    let stat = rustix::fs::fstat(&fd)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((fd, stat)),
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::INVAL),
    }
}

/// The whole file, or none when it holds more than `most` bytes.
pub(super) fn read_whole(fd: OwnedFd, most: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    File::from(fd).take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// Why a FIFO, a socket or a device is refused.
pub(super) const NOT_A_FILE: &str = "not a regular file or directory";
