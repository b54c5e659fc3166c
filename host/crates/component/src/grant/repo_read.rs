//! The filtered view of the repository: what of it may be seen, and how much of that.

use serde::{Deserialize, Serialize};

use super::{Set, UNLIMITED};
use crate::bounds::{self, at_most};
use crate::words::RepoPart;

/// The filtered view of the repository: as a preopen at `/repo` and in batches through `repo.read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RepoRead {
    /// What may be seen of the view.
    #[serde(skip_serializing_if = "Set::is_any")]
    pub paths: Set<RepoPart>,
    /// Bytes that may be read of any one file.
    #[serde(deserialize_with = "at_most::<{ bounds::FILE }, _, _>")]
    pub file_bytes: u64,
    /// Bytes that one query may read in all.
    #[serde(deserialize_with = "at_most::<{ bounds::READ }, _, _>")]
    pub query_bytes: u64,
}

impl Default for RepoRead {
    fn default() -> Self {
        // A tree of a quarter of a gigabyte can be read whole and some of it twice.
        Self { paths: Set::Any, file_bytes: 16 << 20, query_bytes: 512 << 20 }
    }
}

impl RepoRead {
    pub(super) fn unlimited() -> Self {
        Self { paths: Set::Any, file_bytes: UNLIMITED, query_bytes: UNLIMITED }
    }

    pub(super) fn meet(&self, other: &Self) -> Self {
        let paths = match (&self.paths, &other.paths) {
            (Set::Any, paths) | (paths, Set::Any) => paths.clone(),
            (Set::Only(a), Set::Only(b)) => {
                let both = a.iter().flat_map(|a| b.iter().filter_map(move |b| deeper(a, b)));
                Set::Only(both.cloned().collect())
            }
        };
        Self {
            paths,
            file_bytes: self.file_bytes.min(other.file_bytes),
            query_bytes: self.query_bytes.min(other.query_bytes),
        }
    }

    /// Whether a file at `path` may be read as far as the names go.
    pub fn covers(&self, path: &str) -> bool {
        match &self.paths {
            Set::Any => true,
            Set::Only(parts) => parts.iter().any(|part| is_at_or_below(path, part.as_str())),
        }
    }
}

/// The one that lies in the other.
fn deeper<'a>(a: &'a RepoPart, b: &'a RepoPart) -> Option<&'a RepoPart> {
    if is_at_or_below(a.as_str(), b.as_str()) {
        Some(a)
    } else {
        is_at_or_below(b.as_str(), a.as_str()).then_some(b)
    }
}

fn is_at_or_below(path: &str, part: &str) -> bool {
    path.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
