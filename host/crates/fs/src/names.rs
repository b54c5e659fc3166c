//! All names below a directory, in no order: each directory is opened inside of the one before, so no name leads
//! anywhere else, whoever moves things meanwhile.
//!
//! The caller drives: [`Names::next`] names what comes; what the caller wants to look into it opens, in a way of its
//! own, and hands to [`Names::enter`]. Two handles are held for each level, so the caller bounds the depth.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Dir, FileType, Mode, openat};
use rustix::io::Errno;

use super::DIRECTORY;

pub struct Names {
    at: Level,
    above: Vec<Level>,
}

struct Level {
    listing: Dir,
    handle: OwnedFd,
    /// From the top, empty or with a slash at its end.
    path: Vec<u8>,
}

pub struct Found {
    pub name: CString,
    /// As the listing says; some file systems leave it unknown.
    pub kind: FileType,
}

impl Names {
    pub fn of(top: OwnedFd) -> Result<Self, Errno> {
        Ok(Self { at: Level::new(top, vec![])?, above: vec![] })
    }

    pub fn next(&mut self) -> Result<Option<Found>, Errno> {
        loop {
            match self.at.listing.read() {
                Some(entry) => {
                    let entry = entry?;
                    let name = entry.file_name();
                    if !matches!(name.to_bytes(), b"." | b"..") {
                        return Ok(Some(Found { name: name.to_owned(), kind: entry.file_type() }));
                    }
                }
                None => match self.above.pop() {
                    Some(level) => self.at = level,
                    None => return Ok(None),
                },
            }
        }
    }

    /// The directory that holds what was named last.
    pub fn here(&self) -> BorrowedFd<'_> {
        self.at.handle.as_fd()
    }

    /// Of that directory; the top has 1.
    pub fn depth(&self) -> usize {
        self.above.len() + 1
    }

    /// Of what was named last, from the top.
    pub fn path(&self, name: &CStr) -> Vec<u8> {
        [&self.at.path, name.to_bytes()].concat()
    }

    /// The directory that was named last; a link is an error.
    pub fn open(&self, name: &CStr) -> Result<OwnedFd, Errno> {
        openat(self.here(), name, DIRECTORY, Mode::empty())
    }

    /// Goes on in the directory that was named last.
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
        let mut names = Names::of(fs::File::open(dir.path()).unwrap().into()).unwrap();
        let mut seen = vec![];
        while let Some(Found { name, .. }) = names.next().unwrap() {
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
        assert!(names.next().unwrap().is_none());
    }
}
