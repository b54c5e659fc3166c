//! Which runs are old enough to be removed, and removing them while other processes create, use and remove runs.
//!
//! A run is live as long as a process holds an exclusive lock on its directory; the system releases it with the process, so a
//! killed host leaves no run that can never be removed. One remover at a time decides, and renames what it is going to remove
//! in the same step; the slow part follows. What a killed remover leaves has that other name, and the next one continues
//! with it.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use act_core::{RunId, fail_point};
use act_fs::Dir;
use act_fs::lock::{self, Kind};
use chrono::{DateTime, TimeDelta, Utc};
use rustix::fs::{FileType, renameat};
use rustix::io::Errno;

use super::artifact_dir::ArtifactDir;
use super::tree::{open_any, remove_tree_while};

/// Prefix of the name of a run that is being removed.
const REMOVING: &str = ".removing-";
/// Maximum wait for another remover. It decides in milliseconds; one that takes longer has stopped, and pruning is not
/// worth waiting for.
const TURN: Duration = Duration::from_secs(2);

/// What one round removed.
#[derive(Debug, Default)]
pub struct Pruned {
    pub runs: Vec<RunId>,
    /// Runs that could not be looked at or removed, and why.
    pub left: Vec<(RunId, io::Error)>,
}

impl ArtifactDir {
    /// Removes what is too old or too many. `pinned` is asked once everything live is known: whoever pins his
    /// runs before he lets go of them finds them again. If it fails, nothing is removed. As soon as `go_on` says no,
    /// what has not gone by then is left to the next round.
    pub fn prune(
        &self,
        now: DateTime<Utc>,
        go_on: &dyn Fn() -> bool,
        pinned: impl FnOnce() -> io::Result<BTreeSet<RunId>>,
    ) -> io::Result<Pruned> {
        let mut pruned = Pruned::default();
        let Some(turn) = self.turn(go_on)? else { return Ok(pruned) };
        fail_point::reach("deciding_what_goes");
        let (mut runs, mut removing) = self.runs(&mut pruned.left)?;
        let pinned = pinned()?;
        for run in &mut runs {
            run.spared |= pinned.contains(&run.name);
        }
        for Kept { name: run, .. } in expired(runs, RUNS, now) {
            match self.set_aside(&run) {
                Ok(true) => removing.push(run),
                Ok(false) => {}
                Err(error) => pruned.left.push((run, error)),
            }
        }
        drop(turn);
        fail_point::reach("set_aside");
        for run in removing {
            if !go_on() {
                break;
            }
            match self.remove(&run, go_on) {
                Ok(true) => {
                    pruned.runs.push(run);
                    fail_point::reach("run_removed");
                }
                Ok(false) => {}
                Err(error) => pruned.left.push((run, error)),
            }
        }
        Ok(pruned)
    }

    /// The right to decide; none while another remover has it for long.
    fn turn(&self, go_on: &dyn Fn() -> bool) -> io::Result<Option<Dir>> {
        // A handle of its own, because a lock belongs to the handle.
        let turn = self.runs_handle().reopen()?;
        let ours = lock::wait_while(&turn, Kind::Exclusive, TURN, go_on)?;
        Ok(ours.then_some(turn))
    }

    /// Runs with their age and whether they are live, and those that another round has begun to remove.
    /// Whatever else lies there is nobody's business; a run that cannot be looked at goes to `left`.
    fn runs(
        &self,
        left: &mut Vec<(RunId, io::Error)>,
    ) -> io::Result<(Vec<Kept<RunId>>, Vec<RunId>)> {
        let (mut runs, mut removing) = (vec![], vec![]);
        for name in self.runs_handle().names(usize::MAX)? {
            let Ok(text) = name.to_str() else { continue };
            if let Some(run) = text.strip_prefix(REMOVING).and_then(|id| RunId::parse(id).ok()) {
                removing.push(run);
            } else if let Ok(run) = RunId::parse(text) {
                match self.open_real(&name) {
                    Ok(Some(handle)) => {
                        let live = !lock::try_lock(&handle, Kind::Shared)?;
                        runs.push(Kept { since: run.time(), name: run, spared: live });
                    }
                    Ok(None) => {}
                    Err(error) => left.push((run, error)),
                }
            }
        }
        Ok((runs, removing))
    }

    /// A directory that is one; none for a link, a file or what has just gone.
    fn open_real(&self, name: &CStr) -> io::Result<Option<Dir>> {
        let runs = self.runs_handle();
        match runs.stat(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::Directory => {
                return Ok(None);
            }
            Ok(_) => {}
        }
        match open_any(runs.as_fd(), name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(|handle| Some(handle.into())),
        }
    }

    /// Takes a run's name away, unless it has become live.
    fn set_aside(&self, run: &RunId) -> io::Result<bool> {
        let Some(handle) = self.open_real(&CString::new(run.as_str())?)? else { return Ok(false) };
        if !lock::try_lock(&handle, Kind::Exclusive)? {
            return Ok(false);
        }
        let runs = self.runs_handle();
        match renameat(runs, run.as_str(), runs, format!("{REMOVING}{run}")) {
            Ok(()) => Ok(true),
            // The leftover of that name goes first, in this round.
            Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// False when somebody else is at it or has done it, and when it is not wanted any more.
    fn remove(&self, run: &RunId, go_on: &dyn Fn() -> bool) -> io::Result<bool> {
        let name = format!("{REMOVING}{run}");
        let Some(handle) = self.open_real(&CString::new(name.as_str())?)? else { return Ok(false) };
        if !lock::try_lock(&handle, Kind::Exclusive)? {
            return Ok(false);
        }
        remove_tree_while(self.runs_handle(), &name, go_on)
    }
}

/// How many runs are kept, and for how long.
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
    /// In use or pinned: it is kept and not counted.
    pub(super) spared: bool,
}

/// Returns what is to be removed, the oldest first. Of two of equal age the smaller name counts as older, so that all
/// processes decide alike.
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
