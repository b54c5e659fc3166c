//! A report that is made of facts alone; it fills what the model left out of its own.

use crate::excerpts;
use crate::facts::Known;
use act_kit::reports::facts_a::{Mapped, Risk};
use act_kit::reports::report_a::{
    Conventions, Level, Relevance, RelevantFile, RepoMap, ReportA, RiskZone,
};
use act_kit::world::World;
use serde_json::Value;

/// Maximum numbers of relevant files, of risk zones, of dependencies of one file, and of tests.
const FILES: [usize; 3] = [12, 2, 1];
const ZONES: usize = 5;
const DEPENDENCIES: usize = 12;
const TESTS: usize = 5;
const TESTS_OF_ONE: usize = 2;

/// Returns the report that answers a question without a model: about the best files of the map, with the lines in them
/// that match.
pub(crate) fn of_facts(world: World<'_>, known: &Known) -> ReportA {
    let mut report = ReportA {
        excerpts: excerpts::of(world, known, excerpts::MOST),
        ..draft(world, known, &[])
    };
    // The files name their tests.
    if report.repo_map.relevant_files.iter().any(|file| file.purpose.contains("tests: ")) {
        report.verification_tips.clear();
    }
    report
}

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
        verification_tips: [tests(known, &wanted)].into_iter().chain(unseen(known)).collect(),
        ..ReportA::default()
    }
}

fn mapped(world: World<'_>, known: &Known) -> Vec<RelevantFile> {
    let map = known.map(world, &known.best(FILES), 8_000, 8_000);
    let file = |Mapped { path, symbols, .. }: Mapped| RelevantFile {
        relevance: relevance(known, &path),
        purpose: purpose(known, &path, &symbols),
        path,
    };
    map.into_iter().map(file).collect()
}

/// Maximum number of names in the purpose of a file.
const NAMES: usize = 6;

/// Describes a file by its importers, its tests, and the names that it defines. The host adds the lines.
fn purpose(known: &Known, path: &str, symbols: &[String]) -> String {
    let names = symbols[..symbols.len().min(NAMES)].join(", ");
    let defines = if names.is_empty() { names } else { format!("defines {names}") };
    let tests = known.tests_of(path, TESTS_OF_ONE).join(", ");
    let tests = if tests.is_empty() { tests } else { format!("tests: {tests}") };
    let importers = match known.importers(path) {
        0 => String::new(),
        count => format!("{count} importers"),
    };
    let parts = [importers, tests, defines];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Returns how relevant a file is for the question by its rank; `None` for a path that was not ranked.
pub(crate) fn relevance(known: &Known, path: &str) -> Option<Relevance> {
    Some(match known.score(path)? {
        score if score >= 0.6 => Relevance::Primary,
        score if score >= 0.25 => Relevance::Secondary,
        _ => Relevance::Context,
    })
}

/// Returns how complex it is to change files of that many lines together. The steps are those of the risk (SCOUT-A-12).
pub(crate) fn complexity(lines: u32) -> Level {
    match lines {
        0..250 => Level::Low,
        250..800 => Level::Medium,
        _ => Level::High,
    }
}

/// Describes why a file is risky to change, by its figures.
pub(crate) fn rationale(risk: &Risk) -> String {
    let tested = if risk.tested { "a test exercises it" } else { "no test exercises it" };
    format!(
        "{} files import it, {} lines, {} names for others, {tested}",
        risk.fan_in, risk.lines, risk.public_symbols
    )
}

fn zones(known: &Known, wanted: &[u32]) -> Vec<RiskZone> {
    let paths = wanted.iter().map(|at| known.survey.path(*at)).collect::<Vec<_>>();
    let risky = known.risk().into_iter().filter(|risk| paths.contains(&risk.path.as_str()));
    let risky = risky.filter(|risk| risk.level != Level::Low && risk.lines > 0).take(ZONES);
    let zone = |risk: Risk| RiskZone {
        rationale: rationale(&risk),
        file: risk.path,
        start_line: 1,
        end_line: risk.lines,
        risk_level: Some(risk.level),
        complexity: Some(complexity(risk.lines)),
        dependencies: vec![],
        invariants: vec![],
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

/// Says how many files the survey did not reach, so that nobody takes their absence for a fact.
fn unseen(known: &Known) -> Option<String> {
    let count = known.survey.not_looked_at;
    (count > 0).then(|| {
        format!("not_looked_at: {count} source files, for lack of time; search for names that are missing here")
    })
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
