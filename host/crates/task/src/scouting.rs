//! `act scout`: one question to a Scout outside of a task, its facts without a model, and the comparison of two Scouts. The
//! components, the checks and the attempts are those of a task.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::audit::anchor;
use crate::capabilities::component_file;
use crate::prepare::{AuditMode, ComponentLoader, Incomplete};
use crate::{prepare, run};
use act_agent::scout::difference::{Difference, differences};
use act_agent::scout::{
    self, Grounded, Lines, OwnReport, QueryEnd, Question, Scout, check_facts, checked_facts_a,
    excerpts,
};
use act_audit::{Audit, AuditError};
use act_component::registry::{Member, Refused, Registry};
use act_component::{
    ComponentFailure, ComponentHost, Kind, ScoutComponent, ScoutQuestion, builtin,
};
use act_config::{ConfigError, DeadlineSettings, ModelAccess, Root, UserSettings};
use act_core::event::{Event, EventKind, Events, Milestone, ModelUsage, Sink};
use act_core::exit::Exit;
use act_core::{Document, Failure, Usd};
use act_model::{Budget, Deadlines, Price, TokenLedger, TokioTimer};
use act_workspace::digest;

/// Time limit outside of a configured repository; the default of `timeouts.scout_query`.
const WALL: Duration = Duration::from_secs(60);

/// The Scout that is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhichScout {
    A,
    B,
    /// A Scout that the user approved under this name.
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

    /// Returns the name of the component.
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

    /// Returns the question for a user who typed none.
    fn usual_question(&self) -> &'static str {
        match self {
            Self::A => "Map this repository: what is where, what depends on what, what is risky.",
            Self::B => "How is this repository built and tested, and what fails?",
            Self::Named(_) => "What can you say about this repository?",
        }
    }
}

/// Loads a Scout, without services. A name that was not approved is recorded as a refusal.
///
/// # Errors
///
/// The Scout was not approved or cannot be loaded.
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
                // The request is refused even if the refusal cannot be recorded.
                let _ = Registry::record_refusal(audit, refused);
            })?;
            component_loader.load_member_scout(member, name)?
        }
    })
}

/// The arguments of one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoutArgs {
    pub scout: WhichScout,
    pub question: Option<String>,
    pub repo: PathBuf,
    /// The log of a failure that the Scout should explain, cut to its limit.
    pub log: Option<String>,
    /// The file of an approved component that is asked in place of the Scout.
    pub with: Option<PathBuf>,
}

/// The answer of a Scout: the document of `act scout --json`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ScoutAnswer {
    /// `a`, `b` or the name of an approved Scout.
    pub scout: String,
    /// SHA-256 of the component that answered.
    pub sha256: String,
    pub question: String,
    /// The summary in one line.
    pub summary: String,
    /// The report, in the Scout's own schema.
    pub report: Value,
    /// Why the report is made of facts alone although a model was asked; null when it is not.
    pub warning: Option<String>,
    pub tokens: BTreeMap<String, ModelUsage>,
    /// What the requests cost, in US dollars; null where that is not known.
    pub cost_usd: Option<Usd>,
}

impl Document for ScoutAnswer {
    const NAME: &'static str = "scout";
}

impl From<Incomplete> for Failure {
    fn from(error: Incomplete) -> Self {
        Self { exit: Exit::Infra, ..Self::refused("scout_incomplete", error.to_string()) }
    }
}

/// Asks one Scout one question. Returns the checked report.
///
/// # Errors
///
/// The Scout cannot be loaded (exit 1 or 4), gave no report that holds (`scout_failed`, exit 4), or the command was
/// cancelled (exit 130).
pub async fn scout(args: ScoutArgs, events: &Events) -> Result<ScoutAnswer, Failure> {
    let inquiry = Inquiry::open(&args).await?;
    let other = args.with.as_deref().map(|file| inquiry.candidate(file)).transpose()?;
    let loaded_scout = inquiry.loaded_scout(&args.scout, other.as_ref(), events)?;
    let question = inquiry.question(&args);
    let asked = loaded_scout.ask(&question, &inquiry).await?;
    inquiry.anchor(events).await;
    let (summary, report, warning) = match asked {
        QuestionResult::Answered { summary, report, warning } => (summary, report, warning),
        QuestionResult::Failed(failure) => return Err(failure),
        QuestionResult::Cancelled => {
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
        warning,
        tokens: loaded_scout.tokens(),
        cost_usd: loaded_scout.cost(),
    })
}

/// Everything that questions to Scouts of one repository need.
pub(super) struct Inquiry {
    root: PathBuf,
    wall: Duration,
    package: Option<String>,
    registry: Registry,
    members: Vec<Member>,
    access: ModelAccess,
    /// The price of the model, if it is known.
    price: Option<Price>,
    deadlines: Deadlines,
    cancel: CancellationToken,
    audit: Audit,
}

impl Inquiry {
    pub(super) async fn open(args: &ScoutArgs) -> Result<Self, Failure> {
        prepare::refuse_keys("question", args.question.as_deref().unwrap_or_default())?;
        prepare::refuse_keys("log", args.log.as_deref().unwrap_or_default())?;
        let Target { root, wall, package, model_timeouts, user } = target(&args.repo)?;
        let requests = prepare::requests(&args.repo);
        let (registry, members) = prepare::admitted(&root, &requests, AuditMode::Refusals)?;
        if let WhichScout::Named(name) = &args.scout {
            // An unknown name is refused before a model is required.
            registry.scout(name, &members).inspect_err(|refused| {
                prepare::record_refusal(AuditMode::Refusals, &root, |audit| {
                    Registry::record_refusal(audit, refused)
                });
            })?;
        }
        let access = prepare::model_access(&user)?;
        let deadlines = user.deadlines(&access, model_timeouts);
        let price = user.price(&access).map(|priced| priced.price);
        // Again, because the settings have a key as well.
        prepare::refuse_keys("question", args.question.as_deref().unwrap_or_default())?;
        prepare::refuse_keys("log", args.log.as_deref().unwrap_or_default())?;
        let cancel = run::cancelled_by_signals()?;
        let audit = audit(&args.repo, &root)?;
        let (registry, members) = prepare::admitted(&root, &requests, AuditMode::All(&audit))?;
        anchor::first(registry.policy.require_anchor, &audit, &root, &cancel).await?;
        Ok(Self { root, wall, package, registry, members, access, price, deadlines, cancel, audit })
    }

    /// Sends the head of the audit log to another machine, if the user has a command for it.
    pub(super) async fn anchor(&self, events: &Events) {
        anchor::anchor(&self.audit, &self.root, &self.cancel, events).await;
    }

    /// Returns the approved Scout whose bytes are in this file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, its bytes were not approved, or it is not a Scout.
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
            // The request is refused even if the refusal cannot be recorded.
            let _ = Registry::record_refusal(&self.audit, refused);
        })?)
    }

    /// Returns the user's question, or the usual one.
    pub(super) fn question(&self, args: &ScoutArgs) -> Question {
        let asked = args.question.clone().filter(|text| !text.trim().is_empty());
        let text = asked.unwrap_or_else(|| args.scout.usual_question().to_owned());
        let log = args.log.clone().map(|log| ("tail_log".to_owned(), log));
        let package = self.package.clone().map(|package| ("package".to_owned(), package));
        let context = log.into_iter().chain(package).collect();
        Question { text, context, facts_only: false }
    }

    /// Loads the Scout that a task would use, or `other` in its place and under its name.
    ///
    /// # Errors
    ///
    /// The component, the model client or the repository cannot be loaded.
    pub(super) fn loaded_scout(
        &self,
        which: &WhichScout,
        other: Option<&Member>,
        events: &Events,
    ) -> Result<LoadedScout, Failure> {
        let ledger = TokenLedger::with(Budget { price: self.price, ..Budget::default() });
        let component_loader = ComponentLoader {
            host: ComponentHost::new(act_component::cache_dir().as_deref())
                .below(self.registry.policy.ceiling.clone())
                .audited(self.audit.clone()),
            members: &self.members,
            model: Some(prepare::connect_model(&self.access, self.deadlines, &ledger, events)?),
            view: prepare::view(&self.root)?,
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
                let check = check.map_err(prepare::failed("its report schema cannot be used"))?;
                (component_loader.added_scout(component), check)
            }
        };
        let milestone = which.milestone();
        Ok(LoadedScout { known_as, scout, check, ledger, events: events.clone(), milestone })
    }
}

/// A Scout that is ready to be asked.
pub(super) struct LoadedScout {
    /// The name under which the component was approved, or its own name if it is built in.
    pub(super) known_as: String,
    scout: Arc<dyn Scout>,
    check: Grounded,
    ledger: TokenLedger,
    events: Events,
    milestone: Option<Milestone>,
}

/// The result of a question.
pub(super) enum QuestionResult {
    /// `warning` says why a report is made of facts alone although a model was asked.
    Answered {
        summary: String,
        report: Value,
        warning: Option<String>,
    },
    Failed(Failure),
    Cancelled,
}

impl LoadedScout {
    pub(super) fn sha256(&self) -> &str {
        self.scout.sha256()
    }

    /// Returns the first digits of the digest, enough to tell two Scouts apart.
    pub(super) fn short_sha256(&self) -> &str {
        self.sha256().get(..12).unwrap_or_default()
    }

    pub(super) fn tokens(&self) -> BTreeMap<String, ModelUsage> {
        self.ledger.by_role()
    }

    pub(super) fn cost(&self) -> Option<Usd> {
        self.ledger.cost()
    }

    /// Asks the Scout, with as many attempts as in a task. The audit records are on the disk when this returns.
    ///
    /// # Errors
    ///
    /// The audit log cannot be written.
    pub(super) async fn ask(
        &self,
        question: &Question,
        inquiry: &Inquiry,
    ) -> Result<QuestionResult, AuditError> {
        let Self { scout, check, events, .. } = self;
        if let Some(milestone) = self.milestone {
            events.emit(milestone.into());
        }
        let cancel = &inquiry.cancel;
        let asked = scout::ask(&**scout, question, check, events, &TokioTimer, cancel).await;
        inquiry.audit.settle()?;
        let (raw, warning) = match asked {
            Ok(report) => (report.json, report.warning),
            Err(QueryEnd::Cancelled) => return Ok(QuestionResult::Cancelled),
            Err(QueryEnd::Budget) => {
                let spent = Failure::refused("budget", "the token budget is spent");
                return Ok(QuestionResult::Failed(Failure { exit: Exit::Stuck, ..spent }));
            }
            Err(QueryEnd::Failed { message, hint }) => {
                let failed = Failure::refused("scout_failed", message).hint(hint);
                return Ok(QuestionResult::Failed(Failure { exit: Exit::Infra, ..failed }));
            }
        };
        let summary = scout::ReportCheck::check(check, scout.name(), &raw).await;
        let report = serde_json::from_str(&raw).unwrap_or_default();
        Ok(QuestionResult::Answered { summary: summary.unwrap_or_default(), report, warning })
    }
}

/// Returns the audit log for questions about `root`. Outside of a repository the artifacts may lie below `root`.
///
/// # Errors
///
/// The store or the log cannot be used.
pub(super) fn audit(start: &Path, root: &Path) -> Result<Audit, Failure> {
    let repo = act_config::find_root(start)?.map(|root| root.path);
    let context = prepare::open_context(&prepare::artifacts_for(repo.as_deref())?, root)?;
    Ok(context.audit_here(root)?)
}

/// The repository of a question or a call, and the settings that hold for it.
pub(super) struct Target {
    pub(super) root: PathBuf,
    /// The time limit of one attempt.
    pub(super) wall: Duration,
    package: Option<String>,
    pub(super) model_timeouts: DeadlineSettings,
    pub(super) user: UserSettings,
}

/// Returns the repository of a question or a call with its settings. A broken `agent.yaml` is no error, because this command helps
/// users to find out about their repository.
///
/// # Errors
///
/// The directory cannot be read, or `config.toml` cannot be used.
pub(super) fn target(repo: &Path) -> Result<Target, Failure> {
    let (root, config) = match act_config::find_root(repo)? {
        Some(Root { path, has_config: true }) => {
            let config = act_config::load(&path).ok();
            (path, config)
        }
        Some(Root { path, has_config: false }) => (path, None),
        None => {
            let unusable = |error: std::io::Error| ConfigError::Directory {
                path: repo.to_owned(),
                reason: error.to_string(),
            };
            (std::fs::canonicalize(repo).map_err(unusable)?, None)
        }
    };
    let user = UserSettings::read(Some(&root))?;
    let wall = config.as_ref().map_or(WALL, |config| config.scout_timeout);
    let wall = user.ceiling.scout_timeout.map_or(wall, |most| wall.min(most));
    let model_timeouts = config.as_ref().map(|config| config.model_timeouts).unwrap_or_default();
    let package = config.and_then(|config| config.monorepo_package);
    Ok(Target { root, wall, package, model_timeouts, user })
}

/// The facts that a Scout computed; `act scout --facts --json` prints `document` alone.
#[derive(Debug, Clone)]
pub struct ScoutFacts {
    /// The summary in one line.
    pub summary: String,
    /// The facts, in the Scout's own schema.
    pub document: Value,
    /// The lines that facts of Scout A name, as the files are now. Empty for another Scout.
    pub excerpts: Vec<Lines>,
}

/// Returns the facts that a Scout computes without a model: one query, without attempts and conversation.
///
/// # Errors
///
/// The Scout cannot be loaded, or its facts do not hold (`scout_failed`, exit 4).
pub async fn facts(args: ScoutArgs, events: &Events) -> Result<ScoutFacts, Failure> {
    let Target { root, wall, package, .. } = target(&args.repo)?;
    let cancel = run::cancelled_by_signals()?;
    let audit = audit(&args.repo, &root)?;
    let requests = prepare::requests(&args.repo);
    let (registry, members) = prepare::admitted(&root, &requests, AuditMode::All(&audit))?;
    let component_loader = ComponentLoader {
        host: ComponentHost::new(act_component::cache_dir().as_deref())
            .below(registry.policy.ceiling.clone())
            .audited(audit.clone()),
        members: &members,
        model: None,
        view: prepare::view(&root)?,
        wall,
        events,
    };
    anchor::first(registry.policy.require_anchor, &audit, &root, &cancel).await?;
    let scout = loaded(&args.scout, &component_loader, &registry, &audit)?;
    let log = args.log.map(|log| ("tail_log".to_owned(), log));
    let package = package.map(|package| ("package".to_owned(), package));
    let question = ScoutQuestion {
        text: args.question.unwrap_or_default().trim().to_owned(),
        context: log.into_iter().chain(package).collect(),
        facts_only: true,
    };
    let name = scout.manifest.name.clone();
    let own = OwnReport::new(scout.manifest.report.as_deref())
        .map_err(|why| broken(format!("its schema cannot be used: {why}")))?;
    let asked = scout.ask(question, component_loader.services(&name), wall, &cancel).await;
    audit.settle()?;
    anchor::anchor(&audit, &root, &cancel, events).await;
    let (raw, view) = (asked.map_err(failed)?, component_loader.view);
    let raw: Arc<str> = raw.into();
    let text = Arc::clone(&raw);
    // A document of half a megabyte is parsed while the files that it names are looked at.
    let document = tokio::task::spawn_blocking(move || serde_json::from_str(&text));
    let checked = tokio::task::spawn_blocking(move || {
        let (summary, excerpts) = match name.as_str() {
            "scout-a" => {
                let facts = checked_facts_a(&raw, &view)?;
                (facts.summary(), excerpts(&facts, &view))
            }
            name => (check_facts(name, &raw, &own, &view)?, vec![]),
        };
        Ok((summary, excerpts))
    });
    let died = |_| "the check itself failed; please report it".to_owned();
    let checked: Result<_, String> = checked.await.map_err(died).flatten();
    let document = document.await.map_err(died);
    let document = document.and_then(|parsed| parsed.map_err(|error| error.to_string()));
    let facts = checked
        .and_then(|(summary, excerpts)| Ok(ScoutFacts { summary, document: document?, excerpts }));
    facts.map_err(|wrong| broken(format!("the facts do not hold: {wrong}")))
}

fn failed(failure: ComponentFailure) -> Failure {
    match failure {
        ComponentFailure::Cancelled => {
            Failure { exit: Exit::Cancelled, ..Failure::refused("cancelled", "cancelled") }
        }
        failure => {
            let told = Failure::refused("scout_failed", failure.to_string()).hint(failure.hint());
            Failure { exit: Exit::Infra, ..told }
        }
    }
}

/// Returns the failure of a Scout whose answer cannot be used.
fn broken(message: String) -> Failure {
    Failure { exit: Exit::Infra, ..Failure::refused("scout_failed", message) }.hint(
        "a fault of the component: `--verbose` shows its log, and `act components test FILE` its faults; report it to its author",
    )
}

/// The document of `act scout --with FILE --compare --json`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Comparison {
    /// `a`, `b` or the name of an approved Scout.
    pub scout: String,
    pub question: String,
    /// The answer of the component that a task would ask.
    pub installed: Side,
    /// The answer of the component in FILE.
    pub with: Side,
    /// Differences between the reports; null unless both Scouts answered.
    pub differences: Option<Vec<Difference>>,
    /// Number of further differences, which are not listed.
    pub more_differences: usize,
}

impl Document for Comparison {
    const NAME: &'static str = "scout-compare";
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(
    any(test, feature = "testing"),
    derive(schemars::JsonSchema),
    schemars(rename = "ComparisonSide")
)]
pub struct Side {
    /// Name under which the component was approved; the component's own name if it is built in.
    pub name: String,
    pub sha256: String,
    /// Why there is no report; null when there is one.
    pub error: Option<String>,
    /// The summary in one line.
    pub summary: Option<String>,
    pub report: Option<Value>,
    /// Why the report is made of facts alone although a model was asked; null when it is not.
    pub warning: Option<String>,
    #[serde(flatten)]
    pub took: Took,
    /// Tokens of the model, by role.
    pub tokens: BTreeMap<String, ModelUsage>,
    /// What the requests cost, in US dollars; null where that is not known.
    pub cost_usd: Option<Usd>,
}

/// The sums over all attempts; `memory_bytes` is the maximum of one attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Took {
    pub attempts: u32,
    /// Duration, including the time of the model.
    pub duration_ms: u64,
    /// Memory of the WebAssembly component.
    pub memory_bytes: u64,
    pub model_calls: u64,
    pub files: u64,
    pub bytes: u64,
    pub denials: u64,
}

/// Adds up what the events of one Scout report.
#[derive(Clone, Default)]
struct Meter(Arc<Mutex<Took>>);

impl Sink for Meter {
    fn event(&mut self, event: &Event) {
        let took = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &event.kind {
            EventKind::ScoutFinished { duration_ms, .. } => {
                took.attempts += 1;
                took.duration_ms += duration_ms;
            }
            EventKind::ComponentUsed {
                memory_bytes, model_calls, files, bytes, denials, ..
            } => {
                took.memory_bytes = took.memory_bytes.max(*memory_bytes);
                took.model_calls += model_calls;
                took.files += files;
                took.bytes += bytes;
                took.denials += denials;
            }
            _ => {}
        }
    }
}

/// Asks two Scouts the same question and compares the reports. Both are loaded before the first one is asked, and
/// neither learns of the other. A Scout that gives no report is a result. Returns `None` when cancelled.
///
/// # Errors
///
/// A Scout cannot be loaded, or the audit log cannot be written.
pub async fn compare(
    args: ScoutArgs,
    file: &Path,
    sinks: Vec<Box<dyn Sink>>,
) -> Result<Option<Comparison>, Failure> {
    let inquiry = Inquiry::open(&args).await?;
    let other = inquiry.candidate(file)?;
    let meter = Meter::default();
    let meter_sink: Box<dyn Sink> = Box::new(meter.clone());
    let events = Events::new("", sinks.into_iter().chain([meter_sink]).collect());
    let installed = inquiry.loaded_scout(&args.scout, None, &events)?;
    let with = inquiry.loaded_scout(&args.scout, Some(&other), &events)?;
    let question = inquiry.question(&args);
    let mut sides = vec![];
    for (side, loaded_scout) in [("installed", installed), ("with", with)] {
        // Both report their progress under the same name, so a message says which one is asked.
        let (name, sha256) = (&loaded_scout.known_as, loaded_scout.short_sha256());
        events.inform(format!("{side} asks {name} {sha256}"));
        let asked = loaded_scout.ask(&question, &inquiry).await?;
        let (summary, report, warning, error) = match asked {
            QuestionResult::Answered { summary, report, warning } => {
                (Some(summary), Some(report), warning, None)
            }
            QuestionResult::Failed(failure) => (None, None, None, Some(failure.message)),
            QuestionResult::Cancelled => return Ok(None),
        };
        let took = std::mem::take(&mut *meter.0.lock().unwrap_or_else(PoisonError::into_inner));
        let (name, sha256) = (loaded_scout.known_as.clone(), loaded_scout.sha256().to_owned());
        let (tokens, cost_usd) = (loaded_scout.tokens(), loaded_scout.cost());
        sides.push(Side { name, sha256, error, summary, report, warning, took, tokens, cost_usd });
    }
    inquiry.anchor(&events).await;
    let (Some(with), Some(installed)) = (sides.pop(), sides.pop()) else { return Ok(None) };
    let reports = installed.report.as_ref().zip(with.report.as_ref());
    let compared = reports.map(|(one, other)| differences(one, other));
    let more_differences = compared.as_ref().map_or(0, |(_, more)| *more);
    Ok(Some(Comparison {
        scout: args.scout.word().to_owned(),
        question: question.text,
        installed,
        with,
        differences: compared.map(|(all, _)| all),
        more_differences,
    }))
}

#[cfg(test)]
mod scouting_tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_of_an_answer_is_published() {
        // EVENT-8
        schema::document_holds::<ScoutAnswer>();
    }
}

#[cfg(test)]
mod comparison_tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_of_a_comparison_is_published() {
        // EVENT-8
        schema::document_holds::<Comparison>();
    }
}
