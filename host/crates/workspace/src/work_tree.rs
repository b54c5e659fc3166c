//! The working tree of git that a directory belongs to: its own, or one around it, whose rules and index speak
//! of the directory as well.

use std::ffi::CStr;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, Stat, fstat, openat, statat};

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
    pub(super) above: Vec<(Vec<u8>, Root)>,
    /// From the top to the root, empty or with a `/` at its end.
    pub(super) prefix: Vec<u8>,
}

impl WorkTree {
    /// As git looks for it: upwards, on one file system, to the first `.git` there is. One around the root counts when
    /// root or whoever owns the root owns it too: another user's rules would say what is left out of a verification.
    pub(super) fn of(root: &Root) -> Option<Self> {
        if has_git(root) {
            return Some(Self { git: GitDir::of(root)?, above: vec![], prefix: vec![] });
        }
        let owner = fstat(root).ok()?.st_uid;
        let mut at = root.clone();
        let mut steps = vec![];
        while steps.len() < MAX_ABOVE {
            let parent = openat(&at, "..", DIRECTORY, Mode::empty()).ok()?;
            let (inner, outer) = (fstat(&at).ok()?, fstat(&parent).ok()?);
            if outer.st_dev != inner.st_dev || outer.st_ino == inner.st_ino {
                return None;
            }
            at = Root::new(parent);
            steps.push((at.clone(), inner));
            if has_git(&at) {
                let git = GitDir::of(&at)?;
                let entry = statat(&at, ".git", AtFlags::SYMLINK_NOFOLLOW).ok()?;
                let ours = [outer.st_uid, entry.st_uid, fstat(&git.own).ok()?.st_uid];
                return ours
                    .iter()
                    .all(|uid| trusted(*uid, owner))
                    .then(|| Self::around(git, steps))?;
            }
        }
        None
    }

    /// Innermost first: a directory, and which one in it leads towards the root.
    fn around(git: GitDir, steps: Vec<(Root, Stat)>) -> Option<Self> {
        let (mut above, mut prefix) = (vec![], vec![]);
        for (dir, inner) in steps.into_iter().rev() {
            let name = name_of(&dir, &inner)?;
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

/// From the top of git's working tree to a directory in it, as git names what lies there: empty at the top and where
/// there is no git, else with a `/` at its end.
pub fn prefix_in_git(root: &Path) -> Vec<u8> {
    let tree = Root::open(root).ok().and_then(|root| WorkTree::of(&root));
    tree.map(|tree| tree.prefix).unwrap_or_default()
}

fn has_git(dir: &Root) -> bool {
    statat(dir, ".git", AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Whether what `uid` owns may speak for what `owner` owns.
pub(super) fn trusted(uid: u32, owner: u32) -> bool {
    uid == owner || uid == 0
}

/// The name of a directory in the one above it.
fn name_of(parent: &Root, inner: &Stat) -> Option<Vec<u8>> {
    let same = |name: &CStr| {
        let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (stat.st_dev == inner.st_dev && stat.st_ino == inner.st_ino)
            .then(|| name.to_bytes().to_vec())
    };
    let mut others = vec![];
    for entry in Dir::read_from(parent).ok()? {
        let entry = entry.ok()?;
        let name = entry.file_name();
        match entry.file_type() {
            _ if matches!(name.to_bytes(), b"." | b"..") => {}
            FileType::Directory | FileType::Unknown if entry.ino() == inner.st_ino => {
                if let Some(name) = same(name) {
                    return Some(name);
                }
            }
            // Some file systems list other numbers than they tell.
            FileType::Directory | FileType::Unknown => others.push(name.to_owned()),
            _ => {}
        }
    }
    others.iter().find_map(|name| same(name))
}
