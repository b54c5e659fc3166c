//! Which version of a file somebody has seen: a number counted per file and task, and the digest of its bytes.
//!
//! The number starts at 1 when the file is first seen and rises whenever other bytes are seen, whoever wrote
//! them; so an edit that expects an old number never overwrites what it has not read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use act_fs::Sha256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub number: u64,
    /// SHA-256, 64 lower-case hex digits.
    pub digest: String,
}

impl Version {
    /// The number that was expected, by the protocol's own rule, of the bytes that were read.
    pub fn is(&self, expected: &Self) -> bool {
        edit_protocol::expect(expected.number, self.number).is_ok()
            && self.digest == expected.digest
    }
}

/// The counters of one task; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Versions(Arc<Mutex<BTreeMap<String, Version>>>);

impl Versions {
    /// What the file's version is, now that it holds bytes with this digest.
    pub fn observe(&self, path: &str, digest: &str) -> Version {
        let mut known = self.known();
        let version = known
            .entry(path.to_owned())
            .or_insert_with(|| Version { number: 1, digest: digest.to_owned() });
        if version.digest != digest {
            version.number = version.number.saturating_add(1);
            version.digest = digest.to_owned();
        }
        version.clone()
    }

    /// The file was written: exactly one more, also when the bytes are what they were.
    pub(super) fn written(&self, path: &str, digest: &str) -> Version {
        let mut known = self.known();
        let number = known.get(path).map_or(1, |version| version.number.saturating_add(1));
        let version = Version { number, digest: digest.to_owned() };
        known.insert(path.to_owned(), version.clone());
        version
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Version>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the SHA-256 digest of bytes as 64 lower-case hexadecimal digits.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::of(bytes).to_string()
}

/// The hex digits of a digest, whether or not its algorithm stands before them.
pub fn bare_digest(digest: &str) -> &str {
    digest.strip_prefix("sha256:").unwrap_or(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_rises_when_other_bytes_are_seen_and_with_every_write() {
        let versions = Versions::default();
        assert_eq!(versions.observe("a", "x").number, 1);
        assert_eq!(versions.observe("a", "x").number, 1);
        assert_eq!(versions.observe("a", "y").number, 2, "changed from outside");
        assert_eq!(versions.written("a", "z").number, 3);
        assert_eq!(versions.written("a", "z").number, 4, "the same bytes, written again");
        assert_eq!(versions.observe("b", "x").number, 1, "counted per file");
    }
}
