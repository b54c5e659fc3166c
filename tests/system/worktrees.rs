//! `act run --worktree`: tasks of one repository side by side, their way back, and what is left of them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::lifecycle::until;
use crate::harness::json::lines as events;
use crate::harness::proposals::after_reading;
use crate::harness::script::{call, done, opening, script};
use crate::harness::tree::{Entry, fingerprint};
use crate::harness::{Act, Done, UNTIL_TOLD, image};

fn git(act: &Act, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=/dev/null"];
    let done = Command::new("git").args(identity).args(arguments).current_dir(act.repo()).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn commit(act: &Act) {
    git(act, &["add", "-A"]);
    git(act, &["commit", "-q", "-m", "x"]);
}

/// A committed repository with two files of work, whose pipeline waits where a tree has `slow.txt`.
fn repository() -> Act {
    let test =
        format!("if [ -e slow.txt ]; then {UNTIL_TOLD}; fi; ! grep -qx wrong one.txt two.txt");
    let act = Act::new()
        .file("one.txt", "none\n")
        .file("two.txt", "none\n")
        .file("dos.txt", "a\r\nb")
        .pipeline(image(), &[("test", &test)]);
    git(&act, &["init", "-q"]);
    commit(&act);
    act
}

/// Returns the turns of a task that writes a file, and one that verifies it.
fn writes(path: &str, text: &str) -> Vec<Value> {
    let rewrite = json!({"path": path, "content": text});
    let edit = after_reading(path, "full_rewrite", rewrite);
    let end = [call("verify", json!({})), done()];
    [opening("write it"), edit, end.into()].concat()
}

/// Returns everything in the repository but what git knows of worktrees.
fn untouched(act: &Act) -> BTreeMap<PathBuf, Entry> {
    let (git, trees) = (act.repo().join(".git"), act.repo().join(".git/worktrees"));
    let mut all = fingerprint(&act.repo());
    all.retain(|path, _| *path != git && !path.starts_with(&trees));
    all
}

/// Lets every step that waits continue.
fn tell_steps(act: &Act) {
    for run in fs::read_dir(act.artifacts().join("runs")).unwrap() {
        let db = run.unwrap().path().join("db");
        if db.is_dir() {
            fs::write(db.join("go"), "").unwrap();
        }
    }
}

fn document(act: &Act, arguments: &[&str], schema: &str) -> Value {
    act.clone().act(arguments.iter().copied()).status(0).document(schema)
}

fn task_of(done: &Done) -> String {
    let first = events(done).into_iter().find(|event| event["type"] == "task_queued").unwrap();
    first["task_id"].as_str().unwrap().to_owned()
}

fn trees(act: &Act) -> Vec<Value> {
    document(act, &["worktrees", "--json"], "worktrees")["worktrees"].as_array().unwrap().clone()
}

/// WORKTREE-1, WORKTREE-10, WORKTREE-14
#[test]
fn two_tasks_of_one_repository_work_at_once_and_both_are_applied() {
    let act = repository();
    let before = untouched(&act);
    let slow = call("create", json!({"path": "slow.txt", "content": "x\n"}));
    let mut turns = writes("one.txt", "first\n");
    turns.insert(1, slow);
    let first = act.clone().script(&script(turns));
    let first = first.start(["run", "--worktree", "--json", "write one"]);
    first.until_stdout_has("step_started");
    let second = act.clone().script(&script(writes("two.txt", "second\n")));
    let second = second.act(["run", "--worktree", "--json", "write two"]).status(0);
    let second_id = task_of(&second);
    assert!(!second.stdout_text().contains(r#""type":"waiting""#), "{second}");
    second.stderr_has(&format!("`act apply {second_id}`"));

    // Both are tasks of this repository, and each has a tree of its own.
    let status = document(&act, &["status", "--all", "--json"], "status");
    assert_eq!(status["running"], Value::Null, "nothing runs in the repository itself");
    let states: Vec<_> = status["worktrees"].as_array().unwrap().iter().collect();
    assert_eq!(states.len(), 2, "{status:#}");
    assert_eq!((&states[0]["state"], &states[0]["changes"]), (&json!("SUCCESS"), &json!("open")));
    assert_eq!((&states[1]["state"], &states[1]["changes"]), (&json!("RUNNING"), &json!("none")));
    let history = document(&act, &["history", "--json"], "history");
    let shown = &history["tasks"][0];
    assert_eq!(shown["task_id"], second_id);
    assert_eq!(shown["worktree"]["path"], states[0]["path"]);
    let in_use = states[1]["task_id"].as_str().unwrap();
    let told = act.clone().act(["worktrees", "remove", in_use, "--force", "--json"]).status(1);
    assert_eq!(told.json()["code"], "worktree_in_use");

    tell_steps(&act);
    let first = first.wait().status(0);
    let first_id = task_of(&first);
    assert_eq!(untouched(&act), before, "only .git/worktrees was written");

    // The journal, the audit log and the patch name the repository and the worktree.
    let started = events(&first).into_iter().find(|event| event["type"] == "task_started").unwrap();
    assert_eq!(started["repo"], act.repo().to_str().unwrap());
    let path = started["worktree"]["path"].as_str().unwrap().to_owned();
    assert!(path.ends_with(&format!("state/worktrees/{first_id}/tree")), "{path}");
    let head = git(&act, &["rev-parse", "HEAD"]);
    assert_eq!(
        (&started["worktree"]["head"], &started["worktree"]["dirty"]),
        (&json!(head.trim()), &json!(false))
    );
    let audit = document(
        &act,
        &["audit", "list", "--repo", ".", "--task", &first_id, "--json"],
        "audit-list",
    );
    let records = audit["records"].as_array().unwrap();
    let start = records.iter().find(|record| record["event"] == "task_started").unwrap();
    assert_eq!((&start["object"], &start["names"][0]), (&json!(path), &json!("worktree")));
    assert!(
        records.iter().all(|record| record["repo"]["worktree_of"] == status["repo"]["identity"])
    );
    let diff = document(&act, &["diff", &first_id, "--json"], "diff");
    assert_eq!(diff["worktree"]["path"], path);
    assert!(diff["diff"].as_str().unwrap().contains("+first"), "{diff:#}");
    assert_eq!(
        git(&act, &["-C", &path, "status", "--porcelain"]).lines().count(),
        2,
        "what it wrote"
    );

    for id in [&second_id, &first_id] {
        let apply = act.clone().script("turns: []").start(["apply", id, "--json"]);
        if id == &first_id {
            apply.until_stdout_has("step_started");
            tell_steps(&act);
        }
        apply.wait().status(0);
    }
    let read = |name: &str| fs::read_to_string(act.repo().join(name)).unwrap();
    assert_eq!((read("one.txt"), read("two.txt")), ("first\n".to_owned(), "second\n".to_owned()));
    let told = act.clone().script("turns: []").act(["apply", &first_id, "--json"]).status(1);
    assert_eq!(told.json()["code"], "already_applied");
    assert!(trees(&act).iter().all(|tree| tree["changes"] == "applied"));
    let removed = document(&act, &["worktrees", "remove", "--done", "--json"], "worktrees-removed");
    assert_eq!(removed["removed"].as_array().unwrap().len(), 2, "{removed:#}");
    assert!(trees(&act).is_empty());
    assert!(!act.repo().join(".git/worktrees").exists());
    assert_eq!(git(&act, &["worktree", "list"]).lines().count(), 1);
}

/// WORKTREE-4, WORKTREE-5
#[test]
fn nothing_of_a_hostile_repository_runs_when_a_worktree_is_made_used_and_removed() {
    let act = repository();
    let ran = act.artifacts().with_file_name("ran");
    let evil = format!("#!/bin/sh\necho \"$0\" >> {}\n", ran.display());
    for hook in ["post-checkout", "post-index-change", "reference-transaction", "fsmonitor"] {
        for dir in [".git/hooks", "hooks"] {
            let path = act.repo().join(dir).join(hook);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &evil).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let program = act.repo().join("hooks/fsmonitor").display().to_string();
    let config = act.repo().join(".git/config");
    let before = fs::read_to_string(&config).unwrap();
    fs::write(
        &config,
        format!(
            "{before}\n[core]\n\thooksPath = hooks\n\tfsmonitor = {program}\n\tautocrlf = true\n\tsshCommand = {program}\n\
             [filter \"x\"]\n\tsmudge = {program}\n\tclean = {program}\n\tprocess = {program}\n[diff]\n\texternal = {program}\n"
        ),
    )
    .unwrap();
    let told = act.clone().script(&script(writes("one.txt", "first\n")));
    let told = told.act(["run", "--worktree", "--json", "write one"]).status(0);
    let id = task_of(&told);
    let tree = act.artifacts().join("state/worktrees").join(&id).join("tree");
    assert_eq!(fs::read(tree.join("dos.txt")).unwrap(), b"a\r\nb", "as git stores it");
    act.clone().script("turns: []").act(["apply", &id]).status(0);
    act.clone().act(["worktrees", "remove", &id]).status(0);
    assert!(!ran.exists(), "{}", fs::read_to_string(&ran).unwrap_or_default());
}

/// WORKTREE-5: each is refused with its reason, and nothing is left of it.
#[test]
fn what_act_cannot_write_down_is_refused_by_name() {
    let lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    let refused = |act: &Act, words: &str, code: &str| {
        let told =
            act.clone().script("turns: []").act(["run", "--worktree", "--json", "x"]).status(1);
        assert_eq!(told.json()["code"], code, "{told}");
        told.stderr_has(words).stderr_has("hint: ");
        let trees = act.artifacts().join("state/worktrees");
        assert!(fs::read_dir(&trees).map_or(0, Iterator::count) == 0, "{words}");
        assert!(!act.repo().join(".git/worktrees").exists(), "{words}");
    };
    let with = |path: &str, text: &str| {
        let act = repository().file(path, text);
        commit(&act);
        act
    };
    refused(&with("big.bin", lfs), "big.bin is a file of git LFS", "worktree_failed");
    let filter = with("sub/.gitattributes", "*.bin filter=x\n");
    refused(&filter, "sub/.gitattributes sets a filter", "worktree_unsupported");
    refused(
        &with(".gitattributes", "* eol=crlf\n"),
        "conversion of line ends",
        "worktree_unsupported",
    );
    let act = repository();
    let id = "0123456789012345678901234567890123456789";
    git(&act, &["update-index", "--add", "--cacheinfo", &format!("160000,{id},lib")]);
    git(&act, &["commit", "-q", "-m", "y"]);
    refused(&act, "lib is a submodule", "worktree_unsupported");

    // A partial clone lacks an object.
    let act = repository();
    let blob = git(&act, &["rev-parse", "HEAD:one.txt"]);
    let (dir, rest) = blob.trim().split_at(2);
    fs::remove_file(act.repo().join(".git/objects").join(dir).join(rest)).unwrap();
    refused(&act, "cannot be read", "worktree_failed");

    let act = Act::new().pipeline(image(), &[("test", "true")]);
    fs::remove_dir_all(act.repo().join(".git")).unwrap();
    git(&act, &["init", "-q", "--object-format=sha256"]);
    commit(&act);
    refused(&act, "SHA-256", "worktree_unsupported");

    let act = repository();
    git(&act, &["rm", "-q", "--cached", "agent.yaml"]);
    git(&act, &["commit", "-q", "-m", "y"]);
    refused(&act, "agent.yaml is not in the last commit", "worktree_without_config");
}

/// WORKTREE-6, WORKTREE-7
#[test]
fn uncommitted_changes_come_along_and_secrets_that_are_not_committed_do_not() {
    let act = repository().file(".gitignore", "*.log\nkept.env\n").file("committed.pem", "public");
    commit(&act);
    let act = act
        .file("one.txt", "mine\n")
        .file("new.txt", "new\n")
        .file("x.log", "ignored")
        .file("id_rsa", "secret")
        .file("kept.env", "wanted");
    let yaml = fs::read_to_string(act.repo().join("agent.yaml")).unwrap();
    let mut yaml: Value = serde_json::from_str(&yaml).unwrap();
    yaml["verification"]["include"] = json!(["kept.env"]);
    let act = act.file("agent.yaml", yaml.to_string());
    fs::remove_file(act.repo().join("dos.txt")).unwrap();
    let told = act.clone().script(&script(writes("one.txt", "theirs\n")));
    let told = told.act(["run", "--worktree", "--dirty", "--json", "write one"]).status(0);
    let id = task_of(&told);
    told.stderr_has("names are those of secrets and they are not committed: id_rsa");
    let tree = act.artifacts().join("state/worktrees").join(&id).join("tree");
    let has = |name: &str| tree.join(name).exists();
    let found = ["new.txt", "committed.pem", "kept.env", "x.log", "id_rsa", "dos.txt"].map(has);
    assert_eq!(found, [true, true, true, false, false, false]);

    // What the user changes meanwhile is named, and nothing is written.
    let theirs = act.repo().join("one.txt");
    fs::write(&theirs, "mine again\n").unwrap();
    let told = act.clone().script("turns: []").act(["apply", &id, "--json"]).status(1);
    assert_eq!(told.json()["code"], "proposal_stale");
    told.stderr_has("the repository has changed since the worktree was made: one.txt");
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "mine again\n");
    let told = act.clone().act(["worktrees", "remove", &id, "--json"]).status(1);
    assert_eq!(told.json()["code"], "worktree_not_applied");
    fs::write(&theirs, "mine\n").unwrap();
    act.clone().script("turns: []").act(["apply", &id]).status(0);
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs\n");

    // What was written there by hand is not lost without a word.
    fs::write(tree.join("notes.txt"), "by hand").unwrap();
    let kept = document(&act, &["worktrees", "remove", "--done", "--json"], "worktrees-removed");
    assert!(kept["kept"][0]["why"].as_str().unwrap().contains("have changed since"), "{kept:#}");
    act.clone().act(["worktrees", "remove", &id, "--force"]).status(0);
    assert!(!tree.exists());
}

/// WORKTREE-9: a killed `act` leaves nothing over which a later one stumbles.
#[test]
fn a_worktree_of_a_killed_process_is_removed_by_the_next_command() {
    let act = repository();
    for place in ["worktree_begun", "worktree_written", "worktree_linked"] {
        let killed = act.clone().script("turns: []").env("ACT_FAIL_POINT", place);
        let killed = killed.act(["run", "--worktree", "x"]);
        assert_eq!(killed.killed_by(), Some(9), "{place}: {killed}");
        let trees_dir = act.artifacts().join("state/worktrees");
        assert_eq!(fs::read_dir(&trees_dir).unwrap().count(), 1, "{place}");
        assert!(trees(&act).is_empty());
        assert_eq!(fs::read_dir(&trees_dir).unwrap().count(), 0, "{place}");
        assert!(!act.repo().join(".git/worktrees").exists(), "{place}");
    }
    // One that was killed at work is a task of this repository, whose end is recorded here.
    let killed = act.clone().script(&script(writes("one.txt", "first\n")));
    killed.env("ACT_FAIL_POINT", "started").act(["run", "--worktree", "x"]);
    let history = document(&act, &["history", "--json"], "history");
    assert_eq!(history["tasks"][0]["reason"], "interrupted");
    let id = history["tasks"][0]["task_id"].as_str().unwrap().to_owned();
    let told = act.clone().script("turns: []").act(["apply", &id, "--json"]).status(1);
    assert_eq!(told.json()["code"], "no_proposal");
    act.clone().act(["worktrees", "remove", &id]).status(1).stderr_has("did not succeed");
    let again = act.clone().script(&script(writes("one.txt", "first\n")));
    let again = again.act(["run", "--again", &id, "--json"]).status(0);
    assert!(events(&again).iter().any(|event| event["worktree"].is_object()), "{again}");
    act.clone().act(["worktrees", "remove", &id, "--force"]).status(0);
    assert_eq!(trees(&act).len(), 1);
}

/// WORKTREE-8: the file that leads git to its directory is no file of the task.
#[test]
fn a_task_cannot_write_the_pointer_of_its_worktree() {
    let act = repository();
    let write = call("create", json!({"path": ".git", "content": "gitdir: /elsewhere\n"}));
    let mut turns = writes("one.txt", "first\n");
    turns.insert(1, write);
    let told = act.clone().script(&script(turns));
    let told = told.act(["run", "--worktree", "--json", "x"]).status(0);
    let refused = events(&told).into_iter().find(|event| event["type"] == "edit_refused").unwrap();
    assert_eq!((&refused["path"], &refused["reason"]), (&json!(".git"), &json!("protected")));
    let id = task_of(&told);
    let pointer = act.artifacts().join("state/worktrees").join(&id).join("tree/.git");
    assert!(fs::read_to_string(pointer).unwrap().contains(&format!("worktrees/act-{id}")));
}

/// WORKTREE-11: in the background, and cancelled from the repository.
#[test]
fn a_detached_task_works_in_its_worktree_and_is_cancelled_from_the_repository() {
    let act = repository();
    let turn = json!({"role": "editor", "text": "thinking", "stall_after_bytes": 40});
    let act = act.script(&script([turn]));
    let told = act.clone().act(["run", "--worktree", "--detach", "--json", "x"]).status(0);
    let id = told.json()["task_id"].as_str().unwrap().to_owned();
    until("the task runs", || trees(&act)[0]["state"] == "RUNNING");
    act.clone().act(["cancel", "--id", &id]).status(0);
    assert_eq!(trees(&act)[0]["state"], "CANCELLED");
}
