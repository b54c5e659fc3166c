//! The lock of a repository, which one task at a time holds, and the identity of its root directory.
//!
//! The lock is on the root directory itself, so it is the same one for every path that leads there and for every
//! ARTIFACT_DIR. The system releases it when the process ends, however it ends.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// The lock of a repository, which is released when this value is dropped.
#[derive(Debug)]
pub struct RepoLock {
    root: OpenRoot,
}

impl RepoLock {
    /// Takes the lock, or returns `None` while another process holds it.
    ///
    /// # Errors
    /// The root cannot be opened, or its file system has no locks.
    pub fn try_acquire(root: &Path) -> std::io::Result<Option<Self>> {
        let root = OpenRoot::open(root)?;
        match rustix::fs::flock(&*root.handle, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { root })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns the locked directory.
    pub fn root(&self) -> &OpenRoot {
        &self.root
    }
}

/// An open root directory and the path by which it was opened. Clones share the handle.
#[derive(Debug, Clone)]
pub struct OpenRoot {
    path: PathBuf,
    handle: Arc<OwnedFd>,
}

/// The path of a repository no longer leads to the directory that was opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RootMoved {
    #[error("{0} is now another directory")]
    Replaced(PathBuf),
    #[error("{path} cannot be opened any more: {why}")]
    Gone { path: PathBuf, why: String },
}

impl RootMoved {
    /// The stable code of this refusal.
    pub const CODE: &'static str = "repository_moved";
    pub const HINT: &'static str = "run the task again where the repository is now";
}

impl OpenRoot {
    /// # Errors
    /// The directory cannot be opened.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        Ok(Self { path: path.to_owned(), handle: Arc::new(open(path)?) })
    }

    /// Returns the path by which the directory was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// # Errors
    /// The error of the system.
    pub fn identity(&self) -> std::io::Result<RootIdentity> {
        RootIdentity::of_handle(&self.handle)
    }

    /// Checks that the path still leads to this directory. No other directory can have its inode number while it is
    /// open.
    ///
    /// # Errors
    /// `Replaced` when the path leads to another directory, `Gone` when it cannot be opened.
    pub fn check_not_moved(&self) -> Result<(), RootMoved> {
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

/// The identity of a directory under all its names, also after a reboot. It includes the time of creation where that is
/// known, because inode numbers are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootIdentity {
    /// A number of the file system; see [`file_system`].
    file_system: u64,
    inode: u64,
    born: Option<SystemTime>,
}

impl RootIdentity {
    /// # Errors
    /// The directory cannot be opened.
    pub fn of(root: &Path) -> std::io::Result<Self> {
        Self::of_handle(&open(root)?)
    }

    fn of_handle(root: &OwnedFd) -> std::io::Result<Self> {
        let meta = File::from(root.try_clone()?).metadata()?;
        let id = rustix::fs::fstatvfs(root.as_fd())?.f_fsid;
        // On overlayfs the first write into a directory gives it a new time of creation.
        let born = meta.created().ok().filter(|_| !is_overlay(root));
        let file_system = file_system(meta.dev(), id, born.is_some());
        Ok(Self { file_system, inode: meta.ino(), born })
    }
}

/// Prefers the id of the file system to the device number, because a device may get another number when it is mounted
/// again. Where the id is missing or made of the device number, the time of creation takes its place, and without a time of
/// creation the device number.
fn file_system(device: u64, id: u64, has_birth: bool) -> u64 {
    match id {
        0 if has_birth => 0,
        id if id == device && has_birth => 0,
        0 => device,
        id => id,
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

/// A text without blanks, which is equal for equal directories.
impl std::fmt::Display for RootIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}-{:x}", self.file_system, self.inode)?;
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

    #[test]
    fn one_holder_under_whatever_name_and_free_again_when_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("repo");
        std::fs::create_dir(&root).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&root, &link).unwrap();

        let first = RepoLock::try_acquire(&root).unwrap();
        assert!(first.is_some());
        assert!(RepoLock::try_acquire(&root.join(".")).unwrap().is_none());
        assert!(RepoLock::try_acquire(&link).unwrap().is_none());
        drop(first);
        assert!(RepoLock::try_acquire(&link).unwrap().is_some());
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
        let held = OpenRoot::open(&root).unwrap();
        assert_eq!(held.check_not_moved(), Ok(()));
        std::fs::rename(&root, &aside).unwrap();
        assert!(matches!(held.check_not_moved(), Err(RootMoved::Gone { .. })));
        std::fs::create_dir(&root).unwrap();
        assert_eq!(held.check_not_moved(), Err(RootMoved::Replaced(root.clone())));
        std::fs::remove_dir(&root).unwrap();
        std::os::unix::fs::symlink(&aside, &root).unwrap();
        assert_eq!(held.check_not_moved(), Ok(()), "another way to the same one");
    }

    #[test]
    fn the_number_of_a_device_counts_only_where_nothing_better_is_known() {
        // TASK-17: numbers of devices change when something is mounted again
        let sda1 = 8 << 8 | 1;
        assert_eq!(file_system(sda1, 0xfeed, true), 0xfeed, "what the file system calls itself");
        assert_eq!(file_system(sda1, 0xfeed, false), 0xfeed);
        for made_of_the_device in [0, sda1] {
            assert_eq!(file_system(sda1, made_of_the_device, true), 0);
            assert_eq!(
                file_system(sda1, made_of_the_device, false),
                sda1,
                "an inode says too little"
            );
        }
    }
}
