//! Looking before leaping: what a dry run leaves, shows and keeps, and what becomes of it.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::program;
use crate::harness::proposals::{proposal, repository};
use crate::harness::script::{attempt, call, done, opening, script};

/// WORKSPACE-30, TASK-10: found before the task is accepted, and not in the way of who only looks.
#[test]
fn a_repository_that_cannot_be_written_is_refused_with_a_hint() {
    if !rustix::process::geteuid().is_root() {
        act_core::testing::skip("a read-only mount needs root");
        return;
    }
    let act = repository();
    let read_only = |turns: Vec<Value>, arguments: &[&str]| {
        let mut mounted = Command::new("unshare");
        let around = r#"
            mount --bind "$PWD" "$PWD" && mount -o remount,bind,ro "$PWD" && cd "$PWD" && exec "$0" "$@"
        "#;
        mounted.args(["--mount", "sh", "-c", around, program()]).args(arguments);
        act.clone().script(&script(turns)).start_command(mounted).wait()
    };
    read_only(proposal(), &["run", "--dry-run", "write the answer"]).status(0);
    for arguments in [&["apply"][..], &["run", "write the answer"]] {
        let told = read_only(vec![], arguments).status(1).stderr_has("hint: ");
        told.stderr_has("repo cannot be written: Read-only file system")
            .stderr_has("`act run --dry-run`");
    }
    let history = act.script("turns: []").act(["history", "--json"]).status(0).stdout_text();
    let history: Value = serde_json::from_str(&history).unwrap();
    assert_eq!(history["tasks"].as_array().unwrap().len(), 1, "{history}");
}

/// TASK-41, line 55: what the user allowed for the dry run is allowed for its proposal, and nothing else.
#[test]
fn guarded_paths_need_the_permission_of_the_dry_run() {
    let act = repository();
    let edit = || {
        let mut turns = opening("write it");
        turns.push(call("create", json!({"path": ".envrc", "content": "x\n"})));
        turns.extend(attempt("right\n").into_iter().take(2));
        turns.push(done());
        turns
    };
    let dry = ["run", "--dry-run", "--allow-path", ".envrc", "write it"];
    let told = act.clone().script(&script(edit())).act(dry).status(0);
    assert!(told.stdout_text().contains("+++ b/.envrc"), "{told}");
    let told = act.clone().script("turns: []").act(["apply"]).status(0);
    assert!(told.read("agent/summary.md").contains(".envrc"), "{told}");
}

/// EDITOR-51: failures that were there before the first edit are named as such, and count as no attempt.
#[test]
fn a_baseline_is_no_attempt_and_stands_in_the_summary() {
    let act = repository();
    let turns = opening("write it").into_iter().chain(attempt("none\n")).chain(attempt("right\n"));
    let told =
        act.clone().script(&script(turns.chain([done()]))).act(["run", "--baseline", "write it"]);
    let told = told.status(0).script_used_up();
    assert_eq!(told.runs().len(), 3, "{told}");
    let told = told
        .stderr_has("Before the first edit: FAIL in step \"test\" (run_")
        .stderr_has("- FAIL: none")
        .stderr_has("Attempt 2/12...")
        .stderr_lacks("Attempt 3/12...");
    let summary = told.read("agent/summary.md");
    for words in ["## Before the first edit", "FAIL: none", "Failed so as well: attempts 1."] {
        assert!(summary.contains(words), "no {words} in {summary}");
    }
    let requests = told.requests_of("editor");
    assert!(requests[0].body.to_string().contains("Before any edit the pipeline failed"));
    assert!(requests.iter().any(|request| {
        request
            .body
            .to_string()
            .contains("every one of these failures was there before your first edit")
    }));
}
