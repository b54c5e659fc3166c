//! Room on the disk for the end of a task or a verification: a file of that size, which is removed before the end is stored.
//!
//! A step can fill the disk. A short record may still fit then and a longer one not, so that what was stored contradicts what
//! was reported.

use std::fs::File;
use std::io;

use act_fs::Dir;
use act_fs::lock::{self, Kind};

use super::artifact_dir::ArtifactDir;

/// Bytes that are reserved. The end needs some pages of the database, a line of the journal and a record of the audit log,
/// about 100 KiB together; other processes that find room on a full disk take part of it.
const ROOM: u64 = 1 << 20;
/// Directory of the reserved files, in `state/`.
const RESERVE: &str = "reserve";

/// Reserved room, given back when dropped or when the process ends.
#[derive(Debug)]
pub struct Reserve {
    dir: Dir,
    name: String,
    /// The lock on the file shows that the process lives.
    _file: File,
}

impl ArtifactDir {
    /// Reserves room for the end of a task or a verification, and gives back the room of processes that have died.
    ///
    /// # Errors
    /// The disk has no room left, or the file cannot be created.
    pub fn reserve(&self) -> io::Result<Reserve> {
        let dir = self.state()?.private_subdirectory(RESERVE)?;
        for name in dir.names(usize::MAX)? {
            let dead = dir.file(&*name).and_then(|file| lock::try_lock(&file, Kind::Exclusive));
            if dead.unwrap_or(false) {
                // Another process may remove it at the same time; what cannot be removed does not prevent this task.
                let _ = dir.remove_file(&*name);
            }
        }
        let name = format!("{:016x}", rand::random::<u64>());
        let file = dir.create(&*name)?;
        lock::try_lock(&file, Kind::Exclusive)?;
        let reserve = Reserve { dir, name, _file: file };
        allocate(&reserve._file)?;
        Ok(reserve)
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        // The next process that reserves room removes what is left.
        let _ = self.dir.remove_file(&*self.name);
    }
}

#[cfg(target_os = "linux")]
fn allocate(file: &File) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    match fallocate(file, FallocateFlags::empty(), 0, ROOM) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => fill(file),
        allocated => Ok(allocated?),
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(file: &File) -> io::Result<()> {
    fill(file)
}

/// Writes the file where the file system cannot reserve room.
fn fill(mut file: &File) -> io::Result<()> {
    use std::io::Write;
    let piece = [1u8; 4096];
    for _ in 0..ROOM / piece.len() as u64 {
        file.write_all(&piece)?;
    }
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    // ARTIFACT-31
    #[test]
    fn room_is_really_taken_and_given_back_also_after_a_death() {
        let place = tempfile::tempdir().unwrap();
        let artifacts = ArtifactDir::open_for(&place.path().join("a"), None).unwrap();
        let dir = artifacts.path().join("state/reserve");
        let first = artifacts.reserve().unwrap();
        let second = artifacts.reserve().unwrap();
        let blocks = |path: std::path::PathBuf| std::fs::metadata(path).unwrap().blocks() * 512;
        assert!(blocks(dir.join(&first.name)) >= ROOM);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 2, "a living one is left alone");
        drop((first, second));
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        std::fs::write(dir.join("left"), "of a dead process").unwrap();
        let third = artifacts.reserve().unwrap();
        assert!(!dir.join("left").exists());
        drop(third);
        fill(&std::fs::File::create(place.path().join("filled")).unwrap()).unwrap();
        assert!(blocks(place.path().join("filled")) >= ROOM);
    }
}
