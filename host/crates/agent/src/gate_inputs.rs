//! Which of a task's changes could have made the gate easier: a deleted or skipped test, the configuration of
//! tests or CI, a build script, rules of what is ignored, a file that a step's command names or reaches through
//! scripts. Told, never refused: most are honest.

mod reach;
mod script_text;
mod test_files;
mod test_marks;

use std::collections::BTreeMap;

use self::reach::reached;
pub use self::reach::{Look, MAX_SCRIPT};
pub use self::test_files::{has_tests, touches_tests};
use self::test_marks::{declared, skips};
pub use act_reports::source::is_test;

/// One file that a task left different from how it found it.
#[derive(Debug, Clone, Copy)]
pub struct GateChange<'a> {
    pub path: &'a str,
    pub sha256_before: Option<&'a str>,
    /// None when it was deleted.
    pub sha256_now: Option<&'a str>,
    /// The texts, as far as they are known; skips are found only with them.
    pub text_before: Option<&'a str>,
    pub text_now: Option<&'a str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateInput {
    pub path: String,
    /// `test_deleted`, `test_skipped`, `tests_removed`, `test_configuration`, `ci_configuration`, `build_script`, `ignore_rules`,
    /// `named_by_a_step` or `reached_by_a_step`.
    pub why: &'static str,
}

/// What is run, and where.
pub struct Steps<'a> {
    pub commands: &'a [&'a str],
    /// Where they work, if not in the root.
    pub package: Option<&'a str>,
    pub look: Look<'a>,
}

/// In the order of the changes.
pub fn gate_inputs_changed(changes: &[GateChange<'_>], steps: &Steps<'_>) -> Vec<GateInput> {
    let differs = |change: &&GateChange<'_>| change.sha256_before != change.sha256_now;
    let changed: BTreeMap<_, _> = changes
        .iter()
        .filter(differs)
        .map(|change| {
            let texts = [change.text_before, change.text_now];
            (change.path, texts.into_iter().flatten().collect())
        })
        .collect();
    let reached = reached(steps.commands, steps.package, &changed, steps.look);
    let input = |change: &GateChange<'_>| {
        let known = why(change, steps);
        let reached = reached.contains(change.path)
            && !is_source_of_tests(change.path)
            && !is_compiled(change.path);
        let why = known.or(reached.then_some("reached_by_a_step"))?;
        Some(GateInput { path: change.path.to_owned(), why })
    };
    changes.iter().filter(differs).filter_map(input).collect()
}

/// A test that is no script of a shell: it may change like any.
fn is_source_of_tests(path: &str) -> bool {
    let script = path.rsplit('/').next().unwrap_or_default().rsplit_once('.');
    is_test(path) && script.is_some_and(|(_, ending)| !["sh", "bash", "bats"].contains(&ending))
}

/// What a build script lists to be built is what is tested.
fn is_compiled(path: &str) -> bool {
    const ENDS: [&str; 14] =
        ["c", "h", "cc", "cpp", "cxx", "hh", "hpp", "rs", "go", "java", "kt", "swift", "cs", "md"];
    let ending = std::path::Path::new(path).extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ENDS.contains(&ending.to_lowercase().as_str()))
}

fn why(change: &GateChange<'_>, steps: &Steps<'_>) -> Option<&'static str> {
    let path = change.path;
    let lower = path.to_lowercase();
    let name = lower.rsplit('/').next().unwrap_or_default();
    if is_ci(&lower, name) {
        return Some("ci_configuration");
    }
    if is_test_configuration(name) {
        return Some("test_configuration");
    }
    if is_build_script(&lower, name) {
        return Some("build_script");
    }
    // What git ignores is in no tree that is tested.
    if name == ".gitignore" {
        return Some("ignore_rules");
    }
    if steps.commands.iter().any(|command| names(command, steps.package, path)) {
        return Some("named_by_a_step");
    }
    let before = change.text_before.unwrap_or_default();
    // In Rust tests stand beside what they test.
    let inside = lower.ends_with(".rs") && declared(before) > 0;
    if !is_test(path) && !inside {
        return None;
    }
    if change.sha256_now.is_none() {
        return Some("test_deleted");
    }
    let now = change.text_now?;
    if skips(now) > skips(before) {
        return Some("test_skipped");
    }
    (declared(now) < declared(before)).then_some("tests_removed")
}

fn is_ci(path: &str, name: &str) -> bool {
    const DIRECTORIES: [&str; 6] = [
        ".github/workflows/",
        ".github/actions/",
        ".circleci/",
        ".buildkite/",
        ".woodpecker/",
        ".ci/",
    ];
    const NAMES: [&str; 10] = [
        "agent.yaml",
        ".gitlab-ci.yml",
        ".travis.yml",
        ".drone.yml",
        ".woodpecker.yml",
        "azure-pipelines.yml",
        "bitbucket-pipelines.yml",
        "jenkinsfile",
        ".pre-commit-config.yaml",
        "appveyor.yml",
    ];
    DIRECTORIES.iter().any(|directory| path.starts_with(directory)) || NAMES.contains(&name)
}

fn is_test_configuration(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "sitecustomize.py",
        "usercustomize.py",
        "pytest.ini",
        "tox.ini",
        "noxfile.py",
        "conftest.py",
        ".coveragerc",
        "nextest.toml",
        "phpunit.xml",
        "codecov.yml",
        ".rspec",
        "testng.xml",
    ];
    const STARTS: [&str; 9] = [
        "jest.config.",
        "jest.setup.",
        "vitest.config.",
        "vitest.workspace.",
        ".mocharc",
        "karma.conf.",
        "playwright.config.",
        "cypress.config.",
        ".nycrc",
    ];
    NAMES.contains(&name) || STARTS.iter().any(|start| name.starts_with(start))
}

fn is_build_script(path: &str, name: &str) -> bool {
    const STARTS: [&str; 4] =
        ["vite.config.", "babel.config.", "webpack.config.", "rollup.config."];
    const NAMES: [&str; 45] = [
        ".npmrc",
        "bunfig.toml",
        "deno.json",
        "deno.jsonc",
        "pnpm-workspace.yaml",
        "gradle.properties",
        "constraints.txt",
        "cargo.lock",
        "package-lock.json",
        "pnpm-lock.yaml",
        "yarn.lock",
        "poetry.lock",
        "uv.lock",
        "go.sum",
        "go.work",
        "build.cmd",
        "gradlew.bat",
        "makefile",
        "gnumakefile",
        "justfile",
        "rakefile",
        "build.rs",
        "cargo.toml",
        "config.toml",
        "build.gradle",
        "build.gradle.kts",
        "settings.gradle",
        "settings.gradle.kts",
        "gradlew",
        "mvnw",
        "pom.xml",
        "package.json",
        "pyproject.toml",
        "setup.py",
        "setup.cfg",
        "go.mod",
        "cmakelists.txt",
        "meson.build",
        "build.bazel",
        "workspace",
        "dockerfile",
        "turbo.json",
        "nx.json",
        "tasks.py",
        "rust-toolchain.toml",
    ];
    match name {
        // A name that means little elsewhere.
        "config.toml" => path.ends_with(".cargo/config.toml"),
        _ => {
            let ending = std::path::Path::new(name).extension();
            NAMES.contains(&name)
                || STARTS.iter().any(|start| name.starts_with(start))
                || path.split('/').any(|part| part == ".mvn")
                || ending.is_some_and(|end| end == "mk" || end == "pth")
                || (name.starts_with("tsconfig") && name.ends_with(".json"))
                || (name.starts_with("requirements") && name.ends_with(".txt"))
        }
    }
}

/// Whether a command that runs in `package` has the path as a word, however it is written.
fn names(command: &str, package: Option<&str>, path: &str) -> bool {
    let inside = |package| path.strip_prefix(package).and_then(|rest| rest.strip_prefix('/'));
    let path = package.map_or(Some(path), inside);
    command
        .split(|c: char| c.is_whitespace() || "\"'`;|&()<>=".contains(c))
        .any(|word| Some(word.strip_prefix("./").unwrap_or(word)) == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change<'a>(path: &'a str, now: Option<&'a str>) -> GateChange<'a> {
        GateChange {
            path,
            sha256_before: Some("a"),
            sha256_now: now,
            text_before: None,
            text_now: None,
        }
    }

    fn why_of(change: GateChange<'_>) -> Option<&'static str> {
        let commands = ["sh scripts/check.sh && ./run \"a\""];
        let look = |path: &str| {
            let text = "sh lib/check.sh tests/deep.sh tests/named.py src/listed.c";
            (path == "scripts/check.sh").then(|| (path.to_owned(), text.to_owned()))
        };
        let steps = Steps { commands: &commands, package: None, look: &look };
        gate_inputs_changed(&[change], &steps).first().map(|input| input.why)
    }

    // VERIFIER-31
    #[test]
    fn what_can_make_the_gate_easier_is_named_with_its_kind() {
        for (path, why) in [
            (".github/workflows/ci.yml", "ci_configuration"),
            ("packages/core/agent.yaml", "ci_configuration"),
            ("pkg/conftest.py", "test_configuration"),
            ("jest.config.mjs", "test_configuration"),
            ("Makefile", "build_script"),
            ("crates/a/Cargo.toml", "build_script"),
            ("web/package.json", "build_script"),
            (".cargo/config.toml", "build_script"),
            (".gitignore", "ignore_rules"),
            ("tests/.gitignore", "ignore_rules"),
            ("scripts/check.sh", "named_by_a_step"),
            ("run", "named_by_a_step"),
            ("lib/check.sh", "reached_by_a_step"),
            ("tests/deep.sh", "reached_by_a_step"),
        ] {
            assert_eq!(why_of(change(path, Some("b"))), Some(why), "{path}");
        }
        for path in [
            "src/lib.rs",
            "docs/config.toml",
            "tests/a.py",
            "scripts/other.sh",
            "tests/named.py",
            "src/listed.c",
        ] {
            assert_eq!(why_of(change(path, Some("b"))), None, "{path}");
        }
    }

    // VERIFIER-31
    #[test]
    fn a_deleted_or_skipped_test_is_named_and_a_changed_or_added_one_is_not() {
        for path in ["tests/a.py", "src/a.test.ts", "a_test.go", "src/FooTest.java", "test_a.py"] {
            assert_eq!(why_of(change(path, None)), Some("test_deleted"), "{path}");
            let texts = |before, now| GateChange {
                text_before: before,
                text_now: now,
                ..change(path, Some("b"))
            };
            let skipped = "@pytest.mark.skip\ndef test(): ...";
            assert_eq!(why_of(texts(Some("def test(): ..."), Some(skipped))), Some("test_skipped"));
            assert_eq!(why_of(texts(None, Some("it.only('x')"))), Some("test_skipped"));
            assert_eq!(why_of(texts(Some(skipped), Some(skipped))), None);
            assert_eq!(why_of(texts(Some(""), Some("process.exit(1)"))), None);
            assert_eq!(why_of(texts(Some(skipped), Some("def test(): ..."))), None);
            assert_eq!(why_of(texts(Some("def test(): ..."), Some(""))), Some("tests_removed"));
        }
        let rust = |before, now| GateChange {
            text_before: Some(before),
            text_now: Some(now),
            ..change("src/lib.rs", Some("b"))
        };
        let test = "fn a() {}\n    #[test]\n    fn b() {}\n";
        let ignored = test.replace("#[test]", "#[test]\n#[ignore]");
        assert_eq!(why_of(rust(test, &ignored)), Some("test_skipped"));
        assert_eq!(why_of(rust(test, "fn a() {}\n")), Some("tests_removed"));
        assert_eq!(why_of(rust("fn a() {}", test)), None);
        let steps = ["sh run.sh"];
        let packaged = Steps { commands: &steps, package: Some("pk"), look: &|_| None };
        let named = gate_inputs_changed(&[change("pk/run.sh", Some("b"))], &packaged);
        assert_eq!(named[0].why, "named_by_a_step");
        assert_eq!(why_of(change("src/gone.rs", None)), None);
        assert_eq!(why_of(change("Makefile", Some("a"))), None, "changed back");
    }
}
