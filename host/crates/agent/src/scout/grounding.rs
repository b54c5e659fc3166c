//! Whether a report stands on the repository: every path exists, every range of lines lies inside its file.
//!
//! Pure: the caller says what exists. What is wrong is listed whole, because it goes back to the Scout.

use super::facts_b::{FactsB, Location};
use super::report_a::ReportA;
use super::report_b::ReportB;

/// Listed at most; a report with more is hopeless anyway.
pub(super) const MOST: usize = 20;
pub(super) const ABSENT: &str = "is not in the repository";
/// Of a path that is shown in a message.
const SHOWN: usize = 120;

/// One thing that the repository does not bear out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ungrounded {
    #[error("{field}: {path:?} {why}")]
    NoSuchFile { field: String, path: String, why: &'static str },
    #[error("{field}: lines {start}-{end} are not in {path:?}, which has {lines}")]
    NoSuchLines { field: String, path: String, start: u32, end: u32, lines: u32 },
}

/// What is there.
pub trait InView {
    /// Whether a file of that name is in view, whatever is in it.
    fn has(&mut self, path: &str) -> bool;
    /// What is to be said of a name that it does not have.
    fn why_not(&mut self, _path: &str) -> &'static str {
        ABSENT
    }
    /// How many lines a file in view has; none of what is no text.
    fn lines(&mut self, path: &str) -> u32;
}

/// Where all that is there is text: the number of its lines.
impl<F: FnMut(&str) -> Option<u32>> InView for F {
    fn has(&mut self, path: &str) -> bool {
        self(path).is_some()
    }

    fn lines(&mut self, path: &str) -> u32 {
        self(path).unwrap_or(0)
    }
}

struct Check<'a, V> {
    view: &'a mut V,
    wrong: Vec<Ungrounded>,
}

impl<V: InView> Check<'_, V> {
    fn path(&mut self, field: impl FnOnce() -> String, path: &str) -> bool {
        let there = self.view.has(path);
        // What would not be listed is not looked at again.
        if !there && self.wrong.len() < MOST {
            let why = self.view.why_not(path);
            self.add(Ungrounded::NoSuchFile { field: field(), path: shown(path), why });
        }
        there
    }

    /// A path, and a place in it after a `:`. Names hold colons as well; any beginning that is a file will do.
    fn place(&mut self, field: impl FnOnce() -> String, entry: &str) {
        let colons = entry.match_indices(':').take(MOST).map(|(at, _)| &entry[..at]);
        if !colons.chain([entry]).any(|path| self.view.has(path)) {
            self.path(field, entry);
        }
    }

    fn range(&mut self, field: impl Fn() -> String, path: &str, start: u32, end: u32) {
        if !self.path(&field, path) {
            return;
        }
        let lines = self.view.lines(path);
        if !(1 <= start && start <= end && end <= lines) {
            self.add(Ungrounded::NoSuchLines {
                field: field(),
                path: shown(path),
                start,
                end,
                lines,
            });
        }
    }

    fn add(&mut self, wrong: Ungrounded) {
        if self.wrong.len() < MOST {
            self.wrong.push(wrong);
        }
    }
}

/// What is wrong with a report of Scout A; nothing when it is grounded.
pub fn ground_a(report: &ReportA, view: &mut impl InView) -> Vec<Ungrounded> {
    let mut check = Check { view, wrong: Vec::new() };
    for (i, file) in report.repo_map.relevant_files.iter().enumerate() {
        check.path(|| format!("repo_map.relevant_files[{i}].path"), &file.path);
    }
    for (i, entry) in report.repo_map.entry_points.iter().enumerate() {
        check.place(|| format!("repo_map.entry_points[{i}]"), entry);
    }
    for (from, to) in &report.repo_map.dependency_graph {
        for path in std::iter::once(from).chain(to) {
            check.path(|| "repo_map.dependency_graph".to_owned(), path);
        }
    }
    for (i, zone) in report.risk_zones.iter().enumerate() {
        check.range(|| format!("risk_zones[{i}]"), &zone.file, zone.start_line, zone.end_line);
    }
    for (i, slice) in report.change_boundaries.safe_slices.iter().enumerate() {
        for path in &slice.files {
            check.path(|| format!("change_boundaries.safe_slices[{i}].files"), path);
        }
    }
    for (i, art) in report.prior_art.iter().enumerate() {
        check.path(|| format!("prior_art[{i}].file"), &art.file);
    }
    check.wrong
}

/// What is wrong with a report of Scout B; nothing when it is grounded.
pub fn ground_b(report: &ReportB, view: &mut impl InView) -> Vec<Ungrounded> {
    let mut check = Check { view, wrong: Vec::new() };
    for (i, path) in report.failure_analysis.affected_files.iter().enumerate() {
        check.path(|| format!("failure_analysis.affected_files[{i}]"), path);
    }
    check.wrong
}

/// Returns the places that are not in the repository. `lines` returns how many lines a file in view has.
pub fn ground_facts_b(
    facts: &FactsB,
    mut lines: impl FnMut(&str) -> Option<u32>,
) -> Vec<Ungrounded> {
    let wrong = |Location { path, line }: &Location| {
        let (field, path) = ("facts".to_owned(), path.clone());
        match lines(&path) {
            None => Some(Ungrounded::NoSuchFile { field, path, why: ABSENT }),
            Some(last) if 1 <= *line && *line <= last => None,
            Some(lines) => {
                Some(Ungrounded::NoSuchLines { field, path, start: *line, end: *line, lines })
            }
        }
    };
    facts.locations().filter_map(wrong).take(MOST).collect()
}

fn shown(path: &str) -> String {
    path.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `src/a.rs` has ten lines, `cmd/x:y.go` is there and no text.
    struct Ten;

    impl InView for Ten {
        fn has(&mut self, path: &str) -> bool {
            ["src/a.rs", "cmd/x:y.go"].contains(&path)
        }

        fn lines(&mut self, path: &str) -> u32 {
            if path == "src/a.rs" { 10 } else { 0 }
        }
    }

    fn zone(file: &str, start: u32, end: u32) -> serde_json::Value {
        json!({"file": file, "start_line": start, "end_line": end, "risk_level": "low", "complexity": "low",
               "dependencies": ["anything"], "invariants": [], "rationale": ""})
    }

    fn report_a(path: &str, zones: Vec<serde_json::Value>) -> ReportA {
        let report = json!({
            "schema_version": "1",
            "repo_map": {
                "relevant_files": [{"path": path, "purpose": "", "relevance": "primary"}],
                "entry_points": [format!("{path}:main")], "dependency_graph": {path: [path]}},
            "risk_zones": zones,
            "change_boundaries": {
                "safe_slices": [{"id": "s", "files": [path], "description": "", "complexity": "low", "order": 1}],
                "ordering_constraints": []},
            "conventions": {"naming": "", "patterns": [], "anti_patterns": []},
            "prior_art": [{"file": path, "description": "", "relevance": ""}],
            "verification_tips": [], "hypotheses": []
        });
        ReportA::parse(&report.to_string()).unwrap()
    }

    // SCOUT-8
    #[test]
    fn paths_that_exist_and_ranges_inside_their_file_are_grounded() {
        let report = report_a("src/a.rs", vec![zone("src/a.rs", 1, 10), zone("src/a.rs", 10, 10)]);
        assert_eq!(ground_a(&report, &mut Ten), []);
        assert_eq!(ground_a(&report_a("cmd/x:y.go", vec![]), &mut Ten), []);
        let binary = ground_a(&report_a("cmd/x:y.go", vec![zone("cmd/x:y.go", 1, 1)]), &mut Ten);
        assert!(binary[0].to_string().ends_with("which has 0"), "{binary:?}");
    }

    #[test]
    fn every_place_that_names_a_missing_file_is_listed() {
        let wrong = ground_a(&report_a("ghost.rs", vec![zone("ghost.rs", 1, 1)]), &mut Ten);
        let fields = wrong.iter().map(|wrong| match wrong {
            Ungrounded::NoSuchFile { field, .. } | Ungrounded::NoSuchLines { field, .. } => {
                field.as_str()
            }
        });
        assert_eq!(
            fields.collect::<Vec<_>>(),
            [
                "repo_map.relevant_files[0].path",
                "repo_map.entry_points[0]",
                "repo_map.dependency_graph",
                "repo_map.dependency_graph",
                "risk_zones[0]",
                "change_boundaries.safe_slices[0].files",
                "prior_art[0].file",
            ]
        );
        assert_eq!(wrong[4].to_string(), "risk_zones[0]: \"ghost.rs\" is not in the repository");
    }

    #[test]
    fn ranges_outside_their_file_or_backwards_are_not_grounded() {
        for (start, end) in [(0, 3), (9, 11), (5, 4), (11, 11)] {
            let report = report_a("src/a.rs", vec![zone("src/a.rs", start, end)]);
            let wrong = ground_a(&report, &mut Ten);
            let said =
                format!("risk_zones[0]: lines {start}-{end} are not in \"src/a.rs\", which has 10");
            assert_eq!(wrong.iter().map(ToString::to_string).collect::<Vec<_>>(), [said]);
        }
    }

    #[test]
    fn the_list_is_bounded() {
        let zones = (0..100).map(|_| zone("ghost.rs", 1, 1)).collect();
        assert_eq!(ground_a(&report_a("src/a.rs", zones), &mut Ten).len(), MOST);
    }

    #[test]
    fn files_that_a_failure_is_blamed_on_exist() {
        let report = json!({
            "schema_version": "1",
            "build": {"detected_system": "custom", "commands": {"install": null, "build": "", "clean": null},
                      "prerequisites": [], "notes": ""},
            "test": {"detected_framework": "custom", "commands": {"all": "", "unit": null, "integration": null},
                     "coverage_command": null, "notes": ""},
            "failure_analysis": {"root_cause": "", "affected_files": ["src/a.rs", "b.rs"],
                                 "suggested_investigation": [], "is_flaky": false, "flaky_reason": null},
            "environment_issues": []
        });
        let report = ReportB::parse(&report.to_string()).unwrap();
        let wrong = ground_b(&report, &mut Ten);
        assert_eq!(wrong.len(), 1);
        assert_eq!(
            wrong[0].to_string(),
            "failure_analysis.affected_files[1]: \"b.rs\" is not in the repository"
        );
    }
}
