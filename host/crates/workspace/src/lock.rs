//! One task per repository: a lock on the root directory itself, so that every spelling of its path and
//! every ARTIFACT_DIR meets the same one. The system lets go of it when the process ends, however it ends.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Held until dropped.
#[derive(Debug)]
pub struct RepoLock {
    root: HeldRoot,
}

#[derive(Debug)]
pub enum Acquired {
    Held(RepoLock),
    /// Somebody else has it; ask again later.
    Busy,
}

impl RepoLock {
    pub fn try_acquire(root: &Path) -> std::io::Result<Acquired> {
        let root = HeldRoot::open(root)?;
        match rustix::fs::flock(&*root.handle, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Acquired::Held(Self { root })),
            Err(Errno::WOULDBLOCK) => Ok(Acquired::Busy),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The directory that is locked.
    pub fn root(&self) -> &HeldRoot {
        &self.root
    }
}

/// A root directory that stays open, and the path that meant it. Clones share the handle.
#[derive(Debug, Clone)]
pub struct HeldRoot {
    path: PathBuf,
    handle: Arc<OwnedFd>,
}

/// The path of a repository does not mean the directory any more that the work is about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RootMoved {
    #[error("{0} is another directory by now")]
    Replaced(PathBuf),
    #[error("{path} cannot be opened any more: {why}")]
    Gone { path: PathBuf, why: String },
}

impl RootMoved {
    /// A stable word.
    pub const CODE: &'static str = "repository_moved";
    pub const HINT: &'static str = "run the task again where the repository is now";
}

impl HeldRoot {
    pub fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self { path: path.to_owned(), handle: Arc::new(open(path)?) })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn identity(&self) -> std::io::Result<RootIdentity> {
        RootIdentity::of_handle(&self.handle)
    }

    /// Whether the path still means this directory. As long as it is open nothing else can have its number.
    pub fn stays(&self) -> Result<(), RootMoved> {
        let gone = |errno: Errno| RootMoved::Gone {
            path: self.path.clone(),
            why: std::io::Error::from(errno).to_string(),
        };
        let now = open(&self.path).and_then(rustix::fs::fstat).map_err(gone)?;
        let held = rustix::fs::fstat(&*self.handle).map_err(gone)?;
        match (now.st_dev, now.st_ino) == (held.st_dev, held.st_ino) {
            true => Ok(()),
            false => Err(RootMoved::Replaced(self.path.clone())),
        }
    }
}

/// Which directory a path means, whatever it is called, also after the machine was started again. Inodes are used
/// again, so its birth counts as well where it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootIdentity {
    /// Which file system, as well as that can be told.
    place: u64,
    inode: u64,
    born: Option<SystemTime>,
}

impl RootIdentity {
    pub fn of(root: &Path) -> std::io::Result<Self> {
        Self::of_handle(&open(root)?)
    }

    fn of_handle(root: &OwnedFd) -> std::io::Result<Self> {
        let meta = File::from(root.try_clone()?).metadata()?;
        let named = rustix::fs::fstatvfs(root.as_fd())?.f_fsid;
        // There a directory is born again when something is first written in it.
        let born = meta.created().ok().filter(|_| !is_overlay(root));
        let place = place(meta.dev(), named, born.is_some());
        Ok(Self { place, inode: meta.ino(), born })
    }
}

/// A device has its number until it is mounted again, and another one then. So what the file system calls itself is
/// taken, unless that is nothing, or the device's number; and then nothing at all where the birth is known.
fn place(device: u64, named: u64, born: bool) -> u64 {
    match named {
        0 if born => 0,
        named if named == device && born => 0,
        0 => device,
        named => named,
    }
}

#[cfg(target_os = "linux")]
fn is_overlay(root: &OwnedFd) -> bool {
    const OVERLAYFS: rustix::fs::FsWord = 0x794c_7630;
    rustix::fs::fstatfs(root).is_ok_and(|found| found.f_type == OVERLAYFS)
}

#[cfg(not(target_os = "linux"))]
fn is_overlay(_: &OwnedFd) -> bool {
    false
}

/// A word without blanks, equal for equal directories.
impl std::fmt::Display for RootIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}-{:x}", self.place, self.inode)?;
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

impl From<RootMoved> for act_core::Failure {
    fn from(moved: RootMoved) -> Self {
        Self::refused(RootMoved::CODE, moved.to_string()).hint(RootMoved::HINT)
    }
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

    #[test]
    fn a_root_stays_until_its_path_means_another_directory() {
        // TASK-29
        let dir = tempfile::tempdir().unwrap();
        let (root, aside) = (dir.path().join("repo"), dir.path().join("aside"));
        std::fs::create_dir(&root).unwrap();
        let held = HeldRoot::open(&root).unwrap();
        assert_eq!(held.stays(), Ok(()));
        std::fs::rename(&root, &aside).unwrap();
        assert!(matches!(held.stays(), Err(RootMoved::Gone { .. })));
        std::fs::create_dir(&root).unwrap();
        assert_eq!(held.stays(), Err(RootMoved::Replaced(root.clone())));
        std::fs::remove_dir(&root).unwrap();
        std::os::unix::fs::symlink(&aside, &root).unwrap();
        assert_eq!(held.stays(), Ok(()), "another way to the same one");
    }

    #[test]
    fn the_number_of_a_device_counts_only_where_nothing_better_is_known() {
        // TASK-17: numbers of devices change when something is mounted again
        let sda1 = 8 << 8 | 1;
        assert_eq!(place(sda1, 0xfeed, true), 0xfeed, "what the file system calls itself");
        assert_eq!(place(sda1, 0xfeed, false), 0xfeed);
        for made_of_the_device in [0, sda1] {
            assert_eq!(place(sda1, made_of_the_device, true), 0);
            assert_eq!(place(sda1, made_of_the_device, false), sda1, "an inode says too little");
        }
    }
}
