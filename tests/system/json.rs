//! `act run --json`, the journal, and the schemas of both.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::json::{lines, parse, schema};
use crate::harness::script::{attempt, done, opening, script};
use crate::harness::{Act, Done, image};

/// A repository whose pipeline is green when `answer.txt` says `right`.
fn repository() -> Act {
    Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt || { cat answer.txt; exit 1; }")])
}

fn kinds(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["type"].as_str().unwrap()).collect()
}

fn of<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

/// The journal of the only task.
fn journal(told: &Done) -> Vec<Value> {
    let directory = told.repo().parent().unwrap().join("artifacts/state/journal");
    let files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(files.len(), 1, "{told}");
    parse(&fs::read_to_string(files[0].path()).unwrap())
}

#[test]
fn a_whole_task_is_told_as_events_and_kept_in_the_journal() {
    // EVENT-3, EVENT-7, EVENT-8, EVENT-9
    let turns = opening("write it")
        .into_iter()
        .chain(attempt("wrong\n"))
        .chain(attempt("right\n"))
        .chain([done()]);
    let text = "write the answer\nConstraints:\n- be brief\n";
    let told = repository().script(&script(turns)).act(["run", text, "--json"]).status(0);
    let told = told.script_used_up().stderr_has("Analyzing codebase...");
    let lines = lines(&told);
    assert_eq!(&kinds(&lines)[..3], ["task_queued", "task_started", "constraints"]);
    assert_eq!(lines[0]["position"], 1);
    assert_eq!(lines[2]["constraints"], json!(["be brief"]));

    let finished = lines.last().unwrap();
    assert_eq!(finished["type"], "task_finished");
    assert_eq!((&finished["state"], &finished["exit_code"]), (&json!("SUCCESS"), &json!(0)));
    let green = told.runs().into_iter().find(|run| told.manifest(run)["status"] == "PASS");
    assert_eq!(finished["run_id"], json!(green.unwrap()));
    assert!(finished["tokens"]["editor"]["input"].is_u64(), "{finished}");
    assert!(finished["summary"].as_str().unwrap().contains("Wrote the answer."), "{finished}");

    // The journal holds the whole timeline, and it equals the printed one.
    assert_eq!(journal(&told), lines);
    let verified: Vec<_> =
        of(&lines, "verify_finished").iter().map(|line| line["status"].clone()).collect();
    assert_eq!(verified, ["FAIL", "PASS"]);
    let steps: Vec<_> =
        of(&lines, "step_finished").iter().map(|line| line["exit_code"].clone()).collect();
    assert_eq!(steps, [1, 0]);
    assert_eq!(of(&lines, "scout_started").len(), 2);
    assert_eq!(of(&lines, "scout_finished").len(), 2);
    let edited: Vec<_> = of(&lines, "edit").iter().map(|line| line["path"].clone()).collect();
    assert_eq!(edited, ["answer.txt", "answer.txt"]);
    assert_eq!(of(&lines, "model_request").len(), told.requests().len());
}

#[test]
fn a_refusal_is_one_line_with_code_and_hint() {
    // CLI-15
    let told = Act::new().without_engine().script("turns: []").act(["run", "fix", "--json"]);
    let told = told.status(1).stderr_has("configuration required");
    let lines = lines(&told);
    assert_eq!(lines.len(), 1, "{told}");
    assert_eq!(lines[0]["type"], "refused");
    assert_eq!(lines[0]["code"], "config_missing");
    assert_eq!(lines[0]["exit_code"], 1);
    assert!(lines[0]["hint"].as_str().unwrap().contains("act init"), "{told}");
    schema("refusal").validate(&lines[0]).unwrap();
    let empty = Act::new().act(["run", " ", "--json"]).status(1);
    assert_eq!(parse(&empty.stdout_text())[0]["code"], "task_empty");
}

#[test]
fn the_last_line_comes_after_a_signal_too() {
    // EVENT-3
    let act = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "printf 'in the %s\\n' step; sleep 600")]);
    let turns = opening("write it").into_iter().chain(attempt("right\n"));
    let arguments = ["run", "write the answer", "--json", "--verbose"];
    let running = act.script(&script(turns)).start(arguments);
    running.until_stderr_has("in the step");
    running.signal(Signal::TERM);
    let told = running.wait().status(130);
    let lines = lines(&told);
    let last = lines.last().unwrap();
    assert_eq!((&last["type"], &last["state"]), (&json!("task_finished"), &json!("CANCELLED")));
    assert_eq!(last["exit_code"], 130);
    assert_eq!(journal(&told), lines);
}

#[test]
fn a_journal_that_cannot_be_written_ends_no_task() {
    // EVENT-9
    let turns = opening("write it").into_iter().chain(attempt("right\n")).chain([done()]);
    let act = repository().script(&script(turns));
    let artifacts = act.repo().parent().unwrap().join("artifacts");
    fs::create_dir_all(artifacts.join("state")).unwrap();
    fs::write(artifacts.join("state/journal"), "in the way").unwrap();
    let told = act.run("write the answer").status(0);
    let said = told.stderr_text().matches("cannot write the journal of this task").count();
    assert_eq!(said, 1, "{told}");
}

#[test]
fn no_key_is_on_any_stream_or_in_any_file() {
    // EVENT-5, security lines 162, 163
    let key = "sk-canary-0123456789";
    let what = format!("Wrote {key} into it.");
    let closing = crate::harness::script::call(
        "done",
        json!({"what": what, "why": "It was missing.", "tests": "None needed."}),
    );
    let turns =
        opening(&format!("use {key}")).into_iter().chain(attempt("right\n")).chain([closing]);
    for json in [true, false] {
        let mut arguments = vec!["run", "write the answer", "--verbose"];
        arguments.extend(json.then_some("--json"));
        let act = repository().env("OPENAI_API_KEY", key).script(&script(turns.clone()));
        let told = act.act(arguments).status(0).stderr_lacks(key);
        assert!(!told.stdout_text().contains(key), "{told}");
        assert!(told.stdout_text().contains("[redacted]"), "{told}");
        assert!(!format!("{:?}", journal(&told)).contains(key), "{told}");
        for name in told.agent_files() {
            assert!(!told.read(&format!("agent/{name}")).contains(key), "{name}\n{told}");
        }
    }
}

/// MODEL-40, security line 162: a text that contains a key is refused before it is stored or shown.
#[test]
fn a_task_or_a_question_that_holds_a_key_is_refused() {
    let key = crate::harness::CANARY;
    let act = repository().env("OPENAI_API_KEY", key).script(&script(opening("look")));
    let text = format!("use {key} here");
    for arguments in [["run", &text].as_slice(), &["scout", "a", &text], &["run", "--json", &text]]
    {
        let told = act.clone().act(arguments).status(1).stderr_lacks(key);
        assert!(told.to_string().contains("holds a key"), "{told}");
        assert!(!told.stdout_text().contains(key), "{told}");
        assert_eq!(told.requests().len(), 0, "{told}");
    }
    let kept = std::fs::read(act.artifacts().join("state/act.db")).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&kept).contains(key));
}
