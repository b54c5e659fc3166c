//! Files by which the user or the administrator decides what a program may do: who may have written them.
//!
//! Such a file counts only if no other user can have written it. Every directory and file is opened by handle without
//! following a link in the last step, and the file is read through the handle that was checked.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, Stat};
use rustix::io::Errno;

use crate::{Dir, Identity, READ, read_bounded};

/// Maximum number of directories above one that are checked. No path has as many.
const MAX_PARENTS: usize = 512;

/// Returns the directory of the user's decisions: `$XDG_CONFIG_HOME/act`, or else `~/.config/act`. `None` without a home
/// directory.
pub fn user_directory() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(base.join("act"))
}

/// Who must own a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The caller owns the file, and no other user can read it.
    Caller,
    /// Root owns the file, and other users can read it.
    Root,
    /// The caller takes the place of root, in tests.
    #[cfg(debug_assertions)]
    CallerAsRoot,
}

impl Owner {
    fn refuses(self, stat: &Stat) -> Option<String> {
        let caller = rustix::process::geteuid().as_raw();
        let mode = stat.st_mode & 0o777;
        let (uid, others, want) = match self {
            Self::Caller => (caller, 0o077, "0600 and owned by you"),
            Self::Root => (0, 0o022, "owned by root and writable by root only"),
            #[cfg(debug_assertions)]
            Self::CallerAsRoot => (caller, 0o022, "writable by its owner only"),
        };
        let fits = stat.st_uid == uid && mode & others == 0;
        (!fits).then(|| format!("has mode {mode:04o} and owner {}, it must be {want}", stat.st_uid))
    }
}

/// Opens the directory of a file that counts only if it is trusted; `None` if it does not exist. Links to the directory are
/// followed, because the checks are made on the directory to which they lead.
///
/// # Errors
///
/// A message that follows the path of the file: the directory or one above it can be written by others, it lies in the
/// repository, or it cannot be opened.
pub fn open_directory(
    path: &Path,
    repo: Option<&Path>,
    owner: Owner,
) -> Result<Option<Dir>, String> {
    let dir = match Dir::open_following(path) {
        Ok(dir) => dir,
        // The target may be on a disk that is not mounted now, so a dangling link is not an absent directory.
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_symlink() => {
            return Err("is behind a broken link".to_owned());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be opened: {error}")),
    };
    let stat = rustix::fs::fstat(&dir).map_err(|errno| format!("cannot be inspected: {errno}"))?;
    let caller = rustix::process::geteuid().as_raw();
    let is_ours = stat.st_uid == 0 || (owner != Owner::Root && stat.st_uid == caller);
    if !is_ours || stat.st_mode & 0o022 != 0 {
        return Err("lies in a directory that others can write".to_owned());
    }
    check_parents(&dir, repo)?;
    Ok(Some(dir))
}

/// Checks the directory and all directories above it: none of them is the repository or can be written by everybody, who
/// could then replace the directory. Directories are compared by device and inode, because a path can be spelled in many
/// ways.
fn check_parents(dir: &Dir, repo: Option<&Path>) -> Result<(), String> {
    let repo = repo.map(std::fs::metadata).transpose().map_err(|error| error.to_string())?;
    let unreadable =
        |error: io::Error| format!("lies in a directory that cannot be inspected: {error}");
    let mut at = dir.try_clone().map_err(|error| error.to_string())?;
    for _ in 0..MAX_PARENTS {
        let stat = rustix::fs::fstat(&at).map_err(|errno| unreadable(errno.into()))?;
        let is_here =
            |repo: &Metadata| (stat.st_dev as u64, stat.st_ino as u64) == (repo.dev(), repo.ino());
        if repo.as_ref().is_some_and(is_here) {
            let why = "lies inside of the repository in use, which must not decide this";
            return Err(why.to_owned());
        }
        // The sticky bit, as `/tmp` has it, keeps others from replacing what they do not own.
        if stat.st_mode & 0o1002 == 0o002 {
            return Err("lies below a directory that everybody can write".to_owned());
        }
        let parent = at.subdirectory("..").map_err(unreadable)?;
        if parent.identity().map_err(unreadable)? == Identity::of_stat(&stat) {
            return Ok(());
        }
        at = parent;
    }
    Err("lies too deep".to_owned())
}

/// Reads the text of a file; `None` if there is no file.
///
/// # Errors
///
/// A message that follows the path of the file: it is a link or no regular file, has the wrong owner or mode, is larger
/// than `max` bytes, or cannot be read.
pub fn read_text(dir: &Dir, name: &str, max: u64, owner: Owner) -> Result<Option<String>, String> {
    let file = match rustix::fs::openat(dir, name, READ, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err("is a symbolic link, not a file".to_owned()),
        Err(errno) => return Err(format!("cannot be opened: {errno}")),
    };
    let stat = rustix::fs::fstat(&file).map_err(|errno| format!("cannot be inspected: {errno}"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err("is not a regular file".to_owned());
    }
    if let Some(why) = owner.refuses(&stat) {
        return Err(why);
    }
    let bytes = read_bounded(File::from(file), max).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => format!("is larger than {max} bytes"),
        _ => format!("cannot be read: {error}"),
    })?;
    String::from_utf8(bytes).map(Some).map_err(|_| "is not UTF-8 text".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn fixture() -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("config/act")).unwrap();
        fs::create_dir_all(temp.path().join("repo")).unwrap();
        temp
    }

    fn read(temp: &Path) -> Result<Option<String>, String> {
        match open_directory(&temp.join("config/act"), Some(&temp.join("repo")), Owner::Caller)? {
            Some(dir) => read_text(&dir, "grants.toml", 100, Owner::Caller),
            None => Ok(None),
        }
    }

    fn write(temp: &Path, mode: u32) {
        let file = temp.join("config/act/grants.toml");
        fs::write(&file, "x = 1").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    }

    // CAPABILITY-23, security line 41
    #[test]
    fn only_a_file_that_nobody_else_could_have_written_counts() {
        let temp = fixture();
        assert_eq!(read(temp.path()), Ok(None));
        write(temp.path(), 0o600);
        assert_eq!(read(temp.path()).unwrap().as_deref(), Some("x = 1"));
        for mode in [0o640, 0o604, 0o666] {
            write(temp.path(), mode);
            assert!(read(temp.path()).unwrap_err().contains("0600"), "{mode:o}");
        }
        write(temp.path(), 0o600);
        let dir = temp.path().join("config/act");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(read(temp.path()).unwrap_err().contains("others can write"));
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        let above = temp.path().join("config");
        fs::set_permissions(&above, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(read(temp.path()).unwrap_err().contains("everybody can write"));
        fs::set_permissions(&above, fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(read(temp.path()).is_ok_and(|text| text.is_some()));
        fs::rename(dir.join("grants.toml"), dir.join("real")).unwrap();
        symlink("real", dir.join("grants.toml")).unwrap();
        assert!(read(temp.path()).unwrap_err().contains("symbolic link"));
        fs::remove_file(dir.join("grants.toml")).unwrap();
        let kind = FileType::Fifo;
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.join("grants.toml"),
            kind,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(read(temp.path()).unwrap_err().contains("not a regular file"));
    }

    // CAPABILITY-23, security line 41
    #[test]
    fn a_file_that_really_lies_in_the_repository_is_refused() {
        let temp = fixture();
        fs::create_dir_all(temp.path().join("repo/inside/act")).unwrap();
        fs::write(temp.path().join("repo/inside/act/grants.toml"), "x = 1").unwrap();
        fs::remove_dir_all(temp.path().join("config")).unwrap();
        symlink("repo/inside", temp.path().join("config")).unwrap();
        assert!(read(temp.path()).unwrap_err().contains("inside of the repository"));
    }
}
