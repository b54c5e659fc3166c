//! Removes old runs while other processes create, use and remove runs.
//!
//! A run is live as long as a process holds an exclusive lock on its directory; the system releases it with the process, so a
//! killed host leaves no run that can never be removed. One remover at a time decides, and renames the runs that it is going
//! to remove in the same step; the slow removal follows. The next remover continues with the renamed runs of a killed one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use act_core::{RunId, fail_point};
use act_fs::Dir;
use act_fs::lock::{self, Kind};
use chrono::{DateTime, TimeDelta, Utc};
use rustix::fs::{FileType, fstat, renameat};
use rustix::io::Errno;

use super::artifact_dir::ArtifactDir;
use super::run_dir::HELD_PARTS;
use super::tree::{Swept, open_any, remove_tree_while, sweep};

/// Name of the file that marks the swept run of a killed process.
const SWEPT: &str = ".swept";
/// Prefix of the name of a file by which a process finds out whether it can write.
const PROBE: &str = ".probe-";
/// A probe is removed at once, so an older one belongs to a killed process.
const OLDEST_PROBE: TimeDelta = TimeDelta::minutes(1);
/// Prefix of the name of a run that is being removed.
const REMOVING: &str = ".removing-";
/// Maximum wait for another remover. It decides in milliseconds; one that takes longer has stopped, and pruning is not
/// worth waiting for.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The result of one round.
#[derive(Debug, Default)]
pub struct Pruned {
    pub runs: Vec<RunId>,
    /// Runs that could not be looked at or removed, and why.
    pub left: Vec<(RunId, io::Error)>,
}

/// What the store knows of runs.
#[derive(Debug, Default)]
pub struct KnownRuns {
    /// Runs that must stay.
    pub pinned: BTreeSet<RunId>,
    /// The place of each run in the order in which the runs began.
    pub order: BTreeMap<RunId, i64>,
}

impl ArtifactDir {
    /// Removes runs that are too old or too many. `known` is called with all runs after the live ones are known, so a
    /// process that pins its runs before it releases them keeps them. Once `go_on` returns false, the next round continues.
    ///
    /// # Errors
    /// The directory cannot be listed, or `known` fails; nothing is removed then.
    pub fn prune(
        &self,
        now: DateTime<Utc>,
        go_on: &dyn Fn() -> bool,
        known: impl FnOnce(&[RunId]) -> io::Result<KnownRuns>,
    ) -> io::Result<Pruned> {
        let mut pruned = Pruned::default();
        let Some(locked) = self.lock_removal(go_on)? else { return Ok(pruned) };
        fail_point::reach("deciding_what_goes");
        self.remove_probes(now)?;
        let (mut runs, mut removing) = self.runs(&mut pruned.left)?;
        let names: Vec<_> = runs.iter().map(|run| run.name.clone()).collect();
        let KnownRuns { pinned, order } = known(&names)?;
        for run in &mut runs {
            run.spared |= pinned.contains(&run.name);
            run.order = order.get(&run.name).copied();
        }
        for Candidate { name: run, .. } in expired(runs, RUNS, now) {
            match self.set_aside(&run) {
                Ok(true) => removing.push(run),
                Ok(false) => {}
                Err(error) => pruned.left.push((run, error)),
            }
        }
        drop(locked);
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

    /// Makes the runs of killed processes harmless, as [`sweep`] does: what a step left there, a setuid program for instance,
    /// must not wait until the run is removed. Call it only after the containers of dead processes were removed.
    ///
    /// # Errors
    /// The directory cannot be listed. A run that cannot be swept is left for the next call.
    pub fn sweep_killed(&self) -> io::Result<Swept> {
        let mut all = Swept::default();
        for run in self.run_ids()? {
            let Ok(Some(dir)) = self.open_real(&CString::new(run.as_str())?) else { continue };
            let killed = lock::try_lock(&dir, Kind::Exclusive).unwrap_or(false)
                && !dir.contains("manifest.json").unwrap_or(true)
                && !dir.contains(SWEPT).unwrap_or(true);
            if !killed {
                continue;
            }
            let mut whole = true;
            for part in HELD_PARTS {
                match open_any(dir.as_fd(), &CString::new(part)?).and_then(sweep) {
                    Ok(swept) => all += swept,
                    Err(error) => whole &= error.kind() == io::ErrorKind::NotFound,
                }
            }
            if whole {
                // Without the mark the run is swept again, which is only slower.
                let _ = dir.create(SWEPT);
            }
        }
        Ok(all)
    }

    /// Removes the probes of killed processes.
    fn remove_probes(&self, now: DateTime<Utc>) -> io::Result<()> {
        let runs = self.runs_handle();
        for name in runs.names(usize::MAX)? {
            let Ok(stat) = runs.stat(&*name) else { continue };
            let is_probe = name.to_bytes().starts_with(PROBE.as_bytes())
                && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            let written = DateTime::from_timestamp(stat.st_mtime, 0);
            if is_probe && written.is_some_and(|at| now.signed_duration_since(at) > OLDEST_PROBE) {
                runs.remove_file(&*name)?;
            }
        }
        Ok(())
    }

    /// Takes the lock of removers, or returns `None` while another remover holds it for long.
    fn lock_removal(&self, go_on: &dyn Fn() -> bool) -> io::Result<Option<Dir>> {
        // The handle is opened anew, because a lock belongs to its open file.
        let handle = self.runs_handle().reopen()?;
        let locked = lock::wait_while(&handle, Kind::Exclusive, LONGEST_WAIT, go_on)?;
        Ok(locked.then_some(handle))
    }

    /// Returns the runs with their age and whether they are live, and the runs that another round has begun to remove. Other
    /// names are ignored. A run that cannot be inspected is added to `left`.
    fn runs(
        &self,
        left: &mut Vec<(RunId, io::Error)>,
    ) -> io::Result<(Vec<Candidate<RunId>>, Vec<RunId>)> {
        let (mut runs, mut removing) = (vec![], vec![]);
        for name in self.runs_handle().names(usize::MAX)? {
            let Ok(text) = name.to_str() else { continue };
            if let Some(run) = text.strip_prefix(REMOVING).and_then(|id| RunId::parse(id).ok()) {
                removing.push(run);
            } else if let Ok(run) = RunId::parse(text) {
                match self.open_real(&name) {
                    Ok(Some(handle)) => {
                        let live = !lock::try_lock(&handle, Kind::Shared)?;
                        // Both times are of clocks that somebody may have set back.
                        let since = run.time().max(changed_at(&handle)?);
                        runs.push(Candidate { since, name: run, order: None, spared: live });
                    }
                    Ok(None) => {}
                    Err(error) => left.push((run, error)),
                }
            }
        }
        Ok((runs, removing))
    }

    /// Opens a directory, or returns `None` for a link, a file or a name that has just been removed.
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

    /// Renames a run, unless it has become live.
    fn set_aside(&self, run: &RunId) -> io::Result<bool> {
        let Some(handle) = self.open_real(&CString::new(run.as_str())?)? else { return Ok(false) };
        if !lock::try_lock(&handle, Kind::Exclusive)? {
            return Ok(false);
        }
        let runs = self.runs_handle();
        match renameat(runs, run.as_str(), runs, format!("{REMOVING}{run}")) {
            Ok(()) => Ok(true),
            // An older run of that name is removed first, in this round.
            Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a renamed run. Returns false when another process removes it or has removed it, and when `go_on` returns false.
    fn remove(&self, run: &RunId, go_on: &dyn Fn() -> bool) -> io::Result<bool> {
        let name = format!("{REMOVING}{run}");
        let Some(handle) = self.open_real(&CString::new(name.as_str())?)? else { return Ok(false) };
        if !lock::try_lock(&handle, Kind::Exclusive)? {
            return Ok(false);
        }
        remove_tree_while(self.runs_handle(), &name, go_on)
    }
}

/// The maximum number and age of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) count: usize,
    pub(super) age: TimeDelta,
}

/// A run is the evidence of a verification, so it stays for a while; it may hold a whole build, so only a few stay.
pub(super) const RUNS: Limits = Limits { count: 20, age: TimeDelta::days(14) };

/// A candidate for removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate<N> {
    pub(super) name: N,
    pub(super) since: DateTime<Utc>,
    /// Its place in the order of creation, where that is known.
    pub(super) order: Option<i64>,
    /// In use or pinned: it is neither removed nor counted.
    pub(super) spared: bool,
}

/// Returns when a directory was changed last: an entry was added to it or removed.
pub(super) fn changed_at(dir: &Dir) -> io::Result<DateTime<Utc>> {
    let stat = fstat(dir)?;
    // The types differ between systems.
    let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or_default();
    Ok(DateTime::from_timestamp(stat.st_mtime, nanoseconds).unwrap_or_default())
}

/// Returns what is to be removed, the oldest first. Nothing counts as older than what was created before it, so that a clock
/// that was set back removes nothing new. Of two of equal age the smaller name counts as older, so that all processes
/// decide alike.
pub(super) fn expired<N: Ord>(
    mut all: Vec<Candidate<N>>,
    limits: Limits,
    now: DateTime<Utc>,
) -> Vec<Candidate<N>> {
    all.sort_by_key(|one| one.order);
    let mut latest = DateTime::<Utc>::MIN_UTC;
    for one in all.iter_mut().filter(|one| one.order.is_some()) {
        latest = latest.max(one.since);
        one.since = latest;
    }
    all.retain(|one| !one.spared);
    all.sort_by(|a, b| (a.since, a.order, &a.name).cmp(&(b.since, b.order, &b.name)));
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

    fn at(name: u32, days: i64) -> Candidate<u32> {
        Candidate { name, since: now() - TimeDelta::days(days), order: None, spared: false }
    }

    fn names(all: Vec<Candidate<u32>>) -> Vec<u32> {
        expired(all, RUNS, now()).into_iter().map(|one| one.name).collect()
    }

    // VERIFIER-17
    #[test]
    fn the_runs_of_killed_processes_are_swept_once_and_living_ones_are_left_alone() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let artifacts = ArtifactDir::open_for(&place.path().join("a"), None).unwrap();
        let setuid = |part: &str| {
            let run = artifacts.create_run(act_core::clock::now()).unwrap();
            let path = run.path().join(part);
            std::fs::create_dir_all(&path).unwrap();
            let path = path.join("shell");
            std::fs::write(&path, "x").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o4755)).unwrap();
            path
        };
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        let (build, view) = (setuid("build"), setuid("view/sub"));
        assert_eq!(artifacts.sweep_killed().unwrap(), Swept::default(), "they live");
        assert_eq!(mode(&build), 0o4755);
        artifacts.release_runs();
        let living = setuid("tmp");
        assert_eq!(artifacts.sweep_killed().unwrap().privileged, 2);
        assert_eq!((mode(&build) & 0o6000, mode(&view) & 0o6000), (0, 0));
        assert_eq!(mode(&living), 0o4755);
        assert_eq!(artifacts.sweep_killed().unwrap(), Swept::default());
    }

    // ARTIFACT-14, security line 122
    #[test]
    fn the_probe_of_a_killed_process_goes_and_that_of_a_living_one_stays() {
        let place = tempfile::tempdir().unwrap();
        let artifacts = ArtifactDir::open_for(&place.path().join("a"), None).unwrap();
        let runs = artifacts.path().join("runs");
        for name in [".probe-00", "probe-1"] {
            std::fs::write(runs.join(name), "").unwrap();
        }
        let none = |_: &[RunId]| Ok(KnownRuns::default());
        artifacts.prune(act_core::clock::now(), &|| true, none).unwrap();
        assert!(runs.join(".probe-00").exists(), "it may be in use");
        let later = act_core::clock::now() + TimeDelta::hours(1);
        artifacts.prune(later, &|| true, none).unwrap();
        assert!(!runs.join(".probe-00").exists() && runs.join("probe-1").exists());
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
        let spared = (100..112).map(|n| Candidate { spared: true, ..at(n, 400) });
        let all: Vec<_> = (0..21).map(|n| at(n, 1)).chain(spared).collect();
        assert_eq!(names(all), [0]);
    }

    // ARTIFACT-13
    #[test]
    fn a_clock_that_was_set_back_removes_nothing_new() {
        let ordered =
            |name: u32, days| Candidate { order: Some(i64::from(name)), ..at(name, days) };
        // 1 and 2 are as old as they say; the clock was set back by a year before 3 and 4.
        let all = vec![ordered(3, 366), ordered(1, 20), ordered(4, 365), ordered(2, 1)];
        assert_eq!(names(all), [1]);
        // Of 22 runs the two that began first go, whatever their clocks said.
        let all = (0..22).map(|n| ordered(n, if n > 10 { 9 } else { 2 })).collect();
        assert_eq!(names(all), [0, 1]);
        // A spared run counts for the time of later ones.
        let spared = Candidate { spared: true, ..ordered(1, 1) };
        assert!(names(vec![spared, ordered(2, 400)]).is_empty());
    }

    #[test]
    fn a_run_from_the_future_is_young() {
        assert!(names(vec![at(1, -400), at(2, -1)]).is_empty());
    }

    fn candidates() -> impl Strategy<Value = Vec<Candidate<u32>>> {
        let one = (0..40i64, any::<bool>(), 0..86_400i64);
        proptest::collection::vec(one, 0..80).prop_map(|all| {
            let named = all.into_iter().zip(0..);
            named
                .map(|((days, spared, seconds), name)| Candidate {
                    name,
                    since: now() - TimeDelta::days(days) - TimeDelta::seconds(seconds),
                    order: None,
                    spared,
                })
                .collect()
        })
    }

    proptest! {
        // ARTIFACT-13
        #[test]
        fn what_stays_is_within_the_limits_and_nothing_goes_without_need(all in candidates()) {
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
        fn the_order_in_which_a_directory_lists_does_not_matter(all in candidates().prop_shuffle()) {
            let mut sorted = all.clone();
            sorted.sort_by_key(|one| one.name);
            prop_assert_eq!(names(all), names(sorted));
        }
    }
}
