//! Checks the model's report against the repository, and fills what the model left out from the facts.

use crate::grounding::Faults;
use act_kit::grounding::Ground;
use act_kit::reports::report_a::ReportA;

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
        let field = format!("risk_zones[{at}]");
        if faults.path(&field, &mut zone.file) {
            let (start, end) = (zone.start_line, zone.end_line);
            match ground.lines(&zone.file, start, end) {
                Some(range) => (zone.start_line, zone.end_line) = range,
                None => {
                    faults.add(format!("{field}: lines {start}-{end} are not in {:?}", zone.file))
                }
            }
        }
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

/// Fills what the model left out from a report that was made of facts.
pub(crate) fn completed(mut report: ReportA, facts: ReportA) -> ReportA {
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
