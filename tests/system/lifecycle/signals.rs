//! SIGINT in each phase of a task: CANCELLED, 130, the tree stays, no container, and the next one starts.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{containers, history, repository, silent};
use crate::harness::script::{asking, attempt, call, opening, script};
use crate::harness::{Act, image};

/// The model falls silent here.
fn stall(role: &str) -> Value {
    json!({"role": role, "text": "thinking", "stall_after_bytes": 40})
}

#[track_caller]
fn cancelled_in(what: &str, act: &Act, shows: &str, tree: &str) {
    let first = act.clone().start(["run", "first", "--verbose"]);
    first.until_stderr_has(shows);
    let second = act.clone().script(&silent()).start(["run", "second"]);
    second.until_stderr_has("Waiting: place 1");
    first.signal(Signal::INT);
    let told = first.wait().status(130).stdout_has("CANCELLED");
    assert_eq!(told.read("answer.txt"), tree, "{what}");
    assert!(!told.repo().join("agent/summary.md").exists(), "{what}");
    assert!(!told.repo().join("agent/stuck_report.md").exists(), "{what}");
    second.until_stderr_has("Analyzing codebase...");
    assert_eq!(history(act)[0].state, "CANCELLED", "{what}");
    assert_eq!(containers(act), Vec::<String>::new(), "{what}");
    second.signal(Signal::INT);
    second.wait().status(130);
}

/// TASK-14, security line 139.
#[test]
fn a_signal_cancels_in_every_phase() {
    let opened = |rest: Vec<Value>| opening("look").into_iter().chain(rest);
    let planning = script([stall("editor")]);
    let asked = script([asking("look")[0].clone(), stall("scout-a")]);
    let editing =
        script(opened(attempt("partly\n").into_iter().take(2).chain([stall("editor")]).collect()));
    let closing = script(opened(vec![call("verify", json!({})), stall("editor")]));
    for (what, turns, shows, tree) in [
        ("planning", planning, "Analyzing codebase...", "none\n"),
        ("asking", asked, "Querying Scout A...", "none\n"),
        ("editing", editing, "replace answer.txt", "partly\n"),
        ("closing", closing, "PASS", "none\n"),
    ] {
        cancelled_in(what, &repository().script(&turns), shows, tree);
    }
    let slow = repository().pipeline(image(), &[("slow", "printf 'in the %s\\n' step; sleep 600")]);
    let verifying = script(opened(attempt("partly\n")));
    cancelled_in("verifying", &slow.script(&verifying), "in the step", "partly\n");
}
