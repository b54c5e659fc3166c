//! Which of a task's changes could have made the gate easier: a deleted or skipped test, the configuration of
//! tests or CI, a build script, rules of what is ignored, a file that a step's command names or reaches through
//! scripts. Told, never refused: most are honest.

use std::collections::BTreeMap;

use super::reach::{Look, reached};

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
    /// `test_deleted`, `test_skipped`, `test_configuration`, `ci_configuration`, `build_script`, `ignore_rules`,
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
        let known = why(change, steps.commands);
        let reached = reached.contains(change.path) && !is_source_of_tests(change.path);
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

fn why(change: &GateChange<'_>, commands: &[&str]) -> Option<&'static str> {
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
    if commands.iter().any(|command| names(command, path)) {
        return Some("named_by_a_step");
    }
    if !is_test(path) {
        return None;
    }
    if change.sha256_now.is_none() {
        return Some("test_deleted");
    }
    let count = |text: Option<&str>| text.map(skips);
    match (count(change.text_before), count(change.text_now)) {
        (before, Some(now)) if now > before.unwrap_or(0) => Some("test_skipped"),
        _ => None,
    }
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
    const NAMES: [&str; 10] = [
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
    const NAMES: [&str; 31] = [
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
        "webpack.config.js",
        "vite.config.ts",
        "vite.config.js",
        "rust-toolchain.toml",
    ];
    match name {
        // A name that means little elsewhere.
        "config.toml" => path.ends_with(".cargo/config.toml"),
        _ => {
            NAMES.contains(&name)
                || std::path::Path::new(name).extension().is_some_and(|end| end == "mk")
                || (name.starts_with("tsconfig") && name.ends_with(".json"))
                || (name.starts_with("requirements") && name.ends_with(".txt"))
        }
    }
}

/// A test by its name.
pub fn is_test(path: &str) -> bool {
    const DIRECTORIES: [&str; 7] =
        ["test", "tests", "__tests__", "spec", "specs", "e2e", "testdata"];
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let in_tests =
        directory.split('/').any(|part| DIRECTORIES.contains(&part.to_lowercase().as_str()));
    let stem = name.split('.').next().unwrap_or_default();
    in_tests
        || ["test", "tests"].contains(&stem)
        || stem.starts_with("test_")
        || stem.ends_with("_test")
        || stem.ends_with("_spec")
        || stem.ends_with("Test")
        || stem.ends_with("Tests")
        || name.contains(".test.")
        || name.contains(".spec.")
}

/// Whether a command has the path as a word, however it is written.
fn names(command: &str, path: &str) -> bool {
    command
        .split(|c: char| c.is_whitespace() || "\"'`;|&()<>=".contains(c))
        .any(|word| word.strip_prefix("./").unwrap_or(word) == path)
}

/// How often a text takes tests out of a run, or narrows it to some.
fn skips(text: &str) -> usize {
    const MARKS: [&str; 20] = [
        "pytest.mark.skip",
        "pytest.mark.xfail",
        "pytest.skip(",
        "unittest.skip",
        "self.skipTest(",
        "it.skip(",
        "test.skip(",
        "describe.skip(",
        "it.only(",
        "test.only(",
        "describe.only(",
        "xit(",
        "xtest(",
        "xdescribe(",
        "#[ignore",
        "t.Skip(",
        "t.SkipNow(",
        "@Disabled",
        "@Ignore",
        "skip: true",
    ];
    // `exit(` is not `xit(`.
    let whole = |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    MARKS.iter().map(|mark| text.match_indices(mark).filter(|(at, _)| whole(*at)).count()).sum()
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
            let text = "sh lib/check.sh tests/deep.sh tests/named.py";
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
        for path in
            ["src/lib.rs", "docs/config.toml", "tests/a.py", "scripts/other.sh", "tests/named.py"]
        {
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
        }
        assert_eq!(why_of(change("src/gone.rs", None)), None);
        assert_eq!(why_of(change("Makefile", Some("a"))), None, "changed back");
    }
}
