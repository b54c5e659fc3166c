//! Chooses image and steps: those that the facts of Scout B name, completed by what a step needs in a fresh container.
//!
//! Each step names its source, so that a person can decide. Steps that install, fetch or build stand before the tests, and
//! no test step does their work. The files of one ecosystem are read in the module of that ecosystem.

use act_agent::scout::facts_b::{Command, FactsB, Location, Project};

use super::files::Files;
use super::{compiled, node, python};

/// The pipeline that `act init` proposes.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Gate {
    /// The kind of project that the file is for, in words.
    pub(super) kind: String,
    pub(super) image: String,
    /// The directory in which the steps run; null for the root of the repository.
    pub(super) package: Option<String>,
    pub(super) steps: Vec<Step>,
    /// Other projects with tests, which the steps do not run.
    pub(super) others: Vec<OtherProject>,
    /// What the steps leave out, and what had to be chosen, in sentences.
    pub(super) notes: Vec<String>,
    /// What the user should check before the first task.
    pub(super) check: &'static str,
    // Whether the steps run as root, because one of them installs packages of the system.
    #[serde(skip)]
    pub(super) as_root: bool,
    // Whether a step compiles beside the sources, in places that git does not ignore.
    #[serde(skip)]
    pub(super) writes_beside: bool,
    // Whether a step compiles dependencies, which takes longer than the default time limit.
    #[serde(skip)]
    pub(super) slow: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "WrittenStep"))]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) command: String,
    /// The source of the command: the file and line that names it.
    pub(super) why: String,
    /// Whether the step installs, fetches or builds and tests nothing.
    pub(super) prepares: bool,
    // `None` leaves the default.
    #[serde(skip)]
    pub(super) network: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct OtherProject {
    /// Directory of the project.
    pub(super) root: String,
    /// The command that tests the project.
    pub(super) test: String,
}

const CHECK: &str = "Check the image version, and that these steps would catch a broken change.";
const CHECK_UNKNOWN: &str = "No test command was found for this project. Enter your image and your test command; until then \
                             the step fails.";

/// Chooses the gate of a repository. The image is for the first project with tests (SCOUT-B-16), so the steps are too.
pub(super) fn choose(facts: &FactsB, files: &Files) -> Gate {
    let mut gate = Gate { image: facts.suggested_image.clone(), check: CHECK, ..Gate::default() };
    // YAML comments cannot hold control characters.
    let nameable = |project: &&Project| !project.root.contains(char::is_control);
    let tested = |project: &&Project| project.commands.test.is_some();
    let mut usable = facts.projects.iter().filter(nameable).filter(tested);
    let chosen = usable.clone().find(|project| project.has_tests).or_else(|| usable.next());
    let Some((project, test)) = chosen.and_then(|p| Some((p, p.commands.test.as_ref()?))) else {
        if compiled::without_facts(&mut gate, files) {
            return gate;
        }
        gate.kind = "a project of unknown kind".to_owned();
        // A step that always passes would verify nothing.
        gate.test(
            "echo 'agent.yaml: put your test command here'; exit 1",
            None,
            "no test command was found",
        );
        gate.check = CHECK_UNKNOWN;
        return gate;
    };
    gate.kind = match project.package_manager.as_str() {
        "none" => "this project".to_owned(),
        manager => format!("this {manager} project"),
    };
    gate.notes.extend(test.remark.clone());
    gate.package = Some(project.root.clone()).filter(|root| root != ".");
    let files = files.below(&project.root);
    let work = Work { facts, project, test, files: &files };
    let covered = match project.package_manager.as_str() {
        "pip" | "uv" | "poetry" | "pdm" | "pipenv" => python::plan(&mut gate, &work),
        "npm" | "pnpm" | "yarn" | "bun" => node::plan(&mut gate, &work),
        _ => compiled::plan(&mut gate, &work),
    };
    for other in &facts.projects {
        if other.has_tests
            && !std::ptr::eq(other, project)
            && !covered.contains(&other.root)
            && let Some(test) = &other.commands.test
        {
            gate.others.push(OtherProject { root: other.root.clone(), test: test.command.clone() });
        }
    }
    gate
}

/// The project that the gate is for, and what is known about it.
pub(super) struct Work<'a> {
    pub(super) facts: &'a FactsB,
    pub(super) project: &'a Project,
    pub(super) test: &'a Command,
    /// The files of the project.
    pub(super) files: &'a Files,
}

impl Work<'_> {
    /// Returns the other projects of the same package manager below this one, with their directories relative to it.
    pub(super) fn members(&self) -> impl Iterator<Item = (&Project, &str)> {
        let manager = &self.project.package_manager;
        let same =
            self.facts.projects.iter().filter(move |other| other.package_manager == *manager);
        same.filter(|other| !std::ptr::eq(*other, self.project)).filter_map(|other| {
            let inner = match self.project.root.as_str() {
                "." => other.root.as_str(),
                root => other.root.strip_prefix(root)?.strip_prefix('/')?,
            };
            Some((other, inner)).filter(|_| !inner.contains(char::is_control))
        })
    }

    /// Returns the file and line that names the test command.
    pub(super) fn test_place(&self) -> String {
        place(&self.test.source)
    }

    /// Returns a path in the project as it is named from the root of the repository.
    pub(super) fn named(&self, path: &str) -> String {
        match self.project.root.as_str() {
            "." => path.to_owned(),
            root => format!("{root}/{path}"),
        }
    }
}

impl Gate {
    /// Adds a step that installs, fetches or builds. It has network.
    pub(super) fn prepare(
        &mut self,
        name: &str,
        command: impl Into<String>,
        why: impl Into<String>,
    ) {
        let (name, command, why) = (name.to_owned(), command.into(), why.into());
        self.steps.push(Step { name, command, why, prepares: true, network: Some(true) });
    }

    /// Adds the step that runs the tests.
    pub(super) fn test(&mut self, command: &str, network: Option<bool>, why: impl Into<String>) {
        self.named_test("test", command, network, why);
    }

    pub(super) fn named_test(
        &mut self,
        name: &str,
        command: &str,
        network: Option<bool>,
        why: impl Into<String>,
    ) {
        let mut why = why.into();
        if network == Some(false) {
            why.push_str("; without network, because the steps before installed everything");
        }
        let (name, command) = (name.to_owned(), command.to_owned());
        self.steps.push(Step { name, command, why, prepares: false, network });
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

pub(super) fn place(source: &Location) -> String {
    format!("{}:{}", source.path, source.line)
}

/// Returns the words of a command without the variables that are set before the program.
pub(super) fn words(command: &str) -> Vec<&str> {
    let all = command.split_whitespace();
    all.skip_while(|word| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        })
    })
    .collect()
}

/// Returns the name of the program that a command runs, without its directory.
pub(super) fn program(command: &str) -> &str {
    let first = words(command).first().copied().unwrap_or_default();
    first.rsplit('/').next().unwrap_or(first)
}

/// Returns a text as one word of shell.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=+:@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
