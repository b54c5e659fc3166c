//! Words that make a tool do something else than testing: it lists, watches, rewrites its expectations, runs a part of the
//! tests, publishes, deploys or deletes.
//!
//! One table decides for all tools which commands prove nothing, and one which commands do harm.

/// The action of a command that does not, or does not only, run all tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instead {
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
    /// It runs tests in a browser, which a container does not have by itself.
    Browser,
    /// It starts containers, which a container cannot.
    Engine,
    /// It sends a package, an image or commits to others.
    Publishes,
    /// It changes a system that others use.
    Deploys,
    /// It deletes data that no command makes again.
    Deletes,
}

use Instead::{
    Browser, Deletes, Deploys, Engine, Ignores, NoTest, Part, Publishes, Rewrites, Waits,
};

impl Instead {
    /// Returns a clause whose subject is the command.
    pub fn text(self) -> &'static str {
        match self {
            NoTest => "it runs no test",
            Ignores => "it succeeds whatever fails",
            Waits => "it waits for changes and does not end",
            Rewrites => "it rewrites what the tests compare with",
            Part => "it runs only a part of the tests",
            Browser => "it needs a browser",
            Engine => "it needs a container engine",
            Publishes => "it publishes",
            Deploys => "it deploys",
            Deletes => "it deletes data",
        }
    }

    /// Returns whether the command changes something outside of the build, so that it is never suggested.
    pub fn harms(self) -> bool {
        matches!(self, Publishes | Deploys | Deletes)
    }
}

/// Programs, the words of which one makes them do harm, and the harm. Without words every use does.
const HARM: &[(&[&str], &[&str], Instead)] = &[
    (&["cargo"], &["publish", "yank", "owner", "release", "smart-release"], Publishes),
    (
        &["npm", "pnpm", "yarn", "bun"],
        &["publish", "unpublish", "deprecate", "dist-tag"],
        Publishes,
    ),
    (&["twine"], &["upload"], Publishes),
    (
        &["poetry", "uv", "pdm", "flit", "hatch", "rye", "maturin"],
        &["publish", "upload"],
        Publishes,
    ),
    (&["setup.py", "python", "python3"], &["upload"], Publishes),
    (&["gem"], &["push", "yank"], Publishes),
    (&["mvn", "mvnw"], &["deploy", "release:prepare", "release:perform", "site-deploy"], Publishes),
    (&["docker", "podman", "buildah", "skopeo", "crane", "helm"], &["push", "copy"], Publishes),
    (&["git"], &["push"], Publishes),
    (&["gh"], &["release", "pr", "repo", "workflow"], Publishes),
    (
        &["lerna", "changeset", "nx", "turbo", "semantic-release"],
        &["publish", "release"],
        Publishes,
    ),
    (
        &["semantic-release", "np", "release-it", "goreleaser", "standard-version", "vsce"],
        &[],
        Publishes,
    ),
    (
        &["terraform", "tofu", "pulumi", "cdk", "serverless", "sls", "sam"],
        &["apply", "up", "deploy"],
        Deploys,
    ),
    (&["kubectl", "oc"], &["apply", "create", "replace", "rollout", "set", "scale"], Deploys),
    (&["helm"], &["install", "upgrade", "rollback"], Deploys),
    (
        &["firebase", "wrangler", "netlify", "fly", "flyctl", "gcloud", "eb", "cap"],
        &["deploy", "publish"],
        Deploys,
    ),
    (&["vercel", "heroku", "surge", "gh-pages", "ansible-playbook", "scp", "ssh"], &[], Deploys),
    (&["aws"], &["deploy", "sync", "cp", "update-function-code"], Deploys),
    (&["mkdocs"], &["gh-deploy"], Deploys),
    (&["terraform", "tofu", "pulumi", "cdk"], &["destroy"], Deletes),
    (&["kubectl", "oc", "helm"], &["delete", "uninstall"], Deletes),
    (&["docker", "podman"], &["prune", "rm", "rmi"], Deletes),
    (&["git"], &["clean", "--hard"], Deletes),
    (&["dropdb", "dropuser", "shred", "mkfs"], &[], Deletes),
    (&["rails", "rake"], &["db:drop", "db:reset"], Deletes),
];

/// Returns the harm that a program does with these words.
fn does_harm(name: &str, rest: &[&str]) -> Option<Instead> {
    let published = |word: &&str| {
        let task = word.rsplit(':').next().unwrap_or(word);
        task.starts_with("publish") && task != "publishToMavenLocal" || task == "uploadArchives"
    };
    if ["gradle", "gradlew"].contains(&name) && rest.iter().any(published) {
        return Some(Publishes);
    }
    // A rehearsal changes nothing.
    let rehearses = |word: &&str| ["--dry-run", "--snapshot"].contains(word);
    if rest.iter().any(|word| rehearses(word) || name == "git" && *word == "-n") {
        return None;
    }
    if name == "rm" {
        let precious = ["/", "/*", "~", "~/", "$HOME", "*", ".", "./", "./*", ".git"];
        return rest.iter().any(|word| precious.contains(word)).then_some(Deletes);
    }
    // Most programs have their verb first; others have it after a noun, an option with a value, or among goals.
    let verbs = match name {
        "git" | "mvn" | "mvnw" | "python" | "python3" | "setup.py" | "aws" | "kubectl" => {
            rest.to_vec()
        }
        "cargo" => plain(rest).take(1).collect(),
        _ => plain(rest).take(2).collect(),
    };
    let fitting = |(programs, words, _): &&(&[&str], &[&str], Instead)| {
        programs.contains(&name)
            && (words.is_empty() || verbs.iter().any(|word| words.contains(word)))
    };
    HARM.iter().find(fitting).map(|(.., harm)| *harm)
}

fn plain<'a>(rest: &[&'a str]) -> impl Iterator<Item = &'a str> {
    rest.iter().copied().filter(|word| !word.starts_with(['-', '+']))
}

/// Programs that run tests in a browser.
const BROWSERS: [&str; 12] = [
    "playwright",
    "cypress",
    "karma",
    "testcafe",
    "nightwatch",
    "wdio",
    "protractor",
    "web-test-runner",
    "wtr",
    "xvfb-run",
    "airtap",
    "testem",
];

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
    (&["go"], &["-run", "--run", "-skip", "--skip", "-bench", "--bench"], Part),
    (&["go"], &["-fuzz", "--fuzz", "-exec"], Part),
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
        &[
            "-k",
            "-m",
            "--lf",
            "--last-failed",
            "--sw",
            "--stepwise",
            "--deselect",
            "--testmon",
            "--ignore",
            "--ignore-glob",
        ],
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
    (
        &["coverage"],
        &["report", "xml", "html", "json", "lcov", "combine", "erase", "annotate"],
        NoTest,
    ),
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
pub(super) fn instead(program: &str, rest: &[&str], before: &[&str]) -> Option<Instead> {
    let name = program.rsplit('/').next().unwrap_or(program);
    if let Some(harm) = does_harm(name, rest) {
        return Some(harm);
    }
    if WATCHERS.contains(&name) || name == "cargo" && rest.first() == Some(&"watch") {
        return Some(Waits);
    }
    if starts_containers(name, rest) {
        return Some(Engine);
    }
    // Both wait for changes at a terminal unless they are kept from it.
    let serves = name == "ng" && rest.first() == Some(&"test")
        || name == "react-scripts" && rest.first() == Some(&"test");
    let once = ["--watch=false", "--no-watch", "--watchAll=false"];
    if serves && !rest.iter().any(|word| once.contains(word)) && !before.contains(&"CI=true") {
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
    let in_browser = BROWSERS.contains(&name)
        || before.contains(&"xvfb-run")
        || name == "ng" && ["test", "e2e"].contains(&verb)
        || rest
            .iter()
            .any(|word| ["--browser", "--browser.enabled"].iter().any(|o| means(word, o)));
    first.or_else(|| in_browser.then_some(Browser)).or_else(|| {
        let part = WORDS.iter().any(|(programs, words, what)| {
            *what == Part
                && programs.contains(&name)
                && rest.iter().any(|word| words.iter().any(|known| means(word, known)))
        });
        part.then_some(Part)
    })
}

/// Returns whether a command starts, enters or builds containers.
fn starts_containers(name: &str, rest: &[&str]) -> bool {
    let verbs = ["run", "exec", "compose", "build", "buildx", "start", "up", "pull"];
    match name {
        "docker-compose" | "podman-compose" => plain(rest).next().is_some(),
        "docker" | "podman" | "nerdctl" => {
            plain(rest).next().is_some_and(|verb| verbs.contains(&verb))
        }
        _ => false,
    }
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
    use crate::commands::parse_line;

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
            "pytest --deselect tests/a.py::b",
            "pytest --ignore=tests/perf",
            "pytest -m 'not slow'",
            "./gradlew check -x jvmTest -x test",
            "./gradlew check -xtest",
            "./gradlew check -x=:core:test",
            "go test -skip TestA ./...",
            "cargo watch -x test",
            "docker compose run --rm web pytest",
            "python setup.py test",
            "./gradlew :core:test",
            "mvn test -Psubset",
            "mvn verify -DskipITs",
            "mvn test --projects core",
            "ng test",
            "react-scripts test",
            "coverage report --fail-under=100",
            "tox -e typing",
            "cargo publish",
            "mvn -B deploy",
            "poetry publish --build",
            "./gradlew test publish",
            "git clean -fdx",
            "make TESTS=one check",
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
            "./gradlew test allTests",
            "./gradlew check -x lint",
            "mvn test -DskipTests=false",
            "mvn -B verify javadoc:jar",
            "ng test --watch=false",
            "CI=true react-scripts test",
            "make check VERBOSE=yes",
            "make -j$(nproc) check",
            "make -j 8 check",
            "tox -e py312",
            "cargo test --profile release",
            "./gradlew test publishToMavenLocal",
            "cargo publish --dry-run && cargo test",
        ] {
            let parsed = parse_line(line).pop().unwrap();
            assert!(parsed.kind.is_some() && !parsed.narrow, "{line}: {parsed:?}");
        }
    }

    // SCOUT-B-4
    #[test]
    fn arguments_of_options_are_no_places_of_tests() {
        use crate::commands::Kind::{Integration, Test, Unit};
        for (line, kind) in [
            ("pytest --ignore tests/integration", Test),
            ("pytest -k unit", Test),
            ("pytest -m 'not integration' tests", Test),
            ("pytest --deselect tests/unit/test_a.py::b", Test),
            ("pytest tests/unit", Unit),
            ("pytest -q tests/integration", Integration),
        ] {
            assert_eq!(parse_line(line)[0].kind, Some(kind), "{line}");
        }
    }

    // SCOUT-B-22
    #[test]
    fn harm_is_found_where_it_is_and_not_in_a_name_or_a_value() {
        use super::{Deletes, Deploys, Instead, Publishes};
        let harm = |line: &str| {
            parse_line(line).into_iter().find_map(|parsed| parsed.instead.filter(|i| i.harms()))
        };
        for (line, expected) in [
            ("npm publish --access public", Publishes),
            ("yarn npm publish", Publishes),
            ("./gradlew clean publish", Publishes),
            ("./gradlew :lib:publishAllPublicationsToMavenCentral", Publishes),
            ("mvn -B -Prelease deploy", Publishes),
            ("twine upload dist/*", Publishes),
            ("docker push x/y", Publishes),
            ("git push --tags", Publishes),
            ("kubectl -n web apply -f k8s", Deploys),
            ("npx wrangler deploy", Deploys),
            ("terraform destroy", Deletes),
            ("git reset --hard HEAD", Deletes),
            ("rm -rf ~", Deletes),
        ] {
            assert_eq!(harm(line), Some(expected), "{line}");
        }
        for line in [
            "cargo test --profile release",
            "cargo build --release",
            "npm publish --dry-run",
            "./gradlew publishToMavenLocal",
            "rm -rf build",
            "docker build .",
            "git diff --exit-code",
            "goreleaser release --snapshot",
        ] {
            assert_eq!(harm(line), None::<Instead>, "{line}");
        }
    }
}
