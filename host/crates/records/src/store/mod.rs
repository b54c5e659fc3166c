//! What outlives a process: tasks, their order, runs and stuck reports, in `state/act.db`.
//!
//! Every change is one transaction. What a user was told is on the disk before it is told; what only says how
//! far a task is may be lost with the machine, never with the process.

mod audit_head;
mod error;
mod file;
mod history;
mod line;
mod open;
mod progress;
mod proposals;
mod queue;
mod record;
mod runs;
mod schema;
mod state;
mod stuck_reports;
mod task;
#[cfg(test)]
mod testing;
mod timings;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};

pub use act_core::TaskState;
pub use error::StoreError;
pub use line::Place;
pub use progress::Progress;
pub use proposals::{ProposalRecord, ProposalState};
pub use queue::Submission;
pub use record::{Flags, TaskRecord};
pub use runs::RunRecord;
pub use stuck_reports::{NewStuckReport, StuckReportRecord};
pub use task::{MAX_ATTEMPTS, Task};
pub use timings::{Measured, Totals};

/// Whoever holds the database longer does not work, but hangs.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Where nobody may be held up.
const SHORT_WAIT: Duration = Duration::from_millis(50);

/// The open database; shared by the threads of one process.
#[derive(Debug)]
pub struct Store {
    connection: Mutex<Connection>,
    path: PathBuf,
}

/// What a write has to survive.
#[derive(Debug, Clone, Copy)]
enum Survives {
    /// Loss of power.
    Machine,
    /// Any end of the process.
    Process,
}

impl Store {
    /// Of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A transaction is rolled back when it is dropped, by a panic as well.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut connection = self.connection();
        let done = within(&mut connection, TransactionBehavior::Deferred, work);
        done.map_err(|error| StoreError::of(&self.path, error))
    }

    fn write<T>(
        &self,
        survives: Survives,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let (synchronous, patience) = match survives {
            Survives::Machine => ("FULL", LONGEST_WAIT),
            // The next one says it again.
            Survives::Process => ("NORMAL", SHORT_WAIT),
        };
        let mut connection = self.connection();
        let done = connection
            .pragma_update(None, "synchronous", synchronous)
            .and_then(|()| connection.busy_timeout(patience))
            .and_then(|()| within(&mut connection, TransactionBehavior::Immediate, work));
        done.map_err(|error| StoreError::of(&self.path, error))
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
