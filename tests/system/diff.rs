//! `act diff`: what a task changed, however it ended, and what undoes it.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::proposals::{every_change, repository};
use crate::harness::script::{call, done, opening, script};
use crate::harness::{Act, UNTIL_TOLD, image};

fn git(act: &Act, arguments: &[&str]) {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@b"];
    let done = Command::new("git").args(identity).args(arguments).current_dir(act.repo()).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn success() -> Vec<Value> {
    every_change().into_iter().chain([call("verify", json!({})), done()]).collect()
}

/// CLI-59, ARTIFACT-23, TASK-44
#[test]
fn a_task_is_undone_by_its_patch_also_after_its_changes_were_committed() {
    let act = repository();
    git(&act, &["init", "-q"]);
    git(&act, &["add", "-A"]);
    git(&act, &["commit", "-q", "-m", "before"]);
    let act = act.file("mine.txt", "not committed\n");
    act.clone().act(["diff"]).status(1).stderr_has("no task has run in this repository yet");
    let told = act.clone().script(&script(success())).run("write it").status(0);
    let told = told.stderr_has("Uncommitted: 1 file differs from the last commit: mine.txt");
    assert!(told.read("answer.txt").contains("right"));
    git(&act, &["add", "-A"]);
    git(&act, &["commit", "-q", "-m", "after"]);
    // A newer dry run has changed nothing, so it is not the task that is meant.
    let dry = [opening("x"), vec![call("create", json!({"path": "x", "content": "x\n"})), done()]]
        .concat();
    act.clone().script(&script(dry)).act(["run", "--dry-run", "x"]).status(0);

    let shown = act.clone().act(["diff", "--json"]).status(0).document("diff");
    assert_eq!(shown["state"], "SUCCESS");
    assert_eq!(shown["left_out"], json!([]));
    let ops: Vec<_> = shown["files"].as_array().unwrap().iter().map(|file| &file["op"]).collect();
    assert_eq!(ops, ["replace", "replace", "create", "delete", "create", "move"], "{shown:#}");
    let id = shown["task_id"].as_str().unwrap();
    let printed = act.clone().act(["diff", id]).status(0).stderr("");
    assert_eq!(printed.stdout_text(), shown["diff"]);
    let originals = act.artifacts().join("state/originals").join(id);
    for entry in fs::read_dir(&originals).unwrap() {
        use std::os::unix::fs::PermissionsExt;
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    // Security line 263: a list of changes that lacks one gives no patch that seems to be whole.
    let list = originals.join("changes");
    let whole = fs::read_to_string(&list).unwrap();
    let shorter: Vec<_> = whole.lines().filter(|line| !line.contains("gone.txt")).collect();
    let shorter = format!("{}\n", shorter.join("\n"));
    assert!(shorter.len() < whole.len() && shorter.contains("answer.txt"), "{whole}");
    for (cut, named) in [("", "answer.txt"), (&*shorter, "gone.txt")] {
        fs::write(&list, cut).unwrap();
        let told = act.clone().act(["diff"]).status(1).stdout("");
        told.stderr_has("not stored as they were before").stderr_has(named);
    }
    fs::write(&list, &whole).unwrap();
    let patch = act.artifacts().join("patch");
    fs::write(&patch, printed.stdout_text()).unwrap();
    git(&act, &["apply", "-R", patch.to_str().unwrap()]);
    for (path, text) in
        [("answer.txt", "none\n"), ("old.txt", "one\ntwo\nthree\n"), ("gone.txt", "x\n")]
    {
        assert_eq!(fs::read_to_string(act.repo().join(path)).unwrap(), text);
    }
    assert!(!act.repo().join("empty.txt").exists() && !act.repo().join("sub/moved.sh").exists());
    assert_eq!(act.act(["diff"]).status(1).stderr_text().matches("answer.txt").count(), 1);
}

/// CLI-59
#[test]
fn a_cancelled_task_has_a_patch_and_a_changed_file_or_a_lost_original_is_named() {
    let act = Act::new()
        .file("answer.txt", "none\n")
        .file("other.txt", "one\n")
        .file(".env", "KEY=of the user\n")
        .pipeline(image(), &[("wait", UNTIL_TOLD)]);
    let rewrite = |path: &str, content: &str| {
        let arguments =
            json!({"path": path, "expect_version": "{{last_version}}", "content": content});
        [call("read", json!({"path": path})), call("full_rewrite", arguments)]
    };
    let mut turns = opening("write it");
    turns.extend(rewrite("answer.txt", "half\n"));
    turns.extend(rewrite(".env", "KEY=of the task\n"));
    turns.push(call("verify", json!({})));
    let arguments = ["run", "--allow-path", ".env", "--verbose", "write it"];
    let running = act.clone().script(&script(turns)).start(arguments);
    running.until_stderr_has("it has begun");
    act.clone().act(["cancel"]).status(0);
    running.wait().status(130).stdout_has("CANCELLED");

    let told = act
        .clone()
        .act(["diff"])
        .status(0)
        .stderr_has("left out, because they may hold secrets: .env");
    let expected = "diff --git a/answer.txt b/answer.txt\n--- a/answer.txt\n+++ b/answer.txt\n@@ -1,1 +1,1 @@\n-none\n+half\n";
    let told = told.stdout(expected);
    drop(told);
    let act = act.file("answer.txt", "later\n");
    let told = act.clone().act(["diff", "--json"]).status(1);
    assert_eq!(told.json()["code"], "changed_since");
    told.stderr_has("answer.txt");
    let act = act.file("answer.txt", "half\n");
    act.clone().act(["diff"]).status(0);
    let task = fs::read_dir(act.artifacts().join("state/originals"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    fs::write(task.join("1"), "damaged").unwrap();
    let told = act.clone().act(["diff", "--json"]).status(1);
    assert_eq!(told.json()["code"], "originals_gone");
    told.stderr_has("answer.txt");
    fs::remove_dir_all(&task).unwrap();
    act.clone().act(["diff"]).status(1).stderr_has("are not stored as they were before");
    act.act(["diff", "t-zzzzzz"]).status(1).stderr_has("there is no task t-zzzzzz");
}
