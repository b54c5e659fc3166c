//! The copy view: the tree that the steps work in, made anew for each run from what git would know.
//!
//! The view is written by handle. Files get the two modes that git knows, so nothing setuid and nothing
//! unreadable travels; links stay links.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, fchmod, mkdirat, openat, symlinkat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use crate::workspace::{CopyEntry, CopyError, CopySet, Kind, READ_AT_ONCE, Tree, TreeBuilder};

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Copies the set into the empty directory `into`; the answer is the tree that the copy holds, digested from
/// the very bytes that were written. What is gone since it was listed is in neither.
pub(super) fn copy(set: &CopySet, into: OwnedFd, cancel: &CancellationToken) -> io::Result<Tree> {
    let mut at = Position { root: into, below: vec![] };
    let mut tree = TreeBuilder::default();
    let mut buffer = vec![0; READ_AT_ONCE];
    for entry in &set.entries {
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let Some((name, parents)) = split(&entry.path) else { continue };
        let content = match read(set, entry) {
            Ok(content) => content,
            Err(CopyError::Changed { .. }) => continue,
            Err(error) => return Err(io::Error::other(error)),
        };
        at.move_to(&parents)?;
        match content {
            Content::Link(target) => {
                make_link(&target, at.here(), name)?;
                tree.link(entry, &target);
            }
            Content::File(mut from) => {
                let mut to = make_file(entry, at.here(), name)?;
                tree.file(entry, &mut from, &mut buffer, &mut |bytes| match &mut to {
                    Some(to) => to.write_all(bytes),
                    None => Ok(()),
                })?;
                if let Some(to) = to {
                    // Build tools compare times.
                    to.set_modified(from.metadata()?.modified()?)?;
                }
            }
        }
    }
    Ok(tree.finish())
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

/// Makes an empty file to mount another one over.
pub(super) fn ensure_file(view: &OwnedFd, name: &str) -> io::Result<()> {
    match openat(view, name, NEW_FILE, Mode::RUSR | Mode::WUSR) {
        Ok(_) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// None for a path that is not plainly below the root.
fn split(path: &Path) -> Option<(&OsStr, Vec<&OsStr>)> {
    let parts = path.components().map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let mut parts = parts.collect::<Option<Vec<_>>>()?;
    Some((parts.pop()?, parts))
}

enum Content {
    File(File),
    Link(OsString),
}

fn read(set: &CopySet, entry: &CopyEntry) -> Result<Content, CopyError> {
    match entry.kind {
        Kind::Link => set.link_target(entry).map(Content::Link),
        _ => set.open(entry).map(Content::File),
    }
}

fn make_link(target: &OsStr, into: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match symlinkat(target, into, name) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// None for the same name in another letter case, where that is the same file.
fn make_file(entry: &CopyEntry, into: &OwnedFd, name: &OsStr) -> io::Result<Option<File>> {
    let file = match openat(into, name, NEW_FILE, Mode::RUSR | Mode::WUSR) {
        Ok(file) => file,
        Err(Errno::EXIST) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mode = if entry.is_executable() { 0o755 } else { 0o644 };
    // The umask must not decide what the steps see.
    fchmod(&file, Mode::from_raw_mode(mode))?;
    Ok(Some(file.into()))
}

/// Where the walk stands; entries come in order, so most share their parents with the one before.
struct Position {
    root: OwnedFd,
    below: Vec<(OsString, OwnedFd)>,
}

impl Position {
    fn here(&self) -> &OwnedFd {
        self.below.last().map_or(&self.root, |(_, handle)| handle)
    }

    fn move_to(&mut self, parents: &[&OsStr]) -> io::Result<()> {
        let common = self.below.iter().zip(parents).take_while(|(at, to)| at.0 == **to).count();
        self.below.truncate(common);
        for &name in parents.iter().skip(common) {
            let handle = make_directory(self.here(), name)?;
            self.below.push((name.to_owned(), handle));
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;
    use crate::workspace::PathGlobs;

    fn view(repo: &Path) -> tempfile::TempDir {
        let into = tempfile::tempdir().unwrap();
        let set = CopySet::of(repo, &PathGlobs::new(&[]).unwrap()).unwrap();
        let handle = fs::File::open(into.path()).unwrap().into();
        copy(&set, handle, &CancellationToken::new()).unwrap();
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
        fs::write(at(".gitignore"), "unlisted").unwrap();
        fs::write(at("unlisted"), "x").unwrap();
        symlink("../outside", at("a/link")).unwrap();

        let view = view(repo.path());

        let made = |path: &str| fs::symlink_metadata(view.path().join(path)).unwrap();
        assert_eq!(fs::read(view.path().join("a/b/run")).unwrap(), b"a/b/run");
        assert_eq!(made("a/b/run").permissions().mode() & 0o7777, 0o755);
        assert_eq!(made("a/file").permissions().mode() & 0o7777, 0o644);
        assert_eq!(made("top").mtime_nsec(), fs::metadata(at("top")).unwrap().mtime_nsec());
        assert_eq!(fs::read_link(view.path().join("a/link")).unwrap(), Path::new("../outside"));
        assert!(!view.path().join("unlisted").exists());
    }

    // VERIFIER-12, security line 115
    #[test]
    fn the_digest_is_that_of_the_bytes_that_the_steps_get() {
        let repo = tempfile::tempdir().unwrap();
        for name in ["changes", "stays", "vanishes"] {
            fs::write(repo.path().join(name), "as listed").unwrap();
        }
        let none = PathGlobs::new(&[]).unwrap();
        let set = CopySet::of(repo.path(), &none).unwrap();
        let listed = set.tree().unwrap();
        fs::write(repo.path().join("changes"), "later").unwrap();
        fs::remove_file(repo.path().join("vanishes")).unwrap();

        let into = tempfile::tempdir().unwrap();
        let handle = fs::File::open(into.path()).unwrap().into();
        let copied = copy(&set, handle, &CancellationToken::new()).unwrap();

        assert_ne!(copied, listed);
        assert_eq!(copied, CopySet::of(into.path(), &none).unwrap().tree().unwrap());
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
        let view = view(repo.path());
        let names: Vec<_> =
            fs::read_dir(view.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["dir"]);
        assert!(fs::symlink_metadata(view.path().join("dir")).unwrap().is_symlink());
    }
}
