//! Creates, sweeps and deletes the directory trees of steps by handle, without following links.
//!
//! After a sweep a tree has no setuid or setgid file, no file of another owner and no directory that its owner cannot delete.
//! A tree is deleted at any depth and with any modes.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::ops::AddAssign;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use act_fs::{DIRECTORY, Entry, Walk};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, chmodat, fchmod, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Removes `name` below `parent` with everything in it. A missing name is not an error; a link is removed, not followed.
///
/// A step can nest directories deeper than handles or stack allow. Therefore nothing recurses: a directory inside another is
/// moved up beside it and removed later, so three handles are open at any depth.
///
/// # Errors
/// A file cannot be removed.
pub fn remove_tree(parent: impl AsFd, name: &str) -> io::Result<()> {
    remove_tree_while(parent, name, &|| true).map(|_| ())
}

/// Removes a tree like [`remove_tree`], and stops once `go_on` returns false, which is called before each name. Returns whether
/// the whole tree was removed; another call continues.
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
            // A directory with more entries than one listing is listed again.
            match unlinkat(&top, &name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR)?;
    Ok(true)
}

/// Maximum number of names of one listing, which bounds the memory.
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

/// Removes a name. Returns false for a directory that is not empty.
fn unlink(parent: BorrowedFd<'_>, name: &CString) -> io::Result<bool> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(true),
        // The name is a directory: Linux returns the first error, other systems the second.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST | Errno::ACCESS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Moves a directory up into `top`, under a new name.
fn lift(from: &OwnedFd, name: &CString, top: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    // Moving a directory rewrites its `..`, so it has to be writable.
    open_any(from.as_fd(), name)?;
    loop {
        *moved += 1;
        let target = format!(".removing-{moved}");
        // The target is new and empty, so the rename cannot replace an existing directory.
        match mkdirat(top, target.as_str(), Mode::RWXU) {
            Ok(()) => return Ok(renameat(from, name, top, target.as_str())?),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Opens a directory and makes it readable and writable for its owner, even one with mode 000.
pub(super) fn open_any(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let open = || openat(parent, name, DIRECTORY, Mode::empty());
    let handle = match open() {
        Err(Errno::ACCESS) => {
            // No process uses the tree any more, so no link can replace the name in between.
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

/// Maximum depth of a tree. Deeper directories are removed: a build does not need them, and each level costs a handle.
pub(super) const MAX_DEPTH: usize = 100;

/// The corrections of a sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Files that lost a setuid or setgid bit.
    pub privileged: u64,
    /// Files of another owner, removed.
    pub foreign: u64,
    /// Directories nested too deep, removed.
    pub too_deep: u64,
}

impl AddAssign for Swept {
    fn add_assign(&mut self, more: Self) {
        self.privileged += more.privileged;
        self.foreign += more.foreign;
        self.too_deep += more.too_deep;
    }
}

/// Makes a tree harmless that no process writes any more, without following links.
///
/// # Errors
/// A directory cannot be read or changed.
pub fn sweep(directory: OwnedFd) -> io::Result<Swept> {
    let own = geteuid().as_raw();
    let mut swept = Swept::default();
    let mut names = Walk::new(directory)?;
    while let Some(Entry { name, .. }) = names.next_entry()? {
        let stat = statat(names.here(), &name, AtFlags::SYMLINK_NOFOLLOW)?;
        let mode = Mode::from_raw_mode(stat.st_mode);
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::CharacterDevice && stat.st_rdev == 0 {
            // The kernel's mark of a deletion in the layer of an overlay; no step can make one.
            remove_named(names.here(), &name)?;
            continue;
        }
        if stat.st_uid != own {
            remove_named(names.here(), &name)?;
            swept.foreign += 1;
            continue;
        }
        if kind != FileType::Symlink && mode.intersects(Mode::SUID | Mode::SGID) {
            chmodat(names.here(), &name, mode - Mode::SUID - Mode::SGID, AtFlags::empty())?;
            swept.privileged += u64::from(kind != FileType::Directory);
        }
        if kind == FileType::Directory {
            if names.depth() >= MAX_DEPTH {
                remove_named(names.here(), &name)?;
                swept.too_deep += 1;
            } else {
                let deeper = open_any(names.here(), &name)?;
                names.enter(&name, deeper)?;
            }
        }
    }
    Ok(swept)
}

pub(super) fn remove_named(parent: impl AsFd, name: &CString) -> io::Result<()> {
    let parent = parent.as_fd();
    // A name that is not UTF-8 is renamed first; `remove_tree` takes text.
    match name.to_str() {
        Ok(text) => remove_tree(parent, text),
        Err(_) => {
            let fresh = format!(".removing-{}", act_core::RunId::generate(act_core::clock::now()));
            rustix::fs::renameat(parent, name, parent, fresh.as_str())?;
            remove_tree(parent, &fresh)
        }
    }
}

/// Creates directories on the way to the entries of a tree. The entries are in order, so most share their parents with the
/// one before.
pub struct Descent {
    root: OwnedFd,
    below: Vec<(OsString, OwnedFd)>,
}

impl Descent {
    /// Starts at `root`.
    pub fn new(root: OwnedFd) -> Self {
        Self { root, below: vec![] }
    }

    /// Returns the current directory.
    pub fn here(&self) -> &OwnedFd {
        self.below.last().map_or(&self.root, |(_, handle)| handle)
    }

    /// Moves to the directory `parents` below the root, and creates missing directories with mode 0755. Each part is a plain
    /// name.
    ///
    /// # Errors
    /// A directory cannot be created or opened; a link in its place is refused.
    pub fn move_to(&mut self, parents: &[&OsStr]) -> io::Result<()> {
        let common = self.below.iter().zip(parents).take_while(|(at, to)| at.0 == **to).count();
        self.below.truncate(common);
        for &name in parents.iter().skip(common) {
            let handle = make_directory(self.here(), name)?;
            self.below.push((name.to_owned(), handle));
        }
        Ok(())
    }
}

/// Opens a directory, and creates it with mode 0755 when it is missing.
///
/// # Errors
/// The directory cannot be created or opened; a link in its place is refused.
pub fn make_directory(parent: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let created = mkdirat(parent, name, Mode::RWXU);
    let handle = match created {
        Ok(()) | Err(Errno::EXIST) => openat(parent, name, DIRECTORY, Mode::empty())?,
        Err(error) => return Err(error.into()),
    };
    if created.is_ok() {
        // The umask must not decide which users can read it.
        fchmod(&handle, Mode::from_raw_mode(0o755))?;
    }
    Ok(handle)
}

#[cfg(test)]
mod remove_tests {
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

#[cfg(test)]
mod sweep_tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    // security line 95
    #[test]
    fn takes_setuid_bits_away_opens_closed_directories_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let (outside, part) = (dir.path().join("outside"), dir.path().join("part"));
        fs::create_dir_all(part.join("closed/inner")).unwrap();
        fs::create_dir(&outside).unwrap();
        for file in [outside.join("su"), part.join("su"), part.join("closed/inner/su\n2")] {
            fs::write(&file, "x").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o6755)).unwrap();
        }
        symlink(outside.join("su"), part.join("link")).unwrap();
        symlink(&outside, part.join("dir-link")).unwrap();
        fs::set_permissions(part.join("closed"), fs::Permissions::from_mode(0o0)).unwrap();

        let swept = sweep(fs::File::open(&part).unwrap().into()).unwrap();

        assert_eq!(swept, Swept { privileged: 2, ..Swept::default() });
        let mode =
            |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&part.join("su")), 0o755);
        assert_eq!(mode(&part.join("closed/inner/su\n2")), 0o755);
        assert_eq!(
            mode(&outside.join("su")),
            0o6755,
            "what a link points to is not ours to change"
        );
        assert_eq!(mode(&part.join("closed")), 0o700);
    }

    #[test]
    fn removes_what_is_nested_too_deep() {
        let dir = tempfile::tempdir().unwrap();
        let deep: std::path::PathBuf = std::iter::repeat_n("d", MAX_DEPTH + 50).collect();
        fs::create_dir_all(dir.path().join(&deep)).unwrap();
        let swept = sweep(fs::File::open(dir.path()).unwrap().into()).unwrap();
        assert_eq!(swept.too_deep, 1);
        assert!(!dir.path().join(&deep).exists());
    }
}
