//! The call of a tool and its answer, and the repository as a tool may change it.

pub use crate::bindings::agentcommand::types::types::Reason;
use crate::host::Host;
use crate::json;
pub use crate::tool_bindings::agentcommand::repo::edit::{self, Change, EditError, Operation};
use crate::tool_bindings::exports::agentcommand::tool::tool as export;
use crate::world::{Refusal, Repository, Version};
use serde::de::DeserializeOwned;

/// A repository that can be changed. The host carries out each change.
pub trait EditableRepository: Repository {
    /// Makes one change and returns the file's new version, or `None` when the file was deleted.
    ///
    /// # Errors
    ///
    /// The host's refusal. Nothing was changed then.
    fn apply(&self, change: Change) -> Result<Option<Version>, EditError>;

    /// Reports an edit that the component refused by itself, so that the host counts and records it. What the host refused
    /// is not to be reported again.
    fn report_refusal(&self, operation: Operation, path: &str, reason: Reason);
}

impl EditableRepository for Host {
    fn apply(&self, change: Change) -> Result<Option<Version>, EditError> {
        Ok(edit::apply(&[change])?.into_iter().next().flatten())
    }

    fn report_refusal(&self, operation: Operation, path: &str, reason: Reason) {
        edit::report_refusal(operation, path, reason);
    }
}

/// Returns the host's repository for a component that changes files. A component that calls this imports `repo/edit`, and
/// its manifest has to ask for `repo.write`.
pub fn editable_repository() -> &'static impl EditableRepository {
    &Host
}

impl From<Refusal> for EditError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The answer that a call gives to the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    pub text: String,
    /// The tool refused in a way that the model can act on.
    pub is_error: bool,
}

impl Outcome {
    /// A call that did what was asked.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false }
    }

    /// A call that the model can make again in a better way.
    pub fn refusal(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true }
    }
}

/// The reason why no tool ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRun {
    /// The component has no tool of that name.
    UnknownTool,
    /// Says which argument is wrong and what was expected.
    BadArguments(String),
    /// The component failed for a reason that is not in the arguments.
    Failed(String),
}

impl From<Outcome> for export::Outcome {
    fn from(Outcome { text, is_error }: Outcome) -> Self {
        Self { text, data: None, is_error }
    }
}

impl From<NotRun> for export::Failure {
    fn from(why: NotRun) -> Self {
        match why {
            NotRun::UnknownTool => Self::UnknownTool,
            NotRun::BadArguments(why) => Self::BadArguments(why),
            NotRun::Failed(why) => Self::Other(why),
        }
    }
}

/// Reads a tool's arguments as a model wrote them. No text at all means no arguments.
///
/// # Errors
///
/// [`NotRun::BadArguments`] with the place of what does not fit.
pub fn arguments<T: DeserializeOwned>(text: &str) -> Result<T, NotRun> {
    json::arguments(text).map_err(NotRun::BadArguments)
}
