//! Warm bases over several processes of the program.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::harness::script::{attempt, done, opening, script};
use crate::harness::{Act, image};

/// A `prepare` that first leaves half of its work, then waits until the test tells it, and then finishes.
const PREPARE: &str = "mkdir -p target; test ! -e target/half || exit 9; echo x > target/half; echo begun; \
                       while [ ! -e /artifacts/db/go ]; do sleep 0.05; done; rm target/half; echo x > target/whole";

fn repository() -> Act {
    let yaml = json!({"verification": {
        "container_image": image(),
        "prepare": [{"name": "build", "command": PREPARE}],
        "steps": [{
            "name": "test",
            // A file that the command named would make its attempts cold.
            "command": "test ! -e target/half && test -e target/whole && \
                        ls | while read file; do grep -sx right $file; done | grep -q right",
        }],
    }});
    let act = Act::new()
        .file("answer.txt", "none\n")
        .file(".gitignore", "target\n/agent/\n")
        .file("agent.yaml", yaml.to_string());
    let _ = fs::remove_dir_all(act.repo().join(".git"));
    for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "x"]] {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        let git =
            Command::new("git").args(identity).args(arguments).current_dir(act.repo()).output();
        assert!(git.unwrap().status.success());
    }
    act
}

/// The directories of the runs whose `prepare` waits.
fn waiting(act: &Act) -> Vec<PathBuf> {
    let runs = fs::read_dir(act.artifacts().join("runs")).into_iter().flatten();
    let begun = |run: &PathBuf| {
        let log = fs::read_to_string(run.join("logs/step-01-build.log")).unwrap_or_default();
        log.contains("begun")
    };
    runs.map(|run| run.unwrap().path()).filter(begun).collect()
}

/// VERIFIER-50, ARTIFACT-22: what a killed process left of a base is used by nobody.
#[test]
fn a_base_whose_maker_was_killed_is_never_used() {
    let turns = || opening("write it").into_iter().chain(attempt("right\n")).chain([done()]);
    let act = repository().script(&script(turns()));
    let killed = act.clone().start(["run", "write the answer"]);
    let began = Instant::now();
    while waiting(&act).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "prepare does not begin");
        thread::sleep(Duration::from_millis(20));
    }
    killed.signal(Signal::KILL);
    assert_eq!(killed.wait().killed_by(), Some(9));
    let bases = act.artifacts().join("cache/bases");
    let left = fs::read_dir(&bases).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<String> = left.map(|name| name.to_string_lossy().into_owned()).collect();
    assert!(left.iter().all(|name| name.starts_with('.')), "no base is published: {left:?}");

    // The killed task has made its edit.
    fs::write(act.repo().join("answer.txt"), "none\n").unwrap();
    let (act, ended) = (act.script(&script(turns())), Arc::new(AtomicBool::new(false)));
    let (seen, stop) = (act.clone(), Arc::clone(&ended));
    let teller = thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            waiting(&seen).iter().for_each(|run| drop(fs::write(run.join("db/go"), "")));
            thread::sleep(Duration::from_millis(20));
        }
    });
    let told = act.clone().run("write the answer").status(0);
    ended.store(true, Ordering::Relaxed);
    teller.join().unwrap();
    // The red or green warm attempt found what a whole `prepare` leaves, and so did the cold run.
    let records = act.audit_records();
    let prepared: Vec<_> =
        records.iter().filter(|record| record["event"] == "base_prepared").collect();
    assert_eq!(prepared.len(), 1, "{prepared:?}");
    assert_eq!(prepared[0]["decision"], "allow");
    // A run of `prepare` has no manifest.
    let judged =
        |run: &String| act.artifacts().join("runs").join(run).join("manifest.json").exists();
    let runs = told.runs().into_iter().filter(judged);
    let warm = runs.filter(|run| told.manifest(run)["base"].is_string()).count();
    assert_eq!(warm, 1, "the attempt began warm");
    let left = fs::read_dir(&bases).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<String> = left.map(|name| name.to_string_lossy().into_owned()).collect();
    assert_eq!(
        left,
        [prepared[0]["object"].as_str().unwrap()],
        "nothing of the killed one is left"
    );
    act.act(["cache", "clear"]).status(0);
}
