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

/// TASK-18, TASK-23, TASK-24, security line 129: whenever its process dies, a task has ended and is never run again.
#[test]
fn at_every_transition_nothing_is_lost_or_run_twice() {
    for (place, state, starts_of_first) in [
        ("accepted", "CANCELLED", 0),
        ("first", "CANCELLED", 0),
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
        let reason = match state {
            "CANCELLED" => Some("owner_died"),
            "INFRA_ERROR" => Some("interrupted"),
            _ => None,
        };
        assert_eq!(tasks[0].reason.as_deref(), reason, "{place}");
        in_order(&tasks);
        let of_first = starts(&act, &tasks[0].task_id);
        assert_eq!((of_first, starts(&act, &tasks[1].task_id)), (starts_of_first, 1), "{place}");
        assert_eq!(containers(&act), Vec::<String>::new(), "{place}");
        assert!(!act.repo().join("agent/stuck_report.md").exists(), "{place}: no report");
    }
}

/// TASK-23: `act status` is enough; nothing is run, and the text stays in the store.
#[test]
fn a_waiting_task_whose_process_died_is_recorded_as_cancelled_with_its_text() {
    for look in [["status", "--json"], ["queue", "--json"], ["history", "--json"]] {
        let act = repository();
        dies(&act, "first", "accepted");
        assert_eq!(history(&act)[0].state, "QUEUED");
        super::document(&act, &look);
        let first = &history(&act)[0];
        assert_eq!((first.text.as_str(), first.state.as_str()), ("first", "CANCELLED"));
        assert_eq!(first.reason.as_deref(), Some("owner_died"));
        assert_eq!((starts(&act, &first.task_id), first.started_at.as_deref()), (0, None));
        let journal = act.artifacts().join(format!("state/journal/{}.jsonl", first.task_id));
        let journal = std::fs::read_to_string(journal).unwrap();
        let last: serde_json::Value =
            serde_json::from_str(journal.lines().last().unwrap()).unwrap();
        assert_eq!(
            (&last["type"], &last["reason"]),
            (&json!("task_finished"), &json!("owner_died"))
        );
        assert_eq!((&last["state"], &last["exit_code"]), (&json!("CANCELLED"), &json!(130)));
    }
}

/// TASK-23: a task that waits while another one's process dies in the queue.
#[test]
fn a_task_that_waits_records_the_dead_one_before_it() {
    let act = repository().script(&super::silent());
    let first = act.clone().start(["run", "first"]);
    first.until_stderr_has("Analyzing codebase...");
    let dead = act.clone().start(["run", "dead"]);
    dead.until_stderr_has("Waiting: place 1");
    let third = act.clone().start(["run", "third"]);
    third.until_stderr_has("Waiting: place 2");
    dead.kill();
    dead.wait();
    third.until_stderr_has("Waiting: place 1");
    let kept = &history(&act)[1];
    assert_eq!((kept.state.as_str(), kept.reason.as_deref()), ("CANCELLED", Some("owner_died")));
    for running in [first, third] {
        running.signal(rustix::process::Signal::INT);
        running.wait().status(130);
    }
}

/// TASK-31
#[test]
fn an_ended_task_is_run_again_as_a_new_one() {
    let act = repository();
    dies(&act, "first", "accepted");
    let task_id = history(&act)[0].task_id.clone();
    let told = another_model(&act).act(["run", "--again", &task_id]).status(0);
    told.stdout_has("SUCCESS");
    let tasks = history(&act);
    let ends: Vec<_> = tasks.iter().map(|task| (task.text.as_str(), task.state.as_str())).collect();
    assert_eq!(ends, [("first", "CANCELLED"), ("first", "SUCCESS")]);
    assert_ne!(tasks[1].task_id, task_id);

    for (arguments, code) in [
        (vec!["run", "--again", "t-000000"], 1),
        (vec!["run", "--again", &task_id, "another text"], 2),
        (vec!["run", "--again", &task_id, "--file", "task.md"], 2),
        (vec!["run", "--again", &task_id, "--dry-run"], 2),
    ] {
        another_model(&act).act(arguments).status(code);
    }
    let told = act.clone().act(["run", "--json", "--again", "t-000000"]).status(1);
    told.stdout_has(r#""code":"task_unknown""#);
    assert_eq!(history(&act).len(), 2);
}

/// TASK-31: the task belongs to its repository, and has to have ended.
#[test]
fn only_an_ended_task_of_this_repository_is_run_again() {
    let act = repository();
    another_model(&act).run("first").status(0);
    let task_id = history(&act)[0].task_id.clone();
    let other = repository().env("AGENT_ARTIFACT_DIR", act.artifacts());
    let told = another_model(&other).act(["run", "--again", &task_id]).status(1);
    told.stderr_has("belongs to");

    let running = act.clone().script(&super::silent()).start(["run", "second"]);
    running.until_stderr_has("Analyzing codebase...");
    let second = history(&act)[1].task_id.clone();
    act.clone().act(["run", "--again", &second]).status(1).stderr_has("has not ended");
    running.signal(rustix::process::Signal::INT);
    running.wait().status(130);
}

/// TASK-31: the mode of the task, and neither its permissions nor its budget.
#[test]
fn a_task_that_is_run_again_inherits_its_mode_alone() {
    let act = repository();
    let arguments = ["run", "--dry-run", "--allow-path", ".envrc", "--max-tokens", "5", "first"];
    let dead = another_model(&act).env("ACT_FAIL_POINT", "accepted").start(arguments).wait();
    assert_eq!(dead.killed_by(), Some(9));
    let task_id = history(&act)[0].task_id.clone();
    let again = another_model(&act).env("ACT_FAIL_POINT", "accepted");
    assert_eq!(again.start(["run", "--again", &task_id]).wait().killed_by(), Some(9));
    let db = rusqlite::Connection::open(act.artifacts().join("state/act.db")).unwrap();
    let flags = |seq: i64| -> serde_json::Value {
        let query = "SELECT flags FROM tasks ORDER BY seq LIMIT 1 OFFSET ?1";
        let text: String = db.query_row(query, [seq], |row| row.get(0)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    assert_eq!((&flags(0)["max_tokens"], &flags(0)["dry_run"]), (&json!(5), &json!(true)));
    assert_eq!((&flags(1)["max_tokens"], &flags(1)["dry_run"]), (&json!(null), &json!(true)));
    assert_eq!(flags(1)["allow_paths"], json!([]));
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
