//! Finds what a step wrote to the source. Every view protects the repository itself; this module finds the step that
//! would have changed it, such as a test that rewrites its snapshots or an installer that edits a lock file.
//!
//! On an engine of this machine the view is read while its container lives, so everything is opened by handle and
//! through no link, and nothing is changed, not even a mode. A remote engine sends the view as an archive, of which
//! only digests are stored.

use act_core::verification::{SourceWrite, Warning, WarningCode};
use act_fs::{Entry, READ, Sha256, Walk};
use act_records::artifacts::{ArchiveEntry, ArchiveReader};
use act_workspace::{CopySet, READ_AT_ONCE, Tree, digest};
use rustix::fs::{AtFlags, FileType, Mode, Stat, fgetxattr, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use sha2::Digest;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Bound;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Maximum number of writes of one step that are listed; the others are counted.
const MAX_LISTED: usize = 200;
/// Maximum size of the paths of new files that one comparison stores, in bytes. Paths of sources are bounded by the
/// source itself.
const MAX_NEW_PATHS: usize = 4 << 20;
/// Directories that are deeper, or whose path is longer, are not entered. A new one is reported itself.
const MAX_DEPTH: usize = 128;
const MAX_PATH: usize = 4096;
/// Maximum number of entries in the archive of a view. No tree that could be copied has more.
const MAX_ARCHIVE_ENTRIES: usize = 4_000_000;
/// Maximum size of the paths that hard links of an archive may refer to, in bytes. A link to another path is reported
/// as a change.
const MAX_LINKED_PATHS: usize = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Change {
    Changed,
    Deleted,
    New,
}

impl Change {
    fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Deleted => "deleted",
            Self::New => "new",
        }
    }
}

/// The place in which the writes of the steps are found.
pub(crate) enum Backing {
    /// The view is read-only, so there are none.
    ReadOnly,
    /// The directory of the copy.
    Copy(OwnedFd),
    /// The upper layer of an overlay, which holds only what was written.
    OverlayUpper(OwnedFd),
    /// A copy on a remote engine, which arrives as an archive.
    Remote,
}

/// The writes of one step, sorted by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Writes {
    pub(crate) listed: Vec<SourceWrite>,
    /// Number of further writes.
    more: usize,
}

impl Writes {
    /// Returns the warning about the writes of a step, such as `step "test" wrote to the source: tests/a.snap (new)`.
    pub(crate) fn warning(&self, step: &str) -> Option<Warning> {
        const SHOWN: usize = 10;
        const MAX_NAME: usize = 200;
        // The steps choose the names, so control characters are replaced.
        let name = |path: &str| -> String {
            let plain = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
            path.chars().take(MAX_NAME).map(plain).collect()
        };
        let shown: Vec<_> = self
            .listed
            .iter()
            .take(SHOWN)
            .map(|write| format!("{} ({})", name(&write.path), write.change))
            .collect();
        let more = match self.listed.len() + self.more - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!shown.is_empty()).then(|| Warning {
            code: WarningCode::SourceWrites,
            step: Some(step.to_owned()),
            message: format!("step {step:?} wrote to the source: {}{more}", shown.join(", ")),
        })
    }
}

/// Content and mode of a file, as git compares them.
#[derive(Clone, PartialEq, Eq)]
struct Content {
    mode: &'static str,
    sha256: String,
}

/// A file of the source.
struct Source {
    content: Content,
    size: u64,
}

/// Inode, change time and size of a file. A program cannot set the change time back.
type Stamp = (u64, i64, i64, i64);

/// Compares the view of a run with its source, once after each step.
pub(crate) struct TreeDiff {
    set: CopySet,
    sources: BTreeMap<Vec<u8>, Source>,
    /// The files of the copy before the first step. A file with the same stamp was not written.
    stamps: HashMap<Vec<u8>, Stamp>,
    backing: Backing,
    /// Writes of earlier steps, which are not reported again.
    known: BTreeSet<(Vec<u8>, Change)>,
    /// Number of new files of earlier steps whose paths were not stored.
    known_more: usize,
}

impl TreeDiff {
    /// Prepares the comparison. `tree` is the tree of `set`. A copy must be complete, and no step may have begun.
    ///
    /// # Errors
    /// The copy cannot be read.
    pub(crate) fn new(set: CopySet, tree: Tree, backing: Backing) -> io::Result<Self> {
        let mut sources = BTreeMap::new();
        for file in tree.files {
            // A file that `include` adds is ignored by git, so a step may write it.
            if set.ignores(&file.path, false) {
                continue;
            }
            let content = Content { mode: file.mode, sha256: file.sha256 };
            let path = file.path.into_os_string().into_encoded_bytes();
            sources.insert(path, Source { content, size: file.size });
        }
        let mut diff = Self {
            set,
            sources,
            stamps: HashMap::new(),
            backing,
            known: BTreeSet::new(),
            known_more: 0,
        };
        if let Backing::Copy(view) = &diff.backing {
            let mut stamps = HashMap::new();
            diff.walk(view.as_fd(), &mut |visited| {
                if let Visited::File { path, stat, .. } = visited {
                    stamps.insert(path.to_vec(), stamp(stat));
                }
                Ok(())
            })?;
            diff.stamps = stamps;
        }
        Ok(diff)
    }

    /// Returns whether the comparison needs an archive of the view.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.backing, Backing::Remote)
    }

    /// Returns what was written since the last comparison.
    ///
    /// # Errors
    /// The view cannot be read, or is remote.
    pub(crate) fn compare(&mut self) -> io::Result<Writes> {
        let found = match &self.backing {
            Backing::ReadOnly => return Ok(Writes::default()),
            Backing::Copy(view) => self.differences(view.as_fd(), false)?,
            Backing::OverlayUpper(upper) => self.differences(upper.as_fd(), true)?,
            Backing::Remote => return Err(io::Error::other("the copy is not on this machine")),
        };
        Ok(self.new_writes(found))
    }

    /// Returns what was written since the last comparison, from an archive of the view's directory.
    ///
    /// # Errors
    /// The archive cannot be read, or is cut.
    pub(crate) fn compare_archive(&mut self, archive: impl Read) -> io::Result<Writes> {
        let found = self.archive_differences(archive)?;
        Ok(self.new_writes(found))
    }

    fn new_writes(&mut self, found: Differences) -> Writes {
        let new: Vec<_> = found.writes.difference(&self.known).cloned().collect();
        let listed = new.iter().take(MAX_LISTED).map(|(path, change)| SourceWrite {
            path: String::from_utf8_lossy(path).into_owned(),
            change: change.as_str().to_owned(),
        });
        let more =
            new.len().saturating_sub(MAX_LISTED) + found.more_new.saturating_sub(self.known_more);
        let writes = Writes { listed: listed.collect(), more };
        self.known.extend(new);
        self.known_more = self.known_more.max(found.more_new);
        writes
    }

    /// Compares a directory with the source. In an upper `layer`, a missing file is a file that was not written.
    fn differences(&self, root: BorrowedFd<'_>, layer: bool) -> io::Result<Differences> {
        let mut found = Differences::default();
        let mut visited_sources: HashSet<Vec<u8>> = HashSet::new();
        // Paths of the upper layer that hide the lower layer, with all below them.
        let mut hiding: Vec<Vec<u8>> = vec![];
        self.walk(root, &mut |visited| {
            match visited {
                Visited::File { parent, name, path, stat } => {
                    if layer && is_whiteout(stat) {
                        hiding.push(path.to_vec());
                        return Ok(());
                    }
                    if layer && self.has_below(path) {
                        hiding.push(path.to_vec());
                    }
                    if let Some(source) = self.sources.get(path) {
                        visited_sources.insert(path.to_vec());
                        let untouched = self.stamps.get(path) == Some(&stamp(stat));
                        if !untouched && !source.is_at(parent, name, stat)? {
                            found.source(path.to_vec(), Change::Changed);
                        }
                    } else if is_content(stat) && self.is_new_source(path) {
                        found.new_file(path);
                    }
                }
                Visited::Directory { path, handle, stat } => {
                    if layer && (is_opaque(handle) || self.sources.contains_key(path)) {
                        hiding.push(path.to_vec());
                    }
                    if handle.is_none() {
                        // The directory is too deep, or the step closed it, so its files cannot be compared.
                        let below: Vec<_> = self.below(path).cloned().collect();
                        if below.is_empty() && is_too_deep(path) && stat.is_some() {
                            found.new_file(path);
                        }
                        for source in below {
                            visited_sources.insert(source.clone());
                            found.source(source, Change::Changed);
                        }
                    }
                }
            }
            Ok(())
        })?;
        let gone = |path: &Vec<u8>| !visited_sources.contains(path);
        if layer {
            for path in &hiding {
                let itself = self.sources.get_key_value(path).map(|(path, _)| path);
                for source in itself.into_iter().chain(self.below(path)).filter(|path| gone(path)) {
                    found.source(source.clone(), Change::Deleted);
                }
            }
        } else {
            for source in self.sources.keys().filter(|path| gone(path)) {
                found.source(source.clone(), Change::Deleted);
            }
        }
        Ok(found)
    }

    fn archive_differences(&self, archive: impl Read) -> io::Result<Differences> {
        let sizes: HashSet<u64> = self.sources.values().map(|source| source.size).collect();
        let mut archive = ArchiveReader::new(archive);
        let mut found = Differences::default();
        let mut visited: HashSet<Vec<u8>> = HashSet::new();
        // A hard link in an archive has the content of the path that it names.
        let mut contents: HashMap<Vec<u8>, Content> = HashMap::new();
        let (mut entries, mut path_bytes) = (0, 0);
        while let Some(entry) = archive.next_entry()? {
            entries += 1;
            if entries > MAX_ARCHIVE_ENTRIES {
                return Err(io::Error::other(format!(
                    "the view holds more than {MAX_ARCHIVE_ENTRIES} names"
                )));
            }
            let Some(path) = below_top(&entry.path).filter(|path| self.is_compared(path)) else {
                continue;
            };
            if entry.kind.is_dir() {
                continue;
            }
            let content = archived_content(&entry, &sizes, &contents, &mut archive)?;
            if let Some(source) = self.sources.get(path) {
                visited.insert(path.to_vec());
                if content.as_ref() != Some(&source.content) {
                    found.source(path.to_vec(), Change::Changed);
                }
            } else if (entry.kind.is_file() || entry.kind.is_symlink() || entry.kind.is_hard_link())
                && self.is_new_source(shortened(path))
            {
                found.new_file(path);
            }
            path_bytes += path.len();
            if let Some(content) = content.filter(|_| path_bytes <= MAX_LINKED_PATHS) {
                contents.insert(path.to_vec(), content);
            }
        }
        for path in self.sources.keys().filter(|path| !visited.contains(*path)) {
            found.source(path.clone(), Change::Deleted);
        }
        Ok(found)
    }

    /// Visits everything that can be a write, a directory before its entries.
    fn walk(
        &self,
        root: BorrowedFd<'_>,
        visit: &mut dyn FnMut(Visited<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut names = match Walk::new(root.try_clone_to_owned()?) {
            Err(Errno::ACCESS) => {
                return visit(Visited::Directory { path: b"", handle: None, stat: None });
            }
            names => names?,
        };
        while let Some(Entry { name, .. }) = names.next_entry()? {
            let (name, depth) = (name.as_c_str(), names.depth());
            if is_git(name.to_bytes()) || (depth == 1 && self.is_notes_dir(name.to_bytes())) {
                continue;
            }
            let path = names.path(name);
            let stat = match statat(names.here(), name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                // A process that a step left behind removes files.
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            };
            if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                visit(Visited::File { parent: names.here(), name, path: &path, stat: &stat })?;
                continue;
            }
            let is_ignored =
                || is_product_directory(name.to_bytes()) || self.set.ignores(as_path(&path), true);
            if !self.has_below(&path) && is_ignored() {
                continue;
            }
            let handle = match names.open(name) {
                _ if depth > MAX_DEPTH || path.len() > MAX_PATH => None,
                // The files of a directory that can be listed but not searched cannot be opened.
                Ok(handle) => is_searchable(&handle).then_some(handle),
                Err(Errno::ACCESS) => None,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(error) => return Err(error.into()),
            };
            visit(Visited::Directory { path: &path, handle: handle.as_ref(), stat: Some(&stat) })?;
            if let Some(handle) = handle {
                names.enter(name, handle)?;
            }
        }
        Ok(())
    }

    /// Returns whether an archived path can be a source: git's directories and the notes of `act` cannot.
    fn is_compared(&self, path: &[u8]) -> bool {
        let mut parts = path.split(|byte| *byte == b'/');
        !parts.clone().any(is_git) && parts.next().is_none_or(|first| !self.is_notes_dir(first))
    }

    /// Returns whether `name`, at the root, is the directory of act's notes.
    fn is_notes_dir(&self, name: &[u8]) -> bool {
        self.set.notes_dir().is_some_and(|notes| notes.as_bytes() == name)
    }

    /// Returns whether a new file counts as a source, because it is neither ignored nor the product of a build.
    fn is_new_source(&self, path: &[u8]) -> bool {
        let mut upwards = path.rsplit(|byte| *byte == b'/');
        !upwards.next().is_some_and(is_product_file)
            && !upwards.any(is_product_directory)
            && !self.set.ignores(as_path(path), false)
    }

    fn has_below(&self, directory: &[u8]) -> bool {
        self.below(directory).next().is_some()
    }

    /// Returns the sources below a directory.
    fn below<'a>(&'a self, directory: &[u8]) -> impl Iterator<Item = &'a Vec<u8>> + use<'a> {
        let prefix = if directory.is_empty() { vec![] } else { [directory, b"/"].concat() };
        let from = (Bound::Included(prefix.clone()), Bound::Unbounded);
        self.sources
            .range::<Vec<u8>, _>(from)
            .map(|(path, _)| path)
            .take_while(move |path| path.starts_with(&prefix))
    }
}

/// An entry that the walk through a view visits.
enum Visited<'a> {
    /// Anything but a directory.
    File { parent: BorrowedFd<'a>, name: &'a CStr, path: &'a [u8], stat: &'a Stat },
    /// A directory; `handle` is `None` when it is not entered.
    Directory { path: &'a [u8], handle: Option<&'a OwnedFd>, stat: Option<&'a Stat> },
}

/// The differences between a view and its source. A step may create millions of files, so the paths of new files are
/// bounded.
#[derive(Default)]
struct Differences {
    writes: BTreeSet<(Vec<u8>, Change)>,
    new_bytes: usize,
    /// Number of new files whose paths are not stored.
    more_new: usize,
}

impl Differences {
    fn source(&mut self, path: Vec<u8>, change: Change) {
        self.writes.insert((path, change));
    }

    fn new_file(&mut self, path: &[u8]) {
        if self.new_bytes + path.len() > MAX_NEW_PATHS {
            self.more_new += 1;
        } else if self.writes.insert((path.to_vec(), Change::New)) {
            self.new_bytes += path.len();
        }
    }
}

impl Source {
    /// Returns whether the file `name` still has the content of the source.
    fn is_at(&self, parent: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> io::Result<bool> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Symlink {
            return match readlinkat(parent, name, vec![]) {
                Ok(target) => Ok(self.content == link_content(target.as_bytes())),
                Err(Errno::INVAL | Errno::NOENT) => Ok(false),
                Err(error) => Err(error.into()),
            };
        }
        if kind != FileType::RegularFile
            || self.content.mode != git_mode(stat.st_mode & 0o100 != 0)
            || u64::try_from(stat.st_size).ok() != Some(self.size)
        {
            return Ok(false);
        }
        let opened = match openat(parent, name, READ, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::ACCESS | Errno::NOENT | Errno::LOOP) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        if FileType::from_raw_mode(fstat(&opened)?.st_mode) != FileType::RegularFile {
            return Ok(false);
        }
        Ok(digest_of(File::from(opened).take(self.size + 1))? == self.content.sha256)
    }
}

/// Returns the content of an archived file, or `None` when its kind or its size alone shows that it is no source.
fn archived_content(
    entry: &ArchiveEntry,
    sizes: &HashSet<u64>,
    known: &HashMap<Vec<u8>, Content>,
    bytes: &mut impl Read,
) -> io::Result<Option<Content>> {
    if entry.kind.is_symlink() {
        return Ok(Some(link_content(&entry.link)));
    }
    if entry.kind.is_hard_link() {
        return Ok(below_top(&entry.link).and_then(|path| known.get(path)).cloned());
    }
    if !entry.kind.is_file() || !sizes.contains(&entry.size) {
        return Ok(None);
    }
    Ok(Some(Content { mode: git_mode(entry.mode & 0o100 != 0), sha256: digest_of(bytes)? }))
}

fn link_content(target: &[u8]) -> Content {
    Content { mode: "120000", sha256: digest(target) }
}

fn git_mode(executable: bool) -> &'static str {
    if executable { "100755" } else { "100644" }
}

fn digest_of(mut bytes: impl Read) -> io::Result<String> {
    let mut hash = sha2::Sha256::new();
    let mut buffer = vec![0; READ_AT_ONCE];
    loop {
        match bytes.read(&mut buffer)? {
            0 => return Ok(Sha256::from(hash).to_string()),
            count => hash.update(&buffer[..count]),
        }
    }
}

/// Returns the path below the archived directory, whose name depends on the engine.
fn below_top(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().position(|byte| *byte == b'/')?;
    let path = &path[slash + 1..];
    Some(path.strip_suffix(b"/").unwrap_or(path)).filter(|path| !path.is_empty())
}

/// Shortens a path that is longer than any source's to the directory that the walk would not enter.
fn shortened(path: &[u8]) -> &[u8] {
    let Some(start) = path.get(..MAX_PATH) else { return path };
    start.iter().rposition(|byte| *byte == b'/').map_or(start, |at| &start[..at])
}

fn is_git(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git")
}

fn is_searchable(directory: &OwnedFd) -> bool {
    statat(directory, c".", AtFlags::empty()).err() != Some(Errno::ACCESS)
}

fn is_too_deep(path: &[u8]) -> bool {
    path.len() > MAX_PATH || path.iter().filter(|byte| **byte == b'/').count() >= MAX_DEPTH
}

/// Returns whether an entry of an upper layer marks a deleted name.
fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}

/// Returns whether a directory of an upper layer hides that of the lower layer.
fn is_opaque(handle: Option<&OwnedFd>) -> bool {
    let mut value = [0u8; 1];
    handle.is_some_and(|handle| {
        fgetxattr(handle, "user.overlay.opaque", &mut value[..]).is_ok() && value == *b"y"
    })
}

/// Returns whether git could hold a file of this kind.
fn is_content(stat: &Stat) -> bool {
    matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Symlink)
}

fn stamp(stat: &Stat) -> Stamp {
    #[expect(clippy::unnecessary_cast, reason = "the width of these fields differs")]
    let (inode, seconds, nanoseconds) =
        (stat.st_ino as u64, stat.st_ctime as i64, stat.st_ctime_nsec as i64);
    (inode, seconds, nanoseconds, stat.st_size)
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Directories that builds and tests create beside the source, whether or not `.gitignore` names them. A `*` at the
/// front stands for any beginning.
const PRODUCT_DIRECTORIES: [&str; 37] = [
    "node_modules",
    "target",
    "dist",
    "build",
    "out",
    ".next",
    ".nuxt",
    ".svelte-kit",
    ".output",
    ".turbo",
    ".parcel-cache",
    ".vite",
    ".cache",
    ".angular",
    ".gradle",
    ".kotlin",
    ".pnpm-store",
    ".yarn",
    ".npm",
    "*.egg-info",
    "*.dist-info",
    ".eggs",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".tox",
    ".nox",
    ".venv",
    "venv",
    "coverage",
    ".nyc_output",
    "htmlcov",
    "test-results",
    "playwright-report",
    ".bundle",
];

/// Files that builds and tests create. A changed lock file is a changed source; only a new one is a product.
const PRODUCT_FILES: [&str; 34] = [
    "Cargo.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "poetry.lock",
    "uv.lock",
    "pdm.lock",
    "Pipfile.lock",
    "go.sum",
    "go.work.sum",
    "Gemfile.lock",
    "composer.lock",
    "gradle.lockfile",
    "*.pyc",
    "*.pyo",
    "*.o",
    "*.obj",
    "*.a",
    "*.so",
    "*.class",
    "*.tsbuildinfo",
    "*.profraw",
    "*.gcda",
    "*.gcno",
    ".coverage",
    ".eslintcache",
    "coverage.xml",
    "coverage.out",
    "lcov.info",
    "junit.xml",
    "npm-debug.log",
    "yarn-error.log",
];

fn is_product_directory(name: &[u8]) -> bool {
    PRODUCT_DIRECTORIES.iter().any(|known| matches_name(name, known))
}

fn is_product_file(name: &[u8]) -> bool {
    name.starts_with(b".coverage.") || PRODUCT_FILES.iter().any(|known| matches_name(name, known))
}

fn matches_name(name: &[u8], known: &str) -> bool {
    match known.strip_prefix('*') {
        Some(end) => name.ends_with(end.as_bytes()) && name.len() > end.len(),
        None => name == known.as_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::{Directory, copy};
    use act_workspace::PathGlobs;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tokio_util::sync::CancellationToken;

    struct Repository {
        _dirs: [tempfile::TempDir; 2],
        view: std::path::PathBuf,
        diff: TreeDiff,
        /// The comparison for an engine that sends the copy as an archive.
        remote: TreeDiff,
    }

    /// Returns a small repository with its copy and the comparisons between them.
    fn repository() -> Repository {
        let (repo, view) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |path: &str| repo.path().join(path);
        fs::create_dir_all(at("src/deep")).unwrap();
        fs::create_dir_all(at("build")).unwrap();
        for file in ["src/a.rs", "src/deep/b.rs", "build/config.js", "top", "gen.env"] {
            fs::write(at(file), file).unwrap();
        }
        fs::write(at(".gitignore"), "*.env\nlogs/\n").unwrap();
        symlink("top", at("link")).unwrap();
        let include = PathGlobs::new(&["gen.env".to_owned()]).unwrap();
        let set = || CopySet::of(repo.path(), &include).unwrap();
        let handle = || OwnedFd::from(fs::File::open(view.path()).unwrap());
        let mut into = Directory::new(handle());
        let tree = copy(&set(), &mut into, &CancellationToken::new()).unwrap();
        let diff = TreeDiff::new(set(), tree.clone(), Backing::Copy(handle())).unwrap();
        let remote = TreeDiff::new(set(), tree, Backing::Remote).unwrap();
        Repository { view: view.path().to_owned(), _dirs: [repo, view], diff, remote }
    }

    /// Returns the archive that an engine would send.
    fn archived(view: &Path) -> Vec<u8> {
        let mut archive = tar::Builder::new(vec![]);
        archive.follow_symlinks(false);
        archive.append_dir_all("tree", view).unwrap();
        archive.into_inner().unwrap()
    }

    /// Compares both ways, which must find the same writes.
    fn writes_of_both(repository: &mut Repository) -> Vec<String> {
        let fetched = repository.remote.compare_archive(&archived(&repository.view)[..]).unwrap();
        let compared = repository.diff.compare().unwrap();
        assert_eq!(fetched, compared);
        compared
            .listed
            .into_iter()
            .map(|write| format!("{} {}", write.change, write.path))
            .collect()
    }

    fn writes(diff: &mut TreeDiff) -> Vec<String> {
        let writes = diff.compare().unwrap();
        writes.listed.into_iter().map(|write| format!("{} {}", write.change, write.path)).collect()
    }

    // VERIFIER-25
    #[test]
    fn changed_deleted_and_new_sources_are_reported_once() {
        let mut repository = repository();
        assert_eq!(writes_of_both(&mut repository), Vec::<String>::new());
        fs::write(repository.view.join("src/a.rs"), "src/A.rs").unwrap();
        fs::remove_dir_all(repository.view.join("src/deep")).unwrap();
        fs::create_dir_all(repository.view.join("tests/__snapshots__")).unwrap();
        fs::write(repository.view.join("tests/__snapshots__/a.snap"), "x").unwrap();
        fs::write(repository.view.join("build/config.js"), "x").unwrap();
        fs::remove_file(repository.view.join("link")).unwrap();
        symlink("elsewhere", repository.view.join("link")).unwrap();
        assert_eq!(
            writes_of_both(&mut repository),
            [
                "changed build/config.js",
                "changed link",
                "changed src/a.rs",
                "deleted src/deep/b.rs",
                "new tests/__snapshots__/a.snap",
            ]
        );
        assert_eq!(
            writes_of_both(&mut repository),
            Vec::<String>::new(),
            "a later step is not blamed"
        );
        fs::remove_file(repository.view.join("top")).unwrap();
        assert_eq!(writes_of_both(&mut repository), ["deleted top"]);
    }

    // VERIFIER-25
    #[test]
    fn touched_ignored_and_built_files_are_no_writes() {
        let mut repository = repository();
        let at = |path: &str| repository.view.join(path);
        fs::write(at("src/a.rs"), "src/a.rs").unwrap();
        fs::set_permissions(at("top"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(at("gen.env"), "made anew").unwrap();
        for file in [
            "logs/x",
            "other.env",
            "node_modules/dep/index.js",
            "src/pkg.egg-info/PKG-INFO",
            "target/debug/x",
            "build/out.js",
            "Cargo.lock",
            "src/__pycache__/a.pyc",
            ".coverage",
            ".git/index",
        ] {
            fs::create_dir_all(at(file).parent().unwrap()).unwrap();
            fs::write(at(file), "x").unwrap();
        }
        fs::create_dir(at("empty")).unwrap();
        assert_eq!(writes_of_both(&mut repository), Vec::<String>::new());
    }

    // VERIFIER-25
    #[test]
    fn an_executable_bit_and_a_restored_time_do_not_hide_a_change() {
        let mut repository = repository();
        let top = repository.view.join("top");
        let before = fs::metadata(&top).unwrap().modified().unwrap();
        fs::write(&top, "pot").unwrap();
        fs::File::options().write(true).open(&top).unwrap().set_modified(before).unwrap();
        let a = repository.view.join("src/a.rs");
        fs::set_permissions(a, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(writes_of_both(&mut repository), ["changed src/a.rs", "changed top"]);
    }

    #[test]
    fn a_fifo_or_a_directory_in_a_files_place_is_a_change_and_does_not_block() {
        let mut repository = repository();
        let (top, link) = (repository.view.join("top"), repository.view.join("link"));
        fs::remove_file(&top).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&top).status().unwrap().success());
        fs::remove_file(&link).unwrap();
        fs::create_dir(&link).unwrap();
        assert_eq!(writes_of_both(&mut repository), ["deleted link", "changed top"]);
    }

    #[test]
    fn many_writes_are_listed_in_part_and_counted() {
        let mut repository = repository();
        for number in 0..MAX_LISTED + 7 {
            fs::write(repository.view.join(format!("new-{number:04}")), "").unwrap();
        }
        let writes = repository.diff.compare().unwrap();
        assert_eq!((writes.listed.len(), writes.more), (MAX_LISTED, 7));
        let text = writes.warning("s1").unwrap().message;
        let start = "step \"s1\" wrote to the source: new-0000 (new), ";
        assert!(text.starts_with(start) && text.ends_with(" and 197 more"), "{text}");
    }

    /// The test builds an upper layer as the kernel writes it. Deletions need root, so the container tests cover them.
    #[test]
    fn an_upper_layer_shows_changed_and_new_files_and_replaced_directories() {
        let mut repository = repository();
        let upper = tempfile::tempdir().unwrap();
        let at = |path: &str| upper.path().join(path);
        fs::create_dir_all(at("src/deep")).unwrap();
        fs::write(at("src/a.rs"), "src/a.rs").unwrap();
        fs::write(at("src/new.rs"), "x").unwrap();
        fs::write(at("top"), "x").unwrap();
        let deep = fs::File::open(at("src/deep")).unwrap();
        let opaque = rustix::fs::fsetxattr(
            &deep,
            "user.overlay.opaque",
            b"y",
            rustix::fs::XattrFlags::empty(),
        );
        repository.diff.backing =
            Backing::OverlayUpper(fs::File::open(upper.path()).unwrap().into());
        repository.diff.stamps.clear();
        let mut expected = vec!["changed top", "new src/new.rs"];
        if opaque.is_ok() {
            expected.insert(0, "deleted src/deep/b.rs");
        }
        let mut found = writes(&mut repository.diff);
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }

    // VERIFIER-33
    #[test]
    fn a_hard_link_in_an_archive_counts_as_what_it_leads_to() {
        let mut repository = repository();
        let mut writes = |original: &str| {
            let mut archive = tar::Builder::new(vec![]);
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            header.set_size(original.len() as u64);
            archive.append_data(&mut header, "tree/node_modules/x", original.as_bytes()).unwrap();
            let files = ["build/config.js", "src/deep/b.rs", "top"].map(|path| (path, path));
            for (path, text) in files.into_iter().chain([(".gitignore", "*.env\nlogs/\n")]) {
                header.set_size(text.len() as u64);
                archive.append_data(&mut header, format!("tree/{path}"), text.as_bytes()).unwrap();
            }
            header.set_size(0);
            header.set_entry_type(tar::EntryType::Link);
            archive.append_link(&mut header, "tree/src/a.rs", "tree/node_modules/x").unwrap();
            header.set_entry_type(tar::EntryType::Symlink);
            archive.append_link(&mut header, "tree/link", "top").unwrap();
            let archive = archive.into_inner().unwrap();
            repository.remote.compare_archive(&archive[..]).unwrap().listed
        };
        assert_eq!(writes("src/a.rs"), []);
        assert_eq!(writes("src/A.rs").len(), 1);
        // An archive without its end does not show which files are missing.
        assert!(repository.remote.compare_archive(&archived(&repository.view)[..512]).is_err());
    }

    // VERIFIER-25
    #[test]
    fn names_of_new_files_are_stored_up_to_a_bound_and_counted_beyond_it() {
        let mut found = Differences::default();
        let name = |n: usize| format!("{n:04}{}", "x".repeat((1 << 20) - 4)).into_bytes();
        (0..10).for_each(|n| found.new_file(&name(n)));
        found.source(name(10), Change::Deleted);
        assert_eq!((found.writes.len(), found.more_new), (5, 6));
    }

    // VERIFIER-25
    #[test]
    fn builds_are_known_by_their_names_and_snapshots_are_no_builds() {
        for name in ["node_modules", "pkg.egg-info", "target", "__pycache__"] {
            assert!(is_product_directory(name.as_bytes()), "{name}");
        }
        for name in ["src", "__snapshots__", "tests", ".egg-info", "snapshots", "distribution"] {
            assert!(!is_product_directory(name.as_bytes()), "{name}");
        }
        for name in ["Cargo.lock", "a.pyc", ".coverage", ".coverage.host.1"] {
            assert!(is_product_file(name.as_bytes()), "{name}");
        }
        for name in ["a.snap", "a.py", "Cargo.toml", "package.json", "data.json", "coverage.py"] {
            assert!(!is_product_file(name.as_bytes()), "{name}");
        }
    }
}
