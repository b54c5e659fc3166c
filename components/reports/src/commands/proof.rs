//! Judges whether a script that is called a test can fail because of a test: a script of package.json, a recipe, a step.
//!
//! It simulates the line and lets every command fail that may run tests. A command that is not understood may run tests.

use std::cell::Cell;
use std::collections::BTreeSet;

use super::{After, Instead, Kind, Needs, ParsedCommand, essential, parse_line, segments, words};

/// Why a script is not a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotATest {
    /// It only prints that there are no tests, and fails.
    Placeholder,
    /// It does something else. The text says what.
    Instead(&'static str),
}

impl NotATest {
    /// Returns the sentence that the facts show, if this is worth showing.
    pub fn text(self) -> Option<&'static str> {
        match self {
            Self::Placeholder => None,
            Self::Instead(why) => Some(why),
        }
    }
}

/// The reason for a script that only prints.
pub const PRINTS: &str = "it only prints";
/// The reason for a script whose exit code does not depend on its tests.
pub const SWALLOWS: &str = "it succeeds whatever fails";
const CHECKS: &str = "it only builds or checks style and types";

/// Finds the text of another script by its name, as a script of package.json calls it; `None` where there is none.
pub type Scripts<'a> = dyn Fn(&str) -> Option<String> + 'a;
/// Finds the text of what a command calls: a script of package.json, whose name may hold `*`, the recipe of a target, or a
/// shell script; `None` where there is none.
pub type Called<'a> = dyn Fn(&Needs) -> Option<String> + 'a;

/// Maximum depth to which scripts that call each other are followed.
const DEPTH: usize = 8;
/// Maximum number of scripts that one judgement reads. Each level may call several, so that the depth alone bounds nothing.
const CALLS: usize = 64;
/// Maximum number of bytes of scripts that one judgement reads. Scripts that people write are far shorter.
const CALLED_BYTES: usize = 512 << 10;
/// Programs whose words are names of scripts, or whole commands in quotes.
const RUNNERS: [&str; 9] = [
    "run-s",
    "run-p",
    "npm-run-all",
    "npm-run-all2",
    "concurrently",
    "start-server-and-test",
    "server-test",
    "start-test",
    "wait-and-run",
];

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
const KNOWN: [&str; 14] = [
    "coverage",
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

/// How one command can make a line fail.
#[derive(Clone, Copy, PartialEq)]
enum Effect {
    /// It rarely fails, and never because of a test.
    Quiet,
    /// It may fail because of a test.
    Test,
    /// It may fail for another reason; the text says why that does not count.
    Other(&'static str),
}

/// Returns why the script is not a test, or `None` if it may be one. `script` finds other scripts by name.
pub fn not_a_test(line: &str, script: &Scripts<'_>) -> Option<NotATest> {
    let calls = Cell::new(CALLS);
    let script = |name: &str| {
        calls.set(calls.get().checked_sub(1)?);
        script(name)
    };
    judge_line(line, &script, 0)
}

/// Returns the harm that a script does: it publishes, deploys or deletes. What the script calls is judged as well; `called`
/// finds its text.
pub fn harm(line: &str, called: &Called<'_>) -> Option<Instead> {
    first_action(line, called, &Instead::harms)
}

/// Returns whether a script runs tests in a browser, itself or by what it calls.
pub fn needs_browser(line: &str, called: &Called<'_>) -> bool {
    first_action(line, called, &|action| action == Instead::Browser).is_some()
}

/// Returns whether a script starts containers, itself or by what it calls.
pub fn needs_engine(line: &str, called: &Called<'_>) -> bool {
    first_action(line, called, &|action| action == Instead::Engine).is_some()
}

/// Returns the first action of a certain kind, in the commands of a script and of what it calls.
fn first_action(
    line: &str,
    called: &Called<'_>,
    wanted: &dyn Fn(Instead) -> bool,
) -> Option<Instead> {
    let mut queue = vec![line.to_owned()];
    let mut seen = BTreeSet::new();
    let mut bytes = CALLED_BYTES;
    while let Some(text) = queue.pop() {
        let mut elsewhere = false;
        for (after, part) in segments(&text) {
            let part = part.trim_start_matches(['(', '{', '@', '-', '+', ' ', '\t']);
            elsewhere &= after != After::End;
            elsewhere |= part.strip_prefix("cd ").is_some_and(is_below);
            for parsed in parse_line(part) {
                if let Some(action) = parsed.instead.filter(|action| wanted(*action)) {
                    return Some(action);
                }
                let runner = words_of_runner(&parsed).unwrap_or_default();
                let (lines, names) =
                    runner.into_iter().partition::<Vec<_>, _>(|word| word.contains(' '));
                let needs = names.into_iter().map(|name| Needs::Script(name.to_owned()));
                // In another directory the names mean something else.
                let own = Some(parsed.needs.clone()).filter(|_| !elsewhere);
                let mut texts = lines.into_iter().map(str::to_owned).collect::<Vec<_>>();
                for needs in needs.chain(own) {
                    if seen.len() < CALLS && seen.insert(needs.clone()) {
                        texts.extend(called(&needs));
                    }
                }
                for text in texts {
                    let Some(rest) = bytes.checked_sub(text.len()) else { continue };
                    bytes = rest;
                    queue.push(text);
                }
            }
        }
    }
    None
}

/// Returns whether a directory is one below, by its name. `cd "$(dirname "$0")/.."` leads to where the script is.
fn is_below(to: &str) -> bool {
    to.trim().trim_matches(['"', '\'']).trim_start_matches("./").starts_with(char::is_alphanumeric)
}

/// Returns the words of a program that runs scripts by their names, several at once: names, and commands with spaces. `None`
/// for any other program.
fn words_of_runner(parsed: &ParsedCommand) -> Option<Vec<&str>> {
    let all = words(&parsed.command);
    let (program, rest) = essential(&all).split_first()?;
    if !RUNNERS.contains(program) {
        return None;
    }
    let word = |word: &&'_ str| !word.starts_with('-') && !word.contains("://");
    let names = rest.iter().copied().filter(word).map(|word| word.trim_matches(['"', '\'']));
    let names = names.map(|word| {
        let managers = ["npm:", "pnpm:", "yarn:", "bun:"];
        managers.iter().find_map(|manager| word.strip_prefix(manager)).unwrap_or(word)
    });
    // A port or a time is no script.
    Some(names.filter(|name| name.contains(char::is_alphabetic)).collect())
}

fn judge_line(line: &str, script: &Scripts<'_>, depth: usize) -> Option<NotATest> {
    let mut simulation = Simulation::default();
    for (after, part) in segments(line) {
        if simulation.over {
            break;
        }
        simulation.run(after, part.trim(), &|parsed| effect(parsed, script, depth));
    }
    match (simulation.tests, simulation.failed) {
        (true, true) => None,
        (true, false) => Some(NotATest::Instead(SWALLOWS)),
        (false, _) if simulation.refuses => Some(NotATest::Placeholder),
        (false, _) => Some(NotATest::Instead(simulation.other.unwrap_or(PRINTS))),
    }
}

/// A run of a line in which every command fails that may run tests.
#[derive(Default)]
struct Simulation {
    /// True if the last command failed.
    failed: bool,
    /// True if a command ran that may run tests.
    tests: bool,
    /// True if the line fails by itself.
    refuses: bool,
    /// What the first command does that is neither quiet nor a test.
    other: Option<&'static str>,
    /// True if the line has ended.
    over: bool,
    errexit: bool,
    pipefail: bool,
}

impl Simulation {
    /// Simulates the next command of the line.
    fn run(&mut self, after: After, part: &str, effect: &dyn Fn(&str) -> Effect) {
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
        match effect(part) {
            Effect::Quiet if after == After::Pipe && self.pipefail => {}
            Effect::Quiet => self.failed = false,
            Effect::Test => (self.tests, self.failed) = (true, true),
            Effect::Other(why) => {
                self.other = self.other.or(Some(why));
                // The line proves something if a test is reached and its failure is passed on.
                self.failed = after == After::Pipe && self.failed;
            }
        }
    }
}

/// Returns how a command can make its line fail.
fn effect(command: &str, script: &Scripts<'_>, depth: usize) -> Effect {
    let words = command.split_whitespace().collect::<Vec<_>>();
    let assigns =
        |word: &&&str| word.split_once('=').is_some_and(|(name, _)| !name.starts_with('-'));
    if words.iter().take_while(assigns).count() == words.len() {
        return Effect::Quiet;
    }
    let first = words.first().copied().unwrap_or_default();
    if QUIET.contains(&first) {
        return Effect::Quiet;
    }
    if let ["node", "-e" | "--eval" | "-p" | "--print", code @ ..] = words.as_slice() {
        let code = code.join(" ");
        return if code.contains(['(']) { Effect::Test } else { Effect::Quiet };
    }
    // A command that is not understood may run tests.
    let Some(parsed) = parse_line(command).into_iter().next() else { return Effect::Test };
    effect_of(&parsed, script, depth)
}

fn effect_of(parsed: &ParsedCommand, script: &Scripts<'_>, depth: usize) -> Effect {
    let name = parsed.program.rsplit('/').next().unwrap_or(&parsed.program);
    match parsed.instead {
        Some(Instead::Part | Instead::Browser) | None => {}
        Some(other) => return Effect::Other(other.text()),
    }
    if let Some(names) = words_of_runner(parsed).filter(|_| depth < DEPTH) {
        let text = |name: &&str| match name.contains(' ') {
            true => Some((*name).to_owned()),
            false => script(name),
        };
        let mut other = Effect::Quiet;
        for name in names {
            // A script that is not known may run tests.
            let Some(text) = text(&name) else { return Effect::Test };
            match judge_line(&text, script, depth + 1) {
                None => return Effect::Test,
                Some(NotATest::Instead(why)) if why != PRINTS => other = Effect::Other(why),
                Some(_) => {}
            }
        }
        return other;
    }
    if let Needs::Script(wanted) = &parsed.needs
        && depth < DEPTH
        && let Some(text) = script(wanted)
    {
        return match judge_line(&text, script, depth + 1) {
            None => Effect::Test,
            Some(NotATest::Instead(why)) if why != PRINTS => Effect::Other(why),
            Some(_) => Effect::Quiet,
        };
    }
    match parsed.kind {
        Some(Kind::Build | Kind::Install | Kind::Clean) => Effect::Other(CHECKS),
        Some(_) => Effect::Test,
        None if CHECKERS.contains(&name) => Effect::Other(CHECKS),
        None if KNOWN.contains(&name) => Effect::Other(CHECKS),
        None => Effect::Test,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<NotATest> {
        not_a_test(line, &|name| match name {
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
            ("docker compose run web pytest", "it needs a container engine"),
        ] {
            assert_eq!(of(line), Some(NotATest::Instead(why)), "{line}");
        }
        assert_eq!(of("echo \"Error: no test specified\" && exit 1"), Some(NotATest::Placeholder));
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

    // SCOUT-B-22, SCOUT-B-25
    #[test]
    fn harm_and_browsers_are_found_in_scripts_that_are_called() {
        let script = |name: &str| match name {
            "ship" => Some("npm run build && npm publish".to_owned()),
            "e2e" => Some("start-server & playwright test".to_owned()),
            "cy" => Some("cypress run".to_owned()),
            "test:*" => Some("mocha && npm run e2e".to_owned()),
            "loop" => Some("npm run loop && npm run loop".to_owned()),
            "up" => Some("docker compose up -d".to_owned()),
            _ => None,
        };
        let called = |needs: &Needs| match needs {
            Needs::Script(name) => script(name),
            Needs::Target(name) if name == "deploy" => Some("@kubectl apply -f k8s".to_owned()),
            Needs::File(path) if path == "all.sh" => Some("./unit\ntwine upload x\n".to_owned()),
            _ => None,
        };
        assert_eq!(harm("mocha && npm run ship", &called), Some(Instead::Publishes));
        assert_eq!(harm("mocha && npm run loop", &called), None);
        for line in ["make deploy", "$(MAKE) deploy", "@${MAKE} --silent deploy"] {
            assert_eq!(harm(line, &called), Some(Instead::Deploys), "{line}");
        }
        assert_eq!(harm("sh all.sh", &called), Some(Instead::Publishes));
        assert_eq!(harm("cd other && sh all.sh", &called), None, "another file of that name");
        assert!(needs_browser("npm run unit && yarn run e2e", &called));
        assert!(needs_browser("xvfb-run mocha", &called) && !needs_browser("mocha", &called));
        for line in [
            "run-s lint 'test:*'",
            "start-server-and-test start http://localhost:3000 cy",
            "concurrently \"npm:cy\" \"vite preview\"",
            "concurrently -k \"npm run cy\"",
            "vitest --browser.enabled run",
        ] {
            assert!(needs_browser(line, &called), "{line}");
        }
        assert!(!needs_browser("vitest --browser.enabled=false run", &called));
        assert!(needs_engine("npm run up && mocha", &called) && !needs_engine("mocha", &called));
        assert!(!needs_engine("docker --version", &called));
        assert_eq!(not_a_test("npm run loop", &script), None);
        assert_eq!(not_a_test("run-p test:*", &script), None);
        let of = |line| not_a_test(line, &|_| Some("tsc --noEmit".to_owned()));
        assert_eq!(of("run-s types lint"), Some(NotATest::Instead(CHECKS)));
    }
}
