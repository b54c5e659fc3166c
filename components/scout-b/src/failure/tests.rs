//! Logs of real tools with the findings that a person would make, and logs that try to deceive.

use super::*;
use crate::facts::Location;
use crate::tests::corpus::{Score, fixtures};
use act_kit::inventory::Inventory;
use act_kit::testing::Files;
use serde_json::{Value, json};

fn analysed(log: &str, files: &[(String, String)]) -> Failure {
    let files = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>();
    let files = Files::of(&files);
    let inventory = Inventory::of(&files).unwrap();
    analyse(log, &Tree::new(&files, &inventory))
}

fn lines(count: u64) -> String {
    "line\n".repeat(count as usize)
}

fn cases() -> Vec<(String, String, Value)> {
    let logs =
        fixtures("logs").into_iter().filter(|path| path.extension().is_some_and(|e| e == "log"));
    let case = |path: std::path::PathBuf| {
        let log = std::fs::read_to_string(&path).unwrap();
        let expected = std::fs::read_to_string(path.with_extension("json")).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, log, serde_json::from_str(&expected).unwrap())
    };
    logs.map(case).collect()
}

fn files(expected: &Value) -> Vec<(String, String)> {
    let files = expected["files"].as_object().unwrap().iter();
    files.map(|(path, count)| (path.clone(), lines(count.as_u64().unwrap()))).collect()
}

fn compare(score: &mut Score, name: &str, expected: &Value, found: &Failure) {
    let text = |locations: &[Location]| {
        locations.iter().map(|p| format!("{}:{}", p.path, p.line)).collect::<Vec<_>>()
    };
    score.field("tool", name, &expected["tool"], &json!(found.tool));
    score.field("failing_tests", name, &expected["failing_tests"], &json!(found.failing_tests));
    let wanted = expected["first_error"].as_str().unwrap();
    let first = match wanted.strip_suffix('…') {
        Some(start) if found.first_error.starts_with(start) => wanted,
        _ => &found.first_error,
    };
    score.field("first_error", name, &expected["first_error"], &json!(first));
    score.field("locations", name, &expected["locations"], &json!(text(&found.locations)));
    // An issue is expected by a part of what to do about it.
    let wanted = expected["environment"].as_array().unwrap();
    let fixes = found.environment_issues.iter().map(|issue| issue.suggested_fix.as_str());
    let part = |fix: &str| {
        wanted
            .iter()
            .find(|part| fix.contains(part.as_str().unwrap()))
            .cloned()
            .unwrap_or(json!(fix))
    };
    score.field(
        "environment",
        name,
        &expected["environment"],
        &json!(fixes.map(part).collect::<Vec<_>>()),
    );
    let reason = found.flaky_reason.as_deref();
    let flaky = match expected["flaky"].as_str() {
        Some(part) if reason.is_some_and(|reason| reason.contains(part)) => json!(part),
        _ => json!(reason),
    };
    score.field("flaky", name, &expected["flaky"], &flaky);
    assert_eq!(found.is_flaky, reason.is_some());
}

// SCOUT-B-12
#[test]
fn corpus_of_logs() {
    let mut score = Score::default();
    let cases = cases();
    assert!(
        cases.iter().filter(|(.., expected)| expected["made"] == "by running the tool").count()
            >= 40
    );
    for (name, log, expected) in &cases {
        compare(&mut score, name, expected, &analysed(log, &files(expected)));
    }
    score.print();
    assert!(score.wrong.is_empty());
}

// SCOUT-B-13
#[test]
fn carriage_returns_stamps_and_a_long_head_change_nothing() {
    let mut score = Score::default();
    for (name, log, expected) in &cases() {
        let windows = log.replace('\n', "\r\n");
        let stamped = log
            .lines()
            .map(|line| format!("2026-01-31T12:00:00.1234567Z {line}\n"))
            .collect::<String>();
        let long = format!("{}{log}", "noise without any meaning\n".repeat(3_000));
        for text in [windows, stamped, long] {
            compare(&mut score, name, expected, &analysed(&text, &files(expected)));
        }
    }
    score.print();
    assert!(score.wrong.is_empty());
}

// SCOUT-B-14
#[test]
fn no_log_however_cut_or_mixed_names_a_place_that_is_not_there() {
    let cases = cases();
    let files = cases.iter().flat_map(|(.., expected)| files(expected)).collect::<Vec<_>>();
    let length =
        |path: &str| files.iter().filter(|(p, _)| p == path).map(|(_, t)| t.lines().count()).max();
    for (at, (_, log, _)) in cases.iter().enumerate() {
        let (_, other, _) = &cases[(at * 7 + 3) % cases.len()];
        let head = &log[..log.floor_char_boundary(log.len() / 2)];
        let tail = &log[log.ceil_char_boundary(log.len() / 3)..];
        let mixed =
            log.lines().zip(other.lines()).map(|(a, b)| format!("{a}\n{b}\n")).collect::<String>();
        let far = log.replace(":1", ":99999");
        for text in [head.to_owned(), tail.to_owned(), mixed, far, format!("{other}{log}")] {
            let found = analysed(&text, &files);
            for location in &found.locations {
                assert!(
                    length(&location.path).is_some_and(|lines| location.line as usize <= lines),
                    "{location:?}"
                );
            }
            assert!(found.first_error.len() <= TEXT + 3 && found.failing_tests.len() <= TESTS);
        }
    }
}

#[test]
fn flakiness_is_told_by_its_signs() {
    for (log, reason) in [
        ("WARNING: DATA RACE\n", Some("data race")),
        ("  FLAKY 2/3 [   0.1s] a b\n", Some("tried again")),
        (
            "[WARNING] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Flakes: 1\n",
            Some("tried again"),
        ),
        ("--- FAIL: TestA (0.0s)\n--- PASS: TestA (0.0s)\n", Some("TestA passed and failed")),
        ("a.py::test_x PASSED\na.py::test_x FAILED\n", Some("passed and failed")),
        ("listen EADDRINUSE: address already in use :::3000\n", Some("port")),
        ("--- FAIL: TestA (0.0s)\n--- PASS: TestB (0.0s)\n", None),
        ("Timeout of 2000ms exceeded\n", None),
    ] {
        let found = analysed(log, &[]).flaky_reason;
        match reason {
            Some(part) => {
                assert!(found.as_deref().is_some_and(|found| found.contains(part)), "{log}")
            }
            None => assert_eq!(found, None),
        }
    }
}
