//! `act metrics`: results, durations and tokens of all tasks in this ARTIFACT_DIR.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::status::Lookup;
use act_core::event::ModelUsage;
use act_core::{Document, Failure, Usd};
use act_records::store::{TaskState, Totals};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Metrics {
    /// Time when the first task was accepted, ISO 8601 in UTC; null when there was none.
    pub since: Option<String>,
    /// Number of tasks for each final state.
    pub tasks: BTreeMap<String, u64>,
    /// Mean number of verifications of the tasks that have ended and were verified at least once; null when there is none.
    pub verify_attempts_mean: Option<f64>,
    /// Mean number of REPLANs of the same tasks.
    pub replans_per_task: Option<f64>,
    /// Durations of one attempt of a query, by the name of the Scout.
    pub scout_latency_ms: BTreeMap<String, Spread>,
    /// Durations of one verification, of a task or of `act verify`.
    pub verifier_ms: Spread,
    /// Tokens by role.
    pub tokens: BTreeMap<String, ModelUsage>,
    /// The cost of all tasks whose cost is known, in US dollars.
    pub cost_usd: Usd,
    /// Number of tasks that sent requests and whose cost is not known.
    pub cost_unknown_tasks: u64,
    /// Number of tasks that are not counted, because their rows in the store are damaged; omitted when there are none.
    #[serde(skip_serializing_if = "is_zero")]
    pub damaged_tasks: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Document for Metrics {
    const NAME: &'static str = "metrics";
}

/// Durations in milliseconds: their number and sum, and percentiles. A percentile is the shortest measured duration that
/// the given share of all durations does not exceed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Spread {
    pub count: u64,
    pub sum: u64,
    pub p50: Option<u64>,
    pub p90: Option<u64>,
    pub p99: Option<u64>,
}

/// Returns the figures of all tasks in this ARTIFACT_DIR, whatever their repository.
///
/// # Errors
///
/// The store cannot be read.
pub fn metrics(start: &Path) -> Result<Metrics, Failure> {
    metrics_in(&Lookup::open(start)?)
}

/// Returns the figures of an ARTIFACT_DIR that is open.
pub(super) fn metrics_in(lookup: &Lookup) -> Result<Metrics, Failure> {
    // The tasks of every repository are counted, so they are recorded as well.
    lookup.record_dead_tasks(None)?;
    Ok(of(lookup.store.totals()?))
}

fn of(totals: Totals) -> Metrics {
    let mean = |sum: u64| match totals.verified_tasks {
        0 => None,
        tasks => Some((sum as f64 / tasks as f64 * 1000.0).round() / 1000.0),
    };
    let ended = TaskState::ALL.into_iter().filter(|state| state.is_final());
    let count = |state: TaskState| totals.tasks.get(&state).copied().unwrap_or_default();
    Metrics {
        tasks: ended.map(|state| (state.as_str().to_owned(), count(state))).collect(),
        verify_attempts_mean: mean(totals.attempts),
        replans_per_task: mean(totals.replans),
        scout_latency_ms: totals
            .scouts
            .iter()
            .map(|(name, sorted)| (name.clone(), Spread::of(sorted)))
            .collect(),
        verifier_ms: Spread::of(&totals.verifications),
        since: totals.since,
        tokens: totals.tokens,
        cost_usd: totals.cost,
        cost_unknown_tasks: totals.unknown_costs,
        damaged_tasks: totals.damaged,
    }
}

impl Spread {
    fn of(sorted: &[u64]) -> Self {
        // The nearest rank, so that the figure is one that was measured.
        let share = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100);
            sorted.get(rank.checked_sub(1)?).copied()
        };
        Self {
            count: sorted.len() as u64,
            sum: sorted.iter().sum(),
            p50: share(50),
            p90: share(90),
            p99: share(99),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn a_share_is_the_nearest_rank() {
        // CLI-52
        let of = |sorted: &[u64]| {
            let spread = Spread::of(sorted);
            (spread.p50, spread.p90, spread.p99)
        };
        assert_eq!(of(&[]), (None, None, None));
        assert_eq!(of(&[7]), (Some(7), Some(7), Some(7)));
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!(of(&hundred), (Some(50), Some(90), Some(99)));
        assert_eq!(of(&[1, 2, 3]), (Some(2), Some(3), Some(3)));
        assert_eq!(Spread::of(&[1, 2]).sum, 3);
    }

    #[test]
    fn every_final_state_is_there_and_means_are_over_verified_tasks() {
        // CLI-52
        let totals = Totals {
            tasks: BTreeMap::from([(TaskState::Success, 3)]),
            verified_tasks: 3,
            attempts: 5,
            replans: 1,
            ..Totals::default()
        };
        let metrics = of(totals);
        let states: Vec<_> = metrics.tasks.keys().map(String::as_str).collect();
        assert_eq!(states, ["CANCELLED", "INFRA_ERROR", "PROPOSED", "REFUSED", "STUCK", "SUCCESS"]);
        assert_eq!((metrics.tasks["SUCCESS"], metrics.tasks["STUCK"]), (3, 0));
        assert_eq!(metrics.verify_attempts_mean, Some(1.667));
        assert_eq!(metrics.replans_per_task, Some(0.333));
        assert_eq!(of(Totals::default()).verify_attempts_mean, None);
    }

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::document_holds::<Metrics>();
    }
}
