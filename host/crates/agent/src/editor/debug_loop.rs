//! Fix, REPLAN, stop or finish: the one decision after a verification. Pure; the session performs it.

use act_core::verification::Status;

/// REPLAN when this many attempts failed in a row.
pub(super) const REPLAN_AFTER: u32 = 3;
/// Hard stop when this many attempts were made without a green one.
pub(super) const HARD_STOP_AFTER: u32 = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Green: close the task.
    Finish,
    /// Fix forward with the strategy in hand.
    Fix,
    /// Fresh conversation, other strategy; `number` counts from 1.
    Replan { number: u32 },
    /// Report and end as STUCK.
    HardStop,
    /// Report the machine's trouble and end as INFRA_ERROR; never retried.
    InfraStop,
}

/// The two counters of EDITOR-20 and the number of REPLANs so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DebugLoop {
    consecutive_failures: u32,
    total_verify_loops: u32,
    replans: u32,
}

impl DebugLoop {
    /// The number of the attempt that would come next, from 1.
    pub(super) fn next_attempt(&self) -> u32 {
        self.total_verify_loops + 1
    }

    pub(super) fn replans(&self) -> u32 {
        self.replans
    }

    pub(super) fn judge(&mut self, verdict: Status) -> NextStep {
        match verdict {
            Status::InfraError => NextStep::InfraStop,
            Status::Pass => {
                self.consecutive_failures = 0;
                self.total_verify_loops = 0;
                NextStep::Finish
            }
            Status::Fail => {
                self.consecutive_failures += 1;
                self.total_verify_loops += 1;
                if self.total_verify_loops >= HARD_STOP_AFTER {
                    NextStep::HardStop
                } else if self.consecutive_failures >= REPLAN_AFTER {
                    self.consecutive_failures = 0;
                    self.replans += 1;
                    NextStep::Replan { number: self.replans }
                } else {
                    NextStep::Fix
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NextStep::{Finish, Fix, HardStop, InfraStop, Replan};

    /// EDITOR-20 to EDITOR-23: attempt, consecutive and total after it, what comes next.
    #[test]
    fn twelve_failures_replan_at_3_6_9_and_stop_at_12() {
        let table = [
            (1, 1, 1, Fix),
            (2, 2, 2, Fix),
            (3, 0, 3, Replan { number: 1 }),
            (4, 1, 4, Fix),
            (5, 2, 5, Fix),
            (6, 0, 6, Replan { number: 2 }),
            (7, 1, 7, Fix),
            (8, 2, 8, Fix),
            (9, 0, 9, Replan { number: 3 }),
            (10, 1, 10, Fix),
            (11, 2, 11, Fix),
            (12, 3, 12, HardStop), // hard stop wins over REPLAN
        ];
        let mut state = DebugLoop::default();
        for (attempt, consecutive, total, next) in table {
            assert_eq!(state.next_attempt(), attempt);
            assert_eq!(state.judge(Status::Fail), next, "attempt {attempt}");
            assert_eq!(
                (state.consecutive_failures, state.total_verify_loops),
                (consecutive, total),
                "attempt {attempt}"
            );
        }
    }

    #[test]
    fn green_resets_both_counters() {
        let mut state = DebugLoop::default();
        for _ in 0..5 {
            state.judge(Status::Fail);
        }
        assert_eq!(state.judge(Status::Pass), Finish);
        assert_eq!(state.next_attempt(), 1);
        assert_eq!(state.judge(Status::Fail), Fix);
        assert_eq!(state.judge(Status::Fail), Fix);
        assert_eq!(state.judge(Status::Fail), Replan { number: 2 });
    }

    #[test]
    fn trouble_of_the_machine_stops_at_once_and_counts_nothing() {
        let mut state = DebugLoop::default();
        state.judge(Status::Fail);
        let before = state;
        assert_eq!(state.judge(Status::InfraError), InfraStop);
        assert_eq!(state, before);
    }
}
