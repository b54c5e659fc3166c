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
    let text = &rust.groups[2].excerpt;
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

/// EDITOR-53
#[test]
fn a_suite_and_a_cancelled_test_are_not_counted_as_failed_tests() {
    for name in ["node-18-suites-spec.log", "node-18-suites-tap.log", "node-20-suites-spec.log"] {
        let path = logs("failures").into_iter().find(|path| path.ends_with(name)).unwrap();
        let found = parsed(&std::fs::read_to_string(path).unwrap());
        let counts = "5 failed, 5 cancelled, 1 passed, 1 skipped";
        assert_eq!(found.counts.to_string(), counts, "{name}");
        let names = |group: usize| {
            let failures = found.groups[group].failures.iter();
            failures.map(|at| found.failures[*at].name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(names(0), ["of 0 nulls", "of 1 nulls", "of 2 nulls"], "{name}");
        // Nothing inside of the suite failed, so that its own error is the cause.
        assert_eq!((names(2), names(4).len()), (vec!["with a database"], 5), "{name}");
        assert!(found.groups[2].excerpt.contains("price.test.js:15"), "{name}");
        // The same failures are in the log twice.
        assert!(!found.tail.contains("reduce"), "{name}: {}", found.tail);
    }
}

/// EDITOR-53
#[test]
fn a_suite_with_an_error_of_its_own_comes_behind_the_tests_that_failed_in_it() {
    let test = |name: &str, indent: &str, kind: &str, error: &str| {
        format!(
            "{indent}not ok 1 - {name}\n{indent}  ---\n{indent}  failureType: '{kind}'\n{indent}  error: '{error}'\n{indent}  ...\n"
        )
    };
    let log = [
        test("adds", "    ", "testCodeFailure", "one is not two"),
        test("prices", "", "hookFailed", "no disk to clean"),
        "# pass 0\n# fail 2\n".to_owned(),
    ];
    let log = log.concat();
    let later = log.replace("not ok 1 - adds", "ok 1 - adds");
    let found = parsed(&log);
    assert_eq!(found.counts.to_string(), "1 failed");
    let texts = |found: &Failures| -> Vec<_> {
        found.groups.iter().map(|group| (group.message.clone(), group.excerpt.is_empty())).collect()
    };
    let (one, disk) = ("one is not two".to_owned(), "no disk to clean".to_owned());
    assert_eq!(texts(&found), [(one, false), (disk.clone(), true)]);
    let alone = parsed(&later);
    assert_eq!((texts(&alone), alone.counts.failed), (vec![(disk, false)], Some(1)));
}

/// EDITOR-53
#[test]
fn failures_of_one_cause_are_one_group_whatever_the_tests_put_in_front() {
    let log = |messages: &[(&str, &str)]| {
        let failed =
            |(name, text): &(&str, &str)| format!("--- FAIL: {name} (0.00s)\n    {text}\n");
        format!("{}FAIL\tx\t0.1s\n", messages.iter().map(failed).collect::<String>())
    };
    let groups = |messages: &[(&str, &str)]| -> Vec<usize> {
        parsed(&log(messages)).groups.iter().map(|group| group.failures.len()).collect()
    };
    // The name of the test, a flag, values in quotes and in brackets, and words of its own before an error that it passes on.
    let one_cause = [
        ("TestA", "a_test.go:3: TestA: Set(\"x\") of --int failed: [1 2]"),
        ("TestBig", "b_test.go:9: TestBig: Set(\"\") of -b failed: []"),
    ];
    assert_eq!(groups(&one_cause), [2]);
    let passed_on = [
        (
            "TestA",
            "a_test.go:3: got error: trying to get boolSlice value of flag of type boolSlice",
        ),
        ("TestB", "b_test.go:4: expected no error; get trying to get ip value of flag of type ip"),
    ];
    assert_eq!(groups(&passed_on), [2]);
    for two_causes in [
        [
            ("TestA", "a_test.go:3: GetBool does not work"),
            ("TestB", "a_test.go:4: GetInt does not work"),
        ],
        [
            ("TestA", "a_test.go:3: price is not a number"),
            ("TestB", "a_test.go:4: total is not a number"),
        ],
    ] {
        assert_eq!(groups(&two_causes), [1, 1], "{two_causes:?}");
    }
}

/// EDITOR-53
#[test]
fn the_text_of_a_failure_repeats_neither_its_message_nor_itself() {
    let log = "--- FAIL: TestBytes (0.00s)\n    b_test.go:65: cannot fetch the flag at all\n    b_test.go:68: expected 1, got 2\n\
               \x20   b_test.go:65: cannot fetch the flag at all\n    b_test.go:68: expected 1, got 2\n\
               --- FAIL: TestOther (0.00s)\n    o_test.go:5: a message that stands alone\nFAIL\tx\t0.1s\n";
    let found = parsed(log);
    let texts: Vec<_> = found.groups.iter().map(|group| group.excerpt.as_str()).collect();
    let folded = "    b_test.go:65: cannot fetch the flag at all (2 times)\n    b_test.go:68: expected 1, got 2 (2 times)";
    assert_eq!(texts, [folded, ""]);
}

/// EDITOR-53
#[test]
fn failures_in_files_that_are_asked_for_come_first() {
    let log = "--- FAIL: TestA (0.00s)\n    a_test.go:3: a\n--- FAIL: TestB (0.00s)\n    b_test.go:4: b\nFAIL\tx\t0.1s\n";
    let first = |path: &str| path == "b_test.go";
    let found = Failures::of_task(&Log::of(log), &own, &first);
    let names: Vec<_> = found.failures.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        (names, found.headline()),
        (vec!["TestB", "TestA"], "TestB: b (b_test.go:4)".to_owned())
    );
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
