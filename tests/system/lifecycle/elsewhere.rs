//! Owners that cannot be seen: in another PID namespace, or when this process may open nothing more.

use std::process::Command;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, geteuid, prlimit};

use super::{history, repository, silent, starts, states, until, whole_tasks};
use crate::harness::{Act, Running, program};

/// The program in a PID namespace of its own, as in another container; none where that needs root.
fn in_another_container(act: &Act, arguments: &[&str]) -> Option<Running> {
    if !geteuid().is_root() {
        return None;
    }
    let mut command = Command::new("unshare");
    // The first process of a namespace cannot be killed from inside, so that is a shell.
    let shell = ["sh", "-c", "\"$0\" \"$@\"; exit $?", program()];
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]).args(shell).args(arguments);
    Some(act.clone().start_command(command))
}

/// TASK-20, TASK-23: no process locks the journal, so the owner is dead, wherever it ran.
#[test]
fn what_a_dead_process_of_another_container_left_is_recorded_as_cancelled() {
    let act = repository().script(&whole_tasks(2));
    let dies = act.clone().env("ACT_FAIL_POINT", "accepted");
    let Some(orphan) = in_another_container(&dies, &["run", "orphan"]) else {
        act_core::testing::skip("a namespace needs root");
        return;
    };
    orphan.wait();
    assert_eq!(states(&act), [("orphan".to_owned(), "QUEUED".to_owned())]);
    act.clone().run("host").status(0);
    let tasks = history(&act);
    let ends: Vec<_> = tasks.iter().map(|task| task.state.as_str()).collect();
    assert_eq!(ends, ["CANCELLED", "SUCCESS"]);
    assert_eq!(tasks[0].reason.as_deref(), Some("owner_died"));
    let starts: Vec<_> = tasks.iter().map(|task| starts(&act, &task.task_id)).collect();
    assert_eq!(starts, [0, 1]);
}

/// TASK-20, TASK-22: a live owner is waited for, and is not shown as running while it waits itself.
#[test]
fn a_living_process_of_another_container_is_not_robbed() {
    let act = repository().script(&silent());
    let first = act.clone().start(["run", "first"]);
    first.until_stderr_has("Analyzing codebase...");
    let Some(second) = in_another_container(&act, &["run", "second"]) else {
        act_core::testing::skip("a namespace needs root");
        return;
    };
    second.until_stderr_has("Waiting: place 1");
    let third = act.clone().start(["run", "third"]);
    third.until_stderr_has("Waiting: place 2");
    first.signal(Signal::INT);
    first.wait().status(130);
    second.until_stderr_has("Analyzing codebase...");
    third.until_stderr_has("Waiting: place 1");
    assert_eq!(history(&act)[1].state, "RUNNING");
    second.kill();
    // Its end shows by the lock that it held.
    third.until_stderr_has("Analyzing codebase...");
    assert_eq!(history(&act)[1].reason.as_deref(), Some("interrupted"));
    third.signal(Signal::INT);
    third.wait().status(130);
}

/// TASK-20: no answer is not death.
#[cfg(target_os = "linux")]
#[test]
fn who_can_open_nothing_more_takes_nobody_for_dead() {
    let act = repository().script(&silent());
    let first = act.clone().start(["run", "first"]);
    first.until_stderr_has("Analyzing codebase...");
    let second = act.clone().start(["run", "second"]);
    second.until_stderr_has("Waiting: ");
    let limit = |files| {
        let limit = Rlimit { current: Some(files), maximum: Some(1024) };
        prlimit(Some(second.pid()), Resource::Nofile, limit).unwrap();
    };
    limit(4);
    // Ten looks at the line.
    std::thread::sleep(Duration::from_secs(1));
    limit(1024);
    std::thread::sleep(Duration::from_millis(300));
    let running = ("first".to_owned(), "RUNNING".to_owned());
    assert_eq!(states(&act), [running, ("second".to_owned(), "QUEUED".to_owned())]);
    first.signal(Signal::INT);
    first.wait().status(130);
    second.until_stderr_has("Analyzing codebase...");
    second.signal(Signal::INT);
    second.wait().status(130);
    until("both have ended", || states(&act).iter().all(|(_, state)| state == "CANCELLED"));
}
