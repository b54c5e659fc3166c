//! The most that this program ever gives, whoever asks or grants: a number beyond is a slip or an attack, and is refused
//! where it is written instead of being taken for less.

use serde::de::{Deserialize, Deserializer, Error};

/// All that a guest with 32-bit addresses can use.
pub(super) const MEMORY: u64 = 4 << 30;
pub(super) const WALL_MS: u64 = 3_600_000;
pub(super) const TABLE_ELEMENTS: u64 = 10_000_000;
pub(super) const CORE_INSTANCES: u64 = 10_000;
pub(super) const HANDLES: u64 = 100_000;
pub(super) const HOST_CALL: u64 = 128 << 20;
pub(super) const RESULT: u64 = 64 << 20;
pub(super) const LOG: u64 = 16 << 20;
/// The store of components holds none that is larger.
pub const WASM: u64 = 64 << 20;
pub(super) const FILE: u64 = 1 << 30;
pub(super) const READ: u64 = 64 << 30;
pub(super) const CALLS: u64 = 10_000;
pub(super) const TOKENS: u64 = 1_000_000_000;
/// Bodies are held in memory, as many as are under way together.
pub(super) const BODY: u64 = 32 << 20;
pub(super) const AT_ONCE: u64 = 32;
pub(super) const REQUESTS: u64 = 100_000;
pub(super) const TRAFFIC: u64 = 4 << 30;

/// A number of a grant as it is read, with its place where it is too large.
pub(super) fn at_most<'de, const MOST: u64, D, N>(from: D) -> Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: TryFrom<u64>,
{
    let number = u64::deserialize(from)?;
    let too_much =
        || D::Error::custom(format!("{number} is more than is ever given; write at most {MOST}"));
    if number > MOST {
        return Err(too_much());
    }
    N::try_from(number).map_err(|_| too_much())
}

#[cfg(test)]
mod tests {
    use crate::Grant;

    fn read(text: &str) -> Result<Grant, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    // CAPABILITY-46
    #[test]
    fn every_number_of_a_grant_has_a_most() {
        let whole = serde_json::to_value(Grant::everything()).unwrap();
        let mut numbers = 0;
        for (part, values) in whole.as_object().unwrap() {
            for (name, _) in values.as_object().into_iter().flatten().filter(|(_, v)| v.is_number())
            {
                let mut grant = serde_json::to_value(Grant::builtin_scout()).unwrap();
                let http = serde_json::json!({
                    "origins": [], "methods": [], "request_bytes": 1, "response_bytes": 1
                });
                grant["http"] = http;
                assert!(read(&grant.to_string()).is_ok(), "{part} {name}");
                for number in [1_u64 << 53, u64::MAX] {
                    grant[part][name] = number.into();
                    let refused = read(&grant.to_string()).unwrap_err();
                    assert!(
                        refused.contains("is more than is ever given"),
                        "{part} {name}: {refused}"
                    );
                }
                numbers += 1;
            }
        }
        assert_eq!(numbers, 18, "{whole:#}");
    }

    // CAPABILITY-46
    #[test]
    fn the_usual_bounds_and_the_most_itself_are_given() {
        for grant in [Grant::builtin_scout(), Grant::builtin_tool()] {
            assert_eq!(read(&serde_json::to_string(&grant).unwrap()).unwrap(), grant);
        }
        assert!(read(r#"{"limits":{"memory_bytes":4294967296}}"#).is_ok());
        assert!(
            read(r#"{"limits":{"memory_bytes":4294967297}}"#).unwrap_err().contains("4294967296")
        );
    }
}
