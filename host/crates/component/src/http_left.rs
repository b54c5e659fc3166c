//! What one query may still do over the network, shared by all of its requests: how many, how many at a time, and how
//! many bytes. Everything that is kept for a guest is counted first, so a guest that asks and never reads keeps no more
//! than its grant says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hyper::http::HeaderMap;
use tokio::sync::Semaphore;

use super::grant::Http;
use super::usage::Usage;

pub(super) struct HttpLeft {
    requests: AtomicU32,
    bytes: AtomicU64,
    /// Whoever is not under way yet waits here.
    pub(super) turns: Semaphore,
    usage: Usage,
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Out,
    In,
}

impl HttpLeft {
    pub(super) fn new(granted: Option<&Http>, usage: &Usage) -> Arc<Self> {
        let (requests, bytes, at_once) =
            granted.map_or((0, 0, 0), |http| (http.requests, http.query_bytes, http.at_once));
        let turns = Semaphore::new((at_once as usize).min(Semaphore::MAX_PERMITS));
        // Without a turn nobody would ever get one.
        let requests = AtomicU32::new(if at_once == 0 { 0 } else { requests });
        Arc::new(Self { requests, bytes: AtomicU64::new(bytes), turns, usage: usage.clone() })
    }

    /// Whether there is one more.
    pub(super) fn request(&self) -> bool {
        let one = |left: u32| left.checked_sub(1);
        let there = self.requests.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one).is_ok();
        if there {
            self.usage.http_request();
        }
        there
    }

    /// Whether there was room for so many more; then they are used up.
    pub(super) fn take(&self, way: Way, bytes: u64) -> bool {
        let rest = |left: u64| left.checked_sub(bytes);
        let there = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).is_ok();
        if there {
            self.usage.http_bytes(way, bytes);
        }
        there
    }
}

/// Of the names and values.
pub(super) fn header_bytes(headers: &HeaderMap) -> u64 {
    headers.iter().map(|(name, value)| (name.as_str().len() + value.len()) as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    // CAPABILITY-41
    #[test]
    fn what_is_used_up_stays_used_up_and_nothing_is_given_beyond() {
        let granted = Http { requests: 2, at_once: 1, query_bytes: 10, ..Http::default() };
        let left = HttpLeft::new(Some(&granted), &Usage::default());
        assert!(left.request() && left.request() && !left.request() && !left.request());
        assert!(left.take(Way::Out, 6) && !left.take(Way::In, 5) && left.take(Way::In, 4));
        assert!(!left.take(Way::In, 1) && left.take(Way::In, 0));
        for none in [None, Some(&Http { at_once: 0, ..Http::default() })] {
            assert!(!HttpLeft::new(none, &Usage::default()).request());
        }
    }
}
