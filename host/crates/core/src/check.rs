//! A check: one command that the model runs while it works, in a container of its own. It counts as no attempt, and no green
//! one ends a task; a [`Verification`](crate::verification::Verification) does that. [`Checker`] makes it.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// A check under way.
pub type CheckUnderWay<'a> =
    Pin<Box<dyn Future<Output = Option<Result<Checked, NotChecked>>> + Send + 'a>>;

/// Runs single commands on the working tree as it is.
pub trait Checker: Send + Sync {
    /// Runs a command, which the caller has admitted, and returns what it printed. Nothing that it writes stays.
    ///
    /// Returns `None` when the check was cancelled.
    fn check<'a>(&'a self, command: &'a str, cancel: &'a CancellationToken) -> CheckUnderWay<'a>;
}

/// What the container of a check begins with besides the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckedOver {
    /// What `prepare` left of the last commit.
    Base,
    /// The image alone, because the pipeline prepares nothing.
    Image,
}

/// How the command of a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckEnd {
    Exited(i64),
    /// The container was killed at the time limit.
    TimedOut(Duration),
}

/// A command that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    pub end: CheckEnd,
    pub over: CheckedOver,
    pub took: Duration,
    /// What the command printed: its beginning and its end where that is much, with a line between them.
    pub output: String,
    /// The files of the tree that were empty in the container, because the Editor does not see them.
    pub covered: Vec<String>,
    /// Why the base is not what `prepare` would make of this tree; `None` where it is, as far as that is known.
    pub outdated: Option<String>,
}

/// Why a command did not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotChecked {
    /// The pipeline prepares something, and there is no base that holds it.
    NoBase(String),
    /// The machine failed.
    Unavailable(String),
}
