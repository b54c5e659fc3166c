//! How what others may have prepared is opened: through no link, and without waiting for anybody.
//!
//! One place, so that no reader forgets a flag or a look. A FIFO or a device opens as well, so [`file`] looks at the
//! kind of the handle; whoever opens with [`READ`] does so itself.

mod names;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags, openat};
use rustix::path::Arg;

pub use self::names::{Found, Names};

/// A file, for reading.
pub const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// A file that is not there yet, for writing.
pub const NEW: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// A directory, for listing it and for opening what is in it.
pub const DIRECTORY: OFlags = READ.union(OFlags::DIRECTORY);

/// A regular file of a directory, for reading; anything else of that name is an error.
pub fn file(directory: impl AsFd, name: impl Arg) -> io::Result<File> {
    regular(openat(directory, name, READ, Mode::empty())?.into())
}

pub fn regular(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// A new file in a directory, for writing, for the owner alone. A name that is taken is an error.
pub fn create(directory: impl AsFd, name: impl Arg) -> io::Result<File> {
    Ok(openat(directory, name, NEW, Mode::RUSR | Mode::WUSR)?.into())
}
