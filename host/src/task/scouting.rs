//! One question to one Scout, outside a task: the same component, checks and attempts as in one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::staff::{self, Incomplete, Staff};
use super::{preflight, signals};
use crate::audit::Audit;
use crate::component::builtin;
use crate::component::{self, ComponentHost, Kind, LoadedComponent};
use crate::config::{self, ConfigError, Root};
use crate::event::{Events, Milestone, ModelUsage};
use crate::exit::Exit;
use crate::model::{TimerPause, TokenLedger};
use crate::output::{Failure, Output};
use crate::registry::Member;
use crate::scout::query::{self, QueryEnd};
use crate::scout::{Grounded, Question, Scout};

/// For one attempt where no `agent.yaml` says otherwise; the default of `timeouts.scout_query`.
const WALL: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhichScout {
    A,
    B,
    /// One that the user approved.
    Named(String),
}

impl WhichScout {
    fn word(&self) -> &str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::Named(name) => name,
        }
    }

    fn milestone(&self) -> Option<Milestone> {
        match self {
            Self::A => Some(Milestone::QueryingScoutA),
            Self::B => Some(Milestone::QueryingScoutB),
            Self::Named(_) => None,
        }
    }

    /// What is asked when nobody asks anything.
    fn usual_question(&self) -> &'static str {
        match self {
            Self::A => "Map this repository: what is where, what depends on what, what is risky.",
            Self::B => "How is this repository built and tested, and what fails?",
            Self::Named(_) => "What can you say about this repository?",
        }
    }
}

/// The one that the user approved under this name.
fn approved<'m>(name: &str, members: &'m [Member]) -> Result<&'m Member, Failure> {
    let mut scouts =
        members.iter().filter(|member| member.kind == Kind::Scout && member.replaces.is_none());
    scouts.find(|member| member.name == *name).ok_or_else(|| {
        Failure::refused("scout_unknown", format!("no Scout `{name}` is approved here"))
            .hint("there are a and b; `act components` lists what else was approved")
    })
}

/// The Scout itself, not yet lent anything.
pub(super) fn loaded(which: &WhichScout, staff: &Staff<'_>) -> Result<LoadedComponent, Failure> {
    Ok(match which {
        WhichScout::A => staff.load_scout(builtin::SCOUT_A)?,
        WhichScout::B => staff.load_scout(builtin::SCOUT_B)?,
        WhichScout::Named(name) => staff.load_member(approved(name, staff.members)?, name)?,
    })
}

/// The Scout, and how its reports are judged.
fn found(which: &WhichScout, staff: &Staff<'_>) -> Result<(Arc<dyn Scout>, Grounded), Failure> {
    let check = Grounded::new(staff.view.clone());
    let component = loaded(which, staff)?;
    let WhichScout::Named(name) = which else { return Ok((staff.scout(component), check)) };
    let check = check
        .with(name, component.manifest.report.as_deref())
        .map_err(staff::failed("its report schema cannot be used"))?;
    Ok((staff.added_scout(component), check))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoutArgs {
    pub scout: WhichScout,
    pub question: Option<String>,
    pub repo: PathBuf,
    /// A failure to look into, already bounded.
    pub log: Option<String>,
}

/// What a Scout answered; `act scout --json` prints it as it is.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScoutAnswer {
    /// `a`, `b` or the name of an approved one.
    pub scout: String,
    /// Of the component that answered.
    pub sha256: String,
    pub question: String,
    /// One line.
    pub summary: String,
    /// The report, in the Scout's own schema.
    pub report: Value,
    pub tokens: std::collections::BTreeMap<String, ModelUsage>,
}

impl From<Incomplete> for Failure {
    fn from(error: Incomplete) -> Self {
        Self { exit: Exit::Infra, ..Self::refused("scout_incomplete", error.to_string()) }
    }
}

pub async fn scout(args: ScoutArgs, output: &Output) -> Result<ScoutAnswer, Failure> {
    let (root, wall, package) = place(&args)?;
    let registry = preflight::registry(Some(&root))?;
    let members = registry.members(&[])?;
    if let WhichScout::Named(name) = &args.scout {
        // Before a model is looked for.
        approved(name, &members)?;
    }
    let access = config::model_access(|name: &str| std::env::var(name).ok())?;
    let cancel = signals::cancelled_by_signals()?;
    let events = Events::new("", vec![output.progress_sink()]);
    let ledger = TokenLedger::default();
    let audit = audit(&args.repo, &root)?;
    registry.note(&audit)?;
    let staff = Staff {
        host: ComponentHost::new(component::cache_dir().as_deref())
            .below(registry.policy.ceiling.clone())
            .audited(audit.clone()),
        members: &members,
        model: Some(staff::model(&access, &ledger, &events)?),
        view: staff::view(&root)?,
        wall,
        events: &events,
    };
    let (scout, check) = found(&args.scout, &staff)?;
    let usual = || args.scout.usual_question().to_owned();
    let text = args.question.filter(|text| !text.trim().is_empty()).unwrap_or_else(usual);
    let log = args.log.map(|log| ("tail_log".to_owned(), log));
    let package = package.map(|package| ("package".to_owned(), package));
    let question = Question { text, context: log.into_iter().chain(package).collect() };
    if let Some(milestone) = args.scout.milestone() {
        events.emit(milestone.into());
    }
    let asked = query::ask(&*scout, &question, &check, &events, &TimerPause, &cancel).await;
    audit.settle()?;
    let raw = asked.map_err(|end| match end {
        QueryEnd::Cancelled => {
            Failure { exit: Exit::Cancelled, ..Failure::refused("cancelled", "cancelled") }
        }
        QueryEnd::Budget => {
            Failure { exit: Exit::Stuck, ..Failure::refused("budget", "the token budget is spent") }
        }
        QueryEnd::Failed(message) => {
            Failure { exit: Exit::Infra, ..Failure::refused("scout_failed", message) }
                .hint("`act doctor --model` looks at the model; `--verbose` shows every attempt")
        }
    })?;
    let summary = query::ReportCheck::check(&check, scout.name(), &raw).await.unwrap_or_default();
    Ok(ScoutAnswer {
        scout: args.scout.word().to_owned(),
        sha256: scout.sha256().to_owned(),
        question: question.text,
        summary,
        report: serde_json::from_str(&raw).unwrap_or_default(),
        tokens: ledger.by_role(),
    })
}

/// Also outside of every repository, where the artifacts may lie below the directory that is looked at.
pub(super) fn audit(start: &Path, root: &Path) -> Result<Audit, Failure> {
    let repo = config::find_root(start)?.map(|root| root.path);
    let desk = preflight::open_desk(&preflight::artifacts_for(repo.as_deref())?, root)?;
    Ok(desk.audit_here(root)?)
}

/// The repository, how long an attempt may take and the package in work. A broken `agent.yaml` is no reason
/// not to answer: this is how people find out about their repository.
pub(super) fn place(args: &ScoutArgs) -> Result<(PathBuf, Duration, Option<String>), ConfigError> {
    let root = match config::find_root(&args.repo)? {
        Some(Root { path, has_config: true }) => {
            if let Ok(config) = config::load(&path) {
                return Ok((config.root, config.scout_timeout, config.monorepo_package));
            }
            path
        }
        Some(Root { path, has_config: false }) => path,
        None => std::fs::canonicalize(&args.repo).map_err(|error| ConfigError::Directory {
            path: args.repo.clone(),
            reason: error.to_string(),
        })?,
    };
    Ok((root, WALL, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::schema;

    #[test]
    fn the_schema_of_an_answer_is_published() {
        // EVENT-8
        schema::holds::<ScoutAnswer>("scout");
    }
}
