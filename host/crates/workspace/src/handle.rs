//! What the repository's files may be, judged by their open handles.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

pub(super) use act_fs::{DIRECTORY, LINK, MAX_DEPTH, NEW, READ, Root};

/// Judges the open handle itself, so that nothing can be swapped between the look and the use.
pub(super) fn regular(fd: OwnedFd) -> Result<(OwnedFd, Stat), Errno> {
    let stat = rustix::fs::fstat(&fd)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((fd, stat)),
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::INVAL),
    }
}

/// The whole file, or none when it holds more than `most` bytes.
pub(super) fn read_whole(fd: OwnedFd, most: u64) -> std::io::Result<Option<Vec<u8>>> {
    match act_fs::read_bounded(File::from(fd), most) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => Ok(None),
        Err(error) => Err(error),
    }
}

/// Why a FIFO, a socket or a device is refused.
pub(super) const NOT_A_FILE: &str = "not a regular file or directory";
