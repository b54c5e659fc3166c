//! The last event of a task: kept and told once, whatever happens between its acceptance and its end.

use std::sync::Arc;

use super::audit::edges;
use super::ticket::Ticket;
use crate::editor::{Finished, State};
use crate::event::{EventKind, Events};
use crate::exit::Exit;
use crate::model::TokenLedger;
use crate::output::{Failure, Output};
use crate::store::{Ended, TaskState};

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
            State::Stuck => (TaskState::Stuck, Exit::Stuck),
            State::InfraError => (TaskState::InfraError, Exit::Infra),
            State::Cancelled => (TaskState::Cancelled, Exit::Cancelled),
        };
        self.tell(state, exit, finished);
        exit
    }

    /// Its turn came, and what had been fine is not any more.
    pub(super) fn refuse(mut self, failure: &Failure) -> Exit {
        let hint = failure.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        let finished = Finished {
            reason: Some(failure.code.to_owned()),
            summary: Some(format!("{}{hint}", failure.message)),
            ..nothing_known()
        };
        self.tell(TaskState::Refused, Exit::Refused, finished);
        Exit::Refused
    }

    fn tell(&mut self, state: TaskState, exit: Exit, finished: Finished) {
        self.said = true;
        if let Some((ticket, output)) = &self.kept {
            let reason = finished.reason.clone();
            let how = Ended { state, exit_code: exit as u8, reason };
            if let Err(error) = edges::end(ticket, &how, finished.run_id.as_deref()) {
                output.caution(&format!("the end of this task is not recorded: {error}"));
            }
            if let Err(error) = ticket.end(&how) {
                output.caution(&format!("the end of this task cannot be kept: {error}"));
            }
        }
        self.events.emit(EventKind::TaskFinished {
            state: state.as_str().to_owned(),
            exit_code: exit as u8,
            run_id: finished.run_id,
            reason: finished.reason,
            summary: finished.summary,
            report_path: finished.report_path,
            tokens: self.ledger.by_role(),
            gate_inputs_changed: finished.gate_inputs_changed,
            edits_refused: finished.edits_refused,
        });
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
    Finished {
        state: State::InfraError,
        run_id: None,
        reason: None,
        summary: None,
        report_path: None,
        gate_inputs_changed: vec![],
        edits_refused: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::event::{Event, Milestone, Sink};

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

    #[test]
    fn a_task_whose_configuration_broke_while_it_waited_is_refused() {
        let failure = Failure::refused("config_missing", "gone").hint("run `act init`");
        let lines = story(|last, _| {
            assert_eq!(last.refuse(&failure), Exit::Refused);
        });
        assert_eq!(lines[0]["state"], "REFUSED");
        assert_eq!(lines[0]["reason"], "config_missing");
        assert_eq!(lines[0]["summary"], "gone; run `act init`");
    }
}
