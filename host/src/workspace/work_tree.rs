//! The working tree of git that a directory belongs to: its own, or one around it, whose rules and index speak
//! of the directory as well.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Dir, Mode, OFlags, fstat, openat};

use super::git_dir::GitDir;
use super::handle::{DIRECTORY, Root};
use super::tracked::Tracked;

/// Directories between a root and the top of its working tree at most.
const MAX_ABOVE: usize = 64;

#[derive(Debug)]
pub(super) struct WorkTree {
    pub(super) git: GitDir,
    /// The directories from the top to the one above the root, each with its path from the top, empty or with
    /// a `/` at its end; none where the root is the top.
    pub(super) above: Vec<(Vec<u8>, OwnedFd)>,
    /// From the top to the root, empty or with a `/` at its end.
    pub(super) prefix: Vec<u8>,
}

impl WorkTree {
    /// As git looks for it: upwards, on one file system. One around the root counts when root or whoever owns the
    /// directory owns it too: another user's rules would say what is left out of a verification.
    pub(super) fn of(root: &Root) -> Option<Self> {
        if let Some(git) = GitDir::of(root) {
            return Some(Self { git, above: vec![], prefix: vec![] });
        }
        let mut at = root.clone();
        // Innermost first: a directory, and the name in it that leads towards the root.
        let mut steps = vec![];
        let (owner, device) = fstat(root).map(|stat| (stat.st_uid, stat.st_dev)).ok()?;
        while steps.len() < MAX_ABOVE {
            let parent = openat(&at, "..", DIRECTORY, Mode::empty()).ok()?;
            let (inner, outer) = (fstat(&at).ok()?, fstat(&parent).ok()?);
            if outer.st_dev != device || outer.st_ino == inner.st_ino {
                return None;
            }
            steps.push((parent.try_clone().ok()?, inner.st_ino));
            at = Root::new(parent);
            if let Some(git) = GitDir::of(&at) {
                let of = fstat(&git.own).ok()?.st_uid;
                return (of == owner || of == 0).then(|| Self::around(git, steps))?;
            }
        }
        None
    }

    fn around(git: GitDir, steps: Vec<(OwnedFd, u64)>) -> Option<Self> {
        let (mut above, mut prefix) = (vec![], vec![]);
        for (dir, inode) in steps.into_iter().rev() {
            let name = name_of(&dir, inode)?;
            above.push((prefix.clone(), dir));
            prefix.extend_from_slice(&name);
            prefix.push(b'/');
        }
        Some(Self { git, above, prefix })
    }

    /// What is tracked in the root, by its paths from there.
    pub(super) fn tracked(&self) -> Tracked {
        Tracked::read(&self.git, &self.prefix)
    }
}

/// The name of a directory in the one above it.
fn name_of(parent: &OwnedFd, inode: u64) -> Option<Vec<u8>> {
    let mut entries = Dir::read_from(parent).ok()?;
    entries.find_map(|entry| {
        let entry = entry.ok().filter(|entry| entry.ino() == inode)?;
        let name = entry.file_name();
        let flags = DIRECTORY | OFlags::NOFOLLOW;
        let found = openat(parent.as_fd(), name, flags, Mode::empty()).ok()?;
        let plain = !matches!(name.to_bytes(), b"." | b"..");
        (plain && fstat(&found).ok()?.st_ino == inode).then(|| name.to_bytes().to_vec())
    })
}
