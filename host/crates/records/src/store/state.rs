//! The states of a task.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_states_are_told_by_the_same_words_everywhere() {
        // TASK-18
        let words = TaskState::ALL.map(TaskState::as_str);
        let known = ["QUEUED", "RUNNING", "SUCCESS", "PROPOSED", "CANCELLED", "STUCK"];
        assert_eq!(words[..6], known);
        assert_eq!(words[6..], ["INFRA_ERROR", "REFUSED"]);
        for state in TaskState::ALL {
            assert_eq!(TaskState::parse(state.as_str()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
            let waits_or_works = [TaskState::Queued, TaskState::Running].contains(&state);
            assert_eq!(state.is_final(), !waits_or_works);
        }
        assert_eq!(TaskState::parse("success"), None);
    }
}
