//! The state of a task as a column of the store.

use act_core::TaskState;
use rusqlite::Row;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};

/// Reads the column `state`.
pub(super) fn state(row: &Row<'_>) -> rusqlite::Result<TaskState> {
    row.get("state").map(|Column(state)| state)
}

/// The database's traits cannot be implemented for a type of another crate.
struct Column(TaskState);

impl FromSql for Column {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        TaskState::parse(value.as_str()?).map(Self).ok_or(FromSqlError::InvalidType)
    }
}
