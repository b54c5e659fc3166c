//! Why the database cannot be used. It is left as it was found in every case.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{path} is damaged: {reason}")]
    Damaged { path: PathBuf, reason: String },
    #[error("{path} is {what}, not the database of act")]
    Foreign { path: PathBuf, what: String },
    #[error("{path} was written by a newer act (version {version}, known up to {known})")]
    Future { path: PathBuf, version: i64, known: i64 },
    #[error("{path} is held by another process for too long")]
    Busy { path: PathBuf },
    #[error("{path} does not know task {task_id} any more")]
    Lost { path: PathBuf, task_id: String },
    #[error("{path} cannot be used: {reason}")]
    Unusable { path: PathBuf, reason: String },
    #[error("{path} has no room: {reason}")]
    Full { path: PathBuf, reason: String },
}

impl StoreError {
    pub(super) fn of(path: &Path, error: rusqlite::Error) -> Self {
        let path = path.to_owned();
        let reason = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { path, reason }
            }
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed,
            ) => Self::Busy { path },
            Some(ErrorCode::DiskFull) => Self::Full { path, reason },
            Some(_) => Self::Unusable { path, reason },
            // A value that none of ours would have written.
            None => Self::Damaged { path, reason },
        }
    }

    pub(super) fn io(path: &Path, error: impl Into<std::io::Error>) -> Self {
        let error = error.into();
        let (path, reason) = (path.to_owned(), error.to_string());
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full { path, reason },
            _ => Self::Unusable { path, reason },
        }
    }

    /// A stable word.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Damaged { .. } => "store_damaged",
            Self::Foreign { .. } => "store_foreign",
            Self::Future { .. } => "store_future",
            Self::Busy { .. } => "store_busy",
            Self::Lost { .. } => "store_lost",
            Self::Unusable { .. } | Self::Full { .. } => "store_unusable",
        }
    }

    /// It may be over by itself, or by what somebody does about it.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Unusable { .. } | Self::Full { .. })
    }

    pub fn hint(&self) -> &'static str {
        match self {
            Self::Damaged { .. } | Self::Foreign { .. } => {
                "it was left as found; keep a copy, then move it and the files beside it that begin \
                 with its name away to start with an empty queue, or set AGENT_ARTIFACT_DIR"
            }
            Self::Future { .. } => "use that version of act, or set AGENT_ARTIFACT_DIR",
            Self::Lost { .. } => "somebody has put another database in its place",
            Self::Busy { .. } => "try again; `ps` shows an act that is stopped or hangs",
            Self::Full { .. } => "make room there, or set AGENT_ARTIFACT_DIR",
            Self::Unusable { .. } => {
                "look at the owner, the modes and the free space there, or set AGENT_ARTIFACT_DIR"
            }
        }
    }
}

impl From<StoreError> for act_core::Failure {
    fn from(error: StoreError) -> Self {
        Self::refused(error.code(), error.to_string()).hint(error.hint())
    }
}
