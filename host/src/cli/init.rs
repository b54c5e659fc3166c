//! `act init`: writes a first `agent.yaml`. It never replaces a file and never follows a link.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{CommonOptions, answer, block_on};
use crate::output::{Line, Output, Tone};
use act_agent::scout::facts_b::{Command, FactsB, Location, Project};
use act_config::Root;
use act_core::Failure;
use act_core::exit::Exit;
use act_fs::NEW;
use act_task::{self as task, ScoutArgs, WhichScout};

const NAME: &str = "agent.yaml";

const AFTER_HELP: &str = "\
Examples:
  act init
  act init --repo ../other --json

Exit codes:
  0 written, 1 an agent.yaml exists already, or the file cannot be written";

/// Write a first agent.yaml
///
/// Scout B suggests image and steps from manifests, CI files and documents; each step is written with its source. Review
/// them before the first task: they decide when a task is done. An existing agent.yaml is never changed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Init {
    #[command(flatten)]
    common: CommonOptions,
    /// Let tasks add no line to .gitignore to hide act's notes
    #[arg(long)]
    no_gitignore: bool,
}

/// The document of `act init --json`.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Written {
    path: String,
    /// The kind of project that the file is for, in words.
    kind: String,
    image: String,
    /// The directory in which the steps run; null for the root of the repository.
    package: Option<String>,
    steps: Vec<WrittenStep>,
    /// Other projects with tests, which the steps do not run.
    others: Vec<OtherProject>,
    /// What the user should check before the first task.
    check: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WrittenStep {
    name: &'static str,
    command: String,
    // `None` leaves the default.
    #[serde(skip)]
    network: Option<bool>,
    /// The source of the command: the file and line that names it.
    why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OtherProject {
    /// Directory of the project.
    root: String,
    /// The command that tests the project.
    test: String,
}

impl Init {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let root = match act_config::find_root(&self.common.repo)? {
            Some(Root { path, has_config: true }) => return Err(exists(&path)),
            Some(Root { path, has_config: false }) => path,
            None => {
                let here = self.common.repo.canonicalize();
                let here = here.map_err(|error| unwritable(&self.common.repo, &error))?;
                output.caution(&format!(
                    "{} is not in a git repository, so git can neither show nor undo what a task changes there; \
                     run `git init` first",
                    here.display()
                ));
                here
            }
        };
        let mut written = choose(&found(&root, output)?);
        let mut yaml = written.yaml();
        if self.no_gitignore {
            yaml.push_str("# Tasks add no line to .gitignore; agent/.gitignore hides act's notes.\ngitignore: false\n");
        }
        write(&root, &yaml).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&root),
            _ => unwritable(&root, &error),
        })?;
        written.path = root.join(NAME).display().to_string();
        answer(output, &written, || written.lines(&output.command("act doctor")));
        Ok(Exit::Ok)
    }
}

/// Returns the facts of Scout B about the repository; no model is used.
fn found(root: &Path, output: &Output) -> Result<FactsB, Failure> {
    let args = ScoutArgs {
        scout: WhichScout::B,
        question: None,
        repo: root.to_owned(),
        log: None,
        with: None,
    };
    // The hints of `act scout` name options that `act init` does not have.
    let facts =
        block_on(task::facts(args, &output.events()))?.map_err(|failure| {
            match failure.code {
        "scout_failed" => failure.hint(
            "`--repo DIR` names another directory; by hand an agent.yaml needs an image and a step",
        ),
        _ => failure,
    }
        })?;
    serde_json::from_value(facts.document).map_err(|error| {
        Failure::refused("scout_failed", format!("the facts cannot be read: {error}"))
            .hint("please report it; an agent.yaml by hand is in the README")
    })
}

fn write(root: &Path, text: &str) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(root, flags, Mode::empty())?;
    let file = rustix::fs::openat(&directory, NAME, NEW, Mode::from_raw_mode(0o644));
    let mut file = File::from(file.map_err(|error| match error {
        Errno::LOOP => Errno::EXIST,
        other => other,
    })?);
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        // A half-written agent.yaml would stop the next `act init`.
        rustix::fs::unlinkat(&directory, NAME, rustix::fs::AtFlags::empty()).ok();
    }
    written
}

fn exists(root: &Path) -> Failure {
    Failure::refused("config_exists", format!("{} exists", root.join(NAME).display()))
        .hint("change it by hand, or remove it first; `act doctor` says what is wrong with it")
}

fn unwritable(root: &Path, error: &io::Error) -> Failure {
    let message = format!("{NAME} cannot be written to {}: {error}", root.display());
    Failure::refused("config_unwritable", message).hint("name a directory that you may write")
}

/// A directory outside the tested tree for a virtual environment; it lasts as long as the run.
const VENV: &str = "/artifacts/home/venv";

impl Written {
    /// Returns the text of `agent.yaml`.
    fn yaml(&self) -> String {
        // JSON strings are YAML strings.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut out = format!(
            "# A task is done when every step ends with exit code 0, in a fresh container of this image.\n\
             verification:\n\
             \x20 # For {}; check the version.\n\
             \x20 container_image: {}\n\
             \x20 # Steps see a copy of the working tree, or an overlay if it is large; they cannot change the repository.\n\
             \x20 workspace: auto\n\
             \x20 steps:\n",
            self.kind,
            quoted(&self.image),
        );
        for WrittenStep { name, command, network, why } in &self.steps {
            let network = match network {
                None => "",
                Some(true) => ", network: on",
                Some(false) => ", network: off",
            };
            out.push_str(&format!(
                "    # {}\n    - {{name: {name}, command: {}{network}}}\n",
                one_line(why),
                quoted(command)
            ));
        }
        if !self.others.is_empty() {
            out.push_str(
                "# Other projects found here. They are verified only if a step above runs them:\n",
            );
            for OtherProject { root, test } in &self.others {
                out.push_str(&format!("#   {}: {}\n", one_line(root), one_line(test)));
            }
        }
        if let Some(package) = &self.package {
            out.push_str(&format!(
                "# The steps run in this directory.\nmonorepo: {{package: {}}}\n",
                quoted(package)
            ));
        }
        out
    }

    /// Returns the lines that are printed without `--json`; `doctor` is the next command.
    fn lines(&self, doctor: &str) -> Vec<Line> {
        let wrote = Line::of(Tone::Good, "Wrote");
        let mut lines = vec![wrote.and(Tone::Plain, format!(" {} for {}", self.path, self.kind))];
        let mut line = |text: String| lines.push(Line::plain(text));
        line(format!("  image  {}", self.image));
        for step in &self.steps {
            line(format!("  step   {}: {}", step.name, step.command));
        }
        for OtherProject { root, test } in &self.others {
            line(format!("  not verified unless a step runs it: {root} ({test})"));
        }
        line(self.check.to_owned());
        line(format!("Then: {doctor}"));
        lines
    }
}

const CHECK: &str = "Check the image version, and that these steps would catch a broken change.";
const CHECK_UNKNOWN: &str = "No test command was found for this project. Enter your image and your test command; until then \
                             the step fails.";

/// Chooses image and steps from the facts of Scout B. Each choice names its source, so that a person can decide.
fn choose(facts: &FactsB) -> Written {
    let image = facts.suggested_image.clone();
    // YAML comments cannot hold control characters.
    let nameable = |project: &&Project| !project.root.contains(char::is_control);
    let tested = |project: &&Project| project.commands.test.is_some();
    let mut usable = facts.projects.iter().filter(nameable).filter(tested);
    // The image is for this one (SCOUT-B-16).
    let chosen = usable.clone().find(|project| project.has_tests).or_else(|| usable.next());
    let Some((project, test)) = chosen.and_then(|p| Some((p, p.commands.test.as_ref()?))) else {
        // A step that always passes would verify nothing.
        let step = WrittenStep {
            name: "test",
            command: "echo 'agent.yaml: put your test command here'; exit 1".to_owned(),
            network: None,
            why: "no test command was found".to_owned(),
        };
        let kind = "a project of unknown kind".to_owned();
        let (steps, others) = (vec![step], vec![]);
        let (path, package, check) = (String::new(), None, CHECK_UNKNOWN);
        return Written { path, kind, image, package, steps, others, check };
    };
    let kind = match project.package_manager.as_str() {
        "none" => "this project".to_owned(),
        manager => format!("this {manager} project"),
    };
    let package = Some(project.root.clone()).filter(|root| root != ".");
    let others = facts.projects.iter().filter(|other| other.has_tests && *other != project);
    let others = others.filter(|other| !reaches(project, &test.command, other));
    let others = others.filter_map(|other| {
        let test = other.commands.test.as_ref()?;
        Some(OtherProject { root: other.root.clone(), test: test.command.clone() })
    });
    let (steps, others) = (steps(project, test, &image), others.collect());
    Written { path: String::new(), kind, image, package, steps, others, check: CHECK }
}

/// Returns whether the test command of a project certainly tests another project below it.
fn reaches(project: &Project, test: &str, other: &Project) -> bool {
    let below = project.root == "." || other.root.starts_with(&format!("{}/", project.root));
    let whole = match project.package_manager.as_str() {
        "cargo" => test.contains("--workspace"),
        "maven" | "gradle" => true,
        _ => false,
    };
    below && whole && other.package_manager == project.package_manager
}

fn steps(project: &Project, test: &Command, image: &str) -> Vec<WrittenStep> {
    if project.framework == "ctest" {
        return with_cmake(project, test, image);
    }
    let manager = project.package_manager.as_str();
    let mut steps = vec![];
    let install =
        project.commands.install.as_ref().filter(|_| !matches!(manager, "maven" | "gradle"));
    if let Some(install) = install {
        let command = installing(project, &install.command);
        let why = place(&install.source);
        steps.push(WrittenStep { name: "install", command, network: Some(true), why });
    } else if let Some(command) = installing_tools(project, &test.command) {
        let why = format!("{}; no list of requirements was found", place(&test.source));
        steps.push(WrittenStep { name: "install", command, network: Some(true), why });
    }
    let installed = !steps.is_empty();
    // A script may download something; a known tool uses what was installed before.
    let script = test.command.starts_with(['.', '/']) || first_word(&test.command).contains('/');
    let alone =
        matches!(manager, "cargo" | "go" | "npm" | "yarn" | "pnpm" | "pip" | "uv" | "poetry");
    let offline = installed && alone && !script;
    let command = match test.command.as_str() {
        plain @ ("cargo test" | "cargo test --workspace") if install.is_some() => {
            format!("{plain} --locked")
        }
        // Nothing was installed, so there is no virtual environment to activate.
        command if manager == "pip" && !installed => command.to_owned(),
        command => inside(project, command),
    };
    let mut why = place(&test.source);
    if offline {
        why.push_str("; without network, because the step before installed everything");
    }
    steps.push(WrittenStep { name: "test", command, network: offline.then_some(false), why });
    steps
}

/// Returns the steps of a CMake project, which builds before it tests. No official image has cmake; the Python image has
/// a compiler, make and pip.
fn with_cmake(project: &Project, test: &Command, image: &str) -> Vec<WrittenStep> {
    let needs_cmake = image.starts_with("python:");
    let within = |command: &str| match needs_cmake {
        true => format!(". {VENV}/bin/activate && {command}"),
        false => command.to_owned(),
    };
    let mut steps = vec![];
    if needs_cmake {
        steps.push(WrittenStep {
            name: "install",
            command: format!("{} && pip install -q cmake", new_venv()),
            network: Some(true),
            why: format!("{}; cmake from pip, as the image has none", place(&project.source)),
        });
    }
    let build = project.commands.build.as_ref().filter(|build| build.command.contains("cmake"));
    if let Some(build) = build {
        let (command, why) = (within(&build.command), place(&build.source));
        steps.push(WrittenStep { name: "build", command, network: None, why });
    }
    let (command, why) = (within(&test.command), place(&test.source));
    steps.push(WrittenStep { name: "test", command, network: None, why });
    steps
}

fn place(source: &Location) -> String {
    format!("{}:{}", source.path, source.line)
}

fn first_word(command: &str) -> &str {
    command.split_whitespace().next().unwrap_or_default()
}

/// Returns a command that installs into the run's own directory, the only one that a step may write to.
fn installing(project: &Project, command: &str) -> String {
    let venv = new_venv();
    match project.package_manager.as_str() {
        "pip" => {
            let pytest =
                if project.framework == "pytest" { " && pip install -q pytest" } else { "" };
            // An editable install would write into the tested tree.
            let command = command.replace("pip install -e ", "pip install ");
            format!("{venv} && {command}{pytest}")
        }
        manager @ ("uv" | "poetry" | "pdm" | "pipenv") => {
            format!("{venv} && pip install -q {manager} && {}{command}", environment(manager))
        }
        "pnpm" => format!(
            "corepack enable --install-directory \"$TMPDIR\" && {}",
            inside(project, command)
        ),
        _ => inside(project, command),
    }
}

/// Returns a command that installs the test tool of a Python project that does not list its requirements.
fn installing_tools(project: &Project, test: &str) -> Option<String> {
    let named = match project.package_manager.as_str() {
        manager @ ("uv" | "poetry" | "pdm" | "pipenv") => Some(manager),
        "pip" => ["pytest", "tox", "nox"]
            .into_iter()
            .find(|tool| project.framework == *tool || test.split_whitespace().any(|w| w == *tool)),
        _ => None,
    };
    named.map(|tool| format!("{} && pip install -q {tool}", new_venv()))
}

fn new_venv() -> String {
    format!("python -m venv {VENV} && . {VENV}/bin/activate")
}

/// Returns a command that finds what was installed.
fn inside(project: &Project, command: &str) -> String {
    match project.package_manager.as_str() {
        manager @ ("pip" | "uv" | "poetry" | "pdm" | "pipenv") => {
            format!(". {VENV}/bin/activate && {}{command}", environment(manager))
        }
        "pnpm" => format!("PATH=\"$TMPDIR:$PATH\" {command}"),
        // Files from an archive may have lost the executable bit.
        "maven" | "gradle" if command.starts_with("./") => format!("sh {command}"),
        _ => command.to_owned(),
    }
}

fn environment(manager: &str) -> &'static str {
    if manager == "uv" { "UV_PROJECT_ENVIRONMENT=\"$VIRTUAL_ENV\" " } else { "" }
}

/// Replaces control characters, because a line feed would end the YAML comment.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

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

    #[test]
    fn the_schema_is_written_down() {
        act_core::event::schema::holds::<Written>("init");
    }

    #[track_caller]
    fn loads(starter: &Written) -> Vec<String> {
        let temp = tempfile::tempdir().unwrap();
        if let Some(package) = &starter.package {
            std::fs::create_dir_all(temp.path().join(package)).unwrap();
        }
        std::fs::write(temp.path().join("agent.yaml"), starter.yaml()).unwrap();
        let config = act_config::load(temp.path()).unwrap();
        assert_eq!(config.pipeline.image, starter.image);
        config.pipeline.steps.iter().map(|step| step.command.clone()).collect()
    }

    #[test]
    fn every_row_is_a_configuration_that_loads() {
        // CLI-22
        let venv = "python -m venv /artifacts/home/venv && . /artifacts/home/venv/bin/activate";
        for (manager, framework, commands, expected) in [
            ("npm", "jest", &[("install", "npm ci"), ("test", "npm test")][..], vec!["npm ci".to_owned(), "npm test".to_owned()]),
            (
                "cargo",
                "cargo test",
                &[("install", "cargo fetch --locked"), ("test", "cargo test --workspace")],
                vec!["cargo fetch --locked".into(), "cargo test --workspace --locked".into()],
            ),
            ("cargo", "cargo test", &[("test", "cargo test")], vec!["cargo test".into()]),
            (
                "pip",
                "pytest",
                &[("install", "pip install -e '.[dev]'"), ("test", "pytest")],
                vec![
                    format!("{venv} && pip install '.[dev]' && pip install -q pytest"),
                    ". /artifacts/home/venv/bin/activate && pytest".into(),
                ],
            ),
            (
                "pnpm",
                "vitest",
                &[("install", "pnpm install --frozen-lockfile"), ("test", "pnpm test")],
                vec![
                    "corepack enable --install-directory \"$TMPDIR\" && PATH=\"$TMPDIR:$PATH\" pnpm install --frozen-lockfile".into(),
                    "PATH=\"$TMPDIR:$PATH\" pnpm test".into(),
                ],
            ),
            (
                "maven",
                "junit",
                &[("install", "./mvnw -B dependency:go-offline"), ("test", "./mvnw -B test")],
                vec!["sh ./mvnw -B test".into()],
            ),
            ("pip", "unittest", &[("test", "python -m unittest")], vec!["python -m unittest".into()]),
            (
                "pip",
                "pytest",
                &[("test", "python -m pytest")],
                vec![
                    format!("{venv} && pip install -q pytest"),
                    ". /artifacts/home/venv/bin/activate && python -m pytest".into(),
                ],
            ),
            ("none", "custom", &[("test", "make \"check\" # all")], vec!["make \"check\" # all".into()]),
        ] {
            assert_eq!(loads(&choose(&facts(manager, framework, commands))), expected);
        }
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

    #[test]
    fn the_project_with_tests_is_chosen_and_the_others_are_named() {
        // CLI-22
        let mut all = facts("npm", "custom", &[]);
        all.projects = vec![
            with(".", "npm", "", false),
            with("we\nird", "go", "go test ./...", true),
            with("lib", "go", "go test ./...", false),
            with("api", "go", "go test ./...", true),
            with("web\n- x", "npm", "npx jest", true),
            with("docs", "npm", "npm test", false),
        ];
        let starter = choose(&all);
        assert_eq!(starter.package.as_deref(), Some("api"));
        let others = starter.others.iter().map(|other| other.root.as_str()).collect::<Vec<_>>();
        assert_eq!(others, ["we\nird", "web\n- x"]);
        assert!(starter.yaml().contains("#   web - x: npx jest\n"), "{}", starter.yaml());
        assert_eq!(loads(&starter), ["go test ./..."]);
        let mut workspace = facts("cargo", "custom", &[]);
        workspace.projects = vec![
            with(".", "cargo", "cargo test --workspace", true),
            with("crates/a", "cargo", "cargo test", true),
        ];
        assert!(choose(&workspace).others.is_empty());
    }

    #[test]
    fn cmake_is_brought_along_and_builds_before_it_tests() {
        // CLI-22
        let commands = [
            ("build", "cmake -B build && cmake --build build"),
            ("test", "ctest --test-dir build"),
        ];
        let mut all = facts("none", "ctest", &commands);
        all.suggested_image = "python:3.12".to_owned();
        let steps = loads(&choose(&all));
        assert_eq!(steps.len(), 3, "{steps:?}");
        assert!(steps[0].ends_with("pip install -q cmake"));
        assert!(steps[1].ends_with("activate && cmake -B build && cmake --build build"));
        assert!(steps[2].ends_with("activate && ctest --test-dir build"));
        all.suggested_image = "own/cmake:1".to_owned();
        let steps = loads(&choose(&all));
        assert_eq!(steps, ["cmake -B build && cmake --build build", "ctest --test-dir build"]);
    }

    #[test]
    fn an_unknown_project_is_not_green_by_default() {
        // CLI-22
        for facts in [facts("", "", &[]), facts("npm", "custom", &[("install", "npm ci")])] {
            let starter = choose(&facts);
            assert!(loads(&starter)[0].ends_with("exit 1") && starter.check.contains("your test"));
        }
    }

    #[test]
    fn each_step_says_where_it_comes_from_and_tests_have_no_network_after_an_install() {
        // CLI-22
        let npm = facts("npm", "jest", &[("install", "npm ci"), ("test", "npm test")]);
        let yaml = choose(&npm).yaml();
        assert!(
            yaml.contains("    # f:1\n    - {name: install, command: \"npm ci\", network: on}\n"),
            "{yaml}"
        );
        assert!(
            yaml.contains("# f:1; without network") && yaml.contains("network: off}"),
            "{yaml}"
        );
        let script = facts("npm", "jest", &[("install", "npm ci"), ("test", "scripts/test")]);
        assert!(!choose(&script).yaml().contains("network: off"));
        let mut hostile = facts("npm", "jest", &[("test", "npm test")]);
        hostile.projects[0].commands.test.as_mut().unwrap().source.path =
            "a\nverification: x".to_owned();
        loads(&choose(&hostile));
    }
}
