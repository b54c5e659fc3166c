//! Computes the facts: reads every source, assigns each command to its project, and lists conflicts.

use crate::ci::{self, Ci};
use crate::conflicts;
use crate::documents;
use crate::draft::{Draft, Offer, Rank};
use crate::ecosystem::{node, python};
use crate::facts::{self, Command, FactsB, Kind, Location, System};
use crate::images::{self, Docker};
use crate::own_pipeline::{self, OwnPipeline};
use crate::projects;
use crate::statement::Statement;
use crate::tasks;
use crate::tree::{Tree, location};
use act_kit::inventory::is_test;
use act_kit::reports::commands::{Family, ParsedCommand, unset_variable};
use act_kit::reports::version::SCHEMA_VERSION;
use std::ops::RangeInclusive;

/// Maximum number of conflicts that are listed.
const CONFLICTS: usize = 40;

/// Everything that was read.
pub(crate) struct Survey {
    pub(crate) drafts: Vec<Draft>,
    pub(crate) statements: Vec<Statement>,
    pub(crate) ci: Ci,
    pub(crate) docker: Docker,
    pub(crate) own_pipeline: OwnPipeline,
}

pub(crate) fn facts(tree: &Tree<'_>) -> (FactsB, Survey) {
    let found = projects::find(tree);
    let mut ci = ci::read(tree);
    let mut statements = std::mem::take(&mut ci.statements);
    statements.extend(documents::read(tree));
    let mut docker = images::docker(tree);
    statements.append(&mut docker.statements);
    let own_pipeline = own_pipeline::read(tree);
    let mut survey = Survey { drafts: found.drafts, statements, ci, docker, own_pipeline };
    let mut conflicts = found.conflicts;
    if survey.drafts.is_empty() {
        survey.drafts.extend(python::scripts(tree).or_else(|| bare(tree, &survey)));
    }
    survey.offer(tree);
    conflicts.extend(conflicts::all(tree, &survey));
    facts::sort(&mut conflicts);
    conflicts.dedup_by(|a, b| a.message == b.message);
    let truncated = found.truncated || tree.inventory.truncated || conflicts.len() > CONFLICTS;
    conflicts.truncate(CONFLICTS);
    let suggested_image = images::suggested(
        survey.own_pipeline.image.clone(),
        survey.main(),
        &survey.ci.images,
        &survey.docker.images,
    );
    let mut facts = FactsB {
        schema_version: SCHEMA_VERSION.to_owned(),
        scout: "b".to_owned(),
        pipeline: survey.own_pipeline.steps.clone(),
        projects: survey.drafts.iter().map(Draft::project).collect(),
        suggested_image,
        conflicts,
        problems: tree.problems(),
        truncated,
        failure: None,
    };
    facts::keep_existing(&mut facts, |location| tree.settled(location));
    (facts, survey)
}

/// Returns a project for a repository without manifests that documents or CI say how to test.
fn bare(tree: &Tree<'_>, survey: &Survey) -> Option<Draft> {
    let at_root = survey.statements.iter().filter(|statement| statement.directory.is_empty());
    let mut usable = at_root.filter(|statement| {
        statement.parsed.kind.is_some() && conflicts::missing(tree, statement).is_none()
    });
    let source = usable.next().map(|statement| statement.location.clone());
    let own = survey.own_pipeline.offers().into_iter().next().map(|offer| offer.command.source);
    let source = source.or(own)?;
    let mut draft = Draft::new("", System::Custom, Family::Any, source);
    draft.has_tests = tree.inventory.paths().any(is_test);
    Some(draft)
}

impl Survey {
    /// Returns the project that a verification would start with: the first with tests and a command for them.
    fn main(&self) -> Option<&Draft> {
        let tested = |draft: &&Draft| draft.offers.iter().any(|offer| offer.kind == Kind::Test);
        let mut usable = self.drafts.iter().filter(tested);
        let chosen = usable.clone().find(|draft| draft.has_tests).or_else(|| usable.next());
        chosen.or(self.drafts.first())
    }

    fn offer(&mut self, tree: &Tree<'_>) {
        for at in 0..self.drafts.len() {
            let first = self.is_first(at);
            let draft = &self.drafts[at];
            let mut offers = Vec::new();
            for statement in &self.statements {
                let fits = statement.directory == draft.root
                    && (statement.parsed.family == draft.family
                        || draft.family == Family::Any
                        || (statement.parsed.family == Family::Any && first));
                if fits && let Some(offer) = offered(tree, statement, draft) {
                    offers.push(offer);
                }
            }
            if self.own_pipeline.root == draft.root && first {
                offers.extend(self.own_pipeline.offers());
            }
            let framework = self.framework(draft);
            let here = self.drafts.iter().filter(|other| other.root == draft.root);
            let families = here.map(|other| other.family).collect::<Vec<_>>();
            let draft = &mut self.drafts[at];
            draft.framework = draft.framework.take().or(framework);
            draft.offers.extend(offers);
            if first {
                tasks::offer(tree, draft, &families);
            }
            if draft.root.is_empty() && first {
                draft.prerequisites.extend(self.ci.prerequisites.iter().cloned());
                draft.prerequisites.extend(self.docker.prerequisites.iter().cloned());
            }
        }
        self.test_members(tree);
        for draft in &mut self.drafts {
            build_as_tested(draft);
            uses_make(draft);
        }
    }

    /// Offers the command that tests every package of a workspace of Node, where the root has no test of its own and a
    /// package has one. A framework among the root's dependencies is often there for the packages, so the scripts of these
    /// come before its custom.
    fn test_members(&mut self, tree: &Tree<'_>) {
        let tested = |draft: &Draft| draft.offers.iter().any(|offer| offer.kind == Kind::Test);
        let named = |draft: &Draft, ranks: RangeInclusive<Rank>| {
            let fits = |offer: &Offer| offer.kind == Kind::Test && ranks.contains(&offer.rank);
            draft.offers.iter().any(fits)
        };
        let berry = |draft: &Draft| {
            draft.offers.iter().any(|offer| offer.command.command.ends_with("--immutable"))
        };
        let offers = self.drafts.iter().enumerate().filter_map(|(at, draft)| {
            let source =
                node::workspace(tree, &draft.root).filter(|_| draft.family == Family::Node)?;
            let below = |other: &&Draft| {
                let inside =
                    draft.root.is_empty() || other.root.starts_with(&format!("{}/", draft.root));
                other.family == Family::Node && other.root != draft.root && inside
            };
            let mut members = self.drafts.iter().filter(below).peekable();
            let by_custom = tested(draft) && !named(draft, Rank::OwnPipeline..=Rank::Task);
            let tested = |member: &Draft| match by_custom {
                true => named(member, Rank::Declared..=Rank::Declared),
                false => tested(member),
            };
            // The first version of yarn fails at a package without the script.
            let all = draft.package_manager == "yarn" && !berry(draft);
            let any = match all {
                true => members.peek().is_some() && members.all(tested),
                false => members.any(tested),
            };
            let own = named(draft, Rank::OwnPipeline..=Rank::Task);
            (any && !own).then_some((at, source))
        });
        for (at, source) in offers.collect::<Vec<_>>() {
            let Some(draft) = self.drafts.get_mut(at) else { continue };
            let command = match draft.package_manager.as_str() {
                "npm" => "npm run test --workspaces --if-present",
                "pnpm" => "pnpm -r run test",
                "yarn" if berry(draft) => "yarn workspaces foreach --all --topological run test",
                "yarn" => "yarn workspaces run test",
                _ => continue,
            };
            draft.offers.retain(|offer| offer.kind != Kind::Test || offer.rank != Rank::Custom);
            draft.offer(Kind::Test, Rank::Custom, command, source);
        }
    }

    /// Returns whether a project is the first of its directory.
    fn is_first(&self, at: usize) -> bool {
        let root = &self.drafts[at].root;
        self.drafts.iter().position(|draft| draft.root == *root) == Some(at)
    }

    /// Finds the framework by the commands that test, when no manifest names it.
    fn framework(&self, draft: &Draft) -> Option<String> {
        let here = self.statements.iter().filter(|statement| statement.directory == draft.root);
        let tests = here
            .filter(|statement| matches!(statement.parsed.kind, Some(Kind::Test | Kind::Coverage)));
        let mut named = tests.filter(|statement| statement.parsed.family == draft.family);
        named.find_map(|statement| known(&statement.parsed.program)).map(str::to_owned)
    }
}

fn known(program: &str) -> Option<&'static str> {
    ["pytest", "unittest", "jest", "vitest", "mocha"].into_iter().find(|name| *name == program)
}

/// Offers a command if it is complete and what it needs exists.
fn offered(tree: &Tree<'_>, statement: &Statement, draft: &Draft) -> Option<Offer> {
    let parsed = &statement.parsed;
    let kind = parsed.kind?;
    let usable = || {
        conflicts::missing(tree, statement).is_none()
            && !conflicts::gone(tree, statement)
            && !conflicts::unfit(tree, statement)
    };
    let unset = unset_variable(&parsed.command).is_some();
    if parsed.narrow || docker_only(statement) || unset || !usable() {
        return None;
    }
    // A lock file or manifest is more reliable about installing. Another manager's command is a conflict, not an offer.
    let foreign = conflicts::manager(&parsed.command)
        .is_some_and(|manager| manager != draft.package_manager && draft.package_manager != "pip");
    let command = Command {
        command: in_environment(draft, parsed),
        source: statement.location.clone(),
        remark: None,
    };
    let aside = statement.rank == Rank::Ci && statement.weight >= ci::ASIDE;
    (!foreign).then(|| Offer {
        kind,
        rank: if aside { Rank::Aside } else { statement.rank },
        weight: statement.weight + special(parsed),
        command,
    })
}

/// Returns how far a test command is from the plain one. Each property, feature or variable that it sets makes it a variant,
/// which is farther than the plain command on another platform; a check may check the style as well.
fn special(parsed: &ParsedCommand) -> u32 {
    let variant = |word: &&str| {
        word.starts_with("-P")
            || word.starts_with("-D")
            || ["--no-default-features", "--release", "--features", "--profile"].contains(word)
            || ["-short", "--short"].contains(word)
            || word.split_once('=').is_some_and(|(name, _)| {
                let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
                !name.is_empty() && name.bytes().all(plain)
            })
    };
    let variants = parsed.command.split_whitespace().filter(variant).take(8).count();
    let task = parsed.command.rsplit(['/', ' ', ':']).next().unwrap_or_default();
    let check = ["check", "check.sh", "verify", "ci"].contains(&task);
    u32::try_from(variants).unwrap_or(8) * ci::ASIDE + u32::from(check)
}

/// Returns the command as the project's manager runs it. A lock file names an environment in which a bare `pytest` is not.
fn in_environment(draft: &Draft, parsed: &ParsedCommand) -> String {
    let prefix = match draft.package_manager.as_str() {
        manager @ ("uv" | "poetry" | "pdm" | "pipenv") if draft.family == Family::Python => manager,
        _ => return parsed.command.clone(),
    };
    let bare = ["pytest ", "py.test ", "python ", "python3 ", "unittest "];
    let spaced = format!("{} ", parsed.command);
    let tests = parsed.kind.is_some_and(Kind::tests);
    match tests && bare.iter().any(|program| spaced.starts_with(program)) {
        true => format!("{prefix} run {}", parsed.command),
        false => parsed.command.clone(),
    }
}

/// Drops builds that do not make what the tests need: ctest needs the directory that CMake built, and a Makefile of Autotools
/// is made by `configure`.
fn build_as_tested(draft: &mut Draft) {
    let commands = draft.project().commands;
    let ctest = commands.test.is_some_and(|test| test.command.starts_with("ctest "));
    let customs = |offer: &&Offer| offer.kind == Kind::Build && offer.rank == Rank::Custom;
    let custom = draft.offers.iter().find(customs).map(|offer| offer.command.command.clone());
    let needed = match custom {
        _ if ctest => "cmake",
        Some(custom) if custom.contains("configure") => "configure",
        _ => return,
    };
    draft.offers.retain(|offer| {
        let own = offer.rank == Rank::OwnPipeline || offer.command.command.contains(needed);
        own || offer.kind != Kind::Build && (offer.kind != Kind::Clean || needed != "cmake")
    });
}

/// Commands of a Dockerfile prepare an image. They are compared for conflicts, but not recommended.
fn docker_only(statement: &Statement) -> bool {
    let name = act_kit::inventory::name(&statement.location.path);
    name.contains("Dockerfile")
}

/// Adds make as a prerequisite when a command runs it.
fn uses_make(draft: &mut Draft) {
    let best = draft.project().commands;
    let all = [best.install, best.build, best.test, best.unit, best.integration];
    for tool in ["make", "just", "tox", "nox"] {
        let using = all.iter().flatten().find(|command| {
            command.command == tool || command.command.starts_with(&format!("{tool} "))
        });
        if let Some(command) = using
            && !draft.prerequisites.iter().any(|needed| needed.name == tool)
        {
            let Location { path, line } = &command.source;
            draft.needs(tool, None, location(path, *line));
        }
    }
}
