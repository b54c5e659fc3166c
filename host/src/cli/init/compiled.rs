//! The gates of compiled languages, and of projects that only a Makefile or a document describes: cargo, Go, Maven, Gradle,
//! CMake, make, autotools and Meson.

use std::collections::BTreeSet;

use super::files::Files;
use super::gate::{Gate, Work, place, program, quoted, words};

/// A virtual environment outside of the tested tree, for tools that pip installs.
const VENV: &str = "/artifacts/home/venv";
/// Maximum number of Go modules with a step of their own.
const MODULES: usize = 10;
/// Servers that tests start, with the packages of Debian that have them.
const SERVERS: [(&str, &str); 5] = [
    ("redis-server", "redis-server"),
    ("memcached", "memcached"),
    ("mosquitto", "mosquitto"),
    ("beanstalkd", "beanstalkd"),
    ("nginx", "nginx"),
];
/// Test tools that recipes of make start, with the packages of Debian that have them. No official image has them.
const TEST_TOOLS: [(&str, &str); 2] = [("bats", "bats"), ("expect", "expect")];

pub(super) fn plan(gate: &mut Gate, work: &Work<'_>) -> BTreeSet<String> {
    gate.slow = true;
    match work.project.package_manager.as_str() {
        "cargo" => cargo(gate, work),
        "go" => go(gate, work),
        "maven" => maven(gate, work),
        "gradle" => gradle(gate, work),
        _ if work.project.framework == "ctest" => cmake(gate, work),
        _ => other(gate, work),
    }
}

fn roots(work: &Work<'_>) -> BTreeSet<String> {
    work.members().map(|(project, _)| project.root.clone()).collect()
}

/// Returns the command if it runs the tool with a subcommand; otherwise the usual one, with a note that says why.
fn native(gate: &mut Gate, work: &Work<'_>, fits: bool, usual: &str) -> String {
    let asked = work.test.command.as_str();
    if !fits {
        let program = program(asked);
        gate.note(format!(
            "`{asked}` ({}) needs `{program}` and what it calls, which the image may not have; the step runs the tests \
             directly",
            work.test_place()
        ));
        return usual.to_owned();
    }
    asked.to_owned()
}

fn cargo(gate: &mut Gate, work: &Work<'_>) -> BTreeSet<String> {
    let manifest = work.files.toml("Cargo.toml");
    let workspace = manifest.get("workspace").and_then(toml::Value::as_table);
    // Members that are no defaults may need another target.
    let partial = workspace.is_some_and(|workspace| workspace.contains_key("default-members"));
    let usual =
        if workspace.is_some() && !partial { "cargo test --workspace" } else { "cargo test" };
    let asked = words(&work.test.command);
    let fits = asked.starts_with(&["cargo", "test"]) || asked.starts_with(&["cargo", "t"]);
    let mut test = native(gate, work, fits, usual);
    let install = work.project.commands.install.as_ref();
    let install = install.filter(|install| install.command.starts_with("cargo fetch"));
    let locked = work.files.has("Cargo.lock") || install.is_some();
    let has = |test: &str, options: &[&str]| words(test).iter().any(|word| options.contains(word));
    let mut options = String::new();
    if workspace.is_some() && !partial && !has(&test, &["--workspace", "--all"]) {
        options.push_str(" --workspace");
    }
    if locked && !has(&test, &["--locked", "--frozen"]) {
        options.push_str(" --locked");
    }
    if !options.is_empty() {
        test = match test.split_once(" -- ") {
            Some((own, of_tests)) => format!("{own}{options} -- {of_tests}"),
            None => format!("{test}{options}"),
        };
    }
    let source = install.map_or(&work.project.source, |install| &install.source);
    let command = if locked { "cargo fetch --locked" } else { "cargo fetch" };
    gate.prepare("fetch", command, place(source));
    let whole = has(&test, &["--workspace", "--all"]);
    gate.test(&test, Some(false), work.test_place());
    if whole { roots(work) } else { BTreeSet::new() }
}

fn go(gate: &mut Gate, work: &Work<'_>) -> BTreeSet<String> {
    let fits = words(&work.test.command).starts_with(&["go", "test"]);
    let test = native(gate, work, fits, "go test ./...");
    let vendored = |files: &Files| files.has("vendor/modules.txt");
    let requires = |files: &Files| files.text_or_empty("go.mod").contains("require");
    let modules = work.members().filter(|(other, _)| other.has_tests);
    let modules =
        modules.filter_map(|(other, inner)| Some((other, inner, other.commands.test.as_ref()?)));
    let modules = modules.take(MODULES).collect::<Vec<_>>();
    let mut fetched = Vec::new();
    if requires(work.files) && !vendored(work.files) {
        fetched.push("go mod download".to_owned());
    }
    for (_, inner, _) in &modules {
        let files = work.files.below(inner);
        if requires(&files) && !vendored(&files) {
            fetched.push(format!("(cd {} && go mod download)", quoted(inner)));
        }
    }
    // A workspace downloads what all its modules need.
    if work.files.has("go.work") {
        fetched.truncate(1);
    }
    if !fetched.is_empty() {
        gate.prepare("fetch", fetched.join(" && "), place(&work.project.source));
    }
    gate.test(&test, Some(false), work.test_place());
    let mut covered = BTreeSet::new();
    for (other, inner, test) in modules {
        // `./...` does not reach into another module.
        let command = format!("cd {} && {}", quoted(inner), go_test(&test.command));
        gate.named_test(&format!("test {inner}"), &command, Some(false), place(&test.source));
        covered.insert(other.root.clone());
    }
    covered
}

fn go_test(command: &str) -> &str {
    if words(command).starts_with(&["go", "test"]) { command } else { "go test ./..." }
}

fn maven(gate: &mut Gate, work: &Work<'_>) -> BTreeSet<String> {
    // The image has Maven, and the wrapper would download another one.
    let wrapper = work.files.has("mvnw") && !gate.image.starts_with("maven:");
    let maven = if wrapper { "sh ./mvnw -B" } else { "mvn -B" };
    let mut poms = work.files.text_or_empty("pom.xml");
    for (_, inner) in work.members() {
        poms.push_str(&work.files.below(inner).text_or_empty("pom.xml"));
    }
    // Goals beside the tests, such as documents, need more than the tests do. Failsafe runs tests in `verify`.
    let goal = if poms.contains("maven-failsafe-plugin") { "verify" } else { "test" };
    gate.prepare("build", format!("{maven} test-compile"), place(&work.project.source));
    gate.test(&format!("{maven} {goal}"), None, work.test_place());
    roots(work)
}

fn gradle(gate: &mut Gate, work: &Work<'_>) -> BTreeSet<String> {
    let fits = ["gradle", "gradlew"].contains(&program(&work.test.command));
    let wrapper = work.files.has("gradlew") && work.files.has("gradle/wrapper/gradle-wrapper.jar");
    let gradle = if wrapper { "sh ./gradlew" } else { "gradle" };
    let mut scripts =
        work.files.text_or_empty("build.gradle.kts") + &work.files.text_or_empty("build.gradle");
    for (_, inner) in work.members() {
        let files = work.files.below(inner);
        scripts.push_str(&files.text_or_empty("build.gradle.kts"));
        scripts.push_str(&files.text_or_empty("build.gradle"));
    }
    let multiplatform = scripts.contains("multiplatform");
    let asked = words(&work.test.command);
    let mut test = match fits {
        // Archives lose the executable bit.
        true => asked.iter().skip(1).fold(gradle.to_owned(), |line, word| format!("{line} {word}")),
        false => native(gate, work, false, &format!("{gradle} test")),
    };
    let plain = words(&test).last() == Some(&"test");
    if multiplatform && plain {
        gate.note("Kotlin Multiplatform: only the tests for the JVM are run, since the others need tools that the image does not have");
        test.push_str(" jvmTest");
    }
    if !multiplatform {
        gate.prepare("build", format!("{gradle} testClasses"), place(&work.project.source));
    }
    gate.test(&test, None, work.test_place());
    roots(work)
}

/// CMake: configure, build, test. No official image has cmake; the Python image has a compiler, make and pip.
fn cmake(gate: &mut Gate, work: &Work<'_>) -> BTreeSet<String> {
    let pip = gate.image.starts_with("python:");
    let within = |command: &str| match pip {
        true => format!(". {VENV}/bin/activate && {command}"),
        false => command.to_owned(),
    };
    if pip {
        let command =
            format!("python -m venv {VENV} && . {VENV}/bin/activate && pip install -q cmake");
        gate.prepare(
            "install",
            command,
            format!("{}; cmake from pip, as the image has none", place(&work.project.source)),
        );
    }
    servers(gate, work.files);
    let options = options_for_tests(&work.files.text_or_empty("CMakeLists.txt"));
    let options = options.iter().map(|option| format!(" -D{option}=ON")).collect::<String>();
    let build = format!("cmake -B build{options} && cmake --build build -j 4");
    gate.prepare("build", within(&build), place(&work.project.source));
    // Without tests ctest ends with exit code 0. Commands of CI are written for directories and variables of CI.
    let test = "ctest --test-dir build --output-on-failure --no-tests=error";
    gate.test(&within(test), None, work.test_place());
    BTreeSet::new()
}

/// Returns the options of a CMake project that build its tests and are off by default.
fn options_for_tests(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let Some(rest) = line.strip_prefix("option(").or_else(|| line.strip_prefix("OPTION("))
        else {
            continue;
        };
        let rest = rest.trim_start();
        let name = rest.split(|c: char| c.is_whitespace() || c == ')').next().unwrap_or_default();
        let off = rest.trim_end_matches([')', ' ']).ends_with("OFF");
        let lower = name.to_lowercase();
        let wanted = [
            "build_test",
            "build_testing",
            "enable_test",
            "with_test",
            "_tests",
            "_testing",
            "_test",
        ];
        let wanted = wanted.iter().any(|word| lower.contains(word)) || lower == "tests";
        let aside = ["disable", "no_", "skip", "fuzz", "ssl", "bench", "async", "slow"];
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if off
            && wanted
            && plain
            && !name.is_empty()
            && !aside.iter().any(|word| lower.contains(word))
        {
            out.push(name.to_owned());
        }
    }
    out
}

/// Adds a step that installs the servers and tools which the tests start.
fn servers(gate: &mut Gate, files: &Files) {
    let named = |name: &String| {
        name == "Makefile"
            || name == "CMakeLists.txt"
            || name.ends_with(".sh")
            || name.starts_with("test")
    };
    let scripts = files.names(".").into_iter().filter(named).take(50);
    let texts = scripts.filter_map(|name| Some((files.text(&name)?, name))).collect::<Vec<_>>();
    let servers = SERVERS.iter().filter_map(|(server, package)| {
        let (text, name) = texts.iter().find(|(text, _)| text.contains(server))?;
        let line = text.lines().position(|line| line.contains(server))? + 1;
        Some((*package, format!("{name}:{line}")))
    });
    let tools = TEST_TOOLS.iter().filter_map(|(tool, package)| {
        let runs = |line: &str| {
            let command =
                line.strip_prefix('\t').map(|line| line.trim_start_matches(['@', '-', '+']));
            command.is_some_and(|command| words(command).first() == Some(tool))
        };
        let (text, name) = texts.iter().find(|(_, name)| name == "Makefile")?;
        let line = text.lines().position(runs)? + 1;
        Some((*package, format!("{name}:{line}")))
    });
    let found = servers.chain(tools);
    let found = found.collect::<Vec<_>>();
    let Some((_, source)) = found.first().cloned() else { return };
    let packages = found.iter().map(|(package, _)| *package).collect::<Vec<_>>().join(" ");
    gate.as_root = true;
    let command =
        format!("apt-get update -qq && apt-get install -y -qq --no-install-recommends {packages}");
    gate.prepare(
        "install packages",
        command,
        format!("{source}; the tests start it. It needs `user: root`"),
    );
}

/// make, or whatever documents and CI name.
fn other(gate: &mut Gate, work: &Work<'_>) -> BTreeSet<String> {
    let asked = work.test.command.as_str();
    let compiled = work.project.prerequisites.iter().any(|needed| needed.name == "c compiler");
    if compiled || program(asked) == "make" {
        servers(gate, work.files);
    }
    let ignores = work.files.text_or_empty(".gitignore");
    gate.writes_beside = compiled && program(asked) == "make" && !ignores.contains(".o");
    if let Some(configure) = autotools(work.files)
        && program(asked) == "make"
    {
        with_autotools(gate, work.files, asked, &work.named(configure), work.test_place());
        return BTreeSet::new();
    }
    if program(asked) == "just" {
        // PyPI has just as a package; the images of Debian have no newer one.
        gate.image = "python:3.12".to_owned();
        let command = format!("python -m venv {VENV} && {VENV}/bin/pip install -q rust-just");
        gate.prepare(
            "install",
            command,
            format!("{}; just from pip, as no official image has it", work.test_place()),
        );
        gate.test(&format!("PATH={VENV}/bin:$PATH {asked}"), None, work.test_place());
        return BTreeSet::new();
    }
    let builds = work.project.commands.build.as_ref().filter(|build| {
        program(&build.command) == "make" && build.command != asked && program(asked) == "make"
    });
    if work.files.has("configure") && work.files.has("Makefile.in") {
        gate.prepare("configure", "sh ./configure", work.named("configure"));
    }
    if let Some(build) = builds {
        gate.prepare("build", build.command.clone(), place(&build.source));
    }
    gate.test(asked, None, work.test_place());
    BTreeSet::new()
}

/// Returns the file from which autotools make `configure`.
fn autotools(files: &Files) -> Option<&'static str> {
    files.first(&["configure.ac", "configure.in"]).filter(|_| files.has("Makefile.am"))
}

fn with_autotools(gate: &mut Gate, files: &Files, test: &str, configure: &str, why: String) {
    gate.kind = "this autotools project".to_owned();
    // It has autoconf, automake and libtool.
    gate.image = "gcc:14".to_owned();
    let generate = if files.has("configure") { "" } else { "autoreconf -fi && " };
    gate.prepare("configure", format!("{generate}sh ./configure"), configure);
    gate.prepare("build", "make -j 4", configure);
    gate.test(test, None, why);
}

/// Chooses a gate for a project of which Scout B knows no test command: autotools with tests in a subdirectory, Meson, a
/// Makefile beside the tests, or one with a target for them. Returns whether there is one.
pub(super) fn without_facts(gate: &mut Gate, files: &Files) -> bool {
    let tests = |name: &str, word: &str| {
        let text = files.text(name)?;
        text.lines().position(|line| line.contains(word)).map(|line| format!("{name}:{}", line + 1))
    };
    if let Some(configure) = autotools(files) {
        let automake = tests("Makefile.am", "TESTS").or_else(|| tests("Makefile.am", "check"));
        let Some(why) = automake.or_else(|| tests("Makefile.am", "SUBDIRS")) else { return false };
        gate.slow = true;
        servers(gate, files);
        with_autotools(gate, files, "make check", configure, why);
        return true;
    }
    if files.has("meson.build") {
        let below = files.names(".").into_iter().map(|name| format!("{name}/meson.build"));
        let mut paths = ["meson.build".to_owned()].into_iter().chain(below);
        let Some(why) = paths.find_map(|path| tests(&path, "test(")) else { return false };
        gate.slow = true;
        gate.kind = "this Meson project".to_owned();
        // It has a compiler, and pip for the build tools.
        gate.image = "python:3.12".to_owned();
        let command =
            format!("python -m venv {VENV} && . {VENV}/bin/activate && pip install -q meson ninja");
        gate.prepare(
            "install",
            command,
            "meson.build; meson and ninja from pip, as the image has none",
        );
        let option = tests("meson_options.txt", "'tests'").is_some_and(|_| {
            files
                .text_or_empty("meson_options.txt")
                .lines()
                .any(|line| line.contains("'tests'") && line.contains("false"))
        });
        let option = if option { " -Dtests=true" } else { "" };
        gate.prepare(
            "build",
            format!(". {VENV}/bin/activate && meson setup build{option} && meson compile -C build"),
            "meson.build:1",
        );
        gate.test(
            &format!(". {VENV}/bin/activate && meson test -C build --print-errorlogs"),
            None,
            why,
        );
        return true;
    }
    for below in ["tests", "test"] {
        let directory = files.below(below);
        let Some(makefile) = directory.first(&["GNUmakefile", "makefile", "Makefile"]) else {
            continue;
        };
        let compiled =
            directory.names(".").iter().any(|name| name.ends_with(".c") || name.ends_with(".cpp"));
        if compiled {
            gate.kind = "this C project".to_owned();
            gate.image = "gcc:14".to_owned();
            gate.slow = true;
            gate.writes_beside = true;
            gate.test(&format!("make -C {below}"), None, format!("{below}/{makefile}:1"));
            return true;
        }
    }
    let Some(makefile) = files.first(&["GNUmakefile", "makefile", "Makefile"]) else {
        return false;
    };
    for target in ["test", "check"] {
        let begins = |line: &str| {
            line.strip_prefix(target).is_some_and(|rest| rest.trim_start().starts_with(':'))
        };
        let Some(line) = files.text_or_empty(makefile).lines().position(begins) else { continue };
        let why = format!("{makefile}:{}", line + 1);
        gate.kind = "this make project".to_owned();
        // It has make, a shell and the usual tools.
        gate.image = "gcc:14".to_owned();
        gate.test(&format!("make {target}"), None, why);
        return true;
    }
    false
}
