//! A component in the audit log: whether it may begin, what it was refused and changed, and, when a query is
//! over, what it used.

use std::sync::Arc;

use super::LoadError;
use super::failure::ComponentFailure;
use super::grant::Grant;
use super::instance::{Answer, Job};
use super::usage::Usage;
use act_audit::{Audit, AuditError, Decision, Entry, Event, Subject};
use act_workspace::Applied;

/// What stands in a record where a right was there and its amount was used up.
const AMOUNTS: [&str; 6] =
    ["limits.", "repo.read.bytes", "llm.calls", "llm.tokens", "http.bytes", "http.requests"];

fn decision(grant: &str) -> Decision {
    let used_up = AMOUNTS.iter().any(|amount| grant.starts_with(amount));
    if used_up { Decision::Limit } else { Decision::Deny }
}

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
        let (words, effective_sha256) = (in_words(grant), grant.sha256());
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

    /// Whether a request may go out: the first one of a query to an origin is on record before it is connected to.
    pub(super) fn reaches(
        &self,
        origin: &str,
        method: &str,
        first: bool,
    ) -> Result<(), AuditError> {
        if first {
            self.append(Event::OriginOpened, |entry| {
                entry.decision(Decision::Allow).reason(method).object(origin)
            })?;
        }
        self.audit.ready()
    }

    pub(super) fn denied(&self, grant: &str, object: &str) {
        self.tell(Event::Denied, |entry| {
            entry.decision(decision(grant)).reason(grant).object(object)
        });
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
    audit.append(entry.reason(why.code()).names([why.to_string()])).map(|_| ())
}

/// Each capability of a grant as `NAME LIMITS…`.
pub fn in_words(grant: &Grant) -> Vec<String> {
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
    json.as_object().into_iter().flatten().filter_map(word).collect()
}

fn digest(text: &str) -> String {
    act_workspace::digest(text.as_bytes())
}

/// The summary of one query, owed from its beginning: also when nobody waits for its answer any more.
pub(super) struct Summary {
    audited: Arc<Audited>,
    usage: Usage,
    job: String,
    asked: String,
    outcome: Option<(Decision, &'static str, Option<String>)>,
}

impl Summary {
    pub(super) fn owed(audited: &Arc<Audited>, usage: &Usage, job: &Job) -> Self {
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
            usage: usage.clone(),
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
        let (decision, reason, output) =
            self.outcome.take().unwrap_or((Decision::Allow, "abandoned", None));
        self.audited.tell(Event::Query, |entry| {
            let entry = entry.decision(decision).reason(reason).object(&self.job);
            self.usage
                .say(entry.digest("input", Some(&self.asked)).digest("output", output.as_deref()))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // AUDIT-4
    #[test]
    fn an_amount_that_is_used_up_is_a_limit_and_a_right_that_is_not_there_a_denial() {
        let amounts = [
            "limits.log",
            "repo.read.bytes",
            "llm.calls",
            "llm.tokens",
            "http.bytes",
            "http.requests",
        ];
        for (words, is) in [
            (&amounts[..], Decision::Limit),
            (&["repo.read", "repo.write", "llm", "http", "env"], Decision::Deny),
        ] {
            for word in words {
                assert_eq!(decision(word), is, "{word}");
            }
        }
    }

    // AUDIT-9
    #[test]
    fn what_is_in_force_is_said_in_words_and_by_one_digest() {
        let words = in_words(&Grant::builtin_tool());
        let said = |start: &str| words.iter().any(|word| word.starts_with(start));
        assert!(said("repo.read file_bytes=16777216 query_bytes=536870912"), "{words:?}");
        assert!(said("repo.write") && said("limits memory_bytes="), "{words:?}");
        assert_ne!(Grant::builtin_tool().sha256(), Grant::builtin_scout().sha256());
        let nothing = in_words(&Grant::default());
        assert!(nothing.iter().all(|word| word.starts_with("limits ")), "{nothing:?}");
    }
}
