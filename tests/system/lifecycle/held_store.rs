//! The store cannot be written for a while: accepted tasks stay accepted, and only stored results are reported.

use std::fs;

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::Value;

use super::{document, history, repository, silent, states, until, whole_tasks};
use crate::harness::Act;

/// A process that holds the database, as long as this lives.
fn hold(act: &Act) -> Connection {
    let db = Connection::open(act.artifacts().join("state/act.db")).unwrap();
    db.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    db
}

fn journal(act: &Act, task_id: &str) -> Vec<Value> {
    let path = act.artifacts().join(format!("state/journal/{task_id}.jsonl"));
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// TASK-30, STORE-6: it has to bury the dead one first, and cannot for longer than anybody waits for the store.
#[test]
fn a_waiting_task_waits_for_the_store_as_well() {
    let act = repository().script(&silent());
    let first = act.clone().start(["run", "first"]);
    first.until_stderr_has("Analyzing codebase...");
    let second = act.clone().start(["run", "second"]);
    second.until_stderr_has("Waiting: ");
    let held = hold(&act);
    first.kill();
    second
        .until_stderr_has("is locked by another process for too long; the task stays in the queue");
    drop(held);
    second.until_stderr_has("Analyzing codebase...");
    let [first, second_kept] = &history(&act)[..] else { panic!("two tasks") };
    assert_eq!(
        (first.state.as_str(), first.reason.as_deref()),
        ("INFRA_ERROR", Some("interrupted"))
    );
    assert_eq!(second_kept.state, "RUNNING");
    second.signal(Signal::INT);
    second.wait().status(130).stdout_has("CANCELLED");
}

/// TASK-30: the result of a task is stored before it is reported, even if that takes up to a minute.
#[test]
fn an_end_is_told_when_it_is_kept() {
    let act = repository().script(&whole_tasks(1));
    let running = act.clone().env("ACT_FAIL_POINT", "stop:ending").start(["run", "first"]);
    let pid = running.pid().as_raw_nonzero().get() as u32;
    until("it is about to end", || {
        act_core::process::look_up(pid).unwrap().is_some_and(|seen| seen.stopped)
    });
    let held = hold(&act);
    running.signal(Signal::CONT);
    // The fail point is reached again with each try.
    running.until_stderr_has("the result of this task cannot be saved yet");
    drop(held);
    until("it goes on", || !running.signal_if_alive(Signal::CONT));
    running.wait().status(0).stdout_has("SUCCESS");
    assert_eq!(states(&act), [("first".to_owned(), "SUCCESS".to_owned())]);
}

/// TASK-24, TASK-30: a result that a dead process reported and could not store is stored by the next act.
#[test]
fn the_end_of_a_dead_task_is_what_its_journal_says() {
    let act = repository().script(&whole_tasks(1));
    act.clone().env("ACT_FAIL_POINT", "ending").act(["run", "first"]);
    let task_id = history(&act)[0].task_id.clone();
    assert_eq!(history(&act)[0].state, "RUNNING");
    let path = act.artifacts().join(format!("state/journal/{task_id}.jsonl"));
    let end = serde_json::json!({
        "v": 1, "type": "task_finished", "task_id": task_id, "state": "SUCCESS", "exit_code": 0, "reason": null,
    });
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}{end}\n")).unwrap();
    let last = document(&act, &["status", "--json"])["last"].clone();
    assert_eq!((&last["state"], &last["exit_code"]), (&"SUCCESS".into(), &0.into()));
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{text}{end}\n"), "told once");
}

/// EVENT-3, TASK-24: the journal of a task whose process died ends like any other.
#[test]
fn the_journal_of_an_interrupted_task_says_how_it_ended() {
    let act = repository().script(&whole_tasks(1));
    act.clone().env("ACT_FAIL_POINT", "verify_finished").act(["run", "first"]);
    let kept = history(&act).remove(0);
    for _ in 0..2 {
        document(&act, &["status", "--json"]);
        let lines = journal(&act, &kept.task_id);
        let last = lines.last().unwrap();
        assert_eq!(
            (&last["type"], &last["state"]),
            (&"task_finished".into(), &"INFRA_ERROR".into())
        );
        assert_eq!(
            (&last["reason"], &last["run_id"]),
            (&"interrupted".into(), &kept.run_ids[0].as_str().into())
        );
        let numbers: Vec<_> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
        assert_eq!(
            numbers,
            (1..=lines.len() as u64).collect::<Vec<_>>(),
            "without a gap, and once"
        );
    }
}
