//! Topics of conflicts, and what keeps the facts true.

pub(crate) use act_kit::reports::commands::Kind;
pub(crate) use act_kit::reports::facts_b::{
    Command, Commands, Conflict, FactsB, Location, Pipeline, PipelineStep, Prerequisite, Problem,
    Project,
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
    if let Some(pipeline) = &mut facts.pipeline {
        pipeline.steps.retain_mut(|step| exists(&mut step.source));
    }
    facts.projects.retain_mut(|project| exists(&mut project.source));
    for project in &mut facts.projects {
        project.prerequisites.retain_mut(|needed| exists(&mut needed.source));
        for kind in Kind::ALL {
            let slot = slot(kind, &mut project.commands);
            *slot =
                slot.take().and_then(|mut command| exists(&mut command.source).then_some(command));
        }
    }
    for conflict in &mut facts.conflicts {
        conflict.sources.retain_mut(&exists);
    }
}

/// Returns the command of a kind.
pub(crate) fn slot(kind: Kind, commands: &mut Commands) -> &mut Option<Command> {
    match kind {
        Kind::Install => &mut commands.install,
        Kind::Build => &mut commands.build,
        Kind::Clean => &mut commands.clean,
        Kind::Test => &mut commands.test,
        Kind::Unit => &mut commands.unit,
        Kind::Integration => &mut commands.integration,
        Kind::Coverage => &mut commands.coverage,
    }
}
