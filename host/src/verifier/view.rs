//! The copy view: the tree that the steps work in, made anew for each run from what git would know.
//!
//! Both sides are reached by handle, component by component and through no link. Files get the two modes that
//! git knows, so nothing setuid and nothing unreadable travels; links stay links.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps, fchmod, fstat, futimens, mkdirat,
    openat, readlinkat, statat, symlinkat,
};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Copies `paths` from the repository into the empty directory `into`. A path that is gone by now, or is no
/// file or link any more, is left out: the digests before and after tell of a tree that moved.
pub(super) fn copy(
    repo: &Path,
    paths: &[PathBuf],
    into: OwnedFd,
    cancel: &CancellationToken,
) -> io::Result<()> {
    let mut at = Position { root: (open_root(repo)?, into), below: vec![] };
    for path in paths {
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let (Some(name), Some(parents)) = (path.file_name(), parents(path)) else { continue };
        if at.move_to(&parents)? {
            copy_entry(at.source(), at.target(), name)?;
        }
    }
    Ok(())
}

/// Makes directories that must exist in the view whatever the tree holds.
pub(super) fn ensure_directory(view: &OwnedFd, path: &Path) -> io::Result<()> {
    let mut at = view.try_clone()?;
    for part in path.components() {
        if let Component::Normal(name) = part {
            at = make_directory(&at, name)?;
        }
    }
    Ok(())
}

/// Whether the repository has a `.git` that can be mounted: a real directory. A link there would mount
/// whatever the repository's author chose.
pub(super) fn has_git_directory(repo: &Path) -> io::Result<bool> {
    match statat(open_root(repo)?, ".git", AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(kind(&stat) == FileType::Directory),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn open_root(repo: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(repo, DIRECTORY, Mode::empty())?)
}

/// None for a path that is not plainly below the root, or lies in some `.git`.
fn parents(path: &Path) -> Option<Vec<&OsStr>> {
    let parts = path.components().map(|part| match part {
        Component::Normal(name) if !name.eq_ignore_ascii_case(".git") => Some(name),
        _ => None,
    });
    let mut parts = parts.collect::<Option<Vec<_>>>()?;
    parts.pop()?;
    Some(parts)
}

/// Where the walk stands on both sides; paths come sorted, so most share their parents with the one before.
struct Position {
    root: (OwnedFd, OwnedFd),
    below: Vec<(OsString, OwnedFd, OwnedFd)>,
}

impl Position {
    fn source(&self) -> &OwnedFd {
        self.below.last().map_or(&self.root.0, |(_, source, _)| source)
    }

    fn target(&self) -> &OwnedFd {
        self.below.last().map_or(&self.root.1, |(_, _, target)| target)
    }

    /// False when the source is no directory any more.
    fn move_to(&mut self, parents: &[&OsStr]) -> io::Result<bool> {
        let common = self.below.iter().zip(parents).take_while(|(at, to)| at.0 == **to).count();
        self.below.truncate(common);
        for &name in parents.iter().skip(common) {
            let source = match openat(self.source(), name, DIRECTORY, Mode::empty()) {
                Ok(source) => source,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            let target = make_directory(self.target(), name)?;
            self.below.push((name.to_owned(), source, target));
        }
        Ok(true)
    }
}

fn make_directory(parent: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let created = mkdirat(parent, name, Mode::RWXU);
    let handle = match created {
        Ok(()) | Err(Errno::EXIST) => openat(parent, name, DIRECTORY, Mode::empty())?,
        Err(error) => return Err(error.into()),
    };
    if created.is_ok() {
        // The umask must not decide what the steps see.
        fchmod(&handle, Mode::from_raw_mode(0o755))?;
    }
    Ok(handle)
}

fn copy_entry(source: &OwnedFd, target: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let stat = match statat(source, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    match kind(&stat) {
        FileType::RegularFile => copy_file(source, target, name),
        FileType::Symlink => match readlinkat(source, name, vec![]) {
            Ok(to) => match symlinkat(&to, target, name) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(error) => Err(error.into()),
            },
            Err(Errno::NOENT | Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        },
        // A submodule's place.
        FileType::Directory => make_directory(target, name).map(drop),
        _ => Ok(()),
    }
}

fn copy_file(source: &OwnedFd, target: &OwnedFd, name: &OsStr) -> io::Result<()> {
    // Non-blocking: a FIFO that took the file's place must not hold us.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let from = match openat(source, name, flags, Mode::empty()) {
        Ok(from) => from,
        Err(Errno::NOENT | Errno::LOOP) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let stat = fstat(&from)?;
    if kind(&stat) != FileType::RegularFile {
        return Ok(());
    }
    let to = match openat(target, name, NEW_FILE, Mode::RUSR | Mode::WUSR) {
        Ok(to) => to,
        // Named twice, or once more in another letter case.
        Err(Errno::EXIST) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let (mut from, mut to) = (File::from(from), File::from(to));
    io::copy(&mut from, &mut to)?;
    let executable = Mode::from_raw_mode(stat.st_mode).contains(Mode::XUSR);
    fchmod(&to, Mode::from_raw_mode(if executable { 0o755 } else { 0o644 }))?;
    // Build tools compare times.
    let modified = Timespec { tv_sec: stat.st_mtime as _, tv_nsec: stat.st_mtime_nsec as _ };
    Ok(futimens(&to, &Timestamps { last_access: modified, last_modification: modified })?)
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn view(repo: &Path, paths: &[&str]) -> tempfile::TempDir {
        let into = tempfile::tempdir().unwrap();
        let paths: Vec<_> = paths.iter().map(PathBuf::from).collect();
        let handle = fs::File::open(into.path()).unwrap().into();
        copy(repo, &paths, handle, &CancellationToken::new()).unwrap();
        into
    }

    // VERIFIER-4
    #[test]
    fn copies_content_times_links_and_gits_two_modes() {
        let repo = tempfile::tempdir().unwrap();
        let at = |path: &str| repo.path().join(path);
        fs::create_dir_all(at("a/b")).unwrap();
        for (path, mode) in [("a/b/run", 0o4711), ("a/file", 0o600), ("top", 0o664)] {
            fs::write(at(path), path).unwrap();
            fs::set_permissions(at(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::write(at("unlisted"), "x").unwrap();
        symlink("../outside", at("a/link")).unwrap();

        let view = view(repo.path(), &["a/b/run", "a/file", "a/link", "top"]);

        let made = |path: &str| fs::symlink_metadata(view.path().join(path)).unwrap();
        assert_eq!(fs::read(view.path().join("a/b/run")).unwrap(), b"a/b/run");
        assert_eq!(made("a/b/run").permissions().mode() & 0o7777, 0o755);
        assert_eq!(made("a/file").permissions().mode() & 0o7777, 0o644);
        assert_eq!(made("top").mtime_nsec(), fs::metadata(at("top")).unwrap().mtime_nsec());
        assert_eq!(fs::read_link(view.path().join("a/link")).unwrap(), Path::new("../outside"));
        assert!(!view.path().join("unlisted").exists());
    }

    // VERIFIER-4
    #[test]
    fn leaves_out_what_lies_behind_a_link_or_is_no_file_and_never_blocks() {
        let (repo, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret"), "secret").unwrap();
        symlink(outside.path(), repo.path().join("dir")).unwrap();
        fs::create_dir(repo.path().join(".git")).unwrap();
        fs::write(repo.path().join(".git/config"), "token").unwrap();
        let fifo = repo.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let named = ["../escape", "/etc/passwd", ".git/config", "dir/secret", "fifo", "gone"];
        let view = view(repo.path(), &named);
        assert_eq!(fs::read_dir(view.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_a_real_git_directory_is_mounted() {
        let repo = tempfile::tempdir().unwrap();
        let has = || has_git_directory(repo.path()).unwrap();
        assert!(!has());
        symlink("/", repo.path().join(".git")).unwrap();
        assert!(!has());
        fs::remove_file(repo.path().join(".git")).unwrap();
        fs::create_dir(repo.path().join(".git")).unwrap();
        assert!(has());
    }
}
