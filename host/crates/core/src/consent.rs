//! Questions to the person for whom a task works, asked while it works.

use std::fmt::Debug;
use std::pin::Pin;

/// The answer of the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Allowed,
    Refused,
    /// No answer came in time. It counts as a refusal.
    Unanswered,
}

impl Answer {
    /// Returns the word in events and in the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
            Self::Unanswered => "unanswered",
        }
    }
}

/// Reaches the person for whom a task works. A task without one is refused what it would have asked for.
pub trait Consent: Debug + Send + Sync {
    /// Asks whether the task may make the change `op` (`create`, `replace`, `delete` or `move`) of the guarded file `path`.
    /// The answer is for this file and this task alone. The caller drops the question when the task is cancelled.
    fn may_change<'a>(
        &'a self,
        path: &'a str,
        op: &'a str,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;
}
