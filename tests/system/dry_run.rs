//! Looking before leaping: what a dry run leaves, shows and keeps, and what becomes of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::json::lines as events;
use super::lifecycle::until;
use super::untouched::{committed, fingerprint, git, with_attributes};
use crate::harness::script::{attempt, call, done, opening, script};
use crate::harness::{Act, CANARY, Done, image, program};

const GREEN: &str = "grep -qx right answer.txt || { echo FAIL: $(cat answer.txt); exit 1; }";

pub(super) fn repository() -> Act {
    Act::new()
        .file("answer.txt", "none\n")
        .file("old.txt", "one\ntwo\nthree\n")
        .file("dos.txt", "a\r\nb\r\nc")
        .file("gone.txt", "x\n")
        .pipeline(image(), &[("test", GREEN)])
}

/// The file as the tools know it, and then what is to be done with it.
fn after_reading(path: &str, tool: &str, arguments: Value) -> Vec<Value> {
    let mut arguments = arguments;
    arguments["expect_version"] = "{{last_version}}".into();
    vec![call("read", json!({"path": path})), call(tool, arguments)]
}

/// Every kind of change that a patch can hold.
fn every_change() -> Vec<Value> {
    let mut turns = opening("write it");
    turns.extend(after_reading(
        "answer.txt",
        "full_rewrite",
        json!({"path": "answer.txt", "content": "right\n"}),
    ));
    turns.push(call("create", json!({"path": "new/ä b.txt", "content": "no end"})));
    turns.push(call("create", json!({"path": "empty.txt", "content": ""})));
    turns.extend(after_reading(
        "old.txt",
        "move",
        json!({"from": "old.txt", "to": "sub/moved.sh"}),
    ));
    turns.extend(after_reading("gone.txt", "delete", json!({"path": "gone.txt"})));
    turns.extend(after_reading(
        "dos.txt",
        "edit_line",
        json!({"path": "dos.txt", "index": 1, "new": "B"}),
    ));
    turns
}

pub(super) fn proposal() -> Vec<Value> {
    every_change().into_iter().chain([done()]).collect()
}

/// The task whose proposal this is.
pub(super) fn named(done: &Done) -> String {
    let text = done.stderr_text();
    let (_, rest) = text.split_once("`act apply ").unwrap_or_else(|| panic!("{done}"));
    rest.split('`').next().unwrap().to_owned()
}

/// Security line 174, CLI-50, EDITOR-50, WORKSPACE-50, WORKSPACE-53.
#[test]
fn a_dry_run_leaves_no_trace_and_its_patch_is_what_was_meant() {
    let mut turns = every_change();
    turns.extend([call("verify", json!({})), done()]);
    let act = repository().without_engine();
    fs::set_permissions(act.repo().join("old.txt"), fs::Permissions::from_mode(0o755)).unwrap();
    committed(&act);
    with_attributes(&act.repo());
    let before = fingerprint(&act.repo());
    let told = act.clone().script(&script(turns)).act(["run", "--dry-run", "write the answer"]);
    let told = told.status(0).script_used_up();
    assert_eq!(fingerprint(&act.repo()), before, "{told}");
    assert!(told.agent_files().is_empty() && told.runs().is_empty(), "{told}");
    let last = told.requests_of("editor").pop().unwrap().body.to_string();
    assert!(last.contains("dry_run"), "the model is told that nothing is verified: {last}");
    let told = told
        .stderr_has("Proposed: 6 files")
        .stderr_has("- move old.txt to sub/moved.sh")
        .stderr_has("Wrote the answer.")
        .stderr_has("PROPOSED: nothing was verified")
        .stderr_lacks("Running verification");

    let (patch, repo) = (told.stdout_text(), act.repo());
    assert!(patch.starts_with("diff --git a/answer.txt b/answer.txt\n"), "{told}");
    git(&repo, &["apply", "--check", "-"], &patch);
    git(&repo, &["apply", "-"], &patch);
    let text = |path: &str| fs::read_to_string(repo.join(path)).unwrap();
    assert_eq!(text("answer.txt"), "right\n");
    assert_eq!(text("new/ä b.txt"), "no end");
    assert_eq!(text("empty.txt"), "");
    assert_eq!(text("sub/moved.sh"), "one\ntwo\nthree\n");
    assert_eq!(text("dos.txt"), "a\r\nB\r\nc");
    assert!(!repo.join("gone.txt").exists() && !repo.join("old.txt").exists());
    let mode = fs::metadata(repo.join("sub/moved.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
}

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
    again.stderr_has("was applied by t-").stderr_has("hint:");
    act.script("turns: []").act(["apply"]).status(1).stderr_has("no proposal to apply");
}

/// CLI-54: what an event tells to type, from anywhere.
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
    assert_eq!(told.read(".gitignore"), "*.o\nagent/\n");
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
    assert_eq!(killed.read(".gitignore"), "agent/\n");

    fs::remove_file(act.repo().join(".gitignore")).unwrap();
    // Nothing listens there, so no registry is asked.
    let act = act.clone().pipeline("127.0.0.1:1/act-test/none:1", &[("test", GREEN)]);
    let told = act.script("turns: []").act(["apply"]).status(4).stdout_has("image_pull");
    assert!(told.agent_files().contains(&"stuck_report.md".to_owned()), "{told}");
    assert_eq!(told.read(".gitignore"), "agent/\n");
}

/// WORKSPACE-32: what has to wait until the proposal is applied is said, and done then.
#[test]
fn notes_that_cannot_be_hidden_yet_are_told() {
    let act = repository();
    let ignore = call("create", json!({"path": ".gitignore", "content": "*.o\n"}));
    let turns = opening("write it").into_iter().chain(attempt("right\n").into_iter().take(2));
    let dry = act.clone().script(&script(turns.chain([ignore, done()])));
    dry.act(["run", "--dry-run", "write it"]).status(0);
    let apply = || act.clone().script("turns: []");
    let killed = apply().env("ACT_FAIL_POINT", "applying").act(["apply"]);
    assert_eq!(killed.killed_by(), Some(9), "{killed}");
    killed.stderr_has("git shows agent/").stderr_has("when the proposal is applied");
    assert!(!act.repo().join(".gitignore").exists());
    let told = apply().act(["apply"]).status(0);
    assert_eq!(told.read(".gitignore"), "*.o\nagent/\n");
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

/// TASK-42: what another one applied meanwhile begins nothing when its turn comes.
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
    refused(&act, &["apply"], "is not the one that was written", "proposal_altered");
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &file).unwrap();
    refused(&act, &["apply"], "cannot be used", "proposal_altered");
    fs::remove_file(&file).unwrap();
    refused(&act, &["apply"], "its file is gone", "proposal_altered");
    fs::write(&file, text).unwrap();

    refused(&act, &["apply", "t-zzzzzz"], "no proposal of t-zzzzzz", "no_proposal");
    let elsewhere = tempfile::tempdir().unwrap();
    fs::create_dir(elsewhere.path().join(".git")).unwrap();
    let there = elsewhere.path().to_str().unwrap();
    refused(&act, &["apply", &task, "--repo", there], "another repository", "proposal_foreign");
    // All of that left it as good as it was.
    act.clone().script("turns: []").act(["apply", &task]).status(0);
}

/// TASK-42: one that is killed on the way leaves each file old or new, the next one says so, and it can be finished.
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
    quiet.stderr_has("no proposal to apply");
}

/// WORKSPACE-30, TASK-10: found before the task is accepted, and not in the way of who only looks.
#[test]
fn a_repository_that_cannot_be_written_is_refused_with_a_hint() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not shown here: a read-only mount needs root");
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

/// TASK-43: whoever looks at the tree or at the task hears that half of a proposal stands there.
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

/// WORKSPACE-56: what the user wrote meanwhile stays, and he is told in which files.
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
        act::process::look(pid).unwrap().is_some_and(|seen| seen.stopped)
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
        .stderr_has("but answer.txt holds what was written there, changed by somebody else since")
        .stderr_has("hint: put these files right first");
    assert_eq!(told.read("answer.txt"), "right\nmine\n");
    assert_eq!((told.read("gone.txt"), told.read("old.txt")), ("x\n".into(), "mine\n".into()));
}

/// CLI-50: for a program every line is an event, the patch among them.
#[test]
fn a_dry_run_for_programs() {
    let act = repository().without_engine();
    let told = act.script(&script(proposal())).act(["run", "--dry-run", "--json", "write it"]);
    let told = told.status(0);
    let events = events(&told);
    let proposed = events.iter().find(|event| event["type"] == "proposed").unwrap();
    assert!(proposed["diff"].as_str().unwrap().starts_with("diff --git "), "{told}");
    assert_eq!(proposed["files"].as_array().unwrap().len(), 6);
    let last = events.last().unwrap();
    assert_eq!((&last["state"], &last["exit_code"]), (&json!("PROPOSED"), &json!(0)));
}

/// EDITOR-50: nothing to change is an end as well, and leaves nothing to apply.
#[test]
fn a_dry_run_without_a_change_has_an_empty_patch() {
    let act = repository().without_engine();
    let turns =
        opening("look").into_iter().chain([json!({"role": "editor", "text": "all is well"})]);
    let told = act.clone().script(&script(turns)).act(["run", "--dry-run", "look"]).status(0);
    let told = told.stdout("").stderr_has("Proposed: no change").stderr_lacks("act apply");
    drop(told);
    act.script("turns: []").act(["apply"]).status(1).stderr_has("no proposal to apply");
}

/// EDITOR-50: a dry run that comes to nothing leaves nothing either, and says why.
#[test]
fn a_dry_run_that_gets_stuck_writes_no_report() {
    let act = repository().without_engine();
    let silent = json!({"role": "editor", "text": "hm"});
    let before = fingerprint(&act.repo());
    let turns = [silent.clone(), silent.clone(), silent];
    let told = act.clone().script(&script(turns)).act(["run", "--dry-run", "x"]).status(3);
    assert_eq!(fingerprint(&act.repo()), before, "{told}");
    told.stdout("").stderr_has("STUCK: model_idle").stderr_has("Tokens: editor ");
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
        request.body.to_string().contains("it failed so before your first edit")
    }));
}

/// CLI-7, security line 169: a reader that wants the first line only changes nothing.
#[test]
fn a_patch_that_nobody_reads_to_its_end_is_no_trouble() {
    let act = repository().without_engine().script(&script(proposal()));
    let mut shell = Command::new("/bin/sh");
    let line = "{ \"$0\" run --dry-run x; echo \"code $?\" >&2; } | head -n 1";
    shell.args(["-c", line, crate::harness::program()]);
    let told = act.start_command(shell).wait();
    told.stderr_has("code 0")
        .stderr_lacks("panic")
        .stdout("diff --git a/answer.txt b/answer.txt\n");
}

/// EVENT-5, security line 162: what a model says about its proposal holds no key, wherever it is kept.
#[test]
fn a_key_that_the_model_says_is_not_kept_with_the_proposal() {
    let text = format!("the key is {CANARY}");
    let turns = every_change()
        .into_iter()
        .chain([call("done", json!({"what": text, "why": text, "tests": text}))]);
    let act = repository().env("OPENAI_API_KEY", CANARY).without_engine();
    let told = act.script(&script(turns)).act(["run", "--dry-run", "x"]).status(0);
    assert_eq!(told.files_with(CANARY), Vec::<PathBuf>::new(), "{told}");
    assert!(!told.to_string().contains(CANARY), "{told}");
}
