//! Scout A, the Codebase Mapper: which files matter for a question, how they depend on each other, where a change is
//! risky.
//!
//! - `survey` lists and outlines all files once. `resolve` finds the file that an import means, `re_exports` follows names
//!   through files that only re-export them, `same_package` finds dependencies that need no import.
//! - `terms` and `words` take a question apart, `contents` counts what it names in the text of the files, and `rank` ranks
//!   the files by that.
//! - `facts` is what follows without a model, as `act scout a --facts` prints it.
//! - `draft` is a report that is made of facts alone, and `excerpts` are the lines that a question is about.
//! - With a model: `opening` is the first message, `grounding` and `report` check what the model reports and complete it
//!   with facts.
//!
//! The rules are SCOUT-A-1 and following in `specs/scout-a.md`.

mod contents;
mod draft;
mod excerpts;
mod facts;
mod grounding;
mod opening;
mod rank;
mod re_exports;
mod report;
mod resolve;
mod same_package;
mod survey;
mod terms;
mod words;

use act_kit::grounding::Ground;
use act_kit::inquiry::{Brief, inquire, parse};
use act_kit::inventory::Inventory;
use act_kit::reports::report_a::ReportA;
use act_kit::world::{Failure, Question, World};
use facts::Known;
use serde::Serialize;

act_kit::scout!(ask);

const SYSTEM: &str = include_str!("prompt.md");
const MANIFEST: &str = include_str!("../manifest.json");

/// Milliseconds after which the survey ends, so that facts come after at most 17 seconds for 20,000 files and 20 for 100,000:
/// what follows the survey takes at most 1.5 seconds for 20,000 files, and less than three for 100,000.
const SURVEY: u64 = 15_500;

/// Answers one question with a report as JSON. Where only facts are wanted, the model is not asked: the answer is a report
/// that is made of facts, or the facts in their own schema.
///
/// # Errors
///
/// [`Failure::Other`] when the repository cannot be listed, [`Failure::Model`] when the model gave no usable report.
pub fn ask(world: World<'_>, question: &Question) -> Result<String, Failure> {
    world.progress.step("looking over the repository");
    let time = world.progress.time_left();
    let inventory = Inventory::of(world.repository).map_err(Failure::Other)?;
    if question.facts_only {
        let reserve = (time / 3).max(time.saturating_sub(SURVEY));
        let known = Known::of(world, inventory, &question.text, reserve);
        return match question.wants_report_of_facts() {
            true => to_json(&draft::of_facts(world, &known)),
            false => to_json(&known.facts(world, &question.text)),
        };
    }
    // Two thirds of the time are kept for the model.
    let reserve = (time / 3 * 2).max(time.saturating_sub(SURVEY));
    let known = Known::of(world, inventory, &question.text, reserve);
    let ground = Ground { world, inventory: &known.survey.inventory };
    let opening = opening::opening(world, &known, question);
    let schema = act_kit::report::schema(MANIFEST)?;
    let brief = Brief { system: SYSTEM.trim_end(), opening: &opening, schema: &schema };
    let accept = |text: &str| {
        let report = parse::<ReportA>(text)?;
        act_kit::report::check_version(&report.schema_version)?;
        report::grounded(report, &ground)
    };
    let report = inquire(world, &known.survey.inventory, &brief, accept)?;
    to_json(&report::completed(report, world, &known, &ground))
}

fn to_json(answer: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(answer).map_err(|error| Failure::Other(error.to_string()))
}

#[cfg(test)]
mod tests;
