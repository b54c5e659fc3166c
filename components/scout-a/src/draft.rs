//! A report that is made of facts alone; it fills what the model left out of its own.

use crate::facts::Known;
use act_kit::reports::facts_a::{Mapped, Risk};
use act_kit::reports::report_a::{
    Conventions, Level, Relevance, RelevantFile, RepoMap, ReportA, RiskZone,
};
use act_kit::world::World;
use serde_json::Value;

/// Maximum numbers of relevant files, of risk zones, of dependencies of one file, and of tests.
const FILES: usize = 10;
const ZONES: usize = 5;
const DEPENDENCIES: usize = 12;
const TESTS: usize = 5;

/// Returns a report about `chosen`, the files that the model found relevant. Without any it is about the best files of
/// the map.
pub(crate) fn draft(world: World<'_>, known: &Known, chosen: &[RelevantFile]) -> ReportA {
    let survey = &known.survey;
    let place = |path: &str| {
        survey.inventory.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()
    };
    let relevant_files = if chosen.is_empty() { mapped(world, known) } else { chosen.to_vec() };
    let wanted = relevant_files
        .iter()
        .filter_map(|file| Some(place(&file.path)? as u32))
        .collect::<Vec<_>>();
    let depends = wanted.iter().filter_map(|at| {
        let to = survey.imported_by(*at).take(DEPENDENCIES).map(|to| survey.path(to).to_owned());
        let to = to.collect::<Vec<_>>();
        (!to.is_empty()).then(|| (survey.path(*at).to_owned(), to))
    });
    ReportA {
        schema_version: Value::from("1"),
        repo_map: RepoMap {
            dependency_graph: depends.collect(),
            entry_points: known.entry_points(world).into_iter().take(12).collect(),
            relevant_files,
        },
        risk_zones: zones(known, &wanted),
        conventions: conventions(world, known),
        verification_tips: vec![tests(known, &wanted)],
        ..ReportA::default()
    }
}

fn mapped(world: World<'_>, known: &Known) -> Vec<RelevantFile> {
    let map = known.map(world, 8_000, FILES);
    let file = |entry: Mapped| RelevantFile {
        relevance: match entry.score {
            score if score >= 0.6 => Relevance::Primary,
            score if score >= 0.25 => Relevance::Secondary,
            _ => Relevance::Context,
        },
        purpose: match entry.symbols.is_empty() {
            true => String::new(),
            false => format!("defines {}", entry.symbols[..entry.symbols.len().min(4)].join(", ")),
        },
        path: entry.path,
    };
    map.into_iter().map(file).collect()
}

fn zones(known: &Known, wanted: &[u32]) -> Vec<RiskZone> {
    let paths = wanted.iter().map(|at| known.survey.path(*at)).collect::<Vec<_>>();
    let risky = known.risk().into_iter().filter(|risk| paths.contains(&risk.path.as_str()));
    let risky = risky.filter(|risk| risk.level != Level::Low && risk.lines > 0).take(ZONES);
    let zone = |risk: Risk| {
        let level = if risk.level == Level::High { Level::High } else { Level::Medium };
        let tested = if risk.tested { "a test exercises it" } else { "no test exercises it" };
        RiskZone {
            rationale: format!(
                "{} files import it, {} lines, {} names for others, {tested}",
                risk.fan_in, risk.lines, risk.public_symbols
            ),
            file: risk.path,
            start_line: 1,
            end_line: risk.lines,
            risk_level: level,
            complexity: if risk.lines >= 800 { Level::High } else { Level::Medium },
            dependencies: vec![],
            invariants: vec![],
        }
    };
    risky.map(zone).collect()
}

fn conventions(world: World<'_>, known: &Known) -> Conventions {
    let (mut naming, mut patterns) = (vec![], vec![]);
    for found in known.conventions(world) {
        let language =
            found.language.as_ref().map_or(String::new(), |language| format!("{language} "));
        let topic = found.topic.replace('_', " ");
        let line =
            format!("{language}{topic}: {} ({} of {})", found.value, found.count, found.total);
        if found.topic.ends_with("naming") { naming.push(line) } else { patterns.push(line) }
    }
    naming.truncate(3);
    patterns.truncate(6);
    Conventions { naming: naming.join("; "), patterns, anti_patterns: vec![] }
}

fn tests(known: &Known, wanted: &[u32]) -> String {
    let survey = &known.survey;
    let for_these = known.tests.for_any(survey, wanted);
    let (what, paths) = match for_these.is_empty() {
        false => ("tests of these files", for_these),
        true => ("tests", known.tests.paths(survey).collect()),
    };
    match paths.is_empty() {
        true => "no tests were found".to_owned(),
        false => format!("{what}: {}", paths[..paths.len().min(TESTS)].join(", ")),
    }
}
