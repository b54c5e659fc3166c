//! `act cancel`, from another process and from anywhere.

use rustix::process::Signal;
use serde_json::json;

use super::{history, repository, silent, states, whole_tasks};
use crate::harness::script::{attempt, opening, script};
use crate::harness::{Act, containers_of, image};

fn in_a_step() -> Act {
    let turns = opening("write it").into_iter().chain(attempt("right\n"));
    Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("slow", "printf 'in the %s\\n' step; sleep 600")])
        .script(&script(turns))
}

/// TASK-14, TASK-25: the whole of what a cancel promises.
#[test]
fn a_running_task_is_cancelled_from_outside_and_the_next_one_starts() {
    let act = in_a_step();
    let first = act.clone().start(["run", "first", "--verbose"]);
    first.until_stderr_has("in the step");
    let second = act.clone().script(&silent()).start(["run", "second"]);
    second.until_stderr_has("Waiting: ");
    let run_id = history(&act)[0].run_ids[0].clone();
    let task_id = history(&act)[0].task_id.clone();

    let told = act.clone().act(["cancel"]).status(0);
    assert_eq!(
        told.stdout_text(),
        format!("{task_id} is cancelled; its changes so far stay in the working tree\n")
    );
    assert_eq!(containers_of(&run_id), Vec::<String>::new(), "gone when the command returns");
    let told = first.wait().status(130).stdout_has("CANCELLED");
    assert_eq!(told.read("answer.txt"), "right\n", "partial changes stay");
    second.until_stderr_has("Analyzing codebase...");
    let left = ["context_001.md", "context_latest.md"];
    assert_eq!(told.agent_files(), left, "no summary, no report, no further snapshot");
    let ends: Vec<_> = states(&act).into_iter().map(|(_, state)| state).collect();
    assert_eq!(ends, ["CANCELLED", "RUNNING"]);

    // By id, from a directory outside any repository.
    let task_id = history(&act)[1].task_id.clone();
    let told = act.clone().within("/".into()).act(["cancel", "--id", &task_id, "--json"]).status(0);
    let document = told.document("cancel");
    assert_eq!(document, json!({"schema": 2, "task_id": task_id, "was": "RUNNING", "ended": true}));
    second.wait().status(130);
    act.clone().act(["cancel"]).status(1).stderr_has("no task runs");
    act.act(["cancel", "--id", &task_id]).status(1).stderr_has("has ended as CANCELLED");
}

/// TASK-25: gone without a trace, and the rest move up.
#[test]
fn a_waiting_task_is_cancelled_by_its_place_or_its_id() {
    let act = repository().script(&silent());
    let first = act.clone().start(["run", "first"]);
    first.until_stderr_has("Analyzing codebase...");
    let [second, third, fourth] = ["second", "third", "fourth"].map(|text| {
        let running = act.clone().start(["run", text]);
        running.until_stderr_has("Waiting: ");
        running
    });
    let task_id = history(&act)[1].task_id.clone();
    let journal = act.artifacts().join(format!("state/journal/{task_id}.jsonl"));
    assert!(journal.exists());
    let told = act.clone().act(["cancel", "--id", "1"]).status(0);
    assert_eq!(told.stdout_text(), format!("{task_id} was removed from the queue\n"));
    second.wait().status(130).stdout_has("CANCELLED");
    assert!(!journal.exists());
    third.until_stderr_has("Waiting: place 1;");
    fourth.until_stderr_has("Waiting: place 2;");
    act.clone().act(["cancel", "--id", "3"]).status(1).stderr_has("no task waits at position 3");
    act.clone().act(["cancel", "--id", "nonsense"]).status(2);

    let last = history(&act)[2].task_id.clone();
    act.clone().act(["cancel", "--id", &last]).status(0);
    fourth.wait().status(130);
    let left: Vec<_> = states(&act).into_iter().map(|(text, _)| text).collect();
    assert_eq!(left, ["first", "third"]);
    act.clone().act(["cancel"]).status(0);
    first.wait().status(130);
    third.until_stderr_has("Analyzing codebase...");
    third.signal(Signal::INT);
    third.wait().status(130);
}

/// TASK-20, TASK-25: the number of a dead process may belong to another process by now.
#[test]
fn a_dead_task_is_not_cancelled_but_shown_as_what_it_is() {
    let act = repository();
    let told = act.clone().script(&whole_tasks(1)).env("ACT_FAIL_POINT", "started");
    assert_eq!(told.start(["run", "first"]).wait().killed_by(), Some(9));
    let task_id = history(&act)[0].task_id.clone();
    let told = act.clone().act(["cancel", "--id", &task_id]).status(1);
    told.stderr_has("has ended as INFRA_ERROR");
}

/// TASK-25: a stopped process cannot end; asked for its end, it is let go on first.
#[test]
fn a_stopped_task_is_cancelled_as_well() {
    let act = repository().script(&silent());
    let first = act.clone().start(["run", "first"]);
    first.until_stderr_has("Analyzing codebase...");
    first.stop();
    act.act(["cancel"]).status(0);
    first.wait().status(130);
}
