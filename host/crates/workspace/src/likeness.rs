//! What a file is like beside its bytes, given to the one that takes its place: owner, group, permission bits,
//! extended attributes and the list of access.
//!
//! What keeps somebody out is kept, or nothing is written. Everything else is carried over as far as the system
//! lets us.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Gid, Mode, RawMode, Stat, Uid, XattrFlags};
use rustix::io::Errno;

/// Bytes of all names, and of one value; Linux has no more.
const MAX_BYTES: usize = 64 << 10;
const MAX_NOTES: usize = 256;
/// Bytes of all values.
const MAX_TOTAL: usize = 1 << 20;
/// Attributes that say who may do what, beside the permission bits.
#[cfg(target_os = "linux")]
const ACCESS: &[&CStr] = &[c"system.posix_acl_access", c"system.nfs4_acl"];
/// There they are no extended attributes, and out of reach without unsafe code.
#[cfg(not(target_os = "linux"))]
const ACCESS: &[&CStr] = &[];

#[derive(Debug, Clone)]
pub(super) struct Likeness {
    stat: Stat,
    /// One for each of `ACCESS`; none where the file has none.
    access: Vec<Option<Vec<u8>>>,
    notes: Vec<(CString, Vec<u8>)>,
}

impl Likeness {
    pub(super) fn of(file: impl AsFd) -> io::Result<Self> {
        let stat = rustix::fs::fstat(&file)?;
        let access = |name: &&CStr| value(&file, name).map_err(|errno| unkept(name, errno));
        let access = ACCESS.iter().map(access).collect::<Result<_, _>>()?;
        Ok(Self { stat, access, notes: notes(&file) })
    }

    /// For a file that nobody else can open yet and that holds nothing: whoever may not read it shall not have
    /// it open when the bytes come.
    pub(super) fn give(&self, to: impl AsFd) -> io::Result<()> {
        for (name, value) in &self.notes {
            let _ = rustix::fs::fsetxattr(&to, name.as_c_str(), value, XattrFlags::empty());
        }
        let its_group = give_owner(&to, &self.stat)?;
        let set = |(name, value): (&&CStr, &Option<Vec<u8>>)| match value {
            Some(value) => rustix::fs::fsetxattr(&to, *name, value, XattrFlags::empty()),
            // The directory may have given it one.
            None => rustix::fs::fremovexattr(&to, *name),
        };
        let tried: Vec<_> = ACCESS.iter().zip(&self.access).map(set).collect();
        let mode = self.stat.st_mode & 0o777;
        let mode = if its_group { mode } else { for_another_group(mode) };
        rustix::fs::fchmod(&to, Mode::from_raw_mode(mode))?;
        for ((name, value), tried) in ACCESS.iter().zip(&self.access).zip(tried) {
            let errno = tried.err().unwrap_or(Errno::PERM);
            // What it says about the group would be about another one.
            let speaks_of_us = value.is_none() || its_group;
            if !speaks_of_us || self::value(&to, name) != Ok(value.clone()) {
                return Err(unkept(name, errno));
            }
        }
        Ok(())
    }
}

fn unkept(name: &CStr, errno: Errno) -> io::Error {
    let why = io::Error::from(errno);
    let name = name.to_string_lossy();
    io::Error::new(why.kind(), format!("its list of access ({name}) cannot be kept: {why}"))
}

/// A file of another owner stays his when we may say so; of another group, as well. Whether it has that group.
fn give_owner(to: impl AsFd, like: &Stat) -> io::Result<bool> {
    let now = rustix::fs::fstat(&to)?;
    let owner = (now.st_uid != like.st_uid).then(|| Uid::from_raw(like.st_uid));
    let group = (now.st_gid != like.st_gid).then(|| Gid::from_raw(like.st_gid));
    if owner.is_none() && group.is_none() {
        return Ok(true);
    }
    // Only root gives files away, but whoever is in a group may give them to it.
    if rustix::fs::fchown(&to, owner, group).is_err() {
        let _ = rustix::fs::fchown(&to, None, group);
    }
    Ok(rustix::fs::fstat(&to)?.st_gid == like.st_gid)
}

/// Whoever was of the group is one of the others now, and the other way round: both get what both had.
fn for_another_group(mode: RawMode) -> RawMode {
    let both = (mode >> 3) & mode & 0o7;
    (mode & 0o700) | (both << 3) | both
}

/// None where there is no such attribute, or no such kind of attribute.
fn value(file: impl AsFd, name: &CStr) -> Result<Option<Vec<u8>>, Errno> {
    let mut value = vec![0; MAX_BYTES];
    match rustix::fs::fgetxattr(file, name, value.as_mut_slice()) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(NO_ATTRIBUTE | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
        Err(errno) => Err(errno),
    }
}

#[cfg(target_vendor = "apple")]
const NO_ATTRIBUTE: Errno = Errno::NOATTR;
#[cfg(not(target_vendor = "apple"))]
const NO_ATTRIBUTE: Errno = Errno::NODATA;

/// As many of them as can be read within the bounds.
fn notes(file: impl AsFd) -> Vec<(CString, Vec<u8>)> {
    let mut names = vec![0_u8; MAX_BYTES];
    let Ok(length) = rustix::fs::flistxattr(&file, names.as_mut_slice()) else { return vec![] };
    let names = names.get(..length).unwrap_or_default();
    let names = names.split_inclusive(|byte| *byte == 0).map(CStr::from_bytes_with_nul);
    let mut total = 0;
    let read = |name: &CStr| {
        let value = value(&file, name).ok().flatten()?;
        Some((name.to_owned(), value))
    };
    names
        .flatten()
        .filter(|name| is_note(name.to_bytes()))
        .take(MAX_NOTES)
        .filter_map(read)
        .take_while(|(_, value)| {
            total += value.len();
            total <= MAX_TOTAL
        })
        .collect()
}

/// The user's own words and labels of the system. Not what belongs to the bytes that go (`security.ima`), what makes a
/// program more than it was reviewed for (`security.capability`, as with set-id bits), nor what a file system keeps
/// there for itself (`trusted.*`).
fn is_note(name: &[u8]) -> bool {
    cfg!(target_vendor = "apple")
        || name.starts_with(b"user.")
        || [&b"security.selinux"[..], b"security.SMACK64"].contains(&name)
}

#[cfg(test)]
mod tests;
