//! Which evidence counts for a command: the pipeline, jobs of CI, scripts, and what is never suggested. The sources are small
//! versions of what well-known projects write.

use super::*;
use serde_json::{Value, json};

fn facts_of(files: &[(&str, &str)]) -> Value {
    let host = FakeHost::new(Files::of(files));
    let question = Question { facts_only: true, ..Question::default() };
    asked(&host, &question)
}

/// Returns a command of the first project with its source: `command @ path:line`.
#[track_caller]
fn command(facts: &Value, kind: &str) -> String {
    let command = &facts["projects"][0]["commands"][kind];
    match command["command"].as_str() {
        None => "none".to_owned(),
        Some(text) => {
            let source = &command["source"];
            format!("{text} @ {}:{}", source["path"].as_str().unwrap(), source["line"])
        }
    }
}

fn messages(facts: &Value) -> Vec<String> {
    let conflicts = facts["conflicts"].as_array().unwrap();
    conflicts.iter().map(|one| one["message"].as_str().unwrap().to_owned()).collect()
}

const NODE: &str = r#"{"scripts": {"test": "node --test"}}"#;

// SCOUT-B-4, SCOUT-B-20
#[test]
fn steps_of_the_pipeline_are_facts_and_come_before_the_manifest_also_over_several_lines() {
    let gate = "verification:\n  container_image: node:22\n  steps:\n    - name: unit\n      command: |\n        set -e\n        files=$(find test -name '*-test.js')\n        node --test $files\n    - {name: lint, command: npx eslint .}\n";
    let facts =
        facts_of(&[("package.json", NODE), ("test/a-test.js", "1\n"), ("agent.yaml", gate)]);
    let whole = "set -e\nfiles=$(find test -name '*-test.js')\nnode --test $files";
    assert_eq!(command(&facts, "test"), format!("{whole} @ agent.yaml:6"));
    assert_eq!(
        facts["pipeline"],
        json!({"by_init": false, "steps": [
            {"name": "unit", "command": whole, "source": {"path": "agent.yaml", "line": 6}},
            {"name": "lint", "command": "npx eslint .", "source": {"path": "agent.yaml", "line": 9}}]})
    );
    assert_eq!(facts["suggested_image"], "node:22");
}

// SCOUT-B-29
#[test]
fn a_command_of_several_lines_is_named_by_its_step_in_a_report() {
    let report_of = |command: &str| {
        let gate = format!("verification:\n  steps:\n    - name: unit\n      command: {command}\n");
        let host = FakeHost::new(Files::of(&[("package.json", NODE), ("agent.yaml", &gate)]));
        asked(&host, &Question { facts_only: true, ..question(&[("form", "report")]) })
    };
    let several = report_of("|\n        set -e\n        node --test");
    assert_eq!(several["test"]["commands"]["all"], "");
    assert_eq!(several["test"]["notes"], "the step `unit` (agent.yaml:5) runs the tests");
    let one = report_of("node --test");
    assert_eq!(one["test"]["commands"]["all"], "node --test");
    assert_eq!(one["test"]["notes"], "");
}

// SCOUT-B-4
#[test]
fn a_step_of_the_pipeline_that_nothing_else_names_is_the_test() {
    for step in [
        "{name: unittest, command: 'cp -R tests $TMPDIR/t && (cd $TMPDIR/t && ./unittest.sh)'}",
        "{name: verify, command: ./everything.sh}",
    ] {
        let gate = format!("verification:\n  steps:\n    - {step}\n");
        let facts = facts_of(&[("ini.c", "int a;\n"), ("agent.yaml", &gate)]);
        assert!(command(&facts, "test").ends_with("@ agent.yaml:3"), "{facts}");
    }
    let gate = "verification:\n  steps:\n    - {name: style, command: npx eslint .}\n";
    let facts = facts_of(&[("package.json", NODE), ("agent.yaml", gate)]);
    assert_eq!(command(&facts, "test"), "npm test @ package.json:1");
}

// SCOUT-B-21
#[test]
fn a_pipeline_that_act_init_wrote_is_no_evidence() {
    let steps = "verification:\n  container_image: node:8\n  steps:\n    - {name: test, command: npx mocha}\n";
    let by_init = format!("# written by act init\n{steps}");
    let facts = facts_of(&[("package.json", NODE), ("agent.yaml", &by_init)]);
    assert_eq!(command(&facts, "test"), "npm test @ package.json:1");
    assert_eq!(facts["suggested_image"], "node:22");
    assert_eq!(facts["pipeline"]["by_init"], true);
    let bare = facts_of(&[("a.txt", "1\n"), ("agent.yaml", &by_init)]);
    assert_eq!(bare["projects"], json!([]), "it makes no project either");
    let by_user = facts_of(&[("package.json", NODE), ("agent.yaml", steps)]);
    assert_eq!(command(&by_user, "test"), "npx mocha @ agent.yaml:4");
}

// SCOUT-B-4, SCOUT-B-22
#[test]
fn what_publishes_deploys_or_deletes_is_never_suggested() {
    let workflow = "on: push\njobs:\n  publish:\n    steps:\n      - run: ./gradlew clean publish --stacktrace\n";
    let facts =
        facts_of(&[("build.gradle", "plugins {}\n"), (".github/workflows/ci.yml", workflow)]);
    assert_eq!(command(&facts, "clean"), "gradle clean @ build.gradle:1");
    let package = r#"{"scripts": {
"build": "npm run bundle && npm run ship",
"ship": "npm publish",
"test": "mocha && git push",
"test:unit": "mocha",
"clean": "rm -rf dist"}, "devDependencies": {"mocha": "1"}}"#;
    let facts = facts_of(&[("package.json", package)]);
    assert_eq!(command(&facts, "build"), "none");
    assert!(command(&facts, "test").starts_with("npx mocha"), "{facts}");
    assert_eq!(command(&facts, "clean"), "npm run clean @ package.json:6");
    let makefile = "all: upload\nupload:\n\ttwine upload dist/*\ntest:\n\tpytest\n\tkubectl delete pod x\ncheck:\n\tpytest\n";
    let facts = facts_of(&[("Makefile", makefile), ("test_a.py", "import pytest\n")]);
    assert_eq!(command(&facts, "test"), "make check @ Makefile:7");
    assert!(!command(&facts, "build").contains("make all"), "{facts}");
    let script = "#!/bin/sh\nnpm test\nvercel --prod\n";
    let workflow = "jobs:\n  test:\n    steps:\n      - run: ./test.sh\n";
    let files = [("test.sh", script), (".gitlab-ci.yml", workflow), ("go.mod", "module x\n")];
    assert_eq!(command(&facts_of(&files), "test"), "go test ./... @ go.mod:1");
}

// SCOUT-B-23
#[test]
fn the_job_that_runs_the_tests_of_a_change_wins() {
    let workflow = "name: build
on: [push, pull_request]
jobs:
  checks:
    steps:
      - run: ./gradlew check -x jvmTest -x test
  android:
    steps:
      - run: ./gradlew test -PandroidBuild=true
  testwindows:
    runs-on: windows-latest
    steps:
      - run: ./gradlew test --no-daemon
  old:
    steps:
      - run: ./gradlew test -Pplatform=jdk8
  jvm:
    steps:
      - run: ./gradlew test allTests
";
    let files = [("build.gradle", "plugins {}\n"), (".github/workflows/build.yml", workflow)];
    let source = ".github/workflows/build.yml:19";
    assert_eq!(command(&facts_of(&files), "test"), format!("./gradlew test allTests @ {source}"));

    let aside =
        "on: {push: {tags: ['v*']}}\njobs:\n  pack:\n    steps:\n      - run: pytest --fast\n";
    let bench = "on: push\njobs:\n  benchmarks:\n    steps:\n      - run: pytest benchmarks\n";
    let tests = "on: pull_request\njobs:\n  tests:\n    steps:\n      - run: pytest -q\n";
    let files = [
        ("setup.py", "setup()\n"),
        (".github/workflows/a.yml", aside),
        (".github/workflows/b.yml", bench),
        (".github/workflows/tests.yml", tests),
        ("tests/test_a.py", "import pytest\n"),
    ];
    assert_eq!(command(&facts_of(&files), "test"), "pytest -q @ .github/workflows/tests.yml:5");
    // Without a job for tests the custom of the project is better than a job for something else.
    let only_bench = facts_of(&[files[0], files[2], files[4]]);
    assert!(command(&only_bench, "test").starts_with("pytest @ "), "{only_bench}");
}

// SCOUT-B-4
#[test]
fn a_profile_a_subset_and_skipped_tests_are_no_tests_and_a_default_of_an_expression_is_used() {
    let workflow = "jobs:
  build-subset:
    steps:
      - run: mvn clean test --projects core --activate-profiles subset
      - run: mvn clean install -DskipTests
  build:
    steps:
      - run: mvn verify ${{ matrix.extra || '' }}
      - run: mvn verify ${{ matrix.more }}
";
    let files = [
        ("pom.xml", "<project></project>\n"),
        (".github/workflows/build.yml", workflow),
        ("src/test/java/ATest.java", "class ATest {}\n"),
    ];
    assert_eq!(command(&facts_of(&files), "test"), "mvn verify @ .github/workflows/build.yml:8");
    let without = facts_of(&[files[0], files[2]]);
    assert_eq!(command(&without, "test"), "mvn -B test @ pom.xml:1");
}

// SCOUT-B-24
#[test]
fn a_command_with_a_variable_of_ci_is_unusable_and_the_facts_say_so() {
    let workflow = "jobs:\n  test:\n    steps:\n      - run: $GITHUB_WORKSPACE/test.sh\n      - run: make check FLAGS=$FLAGS\n";
    let facts = facts_of(&[
        ("Makefile", "check:\n\t./test.sh\n"),
        ("test.sh", "./unit\n"),
        (".github/workflows/ci.yml", workflow),
    ]);
    assert_eq!(command(&facts, "test"), "make check @ Makefile:1");
    let said = messages(&facts);
    let expected = ".github/workflows/ci.yml:4 says `$GITHUB_WORKSPACE/test.sh`, but GITHUB_WORKSPACE is set by CI alone and not in a container";
    assert_eq!(said, [expected]);
}

// SCOUT-B-11
#[test]
fn versions_of_a_matrix_and_of_several_jobs_are_no_conflict() {
    let matrix = "jobs:
  test:
    strategy: {matrix: {node-version: [16, 18, 22]}}
    steps:
      - uses: actions/setup-node@v4
        with: {node-version: '${{ matrix.node-version }}'}
  docs:
    steps:
      - uses: actions/setup-node@v4
        with: {node-version: 24}
";
    let package = r#"{"engines": {"node": ">= 18"}, "scripts": {"test": "node --test"}}"#;
    let of = |package: &str| {
        messages(&facts_of(&[("package.json", package), (".github/workflows/ci.yml", matrix)]))
    };
    assert_eq!(of(package), [""; 0]);
    assert_eq!(of(&package.replace(">= 18", ">= 30")).len(), 1, "no version of CI is allowed");
}

// SCOUT-B-4, SCOUT-B-25
#[test]
fn where_the_whole_test_needs_a_browser_the_narrower_script_is_named_with_a_remark() {
    let package = r#"{"scripts": {
"test": "npm run test:unit && npm run test:e2e",
"test:e2e": "playwright test",
"test:watch": "vitest",
"test:unit": "vitest run"}}"#;
    let facts = facts_of(&[("package.json", package)]);
    assert_eq!(command(&facts, "test"), "npm run test:unit @ package.json:5");
    let remark = facts["projects"][0]["commands"]["test"]["remark"].as_str().unwrap();
    assert!(remark.contains("`npm test` needs a browser"), "{remark}");
    let package = r#"{"scripts": {"test": "karma start"}}"#;
    let facts = facts_of(&[("package.json", package)]);
    assert_eq!(command(&facts, "test"), "npm test @ package.json:1");
    assert_eq!(facts["projects"][0]["commands"]["test"]["remark"], "`npm test` needs a browser");
    let plain = facts_of(&[("package.json", NODE)]);
    assert_eq!(plain["projects"][0]["commands"]["test"].get("remark"), None);
}

// SCOUT-B-28
#[test]
fn a_workspace_without_a_test_of_its_own_tests_its_packages() {
    let member = r#"{"scripts": {"test": "vitest run"}}"#;
    let of = |root: &str, more: (&str, &str)| {
        let files = [("package.json", root), more, ("packages/a/package.json", member)];
        command(&facts_of(&files), "test")
    };
    let npm = "{\n\"workspaces\": [\"packages/*\"]}";
    let lock = ("package-lock.json", "{}");
    assert_eq!(of(npm, lock), "npm run test --workspaces --if-present @ package.json:2");
    let yaml = ("pnpm-workspace.yaml", "packages: ['packages/*']\n");
    let pnpm = r#"{"packageManager": "pnpm@9.0.0"}"#;
    assert_eq!(of(pnpm, yaml), "pnpm -r run test @ pnpm-workspace.yaml:1");
    let own = r#"{"workspaces": ["packages/*"], "scripts": {"test": "turbo run test"}}"#;
    assert_eq!(of(own, lock), "npm test @ package.json:1");
    assert_eq!(of("{}", lock), "none", "packages without a workspace are projects of their own");
    // A framework of the root is there for its packages.
    let shared = r#"{"packageManager": "pnpm@9.0.0", "devDependencies": {"vitest": "4"}}"#;
    assert_eq!(of(shared, yaml), "pnpm -r run test @ pnpm-workspace.yaml:1");
    let bare = facts_of(&[("package.json", shared), yaml, ("packages/a/package.json", "{}")]);
    assert_eq!(command(&bare, "test"), "pnpm exec vitest run @ package.json:1");
}

// SCOUT-B-4
#[test]
fn a_script_that_does_not_exist_is_not_offered() {
    let workflow = "jobs:\n  test:\n    steps:\n      - run: yarn test:integration\n      - run: bin/test\n      - run: pnpm run --filter @x/y test:all\n";
    let facts = facts_of(&[
        ("package.json", r#"{"name": "x"}"#),
        ("yarn.lock", "# yarn lockfile v1\n"),
        (".github/workflows/ci.yml", workflow),
    ]);
    assert_eq!(command(&facts, "integration"), "none");
    assert_eq!(command(&facts, "test"), "none");
    assert!(!messages(&facts).iter().any(|said| said.contains("@x/y test:all`, but")), "{facts}");
    let shown = ("README.md", "```\n$ make -j8\n```\n");
    let facts = facts_of(&[("go.mod", "module x\n"), shown]);
    assert_eq!(command(&facts, "build"), "go build ./... @ go.mod:1", "there is no Makefile");
}

// SCOUT-B-4
#[test]
fn a_script_that_checks_style_or_reports_coverage_is_no_test() {
    let workflow = "jobs:\n  tests:\n    steps:\n      - run: scripts/check\n      - run: scripts/test\n      - run: scripts/coverage\n";
    let facts = facts_of(&[
        ("pyproject.toml", "[project]\nname = \"x\"\n"),
        (
            "scripts/check",
            "#!/bin/sh -e\nexport PREFIX=\"\"\nset -x\n${PREFIX}ruff check x\n${PREFIX}mypy x\n",
        ),
        (
            "scripts/coverage",
            "#!/bin/sh -e\nexport PREFIX=\"\"\n${PREFIX}coverage report --fail-under=100\n",
        ),
        ("scripts/test", "#!/bin/sh\nset -ex\n${PREFIX}coverage run -m pytest \"$@\"\n"),
        (".github/workflows/test.yml", workflow),
    ]);
    assert_eq!(command(&facts, "test"), "scripts/test @ .github/workflows/test.yml:5");
    assert_eq!(command(&facts, "coverage"), "none");
}

// SCOUT-B-26
#[test]
fn a_makefile_that_is_made_is_not_missing() {
    let workflow = "jobs:\n  linux:\n    steps:\n      - run: |\n          autoreconf -i\n          ./configure\n          make check VERBOSE=yes\n";
    let facts = facts_of(&[
        ("configure.ac", "AC_INIT([x],[1])\nLT_INIT\n"),
        ("Makefile.am", "bin_PROGRAMS = x\nTESTS = tests/a.sh\n"),
        ("x.c", "int main(void){}\n"),
        (".github/workflows/ci.yml", workflow),
    ]);
    assert_eq!(facts["projects"][0]["system"], "make");
    assert_eq!(command(&facts, "test"), "make check VERBOSE=yes @ .github/workflows/ci.yml:7");
    assert_eq!(command(&facts, "build"), "autoreconf -fi && ./configure && make @ configure.ac:1");
    assert_eq!(messages(&facts), [""; 0]);
    assert_eq!(facts["suggested_image"], "gcc:14");
}

// SCOUT-B-27
#[test]
fn the_group_with_the_test_framework_is_installed_and_tests_run_in_the_environment() {
    let project = |groups: &str| {
        let text = format!("[project]\nname = \"x\"\n{groups}");
        facts_of(&[
            ("pyproject.toml", &text),
            ("uv.lock", "version = 1\n"),
            ("README.md", "```\n$ pytest\n```\n"),
            ("tests/test_a.py", "import pytest\n"),
        ])
    };
    let facts = project("[dependency-groups]\ndev = [\"ruff\"]\ntests = [\"pytest\"]\n");
    assert_eq!(command(&facts, "install"), "uv sync --group tests @ uv.lock:1");
    assert_eq!(command(&facts, "test"), "uv run pytest @ README.md:2");
    let facts = project("[dependency-groups]\ndev = [\"pytest>=8\"]\n");
    assert_eq!(command(&facts, "install"), "uv sync @ uv.lock:1");
    let facts = project("[project.optional-dependencies]\ntest = [\"pytest\"]\n");
    assert_eq!(command(&facts, "install"), "uv sync --extra test @ uv.lock:1");
    let poetry = "[tool.poetry]\nname = \"x\"\n[tool.poetry.group.test]\noptional = true\n[tool.poetry.group.test.dependencies]\npytest = \"8\"\n";
    let facts = facts_of(&[("pyproject.toml", poetry), ("poetry.lock", "# x\n")]);
    assert_eq!(command(&facts, "install"), "poetry install --with test @ poetry.lock:1");
}

// SCOUT-B-4
#[test]
fn ctest_is_preferred_to_a_target_of_any_meaning_and_builds_with_cmake() {
    let makefile = "all: x\nx:\n\tcc x.c\ntest: x\n\t./x\n";
    let facts = facts_of(&[
        ("CMakeLists.txt", "project(x)\nenable_testing()\nadd_test(a a)\n"),
        ("Makefile", makefile),
        (".github/workflows/ci.yml", "jobs:\n  a:\n    steps:\n      - run: cmake --build .\n"),
    ]);
    assert_eq!(command(&facts, "test"), "ctest --test-dir build @ CMakeLists.txt:2");
    let build = "cmake -B build && cmake --build build @ CMakeLists.txt:1";
    assert_eq!(command(&facts, "build"), build);
}

// SCOUT-B-22, SCOUT-B-30
#[test]
fn harm_and_containers_are_found_behind_make_and_in_files() {
    let makefile = "test: unit\n\t$(MAKE) deploy\nunit:\n\t./unit\ndeploy:\n\tkubectl apply -f k8s\n\
                    check:\n\tsh scripts/all.sh\ntests:\n\tdocker compose run --rm web pytest\n";
    let all = "#!/bin/sh\n./unit\ntwine upload dist/*\n";
    let facts = facts_of(&[
        ("Makefile", makefile),
        ("scripts/all.sh", all),
        ("requirements.txt", "pytest\n"),
        ("tests/test_a.py", "import pytest\n"),
    ]);
    assert_eq!(command(&facts, "test"), "pytest @ requirements.txt:1");
    let mut said = messages(&facts);
    said.sort();
    let expected = [
        "Makefile has a target check, but it publishes",
        "Makefile has a target test, but it deploys",
        "Makefile has a target tests, but it needs a container engine",
    ];
    assert_eq!(said, expected);
    let package = r#"{"scripts": {"test": "make up && node --test", "test:unit": "node --test"}}"#;
    let up = ("Makefile", "up:\n\tdocker-compose up -d\n");
    let facts = facts_of(&[("package.json", package), up]);
    assert_eq!(command(&facts, "test"), "npm run test:unit @ package.json:1");
    let remark = &facts["projects"][0]["commands"]["test"]["remark"];
    assert_eq!(remark, "`npm test` cannot be used, because it needs a container engine");
}

// SCOUT-B-25
#[test]
fn a_browser_is_found_behind_runners_of_scripts() {
    let package = r#"{"scripts": {
"test": "run-s test:*",
"test:unit": "vitest run",
"test:e2e": "start-server-and-test start http://localhost:3000 cy:run",
"cy:run": "cypress run",
"start": "vite"}}"#;
    let facts = facts_of(&[("package.json", package)]);
    assert_eq!(command(&facts, "test"), "npm run test:unit @ package.json:3");
    let plain = package.replace("cypress run", "mocha");
    let facts = facts_of(&[("package.json", &plain)]);
    assert_eq!(command(&facts, "test"), "npm test @ package.json:2");
}

// SCOUT-B-4
#[test]
fn where_the_test_waits_for_changes_the_script_that_runs_once_is_named() {
    let package = r#"{"scripts": {
"test": "jest --watch",
"test:ci": "jest --ci"}, "devDependencies": {"jest": "29"}}"#;
    let facts = facts_of(&[("package.json", package)]);
    assert_eq!(command(&facts, "test"), "npm run test:ci @ package.json:3");
    let without = facts_of(&[("package.json", &package.replace("test:ci", "other"))]);
    assert_eq!(command(&without, "test"), "npx jest @ package.json:3");
}

// SCOUT-B-4, SCOUT-B-23
#[test]
fn short_skipped_and_excluded_tests_give_way_to_all_of_them() {
    let of = |manifest: (&str, &str), lines: &[&str]| {
        let steps = lines.iter().map(|line| format!("      - run: {line}\n"));
        let steps = steps.collect::<String>();
        let workflow = format!("on: pull_request\njobs:\n  test:\n    steps:\n{steps}");
        command(&facts_of(&[manifest, (".github/workflows/ci.yml", &workflow)]), "test")
    };
    let go = ("go.mod", "module x\n");
    let all = ["go test -short ./...", "go test -skip TestA ./...", "go test -race ./..."];
    assert_eq!(of(go, &all), "go test -race ./... @ .github/workflows/ci.yml:7");
    assert_eq!(of(go, &all[..1]), "go test -short ./... @ .github/workflows/ci.yml:5");
    let gradle = ("build.gradle", "plugins {}\n");
    for line in ["./gradlew check -xtest", "./gradlew check --exclude-task=test"] {
        assert_eq!(of(gradle, &[line]), "gradle test @ build.gradle:1", "{line}");
    }
    // setuptools has no such command any more.
    let old = ("setup.py", "setup()\n");
    assert_eq!(
        of(old, &["python setup.py test", "pytest -q"]),
        "pytest -q @ .github/workflows/ci.yml:6"
    );
}

// SCOUT-B-21
#[test]
fn a_byte_order_mark_before_the_mark_of_act_init_changes_nothing() {
    let gate = "\u{feff}# written by act init\nverification:\n  container_image: node:8\n  steps:\n    - {name: test, command: npx mocha}\n";
    let facts = facts_of(&[("package.json", NODE), ("agent.yaml", gate)]);
    assert_eq!(command(&facts, "test"), "npm test @ package.json:1");
    assert_eq!(facts["suggested_image"], "node:22");
}
