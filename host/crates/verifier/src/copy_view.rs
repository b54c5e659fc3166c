//! The copy view: the tree that the steps work in, made anew for each run from what git would know.
//!
//! A directory is written by handle. Files get the two modes that git knows, so nothing setuid and nothing
//! unreadable travels; links stay links.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{Mode, fchmod, symlinkat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use act_records::artifacts::{Descent, make_directory};
use act_workspace::{CopyEntry, CopyError, CopySet, Kind, READ_AT_ONCE, Tree, TreeBuilder};

/// Where a copy goes: a directory of this machine, or an archive for an engine on another one.
pub(crate) trait Destination {
    fn link(&mut self, path: &Path, target: &OsStr) -> io::Result<()>;
    /// Begins a file; `about` is that of the open original.
    fn file(&mut self, entry: &CopyEntry, about: &Metadata) -> io::Result<()>;
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// As many bytes were written as `about` said.
    fn end_file(&mut self, about: &Metadata) -> io::Result<()>;
}

/// Copies the set; the answer is the tree that the copy holds, digested from the very bytes that were written.
/// What is gone since it was listed is in neither.
pub(crate) fn copy(
    set: &CopySet,
    into: &mut dyn Destination,
    cancel: &CancellationToken,
) -> io::Result<Tree> {
    let mut tree = TreeBuilder::default();
    let mut buffer = vec![0; READ_AT_ONCE];
    for entry in &set.entries {
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if split(&entry.path).is_none() {
            continue;
        }
        let content = match read(set, entry) {
            Ok(content) => content,
            Err(CopyError::Changed { .. }) => continue,
            Err(error) => return Err(io::Error::other(error)),
        };
        match content {
            Content::Link(target) => {
                into.link(&entry.path, &target)?;
                tree.link(entry, &target);
            }
            Content::File(from) => {
                let about = from.metadata()?;
                into.file(entry, &about)?;
                let mut exactly = Exactly { from, left: about.len() };
                tree.file(entry, &mut exactly, &mut buffer, &mut |bytes| into.write(bytes))?;
                into.end_file(&about)?;
            }
        }
    }
    Ok(tree.finish())
}

/// As many bytes as a file had when it was opened, whatever happens to it meanwhile: if it changes, the digest
/// after the run tells.
struct Exactly {
    from: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(into.len());
        let Some(into) = into.get_mut(..most).filter(|into| !into.is_empty()) else { return Ok(0) };
        let count = match self.from.read(into)? {
            0 => {
                into.fill(0);
                most
            }
            count => count,
        };
        self.left -= count as u64;
        Ok(count)
    }
}

/// An empty directory of this machine.
pub(crate) struct Directory {
    at: Descent,
    open: Option<File>,
}

impl Directory {
    pub(crate) fn new(root: OwnedFd) -> Self {
        Self { at: Descent::new(root), open: None }
    }

    fn stand_above<'a>(&mut self, path: &'a Path) -> io::Result<&'a OsStr> {
        let (name, parents) = split(path).ok_or(io::ErrorKind::InvalidFilename)?;
        self.at.move_to(&parents)?;
        Ok(name)
    }
}

impl Destination for Directory {
    fn link(&mut self, path: &Path, target: &OsStr) -> io::Result<()> {
        let name = self.stand_above(path)?;
        make_link(target, self.at.here(), name)
    }

    fn file(&mut self, entry: &CopyEntry, _: &Metadata) -> io::Result<()> {
        let name = self.stand_above(&entry.path)?;
        self.open = make_file(entry, self.at.here(), name)?;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.open.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    fn end_file(&mut self, about: &Metadata) -> io::Result<()> {
        // Build tools compare times.
        self.open.take().map_or(Ok(()), |file| file.set_modified(about.modified()?))
    }
}

/// Makes directories that must exist in the view whatever the tree holds.
pub(crate) fn ensure_directory(view: &OwnedFd, path: &Path) -> io::Result<()> {
    let mut at = view.try_clone()?;
    for part in path.components() {
        if let Component::Normal(name) = part {
            at = make_directory(&at, name)?;
        }
    }
    Ok(())
}

/// Makes an empty file to mount another one over.
pub(crate) fn ensure_file(view: &OwnedFd, name: &str) -> io::Result<()> {
    match act_fs::create(view, name) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
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
    let file = match act_fs::create(into, name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        file => file?,
    };
    let mode = if entry.is_executable() { 0o755 } else { 0o644 };
    // The umask must not decide what the steps see.
    fchmod(&file, Mode::from_raw_mode(mode))?;
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;
    use act_workspace::PathGlobs;

    fn view(repo: &Path) -> tempfile::TempDir {
        let into = tempfile::tempdir().unwrap();
        let set = CopySet::of(repo, &PathGlobs::new(&[]).unwrap()).unwrap();
        let handle = fs::File::open(into.path()).unwrap().into();
        copy(&set, &mut Directory::new(handle), &CancellationToken::new()).unwrap();
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
        let copied = copy(&set, &mut Directory::new(handle), &CancellationToken::new()).unwrap();

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
