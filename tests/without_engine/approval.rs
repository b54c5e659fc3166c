//! The one question that the program asks, on a terminal; and what the audit log says of who may do what since.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::components::{
    approve, components, grants, need, packed, scout, sha256_of, without_engine,
};
use crate::harness::{Act, Done, program};

const QUESTION: &str = "Type `yes` to approve exactly these bytes:";

/// `act components approve` as somebody sees it who sits at a terminal and answers this; both streams are on stdout.
/// Input ends after it. `more` are words for a shell.
fn at_a_terminal(act: &Act, path: &Path, more: &str, typed: &str) -> Done {
    let command = format!("{} components approve {} {more}", program(), path.display());
    terminal(&act.clone().answer(QUESTION, typed), &command)
}

fn terminal(act: &Act, command: &str) -> Done {
    let mut script = Command::new("script");
    script.args(["-qec", command, "/dev/null"]);
    act.clone().env("NO_COLOR", "1").start_command(script).wait()
}

/// CAPABILITY-21, security line 48: an answer that was typed before the question does not count.
#[test]
fn what_was_typed_before_the_question_is_no_answer() {
    let act = without_engine();
    let path = packed(&act, "x.wasm", &scout("1", &[need("repo.read")]));
    // Typed long before, as by somebody who pastes two commands and their answers.
    let approve = format!("sleep 1; {} components approve {}", program(), path.display());
    let command = format!("{approve} --name probe");
    let ahead = act.clone().stdin("yes\nyes\n");
    let told = terminal(&ahead.clone().answer(QUESTION, "no\n"), &command).status(1);
    assert!(told.stdout_text().contains("not approved") && !grants(&act).exists(), "{told}");
    let told = terminal(&ahead.answer(QUESTION, "yes\n"), &command).status(0);
    assert!(told.stdout_text().contains("Approved probe"), "{told}");
}

/// CAPABILITY-21: everything is shown before the question, and only the whole word is a yes.
#[test]
fn a_person_sees_everything_and_types_yes() {
    let act = without_engine();
    let path = packed(&act, "x.wasm", &scout("1", &[need("repo.read"), need("llm")]));
    let sha256 = sha256_of(&path);
    for typed in ["no\n", "y\n", "YES\n", "yes please\n", "\n", "", "yes no\n"] {
        let told = at_a_terminal(&act, &path, "--name probe", typed).status(1);
        let text = told.stdout_text();
        let (shown, after) = text.split_once(QUESTION).unwrap_or_else(|| panic!("{told}"));
        for fact in [
            sha256.as_str(),
            "agentcommand:worlds/scout",
            "agentcommand:model/chat",
            "repo.read",
            "for a test",
            "32 calls",
            "in every repository",
        ] {
            assert!(shown.contains(fact), "{fact:?} {told}");
        }
        // Our own line of progress is drawn and wiped; nothing of the component's acts on the terminal.
        assert!(!text.contains("\u{1b}]") && !text.contains('\u{7}'), "{told}");
        assert!(after.contains("not approved") && after.contains("nothing was changed"), "{told}");
        assert!(!grants(&act).exists(), "{typed:?}: {told}");
    }
    let told = at_a_terminal(&act, &path, "--name probe", "yes\n").status(0);
    assert!(told.stdout_text().contains("Approved probe"), "{told}");
    assert!(fs::read_to_string(grants(&act)).unwrap().contains(&sha256));
}

/// CAPABILITY-21, security line 50: whatever a manifest says is in one block with a mark on each row, and the digest of
/// the file is the last line before the question.
#[test]
fn a_manifest_imitates_no_line_of_the_question() {
    let act = without_engine();
    let fake = "0".repeat(64);
    let padded = |text: &str| format!("x{}{text}", " ".repeat(70 - text.len() % 7));
    let line = padded(&format!("sha256    {fake}"));
    let mut manifest = scout("1", &[]);
    manifest["about"] = format!("{line}\n  sha256    {fake}\n").into();
    manifest["version"] = "1)   sha256    1".into();
    manifest["needs"] = json!([{"grant": "repo.read", "why": format!("{}{line}", "w".repeat(70)),
        "paths": [format!("src{}sha256   {fake}", " ".repeat(60))]}]);
    manifest["report"] = json!({"type": "object", "title": line, "description": "y".repeat(400)});
    let path = packed(&act, "x.wasm", &manifest);
    let sha256 = sha256_of(&path);
    let approve = format!("{} components approve {} --name probe", program(), path.display());
    for columns in [20, 72, 80] {
        let command = format!("stty cols {columns}; {approve}");
        let told = terminal(&act.clone().answer(QUESTION, "no\n"), &command).status(1);
        let text = told.stdout_text().replace('\r', "");
        let (shown, _) = text.split_once(QUESTION).unwrap_or_else(|| panic!("{told}"));
        let ours: Vec<_> = shown.lines().filter(|row| !row.starts_with("│ ")).collect();
        let ours = ours.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(ours.matches("sha256 ").count(), 1, "{columns}: {ours}");
        assert!(ours.ends_with(&format!("sha256 {sha256}")), "{columns}: {ours}");
        let quoted = shown.lines().skip_while(|row| !row.starts_with("│ "));
        let after = quoted.skip_while(|row| row.starts_with("│ "));
        assert!(after.into_iter().all(|row| !row.starts_with("│ ")), "one block: {shown}");
    }
}

/// CAPABILITY-21, security lines 44 and 48: a digest on the command line does not answer for a person, and new bytes
/// are a new question.
#[test]
fn the_question_is_asked_again_for_other_bytes() {
    let act = without_engine();
    let path = packed(&act, "x.wasm", &scout("1", &[need("repo.read")]));
    let sha256 = sha256_of(&path);
    let wrong = format!("--name probe --sha256 {}", "0".repeat(64));
    let told = at_a_terminal(&act, &path, &wrong, "yes\n").status(1);
    let text = told.stdout_text();
    assert!(text.contains("--sha256 is 000") && !text.contains(QUESTION), "{told}");
    let right = format!("--name probe --sha256 {sha256}");
    let told = at_a_terminal(&act, &path, &right, "no\n").status(1);
    assert!(told.stdout_text().contains(QUESTION) && !grants(&act).exists(), "{told}");
    at_a_terminal(&act, &path, &right, "yes\n").status(0);

    let before = fs::read_to_string(grants(&act)).unwrap();
    let path = packed(&act, "x.wasm", &scout("2", &[need("repo.read"), need("llm")]));
    let told = at_a_terminal(&act, &path, "--name probe", "no\n").status(1);
    let text = told.stdout_text();
    let (shown, _) = text.split_once(QUESTION).unwrap();
    assert!(shown.contains(&format!("Differs from sha256 {sha256} (1)")), "{told}");
    assert!(shown.contains("+ needs llm"), "{told}");
    assert_eq!(fs::read_to_string(grants(&act)).unwrap(), before);
}

/// CAPABILITY-21, security line 48: with only one stream on a terminal nothing is asked, because nobody could read the
/// question.
#[test]
fn without_a_whole_terminal_nothing_is_asked() {
    let act = without_engine();
    let path = packed(&act, "x.wasm", &scout("1", &[]));
    let unseen = act.repo().join("unseen");
    for more in [format!("--name probe 2>{}", unseen.display()), "--name probe </dev/null".into()] {
        let told = at_a_terminal(&act, &path, &more, "yes\n").status(1);
        let seen = told.stdout_text() + &fs::read_to_string(&unseen).unwrap_or_default();
        assert!(!seen.contains(QUESTION), "{told}");
        assert!(seen.contains("an approval needs a terminal"), "{seen}{told}");
        assert!(seen.contains(&format!("add --sha256 {}", sha256_of(&path))), "{seen}");
        assert!(!grants(&act).exists());
    }
}

fn audited(act: &Act, name: &str, arguments: &[&str]) -> Value {
    let words = ["audit"].iter().chain(arguments).chain(&["--json"]).copied();
    let told = act.clone().act(words).status(0);
    told.document(name)
}

/// Returns the state and the capabilities of `probe` in `audit grants`.
fn probe(act: &Act, arguments: &[&str]) -> (String, String) {
    let found = audited(act, "audit-grants", &[&["grants"], arguments].concat());
    let all = found["components"].as_array().unwrap();
    match all.iter().find(|component| component["name"] == "probe") {
        Some(one) => (one["state"].as_str().unwrap().into(), one["capabilities"].to_string()),
        None => ("absent".into(), String::new()),
    }
}

/// AUDIT-16, AUDIT-19: from the log alone it can be told who could do what, and since when, also of a change that was
/// made past every command.
#[test]
fn approval_revocation_and_a_hand_in_the_file_are_what_the_audit_says() {
    let act = without_engine().script("turns: []");
    let path = packed(&act, "x.wasm", &scout("1", &[need("repo.read"), need("llm")]));
    approve(&act, &path, "probe", &[]).status(0);
    let (state, capabilities) = probe(&act, &[]);
    assert_eq!(state, "approved");
    assert!(capabilities.contains("llm calls=32"), "{capabilities}");
    let list = audited(&act, "audit-list", &["list"]);
    let approved = list["records"][0].clone();
    assert_eq!(approved["event"], "component_approved");
    assert_eq!(approved["digests"]["grants"], sha256_of(&grants(&act)));
    let then = approved["time"].as_str().unwrap().to_owned();

    act.clone().act(components(["revoke", "probe"])).status(0);
    assert_eq!(probe(&act, &[]).0, "revoked");
    assert_eq!(probe(&act, &["--at", &then]).0, "approved");
    assert_eq!(probe(&act, &["--at", "2020-01-01"]).0, "absent");
    let found = audited(&act, "audit-grants", &["grants"]);
    assert_eq!(found["file"], Value::Null, "our own hand is no hand in the file: {found}");

    let text = fs::read_to_string(grants(&act)).unwrap();
    let taken = sha256_of(&grants(&act));
    let by_hand: Vec<_> = text.lines().filter(|line| !line.starts_with("revoked_at")).collect();
    fs::write(grants(&act), by_hand.join("\n").replace("calls = 32", "calls = 31")).unwrap();
    act.clone().act(["scout", "probe", "batch-list"]).status(0);
    let found = audited(&act, "audit-grants", &["grants"]);
    let file = &found["file"];
    assert_eq!(file["path"].as_str(), grants(&act).to_str());
    assert_eq!(file["sha256"], sha256_of(&grants(&act)));
    assert!(file["grants"].to_string().contains(&sha256_of(&path)), "{found}");
    let (state, capabilities) = probe(&act, &[]);
    assert!(state == "approved" && capabilities.contains("llm calls=31"), "{found}");
    let list = audited(&act, "audit-list", &["list"]);
    let records = list["records"].as_array().unwrap();
    let changed = records.iter().find(|record| record["event"] == "grants_changed").unwrap();
    assert_eq!(changed["digests"]["before"], taken);
    let at = |event: &str| records.iter().position(|record| record["event"] == event).unwrap();
    assert!(at("grants_changed") < at("component_loaded"), "{list:#}");
    act.clone().act(["audit", "grants"]).status(0).stdout_has("grants.toml").inert();
    act.clone().act(["audit", "verify"]).status(0);
    // Removing the record of the manual change is detected.
    let log = act.audit_log();
    let text = fs::read_to_string(&log).unwrap();
    let seq = changed["seq"].as_u64().unwrap();
    let without = text.lines().filter(|line| !line.contains("\"grants_changed\""));
    fs::write(&log, without.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    act.clone().act(["audit", "verify"]).status(1).stdout_has(&format!("Record {seq}"));
}
