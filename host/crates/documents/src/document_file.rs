//! One document's file, held by handle and lock from the look to the write.
//!
//! The lock is on the file itself: every name of it meets the same one, and no lock file is left behind.
//! A write replaces the file, so whoever waited for the old one looks again and finds the new one. Bytes are
//! written beside it under the one name that this document has for that, and get the real name when they are
//! durable: a kill leaves the old or the new document, and at most one file that the next write takes over.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use edit_protocol::{BadDocument, Snapshot};
use rustix::fs::{Access, AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

use super::{MAX_BYTES, Refused, turn};
use act_fs::READ;
use act_workspace::digest;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Where a document is: its directory, and its name there.
struct Place {
    dir: OwnedFd,
    name: OsString,
}

/// Locked until dropped.
pub(super) struct DocumentFile {
    place: Place,
    _held: OwnedFd,
    stat: Stat,
    bytes: Vec<u8>,
}

pub(super) enum Written {
    Done,
    /// The file is no longer the one that was read; nothing was written.
    Overtaken,
}

/// Without a lock: a document is replaced as a whole, so every look sees a whole one.
pub(super) fn read(path: &Path) -> Result<Snapshot, Refused> {
    let (fd, _) = Place::find(path)?.open()?;
    parse(&whole(&fd)?)
}

impl DocumentFile {
    pub(super) fn lock(path: &Path) -> Result<Self, Refused> {
        let start = Instant::now();
        loop {
            let place = Place::find(path)?;
            let (held, _) = place.open()?;
            // Each round somebody else's edit was made: the wait is for them, not for nothing.
            if !turn::take_while(&held, || place.holds(&held))? {
                if start.elapsed() > turn::LONGEST_IN_LINE {
                    return Err(Refused::Busy);
                }
                continue;
            }
            place.writable()?;
            let bytes = whole(&held)?;
            let stat = rustix::fs::fstat(&held).map_err(unreadable)?;
            return Ok(Self { place, _held: held, stat, bytes });
        }
    }

    pub(super) fn document(&self) -> Result<Snapshot, Refused> {
        parse(&self.bytes)
    }

    /// The file becomes `bytes`, with the mode and, where possible, the owner that it has.
    pub(super) fn replace(&self, bytes: &[u8]) -> Result<Written, Refused> {
        let (dir, name) = (&self.place.dir, &self.place.name);
        let beside = Beside::write(dir, name, bytes, &self.stat)
            .map_err(Refused::failed("the document cannot be written"))?;
        let now = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
        if !now.is_ok_and(|now| fingerprint(&now) == fingerprint(&self.stat)) {
            return Ok(Written::Overtaken);
        }
        beside.take_name(name).map_err(Refused::failed("the document cannot be replaced"))
    }
}

impl Place {
    /// The path is the user's own, so links among its directories are followed. A link in place of the
    /// document stands for what it leads to only where that lies in the directory of the link.
    fn find(path: &Path) -> Result<Self, Refused> {
        let no_file = Refused::NotAFile("the path names no file");
        let name = path.file_name().ok_or(no_file)?;
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let dir = rustix::fs::open(parent, DIRECTORY, Mode::empty()).map_err(unopened)?;
        let stat = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(unopened)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok(Self { dir, name: name.to_owned() });
        }
        let real = |path: &Path| path.canonicalize().map_err(|error| unopened(errno(&error)));
        let (parent, target) = (real(parent)?, real(path)?);
        let inside: PathBuf = target
            .strip_prefix(&parent)
            .map_err(|_| Refused::NotAFile("a link that leads out of its directory"))?
            .to_owned();
        let mut at = Self { dir, name: OsString::new() };
        for part in inside.iter() {
            if !at.name.is_empty() {
                let how = DIRECTORY | OFlags::NOFOLLOW;
                at.dir =
                    rustix::fs::openat(&at.dir, &at.name, how, Mode::empty()).map_err(unopened)?;
            }
            at.name = part.to_owned();
        }
        Ok(at)
    }

    /// Never through a link, and only a regular file; a FIFO does not hold us up.
    fn open(&self) -> Result<(OwnedFd, Stat), Refused> {
        let fd =
            rustix::fs::openat(&self.dir, &self.name, READ, Mode::empty()).map_err(unopened)?;
        let stat = rustix::fs::fstat(&fd).map_err(unreadable)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((fd, stat)),
            _ => Err(Refused::NotAFile("not a regular file")),
        }
    }

    /// Whether the name still means the file that is open.
    fn holds(&self, held: &OwnedFd) -> Result<bool, Refused> {
        let held = rustix::fs::fstat(held).map_err(unreadable)?;
        match rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(now) => Ok((now.st_dev, now.st_ino) == (held.st_dev, held.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(unreadable(errno)),
        }
    }

    /// A replacement needs no right to the file itself, but taking it for granted would overrule the user.
    fn writable(&self) -> Result<(), Refused> {
        match rustix::fs::accessat(&self.dir, &self.name, Access::WRITE_OK, AtFlags::empty()) {
            Err(Errno::ACCESS | Errno::ROFS | Errno::PERM) => Err(Refused::ReadOnly),
            _ => Ok(()),
        }
    }
}

/// The new bytes before they have their name; removed when dropped, unless renamed by then.
struct Beside<'a> {
    dir: &'a OwnedFd,
    name: String,
    file: File,
    /// From then on the name is the next editor's.
    renamed: bool,
}

impl<'a> Beside<'a> {
    fn write(
        dir: &'a OwnedFd,
        document: &OsString,
        bytes: &[u8],
        like: &Stat,
    ) -> std::io::Result<Self> {
        let name = format!(".act-edit-{}.tmp", &digest(document.as_bytes())[..16]);
        // What a killed edit left; the lock says that nobody is at it.
        match rustix::fs::unlinkat(dir, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let file = act_fs::create(dir, &name)?;
        let mut beside = Self { dir, name, file, renamed: false };
        let fd = &beside.file;
        // Only the owner of both may give it away; the file is then ours, as with any editor.
        let (uid, gid) = (Uid::from_raw(like.st_uid), Gid::from_raw(like.st_gid));
        let _ = rustix::fs::fchown(fd, Some(uid), Some(gid));
        rustix::fs::fchmod(fd, Mode::from_raw_mode(like.st_mode & 0o777))?;
        beside.file.write_all(bytes)?;
        beside.file.sync_all()?;
        Ok(beside)
    }

    /// Where somebody who takes no lock put another document in place, two editors can hold locks on two
    /// files; whoever finds that the file beside is not its own lets go of it.
    fn take_name(mut self, document: &OsString) -> Result<Written, Errno> {
        let own = rustix::fs::fstat(&self.file)?;
        let there = rustix::fs::statat(self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        if !there.is_ok_and(|now| (now.st_dev, now.st_ino) == (own.st_dev, own.st_ino)) {
            self.renamed = true;
            return Ok(Written::Overtaken);
        }
        rustix::fs::renameat(self.dir, &self.name, self.dir, document)?;
        self.renamed = true;
        rustix::fs::fsync(self.dir)?;
        Ok(Written::Done)
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            let _ = rustix::fs::unlinkat(self.dir, &self.name, AtFlags::empty());
        }
    }
}

/// Equal as long as nobody has written to the file or put another in its place.
fn fingerprint(stat: &Stat) -> impl PartialEq + use<> {
    let times = (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
    (stat.st_dev, stat.st_ino, stat.st_size, times)
}

fn whole(fd: &OwnedFd) -> Result<Vec<u8>, Refused> {
    let mut bytes = vec![];
    let file = File::from(fd.try_clone().map_err(Refused::failed("the document cannot be read"))?);
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() as u64 > MAX_BYTES {
        true => Err(Refused::TooLarge),
        false => Ok(bytes),
    }
}

fn parse(bytes: &[u8]) -> Result<Snapshot, Refused> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| BadDocument(format!("not UTF-8 at byte {}", error.valid_up_to())))?;
    Ok(Snapshot::parse(text)?)
}

fn unopened(errno: Errno) -> Refused {
    match errno {
        Errno::NOENT => Refused::NotFound,
        Errno::LOOP | Errno::MLINK => Refused::NotAFile("a link that leads nowhere"),
        Errno::NOTDIR => Refused::NotAFile("a part of the path is no directory"),
        Errno::NXIO | Errno::ISDIR => Refused::NotAFile("not a regular file"),
        errno => Refused::failed("the document cannot be opened")(errno),
    }
}

fn unreadable<E: Into<std::io::Error>>(error: E) -> Refused {
    Refused::failed("the document cannot be read")(error)
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
