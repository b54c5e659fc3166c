//! Scout B, the Build/Test Detective: how the repository is built and tested, and why a run failed.
//!
//! `detect` reads that off the manifests without a model and has the last word on it; `log` finds in a log what
//! needs no judgement; the model judges the rest. Rules SCOUT-B-1 and following.

#[cfg(any(target_family = "wasm", clippy))]
mod component;
mod detect;
mod log;
mod report;

use detect::{Manifests, detect};
use report::Report;
use scouting::grounding::Ground;
use scouting::inquiry::{Brief, inquire, parse};
use scouting::inventory::Inventory;
use scouting::quoting;
use scouting::world::{Failure, Question, World};

const SYSTEM: &str = include_str!("prompt.md");
const MANIFEST: &str = include_str!("../manifest.json");

/// Bytes of the parts of the first message.
const QUESTION: usize = 4_000;
const OUTLINE: usize = 1_000;
const LOG: usize = 4_000;
/// Of a log that is looked through without the model.
const SIFTED: usize = 256 * 1024;

/// Answers one question with a report as JSON.
pub fn ask(world: World<'_>, question: &Question) -> Result<String, Failure> {
    world.progress.step("reading the manifests");
    let inventory = Inventory::of(world.repository).map_err(Failure::Other)?;
    let manifests = Manifests::read(world.repository, &inventory, question.context("package"));
    let detected = detect(&manifests);
    let tail = question.context("tail_log").unwrap_or_default();
    let sifted =
        log::sift(&tail[tail.floor_char_boundary(tail.len().saturating_sub(SIFTED))..], &inventory);
    let facts = Report::of_facts(&detected, &sifted);

    let report = if question.facts_only {
        facts
    } else {
        let opening = opening(&inventory, question, &detected.shown());
        let schema = report_schema()?;
        let brief = Brief { system: SYSTEM.trim_end(), opening: &opening, schema: &schema };
        let ground = Ground { world, inventory: &inventory };
        let accept = |text: &str| {
            let mut report = parse::<Report>(text)?;
            report.check()?;
            ground.keep_paths(&mut report.failure_analysis.affected_files);
            Ok(report)
        };
        inquire(world, &inventory, &brief, accept)?.completed(facts, &detected)
    };
    serde_json::to_string(&report).map_err(|error| Failure::Other(error.to_string()))
}

/// The first message: question, the failing run as data, and what the manifests say.
fn opening(inventory: &Inventory, question: &Question, detected: &str) -> String {
    let mut text = format!("Question: {}\n", quoting::cut(question.text.trim(), QUESTION));
    if let Some(package) = question.context("package") {
        text.push_str(&format!(
            "The work is limited to the directory {}.\n",
            quoting::cut(package, 200)
        ));
    }
    if let Some(rejection) = question.context("rejection") {
        text.push_str(&format!(
            "Your last report was rejected: {}\n",
            quoting::cut(rejection, 1_000)
        ));
    }
    for name in ["failing_step", "tail_log"] {
        if let Some(output) = question.context(name) {
            text.push_str(&quoting::log(name, output, LOG));
        }
    }
    text.push_str(&format!("<detected>\n{detected}</detected>\n"));
    text.push_str(&format!("<repository>\n{}</repository>\n", inventory.outline(OUTLINE)));
    text
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
