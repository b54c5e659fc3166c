//! Audit records and events of components: a component was loaded or refused, was denied an access or changed a file,
//! and what each call used.
//!
//! [`ComponentAudit`] writes the records of one component, [`Denials`] those of one call that a grant or a limit
//! refused, and [`CallSummary`] the record at the end of a call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::LoadError;
use crate::capability::{Capability, Grant, Meters};
use crate::failure::ComponentFailure;
use crate::meter::Meter;
use act_audit::{Audit, AuditError, Decision, Entry, Event, Subject, as_object};
use act_core::event::{EventKind, Events};
use act_workspace::{Applied, NotRolledBack};

/// Denials of one call that are recorded one by one. A component cannot flood the log with more: those beyond are
/// recorded as a number when the call ends.
const MAX_DENIALS: usize = 50;
/// Entries of the root that one event lists.
const MAX_PARTS: usize = 32;

/// One loaded component, and the log that its calls are recorded in.
#[derive(Debug)]
pub(crate) struct ComponentAudit {
    audit: Audit,
    subject: Subject,
    effective_sha256: String,
}

impl ComponentAudit {
    /// Records the component with its effective grant, before its first call.
    ///
    /// # Errors
    ///
    /// An [`AuditError`] if the record cannot be written.
    pub(crate) fn loaded(
        audit: &Audit,
        subject: Subject,
        grant: &Grant,
    ) -> Result<Arc<Self>, AuditError> {
        let (words, effective_sha256) = (grant.in_words(), grant.sha256());
        let this = Self { audit: audit.clone(), subject, effective_sha256 };
        this.append(Event::ComponentLoaded, |entry| {
            entry.decision(Decision::Allow).names(words.iter().cloned())
        })?;
        Ok(Arc::new(this))
    }

    /// Checks that a call or an edit may begin. Neither begins while records cannot be written.
    ///
    /// # Errors
    ///
    /// [`ComponentFailure::Unrecorded`].
    pub(crate) fn ready(&self) -> Result<(), ComponentFailure> {
        self.audit.ready().map_err(ComponentFailure::Unrecorded)
    }

    fn append(&self, event: Event, fill: impl FnOnce(Entry) -> Entry) -> Result<(), AuditError> {
        self.append_entry(fill(Entry::new(event)))
    }

    pub(crate) fn append_entry(&self, entry: Entry) -> Result<(), AuditError> {
        let entry = entry.subject(&self.subject).effective(&self.effective_sha256);
        self.audit.append(entry).map(|_| ())
    }

    /// Records something that has happened. The log writes a record that it cannot write now before the next one, and
    /// refuses to begin anything else until then, so an error needs no handling here.
    fn record(&self, event: Event, fill: impl FnOnce(Entry) -> Entry) {
        self.record_entry(fill(Entry::new(event)));
    }

    pub(crate) fn record_entry(&self, entry: Entry) {
        let _ = self.append_entry(entry);
    }

    /// Checks that a request may be sent. The first request of a call to an origin is recorded before it is sent.
    ///
    /// # Errors
    ///
    /// An [`AuditError`] if no record can be written.
    pub(crate) fn record_request(
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

    fn denied(&self, decision: Decision, word: &str, object: &str) {
        self.record(Event::Denied, |entry| entry.decision(decision).reason(word).object(object));
    }

    fn more_denied(&self, total: u64) {
        self.record(Event::Denied, |entry| {
            entry.decision(Decision::Deny).reason("total").count("denials", total)
        });
    }

    /// Records a refused edit, and the files that it changed and could not roll back.
    pub(crate) fn edit_refused(&self, path: &str, op: &str, reason: &str, left: &[NotRolledBack]) {
        self.record(Event::EditRefused, |entry| {
            entry.decision(Decision::Deny).reason(reason).object(path).names([op])
        });
        not_taken_back(left).for_each(|entry| self.record_entry(entry));
    }
}

/// Returns the audit entry and the event of each file that a change touched. A move has one pair for each of its two
/// names.
pub fn edits(applied: &Applied) -> Vec<(Entry, EventKind)> {
    let edit = |path: &str, version: u64, before: Option<&str>, after: Option<&str>| {
        let entry = Entry::new(Event::Edit).decision(Decision::Allow).reason(applied.op);
        let event = EventKind::Edit {
            path: path.to_owned(),
            op: applied.op.to_owned(),
            version,
            sha256_before: before.map(str::to_owned),
            sha256_after: after.map(str::to_owned),
        };
        (entry.object(path).digest("before", before).digest("after", after), event)
    };
    let version = applied.version.as_ref().map_or(0, |version| version.number);
    let (before, after) = (applied.sha256_before.as_deref(), applied.sha256_after.as_deref());
    match &applied.to {
        None => vec![edit(&applied.path, version, before, after)],
        Some(to) => vec![edit(&applied.path, 0, before, None), edit(to, version, None, after)],
    }
}

/// Returns an audit entry for each file that still holds bytes of an edit that failed and could not be rolled back.
pub fn not_taken_back(left: &[NotRolledBack]) -> impl Iterator<Item = Entry> {
    let entry = |left: &NotRolledBack| {
        let entry = Entry::new(Event::Edit).decision(Decision::Allow).reason("not_taken_back");
        entry.object(&left.path)
    };
    left.iter().filter(|left| left.state.is_ours()).map(entry)
}

/// Records a component that was not loaded.
///
/// # Errors
///
/// An [`AuditError`] if the record cannot be written.
pub(crate) fn refused(
    audit: &Audit,
    name: &str,
    sha256: &str,
    why: &LoadError,
) -> Result<(), AuditError> {
    let subject = Subject { name: name.to_owned(), sha256: sha256.to_owned(), world: None };
    let entry = Entry::new(Event::ComponentRefused).subject(&subject).decision(Decision::Deny);
    audit.append(entry.reason(why.code()).names([why.to_string()])).map(|_| ())
}

/// Emits the events of one call until the call is over for its caller. A thread that ends later emits nothing, so that
/// no event follows a task's last one.
#[derive(Clone)]
pub(crate) struct Emitter(Arc<Mutex<Option<Events>>>);

impl Emitter {
    pub(crate) fn new(events: Events) -> Self {
        Self(Arc::new(Mutex::new(Some(events))))
    }

    pub(crate) fn emit(&self, kind: EventKind) {
        if let Some(events) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            events.emit(kind);
        }
    }

    /// Stops all events. Returns when no event is being emitted any more.
    pub(crate) fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// The denials of one call, shared by its thread and its requests.
#[derive(Clone)]
pub(crate) struct Denials(Arc<Mutex<DenialLog>>);

struct DenialLog {
    name: String,
    emitter: Emitter,
    audit: Option<Arc<ComponentAudit>>,
    meters: Arc<Meters>,
    /// The decisions that were recorded, by the word of the record and the object.
    recorded: HashMap<(&'static str, String), Decision>,
    /// The number that was recorded at the end of the call, which later denials of a request that is being closed follow.
    finished: Option<u64>,
}

impl Denials {
    pub(crate) fn new(
        name: &str,
        emitter: Emitter,
        audit: Option<Arc<ComponentAudit>>,
        meters: Arc<Meters>,
    ) -> Self {
        let (name, recorded, finished) = (name.to_owned(), HashMap::new(), None);
        Self(Arc::new(Mutex::new(DenialLog { name, emitter, audit, meters, recorded, finished })))
    }

    /// Records that a capability does not cover an access to `object`.
    pub(crate) fn deny(&self, capability: Capability, object: &str) {
        self.record(Decision::Deny, capability.name(), object, true);
    }

    /// Counts and reports a refused edit, whose record in the audit log is `edit_refused`.
    pub(crate) fn deny_edit(&self, object: &str) {
        self.record(Decision::Deny, Capability::RepoWrite.name(), object, false);
    }

    /// Records that an amount is used up.
    pub(crate) fn used_up(&self, meter: &Meter, object: &str) {
        self.limit(meter.name(), object);
    }

    /// Records that a limit without a meter is reached.
    pub(crate) fn limit(&self, word: &'static str, object: &str) {
        self.record(Decision::Limit, word, object, true);
    }

    /// Records the number of all denials, if there are more than were recorded one by one. The last step of a call.
    pub(crate) fn finish(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).finish();
    }

    fn record(&self, decision: Decision, word: &'static str, object: &str, audited: bool) {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.record(decision, word, object, audited);
    }
}

impl DenialLog {
    fn record(&mut self, decision: Decision, word: &'static str, object: &str, audited: bool) {
        self.meters.denials.add(1);
        if self.recorded.len() >= MAX_DENIALS {
            return;
        }
        // Characters that cannot be seen are shown by their codes, so that two names stay two in the record.
        let object = as_object(object);
        if self.recorded.insert((word, object.clone()), decision).is_none() {
            if let Some(audit) = self.audit.as_ref().filter(|_| audited) {
                audit.denied(decision, word, &object);
            }
            self.emit(word, object);
        }
    }

    fn emit(&self, word: &'static str, object: String) {
        let grant = word.to_owned();
        self.emitter.emit(EventKind::ComponentDenied { name: self.name.clone(), grant, object });
    }
}

impl DenialLog {
    fn finish(&mut self) {
        let total = self.meters.denials.get();
        let was_recorded = self.finished.replace(total) == Some(total);
        if total > self.recorded.len() as u64 && !was_recorded {
            if let Some(audit) = &self.audit {
                audit.more_denied(total);
            }
            self.emit("total", format!("{total} denials in this query"));
        }
    }
}

impl Drop for DenialLog {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Returns the event with what a call used, for the terminal, the journal and the store.
pub(crate) fn used(
    meters: &Meters,
    (name, sha256): (&str, &str),
    call: &str,
    outcome: &str,
    duration: Duration,
) -> EventKind {
    let Meters { repo_read, repo_write, llm, http, env, .. } = meters;
    EventKind::ComponentUsed {
        name: name.to_owned(),
        sha256: sha256.to_owned(),
        call: call.to_owned(),
        outcome: outcome.to_owned(),
        duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        grants: meters.grants(),
        files: repo_read.files(),
        files_sha256: repo_read.files_sha256(),
        bytes: repo_read.bytes.used(),
        parts: repo_read.parts(MAX_PARTS),
        edits: repo_write.edits(),
        model_calls: llm.calls.used(),
        model_tokens: llm.tokens.used(),
        origins: http.origins(),
        env: env.variables(),
        denials: meters.denials.get(),
        memory_bytes: meters.memory.used(),
    }
}

/// The word for a call that returned an answer.
pub(crate) const ANSWERED: &str = "answered";

/// Writes the audit record of one call when dropped, so that abandoned calls are recorded too.
pub(crate) struct CallSummary {
    audit: Arc<ComponentAudit>,
    meters: Arc<Meters>,
    /// `ask`, or the name of the tool.
    what: String,
    input_sha256: String,
    /// The decision, the stable word for how the call ended, and the digest of the answer.
    outcome: (Decision, &'static str, Option<String>),
}

impl CallSummary {
    pub(crate) fn new(
        audit: &Arc<ComponentAudit>,
        meters: &Arc<Meters>,
        what: String,
        input: &str,
    ) -> Self {
        Self {
            audit: Arc::clone(audit),
            meters: Arc::clone(meters),
            what,
            input_sha256: act_workspace::digest(input.as_bytes()),
            outcome: (Decision::Allow, "abandoned", None),
        }
    }

    /// Writes the record of a call that ended with this answer.
    pub(crate) fn ended(mut self, answer: Result<&str, &ComponentFailure>) {
        self.outcome = match answer {
            Ok(text) => (Decision::Allow, ANSWERED, Some(act_workspace::digest(text.as_bytes()))),
            Err(failure) => {
                let decision = match failure {
                    ComponentFailure::Limit(_)
                    | ComponentFailure::Deadline(_)
                    | ComponentFailure::Request(_) => Decision::Limit,
                    ComponentFailure::Withheld(_) | ComponentFailure::Unrecorded(_) => {
                        Decision::Deny
                    }
                    ComponentFailure::Trap(_)
                    | ComponentFailure::Cancelled
                    | ComponentFailure::Guest(_)
                    | ComponentFailure::Model(_)
                    | ComponentFailure::Host(_) => Decision::Allow,
                };
                (decision, failure.word(), None)
            }
        };
    }
}

impl Drop for CallSummary {
    fn drop(&mut self) {
        let (decision, reason, output) = &self.outcome;
        let meters = &self.meters;
        self.audit.record(Event::Query, |entry| {
            let entry = entry.decision(*decision).reason(reason).object(&self.what);
            let entry = entry.digest("input", Some(&self.input_sha256));
            let entry = entry.digest("output", output.as_deref());
            let counts = meters.counts().into_iter().filter(|(_, count)| *count > 0);
            let entry = counts.fold(entry, |entry, (what, count)| entry.count(what, count));
            let files = (meters.repo_read.files() > 0).then(|| meters.repo_read.files_sha256());
            entry.digest("files", files.as_deref()).names(meters.names())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::{self, Sink};

    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<(String, String)>>>);

    impl Sink for Seen {
        fn event(&mut self, event: &event::Event) {
            let EventKind::ComponentDenied { grant, object, .. } = &event.kind else { panic!() };
            self.0.lock().unwrap().push((grant.clone(), object.clone()));
        }
    }

    fn meters() -> Arc<Meters> {
        Arc::new(Meters::new(&Grant::everything()))
    }

    fn emitted(ask: impl FnOnce(&Denials)) -> Vec<(String, String)> {
        let seen = Seen::default();
        let events = Events::new("", vec![Box::new(seen.clone())]);
        ask(&Denials::new("guest", Emitter::new(events), None, meters()));
        let emitted = seen.0.lock().unwrap();
        emitted.clone()
    }

    #[test]
    fn a_few_denials_are_told_one_by_one() {
        let emitted = emitted(|denials| {
            denials.deny(Capability::RepoRead, ".env");
            denials.deny(Capability::RepoRead, "a\nb");
        });
        assert_eq!(
            emitted,
            [(String::from("repo.read"), ".env".into()), ("repo.read".into(), r"a\u{a}b".into())],
            "security line 271: a character that cannot be seen is a code, so that `a b` is another object"
        );
    }

    // CAPABILITY-9
    #[test]
    fn many_denials_end_in_a_total() {
        let emitted = emitted(|denials| {
            (0..1000).for_each(|i| denials.deny(Capability::RepoRead, &i.to_string()));
        });
        assert_eq!(emitted.len(), MAX_DENIALS + 1);
        assert_eq!(emitted[MAX_DENIALS], ("total".into(), "1000 denials in this query".into()));
    }

    #[test]
    fn the_same_denial_is_told_once_and_counted() {
        let emitted = emitted(|denials| (0..3).for_each(|_| denials.deny(Capability::Llm, "chat")));
        assert_eq!(
            emitted,
            [
                ("llm".into(), "chat".into()),
                ("total".into(), String::from("3 denials in this query"))
            ]
        );
    }

    // CAPABILITY-30
    #[test]
    fn a_query_tells_what_it_used_and_under_which_parts() {
        let meters = meters();
        for path in ["src/lib.rs", "src/a/b.rs", "README", "src/lib.rs"] {
            meters.repo_read.file(path);
        }
        assert!(meters.llm.calls.take(1));
        meters.llm.spend(100, 20);
        meters.denials.add(1);
        let event = used(&meters, ("guest", "aa"), "ask", ANSWERED, Duration::ZERO);
        let EventKind::ComponentUsed { grants, files, parts, model_tokens, denials, .. } = event
        else {
            panic!()
        };
        assert_eq!((files, model_tokens, denials), (3, 120, 1));
        assert_eq!(parts, ["README", "src"]);
        assert_eq!(grants, ["llm", "repo.read"]);
    }

    // AUDIT-4
    #[test]
    fn an_amount_that_is_used_up_is_a_limit_and_a_right_that_is_not_there_a_denial() {
        let meters = meters();
        let events = Emitter::new(Events::silent());
        let denials = Denials::new("guest", events, None, Arc::clone(&meters));
        let decision = |word: &'static str| {
            let log = denials.0.lock().unwrap();
            log.recorded[&(word, "an object".to_owned())]
        };
        let (log, http) = (&meters.log, &meters.http);
        let (read, llm) = (&meters.repo_read.bytes, &meters.llm);
        for (amount, word) in [
            (log, "limits.log"),
            (read, "repo.read.bytes"),
            (&llm.calls, "llm.calls"),
            (&llm.tokens, "llm.tokens"),
            (http.bytes(), "http.bytes"),
            (http.requests(), "http.requests"),
        ] {
            denials.used_up(amount, "an object");
            assert_eq!(decision(word), Decision::Limit, "{word}");
        }
        for word in ["repo.read", "repo.write", "llm", "http", "env"] {
            denials.deny(Capability::named(word).unwrap(), "an object");
            assert_eq!(decision(word), Decision::Deny, "{word}");
        }
    }
}
