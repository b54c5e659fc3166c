//! The current time in UTC, in the formats of files and events.

use chrono::{DateTime, SecondsFormat, Utc};

/// Returns the current time.
pub fn now() -> DateTime<Utc> {
    Utc::now()
}

/// Formats a time as ISO 8601 in UTC with `Z`, to the second, for manifests and snapshots.
pub fn seconds(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Formats a time as ISO 8601 in UTC with `Z`, to the millisecond, for events.
pub fn milliseconds(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Returns the milliseconds since the machine was started, including sleep where the system counts it. Unlike the time of
/// day, it cannot be set.
pub fn since_boot_ms() -> u64 {
    use rustix::time::{ClockId, clock_gettime};
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let now = clock_gettime(clock);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1000) + nanos.unwrap_or(0) / 1_000_000
}
