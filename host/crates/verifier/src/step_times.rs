//! What each step took last time, which a person sees while the step runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The milliseconds that each step of a pipeline took last time, by its name: those of earlier runs, which the caller knows, and
/// those of the runs of this verifier. Clones share the figures.
#[derive(Debug, Clone, Default)]
pub struct StepTimes(Arc<Mutex<BTreeMap<String, Last>>>);

#[derive(Debug, Clone, Copy)]
struct Last {
    milliseconds: u64,
    passed: bool,
}

impl StepTimes {
    /// Begins with the figures of earlier runs.
    pub fn of(earlier: BTreeMap<String, u64>) -> Self {
        let last = |milliseconds| Last { milliseconds, passed: true };
        let earlier = earlier.into_iter().map(|(name, took)| (name, last(took))).collect();
        Self(Arc::new(Mutex::new(earlier)))
    }

    /// Returns how many milliseconds a step took last time.
    pub(crate) fn last(&self, name: &str) -> Option<u64> {
        let times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        times.get(name).map(|last| last.milliseconds)
    }

    /// Takes how a step has ended. A failure, which may have been early, says less than an earlier success.
    pub(crate) fn took(&self, name: &str, exit_code: Option<i64>, milliseconds: u64) {
        let Some(code) = exit_code else { return };
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = code == 0;
        if passed || !times.get(name).is_some_and(|last| last.passed) {
            times.insert(name.to_owned(), Last { milliseconds, passed });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // EVENT-11
    #[test]
    fn a_step_takes_what_it_took_when_it_last_passed() {
        let times = StepTimes::of(BTreeMap::from([("test".to_owned(), 900)]));
        for (name, code, took, last) in [
            ("test", Some(1), 3, Some(900)),
            ("test", Some(0), 700, Some(700)),
            ("test", None, 5, Some(700)),
            ("build", None, 5, None),
            ("build", Some(2), 5, Some(5)),
            ("build", Some(2), 6, Some(6)),
            ("build", Some(0), 80, Some(80)),
            ("build", Some(2), 6, Some(80)),
        ] {
            times.took(name, code, took);
            assert_eq!(times.last(name), last, "{name} {code:?} {took}");
        }
    }
}
