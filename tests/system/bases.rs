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
            "command": "ls | while read file; do if grep -qsx wait $file; then echo waiting; \
                          until [ -e /artifacts/db/on ]; do sleep 0.05; done; fi; done; \
                        test ! -e target/half && test -e target/whole && \
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

/// The directories of the runs whose log of this name has this text.
fn runs_with(act: &Act, log: &str, text: &str) -> Vec<PathBuf> {
    let runs = fs::read_dir(act.artifacts().join("runs")).into_iter().flatten();
    let has = |run: &PathBuf| {
        let log = fs::read_to_string(run.join("logs").join(log)).unwrap_or_default();
        log.contains(text)
    };
    runs.map(|run| run.unwrap().path()).filter(has).collect()
}

/// The directories of the runs whose `prepare` waits.
fn waiting(act: &Act) -> Vec<PathBuf> {
    runs_with(act, "step-01-build.log", "begun")
}

/// Lets each waiting `prepare` finish, until it is dropped.
struct Go {
    ended: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Go {
    fn of(act: &Act) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let (act, stop) = (act.clone(), Arc::clone(&ended));
        let thread = thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                waiting(&act).iter().for_each(|run| drop(fs::write(run.join("db/go"), "")));
                thread::sleep(Duration::from_millis(20));
            }
        });
        Self { ended, thread: Some(thread) }
    }
}

impl Drop for Go {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.take().map(thread::JoinHandle::join);
    }
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The names in the directory of the bases.
fn bases(act: &Act) -> Vec<String> {
    let names = fs::read_dir(act.artifacts().join("cache/bases")).into_iter().flatten();
    names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// The decisions about bases that were made, as the audit log has them.
fn prepared(act: &Act) -> Vec<serde_json::Value> {
    let records = act.audit_records().into_iter();
    records.filter(|record| record["event"] == "base_prepared").collect()
}

/// How many runs of all tasks began warm and came to an end. A run of `prepare`, and one of a killed process, has no manifest.
fn warm_runs(act: &Act) -> usize {
    let runs = fs::read_dir(act.artifacts().join("runs")).unwrap();
    let manifests = runs.filter_map(|run| fs::read(run.unwrap().path().join("manifest.json")).ok());
    manifests
        .filter(|manifest| {
            let manifest: serde_json::Value = serde_json::from_slice(manifest).unwrap();
            manifest["base"].is_string()
        })
        .count()
}

/// VERIFIER-50, ARTIFACT-22: what a killed process left of a base is used by nobody.
#[test]
fn a_base_whose_maker_was_killed_is_never_used() {
    let turns = || opening("write it").into_iter().chain(attempt("right\n")).chain([done()]);
    let act = repository().script(&script(turns()));
    let killed = act.clone().start(["run", "write the answer"]);
    until("prepare does not begin", || !waiting(&act).is_empty());
    killed.signal(Signal::KILL);
    assert_eq!(killed.wait().killed_by(), Some(9));
    let left = bases(&act);
    assert!(left.iter().all(|name| name.starts_with('.')), "no base is published: {left:?}");

    // The killed task has made its edit.
    fs::write(act.repo().join("answer.txt"), "none\n").unwrap();
    let act = act.script(&script(turns()));
    let go = Go::of(&act);
    act.clone().run("write the answer").status(0);
    drop(go);
    // The red or green warm attempt found what a whole `prepare` leaves, and so did the cold run.
    let prepared = prepared(&act);
    assert_eq!(prepared.len(), 1, "{prepared:?}");
    assert_eq!(prepared[0]["decision"], "allow");
    assert_eq!(warm_runs(&act), 1, "the attempt began warm");
    let left = bases(&act);
    let made = prepared[0]["object"].as_str().unwrap();
    assert_eq!(left, [made], "nothing of the killed one is left");
    act.act(["cache", "clear"]).status(0);
}

/// VERIFIER-50, ARTIFACT-22: the death of a process that makes a base leaves the work to the next one. A base that a process
/// uses is removed by no other process, and outlives the process that used it.
#[test]
fn processes_share_a_base_though_one_is_killed_making_it_and_one_using_it() {
    let turns = |answer: &str| {
        let turns = opening("write it").into_iter().chain(attempt(answer)).chain([done()]);
        script(turns)
    };
    let act = repository();
    let reset = || fs::write(act.repo().join("answer.txt"), "none\n").unwrap();
    let begin =
        |answer: &str| act.clone().script(&turns(answer)).start(["run", "write the answer"]);

    // One process makes the base, while another one waits in the queue.
    let maker = begin("right\n");
    until("prepare does not begin", || !waiting(&act).is_empty());
    let other = begin("right\n");
    other.until_stderr_has("Waiting: ");
    reset();
    maker.signal(Signal::KILL);
    assert_eq!(maker.wait().killed_by(), Some(9));
    assert!(bases(&act).iter().all(|name| name.starts_with('.')), "{:?}", bases(&act));
    let go = Go::of(&act);
    let told = other.wait().status(0);
    drop(go);
    assert_eq!(warm_runs(&act), 1, "{told}");
    let made = prepared(&act);
    assert_eq!(made.len(), 1, "{made:?}");
    assert_eq!(bases(&act), [made[0]["object"].as_str().unwrap()]);

    // A third process begins with the base. Another process does not remove the base meanwhile.
    reset();
    let user = begin("right\nwait\n");
    let logs = ["step-01-test.log", "step-02-test.log"];
    let waits = || logs.iter().any(|log| !runs_with(&act, log, "waiting").is_empty());
    until("the warm attempt does not begin", waits);
    let cleared = act.clone().act(["cache", "clear", "--json"]).status(0).json();
    assert!(cleared["in_use"].as_u64() >= Some(1), "{cleared:#}");
    assert_eq!(bases(&act).len(), 1);
    reset();
    user.signal(Signal::KILL);
    assert_eq!(user.wait().killed_by(), Some(9));

    // The cold run behind the warm one runs `prepare` again.
    let go = Go::of(&act);
    let told = begin("right\n").wait().status(0);
    drop(go);
    assert_eq!(warm_runs(&act), 2, "{told}");
    assert_eq!(prepared(&act).len(), 1, "the base was not made anew");
    let cleared = act.clone().act(["cache", "clear", "--json"]).status(0).json();
    assert_eq!(cleared["in_use"], 0, "{cleared:#}");
    assert_eq!(bases(&act), Vec::<String>::new());
}
