//! Interprets the words behind a program: one function for each tool that builds or tests.

use crate::facts::Kind;
use crate::shell::{Family, Needs, ParsedCommand};

/// Fills in kind, family, needs, and whether the command runs only a part.
pub(super) fn understand(program: &str, rest: &[&str], parsed: &mut ParsedCommand) {
    let name = program.rsplit('/').next().unwrap_or(program);
    let verb = rest.iter().find(|word| !word.starts_with(['-', '+'])).copied().unwrap_or_default();
    (parsed.family, parsed.kind) = match name {
        "cargo" => (Family::Cargo, cargo(verb, rest, parsed)),
        "go" => (Family::Go, go(verb, rest, parsed)),
        "gotestsum" => (Family::Go, Some(Kind::Test)),
        "npm" | "yarn" | "pnpm" | "bun" => (Family::Node, node(name, rest, parsed)),
        "jest" | "vitest" | "mocha" | "ava" | "tap" | "c8" | "nyc" | "playwright" | "cypress" => {
            (Family::Node, runner(name, rest))
        }
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
        "tox" => {
            parsed.narrow = rest.iter().any(|word| *word == "-e" || word.starts_with("-e"));
            (Family::Python, Some(Kind::Test))
        }
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
        "cmake" => (Family::Cmake, rest.contains(&"--build").then_some(Kind::Build)),
        "ctest" => (Family::Cmake, Some(Kind::Test)),
        "make" | "gmake" => (Family::Any, make(rest, parsed)),
        "just" | "task" => {
            if name == "just" && !verb.is_empty() {
                parsed.needs = Needs::Recipe(verb.to_owned());
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
    Kind::of_task(stem)
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
    parsed.narrow = rest.iter().any(|word| {
        ["--", "-w", "--filter", "-F", "--prefix", "-C", "--cwd", "workspace"].contains(word)
            || word.starts_with("--workspace=")
            || word.starts_with("--filter=")
            || word.starts_with("--prefix=")
    });
    let plain = rest.iter().filter(|word| !word.starts_with('-')).copied().collect::<Vec<_>>();
    let global = rest
        .iter()
        .any(|word| ["-g", "--global", "-D", "--save-dev", "--location=global"].contains(word));
    match plain.as_slice() {
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
        _ if rest.iter().any(|word| word.starts_with("--coverage")) => Some(Kind::Coverage),
        _ => Some(Kind::Test),
    }
}

fn pytest(rest: &[&str], parsed: &mut ParsedCommand) -> Option<Kind> {
    parsed.narrow = rest.iter().any(|word| word.contains("::") || word.ends_with(".py"));
    let below = |name: &str| rest.iter().any(|word| !word.starts_with('-') && word.contains(name));
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
        "develop" => Some(Kind::Install),
        "test" => Some(Kind::Test),
        "build" | "sdist" | "bdist_wheel" | "build_ext" => Some(Kind::Build),
        "clean" => Some(Kind::Clean),
        _ => None,
    }
}

fn maven(rest: &[&str], parsed: &mut ParsedCommand) -> Option<Kind> {
    parsed.narrow =
        rest.iter().any(|word| word.starts_with("-Dtest") || ["-pl", "-f"].contains(word));
    let skips = rest
        .iter()
        .any(|word| word.starts_with("-DskipTests") || word.starts_with("-Dmaven.test.skip"));
    let goal = |goals: &[&str]| rest.iter().any(|word| goals.contains(word));
    match () {
        () if rest.iter().any(|word| word.starts_with("jacoco:")) => Some(Kind::Coverage),
        () if goal(&["test", "verify", "integration-test"]) && !skips => Some(Kind::Test),
        () if goal(&["package", "compile", "install", "verify"]) => Some(Kind::Build),
        () if goal(&["clean"]) => Some(Kind::Clean),
        () if rest.iter().any(|word| word.starts_with("dependency:")) => Some(Kind::Install),
        () => None,
    }
}

fn gradle(rest: &[&str], parsed: &mut ParsedCommand) -> Option<Kind> {
    parsed.narrow =
        rest.iter().any(|word| *word == "--tests" || (word.starts_with(':') && word.len() > 1));
    let skips = rest.windows(2).any(|pair| pair[0] == "-x" && ["test", "check"].contains(&pair[1]));
    let tasks = rest.iter().filter(|word| !word.starts_with('-'));
    let kind = |task: &&str| match *task {
        "build" | "assemble" | "classes" => Some(Kind::Build),
        "test" if skips => None,
        "test" | "check" => Some(Kind::Test),
        "clean" => Some(Kind::Clean),
        "jacocoTestReport" | "koverHtmlReport" => Some(Kind::Coverage),
        task if task.to_lowercase().contains("integration") => Some(Kind::Integration),
        _ => None,
    };
    let kinds = tasks.filter_map(kind).collect::<Vec<_>>();
    kinds.iter().copied().find(|kind| *kind != Kind::Clean).or(kinds.first().copied())
}

fn make(rest: &[&str], parsed: &mut ParsedCommand) -> Option<Kind> {
    parsed.narrow = rest.contains(&"-C") || rest.iter().any(|word| word.contains('='));
    let mut targets = rest.iter().filter(|word| !word.starts_with('-') && !word.contains('='));
    match targets.next() {
        None => Some(Kind::Build),
        Some(target) if targets.next().is_none() => {
            parsed.needs = Needs::Target((*target).to_owned());
            // This installs the build result into the system.
            Kind::of_task(target).filter(|_| *target != "install")
        }
        Some(_) => None,
    }
}
