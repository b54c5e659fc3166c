//! Which image and steps fit what Scout B found out (pure). Everything is said with the place it comes from: a
//! person decides.

use crate::scout::facts_b::{Command, FactsB, Place, Project};

/// Where a step may put a virtual environment; it lasts as long as the run.
const VENV: &str = "/artifacts/home/venv";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) command: String,
    /// None leaves the default.
    pub(super) network: Option<bool>,
    pub(super) why: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Starter {
    pub(super) kind: String,
    pub(super) image: String,
    /// The directory that the commands run in; none for the repository's.
    pub(super) package: Option<String>,
    pub(super) steps: Vec<Step>,
    /// Something tests it.
    known: bool,
}

impl Starter {
    pub(super) fn yaml(&self) -> String {
        // JSON strings are YAML strings.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut out = format!(
            "# What \"done\" means: every step ends with exit code 0, in a fresh container of this image.\n\
             verification:\n\
             \x20 # For {}; check the version.\n\
             \x20 container_image: {}\n\
             \x20 # Steps work on a copy of the tree, or an overlay of a large one; the repository is not written.\n\
             \x20 workspace: auto\n\
             \x20 steps:\n",
            self.kind,
            quoted(&self.image),
        );
        for Step { name, command, network, why } in &self.steps {
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
        if let Some(package) = &self.package {
            out.push_str(&format!(
                "# The directory that the steps run in.\nmonorepo: {{package: {}}}\n",
                quoted(package)
            ));
        }
        out
    }

    pub(super) fn check(&self) -> &'static str {
        if self.known {
            "Check: the image's version, and that the steps are what proves a change of yours."
        } else {
            "Check: nothing says how this project is tested. Put your image and your test command in; until \
             then the step fails."
        }
    }
}

pub(super) fn choose(facts: &FactsB) -> Starter {
    let tested = facts.projects.iter().find(|project| project.commands.test.is_some());
    // The image is for the first project.
    let first = facts.projects.first();
    let project = first.filter(|project| project.commands.test.is_some()).or(tested);
    let image = facts.suggested_image.clone();
    let Some((project, test)) = project.and_then(|p| Some((p, p.commands.test.as_ref()?))) else {
        // Green by default would be a lie.
        let step = Step {
            name: "test",
            command: "echo 'agent.yaml: put your test command here'; exit 1".to_owned(),
            network: None,
            why: "nothing says how this is tested".to_owned(),
        };
        let kind = "a project of unknown kind".to_owned();
        return Starter { kind, image, package: None, steps: vec![step], known: false };
    };
    let kind = match project.package_manager.as_str() {
        "none" => "this project".to_owned(),
        manager => format!("this {manager} project"),
    };
    let package = Some(project.root.clone()).filter(|root| root != ".");
    Starter { kind, image, package, steps: steps(project, test), known: true }
}

fn steps(project: &Project, test: &Command) -> Vec<Step> {
    let manager = project.package_manager.as_str();
    let mut steps = vec![];
    let install =
        project.commands.install.as_ref().filter(|_| !matches!(manager, "maven" | "gradle"));
    if let Some(install) = install {
        let command = installing(project, &install.command);
        let why = said(&install.source);
        steps.push(Step { name: "install", command, network: Some(true), why });
    }
    // A script of the repository may do anything; what a known tool tests with was installed before.
    let script = test.command.starts_with(['.', '/']) || first_word(&test.command).contains('/');
    let alone =
        matches!(manager, "cargo" | "go" | "npm" | "yarn" | "pnpm" | "pip" | "uv" | "poetry");
    let offline = !steps.is_empty() && alone && !script;
    let command = match test.command.as_str() {
        plain @ ("cargo test" | "cargo test --workspace") if install.is_some() => {
            format!("{plain} --locked")
        }
        command => inside(project, command),
    };
    let mut why = said(&test.source);
    if offline {
        why.push_str("; without network, as all it needs was installed before");
    }
    steps.push(Step { name: "test", command, network: offline.then_some(false), why });
    steps
}

fn said(source: &Place) -> String {
    format!("{}:{}", source.path, source.line)
}

fn first_word(command: &str) -> &str {
    command.split_whitespace().next().unwrap_or_default()
}

/// What installs, where only the run's own directory may be written.
fn installing(project: &Project, command: &str) -> String {
    let venv = format!("python -m venv {VENV} && . {VENV}/bin/activate");
    match project.package_manager.as_str() {
        "pip" => {
            let pytest =
                if project.framework == "pytest" { " && pip install -q pytest" } else { "" };
            // Installed in place it would leave its traces in the tree.
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

/// A command among what was installed.
fn inside(project: &Project, command: &str) -> String {
    match project.package_manager.as_str() {
        manager @ ("pip" | "uv" | "poetry" | "pdm" | "pipenv") => {
            format!(". {VENV}/bin/activate && {}{command}", environment(manager))
        }
        "pnpm" => format!("PATH=\"$TMPDIR:$PATH\" {command}"),
        // A wrapper need not be executable where the tree comes from an archive.
        "maven" | "gradle" if command.starts_with("./") => format!("sh {command}"),
        _ => command.to_owned(),
    }
}

fn environment(manager: &str) -> &'static str {
    if manager == "uv" { "UV_PROJECT_ENVIRONMENT=\"$VIRTUAL_ENV\" " } else { "" }
}

/// A comment ends with its line, whatever a path is made of.
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

    #[track_caller]
    fn loads(starter: &Starter) -> Vec<String> {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("agent.yaml"), starter.yaml()).unwrap();
        let config = crate::config::load(temp.path()).unwrap();
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
            ("none", "custom", &[("test", "make \"check\" # all")], vec!["make \"check\" # all".into()]),
        ] {
            assert_eq!(loads(&choose(&facts(manager, framework, commands))), expected);
        }
    }

    #[test]
    fn an_unknown_project_is_not_green_by_default() {
        // CLI-22
        for facts in [facts("", "", &[]), facts("npm", "custom", &[("install", "npm ci")])] {
            let starter = choose(&facts);
            assert!(
                loads(&starter)[0].ends_with("exit 1") && starter.check().contains("your test")
            );
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
