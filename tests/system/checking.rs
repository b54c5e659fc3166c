//! `check`: the model runs single commands in a container between its verifications, and none of them counts.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::harness::script::{attempt, call, done, opening, script};
use crate::harness::tool_answers::{answers, reasons};
use crate::harness::{Act, image};

const SECRET: &str = "do-not-show-this-4711";

/// A repository whose pipeline is green when `answer.txt` says `right`.
fn repository() -> Act {
    Act::new()
        .file("answer.txt", "none\n")
        .file(".env", SECRET)
        .pipeline(image(), &[("test", "grep -qx right answer.txt")])
}

fn check(command: &str) -> Value {
    call("check", json!({"command": command}))
}

/// EDITOR-85, EDITOR-86: a whole task whose model tries one command before and after its edit.
#[test]
fn a_model_checks_and_then_verifies() {
    let tries =
        "grep -qx right answer.txt && echo green; cat .env; echo x > answer.txt; ls -A .git";
    let [read, edit, verify] = &attempt("right\n")[..] else { panic!() };
    let turns = opening("write it").into_iter().chain([check(tries), read.clone(), edit.clone()]);
    let turns = turns.chain([check("grep -cx right answer.txt"), verify.clone(), done()]);
    let act = repository().script(&script(turns));
    let told = act.clone().act(["run", "--json", "write the answer"]).status(0).script_used_up();
    assert_eq!(told.read("answer.txt"), "right\n");

    let answers = answers(&told);
    let said = "a check, no verification: only `verify` and `done` count · the image alone";
    assert!(answers[1].starts_with("exit ") && answers[1].contains(said), "{answers:?}");
    assert!(
        answers[1].contains("\nEmpty here, since you do not see the file: .env"),
        "{answers:?}"
    );
    assert!(!answers[1].contains("green"), "{answers:?}");
    assert!(answers[4].starts_with("exit 0 ") && answers[4].ends_with("\n| 1"), "{answers:?}");
    assert!(told.requests().iter().all(|request| !request.body.to_string().contains(SECRET)));

    // One verification, and nothing that looks like another.
    let runs = told.runs();
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(told.manifest(&runs[0])["status"], "PASS");
    assert!(told.read("agent/summary.md").contains(&runs[0]), "{told}");
    let events: Vec<Value> =
        told.stdout_text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).collect::<Vec<_>>();
    assert_eq!((of("check_started").len(), of("check_finished").len()), (2, 2));
    assert_eq!(of("check_finished")[1]["exit_code"], 0);
    assert_eq!(of("check_finished")[1]["command"], "grep -cx right answer.txt");
    assert_eq!(of("verify_started").len(), 1);
    let records = act.audit_records();
    let of = |event: &str| records.iter().filter(|record| record["event"] == event).count();
    assert_eq!((of("check_started"), of("check_finished"), of("gate_started")), (2, 2, 1));
    act.clone().act(["audit", "verify"]).status(0);
    act.act(["history"]).status(0).stdout_has(&runs[0]);
}

/// CONFIG-56, CONFIG-57: templates in `agent.yaml` allow these commands alone, and the administrator none at all.
#[test]
fn a_repository_lists_the_commands_and_an_administrator_forbids_them() {
    let yaml = json!({
        "verification": {
            "container_image": image(),
            "steps": [{"name": "test", "command": "grep -qx right answer.txt"}]
        },
        "checks": [{"name": "count", "command": "grep -c {word} answer.txt"}],
    });
    let turns = || {
        let tries = ["grep -c 'no;id' answer.txt", "grep -c none answer.txt; id", "ls"];
        let checks = tries.into_iter().map(check);
        opening("write it").into_iter().chain(checks).chain(attempt("right\n")).chain([done()])
    };
    let act = repository().file("agent.yaml", yaml.to_string()).script(&script(turns()));
    let told = act.run("write the answer").status(0);
    assert!(answers(&told)[1].starts_with("exit 1 "), "{:?}", answers(&told));
    assert!(answers(&told)[1].ends_with("\n| 0"), "{:?}", answers(&told));
    assert_eq!(reasons(&told), ["not_declared"; 2]);
    assert!(answers(&told)[2].contains("count: grep -c {word} answer.txt"));
    let first = told.requests_of("editor")[0].body.to_string();
    assert!(first.contains("| count: grep -c {word} answer.txt"), "{first}");

    let act = repository().file("agent.yaml", yaml.to_string()).script(&script(turns()));
    let policy = act.repo().parent().unwrap().join("policy.toml");
    fs::write(&policy, "[verifier]\nchecks = \"off\"\n").unwrap();
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o600)).unwrap();
    let told = act.env("ACT_POLICY_FILE", &policy).run("write the answer").status(0);
    assert_eq!(reasons(&told), ["checks_off"; 3]);
    assert!(told.requests_of("editor")[0].body.to_string().contains("`check` is off here"));
    let tools = |told: &crate::harness::Done| told.requests_of("editor")[0].body["tools"].clone();
    assert!(tools(&told).to_string().contains("\"check\""), "the same tools everywhere");
}

/// CONFIG-18, CONFIG-55: a person requires evidence of every repository.
#[test]
fn a_person_requires_evidence_whatever_the_repository_says() {
    // A file of text would be a document, of which nobody asks for tests.
    let edit =
        json!({"path": "answer.py", "expect_version": "{{last_version}}", "content": "right\n"});
    let read = call("read", json!({"path": "answer.py"}));
    let gives_up = call("done", json!({"what": "x", "why": "y", "outcome": "impossible"}));
    let turns = [read, call("full_rewrite", edit), done(), gives_up];
    let act = Act::new()
        .file("answer.py", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.py")])
        .config_toml("[verifier]\nevidence = \"require\"\n")
        .script(&script(opening("write it").into_iter().chain(turns)));
    let told = act.run("write the answer").status(3);
    assert!(answers(&told).iter().any(|answer| answer.starts_with("evidence_missing: ")), "{told}");
}
