//! Finds the changes of a task that could make its verification easier: tests that demand less than at the start, the
//! configuration of tests and CI, build scripts, ignore rules, and files that a step's command names or reaches through
//! scripts. The user gets a list of them; none is refused, because most are honest.

mod reach;
mod weakened;

use std::collections::{BTreeMap, BTreeSet};

use self::reach::reached;
pub use self::reach::{Look, MAX_SCRIPT};
pub use self::weakened::{TestReader, Weakening, Why};
pub use act_reports::source::is_test;
use act_workspace::{Kind, MAX_ENTRIES, Pattern, RepoView, Selection, list, search};

/// A file that a task changed.
#[derive(Debug, Clone, Copy)]
pub struct FileChange<'a> {
    pub path: &'a str,
    pub sha256_before: Option<&'a str>,
    /// `None` when the task deleted the file.
    pub sha256_now: Option<&'a str>,
    /// The texts where they are known. Without them, the tests inside cannot be compared.
    pub text_before: Option<&'a str>,
    pub text_now: Option<&'a str>,
}

/// A changed file that the verification depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateInput {
    pub path: String,
    /// `test_configuration`, `ci_configuration`, `build_script`, `ignore_rules`, `named_by_a_step`, `reached_by_a_step`, or a
    /// word of [`Why`].
    pub why: &'static str,
}

/// The steps of the pipeline.
pub struct Steps<'a> {
    pub commands: &'a [&'a str],
    /// The directory in which they run, if it is not the root.
    pub package: Option<&'a str>,
    /// Reads the files that commands name.
    pub look: Look<'a>,
}

/// Returns the changes that the verification depends on, in the order of `changes`, each file once for each reason.
/// `weakened`: what [`TestReader::weakened`] found in the changes.
pub fn gate_inputs_changed(
    changes: &[FileChange<'_>],
    steps: &Steps<'_>,
    weakened: &[Weakening],
) -> Vec<GateInput> {
    let differs = |change: &&FileChange<'_>| change.sha256_before != change.sha256_now;
    let changed: BTreeMap<_, _> = changes
        .iter()
        .filter(differs)
        .map(|change| {
            let texts = [change.text_before, change.text_now];
            (change.path, texts.into_iter().flatten().collect())
        })
        .collect();
    let reached = reached(steps.commands, steps.package, &changed, steps.look);
    let inputs = |change: &FileChange<'_>| {
        let known = why(change, steps);
        let reached = reached.contains(change.path)
            && !is_source_of_tests(change.path)
            && !is_compiled(change.path);
        let of_tests: BTreeSet<Why> =
            weakened.iter().filter(|one| one.path == change.path).map(|one| one.why).collect();
        let of_file = known.or((reached && of_tests.is_empty()).then_some("reached_by_a_step"));
        let path = change.path.to_owned();
        let all = of_file.into_iter().chain(of_tests.into_iter().map(Why::word));
        all.map(|why| GateInput { path: path.clone(), why }).collect::<Vec<_>>()
    };
    changes.iter().filter(differs).flat_map(inputs).collect()
}

/// Returns whether the file is a test, but no shell script. Changed tests are normal.
fn is_source_of_tests(path: &str) -> bool {
    let script = path.rsplit('/').next().unwrap_or_default().rsplit_once('.');
    is_test(path) && script.is_some_and(|(_, ending)| !["sh", "bash", "bats"].contains(&ending))
}

/// Returns whether the file is compiled: a build script that lists sources names what is tested, not how.
fn is_compiled(path: &str) -> bool {
    const ENDS: [&str; 14] =
        ["c", "h", "cc", "cpp", "cxx", "hh", "hpp", "rs", "go", "java", "kt", "swift", "cs", "md"];
    let ending = std::path::Path::new(path).extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ENDS.contains(&ending.to_lowercase().as_str()))
}

fn why(change: &FileChange<'_>, steps: &Steps<'_>) -> Option<&'static str> {
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
    // A file that git ignores is not in the tree that is verified.
    if name == ".gitignore" {
        return Some("ignore_rules");
    }
    let named = steps.commands.iter().any(|command| names(command, steps.package, path));
    named.then_some("named_by_a_step")
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
    // Files that list exact versions of dependencies, beside those that end with `.lock`.
    const LOCKS: [&str; 7] = [
        "bun.lockb",
        "go.work.sum",
        "gradle.lockfile",
        "npm-shrinkwrap.json",
        "package.resolved",
        "packages.lock.json",
        ".terraform.lock.hcl",
    ];
    const NAMES: [&str; 46] = [
        ".npmrc",
        "bunfig.toml",
        "deno.json",
        "deno.jsonc",
        "pnpm-workspace.yaml",
        "gradle.properties",
        "constraints.txt",
        "package-lock.json",
        "pnpm-lock.yaml",
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
        "gemfile",
        "pipfile",
        "composer.json",
        "mix.exs",
        "environment.yml",
    ];
    match name {
        // Files of this name elsewhere have nothing to do with Cargo.
        "config.toml" => path.ends_with(".cargo/config.toml"),
        _ => {
            let ending = std::path::Path::new(name).extension();
            NAMES.contains(&name)
                || LOCKS.contains(&name)
                || STARTS.iter().any(|start| name.starts_with(start))
                || path.split('/').any(|part| part == ".mvn")
                || ending.is_some_and(|end| ["mk", "pth", "lock"].iter().any(|one| end == *one))
                || (name.starts_with("tsconfig") && name.ends_with(".json"))
                || (name.starts_with("requirements") && name.ends_with(".txt"))
        }
    }
}

/// Returns whether a command that runs in `package` contains the path as a word.
fn names(command: &str, package: Option<&str>, path: &str) -> bool {
    let inside = |package| path.strip_prefix(package).and_then(|rest| rest.strip_prefix('/'));
    let path = package.map_or(Some(path), inside);
    command
        .split(|c: char| c.is_whitespace() || "\"'`;|&()<>=".contains(c))
        .any(|word| Some(word.strip_prefix("./").unwrap_or(word)) == path)
}

/// Pages of a listing that are searched. A larger tree counts as having tests.
const PAGES: usize = 20;
/// Attributes that make a Rust function a test.
const INSIDE: &str = r"#\[(\w+::)*test\b";

/// Returns whether the repository, or its directory `package`, has any tests. A repository that cannot be read counts as
/// having some, so that the model is not asked for new ones.
pub fn has_tests(view: &RepoView, package: Option<&str>) -> bool {
    let under: Vec<_> = package.into_iter().map(str::to_owned).collect();
    let all = Selection { under: under.clone(), globs: vec![], kinds: vec![Kind::File] };
    let (mut cursor, mut rust) = (None, false);
    for _ in 0..PAGES {
        let Ok(page) = list(view, &all, cursor.as_deref(), MAX_ENTRIES) else { return true };
        if page.items.iter().any(|entry| is_test(&entry.path)) {
            return true;
        }
        rust |= page.items.iter().any(|entry| is_rust(&entry.path));
        cursor = page.next;
        if cursor.is_none() {
            return rust && has_tests_inside(view, under);
        }
    }
    true
}

fn has_tests_inside(view: &RepoView, under: Vec<String>) -> bool {
    let pattern = Pattern { regex: INSIDE.into(), ..Pattern::default() };
    let files = Selection { under, globs: vec!["*.rs".into()], kinds: vec![] };
    let mut cursor = None;
    for _ in 0..PAGES {
        match search(view, &pattern, &files, cursor.as_deref()) {
            Ok(hits) if hits.items.is_empty() => cursor = hits.next,
            _ => return true,
        }
        if cursor.is_none() {
            return false;
        }
    }
    true
}

fn is_rust(path: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|end| end == "rs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_workspace::Profile;

    fn change<'a>(path: &'a str, now: Option<&'a str>) -> FileChange<'a> {
        FileChange {
            path,
            sha256_before: Some("a"),
            sha256_now: now,
            text_before: None,
            text_now: None,
        }
    }

    fn why_of(change: FileChange<'_>) -> Option<&'static str> {
        let commands = ["sh scripts/check.sh && ./run \"a\""];
        let look = |path: &str| {
            let text = "sh lib/check.sh tests/deep.sh tests/named.py src/listed.c";
            (path == "scripts/check.sh").then(|| (path.to_owned(), text.to_owned()))
        };
        let steps = Steps { commands: &commands, package: None, look: &look };
        gate_inputs_changed(&[change], &steps, &[]).first().map(|input| input.why)
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
            ("Cargo.lock", "build_script"),
            ("web/package-lock.json", "build_script"),
            ("Gemfile.lock", "build_script"),
            ("bun.lockb", "build_script"),
            ("go.sum", "build_script"),
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
    fn a_file_is_listed_once_for_each_reason() {
        let steps = ["sh run.sh"];
        let packaged = Steps { commands: &steps, package: Some("pk"), look: &|_| None };
        let named = gate_inputs_changed(&[change("pk/run.sh", Some("b"))], &packaged, &[]);
        assert_eq!(named[0].why, "named_by_a_step");
        assert_eq!(why_of(change("src/gone.rs", None)), None);
        assert_eq!(why_of(change("Makefile", Some("a"))), None, "changed back");
        let weakening = |why| Weakening {
            path: "pk/conftest.py".into(),
            line: None,
            test: String::new(),
            why,
            detail: String::new(),
        };
        let weakened = [Why::TestSkipped, Why::AssertionRemoved, Why::TestSkipped].map(weakening);
        let all = gate_inputs_changed(&[change("pk/conftest.py", Some("b"))], &packaged, &weakened);
        let words: Vec<_> = all.iter().map(|input| input.why).collect();
        assert_eq!(words, ["test_configuration", "test_skipped", "assertion_removed"]);
    }

    fn repository(files: &[(&str, &str)]) -> (tempfile::TempDir, RepoView) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let view = RepoView::open(root.path(), Profile::Tool).unwrap();
        (root, view)
    }

    /// EDITOR-16
    #[test]
    fn tests_are_found_by_name_and_inside_of_rust() {
        let found = |files: &[(&str, &str)], package| has_tests(&repository(files).1, package);
        assert!(!found(&[("leap.py", "x"), ("docs/latest.md", "x")], None));
        assert!(found(&[("leap.py", "x"), ("tests/leap.py", "x")], None));
        assert!(found(&[("test.sh", "x")], None));
        assert!(found(&[("src/lib.rs", "    #[tokio::test]\n")], None));
        assert!(!found(&[("src/lib.rs", "#[derive(Debug)]\n"), ("a.py", "#[test]\n")], None));
        let two = [("a/x.go", "x"), ("b/x_test.go", "x")];
        assert!(found(&two, None) && found(&two, Some("b")) && !found(&two, Some("a")));
    }
}
