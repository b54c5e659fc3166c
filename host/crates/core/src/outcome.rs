//! How a task ended. [`Outcome`] alone maps an end to the state of the task and to the exit code of the process.

use serde::Serialize;

use crate::exit::Exit;

/// The words in which an [`Outcome`] gives its reason. Users and scripts read them, so they never change;
/// `specs/editor.md` (EDITOR-35) and `specs/task-lifecycle.md` list them. A failure of the machine may also have a code of the
/// Docker engine, of the audit log or of the configuration as its word.
pub mod reason {
    /// The user ended the task, with a signal or with `act cancel`.
    pub const CANCELLED: &str = "cancelled";
    /// The process that owned the waiting task died.
    pub const OWNER_DIED: &str = "owner_died";
    /// The process that worked on the task died.
    pub const INTERRUPTED: &str = "interrupted";
    /// A fault of act itself.
    pub const UNEXPECTED: &str = "unexpected";
    /// The task ended, and its end could be saved nowhere.
    pub const END_NOT_KEPT: &str = "end_not_kept";
    /// The model's server did not answer.
    pub const MODEL_UNAVAILABLE: &str = "model_unavailable";
    /// A Scout gave no report that can be used.
    pub const SCOUT_FAILED: &str = "scout_failed";
    /// The machine failed in a way that has no word of its own.
    pub const UNKNOWN: &str = "unknown";
}

/// How a task ended. The state of the task and the exit code of the process follow from it and from nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The last run of the pipeline passed on the tree as it is.
    Success,
    /// A dry run proposed its changes; nothing was verified.
    Proposed,
    /// The agent gave up.
    Stuck { reason: StuckReason },
    /// The machine failed, so the end says nothing about the task.
    InfraError { reason: String },
    /// The user ended the task, or its owner died before it started.
    Cancelled { reason: Option<String> },
    /// The task was accepted and then refused, because its configuration had changed when its turn came.
    Refused { reason: String },
    /// The task never started and its end could not be stored, so the store still lists it as waiting.
    NotStored { reason: String },
}

/// Makes [`StuckReason`] from one list of its reasons and their words, so that each word that is written can also be read.
macro_rules! stuck_reasons {
    ($($(#[$doc:meta])* $reason:ident = $word:literal,)+) => {
        /// Why the agent gave up.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum StuckReason {
            $($(#[$doc])* $reason,)+
            /// A word that another version of act wrote into the store or a journal.
            Other(String),
        }

        impl StuckReason {
            /// Every reason of this version.
            pub const ALL: &[Self] = &[$(Self::$reason),+];

            /// The stable word of the reason.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$reason => $word,)+
                    Self::Other(word) => word,
                }
            }

            /// Returns the reason that a store or a journal names by its word.
            pub fn parse(word: &str) -> Self {
                match word {
                    $($word => Self::$reason,)+
                    _ => Self::Other(word.to_owned()),
                }
            }
        }
    };
}

stuck_reasons! {
    /// The task has used all its attempts.
    HardStop = "hard_stop",
    /// The model stopped calling tools.
    ModelIdle = "model_idle",
    /// The task has spent its tokens.
    Budget = "budget",
    /// The conversation is longer than the model accepts, and a fresh one was as well.
    ContextFull = "context_full",
    /// The model says, after a look at the files, that the task cannot be done as it was given.
    Impossible = "impossible",
}

impl Outcome {
    /// The end of a task that the user cancelled.
    pub fn cancelled() -> Self {
        Self::Cancelled { reason: Some(reason::CANCELLED.to_owned()) }
    }

    /// The end of a task for a failure of the machine, under one of the words of [`reason`] or another stable code.
    pub fn infra(reason: &str) -> Self {
        Self::InfraError { reason: reason.to_owned() }
    }

    /// The state in which the task ends.
    pub fn state(&self) -> TaskState {
        match self {
            Self::Success => TaskState::Success,
            Self::Proposed => TaskState::Proposed,
            Self::Stuck { .. } => TaskState::Stuck,
            Self::InfraError { .. } => TaskState::InfraError,
            Self::Cancelled { .. } => TaskState::Cancelled,
            Self::Refused { .. } => TaskState::Refused,
            Self::NotStored { .. } => TaskState::Queued,
        }
    }

    /// The exit code of the process that ran the task.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Success | Self::Proposed => Exit::Ok,
            Self::Stuck { .. } => Exit::Stuck,
            Self::InfraError { .. } | Self::NotStored { .. } => Exit::Infra,
            Self::Cancelled { .. } => Exit::Cancelled,
            Self::Refused { .. } => Exit::Refused,
        }
    }

    /// The stable word for why the task ended so; `None` for a success and a proposal.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Success | Self::Proposed => None,
            Self::Stuck { reason } => Some(reason.as_str()),
            Self::InfraError { reason } | Self::Refused { reason } | Self::NotStored { reason } => {
                Some(reason)
            }
            Self::Cancelled { reason } => reason.as_deref(),
        }
    }

    /// Returns the outcome that the store or a journal recorded as a state and a reason, or `None` for a task that runs.
    pub fn recorded(state: TaskState, reason: Option<String>) -> Option<Self> {
        let known = || reason.clone().unwrap_or_default();
        Some(match state {
            TaskState::Running => return None,
            TaskState::Queued => Self::NotStored { reason: known() },
            TaskState::Success => Self::Success,
            TaskState::Proposed => Self::Proposed,
            TaskState::Cancelled => Self::Cancelled { reason },
            TaskState::Stuck => Self::Stuck { reason: StuckReason::parse(&known()) },
            TaskState::InfraError => Self::InfraError { reason: known() },
            TaskState::Refused => Self::Refused { reason: known() },
        })
    }
}

// The state of a task. A doc comment would become part of the published schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TaskState {
    Queued,
    Running,
    Success,
    /// A dry run ended with a proposal.
    Proposed,
    Cancelled,
    Stuck,
    InfraError,
    /// The task was refused when its turn came, because its configuration had become invalid.
    Refused,
}

impl TaskState {
    pub const ALL: [Self; 8] = [
        Self::Queued,
        Self::Running,
        Self::Success,
        Self::Proposed,
        Self::Cancelled,
        Self::Stuck,
        Self::InfraError,
        Self::Refused,
    ];

    /// The word for the state in the store, in events and in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "QUEUED",
            Self::Running => "RUNNING",
            Self::Success => "SUCCESS",
            Self::Proposed => "PROPOSED",
            Self::Cancelled => "CANCELLED",
            Self::Stuck => "STUCK",
            Self::InfraError => "INFRA_ERROR",
            Self::Refused => "REFUSED",
        }
    }

    /// Returns the state that `word` names, if it names one.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Returns whether the task has ended.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_states_are_told_by_the_same_words_everywhere() {
        // TASK-18
        let words = TaskState::ALL.map(TaskState::as_str);
        let known = ["QUEUED", "RUNNING", "SUCCESS", "PROPOSED", "CANCELLED", "STUCK"];
        assert_eq!(words[..6], known);
        assert_eq!(words[6..], ["INFRA_ERROR", "REFUSED"]);
        for state in TaskState::ALL {
            assert_eq!(TaskState::parse(state.as_str()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
            let waits_or_works = [TaskState::Queued, TaskState::Running].contains(&state);
            assert_eq!(state.is_final(), !waits_or_works);
        }
        assert_eq!(TaskState::parse("success"), None);
    }

    /// EDITOR-35: the words never change, and the store returns each of them as the reason that was written.
    #[test]
    fn each_reason_to_give_up_is_read_back_from_its_word() {
        let words: Vec<_> = StuckReason::ALL.iter().map(StuckReason::as_str).collect();
        assert_eq!(words, ["hard_stop", "model_idle", "budget", "context_full", "impossible"]);
        for reason in StuckReason::ALL {
            assert_eq!(&StuckReason::parse(reason.as_str()), reason);
        }
        assert_eq!(StuckReason::parse("new"), StuckReason::Other("new".to_owned()));
    }

    #[test]
    fn each_outcome_has_one_state_and_one_exit_code() {
        // TASK-18, CLI-2
        let reason = || "why".to_owned();
        let stuck = StuckReason::ALL.iter().map(|reason| {
            let outcome = Outcome::Stuck { reason: reason.clone() };
            (outcome, TaskState::Stuck, Exit::Stuck, Some(reason.as_str()))
        });
        let table = [
            (Outcome::Success, TaskState::Success, Exit::Ok, None),
            (Outcome::Proposed, TaskState::Proposed, Exit::Ok, None),
            (
                Outcome::Stuck { reason: StuckReason::Other(reason()) },
                TaskState::Stuck,
                Exit::Stuck,
                Some("why"),
            ),
            (
                Outcome::InfraError { reason: reason() },
                TaskState::InfraError,
                Exit::Infra,
                Some("why"),
            ),
            (Outcome::Cancelled { reason: None }, TaskState::Cancelled, Exit::Cancelled, None),
            (Outcome::Refused { reason: reason() }, TaskState::Refused, Exit::Refused, Some("why")),
            (Outcome::NotStored { reason: reason() }, TaskState::Queued, Exit::Infra, Some("why")),
        ];
        for (outcome, state, exit, reason) in table.into_iter().chain(stuck) {
            assert_eq!((outcome.state(), outcome.exit(), outcome.reason()), (state, exit, reason));
            let recorded = Outcome::recorded(state, reason.map(str::to_owned));
            assert_eq!(recorded, Some(outcome));
        }
        assert_eq!(Outcome::recorded(TaskState::Running, None), None);
    }
}
