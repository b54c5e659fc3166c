//! Scout A, the Codebase Mapper: which files matter for a question, how they hang together, where the risk is.
//!
//! `facts` is what can be said without a model, `inquiry` asks one with the facts in front of it, `report` is the
//! shape of the answer. Rules SCOUT-A-1 and following.

#[cfg(any(target_family = "wasm", clippy))]
mod component;
mod facts;
mod report;

use report::Report;
use scouting::grounding::Ground;
use scouting::inquiry::{Brief, inquire, parse};
use scouting::inventory::Inventory;
use scouting::world::{Failure, Question, World};

const SYSTEM: &str = include_str!("prompt.md");
const MANIFEST: &str = include_str!("../manifest.json");

/// Answers one question with a report as JSON.
pub fn ask(world: World<'_>, question: &Question) -> Result<String, Failure> {
    world.progress.step("listing the repository");
    let inventory = Inventory::of(world.repository).map_err(Failure::Other)?;
    let ground = Ground { world, inventory: &inventory };
    let report = if question.facts_only {
        facts::report(&inventory, question)
    } else {
        let opening = facts::opening(world.repository, &inventory, question);
        let schema = report_schema()?;
        let brief = Brief { system: SYSTEM.trim_end(), opening: &opening, schema: &schema };
        let accept = |text: &str| {
            let report = parse::<Report>(text)?;
            report.check()?;
            report.grounded(&ground)
        };
        inquire(world, &inventory, &brief, accept)?.completed(facts::report(&inventory, question))
    };
    serde_json::to_string(&report).map_err(|error| Failure::Other(error.to_string()))
}

/// The schema that the manifest declares is the one that the model is given.
fn report_schema() -> Result<String, Failure> {
    let manifest = serde_json::from_str::<serde_json::Value>(MANIFEST);
    manifest
        .map(|manifest| manifest["report"].to_string())
        .map_err(|error| Failure::Other(error.to_string()))
}

#[cfg(test)]
mod tests;
