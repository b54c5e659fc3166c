//! Events: typed facts about a task, and the only source of progress on a terminal, of JSON lines and of journals.
//!
//! Code below the command line emits [`EventKind`]s through [`Events`] and never formats or prints. Each [`Sink`] gets every
//! event in order. `act` uses no `tracing` for this, because events are part of the interface: they have a schema
//! (`specs/events.md`) and numbers without gaps.

#[cfg(any(test, feature = "testing"))]
pub mod schema;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::verification::{ErrorType, FailReason, Status};
use crate::{TaskState, Usd};

/// One event with its number in the task.
#[derive(Debug, Clone)]
pub struct Event {
    pub seq: u64,
    pub time: DateTime<Utc>,
    pub task_id: String,
    pub kind: EventKind,
}

/// Receives the events of a task in order, one at a time; must not block for long.
pub trait Sink: Send {
    fn event(&mut self, event: &Event);

    /// Returns a warning of the sink itself, for instance that its file cannot be written; each warning once. The stream
    /// asks after each event, because a sink cannot emit into the stream that calls it.
    fn take_warning(&mut self) -> Option<String> {
        None
    }
}

/// Emits events; clones share one stream.
#[derive(Clone)]
pub struct Events {
    inner: Arc<Mutex<Stream>>,
}

struct Stream {
    task_id: String,
    seq: u64,
    sinks: Vec<Box<dyn Sink>>,
    /// `task_finished` was emitted; later events other than notices are dropped.
    ended: bool,
}

impl Events {
    /// A stream from its first event.
    pub fn new(task_id: impl Into<String>, sinks: Vec<Box<dyn Sink>>) -> Self {
        Self::resumed(task_id, 0, sinks)
    }

    /// Continues a stream of another process, which has numbered `emitted` events.
    pub fn resumed(task_id: impl Into<String>, emitted: u64, sinks: Vec<Box<dyn Sink>>) -> Self {
        let stream = Stream { task_id: task_id.into(), seq: emitted, sinks, ended: false };
        Self { inner: Arc::new(Mutex::new(stream)) }
    }

    /// A stream without sinks.
    pub fn silent() -> Self {
        Self::new("", vec![])
    }

    /// Sends an event to every sink, and then the warnings of the sinks themselves. After `task_finished` only notices are
    /// sent.
    pub fn emit(&self, kind: EventKind) {
        // A sink that panicked must not silence the others.
        let mut stream = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kinds = VecDeque::from([kind]);
        while let Some(kind) = kinds.pop_front() {
            stream.send(kind);
            let warnings = stream.sinks.iter_mut().filter_map(|sink| sink.take_warning());
            kinds.extend(warnings.map(|text| notice(NoticeLevel::Warning, text)));
        }
    }

    /// Sends an event to the first sink, and to the others only if `kept` says then that it is safe there. Returns false
    /// otherwise; the event then counts as never sent.
    pub fn emit_if_kept(&self, kind: EventKind, kept: impl FnOnce() -> bool) -> bool {
        let mut stream = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let event = stream.next(kind);
        let Some((first, others)) = stream.sinks.split_first_mut() else { return false };
        first.event(&event);
        if !kept() {
            return false;
        }
        others.iter_mut().for_each(|sink| sink.event(&event));
        stream.ended |= matches!(event.kind, EventKind::TaskFinished { .. });
        stream.seq = event.seq;
        true
    }

    /// Warns the person at the terminal.
    pub fn warn(&self, text: impl Into<String>) {
        self.emit(notice(NoticeLevel::Warning, text.into()));
    }

    /// Informs the person at the terminal.
    pub fn inform(&self, text: impl Into<String>) {
        self.emit(notice(NoticeLevel::Info, text.into()));
    }
}

fn notice(level: NoticeLevel, text: String) -> EventKind {
    EventKind::Notice(Notice { level, text })
}

impl Stream {
    fn send(&mut self, kind: EventKind) {
        if self.ended && !matches!(kind, EventKind::Notice(_)) {
            return;
        }
        self.ended |= matches!(kind, EventKind::TaskFinished { .. });
        let event = self.next(kind);
        self.seq = event.seq;
        for sink in &mut self.sinks {
            sink.event(&event);
        }
    }

    /// Returns the event with its number.
    fn next(&self, kind: EventKind) -> Event {
        // A number for an event that programs do not get would be a gap for them.
        let seq = self.seq + u64::from(!kind.is_for_people());
        Event { seq, time: crate::clock::now(), task_id: self.task_id.clone(), kind }
    }
}

/// Version of the lines. It rises when existing fields change their meaning, not when fields or types are added.
pub const VERSION: u32 = 1;

/// One line of `act run --json` and of the journal.
#[derive(Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(title = "Event", rename = "Event")
)]
pub struct EventLine<'a> {
    /// Version of this format.
    v: u32,
    /// From 1, without gaps.
    seq: u64,
    /// ISO 8601 in UTC, to the millisecond.
    time: String,
    task_id: &'a str,
    #[serde(flatten)]
    kind: &'a EventKind,
}

impl Event {
    /// Returns the line without its line feed; `None` for events that only people see.
    pub fn to_json(&self) -> Option<String> {
        if self.kind.is_for_people() {
            return None;
        }
        let time = crate::clock::milliseconds(self.time);
        let Self { seq, task_id, kind, .. } = self;
        serde_json::to_string(&EventLine { v: VERSION, seq: *seq, time, task_id, kind }).ok()
    }
}

/// The milestones of a task, whose texts `specs/task-lifecycle.md` defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Milestone {
    Analyzing,
    QueryingScoutA,
    QueryingScoutB,
    Implementing,
    /// Attempt `number` of at most `of` begins.
    Attempt {
        number: u32,
        of: u32,
    },
    Verifying,
    VerificationFailed,
    Replanning,
    /// The changed tests run on the code of the start, and the tests of the start on the changed code.
    ComparingTests,
}

impl Milestone {
    /// The text that users read.
    pub fn text(self) -> String {
        match self {
            Self::Analyzing => "Analyzing codebase...".into(),
            Self::QueryingScoutA => "Querying Scout A...".into(),
            Self::QueryingScoutB => "Querying Scout B...".into(),
            Self::Implementing => "Implementing changes...".into(),
            Self::Attempt { number, of } => format!("Attempt {number}/{of}..."),
            Self::Verifying => "Running verification...".into(),
            Self::VerificationFailed => "Verification failed, debugging...".into(),
            Self::Replanning => "Replanning...".into(),
            Self::ComparingTests => "Comparing tests with the start...".into(),
        }
    }
}

impl From<Milestone> for EventKind {
    fn from(milestone: Milestone) -> Self {
        let attempt = match milestone {
            Milestone::Attempt { number, .. } => Some(number),
            _ => None,
        };
        Self::Milestone { text: milestone.text(), attempt }
    }
}

/// Tokens of one model call or of a sum of them. `input` includes what came from a cache and what was written to one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ModelUsage {
    pub input: u64,
    pub cached: u64,
    /// Tokens that were written to the provider's cache, which some providers charge for; left out where there are none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write: u64,
    pub output: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl std::ops::AddAssign for ModelUsage {
    fn add_assign(&mut self, more: Self) {
        self.input = self.input.saturating_add(more.input);
        self.cached = self.cached.saturating_add(more.cached);
        self.cache_write = self.cache_write.saturating_add(more.cache_write);
        self.output = self.output.saturating_add(more.output);
    }
}

/// A file of a proposal. `op` is `create`, `replace`, `delete` or `move`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ProposedChange {
    pub path: String,
    pub from: Option<String>,
    pub op: String,
}

/// A patch with the exact bytes of the files.
#[derive(Debug, Clone)]
pub struct Patch(pub bytes::Bytes);

#[derive(Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
struct PatchText<'a> {
    /// A patch in git's format, with a replacement for each byte that is no UTF-8.
    diff: std::borrow::Cow<'a, str>,
    /// The exact bytes of the patch in Base64; absent when `diff` holds them all.
    diff_base64: Option<String>,
}

impl Serialize for Patch {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let diff = String::from_utf8_lossy(&self.0);
        let lossy = matches!(diff, std::borrow::Cow::Owned(_));
        let diff_base64 = lossy.then(|| base64::engine::general_purpose::STANDARD.encode(&self.0));
        PatchText { diff, diff_base64 }.serialize(to)
    }
}

#[cfg(any(test, feature = "testing"))]
impl schemars::JsonSchema for Patch {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Patch".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        PatchText::json_schema(generator)
    }
}

/// The files that differed from the last commit when a task began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Uncommitted {
    /// The number of files.
    pub count: usize,
    /// The first of them, at most [`Uncommitted::NAMED`].
    pub paths: Vec<String>,
}

impl Uncommitted {
    /// Maximum number of files that are named.
    pub const NAMED: usize = 5;
}

/// The linked worktree in which a task works, in place of the working tree of its repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct TaskWorktree {
    /// Path of the worktree's root.
    pub path: String,
    /// The commit with which the worktree began.
    pub head: String,
    /// The worktree began with the uncommitted changes of the repository as well.
    pub dirty: bool,
}

/// Bytes that a step printed, for `--verbose`; never part of the JSON stream.
#[derive(Debug, Clone)]
pub struct StepOutput(pub bytes::Bytes);

/// The text of a file before and after one edit, for a client that shows the difference; never part of the JSON stream.
/// `None` stands for a file that does not exist. Binary and very large files have no such event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedText {
    pub path: String,
    pub before: Option<Arc<str>>,
    pub now: Option<Arc<str>>,
}

/// A message of act for the person at the terminal; never part of the JSON stream and of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub level: NoticeLevel,
    pub text: String,
}

/// How urgent a notice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeLevel {
    /// The notice announces the next action.
    Info,
    /// Something does not work or needs attention, and the command continues.
    Warning,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EventKind {
    /// The task was accepted; `position` counts those that wait in the repository, from 1.
    TaskQueued {
        text: String,
        position: Option<u32>,
    },
    /// The task waits in the queue; the event is sent again when its position changes. `holder` is the task that works in the
    /// repository, or the first waiting one; it is null when that task belongs to another ARTIFACT_DIR. `stalled`: the
    /// process of `holder` has been stopped; `works`: `holder` has begun.
    Waiting {
        repo: String,
        holder: Option<String>,
        position: u32,
        stalled: bool,
        works: bool,
    },
    /// `notes_dir` is the directory of act's notes, from the repository's root; null for a dry run, which writes none.
    /// `uncommitted` is what differs from the last commit; null where nothing differs, or where the difference is unknown.
    /// `worktree` is there for a task that works in a linked worktree of `repo`.
    TaskStarted {
        repo: String,
        pipeline_sha256: String,
        // Journals of 0.1.0 lack the field, so the schema does not require it.
        #[cfg_attr(
            any(test, feature = "testing"),
            schemars(skip_serializing_if = "Option::is_none")
        )]
        notes_dir: Option<String>,
        #[cfg_attr(
            any(test, feature = "testing"),
            schemars(skip_serializing_if = "Option::is_none")
        )]
        uncommitted: Option<Uncommitted>,
        #[serde(skip_serializing_if = "Option::is_none")]
        worktree: Option<TaskWorktree>,
    },
    /// `enforced` lists the boundaries that consist of paths: no tool can write outside of them.
    Constraints {
        constraints: Vec<String>,
        non_goals: Vec<String>,
        boundaries: Vec<String>,
        enforced: Vec<String>,
    },
    /// A milestone text of the specification, word for word.
    Milestone {
        text: String,
        attempt: Option<u32>,
    },
    /// Progress of an image pull. `current` and `total` are bytes, and null when the engine does not report them.
    ImagePull {
        image: String,
        status: String,
        current: Option<u64>,
        total: Option<u64>,
    },
    /// A component is being compiled because the cache does not hold it.
    ComponentCompiled {
        name: String,
        sha256: String,
        duration_ms: u64,
    },
    /// A component was loaded, with the permissions that are in force for it.
    ComponentLoaded {
        name: String,
        sha256: String,
        world: String,
        /// SHA-256 of the effective grant.
        effective_sha256: String,
    },
    /// A component was refused; none of its code has run.
    ComponentRefused {
        name: String,
        sha256: String,
        /// A stable word.
        reason: String,
        message: String,
    },
    /// The resources that one query used of its grants, whether it succeeded or failed.
    ComponentUsed {
        name: String,
        sha256: String,
        /// `ask`, or the name of the tool that was called.
        call: String,
        /// `answered`, or the stable word for how the call failed.
        outcome: String,
        duration_ms: u64,
        /// Names of the grants that the query used.
        grants: Vec<String>,
        files: u64,
        /// SHA-256 of the sorted list of the files that were read, one path per line.
        files_sha256: String,
        bytes: u64,
        /// The top-level entries of the repository that contain those files; empty when there are more than 32.
        parts: Vec<String>,
        edits: u64,
        model_calls: u64,
        model_tokens: u64,
        origins: Vec<String>,
        env: Vec<String>,
        /// Number of refused accesses.
        denials: u64,
        /// Peak memory of the component.
        memory_bytes: u64,
    },
    ScoutStarted {
        scout: String,
        sha256: String,
        attempt: u32,
        /// The question, at most 4 KiB of it; left out in journals of versions that did not write it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        question: String,
    },
    ScoutFinished {
        scout: String,
        /// `ok`, `rejected` (the report broke a rule) or `failed`.
        outcome: String,
        duration_ms: u64,
        summary: String,
        error: Option<String>,
    },
    /// A line that a component says about its progress.
    ComponentStep {
        name: String,
        message: String,
    },
    /// A line that a component wrote to its log; `level` is `debug`, `info` or `warn`.
    ComponentLog {
        name: String,
        level: String,
        message: String,
    },
    ComponentDenied {
        name: String,
        grant: String,
        object: String,
    },
    ModelRequest {
        role: String,
        request_id: Option<String>,
        /// HTTP status; null when no answer arrived.
        status: Option<u16>,
        attempt: u32,
        usage: ModelUsage,
        /// What the request cost; null where the price of the model is not known.
        cost_usd: Option<Usd>,
        duration_ms: u64,
        /// Why the request returned no reply.
        error: Option<String>,
    },
    /// The model gets a file of the repository's instructions for agents.
    InstructionsRead {
        path: String,
        /// SHA-256 of the whole file.
        sha256: String,
        /// Bytes that the model gets.
        bytes: u64,
        /// Bytes at the end of the file that the model does not get.
        left_out: u64,
    },
    /// The Editor's diagnosis or decision; shown with `--verbose`.
    Diagnosis {
        text: String,
    },
    Edit {
        path: String,
        op: String,
        version: u64,
        sha256_before: Option<String>,
        sha256_after: Option<String>,
    },
    EditRefused {
        path: String,
        op: String,
        reason: String,
    },
    /// Emitted right before the `edit` of the same file.
    #[serde(skip)]
    EditedText(EditedText),
    /// The person is asked whether the task may change a guarded file. The task waits until `consent`, or until it ends.
    ConsentAsked {
        path: String,
        op: String,
    },
    /// The person was asked whether the task may change a guarded file.
    Consent {
        path: String,
        op: String,
        /// `allowed`, `refused` or `unanswered`.
        answer: String,
    },
    /// A plan of the model was accepted: its strategy and the goals of all plans so far.
    Plan {
        strategy: String,
        criteria: Vec<String>,
        acceptance: Vec<String>,
    },
    /// `warm`: the run begins with what `prepare` made of the last commit. An attempt with a green warm run has a cold run as
    /// well, with the same number, which decides.
    VerifyStarted {
        run_id: String,
        attempt: u32,
        warm: bool,
    },
    #[serde(skip)]
    StepOutput(StepOutput),
    #[serde(skip)]
    Notice(Notice),
    /// `last_ms` is what the step took when it last passed in this repository, or else when it last failed; null where it has not
    /// ended there yet.
    StepStarted {
        run_id: String,
        name: String,
        // Journals of 0.1.0 lack the field, so the schema does not require it.
        #[cfg_attr(
            any(test, feature = "testing"),
            schemars(skip_serializing_if = "Option::is_none")
        )]
        last_ms: Option<u64>,
    },
    StepFinished {
        run_id: String,
        name: String,
        exit_code: Option<i64>,
        duration_ms: u64,
    },
    VerifyFinished {
        run_id: String,
        /// `PASS`, `FAIL` or `INFRA_ERROR`.
        #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
        status: Status,
        #[cfg_attr(any(test, feature = "testing"), schemars(with = "Option<String>"))]
        error_type: Option<ErrorType>,
        #[cfg_attr(any(test, feature = "testing"), schemars(with = "Option<String>"))]
        reason: Option<FailReason>,
        /// Hash of the record in the audit log that ends the run; null when the record could not be written.
        audit_head: Option<String>,
        duration_ms: u64,
        /// As in `verify_started`.
        warm: bool,
    },
    /// The model runs one command, which decides nothing about the task.
    CheckStarted {
        command: String,
    },
    CheckFinished {
        command: String,
        /// `exited`, `timeout`, `no_base` or `unavailable`.
        outcome: String,
        exit_code: Option<i64>,
        duration_ms: u64,
    },
    /// Result of the pipeline before the first edit; this run does not count as an attempt.
    Baseline {
        run_id: Option<String>,
        /// `PASS` or `FAIL`.
        status: String,
        /// The step that failed.
        step: Option<String>,
        /// The first lines of its log that look like failures.
        failures: Vec<String>,
    },
    /// What the tests of the task prove, right before a success.
    Evidence {
        #[serde(flatten)]
        evidence: crate::evidence::Evidence,
    },
    /// The proposal of a dry run.
    Proposed {
        files: Vec<ProposedChange>,
        /// The command that applies these changes; null when the proposal could not be stored.
        apply: Option<String>,
        #[serde(flatten)]
        diff: Patch,
    },
    Replan {
        number: u32,
        attempt: u32,
        strategy: String,
        requery: Vec<String>,
    },
    Snapshot {
        path: String,
        milestone: String,
    },
    /// A stuck report was written; the digest identifies its content.
    ReportWritten {
        path: String,
        sha256: String,
    },
    /// Always the last event of a task.
    TaskFinished {
        #[cfg_attr(any(test, feature = "testing"), schemars(with = "String"))]
        state: TaskState,
        exit_code: u8,
        run_id: Option<String>,
        reason: Option<String>,
        summary: Option<String>,
        report_path: Option<String>,
        tokens: std::collections::BTreeMap<String, ModelUsage>,
        /// What all requests of the task cost; null where that is not known.
        cost_usd: Option<Usd>,
        gate_inputs_changed: Vec<String>,
        /// How many edits each rule refused, by its word.
        edits_refused: std::collections::BTreeMap<String, u64>,
    },
}

impl EventKind {
    /// Returns whether programs do not get the event: neither `--json` nor the journal has a line for it.
    pub fn is_for_people(&self) -> bool {
        matches!(self, Self::StepOutput(_) | Self::EditedText(_) | Self::Notice(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<String>>>);

    impl Sink for Seen {
        fn event(&mut self, event: &Event) {
            self.0.lock().unwrap().extend(event.to_json());
        }
    }

    fn finished() -> EventKind {
        crate::testing::task_finished(crate::TaskState::Success, crate::exit::Exit::Ok)
    }

    #[test]
    fn numbers_have_no_gap_where_steps_print() {
        // EVENT-1
        let seen = Seen::default();
        let events = Events::new("t-1", vec![Box::new(seen.clone())]);
        events.emit(Milestone::Verifying.into());
        events.emit(EventKind::StepOutput(StepOutput(bytes::Bytes::from_static(b"x"))));
        events.emit(Milestone::VerificationFailed.into());
        let seen = seen.0.lock().unwrap();
        assert_eq!(seen.len(), 2);
        assert!(seen[1].contains(r#""seq":2"#), "{seen:?}");
    }

    #[test]
    fn nothing_is_told_after_the_end() {
        // EVENT-3
        let seen = Seen::default();
        let events = Events::new("t-1", vec![Box::new(seen.clone())]);
        events.emit(Milestone::Analyzing.into());
        events.emit(finished());
        events.emit(Milestone::Verifying.into());
        events.emit(finished());
        let seen = seen.0.lock().unwrap();
        assert_eq!(seen.len(), 2);
        assert!(seen[1].contains(r#""seq":2"#) && seen[1].contains("task_finished"), "{seen:?}");
    }

    #[derive(Clone, Default)]
    struct Notices(Arc<Mutex<Vec<String>>>);

    impl Sink for Notices {
        fn event(&mut self, event: &Event) {
            if let EventKind::Notice(notice) = &event.kind {
                self.0.lock().unwrap().push(notice.text.clone());
            }
        }
    }

    struct Failing(Option<String>);

    impl Sink for Failing {
        fn event(&mut self, _: &Event) {}

        fn take_warning(&mut self) -> Option<String> {
            self.0.take()
        }
    }

    #[test]
    fn a_warning_reaches_people_even_after_the_end_and_no_program() {
        // EVENT-1, EVENT-3
        let (seen, notices) = (Seen::default(), Notices::default());
        let failing = Failing(Some("the disk is full".to_owned()));
        let sinks: [Box<dyn Sink>; 3] =
            [Box::new(failing), Box::new(seen.clone()), Box::new(notices.clone())];
        let events = Events::new("t-1", sinks.into());
        events.emit(Milestone::Analyzing.into());
        events.emit(finished());
        events.warn("old runs cannot be removed");
        assert_eq!(*notices.0.lock().unwrap(), ["the disk is full", "old runs cannot be removed"]);
        assert_eq!(seen.0.lock().unwrap().len(), 2);
    }

    fn event(kind: EventKind) -> Event {
        let time = chrono::DateTime::from_timestamp_millis(1_792_000_000_123).unwrap();
        Event { seq: 7, time, task_id: "t-abc123".into(), kind }
    }

    #[test]
    fn a_line_begins_with_version_number_time_and_task() {
        // EVENT-7
        let kind = EventKind::Milestone { text: "Analyzing codebase...".into(), attempt: None };
        assert_eq!(
            event(kind).to_json().unwrap(),
            r#"{"v":1,"seq":7,"time":"2026-10-14T17:46:40.123Z","task_id":"t-abc123","type":"milestone","text":"Analyzing codebase...","attempt":null}"#
        );
    }

    #[test]
    fn what_steps_print_is_no_line() {
        // EVENT-7
        let output = StepOutput(bytes::Bytes::from_static(b"x"));
        assert_eq!(event(EventKind::StepOutput(output)).to_json(), None);
    }

    #[test]
    fn milestones_have_the_words_of_the_specification() {
        // TASK-12
        let texts = [
            (Milestone::Analyzing, "Analyzing codebase..."),
            (Milestone::QueryingScoutA, "Querying Scout A..."),
            (Milestone::QueryingScoutB, "Querying Scout B..."),
            (Milestone::Implementing, "Implementing changes..."),
            (Milestone::Attempt { number: 3, of: 12 }, "Attempt 3/12..."),
            (Milestone::Verifying, "Running verification..."),
            (Milestone::VerificationFailed, "Verification failed, debugging..."),
            (Milestone::Replanning, "Replanning..."),
            (Milestone::ComparingTests, "Comparing tests with the start..."),
        ];
        for (milestone, text) in texts {
            assert_eq!(milestone.text(), text);
        }
    }

    #[test]
    fn only_an_attempt_carries_its_number() {
        let attempt = |milestone: Milestone| match milestone.into() {
            EventKind::Milestone { attempt, .. } => attempt,
            other => panic!("not a milestone: {other:?}"),
        };
        assert_eq!(attempt(Milestone::Attempt { number: 7, of: 12 }), Some(7));
        assert_eq!(attempt(Milestone::Verifying), None);
    }

    // CLI-50
    #[test]
    fn a_patch_that_is_no_text_is_there_byte_for_byte_as_well() {
        let json = |bytes: &'static [u8]| serde_json::to_value(Patch(bytes.into())).unwrap();
        assert_eq!(json(b"+a\n"), serde_json::json!({"diff": "+a\n", "diff_base64": null}));
        let latin = serde_json::json!({"diff": "+\u{fffd}\n", "diff_base64": "K+kK"});
        assert_eq!(json(b"+\xE9\n"), latin);
    }
}
