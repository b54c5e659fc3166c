//! Repositories as their manifests show them, and what is detected.

use super::*;
use scouting::rehearsal::Files;

fn detected(files: &[(&str, &str)]) -> Detected {
    within(files, None)
}

fn within(files: &[(&str, &str)], package: Option<&str>) -> Detected {
    let files = Files::of(files);
    let inventory = Inventory::of(&files).unwrap();
    detect(&Manifests::read(&files, &inventory, package))
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

// SCOUT-B-2
#[test]
fn npm_yarn_and_pnpm_are_told_apart_by_lock_file_or_field() {
    let package = r#"{"scripts":{"test":"jest","build":"tsc","test:unit":"jest unit"},"engines":{"node":">=20"}}"#;
    let npm = detected(&[("package.json", package), ("package-lock.json", "{}")]);
    assert_eq!((npm.system, npm.framework), (System::Npm, Framework::Jest));
    assert_eq!(npm.install, some("npm ci"));
    assert_eq!(
        (npm.build, npm.test, npm.unit),
        (some("npm run build"), some("npm test"), some("npm run test:unit"))
    );
    assert_eq!(npm.coverage, some("npx jest --coverage"));
    assert_eq!(npm.prerequisites, ["node >=20"]);

    let yarn = detected(&[("package.json", package), ("yarn.lock", "")]);
    assert_eq!((yarn.system, yarn.install), (System::Yarn, some("yarn install --frozen-lockfile")));
    let pnpm = detected(&[("package.json", r#"{"packageManager":"pnpm@9.1.0"}"#)]);
    assert_eq!((pnpm.system, pnpm.install), (System::Pnpm, some("pnpm install")));
}

#[test]
fn the_script_that_npm_init_writes_is_no_test_and_a_dependency_may_stand_in() {
    let nothing = r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#;
    let nothing = detected(&[("package.json", nothing)]);
    assert_eq!((nothing.framework, nothing.test), (Framework::Custom, None));
    let mocha = detected(&[("package.json", r#"{"devDependencies":{"mocha":"10"}}"#)]);
    assert_eq!((mocha.framework, mocha.test), (Framework::Mocha, some("npx mocha")));
    let vitest = detected(&[(
        "package.json",
        r#"{"scripts":{"test":"vitest run"},"devDependencies":{"jest":"29"}}"#,
    )]);
    assert_eq!(
        (vitest.framework, vitest.notes),
        (Framework::Custom, vec!["the test script is `vitest run`".to_owned()])
    );
    let broken = detected(&[("package.json", "{")]);
    assert_eq!(broken.system, System::Npm);
    assert!(broken.notes[0].starts_with("package.json is no JSON"));
}

#[test]
fn cargo_knows_workspaces_versions_and_kinds_of_tests() {
    let plain = detected(&[
        ("Cargo.toml", "[package]\nname = \"x\"\nrust-version = \"1.80\"\n"),
        ("src/lib.rs", ""),
    ]);
    assert_eq!((plain.system, plain.framework), (System::Cargo, Framework::CargoTest));
    assert_eq!(
        (plain.test, plain.unit, plain.integration),
        (some("cargo test"), some("cargo test --lib"), None)
    );
    assert_eq!(plain.prerequisites, ["rust >= 1.80"]);
    let workspace = detected(&[
        ("Cargo.toml", "[workspace]\nmembers = []\n"),
        ("tests/a.rs", ""),
        ("rust-toolchain.toml", "[toolchain]\nchannel = \"nightly\"\n"),
    ]);
    assert_eq!(workspace.build, some("cargo build --workspace"));
    assert_eq!(workspace.integration, some("cargo test --workspace --test '*'"));
    assert_eq!(workspace.prerequisites, ["rust nightly"]);
}

#[test]
fn go_is_its_own_build_system_and_framework() {
    let go = detected(&[("go.mod", "module x\n\ngo 1.22\n"), ("x_test.go", "")]);
    assert_eq!(
        (go.system, go.framework, go.test),
        (System::Go, Framework::GoTest, some("go test ./..."))
    );
    assert_eq!(go.prerequisites, ["go >= 1.22"]);
}

#[test]
fn python_sums_up_what_several_manifests_say() {
    let project = "[project]\nrequires-python = \">=3.11\"\n[build-system]\nrequires = []\n\
                   [tool.pytest.ini_options]\naddopts = \"-q\"\n";
    let python = detected(&[("pyproject.toml", project), ("tests/unit/test_a.py", "")]);
    assert_eq!((python.system, python.framework), (System::Custom, Framework::Pytest));
    assert_eq!((python.install, python.build), (some("pip install -e ."), some("python -m build")));
    assert_eq!((python.test, python.unit), (some("pytest"), some("pytest tests/unit")));
    assert_eq!(python.prerequisites, ["python >=3.11"]);

    let plain = detected(&[("requirements.txt", "flask\n"), ("test_app.py", "")]);
    assert_eq!(
        (plain.framework, plain.test),
        (Framework::Custom, some("python -m unittest discover"))
    );
    assert_eq!(plain.build, None);
    let poetry = detected(&[(
        "pyproject.toml",
        "[tool.poetry]\nname = 'x'\n[tool.poetry.group.dev.dependencies]\npytest-cov = '*'\n",
    )]);
    assert_eq!((poetry.install, poetry.test), (some("poetry install"), some("poetry run pytest")));
    assert_eq!(poetry.coverage, some("poetry run pytest --cov"));
    let uv = detected(&[("pyproject.toml", "[project]\n"), ("uv.lock", ""), ("conftest.py", "")]);
    assert_eq!((uv.install, uv.test), (some("uv sync"), some("uv run pytest")));
}

#[test]
fn maven_and_gradle_prefer_the_wrapper() {
    let pom =
        "<project><java.version>21</java.version><artifactId>junit-jupiter</artifactId></project>";
    let maven = detected(&[("pom.xml", pom), ("mvnw", "")]);
    assert_eq!((maven.system, maven.framework), (System::Maven, Framework::Junit));
    assert_eq!(
        (maven.test, maven.prerequisites),
        (some("./mvnw -B test"), vec!["java >= 21".to_owned()])
    );
    let gradle = detected(&[("build.gradle.kts", "tasks.test { useJUnitPlatform() }")]);
    assert_eq!((gradle.system, gradle.framework), (System::Gradle, Framework::Junit));
    assert_eq!(gradle.test, some("gradle test"));
}

#[test]
fn a_makefile_speaks_alone_or_is_noted_beside_another_system() {
    let text =
        "CC := gcc\n.PHONY: test\nbuild: main.c\n\tgcc a:b\ntest check: build\nclean:\n%.o: %.c\n";
    let make = detected(&[("Makefile", text)]);
    assert_eq!((make.system, make.framework), (System::Make, Framework::Custom));
    assert_eq!(
        (make.build, make.test, make.clean),
        (some("make build"), some("make test"), some("make clean"))
    );
    let both = detected(&[("Makefile", text), ("go.mod", "module x\n")]);
    assert_eq!(both.system, System::Go);
    assert_eq!(both.notes, ["there is a Makefile too, with `build`, `test`, `check`, `clean`"]);
}

// SCOUT-B-3
#[test]
fn the_package_speaks_before_the_root_and_the_root_before_what_lies_deeper() {
    let files = [("package.json", "{}"), ("core/Cargo.toml", "[package]\n"), ("docs/a.md", "")];
    assert_eq!(within(&files, None).system, System::Npm);
    let core = within(&files, Some("core"));
    assert_eq!((core.system, core.source), (System::Cargo, some("core/Cargo.toml")));
    assert_eq!(core.notes, ["commands are for the directory core"]);
    assert_eq!(within(&files, Some("docs")).system, System::Npm);
    let deep = [("a/b/go.mod", ""), ("x/Cargo.toml", "")];
    assert_eq!(within(&deep, None).source, some("x/Cargo.toml"));
}

// SCOUT-B-4
#[test]
fn without_a_manifest_the_users_pipeline_says_how_to_test() {
    let flow = "verification:\n  container_image: busybox\n  steps:\n\
                \x20   - {name: lint, command: \"sh -n run.sh, ok\"}\n\
                \x20   - {name: test, command: sh test.sh}\n  network: off\n";
    let pipeline = detected(&[("agent.yaml", flow), ("run.sh", "")]);
    assert_eq!((pipeline.system, pipeline.framework), (System::Custom, Framework::Custom));
    assert_eq!(pipeline.test, some("sh test.sh"));
    assert_eq!(
        pipeline.notes,
        ["verification runs lint: `sh -n run.sh, ok`, then test: `sh test.sh`"]
    );
    assert!(pipeline.is_nothing());
    let block = "verification:\n  steps:\n  - command: pytest -q # fast\n    name: all\n  - name: more\n    command: |\n      x\n";
    let pipeline = detected(&[("agent.yaml", block)]);
    assert_eq!((pipeline.framework, pipeline.test), (Framework::Pytest, some("pytest -q")));
    assert_eq!(pipeline.notes, ["verification runs all: `pytest -q`"]);
}

#[test]
fn nothing_is_detected_where_nothing_is() {
    assert_eq!(detected(&[("a.txt", "")]), Detected::default());
}
