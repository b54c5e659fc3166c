//! The one in-memory overlay: files and directories that lie over a repository which stays as it is.
//!
//! Two kinds of writers use it. A dry run applies whole changes ([`crate::RepoWriter::open_dry`]). A component that
//! needs a directory which it can write gets a [branch](Overlay::branch) for one call, writes to files in it, and the
//! changes that are left go to the writer. Readers see either through [`crate::RepoView::over`].
//!
//! Paths are real names. Deleted entries are whiteouts, as in overlayfs. The overlay holds a directory only where the
//! repository has none of that name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::paths::RepoPath;
use super::proposal::{Blob, NEW_FILE, ProposedFile};
use super::reading::{MAX_READ, Version, digest, is_binary};
use super::transaction::{self, directory, on_the_way};
use super::view::Kind;
use super::writer::{Change, Checked, EditError};
use act_fs::{DIRECTORY, Root};
use rustix::fs::{FileType, RawMode, Stat};

/// Bytes that one overlay holds; in a dry run the original content of changed files is among them.
const MAX_BYTES: usize = 64 << 20;
/// Files, directories and whiteouts that a branch may add to the overlay that it began with. A dry run is bounded by
/// the number of files that its writer may change.
const MAX_ENTRIES: usize = 10_000;

/// Changes over a repository. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Overlay(Arc<Mutex<Layer>>);

#[derive(Debug, Clone, Default)]
struct Layer {
    entries: BTreeMap<String, Entry>,
    /// Each path that was changed here, with the file that the layer below has there.
    originals: BTreeMap<String, Option<Original>>,
    /// Bytes of the originals and of the files that took their places.
    bytes: usize,
}

#[derive(Debug, Clone)]
enum Entry {
    File(OverlayFile),
    Directory,
    Whiteout,
}

/// A file of the layer below that was changed here.
#[derive(Debug, Clone)]
enum Original {
    /// The content, from which a dry run makes its patch.
    Content(Content),
    /// The version that a change has to expect. A branch needs no more, so removing a file takes no copy of it.
    Version(Version),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Content {
    bytes: Arc<Vec<u8>>,
    mode: u32,
}

/// A file in the overlay.
#[derive(Debug, Clone)]
pub(super) struct OverlayFile {
    content: Content,
    /// The path in the repository that the content was read from.
    from: Option<String>,
}

/// The entry of an overlay at a path.
#[derive(Debug, Clone)]
pub(super) enum Lookup {
    /// Nothing: the entry of the repository is visible.
    Lower,
    File(OverlayFile),
    Directory,
    /// No entry, whatever the repository has.
    Nothing,
    /// No entry, because a file is on the way to the path.
    NotDirectory,
}

/// The overlay holds as many bytes or entries as it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the scratch copy is full")]
pub struct OverlayFull;

impl Content {
    fn blob(&self) -> Blob {
        Blob::new(self.bytes.as_slice(), self.mode)
    }
}

impl Original {
    fn is(&self, content: &Content) -> bool {
        match self {
            Self::Content(original) => original == content,
            // Other permission bits alone are no change of a file.
            Self::Version(version) => version.digest == digest(&content.bytes),
        }
    }

    fn blob(&self) -> Blob {
        match self {
            Self::Content(content) => content.blob(),
            Self::Version(version) => {
                Blob { bytes: [].into(), mode: NEW_FILE, sha256: version.digest.clone() }
            }
        }
    }

    /// Returns the number of bytes that the overlay holds for it.
    fn len(&self) -> usize {
        match self {
            Self::Content(content) => content.bytes.len(),
            Self::Version(_) => 0,
        }
    }
}

impl OverlayFile {
    pub(super) fn digest(&self) -> String {
        digest(&self.content.bytes)
    }

    pub(super) fn bytes(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.content.bytes)
    }

    /// Returns the metadata of the file, in which the owner is that of another entry. The file has no times, because the
    /// time of a write would be a clock for a component that was granted none.
    pub(super) fn stat(&self, other: Stat) -> Stat {
        let mut stat = other;
        stat.st_mode = FileType::RegularFile.as_raw_mode() | self.content.mode as RawMode;
        stat.st_size = i64::try_from(self.content.bytes.len()).unwrap_or(i64::MAX);
        (stat.st_dev, stat.st_nlink) = (0, 1);
        (stat.st_atime, stat.st_atime_nsec) = (0, 0);
        (stat.st_mtime, stat.st_mtime_nsec) = (0, 0);
        (stat.st_ctime, stat.st_ctime_nsec) = (0, 0);
        stat
    }
}

impl Overlay {
    /// Returns an overlay that shows what this one holds. Later changes of either are not visible in the other.
    #[must_use]
    pub fn branch(&self) -> Self {
        let entries = self.layer().entries.clone();
        Self(Arc::new(Mutex::new(Layer { entries, ..Layer::default() })))
    }

    pub(super) fn lookup(&self, path: &str) -> Lookup {
        self.layer().lookup(path)
    }

    /// Returns the names that the overlay has in one directory; `None` is a whiteout.
    pub(super) fn names(&self, dir: &str) -> BTreeMap<Vec<u8>, Option<Kind>> {
        let layer = self.layer();
        let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let below =
            layer.entries.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let direct = below.filter_map(|(path, entry)| {
            let name = path.get(prefix.len()..).filter(|name| !name.contains('/'))?;
            let kind = match entry {
                Entry::File(_) => Some(Kind::File),
                Entry::Directory => Some(Kind::Directory),
                Entry::Whiteout => None,
            };
            Some((name.as_bytes().to_vec(), kind))
        });
        direct.collect()
    }

    /// Returns the size of a file that was changed here; `None` for every other path.
    pub fn changed_file_size(&self, path: &str) -> Option<u64> {
        self.layer().changed_file(path).map(|content| content.bytes.len() as u64)
    }

    /// Reads up to `most` bytes of a file that was changed here; `None` for every other path.
    pub fn read_at(&self, path: &str, offset: u64, most: usize) -> Option<Vec<u8>> {
        let layer = self.layer();
        let bytes = &layer.changed_file(path)?.bytes;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let to = from.saturating_add(most).min(bytes.len());
        Some(bytes[from..to].to_vec())
    }

    /// Copies a file up from the layer below, so that it can be written or renamed. `version` is the one that the
    /// change has to expect.
    ///
    /// # Errors
    ///
    /// [`OverlayFull`]. The overlay is then as it was, as after every error of the functions below.
    pub fn copy_up(
        &self,
        path: &str,
        bytes: Vec<u8>,
        mode: u32,
        version: Version,
    ) -> Result<(), OverlayFull> {
        let mut layer = self.layer();
        layer.check_room(path, bytes.len())?;
        let content = Content { bytes: Arc::new(bytes), mode };
        layer.set_original(path, || Some(Original::Version(version)));
        layer.set(path, Entry::File(OverlayFile { content, from: Some(path.to_owned()) }));
        Ok(())
    }

    /// Creates an empty file where no entry is visible.
    ///
    /// # Errors
    ///
    /// [`OverlayFull`].
    pub fn create_file(&self, path: &str) -> Result<(), OverlayFull> {
        self.add(path, Entry::File(OverlayFile::new(vec![])), None)
    }

    /// Creates a directory where no entry is visible.
    ///
    /// # Errors
    ///
    /// [`OverlayFull`].
    pub fn create_directory(&self, path: &str) -> Result<(), OverlayFull> {
        self.add(path, Entry::Directory, None)
    }

    /// Removes an empty directory, or a file that was changed here.
    ///
    /// # Errors
    ///
    /// [`OverlayFull`].
    pub fn remove(&self, path: &str) -> Result<(), OverlayFull> {
        self.add(path, Entry::Whiteout, None)
    }

    /// Removes a file that was not changed here. `version` is the one that the deletion has to expect.
    ///
    /// # Errors
    ///
    /// [`OverlayFull`].
    pub fn remove_unchanged(&self, path: &str, version: Version) -> Result<(), OverlayFull> {
        self.add(path, Entry::Whiteout, Some(Original::Version(version)))
    }

    fn add(&self, path: &str, entry: Entry, original: Option<Original>) -> Result<(), OverlayFull> {
        let mut layer = self.layer();
        layer.check_room(path, 0)?;
        layer.set_original(path, || original);
        layer.set(path, entry);
        Ok(())
    }

    /// Writes to a file that was changed here, at its end if `offset` is `None`. A gap is filled with zeros. Returns
    /// the offset after the last byte that was written.
    ///
    /// # Errors
    ///
    /// [`OverlayFull`], also if there is no such file.
    pub fn write_at(
        &self,
        path: &str,
        offset: Option<u64>,
        new: &[u8],
    ) -> Result<u64, OverlayFull> {
        self.modify(path, |bytes, room| {
            let from = offset.map_or(Ok(bytes.len()), usize::try_from).map_err(|_| OverlayFull)?;
            let to = from.checked_add(new.len()).ok_or(OverlayFull)?;
            grow(bytes, to, room)?;
            bytes[from..to].copy_from_slice(new);
            Ok(to as u64)
        })
    }

    /// Sets the size of a file that was changed here.
    ///
    /// # Errors
    ///
    /// [`OverlayFull`], also if there is no such file.
    pub fn set_size(&self, path: &str, size: u64) -> Result<(), OverlayFull> {
        self.modify(path, |bytes, room| {
            let size = usize::try_from(size).map_err(|_| OverlayFull)?;
            grow(bytes, size, room)?;
            bytes.truncate(size);
            Ok(())
        })
    }

    fn modify<T>(
        &self,
        path: &str,
        change: impl FnOnce(&mut Vec<u8>, usize) -> Result<T, OverlayFull>,
    ) -> Result<T, OverlayFull> {
        let mut layer = self.layer();
        let layer = &mut *layer;
        if !layer.originals.contains_key(path) {
            return Err(OverlayFull);
        }
        let Some(Entry::File(file)) = layer.entries.get_mut(path) else { return Err(OverlayFull) };
        let bytes = Arc::make_mut(&mut file.content.bytes);
        let before = bytes.len();
        let done = change(bytes, MAX_BYTES.saturating_sub(layer.bytes));
        layer.bytes = layer.bytes - before + bytes.len();
        done
    }

    /// Renames a file that was changed here to a path where no entry is visible, or a file that was changed here.
    ///
    /// # Errors
    ///
    /// [`OverlayFull`], also if there is no such file.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), OverlayFull> {
        let mut layer = self.layer();
        layer.check_room(to, 0)?;
        if layer.changed_file(from).is_none() {
            return Err(OverlayFull);
        }
        layer.set_original(to, || None);
        if let Some(file) = layer.set(from, Entry::Whiteout) {
            layer.set(to, file);
        }
        Ok(())
    }

    /// Applies all changes of a dry run, or none of them.
    pub(super) fn apply(&self, root: &Root, changes: &[Checked]) -> Result<(), EditError> {
        let mut layer = self.layer();
        let mut next = layer.clone();
        for change in changes {
            next.apply(root, change)?;
        }
        if next.bytes > MAX_BYTES {
            return Err(EditError::Budget("bytes of a dry run"));
        }
        *layer = next;
        Ok(())
    }

    /// Returns every file that differs from the layer below, sorted by path.
    pub fn files(&self) -> Vec<ProposedFile> {
        let layer = self.layer();
        let mut moved_from = BTreeSet::new();
        let is_gone = |from: &String| {
            !matches!(layer.entries.get(from), Some(Entry::File(_)))
                && matches!(layer.originals.get(from), Some(Some(_)))
        };
        let files = layer.differences().map(|(path, original, file)| {
            let from = file.and_then(|file| file.from.clone());
            let from = from.filter(|from| original.is_none() && is_gone(from));
            ProposedFile {
                path: path.clone(),
                from: from.filter(|from| moved_from.insert(from.clone())),
                before: original.map(Original::blob),
                after: file.map(|file| file.content.blob()),
            }
        });
        files.collect()
    }

    /// Returns the changes that make the layer below hold the same files. Deletions come first, because the name of a
    /// deleted file may be a directory now.
    pub fn changes(&self) -> Vec<Change> {
        let layer = self.layer();
        let changes = layer.differences().filter_map(|(path, original, file)| {
            let path = path.clone();
            let bytes = file.map(|file| file.content.bytes.to_vec());
            let expect = match original {
                None => return Some(Change::Create { path, bytes: bytes? }),
                Some(Original::Version(version)) => version.clone(),
                // The changes of a dry run are shown and not made.
                Some(Original::Content(_)) => return None,
            };
            Some(match bytes {
                None => Change::Delete { path, expect },
                Some(bytes) => Change::Replace { path, expect, bytes },
            })
        });
        let mut changes: Vec<_> = changes.collect();
        changes.sort_by_key(|change| !matches!(change, Change::Delete { .. }));
        changes
    }

    fn layer(&self) -> MutexGuard<'_, Layer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Fills `bytes` with zeros up to `size`, if there is room for them.
fn grow(bytes: &mut Vec<u8>, size: usize, room: usize) -> Result<(), OverlayFull> {
    if size.saturating_sub(bytes.len()) > room {
        return Err(OverlayFull);
    }
    if size > bytes.len() {
        bytes.resize(size, 0);
    }
    Ok(())
}

impl OverlayFile {
    fn new(bytes: Vec<u8>) -> Self {
        Self { content: Content { bytes: Arc::new(bytes), mode: NEW_FILE }, from: None }
    }
}

impl Layer {
    fn lookup(&self, path: &str) -> Lookup {
        if let Some(entry) = self.entries.get(path) {
            return match entry {
                Entry::File(file) => Lookup::File(file.clone()),
                Entry::Directory => Lookup::Directory,
                Entry::Whiteout => Lookup::Nothing,
            };
        }
        let mut above =
            path.match_indices('/').filter_map(|(at, _)| self.entries.get(path.get(..at)?));
        match above.next_back() {
            None => Lookup::Lower,
            Some(Entry::File(_)) => Lookup::NotDirectory,
            Some(Entry::Directory | Entry::Whiteout) => Lookup::Nothing,
        }
    }

    /// A file that was changed in this layer, unlike one that a branch took over.
    fn changed_file(&self, path: &str) -> Option<&Content> {
        match self.entries.get(path) {
            Some(Entry::File(file)) if self.originals.contains_key(path) => Some(&file.content),
            _ => None,
        }
    }

    fn differences(
        &self,
    ) -> impl Iterator<Item = (&String, Option<&Original>, Option<&OverlayFile>)> {
        self.originals.iter().filter_map(|(path, original)| {
            let file = match self.entries.get(path) {
                Some(Entry::File(file)) => Some(file),
                _ => None,
            };
            let is_as_before = match (original, file) {
                (None, None) => true,
                (Some(original), Some(file)) => original.is(&file.content),
                (None, Some(_)) | (Some(_), None) => false,
            };
            (!is_as_before).then_some((path, original.as_ref(), file))
        })
    }

    fn check_room(&self, path: &str, bytes: usize) -> Result<(), OverlayFull> {
        let has_entry = self.originals.len() < MAX_ENTRIES || self.originals.contains_key(path);
        let has_bytes = self.bytes.saturating_add(bytes) <= MAX_BYTES;
        if has_entry && has_bytes { Ok(()) } else { Err(OverlayFull) }
    }

    /// Records what the layer below has at a path, unless the path was changed before.
    fn set_original(&mut self, path: &str, original: impl FnOnce() -> Option<Original>) {
        if self.originals.contains_key(path) {
            return;
        }
        let original = original();
        self.bytes += original.as_ref().map_or(0, Original::len);
        // An entry that a branch took over counts from now on.
        self.bytes += self.entries.get(path).map_or(0, Entry::len);
        self.originals.insert(path.to_owned(), original);
    }

    /// Replaces the entry at a path of which the original was recorded, and returns the entry that was there.
    fn set(&mut self, path: &str, entry: Entry) -> Option<Entry> {
        self.bytes += entry.len();
        let old = self.entries.insert(path.to_owned(), entry);
        self.bytes -= old.as_ref().map_or(0, Entry::len);
        old
    }

    fn apply(&mut self, root: &Root, change: &Checked) -> Result<(), EditError> {
        let path = &change.path;
        if is_binary(&change.bytes) {
            return Err(binary(path));
        }
        let Some(expect) = &change.expect else {
            self.create_parents(root, path)?;
            self.put(path, OverlayFile::new(change.bytes.clone()));
            return Ok(());
        };
        let mut file = self.file(root, path, expect)?;
        match &change.to {
            Some(to) => {
                self.create_parents(root, to)?;
                self.set(path.as_str(), Entry::Whiteout);
                self.put(to, file);
            }
            None if change.op == "delete" => {
                self.set(path.as_str(), Entry::Whiteout);
            }
            None => {
                file.content.bytes = Arc::new(change.bytes.clone());
                self.put(path, file);
            }
        }
        Ok(())
    }

    fn put(&mut self, path: &RepoPath, file: OverlayFile) {
        self.set_original(path.as_str(), || None);
        self.set(path.as_str(), Entry::File(file));
    }

    /// The file that a change of a dry run expects. Its first change reads it from the repository.
    fn file(
        &mut self,
        root: &Root,
        path: &RepoPath,
        expect: &str,
    ) -> Result<OverlayFile, EditError> {
        let conflict = || EditError::Conflict { path: path.to_string(), current: None };
        let file = match self.lookup(path.as_str()) {
            Lookup::File(file) => file,
            Lookup::Lower => {
                let (dir, name) = path.split();
                let dir = directory(root, dir, path)?.ok_or_else(conflict)?;
                let limit = || EditError::TooLarge { path: path.to_string(), limit: MAX_READ };
                let (bytes, stat) = transaction::whole(dir, name, MAX_READ).ok_or_else(limit)?;
                if is_binary(&bytes) {
                    return Err(binary(path));
                }
                let content = Content { bytes: Arc::new(bytes), mode: stat.st_mode & 0o777 };
                let original = Original::Content(content.clone());
                self.set_original(path.as_str(), || Some(original));
                OverlayFile { content, from: Some(path.to_string()) }
            }
            Lookup::Directory | Lookup::Nothing | Lookup::NotDirectory => return Err(conflict()),
        };
        if file.digest() == expect { Ok(file) } else { Err(conflict()) }
    }

    /// Creates the directories of a file where they are missing.
    fn create_parents(&mut self, root: &Root, path: &RepoPath) -> Result<(), EditError> {
        let not_a_file = || EditError::NotAFile { path: path.to_string() };
        for (at, _) in path.as_str().match_indices('/') {
            let dir = path.as_str().get(..at).unwrap_or_default();
            let missing = match self.lookup(dir) {
                Lookup::Directory => false,
                Lookup::Nothing => true,
                Lookup::File(_) | Lookup::NotDirectory => return Err(not_a_file()),
                Lookup::Lower => match root.open_real(dir.as_bytes(), DIRECTORY) {
                    Ok(_) => false,
                    Err(rustix::io::Errno::NOENT) => true,
                    Err(errno) => return Err(on_the_way(errno, path)),
                },
            };
            if missing {
                self.set(dir, Entry::Directory);
            }
        }
        Ok(())
    }
}

impl Entry {
    fn len(&self) -> usize {
        match self {
            Self::File(file) => file.content.bytes.len(),
            Self::Directory | Self::Whiteout => 0,
        }
    }
}

/// The refusal of a binary file: a dry run is shown as text.
fn binary(path: &RepoPath) -> EditError {
    EditError::Forbidden { path: path.to_string(), reason: edit_protocol::Reason::Binary }
}

#[cfg(test)]
mod tests;
