//! Whole logs of real tools with the first failure, the groups and the places that a person would name, and logs that try
//! to deceive or to cost time.

use crate::tests::corpus::fixtures;
use act_kit::reports::failures::{Failures, Log, Passed};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::Instant;

fn logs(directory: &str) -> Vec<PathBuf> {
    let paths = fixtures(directory).into_iter();
    paths.filter(|path| path.extension().is_some_and(|end| end == "log")).collect()
}

/// The steps of a pipeline run in `/workspace`.
fn own(path: &str) -> Option<String> {
    let path = path.trim_start_matches("file://");
    let path = path.strip_prefix("/workspace/").unwrap_or(path);
    (!path.starts_with('/')).then(|| path.trim_start_matches("./").to_owned())
}

fn parsed(log: &str) -> Failures {
    Failures::of(&Log::of(log), &own)
}

fn shown(found: &Failures) -> Value {
    let place = |at: &usize| found.failures[*at].place.as_ref().map(ToString::to_string);
    let groups = found.groups.iter().map(|group| {
        let place = place(&group.failures[0]);
        json!({"message": group.message, "count": group.failures.len(), "place": place})
    });
    let first = &found.failures[0];
    json!({
        "tool": found.tool,
        "counts": found.counts.to_string(),
        "first": found.headline(),
        "lines": format!("{}-{}", first.lines.0, first.lines.1),
        "groups": groups.collect::<Vec<_>>(),
    })
}

/// EDITOR-53. `ACT_BLESS=1` writes what is found, for a review by eye.
#[test]
fn recorded_logs_give_the_right_first_failure_groups_and_places() {
    let file = fixtures("failures").into_iter().find(|path| path.ends_with("expected.json"));
    let file = file.unwrap();
    let expected: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let mut found = Map::new();
    for path in logs("failures") {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let mut value = json!({"command": expected[&name]["command"]});
        let log = std::fs::read_to_string(path).unwrap();
        value.as_object_mut().unwrap().extend(shown(&parsed(&log)).as_object().unwrap().clone());
        found.insert(name, value);
    }
    assert!(found.len() >= 20);
    if std::env::var_os("ACT_BLESS").is_some() {
        let text = serde_json::to_string_pretty(&Value::from(found)).unwrap();
        return std::fs::write(&file, format!("{text}\n")).unwrap();
    }
    for (name, found) in &found {
        assert_eq!(found, &expected[name], "{name}");
    }
}

/// EDITOR-53
#[test]
fn no_failure_is_named_by_a_passing_test_a_ruler_or_a_declaration() {
    for path in logs("failures").into_iter().chain(logs("logs")) {
        let log = std::fs::read_to_string(&path).unwrap();
        // The beginning of a log has no summary, so that no tool is recognised in it.
        let half = log.get(..log.floor_char_boundary(log.len() / 2)).unwrap().to_owned();
        for text in [log, half] {
            let found = parsed(&text);
            assert!(found.failures.iter().all(|one| !one.headline().is_empty()), "{path:?}");
            for headline in found.failures.iter().map(|one| one.headline()) {
                let ends = ["... ok", "PASSED"].iter().any(|end| headline.ends_with(end));
                let starts = ["def ", "====", "----", "ok ", "✓", "✔", "test result: ok"];
                let starts = starts.iter().any(|start| headline.starts_with(start));
                assert!(!ends && !starts, "{path:?}: {headline}");
            }
        }
    }
}

/// EDITOR-53
#[test]
fn the_text_of_a_failure_holds_no_noise_and_leads_to_the_cause() {
    let of = |name: &str| {
        let path = logs("failures").into_iter().find(|path| path.ends_with(name)).unwrap();
        parsed(&std::fs::read_to_string(path).unwrap())
    };
    let rust = of("cargo-test-backtrace.log");
    let text = &rust.groups[3].excerpt;
    assert!(text.contains("at ./src/lib.rs:8:") && !text.contains("/rustc/"), "{text}");
    assert!(text.len() < 1_000 && !rust.tail.contains("... ok"), "{text}\n{}", rust.tail);
    let python = of("pytest-one-cause-1033.log");
    assert_eq!(python.failures.len(), 1033);
    assert!(python.groups[0].excerpt.contains("result += amuont"), "{}", python.groups[0].excerpt);
    assert_eq!(python.tail, "1033 failed, 41 passed in 3.66s");
    let many = of("pytest-parametrized-23.log");
    assert!(many.tail.len() < 500, "{}", many.tail);
    let syntax = of("pytest-conftest-colon.log");
    let short = syntax.short.unwrap();
    assert!(short.contains("line 4\n") && short.contains("expected ':'"), "{short}");
    assert!(!short.contains("ast.py"), "{short}");
}

#[test]
fn a_passed_step_is_told_by_its_counts_and_its_last_line() {
    for (log, counts, last) in [
        (
            "....\n===== 84 passed, 2 skipped in 0.15s =====\n\n",
            "84 passed, 2 skipped",
            "84 passed, 2 skipped in 0.15s",
        ),
        (
            "test a ... ok\n\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\n\n   Doc-tests x\n\n\
             test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
            "5 passed, 1 skipped",
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        ),
        (
            "--- PASS: TestA (0.00s)\n--- SKIP: TestB (0.00s)\nPASS\nok  \ta\t0.1s\n",
            "1 passed, 1 skipped",
            "ok  \ta\t0.1s",
        ),
        ("Ran 4 tests in 0.002s\n\nOK (skipped=1)\n", "3 passed, 1 skipped", "OK (skipped=1)"),
        (
            "Tests:       3 passed, 3 total\nSnapshots:   0 total\n",
            "3 passed",
            "Snapshots:   0 total",
        ),
        (
            "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 1\n[INFO] BUILD SUCCESS\n",
            "2 passed, 1 skipped",
            "[INFO] BUILD SUCCESS",
        ),
        ("# tests 3\n# pass 3\n# fail 0\n", "3 passed", "# fail 0"),
        ("  21 passing (22ms)\n", "21 passed", "21 passing (22ms)"),
        ("built\n", "", "built"),
        ("", "", ""),
    ] {
        let found = Passed::of(&Log::of(log));
        assert_eq!(
            (found.counts.to_string().as_str(), found.last_line.as_str()),
            (counts, last),
            "{log}"
        );
    }
}

/// A deterministic source of numbers, so that a failure can be repeated.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most.max(1)
    }
}

/// Security: a step's output is written by an attacker.
#[test]
fn lines_of_logs_in_any_order_are_parsed_within_bounds() {
    let texts: Vec<_> = logs("failures").into_iter().chain(logs("logs")).collect();
    let texts: Vec<_> = texts.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let lines: Vec<&str> = texts.iter().flat_map(|text| text.lines().take(200)).collect();
    let mut numbers = Numbers(7);
    for _ in 0..60 {
        let mut log = String::new();
        for _ in 0..numbers.below(400) {
            let line = lines[numbers.below(lines.len())];
            let cut = line.floor_char_boundary(numbers.below(line.len() + 1));
            match numbers.below(8) {
                0 => log.push_str(&line[..cut]),
                1 => log.push_str(&line[cut..]),
                2 => log.push_str(&format!("{line}\r{}", &line[cut..])),
                3 => log.push_str(&line.repeat(3)),
                _ => log.push_str(line),
            }
            log.push('\n');
        }
        let found = parsed(&log);
        assert!(found.groups.len() <= 20 && found.tail.len() <= 8 * 1024 + 300);
        for group in &found.groups {
            assert!(
                group.excerpt.len() <= 6_000 && group.message.len() <= 303,
                "{}",
                group.excerpt
            );
        }
        for failure in &found.failures {
            assert!(failure.name.len() <= 303 && failure.message.len() <= 303);
            assert!(failure.lines.0 <= failure.lines.1 && failure.frames.len() <= 12);
            assert!(failure.lines.1 <= log.lines().count() + 1);
        }
    }
}

/// Security: each line is the one that costs most in one of the parsers.
#[test]
fn time_grows_with_the_length_of_a_log_alone() {
    let ends = "1 failed in 0.1s\nFAILED (failures=1)\ntest result: FAILED. 0 passed; 1 failed\nFAIL\nTest Suites: 1 failed, 1 total\n\
                 Tests  1 failed (1)\n1 failing\n# fail 1\nerror: could not compile `x`\n";
    for line in [
        "____ a ____",
        "E   x",
        "=====\nFAIL: a (b.c)",
        "---- a stdout ----",
        "failures:\n    a\n\ntest result: FAILED. 0 passed; 1 failed",
        "--- FAIL: TestA/a (0.1s)\npanic: x",
        "=== RUN   a/b/c/d/e/f/g",
        "not ok 1 - x",
        "  ● a",
        " FAIL  a > b",
        "✖ a (1ms)",
        "error[E1]: x",
        "x.c:1:1: error: ‘’‘’‘’‘’",
        "[ERROR] a.b <<< FAILURE!",
        "'''''''''\"\"\"\"\"\"\"",
        "a.py:1: a.py:1: a.py:1: a.py:1:",
        "",
    ] {
        let log = |count: usize| format!("{}{ends}", format!("{line}\n").repeat(count));
        let time = |log: &str| {
            let start = Instant::now();
            parsed(log);
            start.elapsed()
        };
        // Eight times the lines: linear is 8, quadratic is 64. A floor of 20 ms keeps the clock's noise out, and a machine that
        // is busy at one moment gets two more tries.
        let is_linear = || {
            let (one, eight) = (time(&log(500)), time(&log(4_000)));
            eight < one.max(std::time::Duration::from_millis(20)) * 30
        };
        assert!((0..3).any(|_| is_linear()), "{line:?}");
    }
}
