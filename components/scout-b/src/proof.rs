//! Judges whether a line of shell that is called a test can fail because of a test: scripts of package.json, recipes.
//!
//! It plays the line through and lets every command fail that may run tests. A command that is not understood may.

use crate::facts::Kind;
use crate::idle::Instead;
use crate::shell::{After, Needs, ParsedCommand, parse_line, segments};

/// The reason why a script proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// It only prints that there are no tests, and fails.
    Open,
    /// It runs, and this is what it does instead of testing.
    But(&'static str),
}

impl Doubt {
    /// Returns the sentence that the facts show, if this is worth showing.
    pub(crate) fn text(self) -> Option<&'static str> {
        match self {
            Self::Open => None,
            Self::But(why) => Some(why),
        }
    }
}

pub(crate) const PRINTS: &str = "it only prints";
pub(crate) const SWALLOWS: &str = "it succeeds whatever fails";
const CHECKS: &str = "it only builds or checks style and types";

/// Maximum depth to which scripts that call each other are followed.
const DEPTH: usize = 8;

/// Programs that prepare or print. They rarely fail, and never because of a test.
const QUIET: [&str; 41] = [
    "", "#", ":", "true", "echo", "printf", "cd", "pushd", "popd", "export", "unset", "set",
    "trap", "source", ".", "test", "[", "[[", "mkdir", "rm", "rimraf", "cp", "mv", "touch",
    "chmod", "sleep", "date", "pwd", "ls", "cat", "tee", "head", "tail", "sort", "command",
    "which", "type", "umask", "ulimit", "wait", "shx",
];

/// Programs that check code without running its tests.
const CHECKERS: [&str; 24] = [
    "tsc",
    "eslint",
    "prettier",
    "standard",
    "xo",
    "tslint",
    "stylelint",
    "biome",
    "oxlint",
    "ruff",
    "black",
    "flake8",
    "mypy",
    "pyright",
    "pylint",
    "isort",
    "golangci-lint",
    "gofmt",
    "shellcheck",
    "gcc",
    "g++",
    "cc",
    "clang",
    "vue-tsc",
];

/// Test tools whose commands are all known: a command that is not listed as a test runs none.
const KNOWN: [&str; 13] = [
    "cargo",
    "go",
    "jest",
    "vitest",
    "mocha",
    "ava",
    "tap",
    "pytest",
    "py.test",
    "tox",
    "nox",
    "ctest",
    "playwright",
];

/// What one command contributes to a line.
#[derive(Clone, Copy, PartialEq)]
enum Adds {
    Quiet,
    /// It may fail because of a test.
    Test,
    /// It may fail for another reason; the text says why that does not count.
    Other(&'static str),
}

/// Returns why the line proves nothing, or `None` when it may prove something. `script` finds other scripts by name.
pub(crate) fn doubt(line: &str, script: &dyn Fn(&str) -> Option<String>) -> Option<Doubt> {
    judge(line, script, 0)
}

fn judge(line: &str, script: &dyn Fn(&str) -> Option<String>, depth: usize) -> Option<Doubt> {
    let mut played = Played::default();
    for (after, part) in segments(line) {
        if played.over {
            break;
        }
        played.part(after, part.trim(), &|parsed| adds(parsed, script, depth));
    }
    match (played.tests, played.failed) {
        (true, true) => None,
        (true, false) => Some(Doubt::But(SWALLOWS)),
        (false, _) if played.refuses => Some(Doubt::Open),
        (false, _) => Some(Doubt::But(played.other.unwrap_or(PRINTS))),
    }
}

#[derive(Default)]
struct Played {
    failed: bool,
    tests: bool,
    /// It always fails.
    refuses: bool,
    other: Option<&'static str>,
    over: bool,
    errexit: bool,
    pipefail: bool,
}

impl Played {
    fn part(&mut self, after: After, part: &str, adds: &dyn Fn(&str) -> Adds) {
        let part = part.trim_start_matches(['(', '{', '!', ' ']).trim_end_matches([')', '}', ' ']);
        let first = part.split_whitespace().next().unwrap_or_default();
        let part = match first {
            "if" | "then" | "else" | "elif" | "do" | "while" | "until" => {
                part.get(first.len()..).unwrap_or_default().trim()
            }
            // These programs pass the exit status on.
            "fi" | "done" | "esac" => return,
            _ => part,
        };
        match after {
            After::Success if self.failed => return,
            After::Failure if !self.failed => return,
            After::End if self.failed && self.errexit => {
                self.over = true;
                return;
            }
            After::Aside => self.failed = false,
            _ => {}
        }
        let words = part.split_whitespace().collect::<Vec<_>>();
        if let ["exit", rest @ ..] = words.as_slice() {
            self.over = true;
            match rest.first() {
                None => {}
                Some(&"0") => self.failed = false,
                Some(_) => {
                    self.failed = true;
                    self.refuses = !self.tests;
                }
            }
            return;
        }
        if let ["set", flags @ ..] = words.as_slice() {
            let short = |c| flags.iter().any(|f| f.starts_with('-') && f.contains(c));
            self.errexit |= short('e') || flags.contains(&"errexit");
            self.pipefail |= flags.contains(&"pipefail");
        }
        if words.first() == Some(&"false") {
            self.failed = true;
            self.refuses = !self.tests;
            return;
        }
        match adds(part) {
            Adds::Quiet if after == After::Pipe && self.pipefail => {}
            Adds::Quiet => self.failed = false,
            Adds::Test => (self.tests, self.failed) = (true, true),
            Adds::Other(why) => {
                self.other = self.other.or(Some(why));
                // The line proves something if a test is reached and its failure is passed on.
                self.failed = after == After::Pipe && self.failed;
            }
        }
    }
}

fn adds(command: &str, script: &dyn Fn(&str) -> Option<String>, depth: usize) -> Adds {
    let words = command.split_whitespace().collect::<Vec<_>>();
    let assigns =
        |word: &&&str| word.split_once('=').is_some_and(|(name, _)| !name.starts_with('-'));
    if words.iter().take_while(assigns).count() == words.len() {
        return Adds::Quiet;
    }
    let first = words.first().copied().unwrap_or_default();
    if QUIET.contains(&first) {
        return Adds::Quiet;
    }
    if let ["node", "-e" | "--eval" | "-p" | "--print", code @ ..] = words.as_slice() {
        let code = code.join(" ");
        return if code.contains(['(']) { Adds::Test } else { Adds::Quiet };
    }
    // A command that is not understood may run tests.
    let Some(parsed) = parse_line(command).into_iter().next() else { return Adds::Test };
    effect_of(&parsed, script, depth)
}

fn effect_of(
    parsed: &ParsedCommand,
    script: &dyn Fn(&str) -> Option<String>,
    depth: usize,
) -> Adds {
    let name = parsed.program.rsplit('/').next().unwrap_or(&parsed.program);
    match parsed.instead {
        Some(Instead::Part) | None => {}
        Some(other) => return Adds::Other(other.text()),
    }
    if let Needs::Script(wanted) = &parsed.needs
        && depth < DEPTH
        && let Some(text) = script(wanted)
    {
        return match judge(&text, script, depth + 1) {
            None => Adds::Test,
            Some(Doubt::But(why)) if why != PRINTS => Adds::Other(why),
            Some(_) => Adds::Quiet,
        };
    }
    match parsed.kind {
        Some(Kind::Build | Kind::Install | Kind::Clean) => Adds::Other(CHECKS),
        Some(_) => Adds::Test,
        None if CHECKERS.contains(&name) => Adds::Other(CHECKS),
        None if KNOWN.contains(&name) => Adds::Other(CHECKS),
        None => Adds::Test,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<Doubt> {
        doubt(line, &|name| match name {
            "unit" => Some("echo ok".to_owned()),
            "real" => Some("mocha".to_owned()),
            "loop" => Some("npm run loop".to_owned()),
            _ => None,
        })
    }

    // SCOUT-B-4
    #[test]
    fn scripts_that_cannot_fail_for_a_test_are_told_with_the_reason() {
        for (line, why) in [
            ("echo ok", PRINTS),
            ("exit 0", PRINTS),
            ("true", PRINTS),
            (":", PRINTS),
            ("node -e 0", PRINTS),
            ("jest --listTests", "it runs no test"),
            ("tsc --noEmit", CHECKS),
            ("eslint .", CHECKS),
            ("npm run build", CHECKS),
            ("eslint . && tsc --noEmit", CHECKS),
            ("jest -u", "it rewrites what the tests compare with"),
            ("jest --watchAll", "it waits for changes and does not end"),
            ("nodemon --exec mocha", "it waits for changes and does not end"),
            ("pytest || true", SWALLOWS),
            ("mocha; exit 0", SWALLOWS),
            ("mocha | tee log.txt", SWALLOWS),
            ("mocha & echo started", SWALLOWS),
            ("[ -d tests ] && pytest || echo none", SWALLOWS),
            ("npm run unit", PRINTS),
        ] {
            assert_eq!(of(line), Some(Doubt::But(why)), "{line}");
        }
        assert_eq!(of("echo \"Error: no test specified\" && exit 1"), Some(Doubt::Open));
    }

    #[test]
    fn what_may_fail_for_a_test_is_left_alone() {
        for line in [
            "jest",
            "eslint . && mocha",
            "tape test/*.js | tap-spec",
            "set -o pipefail; mocha | tee log.txt",
            "set -e; pytest; echo done",
            "[ -d x ] || exit 0; pytest",
            "pytest; status=$?; rm -rf out; exit $status",
            "if [ -d t ]; then pytest; fi",
            "run-s lint 'test:*'",
            "./node_modules/.bin/thing",
            "NODE_ENV=test mocha",
            "npm run real",
            "node test.js",
            "node -e \"require('./check')()\"",
            "cd web && npm run unknown",
            "npm run loop",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
