//! What one query has used of its grants: noted where it happens, told once when the query is over for its
//! caller, however it ended.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::admission::Capability;
use crate::event::EventKind;

/// Names of files that are kept for the digest; what comes after is counted as one more file each time.
const MAX_FILES: usize = 100_000;
const MAX_PARTS: usize = 32;

/// Shared by the query's thread and its caller.
#[derive(Clone, Default)]
pub(super) struct Usage(Arc<Mutex<Used>>);

#[derive(Default)]
pub(super) struct Used {
    grants: BTreeSet<&'static str>,
    files: BTreeSet<String>,
    more_files: u64,
    bytes: u64,
    edits: u64,
    model_calls: u64,
    model_tokens: u64,
    origins: BTreeSet<String>,
    env: BTreeSet<String>,
    denials: u64,
}

impl Usage {
    fn lock(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn of(&self, capability: Capability) {
        self.lock().grants.insert(capability.name());
    }

    pub(super) fn file(&self, path: &str) {
        let mut used = self.lock();
        used.grants.insert(Capability::RepoRead.name());
        if used.files.len() < MAX_FILES {
            if !used.files.contains(path) {
                used.files.insert(path.to_owned());
            }
        } else if !used.files.contains(path) {
            used.more_files += 1;
        }
    }

    pub(super) fn read(&self, bytes: u64) {
        self.lock().bytes += bytes;
    }

    pub(super) fn edits(&self, count: usize) {
        let mut used = self.lock();
        used.grants.insert(Capability::RepoWrite.name());
        used.edits += count as u64;
    }

    /// A request to the model.
    pub(super) fn model(&self) {
        let mut used = self.lock();
        used.grants.insert(Capability::Llm.name());
        used.model_calls += 1;
    }

    pub(super) fn tokens(&self, tokens: u64) {
        let mut used = self.lock();
        used.model_tokens = used.model_tokens.saturating_add(tokens);
    }

    pub(super) fn env<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let mut used = self.lock();
        used.env.extend(names.map(str::to_owned));
        if !used.env.is_empty() {
            used.grants.insert(Capability::Env.name());
        }
    }

    pub(super) fn denied(&self) {
        self.lock().denials += 1;
    }

    pub(super) fn event(&self, name: &str, sha256: &str) -> EventKind {
        let used = self.lock();
        let list: String = used.files.iter().flat_map(|path| [path.as_str(), "\n"]).collect();
        let part = |path: &String| path.split('/').next().unwrap_or(path).to_owned();
        let parts: BTreeSet<_> = used.files.iter().map(part).collect();
        let few = used.more_files == 0 && parts.len() <= MAX_PARTS;
        EventKind::ComponentUsed {
            name: name.to_owned(),
            sha256: sha256.to_owned(),
            grants: used.grants.iter().map(|name| (*name).to_owned()).collect(),
            files: used.files.len() as u64 + used.more_files,
            files_sha256: crate::workspace::digest(list.as_bytes()),
            bytes: used.bytes,
            parts: if few { parts.into_iter().collect() } else { vec![] },
            edits: used.edits,
            model_calls: used.model_calls,
            model_tokens: used.model_tokens,
            origins: used.origins.iter().cloned().collect(),
            env: used.env.iter().cloned().collect(),
            denials: used.denials,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // CAPABILITY-30
    #[test]
    fn a_query_tells_what_it_used_and_under_which_parts() {
        let usage = Usage::default();
        for path in ["src/lib.rs", "src/a/b.rs", "README", "src/lib.rs"] {
            usage.file(path);
        }
        usage.model();
        usage.tokens(120);
        usage.denied();
        let event = usage.event("guest", "aa");
        let EventKind::ComponentUsed { grants, files, parts, model_tokens, denials, .. } = event
        else {
            panic!()
        };
        assert_eq!((files, model_tokens, denials), (3, 120, 1));
        assert_eq!(parts, ["README", "src"]);
        assert_eq!(grants, ["llm", "repo.read"]);
    }
}
