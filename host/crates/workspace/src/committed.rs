//! The files of the commit at `HEAD`, from git's own objects.
//!
//! [`Committed::of`] lists them, and [`Committed::read`] reads their contents. Neither reads the working tree, so nothing
//! that is not committed, such as a file with secrets that git ignores, is among them. The objects are read as
//! [`history`](super::history) reads them: by handle, with bounds, and never by a path of git's own.
//!
//! A repository whose working tree differs from its objects by design is refused with the reason: files that a filter
//! (such as LFS) or a conversion of line ends makes, submodules, and objects that are named by SHA-256.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::Duration;

use act_fs::{DIRECTORY, MAX_DEPTH, READ, Root};
use gix_index::hash::ObjectId;
use gix_object::{Kind as ObjectKind, TreeRefIter};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::copy_set::{CopyEntry, CopySet};
use super::exclusion::is_temporary;
use super::git::{IgnoreRules, IndexedFile, OwnGit, converts_line_ends, indexed_files};
use super::history::{HASH, Objects};
use super::notes::notes_dir_of;
use super::paths::PathGlobs;
use super::reading::{read_whole, regular};
use super::view::{Kind, Profile, RepoView};

/// Maximum number of files. Larger trees get an overlay of the repository itself, and no copy of a commit.
const MAX_FILES: usize = 200_000;
/// Maximum number of bytes of one file. gix holds a file, its base and its delta in memory at the same time.
const MAX_FILE: usize = 128 << 20;
/// Bytes of compressed objects that are read for one commit.
const MAX_READ: u64 = 8 << 30;
/// Time for one pass over the objects of a commit.
const TIME: Duration = Duration::from_secs(300);
/// Maximum number of bytes of a file with attributes that lies in the git directory.
const MAX_ATTRIBUTES: u64 = 1 << 20;
/// The first line of the file that stands for a file of LFS.
const LFS: &[u8] = b"version https://git-lfs.github.com/spec/";

/// Why the files of a commit cannot be written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotCommitted {
    /// The repository has no commit, or its git directory is not its own.
    NoCommit,
    /// The objects are named by SHA-256, which the readers do not know.
    Sha256,
    /// A submodule, whose files are in another repository.
    Submodule(String),
    /// A file of LFS, whose content is not in the repository.
    Lfs(String),
    /// A file with attributes by which git would change contents.
    Attributes(String),
    /// An object is missing, damaged or too large.
    Unreadable,
    /// More files, or longer or stranger names, than a commit for this purpose has.
    TooMuch,
}

impl fmt::Display for NotCommitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCommit => {
                f.write_str("there is no commit, or .git is not the repository's own")
            }
            Self::Sha256 => f.write_str("the repository names its objects by SHA-256"),
            Self::Submodule(path) => write!(f, "{path} is a submodule"),
            Self::Lfs(path) => write!(f, "{path} is a file of git LFS"),
            Self::Attributes(path) => {
                write!(f, "{path} sets a filter or a conversion of line ends")
            }
            Self::Unreadable => f.write_str("an object of the last commit cannot be read"),
            Self::TooMuch => f.write_str("the last commit has too many files, or unusual names"),
        }
    }
}

impl std::error::Error for NotCommitted {}

/// A file or link of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedFile {
    pub path: PathBuf,
    /// `100644`, `100755` or `120000`.
    pub mode: &'static str,
    pub(super) id: ObjectId,
}

/// The files of the commit at `HEAD` below the root of the repository, without the directory of act's notes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    root: PathBuf,
    /// The name of the commit.
    pub head: String,
    /// Sorted by path, component by component.
    pub files: Vec<CommittedFile>,
}

impl Committed {
    /// Lists the files of the commit at `HEAD`.
    ///
    /// # Errors
    /// The reason why this repository has no such list.
    pub fn of(root: &Path) -> Result<Self, NotCommitted> {
        guarded(|| Self::list(root))
    }

    fn list(path: &Path) -> Result<Self, NotCommitted> {
        let (view, git) = open(path)?;
        let id = ObjectId::from_hex(git.head.as_bytes()).map_err(|_| NotCommitted::Sha256)?;
        let root = view.root();
        let notes = notes_dir_of(root, &IgnoreRules::new(root));
        let mut objects = objects(&git, &view)?;
        let mut tree = objects.commit(&id).ok_or(NotCommitted::Unreadable)?.tree;
        // The root may be a directory of the working tree.
        for part in git.prefix.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            let entry = entries(&mut objects, tree)?.into_iter().find(|entry| entry.name == part);
            let inside = entry.filter(|entry| entry.kind == Named::Directory);
            tree = inside.ok_or(NotCommitted::NoCommit)?.id;
        }
        if let Some(text) = info_attributes(&git)
            && changes_contents(&text)
        {
            return Err(NotCommitted::Attributes(".git/info/attributes".to_owned()));
        }
        let mut files = vec![];
        let mut open = vec![(Vec::new(), tree, 1)];
        while let Some((above, tree, depth)) = open.pop() {
            if depth > MAX_DEPTH {
                return Err(NotCommitted::TooMuch);
            }
            for Entry { name, kind, id } in entries(&mut objects, tree)? {
                let path = [above.as_slice(), &name].concat();
                let shown = || String::from_utf8_lossy(&path).into_owned();
                let is_own = std::str::from_utf8(&name).is_ok_and(is_temporary)
                    || notes.is_some_and(|notes| path == notes.as_bytes());
                let mode = match kind {
                    _ if is_own => continue,
                    Named::Submodule => return Err(NotCommitted::Submodule(shown())),
                    Named::Directory => {
                        open.push(([path.as_slice(), b"/"].concat(), id, depth + 1));
                        continue;
                    }
                    Named::File => "100644",
                    Named::Program => "100755",
                    Named::Link => "120000",
                };
                if name == b".gitattributes" {
                    let text = objects.find(&id).ok_or(NotCommitted::Unreadable)?;
                    if changes_contents(&text.bytes) {
                        return Err(NotCommitted::Attributes(shown()));
                    }
                }
                if files.len() == MAX_FILES || path.len() > super::view::MAX_PATH {
                    return Err(NotCommitted::TooMuch);
                }
                files.push(CommittedFile { path: OsString::from_vec(path).into(), mode, id });
            }
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Self { root: path.to_owned(), head: git.head, files })
    }

    /// Returns the digest of the files that match `inputs`, or of all files without a glob: of their paths, modes and
    /// names of objects.
    pub fn digest(&self, inputs: &[String]) -> Result<String, super::paths::GlobError> {
        let globs = PathGlobs::new(inputs)?;
        let mut digest = Sha256::new();
        for file in &self.files {
            let path = file.path.as_os_str().as_encoded_bytes();
            if inputs.is_empty() || globs.matches_bytes(path) {
                for part in [path, file.mode.as_bytes(), file.id.as_slice()] {
                    digest.update(part);
                    digest.update([0]);
                }
            }
        }
        Ok(act_fs::hex(&digest.finalize()))
    }

    /// Reads every file in order and hands it to `with`, until `with` fails. The content of a link is its target.
    ///
    /// # Errors
    /// The reason why a file cannot be read; the inner error is that of `with`.
    pub fn read(
        &self,
        mut with: impl FnMut(&CommittedFile, &[u8]) -> io::Result<()>,
    ) -> Result<io::Result<()>, NotCommitted> {
        guarded(|| {
            let (view, git) = open(&self.root)?;
            let mut objects = objects(&git, &view)?;
            for file in &self.files {
                let content = objects.find(&file.id).ok_or(NotCommitted::Unreadable)?;
                if content.kind != ObjectKind::Blob {
                    return Err(NotCommitted::Unreadable);
                }
                if content.bytes.starts_with(LFS) {
                    return Err(NotCommitted::Lfs(file.path.display().to_string()));
                }
                if let Err(error) = with(file, &content.bytes) {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(()))
        })
    }
}

/// Maximum number of bytes that are read to find changed files, and of one of them. The others are not looked at.
const MAX_COMPARED: u64 = 256 << 20;

/// Returns the files of the repository that differ from the last commit, sorted: changed, deleted, and not committed yet.
/// Ignored files are not among them. A file of which the index says that it is unchanged is not read.
///
/// # Errors
/// The reason why this repository cannot be compared with its last commit.
pub fn uncommitted(root: &Path) -> Result<Vec<PathBuf>, NotCommitted> {
    let committed = Committed::of(root)?;
    let handle = Root::open(root).map_err(|_| NotCommitted::NoCommit)?;
    let indexed = indexed_files(&handle);
    let tree = CopySet::of(root, &PathGlobs::default()).map_err(|_| NotCommitted::TooMuch)?;
    let mut missing: BTreeMap<&Path, &CommittedFile> =
        committed.files.iter().map(|file| (file.path.as_path(), file)).collect();
    let mut room = MAX_COMPARED;
    let mut found = vec![];
    for entry in &tree.entries {
        let is_changed = match missing.remove(entry.path.as_path()) {
            None => true,
            Some(file) => {
                let known = indexed.get(entry.path.as_os_str().as_bytes());
                differs(&tree, entry, file, known, &mut room)
            }
        };
        if is_changed {
            found.push(entry.path.clone());
        }
    }
    found.extend(missing.into_keys().map(Path::to_owned));
    found.sort();
    Ok(found)
}

fn differs(
    tree: &CopySet,
    entry: &CopyEntry,
    file: &CommittedFile,
    known: Option<&IndexedFile>,
    room: &mut u64,
) -> bool {
    let mode = match entry.kind {
        Kind::Link => "120000",
        _ if entry.is_executable() => "100755",
        _ => "100644",
    };
    if mode != file.mode {
        return true;
    }
    let content = if entry.kind == Kind::Link {
        tree.link_target(entry).map(OsString::into_vec).map_err(|_| ())
    } else {
        let Ok(opened) = tree.open(entry) else { return true };
        let stat = rustix::fs::fstat(&opened);
        let same = |known: &&IndexedFile| stat.as_ref().is_ok_and(|stat| known.is_same(stat));
        if let Some(known) = known.filter(same) {
            return known.id != file.id;
        }
        if entry.size > *room {
            return false;
        }
        *room -= entry.size;
        act_fs::read_bounded(opened, entry.size).map_err(|_| ())
    };
    let id = content.map(|bytes| gix_object::compute_hash(HASH, ObjectKind::Blob, &bytes));
    !matches!(id, Ok(Ok(id)) if id == file.id)
}

/// Returns whether git would store the files of a set byte for byte, in objects named by SHA-1, in one repository whose top is
/// `root`. The settings of the user outside of the repository are not read.
pub fn is_stored_as_is(root: &Path, set: &CopySet) -> bool {
    let Ok((view, git)) = open(root) else { return false };
    let of_info = info_attributes(&git).is_some_and(|text| changes_contents(&text));
    if git.head.len() != 40 || !git.prefix.is_empty() || of_info || converts_line_ends(view.root())
    {
        return false;
    }
    set.entries.iter().all(|entry| match entry.path.file_name().map(OsStrExt::as_bytes) {
        Some(b".gitmodules") => false,
        Some(b".gitattributes") => {
            let read = || act_fs::read_bounded(set.open(entry).ok()?, MAX_ATTRIBUTES).ok();
            read().is_some_and(|text| !changes_contents(&text))
        }
        _ => true,
    })
}

/// Ends a pass whose reader panics over damaged objects, as those of the history do.
fn guarded<T>(work: impl FnOnce() -> Result<T, NotCommitted>) -> Result<T, NotCommitted> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(NotCommitted::Unreadable))
}

fn open(path: &Path) -> Result<(RepoView, OwnGit), NotCommitted> {
    let view = RepoView::open(path, Profile::Scout).map_err(|_| NotCommitted::NoCommit)?;
    let git = OwnGit::of(view.root()).ok_or(NotCommitted::NoCommit)?;
    Ok((view, git))
}

fn objects<'v>(git: &OwnGit, view: &'v RepoView) -> Result<Objects<'v>, NotCommitted> {
    Objects::open_within(git, view, (TIME, MAX_READ), MAX_FILE).ok_or(NotCommitted::Unreadable)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Directory,
    File,
    Program,
    Link,
    Submodule,
}

struct Entry {
    name: Vec<u8>,
    kind: Named,
    id: ObjectId,
}

/// Returns the entries of a tree. A tree may hold any name, and some of them would lead out of a directory.
fn entries(objects: &mut Objects<'_>, id: ObjectId) -> Result<Vec<Entry>, NotCommitted> {
    let tree = objects.tree(&id).ok_or(NotCommitted::Unreadable)?;
    let mut found: Vec<Entry> = vec![];
    for entry in TreeRefIter::from_bytes(&tree.bytes, HASH) {
        let entry = entry.map_err(|_| NotCommitted::Unreadable)?;
        let name = entry.filename.to_vec();
        let leads_elsewhere = matches!(name.as_slice(), b"" | b"." | b"..")
            || name.eq_ignore_ascii_case(b".git")
            || name.contains(&b'/')
            || name.contains(&0);
        if leads_elsewhere || found.len() > MAX_FILES {
            return Err(NotCommitted::TooMuch);
        }
        let kind = match entry.mode {
            mode if mode.is_tree() => Named::Directory,
            mode if mode.is_commit() => Named::Submodule,
            mode if mode.is_link() => Named::Link,
            mode if mode.is_executable() => Named::Program,
            _ => Named::File,
        };
        found.push(Entry { name, kind, id: entry.oid.to_owned() });
    }
    Ok(found)
}

fn info_attributes(git: &OwnGit) -> Option<Vec<u8>> {
    let info = Root::new(git.common.open_real(b"info", DIRECTORY).ok()?);
    let opened = match info.open_real(b"attributes", READ) {
        Err(Errno::NOENT) => return None,
        opened => opened,
    };
    let read = || {
        let (fd, stat) = regular(opened.ok()?).ok()?;
        let size = u64::try_from(stat.st_size).ok().filter(|size| *size <= MAX_ATTRIBUTES)?;
        read_whole(fd, size).ok()?
    };
    // A file that cannot be read may say anything.
    Some(read().unwrap_or_else(|| b"* filter=unknown".to_vec()))
}

/// Returns whether a file with attributes lets git write other bytes into the working tree than it stores. `text` and
/// `eol=lf` do not on Linux.
fn changes_contents(attributes: &[u8]) -> bool {
    let changes = |word: &[u8]| {
        let value = |name: &[u8]| word.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"="));
        value(b"filter").is_some()
            || value(b"eol").is_some_and(|end| end != b"lf")
            || value(b"crlf").is_some()
            || value(b"working-tree-encoding").is_some()
            || matches!(word, b"ident" | b"crlf" | b"filter")
    };
    attributes.split(|byte| *byte == b'\n').any(|line| {
        let line = line.trim_ascii();
        let words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        !line.starts_with(b"#") && words.skip(1).any(changes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn git(root: &Path, arguments: &[&str]) {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        let done = Command::new("git").args(identity).args(arguments).current_dir(root).output();
        let done = done.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    fn repository(files: &[(&str, &str)]) -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        git(temp.path(), &["init", "-q"]);
        for (path, text) in files {
            let path = temp.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        git(temp.path(), &["add", "-A"]);
        git(temp.path(), &["commit", "-q", "-m", "x"]);
        temp
    }

    fn contents(root: &Path) -> Vec<(String, &'static str, String)> {
        let mut all = vec![];
        let read = Committed::of(root).unwrap().read(|file, bytes| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            all.push((file.path.display().to_string(), file.mode, text));
            Ok(())
        });
        read.unwrap().unwrap();
        all
    }

    // VERIFIER-50
    #[test]
    fn the_files_are_those_of_the_commit_whatever_the_working_tree_holds() {
        let temp = repository(&[("src/a", "one\n"), ("b", "two\n"), (".gitignore", ".env\n")]);
        let root = temp.path();
        std::os::unix::fs::symlink("b", root.join("link")).unwrap();
        Command::new("chmod").args(["+x", "b"]).current_dir(root).status().unwrap();
        git(root, &["add", "-A"]);
        git(root, &["commit", "-q", "-m", "y"]);
        std::fs::write(root.join("src/a"), "changed\n").unwrap();
        std::fs::write(root.join(".env"), "SECRET\n").unwrap();
        std::fs::write(root.join("untracked"), "x").unwrap();
        let expected = [
            (".gitignore", "100644", ".env\n"),
            ("b", "100755", "two\n"),
            ("link", "120000", "b"),
            ("src/a", "100644", "one\n"),
        ];
        let expected = expected.map(|(path, mode, text)| (path.to_owned(), mode, text.to_owned()));
        assert_eq!(contents(root), expected);
        git(root, &["stash", "-q", "-u"]);
        git(root, &["gc", "-q", "--aggressive", "--prune=now"]);
        assert_eq!(contents(root), expected, "from a pack");
        // A root inside of the working tree has the files below it.
        let inside = contents(&root.join("src"));
        assert_eq!(inside, [("a".to_owned(), "100644", "one\n".to_owned())]);
    }

    // TASK-44
    #[test]
    fn what_differs_from_the_commit_is_found_with_and_without_the_index() {
        let files = [("a", "one\n"), ("b", "two\n"), ("sub/c", "3\n"), (".gitignore", "*.log\n")];
        let temp = repository(&files);
        let root = temp.path();
        let found = |at: &Path| {
            let found = uncommitted(at).unwrap().into_iter();
            found.map(|path| path.display().to_string()).collect::<Vec<_>>()
        };
        assert!(found(root).is_empty());
        // The index is older than the files, so their content decides.
        for path in ["a", "b", "sub/c"] {
            std::fs::File::open(root.join(path))
                .unwrap()
                .set_modified(std::time::SystemTime::now())
                .unwrap();
        }
        assert!(found(root).is_empty());
        // The file has its old size, and the index is not refreshed.
        std::fs::write(root.join("a"), "eno\n").unwrap();
        std::fs::remove_file(root.join("b")).unwrap();
        std::fs::write(root.join("new"), "").unwrap();
        std::fs::write(root.join("x.log"), "ignored").unwrap();
        Command::new("chmod").args(["+x", "sub/c"]).current_dir(root).status().unwrap();
        assert_eq!(found(root), ["a", "b", "new", "sub/c"]);
        assert_eq!(found(&root.join("sub")), ["c"], "a root inside of the working tree");
        // What is added to the index is not committed either.
        git(root, &["add", "-A"]);
        assert_eq!(found(root), ["a", "b", "new", "sub/c"]);
        std::fs::remove_file(root.join(".git/index")).unwrap();
        assert_eq!(found(root), ["a", "b", "new", "sub/c"]);
        git(root, &["add", "-A"]);
        git(root, &["commit", "-q", "-m", "y"]);
        assert!(found(root).is_empty());
        let none = tempfile::tempdir().unwrap();
        assert_eq!(uncommitted(none.path()), Err(NotCommitted::NoCommit));
    }

    // AUDIT-24
    #[test]
    fn the_name_of_the_tree_is_the_one_that_git_gives_it() {
        let temp =
            repository(&[("a/b/c", "one\n"), ("a.b", "two\n"), ("a-b", ""), (".gitignore", "x\n")]);
        let root = temp.path();
        std::os::unix::fs::symlink("a/b", root.join("link")).unwrap();
        std::fs::write(root.join("run"), "#!/bin/sh\n").unwrap();
        Command::new("chmod").args(["+x", "run"]).current_dir(root).status().unwrap();
        let set = || CopySet::of(root, &PathGlobs::default()).unwrap();
        let tree = set().tree().unwrap();
        git(root, &["add", "-A"]);
        let written = Command::new("git").arg("write-tree").current_dir(root).output().unwrap();
        let written = String::from_utf8(written.stdout).unwrap();
        assert_eq!(tree.git_tree().as_deref(), Some(written.trim()));
        assert_eq!(super::super::reading::digest(&tree.list()), tree.digest);
        assert!(is_stored_as_is(root, &set()));

        std::fs::write(root.join("a.b"), "changed\n").unwrap();
        std::fs::remove_file(root.join("a-b")).unwrap();
        std::fs::write(root.join("new"), "").unwrap();
        let differ = super::super::differing_files(&tree.list(), &set().tree().unwrap().list());
        assert_eq!(differ, ["a-b", "a.b", "new"]);
        for (path, text) in [(".gitattributes", "* eol=crlf\n"), (".gitmodules", "")] {
            std::fs::write(root.join(path), text).unwrap();
            assert!(!is_stored_as_is(root, &set()), "{path}");
            std::fs::remove_file(root.join(path)).unwrap();
        }
        assert!(!is_stored_as_is(&root.join("a"), &set()), "a part of the working tree");
        git(root, &["config", "core.autocrlf", "input"]);
        assert!(!is_stored_as_is(root, &set()));
    }

    // VERIFIER-50
    #[test]
    fn the_digest_follows_the_inputs_alone() {
        let temp = repository(&[("src/a", "one\n"), ("x.lock", "1\n")]);
        let digest = |inputs: &[&str]| {
            let inputs: Vec<_> = inputs.iter().map(|glob| (*glob).to_owned()).collect();
            Committed::of(temp.path()).unwrap().digest(&inputs).unwrap()
        };
        let (all, lock) = (digest(&[]), digest(&["*.lock"]));
        std::fs::write(temp.path().join("src/a"), "two\n").unwrap();
        git(temp.path(), &["commit", "-q", "-a", "-m", "y"]);
        assert_ne!(digest(&[]), all);
        assert_eq!(digest(&["*.lock"]), lock);
        std::fs::write(temp.path().join("x.lock"), "2\n").unwrap();
        git(temp.path(), &["commit", "-q", "-a", "-m", "z"]);
        assert_ne!(digest(&["*.lock"]), lock);
    }

    // VERIFIER-50
    #[test]
    fn a_repository_whose_files_are_not_its_objects_is_refused_with_the_reason() {
        let lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
        let refused = |files: &[(&str, &str)]| {
            let temp = repository(files);
            let listed = Committed::of(temp.path());
            listed.and_then(|all| all.read(|_, _| Ok(())).map(|_| ())).unwrap_err()
        };
        assert_eq!(refused(&[("big.bin", lfs)]), NotCommitted::Lfs("big.bin".into()));
        for line in ["*.bin filter=lfs", "*.txt text eol=crlf", "*.c ident", "* crlf"] {
            let error = refused(&[("sub/.gitattributes", line)]);
            assert_eq!(error, NotCommitted::Attributes("sub/.gitattributes".into()), "{line}");
        }
        for harmless in ["* text=auto", "*.sh text eol=lf", "*.png binary", "# filter=lfs"] {
            let temp = repository(&[(".gitattributes", harmless)]);
            assert!(Committed::of(temp.path()).is_ok(), "{harmless}");
        }

        let temp = repository(&[("a", "x")]);
        std::fs::write(temp.path().join(".git/info/attributes"), "* filter=x\n").unwrap();
        let error = Committed::of(temp.path()).unwrap_err();
        assert_eq!(error, NotCommitted::Attributes(".git/info/attributes".into()));

        let temp = repository(&[("a", "x")]);
        let id = "0123456789012345678901234567890123456789";
        git(temp.path(), &["update-index", "--add", "--cacheinfo", &format!("160000,{id},sub")]);
        git(temp.path(), &["commit", "-q", "-m", "y"]);
        assert_eq!(Committed::of(temp.path()).unwrap_err(), NotCommitted::Submodule("sub".into()));

        let temp = tempfile::tempdir().unwrap();
        assert_eq!(Committed::of(temp.path()).unwrap_err(), NotCommitted::NoCommit);
        git(temp.path(), &["init", "-q", "--object-format=sha256"]);
        std::fs::write(temp.path().join("a"), "x").unwrap();
        git(temp.path(), &["add", "-A"]);
        git(temp.path(), &["commit", "-q", "-m", "x"]);
        assert_eq!(Committed::of(temp.path()).unwrap_err(), NotCommitted::Sha256);
    }
}
