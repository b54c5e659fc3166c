//! What facts say where the model said nothing.

use crate::facts::{Known, Level as Danger};
use crate::report::{Conventions, Level, Relevance, RelevantFile, RepoMap, Report, RiskZone};
use act_kit::world::World;
use serde_json::Value;

/// Files that are named, zones, what a file is said to depend on, tests.
const FILES: usize = 10;
const ZONES: usize = 5;
const DEPENDENCIES: usize = 12;
const TESTS: usize = 5;

/// A report about `chosen`, the files that the model found relevant, or about the best of the map without any.
pub(crate) fn draft(world: World<'_>, known: &Known, chosen: &[RelevantFile]) -> Report {
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
    Report {
        schema_version: Value::from("1"),
        repo_map: RepoMap {
            dependency_graph: depends.collect(),
            entry_points: known.entry_points(world).into_iter().take(12).collect(),
            relevant_files,
        },
        risk_zones: zones(known, &wanted),
        conventions: conventions(world, known),
        verification_tips: vec![tests(known, &wanted)],
        ..Report::default()
    }
}

fn mapped(world: World<'_>, known: &Known) -> Vec<RelevantFile> {
    let map = known.map(world, 8_000, FILES);
    let file = |entry: crate::facts::Mapped| RelevantFile {
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
    let risky = risky.filter(|risk| risk.level != Danger::Low && risk.lines > 0).take(ZONES);
    let zone = |risk: crate::facts::Risk| {
        let level = if risk.level == Danger::High { Level::High } else { Level::Medium };
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
        let language = found.language.map_or(String::new(), |language| format!("{language} "));
        let topic = found.topic.replace('_', " ");
        let said =
            format!("{language}{topic}: {} ({} of {})", found.value, found.count, found.total);
        if found.topic.ends_with("naming") { naming.push(said) } else { patterns.push(said) }
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
