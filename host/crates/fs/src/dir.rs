//! One open directory, and everything that is done with a single name in it.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::path::Arg;

/// Flags that open a file for reading. A FIFO or a device opens as well, without blocking, so the caller judges the
/// handle; [`Dir::file`] does.
pub const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Flags that create a file for writing; an existing name is an error.
pub const NEW: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Flags that open a directory for listing it and for opening names in it.
pub const DIRECTORY: OFlags = READ.union(OFlags::DIRECTORY);

/// An open directory. Names are looked up inside it, and no link is followed.
#[derive(Debug)]
pub struct Dir(File);

impl Dir {
    /// Opens the directory at `path`. Links on the way are followed, a link as the last name is not.
    ///
    /// # Errors
    /// The error of the system; a link or another kind of file is `NotADirectory`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(rustix::fs::open(path, DIRECTORY, Mode::empty())?.into())
    }

    /// Opens the directory at `path`, which the user named: a link as the last name is followed as well.
    ///
    /// # Errors
    /// The error of the system.
    pub fn open_following(path: &Path) -> io::Result<Self> {
        let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
        Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
    }

    /// Opens the directory once more. An advisory lock belongs to the handle, so it is not shared with this one.
    ///
    /// # Errors
    /// The error of the system.
    pub fn reopen(&self) -> io::Result<Self> {
        self.subdirectory(".")
    }

    /// Returns another owner of the same handle. A lock is shared with this one.
    ///
    /// # Errors
    /// The process has no free file descriptor.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Opens a directory in this one.
    ///
    /// # Errors
    /// `NotFound` for a missing name, `NotADirectory` for a link or another kind of file.
    pub fn subdirectory(&self, name: impl Arg) -> io::Result<Self> {
        Ok(rustix::fs::openat(self, name, DIRECTORY, Mode::empty())?.into())
    }

    /// Opens a directory in this one, or returns `None` when the name is missing.
    ///
    /// # Errors
    /// The errors of [`Dir::subdirectory`], without `NotFound`.
    pub fn existing_subdirectory(&self, name: impl Arg) -> io::Result<Option<Self>> {
        absent_as_none(self.subdirectory(name))
    }

    /// Opens a directory in this one, and creates it with mode 0700 when it is missing. An existing directory keeps
    /// its mode.
    ///
    /// # Errors
    /// A link or another kind of file under the name is refused.
    pub fn private_subdirectory(&self, name: impl Arg + Copy) -> io::Result<Self> {
        match self.create_subdirectory(name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.subdirectory(name),
            created => created,
        }
    }

    /// Creates a directory with mode 0700 in this one and opens it.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken.
    pub fn create_subdirectory(&self, name: impl Arg + Copy) -> io::Result<Self> {
        rustix::fs::mkdirat(self, name, Mode::RWXU)?;
        self.subdirectory(name)
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// `NotFound` for a missing name; any other kind of file, a link included, is refused.
    pub fn file(&self, name: impl Arg) -> io::Result<File> {
        file(self, name)
    }

    /// Reads a regular file of at most `most` bytes.
    ///
    /// # Errors
    /// The errors of [`Dir::file`]; `FileTooLarge` when the file has more bytes.
    pub fn read(&self, name: impl Arg, most: u64) -> io::Result<Vec<u8>> {
        read_bounded(self.file(name)?, most)
    }

    /// Reads a regular file of at most `most` bytes, or returns `None` when the name is missing.
    ///
    /// # Errors
    /// The errors of [`Dir::read`], without `NotFound`.
    pub fn read_existing(&self, name: impl Arg, most: u64) -> io::Result<Option<Vec<u8>>> {
        absent_as_none(self.read(name, most))
    }

    /// Creates a file with mode 0600 for writing.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken.
    pub fn create(&self, name: impl Arg) -> io::Result<File> {
        create(self, name)
    }

    /// Removes a file, a link or another name that is not a directory. A missing name is not an error.
    ///
    /// # Errors
    /// The error of the system.
    pub fn remove_file(&self, name: impl Arg) -> io::Result<()> {
        match rustix::fs::unlinkat(self, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Renames an entry within this directory, and replaces an entry that already has the new name.
    ///
    /// # Errors
    /// The error of the system.
    pub fn rename(&self, from: impl Arg, to: impl Arg) -> io::Result<()> {
        Ok(rustix::fs::renameat(self, from, self, to)?)
    }

    /// Returns the metadata of a name; for a link, those of the link itself.
    ///
    /// # Errors
    /// `NotFound` for a missing name.
    pub fn stat(&self, name: impl Arg) -> io::Result<Stat> {
        Ok(rustix::fs::statat(self, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Returns whether the directory has an entry with this name: a file, a directory, a link or anything else.
    ///
    /// # Errors
    /// The error of the system.
    pub fn contains(&self, name: impl Arg) -> io::Result<bool> {
        Ok(absent_as_none(self.stat(name))?.is_some())
    }

    /// Returns at most `most` names of the directory, in no order.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn names(&self, most: usize) -> io::Result<Vec<CString>> {
        let mut names = vec![];
        for entry in rustix::fs::Dir::read_from(self)? {
            let entry = entry?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            if names.len() == most {
                break;
            }
            names.push(entry.file_name().to_owned());
        }
        Ok(names)
    }

    /// Returns which directory this is.
    ///
    /// # Errors
    /// The error of the system.
    pub fn identity(&self) -> io::Result<Identity> {
        Identity::of_handle(self)
    }

    /// Writes the directory's own entries to the disk.
    ///
    /// # Errors
    /// The error of the system.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(self)?)
    }
}

impl Dir {
    pub(super) fn as_file(&self) -> &File {
        &self.0
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for Dir {
    fn from(handle: OwnedFd) -> Self {
        Self(handle.into())
    }
}

impl From<File> for Dir {
    fn from(handle: File) -> Self {
        Self(handle)
    }
}

impl From<Dir> for OwnedFd {
    fn from(dir: Dir) -> Self {
        dir.0.into()
    }
}

/// Device and inode of a file, which identify it as long as it exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: rustix::fs::Dev,
    inode: u64,
}

impl Identity {
    /// Returns the identity of an open file.
    ///
    /// # Errors
    /// The error of the system.
    pub fn of_handle(handle: impl AsFd) -> io::Result<Self> {
        Ok(Self::of_stat(&rustix::fs::fstat(handle)?))
    }

    pub fn of_stat(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// Returns the metadata of an open file after checking that it belongs to the caller and that other users have no access.
///
/// # Errors
/// `PermissionDenied` when it belongs to another user, or when group or others have any permission.
pub fn check_private(handle: impl AsFd) -> io::Result<Stat> {
    let stat = rustix::fs::fstat(handle)?;
    let others = Mode::RWXG | Mode::RWXO;
    if stat.st_uid != rustix::process::geteuid().as_raw()
        || Mode::from_raw_mode(stat.st_mode).intersects(others)
    {
        return Err(Errno::PERM.into());
    }
    Ok(stat)
}

/// Opens a regular file for reading, like [`Dir::file`], in a directory that is held as a plain descriptor.
///
/// # Errors
/// The errors of [`Dir::file`].
pub fn file(dir: impl AsFd, name: impl Arg) -> io::Result<File> {
    regular(rustix::fs::openat(dir, name, READ, Mode::empty())?.into())
}

/// Creates a file with mode 0600, like [`Dir::create`], in a directory that is held as a plain descriptor.
///
/// # Errors
/// The errors of [`Dir::create`].
pub fn create(dir: impl AsFd, name: impl Arg) -> io::Result<File> {
    Ok(rustix::fs::openat(dir, name, NEW, Mode::RUSR | Mode::WUSR)?.into())
}

/// Returns `file` if it is a regular file.
///
/// # Errors
/// Any other kind of file is refused.
pub fn regular(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// Reads an open file from its position to its end.
///
/// # Errors
/// `FileTooLarge` when more than `most` bytes are left; no more than one byte beyond `most` is read.
pub fn read_bounded(file: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let bytes = read_first(file, most.saturating_add(1))?;
    match bytes.len() as u64 > most {
        false => Ok(bytes),
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {most} bytes"),
        )),
    }
}

/// Reads the first `most` bytes that are left.
///
/// # Errors
/// The error of the system.
pub fn read_first(file: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the last `most` bytes of a file. Returns them with the number of bytes before them.
///
/// # Errors
/// The error of the system.
pub fn read_last(mut file: &File, most: u64) -> io::Result<(Vec<u8>, u64)> {
    let before = file.metadata()?.len().saturating_sub(most);
    file.seek(SeekFrom::Start(before))?;
    Ok((read_first(file, most)?, before))
}

fn absent_as_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn open() -> (tempfile::TempDir, Dir) {
        let temporary = tempfile::tempdir().unwrap();
        let dir = Dir::open(temporary.path()).unwrap();
        (temporary, dir)
    }

    #[test]
    fn a_private_directory_is_created_once_and_never_reached_through_a_link() {
        let (temporary, dir) = open();
        dir.private_subdirectory("a").unwrap();
        dir.private_subdirectory("a").unwrap();
        let mode = fs::metadata(temporary.path().join("a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        symlink("a", temporary.path().join("link")).unwrap();
        assert!(dir.private_subdirectory("link").is_err());
        assert!(dir.existing_subdirectory("link").is_err());
        assert!(dir.existing_subdirectory("missing").unwrap().is_none());
    }

    #[test]
    fn a_read_is_bounded_and_takes_regular_files_only() {
        let (temporary, dir) = open();
        fs::write(temporary.path().join("file"), "12345").unwrap();
        symlink("file", temporary.path().join("link")).unwrap();
        assert_eq!(dir.read("file", 5).unwrap(), b"12345");
        assert_eq!(dir.read("file", 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert!(dir.read("link", 5).is_err());
        assert!(dir.read(".", 5).is_err());
        assert_eq!(dir.read_existing("missing", 5).unwrap(), None);
        assert_eq!(dir.names(1).unwrap().len(), 1);
        assert_eq!(dir.names(9).unwrap().len(), 2);
    }

    #[test]
    fn the_beginning_and_the_end_of_a_file_are_read_up_to_a_bound() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("file");
        std::fs::write(&path, "0123456789").unwrap();
        let open = || File::open(&path).unwrap();
        assert_eq!(read_first(open(), 4).unwrap(), b"0123");
        assert_eq!(read_first(open(), 40).unwrap(), b"0123456789");
        assert_eq!(read_last(&open(), 4).unwrap(), (b"6789".to_vec(), 6));
        assert_eq!(read_last(&open(), 40).unwrap(), (b"0123456789".to_vec(), 0));
        assert!(read_bounded(open(), 9).is_err());
        assert_eq!(read_bounded(open(), 10).unwrap(), b"0123456789");
    }

    #[test]
    fn a_directory_that_others_can_list_is_not_private() {
        let (temporary, dir) = open();
        let set = |mode| {
            fs::set_permissions(temporary.path(), fs::Permissions::from_mode(mode)).unwrap();
        };
        set(0o700);
        assert!(check_private(&dir).is_ok());
        set(0o750);
        let refused = check_private(&dir).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }
}
