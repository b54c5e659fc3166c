//! What a caller wants changed, what became of it, and why it was refused.

use super::repo_path::PathError;
use super::versions::Version;
use edit_protocol::Reason;

/// One file, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Must not exist yet; missing directories are made.
    Create {
        path: String,
        bytes: Vec<u8>,
    },
    Replace {
        path: String,
        expect: Version,
        bytes: Vec<u8>,
    },
    Delete {
        path: String,
        expect: Version,
    },
    /// The target must not exist; missing directories are made.
    Move {
        from: String,
        expect: Version,
        to: String,
    },
}

impl Change {
    pub fn path(&self) -> &str {
        match self {
            Self::Create { path, .. } | Self::Replace { path, .. } | Self::Delete { path, .. } => {
                path
            }
            Self::Move { from, .. } => from,
        }
    }

    /// Every path that it names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let to = match self {
            Self::Move { to, .. } => Some(to.as_str()),
            Self::Create { .. } | Self::Replace { .. } | Self::Delete { .. } => None,
        };
        std::iter::once(self.path()).chain(to)
    }

    /// The word for events: `create`, `replace`, `delete` or `move`.
    pub fn op(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Replace { .. } => "replace",
            Self::Delete { .. } => "delete",
            Self::Move { .. } => "move",
        }
    }
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub op: &'static str,
    /// Where a moved file was before; else the file.
    pub path: String,
    /// Where a moved file is now.
    pub to: Option<String>,
    /// Of the file where it is now; none when it was deleted.
    pub version: Option<Version>,
    pub sha256_before: Option<String>,
    pub sha256_after: Option<String>,
    /// Allowed only because the user named the path for this task.
    pub guarded: bool,
}

/// A file that a task left different from how it found it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    pub path: String,
    pub sha256_before: Option<String>,
    pub sha256_now: Option<String>,
    pub guarded: bool,
}

impl ChangedFile {
    /// `create`, `replace` or `delete`, seen over the whole task.
    pub fn op(&self) -> &'static str {
        match (&self.sha256_before, &self.sha256_now) {
            (None, _) => "create",
            (Some(_), None) => "delete",
            (Some(_), Some(_)) => "replace",
        }
    }
}

/// A file that a call changed and could not take back, because somebody else changed it meanwhile or the system
/// refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub path: String,
    pub holds: Holds,
}

/// What there is of a file that could not be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// What was written, changed by somebody else since.
    Changed,
    Written,
    /// Where a file was deleted or moved away, somebody else has put something.
    Other,
    Nothing,
}

impl Holds {
    /// Whether something that was written is there.
    pub fn ours(self) -> bool {
        matches!(self, Self::Changed | Self::Written)
    }
}

impl Left {
    /// In one message.
    const MAX_LISTED: usize = 100;

    pub fn list(left: &[Self]) -> String {
        let shown: Vec<_> = left.iter().take(Self::MAX_LISTED).map(Self::to_string).collect();
        match left.len().saturating_sub(Self::MAX_LISTED) {
            0 => shown.join("; "),
            more => format!("{}; and {more} more", shown.join("; ")),
        }
    }
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let holds = match self.holds {
            Holds::Changed => "holds what was written there, changed by somebody else since",
            Holds::Written => "holds what was written there",
            Holds::Other => "is what somebody else has put there",
            Holds::Nothing => "is gone",
        };
        write!(f, "{} {holds}", self.path)
    }
}

/// Nothing was changed, but for what `Torn` names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The file is not what the caller read; `current` is what it is, none when it is gone.
    #[error("{path} is not the version that was read; read it again")]
    Conflict { path: String, current: Option<Version> },
    #[error("{path} exists")]
    Exists { path: String },
    #[error("{path} does not exist")]
    NotFound { path: String },
    /// `reason` is `protected`, `guarded`, `boundary` or `excluded`.
    #[error("{path} may not be written ({reason})")]
    Forbidden { path: String, reason: Reason },
    #[error(
        "git ignores {path}, so the Verifier would not see it; put it where git does not ignore it, or leave \
         it to the user, who can name it under verification.include in agent.yaml or with --allow-path"
    )]
    Untested { path: String },
    #[error(
        "{path} is no regular file, or a link or a file stands on the way to it; name the real path"
    )]
    NotAFile { path: String },
    #[error("{path:?}: {error}")]
    Path { path: String, error: PathError },
    #[error("{0}")]
    Arguments(String),
    #[error("{path} would have more than {limit} bytes")]
    TooLarge { path: String, limit: u64 },
    #[error("this task has written as much as it may: {0}")]
    Budget(&'static str),
    /// Nobody wants it any more.
    #[error("stopped")]
    Stopped,
    #[error("{path} cannot be written: {why}")]
    Failed { path: String, why: String },
    /// What was done before could not all be taken back.
    #[error("{why}; could not be taken back: {}", Left::list(left))]
    Torn { why: Box<EditError>, left: Vec<Left> },
}

impl EditError {
    /// Returns the reason with which a tool answers, or `None` when the machine failed and not the request.
    pub fn reason(&self) -> Option<Reason> {
        Some(match self {
            Self::Conflict { .. } => Reason::VersionMismatch,
            Self::Exists { .. } => Reason::Exists,
            Self::NotFound { .. } => Reason::NotFound,
            Self::Forbidden { reason, .. } => *reason,
            Self::Untested { .. } => Reason::Excluded,
            Self::NotAFile { .. } => Reason::NotAFile,
            Self::Path { error, .. } => error.reason(),
            Self::Arguments(_) => Reason::BadArguments,
            Self::TooLarge { .. } => Reason::TooLarge,
            Self::Budget(_) => Reason::Budget,
            Self::Torn { why, .. } => return why.reason(),
            Self::Stopped | Self::Failed { .. } => return None,
        })
    }

    /// Returns the stable word of the reason.
    pub fn word(&self) -> Option<&'static str> {
        self.reason().map(Reason::word)
    }
}
