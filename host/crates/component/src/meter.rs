//! Meters count what one call uses. A meter with a limit refuses what is more than is left.

use std::sync::atomic::{AtomicU64, Ordering};

/// An amount with a limit. The thread of the call, its streams and its requests share the meter.
#[derive(Debug)]
pub(crate) struct Meter {
    name: &'static str,
    left: AtomicU64,
    used: AtomicU64,
}

impl Meter {
    /// `name` is the word under which an audit record and an event report that the amount is used up.
    pub(crate) fn new(name: &'static str, most: u64) -> Self {
        Self { name, left: AtomicU64::new(most), used: AtomicU64::new(0) }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Uses `amount` if that much is left; otherwise uses nothing and returns false.
    #[must_use]
    pub(crate) fn take(&self, amount: u64) -> bool {
        let rest = |left: u64| left.checked_sub(amount);
        let enough = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).is_ok();
        if enough {
            add(&self.used, amount);
        }
        enough
    }

    /// Records that `amount` was used already. Readers that run side by side may use more than was left; then
    /// nothing is left.
    pub(crate) fn spend(&self, amount: u64) {
        add(&self.used, amount);
        let rest = |left: u64| Some(left.saturating_sub(amount));
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
    }

    /// Returns an amount that is not held any longer.
    pub(crate) fn give_back(&self, amount: u64) {
        add(&self.left, amount);
        let rest = |used: u64| Some(used.saturating_sub(amount));
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
    }
}

/// A count without a limit.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, amount: u64) {
        add(&self.0, amount);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Adds to a sum. The sum saturates instead of wrapping round.
fn add(sum: &AtomicU64, amount: u64) {
    let more = |sum: u64| Some(sum.saturating_add(amount));
    let _ = sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_taken_whole_or_not_at_all() {
        let meter = Meter::new("limits.log", 10);
        assert!(meter.take(6) && !meter.take(5) && meter.take(4));
        assert_eq!((meter.left(), meter.used()), (0, 10));
        meter.give_back(4);
        assert_eq!((meter.left(), meter.used()), (4, 6));
        meter.spend(9);
        assert_eq!((meter.left(), meter.used()), (0, 15));
    }
}
