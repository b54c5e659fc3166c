//! How what others may have prepared is opened: through no link, and without waiting for anybody.
//!
//! One place, so that no reader forgets a flag. Opening is not all: a FIFO or a device opens as well, so whoever reads
//! looks at the kind of the handle first.

use rustix::fs::OFlags;

/// A file, for reading.
pub(crate) const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// A file that is not there yet, for writing.
pub(crate) const NEW: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// A directory, for listing it and for opening what is in it.
pub(crate) const DIRECTORY: OFlags = READ.union(OFlags::DIRECTORY);
