//! Requests to granted origins, with their bounds.

use serde::{Deserialize, Serialize};

use super::{Set, UNLIMITED};
use crate::bounds::{self, at_most};
use crate::words::{Method, Origin};

/// Requests to these origins and to nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    pub origins: Set<Origin>,
    pub methods: Set<Method>,
    /// Of one request's body.
    #[serde(deserialize_with = "at_most::<{ bounds::BODY }, _, _>")]
    pub request_bytes: u64,
    /// Of one response's body.
    #[serde(deserialize_with = "at_most::<{ bounds::BODY }, _, _>")]
    pub response_bytes: u64,
    /// Of one query.
    #[serde(default = "Http::usual_requests")]
    #[serde(deserialize_with = "at_most::<{ bounds::REQUESTS }, _, _>")]
    pub requests: u32,
    /// That are under way together; others wait.
    #[serde(default = "Http::usual_at_once")]
    #[serde(deserialize_with = "at_most::<{ bounds::AT_ONCE }, _, _>")]
    pub at_once: u32,
    /// Of all requests and responses of one query: addresses, headers and bodies.
    #[serde(default = "Http::usual_query_bytes")]
    #[serde(deserialize_with = "at_most::<{ bounds::TRAFFIC }, _, _>")]
    pub query_bytes: u64,
}

/// The usual bounds, and no origin.
impl Default for Http {
    fn default() -> Self {
        Self {
            origins: Set::default(),
            methods: Set::default(),
            request_bytes: 1 << 20,
            response_bytes: 8 << 20,
            requests: Self::usual_requests(),
            at_once: Self::usual_at_once(),
            query_bytes: Self::usual_query_bytes(),
        }
    }
}

impl Http {
    pub(super) fn meet(&self, other: &Self) -> Self {
        Self {
            origins: self.origins.meet(&other.origins),
            methods: self.methods.meet(&other.methods),
            request_bytes: self.request_bytes.min(other.request_bytes),
            response_bytes: self.response_bytes.min(other.response_bytes),
            requests: self.requests.min(other.requests),
            at_once: self.at_once.min(other.at_once),
            query_bytes: self.query_bytes.min(other.query_bytes),
        }
    }

    fn usual_requests() -> u32 {
        100
    }

    fn usual_at_once() -> u32 {
        8
    }

    fn usual_query_bytes() -> u64 {
        64 << 20
    }

    pub(super) fn unlimited() -> Self {
        Self {
            origins: Set::Any,
            methods: Set::Any,
            request_bytes: UNLIMITED,
            response_bytes: UNLIMITED,
            requests: u32::MAX,
            at_once: u32::MAX,
            query_bytes: UNLIMITED,
        }
    }
}
