//! When a task needs a person. The command of `notify`, `act status --follow` and `act watch` ask here, so that they agree.
//!
//! A task that waits or runs needs a person while a question to the person is open. A task that has ended needs one as long as
//! somebody has to look at its end; [`Store::is_settled`] knows that. A component that a repository requests and that nobody
//! approved concerns the repository rather than a task: [`awaiting_approval`] names such components.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::capabilities;
use act_component::registry::State;
use act_core::event::EventKind;
use act_core::process::Life;
use act_core::{Failure, TaskState};
use act_records::store::{Store, StoreError, TaskRecord};

/// Why a task needs a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub enum Attention {
    /// The task asks whether it may change a guarded file, and waits for the answer.
    Permission,
    /// A dry run has proposed changes, which nobody applied.
    Proposed,
    /// The agent gave up.
    Stuck,
    /// The machine failed, so the task did not get to its own end.
    InfraError,
    /// The repository requests a component that nobody approved, so the task was refused when its turn came.
    Component,
    /// The process of the task was stopped by a signal, so the task does not go on.
    Stalled,
}

impl Attention {
    /// Returns the word in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Permission => "permission",
            Self::Proposed => "proposed",
            Self::Stuck => "stuck",
            Self::InfraError => "infra_error",
            Self::Component => "component",
            Self::Stalled => "stalled",
        }
    }

    /// Returns what the person has to do, in a few words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Permission => "wants a permission",
            Self::Proposed => "a proposal waits for you",
            Self::Stuck => "is stuck",
            Self::InfraError => "the machine failed",
            Self::Component => "a component waits for approval",
            Self::Stalled => "its process is stopped",
        }
    }
}

/// The facts that decide whether a task needs a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Situation<'a> {
    pub state: TaskState,
    /// The stable word for why the task ended.
    pub reason: Option<&'a str>,
    /// A question to the person is open.
    pub asks: bool,
    /// The process of the task was stopped by a signal.
    pub stalled: bool,
    /// Somebody has asked the task to end.
    pub cancel_requested: bool,
    /// The end of the task needs no look any more; see [`Store::is_settled`].
    pub settled: bool,
}

/// Returns why a task needs a person, or `None` when it needs nobody (pure).
pub fn needs_person(task: Situation<'_>) -> Option<Attention> {
    match task.state {
        // A task that was asked to end needs nobody any more: it has no use for an answer.
        TaskState::Queued | TaskState::Running if task.cancel_requested => None,
        TaskState::Queued | TaskState::Running if task.asks => Some(Attention::Permission),
        TaskState::Queued | TaskState::Running => task.stalled.then_some(Attention::Stalled),
        _ if task.settled => None,
        TaskState::Proposed => Some(Attention::Proposed),
        TaskState::Stuck => Some(Attention::Stuck),
        TaskState::InfraError => Some(Attention::InfraError),
        TaskState::Refused => task.reason.and_then(|reason| {
            matches!(reason, "component_unapproved" | "component_changed")
                .then_some(Attention::Component)
        }),
        TaskState::Success | TaskState::Cancelled => None,
    }
}

/// Returns why a stored task needs a person. `life` is that of its process, and `asks` is true while one of its questions is
/// open (see [`OpenQuestions`]).
///
/// # Errors
///
/// The store cannot be read.
pub fn need_of(
    store: &Store,
    task: &TaskRecord,
    life: Life,
    asks: bool,
) -> Result<Option<Attention>, StoreError> {
    let settled = task.state.is_final() && store.is_settled(task)?;
    let (state, reason) = (task.state, task.reason.as_deref());
    let (stalled, cancel_requested) = (life == Life::Stalled, task.cancel_requested);
    Ok(needs_person(Situation { state, reason, asks, stalled, cancel_requested, settled }))
}

/// The questions of a task that the person has not answered yet, from the events of the task or from the lines of its journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenQuestions(BTreeSet<String>);

impl OpenQuestions {
    /// Takes an event of the task.
    pub fn take(&mut self, kind: &EventKind) {
        match kind {
            EventKind::ConsentAsked { path, .. } => self.asked(path),
            EventKind::Consent { path, .. } => self.answered(path),
            EventKind::TaskFinished { .. } => self.0.clear(),
            _ => {}
        }
    }

    /// Takes a line of the journal of the task.
    pub fn take_line(&mut self, line: &Value) {
        let text = |field: &str| line.get(field).and_then(Value::as_str);
        match (text("type"), text("path")) {
            (Some("consent_asked"), Some(path)) => self.asked(path),
            (Some("consent"), Some(path)) => self.answered(path),
            (Some("task_finished"), _) => self.0.clear(),
            _ => {}
        }
    }

    /// Reads the end of a journal. A task waits until its question is answered, so an open question is among the last lines.
    pub fn read(mut journal: File) -> Self {
        let mut questions = Self::default();
        let end = journal.metadata().map_or(0, |about| about.len());
        if journal.seek(SeekFrom::Start(end.saturating_sub(MAX_END))).is_err() {
            return questions;
        }
        let mut bytes = vec![];
        if journal.take(MAX_END).read_to_end(&mut bytes).is_err() {
            return questions;
        }
        for line in bytes.split(|byte| *byte == b'\n') {
            // The first line may be half a line, and a hostile journal may hold anything.
            if let Ok(line) = serde_json::from_slice::<Value>(line) {
                questions.take_line(&line);
            }
        }
        questions
    }

    /// Returns whether a question is open.
    pub fn is_open(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns the paths about which the person is asked.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    fn asked(&mut self, path: &str) {
        // A task asks at most 20 questions. A journal that was written by somebody else may hold more.
        if self.0.len() < MAX_QUESTIONS {
            self.0.insert(path.to_owned());
        }
    }

    fn answered(&mut self, path: &str) {
        self.0.remove(path);
    }
}

/// Maximum number of open questions of one task.
const MAX_QUESTIONS: usize = 100;

/// Maximum number of bytes of a journal that are read for its open questions. The lines of one request for a permission have some
/// hundred bytes.
const MAX_END: u64 = 256 << 10;

/// Returns the names of the components that the repository at `root` requests and that wait for the approval of a person, also
/// of those whose bytes differ from the approved ones.
///
/// # Errors
///
/// The registry cannot be read.
pub fn awaiting_approval(root: &Path) -> Result<Vec<String>, Failure> {
    let components = capabilities::list(root)?.components.into_iter();
    let waits = |state| matches!(state, State::Unapproved | State::Changed);
    Ok(components.filter(|one| waits(one.state)).map(|one| one.name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(
        state: TaskState,
        reason: Option<&str>,
        asks: bool,
        settled: bool,
    ) -> Option<Attention> {
        let (stalled, cancel_requested) = (false, false);
        needs_person(Situation { state, reason, asks, stalled, cancel_requested, settled })
    }

    // NOTIFY-1
    #[test]
    fn a_task_whose_process_was_stopped_needs_a_person_and_one_that_was_asked_to_end_nobody() {
        let need = |state, asks, stalled, cancel_requested| {
            let (reason, settled) = (None, false);
            needs_person(Situation { state, reason, asks, stalled, cancel_requested, settled })
        };
        for state in [TaskState::Queued, TaskState::Running] {
            assert_eq!(need(state, false, true, false), Some(Attention::Stalled), "{state:?}");
            assert_eq!(need(state, true, true, false), Some(Attention::Permission), "{state:?}");
            for (asks, stalled) in [(true, false), (false, true), (true, true)] {
                assert_eq!(need(state, asks, stalled, true), None, "{state:?} was cancelled");
            }
        }
        // Its end is one of its own, whoever asked for it before.
        assert_eq!(need(TaskState::Stuck, false, false, true), Some(Attention::Stuck));
        assert_eq!(need(TaskState::Cancelled, true, true, true), None);
    }

    // NOTIFY-1
    #[test]
    fn a_task_needs_a_person_while_it_asks_and_after_an_end_that_nobody_has_settled() {
        for state in [TaskState::Queued, TaskState::Running] {
            assert_eq!(need(state, None, true, false), Some(Attention::Permission), "{state:?}");
            assert_eq!(need(state, None, false, false), None, "{state:?}");
        }
        for (state, reason, expected) in [
            (TaskState::Proposed, None, Some(Attention::Proposed)),
            (TaskState::Stuck, Some("hard_stop"), Some(Attention::Stuck)),
            (TaskState::InfraError, Some("interrupted"), Some(Attention::InfraError)),
            (TaskState::Refused, Some("component_unapproved"), Some(Attention::Component)),
            (TaskState::Refused, Some("component_changed"), Some(Attention::Component)),
            (TaskState::Refused, Some("config_missing"), None),
            (TaskState::Success, None, None),
            (TaskState::Cancelled, Some("cancelled"), None),
        ] {
            assert_eq!(need(state, reason, false, false), expected, "{state:?}");
            assert_eq!(need(state, reason, true, false), expected, "an ended task asks nothing");
            assert_eq!(need(state, reason, false, true), None, "{state:?} is settled");
        }
    }

    // NOTIFY-1
    #[test]
    fn a_question_is_open_until_its_answer_or_the_end_of_the_task() {
        let line = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let asked = r#"{"type":"consent_asked","path":".envrc","op":"create"}"#;
        let other = r#"{"type":"consent_asked","path":".vscode/tasks.json","op":"create"}"#;
        let mut questions = OpenQuestions::default();
        for (text, open) in [
            (r#"{"type":"milestone","text":"x"}"#, vec![]),
            (asked, vec![".envrc"]),
            (other, vec![".envrc", ".vscode/tasks.json"]),
            (
                r#"{"type":"consent","path":".envrc","answer":"refused"}"#,
                vec![".vscode/tasks.json"],
            ),
            (r#"{"type":"task_finished"}"#, vec![]),
        ] {
            questions.take_line(&line(text));
            assert_eq!(questions.paths().collect::<Vec<_>>(), open, "{text}");
            assert_eq!(questions.is_open(), !open.is_empty());
        }
        let (path, op) = (".envrc".to_owned(), "create".to_owned());
        questions.take(&EventKind::ConsentAsked { path: path.clone(), op: op.clone() });
        assert!(questions.is_open());
        questions.take(&EventKind::Consent { path, op, answer: "allowed".into() });
        assert!(!questions.is_open());
    }
}
