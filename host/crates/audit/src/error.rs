//! The errors of the log. Each of them leaves the log unchanged.

use std::io;
use std::path::{Path, PathBuf};

use super::head::CheckpointError;

/// Why nothing can be recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    #[error("the audit log {path} is {what}, not a log of act")]
    Foreign { path: PathBuf, what: String },
    #[error("the audit log {path} was written by a newer act")]
    Future { path: PathBuf },
    #[error("the audit log {path} was changed: {why}")]
    Damaged { path: PathBuf, why: String },
    #[error("the audit log {path} was cut or rewritten: record {seq} is not in its place")]
    Cut { path: PathBuf, seq: u64 },
    #[error("the audit log {path} is locked by another process for too long")]
    Busy { path: PathBuf },
    /// `full` means that the disk is full.
    #[error("the audit log {path} cannot be written: {reason}")]
    Unusable { path: PathBuf, reason: String, full: bool },
}

impl AuditError {
    pub(super) fn io(path: &Path, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        let full = matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        Self::Unusable { path: path.to_owned(), reason: error.to_string(), full }
    }

    /// An error of the checkpoint store.
    pub(super) fn checkpoint(path: &Path, what: &str, why: &CheckpointError) -> Self {
        let reason = format!("{what}: {}", why.reason);
        Self::Unusable { path: path.to_owned(), reason, full: why.full }
    }

    /// Returns a stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Foreign { .. } => "audit_foreign",
            Self::Future { .. } => "audit_future",
            Self::Damaged { .. } => "audit_damaged",
            Self::Cut { .. } => "audit_cut",
            Self::Busy { .. } => "audit_busy",
            Self::Unusable { .. } => "audit_unusable",
        }
    }

    /// Returns what the user can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Foreign { .. } => "move it away, or set AGENT_ARTIFACT_DIR",
            Self::Future { .. } => "use that version of act, or set AGENT_ARTIFACT_DIR",
            Self::Damaged { .. } | Self::Cut { .. } => {
                "`act audit verify` shows where; `act audit restart` archives it under another name and begins \
                 a new one that says so"
            }
            Self::Busy { .. } => "try again; `ps` shows whether an act is stopped or hangs",
            Self::Unusable { .. } => {
                "act does nothing that it cannot record: check free space, owner and permissions there, \
                 or set AGENT_ARTIFACT_DIR"
            }
        }
    }
}

impl From<AuditError> for act_core::Failure {
    fn from(error: AuditError) -> Self {
        Self::refused(error.code(), error.to_string()).hint(error.hint())
    }
}
