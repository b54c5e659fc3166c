//! What every component is bounded by, whatever else it may do.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::UNLIMITED;
use crate::bounds::{self, at_most};
use crate::manifest::SuggestedLimits;

/// Always in force, whatever else is granted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Of all linear memories together.
    #[serde(deserialize_with = "at_most::<{ bounds::MEMORY }, _, _>")]
    pub memory_bytes: u64,
    #[serde(
        rename = "wall_ms",
        serialize_with = "milliseconds",
        deserialize_with = "from_milliseconds"
    )]
    pub wall: Duration,
    /// Of all tables together.
    #[serde(deserialize_with = "at_most::<{ bounds::TABLE_ELEMENTS }, _, _>")]
    pub table_elements: u64,
    #[serde(deserialize_with = "at_most::<{ bounds::CORE_INSTANCES }, _, _>")]
    pub core_instances: u32,
    #[serde(deserialize_with = "at_most::<{ bounds::HANDLES }, _, _>")]
    pub handles: u32,
    /// What one call from the guest may hand to the host.
    #[serde(deserialize_with = "at_most::<{ bounds::HOST_CALL }, _, _>")]
    pub host_call_bytes: u64,
    #[serde(deserialize_with = "at_most::<{ bounds::RESULT }, _, _>")]
    pub result_bytes: u64,
    #[serde(deserialize_with = "at_most::<{ bounds::LOG }, _, _>")]
    pub log_bytes: u64,
    #[serde(deserialize_with = "at_most::<{ bounds::WASM }, _, _>")]
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
            wasm_bytes: bounds::WASM,
        }
    }
}

impl Limits {
    pub(super) fn unlimited() -> Self {
        Self {
            memory_bytes: UNLIMITED,
            wall: Duration::from_millis(UNLIMITED),
            table_elements: UNLIMITED,
            core_instances: u32::MAX,
            handles: u32::MAX,
            host_call_bytes: UNLIMITED,
            result_bytes: UNLIMITED,
            log_bytes: UNLIMITED,
            wasm_bytes: UNLIMITED,
        }
    }

    /// What the component's author suggests can only take away.
    pub(crate) fn narrow(&mut self, suggested: &SuggestedLimits) {
        if let Some(megabytes) = suggested.memory_mb {
            self.memory_bytes = self.memory_bytes.min(megabytes.saturating_mul(1 << 20));
        }
        if let Some(milliseconds) = suggested.wall_ms {
            self.wall = self.wall.min(Duration::from_millis(milliseconds));
        }
    }

    pub(super) fn meet(&self, other: &Self) -> Self {
        Self {
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
            wall: self.wall.min(other.wall),
            table_elements: self.table_elements.min(other.table_elements),
            core_instances: self.core_instances.min(other.core_instances),
            handles: self.handles.min(other.handles),
            host_call_bytes: self.host_call_bytes.min(other.host_call_bytes),
            result_bytes: self.result_bytes.min(other.result_bytes),
            log_bytes: self.log_bytes.min(other.log_bytes),
            wasm_bytes: self.wasm_bytes.min(other.wasm_bytes),
        }
    }
}

fn milliseconds<S: Serializer>(wall: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(wall.as_millis()).unwrap_or(UNLIMITED))
}

fn from_milliseconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    at_most::<{ bounds::WALL_MS }, _, _>(from).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggested_limits_only_narrow() {
        let mut limits = Limits::default();
        limits.narrow(&SuggestedLimits { memory_mb: Some(64), wall_ms: Some(999_999) });
        assert_eq!((limits.memory_bytes, limits.wall), (64 << 20, Limits::default().wall));
        limits.narrow(&SuggestedLimits { memory_mb: Some(u64::MAX), wall_ms: Some(5) });
        assert_eq!((limits.memory_bytes, limits.wall), (64 << 20, Duration::from_millis(5)));
    }
}
