//! Interprets the words behind a program: one function for each tool that builds or tests.

use super::{Family, Kind, Needs, ParsedCommand};

/// Fills in kind, family, needs, and whether the command runs only a part.
pub(super) fn understand(program: &str, rest: &[&str], parsed: &mut ParsedCommand) {
    let name = program.rsplit('/').next().unwrap_or(program);
    let verb = rest.iter().find(|word| !word.starts_with(['-', '+'])).copied().unwrap_or_default();
    (parsed.family, parsed.kind) = match name {
        "cargo" => (Family::Cargo, cargo(verb, rest, parsed)),
        "go" => (Family::Go, go(verb, rest, parsed)),
        "gotestsum" => (Family::Go, Some(Kind::Test)),
        "npm" | "yarn" | "pnpm" | "bun" => (Family::Node, node(name, rest, parsed)),
        "jest" | "vitest" | "mocha" | "ava" | "tap" | "c8" | "nyc" | "playwright" | "cypress"
        | "karma" | "testcafe" | "nightwatch" | "wdio" | "wtr" | "web-test-runner" => {
            (Family::Node, runner(name, rest))
        }
        "ng" | "react-scripts" if verb == "test" => (Family::Node, Some(Kind::Test)),
        "node" if rest.contains(&"--test") => (Family::Node, Some(Kind::Test)),
        "tsc" => (Family::Node, Some(Kind::Build)),
        "pytest" | "py.test" => (Family::Python, pytest(rest, parsed)),
        "manage.py" => (Family::Python, manage(program, rest, parsed)),
        "python" | "python3" | "py" if verb.ends_with("manage.py") => {
            let rest = rest.iter().skip_while(|word| **word != verb).skip(1).copied();
            (Family::Python, manage(verb, &rest.collect::<Vec<_>>(), parsed))
        }
        "unittest" => {
            let all = rest.is_empty() || verb == "discover";
            parsed.narrow = !all;
            (Family::Python, Some(Kind::Test))
        }
        "tox" => (Family::Python, tox(rest, parsed)),
        "nox" => (Family::Python, Some(nox(rest))),
        "coverage" if verb == "run" => (Family::Python, Some(Kind::Coverage)),
        "pip" | "pip3" => (Family::Python, pip(rest)),
        "uv" if verb == "pip" => (Family::Python, pip(rest.get(1..).unwrap_or_default())),
        "poetry" | "uv" | "pdm" | "pipenv" | "hatch" | "rye" => {
            (Family::Python, python(name, verb))
        }
        "build" if parsed.command.contains("-m build") => (Family::Python, Some(Kind::Build)),
        "setup.py" => (Family::Python, setup_py(verb)),
        "python" | "python3" if verb == "setup.py" => {
            let verb = rest.iter().skip_while(|word| **word != "setup.py").nth(1);
            (Family::Python, setup_py(verb.copied().unwrap_or_default()))
        }
        "mvn" | "mvnw" => (Family::Maven, maven(rest, parsed)),
        "gradle" | "gradlew" => (Family::Gradle, gradle(rest, parsed)),
        "cmake" => {
            // Without the command that configures the directory it builds nothing.
            parsed.narrow = true;
            (Family::Cmake, rest.contains(&"--build").then_some(Kind::Build))
        }
        "ctest" => {
            parsed.narrow = !rest.iter().any(|word| word.starts_with("--test-dir"));
            (Family::Cmake, Some(Kind::Test))
        }
        "meson" => (Family::Any, (verb == "test").then_some(Kind::Test)),
        "make" | "gmake" => (Family::Any, make(rest, parsed)),
        "just" | "task" => {
            if name == "just" && !verb.is_empty() {
                parsed.needs = Needs::Recipe(verb.to_owned());
                // Further words are other recipes, or arguments that choose.
                parsed.narrow = rest.iter().filter(|word| !word.starts_with('-')).count() > 1;
            }
            (Family::Any, Kind::of_task(verb))
        }
        "sh" | "bash" | "python" | "python3" | "node" if verb.contains(['/', '.']) => {
            (family_of(name), script(verb, parsed))
        }
        _ if program.contains('/') || name.ends_with(".sh") => {
            (Family::Any, script(program, parsed))
        }
        _ => (Family::Any, None),
    };
}

/// Returns the words that are neither options nor the values of those options that take one.
fn plain_words<'a>(rest: &[&'a str], valued: &[&str]) -> Vec<&'a str> {
    let mut plain = Vec::new();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        if valued.contains(word) {
            words.next();
        } else if !word.starts_with('-') {
            plain.push(*word);
        }
    }
    plain
}

fn family_of(interpreter: &str) -> Family {
    match interpreter {
        "python" | "python3" => Family::Python,
        "node" => Family::Node,
        _ => Family::Any,
    }
}

/// Interprets a script of the repository by its name.
fn script(path: &str, parsed: &mut ParsedCommand) -> Option<Kind> {
    parsed.needs = Needs::File(path.trim_start_matches("./").to_owned());
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.split('.').next().unwrap_or(name);
    let arguments = parsed.command.split_whitespace().any(|word| word.starts_with('-'));
    // `install.sh --to DIR` installs a release, and `all` says nothing about a script that is no target.
    Kind::of_task(stem).filter(|kind| match kind {
        Kind::Install => !arguments,
        Kind::Build => stem != "all",
        _ => true,
    })
}

/// Interprets tox. Environments for Python versions run the tests, and others check types and style or make documents.
fn tox(rest: &[&str], parsed: &mut ParsedCommand) -> Option<Kind> {
    let chosen = rest.iter().position(|word| word.starts_with("-e"));
    let Some(at) = chosen else { return Some(Kind::Test) };
    let glued = rest.get(at).and_then(|word| word.strip_prefix("-e"));
    let named = glued.filter(|name| !name.is_empty()).or(rest.get(at + 1).copied());
    let named = named.unwrap_or_default().trim_start_matches('=');
    let python = |name: &str| {
        let version = name.strip_prefix("py").or_else(|| name.strip_prefix("python"));
        version.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
    };
    let other =
        ["lint", "typing", "types", "mypy", "style", "docs", "format", "pre-commit", "flake8"];
    if named.split(',').all(|name| other.iter().any(|word| name.contains(word))) {
        return None;
    }
    // One version of Python runs all tests.
    parsed.narrow = !named.split(',').any(python);
    Some(Kind::Test)
}

/// Interprets Django's `manage.py`.
fn manage(path: &str, rest: &[&str], parsed: &mut ParsedCommand) -> Option<Kind> {
    parsed.needs = Needs::File(path.trim_start_matches("./").to_owned());
    let mut plain = rest.iter().filter(|word| !word.starts_with('-'));
    if plain.next() != Some(&"test") {
        return None;
    }
    // Labels select a part of the tests. A value behind an option is taken for a label.
    parsed.narrow |= plain.next().is_some();
    Some(Kind::Test)
}

fn cargo(verb: &str, rest: &[&str], parsed: &mut ParsedCommand) -> Option<Kind> {
    let runs = || rest.iter().any(|word| ["run", "r"].contains(word));
    let kind = match verb {
        "build" | "b" => Kind::Build,
        "test" | "t" => Kind::Test,
        "nextest" if runs() => Kind::Test,
        "tarpaulin" | "llvm-cov" => Kind::Coverage,
        "clean" => Kind::Clean,
        "fetch" => Kind::Install,
        _ => return None,
    };
    let part = [
        "-p",
        "--package",
        "--test",
        "--doc",
        "--bin",
        "--example",
        "--manifest-path",
        "--bench",
        "--exclude",
    ];
    let own = rest.iter().take_while(|word| **word != "--");
    let positional = own.clone().filter(|word| !word.starts_with(['-', '+'])).count();
    let valued =
        ["--features", "-F", "--target", "--profile", "-j", "--jobs", "--target-dir", "--color"];
    let values = own.clone().filter(|word| valued.contains(word)).count();
    let allowed = 1 + usize::from(verb == "nextest") + values;
    // An image has one toolchain; `+stable` means that one.
    let toolchain = rest.first().is_some_and(|word| word.starts_with('+') && *word != "+stable");
    let mut names = rest.iter().skip_while(|word| **word != "--").skip(1);
    let mut filtered = false;
    while let Some(word) = names.next() {
        match *word {
            "--test-threads" | "--color" | "--format" | "--logfile" | "--skip" | "-Z"
            | "--shuffle-seed" => drop(names.next()),
            word => filtered |= !word.starts_with('-'),
        }
    }
    parsed.narrow = own.clone().any(|word| part.contains(word))
        || positional > allowed
        || toolchain
        || filtered;
    if kind == Kind::Test && rest.contains(&"--lib") {
        return Some(Kind::Unit);
    }
    if kind == Kind::Test
        && rest.windows(2).any(|pair| pair[0] == "--test" && pair[1].contains('*'))
    {
        parsed.narrow = false;
        return Some(Kind::Integration);
    }
    Some(kind)
}

fn go(verb: &str, rest: &[&str], parsed: &mut ParsedCommand) -> Option<Kind> {
    match verb {
        "build" => Some(Kind::Build),
        "clean" => Some(Kind::Clean),
        "mod" if rest.contains(&"download") => Some(Kind::Install),
        "test" => {
            if rest.contains(&"-count=0") {
                return None;
            }
            parsed.narrow = !rest.contains(&"./...");
            let tags = rest.iter().any(|word| word.contains("integration"));
            let covers = rest.iter().any(|word| word.starts_with("-cover"));
            Some(match () {
                () if tags => Kind::Integration,
                () if covers => Kind::Coverage,
                () => Kind::Test,
            })
        }
        _ => None,
    }
}

fn node(manager: &str, rest: &[&str], parsed: &mut ParsedCommand) -> Option<Kind> {
    const ELSEWHERE: [&str; 8] =
        ["-w", "--workspace", "--filter", "-F", "--prefix", "-C", "--cwd", "--dir"];
    let elsewhere = |word: &&str| {
        ELSEWHERE.contains(word)
            || ELSEWHERE.iter().any(|option| {
                option.len() > 2 && word.strip_prefix(option).is_some_and(|r| r.starts_with('='))
            })
    };
    parsed.narrow = rest.iter().any(|word| elsewhere(word) || ["--", "workspace"].contains(word));
    // The script is one of other packages, and not of this one.
    let others = rest.iter().any(|word| {
        elsewhere(word)
            || ["-r", "--recursive", "--workspaces", "-ws", "workspace", "workspaces"]
                .contains(word)
    });
    let plain = plain_words(rest, &ELSEWHERE);
    let kind = node_script(manager, &plain, rest, parsed);
    if others {
        parsed.needs = Needs::Nothing;
    }
    kind
}

fn node_script(
    manager: &str,
    plain: &[&str],
    rest: &[&str],
    parsed: &mut ParsedCommand,
) -> Option<Kind> {
    let global = rest
        .iter()
        .any(|word| ["-g", "--global", "-D", "--save-dev", "--location=global"].contains(word));
    match plain {
        [] if manager == "yarn" && !global => Some(Kind::Install),
        ["install" | "i" | "ci" | "clean-install"] if !global => Some(Kind::Install),
        ["test" | "t" | "tst", ..] => {
            if manager == "bun" {
                return Some(Kind::Test);
            }
            parsed.needs = Needs::Script("test".to_owned());
            if rest.contains(&"--coverage") { Some(Kind::Coverage) } else { Some(Kind::Test) }
        }
        ["run" | "run-script", script, ..] => {
            parsed.needs = Needs::Script((*script).to_owned());
            Kind::of_task(script)
        }
        [script, ..] if manager != "npm" => {
            let kind = Kind::of_task(script).filter(|kind| *kind != Kind::Install);
            if kind.is_some() {
                parsed.needs = Needs::Script((*script).to_owned());
            }
            kind
        }
        _ => None,
    }
}

fn runner(name: &str, rest: &[&str]) -> Option<Kind> {
    match name {
        "c8" | "nyc" => Some(Kind::Coverage),
        "playwright" | "cypress" => {
            rest.iter().any(|word| ["test", "run"].contains(word)).then_some(Kind::Integration)
        }
        "testcafe" | "nightwatch" | "wdio" => Some(Kind::Integration),
        _ if rest.iter().any(|word| word.starts_with("--coverage")) => Some(Kind::Coverage),
        _ => Some(Kind::Test),
    }
}

fn pytest(rest: &[&str], parsed: &mut ParsedCommand) -> Option<Kind> {
    // The value of an option is no place of tests.
    const VALUED: [&str; 16] = [
        "-k",
        "-m",
        "-p",
        "-n",
        "-c",
        "-o",
        "-W",
        "-r",
        "--deselect",
        "--ignore",
        "--ignore-glob",
        "--basetemp",
        "--junitxml",
        "--numprocesses",
        "--rootdir",
        "--tb",
    ];
    let places = plain_words(rest, &VALUED);
    parsed.narrow = places.iter().any(|word| word.contains("::") || word.ends_with(".py"));
    let below = |name: &str| !places.is_empty() && places.iter().all(|word| word.contains(name));
    Some(match () {
        () if rest.iter().any(|word| word.starts_with("--cov")) => Kind::Coverage,
        () if below("integration") => Kind::Integration,
        () if below("unit") => Kind::Unit,
        () => Kind::Test,
    })
}

fn nox(rest: &[&str]) -> Kind {
    let session = rest.iter().skip_while(|word| !["-s", "--session", "--sessions"].contains(word));
    session.skip(1).find_map(|name| Kind::of_task(name)).unwrap_or(Kind::Test)
}

/// Returns whether a command installs what the project needs, and not a single tool.
fn pip(rest: &[&str]) -> Option<Kind> {
    let of_project = rest.iter().any(|word| {
        let word = word.trim_matches(['"', '\'']);
        ["-r", "--requirement", "-e", "--editable"].contains(&word)
            || word == "."
            || word.starts_with(".[")
            || word.starts_with("-r")
            || word.starts_with("-e")
    });
    (rest.first() == Some(&"install") && of_project).then_some(Kind::Install)
}

fn python(manager: &str, verb: &str) -> Option<Kind> {
    match (manager, verb) {
        (_, "sync" | "install") => Some(Kind::Install),
        ("poetry" | "uv" | "pdm" | "hatch" | "rye", "build") => Some(Kind::Build),
        ("hatch", "test") => Some(Kind::Test),
        _ => None,
    }
}

fn setup_py(verb: &str) -> Option<Kind> {
    match verb {
        // Its `test` was removed from setuptools.
        "develop" => Some(Kind::Install),
        "build" | "sdist" | "bdist_wheel" | "build_ext" => Some(Kind::Build),
        "clean" => Some(Kind::Clean),
        _ => None,
    }
}

fn maven(rest: &[&str], parsed: &mut ParsedCommand) -> Option<Kind> {
    const VALUED: [&str; 10] =
        ["-P", "--activate-profiles", "-pl", "--projects", "-f", "--file", "-s", "-T", "-rf", "-t"];
    // Other projects, another file, named tests, and a profile, which may choose other modules or tests.
    parsed.narrow = rest.iter().any(|word| {
        [
            "-DskipITs",
            "-Dtest=",
            "-Dit.test=",
            "-Dgroups=",
            "-P",
            "-pl",
            "--activate-profiles",
            "--projects",
            "-rf",
        ]
        .iter()
        .any(|option| word.starts_with(option))
            || ["-f", "--file", "-N", "--non-recursive"].contains(word)
    });
    let skips = rest.iter().any(|word| {
        ["-DskipTests", "-Dmaven.test.skip", "-Dsurefire.skip", "-DskipUnitTests"].iter().any(
            |option| {
                let value = word.strip_prefix(option).map(|value| value.trim_start_matches('='));
                value.is_some_and(|value| value != "false")
            },
        )
    });
    let goals = plain_words(rest, &VALUED);
    let goal = |names: &[&str]| goals.iter().any(|word| names.contains(word));
    match () {
        () if goals.iter().any(|word| word.starts_with("jacoco:")) && !skips => {
            Some(Kind::Coverage)
        }
        () if goal(&["test", "verify", "integration-test", "package", "install"])
            && !skips
            && !goal(&["site"]) =>
        {
            // Only these are called for the tests; `package` runs them on its way.
            match goal(&["test", "verify", "integration-test"]) {
                true => Some(Kind::Test),
                false => Some(Kind::Build),
            }
        }
        () if goal(&["package", "compile", "install", "verify", "test-compile"]) => {
            Some(Kind::Build)
        }
        () if goals == ["clean"] => Some(Kind::Clean),
        () if goals.iter().any(|word| word.starts_with("dependency:")) => Some(Kind::Install),
        () => None,
    }
}

fn gradle(rest: &[&str], parsed: &mut ParsedCommand) -> Option<Kind> {
    const VALUED: [&str; 10] = [
        "-x",
        "--exclude-task",
        "-b",
        "-c",
        "-p",
        "--project-dir",
        "-g",
        "-I",
        "--init-script",
        "--tests",
    ];
    let tasks = plain_words(rest, &VALUED);
    let excludes = |pair: &&[&str]| ["-x", "--exclude-task"].contains(&pair[0]);
    let apart = rest.windows(2).filter(excludes).map(|pair| pair[1]);
    // The value may follow without a space.
    let glued = rest.iter().filter_map(|word| {
        let value = word.strip_prefix("--exclude-task=").or_else(|| word.strip_prefix("-x"))?;
        Some(value.trim_start_matches('=')).filter(|value| !value.is_empty())
    });
    let mut excluded = apart.chain(glued);
    let is_test = |task: &str| {
        let task = task.rsplit(':').next().unwrap_or(task);
        let lower = task.to_lowercase();
        lower == "check" || lower.ends_with("test") || lower.ends_with("tests")
    };
    // A task of one project.
    let part = |task: &&str| task.trim_start_matches(':').contains(':') || task.starts_with(':');
    parsed.narrow = rest.iter().any(|word| *word == "--tests" || word.starts_with("--tests="))
        || rest.iter().any(|word| ["-p", "--project-dir", "-b"].contains(word))
        || tasks.iter().any(part);
    let skips = excluded.any(is_test);
    let kind = |task: &&str| match *task {
        "build" | "assemble" | "classes" => Some(Kind::Build),
        "clean" => Some(Kind::Clean),
        "jacocoTestReport" | "koverHtmlReport" if !skips => Some(Kind::Coverage),
        task if skips && is_test(task) => None,
        "test" | "check" | "allTests" | "jvmTest" => Some(Kind::Test),
        task if task.to_lowercase().contains("integration") => Some(Kind::Integration),
        _ => None,
    };
    if tasks.iter().all(|task| *task == "clean") {
        return tasks.first().map(|_| Kind::Clean);
    }
    let kinds = tasks.iter().filter_map(kind).collect::<Vec<_>>();
    kinds.into_iter().find(|kind| *kind != Kind::Clean)
}

fn make(rest: &[&str], parsed: &mut ParsedCommand) -> Option<Kind> {
    // These choose tests by custom; other variables choose a compiler or a level of output.
    let selecting =
        ["TEST", "TESTS", "T", "ONLY", "FILTER", "SUITE", "CASE", "PKG", "PACKAGE", "RUN"];
    parsed.narrow = rest.contains(&"-C")
        || rest
            .iter()
            .any(|word| word.split_once('=').is_some_and(|(name, _)| selecting.contains(&name)));
    // A number belongs to `-j`.
    let number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let mut targets =
        rest.iter().filter(|word| !word.starts_with('-') && !word.contains('=') && !number(word));
    match targets.next() {
        None => {
            parsed.needs = Needs::Target(String::new());
            Some(Kind::Build)
        }
        Some(target) if targets.next().is_none() => {
            parsed.needs = Needs::Target((*target).to_owned());
            // This installs the build result into the system.
            Kind::of_task(target).filter(|_| *target != "install")
        }
        Some(_) => None,
    }
}
