//! Reads lines of shell as people write them in documents, CI and pipelines: each command, its directory and its purpose,
//! and whether a verification may run it.
//!
//! Scout B judges with this module which commands it suggests, and `act init` which steps it writes:
//!
//! - [`parse_line`] splits a line into [`ParsedCommand`]s. `kind` is the purpose (install, build, test, …), `narrow` says
//!   that it runs only a part of the tests, and `instead` says what it does in place of testing: it lists, watches,
//!   rewrites expectations, publishes, deploys or deletes, or needs a browser or a container engine.
//! - [`not_a_test`] judges a whole script that is called a test: `None` if it can fail because of a test.
//! - [`harm`] finds a command that publishes, deploys or deletes, in what the line calls as well.
//! - [`needs_browser`] finds end-to-end suites, [`needs_engine`] containers, in what the line calls as well.
//! - [`unset_variable`] finds a variable that nothing sets in a fresh container, such as `GITHUB_WORKSPACE`.
//!
//! This is no shell: a line that needs one to be understood is left out. All input may be hostile: the functions take time in
//! proportion to the text ([`unset_variable`] for each variable that it reads), and at most 64 scripts that call each other
//! are followed.

mod effects;
mod proof;
mod tools;
mod variables;

use effects::instead;

pub use effects::Instead;
pub use proof::{
    Called, NotATest, PRINTS, SWALLOWS, Scripts, harm, needs_browser, needs_engine, not_a_test,
};
pub use variables::{of_ci, unset_variable};

/// The purpose of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Install,
    Build,
    Clean,
    /// All tests.
    Test,
    /// Unit tests alone.
    Unit,
    /// Integration or end-to-end tests alone.
    Integration,
    /// Tests with a measurement of what they cover.
    Coverage,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::Install,
        Self::Build,
        Self::Clean,
        Self::Test,
        Self::Unit,
        Self::Integration,
        Self::Coverage,
    ];

    /// Returns whether the command has to fail when a test fails.
    pub fn tests(self) -> bool {
        matches!(self, Self::Test | Self::Unit | Self::Integration | Self::Coverage)
    }

    /// Returns what a task of that name does by custom: a target, recipe, script or step. `test:unit`, `unit_tests` and
    /// `UnitTests` are the same.
    pub fn of_task(name: &str) -> Option<Self> {
        let name = name.to_lowercase().replace(['_', ':', '.', ' '], "-");
        let has = |words: &[&str]| name.split('-').any(|part| words.contains(&part));
        match name.as_str() {
            "install" | "deps" | "setup" | "bootstrap" | "init" | "dependencies"
            | "install-deps" | "install-dev" | "dev-install" | "develop" => {
                return Some(Self::Install);
            }
            "build" | "all" | "compile" => return Some(Self::Build),
            "clean" | "distclean" => return Some(Self::Clean),
            "test" | "tests" | "check" | "test-all" | "run-tests" | "runtests" | "unittest"
            | "unittests" => {
                return Some(Self::Test);
            }
            _ => {}
        }
        let tests = has(&["test", "tests", "check"]);
        match () {
            () if has(&OTHER) => None,
            () if has(&["coverage", "cover", "cov"]) => Some(Self::Coverage),
            () if has(&["unit"]) => Some(Self::Unit),
            () if has(&["integration", "e2e", "it", "functional", "acceptance"])
                && (tests || name != "it") =>
            {
                Some(Self::Integration)
            }
            () => None,
        }
    }
}

/// Words in a task's name that make it something else than a test.
const OTHER: [&str; 18] = [
    "watch", "update", "lint", "fix", "debug", "format", "types", "deploy", "publish", "release",
    "upload", "push", "drop", "destroy", "delete", "purge", "reset", "report",
];

/// The ecosystem that a command belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    Cargo,
    Go,
    Node,
    Python,
    Maven,
    Gradle,
    Cmake,
    /// `make`, `just` or a script of the repository: the ecosystem of the project in that directory.
    Any,
}

/// The target, script or file that a command needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    Nothing,
    /// A target of a Makefile; an empty name is its first target.
    Target(String),
    /// A recipe of a justfile.
    Recipe(String),
    /// A script of package.json.
    Script(String),
    /// A file of the repository, as written.
    File(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedCommand {
    /// The directory after the `cd` commands before it, relative to the directory of the line.
    pub directory: String,
    pub command: String,
    pub program: String,
    pub kind: Option<Kind>,
    pub family: Family,
    pub needs: Needs,
    /// Whether it runs only a part: one test, one package, or all but some tests.
    pub narrow: bool,
    /// The action of the command where that is not, or not only, to run tests.
    pub instead: Option<Instead>,
}

/// The operator between a command and the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// `;`, the end of a line, or nothing.
    End,
    /// `&&`
    Success,
    /// `||`
    Failure,
    /// `|`
    Pipe,
    /// `&`: the one before runs in the background.
    Aside,
}

/// Returns the commands of one line, in order.
pub fn parse_line(line: &str) -> Vec<ParsedCommand> {
    let mut directory = String::new();
    let mut out = Vec::new();
    // A Makefile calls its own program by this variable.
    let expanded = with_defaults(line).replace("$(MAKE)", "make").replace("${MAKE}", "make");
    for part in parts(&expanded) {
        let command = part.split(" #").next().unwrap_or(part).trim().trim_end_matches('\\').trim();
        if let Some(to) = command.strip_prefix("cd ").or_else(|| command.strip_prefix("pushd ")) {
            let to = to.trim().trim_matches(['"', '\'']);
            directory =
                if directory.is_empty() { to.to_owned() } else { format!("{directory}/{to}") };
            continue;
        }
        if let Some(parsed) = one(command, &directory) {
            out.push(parsed);
        }
    }
    out
}

/// Replaces expressions of GitHub Actions that name a default, `${{ matrix.extra || '' }}`, by that default. Any other
/// expression is unknown and stays.
fn with_defaults(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("${{") {
        out.push_str(before);
        let Some((expression, more)) = after.split_once("}}") else {
            out.push_str("${{");
            rest = after;
            break;
        };
        let default = expression.rsplit_once("||").map(|(_, default)| default.trim());
        let text = default.and_then(|text| text.strip_prefix('\'')?.strip_suffix('\''));
        match text.filter(|text| !text.contains(['\'', '$'])) {
            Some(text) => out.push_str(text),
            None => out.push_str(&format!("${{{{{expression}}}}}")),
        }
        rest = more;
    }
    out.push_str(rest);
    out
}

/// A command behind a pipe does not count as one of its own.
fn parts(line: &str) -> Vec<&str> {
    let own = segments(line).into_iter().filter(|(after, _)| *after != After::Pipe);
    own.map(|(_, part)| part).collect()
}

/// Splits a text at `&&`, `||`, `;`, `|`, `&` and ends of lines outside quotes.
fn segments(line: &str) -> Vec<(After, &str)> {
    let (mut quote, mut start, mut after) = (None, 0, After::End);
    let mut out = Vec::new();
    let mut skip = 0;
    for (at, c) in line.char_indices() {
        if at < skip {
            continue;
        }
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, ';' | '&' | '|' | '\n') => {
                let double = line[at + 1..].starts_with(c);
                // The `&` of `2>&1` and `&>file` is a redirection.
                let redirects = line[..at].ends_with(['>', '<']) || line[at + 1..].starts_with('>');
                if c == '&' && !double && redirects {
                    continue;
                }
                out.push((after, &line[start..at]));
                after = match (c, double) {
                    ('&', true) => After::Success,
                    ('|', true) => After::Failure,
                    ('|', false) => After::Pipe,
                    ('&', false) => After::Aside,
                    _ => After::End,
                };
                start = at + 1 + usize::from(double && c != '\n');
                skip = start;
            }
            _ => {}
        }
    }
    out.push((after, line.get(start..).unwrap_or_default()));
    out
}

fn one(command: &str, directory: &str) -> Option<ParsedCommand> {
    let unusable = ["${{", "<", "$(", "`", "…", " ...", "path/to", "YOUR", "{{"];
    // The number of processors is known in every container.
    let filled = command.replace("$(nproc)", "2");
    if command.is_empty()
        || command.len() > 300
        || unusable.iter().any(|mark| filled.contains(mark))
    {
        return None;
    }
    let words = words(command);
    let all = words.as_slice();
    let words = essential(all);
    let (program, rest) = words.split_first()?;
    let before = all.get(..all.len() - words.len()).unwrap_or_default();
    let program = program.trim_start_matches("./");
    let mut parsed = ParsedCommand {
        directory: directory.to_owned(),
        command: command.to_owned(),
        program: program.to_owned(),
        kind: None,
        family: Family::Any,
        needs: Needs::Nothing,
        narrow: false,
        instead: instead(program, rest, before),
    };
    tools::understand(program, rest, &mut parsed);
    match parsed.instead {
        Some(Instead::Part) => parsed.narrow = true,
        Some(Instead::Browser) | None => {}
        Some(_) => parsed.kind = None,
    }
    Some(parsed)
}

/// Splits a command at white space outside of quotes, so that the argument of `-m "not slow"` is one word.
fn words(command: &str) -> Vec<&str> {
    let (mut quote, mut from) = (None, None);
    let mut out = Vec::new();
    for (at, c) in command.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, c) if c.is_whitespace() => {
                out.extend(from.take().and_then(|from: usize| command.get(from..at)));
                continue;
            }
            (None, _) => {}
        }
        from = from.or(Some(at));
    }
    out.extend(from.and_then(|from| command.get(from..)));
    out
}

/// Removes what only precedes a command: variables, `sudo`, the runner of an environment.
fn essential<'a, 'b>(mut words: &'b [&'a str]) -> &'b [&'a str] {
    loop {
        let skip = match words {
            [word, ..] if is_assignment(word) => 1,
            [
                "sudo" | "time" | "env" | "exec" | "npx" | "bunx" | "command" | "cross-env"
                | "xvfb-run",
                _,
                ..,
            ] => 1,
            ["uv" | "poetry" | "pdm" | "pipenv" | "hatch" | "rye" | "pixi", "run", _, ..] => 2,
            ["python" | "python3" | "py", "-m", _, ..] => 2,
            ["pnpm" | "yarn" | "npm", "exec" | "dlx", _, ..] => 2,
            ["coverage", "run", "-m", ..] => return words,
            _ => return words,
        };
        words = words.get(skip..).unwrap_or_default();
        while let [first, _, ..] = words
            && first.starts_with('-')
        {
            words = &words[1..];
        }
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(line: &str) -> Vec<(String, Option<Kind>, bool)> {
        parse_line(line)
            .into_iter()
            .map(|parsed| (parsed.command, parsed.kind, parsed.narrow))
            .collect()
    }

    #[test]
    fn a_line_is_split_and_what_only_leads_to_a_command_is_passed_over() {
        let parsed =
            parse_line("cd web && FOO=1 npm ci && npx jest --coverage | tee log; echo done");
        assert_eq!((parsed[0].directory.as_str(), parsed[0].kind), ("web", Some(Kind::Install)));
        assert_eq!(
            (parsed[1].command.as_str(), parsed[1].kind),
            ("npx jest --coverage", Some(Kind::Coverage))
        );
        assert_eq!(parsed[2].kind, None);
        assert_eq!(parsed.len(), 3);
    }

    #[test]
    fn commands_are_known_by_what_they_are_for() {
        use Kind::{Build, Clean, Coverage, Install, Integration, Test, Unit};
        for (line, kind) in [
            ("cargo test --workspace", Some(Test)),
            ("cargo nextest run", Some(Test)),
            ("cargo llvm-cov", Some(Coverage)),
            ("cargo build --release", Some(Build)),
            ("go test ./...", Some(Test)),
            ("go test -coverprofile=c.out ./...", Some(Coverage)),
            ("go build ./cmd/x", Some(Build)),
            ("poetry run pytest", Some(Test)),
            ("python -m pytest tests", Some(Test)),
            ("python3 -m unittest discover -s tests", Some(Test)),
            ("pytest --cov=x", Some(Coverage)),
            ("pip install -e '.[dev]'", Some(Install)),
            ("uv sync --all-extras", Some(Install)),
            ("tox", Some(Test)),
            ("nox -s tests", Some(Test)),
            ("npm install", Some(Install)),
            ("npm run test:unit", Some(Unit)),
            ("yarn test", Some(Test)),
            ("yarn", Some(Install)),
            ("pnpm -r build", Some(Build)),
            ("node --test", Some(Test)),
            ("mvn -B verify", Some(Test)),
            ("./mvnw package -DskipTests", Some(Build)),
            ("./gradlew check", Some(Test)),
            ("./gradlew integrationTest", Some(Integration)),
            ("gradle clean", Some(Clean)),
            ("make", Some(Build)),
            ("make test-integration", Some(Integration)),
            ("make install", None),
            ("just test", Some(Test)),
            ("ctest --test-dir build", Some(Test)),
            ("cmake --build build", Some(Build)),
            ("scripts/test", Some(Test)),
            ("./run_tests.sh", Some(Test)),
            ("bash scripts/build.sh", Some(Build)),
            ("git clone https://x", None),
            ("pip install black", None),
            ("npm install -g thing", None),
            ("npm install lodash", None),
            ("cargo install cargo-nextest", None),
        ] {
            assert_eq!(parse_line(line)[0].kind, kind, "{line}");
        }
    }

    #[test]
    fn one_test_or_one_package_is_narrow_and_what_needs_filling_in_is_nothing() {
        for line in [
            "cargo test foo_bar",
            "cargo test -p core",
            "pytest tests/test_a.py::test_b",
            "pytest -k name",
            "go test ./pkg/x -run TestX",
            "npm test -- --watch",
            "mvn test -Dtest=FooTest",
        ] {
            assert!(kinds(line)[0].2, "{line}");
        }
        for line in ["cargo test --workspace --locked", "pytest -q tests/", "go test -race ./..."] {
            assert!(!kinds(line)[0].2, "{line}");
        }
        assert!(
            parse_line("pytest <file>").is_empty()
                && parse_line("pip install x==${{ matrix.x }}").is_empty()
        );
    }
}
