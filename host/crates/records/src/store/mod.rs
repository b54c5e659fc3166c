//! The store: tasks, their order, their runs and what they wrote, in the SQLite database `state/act.db`.
//!
//! [`Store::open`] opens the database, or creates it; everything else is a method of [`Store`]. Each change is one
//! transaction. A change is on the disk before `act` reports it to the user. Only the progress of a task may be lost with the
//! machine, never with the process.

mod audit_head;
mod open;
mod runs;
mod settled;
mod step_times;
mod tasks;
#[cfg(test)]
mod testing;
mod written_files;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{
    Connection, ErrorCode, OptionalExtension, Params, Row, Transaction, TransactionBehavior,
};
use serde::{Deserialize, Serialize};

pub use act_core::TaskState;
pub use runs::{Measured, RunRecord, Totals};
pub use tasks::{
    DamagedTask, Flags, Progress, Submission, Task, TaskRecord, UnfinishedTask, Worktree,
};
pub use written_files::{NewStuckReport, ProposalRecord, ProposalState, StuckReportRecord};

/// Maximum wait for a process that holds the database. A transaction takes milliseconds, so a process that holds it longer
/// has stopped.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Maximum wait of a write that the next one repeats anyway.
const SHORT_WAIT: Duration = Duration::from_millis(50);

/// The open database. The threads of a process share it.
#[derive(Debug)]
pub struct Store {
    connection: Mutex<Connection>,
    path: PathBuf,
}

/// How a write is synced, in the words of SQLite.
#[derive(Debug, Clone, Copy)]
enum Synchronous {
    /// The write survives a loss of power.
    Full,
    /// The write survives any end of the process. A busy database skips it soon, because the next write repeats it.
    Normal,
}

type Result<T> = std::result::Result<T, StoreError>;

impl Store {
    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A transaction is rolled back when it is dropped, also by a panic.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T> {
        let mut connection = self.connection();
        let done = within(&mut connection, TransactionBehavior::Deferred, work);
        done.map_err(|error| StoreError::of(&self.path, error))
    }

    /// Returns the first row of a query, or `None` when it has no rows.
    fn one<T>(
        &self,
        query: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        self.read(|db| db.query_row(query, params, read).optional())
    }

    /// Returns all rows of a query.
    fn all<T>(
        &self,
        query: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        self.read(|db| db.prepare(query)?.query_map(params, read)?.collect())
    }

    fn write<T>(
        &self,
        synchronous: Synchronous,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let (synchronous, patience) = match synchronous {
            Synchronous::Full => ("FULL", LONGEST_WAIT),
            Synchronous::Normal => ("NORMAL", SHORT_WAIT),
        };
        let mut connection = self.connection();
        let done = connection
            .pragma_update(None, "synchronous", synchronous)
            .and_then(|()| connection.busy_timeout(patience))
            .and_then(|()| within(&mut connection, TransactionBehavior::Immediate, work));
        done.map_err(|error| StoreError::of(&self.path, error))
    }

    /// Runs one synced statement and returns the number of rows that it changed.
    fn change(&self, statement: &str, params: impl Params) -> Result<usize> {
        self.write(Synchronous::Full, |db| db.execute(statement, params))
    }
}

fn within<T>(
    connection: &mut Connection,
    behaviour: TransactionBehavior,
    work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = connection.transaction_with_behavior(behaviour)?;
    let answer = work(&transaction)?;
    transaction.commit()?;
    Ok(answer)
}

/// Returns the time as the store writes it.
fn now() -> String {
    act_core::clock::milliseconds(act_core::clock::now())
}

/// Reads a column that holds JSON.
fn json<T: for<'a> Deserialize<'a>>(row: &Row<'_>, name: &str) -> rusqlite::Result<T> {
    let text: String = row.get(name)?;
    serde_json::from_str(&text).map_err(|error| {
        let column = row.as_ref().column_index(name).unwrap_or_default();
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    })
}

/// Writes a value of the store's own types as JSON, which cannot fail for them.
fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Why the database cannot be used. It is left as it was found in every case.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{path} is damaged: {reason}")]
    Damaged { path: PathBuf, reason: String },
    #[error("{path} is {what}, not the database of act")]
    Foreign { path: PathBuf, what: String },
    #[error("{path} was written by a newer act (version {version}, known up to {known})")]
    Future { path: PathBuf, version: i64, known: i64 },
    #[error("{path} is locked by another process for too long")]
    Busy { path: PathBuf },
    #[error("{path} has no task {task_id} any more")]
    Lost { path: PathBuf, task_id: String },
    #[error("{path} cannot be used: {reason}")]
    Unusable { path: PathBuf, reason: String },
    #[error("{path} has no room: {reason}")]
    Full { path: PathBuf, reason: String },
}

impl StoreError {
    fn of(path: &Path, error: rusqlite::Error) -> Self {
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
            // A value that `act` would not have written.
            None => Self::Damaged { path, reason },
        }
    }

    fn io(path: &Path, error: impl Into<std::io::Error>) -> Self {
        let error = error.into();
        let (path, reason) = (path.to_owned(), error.to_string());
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full { path, reason },
            _ => Self::Unusable { path, reason },
        }
    }

    /// Returns a stable word for programs.
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

    /// Returns whether a later attempt may succeed, by itself or after the user has made room.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Unusable { .. } | Self::Full { .. })
    }

    /// Returns what the user can do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Damaged { .. } | Self::Foreign { .. } => {
                "it was not changed; keep a copy, then move it and the files beside it that begin \
                 with its name away to start with an empty queue, or set AGENT_ARTIFACT_DIR"
            }
            Self::Future { .. } => "use that version of act, or set AGENT_ARTIFACT_DIR",
            Self::Lost { .. } => "another database was put in its place",
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
