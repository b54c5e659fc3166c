//! The files that a verification is about: what git tracks, what it would track, and what the configuration
//! adds. Read by handle, without the exclusions that keep secrets and binaries from components.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::AtFlags;
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::exclusion::is_temporary;
use super::globs::PathGlobs;
use super::handle::{self, DIRECTORY, READ, Root};
use super::ignored::IgnoreRules;
use super::notes_dir::notes_dir_of;
use super::stop::StopCheck;
use super::view::Kind;
use super::walk::{Found, Walk, name_of};
use act_fs::hex;

/// Files and links in one set at most.
const MAX_FILES: usize = 2_000_000;
/// What a reader of whole trees takes at once, in bytes.
pub const READ_AT_ONCE: usize = 64 << 10;

/// Never `.git` at any depth, never the directory of act's notes, only regular files and links.
#[derive(Debug)]
pub struct CopySet {
    root: Root,
    ignores: IgnoreRules,
    notes: Option<&'static str>,
    /// In path order, component by component.
    pub entries: Vec<CopyEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyEntry {
    /// Relative to the root; may be no UTF-8.
    pub path: PathBuf,
    /// File or link.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    pub size: u64,
}

/// What a tree holds, as digests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// SHA-256 over path, git's mode and content digest of every file, 64 hex digits.
    pub digest: String,
    /// In path order.
    pub files: Vec<TreeFile>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFile {
    pub path: PathBuf,
    /// `100644`, `100755` or `120000`, as git knows it: other permission bits are no content.
    pub mode: &'static str,
    pub sha256: String,
    /// Of what was read, in bytes.
    pub size: u64,
}

/// Made of entries in their order, each with the content that counts for it.
#[derive(Default)]
pub struct TreeBuilder {
    whole: Sha256,
    files: Vec<TreeFile>,
}

impl TreeBuilder {
    pub fn link(&mut self, entry: &CopyEntry, target: &OsStr) {
        let size = target.len() as u64;
        self.add(entry, "120000", hex(&Sha256::digest(target.as_bytes())), size);
    }

    /// Reads to the end and hands every piece to `keep`: what is kept is what is digested.
    pub fn file(
        &mut self,
        entry: &CopyEntry,
        from: &mut impl Read,
        buffer: &mut [u8],
        keep: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut hash, mut size) = (Sha256::new(), 0);
        loop {
            let read = match from.read(buffer) {
                Ok(0) => break,
                Ok(count) => buffer.get(..count).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            size += read.len() as u64;
            hash.update(read);
            keep(read)?;
        }
        let mode = if entry.is_executable() { "100755" } else { "100644" };
        self.add(entry, mode, hex(&hash.finalize()), size);
        Ok(())
    }

    fn add(&mut self, entry: &CopyEntry, mode: &'static str, sha256: String, size: u64) {
        for part in [entry.path.as_os_str().as_bytes(), mode.as_bytes(), sha256.as_bytes()] {
            self.whole.update(part);
            self.whole.update([0]);
        }
        self.files.push(TreeFile { path: entry.path.clone(), mode, sha256, size });
    }

    pub fn finish(self) -> Tree {
        Tree { digest: hex(&self.whole.finalize()), files: self.files }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CopyError {
    #[error("more than {MAX_FILES} files; add ignored directories to .gitignore")]
    TooMany,
    #[error("{} changed while it was read", path.display())]
    Changed { path: PathBuf },
    #[error("{} cannot be read: {errno}", path.display())]
    Failed { path: PathBuf, errno: Errno },
}

impl CopySet {
    /// `include` adds files that git ignores.
    pub fn of(root: &Path, include: &PathGlobs) -> Result<Self, CopyError> {
        let failed = |errno| CopyError::Failed { path: root.to_owned(), errno };
        let root = Root::open(root).map_err(failed)?;
        let ignores = IgnoreRules::new(&root);
        let notes = notes_dir_of(&root, &ignores);
        let start = root.open_real(b"", DIRECTORY).map_err(failed)?;
        let never = StopCheck::default();
        let mut walk = Walk::start((&ignores, None), &never, b"", start, None).map_err(failed)?;
        let mut entries = vec![];
        while let Some(found) = walk.next().map_err(failed)? {
            if is_left_out(&found, notes) {
                continue;
            }
            let path = PathBuf::from(OsString::from_vec(found.path.clone()));
            let failed = |errno| CopyError::Failed { path: path.clone(), errno };
            if found.kind == Kind::Directory {
                if !found.ignored || include.may_match_below(&found.path) {
                    walk.enter(&found).map_err(failed)?;
                }
                continue;
            }
            if found.ignored && !include.matches_bytes(&found.path) {
                continue;
            }
            if entries.len() >= MAX_FILES {
                return Err(CopyError::TooMany);
            }
            let Some(dir) = walk.dir() else { continue };
            let stat = match rustix::fs::statat(dir, found.name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(failed(errno)),
            };
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            let mode = (stat.st_mode as u32) & 0o7777;
            entries.push(CopyEntry { path, kind: found.kind, mode, size });
        }
        if walk.cut {
            return Err(CopyError::TooMany);
        }
        Ok(Self { root, ignores, notes, entries })
    }

    /// Whether git would ignore a path, by the rules that the repository has now. The path need not exist.
    pub fn ignores(&self, path: &Path, is_dir: bool) -> bool {
        self.ignores.ignores_path(path.as_os_str().as_bytes(), is_dir)
    }

    /// Returns the name of the directory that holds act's notes, which is no part of the set.
    pub fn notes_dir(&self) -> Option<&'static str> {
        self.notes
    }

    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.size).sum()
    }

    /// The regular file of an entry.
    pub fn open(&self, entry: &CopyEntry) -> Result<File, CopyError> {
        let opened = self.root.open_real(entry.path.as_os_str().as_bytes(), READ);
        let regular = opened.and_then(handle::regular).map_err(|errno| explain(entry, errno))?;
        Ok(File::from(regular.0))
    }

    /// What the link of an entry says.
    pub fn link_target(&self, entry: &CopyEntry) -> Result<OsString, CopyError> {
        let path = entry.path.as_os_str().as_bytes();
        let dir = path
            .strip_suffix(name_of(path))
            .map_or(path, |dir| dir.strip_suffix(b"/").unwrap_or(dir));
        let target = self
            .root
            .open_real(dir, DIRECTORY)
            .and_then(|dir| rustix::fs::readlinkat(dir, OsStr::from_bytes(name_of(path)), vec![]))
            .map_err(|errno| explain(entry, errno))?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Reads every file once.
    pub fn tree(&self) -> Result<Tree, CopyError> {
        let mut tree = TreeBuilder::default();
        let mut buffer = vec![0; READ_AT_ONCE];
        for entry in &self.entries {
            match entry.kind {
                Kind::Link => tree.link(entry, &self.link_target(entry)?),
                _ => {
                    tree.file(entry, &mut self.open(entry)?, &mut buffer, &mut |_| Ok(())).map_err(
                        |error| explain(entry, Errno::from_io_error(&error).unwrap_or(Errno::IO)),
                    )?
                }
            }
        }
        Ok(tree.finish())
    }
}

impl CopyEntry {
    /// The one permission bit that git knows.
    pub fn is_executable(&self) -> bool {
        self.mode & 0o100 != 0
    }
}

/// The digest of everything that a verification is about.
pub fn tree_digest(root: &Path, include: &PathGlobs) -> Result<String, CopyError> {
    Ok(CopySet::of(root, include)?.tree()?.digest)
}

fn is_left_out(found: &Found, notes: Option<&str>) -> bool {
    let name = found.name();
    name.eq_ignore_ascii_case(b".git")
        || std::str::from_utf8(name).is_ok_and(is_temporary)
        || notes.is_some_and(|notes| found.path == notes.as_bytes())
}

fn explain(entry: &CopyEntry, errno: Errno) -> CopyError {
    let path = entry.path.clone();
    match errno {
        Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::ISDIR | Errno::INVAL | Errno::NXIO => {
            CopyError::Changed { path }
        }
        errno => CopyError::Failed { path, errno },
    }
}

#[cfg(test)]
mod tests;
