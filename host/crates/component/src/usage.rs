//! What one query has used of its grants: noted where it happens, told once when the query is over for its
//! caller, however it ended.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::admission::Capability;
use super::http_left::Way;
use act_audit::Entry;
use act_core::event::EventKind;

/// Bytes of the paths of one query that are held to name them together by one digest; what is read beyond is
/// counted.
const MOST_NAMES: usize = 16 << 20;
const MAX_PARTS: usize = 32;

/// Shared by the query's thread and its caller.
#[derive(Clone, Default)]
pub(super) struct Usage(Arc<Mutex<Used>>);

#[derive(Default)]
struct Used {
    grants: BTreeSet<&'static str>,
    files: BTreeSet<Box<str>>,
    names: usize,
    /// Reads of files for whose names there was no room.
    unnamed: u64,
    /// Bytes that were given, of files and of hits.
    bytes: u64,
    edits: u64,
    model_calls: u64,
    tokens_in: u64,
    tokens_out: u64,
    origins: BTreeSet<String>,
    http_requests: u64,
    http_out: u64,
    http_in: u64,
    env: BTreeSet<String>,
    denials: u64,
    memory: u64,
}

impl Usage {
    fn lock(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn of(&self, capability: Capability) {
        self.lock().grants.insert(capability.name());
    }

    /// The content of this file, or what a search finds in it, is given.
    pub(super) fn file(&self, path: &str) {
        let mut used = self.lock();
        used.grants.insert(Capability::RepoRead.name());
        if used.files.contains(path) {
            return;
        }
        if used.names + path.len() > MOST_NAMES {
            used.unnamed += 1;
            return;
        }
        used.names += path.len();
        used.files.insert(path.into());
    }

    pub(super) fn read(&self, bytes: u64) {
        let mut used = self.lock();
        used.bytes = used.bytes.saturating_add(bytes);
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

    pub(super) fn tokens(&self, input: u64, output: u64) {
        let mut used = self.lock();
        used.tokens_in = used.tokens_in.saturating_add(input);
        used.tokens_out = used.tokens_out.saturating_add(output);
    }

    pub(super) fn env<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let mut used = self.lock();
        used.env.extend(names.map(str::to_owned));
        if !used.env.is_empty() {
            used.grants.insert(Capability::Env.name());
        }
    }

    /// A request to this origin is going to be made; whether it is the first of the query.
    pub(super) fn origin(&self, origin: &str) -> bool {
        let mut used = self.lock();
        used.grants.insert(Capability::Http.name());
        used.origins.insert(origin.to_owned())
    }

    pub(super) fn http_request(&self) {
        self.lock().http_requests += 1;
    }

    pub(super) fn http_bytes(&self, way: Way, bytes: u64) {
        let mut used = self.lock();
        let sum = match way {
            Way::Out => &mut used.http_out,
            Way::In => &mut used.http_in,
        };
        *sum = sum.saturating_add(bytes);
    }

    /// Its memories together, in bytes.
    pub(super) fn memory(&self, bytes: u64) {
        self.lock().memory = bytes;
    }

    pub(super) fn denied(&self) {
        self.lock().denials += 1;
    }

    /// For the terminal, the journal and the store.
    pub(super) fn event(&self, name: &str, sha256: &str) -> EventKind {
        let used = self.lock();
        let part = |path: &str| path.split('/').next().unwrap_or(path).to_owned();
        let parts: BTreeSet<_> = used.files.iter().map(|path| part(path)).collect();
        let few = used.unnamed == 0 && parts.len() <= MAX_PARTS;
        EventKind::ComponentUsed {
            name: name.to_owned(),
            sha256: sha256.to_owned(),
            grants: used.grants.iter().map(|name| (*name).to_owned()).collect(),
            files: used.files.len() as u64 + used.unnamed,
            files_sha256: used.files_sha256(),
            bytes: used.bytes,
            parts: if few { parts.into_iter().collect() } else { vec![] },
            edits: used.edits,
            model_calls: used.model_calls,
            model_tokens: used.tokens_in.saturating_add(used.tokens_out),
            origins: used.origins.iter().cloned().collect(),
            env: used.env.iter().cloned().collect(),
            denials: used.denials,
            memory_bytes: used.memory,
        }
    }

    /// For the audit log.
    pub(super) fn say(&self, entry: Entry) -> Entry {
        let used = self.lock();
        let counts = [
            ("files", used.files.len() as u64),
            ("files_unnamed", used.unnamed),
            ("bytes", used.bytes),
            ("memory_bytes", used.memory),
            ("model_calls", used.model_calls),
            ("tokens_in", used.tokens_in),
            ("tokens_out", used.tokens_out),
            ("http_requests", used.http_requests),
            ("http_bytes_out", used.http_out),
            ("http_bytes_in", used.http_in),
            ("edits", used.edits),
            ("denials", used.denials),
        ];
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        let entry = counts.fold(entry, |entry, (what, count)| entry.count(what, count));
        let files = (!used.files.is_empty()).then(|| used.files_sha256());
        let names = used.origins.iter().chain(&used.env);
        entry.digest("files", files.as_deref()).names(names.cloned())
    }
}

impl Used {
    /// Of the sorted list, a line each.
    fn files_sha256(&self) -> String {
        let list: String = self.files.iter().flat_map(|path| [&**path, "\n"]).collect();
        act_workspace::digest(list.as_bytes())
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
        usage.tokens(100, 20);
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
