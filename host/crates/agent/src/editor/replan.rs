//! Which Scouts to ask again after three failures, from the failures alone. Pure.

use super::attempt::Attempt;

/// Signs that the wrong place was changed or something it depends on was missed: Scout A's subject.
const CODE: [&str; 10] = [
    "no such file",
    "cannot find",
    "can't find",
    "unresolved",
    "undefined",
    "not defined",
    "no module named",
    "importerror",
    "has no attribute",
    "unknown import",
];
/// Signs that build or environment was misread: Scout B's subject.
const BUILD: [&str; 8] = [
    "command not found",
    ": not found",
    "permission denied",
    "could not resolve",
    "connection refused",
    "read-only file system",
    "no tests ran",
    "no space left",
];

/// Names of the Scouts whose knowledge the failures put in doubt; none for plain logic errors.
pub(super) fn requery(failures: &[Attempt]) -> Vec<&'static str> {
    let says = |signs: &[&str]| {
        failures.iter().any(|failure| {
            let line = failure.first_failing_line.to_lowercase();
            signs.iter().any(|sign| line.contains(sign))
        })
    };
    let environment = failures
        .iter()
        .any(|failure| failure.reason == "timeout" || matches!(failure.exit_code, Some(126 | 127)));
    let mut names = vec![];
    if says(&CODE) {
        names.push("scout-a");
    }
    if environment || says(&BUILD) {
        names.push("scout-b");
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(line: &str, exit_code: i64, reason: &'static str) -> Attempt {
        Attempt {
            number: 1,
            run_id: "run_20260101_000000_aaaaaa".into(),
            strategy: 1,
            step: Some("test".into()),
            exit_code: Some(exit_code),
            reason,
            first_failing_line: line.into(),
            failing_lines: vec![],
        }
    }

    #[test]
    fn asks_again_only_where_the_failures_point() {
        let logic = failure("FAIL: expected 5, got -1", 1, "step_failed");
        let missing = failure("ImportError: cannot import name 'x'", 1, "step_failed");
        let tool = failure("sh: pytest: not found", 127, "step_failed");
        assert!(requery(std::slice::from_ref(&logic)).is_empty());
        assert_eq!(requery(&[logic.clone(), missing.clone()]), ["scout-a"]);
        assert_eq!(requery(&[logic.clone(), tool]), ["scout-b"]);
        assert_eq!(requery(&[logic, failure("", 137, "timeout"), missing]), ["scout-a", "scout-b"]);
    }
}
