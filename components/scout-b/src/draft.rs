//! A project under construction: which sources offer a command for which purpose, and how reliable each source is.

use crate::facts::{Command, Commands, Kind, Location, Prerequisite, Project, System, slot};
use crate::version::Claim;
use act_kit::reports::commands::Family;

/// The source of a command, most reliable first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// The user's own pipeline in `agent.yaml`: it decides when a task is done.
    OwnPipeline,
    /// The manifest or its lock file.
    Declared,
    /// CI.
    Ci,
    /// README and similar documents.
    Documents,
    /// The tests that a build file declares, beside a Makefile whose target of that name may be any other.
    Configured,
    /// A target of a Makefile or justfile, a session of tox or nox.
    Task,
    /// The custom for manifests of this kind.
    Custom,
    /// A job of CI that is not about the tests of a change, such as a release or documents.
    Aside,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) kind: Kind,
    pub(crate) rank: Rank,
    /// Order within a rank, the lowest first.
    pub(crate) weight: u32,
    pub(crate) command: Command,
}

#[derive(Debug, Clone)]
pub(crate) struct Draft {
    /// `""` for the repository's root.
    pub(crate) root: String,
    pub(crate) system: System,
    pub(crate) family: Family,
    pub(crate) package_manager: String,
    pub(crate) framework: Option<String>,
    pub(crate) source: Location,
    pub(crate) offers: Vec<Offer>,
    pub(crate) prerequisites: Vec<Prerequisite>,
    /// Statements about versions of the language, for the image and for conflicts.
    pub(crate) claims: Vec<Claim>,
    pub(crate) has_tests: bool,
}

impl Draft {
    pub(crate) fn new(root: &str, system: System, family: Family, source: Location) -> Self {
        Self {
            root: root.to_owned(),
            system,
            family,
            package_manager: "none".to_owned(),
            framework: None,
            source,
            offers: vec![],
            prerequisites: vec![],
            claims: vec![],
            has_tests: false,
        }
    }

    pub(crate) fn offer(&mut self, kind: Kind, rank: Rank, command: &str, source: Location) {
        let command = Command { command: command.to_owned(), source, remark: None };
        self.offers.push(Offer { kind, rank, weight: 0, command });
    }

    /// Offers the command that is custom for the project's manifest.
    pub(crate) fn custom(&mut self, kind: Kind, command: &str) {
        self.offer(kind, Rank::Custom, command, self.source.clone());
    }

    pub(crate) fn needs(&mut self, name: &str, version: Option<&str>, source: Location) {
        self.prerequisites.push(Prerequisite {
            name: name.to_owned(),
            version: version.map(str::to_owned),
            source,
        });
    }

    /// Returns the project, with the first offer of the best rank for each kind of command.
    pub(crate) fn project(&self) -> Project {
        let mut commands = Commands::default();
        for kind in Kind::ALL {
            let best = self.offers.iter().filter(|offer| offer.kind == kind);
            let best = best.min_by_key(|offer| (offer.rank, offer.weight));
            *slot(kind, &mut commands) = best.map(|offer| offer.command.clone());
        }
        let mut prerequisites = self.prerequisites.clone();
        prerequisites.sort();
        prerequisites
            .dedup_by(|a, b| a.name == b.name && (a.version == b.version || a.version.is_none()));
        Project {
            root: if self.root.is_empty() { ".".to_owned() } else { self.root.clone() },
            system: self.system,
            package_manager: self.package_manager.clone(),
            framework: self.framework.clone().unwrap_or_else(|| "custom".to_owned()),
            commands,
            prerequisites,
            has_tests: self.has_tests,
            source: self.source.clone(),
        }
    }
}
