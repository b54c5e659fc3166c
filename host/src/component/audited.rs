//! A component in the audit log: whether it may begin, what it was refused and changed, and, when a query is
//! over, what it used.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use super::LoadError;
use super::failure::ComponentFailure;
use super::grant::Grant;
use super::instance::{Answer, Job};
use crate::audit::{Audit, AuditError, Decision, Entry, Event, Subject};
use crate::workspace::Applied;

/// Bytes of the paths of one query that are held to name them together by one digest; what is read beyond is
/// counted.
const MOST_NAMES: usize = 16 << 20;
/// What stands in a record where a right was there and its amount was used up.
const AMOUNTS: [&str; 4] = ["limits.", "repo.read.bytes", "llm.calls", "llm.tokens"];

/// One loaded component and the log that its queries are told to.
#[derive(Debug)]
pub(super) struct Audited {
    audit: Audit,
    subject: Subject,
    effective_sha256: String,
}

impl Audited {
    /// Recorded with what is in force, before the first query.
    pub(super) fn loaded(
        audit: &Audit,
        subject: Subject,
        grant: &Grant,
    ) -> Result<Arc<Self>, AuditError> {
        let (words, effective_sha256) = in_words(grant);
        let audited = Self { audit: audit.clone(), subject, effective_sha256 };
        audited.append(Event::ComponentLoaded, |entry| {
            entry.decision(Decision::Allow).names(words.iter().cloned())
        })?;
        Ok(Arc::new(audited))
    }

    /// A component without any right may run unrecorded; there is none of those among ours.
    pub(super) fn ready(&self) -> Result<(), ComponentFailure> {
        self.audit.ready().map_err(unrecorded)
    }

    fn append(&self, event: Event, say: impl FnOnce(Entry) -> Entry) -> Result<(), AuditError> {
        let entry = Entry::new(event).subject(&self.subject).effective(&self.effective_sha256);
        self.audit.append(say(entry)).map(|_| ())
    }

    /// What cannot be written now is written before anything else begins, so nothing is to be done here.
    fn tell(&self, event: Event, say: impl FnOnce(Entry) -> Entry) {
        let _ = self.append(event, say);
    }

    pub(super) fn denied(&self, grant: &str, object: &str) {
        let used_up = AMOUNTS.iter().any(|amount| grant.starts_with(amount));
        let decision = if used_up { Decision::Limit } else { Decision::Deny };
        self.tell(Event::Denied, |entry| entry.decision(decision).reason(grant).object(object));
    }

    pub(super) fn more_denied(&self, total: u64) {
        self.tell(Event::Denied, |entry| {
            entry.decision(Decision::Deny).reason("total").count("denials", total)
        });
    }

    pub(super) fn edited(&self, applied: &Applied) {
        let edit = |path: &str, before: Option<&str>, after: Option<&str>| {
            self.tell(Event::Edit, |entry| {
                let entry = entry.decision(Decision::Allow).reason(applied.op).object(path);
                entry.digest("before", before).digest("after", after)
            });
        };
        let (before, after) = (applied.sha256_before.as_deref(), applied.sha256_after.as_deref());
        match &applied.to {
            None => edit(&applied.path, before, after),
            Some(to) => {
                edit(&applied.path, before, None);
                edit(to, None, after);
            }
        }
    }

    pub(super) fn edit_refused(&self, path: &str, op: &str, reason: &str) {
        self.tell(Event::EditRefused, |entry| {
            entry.decision(Decision::Deny).reason(reason).object(path).names([op])
        });
    }
}

fn unrecorded(error: AuditError) -> ComponentFailure {
    ComponentFailure::Unrecorded(error)
}

/// A component that was not let in.
pub(super) fn refused(
    audit: &Audit,
    name: &str,
    sha256: &str,
    why: &LoadError,
) -> Result<(), AuditError> {
    let subject = Subject { name: name.to_owned(), sha256: sha256.to_owned(), world: None };
    let entry = Entry::new(Event::ComponentRefused).subject(&subject).decision(Decision::Deny);
    audit.append(entry.reason(why.word()).names([why.to_string()])).map(|_| ())
}

/// Each capability that is in force as `NAME LIMITS…`, and the digest of all of it as JSON.
pub fn in_words(grant: &Grant) -> (Vec<String>, String) {
    use serde_json::Value;
    let json = serde_json::to_value(grant).unwrap_or_default();
    let flat = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let word = |(name, value): (&String, &Value)| match value {
        Value::Null | Value::Bool(false) => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Object(limits) => {
            let limits = limits.iter().filter(|(_, value)| !value.is_null());
            let limits = limits.map(|(limit, value)| format!(" {limit}={}", flat(value)));
            Some(format!("{}{}", name.replace('_', "."), limits.collect::<String>()))
        }
        Value::Bool(true) => Some(name.replace('_', ".")),
        value => Some(format!("{} {}", name.replace('_', "."), flat(value))),
    };
    let words = json.as_object().into_iter().flatten().filter_map(word).collect();
    (words, digest(&json.to_string()))
}

fn digest(text: &str) -> String {
    crate::workspace::digest(text.as_bytes())
}

/// What a query has used so far; shared with its thread, which may end later than the query.
#[derive(Debug, Default)]
pub(super) struct Used(Mutex<Sums>);

#[derive(Debug, Default)]
struct Sums {
    files: HashSet<Box<str>>,
    names: usize,
    /// Reads of files for whose names there was no room.
    unnamed: u64,
    /// Bytes that were given, of files and of hits.
    bytes: u64,
    model_calls: u64,
    tokens_in: u64,
    tokens_out: u64,
    edits: u64,
    denials: u64,
}

impl Used {
    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn file(&self, path: &str) {
        let mut sums = self.sums();
        if sums.files.contains(path) {
            return;
        }
        if sums.names + path.len() > MOST_NAMES {
            sums.unnamed += 1;
            return;
        }
        sums.names += path.len();
        sums.files.insert(path.into());
    }

    pub(super) fn bytes(&self, bytes: u64) {
        let mut sums = self.sums();
        sums.bytes = sums.bytes.saturating_add(bytes);
    }

    pub(super) fn model(&self, tokens_in: u64, tokens_out: u64) {
        let mut sums = self.sums();
        sums.model_calls += 1;
        sums.tokens_in = sums.tokens_in.saturating_add(tokens_in);
        sums.tokens_out = sums.tokens_out.saturating_add(tokens_out);
    }

    pub(super) fn edit(&self) {
        self.sums().edits += 1;
    }

    pub(super) fn denial(&self) {
        self.sums().denials += 1;
    }
}

impl Sums {
    fn say(self, entry: Entry) -> Entry {
        let mut files: Vec<_> = self.files.iter().collect();
        files.sort_unstable();
        let mut list = Sha256::new();
        for file in &files {
            list.update(file.as_bytes());
            list.update(b"\n");
        }
        let list: String = list.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let counts = [
            ("files", files.len() as u64),
            ("files_unnamed", self.unnamed),
            ("bytes", self.bytes),
            ("model_calls", self.model_calls),
            ("tokens_in", self.tokens_in),
            ("tokens_out", self.tokens_out),
            ("edits", self.edits),
            ("denials", self.denials),
        ];
        let used = counts.into_iter().filter(|(_, count)| *count > 0);
        let entry = used.fold(entry, |entry, (what, count)| entry.count(what, count));
        entry.digest("files", (!files.is_empty()).then_some(list.as_str()))
    }
}

/// The summary of one query, owed from its beginning: also when nobody waits for its answer any more.
pub(super) struct Summary {
    audited: Arc<Audited>,
    used: Arc<Used>,
    job: String,
    asked: String,
    outcome: Option<(Decision, &'static str, Option<String>)>,
}

impl Summary {
    pub(super) fn owed(audited: &Arc<Audited>, used: &Arc<Used>, job: &Job) -> Self {
        let (word, asked) = match job {
            Job::Ask(question) => {
                let context =
                    question.context.iter().map(|(name, text)| format!("\0{name}\0{text}"));
                ("ask".to_owned(), format!("{}{}", question.text, context.collect::<String>()))
            }
            Job::Call { tool, arguments } => (tool.clone(), arguments.clone()),
        };
        Self {
            audited: Arc::clone(audited),
            used: Arc::clone(used),
            job: word,
            asked: digest(&asked),
            outcome: None,
        }
    }

    pub(super) fn ended(mut self, result: &Result<Answer, ComponentFailure>) {
        self.outcome = Some(match result {
            Ok(answer) => (Decision::Allow, "answered", Some(digest(answer.text()))),
            Err(failure) => {
                let (decision, word) = match failure {
                    ComponentFailure::Limit(_) => (Decision::Limit, "limit"),
                    ComponentFailure::Deadline(_) => (Decision::Limit, "deadline"),
                    ComponentFailure::Trap(_) => (Decision::Allow, "trap"),
                    ComponentFailure::Cancelled => (Decision::Allow, "cancelled"),
                    ComponentFailure::Guest(_) => (Decision::Allow, "gave_up"),
                    ComponentFailure::Model(_) => (Decision::Allow, "model_failed"),
                    ComponentFailure::Host(_) => (Decision::Allow, "host_failed"),
                    ComponentFailure::Unrecorded(_) => (Decision::Deny, "unrecorded"),
                };
                (decision, word, None)
            }
        });
    }
}

impl Drop for Summary {
    fn drop(&mut self) {
        let sums = std::mem::take(&mut *self.used.sums());
        let (decision, reason, output) =
            self.outcome.take().unwrap_or((Decision::Allow, "abandoned", None));
        self.audited.tell(Event::Query, |entry| {
            let entry = entry.decision(decision).reason(reason).object(&self.job);
            sums.say(entry.digest("input", Some(&self.asked)).digest("output", output.as_deref()))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // AUDIT-9
    #[test]
    fn what_is_in_force_is_said_in_words_and_by_one_digest() {
        let (words, sha256) = in_words(&Grant::builtin_tool());
        assert_eq!(words[0], "repo.read file_bytes=16777216 query_bytes=536870912");
        assert_eq!(words[1], "repo.write");
        assert!(words[2].starts_with("limits memory_bytes="), "{words:?}");
        assert_ne!(sha256, in_words(&Grant::builtin_scout()).1);
        let (nothing, _) = in_words(&Grant::default());
        assert!(nothing.iter().all(|word| word.starts_with("limits ")), "{nothing:?}");
    }
}
