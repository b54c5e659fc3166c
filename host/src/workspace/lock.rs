//! One task per repository: a lock on the root directory itself, so that every spelling of its path and
//! every ARTIFACT_DIR meets the same one. The system lets go of it when the process ends, however it ends.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

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

/// Which directory a path means, whatever it is called. Inodes are used again, so its birth counts as well
/// where the file system keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootIdentity {
    device: u64,
    inode: u64,
    born: Option<SystemTime>,
}

impl RootIdentity {
    pub fn of(root: &Path) -> std::io::Result<Self> {
        let meta = File::from(open(root)?).metadata()?;
        Ok(Self { device: meta.dev(), inode: meta.ino(), born: meta.created().ok() })
    }
}

/// A word without blanks, equal for equal directories.
impl std::fmt::Display for RootIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}-{:x}", self.device, self.inode)?;
        match self.born.and_then(|born| born.duration_since(SystemTime::UNIX_EPOCH).ok()) {
            Some(born) => write!(f, "-{:x}", born.as_nanos()),
            None => Ok(()),
        }
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

    #[test]
    fn a_directory_has_one_identity_under_every_name_and_its_successor_another() {
        // TASK-17, security line 132
        let dir = tempfile::tempdir().unwrap();
        let (root, link) = (dir.path().join("repo"), dir.path().join("link"));
        std::fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(&root, &link).unwrap();
        let identity = |path: &Path| RootIdentity::of(path).unwrap().to_string();
        let first = identity(&root);
        assert_eq!(identity(&link), first);
        assert_eq!(identity(&root.join(".")), first);
        assert!(!first.contains(' '));
        std::fs::remove_dir(&root).unwrap();
        std::fs::create_dir(&root).unwrap();
        assert_ne!(identity(&root), first);
    }
}
