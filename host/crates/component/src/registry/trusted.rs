//! Files that decide what is granted count only when nobody but their owner could have written them.
//!
//! Opened by handle: the directory first, then the file in it without following a link, and what was judged is what
//! is read.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, Stat};
use rustix::io::Errno;

use act_fs::{Dir, Identity, READ, read_bounded};

/// Directories above one, more than any path has.
const MAX_ABOVE: usize = 512;

/// Whose file it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The caller's, and closed to everybody else.
    Caller,
    /// The administrator's; others may read it.
    Root,
    /// The caller's in place of the administrator's, for tests.
    #[cfg(debug_assertions)]
    CallerAsRoot,
}

impl Owner {
    fn refuses(self, stat: &Stat) -> Option<String> {
        let caller = rustix::process::geteuid().as_raw();
        let mode = stat.st_mode & 0o777;
        let (uid, others, want) = match self {
            Self::Caller => (caller, 0o077, "0600 and yours"),
            Self::Root => (0, 0o022, "root's and writable by root alone"),
            #[cfg(debug_assertions)]
            Self::CallerAsRoot => (caller, 0o022, "writable by its owner alone"),
        };
        let fits = stat.st_uid == uid && mode & others == 0;
        (!fits).then(|| format!("has mode {mode:04o} and owner {}, it must be {want}", stat.st_uid))
    }
}

/// The directory, none when there is none. Links on the way are the user's own; what counts is where they lead.
pub(super) fn directory(
    path: &Path,
    repo: Option<&Path>,
    owner: Owner,
) -> Result<Option<Dir>, String> {
    let dir = match Dir::open_following(path) {
        Ok(dir) => dir,
        // The target may be on a disk that is not mounted now, so a dangling link is not an absent directory.
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_symlink() => {
            return Err("lies behind a link that leads nowhere".to_owned());
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be opened: {error}")),
    };
    let stat = rustix::fs::fstat(&dir).map_err(|errno| format!("cannot be looked at: {errno}"))?;
    let caller = rustix::process::geteuid().as_raw();
    let ours = stat.st_uid == 0 || (owner != Owner::Root && stat.st_uid == caller);
    if !ours || stat.st_mode & 0o022 != 0 {
        return Err("lies in a directory that others can write".to_owned());
    }
    look_above(&dir, repo)?;
    Ok(Some(dir))
}

/// From the open directory upwards: by identity, not by spelling. Whoever can write a directory above could have
/// put another one in the place of this.
fn look_above(dir: &Dir, repo: Option<&Path>) -> Result<(), String> {
    let repo = repo.map(std::fs::metadata).transpose().map_err(|error| error.to_string())?;
    let cannot = |errno: Errno| format!("lies in a directory that cannot be looked at: {errno}");
    let unreadable = |error| format!("lies in a directory that cannot be looked at: {error}");
    let mut at = dir.try_clone().map_err(|error| error.to_string())?;
    for _ in 0..MAX_ABOVE {
        let here = rustix::fs::fstat(&at).map_err(cannot)?;
        let is_here =
            |repo: &Metadata| (here.st_dev as u64, here.st_ino as u64) == (repo.dev(), repo.ino());
        if repo.as_ref().is_some_and(is_here) {
            let why = "lies inside of the repository in use, which cannot grant anything";
            return Err(why.to_owned());
        }
        if here.st_mode & 0o1002 == 0o002 {
            return Err("lies below a directory that everybody can write".to_owned());
        }
        let above = at.subdirectory("..").map_err(unreadable)?;
        if above.identity().map_err(unreadable)? == Identity::of_stat(&here) {
            return Ok(());
        }
        at = above;
    }
    Err("lies too deep".to_owned())
}

/// The text of a file, none when there is none.
pub(super) fn text(
    dir: &Dir,
    name: &str,
    most: u64,
    owner: Owner,
) -> Result<Option<String>, String> {
    let file = match rustix::fs::openat(dir, name, READ, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err("is a symbolic link, not a file".to_owned()),
        Err(errno) => return Err(format!("cannot be opened: {errno}")),
    };
    let stat = rustix::fs::fstat(&file).map_err(|errno| format!("cannot be looked at: {errno}"))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err("is no regular file".to_owned());
    }
    if let Some(why) = owner.refuses(&stat) {
        return Err(why);
    }
    let bytes = read_bounded(File::from(file), most).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => format!("is larger than {most} bytes"),
        _ => format!("cannot be read: {error}"),
    })?;
    String::from_utf8(bytes).map(Some).map_err(|_| "is no UTF-8 text".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn place() -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("config/act")).unwrap();
        fs::create_dir_all(temp.path().join("repo")).unwrap();
        temp
    }

    fn read(temp: &Path) -> Result<Option<String>, String> {
        match directory(&temp.join("config/act"), Some(&temp.join("repo")), Owner::Caller)? {
            Some(dir) => text(&dir, "grants.toml", 100, Owner::Caller),
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
        let temp = place();
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
        assert!(read(temp.path()).unwrap_err().contains("no regular file"));
    }

    // CAPABILITY-23, security line 41
    #[test]
    fn a_file_that_really_lies_in_the_repository_is_refused() {
        let temp = place();
        fs::create_dir_all(temp.path().join("repo/inside/act")).unwrap();
        fs::write(temp.path().join("repo/inside/act/grants.toml"), "x = 1").unwrap();
        fs::remove_dir_all(temp.path().join("config")).unwrap();
        symlink("repo/inside", temp.path().join("config")).unwrap();
        assert!(read(temp.path()).unwrap_err().contains("inside of the repository"));
    }
}
