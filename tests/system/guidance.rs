//! What the host adds to a conversation by its own reckoning: differences, owed tests, contradictions between
//! the Scouts, whom to ask about a failure.

use crate::harness::script::{asking, attempt, call, done, opening, plan, script};
use crate::harness::{Act, image};
use serde_json::{Value, json};

use crate::harness::tool_answers::answers;

/// Green when `answer.txt` says `right` in its first line.
fn repository() -> Act {
    Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "head -n 1 answer.txt | grep -qx right")])
}

fn rewrite(content: &str) -> Value {
    let arguments = json!({
        "path": "answer.txt", "expect_version": "{{last_version}}", "content": content
    });
    call("full_rewrite", arguments)
}

fn verify() -> Value {
    call("verify", json!({}))
}

/// EDITOR-13: the lines that an edit changed come with its answer, the criteria once for an attempt.
#[test]
fn an_edit_is_answered_with_its_difference_and_the_criteria() {
    let turns = opening("write it").into_iter().chain([
        call("read", json!({"path": "answer.txt"})),
        rewrite("wrong\nmore\n"),
        rewrite("wrong\nMore\n"),
        verify(),
        rewrite("right\nMore\n"),
        verify(),
        done(),
    ]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    let answers = answers(&told.script_used_up());
    let criteria = "criteria:\n- answer.txt holds the answer\nacceptance:\n- the pipeline is green";
    let edited = |version: u64| format!("edited answer.txt · version {version} · 2 lines\n");
    assert_eq!(answers[2], edited(2) + "-1| none\n+1..2 as given");
    assert_eq!(answers[3], edited(3) + " 1| wrong\n-2| more\n+2 as given");
    assert_eq!(answers[5], edited(4) + "-1| wrong\n+1 as given\n 2| More\n" + criteria);
}

/// EDITOR-13: what was too long for an answer is read before it is verified, once.
#[test]
fn a_change_that_was_not_shown_is_read_before_it_is_verified() {
    let long: String = (1..=400).map(|n| format!("line number {n} of the answer\n")).collect();
    let turns = opening("write it").into_iter().chain([
        call("read", json!({"path": "answer.txt"})),
        rewrite("right\n"),
        verify(),
        verify(),
        done(),
    ]);
    let act = repository().file("answer.txt", &long);
    let told = act.script(&script(turns)).run("write the answer").status(0);
    let told = told.script_used_up();
    assert_eq!(told.runs().len(), 1);
    let answers = answers(&told);
    assert!(answers[2].contains(" rows more, shown before the next verify)"), "{}", answers[2]);
    let owed = &answers[3];
    assert!(owed.starts_with("not_verified: "), "{owed}");
    assert!(owed.contains("\n- answer.txt (+1 -400)\n"), "{owed}");
    assert!(owed.contains("\n-400| line number 400") && !owed.contains("\n-9| "), "{owed}");
    assert!(owed.contains("\n+1 as given"), "{owed}");
    assert!(owed.contains("\n- answer.txt holds the answer"), "{owed}");
    assert!(answers[4].starts_with("PASS"), "{}", answers[4]);
}

/// EDITOR-16: if there are no tests, the plan's answer asks for some, and the summary lists the new ones.
#[test]
fn a_repository_without_tests_is_asked_for_some() {
    let added = call(
        "create",
        json!({"path": "tests/answer.sh", "content": "grep -qx right answer.txt\n"}),
    );
    let mut turns = asking("write it");
    turns[2]["call"]["arguments"]["test"]["detected_framework"] = "pytest".into();
    let turns = turns.into_iter().chain([added]).chain(attempt("right\n")).chain([done()]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    let told = told.script_used_up();
    let owed = "no tests: add some for what you change, with pytest";
    assert!(answers(&told)[0].contains(owed), "{}", answers(&told)[0]);
    let summary = told.read("agent/summary.md");
    let expected = "> None needed.\n\nThe repository had none.\n\nTest files changed:\n\n- `tests/answer.sh (create)`\n";
    assert!(summary.contains(expected), "{summary}");
}

/// EDITOR-16: a missing reason is reported; if the repository has tests, the plan's answer does not ask for new ones.
#[test]
fn a_summary_says_when_no_test_and_no_reason_was_given() {
    let silent = call("done", json!({"what": "Wrote it.", "why": "It was missing."}));
    let turns = opening("write it").into_iter().chain(attempt("right\n")).chain([silent]);
    let act = repository().file("tests/other.sh", "true\n");
    let told = act.script(&script(turns)).run("write the answer").status(0).script_used_up();
    assert!(!answers(&told)[0].contains("add some"), "{}", answers(&told)[0]);
    let summary = told.read("agent/summary.md");
    let expected = "> The Editor gave no reason for adding none.\n\nTest files changed:\n\nnone\n";
    assert!(summary.contains(expected), "{summary}");
}

/// Plan and reports that disagree about the files.
fn at_odds(strategy: &str) -> Vec<Value> {
    let mut turns = asking(strategy);
    turns[1]["call"]["arguments"]["repo_map"]["relevant_files"] =
        json!([{"path": "answer.txt", "purpose": "", "relevance": "primary"}]);
    turns[2]["call"]["arguments"]["failure_analysis"]["affected_files"] = json!(["agent.yaml"]);
    turns
}

/// EDITOR-17: both statements are shown, the Editor decides by `plan`, and the snapshot before any edit holds the
/// decision.
#[test]
fn a_contradiction_between_the_scouts_is_decided_and_recorded() {
    let mut decides = plan("write it");
    decides["call"]["arguments"]["decisions"] = json!([{
        "about": "which files are affected", "scout_a": "answer.txt", "scout_b": "agent.yaml",
        "chosen": "answer.txt", "reason": "the step\n# reads it"}]);
    let turns = at_odds("write it").into_iter().chain([decides]);
    let turns = turns.chain(attempt("right\n")).chain([done()]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    let told = told.script_used_up();
    let put = "\n- which files are affected: scout-a says answer.txt, scout-b says agent.yaml";
    assert!(answers(&told)[0].contains(put), "{}", answers(&told)[0]);
    let snapshot = told.read("agent/context_001.md");
    let decision = "> which files are affected: scout-a says answer.txt, scout-b says agent.yaml; chosen: answer.txt, \
                    because the step # reads it\n";
    assert!(snapshot.contains("- milestone: task_start\n"), "{snapshot}");
    assert!(snapshot.contains(decision), "{snapshot}");
    assert!(snapshot.contains("### Files modified\n\nnone\n"), "{snapshot}");
    assert!(
        !snapshot.contains("strategy 2"),
        "a plan with the same strategy goes on with it: {snapshot}"
    );
    assert_eq!(told.agent_files().len(), 4, "{:?}", told.agent_files());
}

/// EDITOR-17: a conflict without a decision is recorded as such, and later conversations hold it.
#[test]
fn a_contradiction_that_nobody_decides_is_recorded_as_open_and_told_again() {
    let wrong = ["a\n", "b\n", "c\n"].into_iter().flat_map(attempt);
    let turns = at_odds("write it").into_iter().chain(wrong).chain([plan("write it otherwise")]);
    let turns = turns.chain(attempt("right\n")).chain([done()]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    let told = told.script_used_up();
    let snapshot = told.read("agent/context_001.md");
    assert!(snapshot.contains("scout-b says agent.yaml; not decided\n"), "{snapshot}");
    assert!(snapshot.contains("### Files modified\n\nnone\n"), "{snapshot}");
    let opened = told.requests_of("editor").pop().unwrap().body["messages"][1].to_string();
    assert!(opened.contains("Decided where the Scouts disagreed"), "{opened}");
    // A fresh conversation begins with the difference so far.
    assert!(opened.contains("answer.txt (version 4, +1 -1)\\n-1| none\\n+1| c"), "{opened}");
}

/// EDITOR-18
#[test]
fn the_slice_to_begin_with_is_scout_as_first() {
    let slice = |id: &str, order: Value| json!({"id": id, "files": ["answer.txt"], "description": "", "complexity": "low", "order": order});
    let mut turns = asking("write it");
    turns[1]["call"]["arguments"]["change_boundaries"]["safe_slices"] =
        json!([slice("late", json!(2)), slice("any", Value::Null), slice("early", json!(1))]);
    let turns = turns.into_iter().chain(attempt("right\n")).chain([done()]);
    let told = repository().script(&script(turns)).run("write the answer").status(0);
    let answers = answers(&told.script_used_up());
    assert!(answers[0].contains("begin with the part early (answer.txt)"), "{}", answers[0]);
}

/// EDITOR-19: a failure of the environment names Scout B, who gets the log when asked.
#[test]
fn scout_b_is_named_for_a_failure_of_the_environment_and_gets_the_log() {
    let ask = call("ask_scout", json!({"scout": "scout-b", "question": "what is missing?"}));
    let scout_b = asking("")[2].clone();
    let turns = opening("write it").into_iter().chain([
        call("read", json!({"path": "answer.txt"})),
        rewrite("wrong\n"),
        verify(),
        ask,
        scout_b,
        rewrite("right\n"),
        verify(),
        done(),
    ]);
    let command = "head -n 1 answer.txt | grep -qx right || no-such-program";
    let act = Act::new().file("answer.txt", "none\n").pipeline(image(), &[("check", command)]);
    let told = act.script(&script(turns)).run("write the answer").status(0).script_used_up();
    let failed = &answers(&told)[3];
    assert!(failed.contains("FAIL") && failed.contains("exit code 127"), "{failed}");
    assert!(failed.contains("scout-b"), "{failed}");
    let asked = told.requests_of("scout-b").pop().unwrap().body.to_string();
    assert!(asked.contains("no-such-program: ") && asked.contains("what is missing?"), "{asked}");
    // A plain logic error names no Scout.
    assert!(answers(&told)[6].starts_with("PASS"), "{}", answers(&told)[6]);
}
