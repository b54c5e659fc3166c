//! Deleting a tree that a step made: by handle, through no link, at any depth, whatever its modes.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, chmodat, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use act_fs::DIRECTORY;

/// Removes `name` below `parent` with all it holds. A missing name is fine; a link is removed, not followed.
///
/// A step can nest deeper than handles or stack allow. So nothing recurses: a directory that is found inside
/// another is moved up beside it and has its turn later, which keeps three handles open at any depth.
pub fn remove_tree(parent: impl AsFd, name: &str) -> io::Result<()> {
    remove_tree_while(parent, name, &|| true).map(|_| ())
}

/// The same as long as it is wanted, which is asked before each name; what is left can be removed by another call.
/// Whether all of it is gone.
pub(super) fn remove_tree_while(
    parent: impl AsFd,
    name: &str,
    go_on: &dyn Fn() -> bool,
) -> io::Result<bool> {
    let parent = parent.as_fd();
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(true),
        Err(error) => return Err(error.into()),
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::Directory => {
            unlinkat(parent, name, AtFlags::empty())?;
            return Ok(true);
        }
        Ok(_) => {}
    }
    let top = open_any(parent, &CString::new(name)?)?;
    let mut moved = 0u64;
    loop {
        let names = entries(&top)?;
        if names.is_empty() {
            break;
        }
        for name in names {
            if !go_on() {
                return Ok(false);
            }
            if unlink(top.as_fd(), &name)? {
                continue;
            }
            let inner = open_any(top.as_fd(), &name)?;
            for deeper in entries(&inner)? {
                if !go_on() {
                    return Ok(false);
                }
                if !unlink(inner.as_fd(), &deeper)? {
                    lift(&inner, &deeper, &top, &mut moved)?;
                }
            }
            // A directory with more entries than one listing takes comes up again.
            match unlinkat(&top, &name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR)?;
    Ok(true)
}

/// At most this many names are held at once.
const LISTING: usize = 4096;

fn entries(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = vec![];
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
            if names.len() == LISTING {
                break;
            }
        }
    }
    Ok(names)
}

/// Whether the name is gone now; a directory that holds something is not.
fn unlink(parent: BorrowedFd<'_>, name: &CString) -> io::Result<bool> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(true),
        // Linux says the first of a directory, others the second.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST | Errno::ACCESS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn lift(from: &OwnedFd, name: &CString, top: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    // Moving a directory rewrites its `..`, so it has to be writable itself.
    open_any(from.as_fd(), name)?;
    loop {
        *moved += 1;
        let target = format!(".removing-{moved}");
        // Made by us and empty, so the rename cannot replace anything that was there.
        match mkdirat(top, target.as_str(), Mode::RWXU) {
            Ok(()) => return Ok(renameat(from, name, top, target.as_str())?),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Opens a directory and makes it ours to list and change, even one with mode 000.
pub(super) fn open_any(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let open = || openat(parent, name, DIRECTORY, Mode::empty());
    let handle = match open() {
        Err(Errno::ACCESS) => {
            // Nothing runs in the tree any more, so the name cannot turn into a link in between.
            chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
            open()?
        }
        other => other?,
    };
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&handle)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        rustix::fs::fchmod(&handle, mode | Mode::RWXU)?;
    }
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    // security line 95
    #[test]
    fn removes_links_strange_names_closed_directories_and_touches_nothing_outside() {
        let dir = tempfile::tempdir().unwrap();
        let (outside, tree) = (dir.path().join("outside"), dir.path().join("tree"));
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "x").unwrap();
        symlink(&outside, tree.join("link")).unwrap();
        symlink(&outside, tree.join("a/b/link")).unwrap();
        fs::write(tree.join("a/line\nbreak"), "x").unwrap();
        fs::write(tree.join("a/b/.removing-1"), "x").unwrap();
        fs::set_permissions(tree.join("a/b"), fs::Permissions::from_mode(0o0)).unwrap();
        let parent = fs::File::open(dir.path()).unwrap();
        remove_tree(&parent, "tree").unwrap();
        assert!(!tree.exists());
        assert!(outside.join("kept").exists());
        remove_tree(&parent, "tree").unwrap();
    }

    #[test]
    fn removes_a_tree_deeper_than_the_number_of_open_files_allows() {
        let dir = tempfile::tempdir().unwrap();
        let parent: OwnedFd = fs::File::open(dir.path()).unwrap().into();
        rustix::fs::mkdirat(&parent, "tree", Mode::RWXU).unwrap();
        let mut at = openat(&parent, "tree", DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..1_200 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = openat(&at, "d", DIRECTORY, Mode::empty()).unwrap();
        }
        remove_tree(&parent, "tree").unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_removal_ends_as_soon_as_it_is_not_wanted_and_another_goes_on() {
        // ARTIFACT-14
        let dir = tempfile::tempdir().unwrap();
        for name in 0..100 {
            fs::create_dir_all(dir.path().join(format!("tree/{name}/below"))).unwrap();
        }
        let parent = fs::File::open(dir.path()).unwrap();
        let asked = std::cell::Cell::new(0);
        let go_on = || asked.replace(asked.get() + 1) < 20;
        assert!(!remove_tree_while(&parent, "tree", &go_on).unwrap());
        assert_eq!(asked.get(), 21, "asked again and again, and not after the no");
        let left = fs::read_dir(dir.path().join("tree")).unwrap().count();
        assert!((50..100).contains(&left), "{left}");
        assert!(remove_tree_while(&parent, "tree", &|| true).unwrap());
        assert!(!dir.path().join("tree").exists());
    }
}
