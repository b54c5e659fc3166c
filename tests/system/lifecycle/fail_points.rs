//! A process that dies at each transition of its task, by SIGKILL and without a word.

use std::time::Duration;

use serde_json::json;

use super::{containers, history, in_order, repository, starts, until, whole_tasks};
use crate::harness::script::{opening, script};
use crate::harness::{Act, containers_of};

fn another_model(act: &Act) -> Act {
    act.clone().script(&whole_tasks(5))
}

/// Dies where `place` is.
fn dies(act: &Act, text: &str, place: &str) {
    let told = another_model(act).env("ACT_FAIL_POINT", place).start(["run", text]).wait();
    assert_eq!(told.killed_by(), Some(9), "{place}: {told}");
}

/// TASK-18, TASK-23, TASK-24, security line 129: before its start a task is run by the next, after that it is over.
#[test]
fn at_every_transition_nothing_is_lost_or_run_twice() {
    for (place, state, starts_of_first) in [
        ("accepted", "SUCCESS", 1),
        ("first", "SUCCESS", 1),
        ("started", "INFRA_ERROR", 0),
        ("verify_started", "INFRA_ERROR", 1),
        ("verify_finished", "INFRA_ERROR", 1),
        ("ending", "INFRA_ERROR", 1),
        ("ended", "SUCCESS", 1),
    ] {
        let act = repository();
        dies(&act, "first", place);
        let told = another_model(&act).run("second").status(0);
        let tasks = history(&act);
        assert_eq!(tasks.len(), 2, "{place}: {told}");
        assert_eq!((tasks[0].text.as_str(), tasks[1].text.as_str()), ("first", "second"));
        assert_eq!(
            (tasks[0].state.as_str(), tasks[1].state.as_str()),
            (state, "SUCCESS"),
            "{place}"
        );
        let interrupted = state == "INFRA_ERROR";
        assert_eq!(tasks[0].reason.as_deref() == Some("interrupted"), interrupted, "{place}");
        in_order(&tasks);
        let of_first = starts(&act, &tasks[0].task_id);
        assert_eq!((of_first, starts(&act, &tasks[1].task_id)), (starts_of_first, 1), "{place}");
        assert_eq!(containers(&act), Vec::<String>::new(), "{place}");
        assert!(!act.repo().join("agent/stuck_report.md").exists(), "{place}: no report");
        let adopts = ["accepted", "first"].contains(&place);
        assert_eq!(told.stderr_text().contains("so it is run here"), adopts, "{place}: {told}");
    }
}

/// TASK-23: the heir dies as well.
#[test]
fn an_heir_that_dies_is_replaced_by_the_next() {
    let act = repository();
    dies(&act, "first", "accepted");
    let told = another_model(&act).env("ACT_FAIL_POINT", "adopted").start(["run", "second"]).wait();
    assert_eq!(told.killed_by(), Some(9), "{told}");
    another_model(&act).run("third").status(0);
    let tasks = history(&act);
    let ends: Vec<_> = tasks.iter().map(|task| (task.text.as_str(), task.state.as_str())).collect();
    assert_eq!(ends, [("first", "SUCCESS"), ("second", "SUCCESS"), ("third", "SUCCESS")]);
    in_order(&tasks);
    assert!(tasks.iter().all(|task| starts(&act, &task.task_id) == 1));
}

/// TASK-24, security lines 111, 129: one that waits takes over as soon as it sees the death, not at any time limit, and
/// the container goes.
#[test]
fn a_waiting_task_starts_soon_after_the_death_and_removes_the_container() {
    let act = repository()
        .pipeline(crate::harness::image(), &[("slow", "printf 'in the %s\\n' step; sleep 600")]);
    let turns =
        opening("look").into_iter().chain([crate::harness::script::call("verify", json!({}))]);
    let first = act.clone().script(&script(turns)).start(["run", "first", "--verbose"]);
    first.until_stderr_has("in the step");
    let second = act.clone().script(&super::silent()).start(["run", "second"]);
    second.until_stderr_has("Waiting: place 1");
    let run_id = history(&act)[0].run_ids[0].clone();
    assert_eq!(containers_of(&run_id).len(), 1);
    first.signal(rustix::process::Signal::KILL);
    let waited = until("the second runs", || history(&act)[1].state == "RUNNING");
    // 5 s where nothing else is at work; generous, because machines are shared.
    assert!(waited < Duration::from_secs(60), "{waited:?}");
    assert_eq!(history(&act)[0].reason.as_deref(), Some("interrupted"));
    second.until_stderr_has("Analyzing codebase...");
    assert_eq!(containers_of(&run_id), Vec::<String>::new());
    second.signal(rustix::process::Signal::INT);
    second.wait().status(130);
    let first = first.wait();
    assert_eq!(first.killed_by(), Some(9));
}

/// TASK-24: looking is enough to learn it.
#[test]
fn status_shows_a_dead_task_as_interrupted() {
    let act = repository();
    dies(&act, "first", "started");
    let status = super::document(&act, &["status", "--json"]);
    assert_eq!(status["running"], json!(null));
    assert_eq!(status["last"]["state"], "INFRA_ERROR");
    assert_eq!(
        (&status["last"]["reason"], &status["last"]["exit_code"]),
        (&json!("interrupted"), &json!(4))
    );
}
