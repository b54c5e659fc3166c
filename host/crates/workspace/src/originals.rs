//! The files of the repository that a task changes, as they were before: whole, each stored right before its first change.
//!
//! A file that cannot be stored (the disk is full, the limit is reached) does not stop the task; [`Originals::open`] then
//! returns `None`, and whatever needs the file says that it is missing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use act_fs::{Dir, READ, hex, regular};
use rustix::fs::{Mode, fstat, openat};
use sha2::{Digest, Sha256};

/// Maximum number of bytes of all originals of one task: as many as the task may write.
const MAX_BYTES: u64 = 1 << 30;
/// Number of bytes that are copied at a time.
const AT_ONCE: usize = 64 << 10;

/// The originals of one task, in a directory of its own.
#[derive(Debug)]
pub struct Originals {
    dir: Dir,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// By path. The files of the directory have their numbers as names.
    files: BTreeMap<String, Original>,
    bytes: u64,
    next: u64,
}

#[derive(Debug, Clone)]
struct Original {
    name: String,
    sha256: String,
    executable: bool,
}

impl Originals {
    /// Stores originals in `dir`, which must be empty and belong to the host alone.
    pub fn new(dir: Dir) -> Self {
        Self { dir, kept: Mutex::default() }
    }

    /// Stores the file `name` of a directory of the repository, if it has this digest.
    pub(super) fn keep(&self, path: &str, from: impl AsFd, name: &str, sha256: &str) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.files.get(path).is_some_and(|known| known.sha256 == sha256) {
            return;
        }
        let room = MAX_BYTES.saturating_sub(kept.bytes);
        kept.next += 1;
        let stored = kept.next.to_string();
        match self.copy(from, name, &stored, room) {
            Ok(Some((size, digest, executable))) if digest == sha256 => {
                kept.bytes += size;
                let sha256 = sha256.to_owned();
                kept.files.insert(path.to_owned(), Original { name: stored, sha256, executable });
            }
            // The file is too large, cannot be read, or is another one by now.
            _ => {
                let _ = self.dir.remove_file(&*stored);
            }
        }
    }

    /// Copies a file; returns its size, its digest and whether its owner may execute it, or `None` when it is too large.
    fn copy(
        &self,
        from: impl AsFd,
        name: &str,
        to: &str,
        room: u64,
    ) -> io::Result<Option<(u64, String, bool)>> {
        let file = regular(File::from(openat(from, name, READ, Mode::empty())?))?;
        let executable = fstat(&file)?.st_mode & 0o100 != 0;
        let mut file = file.take(room.saturating_add(1));
        let mut into = self.dir.create(to)?;
        let (mut hash, mut size, mut buffer) = (Sha256::new(), 0, vec![0; AT_ONCE]);
        loop {
            let bytes = match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => buffer.get(..count).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            size += bytes.len() as u64;
            hash.update(bytes);
            into.write_all(bytes)?;
        }
        Ok((size <= room).then(|| (size, hex(&hash.finalize()), executable)))
    }

    /// Opens the original of a file, and tells whether its owner may execute it. Returns `None` when no original with this
    /// digest is stored.
    pub fn open(&self, path: &str, sha256: &str) -> Option<(File, bool)> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let original = kept.files.get(path).filter(|known| known.sha256 == sha256)?;
        Some((self.dir.file(&*original.name).ok()?, original.executable))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use super::*;
    use crate::{Change, RepoWriter, WriteRules};

    fn text(originals: &Originals, path: &str, sha256: Option<&String>) -> Option<(String, bool)> {
        let (mut file, executable) = originals.open(path, sha256?)?;
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        Some((text, executable))
    }

    // WORKSPACE-45
    #[test]
    fn each_file_is_stored_as_it_was_before_its_first_change() {
        let base = tempfile::tempdir().unwrap();
        let (repo, kept) = (base.path().join("repo"), base.path().join("kept"));
        std::fs::create_dir_all(&repo).unwrap();
        std::fs::create_dir_all(&kept).unwrap();
        let large = "x\0".repeat(1 << 20);
        for (name, text) in [("a.sh", "one\n"), ("b.bin", large.as_str()), ("c.txt", "three\n")] {
            std::fs::write(repo.join(name), text).unwrap();
        }
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(repo.join("a.sh"), mode).unwrap();
        let originals = Arc::new(Originals::new(Dir::open(&kept).unwrap()));
        let writer = RepoWriter::open(&repo, WriteRules::default()).unwrap();
        let writer = writer.with_originals(Arc::clone(&originals));
        let at = |path: &str| writer.version(path).unwrap().unwrap();
        let apply = |change| writer.apply(&[change], &|| false).unwrap();
        for bytes in [b"two\n", b"six\n"] {
            let (path, expect) = ("a.sh".to_owned(), at("a.sh"));
            apply(Change::Replace { path, expect, bytes: bytes.to_vec() });
        }
        apply(Change::Delete { path: "b.bin".into(), expect: at("b.bin") });
        let (from, to) = ("c.txt".to_owned(), "d.txt".to_owned());
        apply(Change::Move { from, expect: at("c.txt"), to });
        apply(Change::Create { path: "c.txt".into(), bytes: b"new\n".to_vec() });

        let was = |path: &str| {
            let changed = writer.changed();
            let file = changed.iter().find(|file| file.path == path).unwrap();
            text(&originals, path, file.sha256_before.as_ref())
        };
        assert_eq!(was("a.sh"), Some(("one\n".to_owned(), true)));
        assert_eq!(was("b.bin"), Some((large, false)));
        assert_eq!(was("c.txt"), Some(("three\n".to_owned(), false)));
        assert_eq!(was("d.txt"), None);
        assert!(originals.open("a.sh", "another digest").is_none());
        // One file for each original, and nothing else.
        assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 3);
    }
}
