//! Which paths git tracks, from the index. A pattern never makes a tracked file ignored.
//!
//! An index that cannot be read, is split over files or is larger than the bound counts as none.

use super::git_dir::{self, GitDir};

/// Bytes of an index at most; a million files take about half of it.
const MAX_INDEX: u64 = 256 << 20;
/// What decoding may take for one allocation.
const MAX_DECODED: usize = 512 << 20;

#[derive(Debug, Default)]
pub(super) struct Tracked {
    /// Sorted, each once.
    paths: Vec<Vec<u8>>,
}

impl Tracked {
    /// What is tracked below `prefix`, which is empty or ends in `/`, by its path from there.
    pub(super) fn read(git: &GitDir, prefix: &[u8]) -> Self {
        let found = git_dir::bytes(&git.own, b"index", MAX_INDEX).and_then(|bytes| decode(&bytes));
        let mut paths = found.unwrap_or_default();
        if !prefix.is_empty() {
            paths =
                paths.iter().filter_map(|path| Some(path.strip_prefix(prefix)?.into())).collect();
        }
        Self { paths }
    }

    pub(super) fn paths(&self) -> &[Vec<u8>] {
        &self.paths
    }

    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    pub(super) fn has(&self, path: &[u8]) -> bool {
        self.paths.binary_search_by(|known| known.as_slice().cmp(path)).is_ok()
    }

    /// Whether anything below the directory is tracked.
    pub(super) fn has_below(&self, dir: &[u8]) -> bool {
        let below = [dir, b"/"].concat();
        let first = self.paths.partition_point(|known| known.as_slice() < below.as_slice());
        self.paths.get(first).is_some_and(|known| known.starts_with(&below))
    }
}

fn decode(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let options = gix_index::decode::Options {
        thread_limit: Some(1),
        alloc_limit_bytes: Some(MAX_DECODED),
        ..Default::default()
    };
    let hash = gix_index::hash::Kind::Sha1;
    let (state, _) =
        gix_index::State::from_bytes(bytes, filetime::FileTime::zero(), hash, options).ok()?;
    if state.link().is_some() {
        return None;
    }
    let mut paths: Vec<Vec<u8>> =
        state.entries().iter().map(|entry| entry.path(&state).to_vec()).collect();
    paths.sort_unstable();
    paths.dedup();
    Some(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracked(paths: &[&str]) -> Tracked {
        Tracked { paths: paths.iter().map(|path| path.as_bytes().to_vec()).collect() }
    }

    #[test]
    fn a_directory_is_known_by_what_is_tracked_in_it() {
        let tracked = tracked(&["a-b/x", "a.txt", "a/b/c"]);
        assert!(tracked.has(b"a/b/c") && !tracked.has(b"a/b"));
        assert!(tracked.has_below(b"a") && tracked.has_below(b"a/b"));
        assert!(
            !tracked.has_below(b"a/b/c") && !tracked.has_below(b"b") && !tracked.has_below(b"a.")
        );
    }

    #[test]
    fn a_damaged_index_is_no_index() {
        assert_eq!(decode(b""), None);
        assert_eq!(decode(b"DIRC\0\0\0\x02\xff\xff\xff\xff and nothing of what it promised"), None);
    }

    #[test]
    fn no_changed_byte_of_an_index_ends_the_host() {
        let whole = crate::testing::index(&["a", "b/c", "b/d/e.rs"]);
        assert_eq!(decode(&whole).unwrap(), [&b"a"[..], b"b/c", b"b/d/e.rs"]);
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                let _ = decode(&changed);
            }
            let _ = decode(&whole[..at]);
        }
    }
}
