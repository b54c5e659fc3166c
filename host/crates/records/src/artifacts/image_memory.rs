//! What was learned of an image, which never changes: kept beside the caches of its runs, where no step comes.

use std::io;

use rustix::fs::{AtFlags, unlinkat};

use super::cache::image_name;
use super::layout::ArtifactDir;
use act_fs::Durability;

const PASSWD: &str = "passwd";
const MAX_PASSWD: u64 = 1 << 20;

impl ArtifactDir {
    /// The `/etc/passwd` of an image that a run has looked at; empty where it has none.
    pub fn image_passwd(&self, image_id: &str) -> Option<Vec<u8>> {
        let image = self.cache.private_subdirectory(&*image_name(image_id)).ok()?;
        image.read(PASSWD, MAX_PASSWD).ok()
    }

    /// Whole or not at all; several runs may learn it at once.
    pub fn remember_passwd(&self, image_id: &str, text: &[u8]) -> io::Result<()> {
        let image = self.cache.private_subdirectory(&*image_name(image_id))?;
        image.replace(PASSWD, text, Durability::Unsynced)
    }

    pub(super) fn forget_image(&self, image: &str) -> io::Result<()> {
        self.cache.private_subdirectory(image)?.remove_file(PASSWD)?;
        // Not empty as long as a run has its cache there.
        let _ = unlinkat(&self.cache, image, AtFlags::REMOVEDIR);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ARTIFACT-10
    #[test]
    fn an_images_passwd_is_remembered_until_the_caches_are_cleared() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("repo")).unwrap();
        let artifacts = ArtifactDir::open(&dir.path().join("a"), &dir.path().join("repo")).unwrap();
        assert_eq!(artifacts.image_passwd("sha256:aa"), None);
        artifacts.remember_passwd("sha256:aa", b"root").unwrap();
        artifacts.remember_passwd("sha256:aa", b"").unwrap();
        artifacts.remember_passwd("sha256:bb", b"other").unwrap();
        assert_eq!(artifacts.image_passwd("sha256:aa").as_deref(), Some(&b""[..]));
        assert!(artifacts.cache_sizes().unwrap().is_empty(), "no cache of a run");
        // A link in its place is not followed.
        let kept = artifacts.path().join("cache/bb/passwd");
        std::fs::remove_file(&kept).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &kept).unwrap();
        assert_eq!(artifacts.image_passwd("sha256:bb"), None);
        artifacts.clear_caches().unwrap();
        assert_eq!(std::fs::read_dir(artifacts.path().join("cache")).unwrap().count(), 0);
    }
}
