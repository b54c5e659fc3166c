//! Checks the model's report against the repository, and completes it with facts.

use crate::draft;
use crate::facts::Known;
use crate::grounding::Faults;
use act_kit::grounding::Ground;
use act_kit::reports::report_a::{Level, ReportA, RiskZone, SafeSlice};
use act_kit::world::World;

/// Returns the report with every file and range of lines as the repository has it.
///
/// # Errors
///
/// Returns a sentence for the model that names what does not exist.
pub(crate) fn grounded(mut report: ReportA, ground: &Ground<'_>) -> Result<ReportA, String> {
    let mut faults = Faults::new(ground);
    for (at, file) in report.repo_map.relevant_files.iter_mut().enumerate() {
        faults.path(&format!("repo_map.relevant_files[{at}].path"), &mut file.path);
    }
    let entry_points = std::mem::take(&mut report.repo_map.entry_points);
    report.repo_map.entry_points = grounded_entry_points(entry_points, ground, &mut faults);
    for (mut from, mut to) in std::mem::take(&mut report.repo_map.dependency_graph) {
        let mut key = vec![from];
        faults.paths("repo_map.dependency_graph", &mut key);
        faults.paths("repo_map.dependency_graph", &mut to);
        if let Some(found) = key.pop() {
            from = found;
            report.repo_map.dependency_graph.insert(from, to);
        }
    }
    for (at, zone) in report.risk_zones.iter_mut().enumerate() {
        let range = (&mut zone.start_line, &mut zone.end_line);
        ground_lines(&format!("risk_zones[{at}]"), &mut zone.file, range, ground, &mut faults);
    }
    for (at, lines) in report.excerpts.iter_mut().enumerate() {
        let range = (&mut lines.start_line, &mut lines.end_line);
        ground_lines(&format!("excerpts[{at}]"), &mut lines.file, range, ground, &mut faults);
    }
    for (at, slice) in report.change_boundaries.safe_slices.iter_mut().enumerate() {
        faults.paths(&format!("change_boundaries.safe_slices[{at}].files"), &mut slice.files);
        if slice.id.is_empty() {
            slice.id = format!("slice-{}", at + 1);
        }
    }
    report.change_boundaries.safe_slices.retain(|slice| !slice.files.is_empty());
    for (at, art) in report.prior_art.iter_mut().enumerate() {
        faults.path(&format!("prior_art[{at}].file"), &mut art.file);
    }
    faults.outcome()?;
    Ok(report)
}

/// Replaces a path by the file that it means, and cuts a range to the lines of that file.
fn ground_lines(
    field: &str,
    path: &mut String,
    (start, end): (&mut u32, &mut u32),
    ground: &Ground<'_>,
    faults: &mut Faults<'_>,
) {
    if !faults.path(field, path) {
        return;
    }
    match ground.lines(path, *start, *end) {
        Some(range) => (*start, *end) = range,
        None => faults.add(format!("{field}: lines {start}-{end} are not in {path:?}")),
    }
}

/// Checks entry points: `path`, `path:line` or `path:symbol`. A line or symbol that the file does not have is left out,
/// the file stays.
fn grounded_entry_points(
    entry_points: Vec<String>,
    ground: &Ground<'_>,
    faults: &mut Faults<'_>,
) -> Vec<String> {
    let mut kept: Vec<String> = vec![];
    for entry in entry_points {
        let (path, place) = file_and_place(&entry, |path| ground.has(path));
        let mut path = vec![path.to_owned()];
        faults.paths("repo_map.entry_points", &mut path);
        let Some(mut path) = path.pop() else { continue };
        let exists = match place.parse::<u32>() {
            Ok(line) => ground.lines(&path, line, line).is_some(),
            Err(_) => !place.is_empty() && defines(ground, &path, place),
        };
        if exists {
            path = format!("{path}:{place}");
        }
        if !kept.contains(&path) {
            kept.push(path);
        }
    }
    kept
}

/// Completes the model's report with facts: lists that it left out, and the judgements that are missing in its entries. An
/// entry is dropped when no fact has the judgement.
pub(crate) fn completed(
    mut report: ReportA,
    world: World<'_>,
    known: &Known,
    ground: &Ground<'_>,
) -> ReportA {
    judge(&mut report, known, ground);
    let facts = draft::draft(world, known, &report.repo_map.relevant_files);
    fn fill<T>(reported: &mut Vec<T>, facts: Vec<T>) {
        if reported.is_empty() {
            *reported = facts;
        }
    }
    report.schema_version = facts.schema_version;
    fill(&mut report.repo_map.relevant_files, facts.repo_map.relevant_files);
    fill(&mut report.repo_map.entry_points, facts.repo_map.entry_points);
    if report.repo_map.dependency_graph.is_empty() {
        report.repo_map.dependency_graph = facts.repo_map.dependency_graph;
    }
    fill(&mut report.risk_zones, facts.risk_zones);
    fill(&mut report.conventions.patterns, facts.conventions.patterns);
    fill(&mut report.verification_tips, facts.verification_tips);
    if report.conventions.naming.is_empty() {
        report.conventions.naming = facts.conventions.naming;
    }
    report
}

fn judge(report: &mut ReportA, known: &Known, ground: &Ground<'_>) {
    report.repo_map.relevant_files.retain_mut(|file| {
        file.relevance = file.relevance.or_else(|| draft::relevance(known, &file.path));
        file.relevance.is_some()
    });
    let complexity = |files: &[String]| -> Option<Level> {
        let lines = files.iter().map(|file| ground.line_count(file));
        lines.sum::<Option<u32>>().map(draft::complexity)
    };
    let risks = if report.risk_zones.is_empty() { vec![] } else { known.risk() };
    report.risk_zones.retain_mut(|zone| {
        let RiskZone { file, risk_level, complexity: how_complex, rationale, .. } = zone;
        let risk = risks.iter().find(|risk| risk.path == *file);
        *risk_level = risk_level.or(risk.map(|risk| risk.level));
        *how_complex = how_complex.or_else(|| complexity(std::slice::from_ref(file)));
        if let Some(risk) = risk.filter(|_| rationale.is_empty()) {
            *rationale = draft::rationale(risk);
        }
        risk_level.is_some() && how_complex.is_some()
    });
    report.change_boundaries.safe_slices.retain_mut(|slice| {
        let SafeSlice { files, complexity: how_complex, .. } = slice;
        *how_complex = how_complex.or_else(|| complexity(files));
        how_complex.is_some()
    });
    report.prior_art.retain(|art| !art.description.trim().is_empty());
}

/// Splits an entry point at a colon. A file's name may contain colons as well, so the longest part that is a file counts.
fn file_and_place(entry: &str, has: impl Fn(&str) -> bool) -> (&str, &str) {
    let colons = entry.rmatch_indices(':').map(|(at, _)| (&entry[..at], entry[at + 1..].trim()));
    let known = std::iter::once((entry, "")).chain(colons).find(|(path, _)| has(path));
    known.or_else(|| entry.split_once(':')).unwrap_or((entry, ""))
}

/// Returns whether a parser finds a symbol of that name in the file. `Container.name` and `name()` are understood.
fn defines(ground: &Ground<'_>, path: &str, symbol: &str) -> bool {
    let outline = ground.world.repository.outlines(&[path]).pop().flatten();
    let name = symbol.trim_end_matches("()").rsplit(['.', ':']).next().unwrap_or(symbol);
    outline.is_some_and(|outline| outline.symbols.iter().any(|symbol| symbol.name == name))
}
