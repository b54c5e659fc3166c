//! Tasks and verifications whose ARTIFACT_DIR fills up, or belongs to another user: what was told is what later commands say.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rand::RngExt;
use serde_json::Value;

use super::{history, whole_tasks};
use crate::harness::json::lines;
use crate::harness::{Act, image};

/// A small file system that ends with the test.
struct Small(PathBuf);

impl Small {
    /// Mounts it where the engine sees it as well; `None` without the privilege.
    fn mount(place: &Path, kib: u32) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        std::fs::create_dir_all(place).unwrap();
        let options = format!("size={kib}k,mode=700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "small"]).arg(place);
        mount.status().is_ok_and(|status| status.success()).then(|| Self(place.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A process beside `act` that takes whatever becomes free on a disk once steps have filled it, so that the room which `act`
/// reserved for the end is gone as soon as it is released.
struct Greedy {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Greedy {
    /// Space below which the steps have filled the disk, in bytes.
    const FULL: u64 = 256 << 10;

    fn start(disk: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, disk) = (Arc::clone(&stop), disk.to_owned());
        let free = move || {
            let stat = rustix::fs::statvfs(&disk).unwrap();
            (stat.f_bavail * stat.f_frsize, disk.join("greedy"))
        };
        let thread = std::thread::spawn(move || {
            let mut is_full = false;
            while !stopped.load(Ordering::Relaxed) {
                let (bytes, file) = free();
                is_full |= bytes < Self::FULL;
                if !is_full || bytes == 0 {
                    std::thread::sleep(Duration::from_micros(200));
                    continue;
                }
                let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
                // The disk may be full again before this write.
                let _ = file.unwrap().write_all(&vec![0; usize::try_from(bytes).unwrap()]);
            }
            let _ = std::fs::remove_file(free().1);
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Greedy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A green step that fills the disk and gives `free` KiB back.
fn filling(free: u32) -> String {
    format!(
        "dd if=/dev/zero of=/artifacts/tmp/a bs=1k count={free} 2>/dev/null; \
         dd if=/dev/zero of=/artifacts/tmp/b bs=1k 2>/dev/null; rm -f /artifacts/tmp/a; true"
    )
}

/// Removes what the steps wrote, as a user who makes room.
fn make_room(act: &Act) {
    let runs = act.artifacts().join("runs");
    for run in std::fs::read_dir(runs).into_iter().flatten().flatten() {
        let _ = std::fs::remove_file(run.path().join("tmp/b"));
    }
}

/// The end of a task or a verification as it was told.
#[derive(Debug)]
struct Told {
    state: String,
    reason: Option<String>,
    /// The task waited for room before it began.
    has_waited: bool,
    #[expect(dead_code, reason = "a failing assertion prints it")]
    exit: i32,
}

impl std::fmt::Display for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.state)?;
        self.reason.iter().try_for_each(|reason| write!(f, " {reason}"))?;
        if self.has_waited { f.write_str(" after a wait") } else { Ok(()) }
    }
}

/// Runs a task on a disk of `kib` on which a step leaves `free` KiB, and compares what was told with what is stored.
fn task_on_a_full_disk(kib: u32, free: u32, is_greedy: bool) -> Option<Told> {
    let act = Act::new().pipeline(image(), &[("fill", &filling(free))]);
    let _small = Small::mount(&act.artifacts(), kib)?;
    let greedy = is_greedy.then(|| Greedy::start(&act.artifacts()));
    let running = act.clone().script(&whole_tasks(1)).start(["run", "task", "--json"]);
    // A task that cannot be recorded as started waits until there is room.
    running.until_stderr_has_or_end("the task stays in the queue");
    let has_waited = !running.has_ended();
    drop(greedy);
    let ended = running.wait();
    let end: Option<Value> =
        lines(&ended).into_iter().rev().find(|event| event["type"] == "task_finished");
    let exit = ended.exit_code();
    make_room(&act);
    // The next command records the end of a task whose process died before it could.
    let listed = act.clone().act(["history", "--json"]).status(0).json();
    let stored = history(&act);
    let Some(end) = end else {
        assert!(exit == 1 && stored.is_empty(), "refused before it was accepted: {ended}");
        return Some(Told { state: "REFUSED".to_owned(), reason: None, has_waited, exit });
    };
    let reason = end["reason"].as_str().map(str::to_owned);
    let state = end["state"].as_str().unwrap().to_owned();
    assert_eq!(end["exit_code"], exit, "{ended}");
    let [task] = &stored[..] else { panic!("{stored:?}\n{ended}") };
    // A task that could not start is told as waiting, until the next command cancels it.
    let agrees = task.state == state || (state == "QUEUED" && task.state == "CANCELLED");
    assert!(agrees, "told {state}, stored {task:?}, free {free}\n{ended}");
    assert_eq!(listed["tasks"][0]["state"], task.state.as_str(), "{ended}");
    let status = act.clone().act(["status", "--json"]).status(0).json();
    assert_eq!(status["last"]["state"], task.state.as_str(), "{ended}");
    assert_eq!(status["last"]["reason"].as_str(), task.reason.as_deref(), "{ended}");
    if state == "SUCCESS" {
        assert_eq!(exit, 0, "{ended}");
        let run_id = end["run_id"].as_str().unwrap();
        act.act(["audit", "explain", run_id]).status(0);
    } else {
        assert_ne!(exit, 0, "{ended}");
    }
    Some(Told { state, reason, has_waited, exit })
}

/// Verifies on such a disk, and compares what was told with what is stored.
fn verification_on_a_full_disk(kib: u32, free: u32, is_greedy: bool) -> Option<Told> {
    let act = Act::new().pipeline(image(), &[("fill", &filling(free))]);
    let _small = Small::mount(&act.artifacts(), kib)?;
    let greedy = is_greedy.then(|| Greedy::start(&act.artifacts()));
    let ended = act.clone().act(["verify", "--json"]);
    drop(greedy);
    let exit = ended.exit_code();
    make_room(&act);
    let answer = ended.json();
    if answer["type"] == "refused" {
        assert_eq!(exit, 1, "{ended}");
        return Some(Told { state: "REFUSED".to_owned(), reason: None, has_waited: false, exit });
    }
    let state = answer["status"].as_str().unwrap().to_owned();
    let reason = answer["error_type"].as_str().map(str::to_owned);
    assert_eq!(exit, if state == "PASS" { 0 } else { 4 }, "{ended}");
    if let Some(run_id) = answer["run_id"].as_str() {
        let known = act.clone().act(["audit", "explain", run_id, "--json"]);
        let explained = if known.exit_code() == 0 { known.json() } else { Value::Null };
        // A pass in the log whose end the store does not have is disputed.
        let is_pass = explained["outcome"] == "pass" && explained["disputed"].is_null();
        assert_eq!(is_pass, state == "PASS", "{ended}\n{known}");
    }
    if state == "PASS" {
        act.act(["audit", "verify"]).status(0);
    }
    Some(Told { state, reason, has_waited: false, exit })
}

/// Another user owns what act believes: nothing is run. Another user may write it: that is taken away, and what was told is
/// what is stored.
fn foreign_round() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let mut random = rand::rng();
    let act = Act::new().pipeline(image(), &[("test", "true")]);
    act.clone().act(["queue"]).status(0);
    let inside = ["runs", "cache", "state", "state/act.db"].map(|name| act.artifacts().join(name));
    let places = [&[act.artifacts()][..], &inside].concat();
    let place = &places[random.random_range(0..places.len())];
    let (owns, is_task) = (random.random_bool(0.5), random.random_bool(0.5));
    let mode = || std::fs::metadata(place).unwrap().permissions().mode();
    match owns {
        true => std::os::unix::fs::chown(place, Some(4321), None).unwrap(),
        false => {
            let open = std::fs::Permissions::from_mode(mode() | 0o022);
            std::fs::set_permissions(place, open).unwrap();
        }
    }
    let ended = match is_task {
        true => act.clone().script(&whole_tasks(1)).act(["run", "task", "--json"]),
        false => act.clone().act(["verify", "--json"]),
    };
    let told = if is_task { lines(&ended).pop().unwrap() } else { ended.json() };
    let what = format!("{place:?}, owned: {owns}\n{ended}");
    if owns {
        assert_eq!(
            (ended.exit_code(), &told["code"]),
            (1, &"artifact_dir_foreign".into()),
            "{what}"
        );
        std::os::unix::fs::chown(place, Some(0), None).unwrap();
        assert!(history(&act).is_empty(), "{what}");
        assert_eq!(std::fs::read_dir(act.artifacts().join("runs")).unwrap().count(), 0, "{what}");
        return Some("owned by another user: refused".to_owned());
    }
    assert_eq!((ended.exit_code(), mode() & 0o022), (0, 0), "{what}");
    let stored = history(&act);
    let run_id = match is_task {
        true => {
            let [task] = &stored[..] else { panic!("{stored:?} {what}") };
            assert_eq!(
                (told["state"].as_str(), &*task.state),
                (Some("SUCCESS"), "SUCCESS"),
                "{what}"
            );
            told["run_id"].as_str().unwrap().to_owned()
        }
        false => {
            assert!(stored.is_empty(), "{what}");
            assert_eq!(told["status"], "PASS", "{what}");
            told["run_id"].as_str().unwrap().to_owned()
        }
    };
    act.clone().act(["audit", "explain", &run_id]).status(0);
    Some("open to another user: closed".to_owned())
}

/// TASK-30, ARTIFACT-31, security line 135.
#[test]
fn what_was_told_on_a_full_disk_is_what_is_stored() {
    for free in [0, 4, 12, 40, 200] {
        let told = (
            task_on_a_full_disk(4096, free, false),
            verification_on_a_full_disk(4096, free, false),
        );
        let (Some(task), Some(verification)) = told else {
            act_core::testing::skip("a file system of one's own needs root");
            return;
        };
        eprintln!("{free} KiB: {task:?}, {verification:?}");
    }
}

/// ARTIFACT-31: without room for the end, nothing begins.
#[test]
fn without_room_for_the_end_nothing_begins() {
    let act = Act::new().pipeline(image(), &[("test", "true")]);
    let Some(_small) = Small::mount(&act.artifacts(), 900) else {
        act_core::testing::skip("a file system of one's own needs root");
        return;
    };
    let refused = act.clone().act(["verify"]).status(1).stdout("");
    refused.stderr_has("has no room for the result: 1 MiB cannot be reserved").stderr_has("hint: ");
    let refused = act.clone().script(&whole_tasks(1)).run("task").status(1);
    refused.stderr_has("1 MiB cannot be reserved");
    assert_eq!(history(&act)[0].state, "REFUSED");
    assert_eq!(std::fs::read_dir(act.artifacts().join("runs")).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(act.artifacts().join("state/reserve")).unwrap().count(), 0);
}

/// `scripts/drill` runs it: disks of random size that fill, and directories of another user.
#[test]
#[ignore = "scripts/drill runs it"]
fn random_disks_that_fill_and_foreign_owners() {
    let rounds: u32 =
        std::env::var("ACT_DRILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(30);
    let (mut random, mut skipped) = (rand::rng(), 0);
    let mut ends = std::collections::BTreeMap::<String, u32>::new();
    for round in 0..rounds {
        let kib = random.random_range(1100..6000);
        let free = random.random_range(0..96);
        let is_greedy = random.random_bool(0.5);
        let beside = if is_greedy { ", room taken" } else { "" };
        let told = match round % 3 {
            0 => {
                task_on_a_full_disk(kib, free, is_greedy).map(|told| format!("task {told}{beside}"))
            }
            1 => verification_on_a_full_disk(kib, free, is_greedy)
                .map(|told| format!("run {told}{beside}")),
            _ => foreign_round(),
        };
        match told {
            Some(told) => *ends.entry(told).or_default() += 1,
            None => skipped += 1,
        }
    }
    eprintln!("{rounds} rounds, {skipped} skipped without root: {ends:?}");
}
