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
