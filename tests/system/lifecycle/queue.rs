//! One queue for each repository, whatever its path and whoever submits tasks.

use std::process::Command;

use rustix::process::{Signal, geteuid};
use serde_json::json;

use super::{document, history, in_order, repository, silent, starts, states, whole_tasks};
use crate::harness::json::schema;
use crate::harness::{Act, program};

/// TASK-11, TASK-21, security line 131.
#[test]
fn twenty_processes_at_once_start_in_the_order_of_acceptance_one_at_a_time() {
    let act = repository().script(&whole_tasks(20));
    let running: Vec<_> =
        (0..20).map(|n| act.clone().start(["run", &format!("task {n}"), "--json"])).collect();
    let mut positions = vec![];
    for running in running {
        let told = running.wait().status(0);
        let text = told.stdout_text();
        let first = text.lines().next().unwrap().to_owned();
        let first: serde_json::Value = serde_json::from_str(&first).unwrap();
        assert_eq!(first["type"], "task_queued");
        positions.push(first["position"].as_u64().unwrap());
        for line in text.lines() {
            schema("run").validate(&serde_json::from_str(line).unwrap()).unwrap();
        }
    }
    let tasks = history(&act);
    assert_eq!(tasks.len(), 20);
    assert!(tasks.iter().all(|task| task.state == "SUCCESS"), "{tasks:#?}");
    in_order(&tasks);
    assert!(tasks.iter().all(|task| starts(&act, &task.task_id) == 1), "none twice");
    assert!(positions.iter().any(|position| *position > 5), "{positions:?}");
}

/// TASK-22.
#[test]
fn a_waiting_task_shows_its_place_whenever_that_changes() {
    let act = repository().script(&silent());
    let first = act.clone().start(["run", "first"]);
    first.until_stderr_has("Analyzing codebase...");
    let second = act.clone().start(["run", "second"]);
    second.until_stderr_has("Waiting: place 1; t-");
    let third = act.clone().start(["run", "third", "--json"]);
    third.until_stderr_has("Waiting: place 2; t-");

    let queue = document(&act, &["queue", "--json"]);
    schema("queue").validate(&queue).unwrap();
    assert_eq!(queue["running"]["text"], "first");
    let waiting = queue["queued"].as_array().unwrap();
    let waiting: Vec<_> =
        waiting.iter().map(|task| (task["position"].clone(), task["text"].clone())).collect();
    assert_eq!(waiting, [(json!(1), json!("second")), (json!(2), json!("third"))]);

    second.signal(Signal::INT);
    second.wait().status(130).stdout_has("CANCELLED");
    third.until_stderr_has("Waiting: place 1; t-");
    assert_eq!(
        states(&act),
        [("first".into(), "RUNNING".to_owned()), ("third".into(), "QUEUED".to_owned())],
        "a waiting task that is cancelled leaves no trace"
    );
    first.signal(Signal::INT);
    first.wait().status(130);
    third.until_stderr_has("Analyzing codebase...");
    third.signal(Signal::INT);
    let told = third.wait().status(130);
    let waits = told.stdout_text().matches(r#""type":"waiting""#).count();
    assert_eq!(waits, 2, "{told}");
}

/// TASK-17, security line 132. Another letter case needs macOS.
#[test]
fn every_name_of_a_repository_means_the_same_line() {
    let act = repository().script(&silent());
    let (repo, place) = (act.repo(), act.repo().parent().unwrap().to_owned());
    std::fs::create_dir_all(repo.join("src/deep")).unwrap();
    let link = place.join("link");
    std::os::unix::fs::symlink(&repo, &link).unwrap();
    let first = act.clone().start(["run", "holds"]);
    first.until_stderr_has("Analyzing codebase...");

    let spelled = |path: std::path::PathBuf| {
        let arguments = ["run".into(), path.display().to_string(), "--repo".into()];
        let arguments = arguments.into_iter().chain([path.display().to_string()]);
        act.clone().within(place.clone()).start(arguments)
    };
    let mut others: Vec<_> =
        [link, repo.join("."), repo.join("src/deep"), place.join("repo/../repo")]
            .map(spelled)
            .into();
    if geteuid().is_root() {
        // A mount of its own, in a namespace of its own.
        let mut mounted = Command::new("unshare");
        std::fs::create_dir(place.join("mounted")).unwrap();
        let script = "mount --bind repo mounted && exec \"$0\" run mounted --repo mounted";
        mounted.args(["--mount", "sh", "-c", script, program()]);
        others.push(act.clone().within(place.clone()).start_command(mounted));
    } else {
        act_core::testing::skip("a bind mount needs root");
    }
    for other in &others {
        other.until_stderr_has("Waiting: place ");
    }
    let queue = document(&act, &["queue", "--json"]);
    assert_eq!(queue["queued"].as_array().unwrap().len(), others.len(), "{queue}");
    for other in others {
        other.signal(Signal::INT);
        other.wait().status(130);
    }
    first.signal(Signal::INT);
    first.wait().status(130);
}

/// TASK-11: the lock on the directory holds across ARTIFACT_DIRs, too.
#[test]
fn another_artifact_dir_is_another_line_but_the_same_repository() {
    let act = repository().script(&silent());
    let first = act.clone().start(["run", "holds"]);
    first.until_stderr_has("Analyzing codebase...");
    let elsewhere = act.clone().env("AGENT_ARTIFACT_DIR", act.artifacts().with_file_name("b"));
    let second = elsewhere.start(["run", "other"]);
    second.until_stderr_has("Waiting: place 1; another act process works");
    first.signal(Signal::INT);
    first.wait().status(130);
    second.until_stderr_has("Analyzing codebase...");
    second.signal(Signal::INT);
    second.wait().status(130);
}

/// TASK-20, TASK-22.
#[test]
fn a_stopped_owner_is_shown_and_not_robbed() {
    let act = repository().script(&silent());
    let first = act.clone().start(["run", "first"]);
    first.until_stderr_has("Analyzing codebase...");
    first.stop();
    let second = act.clone().start(["run", "second"]);
    second.until_stderr_has("is stopped in");
    let status = document(&act, &["status", "--json"]);
    schema("status").validate(&status).unwrap();
    assert_eq!(status["running"]["owner"], "stalled");
    std::thread::sleep(std::time::Duration::from_secs(6));
    assert_eq!(states(&act)[0].1, "RUNNING");
    first.signal(Signal::CONT);
    second.until_stderr_has("works in");
    first.signal(Signal::TERM);
    first.wait().status(130);
    second.until_stderr_has("Analyzing codebase...");
    second.signal(Signal::INT);
    second.wait().status(130);
}

/// TASK-10, EVENT-3.
#[test]
fn a_configuration_that_broke_while_a_task_waited_is_refused_when_its_turn_comes() {
    let act = repository().script(&silent());
    let first = act.clone().start(["run", "first"]);
    first.until_stderr_has("Analyzing codebase...");
    let second = act.clone().start(["run", "second"]);
    second.until_stderr_has("Waiting: ");
    std::fs::write(act.repo().join("agent.yaml"), "nonsense: 1\n").unwrap();
    first.signal(Signal::INT);
    first.wait().status(130);
    second.wait().status(1).stdout("").stderr_has("act: agent.yaml:1:1").stderr_has("\nhint: ");
    let ends: Vec<_> = history(&act).into_iter().map(|task| task.state).collect();
    assert_eq!(ends, ["CANCELLED", "REFUSED"]);
}

/// Security line 137: the clock went back between two submissions.
#[test]
fn order_is_that_of_acceptance_whatever_the_clock_said() {
    let act = repository().script(&silent());
    let first = act.clone().start(["run", "first"]);
    first.until_stderr_has("Analyzing codebase...");
    let waiting: Vec<_> = ["second", "third"]
        .into_iter()
        .map(|text| {
            let running = act.clone().start(["run", text]);
            running.until_stderr_has("Waiting: ");
            running
        })
        .collect();
    // As if it had been accepted before the clock was set back.
    let db = rusqlite::Connection::open(act.artifacts().join("state/act.db")).unwrap();
    let later = "2100-01-01T00:00:00.000Z";
    db.execute("UPDATE tasks SET submitted_at = ? WHERE text = 'second'", [later]).unwrap();
    let queue = document(&act, &["queue", "--json"]);
    assert_eq!(queue["queued"][0]["text"], "second");
    assert_eq!(queue["queued"][0]["submitted_at"], later, "shown as recorded");
    first.signal(Signal::INT);
    first.wait().status(130);
    waiting[0].until_stderr_has("Analyzing codebase...");
    for running in waiting.into_iter().rev() {
        running.signal(Signal::INT);
        running.wait().status(130);
    }
}

/// TASK-26, TASK-27.
#[test]
fn status_tells_what_runs_and_what_ended_last() {
    let act = repository().script(&whole_tasks(1));
    let empty = document(&act, &["status", "--json"]);
    schema("status").validate(&empty).unwrap();
    assert_eq!(
        (&empty["running"], &empty["queued_count"], &empty["last"]),
        (&json!(null), &json!(0), &json!(null))
    );
    act.clone().run("look at it").status(0);
    let status = document(&act, &["status", "--json"]);
    let last = &status["last"];
    assert_eq!((&last["state"], &last["attempt"]), (&json!("SUCCESS"), &json!(1)));
    assert_eq!((&last["exit_code"], &last["owner_pid"]), (&json!(0), &json!(null)));
    assert_eq!(last["run_ids"].as_array().unwrap().len(), 1);
    assert!(last["tokens"]["editor"]["input"].as_u64().unwrap() > 0, "{last}");
    let text = act.clone().act(["status"]).status(0).inert().stdout_text();
    assert!(text.contains("Running: nothing") && text.contains("  look at it\n"), "{text}");
    act.act(["queue"]).status(0).stdout_has("Nothing runs or waits in");
}

/// CLI-8, CLI-23, security line 165.
#[test]
fn what_a_task_says_is_inert_and_short_in_the_line() {
    let act = repository().script(&silent());
    let hostile = "first\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}[2J\u{202e}line\nsecond line ";
    let first = act.clone().start(["run", &hostile.repeat(40)]);
    first.until_stderr_has("Analyzing codebase...");
    let second = act.clone().start(["run", &format!("{hostile}waits")]);
    second.until_stderr_has("Waiting: ");
    for command in ["status", "queue"] {
        let told = act.clone().act([command]).status(0).inert();
        let text = told.stdout_text();
        assert!(text.contains("first\\u{202e}line second line"), "{told}");
        let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= 100, "{told}");
        let told = act.clone().act([command, "--json"]).status(0).inert();
        told.document(command);
    }
    second.signal(Signal::INT);
    second.wait().status(130).inert();
    first.signal(Signal::INT);
    first.wait().status(130);
}

/// TASK-22: `queue` and `status` need no engine, model or configuration.
#[test]
fn looking_needs_a_repository_and_nothing_else() {
    let act = Act::new().without_engine();
    act.clone().act(["status"]).status(0);
    act.clone().act(["queue"]).status(0);
    act.clone().act(["cancel"]).status(1).stderr_has("no task runs");
    let outside = act.clone().within("/".into());
    outside.clone().act(["status"]).status(1).stderr_has("no repository");
    outside.act(["cancel", "--id", "t-abc123"]).status(1).stderr_has("there is no task t-abc123");
}
