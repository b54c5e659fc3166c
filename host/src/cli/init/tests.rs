//! The gates that are chosen for projects of each ecosystem, and the files that hold them.

use serde_json::{Value, json};

use super::*;
use act_agent::scout::facts_b::Project;

/// Facts about one project in the root.
fn facts(manager: &str, framework: &str, commands: &[(&str, &str)]) -> FactsB {
    let at = json!({"path": "f", "line": 1});
    let mut all = json!({"install": null, "build": null, "clean": null, "test": null,
                         "unit": null, "integration": null, "coverage": null});
    for (kind, command) in commands {
        all[*kind] = json!({"command": command, "source": at});
    }
    let project = json!({
        "root": ".", "system": "custom", "package_manager": manager, "framework": framework,
        "commands": all, "prerequisites": [], "has_tests": true, "source": at});
    let projects = if manager.is_empty() { json!([]) } else { json!([project]) };
    let facts: Value = json!({
        "schema_version": "1", "scout": "b", "projects": projects, "suggested_image": "x:1",
        "conflicts": [], "problems": [], "truncated": false, "failure": null});
    FactsB::parse(&facts.to_string()).unwrap()
}

/// Chooses the gate of a repository with these files.
#[track_caller]
fn choose(facts: &FactsB, files: &[(&str, &str)]) -> Gate {
    let temp = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = temp.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let gate = gate::choose(facts, &Files::open(temp.path()).unwrap());
    // Every gate is a configuration that loads, and has the steps that were chosen.
    let config = load(&yaml::text(&gate, false), gate.package.as_deref());
    assert_eq!(config.pipeline.image, gate.image);
    let loaded = config.pipeline.all_steps().map(|step| (&step.name, &step.command));
    assert!(loaded.eq(gate.steps.iter().map(|step| (&step.name, &step.command))));
    let prepares = gate.steps.iter().filter(|step| step.prepares).count();
    assert_eq!(config.pipeline.prepare.len(), prepares, "{gate:?}");
    // Preparation never stands behind a test.
    assert!(gate.steps.is_sorted_by_key(|step| !step.prepares), "{gate:?}");
    gate
}

#[track_caller]
fn load(yaml: &str, package: Option<&str>) -> act_config::Config {
    let temp = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(temp.path().join(package.unwrap_or_default())).unwrap();
    std::fs::write(temp.path().join("agent.yaml"), yaml).unwrap();
    act_config::load(temp.path()).unwrap_or_else(|error| panic!("{error}\n{yaml}"))
}

fn commands(gate: &Gate) -> Vec<&str> {
    gate.steps.iter().map(|step| step.command.as_str()).collect()
}

fn with(root: &str, manager: &str, test: &str, has_tests: bool) -> Project {
    let mut project = facts(manager, "custom", &[("test", test)]).projects.remove(0);
    project.root = root.to_owned();
    project.has_tests = has_tests;
    if test.is_empty() {
        project.commands.test = None;
    }
    project
}

const IN_VENV: &str = ". /artifacts/home/venv/bin/activate && ";
const NEW_VENV: &str =
    "python -m venv /artifacts/home/venv && . /artifacts/home/venv/bin/activate && ";

fn own_tools(manager: &str) -> String {
    format!(
        "python -m venv /artifacts/home/tools && /artifacts/home/tools/bin/pip install -q {manager} && {NEW_VENV}"
    )
}

#[test]
fn the_schema_is_written_down() {
    act_core::event::schema::document_holds::<Document>();
}

// CLI-22
#[test]
fn pip_installs_the_project_its_requirements_and_pytest() {
    let pytest =
        |install: &str| facts("pip", "pytest", &[("install", install), ("test", "pytest")]);
    let packaged = (
        "pyproject.toml",
        "[project]\nname = \"a\"\n[project.optional-dependencies]\ndev = [\"pytest\"]\n",
    );
    let gate = choose(&pytest("pip install -e '.[dev]'"), &[packaged]);
    assert_eq!(
        commands(&gate),
        [
            format!("{NEW_VENV}pip install -e '.[dev]' && pip install -q pytest"),
            format!("{IN_VENV}pytest")
        ]
    );
    // A list of requirements leaves the project itself out.
    let gate = choose(&pytest("pip install -r requirements-dev.txt"), &[packaged]);
    assert!(
        gate.steps[0]
            .command
            .contains("pip install -q -e '.[dev]' && pip install -r requirements-dev.txt"),
        "{gate:?}"
    );
    // Only a gate of a uv project has uv.
    let gate = choose(&pytest("uv pip install --system -r requirements-dev.txt"), &[packaged]);
    assert!(
        gate.steps[0].command.contains("'.[dev]' && pip install -r requirements-dev.txt"),
        "{gate:?}"
    );
    // Without a package pytest has to find the sources in the directory.
    let gate =
        choose(&pytest("pip install -r requirements-dev.txt"), &[("requirements.txt", "click\n")]);
    assert_eq!(
        commands(&gate),
        [
            format!(
                "{NEW_VENV}pip install -r requirements-dev.txt && pip install -q -r requirements.txt && pip install -q pytest"
            ),
            format!("{IN_VENV}python -m pytest"),
        ]
    );
    let scripts = facts("pip", "unittest", &[("test", "python -m unittest")]);
    assert_eq!(commands(&choose(&scripts, &[])), ["python -m unittest"]);
}

// CLI-22
#[test]
fn a_project_is_installed_editable() {
    let commands = [("install", "python -m pip install --upgrade '.[dev]'"), ("test", "pytest")];
    let gate = choose(&facts("pip", "pytest", &commands), &[("setup.py", "setup()\n")]);
    assert!(
        gate.steps[0].command.contains("python -m pip install --upgrade -e '.[dev]'"),
        "{gate:?}"
    );
}

// CLI-22
#[test]
fn pip_installs_groups_plugins_and_what_tox_would_install() {
    let facts = facts("pip", "pytest", &[("install", "pip install -e ."), ("test", "tox")]);
    let grouped =
        "[project]\nname = \"a\"\n[dependency-groups]\ndocs = [\"sphinx\"]\ntests = [\"pytest\"]\n";
    let gate = choose(&facts, &[("pyproject.toml", grouped)]);
    assert!(gate.steps[0].command.contains("pip install -q --group tests"), "{gate:?}");
    // tox runs several versions of Python, of which the image has one.
    assert_eq!(gate.steps[1].command, format!("{IN_VENV}pytest"));
    assert!(gate.notes[0].contains("`tox`"), "{gate:?}");
    let tox = "[tox]\nenvlist = py3\n[testenv]\ndeps =\n    hypothesis>=6\n    py27: mock\n    -r{toxinidir}/tests/needed.txt\ncommands = pytest\n";
    let pyproject = "[project]\nname = \"a\"\n[tool.pytest.ini_options]\naddopts = \"--cov=a\"\n";
    let gate = choose(&facts, &[("pyproject.toml", pyproject), ("tox.ini", tox)]);
    assert!(
        gate.steps[0].command.ends_with(
            "pip install -q 'hypothesis>=6' -r tests/needed.txt && pip install -q pytest pytest-cov"
        ),
        "{gate:?}"
    );
}

// CLI-22
#[test]
fn package_managers_of_python_have_an_environment_of_their_own() {
    let poetry = facts(
        "poetry",
        "pytest",
        &[("install", "poetry install"), ("test", "poetry run pytest -q")],
    );
    let manifest =
        "[tool.poetry]\nname = \"a\"\n[tool.poetry.group.test.dependencies]\npytest = \"*\"\n";
    let gate = choose(&poetry, &[("pyproject.toml", manifest)]);
    assert_eq!(
        commands(&gate),
        [
            format!(
                "{}/artifacts/home/tools/bin/poetry install --no-interaction --with test",
                own_tools("poetry")
            ),
            format!("{IN_VENV}pytest -q"),
        ]
    );
    let uv =
        facts("uv", "pytest", &[("install", "uv sync"), ("test", "uv run --group tests pytest")]);
    let manifest =
        "[project]\nname = \"a\"\n[dependency-groups]\ndev = [\"tox\"]\ntests = [\"pytest\"]\n";
    let gate = choose(&uv, &[("pyproject.toml", manifest), ("uv.lock", "version = 1\n")]);
    assert_eq!(
        commands(&gate),
        [
            format!(
                "{}UV_PROJECT_ENVIRONMENT=/artifacts/home/venv /artifacts/home/tools/bin/uv sync --frozen --group tests",
                own_tools("uv")
            ),
            format!("{IN_VENV}pytest"),
        ]
    );
    assert_eq!(gate.steps[1].network, Some(false));
}

// CLI-22
#[test]
fn a_python_project_that_needs_git_or_a_compiler_gets_the_full_image() {
    let mut pip = facts("pip", "pytest", &[("install", "pip install -e ."), ("test", "pytest")]);
    pip.suggested_image = "python:3.12-slim".to_owned();
    assert_eq!(choose(&pip, &[("setup.py", "setup()\n")]).image, "python:3.12-slim");
    assert_eq!(
        choose(
            &pip,
            &[("setup.py", "setup(use_scm_version={}, setup_requires=['setuptools_scm'])\n")]
        )
        .image,
        "python:3.12"
    );
    assert_eq!(choose(&pip, &[("setup.py", "setup(ext_modules=[x])\n")]).image, "python:3.12");
}

const NPM: &[(&str, &str)] = &[("install", "npm ci"), ("test", "npm test")];

// CLI-22
#[test]
fn npm_installs_then_tests_without_network() {
    let gate =
        choose(&facts("npm", "jest", NPM), &[("package.json", r#"{"scripts": {"test": "jest"}}"#)]);
    assert_eq!(commands(&gate), ["npm ci", "npm test"]);
    assert_eq!((gate.steps[0].network, gate.steps[1].network), (Some(true), Some(false)));
    let script = facts("npm", "jest", &[("install", "npm ci"), ("test", "scripts/test")]);
    assert_eq!(choose(&script, &[]).steps[1].network, None);
}

// CLI-22
#[test]
fn an_entry_that_is_not_in_the_repository_is_built_first() {
    let manifest = r#"{"main": "dist/index.js", "scripts": {"test": "mocha", "build": "tsc"}}"#;
    let gate = choose(&facts("npm", "mocha", NPM), &[("package.json", manifest)]);
    assert_eq!(commands(&gate), ["npm ci", "npm run build", "npm test"]);
    assert!(gate.steps[1].prepares && gate.steps[1].why.contains("dist/index.js"));
    let gate =
        choose(&facts("npm", "mocha", NPM), &[("package.json", manifest), ("dist/index.js", "")]);
    assert_eq!(commands(&gate), ["npm ci", "npm test"]);
    let prepared = manifest.replace("\"build\"", "\"prepare\": \"npm run build\", \"build\"");
    let gate = choose(&facts("npm", "mocha", NPM), &[("package.json", &prepared)]);
    assert_eq!(commands(&gate), ["npm ci", "npm test"]);
}

/// Scout B takes the narrower script; its remark is in the file.
// CLI-22
#[test]
fn a_test_script_that_needs_a_browser_is_narrowed_and_the_file_says_so() {
    let mut npm = facts("npm", "mocha", &[("install", "npm ci"), ("test", "npm run test:unit")]);
    let remark = "`npm test` needs a browser; this runs only the tests that need none";
    npm.projects[0].commands.test.as_mut().unwrap().remark = Some(remark.to_owned());
    let manifest =
        r#"{"scripts": {"test": "playwright test"}, "devDependencies": {"playwright": "1"}}"#;
    let gate = choose(&npm, &[("package.json", manifest)]);
    assert_eq!(commands(&gate), ["PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm ci", "npm run test:unit"]);
    assert_eq!(gate.notes, [remark]);
    assert!(yaml::text(&gate, false).contains(&format!("  # Note: {remark}\n")));
}

// CLI-22
#[test]
fn pnpm_and_yarn_are_installed_in_the_version_of_the_project() {
    let pnpm = facts(
        "pnpm",
        "vitest",
        &[("install", "pnpm install --frozen-lockfile"), ("test", "pnpm test")],
    );
    let own =
        |files: &[(&str, &str)], facts: &FactsB| choose(facts, files).steps[0].command.clone();
    let install = own(&[("package.json", r#"{"packageManager": "pnpm@9.1.2+sha1.a"}"#)], &pnpm);
    assert_eq!(
        install,
        "npm install -q -g --prefix \"$HOME/.local\" pnpm@9.1.2 && pnpm install --frozen-lockfile"
    );
    assert!(own(&[("pnpm-lock.yaml", "lockfileVersion: '6.0'\n")], &pnpm).contains(" pnpm@8 "));
    let yarn =
        facts("yarn", "jest", &[("install", "yarn install --immutable"), ("test", "yarn test")]);
    assert!(own(&[("yarn.lock", "# yarn lockfile v1\n")], &yarn).contains(" yarn@1 "));
    assert!(own(&[("yarn.lock", "__metadata:\n")], &yarn).contains(" @yarnpkg/cli-dist@4 "));
    // The committed program is called by version 1.
    let named = (".yarnrc.yml", "yarnPath: .yarn/releases/yarn-4.cjs\n");
    let lock = ("yarn.lock", "__metadata:\n");
    assert!(own(&[lock, named, (".yarn/releases/yarn-4.cjs", "")], &yarn).contains(" yarn@1 "));
    assert!(own(&[lock, named], &yarn).contains(" @yarnpkg/cli-dist@4 "));
}

// CLI-22
#[test]
fn the_packages_of_a_workspace_are_tested() {
    for (manager, root, files, expected) in [
        ("npm", "npm test", vec![], "npm run test --workspaces --if-present"),
        (
            "pnpm",
            "pnpm test",
            vec![("pnpm-workspace.yaml", "packages: [packages/*]\n")],
            "pnpm -r --if-present run test",
        ),
        (
            "yarn",
            "yarn test",
            vec![("yarn.lock", "__metadata:\n")],
            "yarn workspaces foreach --all --topological run test",
        ),
        ("yarn", "yarn test", vec![("yarn.lock", "# v1\n")], "(cd packages/a && yarn run test)"),
    ] {
        let mut all = facts(manager, "custom", &[("install", "x install"), ("test", root)]);
        all.projects.push(with("packages/a", manager, root, true));
        let member = ("packages/a/package.json", r#"{"scripts": {"test": "mocha"}}"#);
        let own = (
            "package.json",
            r#"{"workspaces": ["packages/*"], "scripts": {"test": "mocha test"}}"#,
        );
        let gate = choose(&all, &[files.clone(), vec![member, own]].concat());
        let tests =
            gate.steps.iter().filter(|step| !step.prepares).map(|step| step.command.as_str());
        assert_eq!(tests.collect::<Vec<_>>(), [root, expected]);
        assert!(gate.others.is_empty(), "{gate:?}");
        // A script that runs every package already is enough.
        for script in ["turbo run test", "npm run test --ws --if-present"] {
            let whole =
                format!(r#"{{"workspaces": ["packages/*"], "scripts": {{"test": "{script}"}}}}"#);
            let whole = ("package.json", whole.as_str());
            let gate = choose(&all, &[files.clone(), vec![member, whole]].concat());
            assert_eq!(gate.steps.iter().filter(|step| !step.prepares).count(), 1, "{gate:?}");
            assert!(gate.others.is_empty(), "{gate:?}");
        }
    }
}

// CLI-57
#[test]
fn an_entry_that_is_not_in_the_repository_is_built_by_the_script_that_only_builds() {
    let of = |before: &str| {
        let facts = facts("pnpm", "custom", &[("install", "pnpm i"), ("test", "pnpm -r run test")]);
        let mut facts = facts;
        facts.projects.push(with("packages/a", "pnpm", "pnpm test", true));
        let member = format!(
            r#"{{"main": "lib/index.js", "scripts": {{"test": "node --test", "prepublishOnly": "{before}"}}}}"#
        );
        let files = [
            ("pnpm-workspace.yaml", "packages: ['packages/*']\n"),
            ("package.json", "{}"),
            ("packages/a/package.json", &member),
        ];
        commands(&choose(&facts, &files)).iter().map(|c| (*c).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(of("tsc")[1..], ["pnpm -r --if-present run prepublishOnly", "pnpm -r run test"]);
    for other in ["npm test && tsc", "eslint . && npm run lint", "npm publish"] {
        assert_eq!(of(other)[1..], ["pnpm -r run test"], "{other}");
    }
}

// CLI-22
#[test]
fn cargo_fetches_and_tests_the_whole_workspace() {
    let lock = ("install", "cargo fetch --locked");
    let workspace = ("Cargo.toml", "[workspace]\nmembers = [\"a\"]\n");
    for (test, expected) in [
        ("cargo test --all", "cargo test --all --locked"),
        ("cargo test --workspace --locked", "cargo test --workspace --locked"),
        (
            "cargo test --all-features -- --nocapture",
            "cargo test --all-features --workspace --locked -- --nocapture",
        ),
        ("just test", "cargo test --workspace --locked"),
        ("make check", "cargo test --workspace --locked"),
    ] {
        let mut all = facts("cargo", "cargo test", &[lock, ("test", test)]);
        all.projects.push(with("a", "cargo", "cargo test", true));
        let gate = choose(&all, &[workspace]);
        assert_eq!(commands(&gate), ["cargo fetch --locked", expected]);
        // A step covers its members, so nothing warns about them.
        assert!(gate.others.is_empty() && gate.slow, "{gate:?}");
        assert_eq!(gate.notes.len(), usize::from(!test.starts_with("cargo")), "{gate:?}");
    }
    let single = facts("cargo", "cargo test", &[("test", "cargo test")]);
    assert_eq!(
        commands(&choose(&single, &[("Cargo.toml", "[package]\n")])),
        ["cargo fetch", "cargo test"]
    );
}

// CLI-22
#[test]
fn go_tests_every_module() {
    let mut all =
        facts("go", "go test", &[("install", "go mod download"), ("test", "go test -race ./...")]);
    all.projects.push(with("tools/x", "go", "go test ./...", true));
    all.projects.push(with("empty", "go", "go test ./...", false));
    let files = [("go.mod", "module a\nrequire b v1.0.0\n"), ("tools/x/go.mod", "module x\n")];
    let gate = choose(&all, &files);
    assert_eq!(
        commands(&gate),
        ["go mod download", "go test -race ./...", "cd tools/x && go test ./..."]
    );
    assert!(gate.others.is_empty());
    assert!(gate.steps[1..].iter().all(|step| step.network == Some(false)));
    let made = facts("go", "go test", &[("install", "go mod download"), ("test", "make test")]);
    let gate = choose(&made, &[("go.mod", "module a\n")]);
    assert_eq!(commands(&gate), ["go test ./..."]);
    assert!(gate.notes[0].contains("`make test`"), "{gate:?}");
}

// CLI-22
#[test]
fn maven_and_gradle_compile_then_test() {
    let mut maven = facts(
        "maven",
        "junit",
        &[("install", "./mvnw -B dependency:go-offline"), ("test", "./mvnw -B test")],
    );
    assert_eq!(
        commands(&choose(&maven, &[("mvnw", "")])),
        ["sh ./mvnw -B test-compile", "sh ./mvnw -B test"]
    );
    maven.suggested_image = "maven:3-eclipse-temurin-21".to_owned();
    assert_eq!(commands(&choose(&maven, &[])), ["mvn -B test-compile", "mvn -B test"]);
    // Goals for documents are left out, and Failsafe runs its tests later.
    maven.projects[0].commands.test.as_mut().unwrap().command =
        "mvn clean verify javadoc:jar".to_owned();
    assert_eq!(commands(&choose(&maven, &[]))[1], "mvn -B test");
    let pom = [("pom.xml", "<artifactId>maven-failsafe-plugin</artifactId>")];
    assert_eq!(commands(&choose(&maven, &pom))[1], "mvn -B verify");
    let gradle = facts("gradle", "junit", &[("test", "./gradlew test")]);
    let wrapper = [("gradlew", ""), ("gradle/wrapper/gradle-wrapper.jar", "")];
    assert_eq!(
        commands(&choose(&gradle, &wrapper)),
        ["sh ./gradlew testClasses", "sh ./gradlew test"]
    );
    // Without its archive the wrapper cannot start.
    assert_eq!(
        commands(&choose(&gradle, &[("gradlew", "")])),
        ["gradle testClasses", "gradle test"]
    );
    let multiplatform = [("build.gradle.kts", "plugins { kotlin(\"multiplatform\") }\n")];
    let gate = choose(&gradle, &multiplatform);
    assert_eq!(commands(&gate), ["gradle test jvmTest"]);
    assert!(gate.notes[0].contains("Multiplatform"));
}

// CLI-22
#[test]
fn cmake_is_brought_along_builds_its_tests_and_fails_without_them() {
    let commands_of =
        [("build", "cmake -B build && cmake --build build"), ("test", "ctest --test-dir build")];
    let mut all = facts("none", "ctest", &commands_of);
    all.suggested_image = "python:3.12".to_owned();
    let lists = "project(a)\noption(A_BUILD_TESTS \"Build the tests\" OFF)\noption(A_FUZZ_TESTS \"x\" OFF)\nenable_testing()\n";
    let gate = choose(&all, &[("CMakeLists.txt", lists)]);
    assert_eq!(
        commands(&gate),
        [
            format!("{NEW_VENV}pip install -q cmake"),
            format!("{IN_VENV}cmake -B build -DA_BUILD_TESTS=ON && cmake --build build -j 4"),
            format!("{IN_VENV}ctest --test-dir build --output-on-failure --no-tests=error"),
        ]
    );
    // Commands of CI name its directories and variables.
    all.projects[0].commands.test.as_mut().unwrap().command =
        "$GITHUB_WORKSPACE/test.sh".to_owned();
    all.suggested_image = "own/cmake:1".to_owned();
    let expected = [
        "cmake -B build && cmake --build build -j 4",
        "ctest --test-dir build --output-on-failure --no-tests=error",
    ];
    assert_eq!(commands(&choose(&all, &[])), expected);
}

// CLI-22
#[test]
fn make_builds_before_it_tests_and_a_server_that_the_tests_start_is_installed() {
    let mut all = facts("none", "custom", &[("build", "make"), ("test", "make check")]);
    assert_eq!(commands(&choose(&all, &[])), ["make", "make check"]);
    all.projects[0].prerequisites = serde_json::from_value(json!([
        {"name": "c compiler", "version": null, "source": {"path": "Makefile", "line": 1}}]))
    .unwrap();
    let gate = choose(&all, &[("test.sh", "#!/bin/sh\nredis-server --port 1 &\n")]);
    assert!(gate.steps[0].command.ends_with(" redis-server") && gate.as_root, "{gate:?}");
    assert!(gate.steps[0].why.starts_with("test.sh:2"), "{gate:?}");
    let yaml = yaml::text(&gate, false);
    assert!(
        yaml.contains("\n  user: root\n") && yaml.contains("\n  source_writes: warn\n"),
        "{yaml}"
    );
    let gate = choose(&all, &[(".gitignore", "*.o\n/a\n")]);
    assert!(yaml::text(&gate, false).contains("# source_writes: fail"), "{gate:?}");
    let bats = facts("none", "custom", &[("test", "make test")]);
    let gate = choose(&bats, &[("Makefile", "# acrobats\ntest:\n\t@bats test\n")]);
    assert!(gate.steps[0].command.ends_with(" bats") && gate.as_root, "{gate:?}");
    assert!(gate.steps[0].why.starts_with("Makefile:3"), "{gate:?}");
}

// CLI-22
#[test]
fn autotools_meson_and_just_are_known() {
    let none = facts("", "", &[]);
    let gate = choose(
        &none,
        &[("configure.ac", "AC_INIT\n"), ("Makefile.am", "bin_PROGRAMS = a\nTESTS = t\n")],
    );
    assert_eq!(commands(&gate), ["autoreconf -fi && sh ./configure", "make -j 4", "make check"]);
    assert_eq!((gate.image.as_str(), gate.steps[2].why.as_str()), ("gcc:14", "Makefile.am:2"));
    // The command that the repository names runs after configuring.
    let made = facts("none", "custom", &[("test", "make check VERBOSE=yes")]);
    let gate = choose(&made, &[("configure.ac", "AC_INIT\n"), ("Makefile.am", "TESTS = t\n")]);
    let expected = ["autoreconf -fi && sh ./configure", "make -j 4", "make check VERBOSE=yes"];
    assert_eq!(commands(&gate), expected);
    let gate = choose(
        &none,
        &[("meson.build", "project('a', 'c')\n"), ("tests/meson.build", "test('a', exe)\n")],
    );
    assert!(gate.steps[2].command.ends_with("meson test -C build --print-errorlogs"), "{gate:?}");
    let gate = choose(&none, &[("tests/Makefile", "all: a\n"), ("tests/a.c", "int main() {}\n")]);
    assert_eq!((commands(&gate), gate.image.as_str()), (vec!["make -C tests"], "gcc:14"));
    // The tests are compiled beside their sources, and a step that writes there fails otherwise.
    let yaml = yaml::text(&gate, false);
    assert!(
        yaml.contains("\n  source_writes: warn\n") && !yaml.contains("# source_writes"),
        "{yaml}"
    );
    load(&yaml, None);
    let gate = choose(&none, &[("Makefile", "all: a\n\ntest : all\n\tsh run.sh\n")]);
    assert_eq!((commands(&gate), gate.steps[0].why.as_str()), (vec!["make test"], "Makefile:3"));
    let just = facts("none", "custom", &[("test", "just test")]);
    let gate = choose(&just, &[("justfile", "test:\n  ./run\n")]);
    assert!(gate.steps[0].command.ends_with("pip install -q rust-just"), "{gate:?}");
    assert!(gate.steps[1].command.ends_with(" just test"), "{gate:?}");
}

// CLI-22
#[test]
fn the_project_with_tests_is_chosen_and_the_others_are_named() {
    let mut all = facts("npm", "custom", &[]);
    all.projects = vec![
        with(".", "npm", "", false),
        with("we\nird", "go", "go test ./...", true),
        with("lib", "go", "go test ./...", false),
        with("api", "pip", "python -m unittest", true),
        with("web\n- x", "npm", "npx jest", true),
        with("docs", "npm", "npm test", false),
    ];
    let gate = choose(&all, &[]);
    assert_eq!(gate.package.as_deref(), Some("api"));
    let others = gate.others.iter().map(|other| other.root.as_str()).collect::<Vec<_>>();
    assert_eq!(others, ["we\nird", "web\n- x"]);
    let yaml = yaml::text(&gate, false);
    assert!(yaml.contains("#   web - x: npx jest\n"), "{yaml}");
    assert_eq!(commands(&gate), ["python -m unittest"]);
}

// CLI-22
#[test]
fn an_unknown_project_is_not_green_by_default() {
    for facts in [facts("", "", &[]), facts("npm", "custom", &[("install", "npm ci")])] {
        let gate = choose(&facts, &[]);
        assert!(commands(&gate)[0].ends_with("exit 1") && gate.check.contains("your test"));
    }
}

// CLI-22
#[test]
fn the_file_says_who_wrote_it_where_each_step_comes_from_and_which_part_it_belongs_to() {
    let gate = choose(&facts("npm", "jest", NPM), &[]);
    let yaml = yaml::text(&gate, false);
    assert!(yaml.starts_with("# written by act init\n"), "{yaml}");
    assert!(yaml.contains("specs/configuration.md"), "{yaml}");
    let prepared = yaml.find("# Preparation: ").unwrap();
    let install =
        yaml.find("    # f:1\n    - {name: install, command: \"npm ci\", network: on}\n").unwrap();
    let tests = yaml.find("  # Tests.\n  steps:\n    # f:1; without network, ").unwrap();
    assert!(prepared < install && install < tests, "{yaml}");
    let mut hostile = facts("npm", "jest", &[("test", "npm test")]);
    hostile.projects[0].commands.test.as_mut().unwrap().source.path =
        "a\nverification: x".to_owned();
    choose(&hostile, &[]);
}

/// Every key that the file holds as a comment can be used by removing the mark.
// CLI-22
#[test]
fn every_key_is_there_as_a_comment_that_can_be_used() {
    let gate = choose(&facts("npm", "jest", NPM), &[]);
    let yaml = yaml::text(&gate, false);
    let all = yaml.lines().map(|line| {
        let (space, rest) = line.split_at(line.len() - line.trim_start().len());
        let key = rest.strip_prefix("# ").filter(|rest| {
            rest.trim_start().split_once(':').is_some_and(|(key, after)| {
                key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
                    && (after.is_empty() || after.starts_with(' '))
            })
        });
        key.map_or_else(|| line.to_owned(), |key| format!("{space}{key}"))
    });
    let all = all.collect::<Vec<_>>().join("\n") + "\n";
    let config = load(&all, Some("packages/api"));
    assert_eq!(config.monorepo_package.as_deref(), Some("packages/api"));
    for key in [
        "container_image",
        "prepare",
        "prepare_inputs",
        "warm",
        "steps",
        "workspace",
        "include",
        "source_writes",
        "network",
        "user",
        "ca_bundle",
        "limits",
        "monorepo",
        "verification_step",
        "scout_query",
        "model_first_byte",
        "model_silence",
        "model_total",
        "max_tokens",
        "max_cost",
        "gitignore",
        "agents_md",
        "components",
    ] {
        assert!(all.contains(&format!("{key}:")), "{key}\n{all}");
    }
    assert!(load(&yaml, None).gitignore);
    assert!(!load(&yaml::text(&gate, true), None).gitignore);
}
