//! The few steps from which every write is made, all inside directories held by handle.
//!
//! Bytes are written beside their target under a recognisable name and made durable before they get the
//! real name, so a kill leaves the old or the new file, never half of one. A name is taken over by exchange
//! or only while it is free; nothing is ever written through an existing file, so a hard link to somewhere
//! else is broken rather than followed.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, RawMode, RenameFlags, Stat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::exclusion::{TEMPORARY_PREFIX, TEMPORARY_SUFFIX};
use super::handle;
use super::likeness::Likeness;
use act_fs::hex;

/// A file beside its target; removed when dropped, whatever it holds by then.
#[derive(Debug)]
pub(super) struct Temp {
    dir: Arc<OwnedFd>,
    pub(super) name: String,
}

impl Temp {
    /// A name that nothing has.
    pub(super) fn free(dir: &Arc<OwnedFd>) -> Self {
        let name = format!("{TEMPORARY_PREFIX}{:016x}{TEMPORARY_SUFFIX}", rand::random::<u64>());
        Self { dir: dir.clone(), name }
    }

    /// A new file with these bytes, durable. It is `like` another one, or has this mode, or what the system gives a
    /// new file.
    pub(super) fn write(
        dir: &Arc<OwnedFd>,
        bytes: &[u8],
        like: Option<&Likeness>,
        mode: Option<u32>,
    ) -> std::io::Result<Self> {
        let temp = Self::free(dir);
        let first = if like.is_some() || mode.is_some() { 0o600 } else { 0o666 };
        let fd = rustix::fs::openat(dir, &temp.name, handle::NEW, Mode::from_raw_mode(first))?;
        match (like, mode) {
            (Some(like), _) => like.give(&fd)?,
            (None, Some(mode)) => {
                rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode as RawMode))?;
            }
            (None, None) => {}
        }
        let mut file = File::from(fd);
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(temp)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        // Already renamed away, or nothing was made: both are fine.
        let _ = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty());
    }
}

/// Both names exist and swap what they mean.
pub(super) fn exchange(dir: &OwnedFd, a: &str, b: &str) -> Result<(), Errno> {
    rustix::fs::renameat_with(dir, a, dir, b, RenameFlags::EXCHANGE)
}

/// Whether the file system, or the kernel, cannot do what a rename flag asks for.
pub(super) fn is_unsupported(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

/// A new name that nothing has yet, else `EXIST`.
pub(super) fn rename_new(
    from: BorrowedFd<'_>,
    old: &str,
    to: BorrowedFd<'_>,
    new: &str,
) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        Err(errno) if is_unsupported(errno) => {
            // A second name first: it fails when the name is taken, and never follows a link.
            rustix::fs::linkat(from, old, to, new, AtFlags::empty())?;
            rustix::fs::unlinkat(from, old, AtFlags::empty())
        }
        other => other,
    }
}

/// What stands at a name.
pub(super) enum Standing {
    Nothing,
    File {
        digest: String,
        stat: Stat,
        /// Itself.
        file: File,
    },
    /// A link, a directory or something special.
    Other,
    TooLarge,
}

/// Looks without following; reads at most `most` bytes.
pub(super) fn standing(dir: impl AsFd, name: &str, most: u64) -> std::io::Result<Standing> {
    let fd = match rustix::fs::openat(&dir, name, handle::READ, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(Standing::Nothing),
        Err(Errno::LOOP | Errno::NXIO | Errno::MLINK) => return Ok(Standing::Other),
        Err(errno) => return Err(errno.into()),
    };
    let stat = rustix::fs::fstat(&fd)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(Standing::Other);
    }
    let file = File::from(fd);
    Ok(match digest_of(&file, most)? {
        Some(digest) => Standing::File { digest, stat, file },
        None => Standing::TooLarge,
    })
}

/// The bytes of a regular file of at most `most` bytes, without following; none for everything else.
pub(super) fn bytes(dir: impl AsFd, name: &str, most: usize) -> Option<Vec<u8>> {
    whole(dir, name, most as u64).map(|(bytes, _)| bytes)
}

/// The same with what the system knows of the file.
pub(super) fn whole(dir: impl AsFd, name: &str, most: u64) -> Option<(Vec<u8>, Stat)> {
    let fd = rustix::fs::openat(&dir, name, handle::READ, Mode::empty()).ok()?;
    let (fd, stat) = handle::regular(fd).ok()?;
    Some((handle::read_whole(fd, most).ok()??, stat))
}

/// None when the file has more than `most` bytes.
fn digest_of(file: &File, most: u64) -> std::io::Result<Option<String>> {
    let mut file = file.take(most.saturating_add(1));
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    let mut total = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                total += count as u64;
                hash.update(&buffer[..count]);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((total <= most).then(|| hex(&hash.finalize())))
}
