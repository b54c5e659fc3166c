//! The store of approved bytes, `state/components/{sha256}.wasm` in ARTIFACT_DIR. Components are loaded from it alone. A
//! file is named by the digest of its content, so other bytes than the approved ones are never loaded.

use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::Refused;
use crate::{MAX_WASM, Sha256};
use act_fs::{Dir, Durability, READ, read_bounded, regular};

/// The store. It holds nothing if its directory does not exist.
#[derive(Debug)]
pub struct ComponentStore(Option<Dir>);

/// Why the store cannot return the bytes of a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    Missing,
    /// The file holds other bytes. The value is their digest.
    Changed(act_fs::Sha256),
    /// There is a link or a FIFO, or the file is too large or cannot be opened. The value is the message of the error.
    Unreadable(String),
}

impl StoreError {
    /// The refusal of the component that was approved with this digest.
    pub fn into_refused(self, name: &str, sha256: &str) -> Refused {
        let (name, approved) = (name.to_owned(), sha256.to_owned());
        match self {
            Self::Missing => Refused::Missing { name, sha256: approved },
            Self::Changed(found) => {
                Refused::Changed { name, approved, found: found.to_string(), again: None }
            }
            Self::Unreadable(why) => Refused::StoreDamaged { name, approved, why },
        }
    }
}

impl ComponentStore {
    /// Opens the store in ARTIFACT_DIR and creates nothing.
    pub fn existing(artifacts: Option<&Path>) -> Self {
        let open = |artifacts: &Path| {
            Dir::open(artifacts)?.subdirectory("state")?.subdirectory("components")
        };
        Self(artifacts.and_then(|artifacts| open(artifacts).ok()))
    }

    /// Takes a directory for a store. Its files are named by their digests.
    pub(super) fn in_directory(dir: Dir) -> Self {
        Self(Some(dir))
    }

    /// Opens the store below the directory `state`, and creates it with mode 0700 if it does not exist.
    ///
    /// # Errors
    ///
    /// The error of the system if the directory cannot be created or opened.
    pub fn create(state: &Dir) -> io::Result<Self> {
        Ok(Self(Some(state.private_subdirectory("components")?)))
    }

    /// Reads the file of a digest once and compares the bytes with the digest.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if the store does not hold exactly these bytes.
    pub fn load(&self, sha256: &Sha256) -> Result<Vec<u8>, StoreError> {
        let Some(dir) = &self.0 else { return Err(StoreError::Missing) };
        let bytes = dir
            .read_existing(file_name(sha256), MAX_WASM)
            .map_err(|error| StoreError::Unreadable(error.to_string()))?
            .ok_or(StoreError::Missing)?;
        let found = act_fs::Sha256::of(&bytes);
        if found.to_string() != sha256.as_str() {
            return Err(StoreError::Changed(found));
        }
        Ok(bytes)
    }

    /// Stores bytes under their digest atomically, in place of a changed file.
    ///
    /// # Errors
    ///
    /// The error of the system if the file cannot be written.
    pub fn put(&self, bytes: &[u8], sha256: &Sha256) -> io::Result<()> {
        let Some(dir) = &self.0 else { return Err(io::ErrorKind::NotFound.into()) };
        if self.load(sha256).is_ok() {
            return Ok(());
        }
        dir.replace(&file_name(sha256), bytes, Durability::ContentsAndName)
    }
}

pub(super) fn file_name(sha256: &Sha256) -> String {
    format!("{sha256}.wasm")
}

/// Reads a file that the user names as a component. Links are followed.
///
/// # Errors
///
/// The error of the system, or an error if the file is not a regular file or is larger than [`MAX_WASM`].
pub fn read_component_file(path: &Path) -> io::Result<Vec<u8>> {
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

    /// A store that holds one component.
    struct Fixture {
        temp: tempfile::TempDir,
        store: ComponentStore,
        sha256: Sha256,
    }

    impl Fixture {
        fn new() -> Self {
            let temp = tempfile::tempdir().unwrap();
            fs::create_dir(temp.path().join("state")).unwrap();
            let state = Dir::open(&temp.path().join("state")).unwrap();
            let store = ComponentStore::create(&state).unwrap();
            let sha256 = digest(b"bytes");
            store.put(b"bytes", &sha256).unwrap();
            Self { temp, store, sha256 }
        }

        fn file(&self) -> std::path::PathBuf {
            self.temp.path().join("state/components").join(file_name(&self.sha256))
        }
    }

    // CAPABILITY-25
    #[test]
    fn what_was_put_in_comes_out_and_belongs_to_its_owner_alone() {
        let fixture = Fixture::new();
        assert_eq!(fixture.store.load(&fixture.sha256), Ok(b"bytes".to_vec()));
        let again = ComponentStore::existing(Some(fixture.temp.path()));
        assert_eq!(again.load(&fixture.sha256), Ok(b"bytes".to_vec()));
        assert_eq!(again.load(&digest(b"other")), Err(StoreError::Missing));
        let none = ComponentStore::existing(None);
        assert_eq!(none.load(&fixture.sha256), Err(StoreError::Missing));
        let mode = fs::metadata(fixture.file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    // CAPABILITY-25, security line 39
    #[test]
    fn other_bytes_under_the_name_are_changed_and_never_given_out() {
        let fixture = Fixture::new();
        let (store, sha256) = (&fixture.store, &fixture.sha256);
        fs::write(fixture.file(), b"byteS").unwrap();
        assert_eq!(store.load(sha256), Err(StoreError::Changed(act_fs::Sha256::of(b"byteS"))));
        let elsewhere = fixture.temp.path().join("elsewhere");
        fs::write(&elsewhere, b"bytes").unwrap();
        fs::remove_file(fixture.file()).unwrap();
        symlink(&elsewhere, fixture.file()).unwrap();
        assert!(matches!(store.load(sha256), Err(StoreError::Unreadable(_))));
        // A new approval repairs the file and does not write through the link.
        store.put(b"bytes", sha256).unwrap();
        assert_eq!(store.load(sha256), Ok(b"bytes".to_vec()));
        assert_eq!(fs::read(&elsewhere).unwrap(), b"bytes");
    }
}
