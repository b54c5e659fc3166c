//! The command of `notify`, for people who do not watch, and `act status --follow`, which follows tasks of other processes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use act_testing::Wire;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::json::{parse, schema};
use crate::harness::proposals::{proposal, repository};
use crate::harness::script::{done, opening, script};
use crate::harness::{Act, CANARY, program};

/// Returns the line of `config.toml` for a command that appends its standard input to `file`, and then runs `more`.
fn collecting(file: &std::path::Path, more: &str) -> String {
    let script = format!("cat >> {}; {more}", file.display());
    format!("notify = {}\n", json!(["/bin/sh", "-c", script]))
}

/// Returns the documents that such a command has collected, checked against their schema.
fn collected(file: &std::path::Path) -> Vec<Value> {
    let documents = parse(&fs::read_to_string(file).unwrap_or_default());
    let schema = schema("notification");
    for document in &documents {
        schema.validate(document).unwrap_or_else(|error| panic!("{error}: {document}"));
    }
    documents
}

fn beside(act: &Act, name: &str) -> PathBuf {
    act.repo().with_file_name(name)
}

/// NOTIFY-3, NOTIFY-4: a dry run ends, and its proposal needs a person; the key of the model reaches nobody.
#[test]
fn an_end_and_a_need_are_two_documents_without_a_word_of_the_model_and_without_a_key() {
    let act = repository().without_engine();
    let (documents, environment) = (beside(&act, "documents"), beside(&act, "environment"));
    let line = collecting(&documents, &format!("env > {}", environment.display()));
    let model = format!("key = \"{CANARY}\"\n");
    let act = act.script_by_file(Wire::ChatCompletions, &script(proposal()), &model);
    let settings = fs::read_to_string(act.settings_file()).unwrap();
    let act = act.config_toml(&format!("{line}{settings}")).env("OTHER_API_KEY", CANARY);
    let root = act.repo().canonicalize().unwrap();
    let told = act.clone().act(["run", "--dry-run", "--json", "write the answer"]).status(0);
    let task = told.stdout_text().lines().next().map(|line| parse(line)[0]["task_id"].clone());
    let all = collected(&documents);
    let field = |name: &str| all.iter().map(|one| one[name].clone()).collect::<Vec<_>>();
    assert_eq!(field("event"), ["task_ended", "needs_person"], "{told}");
    assert_eq!(field("state"), ["PROPOSED", "PROPOSED"]);
    assert_eq!(field("needs"), [Value::Null, json!("proposed")]);
    assert_eq!(field("schema"), [2, 2]);
    assert_eq!(Some(all[0]["task"].clone()), task);
    assert_eq!(all[0]["repo"]["path"], root.to_str().unwrap());
    for name in ["run", "report", "reason"] {
        assert_eq!(field(name), [Value::Null, Value::Null], "{name}");
    }
    let text = fs::read_to_string(&documents).unwrap();
    assert!(!text.contains("answer"), "{text}");
    let environment = fs::read_to_string(&environment).unwrap();
    assert!(environment.contains("PATH=") && !environment.contains(CANARY), "{environment}");

    // The repository has no commit, so there is nothing that a head or a difference could be about.
    let identity = act_workspace::RootIdentity::of(&root).unwrap().to_string();
    let repo = json!({"path": root, "identity": identity, "head": null, "dirty": null});
    assert_eq!(all[1]["repo"], repo);
}

/// NOTIFY-5: exit code, result and stdout are those of a task without a command.
#[test]
fn a_command_that_fails_changes_nothing_and_is_said_once() {
    let run = |settings: &str| {
        let act = repository().without_engine().script(&script(proposal()));
        act.config_toml(settings).act(["run", "--dry-run", "write the answer"]).status(0)
    };
    let plain = run("");
    for (command, why) in [
        (json!(["/bin/false"]), "failed (exit status: 1)"),
        (json!(["/nonexistent/notify"]), "cannot be started"),
        (json!(["/bin/sh", "-c", "kill -9 $$"]), "failed (signal: 9"),
    ] {
        let told = run(&format!("notify = {command}\n")).stderr_has(why);
        assert_eq!(told.stdout_text(), plain.stdout_text(), "{told}");
        assert_eq!(told.stderr_text().matches("`notify` in config.toml").count(), 1, "{told}");
    }
}

/// NOTIFY-2, security line 460: a repository cannot set the command, and no file of it takes part in one.
#[test]
fn no_repository_decides_what_notify_runs() {
    let act = repository().without_engine().script(&script(proposal()));
    let marker = beside(&act, "marker");
    let touch = json!(["/bin/sh", "-c", format!("echo x >> {}", marker.display())]);
    let yaml = fs::read_to_string(act.repo().join("agent.yaml")).unwrap();
    let mut gate: Value = serde_json::from_str(&yaml).unwrap();
    gate["notify"] = touch.clone();
    let told =
        act.clone().file("agent.yaml", gate.to_string()).act(["run", "--dry-run", "x", "--json"]);
    assert_eq!(told.status(1).document("refusal")["code"], "unknown_key");

    let own = act.repo().join("notify.sh");
    fs::write(&own, format!("#!/bin/sh\necho x >> {}\n", marker.display())).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    let act = act.file("agent.yaml", &yaml);
    for command in [json!([own]), json!(["/bin/sh", own]), json!(["notify.sh"])] {
        let path = format!("{}:/usr/bin:/bin", act.repo().display());
        let act = act.clone().config_toml(&format!("notify = {command}\n")).env("PATH", path);
        let told = act.act(["run", "--dry-run", "x", "--json"]).status(1);
        assert_eq!(told.document("refusal")["code"], "settings_malformed", "{command}");
    }
    assert!(!marker.exists());
}

/// A dry run whose second turn waits until the test releases it.
fn slow() -> Act {
    let mut turns = proposal();
    turns[1]["delay_ms"] = json!(600_000);
    repository().without_engine().script(&script(turns))
}

/// CLI-75: a task of another process is followed from before it begins to its end; SIGINT is the usual end.
#[test]
fn a_task_of_another_process_is_followed_to_its_end() {
    let act = slow();
    let program = act.clone().start(["status", "--follow", "--json"]);
    let people = act.clone().start(["status", "--follow"]);
    people.until_stdout_has("No task runs or waits");
    let task = act.clone().start(["run", "--dry-run", "write the answer"]);
    assert!(task.model().wait(Duration::from_secs(120), |counts| counts.requests >= 2));
    program.until_stdout_has("\"state\":\"RUNNING\"");
    people.until_stdout_has("Implementing changes");
    task.model().release();
    let told = task.wait().status(0);
    for follower in [&program, &people] {
        follower.until_stdout_has("PROPOSED");
        follower.signal(Signal::INT);
    }
    let told_people = people.wait().status(0);
    let lines = told_people.stdout_text();
    assert!(
        lines.lines().any(|line| line.starts_with("t-") && line.ends_with(" PROPOSED")),
        "{lines}"
    );
    assert!(!lines.contains('\u{1b}'), "{lines:?}");

    let documents = parse(&program.wait().status(0).stdout_text());
    let schema = schema("status-follow");
    for document in &documents {
        schema.validate(document).unwrap_or_else(|error| panic!("{error}: {document}"));
    }
    let last = documents.last().unwrap();
    assert_eq!(
        (&last["state"], &last["needs"]),
        (&json!("PROPOSED"), &json!("proposed")),
        "{told}"
    );
    assert_eq!(last["repo"]["path"], act.repo().canonicalize().unwrap().to_str().unwrap());
    assert!(documents.windows(2).all(|two| two[0] != two[1]), "each line is a change");
    let journals = fs::read_dir(act.artifacts().join("state/journal")).unwrap().count();
    assert_eq!(journals, 1, "following is no task");
}

/// CLI-75: a waiting task that is cancelled, and one that ends stuck and then needs a person.
#[test]
fn a_waiting_task_that_is_cancelled_and_one_that_is_stuck_end_their_rows() {
    let mut turns = proposal();
    turns[1]["delay_ms"] = json!(600_000);
    turns[1]["usage"] = json!({"input": 900_000, "cached": 0, "output": 1});
    let act = repository().without_engine().script(&script(turns));
    let documents = beside(&act, "documents");
    let act = act.config_toml(&collecting(&documents, ""));
    let first = act.clone().start(["run", "--dry-run", "--max-tokens", "800000", "one"]);
    assert!(first.model().wait(Duration::from_secs(120), |counts| counts.requests >= 2));
    let second = act.clone().start(["run", "--dry-run", "two"]);
    let people = act.clone().start(["status", "--follow"]);
    people.until_stdout_has("waits, place 1");
    second.signal(Signal::INT);
    second.wait().status(130);
    people.until_stdout_has("CANCELLED, cancelled");
    first.model().release();
    first.wait().status(3);
    people.until_stdout_has("STUCK, budget");
    people.signal(Signal::TERM);
    people.wait().status(0);
    let told: Vec<_> = collected(&documents)
        .iter()
        .map(|one| format!("{} {} {}", one["event"], one["state"], one["needs"]).replace('"', ""))
        .collect();
    let expected =
        ["task_ended CANCELLED null", "task_ended STUCK null", "needs_person STUCK stuck"];
    assert_eq!(told, expected);
}

/// CLI-75: rows of a terminal of 60 columns are redrawn in place, and Ctrl-C leaves exit code 0.
#[test]
fn a_narrow_terminal_shows_one_row_for_a_task_and_ctrl_c_ends_it() {
    let act = slow();
    let task = act.clone().start(["run", "--dry-run", "write the answer"]);
    assert!(task.model().wait(Duration::from_secs(120), |counts| counts.requests >= 2));
    let mut terminal = Command::new("script");
    let line = format!("stty cols 60 rows 10; exec {} status --follow", program());
    terminal.args(["-qec", &line, "/dev/null"]);
    let act = act.answer("Implementing changes", b"\x03".to_vec());
    let told = act.start_command(terminal).wait().status(0);
    let shown = told.stdout_text();
    let rows: Vec<_> = shown.split(['\r', '\n']).filter(|row| row.contains("t-")).collect();
    assert!(!rows.is_empty(), "{shown:?}");
    let codes = regex::Regex::new("\u{1b}\\[[0-9;?]*[A-Za-z]").unwrap();
    for row in rows {
        let bare = codes.replace_all(row, "");
        assert!(bare.chars().count() <= 60, "{bare:?}");
        assert!(bare.contains("repo"), "the name of the repository: {bare:?}");
    }
    task.model().release();
    task.wait().status(0);
}

/// CLI-75: `done` alone is a proposal of nothing, which is refused; following says so and the command of `notify` learns it.
#[test]
fn a_refused_task_ends_like_any_other_and_needs_nobody() {
    let turns = opening("nothing to do").into_iter().chain([done()]);
    let act = repository().without_engine().script(&script(turns));
    let documents = beside(&act, "documents");
    let act = act.config_toml(&collecting(&documents, ""));
    let told = act.act(["run", "--dry-run", "change nothing"]).status(1);
    let all = collected(&documents);
    assert_eq!(all.len(), 1, "{told}");
    assert_eq!((&all[0]["state"], &all[0]["reason"]), (&json!("REFUSED"), &json!("nothing_to_do")));
}
