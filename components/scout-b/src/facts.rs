//! The facts as they are printed: `scout b --facts`, schema version 1.

use crate::failure::Failure;
use serde::{Deserialize, Serialize};

/// A line of a file, from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Place {
    pub(crate) path: String,
    pub(crate) line: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Facts {
    pub(crate) schema_version: &'static str,
    pub(crate) scout: &'static str,
    /// The root's first, then by directory.
    pub(crate) projects: Vec<Project>,
    pub(crate) suggested_image: String,
    pub(crate) conflicts: Vec<Conflict>,
    /// Files that could not be understood.
    pub(crate) problems: Vec<Problem>,
    /// There is more than was looked at.
    pub(crate) truncated: bool,
    pub(crate) failure: Option<Failure>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Project {
    /// Directory in which its commands run; `.` for the repository's.
    pub(crate) root: String,
    pub(crate) system: System,
    pub(crate) package_manager: String,
    /// By its own name; the report has fewer words.
    pub(crate) framework: String,
    pub(crate) commands: Commands,
    pub(crate) prerequisites: Vec<Prerequisite>,
    pub(crate) has_tests: bool,
    /// The manifest that makes it a project.
    pub(crate) source: Place,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Commands {
    pub(crate) install: Option<Command>,
    pub(crate) build: Option<Command>,
    pub(crate) clean: Option<Command>,
    pub(crate) test: Option<Command>,
    pub(crate) unit: Option<Command>,
    pub(crate) integration: Option<Command>,
    pub(crate) coverage: Option<Command>,
}

/// A command and where it stands; for one that is a tool's custom, where the tool is declared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Command {
    pub(crate) command: String,
    pub(crate) source: Place,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Prerequisite {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) source: Place,
}

/// What two places of the repository say differently.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Conflict {
    pub(crate) topic: Topic,
    pub(crate) message: String,
    pub(crate) sources: Vec<Place>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Topic {
    PackageManager,
    Version,
    Command,
    Workspace,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Problem {
    pub(crate) path: String,
    pub(crate) line: Option<u32>,
    pub(crate) message: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum System {
    Cargo,
    Go,
    Npm,
    Yarn,
    Pnpm,
    Maven,
    Gradle,
    Make,
    #[default]
    Custom,
}

impl Facts {
    /// Without what stands at no place.
    pub(crate) fn keep(&mut self, there: impl Fn(&mut Place) -> bool) {
        self.projects.retain_mut(|project| there(&mut project.source));
        for project in &mut self.projects {
            project.prerequisites.retain_mut(|needed| there(&mut needed.source));
            for kind in Kind::ALL {
                let slot = project.commands.slot(kind);
                *slot = slot
                    .take()
                    .and_then(|mut command| there(&mut command.source).then_some(command));
            }
        }
        for conflict in &mut self.conflicts {
            conflict.sources.retain_mut(&there);
        }
    }
}

impl Commands {
    pub(crate) fn slot(&mut self, kind: Kind) -> &mut Option<Command> {
        match kind {
            Kind::Install => &mut self.install,
            Kind::Build => &mut self.build,
            Kind::Clean => &mut self.clean,
            Kind::Test => &mut self.test,
            Kind::Unit => &mut self.unit,
            Kind::Integration => &mut self.integration,
            Kind::Coverage => &mut self.coverage,
        }
    }
}

/// What a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Install,
    Build,
    Clean,
    Test,
    Unit,
    Integration,
    Coverage,
}

impl Kind {
    pub(crate) const ALL: [Self; 7] = [
        Self::Install,
        Self::Build,
        Self::Clean,
        Self::Test,
        Self::Unit,
        Self::Integration,
        Self::Coverage,
    ];

    /// It should fail when a test does.
    pub(crate) fn tests(self) -> bool {
        matches!(self, Self::Test | Self::Unit | Self::Integration | Self::Coverage)
    }

    /// What a task of that name is for, by custom; `test:unit`, `unit_tests` and `UnitTests` are one.
    pub(crate) fn of_task(name: &str) -> Option<Self> {
        let name = name.to_lowercase().replace(['_', ':', '.', ' '], "-");
        let has = |words: &[&str]| name.split('-').any(|part| words.contains(&part));
        match name.as_str() {
            "install" | "deps" | "setup" | "bootstrap" | "init" | "dependencies"
            | "install-deps" | "install-dev" | "dev-install" | "develop" => {
                return Some(Self::Install);
            }
            "build" | "all" | "compile" => return Some(Self::Build),
            "clean" | "distclean" => return Some(Self::Clean),
            "test" | "tests" | "check" | "test-all" | "run-tests" | "runtests" | "unittests" => {
                return Some(Self::Test);
            }
            _ => {}
        }
        let tests = has(&["test", "tests", "check"]);
        match () {
            () if has(&["watch", "update", "lint", "fix", "debug", "format", "types"]) => None,
            () if has(&["coverage", "cover", "cov"]) => Some(Self::Coverage),
            () if has(&["unit"]) => Some(Self::Unit),
            () if has(&["integration", "e2e", "it", "functional", "acceptance"])
                && (tests || name != "it") =>
            {
                Some(Self::Integration)
            }
            () => None,
        }
    }
}
