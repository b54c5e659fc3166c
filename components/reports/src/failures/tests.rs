//! Logs of an attacker, each long enough that a reader whose work grows with its square would take many seconds or
//! gigabytes.

use super::*;
use std::time::{Duration, Instant};

/// Runs something, and returns its result when it takes little time, also on a busy machine.
fn soon<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = work();
    let took = began.elapsed();
    eprintln!("{name}: {took:?}");
    assert!(took < Duration::from_secs(5), "{name} took {took:?}");
    result
}

/// Parses a log with one reader. Returns the reading, and the number of its failures.
fn reading(name: &str, reader: Reader, text: &str) -> (Reading, usize) {
    let log = Log::of(text);
    let reading = soon(name, || reader(&log)).unwrap_or_default();
    assert!(reading.failing.len() <= FAILURES, "{name}");
    let bounded = |one: &Failing| one.name.len() + one.message.len() <= 2 * (TEXT + "…".len());
    assert!(reading.failing.iter().all(bounded), "{name}");
    let count = reading.failing.len() + reading.more;
    (reading, count)
}

fn failures(name: &str, text: &str) -> Failures {
    let log = Log::of(text);
    soon(name, || Failures::of(&log, &|path| Some(path.to_owned())))
}

#[test]
fn failures_of_gradle_that_follow_each_other_are_read_once() {
    let text = format!("{}9 tests completed, 9 failed\n", "    A > b FAILED\n".repeat(30_000));
    let (found, count) = reading("gradle, headings", jvm::tests, &text);
    assert_eq!((found.failing.len(), count, found.marks.len()), (FAILURES, 30_000, 0));
    let text = format!("A > b FAILED\n{}1 tests completed, 1 failed\n", "    x\n".repeat(30_000));
    let (found, _) = reading("gradle, one long failure", jvm::tests, &text);
    assert_eq!((found.failing[0].block.len(), found.marks.len()), (FRAME_LINES + 1, FRAME_LINES));
}

#[test]
fn a_long_path_of_a_suite_of_jest_is_kept_once() {
    let path = format!("FAIL /{}\n", "a".repeat(3_900));
    let heads = (0..100_000).map(|n| format!("  ● {n}\n")).collect::<String>();
    let text = format!("{path}{heads}Test Suites: 1 failed, 1 total\n");
    assert_eq!(reading("jest", javascript::jest, &text).1, 100_000);
    // The same name in another suite is another test; a suite that is printed again is the same one.
    let suite = |name: &str| format!("FAIL {name}.js\n  ● x\n");
    let text = format!("{}{}{}Tests: 2 failed, 2 total\n", suite("a"), suite("b"), suite("a"));
    assert_eq!(reading("jest, again", javascript::jest, &text).1, 2);
}

#[test]
fn names_of_go_with_many_slashes_are_sorted() {
    let name = "/".repeat(3_900);
    let lines = (0..500).map(|n| format!("--- FAIL: T{n}{name}\n")).collect::<String>();
    assert_eq!(reading("go, slashes", go::go, &format!("{lines}FAIL\tx\t0.1s\n")).1, 500);
    let text = "--- FAIL: A\n--- FAIL: A-b\n--- FAIL: A/b\n--- FAIL: A/b/c\nFAIL\n";
    let (found, _) = reading("go, inside", go::go, text);
    assert_eq!(found.tests().collect::<Vec<_>>(), ["A-b", "A/b/c"]);
}

#[test]
fn the_output_of_a_test_of_go_is_read_once() {
    let text = format!("{}FAIL\tx\t0.1s\n", "--- FAIL: A\nx\n".repeat(20_000));
    assert_eq!(reading("go, ranges", go::go, &text).1, 20_000);
    let output = "x\n".repeat(30_000);
    let text = format!("=== RUN A\n{output}{}FAIL\tx\t0.1s\n", "--- FAIL: A\n".repeat(5_000));
    assert_eq!(reading("go, output", go::go, &text).1, 5_000);
    let text = format!("{}FAIL\tx\t0.1s\n", "panic: x\n\tx\n".repeat(20_000));
    assert_eq!(reading("go, panics", go::go, &text).0.marks.len(), 20_000);
}

#[test]
fn a_log_is_searched_for_yarn_once() {
    let text = "error x\n".repeat(30_000);
    assert_eq!(reading("yarn, unknown", packages::npm, &text).1, 0);
    let text = format!("{text}info Visit https://yarnpkg.com/\n");
    assert_eq!(reading("yarn, known", packages::npm, &text).1, 1);
}

#[test]
fn text_that_tests_of_vitest_share_is_read_once() {
    let names = (0..FAILURES).map(|n| format!(" FAIL  a.test.js > {n}\n")).collect::<String>();
    let frame = format!(" ❯ f a.js:3:5 {}\n", "b.js:1 ".repeat(20));
    let frames = frame.repeat(FRAME_LINES);
    let text = format!("{names}Error: x\n{frames}\n Tests  5000 failed (5000)\n");
    let found = failures("vitest", &text);
    let places = found.failures.iter().filter(|one| one.place.is_some()).count();
    assert_eq!((found.tool, found.count(), places), ("vitest", FAILURES, FAILURES));
}

#[test]
fn blocks_that_overlap_are_read_at_most_twice_the_size_of_the_log() {
    let line = format!("error: x\n at a.js:3:5 {}\n", "b.js:1 ".repeat(100));
    let text = format!("{}error: could not compile `x`\n", line.repeat(500));
    assert_eq!(failures("rustc", &text).tool, "rustc");
}

#[test]
fn other_lists_and_texts_of_failures_are_bounded() {
    let path = "a".repeat(3_900);
    let text = format!("{path}\n{}✖ 9 problems (9 errors)\n", "  3:5  error  x\n".repeat(20_000));
    assert_eq!(reading("eslint", javascript::eslint, &text).0.locations.len(), FAILURES);
    let text = format!("{}# fail 9\n", "not ok 1 - x\n".repeat(20_000));
    assert_eq!(reading("tap", javascript::node_test, &text).1, 20_000);
    let text = format!("{}Tests run: 9, Failures: 9\n", "a <<< FAILURE!\n".repeat(20_000));
    assert_eq!(reading("surefire", jvm::tests, &text).1, 20_000);
    let text = (1..=20_000).map(|n| format!("  {n}) a:\n")).collect::<String>();
    let text = format!("  9 failing\n{text}");
    assert_eq!(reading("mocha", javascript::mocha, &text).1, 20_000);
    let heads = (0..30_000).map(|n| format!("---- {n} stdout ----\n")).collect::<String>();
    let text = format!("{heads}{}", "test result: FAILED.\n".repeat(20_000));
    assert_eq!(reading("libtest", rust::cargo_test, &text).1, 0);
    let message = "-a".repeat(1_900);
    let heads = (0..200).map(|n| format!("  ● {n}\n{message}\n")).collect::<String>();
    let text = format!("{heads}Tests: 2 failed, 2 total\n");
    assert_eq!(failures("messages", &text).count(), 200);
}

#[test]
fn pytest_shows_the_end_of_a_test_and_each_message_once() {
    let source = (0..30).map(|n| format!("        line_{n}()\n")).collect::<String>();
    let block = |name: &str| {
        format!(
            "____ {name} ____\n\na = 1\n\n    @mark\n    def {name}():\n{source}>       assert a == 2\nE       \
             assert 1 == 2\nE         Full diff:\nE         - 2\n\ntests/test_a.py:40: AssertionError\n"
        )
    };
    let summary = |name: &str| {
        format!("FAILED tests/test_a.py::{name} - assert 1 == 2\n  Full diff:\n  - 2 of {name}\n")
    };
    let text = format!(
        "==== FAILURES ====\n{}{}==== short test summary info ====\n{}{}==== 2 failed in 0.10s ====\nmake: *** [test] Error 1\n",
        block("test_a"),
        block("test_b"),
        summary("test_a"),
        summary("test_b"),
    );
    let found = failures("pytest, long tests", &text);
    let excerpt = &found.groups[0].excerpt;
    assert!(excerpt.contains("… 26 lines …\n        line_24()\n"), "{excerpt}");
    assert!(!excerpt.contains("line_23()") && excerpt.contains("a = 1\n"), "{excerpt}");
    assert!(found.tail.ends_with("make: *** [test] Error 1"), "{}", found.tail);
    assert!(!found.tail.contains(" of test_"), "{}", found.tail);
}
