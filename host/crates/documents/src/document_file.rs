//! The file of one document, which is open and locked from reading to writing.
//!
//! The lock is on the file itself, so it is the same one under every name of the file, and no lock file is left behind.
//! A write replaces the file, so a process that waited for the lock of the old file opens the new one and waits again.
//! New bytes are written to a temporary file, whose name depends on the document alone, and get the document's name
//! when they are durable. A killed process leaves the old or the new document, and at most one temporary file, which
//! the next write overwrites.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use edit_protocol::{BadDocument, Snapshot};
use rustix::fs::{Access, AtFlags, FileType, Gid, Mode, Stat, Uid};
use rustix::io::Errno;

use super::{MAX_BYTES, Refused};
use act_fs::lock::{self, Kind};
use act_fs::{Dir, Durability, Identity, READ, Sha256, Staged};

/// Maximum wait for a lock. An edit holds it for milliseconds; a process that holds it this long has stopped.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Maximum wait while other processes make edit after edit, each of which replaces the file that was waited for.
const LONGEST_CONTENTION: Duration = Duration::from_secs(300);

/// The directory of a document, and its name there.
struct Location {
    dir: Dir,
    name: OsString,
}

/// An open document, which is locked until this value is dropped.
pub(super) struct DocumentFile {
    location: Location,
    _locked: File,
    stat: Stat,
    bytes: Vec<u8>,
}

/// Reads a document. No lock is needed, because a document is replaced as a whole.
pub(super) fn read(path: &Path) -> Result<Snapshot, Refused> {
    let (fd, _) = Location::find(path)?.open()?;
    parse(&whole(&fd)?)
}

impl DocumentFile {
    pub(super) fn lock(path: &Path) -> Result<Self, Refused> {
        let start = Instant::now();
        loop {
            let location = Location::find(path)?;
            let (held, _) = location.open()?;
            if !location.lock(&held)? {
                // Each round another process has made an edit, so the wait makes progress.
                if start.elapsed() > LONGEST_CONTENTION {
                    return Err(Refused::Busy);
                }
                continue;
            }
            location.check_writable()?;
            let bytes = whole(&held)?;
            let stat = rustix::fs::fstat(&held).map_err(unreadable)?;
            if stat.st_nlink > 1 {
                // The new bytes get the name by a rename, so the other names would keep the old ones.
                return Err(Refused::NotAFile(
                    "a file with several names (hard links), of which an edit would change one",
                ));
            }
            return Ok(Self { location, _locked: held, stat, bytes });
        }
    }

    pub(super) fn document(&self) -> Result<Snapshot, Refused> {
        parse(&self.bytes)
    }

    /// Replaces the content of the file, with the same mode and, where possible, the same owner. Returns false when the
    /// file is not the one that was read any more, so that nothing was written.
    pub(super) fn replace(&self, bytes: &[u8]) -> Result<bool, Refused> {
        let (dir, name) = (&self.location.dir, &self.location.name);
        let staged = stage(dir, name, bytes, &self.stat)
            .map_err(Refused::failed("the document cannot be written"))?;
        let now = dir.stat(&**name);
        if !now.is_ok_and(|now| fingerprint(&now) == fingerprint(&self.stat)) {
            return Ok(false);
        }
        take_name(staged, name).map_err(Refused::failed("the document cannot be replaced"))
    }
}

impl Location {
    /// Finds the document. The user named the path, so links among its directories are followed. A link in place of the
    /// document is followed only if its target lies below the directory of the link.
    fn find(path: &Path) -> Result<Self, Refused> {
        let no_file = Refused::NotAFile("the path names no file");
        let name = path.file_name().ok_or(no_file)?;
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let dir = Dir::open_following(parent).map_err(unopened_io)?;
        let stat = dir.stat(name).map_err(unopened_io)?;
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
                at.dir = at.dir.subdirectory(&*at.name).map_err(unopened_io)?;
            }
            at.name = part.to_owned();
        }
        Ok(at)
    }

    /// Opens the document if it is a regular file. A link is not followed, and a FIFO does not block.
    fn open(&self) -> Result<(File, Stat), Refused> {
        let fd =
            rustix::fs::openat(&self.dir, &self.name, READ, Mode::empty()).map_err(unopened)?;
        let stat = rustix::fs::fstat(&fd).map_err(unreadable)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((fd.into(), stat)),
            _ => Err(Refused::NotAFile("not a regular file")),
        }
    }

    /// Returns whether the name still means the file that is open.
    fn holds(&self, held: &File) -> Result<bool, Refused> {
        let held = Identity::of_handle(held).map_err(unreadable)?;
        match self.dir.stat(&*self.name) {
            Ok(now) => Ok(Identity::of_stat(&now) == held),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(unreadable(error)),
        }
    }

    /// Waits for the lock on the open file and returns whether the name still means it. It stops waiting as soon as the
    /// name means another file: processes that wait for a replaced file would otherwise take its lock one after the
    /// other only to find that out.
    fn lock(&self, held: &File) -> Result<bool, Refused> {
        let mut judged = Ok(true);
        let wanted = || {
            judged = self.holds(held);
            matches!(judged, Ok(true))
        };
        let locked = lock::wait_while(held, Kind::Exclusive, LONGEST_WAIT, wanted);
        match locked.map_err(Refused::failed("the file cannot be locked"))? {
            true => self.holds(held),
            false if judged? => Err(Refused::Busy),
            false => Ok(false),
        }
    }

    /// Checks that the caller may write the file. Replacing it needs only a right to the directory, but the user may
    /// have made the file read-only on purpose.
    fn check_writable(&self) -> Result<(), Refused> {
        match rustix::fs::accessat(&self.dir, &self.name, Access::WRITE_OK, AtFlags::empty()) {
            Err(Errno::ACCESS | Errno::ROFS | Errno::PERM) => Err(Refused::ReadOnly),
            _ => Ok(()),
        }
    }
}

/// Writes the new bytes beside the document, with the mode and, where possible, the owner that it has.
fn stage<'a>(
    dir: &'a Dir,
    document: &OsString,
    bytes: &[u8],
    like: &Stat,
) -> std::io::Result<Staged<'a>> {
    let name = format!(".act-edit-{}.tmp", &Sha256::of(document.as_bytes()).to_string()[..16]);
    let mut staged = dir.stage_as(name)?;
    // Only the owner of both may give the file away; otherwise it belongs to the caller, as with any editor.
    let (uid, gid) = (Uid::from_raw(like.st_uid), Gid::from_raw(like.st_gid));
    let _ = rustix::fs::fchown(staged.file(), Some(uid), Some(gid));
    rustix::fs::fchmod(staged.file(), Mode::from_raw_mode(like.st_mode & 0o777))?;
    staged.write(bytes)?;
    staged.sync()?;
    Ok(staged)
}

/// Gives the staged file the document's name. When a program that takes no lock has replaced the document, two editors
/// can hold locks on two files; the one whose staged file was removed gets false and has to try again.
fn take_name(mut staged: Staged<'_>, document: &OsString) -> std::io::Result<bool> {
    if !staged.is_ours()? {
        return Ok(false);
    }
    staged.publish(&**document, Durability::ContentsAndName)?;
    Ok(true)
}

/// Returns a value that changes when the file is written or replaced.
fn fingerprint(stat: &Stat) -> impl PartialEq + use<> {
    let times = (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec);
    (stat.st_dev, stat.st_ino, stat.st_size, times)
}

fn whole(file: &File) -> Result<Vec<u8>, Refused> {
    match act_fs::read_bounded(file, MAX_BYTES) {
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => Err(Refused::TooLarge),
        read => read.map_err(unreadable),
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
        Errno::LOOP | Errno::MLINK => Refused::NotAFile("a broken link"),
        Errno::NOTDIR => Refused::NotAFile("a part of the path is not a directory"),
        Errno::NXIO | Errno::ISDIR => Refused::NotAFile("not a regular file"),
        errno => Refused::failed("the document cannot be opened")(errno),
    }
}

fn unopened_io(error: std::io::Error) -> Refused {
    unopened(errno(&error))
}

fn unreadable<E: Into<std::io::Error>>(error: E) -> Refused {
    Refused::failed("the document cannot be read")(error)
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
