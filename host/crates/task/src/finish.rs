//! The end of a task: stored first, then recorded in the audit log, then emitted as `task_finished`, the last event.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use act_agent::editor::TaskResult;
use act_audit::{AuditError, Entry, Event};
use act_core::event::{EventKind, Events};
use act_core::exit::Exit;
use act_core::verification::Status;
use act_core::{Failure, Outcome, TaskState, reason};
use act_model::TokenLedger;
use act_records::store::{RunRecord, StoreError};

use crate::audit::attestation::keep_proof;
use crate::queue::{OwnedTask, Stored};
use crate::retention;

/// Maximum wait for a store that another process holds.
const MAX_WAIT_BUSY: Duration = Duration::from_secs(60);
/// Maximum wait for a disk that is full or missing.
const MAX_WAIT_UNUSABLE: Duration = Duration::from_secs(3);
const RETRY: Duration = Duration::from_millis(250);

/// Emits `task_finished` exactly once. If it is dropped before that, by a panic or by a return that forgot it, it
/// reports that the task ended by a fault of act.
pub(super) struct FinishGuard {
    events: Events,
    ledger: TokenLedger,
    /// `None` before the task was accepted.
    owned_task: Option<Arc<OwnedTask>>,
    finished: bool,
}

impl FinishGuard {
    pub(super) fn new(events: Events, ledger: TokenLedger) -> Self {
        Self { events, ledger, owned_task: None, finished: false }
    }

    /// Makes the guard store the end of the task before it emits it.
    pub(super) fn stored_by(mut self, owned_task: Arc<OwnedTask>) -> Self {
        self.owned_task = Some(owned_task);
        self
    }

    pub(super) fn finish(mut self, result: TaskResult) -> Exit {
        self.emit_end(result)
    }

    /// Ends the task as REFUSED: it was accepted, and a check failed when its turn came.
    pub(super) fn refuse(mut self, failure: &Failure) -> Exit {
        let hint = failure.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        self.emit_end(TaskResult {
            summary: Some(format!("{}{hint}", failure.message)),
            ..TaskResult::of(Outcome::Refused { reason: failure.code.to_owned() })
        })
    }

    /// Stores, records and emits the end. If the store holds another end, that one is emitted, so that what users
    /// see is what is stored. An end that is stored nowhere is emitted as a failure of the machine.
    fn emit_end(&mut self, mut result: TaskResult) -> Exit {
        self.finished = true;
        let Some(owned_task) = self.owned_task.clone() else { return self.emit(result) };
        owned_task.context.use_room();
        if !is_run_stored(&owned_task, &result) {
            let why = "the last run passed, and its end could not be saved to the database; `act verify` repeats it";
            result = TaskResult {
                outcome: Outcome::infra(reason::END_NOT_KEPT),
                summary: Some(why.to_owned()),
                ..result
            };
        }
        match store_end(&owned_task, &result.outcome, &self.events) {
            Ok(Stored::AsWanted) => {}
            Ok(Stored::Otherwise(outcome)) if outcome.state() == TaskState::Cancelled => {
                result.outcome = outcome;
            }
            Ok(Stored::Otherwise(outcome)) => {
                let why = "another act process took this one for dead and has ended the task";
                (result.outcome, result.summary) = (outcome, Some(why.to_owned()));
            }
            Err(error) if !owned_task.is_running() => {
                let task_id = &owned_task.task_id;
                let why = format!(
                    "{error}; the end of the task could not be saved: the next act in this repository records it as \
                     cancelled, and `act run --again {task_id}` then runs it again"
                );
                result.outcome = Outcome::NotStored { reason: error.code().to_owned() };
                result.summary = Some(why);
            }
            Err(error) => return self.emit_journaled(&owned_task, result, &error),
        }
        self.record(&owned_task, &result);
        self.emit(result)
    }

    /// Emits an end that the store does not have: as it is if the journal has it, from which the next command restores it, and
    /// otherwise as a failure.
    fn emit_journaled(
        &self,
        owned_task: &OwnedTask,
        result: TaskResult,
        error: &StoreError,
    ) -> Exit {
        let (state, exit) = (result.outcome.state().as_str(), result.outcome.exit());
        let before = owned_task.journal_end();
        let ended = || owned_task.is_journaled();
        if self.events.emit_if_kept(self.finished(result.clone()), ended) {
            self.record(owned_task, &result);
            self.events.warn(format!(
                "{error}; the result ({state}) could not be saved to the database; the next act command restores it from \
                 the journal"
            ));
            return exit;
        }
        owned_task.cut_journal(before);
        let why = format!(
            "{error}; the task ended as {state}, but the result could not be saved; your working tree keeps its changes"
        );
        let result = TaskResult {
            outcome: Outcome::infra(reason::END_NOT_KEPT),
            summary: Some(why),
            ..result
        };
        self.record(owned_task, &result);
        self.emit(result)
    }

    /// Records the end in the audit log, and stores the evidence of a success.
    fn record(&self, owned_task: &OwnedTask, result: &TaskResult) {
        let recorded = record_end(owned_task, &result.outcome, result.run_id.as_deref());
        if let Err(error) = recorded {
            self.events
                .warn(format!("cannot record the end of this task in the audit log: {error}"));
        }
        if let (Outcome::Success, Some(run_id)) = (&result.outcome, &result.run_id) {
            self.keep_proof(owned_task, run_id);
        }
    }

    /// Stores the evidence of a success where it outlives the run. The success does not depend on it.
    fn keep_proof(&self, owned_task: &OwnedTask, run_id: &str) {
        let OwnedTask { context, task_id, .. } = owned_task;
        let root = context.store.task(task_id).ok().flatten().map(|task| task.root);
        let Some(root) = root else { return };
        if let Err(error) = keep_proof(context, Path::new(&root), run_id) {
            let why = error.message;
            self.events.warn(format!("the proof of {run_id} is not kept beyond the run: {why}"));
        }
    }

    fn emit(&self, result: TaskResult) -> Exit {
        let exit = result.outcome.exit();
        self.events.emit(self.finished(result));
        exit
    }

    fn finished(&self, result: TaskResult) -> EventKind {
        let (state, exit) = (result.outcome.state(), result.outcome.exit());
        EventKind::TaskFinished {
            state,
            exit_code: exit as u8,
            run_id: result.run_id,
            reason: result.outcome.reason().map(str::to_owned),
            summary: result.summary,
            report_path: result.report_path,
            tokens: self.ledger.by_role(),
            cost_usd: self.ledger.cost(),
            gate_inputs_changed: result.gate_inputs_changed,
            edits_refused: result.edits_refused,
        }
    }
}

/// Returns whether the store says of the run of a success that it passed. Later commands believe the store.
fn is_run_stored(owned_task: &OwnedTask, result: &TaskResult) -> bool {
    let (Outcome::Success, Some(run_id)) = (&result.outcome, &result.run_id) else { return true };
    let status = Status::Pass.as_str();
    let stored = |run: RunRecord| run.status.as_deref() == Some(status);
    // A store that cannot be read does not take the end either.
    owned_task.context.store.run(run_id).map_or(true, |run| run.is_some_and(stored))
}

/// Stores the end of the task. Repeats this while the error may pass, and removes old runs once to make room.
fn store_end(
    owned_task: &OwnedTask,
    wanted: &Outcome,
    events: &Events,
) -> Result<Stored, StoreError> {
    let start = Instant::now();
    let mut reported = false;
    loop {
        let error = match owned_task.end(wanted) {
            Err(error) if error.may_pass() => error,
            stored => return stored,
        };
        let limit = match error {
            StoreError::Busy { .. } => MAX_WAIT_BUSY,
            _ => MAX_WAIT_UNUSABLE,
        };
        if start.elapsed() > limit {
            return Err(error);
        }
        if !std::mem::replace(&mut reported, true) {
            events.warn(format!("the result of this task cannot be saved yet: {error}"));
            let room = retention::make_room_while(&owned_task.context, &|| start.elapsed() < limit);
            // The end is stored again whether that made room or not.
            let _ = room;
        }
        std::thread::sleep(RETRY);
    }
}

impl Drop for FinishGuard {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // A sink that panics now would end the process before the other sinks have received the event.
        let emit = std::panic::AssertUnwindSafe(|| {
            self.emit_end(TaskResult::of(Outcome::infra(reason::UNEXPECTED)));
        });
        let _ = std::panic::catch_unwind(emit);
    }
}

/// Records the end of a task that has started.
fn record_end(
    owned_task: &OwnedTask,
    outcome: &Outcome,
    run_id: Option<&str>,
) -> Result<(), AuditError> {
    let Some(audit) = owned_task.audit() else { return Ok(()) };
    let entry = Entry::new(Event::TaskFinished)
        .object(outcome.state().as_str())
        .count("exit_code", outcome.exit() as u64)
        .names(run_id);
    audit.append(outcome.reason().map_or(entry.clone(), |reason| entry.reason(reason)))?;
    audit.settle()
}

/// A task that was accepted, for the tests of this crate.
#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use crate::queue::{TaskContext, TaskId};
    use act_records::artifacts::ArtifactDir;
    use act_records::store::Flags;
    use std::path::Path;

    pub(crate) struct TestTask {
        pub(crate) dir: tempfile::TempDir,
        pub(crate) owned_task: Arc<OwnedTask>,
    }

    /// Returns a task in the directory `repo` that waits, or has begun.
    pub(crate) fn accepted(running: bool) -> TestTask {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo");
        std::fs::create_dir(&repo).unwrap();
        let artifacts = Arc::new(ArtifactDir::open(&dir.path().join("a"), &repo).unwrap());
        let store = crate::prepare::store(&artifacts).unwrap();
        let context = TaskContext::new(store, artifacts, &repo).unwrap();
        let owned_task = submitted(&context, &repo);
        assert!(!running || owned_task.start().unwrap());
        TestTask { dir, owned_task: Arc::new(owned_task) }
    }

    /// Returns a task that waits in a repository.
    pub(crate) fn submitted(context: &TaskContext, repo: &Path) -> OwnedTask {
        context.submit_as(TaskId::random(), "x", Flags::default(), repo).unwrap().0
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{TestTask, accepted};
    use super::*;
    use act_core::event::{self, Milestone, Sink};
    use std::sync::Mutex;

    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<serde_json::Value>>>);

    impl Sink for Seen {
        fn event(&mut self, event: &event::Event) {
            let line = event.to_json().map(|line| serde_json::from_str(&line).unwrap());
            self.0.lock().unwrap().extend(line);
        }
    }

    fn story(work: impl FnOnce(FinishGuard, Events)) -> Vec<serde_json::Value> {
        let seen = Seen::default();
        let events = Events::new("t-1", vec![Box::new(seen.clone())]);
        let last = FinishGuard::new(events.clone(), TokenLedger::default());
        let work = std::panic::AssertUnwindSafe(|| work(last, events));
        let _ = std::panic::catch_unwind(work);
        let seen = seen.0.lock().unwrap();
        seen.clone()
    }

    #[test]
    fn a_panic_still_ends_with_the_last_word() {
        // EVENT-3, TASK-16
        let lines = story(|_last, events| {
            events.emit(Milestone::Analyzing.into());
            panic!("a fault");
        });
        let last = lines.last().unwrap();
        assert_eq!(lines.len(), 2);
        assert_eq!(last["type"], "task_finished");
        assert_eq!(last["state"], "INFRA_ERROR");
        assert_eq!(last["reason"], "unexpected");
        assert_eq!(last["exit_code"], 4);
    }

    #[test]
    fn what_was_said_is_not_said_again() {
        let lines = story(|last, _| {
            assert_eq!(last.finish(TaskResult::cancelled()), Exit::Cancelled);
        });
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["state"], "CANCELLED");
    }

    /// Returns the last event and the exit code when a success cannot be saved as it should.
    fn end_of(task: &TestTask, spoil: impl FnOnce(&OwnedTask)) -> (serde_json::Value, Exit) {
        let seen = Seen::default();
        let mut sinks: Vec<Box<dyn Sink>> = task.owned_task.journal().0.into_iter().collect();
        sinks.push(Box::new(seen.clone()));
        let events = Events::new(task.owned_task.task_id.as_str(), sinks);
        let last = FinishGuard::new(events, TokenLedger::default());
        let last = last.stored_by(Arc::clone(&task.owned_task));
        spoil(&task.owned_task);
        let exit = last.finish(TaskResult::of(Outcome::Success));
        let end = seen.0.lock().unwrap().last().unwrap().clone();
        assert_eq!(end["exit_code"], exit as u8);
        (end, exit)
    }

    fn forget_row(owned_task: &OwnedTask) {
        let db = rusqlite::Connection::open(owned_task.context.store.path()).unwrap();
        db.execute("DELETE FROM tasks", []).unwrap();
    }

    #[test]
    fn an_end_that_only_the_journal_has_is_told_and_one_that_nothing_has_is_not() {
        // TASK-30
        let task = accepted(true);
        let (end, exit) = end_of(&task, forget_row);
        assert_eq!((end["state"].as_str(), exit), (Some("SUCCESS"), Exit::Ok));
        let artifacts = &task.owned_task.context.artifacts;
        let line = artifacts.last_line(&task.owned_task.task_id).unwrap().unwrap();
        assert!(line.contains(r#""state":"SUCCESS""#), "{line}");

        let task = accepted(true);
        // A journal that cannot be written any more.
        let full = std::fs::File::options().write(true).open("/dev/full");
        let Ok(full) = full else {
            act_core::testing::skip("no /dev/full");
            return;
        };
        let journal = task.dir.path().join("a/state/journal");
        let path = journal.join(format!("{}.jsonl", task.owned_task.task_id));
        assert!(path.exists());
        task.owned_task.replace_journal(full);
        let (end, exit) = end_of(&task, forget_row);
        assert_eq!((end["state"].as_str(), exit), (Some("INFRA_ERROR"), Exit::Infra));
        assert_eq!(end["reason"], "end_not_kept");
    }

    #[test]
    fn an_end_that_others_have_kept_is_told_as_they_have() {
        // TASK-30
        let task = accepted(true);
        let (end, exit) = end_of(&task, |owned_task| {
            let interrupted = Outcome::infra(reason::INTERRUPTED);
            assert!(
                owned_task
                    .context
                    .store
                    .end(&owned_task.task_id, &owned_task.context.this, &interrupted)
                    .unwrap()
            );
        });
        assert_eq!((end["state"].as_str(), exit), (Some("INFRA_ERROR"), Exit::Infra));
        assert_eq!(end["reason"], "interrupted");

        let task = accepted(false);
        let (end, exit) = end_of(&task, forget_row);
        assert_eq!((end["state"].as_str(), exit), (Some("CANCELLED"), Exit::Cancelled));
    }

    #[test]
    fn a_task_whose_configuration_broke_while_it_waited_is_refused() {
        let failure = Failure::refused("config_missing", "gone").hint("run `act init`");
        let lines = story(|last, _| {
            assert_eq!(last.refuse(&failure), Exit::Refused);
        });
        assert_eq!(lines[0]["state"], "REFUSED");
        assert_eq!(lines[0]["reason"], "config_missing");
        assert_eq!(lines[0]["summary"], "gone\nhint: run `act init`");
    }
}
