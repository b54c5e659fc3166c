//! The sinks that write the events of a task to the disk: the journal, and the store's runs, progress and durations.

use std::io;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::queue::TaskContext;
use act_core::event::{Event, EventKind, Milestone, Sink};
use act_core::secret::Secrets;
use act_core::{fail_point, terminal_text};
use act_model::TokenLedger;
use act_records::store::{Measured, NewStuckReport, Progress, Store, StoreError};

/// Stores the runs of a task or of `act verify`, and the stuck report that a task wrote.
pub(super) struct RunSink {
    context: TaskContext,
    task_id: Option<String>,
    trouble: StoreTrouble,
}

impl RunSink {
    pub(super) fn new(context: &TaskContext, task_id: Option<&str>) -> Self {
        let (context, task_id) = (context.clone(), task_id.map(str::to_owned));
        Self { context, task_id, trouble: StoreTrouble::default() }
    }
}

impl RunSink {
    /// Stores the digest of a report, which makes the file ours, and pins the runs of the task.
    fn report_written(&self, path: &str, sha256: &str) -> Result<(), StoreError> {
        let (TaskContext { store, repo, .. }, Some(task_id)) = (&self.context, &self.task_id)
        else {
            return Ok(());
        };
        let runs = store.runs_of(task_id)?.into_iter();
        let run_ids: Vec<_> = runs.map(|run| run.run_id).collect();
        store.add_stuck_report(&NewStuckReport { task_id, repo, path, sha256, run_ids: &run_ids })
    }
}

impl Sink for RunSink {
    fn event(&mut self, event: &Event) {
        let TaskContext { store, repo, this, .. } = &self.context;
        let (stored, place) = match &event.kind {
            EventKind::VerifyStarted { run_id, warm, .. } => {
                let task_id = self.task_id.as_deref();
                (store.run_started(run_id, task_id, repo, *warm, this), "verify_started")
            }
            EventKind::VerifyFinished { run_id, status, audit_head, .. } => {
                let store_end =
                    || store.run_finished(run_id, status.as_str(), audit_head.as_deref());
                let stored = match store_end() {
                    // A step has filled the disk. The end of the task reserves room again if there is any.
                    Err(StoreError::Full { .. } | StoreError::Unusable { .. })
                        if self.context.use_room() =>
                    {
                        let stored = store_end();
                        let _ = self.context.reserve_room();
                        stored
                    }
                    stored => stored,
                };
                (stored, "verify_finished")
            }
            EventKind::Evidence { evidence } => {
                let Some(task_id) = &self.task_id else { return };
                (store.evidence(task_id, &evidence.words()), "evidence")
            }
            EventKind::ReportWritten { path, sha256 } => {
                (self.report_written(path, sha256), "report_written")
            }
            _ => return,
        };
        fail_point::reach(place);
        self.trouble.check(stored);
    }

    fn take_warning(&mut self) -> Option<String> {
        self.trouble.warning.take()
    }
}

/// Stores the progress of a task.
pub(super) struct ProgressSink {
    store: Arc<Store>,
    task_id: String,
    ledger: TokenLedger,
    so_far: Progress,
    /// The phase to which a query of a Scout returns.
    before_query: Option<String>,
    trouble: StoreTrouble,
}

impl ProgressSink {
    pub(super) fn new(context: &TaskContext, task_id: &str, ledger: &TokenLedger) -> Self {
        Self {
            store: Arc::clone(&context.store),
            task_id: task_id.to_owned(),
            ledger: ledger.clone(),
            so_far: Progress::default(),
            before_query: None,
            trouble: StoreTrouble::default(),
        }
    }
}

impl Sink for ProgressSink {
    fn event(&mut self, event: &Event) {
        let news = take(&mut self.so_far, &mut self.before_query, &event.kind);
        if !news {
            return;
        }
        self.so_far.tokens = self.ledger.by_role();
        self.so_far.cost = self.ledger.cost();
        match self.store.progress(&self.task_id, &self.so_far) {
            // Each write holds the whole progress, and the last one is written when the task ends.
            Err(StoreError::Busy { .. }) => {}
            stored => self.trouble.check(stored),
        }
    }

    fn take_warning(&mut self) -> Option<String> {
        self.trouble.warning.take()
    }
}

/// Returns the milestone of a query of this Scout, or `None` for a Scout without one.
fn query_of(scout: &str) -> Option<String> {
    match scout {
        "scout-a" => Some(Milestone::QueryingScoutA.text()),
        "scout-b" => Some(Milestone::QueryingScoutB.text()),
        _ => None,
    }
}

/// Adds an event to the progress of the task. Returns whether the progress has changed (pure). After a query of a Scout the
/// phase is the one `before` it, because the Editor goes on with that.
fn take(so_far: &mut Progress, before: &mut Option<String>, kind: &EventKind) -> bool {
    match kind {
        EventKind::Milestone { attempt: Some(attempt), .. } => so_far.attempt = *attempt,
        EventKind::Milestone { text, attempt: None } => {
            let is_query = |text: &String| {
                ["scout-a", "scout-b"].iter().any(|scout| query_of(scout).as_ref() == Some(text))
            };
            if is_query(text) && !so_far.phase.as_ref().is_some_and(is_query) {
                before.clone_from(&so_far.phase);
            }
            so_far.phase = Some(text.clone());
        }
        EventKind::ScoutFinished { scout, outcome, .. }
            if outcome == "ok" && so_far.phase.is_some() && so_far.phase == query_of(scout) =>
        {
            so_far.phase.clone_from(before);
        }
        EventKind::Replan { number, .. } => so_far.replans = *number,
        EventKind::ModelRequest { .. } | EventKind::TaskFinished { .. } => {}
        _ => return false,
    }
    true
}

/// The first error of the store in a sink, which becomes a warning; the task continues.
#[derive(Default)]
struct StoreTrouble {
    reported: bool,
    warning: Option<String>,
}

impl StoreTrouble {
    fn check(&mut self, stored: Result<(), StoreError>) {
        let Err(error) = stored else { return };
        if !std::mem::replace(&mut self.reported, true) {
            self.warning = Some(format!("cannot save the progress of this task: {error}"));
        }
    }
}

/// Stores how long Scouts, verifications and their steps took.
pub(super) struct TimingSink {
    context: TaskContext,
    task_id: Option<String>,
    /// The attempt of the verification that runs.
    attempt: u32,
    trouble: StoreTrouble,
}

impl TimingSink {
    /// `task_id` is `None` for `act verify`.
    pub(super) fn new(context: &TaskContext, task_id: Option<&str>) -> Self {
        let (context, task_id) = (context.clone(), task_id.map(str::to_owned));
        Self { context, task_id, attempt: 0, trouble: StoreTrouble::default() }
    }
}

impl TimingSink {
    fn check(&mut self, stored: Result<(), StoreError>) {
        match stored {
            // A missing figure is better than a task that waits for the store.
            Err(StoreError::Busy { .. }) => {}
            stored => self.trouble.check(stored),
        }
    }
}

impl Sink for TimingSink {
    fn event(&mut self, event: &Event) {
        let (what, duration) = match &event.kind {
            EventKind::VerifyStarted { attempt, .. } => {
                // A verification outside of a task is no attempt.
                self.attempt = if self.task_id.is_some() { *attempt } else { 0 };
                return;
            }
            EventKind::VerifyFinished { duration_ms, .. } => {
                (Measured::Verify { attempt: self.attempt }, *duration_ms)
            }
            EventKind::StepFinished { name, exit_code: Some(code), duration_ms, .. } => {
                let TaskContext { store, repo, .. } = &self.context;
                self.check(store.step_took(repo, name, *code == 0, *duration_ms));
                return;
            }
            EventKind::ScoutFinished { scout, outcome, duration_ms, .. }
                if outcome != "cancelled" =>
            {
                (Measured::Scout { name: scout.clone() }, *duration_ms)
            }
            _ => return,
        };
        self.check(self.context.store.measured(self.task_id.as_deref(), &what, duration));
    }

    fn take_warning(&mut self) -> Option<String> {
        self.trouble.warning.take()
    }
}

/// Writes each event as one line of JSON. A failed write ends the stream, because part of a line would make the next one
/// unreadable.
pub struct JsonLines<W> {
    /// `None` after a failed write.
    out: Option<W>,
    secrets: Secrets,
}

impl<W: Write> JsonLines<W> {
    pub fn new(out: W, secrets: Secrets) -> Self {
        Self { out: Some(out), secrets }
    }

    fn write(&mut self, event: &Event) -> io::Result<()> {
        let (Some(out), Some(line)) = (&mut self.out, event.to_json()) else { return Ok(()) };
        let line = format!("{}\n", terminal_text::json(&self.secrets.redact(&line)));
        let written = out.write_all(line.as_bytes()).and_then(|()| out.flush());
        if written.is_err() {
            self.out = None;
        }
        written
    }
}

impl<W: Write + Send> Sink for JsonLines<W> {
    fn event(&mut self, event: &Event) {
        // The reader has closed the stream; the task continues.
        let _ = self.write(event);
    }
}

/// Writes the journal of a task. If the file cannot be written, the task continues and the user is warned once.
pub(super) struct JournalSink<W> {
    lines: Option<JsonLines<W>>,
    /// Shared with the owner of the task: every event so far is in the journal.
    complete: Arc<AtomicBool>,
    warning: Option<String>,
}

impl<W: Write> JournalSink<W> {
    pub(super) fn new(file: io::Result<W>, secrets: Secrets, complete: Arc<AtomicBool>) -> Self {
        let mut journal = Self { lines: None, complete, warning: None };
        match file {
            Ok(file) => journal.lines = Some(JsonLines::new(file, secrets)),
            Err(error) => journal.fail(&error),
        }
        journal
    }

    fn fail(&mut self, error: &io::Error) {
        self.complete.store(false, Ordering::SeqCst);
        self.warning = Some(format!("cannot write the journal of this task: {error}"));
    }
}

impl<W: Write + Send> Sink for JournalSink<W> {
    fn event(&mut self, event: &Event) {
        if let Some(Err(error)) = self.lines.as_mut().map(|lines| lines.write(event)) {
            self.fail(&error);
        }
    }

    fn take_warning(&mut self) -> Option<String> {
        self.warning.take()
    }
}

#[cfg(test)]
mod recorder_tests {
    use super::*;

    #[test]
    fn attempts_and_milestones_are_told_apart() {
        // TASK-27
        let mut so_far = Progress::default();
        let story = [
            Milestone::Implementing.into(),
            Milestone::Attempt { number: 2, of: 12 }.into(),
            EventKind::Diagnosis { text: "x".into() },
            EventKind::Replan { number: 1, attempt: 3, strategy: "s".into(), requery: vec![] },
        ];
        let mut before = None;
        let news: Vec<_> = story.iter().map(|kind| take(&mut so_far, &mut before, kind)).collect();
        assert_eq!(news, [true, true, false, true]);
        assert_eq!(so_far.phase.as_deref(), Some("Implementing changes..."));
        assert_eq!((so_far.attempt, so_far.replans), (2, 1));
    }

    #[test]
    fn after_a_query_the_phase_is_the_one_before_it() {
        // TASK-27
        let (mut so_far, mut before) = (Progress::default(), None);
        let finished = |scout: &str| EventKind::ScoutFinished {
            scout: scout.into(),
            outcome: "ok".into(),
            duration_ms: 1,
            summary: String::new(),
            error: None,
        };
        for (kind, phase) in [
            (Milestone::Analyzing.into(), "Analyzing codebase..."),
            (Milestone::QueryingScoutA.into(), "Querying Scout A..."),
            (Milestone::QueryingScoutB.into(), "Querying Scout B..."),
            (finished("scout-a"), "Querying Scout B..."),
            (finished("scout-b"), "Analyzing codebase..."),
        ] {
            take(&mut so_far, &mut before, &kind);
            assert_eq!(so_far.phase.as_deref(), Some(phase));
        }
    }
}

#[cfg(test)]
mod journal_tests {
    use super::*;
    use act_core::event::EventKind;
    use act_core::secret::Secret;

    fn diagnosis(text: &str) -> Event {
        let kind = EventKind::Diagnosis { text: text.into() };
        Event { seq: 1, time: act_core::clock::now(), task_id: "t-000000".into(), kind }
    }

    #[test]
    fn a_line_is_one_event_whatever_it_says_and_holds_no_key() {
        // EVENT-5, EVENT-7, security line 162
        let secrets = Secrets::new([Secret::new("sk-\"canary")]);
        let mut lines = JsonLines::new(vec![], secrets);
        lines.event(&diagnosis("one\ntwo\u{2028}sk-\"canary\u{1b}[2J"));
        let text = String::from_utf8(lines.out.unwrap()).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        assert!(!text.contains(['\u{2028}', '\u{1b}']), "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["text"], "one\ntwo\u{2028}[redacted]\u{1b}[2J");
    }

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_reported_once_and_ends_nothing() {
        // EVENT-9
        let complete = Arc::new(AtomicBool::new(true));
        let mut journal = JournalSink::new(Ok(Full), Secrets::default(), Arc::clone(&complete));
        let warnings = ["a", "b"].map(|text| {
            journal.event(&diagnosis(text));
            journal.take_warning()
        });
        assert!(warnings[0].as_ref().is_some_and(|text| text.contains("journal")));
        assert_eq!(warnings[1], None);
        assert!(!complete.load(Ordering::SeqCst));
    }
}
