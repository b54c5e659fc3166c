//! How a task can end without success, and the stable word for it.

use crate::workspace::RootMoved;

/// Why the task ended without success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// Twelve attempts without a green one.
    HardStop,
    /// The model stopped acting.
    ModelIdle,
    /// The tokens that the task may spend are spent.
    Budget,
    /// The conversation is longer than the model takes, and a fresh one was as well; in the server's words.
    ContextFull { said: String },
    /// The machine failed: a stable code and what was seen.
    Infra { code: String, diagnosis: String },
}

impl Ending {
    pub(super) fn infra(code: &str, diagnosis: impl Into<String>) -> Self {
        Self::Infra { code: code.to_owned(), diagnosis: diagnosis.into() }
    }

    /// What is edited and what would be judged are two directories.
    pub(super) fn moved(diagnosis: String) -> Self {
        Self::infra(RootMoved::CODE, format!("{diagnosis}; {}", RootMoved::HINT))
    }

    /// In words for people, where the word alone does not say what to do.
    pub(super) fn explanation(&self) -> Option<&str> {
        match self {
            Self::HardStop | Self::ModelIdle => None,
            Self::Budget => Some(
                "the tokens that this task may spend are spent; allow more with --max-tokens, or ask for less",
            ),
            Self::ContextFull { said: text } | Self::Infra { diagnosis: text, .. } => Some(text),
        }
    }

    /// The `reason` of the finished task.
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::HardStop => "hard_stop",
            Self::ModelIdle => "model_idle",
            Self::Budget => "budget",
            Self::ContextFull { .. } => "context_full",
            Self::Infra { code, .. } => code,
        }
    }
}
