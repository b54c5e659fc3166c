//! Recognises a step that passed without running a test, by the output of the common test runners.

/// A test runner, with the lines that it prints when it ran no test and when it ran one. Tests that were only
/// collected, compiled, skipped or listed did not run.
struct Runner {
    name: &'static str,
    none: fn(&str) -> bool,
    some: fn(&str) -> bool,
}

const RUNNERS: [Runner; 8] = [
    Runner {
        name: "pytest",
        none: |line| {
            let line = line.trim_matches(['=', ' ']);
            line.starts_with("no tests ran in ")
                || line.starts_with("collected 0 items")
                || has_count_of(line, &["skipped", "deselected"])
                || (has_number(line, "", " test") && line.contains(" collected"))
        },
        some: |line| {
            let line = line.trim_matches(['=', ' ']);
            has_count_of(line, &["passed", "failed", "error", "errors", "xfailed", "xpassed"])
        },
    },
    Runner {
        name: "unittest",
        none: |line| line.starts_with("Ran 0 tests in ") || line == "NO TESTS RAN",
        some: |line| has_number(line, "Ran ", " test"),
    },
    Runner {
        name: "jest",
        none: |line| {
            line.starts_with("No tests found, exiting with code 0")
                || (line.starts_with("Tests:") && line.contains(" total") && !reports_results(line))
        },
        some: |line| line.starts_with("Tests:") && line.contains(" total") && reports_results(line),
    },
    Runner {
        name: "vitest",
        none: |line| {
            let line = line.trim_start();
            line.starts_with("No test files found, exiting with code 0")
                || line.starts_with("No test suite found")
                || (line.starts_with("Tests  ") && line.ends_with(')') && !reports_results(line))
        },
        some: |line| {
            let line = line.trim_start();
            line.starts_with("Tests  ") && reports_results(line)
        },
    },
    Runner {
        name: "mocha",
        none: |line| line.trim().starts_with("0 passing"),
        some: |line| has_number(line.trim_start(), "", " passing"),
    },
    Runner {
        name: "node:test",
        none: |line| matches!(line.trim(), "# tests 0" | "ℹ tests 0" | "# pass 0" | "ℹ pass 0"),
        some: |line| {
            let line = line.trim_start_matches(['#', 'ℹ', ' ']);
            has_number(line, "pass ", "") || has_number(line, "fail ", "")
        },
    },
    Runner {
        name: "cargo test",
        none: |line| {
            let trimmed = line.trim_start();
            line == "running 0 tests"
                || line.starts_with("test result: ok. 0 passed; 0 failed;")
                || (trimmed.starts_with("Executable ") && trimmed.contains("/deps/"))
                || (has_number(line, "", " test") && line.ends_with(" benchmarks"))
        },
        some: |line| {
            let result = line.split_once("test result: ").map_or("", |(_, result)| result);
            let mut numbers = result.split(['.', ';']).map(str::trim_start);
            numbers.any(|part| has_number(part, "", " passed") || has_number(part, "", " failed"))
                || (line.contains(" tests run: ") && reports_results(line))
        },
    },
    Runner {
        name: "go test",
        none: |line| {
            line.ends_with("[no test files]")
                || line.ends_with("[no tests to run]")
                || calls_go_without_tests(line)
        },
        some: |line| {
            (line.starts_with("ok  \t") && !line.ends_with("[no tests to run]"))
                || line.starts_with("--- PASS")
        },
    },
];

/// Returns whether a line is a sum such as `3 passed, 1 skipped in 0.12s` with one of the words.
fn has_count_of(line: &str, words: &[&str]) -> bool {
    let Some((sum, time)) = line.rsplit_once(" in ") else { return false };
    let parts = sum.split(", ").map(|part| part.split_once(' '));
    let counts = parts.map(|part| part.filter(|(number, _)| number.parse::<u64>().is_ok()));
    let Some(counts) = counts.collect::<Option<Vec<_>>>() else { return false };
    time.starts_with(|c: char| c.is_ascii_digit())
        && counts.iter().any(|(_, word)| words.contains(word))
}

fn reports_results(line: &str) -> bool {
    line.contains(" passed") || line.contains(" failed")
}

/// Returns whether a line calls `go test` so that it only compiles or lists tests. It then prints `ok` all the same.
fn calls_go_without_tests(line: &str) -> bool {
    let Some((_, after)) = line.split_once("go test ") else { return false };
    let call = after.split(['&', ';', '|']).next().unwrap_or_default();
    let words =
        call.split_whitespace().map(|word| word.trim_matches(['"', '\''])).collect::<Vec<_>>();
    let none = |value: &str| {
        let value = value.trim_matches(['"', '\'', '^', '$']);
        matches!(value, "" | "NONE" | "none" | "XXX" | "xxx")
    };
    let by_value =
        words.windows(2).any(|pair| matches!(pair[0], "-run" | "--run") && none(pair[1]));
    by_value
        || words.iter().any(|word| {
            let word = word.trim_start_matches('-');
            let run = word.strip_prefix("run=").is_some_and(none);
            run || word == "count=0" || word == "list" || word.starts_with("list=")
        })
}

/// Returns whether a line has a number above zero between `before` and `after`.
fn has_number(line: &str, before: &str, after: &str) -> bool {
    let Some(rest) = line.strip_prefix(before) else { return false };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = rest.split_at(digits);
    number.parse::<u64>().is_ok_and(|number| number > 0) && rest.starts_with(after)
}

/// Returns the name of a runner that ran no test, unless another one ran some. `output` must be the whole output. The
/// calls of `go test` are found in `command`, and in the output of make and `set -x`.
pub(crate) fn no_tests_ran(command: &str, output: &str) -> Option<&'static str> {
    let output = without_colours(output);
    let lines = || output.lines().map(str::trim_end);
    let all = || command.lines().chain(lines());
    // If every call only compiles or lists, `ok` does not show that a test ran.
    let calls = all().filter(|line| line.contains("go test ")).collect::<Vec<_>>();
    let idle = !calls.is_empty() && calls.iter().all(|line| calls_go_without_tests(line));
    let some =
        |runner: &Runner, line: &str| (runner.some)(line) && !(idle && line.starts_with("ok  \t"));
    if RUNNERS.iter().any(|runner| lines().any(|line| some(runner, line))) {
        return None;
    }
    RUNNERS.iter().find(|runner| all().any(runner.none)).map(|runner| runner.name)
}

fn without_colours(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        out.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let end = after.find(|c: char| c.is_ascii_alphabetic()).map_or(after.len(), |end| end + 1);
        rest = &after[end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // VERIFIER-27
    #[test]
    fn every_runner_that_ran_nothing_is_named() {
        for (output, runner) in [
            ("collected 0 items\n\n===== no tests ran in 0.01s =====\n", "pytest"),
            ("----\nRan 0 tests in 0.000s\n\nOK\n", "unittest"),
            ("No tests found, exiting with code 0\n", "jest"),
            ("\u{1b}[31mNo test files found, exiting with code 0\u{1b}[39m\n", "vitest"),
            ("\n\n  0 passing (1ms)\n", "mocha"),
            ("TAP version 13\n1..0\n# tests 0\n# pass 0\n", "node:test"),
            ("\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed\n", "cargo test"),
            ("?   \texample.com/a\t[no test files]\n", "go test"),
            ("ok  \texample.com/a\t0.001s [no tests to run]\n", "go test"),
            (
                "collected 2 items\n\n<Function test_a>\n=== 2 tests collected in 0.01s ===\n",
                "pytest",
            ),
            ("collected 2 items\n\ntests/test_a.py ss\n\n==== 2 skipped in 0.01s ====\n", "pytest"),
            ("  Executable unittests src/lib.rs (target/debug/deps/a-1f)\n", "cargo test"),
            ("tests::a: test\n\n1 test, 0 benchmarks\n", "cargo test"),
            (
                "running 1 test\ntest a ... ignored\n\n\
                 test result: ok. 0 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n",
                "cargo test",
            ),
            ("Tests:       3 skipped, 3 total\n", "jest"),
            ("      Tests  3 skipped (3)\n", "vitest"),
            ("# tests 2\n# pass 0\n# fail 0\n# skipped 2\n", "node:test"),
            ("go test -run=^$ ./...\nok  \tx\t0.005s\n", "go test"),
        ] {
            assert_eq!(no_tests_ran("make test", output), Some(runner), "{output}");
        }
    }

    // VERIFIER-27
    #[test]
    fn one_test_anywhere_is_enough_and_other_output_means_nothing() {
        for output in [
            "",
            "all is well\n",
            "collected 3 items\n\n=== 2 passed, 1 skipped in 0.02s ===\n",
            "1 passed in 62.01s (0:01:02)\n",
            "Ran 1 test in 0.1s\n",
            "running 2 tests\ntest result: ok. 2 passed; 0 failed; 0 ignored\n\nrunning 0 tests\n\n\
             test result: ok. 0 passed; 0 failed; 0 ignored\n",
            "     Summary [   0.01s] 2 tests run: 2 passed, 0 skipped\nrunning 0 tests\n",
            "?   \ta\t[no test files]\nok  \tb\t0.1s\n",
            "# tests 4\n# pass 4\n# fail 0\n",
            "  3 passing (9ms)\n",
            "Tests:       4 passed, 4 total\n",
        ] {
            assert_eq!(no_tests_ran("make test", output), None, "{output}");
        }
    }

    // VERIFIER-27
    #[test]
    fn a_call_of_go_test_that_matches_nothing_is_named_though_it_prints_ok() {
        let ok = "ok  \tx\t0.005s\n";
        for command in [
            "go test -run=^$ -bench=. ./...",
            "go test -run '^$' ./...",
            "cd a && go test -list . ./...",
            "go test -count=0 ./...",
        ] {
            assert_eq!(no_tests_ran(command, ok), Some("go test"), "{command}");
        }
        for command in [
            "go test ./...",
            "go test -run=^$ -bench=. ./... && go test ./...\ngo test ./...",
            "go test -run TestA ./...",
            "scripts/test",
        ] {
            assert_eq!(no_tests_ran(command, ok), None, "{command}");
        }
    }
}
