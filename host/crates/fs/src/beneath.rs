//! Opening a whole path beneath a directory without following a link.
//!
//! `openat2` does it in one call where the kernel has it; elsewhere each component is opened inside the one before,
//! with `O_NOFOLLOW`. Everything is opened non-blocking, because a FIFO named like a source file must not block the
//! host before its kind is known.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::dir::DIRECTORY;

/// Flags that open a link itself, which can be looked at but not read.
#[cfg(not(target_vendor = "apple"))]
pub const LINK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(target_vendor = "apple")]
pub const LINK: OFlags = OFlags::SYMLINK.union(OFlags::CLOEXEC);
/// Maximum number of directories on a path. Each of them may be an open handle at the same time.
pub const MAX_DEPTH: usize = 256;

/// The root of a tree. Clones share the handle.
#[derive(Debug, Clone)]
pub struct Root {
    fd: Arc<OwnedFd>,
    openat2: bool,
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Root {
    /// Opens the directory that the user named; links in `path` are followed.
    ///
    /// # Errors
    /// The error of the system.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
        Ok(Self::new(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Takes over an open directory.
    pub fn new(fd: OwnedFd) -> Self {
        Self { fd: Arc::new(fd), openat2: cfg!(target_os = "linux") }
    }

    /// Opens one component after the other, as on a kernel without `openat2`.
    #[must_use]
    pub fn without_openat2(mut self) -> Self {
        self.openat2 = false;
        self
    }

    /// Opens `path` in one call. Returns `None` when the kernel cannot, or when a link is on the way: the caller then
    /// opens one component after the other.
    ///
    /// # Errors
    /// Any other error of the system, such as `NOENT` for a missing name.
    pub fn open_at_once(&self, path: &[u8], flags: OFlags) -> Option<Result<OwnedFd, Errno>> {
        #[cfg(target_os = "linux")]
        if self.openat2 {
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

    /// Opens `path` beneath the root.
    ///
    /// # Errors
    /// A link anywhere on the path is `LOOP` or `NOTDIR`; `..` and a path deeper than [`MAX_DEPTH`] are `XDEV`.
    pub fn open_real(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        if let Some(opened) = self.open_at_once(path, flags | OFlags::NOFOLLOW) {
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
