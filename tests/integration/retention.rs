//! Old runs go, and nothing else does, whoever else is at work in the same ARTIFACT_DIR.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use act_core::RunId;
use act_records::artifacts::{ArtifactDir, KnownRuns, Pruned};
use chrono::{DateTime, TimeDelta, Utc};

/// One who waits for the whole of it.
const ALWAYS: &dyn Fn() -> bool = &|| true;

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("repo")).unwrap();
        Self { dir }
    }

    /// Opens the directory as another process would.
    fn open(&self) -> ArtifactDir {
        ArtifactDir::open(&self.path(""), &self.dir.path().join("repo")).unwrap()
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join("artifacts").join(below)
    }

    fn names(&self, below: &str) -> BTreeSet<String> {
        let names = fs::read_dir(self.path(below)).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// A run that has ended, so many days ago.
    fn run(&self, days: i64) -> RunId {
        let run = self.open().create_run(now() - TimeDelta::days(days)).unwrap();
        fs::write(run.path().join("manifest.json"), "{}").unwrap();
        fs::write(run.path().join("tmp/file"), "x").unwrap();
        aged(run.path(), days);
        run.id().clone()
    }
}

/// Makes a directory as old as the id of its run says.
fn aged(run: &std::path::Path, days: i64) {
    let time = SystemTime::now() - Duration::from_hours(24 * days.unsigned_abs());
    fs::File::open(run).unwrap().set_modified(time).unwrap();
}

fn now() -> DateTime<Utc> {
    act_core::clock::now()
}

fn prune(artifacts: &ArtifactDir, pinned: &[&RunId]) -> Pruned {
    let pinned = pinned.iter().map(|run| (*run).clone()).collect();
    artifacts.prune(now(), ALWAYS, |_| Ok(KnownRuns { pinned, ..KnownRuns::default() })).unwrap()
}

fn texts<'a>(runs: impl IntoIterator<Item = &'a RunId>) -> BTreeSet<String> {
    runs.into_iter().map(RunId::to_string).collect()
}

#[test]
fn of_25_runs_the_20_newest_and_the_pinned_stay_and_old_ones_go() {
    // ARTIFACT-13, security line 118
    let place = Place::new();
    let runs: Vec<_> = (0..25).map(|n| place.run(n / 2)).collect();
    let (old, pinned) = (place.run(15), place.run(400));
    let pruned = prune(&place.open(), &[&pinned]);
    assert_eq!(texts(&pruned.runs).len(), 6);
    assert!(pruned.runs.contains(&old) && pruned.left.is_empty());
    let stay: BTreeSet<_> =
        texts(runs.iter().filter(|run| !pruned.runs.contains(run)).chain([&pinned]));
    assert_eq!(place.names("runs"), stay);
    assert_eq!(stay.len(), 21);
    assert!(texts(&runs[..19]).is_subset(&stay), "the newest stay");
    assert!(prune(&place.open(), &[&pinned]).runs.is_empty(), "nothing is left to do");
}

#[test]
fn a_clock_that_was_set_back_removes_no_run_that_is_new() {
    // ARTIFACT-13
    let place = Place::new();
    // The directory is new, whatever the id says, and whatever the clock said while it was made.
    let by_time = place.open().create_run(now() - TimeDelta::days(400)).unwrap().id().clone();
    let (before, after) = (place.run(1), place.run(400));
    let order = [(before.clone(), 7), (after.clone(), 8)].into();
    let known = KnownRuns { order, ..KnownRuns::default() };
    let pruned = place.open().prune(now(), ALWAYS, |runs| {
        assert_eq!(runs.len(), 3);
        Ok(known)
    });
    assert!(pruned.unwrap().runs.is_empty());
    assert_eq!(place.names("runs"), texts([&by_time, &before, &after]));
    assert_eq!(
        prune(&place.open(), &[]).runs,
        [after],
        "without the order it is as old as it says"
    );
}

#[test]
fn what_is_no_run_is_left_alone() {
    // ARTIFACT-14, ARTIFACT-15, security lines 119, 124
    let place = Place::new();
    let old = place.run(30);
    let outside = place.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "x").unwrap();
    let runs = place.path("runs");
    fs::create_dir(runs.join("notes")).unwrap();
    fs::create_dir(runs.join("run_evil")).unwrap();
    fs::write(runs.join("run_20200101_000000_aaaaaa"), "a file").unwrap();
    symlink(&outside, runs.join("run_20200101_000000_bbbbbb")).unwrap();
    symlink(&outside, runs.join(".removing-run_20200101_000000_cccccc")).unwrap();
    fs::create_dir(runs.join(".removing-notes")).unwrap();
    let before = place.names("runs");
    for kept in ["cache/image", "state/components", "state/proposals", "mine"] {
        fs::create_dir_all(place.path(kept)).unwrap();
    }
    fs::write(place.path("state/act.db"), "x").unwrap();
    // However old: metrics and history tell of every task.
    drop(place.open().create_journal("t-oldold").unwrap());
    let journal = place.path("state/journal/t-oldold.jsonl");
    let file = fs::File::options().append(true).open(&journal).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(4000 * 86_400)).unwrap();

    let pruned = prune(&place.open(), &[]);

    assert_eq!(pruned.runs, std::slice::from_ref(&old));
    let stays: BTreeSet<_> = before.into_iter().filter(|name| *name != old.as_str()).collect();
    assert_eq!(place.names("runs"), stays);
    assert!(outside.join("kept").exists());
    for kept in ["cache/image", "state/components", "state/proposals", "state/act.db", "mine"] {
        assert!(place.path(kept).exists(), "{kept}");
    }
    assert!(journal.exists());
}

#[test]
fn a_run_is_live_until_its_task_lets_go_of_it() {
    // ARTIFACT-13, security line 121
    let place = Place::new();
    let task = place.open();
    let run = task.create_run(now() - TimeDelta::days(30)).unwrap();
    let id = run.id().clone();
    aged(run.path(), 30);
    drop(run);
    let others: Vec<_> = (0..20).map(|_| place.run(0)).collect();
    assert!(prune(&place.open(), &[]).runs.is_empty(), "neither removed nor counted");
    assert!(prune(&task, &[]).runs.is_empty(), "also not by its own process");
    task.release_runs();
    assert_eq!(prune(&place.open(), &[]).runs, [id]);
    assert_eq!(place.names("runs"), texts(&others));
}

#[test]
fn runs_are_pinned_in_time_when_their_task_pins_before_it_lets_go() {
    // ARTIFACT-13
    let place = Place::new();
    let task = place.open();
    let run = task.create_run(now() - TimeDelta::days(30)).unwrap();
    let id = run.id().clone();
    aged(run.path(), 30);
    let pinned = std::cell::RefCell::new(BTreeSet::new());
    let pruned = place.open().prune(now(), ALWAYS, |_| {
        // Live runs have been determined by now.
        pinned.borrow_mut().insert(id.clone());
        task.release_runs();
        Ok(KnownRuns { pinned: pinned.borrow().clone(), ..KnownRuns::default() })
    });
    assert!(pruned.unwrap().runs.is_empty());
    let unreadable = place.open().prune(now(), ALWAYS, |_| Err(std::io::Error::other("damaged")));
    assert_eq!(unreadable.unwrap_err().to_string(), "damaged");
    assert_eq!(place.names("runs"), texts([&id]), "without pins nothing goes");
}

#[test]
fn what_a_killed_remover_left_goes_with_the_next_round() {
    // ARTIFACT-14
    let place = Place::new();
    let old = place.run(30);
    let pruned = place.open().prune(now(), &|| false, |_| Ok(KnownRuns::default())).unwrap();
    assert!(pruned.runs.is_empty());
    let aside = format!(".removing-{old}");
    assert_eq!(place.names("runs"), BTreeSet::from([aside.clone()]));
    assert!(place.open().open_log(old.as_str(), None).is_err(), "half a run is no run");
    // Killed in the middle, with something that needs more than an unlink.
    fs::remove_file(place.path("runs").join(&aside).join("manifest.json")).unwrap();
    fs::set_permissions(
        place.path("runs").join(&aside).join("tmp"),
        fs::Permissions::from_mode(0o000),
    )
    .unwrap();
    assert_eq!(prune(&place.open(), &[]).runs, [old]);
    assert!(place.names("runs").is_empty());
}

#[test]
fn everything_that_steps_leave_can_be_removed_and_links_lead_nowhere() {
    // ARTIFACT-8, security lines 95, 119
    let place = Place::new();
    let old = place.run(30);
    let outside = place.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "x").unwrap();
    let run = place.path("runs").join(old.as_str());
    for part in ["build", "home"] {
        symlink(&outside, run.join(part).join("link")).unwrap();
    }
    fs::remove_dir(run.join("db")).unwrap();
    symlink(&outside, run.join("db")).unwrap();
    fs::create_dir_all(run.join("snapshots/a/b")).unwrap();
    fs::write(run.join("snapshots/a/b/new\nline"), "x").unwrap();
    let deep: PathBuf = std::iter::repeat_n("d", 300).collect();
    fs::create_dir_all(run.join("home").join(deep)).unwrap();
    aged(&run, 30);
    for closed in ["snapshots/a/b", "snapshots/a", "snapshots", ""] {
        fs::set_permissions(run.join(closed), fs::Permissions::from_mode(0o000)).unwrap();
    }
    assert_eq!(prune(&place.open(), &[]).runs, [old]);
    assert!(outside.join("kept").exists() && place.names("runs").is_empty());
}

#[test]
fn many_hosts_that_finish_at_once_leave_20_runs_and_no_live_one_is_lost() {
    // ARTIFACT-14, security line 121
    let place = Place::new();
    let live_task = place.open();
    let live: Vec<_> = (0..3)
        .map(|n| {
            let run = live_task.create_run(now() - TimeDelta::days(20 + n)).unwrap();
            aged(run.path(), 20 + n);
            run.id().clone()
        })
        .collect();
    // A process that waits that long leaves the removal to the next one.
    let (long, gave_up) = (Duration::from_secs(2), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..8 {
                    let host = place.open();
                    let run = host.create_run(now()).unwrap();
                    let mine = run.path().to_owned();
                    fs::write(mine.join("tmp/file"), "x").unwrap();
                    assert!(prune(&host, &[]).left.is_empty());
                    assert!(mine.join("tmp/file").exists(), "a live run was removed");
                    drop(run);
                    host.release_runs();
                    let began = Instant::now();
                    assert!(prune(&host, &[]).left.is_empty());
                    gave_up.fetch_or(began.elapsed() >= long, Ordering::Relaxed);
                }
            });
        }
    });
    if gave_up.into_inner() {
        prune(&place.open(), &[]);
    }
    let there = place.names("runs");
    assert_eq!(there.len(), 20 + live.len(), "{there:?}");
    assert!(texts(&live).is_subset(&there));
}
