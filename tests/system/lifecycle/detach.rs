//! `act run --detach`: the task is accepted here and runs in a background process.

use rustix::process::{Pid, Signal, getsid, kill_process};
use serde_json::json;

use super::{document, history, in_order, repository, silent, starts, until, whole_tasks};
use crate::harness::Act;
use crate::harness::script::script;

fn state(act: &Act) -> String {
    history(act)[0].state.clone()
}

fn pid(act: &Act) -> Pid {
    let running = &document(act, &["status", "--json"])["running"];
    Pid::from_raw(running["owner_pid"].as_i64().unwrap() as i32).unwrap()
}

/// TASK-28.
#[test]
fn a_detached_task_prints_its_id_and_runs_without_its_terminal() {
    let act = repository().script(&whole_tasks(2));
    let told = act.clone().act(["run", "--detach", "look at it"]).status(0).stderr("");
    let task_id = told.stdout_text().trim_end().to_owned();
    assert!(task_id.starts_with("t-") && told.stdout_text().lines().count() == 1, "{told}");
    until("it ends", || state(&act) == "SUCCESS");
    assert_eq!(starts(&act, &task_id), 1, "its journal is its output");

    let told = act.clone().act(["run", "--detach", "--json", "again"]).status(0);
    let document = told.document("detached");
    assert_eq!(document["position"], 1);
    until("it ends", || history(&act)[1].state == "SUCCESS");
    in_order(&history(&act));
}

/// TASK-28: a session of its own; cancelled like any other.
#[test]
fn a_detached_task_has_a_session_of_its_own_and_can_be_cancelled() {
    let act = repository().script(&silent());
    act.clone().act(["run", "--detach", "first"]).status(0);
    until("it runs", || state(&act) == "RUNNING");
    let pid = pid(&act);
    assert_eq!(getsid(Some(pid)).unwrap(), pid, "the leader of its session");
    act.clone().act(["cancel"]).status(0);
    assert_eq!(state(&act), "CANCELLED");
    until("the process is gone", || rustix::process::test_kill_process(pid).is_err());
}

/// TASK-28: what is refused is refused here, and nothing is left behind.
#[test]
fn a_detached_task_that_cannot_be_is_refused_at_once() {
    let told = Act::new().without_engine().act(["run", "--detach", "fix it"]).status(1);
    told.stdout("").stderr_has("configuration required");
}

/// TASK-28: Ctrl-C before the background process has begun is reported as a cancellation.
#[test]
fn a_detached_task_that_is_cancelled_before_it_begins_leaves_no_trace() {
    let act = repository().script(&silent());
    let detaching =
        act.clone().env("ACT_FAIL_POINT", "stop:taking_over").start(["run", "--detach", "first"]);
    let database = act.artifacts().join("state/act.db");
    until("it is accepted", || database.exists() && !history(&act).is_empty());
    std::thread::sleep(std::time::Duration::from_millis(300));
    detaching.signal(Signal::INT);
    let told = detaching.wait().status(130).stdout("");
    let told = told.stderr_has("cancelled before the background process took over the task");
    told.stderr_lacks("hint:");
    assert!(history(&act).is_empty());
    let journals = std::fs::read_dir(act.artifacts().join("state/journal")).unwrap();
    assert_eq!(journals.count(), 0);
}

/// TASK-23, TASK-24: it is as mortal as any other.
#[test]
fn a_killed_detached_task_is_interrupted() {
    let act = repository()
        .script(&script([json!({"role": "editor", "text": "thinking", "stall_after_bytes": 40})]));
    act.clone().act(["run", "--detach", "first"]).status(0);
    until("it runs", || state(&act) == "RUNNING");
    kill_process(pid(&act), Signal::KILL).unwrap();
    act.clone().script(&whole_tasks(1)).run("second").status(0);
    let tasks = history(&act);
    assert_eq!(tasks[0].reason.as_deref(), Some("interrupted"));
    assert_eq!(tasks[1].state, "SUCCESS");
}
