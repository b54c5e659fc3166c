//! The file of the database before SQLite sees it: what it is, by handle and without following a link.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, fstat, openat, statat};
use rustix::io::Errno;

use super::StoreError;
use super::schema::{APPLICATION_ID, VERSION};
use act_fs::{Dir, READ};

pub(super) const NAME: &str = "act.db";
/// What SQLite keeps beside it.
pub(super) const BESIDE: [&str; 3] = ["act.db-wal", "act.db-shm", "act.db-journal"];

const INDEX: &str = "act.db-shm";

const MAGIC: &[u8] = b"SQLite format 3\0";
const HEADER: usize = 100;
const USER_VERSION: usize = 60;
const APPLICATION: usize = 68;

/// Whether there is a database of ours. Refused: anything else under its name, and changes of one that is
/// gone, which would be played back into the next.
pub(super) fn exists(state: &Dir, path: &Path) -> Result<bool, StoreError> {
    let foreign = |what: &str| StoreError::Foreign { path: path.to_owned(), what: what.to_owned() };
    let found = kind(state, NAME).map_err(|errno| StoreError::io(path, errno))?;
    for beside in BESIDE {
        match kind(state, beside).map_err(|errno| StoreError::io(path, errno))? {
            None | Some((FileType::RegularFile, 0)) => {}
            // Only an index of the log, and made anew by the next one that opens it.
            Some((FileType::RegularFile, _)) if beside == INDEX => {}
            Some((FileType::RegularFile, _)) if found.is_some() => {}
            Some((FileType::RegularFile, _)) => {
                let reason = format!("it is gone, and {beside} holds changes of it");
                return Err(StoreError::Damaged { path: path.to_owned(), reason });
            }
            Some((other, _)) => return Err(foreign(&format!("beside {}", word(other)))),
        }
    }
    match found {
        None => Ok(false),
        Some((FileType::RegularFile, _)) => {
            header(state, path)?;
            Ok(true)
        }
        Some((other, _)) => Err(foreign(word(other))),
    }
}

fn kind(state: &Dir, name: &str) -> Result<Option<(FileType, u64)>, Errno> {
    match statat(state, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => {
            let size = u64::try_from(stat.st_size).unwrap_or_default();
            Ok(Some((FileType::from_raw_mode(stat.st_mode), size)))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn word(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        _ => "a special file",
    }
}

fn header(state: &Dir, path: &Path) -> Result<(), StoreError> {
    let file: File = openat(state, NAME, READ, Mode::empty())
        .map_err(|errno| StoreError::io(path, errno))?
        .into();
    let stat = fstat(&file).map_err(|errno| StoreError::io(path, errno))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(StoreError::Foreign { path: path.to_owned(), what: "no regular file".into() });
    }
    let damaged =
        |reason: &str| StoreError::Damaged { path: path.to_owned(), reason: reason.to_owned() };
    let mut bytes = [0; HEADER];
    if let Err(error) = file.read_exact_at(&mut bytes, 0) {
        return Err(match error.kind() {
            std::io::ErrorKind::UnexpectedEof => damaged("it is cut off"),
            _ => StoreError::io(path, error),
        });
    }
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        i64::from(i32::from_be_bytes(bytes.unwrap_or_default()))
    };
    if !bytes.starts_with(MAGIC) {
        return Err(damaged("it is no SQLite database"));
    }
    if number(APPLICATION) != i64::from(APPLICATION_ID) {
        let what = "the SQLite database of something else".to_owned();
        return Err(StoreError::Foreign { path: path.to_owned(), what });
    }
    match number(USER_VERSION) {
        version if version > VERSION => {
            Err(StoreError::Future { path: path.to_owned(), version, known: VERSION })
        }
        version if version < 1 => Err(damaged("it has no version")),
        _ => Ok(()),
    }
}
