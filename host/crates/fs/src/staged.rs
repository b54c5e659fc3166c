//! Replacing a file atomically: its bytes are written under another name, and the file gets its own name when they are
//! complete. A killed writer leaves the old or the new file, never half of one.

use std::fs::File;
use std::io::{self, Write};

use rustix::fs::Mode;

use super::{Dir, Identity, NEW};

/// The failures that a replaced file survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Nothing is synced: the file survives the process, but a crash of the machine may leave an empty file. For
    /// caches that check what they read.
    Unsynced,
    /// The bytes are on the disk before the file gets its name: after a crash of the machine the old or the new file
    /// is there.
    Contents,
    /// The name is on the disk as well when the call returns.
    ContentsAndName,
}

/// A new file of mode 0600 that has not got its name yet. It is removed when dropped before [`Staged::publish`].
#[derive(Debug)]
pub struct Staged<'a> {
    dir: &'a Dir,
    name: String,
    file: File,
    /// The name still means this file, which is to be removed when dropped.
    ours: bool,
    synced: bool,
}

impl Dir {
    /// Replaces the file `name` with a new one of mode 0600 that holds `bytes`, or creates it.
    ///
    /// # Errors
    /// The error of the system; the old file is then unchanged, except when syncing the directory fails.
    pub fn replace(&self, name: &str, bytes: &[u8], durability: Durability) -> io::Result<()> {
        let mut staged = self.stage(name)?;
        staged.write(bytes)?;
        staged.publish(name, durability)
    }

    /// Creates the file that will become `name`, under a random name that begins with a dot and `name`.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn stage(&self, name: &str) -> io::Result<Staged<'_>> {
        let name = temporary(name);
        let file = self.create(&*name)?;
        Ok(Staged { dir: self, name, file, ours: true, synced: false })
    }

    /// Like [`Dir::stage`], with the mode 0644 as far as the umask of the process allows it: for a file that belongs to
    /// the user and not to this program.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn stage_readable(&self, name: &str) -> io::Result<Staged<'_>> {
        let name = temporary(name);
        let mode = Mode::from_raw_mode(0o644);
        let file = File::from(rustix::fs::openat(self, &*name, NEW, mode)?);
        Ok(Staged { dir: self, name, file, ours: true, synced: false })
    }

    /// Creates the file under the name `temporary`, so that the next writer removes what a killed one left. The caller
    /// makes sure, by a lock for instance, that no other process writes under that name.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn stage_as(&self, temporary: String) -> io::Result<Staged<'_>> {
        self.remove_file(&*temporary)?;
        let file = self.create(&*temporary)?;
        Ok(Staged { dir: self, name: temporary, file, ours: true, synced: false })
    }
}

/// Returns a random name that begins with a dot and `name`.
fn temporary(name: &str) -> String {
    format!(".{name}-{:016x}", rand::random::<u64>())
}

impl Staged<'_> {
    /// Returns the open file, for instance to set its mode or owner.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// The error of the system, for instance a full disk.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.synced = false;
        self.file.write_all(bytes)
    }

    /// Writes the bytes to the disk, for a caller that has something to check between that and [`Staged::publish`].
    ///
    /// # Errors
    /// The error of the system.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        self.synced = true;
        Ok(())
    }

    /// Returns whether the temporary name still means this file. If it does not, another writer has taken the name, and this
    /// value removes nothing any more.
    ///
    /// # Errors
    /// The error of the system.
    pub fn is_ours(&mut self) -> io::Result<bool> {
        let own = Identity::of_handle(&self.file)?;
        let named = self.dir.stat(&*self.name);
        self.ours = named.is_ok_and(|stat| Identity::of_stat(&stat) == own);
        Ok(self.ours)
    }

    /// Renames the file to its final name, and replaces a file that already has that name.
    ///
    /// # Errors
    /// The error of the system. The old file is unchanged and the staged file is removed, except when syncing the
    /// directory fails, which happens last.
    pub fn publish(
        mut self,
        name: impl rustix::path::Arg,
        durability: Durability,
    ) -> io::Result<()> {
        if durability != Durability::Unsynced && !self.synced {
            self.sync()?;
        }
        self.dir.rename(&*self.name, name)?;
        self.ours = false;
        match durability {
            Durability::ContentsAndName => self.dir.sync(),
            Durability::Unsynced | Durability::Contents => Ok(()),
        }
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if self.ours {
            // The caller reports the failure that came first, not this one.
            let _ = self.dir.remove_file(&*self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_a_link_in_its_place_is_not_written_through() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = Dir::open(temporary.path()).unwrap();
        let path = |name: &str| temporary.path().join(name);
        fs::write(path("target"), "target").unwrap();
        symlink("target", path("file")).unwrap();
        for durability in [Durability::Unsynced, Durability::Contents, Durability::ContentsAndName]
        {
            dir.replace("file", b"new", durability).unwrap();
        }
        assert_eq!(fs::read(path("file")).unwrap(), b"new");
        assert_eq!(fs::read(path("target")).unwrap(), b"target");
        assert_eq!(fs::metadata(path("file")).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(dir.names(9).unwrap().len(), 2, "no temporary file is left");
    }

    #[test]
    fn a_file_of_the_user_has_the_mode_that_the_umask_leaves() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = Dir::open(temporary.path()).unwrap();
        let mode = |name: &str| {
            fs::metadata(temporary.path().join(name)).unwrap().permissions().mode() & 0o777
        };
        let ordinary = fs::File::create(temporary.path().join("ordinary")).unwrap();
        drop(ordinary);
        let mut staged = dir.stage_readable("file").unwrap();
        staged.write(b"new").unwrap();
        staged.publish("file", Durability::Contents).unwrap();
        assert_eq!(mode("file"), mode("ordinary") & 0o644);
        dir.replace("file", b"new", Durability::Contents).unwrap();
        assert_eq!(mode("file"), 0o600);
    }

    #[test]
    fn a_staged_file_is_removed_unless_published_or_taken_by_another_writer() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = Dir::open(temporary.path()).unwrap();
        drop(dir.stage("file").unwrap());
        assert!(dir.names(9).unwrap().is_empty());
        let mut first = dir.stage_as(".new".to_owned()).unwrap();
        let mut second = dir.stage_as(".new".to_owned()).unwrap();
        assert!(!first.is_ours().unwrap());
        drop(first);
        assert!(second.is_ours().unwrap());
        second.publish("file", Durability::Unsynced).unwrap();
        assert!(dir.contains("file").unwrap());
        assert!(!dir.contains(".new").unwrap());
    }
}
