//! What a Scout knows without a model: one query, no attempts, no conversation, no settings.

use serde_json::Value;

use super::audit::anchoring;
use super::component_loader::{self, ComponentLoader};
use super::preflight::{self, AuditMode};
use super::scouting::{ScoutArgs, audit, loaded, place};
use super::signals;
use act_agent::scout::check_facts;
use act_component::{ComponentFailure, ComponentHost, ScoutQuestion};
use act_core::Failure;
use act_core::event::Events;
use act_core::exit::Exit;

/// What a Scout computed; `act scout --facts --json` prints the document alone.
#[derive(Debug, Clone)]
pub struct ScoutFacts {
    /// One line.
    pub summary: String,
    /// In the Scout's own schema of facts.
    pub document: Value,
}

pub async fn facts(args: ScoutArgs, events: &Events) -> Result<ScoutFacts, Failure> {
    let (root, wall, package) = place(&args)?;
    let cancel = signals::cancelled_by_signals()?;
    let audit = audit(&args.repo, &root)?;
    let requests = preflight::requests(&args.repo);
    let (registry, members) = preflight::admitted(&root, &requests, AuditMode::All(&audit))?;
    let component_loader = ComponentLoader {
        host: ComponentHost::new(act_component::cache_dir().as_deref())
            .below(registry.policy.ceiling.clone())
            .audited(audit.clone()),
        members: &members,
        model: None,
        view: component_loader::view(&root)?,
        wall,
        events,
    };
    anchoring::first(registry.policy.require_anchor, &audit, &root, &cancel).await?;
    let scout = loaded(&args.scout, &component_loader, &registry, &audit)?;
    let log = args.log.map(|log| ("tail_log".to_owned(), log));
    let package = package.map(|package| ("package".to_owned(), package));
    let question = ScoutQuestion {
        text: args.question.unwrap_or_default().trim().to_owned(),
        context: log.into_iter().chain(package).collect(),
        facts_only: true,
    };
    let name = scout.manifest.name.clone();
    let asked = scout.ask(question, component_loader.services(&name), wall, &cancel).await;
    audit.settle()?;
    anchoring::anchor(&audit, &root, &cancel, events).await;
    let (raw, view) = (asked.map_err(failed)?, component_loader.view);
    let checked = tokio::task::spawn_blocking(move || {
        let summary = check_facts(&name, &raw, &view)?;
        let document = serde_json::from_str(&raw).map_err(|error| error.to_string())?;
        Ok(ScoutFacts { summary, document })
    });
    let checked: Result<ScoutFacts, String> =
        checked.await.unwrap_or_else(|_| Err("the check itself failed; please report it".into()));
    checked.map_err(|wrong| broken(format!("the facts do not hold: {wrong}")))
}

fn failed(failure: ComponentFailure) -> Failure {
    match failure {
        ComponentFailure::Cancelled => {
            Failure { exit: Exit::Cancelled, ..Failure::refused("cancelled", "cancelled") }
        }
        failure => broken(failure.to_string()),
    }
}

fn broken(message: String) -> Failure {
    Failure { exit: Exit::Infra, ..Failure::refused("scout_failed", message) }.hint(
        "`--verbose` shows what the Scout said; a larger `timeouts.scout_query` gives it more time",
    )
}
