//! A dry run needs no engine: what it leaves, shows and stores.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;

use crate::harness::json::lines as events;
use crate::harness::proposals::{every_change, proposal, repository};
use crate::harness::script::{call, done, opening, script};
use crate::harness::tree::{committed, fingerprint, git, with_attributes};
use crate::harness::{CANARY, program};

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

/// CAPABILITY-30: `--verbose` shows each call of a component with its end, whatever the model was told.
#[test]
fn calls_of_components_show_under_verbose() {
    let act = repository().without_engine();
    let mut turns = proposal();
    turns.insert(turns.len() - 1, call("read", json!({"path": "nothing-like-this.txt"})));
    let run = |more: &[&str]| {
        let words = [&["run", "--dry-run", "write it"], more].concat();
        act.clone().script(&script(turns.clone())).act(words).status(0)
    };
    run(&["--verbose"]).stderr_has("file-tools: read answered after");
    run(&[]).stderr_lacks("file-tools: read answered");
}

/// AUDIT-18, security line 262: the log holds how a task ended as well as the store, which other commands believe.
#[test]
fn a_row_of_the_store_that_was_changed_is_named() {
    let act = repository().without_engine();
    act.clone().script(&script(proposal())).act(["run", "--dry-run", "write it"]).status(0);
    act.clone().act(["audit", "verify"]).status(0).stdout_has("agrees, at record");
    let store = rusqlite::Connection::open(act.artifacts().join("state/act.db")).unwrap();
    for (change, back, columns) in [
        ("state = 'SUCCESS'", "state = 'PROPOSED'", "state"),
        ("exit_code = 3", "exit_code = 0", "exit_code"),
        ("reason = 'x'", "reason = NULL", "reason"),
        ("text = 'something else'", "text = 'write it'", "text"),
        ("repo = 'x'", "repo = (SELECT value FROM before)", "repo"),
    ] {
        store
            .execute_batch(
                "CREATE TEMP TABLE IF NOT EXISTS before AS SELECT repo AS value FROM tasks",
            )
            .unwrap();
        store.execute(&format!("UPDATE tasks SET {change}"), []).unwrap();
        let told = act.clone().act(["audit", "verify"]).status(1);
        told.stdout_has("The store was changed: task t-")
            .stdout_has(&format!("differs in: {columns} (record "));
        store.execute(&format!("UPDATE tasks SET {back}"), []).unwrap();
    }
    act.clone().act(["audit", "verify"]).status(0);
    act.act(["audit", "verify", "--json"]).status(0).document("audit-verify");
}

/// EDITOR-50: a dry run that changes nothing is refused as such, and leaves nothing to apply.
#[test]
fn a_dry_run_without_a_change_is_no_proposal() {
    let act = repository().without_engine();
    let turns =
        opening("look").into_iter().chain([json!({"role": "editor", "text": "all is well"})]);
    let told = act.clone().script(&script(turns)).act(["run", "--dry-run", "look"]).status(1);
    let told = told.stdout("").stderr_has("no file would be changed, so there is no proposal");
    told.stderr_lacks("Proposed").stderr_lacks("act apply");
    let history = act.clone().act(["history", "--json"]).status(0).json();
    let task = &history["tasks"][0];
    assert_eq!((&task["state"], &task["reason"]), (&json!("REFUSED"), &json!("nothing_to_do")));
    act.script("turns: []").act(["apply"]).status(1).stderr_has("no proposal to apply");
}

/// EDITOR-50, EDITOR-61: each outcome ends a dry run without a proof, and leaves nothing.
#[test]
fn a_dry_run_that_changes_nothing_ends_by_its_outcome() {
    let account = |outcome: &str| {
        call("done", json!({"what": "Looked.", "why": "It is right.", "outcome": outcome}))
    };
    let act = repository().without_engine();
    let before = fingerprint(&act.repo());
    let look = call("read", json!({"path": "answer.txt"}));
    let turns = opening("look").into_iter().chain([account("changed"), account("nothing_to_do")]);
    let told = act.clone().script(&script(turns)).act(["run", "--dry-run", "x"]).status(1);
    told.stdout("").stderr_has("there is no proposal").stderr_has("It is right.");
    let turns = opening("look").into_iter().chain([look, account("impossible")]);
    let told = act.clone().script(&script(turns)).act(["run", "--dry-run", "x"]).status(3);
    told.stdout("").stderr_has("It is right.").stderr_has("STUCK: impossible");
    assert_eq!(fingerprint(&act.repo()), before);
}

/// EDITOR-50: a dry run without a result leaves nothing behind, and says why.
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

/// CLI-7, security line 169: a reader that wants the first line only changes nothing.
#[test]
fn a_patch_that_nobody_reads_to_its_end_is_no_trouble() {
    let act = repository().without_engine().script(&script(proposal()));
    let mut shell = Command::new("/bin/sh");
    let line = "{ \"$0\" run --dry-run x; echo \"code $?\" >&2; } | head -n 1";
    shell.args(["-c", line, program()]);
    let told = act.start_command(shell).wait();
    told.stderr_has("code 0")
        .stderr_lacks("panic")
        .stdout("diff --git a/answer.txt b/answer.txt\n");
}

/// EVENT-5, security line 162: the model's account of its proposal contains no key, wherever it is stored.
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

/// CLI-50: whatever becomes of a dry run, stdout is for its patch alone.
#[test]
fn a_dry_run_that_fails_says_so_beside_an_empty_patch() {
    let act = repository().without_engine();
    let broken = json!({"role": "editor", "status": 400});
    let told = act.clone().script(&script([broken])).act(["run", "--dry-run", "x"]).status(4);
    told.stdout("").stderr_has("INFRA_ERROR: ").stderr_lacks("Changes made");
}

/// EDITOR-70, EDITOR-71, CONFIG-19, CLI-35: the first message holds the pipeline and the repository's instructions, which
/// the flag, `agent.yaml` and the policy each turn off.
#[test]
fn instructions_reach_the_model_unless_somebody_turned_them_off() {
    let act =
        repository().file("AGENTS.md", "use tabs\n").file("big/AGENTS.md", "x\n".repeat(20_000));
    let act = act.without_engine();
    git(&act.repo(), &["add", "AGENTS.md", "big"], "");
    let policy = act.repo().parent().unwrap().join("policy.toml");
    fs::write(&policy, "agents_md = false\n").unwrap();
    let yaml = fs::read_to_string(act.repo().join("agent.yaml")).unwrap();
    let off = yaml.replacen('{', "{\"agents_md\": false, ", 1);
    let deeper = || {
        let read = call("read", json!({"path": "big/AGENTS.md"}));
        let silent = json!({"role": "editor", "text": "all is well"});
        script(opening("look").into_iter().chain([read, silent]))
    };
    let run = |act: &crate::harness::Act, flags: &[&str]| {
        let arguments = ["run", "--dry-run", "--json"].iter().chain(flags).chain(&["look"]);
        act.clone().script(&deeper()).act(arguments.copied().collect::<Vec<_>>()).status(1)
    };
    let first = |told: &crate::harness::Done| {
        let request = told.requests_of("editor").remove(0).body;
        request["messages"][1]["content"].as_str().unwrap().to_owned()
    };
    let quoted = "<instructions path=\"AGENTS.md\">\n| use tabs\n</instructions>";
    let told = run(&act, &[]);
    let message = first(&told);
    for part in [quoted, "fresh container of the image `", "\n1. test:\n   | grep -qx right"] {
        assert!(message.contains(part), "no {part} in {message}");
    }
    let read: Vec<_> = events(&told)
        .into_iter()
        .filter(|event| event["type"] == "instructions_read")
        .map(|event| json!([event["path"], event["bytes"], event["left_out"]]))
        .collect();
    assert_eq!(read, [json!(["AGENTS.md", 9, 0]), json!(["big/AGENTS.md", 32_768, 7_232])]);
    told.stderr_has("big/AGENTS.md is cut: the model gets 32768 of its 40000 bytes");

    let silenced = [
        run(&act, &["--no-agents-md"]),
        run(&act.clone().env("ACT_POLICY_FILE", &policy), &[]),
        run(&act.file("agent.yaml", off), &[]),
    ];
    for told in silenced {
        let requests = told.requests_of("editor");
        assert!(requests.iter().all(|request| !request.body.to_string().contains("use tabs")));
        assert!(first(&told).contains("# What the user will run on the proposal"), "{told}");
        assert!(!told.stdout_text().contains("instructions_read"), "{told}");
    }
}
