//! What can be read off a log without understanding it: the first error, the files it names, the usual troubles of an
//! environment.

use crate::report::{EnvironmentIssue, Severity};
use scouting::inventory::Inventory;
use scouting::quoting::cut;

const FILES: usize = 10;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sifted {
    pub(crate) first_error: Option<String>,
    /// Of the inventory, in the order in which the log names them.
    pub(crate) files: Vec<String>,
    pub(crate) issues: Vec<EnvironmentIssue>,
}

/// Words that a line about an error begins with or holds.
const ERRORS: [&str; 12] = [
    "error:",
    "error[",
    "Error:",
    "Exception",
    "FAILED",
    "FAIL:",
    "--- FAIL",
    "panicked at",
    "AssertionError",
    "assertion failed",
    "fatal:",
    "✕",
];

/// What an environment says when it lacks something: text, is it blocking, what to do.
const TROUBLES: [(&str, Severity, &str); 8] = [
    (
        "command not found",
        Severity::Blocking,
        "use an image that has the command, or install it in an earlier step",
    ),
    (
        ": not found",
        Severity::Blocking,
        "use an image that has the command, or install it in an earlier step",
    ),
    (
        "ModuleNotFoundError",
        Severity::Blocking,
        "install the project's dependencies in an earlier step",
    ),
    (
        "Cannot find module",
        Severity::Blocking,
        "install the project's dependencies in an earlier step",
    ),
    ("No space left on device", Severity::Blocking, "free disk space"),
    (
        "Read-only file system",
        Severity::Blocking,
        "write below /artifacts or use another workspace mode",
    ),
    (
        "Could not resolve host",
        Severity::Blocking,
        "allow the network for this step, or bring the files along",
    ),
    ("Permission denied", Severity::Warning, "check the mode and owner of the file"),
];

pub(crate) fn sift(log: &str, inventory: &Inventory) -> Sifted {
    let mut sifted = Sifted::default();
    for line in log.lines() {
        if sifted.first_error.is_none() && ERRORS.iter().any(|word| line.contains(word)) {
            sifted.first_error = Some(cut(line.trim(), 300));
        }
        for word in line.split(|c: char| c.is_whitespace() || "\"'`()[]<>,;:=".contains(c)) {
            let path = word.trim_start_matches("./").trim_start_matches("/workspace/");
            let path = path.trim_start_matches("/artifacts/build/tree/");
            if sifted.files.len() < FILES
                && inventory.has(path)
                && !sifted.files.iter().any(|file| file == path)
            {
                sifted.files.push(path.to_owned());
            }
        }
        for (text, severity, fix) in TROUBLES {
            if line.contains(text) && !sifted.issues.iter().any(|issue| issue.suggested_fix == fix)
            {
                sifted.issues.push(EnvironmentIssue {
                    issue: cut(line.trim(), 200),
                    severity,
                    suggested_fix: fix.to_owned(),
                });
            }
        }
    }
    sifted
}

#[cfg(test)]
mod tests {
    use super::*;
    use scouting::rehearsal::Files;

    // SCOUT-B-6
    #[test]
    fn the_first_error_the_files_and_the_troubles_are_found() {
        let files = Files::of(&[("src/price.py", ""), ("tests/test_price.py", "")]);
        let inventory = Inventory::of(&files).unwrap();
        let log = "collected 1 item\n\
                   tests/test_price.py:4: in test_total\n\
                   E   AssertionError: assert 1 == 2 (/workspace/src/price.py)\n\
                   FAILED tests/test_price.py::test_total\n\
                   sh: 1: ruff: not found\n";
        let sifted = sift(log, &inventory);
        assert_eq!(
            sifted.first_error.as_deref(),
            Some("E   AssertionError: assert 1 == 2 (/workspace/src/price.py)")
        );
        assert_eq!(sifted.files, ["tests/test_price.py", "src/price.py"]);
        assert_eq!(sifted.issues.len(), 1);
        assert_eq!(sifted.issues[0].issue, "sh: 1: ruff: not found");
        assert_eq!(sift("", &inventory), Sifted::default());
    }
}
