//! Scout B, the Build/Test Detective: how the repository is built and tested, and why a run failed.
//!
//! `survey` reads the first from manifests, CI, Dockerfiles and documents, `failure` reads the second from a log. Neither needs
//! a model, and the model cannot overrule them. It judges the rest. The rules are SCOUT-B-1 and following in
//! `specs/scout-b.md`.

mod ci;
mod conflicts;
mod documents;
mod draft;
mod ecosystem;
mod facts;
mod failure;
mod images;
mod located;
mod opening;
mod own_pipeline;
mod projects;
mod report;
mod statement;
mod survey;
mod tasks;
mod tree;
mod version;

use act_kit::grounding::Ground;
use act_kit::inquiry::{Brief, inquire, parse};
use act_kit::inventory::Inventory;
use act_kit::reports::ReportB;
use act_kit::world::{Failure, Question, World};
use serde::Serialize;
use tree::Tree;

act_kit::scout!(ask);

const SYSTEM: &str = include_str!("prompt.md");
const MANIFEST: &str = include_str!("../manifest.json");

/// Answers one question with a report as JSON. Where only facts are wanted, the model is not asked: the answer is a report
/// that is made of facts, or the facts in their own schema.
///
/// # Errors
///
/// [`Failure::Other`] when the repository cannot be listed, [`Failure::Model`] when the model gave no usable report.
pub fn ask(world: World<'_>, question: &Question) -> Result<String, Failure> {
    world.progress.step("reading the manifests");
    let inventory = Inventory::of(world.repository).map_err(Failure::Other)?;
    let tree = Tree::new(world.repository, &inventory);
    let (mut facts, _) = survey::facts(&tree);
    if let Some(log) = question.context("tail_log") {
        world.progress.step("reading the log");
        facts.failure = Some(failure::analyse(log, &tree));
    }
    let package = question.context("package");
    let known = report::of_facts(&facts, package);
    if question.facts_only {
        return match question.wants_report_of_facts() {
            true => to_json(&known),
            false => to_json(&facts),
        };
    }
    let opening = opening::opening(&inventory, question, &facts, package);
    let schema = act_kit::report::schema(MANIFEST)?;
    let brief = Brief { system: SYSTEM.trim_end(), opening: &opening, schema: &schema };
    let ground = Ground { world, inventory: &inventory };
    let accept = |text: &str| {
        let mut report = parse::<ReportB>(text)?;
        act_kit::report::check_version(&report.schema_version)?;
        report::check_lines(&report, &tree)?;
        report::drop_missing_commands(&mut report, &tree, package);
        if let Some(analysis) = &mut report.failure_analysis {
            ground.keep_paths(&mut analysis.affected_files);
        }
        Ok(report)
    };
    let report = inquire(world, &inventory, &brief, accept)?;
    to_json(&report::completed(report, known))
}

fn to_json(answer: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(answer).map_err(|error| Failure::Other(error.to_string()))
}

#[cfg(test)]
mod tests;
