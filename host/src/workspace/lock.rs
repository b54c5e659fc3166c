//! One task per repository: a lock on the root directory itself, so that every spelling of its path and
//! every ARTIFACT_DIR meets the same one. The system lets go of it when the process ends, however it ends.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Held until dropped.
#[derive(Debug)]
pub struct RepoLock {
    _held: OwnedFd,
}

#[derive(Debug)]
pub enum Acquired {
    Held(RepoLock),
    /// Somebody else has it; ask again later.
    Busy,
}

impl RepoLock {
    pub fn try_acquire(root: &Path) -> Result<Acquired, Errno> {
        let held = open(root)?;
        match rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Acquired::Held(Self { _held: held })),
            Err(Errno::WOULDBLOCK) => Ok(Acquired::Busy),
            Err(errno) => Err(errno),
        }
    }
}

/// Which directory a path means, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RootIdentity {
    device: u64,
    inode: u64,
}

impl RootIdentity {
    pub(super) fn of(root: &Path) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(open(root)?)?;
        #[allow(
            clippy::unnecessary_cast,
            reason = "the width of these fields differs between systems"
        )]
        Ok(Self { device: stat.st_dev as u64, inode: stat.st_ino as u64 })
    }
}

fn open(root: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(root, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_held(acquired: &Acquired) -> bool {
        matches!(acquired, Acquired::Held(_))
    }

    #[test]
    fn one_holder_under_whatever_name_and_free_again_when_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("repo");
        std::fs::create_dir(&root).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&root, &link).unwrap();

        let first = RepoLock::try_acquire(&root).unwrap();
        assert!(is_held(&first));
        assert!(!is_held(&RepoLock::try_acquire(&root.join(".")).unwrap()));
        assert!(!is_held(&RepoLock::try_acquire(&link).unwrap()));
        drop(first);
        assert!(is_held(&RepoLock::try_acquire(&link).unwrap()));
    }
}
