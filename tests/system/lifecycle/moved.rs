//! The path of a repository leads to another directory while a task waits or runs.

use std::fs;
use std::process::Command;

use rustix::process::{Signal, geteuid};

use super::{document, history, repository, silent};
use crate::harness::script::{attempt, opening, script};
use crate::harness::{Act, UNTIL_TOLD, image, program};

/// The repository moves away, and a copy of it takes its path.
fn another_takes_its_place(act: &Act) -> std::path::PathBuf {
    let (repo, aside) = (act.repo(), act.repo().with_file_name("aside"));
    let copied = Command::new("cp").arg("-r").arg(&repo).arg(repo.with_file_name("copy")).status();
    assert!(copied.unwrap().success());
    fs::rename(&repo, &aside).unwrap();
    fs::rename(repo.with_file_name("copy"), &repo).unwrap();
    aside
}

/// TASK-29, security line 115: the pipeline passes for a tree that the task did not edit.
#[test]
fn a_green_run_of_another_directory_is_no_success() {
    let turns = opening("guess").into_iter().chain(attempt("wrong\n"));
    let act = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("slow", UNTIL_TOLD)])
        .script(&script(turns));
    let running = act.clone().start(["run", "x", "--verbose"]);
    running.until_stderr_has("it has begun");
    let aside = another_takes_its_place(&act);
    act.tell_step();
    let told = running.wait().status(4).stdout_has("INFRA_ERROR: repository_moved");
    let told = told.stdout_has("is now another directory");
    assert_eq!(fs::read_to_string(aside.join("answer.txt")).unwrap(), "wrong\n");
    assert!(aside.join("agent/stuck_report.md").exists(), "where the work was done\n{told}");
    assert!(!aside.join("agent/summary.md").exists());
    let task = history(&act).remove(0);
    assert_eq!(
        (task.state.as_str(), task.reason.as_deref()),
        ("INFRA_ERROR", Some("repository_moved"))
    );
    assert_eq!(told.manifest(&task.run_ids[0])["status"], "INFRA_ERROR");
}

/// TASK-29: what was accepted for one repository is not done in another.
#[test]
fn a_waiting_task_does_not_begin_in_another_directory() {
    let act = repository().script(&silent());
    let first = act.clone().start(["run", "first"]);
    first.until_stderr_has("Analyzing codebase...");
    let second = act.clone().start(["run", "second"]);
    second.until_stderr_has("Waiting: ");
    let aside = another_takes_its_place(&act);
    fs::remove_dir_all(act.repo().join("agent")).unwrap();
    second.until_stderr_has("Waiting: ");
    first.signal(Signal::INT);
    first.wait().status(130);
    let told = second.wait().status(1).stdout("").stderr_has("\nact: ");
    told.stderr_has("hint: run the task again where the repository is now");
    assert!(!act.repo().join("agent").exists(), "the other one is not touched");
    let last = document(&act.clone().within(aside), &["status", "--json"])["last"].clone();
    assert_eq!((&last["state"], &last["text"]), (&"REFUSED".into(), &"second".into()));
}

/// TASK-29: it says what happened, not what a lock needs.
#[test]
fn a_repository_that_is_gone_is_named_as_gone() {
    let act = repository().script(&silent());
    let place = act.repo().parent().unwrap().to_owned();
    let first = act.clone().within(place.clone()).start(["run", "first", "--repo", "repo"]);
    first.until_stderr_has("Analyzing codebase...");
    let second = act.clone().within(place).start(["run", "second", "--repo", "repo"]);
    second.until_stderr_has("Waiting: ");
    fs::rename(act.repo(), act.repo().with_file_name("aside")).unwrap();
    first.signal(Signal::INT);
    first.wait().status(130);
    let told = second.wait().status(1).stdout("").stderr_has("\nact: ");
    let told = told.stderr_has("cannot be opened any more: No such file");
    assert!(!told.stderr_text().contains("flock"), "{told}");
}

/// TASK-17, security line 132: the number of a device is another one after the next mount.
#[test]
fn a_file_system_that_is_mounted_again_holds_the_same_repository() {
    if !geteuid().is_root() {
        act_core::testing::skip("a mount needs root");
        return;
    }
    let act = repository().script("turns: []");
    let place = act.repo().parent().unwrap().to_owned();
    let mut mounts = Command::new("unshare");
    mounts.args(["--mount", "sh", "-c", MOUNTED_AGAIN, program()]);
    let told = act.within(place).start_command(mounts).wait().status(0);
    let identities: Vec<_> = told
        .stdout_text()
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .map(|status| status["repo"]["identity"].clone())
        .collect();
    assert_eq!(identities.len(), 3, "{told}");
    assert!(identities.iter().all(|identity| *identity == identities[0]), "{told}");
    let devices: Vec<_> = told
        .stdout_text()
        .lines()
        .filter_map(|line| line.strip_prefix("device ").map(str::to_owned))
        .collect();
    assert_ne!(devices[0], devices[1], "it was to be another one\n{told}");
}

/// The repository lies below an overlay, is written to for the first time, and the overlay is mounted again.
const MOUNTED_AGAIN: &str = r#"
    mkdir lower upper work merged between && mv repo lower/repo || exit 8
    overlay() { mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged; }
    overlay || exit 9
    "$0" status --json --repo merged/repo || exit 10
    mkdir merged/repo/agent || exit 11
    "$0" status --json --repo merged/repo || exit 12
    echo "device $(stat -c %d merged/repo)"
    umount merged && mount -t tmpfs between between && overlay || exit 13
    echo "device $(stat -c %d merged/repo)"
    "$0" status --json --repo merged/repo || exit 14
"#;
