//! The walk through a view that steps write: by handle, through no link, past all that cannot matter.

use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Stat, statat};
use rustix::io::Errno;

use super::{TreeDiff, as_path};
use crate::build_product::is_product_directory;
use act_fs::{Entry, Walk};

/// Deeper directories, and those with longer paths, are not entered; a new one is told as such.
const MAX_DEPTH: usize = 128;
pub(crate) const MAX_PATH: usize = 4096;

/// What the walk comes upon.
pub(crate) enum Met<'a> {
    /// Anything but a directory.
    File { parent: BorrowedFd<'a>, name: &'a CStr, path: &'a [u8], stat: &'a Stat },
    /// Without a handle when it cannot be looked into.
    Directory { path: &'a [u8], handle: Option<&'a OwnedFd>, stat: Option<&'a Stat> },
}

impl TreeDiff {
    /// Whether `name` at the root is the directory of act's notes, which is no source.
    pub(crate) fn is_notes_dir(&self, name: &[u8]) -> bool {
        self.set.notes_dir().is_some_and(|notes| notes.as_bytes() == name)
    }

    /// Whether what lies in a directory can matter.
    fn enters(&self, name: &CStr, path: &[u8]) -> bool {
        self.has_below(path)
            || !(is_product_directory(name.to_bytes()) || self.set.ignores(as_path(path), true))
    }

    /// Meets everything that can matter, a directory before what is in it.
    pub(crate) fn walk(
        &self,
        root: BorrowedFd<'_>,
        meet: &mut dyn FnMut(Met<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut names = match Walk::new(root.try_clone_to_owned()?) {
            Err(Errno::ACCESS) => {
                return meet(Met::Directory { path: b"", handle: None, stat: None });
            }
            names => names?,
        };
        while let Some(Entry { name, .. }) = names.next_entry()? {
            let (name, depth) = (name.as_c_str(), names.depth());
            if name.to_bytes().eq_ignore_ascii_case(b".git")
                || (depth == 1 && self.is_notes_dir(name.to_bytes()))
            {
                continue;
            }
            let path = names.path(name);
            let stat = match statat(names.here(), name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                // A process of an earlier step is still at work.
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                meet(Met::File { parent: names.here(), name, path: &path, stat: &stat })?;
                continue;
            }
            if !self.enters(name, &path) {
                continue;
            }
            let inside = match names.open(name) {
                _ if depth > MAX_DEPTH || path.len() > MAX_PATH => None,
                // Names alone, of a directory that may be listed and not searched, say nothing.
                Ok(inside) => is_searchable(&inside).then_some(inside),
                Err(Errno::ACCESS) => None,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(error) => return Err(error.into()),
            };
            meet(Met::Directory { path: &path, handle: inside.as_ref(), stat: Some(&stat) })?;
            if let Some(inside) = inside {
                names.enter(name, inside)?;
            }
        }
        Ok(())
    }
}

fn is_searchable(directory: &OwnedFd) -> bool {
    statat(directory, c".", AtFlags::empty()).err() != Some(Errno::ACCESS)
}

pub(crate) fn is_too_deep(path: &[u8]) -> bool {
    path.len() > MAX_PATH || path.iter().filter(|byte| **byte == b'/').count() >= MAX_DEPTH
}
