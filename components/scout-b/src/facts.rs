//! Kinds of commands and topics of conflicts, and what keeps the facts true.

pub(crate) use act_kit::reports::facts_b::{
    Command, Commands, Conflict, FactsB, Location, Prerequisite, Problem, Project,
};
pub(crate) use act_kit::reports::report_b::System;

/// The subject of a contradiction between two locations of the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    PackageManager,
    Version,
    Command,
    Workspace,
}

impl Topic {
    /// In the order in which the facts list conflicts.
    const ALL: [Self; 4] = [Self::PackageManager, Self::Version, Self::Command, Self::Workspace];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::PackageManager => "package_manager",
            Self::Version => "version",
            Self::Command => "command",
            Self::Workspace => "workspace",
        }
    }
}

/// Sorts conflicts by topic, then by message.
pub(crate) fn sort(conflicts: &mut [Conflict]) {
    let topic = |conflict: &Conflict| {
        Topic::ALL.into_iter().position(|topic| topic.word() == conflict.topic)
    };
    conflicts.sort_by(|a, b| {
        (topic(a), &a.message, &a.sources).cmp(&(topic(b), &b.message, &b.sources))
    });
}

/// Drops every part of the facts whose location does not exist.
pub(crate) fn keep_existing(facts: &mut FactsB, exists: impl Fn(&mut Location) -> bool) {
    facts.projects.retain_mut(|project| exists(&mut project.source));
    for project in &mut facts.projects {
        project.prerequisites.retain_mut(|needed| exists(&mut needed.source));
        for kind in Kind::ALL {
            let slot = kind.slot(&mut project.commands);
            *slot =
                slot.take().and_then(|mut command| exists(&mut command.source).then_some(command));
        }
    }
    for conflict in &mut facts.conflicts {
        conflict.sources.retain_mut(&exists);
    }
}

/// The purpose of a command.
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

    /// Returns the command of this kind.
    pub(crate) fn slot(self, commands: &mut Commands) -> &mut Option<Command> {
        match self {
            Self::Install => &mut commands.install,
            Self::Build => &mut commands.build,
            Self::Clean => &mut commands.clean,
            Self::Test => &mut commands.test,
            Self::Unit => &mut commands.unit,
            Self::Integration => &mut commands.integration,
            Self::Coverage => &mut commands.coverage,
        }
    }

    /// Returns whether the command has to fail when a test fails.
    pub(crate) fn tests(self) -> bool {
        matches!(self, Self::Test | Self::Unit | Self::Integration | Self::Coverage)
    }

    /// Returns what a task of that name does by custom. `test:unit`, `unit_tests` and `UnitTests` are the same.
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
