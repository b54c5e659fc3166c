//! How a task can end without success, and the stable word for it.

/// Why the task ended without success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// Twelve attempts without a green one.
    HardStop,
    /// The model stopped acting.
    ModelIdle,
    /// The tokens that the task may spend are spent.
    Budget,
    /// The machine failed: a stable code and what was seen.
    Infra { code: String, diagnosis: String },
}

impl Ending {
    pub(super) fn infra(code: &str, diagnosis: impl Into<String>) -> Self {
        Self::Infra { code: code.to_owned(), diagnosis: diagnosis.into() }
    }

    /// The `reason` of the finished task.
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::HardStop => "hard_stop",
            Self::ModelIdle => "model_idle",
            Self::Budget => "budget",
            Self::Infra { code, .. } => code,
        }
    }
}
