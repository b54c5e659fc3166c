//! A green step in which no test ran proves little; the runners that say so are recognised by what they print.

/// What a runner prints when it found nothing to run, and what it prints when it did.
struct Runner {
    name: &'static str,
    none: fn(&str) -> bool,
    some: fn(&str) -> bool,
}

const RUNNERS: [Runner; 8] = [
    Runner {
        name: "pytest",
        none: |line| {
            line.trim_matches(['=', ' ']).starts_with("no tests ran in ")
                || line.starts_with("collected 0 items")
        },
        some: |line| line.starts_with("collected ") && !line.starts_with("collected 0 items"),
    },
    Runner {
        name: "unittest",
        none: |line| line.starts_with("Ran 0 tests in ") || line == "NO TESTS RAN",
        some: |line| counted(line, "Ran ", " test"),
    },
    Runner {
        name: "jest",
        none: |line| line.starts_with("No tests found, exiting with code 0"),
        some: |line| line.starts_with("Tests:") && line.contains(" total"),
    },
    Runner {
        name: "vitest",
        none: |line| {
            let line = line.trim_start();
            line.starts_with("No test files found, exiting with code 0")
                || line.starts_with("No test suite found")
        },
        some: |line| {
            let line = line.trim_start();
            line.starts_with("Test Files ") || line.starts_with("Tests ")
        },
    },
    Runner {
        name: "mocha",
        none: |line| line.trim().starts_with("0 passing"),
        some: |line| counted(line.trim_start(), "", " passing"),
    },
    Runner {
        name: "node:test",
        none: |line| matches!(line.trim(), "# tests 0" | "ℹ tests 0"),
        some: |line| counted(line.trim_start_matches(['#', 'ℹ', ' ']), "tests ", ""),
    },
    Runner {
        name: "cargo test",
        none: |line| line == "running 0 tests",
        some: |line| counted(line, "running ", " test"),
    },
    Runner {
        name: "go test",
        none: |line| line.ends_with("[no test files]") || line.ends_with("[no tests to run]"),
        some: |line| {
            (line.starts_with("ok  \t") && !line.ends_with("[no tests to run]"))
                || line.starts_with("--- PASS")
        },
    },
];

/// A number above zero between the two.
fn counted(line: &str, before: &str, after: &str) -> bool {
    let Some(rest) = line.strip_prefix(before) else { return false };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = rest.split_at(digits);
    number.parse::<u64>().is_ok_and(|number| number > 0) && rest.starts_with(after)
}

/// The runner that ran nothing, if one said so and none ran something. `output` must be all that was printed.
pub(super) fn no_tests_ran(output: &str) -> Option<&'static str> {
    let output = plain(output);
    let lines = || output.lines().map(str::trim_end);
    if RUNNERS.iter().any(|runner| lines().any(runner.some)) {
        return None;
    }
    RUNNERS.iter().find(|runner| lines().any(runner.none)).map(|runner| runner.name)
}

/// Without colour sequences.
fn plain(text: &str) -> String {
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
        ] {
            assert_eq!(no_tests_ran(output), Some(runner), "{output}");
        }
    }

    // VERIFIER-27
    #[test]
    fn one_test_anywhere_is_enough_and_other_output_means_nothing() {
        for output in [
            "",
            "all is well\n",
            "collected 3 items\n",
            "Ran 1 test in 0.1s\n",
            "running 2 tests\n\nrunning 0 tests\n",
            "?   \ta\t[no test files]\nok  \tb\t0.1s\n",
            "# tests 4\n",
            "  3 passing (9ms)\n",
            "Tests:       4 passed, 4 total\n",
        ] {
            assert_eq!(no_tests_ran(output), None, "{output}");
        }
    }
}
