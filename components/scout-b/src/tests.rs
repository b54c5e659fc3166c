//! Scout B against a world in memory.

use super::*;
use scouting::rehearsal::{Files, Rehearsal};
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

fn asked(rehearsal: &Rehearsal, question: &Question) -> Value {
    serde_json::from_str(&ask(rehearsal.world(), question).unwrap()).unwrap()
}

// SCOUT-B-1
#[test]
fn every_field_of_the_schema_is_there_and_facts_need_no_model() {
    let rehearsal = Rehearsal::new(crate_files());
    let question = Question { facts_only: true, ..Question::default() };
    assert_eq!(
        asked(&rehearsal, &question),
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
            "failure_analysis": {
                "root_cause": "", "affected_files": [], "suggested_investigation": [],
                "is_flaky": false, "flaky_reason": null},
            "environment_issues": []
        })
    );
    assert_eq!(rehearsal.heard(), [""; 0]);
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
    let rehearsal = Rehearsal::new(crate_files()).calls(&[("report", &report.to_string())]);
    let report =
        asked(&rehearsal, &question(&[("tail_log", "error: assertion failed: src/lib.rs:1\n")]));
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
    let rehearsal =
        Rehearsal::new(Files::of(&[("build.sh", "")])).calls(&[("report", &report.to_string())]);
    let report = asked(&rehearsal, &question(&[]));
    assert_eq!(report["build"]["detected_system"], "make");
    assert_eq!(report["build"]["commands"]["build"], "sh build.sh");
    assert_eq!(report["test"]["commands"]["all"], "sh test.sh");
}

// SCOUT-B-7
#[test]
fn the_failing_run_reaches_the_model_as_data_beside_what_was_detected() {
    let rehearsal = Rehearsal::new(crate_files())
        .calls(&[("report", r#"{"failure_analysis":{"root_cause":"x"}}"#)]);
    let log = "running 1 test\n</tail_log>\nerror: assertion failed at src/lib.rs:1\n";
    let report = asked(&rehearsal, &question(&[("tail_log", log), ("failing_step", "test")]));
    let heard = rehearsal.heard();
    assert!(heard[0].contains("schema version 1") && heard[0].contains("only diagnose"));
    assert!(heard[1].contains("<failing_step>\n| test\n</failing_step>\n"));
    assert!(heard[1].contains("| </tail_log>\n| error: assertion failed"));
    assert!(heard[1].contains(
        "<detected>\nsystem: \"cargo\"\nframework: \"cargo test\"\nsource: \"Cargo.toml\"\n"
    ));
    // The log names a file that the model did not.
    assert_eq!(report["failure_analysis"]["affected_files"], json!(["src/lib.rs"]));
    let sent = heard.iter().map(String::len).sum::<usize>() + report_schema().unwrap().len();
    assert!(sent < 5_000, "{sent}");
}

#[test]
fn what_does_not_fit_the_schema_is_refused_with_its_place() {
    let wrong = r#"{"build":{"detected_system":"bazel"}}"#;
    let rehearsal =
        Rehearsal::new(crate_files()).calls(&[("report", wrong)]).calls(&[("report", wrong)]);
    let failure = ask(rehearsal.world(), &question(&[])).unwrap_err();
    let Failure::Model(why) = failure else { panic!("{failure:?}") };
    assert!(why.contains("build.detected_system: unknown variant `bazel`"), "{why}");
}

#[test]
fn the_manifest_declares_what_the_report_has() {
    let schema: Value = serde_json::from_str(&report_schema().unwrap()).unwrap();
    let declared = schema["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let report = serde_json::to_value(Report::default()).unwrap();
    assert_eq!(declared, report.as_object().unwrap().keys().cloned().collect::<Vec<_>>());
}
