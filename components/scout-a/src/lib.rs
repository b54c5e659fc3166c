//! Scout A, the Codebase Mapper: which files matter for a question, how they hang together, where the risk is.
//!
//! `survey` looks at everything once, `resolve` says which file an import means, `handed_on` goes on to where that has it
//! from, `rank` and `terms` what a question is
//! about; `facts` is what follows from that without a model. With one, `opening` puts the best of it in front of the
//! model, `report` is the shape of the answer, `grounding` what it may name, `draft` what fills its gaps. Rules
//! SCOUT-A-1 and following.

mod draft;
mod facts;
mod grounding;
mod handed_on;
mod neighbours;
mod opening;
mod rank;
mod report;
mod resolve;
mod survey;
mod terms;

use act_kit::grounding::Ground;
use act_kit::inquiry::{Brief, inquire, parse};
use act_kit::inventory::Inventory;
use act_kit::world::{Failure, Question, World};
use facts::Known;
use report::Report;
use serde::Serialize;

act_kit::scout!(ask);

const SYSTEM: &str = include_str!("prompt.md");
const MANIFEST: &str = include_str!("../manifest.json");

/// Answers one question with a report as JSON; with facts alone when only these are wanted.
pub fn ask(world: World<'_>, question: &Question) -> Result<String, Failure> {
    world.progress.step("looking over the repository");
    let time = world.progress.time_left();
    let inventory = Inventory::of(world.repository).map_err(Failure::Other)?;
    if question.facts_only {
        let known = Known::of(world, inventory, &question.text, time / 3);
        return written(&known.facts(world, &question.text));
    }
    // Most of the time is the model's.
    let known = Known::of(world, inventory, &question.text, time / 3 * 2);
    let ground = Ground { world, inventory: &known.survey.inventory };
    let opening = opening::opening(world, &known, question);
    let schema = act_kit::report::schema(MANIFEST)?;
    let brief = Brief { system: SYSTEM.trim_end(), opening: &opening, schema: &schema };
    let accept = |text: &str| {
        let report = parse::<Report>(text)?;
        act_kit::report::check_version(&report.schema_version)?;
        report.grounded(&ground)
    };
    let report = inquire(world, &known.survey.inventory, &brief, accept)?;
    let draft = draft::draft(world, &known, &report.repo_map.relevant_files);
    written(&report.completed(draft))
}

fn written(answer: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(answer).map_err(|error| Failure::Other(error.to_string()))
}

#[cfg(test)]
mod tests;
