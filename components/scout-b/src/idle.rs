//! Words that make a test tool do something else: it lists, watches, rewrites its expectations, or runs a part of the tests.
//!
//! One table decides for all tools which commands prove nothing.

/// The action of a command that only looks like a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instead {
    /// It lists, explains or compiles tests.
    NoTest,
    /// It succeeds whatever fails.
    Ignores,
    /// It does not end, because it watches files.
    Waits,
    /// It writes the results as the new expectations.
    Rewrites,
    /// It runs only some of the tests.
    Part,
}

use Instead::{Ignores, NoTest, Part, Rewrites, Waits};

impl Instead {
    pub(crate) fn text(self) -> &'static str {
        match self {
            NoTest => "it runs no test",
            Ignores => "it succeeds whatever fails",
            Waits => "it waits for changes and does not end",
            Rewrites => "it rewrites what the tests compare with",
            Part => "it runs only a part of the tests",
        }
    }
}

const RUNNERS: &[&str] = &["jest", "vitest", "mocha", "ava", "tap", "playwright", "cypress"];
const NODE: &[&str] = &[
    "jest",
    "vitest",
    "mocha",
    "ava",
    "tap",
    "playwright",
    "cypress",
    "yarn",
    "pnpm",
    "bun",
    "npm",
    "node",
    "c8",
    "nyc",
];

/// Programs, words and what the words mean. A word with a value after `=` counts, unless the value is a negation.
const WORDS: &[(&[&str], &[&str], Instead)] = &[
    (&["cargo"], &["--no-run", "--list", "--help", "-h", "--version"], NoTest),
    (&["cargo"], &["--ignored", "--exact", "--target", "--benches", "--examples", "--bins"], Part),
    (&["cargo"], &["-E", "--filter-expr", "--filterset", "--partition", "--run-ignored"], Part),
    (&["go"], &["-list", "--list", "-c", "-n", "-h", "-help", "--help"], NoTest),
    (&["go"], &["-run", "--run", "-bench", "--bench", "-fuzz", "--fuzz", "-exec"], Part),
    (&["go"], &["-update", "--update", "-update-golden"], Rewrites),
    (
        &["pytest", "py.test"],
        &[
            "--version",
            "-V",
            "--help",
            "-h",
            "--fixtures",
            "--fixtures-per-test",
            "--markers",
            "--collect-only",
            "--co",
            "--setup-plan",
            "--setup-only",
            "--cache-show",
        ],
        NoTest,
    ),
    (&["pytest", "py.test"], &["--pdb", "--trace", "-f", "--looponfail"], Waits),
    (&["pytest", "py.test"], &["--suppress-no-test-exit-code"], Ignores),
    (
        &["pytest", "py.test"],
        &["--snapshot-update", "--inline-snapshot", "--force-regen", "--regen-all"],
        Rewrites,
    ),
    (
        &["pytest", "py.test"],
        &["-k", "-m", "--lf", "--last-failed", "--sw", "--stepwise", "--deselect", "--testmon"],
        Part,
    ),
    (&["unittest"], &["-h", "--help"], NoTest),
    (&["unittest", "manage.py"], &["-k", "--tag", "--exclude-tag"], Part),
    (
        NODE,
        &[
            "--listTests",
            "--showConfig",
            "--clearCache",
            "--init",
            "--version",
            "--help",
            "-h",
            "--dry-run",
            "--list",
            "--list-files",
            "--test-list",
        ],
        NoTest,
    ),
    (NODE, &["--watch", "--watchAll", "--ui", "--debug"], Waits),
    (RUNNERS, &["-w"], Waits),
    (NODE, &["--updateSnapshot", "--update-snapshots", "--test-update-snapshots"], Rewrites),
    (RUNNERS, &["-u", "--update"], Rewrites),
    (&["yarn", "pnpm", "bun"], &["-u"], Rewrites),
    (
        NODE,
        &[
            "-t",
            "-g",
            "--grep",
            "--fgrep",
            "--testNamePattern",
            "--testPathPattern",
            "--testPathPatterns",
            "--onlyChanged",
            "--onlyFailures",
            "--findRelatedTests",
            "--changedSince",
            "--lastCommit",
            "--selectProjects",
            "--shard",
            "--changed",
            "--test-name-pattern",
            "--test-only",
            "--match",
        ],
        Part,
    ),
    (&["tox"], &["-l", "--listenvs", "-a", "--listenvs-all", "--notest", "--showconfig"], NoTest),
    (&["tox", "nox"], &["--help", "-h", "--version", "--devenv", "--list"], NoTest),
    (&["nox"], &["-l"], NoTest),
    (&["ctest"], &["-N", "--show-only", "--print-labels", "-H", "--help"], NoTest),
    (&["ctest"], &["-R", "-E", "-L", "-LE", "-I", "--rerun-failed"], Part),
    (
        &["make", "gmake"],
        &[
            "-n",
            "--dry-run",
            "--just-print",
            "--recon",
            "-q",
            "--question",
            "-t",
            "--touch",
            "--help",
            "-h",
            "--version",
            "-v",
        ],
        NoTest,
    ),
    (&["make", "gmake"], &["-i", "--ignore-errors"], Ignores),
    (&["just"], &["-l", "--list", "-n", "--dry-run", "--summary", "--show", "--help"], NoTest),
    (&["mvn", "mvnw"], &["--help", "-h", "-v", "--version"], NoTest),
    (&["mvn", "mvnw"], &["-fn", "--fail-never", "-Dmaven.test.failure.ignore"], Ignores),
    (&["gradle", "gradlew"], &["-m", "--dry-run", "--help", "-h", "--version", "-v"], NoTest),
    (&["gradle", "gradlew"], &["-t", "--continuous"], Waits),
    (&["gotestsum"], &["--watch"], Waits),
];

/// Subcommands that make a test tool do something else.
const VERBS: &[(&str, &[&str], Instead)] = &[
    ("vitest", &["list", "bench", "init"], NoTest),
    ("vitest", &["watch", "dev"], Waits),
    ("vitest", &["related"], Part),
    ("tox", &["list", "l", "config", "c", "devenv", "d", "depends", "quickrun", "legacy"], NoTest),
    ("cypress", &["open"], Waits),
];

/// Programs that start another one again whenever files change.
const WATCHERS: [&str; 7] =
    ["nodemon", "watchexec", "entr", "chokidar", "onchange", "ptw", "pytest-watch"];

/// Returns what the words behind a program make it do. `before` are the words in front, variables among them.
pub(crate) fn instead(program: &str, rest: &[&str], before: &[&str]) -> Option<Instead> {
    let name = program.rsplit('/').next().unwrap_or(program);
    if WATCHERS.contains(&name) {
        return Some(Waits);
    }
    if before.iter().any(|word| rewriting_variable(word)) {
        return Some(Rewrites);
    }
    let verb = rest.iter().find(|word| !word.starts_with('-')).copied().unwrap_or_default();
    let by_verb = VERBS.iter().find(|(tool, verbs, _)| *tool == name && verbs.contains(&verb));
    let fitting = WORDS.iter().filter(|(programs, ..)| programs.contains(&name));
    let mut found = fitting
        .filter(|(_, words, _)| rest.iter().any(|word| words.iter().any(|w| means(word, w))))
        .map(|(.., what)| *what);
    // Every other meaning weighs more than running a part.
    let first = by_verb.map(|(.., what)| *what).or_else(|| found.find(|what| *what != Part));
    first.or_else(|| {
        let part = WORDS.iter().any(|(programs, words, what)| {
            *what == Part
                && programs.contains(&name)
                && rest.iter().any(|word| words.iter().any(|known| means(word, known)))
        });
        part.then_some(Part)
    })
}

fn means(word: &str, known: &str) -> bool {
    match word.strip_prefix(known) {
        Some("") => true,
        Some(value) => value.strip_prefix('=').is_some_and(|value| !says_no(value)),
        None => false,
    }
}

fn says_no(value: &str) -> bool {
    ["false", "no", "0", "off", "never", "none"].contains(&value.trim_matches(['"', '\'']))
}

/// Returns whether a variable rewrites expectations: `INSTA_UPDATE=always`, `UPDATE_EXPECT=1`, `TRYBUILD=overwrite`.
fn rewriting_variable(word: &str) -> bool {
    let Some((name, value)) = word.split_once('=') else { return false };
    let marks = ["UPDATE", "BLESS", "REGEN", "OVERWRITE"];
    let whole = word.to_uppercase();
    !name.starts_with('-')
        && !value.is_empty()
        && !says_no(value)
        && marks.iter().any(|mark| whole.contains(mark))
}

#[cfg(test)]
mod tests {
    use crate::shell::parse_line;

    // SCOUT-B-4
    #[test]
    fn what_lists_waits_rewrites_or_runs_a_part_is_no_test_command() {
        for line in [
            "cargo test --no-run --locked",
            "cargo test -- --list",
            "cargo test --help",
            "cargo test -- --ignored",
            "cargo test --target wasm32-wasip2",
            "cargo +nightly test",
            "cargo test -- one_name",
            "cargo nextest list",
            "cargo nextest run --no-run",
            "INSTA_UPDATE=always cargo test",
            "pytest --co -q",
            "pytest -h",
            "pytest --pdb",
            "pytest --snapshot-update",
            "pytest --last-failed",
            "pytest -m=slow",
            "python -m pytest --setup-plan",
            "go test -list . ./...",
            "go test -run=^$ ./...",
            "go test -run '^$' -bench . ./...",
            "go test -run=^$ -bench=. ./...",
            "go test -count=0 ./...",
            "go test ./... -update",
            "npx jest --listTests",
            "jest -u",
            "jest --watchAll",
            "npx vitest watch",
            "npx vitest list",
            "mocha --dry-run",
            "yarn test --watch",
            "pnpm test -u",
            "node --test --watch",
            "tox -l",
            "tox list",
            "nox --list",
            "make -n test",
            "make -i test",
            "ctest --test-dir build -N",
            "mvn test -Dmaven.test.failure.ignore=true",
            "mvn -fn test",
            "./gradlew test --dry-run",
            "just --dry-run test",
            "gotestsum --watch",
        ] {
            let parsed = &parse_line(line)[0];
            assert!(parsed.kind.is_none() || parsed.narrow, "{line}: {parsed:?}");
        }
        for line in [
            "cargo test --locked -- --nocapture --quiet",
            "cargo test -- --test-threads 1",
            "cargo test --all-targets",
            "cargo nextest run",
            "cargo test -- --include-ignored",
            "RUST_LOG=debug cargo test",
            "INSTA_UPDATE=no cargo test",
            "pytest -q -x --ff",
            "go test -race -count=1 ./...",
            "jest --watchAll=false --ci",
            "npx vitest run",
            "mvn -B -V verify",
            "mvn test -Dmaven.test.failure.ignore=false",
            "make -j4 test",
            "mocha --exit",
            "ctest --test-dir build --output-on-failure",
            "npx vitest --run",
        ] {
            let parsed = &parse_line(line)[0];
            assert!(parsed.kind.is_some() && !parsed.narrow, "{line}: {parsed:?}");
        }
    }
}
