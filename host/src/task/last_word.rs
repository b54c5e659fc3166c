//! The last event of a task: kept and told once, whatever happens between its acceptance and its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::audit::edges;
use super::retention;
use super::ticket::{Kept, Ticket};
use crate::output::Output;
use act_agent::editor::{Finished, State};
use act_core::Failure;
use act_core::event::{EventKind, Events};
use act_core::exit::Exit;
use act_model::TokenLedger;
use act_records::store::{Ended, StoreError, TaskState};

/// For a process that holds the store.
const LONGEST_HELD: Duration = Duration::from_secs(60);
/// For a disk that is full or gone.
const LONGEST_UNUSABLE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(250);

/// Owes the world a `task_finished`. Dropped without a word, by a panic or a return that forgot it, it says
/// that the task ended by a fault of ours.
pub(super) struct LastWord {
    events: Events,
    ledger: TokenLedger,
    /// None before it was accepted.
    kept: Option<(Arc<Ticket>, Output)>,
    said: bool,
}

impl LastWord {
    pub(super) fn new(events: Events, ledger: TokenLedger) -> Self {
        Self { events, ledger, kept: None, said: false }
    }

    /// In the store as well, before anybody is told.
    pub(super) fn kept(mut self, ticket: Arc<Ticket>, output: &Output) -> Self {
        self.kept = Some((ticket, output.clone()));
        self
    }

    pub(super) fn say(mut self, finished: Finished) -> Exit {
        let (state, exit) = match finished.state {
            State::Success => (TaskState::Success, Exit::Ok),
            State::Proposed => (TaskState::Proposed, Exit::Ok),
            State::Stuck => (TaskState::Stuck, Exit::Stuck),
            State::InfraError => (TaskState::InfraError, Exit::Infra),
            State::Cancelled => (TaskState::Cancelled, Exit::Cancelled),
        };
        self.tell(state, exit, finished)
    }

    /// Its turn came, and what had been fine is not any more.
    pub(super) fn refuse(mut self, failure: &Failure) -> Exit {
        let hint = failure.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        let finished = Finished {
            reason: Some(failure.code.to_owned()),
            summary: Some(format!("{}{hint}", failure.message)),
            ..nothing_known()
        };
        self.tell(TaskState::Refused, Exit::Refused, finished)
    }

    /// What went wrong is said in our words, unlike what was done.
    fn told(&self, state: TaskState, summary: Option<String>) -> Option<String> {
        match (&self.kept, state) {
            (None, _) | (_, TaskState::Success | TaskState::Proposed) => summary,
            (Some((_, output)), _) => summary.map(|text| output.told(&text).into_owned()),
        }
    }

    /// What is told is what is kept.
    fn tell(&mut self, mut state: TaskState, mut exit: Exit, mut finished: Finished) -> Exit {
        self.said = true;
        if let Some((ticket, output)) = &self.kept {
            let wanted = Ended { state, exit_code: exit as u8, reason: finished.reason.clone() };
            let kept = keep(ticket, &wanted, output);
            if let Some(Instead { ended, why }) = self.instead(ticket, &wanted, kept) {
                (state, finished.reason) = (ended.state, ended.reason);
                exit = Exit::of(ended.exit_code);
                finished.summary = why.or(finished.summary);
            }
            let ended = Ended { state, exit_code: exit as u8, reason: finished.reason.clone() };
            if let Err(error) = edges::end(ticket, &ended, finished.run_id.as_deref()) {
                output.caution(&format!("the end of this task is not recorded: {error}"));
            }
        }
        self.events.emit(EventKind::TaskFinished {
            state: state.as_str().to_owned(),
            exit_code: exit as u8,
            run_id: finished.run_id,
            reason: finished.reason,
            summary: self.told(state, finished.summary),
            report_path: finished.report_path,
            tokens: self.ledger.by_role(),
            gate_inputs_changed: finished.gate_inputs_changed,
            edits_refused: finished.edits_refused,
        });
        exit
    }

    /// Another end than the wanted one, when that is not what is kept.
    fn instead(
        &self,
        ticket: &Ticket,
        wanted: &Ended,
        kept: Result<Kept, StoreError>,
    ) -> Option<Instead> {
        let infra = |state, reason: &str| Ended {
            state,
            exit_code: Exit::Infra as u8,
            reason: Some(reason.to_owned()),
        };
        let task_id = &ticket.task_id;
        let (ended, why) = match kept {
            Ok(Kept::Yes) => return None,
            Ok(Kept::Otherwise(ended)) if ended.state == TaskState::Cancelled => (ended, None),
            Ok(Kept::Otherwise(ended)) => {
                let why = "another act took this one for dead and has ended the task";
                (ended, Some(why.to_owned()))
            }
            Err(error) if !ticket.is_running() => {
                let why = format!(
                    "{error}; the end of the task could not be saved: the next act in this repository records it as \
                     cancelled, and `act run --again {task_id}` then runs it again"
                );
                (infra(TaskState::Queued, error.code()), Some(why))
            }
            Err(error) => {
                let state = wanted.state.as_str();
                let text = format!(
                    "{error}; the end of this task ({state}) is in its journal alone, and goes from there into the store with the next act"
                );
                self.events.emit(EventKind::Diagnosis { text });
                // Also that line had to be written.
                if ticket.is_journaled() {
                    return None;
                }
                let why = format!(
                    "{error}; the task came to its end as {state}, which can be kept nowhere; its changes stay"
                );
                (infra(TaskState::InfraError, "end_not_kept"), Some(why))
            }
        };
        Some(Instead { ended, why })
    }
}

/// What is told instead of what was wanted.
struct Instead {
    ended: Ended,
    /// In place of the summary.
    why: Option<String>,
}

/// Tries again for as long as it may help, and makes room for it.
fn keep(ticket: &Ticket, wanted: &Ended, output: &Output) -> Result<Kept, StoreError> {
    let start = Instant::now();
    let mut told = false;
    loop {
        let error = match ticket.end(wanted) {
            Err(error) if error.may_pass() => error,
            kept => return kept,
        };
        let patience = match error {
            StoreError::Busy { .. } => LONGEST_HELD,
            _ => LONGEST_UNUSABLE,
        };
        if start.elapsed() > patience {
            return Err(error);
        }
        if !std::mem::replace(&mut told, true) {
            output.caution(&format!("the end of this task cannot be kept yet: {error}"));
            let room = retention::make_room_while(&ticket.desk, &|| start.elapsed() < patience);
            // The end is tried again whether there is room now or not.
            let _ = room;
        }
        std::thread::sleep(LOOK);
    }
}

impl Drop for LastWord {
    fn drop(&mut self) {
        if self.said {
            return;
        }
        let finished = Finished { reason: Some("unexpected".into()), ..nothing_known() };
        // A reader that panics now would end the process before the others have heard.
        let told = std::panic::AssertUnwindSafe(|| {
            self.tell(TaskState::InfraError, Exit::Infra, finished);
        });
        let _ = std::panic::catch_unwind(told);
    }
}

fn nothing_known() -> Finished {
    Finished::of(State::InfraError)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use act_core::event::{Event, Milestone, Sink};

    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<serde_json::Value>>>);

    impl Sink for Seen {
        fn event(&mut self, event: &Event) {
            let line = serde_json::from_str(&event.to_json().unwrap()).unwrap();
            self.0.lock().unwrap().push(line);
        }
    }

    fn story(work: impl FnOnce(LastWord, Events)) -> Vec<serde_json::Value> {
        let seen = Seen::default();
        let events = Events::new("t-1", vec![Box::new(seen.clone())]);
        let last = LastWord::new(events.clone(), TokenLedger::default());
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
            let finished = Finished { state: State::Cancelled, ..nothing_known() };
            assert_eq!(last.say(finished), Exit::Cancelled);
        });
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["state"], "CANCELLED");
    }

    struct Place {
        dir: tempfile::TempDir,
        ticket: Arc<Ticket>,
    }

    /// A task that waits, or has begun.
    fn accepted(running: bool) -> Place {
        use crate::task::ticket::Desk;
        use crate::task::{Errand, RunArgs};
        use act_records::artifacts::ArtifactDir;
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().join("repo");
        std::fs::create_dir(&repo).unwrap();
        let artifacts = Arc::new(ArtifactDir::open(&dir.path().join("a"), &repo).unwrap());
        let store = crate::task::preflight::store(&artifacts).unwrap();
        let desk = Desk::new(store, artifacts, &repo).unwrap();
        let args = RunArgs {
            text: "x".into(),
            repo: repo.clone(),
            verbose: false,
            allow_paths: vec![],
            max_tokens: None,
            errand: Errand::Run { baseline: false },
            script: None,
        };
        let (ticket, _) = desk.submit(&args, &repo).unwrap();
        assert!(!running || ticket.start().unwrap());
        Place { dir, ticket: Arc::new(ticket) }
    }

    /// What is told, and what the store has, when a success cannot be kept as it should.
    fn told(place: &Place, spoil: impl FnOnce(&Ticket)) -> (serde_json::Value, Exit) {
        let seen = Seen::default();
        let output = Output::new(crate::output::Style::default());
        let mut sinks: Vec<Box<dyn Sink>> = place.ticket.journal(&output).0.into_iter().collect();
        sinks.push(Box::new(seen.clone()));
        let events = Events::new(place.ticket.task_id.as_str(), sinks);
        let last = LastWord::new(events, TokenLedger::default());
        let last = last.kept(Arc::clone(&place.ticket), &output);
        spoil(&place.ticket);
        let success = Finished { state: State::Success, reason: None, ..nothing_known() };
        let exit = last.say(success);
        let told = seen.0.lock().unwrap().last().unwrap().clone();
        assert_eq!(told["exit_code"], exit as u8);
        (told, exit)
    }

    fn forget_row(ticket: &Ticket) {
        let db = rusqlite::Connection::open(ticket.desk.store.path()).unwrap();
        db.execute("DELETE FROM tasks", []).unwrap();
    }

    #[test]
    fn an_end_that_only_the_journal_has_is_told_and_one_that_nothing_has_is_not() {
        // TASK-30
        let place = accepted(true);
        let (end, exit) = told(&place, forget_row);
        assert_eq!((end["state"].as_str(), exit), (Some("SUCCESS"), Exit::Ok));
        let artifacts = &place.ticket.desk.artifacts;
        let line = artifacts.last_line(&place.ticket.task_id).unwrap().unwrap();
        assert!(line.contains(r#""state":"SUCCESS""#), "{line}");

        let place = accepted(true);
        // A journal that cannot be written any more.
        let full = std::fs::File::options().write(true).open("/dev/full");
        let Ok(full) = full else {
            act_core::testing::skip("no /dev/full");
            return;
        };
        let journal = place.dir.path().join("a/state/journal");
        let path = journal.join(format!("{}.jsonl", place.ticket.task_id));
        assert!(path.exists());
        place.ticket.replace_journal(full);
        let (end, exit) = told(&place, forget_row);
        assert_eq!((end["state"].as_str(), exit), (Some("INFRA_ERROR"), Exit::Infra));
        assert_eq!(end["reason"], "end_not_kept");
    }

    #[test]
    fn an_end_that_others_have_kept_is_told_as_they_have() {
        // TASK-30
        let place = accepted(true);
        let (end, exit) = told(&place, |ticket| {
            let interrupted = Ended {
                state: TaskState::InfraError,
                exit_code: 4,
                reason: Some("interrupted".into()),
            };
            assert!(
                ticket.desk.store.end(&ticket.task_id, &ticket.desk.this, &interrupted).unwrap()
            );
        });
        assert_eq!((end["state"].as_str(), exit), (Some("INFRA_ERROR"), Exit::Infra));
        assert_eq!(end["reason"], "interrupted");

        let place = accepted(false);
        let (end, exit) = told(&place, forget_row);
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
