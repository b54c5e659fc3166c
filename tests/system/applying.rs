//! `act apply`: a proposal made in the repository, refused, interrupted and finished.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::lifecycle::until;
use crate::harness::Act;
use crate::harness::json::lines as events;
use crate::harness::proposals::{GREEN, after_reading, named, proposal, repository};
use crate::harness::script::{attempt, call, done, opening, script};
use crate::harness::tree::fingerprint;

/// TASK-41, CLI-51: the model is not needed for what is green.
#[test]
fn a_proposal_is_applied_and_verified_without_a_word_of_the_model() {
    let act = repository();
    let dry = act.clone().script(&script(proposal())).act(["run", "--dry-run", "write the answer"]);
    let dry = dry.status(0);
    let told = act.clone().script("turns: []").act(["apply"]).status(0);
    assert!(told.requests().is_empty(), "{told}");
    let told = told.stderr_lines(&[
        "Implementing changes...",
        "Attempt 1/12...",
        "Running verification...",
    ]);
    assert_eq!(told.read("answer.txt"), "right\n");
    assert_eq!(told.read("sub/moved.sh"), "one\ntwo\nthree\n");
    assert!(!told.repo().join("gone.txt").exists());
    let run_id = &told.runs()[0];
    assert!(told.stdout_text().contains(&format!("SUCCESS: verified by {run_id}\n")), "{told}");
    assert!(told.read("agent/summary.md").contains("> Wrote the answer."), "{told}");
    assert_eq!(told.agent_files().len(), 4, "{told}");
    // Once is enough.
    let task = named(&dry);
    let again = act.clone().script("turns: []").act(["apply", &task]).status(1);
    let with_run = format!(", whose last run is {run_id} (PASS)");
    again.stderr_has("was applied by t-").stderr_has(&with_run).stderr_has("hint:");
    let newest = act.script("turns: []").act(["apply", "--json"]).status(1).json();
    assert_eq!(newest["code"], "already_applied");
    assert!(newest["message"].as_str().unwrap().contains(&with_run), "{newest}");
}

/// CLI-54: the command in an event works from any directory.
#[test]
fn a_proposal_made_from_elsewhere_is_applied_from_there_as_it_was_told() {
    let act = repository();
    let away = act.clone().within(act.artifacts().parent().unwrap().to_owned());
    let repo = act.repo().to_str().unwrap().to_owned();
    let dry = away.clone().script(&script(proposal()));
    let told = dry.act(["run", "--dry-run", "--json", "write the answer", "--repo", "repo"]);
    let told = told.status(0);
    let proposed = events(&told).into_iter().find(|event| event["type"] == "proposed").unwrap();
    let apply = proposed["apply"].as_str().unwrap().to_owned();
    assert!(apply.ends_with(&format!(" --repo {repo}")), "{apply}");
    let told = told.stderr_has(&format!("hint: `{apply}` makes these changes"));
    assert!(!told.repo().join("empty.txt").exists(), "{told}");
    let told = away.script("turns: []").act(apply.split(' ').skip(1)).status(0);
    assert_eq!(told.read("answer.txt"), "right\n");
}

/// EDITOR-52: the snapshot of the start is of the tree before the first file of the proposal.
#[test]
fn the_snapshot_of_the_start_is_taken_before_a_proposal_is_made() {
    let act = repository();
    act.clone().script(&script(proposal())).act(["run", "--dry-run", "write the answer"]).status(0);
    let told = act.script("turns: []").act(["apply", "--json"]).status(0);
    let events = events(&told);
    let at = |kind: &str| events.iter().position(|event| event["type"] == kind).unwrap();
    assert!(at("snapshot") < at("edit"), "{told}");
    assert_eq!(events[at("snapshot")]["milestone"], "task_start");
    let snapshot = told.read("agent/context_001.md");
    assert!(snapshot.contains("### Files modified\n\nnone\n"), "{snapshot}");
    assert!(snapshot.contains("write it"), "the strategy of the dry run: {snapshot}");
    assert!(!told.read("agent/context_002.md").contains("### Files modified\n\nnone\n"));
}

/// TASK-41, WORKSPACE-32: `agent/` is added to a `.gitignore` of the proposal when that is written, so it still fits.
#[test]
fn a_proposal_may_hold_ignore_rules() {
    let act = repository();
    let ignore = call("create", json!({"path": ".gitignore", "content": "*.o\n"}));
    let turns = opening("write it").into_iter().chain(attempt("right\n").into_iter().take(2));
    let dry = act.clone().script(&script(turns.chain([ignore, done()])));
    dry.act(["run", "--dry-run", "write it"]).status(0);
    let told = act.script("turns: []").act(["apply"]).status(0);
    assert_eq!(told.read(".gitignore"), "*.o\n/agent/\n");
}

/// WORKSPACE-32: however an `act apply` ends, git does not show the notes that it wrote.
#[test]
fn an_apply_that_comes_to_nothing_has_hidden_its_notes() {
    let act = repository();
    act.clone().script(&script(proposal())).act(["run", "--dry-run", "write the answer"]).status(0);
    let apply = || act.clone().script("turns: []");
    let killed = apply().env("ACT_FAIL_POINT", "applying").act(["apply"]);
    assert_eq!(killed.killed_by(), Some(9), "{killed}");
    assert!(killed.agent_files().contains(&"context_001.md".to_owned()), "{killed}");
    assert_eq!(killed.read(".gitignore"), "/agent/\n");

    fs::remove_file(act.repo().join(".gitignore")).unwrap();
    // Nothing listens there, so no registry is asked.
    let act = act.clone().pipeline("127.0.0.1:1/act-test/none:1", &[("test", GREEN)]);
    let told = act.script("turns: []").act(["apply"]).status(4).stdout_has("image_pull");
    assert!(told.agent_files().contains(&"stuck_report.md".to_owned()), "{told}");
    assert_eq!(told.read(".gitignore"), "/agent/\n");
}

/// WORKSPACE-32: what has to wait until the proposal is applied is done then; meanwhile the directory hides itself.
#[test]
fn notes_are_hidden_before_the_proposal_is_applied() {
    let act = repository();
    let ignore = call("create", json!({"path": ".gitignore", "content": "*.o\n"}));
    let turns = opening("write it").into_iter().chain(attempt("right\n").into_iter().take(2));
    let dry = act.clone().script(&script(turns.chain([ignore, done()])));
    dry.act(["run", "--dry-run", "write it"]).status(0);
    let apply = || act.clone().script("turns: []");
    let killed = apply().env("ACT_FAIL_POINT", "applying").act(["apply"]);
    assert_eq!(killed.killed_by(), Some(9), "{killed}");
    assert_eq!(killed.read("agent/.gitignore"), "*\n");
    assert!(!act.repo().join(".gitignore").exists());
    let told = apply().act(["apply"]).status(0);
    assert_eq!(told.read(".gitignore"), "*.o\n/agent/\n");
}

/// TASK-41: what is red is mended by the usual rules, in a conversation that knows what was thought.
#[test]
fn an_applied_proposal_that_fails_is_mended() {
    let act = repository();
    let wrong =
        opening("guess").into_iter().chain(attempt("wrong\n").into_iter().take(2)).chain([done()]);
    act.clone().script(&script(wrong)).act(["run", "--dry-run", "write the answer"]).status(0);
    let mending = attempt("right\n").into_iter().chain([done()]);
    let told = act.script(&script(mending)).act(["apply", "--json"]).status(0).script_used_up();
    let events = events(&told);
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((of("verify_started"), of("edit"), of("scout_started")), (2, 2, 0), "{told}");
    let first = told.requests_of("editor")[0].body.to_string();
    for words in ["guess", "FAIL: wrong", "answer.txt holds the answer", "dry run proposed"] {
        assert!(first.contains(words), "no {words} in {first}");
    }
    assert_eq!(events.last().unwrap()["state"], "SUCCESS");
}

/// TASK-42: a proposal that another process applied meanwhile is refused when its turn comes.
#[test]
fn a_proposal_that_was_applied_while_it_waited_is_refused_without_a_milestone() {
    let act = repository();
    let dry = act.clone().script(&script(proposal()));
    let task = named(&dry.act(["run", "--dry-run", "write the answer"]).status(0));
    let turn = json!({"role": "editor", "text": "thinking", "stall_after_bytes": 40});
    let holds = act.clone().script(&script(vec![turn])).start(["run", "hold the line"]);
    holds.until_stderr_has("Analyzing codebase...");
    let waits = || {
        let waits = act.clone().script("turns: []").start(["apply", &task]);
        waits.until_stderr_has("Waiting:");
        waits
    };
    let (first, second) = (waits(), waits());
    act.clone().act(["cancel"]).status(0);
    holds.wait().status(130);
    first.wait().status(0).stderr_has("Implementing changes...");
    let told = second.wait().status(1).stderr_has("was applied by t-");
    told.stderr_lacks("Implementing changes...");
}

/// TASK-42: stale, edited, foreign: refused before the first byte.
#[test]
fn a_proposal_that_does_not_fit_any_more_changes_nothing() {
    let act = repository();
    let dry = || {
        let told = act.clone().script(&script(proposal()));
        named(&told.act(["run", "--dry-run", "write the answer"]).status(0))
    };
    #[track_caller]
    fn refused(act: &Act, arguments: &[&str], words: &str, code: &str) {
        let before = fingerprint(&act.repo());
        let told = act.clone().script("turns: []").act([arguments, &["--json"]].concat()).status(1);
        assert_eq!(fingerprint(&act.repo()), before, "{told}");
        let line = told.json();
        assert_eq!((&line["type"], &line["code"]), (&json!("refused"), &json!(code)), "{told}");
        told.stderr_has(words).stderr_has("hint: ");
    }
    let task = dry();
    let stale = act.repo().join("dos.txt");
    let was = fs::read(&stale).unwrap();
    fs::write(&stale, "changed").unwrap();
    refused(&act, &["apply"], "changed since the dry run: dos.txt", "proposal_stale");
    fs::remove_file(&stale).unwrap();
    refused(&act, &["apply", &task], "dos.txt", "proposal_stale");
    fs::write(&stale, was).unwrap();
    let taken = act.repo().join("empty.txt");
    fs::write(&taken, "mine").unwrap();
    refused(&act, &["apply"], "empty.txt", "proposal_stale");
    fs::remove_file(&taken).unwrap();

    let file = act.artifacts().join(format!("state/proposals/{task}.json"));
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("answer.txt", ".git/hooks")).unwrap();
    refused(&act, &["apply"], "its file was changed", "proposal_altered");
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &file).unwrap();
    refused(&act, &["apply"], "cannot be used", "proposal_altered");
    fs::remove_file(&file).unwrap();
    refused(&act, &["apply"], "its file is missing", "proposal_altered");
    fs::write(&file, text).unwrap();

    refused(&act, &["apply", "t-zzzzzz"], "no proposal of t-zzzzzz", "no_proposal");
    let elsewhere = tempfile::tempdir().unwrap();
    fs::create_dir(elsewhere.path().join(".git")).unwrap();
    let there = elsewhere.path().to_str().unwrap();
    refused(&act, &["apply", &task, "--repo", there], "another repository", "proposal_foreign");
    // All of that left it as good as it was.
    act.clone().script("turns: []").act(["apply", &task]).status(0);
}

/// TASK-42: a killed apply leaves each file old or new, the next task reports it, and it can be finished.
#[test]
fn a_killed_apply_is_told_and_finished() {
    let act = repository();
    let dry = act.clone().script(&script(proposal())).act(["run", "--dry-run", "write the answer"]);
    let task = named(&dry.status(0));
    for place in ["applying", "written", "adopted_files"] {
        let killed =
            act.clone().script("turns: []").env("ACT_FAIL_POINT", place).act(["apply", &task]);
        assert_eq!(killed.killed_by(), Some(9), "{place}: {killed}");
        let answer = killed.read("answer.txt");
        assert!(["none\n", "right\n"].contains(&answer.as_str()), "{answer}");
        let next =
            [json!({"role": "editor", "text": "hm"}), json!({"role": "editor", "text": "hm"})];
        let next = next.into_iter().chain([json!({"role": "editor", "text": "hm"})]);
        let told = act.clone().script(&script(next)).run("another").status(3);
        told.stderr_has("was killed while it wrote")
            .stderr_has(&format!("`act apply {task}` finishes it"));
    }
    let told = act.clone().script("turns: []").act(["apply"]).status(0);
    let told = told.stderr_has("killed after 7 of 7 files; it is finished now");
    // EDITOR-52: what the killed process wrote is a change of this task.
    let summary = told.read("agent/summary.md");
    assert!(summary.contains("- `answer.txt (replace)`"), "{summary}");
    let told = told.stdout_has("Changed, and verification depends on it: answer.txt");
    assert_eq!(told.read("answer.txt"), "right\n");
    let left = fs::read_dir(act.repo()).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("act-write")).collect();
    assert!(left.is_empty(), "{left:?}");
    let quiet = act.script("turns: []").act(["apply"]).status(1);
    quiet.stderr_has("was applied by");
}

/// TASK-43: every command about the tree or the task reports a half-applied proposal.
#[test]
fn half_of_a_proposal_is_told_by_status_and_verify() {
    let act = repository();
    let dry = act.clone().script(&script(proposal())).act(["run", "--dry-run", "write the answer"]);
    let task = named(&dry.status(0));
    let document = |arguments: &[&str], code: i32| -> Value {
        let told = act.clone().script("turns: []").act(arguments.iter().copied()).status(code);
        serde_json::from_str(&told.stdout_text()).unwrap()
    };
    assert_eq!(document(&["status", "--json"], 0).get("half_applied"), None);
    let killed = act.clone().script("turns: []").env("ACT_FAIL_POINT", "written");
    assert_eq!(killed.act(["apply", &task]).killed_by(), Some(9));

    assert_eq!(document(&["status", "--json"], 0)["half_applied"], json!([task]));
    let status = act.clone().script("turns: []").act(["status"]).status(0);
    let finish = format!("`act apply {task}` finishes it");
    status.stdout_has(&format!("Half applied: the proposal of {task}; {finish}"));
    // The first change is not the one that makes it green.
    let warning = &document(&["verify", "--json"], 3)["warnings"][0];
    assert_eq!(warning["code"], "proposal_unfinished");
    assert!(warning["message"].as_str().unwrap().ends_with(&finish), "{warning}");

    act.clone().script("turns: []").act(["apply"]).status(0);
    assert_eq!(document(&["status", "--json"], 0).get("half_applied"), None);
    assert_eq!(document(&["verify", "--json"], 0)["warnings"], json!([]));
}

/// WORKSPACE-56: changes that the user made meanwhile stay, and the message names the files.
#[test]
fn an_apply_that_cannot_take_back_everything_names_what_it_left() {
    let act = repository();
    let rewrite = |path: &str| {
        after_reading(path, "full_rewrite", json!({"path": path, "content": "right\n"}))
    };
    let turns = ["answer.txt", "gone.txt", "old.txt"].map(rewrite).concat();
    let turns = opening("write it").into_iter().chain(turns).chain([done()]);
    act.clone().script(&script(turns)).act(["run", "--dry-run", "write the answer"]).status(0);

    let writes = act.clone().script("turns: []").env("ACT_FAIL_POINT", "stop:written");
    let writes = writes.start(["apply"]);
    let pid = writes.pid().as_raw_nonzero().get() as u32;
    until("the first file is written", || {
        act_core::process::look_up(pid).unwrap().is_some_and(|seen| seen.stopped)
    });
    let repo = act.repo();
    assert_eq!(fs::read_to_string(repo.join("answer.txt")).unwrap(), "right\n");
    fs::write(repo.join("answer.txt"), "right\nmine\n").unwrap();
    fs::write(repo.join("old.txt"), "mine\n").unwrap();
    // The fail point is reached again with the next file.
    until("it goes on", || !writes.signal_if_alive(Signal::CONT));
    let told = writes.wait().status(1);
    let told = told
        .stderr_has("the repository has changed since the dry run: old.txt")
        .stderr_has("but answer.txt holds the bytes of this task, changed by another program since")
        .stderr_has("hint: check and correct these files first");
    let records = act.audit_records();
    let left: Vec<_> = records.iter().filter(|one| one["reason"] == "not_taken_back").collect();
    assert_eq!(left.len(), 1, "{records:?}");
    assert_eq!((&left[0]["event"], &left[0]["object"]), (&json!("edit"), &json!("answer.txt")));
    assert_eq!(told.read("answer.txt"), "right\nmine\n");
    assert_eq!((told.read("gone.txt"), told.read("old.txt")), ("x\n".into(), "mine\n".into()));
}
