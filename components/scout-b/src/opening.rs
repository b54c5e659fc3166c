//! Composes the first message to the model: the question, the failing run as data, and the facts.

use crate::facts::{FactsB, Kind, Location, Project, slot};
use act_kit::inventory::Inventory;
use act_kit::quoting::{self, cut};
use act_kit::world::Question;

/// Maximum sizes of the parts in bytes.
const QUESTION: usize = 4_000;
const OUTLINE: usize = 1_000;
const LOG: usize = 4_000;
const FACTS: usize = 3_000;

pub(crate) fn opening(
    inventory: &Inventory,
    question: &Question,
    facts: &FactsB,
    package: Option<&str>,
) -> String {
    let mut text = format!("Question: {}\n", cut(question.text.trim(), QUESTION));
    if let Some(package) = package {
        text.push_str(&format!("The work is limited to the directory {}.\n", cut(package, 200)));
    }
    if let Some(rejection) = question.context("rejection") {
        text.push_str(&format!("Your last report was rejected: {}\n", cut(rejection, 1_000)));
    }
    for name in ["failing_step", "changes", "tail_log"] {
        if let Some(output) = question.context(name) {
            text.push_str(&quoting::log(name, output, LOG));
        }
    }
    text.push_str(&format!("<facts>\n{}</facts>\n", shown(facts, package)));
    text.push_str(&format!("<repository>\n{}</repository>\n", inventory.outline(OUTLINE)));
    text
}

/// Writes each fact on one line with its values as JSON, so that no value can end the line or the part.
fn shown(facts: &FactsB, package: Option<&str>) -> String {
    let mut out = String::new();
    let mut say = |name: &str, value: String| {
        let line = format!("{name}: {}\n", cut(&value, 400));
        if out.len() + line.len() <= FACTS {
            out.push_str(&line);
        }
    };
    let pipeline = facts.pipeline.iter().flat_map(|pipeline| &pipeline.steps);
    for step in pipeline.take(8) {
        let Location { path, line } = &step.source;
        let value =
            format!("{}: {} from {}:{line}", json(&step.name), json(&step.command), json(path));
        say("pipeline step", value);
    }
    let primary = primary(facts, package);
    if let Some(project) = primary {
        say("root", json(&project.root));
        say("system", json(&project.system));
        say("framework", json(&project.framework));
        say("source", format!("{}:{}", json(&project.source.path), project.source.line));
        let mut commands = project.commands.clone();
        for kind in Kind::ALL {
            if let Some(command) = slot(kind, &mut commands) {
                let name = format!("{kind:?}").to_lowercase();
                let source = format!("{}:{}", json(&command.source.path), command.source.line);
                let remark =
                    command.remark.as_ref().map_or(String::new(), |r| format!("; {}", json(r)));
                say(&name, format!("{} from {source}{remark}", json(&command.command)));
            }
        }
        let needed = project.prerequisites.iter().map(|needed| match &needed.version {
            Some(version) => format!("{} {version}", needed.name),
            None => needed.name.clone(),
        });
        say("prerequisites", json(&needed.collect::<Vec<_>>()));
        if !project.has_tests {
            say("tests", json("none found"));
        }
    }
    if let Some(failure) = &facts.failure {
        say("failing tool", json(&failure.tool));
        say("first error", json(&failure.first_error));
        say("failing tests", json(&failure.failing_tests.iter().take(8).collect::<Vec<_>>()));
        let locations = failure.locations.iter().take(8);
        let locations = locations.map(|location| format!("{}:{}", location.path, location.line));
        say("places", json(&locations.collect::<Vec<_>>()));
        if let Some(reason) = &failure.flaky_reason {
            say("flaky", json(reason));
        }
        for issue in failure.environment_issues.iter().take(4) {
            say("environment", json(&issue.issue));
        }
    }
    let others =
        facts.projects.iter().filter(|project| primary.is_none_or(|p| !std::ptr::eq(p, *project)));
    let others = others.map(|project| project.root.clone()).collect::<Vec<_>>();
    if !others.is_empty() {
        say("other projects", json(&others));
    }
    for conflict in facts.conflicts.iter().take(6) {
        say("conflict", json(&conflict.message));
    }
    out
}

/// Returns the project that is worked on: that of the package if one is named, else the first.
pub(crate) fn primary<'a>(facts: &'a FactsB, package: Option<&str>) -> Option<&'a Project> {
    let package =
        package.map(|package| package.trim_matches('/')).filter(|package| !package.is_empty());
    let of_package = package.and_then(|package| {
        act_kit::paths::upwards(package)
            .find_map(|above| facts.projects.iter().find(|project| project.root == above))
    });
    of_package.or(facts.projects.first())
}

/// Writes a value as one line of JSON.
fn json<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
