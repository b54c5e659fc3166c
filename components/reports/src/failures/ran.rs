//! Whether a log shows that a test ran: by the summary of a tool, or by a line that only a run of tests prints.

use super::counts;
use super::log::Log;

/// Tests that ran, whether they passed or failed. Tests that were skipped, listed or only compiled did not run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ran {
    /// The number of tests; `None` if no tool prints one.
    pub tests: Option<u64>,
}

impl Ran {
    /// Reads the log of a step; returns `None` if it shows no test that ran.
    pub fn of(log: &Log) -> Option<Self> {
        let known = counts::of_all(log);
        let known = known.passed.unwrap_or(0).saturating_add(known.failed.unwrap_or(0));
        let further =
            log.iter().filter_map(|(_, line)| further(line)).fold(0_u64, u64::saturating_add);
        let tests = match known {
            0 => further,
            known => known,
        };
        let some = tests > 0 || log.position(shows).is_some();
        some.then(|| Self { tests: Some(tests).filter(|tests| *tests > 0) })
    }

    /// Returns the sum of the tests of two steps.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let tests = match (self.tests, other.tests) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        Self { tests }
    }
}

/// Returns the number of tests that a summary states, of tools whose failures no reader knows.
fn further(line: &str) -> Option<u64> {
    let text = line.trim().trim_matches(['=', '-', ' ']);
    // ctest: `100% tests passed, 0 tests failed out of 12`, since CMake 4.1 `100% tests passed out of 12`.
    if let Some((said, total)) = text.split_once(" out of ")
        && let Some((_, rest)) = said.split_once("% tests passed")
        && (rest.is_empty() || rest.ends_with(" failed"))
    {
        return number(total);
    }
    // automake: `# PASS:  12`; Meson: `Ok:                 12`; tape: `# pass  12`; uvu: `Passed:    12`.
    for label in ["# PASS:", "Ok:", "# pass  ", "Passed:"] {
        if let Some(rest) = text.strip_prefix(label) {
            return number(rest).filter(|_| rest.trim().bytes().all(|b| b.is_ascii_digit()));
        }
    }
    // GoogleTest: `[  PASSED  ] 12 tests.`
    if let Some(rest) = text.strip_prefix("[  PASSED  ] ") {
        return number(rest).filter(|_| rest.contains(" test"));
    }
    let count = number(text)?;
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    // jq: `300 of 302 tests passed (0 malformed, 0 skipped)`.
    let rest = match rest.strip_prefix("of ") {
        Some(total) => total.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start(),
        None => rest,
    };
    // Ava, Unity, Jasmine, Minitest, Check (`100%: Checks: 12, Failures: 0, Errors: 0`).
    let summary = rest.starts_with("tests passed")
        || rest.starts_with("test passed")
        || (rest.starts_with("Tests ") && rest.contains(" Failures "))
        // A project's own program: `102 tests conducted, 0 failed.`
        || (rest.starts_with("tests ") && rest.contains(", ") && rest.contains(" failed"))
        || (rest.starts_with("specs, ") && rest.contains(" failure"))
        || (rest.starts_with("runs, ") && rest.contains(" assertions"));
    let check = || rest.strip_prefix("%: Checks: ").and_then(number);
    match summary {
        true => Some(count),
        false => check(),
    }
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.get(..digits)?.parse().ok()
}

/// Returns whether a line shows that tests ran, without their number.
fn shows(line: &str) -> bool {
    // go: `ok  	example.com/a	0.005s`.
    if line.starts_with("ok  \t") {
        return !line.contains("[no tests to run]") && !line.contains("[no test files]");
    }
    let text = line.trim();
    // Gradle prints a task without a word behind its name when it has run.
    if let Some(task) = text.strip_prefix("> Task :") {
        let name = task.rsplit(':').next().unwrap_or(task);
        return !name.contains(' ') && (name == "test" || name.ends_with("Test"));
    }
    // TAP: `ok 1 - adds`.
    if let Some(rest) = text.strip_prefix("ok ") {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        return after.len() < rest.len()
            && (after.is_empty() || after.starts_with(' '))
            && !after.to_lowercase().contains("# skip");
    }
    // automake: `PASS: test_a`; many programs in C say it in one sentence.
    let lower = text.to_lowercase();
    (text.starts_with("PASS: ") && text.len() < 200)
        || lower.starts_with("all tests passed")
        || lower.starts_with("all tests succeeded")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(log: &str) -> Option<Option<u64>> {
        Ran::of(&Log::of(log)).map(|ran| ran.tests)
    }

    #[test]
    fn a_run_of_tests_is_seen_in_the_output_of_its_tool() {
        for (log, tests) in [
            ("===== 3 passed, 1 skipped in 0.12s =====\n", Some(3)),
            ("Ran 4 tests in 0.001s\n\nOK\n", Some(4)),
            ("test result: ok. 2 passed; 0 failed; 0 ignored\n", Some(2)),
            (
                "test result: ok. 2 passed; 0 failed;\ntest result: ok. 5 passed; 0 failed;\n",
                Some(7),
            ),
            ("ok  \texample.com/a\t0.005s\n?   \tb\t[no test files]\n", None),
            ("--- PASS: TestA (0.00s)\nok  \texample.com/a\t0.005s\n", Some(1)),
            ("Tests:       4 passed, 4 total\n", Some(4)),
            ("# tests 4\n# pass 4\n# fail 0\n", Some(4)),
            ("1..3\n# tests 3\n# pass  3\n", Some(3)),
            ("  21 passing (22ms)\n", Some(21)),
            ("[INFO] Tests run: 9, Failures: 0, Errors: 0, Skipped: 2\n", Some(7)),
            ("> Task :compileJava\n> Task :app:test\n\nBUILD SUCCESSFUL in 3s\n", None),
            ("> Task :okio:jvmTest\n", None),
            ("100% tests passed, 0 tests failed out of 12\n", Some(12)),
            ("100% tests passed out of 19\n", Some(19)),
            ("102 tests conducted, 0 failed.\n", Some(102)),
            ("95% tests passed, 1 test failed out of 19\n", Some(19)),
            ("# TOTAL: 5\n# PASS:  5\n# FAIL:  0\n", Some(5)),
            ("Ok:                 12\nFail:               0\n", Some(12)),
            ("[  PASSED  ] 12 tests.\n", Some(12)),
            ("-----------------------\n7 Tests 0 Failures 0 Ignored\nOK\n", Some(7)),
            ("300 of 300 tests passed (0 malformed, 0 skipped)\n", Some(300)),
            ("ok 1 - adds\nok 2 - subtracts\n", None),
            ("ALL TESTS PASSED\n", None),
            ("  12 tests passed\n", Some(12)),
            ("100%: Checks: 30, Failures: 0, Errors: 0\n", Some(30)),
        ] {
            assert_eq!(ran(log), Some(tests), "{log}");
        }
    }

    #[test]
    fn output_without_a_test_that_ran_shows_none() {
        for log in [
            "",
            "all is well\n",
            "Successfully installed 12 packages\n",
            "collected 2 items\n\n===== 2 skipped in 0.01s =====\n",
            "===== no tests ran in 0.01s =====\n",
            "Ran 0 tests in 0.000s\n\nOK\n",
            "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 1 ignored\n",
            "ok  \texample.com/a\t0.001s [no tests to run]\n",
            "?   \texample.com/a\t[no test files]\n",
            "> Task :test NO-SOURCE\n> Task :a:test UP-TO-DATE\n> Task :testClasses\nBUILD SUCCESSFUL\n",
            "No tests were found!!!\n",
            "Tests:       3 skipped, 3 total\n",
            "# PASS:  0\n",
            "ok 1 - adds # SKIP no database\n",
            "0 tests passed\n",
        ] {
            assert_eq!(ran(log), None, "{log}");
        }
    }
}
