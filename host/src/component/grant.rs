//! What one component may reach, as a value.
//!
//! Nothing here knows the engine: a grant can be printed, compared and tested on its own, and the empty one is
//! the default.

use std::time::Duration;

use serde::Serialize;

use super::manifest::SuggestedLimits;

/// Everything that a component may do. What is not named here it cannot do.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Grant {
    pub repo_read: Option<RepoRead>,
    /// Through `repo.edit` only; no component ever holds a writable handle.
    pub repo_write: bool,
    pub llm: Option<Llm>,
    pub limits: Limits,
}

/// The filtered view of the repository: as a preopen at `/repo` and in batches through `repo.read`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepoRead {
    /// Bytes that may be read of any one file.
    pub file_bytes: u64,
    /// Bytes that one query may read in all.
    pub query_bytes: u64,
}

/// Talking to the configured model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Llm {
    pub calls: u32,
    /// Input and output together.
    pub tokens: u64,
}

/// Always in force, whatever else is granted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limits {
    /// Of all linear memories together.
    pub memory_bytes: u64,
    #[serde(rename = "wall_ms", serialize_with = "milliseconds")]
    pub wall: Duration,
    /// Of all tables together.
    pub table_elements: u64,
    pub core_instances: u32,
    pub handles: u32,
    /// What one call from the guest may hand to the host.
    pub host_call_bytes: u64,
    pub result_bytes: u64,
    pub log_bytes: u64,
    pub wasm_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            wall: Duration::from_secs(60),
            table_elements: 100_000,
            core_instances: 256,
            handles: 1_000,
            host_call_bytes: 8 << 20,
            result_bytes: 4 << 20,
            log_bytes: 64 << 10,
            wasm_bytes: 64 << 20,
        }
    }
}

impl Limits {
    /// What the component's author suggests can only take away.
    pub(super) fn narrow(&mut self, suggested: &SuggestedLimits) {
        if let Some(megabytes) = suggested.memory_mb {
            self.memory_bytes = self.memory_bytes.min(megabytes.saturating_mul(1 << 20));
        }
        if let Some(milliseconds) = suggested.wall_ms {
            self.wall = self.wall.min(Duration::from_millis(milliseconds));
        }
    }
}

impl Default for RepoRead {
    fn default() -> Self {
        // A tree of a quarter of a gigabyte can be read whole and some of it twice.
        Self { file_bytes: 16 << 20, query_bytes: 512 << 20 }
    }
}

impl Grant {
    /// What the built-in Scouts hold: the view and a conversation of bounded length.
    pub fn builtin_scout() -> Self {
        Self {
            repo_read: Some(RepoRead::default()),
            llm: Some(Llm { calls: 32, tokens: 1_000_000 }),
            ..Self::default()
        }
    }

    /// What the built-in file tools hold: the view and `repo.edit`. A tool call has 30 s.
    pub fn builtin_tool() -> Self {
        Self {
            repo_read: Some(RepoRead::default()),
            repo_write: true,
            limits: Limits { wall: Duration::from_secs(30), ..Limits::default() },
            ..Self::default()
        }
    }

    /// The same with at most this long for one query.
    #[must_use]
    pub fn within(mut self, wall: Duration) -> Self {
        self.limits.wall = wall;
        self
    }
}

fn milliseconds<S: serde::Serializer>(wall: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    // CAPABILITY-1
    #[test]
    fn the_default_grant_is_nothing() {
        let Grant { repo_read, repo_write, llm, .. } = Grant::default();
        assert_eq!((repo_read, repo_write, llm), (None, false, None));
    }

    #[test]
    fn a_grant_prints_its_limits_in_units_that_people_read() {
        let shown = serde_json::to_value(Grant::builtin_tool()).unwrap();
        assert_eq!(shown["limits"]["wall_ms"], 30_000);
        assert_eq!(shown["repo_write"], true);
        assert_eq!(shown["llm"], serde_json::Value::Null);
    }

    #[test]
    fn suggested_limits_only_narrow() {
        let mut limits = Limits::default();
        limits.narrow(&SuggestedLimits { memory_mb: Some(64), wall_ms: Some(999_999) });
        assert_eq!((limits.memory_bytes, limits.wall), (64 << 20, Limits::default().wall));
        limits.narrow(&SuggestedLimits { memory_mb: Some(u64::MAX), wall_ms: Some(5) });
        assert_eq!((limits.memory_bytes, limits.wall), (64 << 20, Duration::from_millis(5)));
    }
}
