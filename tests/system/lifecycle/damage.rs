//! A store that cannot be used: nothing runs, nothing is changed, and the path is named.

use std::fs;

use super::{repository, whole_tasks};
use crate::harness::Act;

const COMMANDS: [&[&str]; 4] = [&["run", "x"], &["status"], &["queue"], &["cancel"]];

#[track_caller]
fn refused(act: &Act, code: &str, named: &str) {
    for arguments in COMMANDS {
        let json = [arguments, &["--json"]].concat();
        let told = act.clone().act(json).status(1).stderr_has(named);
        assert!(told.stdout_text().contains(&format!(r#""code":"{code}""#)), "{told}");
        assert!(told.runs().is_empty() && told.requests().is_empty(), "{told}");
        assert!(!told.repo().join(".gitignore").exists(), "{told}");
    }
}

/// STORE-3, security line 136: damaged in one of several ways, and left as found.
#[test]
fn a_damaged_database_is_named_and_left_as_found() {
    let whole = {
        let act = repository().script(&whole_tasks(1));
        act.clone().act(["queue"]).status(0);
        fs::read(act.artifacts().join("state/act.db")).unwrap()
    };
    let mut later = whole.clone();
    later[60..64].copy_from_slice(&99u32.to_be_bytes());
    for (bytes, code) in [
        (vec![], "store_damaged"),
        (whole[..whole.len() / 2].to_vec(), "store_damaged"),
        (whole.iter().rev().copied().collect(), "store_damaged"),
        (later, "store_future"),
    ] {
        let act = repository().script("turns: []");
        let path = act.artifacts().join("state/act.db");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &bytes).unwrap();
        refused(&act, code, path.to_str().unwrap());
        assert_eq!(fs::read(&path).unwrap(), bytes, "{code}");
    }
    let act = repository().script("turns: []");
    let path = act.artifacts().join("state/act.db");
    fs::create_dir_all(&path).unwrap();
    refused(&act, "store_foreign", path.to_str().unwrap());
    assert!(path.is_dir());
}

/// STORE-4, security line 136: the write-ahead log is removed while no process runs.
#[test]
fn without_its_log_the_queue_goes_on() {
    let act = repository().script(&whole_tasks(3));
    act.clone().run("first").status(0);
    let told = act.clone().env("ACT_FAIL_POINT", "started").start(["run", "second"]).wait();
    assert_eq!(told.killed_by(), Some(9));
    let log = act.artifacts().join("state/act.db-wal");
    assert!(log.exists(), "a killed process leaves it");
    fs::remove_file(log).unwrap();
    act.clone().run("third").status(0);
    let texts: Vec<_> = super::history(&act).into_iter().map(|task| task.text).collect();
    assert_eq!(texts, ["first", "third"], "what only the log knew is gone, and nothing is made up");
}

/// STORE-5, security line 109: a full disk loses nothing that was reported.
#[test]
fn a_full_disk_leaves_the_database_whole() {
    if !rustix::process::geteuid().is_root() {
        act_core::testing::skip("a file system of one's own needs root");
        return;
    }
    let act = repository().script("turns: []");
    let home = act.repo().parent().unwrap().join("home");
    fs::create_dir(home.join("full")).unwrap();
    let mut full = std::process::Command::new("unshare");
    full.args(["--mount", "sh", "-c", FULL, crate::harness::program()]);
    let told = act.within(home).start_command(full).wait().status(1);
    let told = told.stderr_has("home/full/state/act.db cannot be used").stderr_has("hint: ");
    let told = told.stderr_lacks("internal error");
    assert_eq!(told.stdout_text().matches("Nothing runs or waits in").count(), 2, "{told}");
}

/// A small file system that is filled before a task and has room again after it.
const FULL: &str = r#"
    mount -t tmpfs -o size=400k small full || exit 8
    export AGENT_ARTIFACT_DIR="$PWD/full"
    "$0" queue --repo ../repo || exit 9
    dd if=/dev/zero of=full/filler bs=1k 2>/dev/null
    "$0" run x --repo ../repo; code=$?
    rm full/filler
    "$0" queue --repo ../repo || exit 10
    exit $code
"#;

/// Security line 134.
#[test]
fn a_state_that_cannot_be_written_is_exit_code_1_with_its_path() {
    // A file in place of the directory itself.
    let act = repository().script("turns: []");
    fs::create_dir_all(act.artifacts()).unwrap();
    let state = act.artifacts().join("state");
    fs::write(&state, "in the way").unwrap();
    refused(&act, "store_unusable", state.to_str().unwrap());
    // No home directory, and one that not even root can write.
    let homeless = repository().script("turns: []").env("AGENT_ARTIFACT_DIR", "");
    refused(&homeless.clone().env("HOME", ""), "artifact_dir", "AGENT_ARTIFACT_DIR");
    refused(&homeless.env("HOME", "/proc/self"), "artifact_dir", "/proc/self/.agent-artifacts");
}
