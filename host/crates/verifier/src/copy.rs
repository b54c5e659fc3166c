//! Copies the tree that a run verifies, into a directory of this machine or into an archive for an engine on another
//! machine. The digest of the tree is computed from the very bytes that are copied.
//!
//! Files get one of the two modes that git knows, so no setuid bit and no unreadable file is copied. Links stay links.

use act_fs::{Entry, READ, Walk};
use act_records::artifacts::Descent;
use act_workspace::{
    Committed, CopyEntry, CopyError, CopySet, GitPlace, Kind, READ_AT_ONCE, Tree, TreeBuilder,
};
use rustix::fs::{FileType, Mode, fchmod, fstat, openat, symlinkat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use tar::{EntryType, Header};
use tokio_util::sync::CancellationToken;

/// The target of a copy.
pub(crate) trait Destination {
    /// Creates a directory and all directories above it.
    fn directory(&mut self, path: &Path) -> io::Result<()>;

    /// Creates a read-only file with a text of the host.
    fn text(&mut self, path: &Path, text: &[u8]) -> io::Result<()>;

    fn link(&mut self, path: &Path, target: &OsStr) -> io::Result<()>;

    /// Begins a file; `original` describes the open original.
    fn begin_file(&mut self, entry: &CopyEntry, original: &Metadata) -> io::Result<()>;

    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Ends the file that was begun last, after exactly `original.len()` bytes.
    fn end_file(&mut self, original: &Metadata) -> io::Result<()>;
}

/// Creates the paths that the steps and the mounts need even if the tree lacks them: the directory of the package, and
/// `.git`.
pub(crate) fn create_mount_points(
    package: Option<&str>,
    git: &GitPlace,
    pointer: Option<&str>,
    into: &mut dyn Destination,
) -> io::Result<()> {
    if let Some(package) = package {
        into.directory(package.as_ref())?;
    }
    match (git, pointer) {
        (_, Some(pointer)) => into.text(".git".as_ref(), pointer.as_bytes()),
        (GitPlace::Directory, None) => into.directory(".git".as_ref()),
        _ => Ok(()),
    }
}

/// Copies the set and returns the tree that the copy holds. Files that were removed after the set was listed are in
/// neither.
///
/// # Errors
/// A file cannot be read or written; `Interrupted` when cancelled.
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
        let copied = if entry.kind == Kind::Link {
            set.link_target(entry).map(|target| {
                tree.link(entry, &target);
                into.link(&entry.path, &target)
            })
        } else {
            set.open(entry).map(|file| {
                let original = file.metadata()?;
                into.begin_file(entry, &original)?;
                let mut exactly = FixedLengthReader { file, left: original.len() };
                tree.file(entry, &mut exactly, &mut buffer, &mut |bytes| into.write(bytes))?;
                into.end_file(&original)
            })
        };
        match copied {
            Ok(written) => written?,
            Err(CopyError::Changed { .. }) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    Ok(tree.finish())
}

/// A file that takes the place of one of the repository in [`write_tree`].
pub struct Replacement {
    pub path: PathBuf,
    pub executable: bool,
    pub content: File,
}

/// Writes a tree into an empty directory: the files of `set`, and `replacements`, whose paths the set must not have.
///
/// # Errors
/// A file cannot be read or written; `Interrupted` when cancelled.
pub fn write_tree(
    set: &CopySet,
    replacements: Vec<Replacement>,
    root: OwnedFd,
    cancel: &CancellationToken,
) -> io::Result<()> {
    let mut into = Directory::new(root);
    copy(set, &mut into, cancel)?;
    for Replacement { path, executable, mut content } in replacements {
        let original = content.metadata()?;
        let mode = if executable { 0o755 } else { 0o644 };
        let entry = CopyEntry { path, kind: Kind::File, mode, size: original.len() };
        into.begin_file(&entry, &original)?;
        let mut buffer = vec![0; READ_AT_ONCE];
        loop {
            match content.read(&mut buffer)? {
                0 => break,
                count => into.write(buffer.get(..count).unwrap_or_default())?,
            }
        }
        into.end_file(&original)?;
    }
    Ok(())
}

/// Writes the files of a commit into an empty directory, byte for byte as git stores them.
///
/// # Errors
/// A file cannot be read or written; `Interrupted` when cancelled.
pub fn write_committed(
    commit: &Committed,
    root: OwnedFd,
    cancel: &CancellationToken,
) -> io::Result<()> {
    write_commit(commit, &mut Directory::new(root), cancel).map(drop)
}

/// Writes the files of a commit into a directory and returns their tree.
///
/// # Errors
/// A file cannot be read or written; `Interrupted` when cancelled.
pub(crate) fn write_commit(
    commit: &Committed,
    into: &mut Directory,
    cancel: &CancellationToken,
) -> io::Result<Tree> {
    let mut tree = TreeBuilder::default();
    let mut buffer = vec![0; READ_AT_ONCE];
    let read = commit.read(|file, content| {
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let (kind, mode) = match file.mode {
            "120000" => (Kind::Link, 0o777),
            "100755" => (Kind::File, 0o755),
            _ => (Kind::File, 0o644),
        };
        let entry = CopyEntry { path: file.path.clone(), kind, mode, size: content.len() as u64 };
        if kind == Kind::Link {
            let target = OsStr::from_bytes(content);
            tree.link(&entry, target);
            return into.link(&entry.path, target);
        }
        let mut open = into.begin(&entry)?;
        tree.file(&entry, &mut &*content, &mut buffer, &mut |bytes| {
            open.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
        })
    });
    read.map_err(io::Error::other)??;
    Ok(tree.finish())
}

/// Writes the files of a tree at these positions into the upper layer of an overlay, with the time of now.
///
/// # Errors
/// A file cannot be read or written, or is no longer the one of the tree; `Interrupted` when cancelled.
pub(crate) fn lay(
    set: &CopySet,
    tree: &Tree,
    positions: &[usize],
    into: &mut Directory,
    cancel: &CancellationToken,
) -> io::Result<()> {
    let entries: HashMap<&Path, &CopyEntry> =
        set.entries.iter().map(|entry| (entry.path.as_path(), entry)).collect();
    let mut laid = TreeBuilder::default();
    let mut buffer = vec![0; READ_AT_ONCE];
    let mut expected = vec![];
    for position in positions {
        if cancel.is_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let Some(file) = tree.files.get(*position) else { continue };
        let Some(entry) = entries.get(file.path.as_path()) else { continue };
        expected.push(file);
        if entry.kind == Kind::Link {
            let target = set.link_target(entry).map_err(io::Error::other)?;
            laid.link(entry, &target);
            into.link(&entry.path, &target)?;
            continue;
        }
        let mut from = set.open(entry).map_err(io::Error::other)?;
        let mut open = into.begin(entry)?;
        laid.file(entry, &mut from, &mut buffer, &mut |bytes| {
            open.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
        })?;
    }
    match laid.finish().files.iter().eq(expected) {
        true => Ok(()),
        false => Err(io::Error::other("a file changed while it was read")),
    }
}

/// Reads as many bytes as a file had when it was opened, and zeros where the file has become shorter. The digest after
/// the run shows that it changed.
struct FixedLengthReader {
    file: File,
    left: u64,
}

impl Read for FixedLengthReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(into.len());
        let Some(into) = into.get_mut(..most).filter(|into| !into.is_empty()) else { return Ok(0) };
        let count = match self.file.read(into)? {
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

/// Splits a path into its name and its parents. Returns `None` for a path that has other components than names.
fn split(path: &Path) -> Option<(&OsStr, Vec<&OsStr>)> {
    let parts = path.components().map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let mut parts = parts.collect::<Option<Vec<_>>>()?;
    Some((parts.pop()?, parts))
}

/// An empty directory of this machine, which is written by handle.
pub(crate) struct Directory {
    at: Descent,
    open: Option<File>,
}

impl Directory {
    pub(crate) fn new(root: OwnedFd) -> Self {
        Self { at: Descent::new(root), open: None }
    }

    /// Creates the file of an entry. Returns `None` when the name is taken.
    fn begin(&mut self, entry: &CopyEntry) -> io::Result<Option<File>> {
        let mode = if entry.is_executable() { 0o755 } else { 0o644 };
        self.create(&entry.path, Mode::from_raw_mode(mode))
    }

    fn enter_parent<'a>(&mut self, path: &'a Path) -> io::Result<&'a OsStr> {
        let (name, parents) = split(path).ok_or(io::ErrorKind::InvalidFilename)?;
        self.at.move_to(&parents)?;
        Ok(name)
    }

    /// Creates a file. Returns `None` when the name is taken: a file system without letter case has one file for two
    /// names.
    fn create(&mut self, path: &Path, mode: Mode) -> io::Result<Option<File>> {
        let name = self.enter_parent(path)?;
        let file = match act_fs::create(self.at.here(), name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            file => file?,
        };
        // The umask must not decide what the steps see.
        fchmod(&file, mode)?;
        Ok(Some(file))
    }
}

impl Destination for Directory {
    fn directory(&mut self, path: &Path) -> io::Result<()> {
        let names = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        });
        self.at.move_to(&names.collect::<Vec<_>>())
    }

    fn text(&mut self, path: &Path, text: &[u8]) -> io::Result<()> {
        self.create(path, Mode::from_raw_mode(0o444))?
            .map_or(Ok(()), |mut file| file.write_all(text))
    }

    fn link(&mut self, path: &Path, target: &OsStr) -> io::Result<()> {
        let name = self.enter_parent(path)?;
        match symlinkat(target, self.at.here(), name) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn begin_file(&mut self, entry: &CopyEntry, _: &Metadata) -> io::Result<()> {
        self.open = self.begin(entry)?;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.open.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    fn end_file(&mut self, original: &Metadata) -> io::Result<()> {
        // Build tools compare modification times.
        self.open.take().map_or(Ok(()), |file| file.set_modified(original.modified()?))
    }
}

const BLOCK: u64 = 512;
/// Maximum depth of a git directory; git nests its directories about six levels deep.
const MAX_DEPTH: usize = 64;

/// Writes an archive in which everything belongs to `ids`. The archive is sent while it is written and is stored
/// nowhere.
pub(crate) struct Packer<W: Write> {
    archive: tar::Builder<W>,
    ids: (u32, u32),
    /// The directories above the last entry, which are in the archive already.
    parents: Vec<OsString>,
}

impl<W: Write> Packer<W> {
    pub(crate) fn new(to: W, ids: (u32, u32)) -> Self {
        Self { archive: tar::Builder::new(to), ids, parents: vec![] }
    }

    /// Adds an entry for the directory that the archive is unpacked in. Some engines then give it the owner `ids`,
    /// others ignore the entry.
    pub(crate) fn top(&mut self) -> io::Result<()> {
        let header = self.header(EntryType::Directory, 0o755, 0, 0);
        self.append("./".as_ref(), header)
    }

    /// Adds all directories and regular files below `directory`.
    pub(crate) fn all_of(&mut self, directory: OwnedFd) -> io::Result<()> {
        each_file(directory, &mut |path, mut file| {
            let original = file.metadata()?;
            self.begin(path, &original, original.mode() & 0o100 != 0)?;
            io::copy(&mut (&mut file).take(original.len()), self.archive.get_mut())?;
            if file.stream_position()? < original.len() {
                return Err(io::Error::other("a file of .git was cut while it was read"));
            }
            self.pad(original.len())
        })
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        self.archive.into_inner()?.flush()
    }

    /// Adds entries for the directories above `path` that the last entry did not have.
    fn enter_parent(&mut self, path: &Path) -> io::Result<()> {
        self.directory(path.parent().unwrap_or(Path::new("")))
    }

    /// Adds the header of a file, whose content the caller writes next.
    fn begin(&mut self, path: &Path, original: &Metadata, executable: bool) -> io::Result<()> {
        self.enter_parent(path)?;
        let modified = u64::try_from(original.mtime()).unwrap_or(0);
        let mode = if executable { 0o755 } else { 0o644 };
        let header = self.header(EntryType::Regular, mode, original.len(), modified);
        self.append(path, header)
    }

    fn header(&self, kind: EntryType, mode: u32, size: u64, modified: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size);
        header.set_mtime(modified);
        header.set_uid(u64::from(self.ids.0));
        header.set_gid(u64::from(self.ids.1));
        header
    }

    /// Adds a header. `tar` writes no content and no padding after it, because it gets no bytes to read: the content is
    /// pushed by [`copy`], which digests it on the way.
    fn append(&mut self, path: &Path, mut header: Header) -> io::Result<()> {
        self.archive.append_data(&mut header, path, io::empty())
    }

    /// Fills the last block of a file with `size` bytes.
    fn pad(&mut self, size: u64) -> io::Result<()> {
        let padding = (BLOCK - size % BLOCK) % BLOCK;
        io::copy(&mut io::repeat(0).take(padding), self.archive.get_mut()).map(drop)
    }
}

impl<W: Write> Destination for Packer<W> {
    fn directory(&mut self, path: &Path) -> io::Result<()> {
        let names: Vec<_> = path.iter().collect();
        let common = self.parents.iter().zip(&names).take_while(|(at, to)| at == *to).count();
        self.parents.truncate(common);
        for name in names.into_iter().skip(common) {
            self.parents.push(name.to_owned());
            let mut path = self.parents.iter().collect::<PathBuf>().into_os_string();
            path.push("/");
            let header = self.header(EntryType::Directory, 0o755, 0, 0);
            self.append(path.as_ref(), header)?;
        }
        Ok(())
    }

    fn text(&mut self, path: &Path, text: &[u8]) -> io::Result<()> {
        self.enter_parent(path)?;
        let mut header = self.header(EntryType::Regular, 0o444, text.len() as u64, 0);
        self.archive.append_data(&mut header, path, text)
    }

    fn link(&mut self, path: &Path, target: &OsStr) -> io::Result<()> {
        self.enter_parent(path)?;
        let mut header = self.header(EntryType::Symlink, 0o777, 0, 0);
        // `Builder::append_link` would normalise the target, of which every byte counts for the digest.
        let target = target.as_bytes();
        if header.set_link_name_literal(target).is_err() {
            let mut long = self.header(EntryType::GNULongLink, 0o644, target.len() as u64 + 1, 0);
            long.as_old_mut().name[..13].copy_from_slice(b"././@LongLink");
            long.set_cksum();
            self.archive.append(&long, target.chain(&[0_u8][..]))?;
        }
        self.append(path, header)
    }

    fn begin_file(&mut self, entry: &CopyEntry, original: &Metadata) -> io::Result<()> {
        self.begin(&entry.path, original, entry.is_executable())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.archive.get_mut().write_all(bytes)
    }

    fn end_file(&mut self, original: &Metadata) -> io::Result<()> {
        self.pad(original.len())
    }
}

/// Returns whether the regular files below a directory have at most `most` bytes together.
pub(crate) fn holds_at_most(directory: OwnedFd, most: u64) -> io::Result<bool> {
    let mut bytes = 0;
    let counted = each_file(directory, &mut |_, file| {
        bytes += file.metadata()?.len();
        if bytes > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(()) }
    });
    match counted {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(false),
        counted => counted.map(|()| true),
    }
}

/// Calls `with` for every regular file below a directory, by handle and through no link. A file that is removed
/// meanwhile, as git's temporary files are, is skipped.
fn each_file(
    directory: OwnedFd,
    with: &mut dyn FnMut(&Path, File) -> io::Result<()>,
) -> io::Result<()> {
    let mut names = Walk::new(directory)?;
    while let Some(Entry { name, .. }) = names.next_entry()? {
        let found = match openat(names.here(), &name, READ, Mode::empty()) {
            Ok(found) => found,
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::ACCESS) => continue,
            Err(error) => return Err(error.into()),
        };
        match FileType::from_raw_mode(fstat(&found)?.st_mode) {
            FileType::RegularFile => {
                with(OsString::from_vec(names.path(&name)).as_ref(), found.into())?
            }
            FileType::Directory if names.depth() < MAX_DEPTH => names.enter(&name, found)?,
            _ => {}
        }
    }
    Ok(())
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
        let seen = CopySet::of(into.path(), &none).unwrap().tree().unwrap();
        assert_eq!(copied.digest, seen.digest);
        // The object of git is known for a file that did not change meanwhile.
        let blobs: Vec<_> = copied.files.iter().map(|file| file.blob.is_some()).collect();
        assert_eq!(blobs, [false, true]);
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

    // VERIFIER-33
    #[test]
    fn the_archive_holds_the_copy_and_its_digest_is_that_of_the_bytes_sent() {
        let repo = tempfile::tempdir().unwrap();
        let long = "d".repeat(90);
        let deep = repo.path().join(&long).join(&long);
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("file"), "deep").unwrap();
        fs::write(repo.path().join("run"), vec![7; 1000]).unwrap();
        fs::set_permissions(repo.path().join("run"), fs::Permissions::from_mode(0o4711)).unwrap();
        symlink(format!("./x//{}", "y".repeat(120)), repo.path().join("link")).unwrap();
        let set = CopySet::of(repo.path(), &PathGlobs::new(&[]).unwrap()).unwrap();

        let mut bytes = vec![];
        let mut packer = Packer::new(&mut bytes, (7, 8));
        let tree = copy(&set, &mut packer, &CancellationToken::new()).unwrap();
        packer.finish().unwrap();

        assert_eq!(tree, set.tree().unwrap());
        let into = tempfile::tempdir().unwrap();
        let mut archive = tar::Archive::new(&bytes[..]);
        let mut owners = archive.entries().unwrap().map(|entry| {
            let header = entry.unwrap().header().clone();
            (header.uid().unwrap(), header.gid().unwrap())
        });
        assert!(owners.all(|owner| owner == (7, 8)));
        tar::Archive::new(&bytes[..]).unpack(into.path()).unwrap();
        let unpacked = CopySet::of(into.path(), &PathGlobs::new(&[]).unwrap()).unwrap();
        assert_eq!(unpacked.tree().unwrap(), tree);
        let mode = fs::metadata(into.path().join("run")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
    }

    // VERIFIER-33
    #[test]
    fn of_a_git_directory_only_files_travel_and_only_as_many_bytes_as_allowed() {
        let git = tempfile::tempdir().unwrap();
        fs::create_dir(git.path().join("objects")).unwrap();
        fs::write(git.path().join("objects/x"), [0; 600]).unwrap();
        fs::write(git.path().join("HEAD"), "ref").unwrap();
        symlink("/etc/passwd", git.path().join("link")).unwrap();
        let fifo = git.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let handle = || OwnedFd::from(File::open(git.path()).unwrap());
        assert!(holds_at_most(handle(), 603).unwrap());
        assert!(!holds_at_most(handle(), 602).unwrap());
        let mut bytes = vec![];
        let mut packer = Packer::new(&mut bytes, (0, 0));
        packer.all_of(handle()).unwrap();
        packer.finish().unwrap();
        let mut archive = tar::Archive::new(&bytes[..]);
        let names = archive.entries().unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect();
        names.sort();
        assert_eq!(names, ["HEAD", "objects/", "objects/x"]);
    }
}
