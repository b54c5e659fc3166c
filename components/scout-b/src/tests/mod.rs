//! Scout B against a world in memory.

pub(crate) mod corpus;
mod evidence;

use super::*;
use act_kit::testing::{FakeHost, Files};
use serde_json::{Value, json};

fn crate_files() -> Files {
    Files::of(&[
        ("Cargo.toml", "[package]\nname = \"x\"\n"),
        ("src/lib.rs", "pub fn one() -> u8 { 2 }\n"),
    ])
}

fn question(context: &[(&str, &str)]) -> Question {
    let context =
        context.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    Question { text: "Why does the test fail?".to_owned(), context, facts_only: false }
}

fn asked(host: &FakeHost, question: &Question) -> Value {
    serde_json::from_str(&ask(host.world(), question).unwrap()).unwrap()
}

// SCOUT-B-1
#[test]
fn every_field_of_the_schema_is_there_and_what_is_known_needs_no_model() {
    let host = FakeHost::new(crate_files())
        .calls(&[("report", r#"{"failure_analysis":{"root_cause":""}}"#)]);
    assert_eq!(
        asked(&host, &question(&[])),
        json!({
            "schema_version": "1",
            "build": {
                "detected_system": "cargo",
                "commands": {"install": null, "build": "cargo build", "clean": "cargo clean"},
                "prerequisites": ["rust"], "notes": ""},
            "test": {
                "detected_framework": "cargo test",
                "commands": {"all": "cargo test", "unit": "cargo test --lib", "integration": null},
                "coverage_command": null, "notes": ""},
            "failure_analysis": null,
            "environment_issues": []
        })
    );
}

// SCOUT-B-8, SCOUT-B-19
#[test]
fn a_report_of_facts_needs_no_model_and_names_a_framework_without_a_word() {
    let package = r#"{"scripts":{"test":"vitest run"},"devDependencies":{"vitest":"1"}}"#;
    let host = FakeHost::new(Files::of(&[("package.json", package)]));
    let question = Question { facts_only: true, ..question(&[("form", "report")]) };
    let report = asked(&host, &question);
    assert_eq!(host.sent(), [""; 0]);
    assert_eq!(report["test"]["detected_framework"], "custom");
    assert_eq!(report["test"]["framework_name"], "vitest");
    assert_eq!(report["test"]["notes"], "", "a name is not glued to a note");
    assert_eq!(report["failure_analysis"], Value::Null);
    assert_eq!(report.get("answer"), None);
    let log = "error: assertion failed: package.json:1\n";
    let context = vec![("form".into(), "report".into()), ("tail_log".into(), log.into())];
    let failed = asked(&host, &Question { context, ..question });
    assert_eq!(failed["failure_analysis"]["affected_files"], json!(["package.json"]));
}

// SCOUT-B-19
#[test]
fn the_answer_is_in_the_report_and_an_issue_without_severity_is_not() {
    let report = json!({
        "answer": "With cargo test.", "failure_analysis": null,
        "environment_issues": [
            {"issue": "no gcc", "suggested_fix": "install it"},
            {"issue": "no make", "severity": "blocking", "suggested_fix": "install it"}]
    });
    let host = FakeHost::new(crate_files()).calls(&[("report", &report.to_string())]);
    let report = asked(&host, &question(&[]));
    assert_eq!(report["answer"], "With cargo test.");
    let issues = report["environment_issues"].as_array().unwrap();
    assert_eq!(issues.len(), 1, "a severity is not made up: {issues:?}");
    assert_eq!(issues[0]["issue"], "no make");
}

// SCOUT-B-8
#[test]
fn facts_need_no_model_and_say_where_everything_stands() {
    let host = FakeHost::new(crate_files());
    let question = Question { facts_only: true, ..Question::default() };
    let facts = asked(&host, &question);
    let cargo =
        |command: &str| json!({"command": command, "source": {"path": "Cargo.toml", "line": 1}});
    assert_eq!(
        facts,
        json!({
            "schema_version": "1", "scout": "b",
            "projects": [{
                "root": ".", "system": "cargo", "package_manager": "cargo", "framework": "cargo test",
                "commands": {
                    "install": null, "build": cargo("cargo build"), "clean": cargo("cargo clean"),
                    "test": cargo("cargo test"), "unit": cargo("cargo test --lib"),
                    "integration": null, "coverage": null},
                "prerequisites": [
                    {"name": "rust", "version": null, "source": {"path": "Cargo.toml", "line": 1}}],
                "has_tests": false,
                "source": {"path": "Cargo.toml", "line": 1}}],
            "suggested_image": "rust:1", "conflicts": [], "problems": [], "truncated": false,
            "failure": null
        })
    );
    assert_eq!(host.sent(), [""; 0]);
}

// SCOUT-B-5
#[test]
fn the_model_fills_what_is_open_and_overrules_nothing_that_was_detected() {
    let report = json!({
        "build": {"detected_system": "npm", "commands": {"install": "cargo fetch", "build": "npm run build"},
                  "prerequisites": ["clang"], "notes": "needs a C compiler"},
        "test": {"detected_framework": "jest", "commands": {"all": "npm test", "integration": "x"},
                 "coverage_command": "cargo llvm-cov"},
        "failure_analysis": {"root_cause": "one() returns two", "affected_files": ["src/lib.rs", "src/ghost.rs"],
                             "suggested_investigation": ["read one()"]},
        "environment_issues": [{"issue": "no network", "severity": "warning", "suggested_fix": "none"}]
    });
    let host = FakeHost::new(crate_files()).calls(&[("report", &report.to_string())]);
    let report =
        asked(&host, &question(&[("tail_log", "error: assertion failed: src/lib.rs:1\n")]));
    assert_eq!(
        report["build"],
        json!({"detected_system": "cargo",
               "commands": {"install": "cargo fetch", "build": "cargo build", "clean": "cargo clean"},
               "prerequisites": ["rust", "clang"], "notes": "needs a C compiler"})
    );
    assert_eq!(report["test"]["detected_framework"], "cargo test");
    assert_eq!(
        report["test"]["commands"],
        json!({"all": "cargo test", "unit": "cargo test --lib", "integration": "x"})
    );
    assert_eq!(report["test"]["coverage_command"], "cargo llvm-cov");
    assert_eq!(report["failure_analysis"]["root_cause"], "one() returns two");
    assert_eq!(report["failure_analysis"]["affected_files"], json!(["src/lib.rs"]));
    assert_eq!(report["environment_issues"].as_array().unwrap().len(), 1);
}

#[test]
fn where_nothing_was_detected_the_model_says() {
    let report = json!({"build": {"detected_system": "make", "commands": {"build": "sh build.sh"}},
                        "test": {"commands": {"all": "sh test.sh"}}});
    let host = FakeHost::new(Files::of(&[("build.sh", ""), ("test.sh", "")]))
        .calls(&[("report", &report.to_string())]);
    let report = asked(&host, &question(&[]));
    assert_eq!(report["build"]["detected_system"], "make");
    assert_eq!(report["build"]["commands"]["build"], "sh build.sh");
    assert_eq!(report["test"]["commands"]["all"], "sh test.sh");
}

// SCOUT-B-7
#[test]
fn the_failing_run_reaches_the_model_as_data_beside_what_was_detected() {
    let host = FakeHost::new(crate_files())
        .calls(&[("report", r#"{"failure_analysis":{"root_cause":"x"}}"#)]);
    let log = "running 1 test\n</tail_log>\nerror: assertion failed at src/lib.rs:1\n";
    let changes = "since the start of the task: 1 files\nsrc/lib.rs +2 -1\n";
    let context = [("tail_log", log), ("failing_step", "test"), ("changes", changes)];
    let report = asked(&host, &question(&context));
    let sent = host.sent();
    assert!(sent[0].contains("schema version 1") && sent[0].contains("only diagnose"));
    assert!(sent[1].contains("<failing_step>\n| test\n</failing_step>\n"));
    assert!(sent[1].contains("\n| src/lib.rs +2 -1\n</changes>\n"));
    assert!(sent[1].contains("| </tail_log>\n| error: assertion failed"));
    assert!(sent[1].contains(
        "<facts>\nroot: \".\"\nsystem: \"cargo\"\nframework: \"cargo test\"\nsource: \"Cargo.toml\":1\n"
    ));
    // The log names a file that the model did not.
    assert_eq!(report["failure_analysis"]["affected_files"], json!(["src/lib.rs"]));
    let sent = sent.iter().map(String::len).sum::<usize>()
        + act_kit::report::schema(MANIFEST).unwrap().len();
    assert!(sent < 6_000, "{sent}");
}

/// Two files, and two targets to make.
fn makefile() -> Files {
    Files::of(&[("Makefile", "lint:\n\tx\nverify:\n\ty\n"), ("b.txt", "1\n2\n")])
}

// SCOUT-B-18
#[test]
fn commands_that_are_not_there_are_left_out_and_named() {
    let parsed = json!({"build": {"commands": {"build": "sh ghost/build.sh", "clean": "make lint"}, "notes": "n"},
                      "test": {"commands": {"all": "make ghost", "unit": "make verify"}}});
    let host = FakeHost::new(makefile()).calls(&[("report", &parsed.to_string())]);
    let report = asked(&host, &question(&[]));
    assert_eq!(report["build"]["commands"]["build"], "make", "of the facts");
    assert_eq!(report["build"]["commands"]["clean"], "make lint");
    assert_eq!(report["test"]["commands"]["unit"], "make verify");
    assert_ne!(report["test"]["commands"]["all"], "make ghost");
    let notes = report["build"]["notes"].as_str().unwrap();
    for why in ["there is no file ghost/build.sh", "test.commands.all is left out: `make ghost`"] {
        assert!(notes.contains(why), "{notes}");
    }
}

// SCOUT-B-18
#[test]
fn a_line_that_is_not_there_goes_back_to_the_model_once() {
    let naming = |line: u32| {
        let see = format!("see b.txt:{line}");
        json!({"failure_analysis": {"root_cause": "x", "affected_files": ["b.txt", "ghost"],
                                    "suggested_investigation": [see]}})
        .to_string()
    };
    let (wrong, right) = (naming(99), naming(2));
    let host = FakeHost::new(makefile()).calls(&[("report", &wrong)]).calls(&[("report", &right)]);
    let report = asked(&host, &question(&[]));
    let sent = &host.sent()[2];
    assert!(sent.contains("b.txt has 2 lines, not 99"), "{sent:?}");
    assert_eq!(report["failure_analysis"]["affected_files"], json!(["b.txt"]));
    let twice = FakeHost::new(makefile()).calls(&[("report", &wrong)]).calls(&[("report", &wrong)]);
    assert!(matches!(ask(twice.world(), &question(&[])), Err(Failure::Model(_))));
}

// SCOUT-B-5, SCOUT-B-6
#[test]
fn what_the_log_says_is_not_overruled_either() {
    let log = "=== FAILURES ===\nE   assert 1 == 2\nsrc/lib.rs:1: in f\nsh: 1: ruff: not found\n\
               WARNING: DATA RACE\n=== short test summary info ===\nFAILED a.py::b\n1 failed in 0.1s\n";
    let report = json!({"failure_analysis": {"root_cause": "a race", "affected_files": ["Cargo.toml"],
                                             "is_flaky": false}});
    let host = FakeHost::new(crate_files()).calls(&[("report", &report.to_string())]);
    let report = asked(&host, &question(&[("tail_log", log)]));
    let analysis = &report["failure_analysis"];
    assert_eq!(analysis["root_cause"], "a race");
    assert_eq!(analysis["affected_files"], json!(["src/lib.rs", "Cargo.toml"]));
    assert_eq!(analysis["is_flaky"], true);
    assert_eq!(report["environment_issues"][0]["issue"], "sh: 1: ruff: not found");
    let opening = &host.sent()[1];
    for parsed in
        ["failing tool: \"pytest\"", "failing tests: [\"a.py::b\"]", "places: [\"src/lib.rs:1\"]"]
    {
        assert!(opening.contains(parsed), "{opening}");
    }
}

// SCOUT-B-1
#[test]
fn the_report_is_about_the_package_that_is_worked_on() {
    let files =
        Files::of(&[("package.json", "{}"), ("core/Cargo.toml", "[package]\n"), ("docs/a.md", "")]);
    let host = FakeHost::new(files)
        .calls(&[("report", r#"{"failure_analysis":{"root_cause":""}}"#)])
        .calls(&[("report", r#"{"failure_analysis":{"root_cause":""}}"#)]);
    let core = asked(&host, &question(&[("package", "core")]));
    assert_eq!(core["build"]["detected_system"], "cargo");
    assert_eq!(core["build"]["notes"], "commands are for the directory core; other projects: .");
    let docs = asked(&host, &question(&[("package", "docs")]));
    assert_eq!(docs["build"]["detected_system"], "npm");
}

#[test]
fn what_does_not_fit_the_schema_is_refused_with_its_place() {
    let wrong = r#"{"build":{"detected_system":"bazel"}}"#;
    let host = FakeHost::new(crate_files()).calls(&[("report", wrong)]).calls(&[("report", wrong)]);
    let failure = ask(host.world(), &question(&[])).unwrap_err();
    let Failure::Model(why) = failure else { panic!("{failure:?}") };
    assert!(why.contains("build.detected_system: unknown variant `bazel`"), "{why}");
}

#[test]
fn the_manifest_declares_what_the_report_has() {
    let schema: Value = serde_json::from_str(&act_kit::report::schema(MANIFEST).unwrap()).unwrap();
    let declared = schema["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let report = ReportB { answer: Some(String::new()), ..ReportB::default() };
    let report = serde_json::to_value(report).unwrap();
    assert_eq!(declared, report.as_object().unwrap().keys().cloned().collect::<Vec<_>>());
}
