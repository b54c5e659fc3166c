//! UTC now, in the two forms that files and names use.

use chrono::{DateTime, SecondsFormat, Utc};

pub fn now() -> DateTime<Utc> {
    Utc::now()
}

/// ISO 8601 in UTC with `Z`, to the second: manifests and snapshots.
pub fn seconds(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// ISO 8601 in UTC with `Z`, to the millisecond: events.
pub fn milliseconds(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Milliseconds since the machine was started, sleep included where the system counts it; nobody can set it.
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
