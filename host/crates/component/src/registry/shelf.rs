//! The store of approved bytes, `state/components/{sha256}.wasm` in ARTIFACT_DIR: the one place that components are
//! loaded from. A name is a digest, so what is read either is what was approved or is not used.

use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::{MAX_WASM, Sha256};
use act_fs::{Dir, Durability, READ, read_bounded, regular};

/// Nothing is in it where there is no directory.
#[derive(Debug)]
pub struct Shelf(Option<Dir>);

/// What stands under a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    Bytes(Vec<u8>),
    Missing,
    /// Other bytes than those that were approved. The value is their digest.
    Changed(act_fs::Sha256),
    /// A link, a FIFO, a file that is too large or cannot be opened: not what was stored there. The value says why.
    Unreadable(String),
}

impl Shelf {
    /// The one in ARTIFACT_DIR, where there is one; nothing is made.
    pub fn existing(artifacts: Option<&Path>) -> Self {
        let open = |artifacts: &Path| {
            Dir::open(artifacts)?.subdirectory("state")?.subdirectory("components")
        };
        Self(artifacts.and_then(|artifacts| open(artifacts).ok()))
    }

    /// The one below `state/`, made with mode 0700 where there is none.
    pub fn create(state: &Dir) -> io::Result<Self> {
        Ok(Self(Some(state.private_subdirectory("components")?)))
    }

    /// Read once and compared with its name; those bytes are what is loaded.
    pub fn take(&self, sha256: &Sha256) -> Taken {
        let Some(dir) = &self.0 else { return Taken::Missing };
        match dir.read_existing(name(sha256), MAX_WASM) {
            Ok(None) => Taken::Missing,
            Err(error) => Taken::Unreadable(error.to_string()),
            Ok(Some(bytes)) => {
                let found = act_fs::Sha256::of(&bytes);
                if found.to_string() == sha256.as_str() {
                    Taken::Bytes(bytes)
                } else {
                    Taken::Changed(found)
                }
            }
        }
    }

    /// Puts bytes under their digest, whole or not at all; in place of what somebody changed.
    pub fn put(&self, bytes: &[u8], sha256: &Sha256) -> io::Result<()> {
        let Some(dir) = &self.0 else { return Err(io::ErrorKind::NotFound.into()) };
        if matches!(self.take(sha256), Taken::Bytes(_)) {
            return Ok(());
        }
        dir.replace(&name(sha256), bytes, Durability::ContentsAndName)
    }
}

fn name(sha256: &Sha256) -> String {
    format!("{sha256}.wasm")
}

/// The bytes of a file that somebody names, if they can be a component's: a regular file of bounded size.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let flags = READ.difference(OFlags::NOFOLLOW);
    read_bounded(regular(rustix::fs::open(path, flags, Mode::empty())?.into())?, MAX_WASM)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn digest(bytes: &[u8]) -> Sha256 {
        act_fs::Sha256::of(bytes).to_string().parse().unwrap()
    }

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
        let state = Dir::open(&temp.path().join("state")).unwrap();
        let shelf = Shelf::create(&state).unwrap();
        let sha256 = digest(b"bytes");
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
        assert_eq!(again.take(&digest(b"other")), Taken::Missing);
        assert_eq!(Shelf::existing(None).take(&place.sha256), Taken::Missing);
        let mode = fs::metadata(place.file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    // CAPABILITY-25, security line 39
    #[test]
    fn other_bytes_under_the_name_are_changed_and_never_given_out() {
        let place = place();
        fs::write(place.file(), b"byteS").unwrap();
        assert_eq!(place.shelf.take(&place.sha256), Taken::Changed(act_fs::Sha256::of(b"byteS")));
        let elsewhere = place.temp.path().join("elsewhere");
        fs::write(&elsewhere, b"bytes").unwrap();
        fs::remove_file(place.file()).unwrap();
        symlink(&elsewhere, place.file()).unwrap();
        assert!(matches!(place.shelf.take(&place.sha256), Taken::Unreadable(_)));
        // Approving again repairs it, and what the link led to stays as it was.
        place.shelf.put(b"bytes", &place.sha256).unwrap();
        assert_eq!(place.shelf.take(&place.sha256), Taken::Bytes(b"bytes".to_vec()));
        assert_eq!(fs::read(&elsewhere).unwrap(), b"bytes");
    }
}
