//! The states of a task.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TaskState {
    Queued,
    Running,
    Success,
    /// A dry run's end.
    Proposed,
    Cancelled,
    Stuck,
    InfraError,
    /// Its turn came, and its configuration did not hold any more.
    Refused,
}

impl TaskState {
    pub const ALL: [Self; 8] = [
        Self::Queued,
        Self::Running,
        Self::Success,
        Self::Proposed,
        Self::Cancelled,
        Self::Stuck,
        Self::InfraError,
        Self::Refused,
    ];

    /// The word for it everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "QUEUED",
            Self::Running => "RUNNING",
            Self::Success => "SUCCESS",
            Self::Proposed => "PROPOSED",
            Self::Cancelled => "CANCELLED",
            Self::Stuck => "STUCK",
            Self::InfraError => "INFRA_ERROR",
            Self::Refused => "REFUSED",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Neither waiting nor at work.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

impl ToSql for TaskState {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

impl FromSql for TaskState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Self::parse(value.as_str()?).ok_or(FromSqlError::InvalidType)
    }
}
