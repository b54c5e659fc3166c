//! One question to one Scout, outside a task: the same component, checks and attempts as in one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::audit::anchoring;
use super::capabilities::component_file;
use super::component_loader::{self, ComponentLoader, Incomplete};
use super::preflight::{self, AuditMode};
use super::secret_scan;
use super::signals;
use act_agent::scout::{self, Grounded, QueryEnd, Question, Scout};
use act_audit::{Audit, AuditError};
use act_component::builtin;
use act_component::registry::{Member, Refused, Registry};
use act_component::{ComponentHost, Kind, ScoutComponent};
use act_config::{ConfigError, ModelAccess, Root};
use act_core::Failure;
use act_core::event::{Events, Milestone, ModelUsage};
use act_core::exit::Exit;
use act_model::{TokenLedger, TokioTimer};
use act_workspace::digest;

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
    pub(super) fn word(&self) -> &str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::Named(name) => name,
        }
    }

    /// Under which it is asked.
    fn name(&self) -> &str {
        match self {
            Self::A => builtin::SCOUT_A.name,
            Self::B => builtin::SCOUT_B.name,
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

/// The Scout itself, not yet lent anything. That there is none of this name is a denial, and is recorded.
pub(super) fn loaded(
    which: &WhichScout,
    component_loader: &ComponentLoader<'_>,
    registry: &Registry,
    audit: &Audit,
) -> Result<ScoutComponent, Failure> {
    Ok(match which {
        WhichScout::A => component_loader.load_scout(builtin::SCOUT_A)?,
        WhichScout::B => component_loader.load_scout(builtin::SCOUT_B)?,
        WhichScout::Named(name) => {
            let member = registry.scout(name, component_loader.members).inspect_err(|refused| {
                // Refused it is in any case.
                let _ = Registry::record_refusal(audit, refused);
            })?;
            component_loader.load_member_scout(member, name)?
        }
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoutArgs {
    pub scout: WhichScout,
    pub question: Option<String>,
    pub repo: PathBuf,
    /// A failure to look into, already bounded.
    pub log: Option<String>,
    /// A component to ask in its place.
    pub with: Option<PathBuf>,
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
    pub tokens: BTreeMap<String, ModelUsage>,
}

impl From<Incomplete> for Failure {
    fn from(error: Incomplete) -> Self {
        Self { exit: Exit::Infra, ..Self::refused("scout_incomplete", error.to_string()) }
    }
}

pub async fn scout(args: ScoutArgs, events: &Events) -> Result<ScoutAnswer, Failure> {
    let inquiry = Inquiry::open(&args).await?;
    let other = args.with.as_deref().map(|file| inquiry.candidate(file)).transpose()?;
    let loaded_scout = inquiry.loaded_scout(&args.scout, other.as_ref(), events)?;
    let question = inquiry.question(&args);
    let asked = loaded_scout.ask(&question, &inquiry).await?;
    inquiry.anchor(events).await;
    let (summary, report) = match asked {
        Asked::Answered { summary, report } => (summary, report),
        Asked::Failed(failure) => return Err(failure),
        Asked::Cancelled => {
            let cancelled = Failure::refused("cancelled", "cancelled");
            return Err(Failure { exit: Exit::Cancelled, ..cancelled });
        }
    };
    Ok(ScoutAnswer {
        scout: args.scout.word().to_owned(),
        sha256: loaded_scout.sha256().to_owned(),
        question: question.text,
        summary,
        report,
        tokens: loaded_scout.tokens(),
    })
}

/// What a question to Scouts needs, whoever is asked.
pub(super) struct Inquiry {
    root: PathBuf,
    wall: Duration,
    package: Option<String>,
    registry: Registry,
    members: Vec<Member>,
    access: ModelAccess,
    cancel: CancellationToken,
    audit: Audit,
}

impl Inquiry {
    pub(super) async fn open(args: &ScoutArgs) -> Result<Self, Failure> {
        secret_scan::refuse("question", args.question.as_deref().unwrap_or_default())?;
        secret_scan::refuse("log", args.log.as_deref().unwrap_or_default())?;
        let (root, wall, package) = place(args)?;
        let requests = preflight::requests(&args.repo);
        let (registry, members) = preflight::admitted(&root, &requests, AuditMode::Refusals)?;
        if let WhichScout::Named(name) = &args.scout {
            // Before a model is looked for.
            registry.scout(name, &members).inspect_err(|refused| {
                preflight::tell(AuditMode::Refusals, &root, |audit| {
                    Registry::record_refusal(audit, refused)
                });
            })?;
        }
        let access = act_config::model_access(|name: &str| std::env::var(name).ok())?;
        let cancel = signals::cancelled_by_signals()?;
        let audit = audit(&args.repo, &root)?;
        let (registry, members) = preflight::admitted(&root, &requests, AuditMode::All(&audit))?;
        anchoring::first(registry.policy.require_anchor, &audit, &root, &cancel).await?;
        Ok(Self { root, wall, package, registry, members, access, cancel, audit })
    }

    /// What was done is on its way to another machine, where the user wants it there.
    pub(super) async fn anchor(&self, events: &Events) {
        anchoring::anchor(&self.audit, &self.root, &self.cancel, events).await;
    }

    /// A Scout of the user's choice, which was approved for here in the bytes of this file.
    pub(super) fn candidate(&self, file: &Path) -> Result<Member, Failure> {
        let bytes = component_file(file)?;
        let member = self.registry.member_of(file, &digest(&bytes)).and_then(|member| {
            let Member { name, sha256, kind, .. } = &member;
            match kind {
                Kind::Scout => Ok(member),
                Kind::Tool => {
                    let (name, sha256) = (name.clone(), sha256.clone());
                    Err(Refused::NotAScout { name, sha256 })
                }
            }
        });
        Ok(member.inspect_err(|refused| {
            // Refused it is in any case.
            let _ = Registry::record_refusal(&self.audit, refused);
        })?)
    }

    /// In the usual words where nobody asks anything.
    pub(super) fn question(&self, args: &ScoutArgs) -> Question {
        let asked = args.question.clone().filter(|text| !text.trim().is_empty());
        let text = asked.unwrap_or_else(|| args.scout.usual_question().to_owned());
        let log = args.log.clone().map(|log| ("tail_log".to_owned(), log));
        let package = self.package.clone().map(|package| ("package".to_owned(), package));
        Question { text, context: log.into_iter().chain(package).collect() }
    }

    /// The one in use, or `other` in its place and under its name; ready to be asked.
    pub(super) fn loaded_scout(
        &self,
        which: &WhichScout,
        other: Option<&Member>,
        events: &Events,
    ) -> Result<LoadedScout, Failure> {
        let ledger = TokenLedger::default();
        let component_loader = ComponentLoader {
            host: ComponentHost::new(act_component::cache_dir().as_deref())
                .below(self.registry.policy.ceiling.clone())
                .audited(self.audit.clone()),
            members: &self.members,
            model: Some(component_loader::model(&self.access, &ledger, events)?),
            view: component_loader::view(&self.root)?,
            wall: self.wall,
            events,
        };
        let component = match other {
            Some(member) => component_loader.load_member_scout(member, which.name())?,
            None => loaded(which, &component_loader, &self.registry, &self.audit)?,
        };
        let known_as = match other {
            Some(member) => member.name.clone(),
            None => component_loader.known_as(which.name()),
        };
        let check = Grounded::new(component_loader.view.clone());
        let (scout, check) = match which {
            WhichScout::A | WhichScout::B => (component_loader.scout(component), check),
            WhichScout::Named(name) => {
                let check = check.with(name, component.manifest.report.as_deref());
                let check =
                    check.map_err(component_loader::failed("its report schema cannot be used"))?;
                (component_loader.added_scout(component), check)
            }
        };
        let milestone = which.milestone();
        Ok(LoadedScout { known_as, scout, check, ledger, events: events.clone(), milestone })
    }
}

/// One Scout before its question.
pub(super) struct LoadedScout {
    /// The name of its approval, or its own where it was brought along.
    pub(super) known_as: String,
    scout: Arc<dyn Scout>,
    check: Grounded,
    ledger: TokenLedger,
    events: Events,
    milestone: Option<Milestone>,
}

/// How a question ended.
pub(super) enum Asked {
    Answered { summary: String, report: Value },
    Failed(Failure),
    Cancelled,
}

impl LoadedScout {
    pub(super) fn sha256(&self) -> &str {
        self.scout.sha256()
    }

    /// Digits that tell it from others here.
    pub(super) fn short_sha256(&self) -> &str {
        self.sha256().get(..12).unwrap_or_default()
    }

    pub(super) fn tokens(&self) -> BTreeMap<String, ModelUsage> {
        self.ledger.by_role()
    }

    /// In as many attempts as in a task. What it did is on the disk when this returns.
    pub(super) async fn ask(
        &self,
        question: &Question,
        inquiry: &Inquiry,
    ) -> Result<Asked, AuditError> {
        let Self { scout, check, events, .. } = self;
        if let Some(milestone) = self.milestone {
            events.emit(milestone.into());
        }
        let cancel = &inquiry.cancel;
        let asked = scout::ask(&**scout, question, check, events, &TokioTimer, cancel).await;
        inquiry.audit.settle()?;
        let raw = match asked {
            Ok(raw) => raw,
            Err(QueryEnd::Cancelled) => return Ok(Asked::Cancelled),
            Err(QueryEnd::Budget) => {
                let spent = Failure::refused("budget", "the token budget is spent");
                return Ok(Asked::Failed(Failure { exit: Exit::Stuck, ..spent }));
            }
            Err(QueryEnd::Failed(message)) => {
                let failed = Failure::refused("scout_failed", message).hint(
                    "`act doctor --model` looks at the model; `--verbose` shows every attempt",
                );
                return Ok(Asked::Failed(Failure { exit: Exit::Infra, ..failed }));
            }
        };
        let summary = scout::ReportCheck::check(check, scout.name(), &raw).await;
        let report = serde_json::from_str(&raw).unwrap_or_default();
        Ok(Asked::Answered { summary: summary.unwrap_or_default(), report })
    }
}

/// Also outside of every repository, where the artifacts may lie below the directory that is looked at.
pub(super) fn audit(start: &Path, root: &Path) -> Result<Audit, Failure> {
    let repo = act_config::find_root(start)?.map(|root| root.path);
    let context = preflight::open_context(&preflight::artifacts_for(repo.as_deref())?, root)?;
    Ok(context.audit_here(root)?)
}

/// The repository, how long an attempt may take and the package in work. A broken `agent.yaml` is no reason
/// not to answer: this is how people find out about their repository.
pub(super) fn place(args: &ScoutArgs) -> Result<(PathBuf, Duration, Option<String>), ConfigError> {
    let root = match act_config::find_root(&args.repo)? {
        Some(Root { path, has_config: true }) => {
            if let Ok(config) = act_config::load(&path) {
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
    use act_core::event::schema;

    #[test]
    fn the_schema_of_an_answer_is_published() {
        // EVENT-8
        schema::holds::<ScoutAnswer>("scout");
    }
}
