//! Reads lines of shell as people write them in documents and CI: the command, its directory and its purpose.
//!
//! This is no shell: a line that needs one to be understood is left out.

use crate::facts::Kind;
use crate::idle::{Instead, instead};

/// The ecosystem that a command belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// A target of a Makefile.
    Target(String),
    /// A recipe of a justfile.
    Recipe(String),
    /// A script of package.json.
    Script(String),
    /// A file of the repository, as written.
    File(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParsedCommand {
    /// The directory after the `cd` commands before it, relative to the directory of the line.
    pub(crate) directory: String,
    pub(crate) command: String,
    pub(crate) program: String,
    pub(crate) kind: Option<Kind>,
    pub(crate) family: Family,
    pub(crate) needs: Needs,
    /// Whether it runs only a part: one test, one package.
    pub(crate) narrow: bool,
    /// The action of a test tool that runs no tests.
    pub(crate) instead: Option<Instead>,
}

/// The operator between a command and the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
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
pub(crate) fn parse_line(line: &str) -> Vec<ParsedCommand> {
    let mut directory = String::new();
    let mut out = Vec::new();
    for part in parts(line) {
        let command = part.split(" #").next().unwrap_or(part).trim().trim_end_matches('\\').trim();
        if let Some(to) = command.strip_prefix("cd ") {
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

/// A command behind a pipe does not count as one of its own.
fn parts(line: &str) -> Vec<&str> {
    let own = segments(line).into_iter().filter(|(after, _)| *after != After::Pipe);
    own.map(|(_, part)| part).collect()
}

/// Splits a text at `&&`, `||`, `;`, `|`, `&` and ends of lines outside quotes.
pub(crate) fn segments(line: &str) -> Vec<(After, &str)> {
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
    if command.is_empty()
        || command.len() > 300
        || unusable.iter().any(|mark| command.contains(mark))
    {
        return None;
    }
    let words = command.split_whitespace().collect::<Vec<_>>();
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
    super::tools::understand(program, rest, &mut parsed);
    match parsed.instead {
        Some(Instead::Part) => parsed.narrow = true,
        Some(_) => parsed.kind = None,
        None => {}
    }
    Some(parsed)
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
