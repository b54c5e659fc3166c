//! Making a tree by handle: each directory on the way is made or opened below the one before, never through a
//! link.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, fchmod, mkdirat, openat};
use rustix::io::Errno;

use act_fs::DIRECTORY;

/// Where the maker stands. Entries of a tree come in order, so most share their parents with the one before.
pub struct Descent {
    root: OwnedFd,
    below: Vec<(OsString, OwnedFd)>,
}

impl Descent {
    pub fn new(root: OwnedFd) -> Self {
        Self { root, below: vec![] }
    }

    pub fn here(&self) -> &OwnedFd {
        self.below.last().map_or(&self.root, |(_, handle)| handle)
    }

    /// Down from the root to `parents`, making what is missing with mode 0755. The names are plain ones.
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

pub fn make_directory(parent: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let created = mkdirat(parent, name, Mode::RWXU);
    let handle = match created {
        Ok(()) | Err(Errno::EXIST) => openat(parent, name, DIRECTORY, Mode::empty())?,
        Err(error) => return Err(error.into()),
    };
    if created.is_ok() {
        // The umask must not decide what others see.
        fchmod(&handle, Mode::from_raw_mode(0o755))?;
    }
    Ok(handle)
}
