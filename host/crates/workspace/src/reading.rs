//! The bytes of one file, and which version of the file they are.
//!
//! A version is a number that is counted per file and task, and the digest of the bytes. The number starts at 1 when
//! the file is first read and rises whenever other bytes are found, no matter who wrote them. An edit names the version
//! that its author has read, so it never overwrites bytes that its author has not read.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use act_fs::{DIRECTORY, MAX_DEPTH, READ, Sha256};
pub use edit_protocol::{SNIFFED as BINARY_PROBE, is_binary};
use rustix::fs::{AtFlags, FileType, Mode, Stat};
use rustix::io::Errno;

use super::transaction::digest_of;
use super::view::{
    FollowLinks, Handle, JudgedDirectory, Kind, MAX_PATH, OpenEntry, Profile, RepoView, ViewError,
};
use super::writer::MAX_SEEN;

/// Maximum number of bytes in one answer.
pub const MAX_READ: u64 = 8 << 20;

/// A request for at most `length` bytes from `offset` on; without a length, to the end or to [`MAX_READ`].
#[derive(Debug, Clone, Default)]
pub struct Slice {
    pub path: String,
    pub offset: u64,
    pub length: Option<u64>,
    /// True to return the version, which an edit needs. The whole file is read for it.
    pub with_version: bool,
    /// Maximum size in bytes of a file that is read for its version, below [`MAX_READ`].
    pub version_bytes: Option<u64>,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The real path, which is the one to edit.
    pub path: String,
    pub bytes: Vec<u8>,
    /// The number of bytes of the whole file.
    pub size: u64,
    pub version: Option<Version>,
}

/// Why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    View(#[from] ViewError),
    #[error("{path} is not a regular file")]
    NotAFile { path: String },
    /// Only for a reader from whose view binary files are excluded.
    #[error("{path} is binary")]
    Binary { path: String },
    #[error("{path} has {size} bytes, more than the {MAX_READ} that can be read for an edit")]
    TooLarge { path: String, size: u64 },
    #[error("{path} cannot be read: {why}")]
    Failed { path: String, why: String },
}

/// An open file of a view.
#[derive(Debug)]
pub struct OpenFile<'v> {
    view: &'v RepoView,
    path: String,
    file: Handle,
    stat: Stat,
}

impl<'v> OpenFile<'v> {
    /// Opens a file. Links are followed inside the view.
    ///
    /// # Errors
    /// `View` for a path that cannot be resolved, and `NotAFile` for another kind of file.
    pub fn open(view: &'v RepoView, path: &str) -> Result<Self, ReadError> {
        view.stop().go_on().map_err(ViewError::from)?;
        let OpenEntry { handle: file, path, kind, stat } =
            view.resolve("", path, FollowLinks::Yes)?;
        if kind != Kind::File {
            return Err(ReadError::NotAFile { path });
        }
        Ok(Self { view, path, file, stat })
    }

    /// Returns the real path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the number of bytes that the file had when it was opened.
    pub fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }

    /// Returns the state of the file when it was opened, or `None` for a file of an overlay.
    pub fn stat(&self) -> Option<&Stat> {
        matches!(self.file, Handle::Real(_)).then_some(&self.stat)
    }

    /// Reports that what the file holds is given to the reader of the view.
    pub fn record_read(&self) {
        self.view.record_read(&self.path);
    }

    /// Reads at most `length` bytes from `offset` on, and never more than [`MAX_READ`].
    ///
    /// # Errors
    /// `Binary` for a Scout, and `Failed` with the error of the system.
    pub fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>, ReadError> {
        let size = self.size();
        let length = length.min(MAX_READ);
        let text_only = self.view.profile() == Profile::Scout;
        // Bytes from the beginning of the file show by themselves whether it is binary.
        let probes_itself = offset == 0 && length >= (BINARY_PROBE as u64).min(size);
        if text_only && !probes_itself {
            self.check_text()?;
        }
        let available = length.min(size.saturating_sub(offset));
        let bytes = read_at(&self.file, offset, available).map_err(|error| self.failed(&error))?;
        if text_only && probes_itself && is_binary(&bytes) {
            return Err(ReadError::Binary { path: self.path.clone() });
        }
        self.record_read();
        Ok(bytes)
    }

    fn check_text(&self) -> Result<(), ReadError> {
        let head = read_at(&self.file, 0, (BINARY_PROBE as u64).min(self.size()));
        match is_binary(&head.map_err(|error| self.failed(&error))?) {
            true => Err(ReadError::Binary { path: self.path.clone() }),
            false => Ok(()),
        }
    }

    fn failed(&self, error: &std::io::Error) -> ReadError {
        ReadError::Failed { path: self.path.clone(), why: error.to_string() }
    }
}

/// An open directory. The state of its files is known without opening them, which would cost three calls of the system instead of
/// one, and they are opened without resolving and judging the whole path of each.
#[derive(Debug)]
pub struct OpenDirectory<'v> {
    view: &'v RepoView,
    fd: OwnedFd,
    judged: JudgedDirectory,
}

impl<'v> OpenDirectory<'v> {
    /// Opens the directory that a path lies in. Returns `None` where only [`OpenFile::open`] can tell what the path means: in a
    /// view with an overlay, for a path that is not written as a real name, and behind a link.
    pub fn around(view: &'v RepoView, path: &str) -> Option<Self> {
        let (directory, _) = path.rsplit_once('/').unwrap_or(("", path));
        let is_real = path.split('/').all(|name| !matches!(name, "" | "." | ".."));
        // Longer and deeper paths are refused wherever they are resolved.
        let is_short = path.len() <= MAX_PATH && path.split('/').count() <= MAX_DEPTH;
        if !is_real || !is_short || view.overlay().is_some() {
            return None;
        }
        let fd = view.root().open_real(directory.as_bytes(), DIRECTORY).ok()?;
        Some(Self { view, fd, judged: view.judge(directory) })
    }

    /// Returns whether a path lies in this directory.
    pub fn holds(&self, path: &str) -> bool {
        path.rsplit_once('/').map_or("", |(directory, _)| directory) == self.judged.path
    }

    /// Returns the state of the regular file `path`, whose directory this is. Returns `None` for anything else, for a file that
    /// is not in view and for one with several names, one of which may be that of a secret: [`OpenFile::open`] says why.
    pub fn stat(&self, path: &str) -> Option<Stat> {
        let name = self.name(path)?;
        let stat = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        is_plain_file(&stat).then_some(stat)
    }

    /// Opens the regular file `path`, whose directory this is. Returns `None` where [`OpenDirectory::stat`] does.
    fn open(&self, path: &str) -> Option<OpenFile<'v>> {
        let name = self.name(path)?;
        let fd = rustix::fs::openat(&self.fd, name, READ, Mode::empty()).ok()?;
        // The open file is looked at and not the name, so nothing can be swapped in between.
        let stat = rustix::fs::fstat(&fd).ok().filter(is_plain_file)?;
        Some(OpenFile { view: self.view, path: path.to_owned(), file: Handle::Real(fd), stat })
    }

    /// Returns the last name of a path in this directory, if the reader still wants it and it is in view.
    fn name<'p>(&self, path: &'p str) -> Option<&'p str> {
        self.view.stop().go_on().ok()?;
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        let is_name = !matches!(name, "" | "." | "..") && !name.contains('\0');
        (is_name && !self.view.hides(&self.judged, path)).then_some(name)
    }
}

/// Returns whether this is a regular file with one name.
fn is_plain_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink == 1
}

/// Reads several files for one request. Files that follow each other and lie in one directory are opened in that directory.
#[derive(Debug)]
pub struct Reader<'v> {
    view: &'v RepoView,
    /// The directory of the file before.
    directory: Option<String>,
    /// This directory, opened once two files in turn lay in it.
    around: Option<OpenDirectory<'v>>,
}

impl<'v> Reader<'v> {
    pub fn new(view: &'v RepoView) -> Self {
        Self { view, directory: None, around: None }
    }

    /// Reads a part of the next file, as [`read`] does.
    ///
    /// # Errors
    /// Those of [`read`].
    pub fn read(&mut self, want: &Slice, versions: Option<&Versions>) -> Result<Chunk, ReadError> {
        let file = match self.open(&want.path) {
            Some(file) => file,
            None => OpenFile::open(self.view, &want.path)?,
        };
        read_open(file, want, versions)
    }

    /// Opens a file in the directory of the file before, if that is possible.
    fn open(&mut self, path: &str) -> Option<OpenFile<'v>> {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        if self.directory.as_deref() != Some(directory) {
            (self.directory, self.around) = (Some(directory.to_owned()), None);
            return None;
        }
        if self.around.is_none() {
            self.around = OpenDirectory::around(self.view, path);
        }
        self.around.as_ref()?.open(path)
    }
}

/// Reads a part of a file. Links are followed inside the view. The version, if requested, belongs to exactly these
/// bytes.
///
/// # Errors
/// `View` for a path that cannot be resolved, `NotAFile` for another kind of file, `Binary` for a Scout, `TooLarge` for
/// a version of a file beyond [`MAX_READ`], and `Failed` with the error of the system.
pub fn read(
    view: &RepoView,
    want: &Slice,
    versions: Option<&Versions>,
) -> Result<Chunk, ReadError> {
    read_open(OpenFile::open(view, &want.path)?, want, versions)
}

fn read_open(
    open: OpenFile<'_>,
    want: &Slice,
    versions: Option<&Versions>,
) -> Result<Chunk, ReadError> {
    let length = want.length.unwrap_or(MAX_READ).min(MAX_READ);
    if !want.with_version {
        let (bytes, size) = (open.read(want.offset, length)?, open.size());
        return Ok(Chunk { path: open.path, bytes, size, version: None });
    }
    if open.view.profile() == Profile::Scout {
        open.check_text()?;
    }
    open.record_read();
    let size = open.file.size().map_err(|error| open.failed(&error))?;
    if size > want.version_bytes.unwrap_or(MAX_READ).min(MAX_READ) {
        return Err(ReadError::TooLarge { path: open.path, size });
    }
    let whole = read_at(&open.file, 0, size).map_err(|error| open.failed(&error))?;
    let path = open.path;
    let version = match versions {
        Some(versions) => versions.observe(&path, &digest(&whole)),
        None => Version { number: 1, digest: digest(&whole) },
    };
    let size = whole.len() as u64;
    let from = usize::try_from(want.offset.min(size)).unwrap_or(usize::MAX);
    let to = usize::try_from(want.offset.saturating_add(length).min(size)).unwrap_or(usize::MAX);
    let bytes = whole.get(from..to).unwrap_or_default().to_vec();
    Ok(Chunk { path, bytes, size, version: Some(version) })
}

/// Returns the version of a file whose content the caller does not need, because the file is to be deleted. A link is not
/// followed.
///
/// # Errors
/// `View` for a path that cannot be resolved, `NotAFile` for another kind of file, `TooLarge` for a file that is too large to
/// be deleted, and `Failed` with the error of the system.
pub fn version(
    view: &RepoView,
    path: &str,
    versions: Option<&Versions>,
) -> Result<Version, ReadError> {
    view.stop().go_on().map_err(ViewError::from)?;
    let OpenEntry { handle, path, kind, stat } = view.resolve("", path, FollowLinks::No)?;
    if kind != Kind::File {
        return Err(ReadError::NotAFile { path });
    }
    let digest = match handle {
        Handle::Overlay(bytes) => Ok(Some(digest(&bytes))),
        Handle::Real(fd) => digest_of(&File::from(fd), MAX_SEEN),
    };
    match digest {
        Ok(Some(digest)) => Ok(match versions {
            Some(versions) => versions.observe(&path, &digest),
            None => Version { number: 1, digest },
        }),
        Ok(None) => {
            let size = u64::try_from(stat.st_size).unwrap_or_default();
            Err(ReadError::TooLarge { path, size })
        }
        Err(error) => Err(ReadError::Failed { path, why: error.to_string() }),
    }
}

/// Reads at most `length` bytes, and fewer from a file that shrinks meanwhile.
pub(super) fn read_at(file: &Handle, offset: u64, length: u64) -> std::io::Result<Vec<u8>> {
    let length = usize::try_from(length).unwrap_or(0);
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let next = offset + bytes.len() as u64;
        if file.append_at(&mut bytes, next)? == 0 {
            break;
        }
    }
    // The allocator may have given more memory than was asked for.
    bytes.truncate(length);
    Ok(bytes)
}

/// Returns the handle if it is that of a regular file. The handle is checked and not the name, so that nothing can be
/// swapped between the check and the use.
pub(super) fn regular(fd: OwnedFd) -> Result<(OwnedFd, Stat), Errno> {
    let stat = rustix::fs::fstat(&fd)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((fd, stat)),
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::INVAL),
    }
}

/// Reads a whole file, or returns `None` when it has more than `most` bytes.
pub(super) fn read_whole(fd: OwnedFd, most: u64) -> std::io::Result<Option<Vec<u8>>> {
    match act_fs::read_bounded(File::from(fd), most) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => Ok(None),
        Err(error) => Err(error),
    }
}

/// The version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub number: u64,
    /// The SHA-256 digest of the bytes, as 64 lower-case hexadecimal digits.
    pub digest: String,
}

impl Version {
    /// Returns whether this is the expected version: the number satisfies the edit protocol, and the bytes are the ones that
    /// were read.
    pub fn is(&self, expected: &Self) -> bool {
        edit_protocol::expect(expected.number, self.number).is_ok()
            && self.digest == expected.digest
    }
}

/// The versions of the files of one task. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Versions(Arc<Mutex<BTreeMap<String, Version>>>);

impl Versions {
    /// Returns the version of a file whose bytes have this digest now.
    pub fn observe(&self, path: &str, digest: &str) -> Version {
        let mut known = self.known();
        let version = known
            .entry(path.to_owned())
            .or_insert_with(|| Version { number: 1, digest: digest.to_owned() });
        if version.digest != digest {
            version.number = version.number.saturating_add(1);
            version.digest = digest.to_owned();
        }
        version.clone()
    }

    /// Counts a write, also when the bytes are the old ones, and returns the new version.
    pub(super) fn written(&self, path: &str, digest: &str) -> Version {
        let mut known = self.known();
        let number = known.get(path).map_or(1, |version| version.number.saturating_add(1));
        let version = Version { number, digest: digest.to_owned() };
        known.insert(path.to_owned(), version.clone());
        version
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Version>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the SHA-256 digest of bytes as 64 lower-case hexadecimal digits.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::of(bytes).to_string()
}

/// Returns the hexadecimal digits of a digest, which may be written with or without `sha256:` before them.
pub fn bare_digest(digest: &str) -> &str {
    digest.strip_prefix("sha256:").unwrap_or(digest)
}

#[cfg(test)]
mod tests;
