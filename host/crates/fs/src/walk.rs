//! Walking a tree by handle. Each directory is opened inside the one above it, so a name that is moved meanwhile leads
//! nowhere else.
//!
//! The caller drives: [`Walk::next_entry`] returns the next entry, and the caller opens those that it wants to enter,
//! in its own way, and hands them to [`Walk::enter`]. Two handles are open for each level, so the caller bounds the
//! depth.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Dir, FileType, Mode, openat};
use rustix::io::Errno;

use super::dir::DIRECTORY;

/// A walk over all names below a directory, in no order.
pub struct Walk {
    at: Level,
    above: Vec<Level>,
}

struct Level {
    listing: Dir,
    handle: OwnedFd,
    /// The path from the top: empty, or with a slash at its end.
    path: Vec<u8>,
}

/// One name in a directory.
pub struct Entry {
    pub name: CString,
    /// The kind that the listing reports; some file systems leave it unknown.
    pub kind: FileType,
}

impl Walk {
    /// Begins a walk in `top`.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn new(top: OwnedFd) -> Result<Self, Errno> {
        Ok(Self { at: Level::new(top, vec![])?, above: vec![] })
    }

    /// Returns the next entry of the directory that was entered last, and continues above it when it has no more.
    ///
    /// # Errors
    /// The error of the system while listing.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, Errno> {
        loop {
            match self.at.listing.read() {
                Some(entry) => {
                    let entry = entry?;
                    let name = entry.file_name();
                    if !matches!(name.to_bytes(), b"." | b"..") {
                        return Ok(Some(Entry { name: name.to_owned(), kind: entry.file_type() }));
                    }
                }
                None => match self.above.pop() {
                    Some(level) => self.at = level,
                    None => return Ok(None),
                },
            }
        }
    }

    /// Returns the directory that holds the last entry.
    pub fn here(&self) -> BorrowedFd<'_> {
        self.at.handle.as_fd()
    }

    /// Returns the level of that directory; the top has 1.
    pub fn depth(&self) -> usize {
        self.above.len() + 1
    }

    /// Returns the path of the last entry from the top.
    pub fn path(&self, name: &CStr) -> Vec<u8> {
        [&self.at.path, name.to_bytes()].concat()
    }

    /// Opens the last entry as a directory.
    ///
    /// # Errors
    /// A link or another kind of file is refused.
    pub fn open(&self, name: &CStr) -> Result<OwnedFd, Errno> {
        openat(self.here(), name, DIRECTORY, Mode::empty())
    }

    /// Continues inside the last entry, which the caller has opened.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn enter(&mut self, name: &CStr, handle: OwnedFd) -> Result<(), Errno> {
        let mut path = self.path(name);
        path.push(b'/');
        let above = std::mem::replace(&mut self.at, Level::new(handle, path)?);
        self.above.push(above);
        Ok(())
    }
}

impl Level {
    fn new(handle: OwnedFd, path: Vec<u8>) -> Result<Self, Errno> {
        Ok(Self { listing: Dir::read_from(&handle)?, handle, path })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_name_comes_once_with_its_path_and_a_link_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        for file in ["a/b/one", "a/two", "three"] {
            fs::write(dir.path().join(file), "").unwrap();
        }
        std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
        let mut names = Walk::new(fs::File::open(dir.path()).unwrap().into()).unwrap();
        let mut seen = vec![];
        while let Some(Entry { name, .. }) = names.next_entry().unwrap() {
            seen.push((names.depth(), String::from_utf8(names.path(&name)).unwrap()));
            if let Ok(inside) = names.open(&name) {
                names.enter(&name, inside).unwrap();
            }
        }
        seen.sort();
        let seen: Vec<_> = seen.iter().map(|(depth, path)| (*depth, path.as_str())).collect();
        assert_eq!(
            seen,
            [(1, "a"), (1, "link"), (1, "three"), (2, "a/b"), (2, "a/two"), (3, "a/b/one")]
        );
        assert!(names.next_entry().unwrap().is_none());
    }
}
