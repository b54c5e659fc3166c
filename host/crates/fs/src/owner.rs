//! Who else can write a directory or file that the caller is about to trust.
//!
//! Other users can write what belongs to them, what its mode lets group or others write, and what an access list lets them
//! write. The group bits of a file with an access list are the upper bound of the list, so clearing them closes it too.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Mode, RawMode, Stat, fchmod, fstat};
use rustix::process::geteuid;

/// The permissions by which other users write.
const OTHERS_WRITE: Mode = Mode::WGRP.union(Mode::WOTH);

/// Owner and mode of a directory or file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    pub uid: u32,
    /// The permissions, with the setuid, setgid and sticky bits.
    pub mode: RawMode,
}

impl Holder {
    pub fn of_stat(stat: &Stat) -> Self {
        Self { uid: stat.st_uid, mode: Mode::from_raw_mode(stat.st_mode).bits() }
    }

    /// Returns whether the caller or root is the owner.
    pub fn is_caller_or_root(self) -> bool {
        self.uid == 0 || self.uid == geteuid().as_raw()
    }

    /// Returns whether group or others may write, also by an access list.
    pub fn is_open(self) -> bool {
        Mode::from_raw_mode(self.mode).intersects(OTHERS_WRITE)
    }

    /// Returns whether only the owner of a name in this directory may remove or rename it, as in `/tmp`.
    pub fn is_sticky(self) -> bool {
        Mode::from_raw_mode(self.mode).contains(Mode::SVTX)
    }
}

/// The result of [`close_to_others`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// Only the caller and root could write it.
    Already,
    /// Others could write it until now.
    Now(Holder),
    /// It belongs to another user, or to root who lets others write it.
    Foreign(Holder),
}

/// Takes the permission to write from group and others.
///
/// # Errors
/// The error of the system.
pub fn close_to_others(handle: impl AsFd) -> io::Result<Closed> {
    let handle = handle.as_fd();
    let found = Holder::of_stat(&fstat(handle)?);
    if !found.is_caller_or_root() {
        return Ok(Closed::Foreign(found));
    }
    if !found.is_open() {
        return Ok(Closed::Already);
    }
    if found.uid != geteuid().as_raw() {
        return Ok(Closed::Foreign(found));
    }
    fchmod(handle, Mode::from_raw_mode(found.mode).difference(OTHERS_WRITE))?;
    // Some file systems accept a mode and ignore it.
    let now = Holder::of_stat(&fstat(handle)?);
    Ok(if now.is_open() { Closed::Foreign(now) } else { Closed::Now(found) })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use crate::Dir;

    // ARTIFACT-30
    #[test]
    fn what_others_can_write_is_closed_once() {
        let place = tempfile::tempdir().unwrap();
        let dir = Dir::open(place.path()).unwrap();
        let set = |mode| fs::set_permissions(place.path(), fs::Permissions::from_mode(mode));
        assert_eq!(close_to_others(&dir).unwrap(), Closed::Already);
        for mode in [0o770, 0o702, 0o1777] {
            set(mode).unwrap();
            let Closed::Now(was) = close_to_others(&dir).unwrap() else { panic!("{mode:o}") };
            assert_eq!(was.mode, mode);
            assert_eq!(close_to_others(&dir).unwrap(), Closed::Already);
            let now = fs::metadata(place.path()).unwrap();
            assert_eq!(now.mode() & 0o7777, mode & !0o022);
        }
    }
}
