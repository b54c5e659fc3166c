//! Which runs are old enough to go. Pure; `prune` performs it.

use chrono::{DateTime, TimeDelta, Utc};

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) count: usize,
    pub(super) age: TimeDelta,
}

/// A run is the evidence of a verification and may hold a whole build.
pub(super) const RUNS: Limits = Limits { count: 20, age: TimeDelta::days(14) };

/// Something that may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept<N> {
    pub(super) name: N,
    pub(super) since: DateTime<Utc>,
    /// In use, or wanted by somebody: stays, and is not counted.
    pub(super) spared: bool,
}

/// What goes, oldest first. Of equal age the smaller name is the older one, so that everybody who asks agrees.
pub(super) fn expired<N: Ord>(
    mut all: Vec<Kept<N>>,
    limits: Limits,
    now: DateTime<Utc>,
) -> Vec<Kept<N>> {
    all.retain(|one| !one.spared);
    all.sort_by(|a, b| (a.since, &a.name).cmp(&(b.since, &b.name)));
    let too_many = all.len().saturating_sub(limits.count);
    let too_old = all.partition_point(|one| now.signed_duration_since(one.since) > limits.age);
    all.truncate(too_many.max(too_old));
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000, 0).unwrap()
    }

    fn at(name: u32, days: i64) -> Kept<u32> {
        Kept { name, since: now() - TimeDelta::days(days), spared: false }
    }

    fn names(all: Vec<Kept<u32>>) -> Vec<u32> {
        expired(all, RUNS, now()).into_iter().map(|one| one.name).collect()
    }

    // ARTIFACT-13, security line 118
    #[test]
    fn of_25_the_20_newest_stay_and_what_is_older_than_14_days_goes_whatever_the_count() {
        assert_eq!(names((0..25).map(|n| at(n, 0)).collect()), [0, 1, 2, 3, 4]);
        assert_eq!(names(vec![at(1, 15), at(2, 14), at(3, 13), at(4, 40)]), [4, 1]);
        assert!(names((0..20).map(|n| at(n, 14)).collect()).is_empty());
        let mut second_older = at(1, 14);
        second_older.since -= TimeDelta::seconds(1);
        assert_eq!(names(vec![second_older]), [1]);
    }

    // ARTIFACT-13, security line 118
    #[test]
    fn what_is_live_or_pinned_stays_at_any_age_and_takes_nobodys_place() {
        let spared = (100..112).map(|n| Kept { spared: true, ..at(n, 400) });
        let all: Vec<_> = (0..21).map(|n| at(n, 1)).chain(spared).collect();
        assert_eq!(names(all), [0]);
    }

    #[test]
    fn a_run_from_the_future_is_young() {
        assert!(names(vec![at(1, -400), at(2, -1)]).is_empty());
    }

    fn kept() -> impl Strategy<Value = Vec<Kept<u32>>> {
        let one = (0..40i64, any::<bool>(), 0..86_400i64);
        proptest::collection::vec(one, 0..80).prop_map(|all| {
            let named = all.into_iter().zip(0..);
            named
                .map(|((days, spared, seconds), name)| Kept {
                    name,
                    since: now() - TimeDelta::days(days) - TimeDelta::seconds(seconds),
                    spared,
                })
                .collect()
        })
    }

    proptest! {
        // ARTIFACT-13
        #[test]
        fn what_stays_is_within_the_limits_and_nothing_goes_without_need(all in kept()) {
            let gone = names(all.clone());
            let stays: Vec<_> =
                all.iter().filter(|one| !one.spared && !gone.contains(&one.name)).collect();
            prop_assert!(stays.len() <= RUNS.count);
            prop_assert!(stays.iter().all(|one| now() - one.since <= RUNS.age));
            let goes: Vec<_> = all.iter().filter(|one| gone.contains(&one.name)).collect();
            prop_assert!(goes.iter().all(|one| !one.spared));
            let too_old = goes.iter().filter(|one| now() - one.since > RUNS.age).count();
            prop_assert!(too_old == goes.len() || stays.len() == RUNS.count);
            let youngest_gone = goes.iter().map(|one| one.since).max();
            prop_assert!(stays.iter().all(|one| Some(one.since) >= youngest_gone));
        }

        #[test]
        fn the_order_in_which_a_directory_lists_does_not_matter(all in kept().prop_shuffle()) {
            let mut sorted = all.clone();
            sorted.sort_by_key(|one| one.name);
            prop_assert_eq!(names(all), names(sorted));
        }
    }
}
