//! What a dry run has written, in memory: for each path the new bytes or that it is gone, laid over a
//! repository that stays as it is.
//!
//! Readers look here first, writers write here alone. Paths are real names; a directory stands here only when
//! the repository has none of that name.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::paths::RepoPath;
use super::proposal::{Blob, NEW_FILE, ProposedFile};
use super::reading::{MAX_READ, is_binary};
use super::transaction::{self, directory, on_the_way};
use super::view::Kind;
use super::writer::{Checked, EditError};
use act_fs::{DIRECTORY, Root};

/// Bytes that are held in all, those of the files before included.
const MAX_BYTES: usize = 64 << 20;

/// The changes of one dry run; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Overlay(Arc<Mutex<Layers>>);

#[derive(Debug, Clone, Default)]
struct Layers {
    now: BTreeMap<String, Layer>,
    /// What the repository held when a path was first changed.
    before: BTreeMap<String, Option<Blob>>,
}

#[derive(Debug, Clone)]
enum Layer {
    File(Written),
    Gone,
    Directory,
}

/// A file as the dry run left it.
#[derive(Debug, Clone)]
pub(super) struct Written {
    blob: Blob,
    /// Where in the repository its content comes from.
    from: Option<String>,
}

/// What stands at a path.
#[derive(Debug, Clone)]
pub(super) enum Lookup {
    /// Whatever the repository has there.
    Lower,
    File(Written),
    Directory,
    Nothing,
    /// A file is on the way to it.
    NotDirectory,
}

impl Written {
    pub(super) fn digest(&self) -> &str {
        &self.blob.sha256
    }

    pub(super) fn size(&self) -> usize {
        self.blob.bytes.len()
    }

    /// A handle from which its bytes can be read, as from one of the repository.
    pub(super) fn open(&self) -> std::io::Result<OwnedFd> {
        use std::io::{Seek, Write};
        let mut file = std::fs::File::from(nameless()?);
        file.write_all(&self.blob.bytes)?;
        file.rewind()?;
        Ok(file.into())
    }
}

impl Overlay {
    pub(super) fn lookup(&self, path: &str) -> Lookup {
        self.layers().lookup(path)
    }

    /// What is laid over the names in one directory: where a name is gone, nothing.
    pub(super) fn names(&self, dir: &str) -> BTreeMap<Vec<u8>, Option<Kind>> {
        let layers = self.layers();
        let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let below = layers.now.range(prefix.clone()..).take_while(|(p, _)| p.starts_with(&prefix));
        let direct = below.filter_map(|(path, layer)| {
            let name = path.get(prefix.len()..).filter(|name| !name.contains('/'))?;
            let kind = match layer {
                Layer::File(_) => Some(Kind::File),
                Layer::Directory => Some(Kind::Directory),
                Layer::Gone => None,
            };
            Some((name.as_bytes().to_vec(), kind))
        });
        direct.collect()
    }

    /// All changes or none.
    pub(super) fn apply(&self, root: &Root, changes: &[Checked]) -> Result<(), EditError> {
        let mut layers = self.layers();
        let mut next = layers.clone();
        for change in changes {
            next.perform(root, change)?;
        }
        if next.bytes() > MAX_BYTES {
            return Err(EditError::Budget("bytes of a dry run"));
        }
        *layers = next;
        Ok(())
    }

    /// Every file that is not what the repository has, by path.
    pub fn files(&self) -> Vec<ProposedFile> {
        let layers = self.layers();
        let mut moved_from = std::collections::BTreeSet::new();
        let files = layers.before.iter().filter_map(|(path, before)| {
            let written = match layers.now.get(path) {
                Some(Layer::File(written)) => Some(written),
                _ => None,
            };
            if before.as_ref() == written.map(|written| &written.blob) {
                return None;
            }
            let gone = |from: &String| {
                !matches!(layers.now.get(from), Some(Layer::File(_)))
                    && matches!(layers.before.get(from), Some(Some(_)))
            };
            let from = written.and_then(|written| written.from.clone());
            let from = from.filter(|from| before.is_none() && gone(from));
            Some(ProposedFile {
                path: path.clone(),
                from: from.filter(|from| moved_from.insert(from.clone())),
                before: before.clone(),
                after: written.map(|written| written.blob.clone()),
            })
        });
        files.collect()
    }

    fn layers(&self) -> MutexGuard<'_, Layers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Layers {
    fn lookup(&self, path: &str) -> Lookup {
        if let Some(layer) = self.now.get(path) {
            return match layer {
                Layer::File(written) => Lookup::File(written.clone()),
                Layer::Directory => Lookup::Directory,
                Layer::Gone => Lookup::Nothing,
            };
        }
        let mut above = path.match_indices('/').filter_map(|(at, _)| self.now.get(path.get(..at)?));
        match above.next_back() {
            None => Lookup::Lower,
            Some(Layer::File(_)) => Lookup::NotDirectory,
            Some(Layer::Directory | Layer::Gone) => Lookup::Nothing,
        }
    }

    fn bytes(&self) -> usize {
        let before = self.before.values().flatten().map(|blob| blob.bytes.len());
        let now = self.now.values().map(|layer| match layer {
            Layer::File(written) => written.size(),
            Layer::Gone | Layer::Directory => 0,
        });
        before.chain(now).sum()
    }

    fn perform(&mut self, root: &Root, change: &Checked) -> Result<(), EditError> {
        let path = &change.path;
        if is_binary(&change.bytes) {
            return Err(binary(path));
        }
        let new = |mode| Blob::new(change.bytes.as_slice(), mode);
        match (&change.expect, &change.to) {
            (None, _) => {
                self.make_way(root, path)?;
                self.before.entry(path.to_string()).or_insert(None);
                self.put(path, Written { blob: new(NEW_FILE), from: None });
            }
            (Some(expect), to) => {
                let written = self.content(root, path, expect)?;
                match to {
                    None if change.op == "delete" => self.remove(path),
                    None => {
                        let blob = new(written.blob.mode);
                        self.put(path, Written { blob, ..written });
                    }
                    Some(to) => {
                        self.make_way(root, to)?;
                        self.remove(path);
                        self.before.entry(to.to_string()).or_insert(None);
                        self.put(to, written);
                    }
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, path: &RepoPath, written: Written) {
        self.now.insert(path.to_string(), Layer::File(written));
    }

    fn remove(&mut self, path: &RepoPath) {
        self.now.insert(path.to_string(), Layer::Gone);
    }

    /// What a file that is to be changed holds; the first time it is read from the repository.
    fn content(
        &mut self,
        root: &Root,
        path: &RepoPath,
        expect: &str,
    ) -> Result<Written, EditError> {
        let conflict = || EditError::Conflict { path: path.to_string(), current: None };
        let written = match self.lookup(path.as_str()) {
            Lookup::File(written) => written,
            Lookup::Lower => {
                let (dir, name) = path.split();
                let dir = directory(root, dir, path)?.ok_or_else(conflict)?;
                let limit = || EditError::TooLarge { path: path.to_string(), limit: MAX_READ };
                let (bytes, stat) = transaction::whole(dir, name, MAX_READ).ok_or_else(limit)?;
                if is_binary(&bytes) {
                    return Err(binary(path));
                }
                let blob = Blob::new(bytes.as_slice(), stat.st_mode & 0o777);
                self.before.entry(path.to_string()).or_insert_with(|| Some(blob.clone()));
                Written { blob, from: Some(path.to_string()) }
            }
            Lookup::Directory | Lookup::Nothing | Lookup::NotDirectory => return Err(conflict()),
        };
        if written.digest() == expect { Ok(written) } else { Err(conflict()) }
    }

    /// The directories of a file, made where they are missing.
    fn make_way(&mut self, root: &Root, path: &RepoPath) -> Result<(), EditError> {
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
                self.now.insert(dir.to_owned(), Layer::Directory);
            }
        }
        Ok(())
    }
}

/// A dry run is shown as text.
fn binary(path: &RepoPath) -> EditError {
    EditError::Forbidden { path: path.to_string(), reason: edit_protocol::Reason::Binary }
}

/// A file without a name, gone with its last handle.
#[cfg(target_os = "linux")]
fn nameless() -> std::io::Result<OwnedFd> {
    Ok(rustix::fs::memfd_create("act", rustix::fs::MemfdFlags::CLOEXEC)?)
}

#[cfg(not(target_os = "linux"))]
fn nameless() -> std::io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let path = std::env::temp_dir().join(format!(".act-{:032x}", rand::random::<u128>()));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?;
    rustix::fs::unlink(&path)?;
    Ok(fd)
}

#[cfg(test)]
mod tests;
