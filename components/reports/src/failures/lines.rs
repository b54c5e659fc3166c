//! Judges single lines of a log: whether they report a failure, a success, or nothing.

use super::places::{is_foreign_frame, is_std_symbol};

/// The meaning of a line of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// A tool marks this line as a failure: `error:`, `FAILED`, `panicked at`.
    Failure,
    /// The line contains a word such as `error`, which names and passing text contain too.
    Mention,
    None,
}

/// Words that mention a failure.
const MENTIONS: [&str; 7] =
    ["error", "fail", "panic", "assert", "exception", "not found", "expected"];

/// Judges a line of a tool that is not known.
pub(super) fn sign(line: &str) -> Sign {
    let line = line.trim();
    if is_ruler(line) || is_declaration(line) {
        return Sign::None;
    }
    let lowered = line.to_lowercase();
    if line.contains(": Assertion `") {
        // The expression of a C assertion may hold anything.
        return Sign::Failure;
    }
    if counts_failures(&lowered) {
        // A summary counts failures and describes none.
        return Sign::Mention;
    }
    if passes(line) {
        return Sign::None;
    }
    if marks_failure(line, &lowered) {
        return Sign::Failure;
    }
    match MENTIONS.iter().any(|word| lowered.contains(word)) {
        true => Sign::Mention,
        false => Sign::None,
    }
}

/// Returns whether a line only separates: `-----`, `===== FAILURES =====`, `⎯⎯⎯⎯[1/3]⎯`.
pub(super) fn is_ruler(line: &str) -> bool {
    let line = line.trim();
    let rules = |c: char| "=-_*~─━⎯═+.^|".contains(c);
    let (ahead, behind) = (
        line.chars().take_while(|c| rules(*c)).count(),
        line.chars().rev().take_while(|c| rules(*c)).count(),
    );
    !line.is_empty() && (line.chars().all(|c| rules(c) || c == ' ') || (ahead >= 3 && behind >= 3))
}

/// Returns whether a line is source code that declares a test or a function.
fn is_declaration(line: &str) -> bool {
    const STARTS: [&str; 16] = [
        "def ",
        "async def ",
        "class ",
        "fn ",
        "pub fn ",
        "func ",
        "function ",
        "it(",
        "test(",
        "describe(",
        "@pytest",
        "#[test]",
        "public void ",
        "async fn ",
        "import ",
        "from ",
    ];
    let line = line.trim_start_matches('>').trim_start();
    STARTS.iter().any(|start| line.starts_with(start))
}

/// Iterates over the words of a line: letters, digits and underscores.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns whether a line counts at least one failure: `3 failed`, `1 error`.
fn counts_failures(lowered: &str) -> bool {
    counted(lowered).any(|count| count > 0)
}

fn counted(lowered: &str) -> impl Iterator<Item = u64> {
    words(lowered).zip(words(lowered).skip(1)).filter_map(|(number, word)| {
        let failure = ["failed", "failure", "failures", "error", "errors"].contains(&word);
        let number = if number == "no" { Some(0) } else { number.parse().ok() };
        number.filter(|_| failure)
    })
}

/// Returns whether a line reports that something passed or was left out.
pub(super) fn passes(line: &str) -> bool {
    let line = line.trim();
    if line.starts_with("not ok") || line.starts_with("# not ok") {
        return false;
    }
    let lowered = line.to_lowercase();
    let result = |rest: &str| {
        let word = words(rest.trim_start()).next().unwrap_or_default();
        let at_once = rest.trim_start().starts_with(word);
        at_once && ["ok", "passed", "ignored", "skipped"].contains(&word)
    };
    let after_dots = ["...", "…"]
        .iter()
        .any(|dots| lowered.rsplit_once(dots).is_some_and(|(_, rest)| result(rest)));
    let bare = lowered.trim_start_matches(|c: char| !c.is_alphanumeric());
    let first = words(bare).next().unwrap_or_default();
    let leads = ["ok", "pass", "passed", "skip", "skipped", "xfail"].contains(&first)
        && bare.len() > first.len();
    let failures = counted(&lowered).collect::<Vec<_>>();
    after_dots
        || leads
        || line.starts_with(['✓', '✔', '√'])
        || words(line).any(|word| word == "PASSED")
        || (!failures.is_empty() && failures.iter().all(|count| *count == 0))
}

fn marks_failure(line: &str, lowered: &str) -> bool {
    let error = ["error", "Error", "ERROR"].iter().any(|word| {
        line.match_indices(word).any(|(at, _)| {
            let ahead = line[..at].chars().next_back();
            let rest = &line[at + word.len()..];
            // `error[E0308]:`
            let code = rest.strip_prefix('[');
            let code = code.map(|code| code.trim_start_matches(char::is_alphanumeric));
            let rest = code.and_then(|code| code.strip_prefix(']')).unwrap_or(rest);
            !ahead.is_some_and(|c| c.is_alphanumeric() || c == '_') && rest.starts_with(':')
        })
    });
    let named = ["Error", "Exception"].iter().any(|word| {
        line.match_indices(word).any(|(at, _)| {
            let ahead = line[..at].chars().next_back();
            let rest = &line[at + word.len()..];
            ahead.is_some_and(|c| c.is_alphanumeric() || c == '_')
                && (rest.is_empty() || rest.starts_with(':'))
        })
    });
    error
        || named
        || line.starts_with("E  ")
        || words(line).any(|word| ["FAIL", "FAILED", "FAILURE"].contains(&word))
        || line.contains("panicked at")
        || line.split_once("ssertion").is_some_and(|(_, rest)| rest.contains("failed"))
        || line.starts_with("Assertion")
        || line.starts_with("Traceback ")
        || line.starts_with("not ok ")
        || line.starts_with(['✗', '✘', '✕', '×'])
        || lowered.contains("fatal:")
        || lowered.contains("fatal error:")
        || line.ends_with(": not found")
        || line.contains("command not found")
        || line.contains("No such file or directory")
}

/// Returns whether a line only shows progress: `....F..  [ 50%]`, `=== RUN   TestA`, `running 3 tests`.
fn is_progress(line: &str) -> bool {
    let text = line.trim();
    const STARTS: [&str; 8] = [
        "=== RUN ",
        "=== PAUSE ",
        "=== CONT ",
        "=== NAME ",
        "# Subtest: ",
        "duration_ms",
        "Compiling ",
        "Downloading ",
    ];
    let (dots, percent) = match text.rsplit_once(" [") {
        Some((dots, rest)) if rest.ends_with("%]") => (dots.trim_end(), true),
        _ => (text, false),
    };
    let dots = if percent { dots.rsplit(' ').next().unwrap_or_default() } else { dots };
    let marks = dots.chars().all(|c| ".sxXFER,".contains(c));
    STARTS.iter().any(|start| text.starts_with(start))
        || (marks && (percent || dots.contains('.')) && !dots.is_empty())
}

/// Returns whether a line helps nobody to find the cause of a failure: it is blank, separates, reports a success, shows
/// progress, or is a frame of a toolchain.
pub(super) fn is_noise(line: &str) -> bool {
    let counts_tests =
        ["passed", "failed", "error", "skipped"].iter().any(|word| line.contains(word));
    line.trim().is_empty()
        || (is_ruler(line) && !counts_tests)
        || is_progress(line)
        || is_foreign_frame(line)
        || is_std_symbol(line)
        || (passes(line)
            && !words(&line.to_lowercase()).any(|word| word == "passed" && counts(line)))
}

/// Returns the text of a line that states a value of a failed comparison: what was expected, what was there instead, or a line
/// of their difference.
pub(super) fn value(line: &str) -> Option<&str> {
    const STARTS: [&str; 7] = ["expected", "received", "actual", "got", "want", "left:", "right:"];
    // pytest marks the lines of an error, which hold the comparison with its values.
    let marked = line.strip_prefix("E ");
    let text = marked.unwrap_or(line).trim();
    let lowered = text.to_lowercase();
    let states = STARTS.iter().any(|start| lowered.starts_with(start))
        && (marked.is_some() || text.contains([':', '=']));
    let asserts = marked.is_some() && text.starts_with("assert ");
    // `+     2`, `-1`, but neither `--- FAIL` nor `+++ b/price.py`.
    let differs = text.strip_prefix(['+', '-']).is_some_and(|rest| {
        !rest.starts_with(['+', '-', '>']) && rest.contains(char::is_alphanumeric)
    });
    let has = |word| words(&lowered).any(|one| one == word);
    let compares = has("got") && (has("want") || has("expected"));
    (states || asserts || differs || compares).then_some(text)
}

/// Returns whether a line counts something: `2 passed`.
fn counts(line: &str) -> bool {
    words(line).any(|word| word.parse::<u64>().is_ok())
        && !line.contains("...")
        && !line.contains('%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_reports_a_pass_separates_or_declares_is_no_failure() {
        for line in [
            "test tests::test_errors ... ok",
            "test result: ok. 3 passed; 0 failed; 0 ignored",
            "ok 1 - handles errors",
            "✓ throws an error (3 ms)",
            "tests/test_error.py::test_error PASSED [ 50%]",
            "--- PASS: TestError (0.00s)",
            "PASS src/error.test.js",
            "test_error (x.Test) ... ok",
            "=================================== FAILURES ===================================",
            "--------------------- Captured error log ------------------------",
            "def test_flag_group_competition_four_flags(self, error):",
            "    it('throws an error', () => {",
        ] {
            assert_eq!(sign(line), Sign::None, "{line}");
        }
        for line in [
            "test a ... FAILED",
            "not ok 2 - handles errors",
            "✕ adds",
            "FAILED tests/test_a.py::test_b - assert 1 == 2",
            "--- FAIL: TestAdd (0.00s)",
            "FAIL src/add.test.js",
            "thread 'main' panicked at src/lib.rs:3:5:",
            "ValueError: no",
            "error[E0308]: mismatched types",
            "FAIL: add 2 3: expected 5, got -1",
            "t: test_ini.c:14: main: Assertion `ini_len(\"xy\") == 2' failed.",
            "sh: 1: ruff: not found",
        ] {
            assert_eq!(sign(line), Sign::Failure, "{line}");
        }
        for line in
            ["the error handler was loaded", "3 failed, 2 passed", "expected output follows"]
        {
            assert_eq!(sign(line), Sign::Mention, "{line}");
        }
    }

    #[test]
    fn values_of_a_failed_comparison_are_known_by_their_shape() {
        for (line, text) in [
            ("    Expected: 3", Some("Expected: 3")),
            ("  left: 1", Some("left: 1")),
            ("E       assert 1 == 2", Some("assert 1 == 2")),
            ("E        +  where 1 = total()", Some("+  where 1 = total()")),
            ("+     2", Some("+     2")),
            ("        want:\t\ttrue", Some("want:\t\ttrue")),
            ("    a_test.go:3: got 1, want 2", Some("a_test.go:3: got 1, want 2")),
            ("--- FAIL: TestA (0.00s)", None),
            ("    assert total() == 2", None),
            ("  --> src/a.rs:3:5", None),
            ("the expected end", None),
        ] {
            assert_eq!(value(line), text, "{line}");
        }
    }

    #[test]
    fn noise_is_what_leads_to_no_cause() {
        for line in [
            "",
            "----------",
            "test a ... ok",
            "....F..s.                     [ 50%]",
            "tests/test_a.py ....F..s.     [ 50%]",
            "tests/test_a.py::test_a PASSED  [ 1%]",
            "=== RUN   TestA",
            "   1: core::panicking::panic_fmt",
            "             at /rustc/5980/library/std/src/panicking.rs:689:5",
            "✔ no error 3 (0.1ms)",
        ] {
            assert!(is_noise(line), "{line}");
        }
        for line in [
            "2 failed, 3 passed in 0.1s",
            "E   assert 1 == 2",
            "    assert_eq!(a, b);",
            "error: test failed, to rerun pass `--lib`",
            "test result: FAILED. 40 passed; 4 failed; 0 ignored",
            "===== 84 passed in 0.15s =====",
        ] {
            assert!(!is_noise(line), "{line}");
        }
    }
}
