//! A file of the source as git knows it, and whether what lies in its place now is still that.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Mode, Stat, fstat, openat, readlinkat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use act_fs::READ;
use act_fs::hex;
use act_workspace::digest;

pub(crate) struct Source {
    pub(crate) mode: &'static str,
    pub(crate) sha256: String,
    pub(crate) size: u64,
}

impl Source {
    /// Compared as git does: content, link target and the executable bit.
    pub(crate) fn is(&self, parent: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> io::Result<bool> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Symlink {
            let target = match readlinkat(parent, name, vec![]) {
                Ok(target) => target,
                Err(Errno::INVAL | Errno::NOENT) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            return Ok(self.mode == "120000" && digest(target.as_bytes()) == self.sha256);
        }
        let executable = stat.st_mode & 0o100 != 0;
        let mode = if executable { "100755" } else { "100644" };
        if kind != FileType::RegularFile
            || self.mode != mode
            || u64::try_from(stat.st_size).ok() != Some(self.size)
        {
            return Ok(false);
        }
        let opened = match openat(parent, name, READ, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::ACCESS | Errno::NOENT | Errno::LOOP) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        if FileType::from_raw_mode(fstat(&opened)?.st_mode) != FileType::RegularFile {
            return Ok(false);
        }
        let mut hash = Sha256::new();
        let mut file = File::from(opened).take(self.size + 1);
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(hex(&hash.finalize()) == self.sha256),
                count => hash.update(&buffer[..count]),
            }
        }
    }
}
