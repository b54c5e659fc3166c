//! The store of approved bytes, `state/components/{sha256}.wasm` in ARTIFACT_DIR: the one place that components are
//! loaded from. A name is a digest, so what is read either is what was approved or is not used.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::{MAX_WASM, Sha256};
use act_fs::{DIRECTORY, NEW, READ};
use act_workspace::digest;

/// Nothing is in it where there is no directory.
#[derive(Debug)]
pub struct Shelf(Option<OwnedFd>);

/// What stands under a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    Bytes(Vec<u8>),
    Missing,
    /// Other bytes than those that were approved; their digest.
    Changed(String),
}

impl Shelf {
    /// The one in ARTIFACT_DIR, where there is one; nothing is made.
    pub fn existing(artifacts: Option<&Path>) -> Self {
        let open = |artifacts: &Path| {
            let top = rustix::fs::open(artifacts, DIRECTORY, Mode::empty())?;
            let state = rustix::fs::openat(&top, "state", DIRECTORY, Mode::empty())?;
            rustix::fs::openat(&state, "components", DIRECTORY, Mode::empty())
        };
        Self(artifacts.and_then(|artifacts| open(artifacts).ok()))
    }

    /// The one below `state/`, made with mode 0700 where there is none.
    pub fn create(state: &OwnedFd) -> std::io::Result<Self> {
        match rustix::fs::mkdirat(state, "components", Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(Self(Some(rustix::fs::openat(state, "components", DIRECTORY, Mode::empty())?)))
    }

    /// Read once and compared with its name; those bytes are what is loaded.
    pub fn take(&self, sha256: &Sha256) -> Taken {
        let Some(dir) = &self.0 else { return Taken::Missing };
        match read(dir, &name(sha256)) {
            Err(Errno::NOENT) => Taken::Missing,
            // A link, a FIFO, something too large: not what was put there.
            Err(errno) => Taken::Changed(format!("unreadable: {errno}")),
            Ok(bytes) => {
                let found = digest(&bytes);
                if found == sha256.as_str() { Taken::Bytes(bytes) } else { Taken::Changed(found) }
            }
        }
    }

    /// Puts bytes under their digest, whole or not at all; in place of what somebody changed.
    pub fn put(&self, bytes: &[u8], sha256: &Sha256) -> std::io::Result<()> {
        let Some(dir) = &self.0 else { return Err(std::io::ErrorKind::NotFound.into()) };
        if matches!(self.take(sha256), Taken::Bytes(_)) {
            return Ok(());
        }
        let temporary = format!(".{:016x}", rand::random::<u64>());
        let mode = Mode::RUSR | Mode::WUSR;
        let mut file = File::from(rustix::fs::openat(dir, &*temporary, NEW, mode)?);
        let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| {
            rustix::fs::renameat(dir, &*temporary, dir, name(sha256))?;
            Ok(rustix::fs::fsync(dir)?)
        });
        if written.is_err() {
            let _ = rustix::fs::unlinkat(dir, &*temporary, AtFlags::empty());
        }
        written
    }
}

fn name(sha256: &Sha256) -> String {
    format!("{sha256}.wasm")
}

fn read(dir: &OwnedFd, name: &str) -> Result<Vec<u8>, Errno> {
    let file = rustix::fs::openat(dir, name, READ, Mode::empty())?;
    whole(file)
}

/// The bytes of a file that somebody names, if they can be a component's: a regular file of bounded size.
pub fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let flags = READ.difference(OFlags::NOFOLLOW);
    Ok(whole(rustix::fs::open(path, flags, Mode::empty())?)?)
}

fn whole(file: OwnedFd) -> Result<Vec<u8>, Errno> {
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::INVAL);
    }
    let mut bytes = vec![];
    File::from(file).take(MAX_WASM + 1).read_to_end(&mut bytes).map_err(|_| Errno::IO)?;
    if bytes.len() as u64 > MAX_WASM { Err(Errno::FBIG) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    struct Place {
        temp: tempfile::TempDir,
        shelf: Shelf,
        sha256: Sha256,
    }

    impl Place {
        fn file(&self) -> std::path::PathBuf {
            self.temp.path().join("state/components").join(name(&self.sha256))
        }
    }

    fn place() -> Place {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("state")).unwrap();
        let state = rustix::fs::open(temp.path().join("state"), DIRECTORY, Mode::empty()).unwrap();
        let shelf = Shelf::create(&state).unwrap();
        let sha256 = digest(b"bytes").parse().unwrap();
        shelf.put(b"bytes", &sha256).unwrap();
        Place { temp, shelf, sha256 }
    }

    // CAPABILITY-25
    #[test]
    fn what_was_put_in_comes_out_and_belongs_to_its_owner_alone() {
        let place = place();
        assert_eq!(place.shelf.take(&place.sha256), Taken::Bytes(b"bytes".to_vec()));
        let again = Shelf::existing(Some(place.temp.path()));
        assert_eq!(again.take(&place.sha256), Taken::Bytes(b"bytes".to_vec()));
        assert_eq!(again.take(&digest(b"other").parse().unwrap()), Taken::Missing);
        assert_eq!(Shelf::existing(None).take(&place.sha256), Taken::Missing);
        let mode = fs::metadata(place.file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    // CAPABILITY-25, security line 39
    #[test]
    fn other_bytes_under_the_name_are_changed_and_never_given_out() {
        let place = place();
        fs::write(place.file(), b"byteS").unwrap();
        assert_eq!(place.shelf.take(&place.sha256), Taken::Changed(digest(b"byteS")));
        let elsewhere = place.temp.path().join("elsewhere");
        fs::write(&elsewhere, b"bytes").unwrap();
        fs::remove_file(place.file()).unwrap();
        symlink(&elsewhere, place.file()).unwrap();
        assert!(matches!(place.shelf.take(&place.sha256), Taken::Changed(_)));
        // Approving again repairs it, and what the link led to stays as it was.
        place.shelf.put(b"bytes", &place.sha256).unwrap();
        assert_eq!(place.shelf.take(&place.sha256), Taken::Bytes(b"bytes".to_vec()));
        assert_eq!(fs::read(&elsewhere).unwrap(), b"bytes");
    }
}
