//! Where git keeps what belongs to a working tree, found and read without running git.
//!
//! Nothing here reads configuration. A `.git` file (a linked worktree, a submodule) is followed, for
//! reading only; a `.git` that is a link is taken for none.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::handle::{self, DIRECTORY, Root};
use super::lock::RootIdentity;

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

/// Where the git directory of a working tree can be lent from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitPlace {
    /// No git here, or a link, which leads wherever the repository's author chose.
    None,
    /// A real directory of that name.
    Directory,
    /// A linked worktree: `common` is shared, `inside` is where in it this tree's own part lies.
    Linked { common: PathBuf, inside: PathBuf },
    /// A file that points to something which does not point back.
    Elsewhere,
}

/// A `.git` file may name any directory of the machine, so what it names must prove to be this tree's own:
/// by its place below a `worktrees` directory and by pointing back.
pub fn git_place(path: &Path) -> Result<GitPlace, Errno> {
    let root = Root::open(path)?;
    let stat = match rustix::fs::statat(&root, ".git", AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(GitPlace::None),
        Err(errno) => return Err(errno),
    };
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => GitPlace::Directory,
        FileType::RegularFile => linked(&root, path).unwrap_or(GitPlace::Elsewhere),
        FileType::Symlink => GitPlace::Elsewhere,
        _ => GitPlace::None,
    })
}

fn linked(root: &Root, path: &Path) -> Option<GitPlace> {
    let pointer = small(root, b".git", MAX_POINTER)?;
    let own = path.join(pointer.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let handle = Root::open(&own).ok()?;
    let common = own.join(small(&handle, b"commondir", MAX_POINTER)?.trim()).canonicalize().ok()?;
    let inside = own.strip_prefix(&common).ok()?.to_owned();
    let mut parts = inside.components();
    let in_place = parts.next()?.as_os_str() == "worktrees" && parts.next().is_some();
    let back = own.join(small(&handle, b"gitdir", MAX_POINTER)?.trim());
    let points_back = RootIdentity::of(back.parent()?).ok()? == RootIdentity::of(path).ok()?;
    (in_place && parts.next().is_none() && points_back)
        .then_some(GitPlace::Linked { common, inside })
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A worktree `tree` of the repository `main`, as git lays them out.
    fn worktree() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (own, tree) = (top.join("main/.git/worktrees/w"), top.join("tree"));
        fs::create_dir_all(&own).unwrap();
        fs::create_dir(&tree).unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        fs::write(own.join("gitdir"), format!("{}\n", tree.join(".git").display())).unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        (dir, tree, own)
    }

    #[test]
    fn a_worktrees_git_directory_is_lent_when_it_points_back() {
        let (_dir, tree, own) = worktree();
        let common = own.parent().unwrap().parent().unwrap().to_owned();
        let inside = PathBuf::from("worktrees/w");
        assert_eq!(git_place(&tree), Ok(GitPlace::Linked { common, inside }));
        fs::write(own.join("gitdir"), "/elsewhere/.git\n").unwrap();
        assert_eq!(git_place(&tree), Ok(GitPlace::Elsewhere));
    }

    #[test]
    fn a_git_file_cannot_lend_a_directory_of_its_choice() {
        let (dir, tree, own) = worktree();
        let private = dir.path().join("private");
        fs::create_dir(&private).unwrap();
        for (commondir, pointer) in [
            (private.display().to_string(), own.clone()),
            ("../..".to_owned(), private.clone()),
            ("..".to_owned(), own.clone()),
        ] {
            fs::write(own.join("commondir"), commondir).unwrap();
            fs::write(tree.join(".git"), format!("gitdir: {}", pointer.display())).unwrap();
            assert_eq!(git_place(&tree), Ok(GitPlace::Elsewhere), "{}", pointer.display());
        }
    }

    #[test]
    fn a_directory_is_one_and_a_link_leads_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(git_place(dir.path()), Ok(GitPlace::None));
        std::os::unix::fs::symlink("/", dir.path().join(".git")).unwrap();
        assert_eq!(git_place(dir.path()), Ok(GitPlace::Elsewhere));
        fs::remove_file(dir.path().join(".git")).unwrap();
        fs::create_dir(dir.path().join(".git")).unwrap();
        assert_eq!(git_place(dir.path()), Ok(GitPlace::Directory));
    }
}
