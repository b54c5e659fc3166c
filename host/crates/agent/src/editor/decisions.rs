//! Where a field of both Scouts' reports differs, and how the Editor decided. The host compares fields, never prose;
//! which Scout is right is the Editor's decision, which it states in `plan`. Pure.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::scout::report_a::ReportA;
use crate::scout::report_b::ReportB;

/// A field in which the reports of both Scouts differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Conflict {
    pub about: &'static str,
    pub scout_a: String,
    pub scout_b: String,
}

/// The Editor's decision between two statements, as `plan` takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Decision {
    pub about: String,
    pub scout_a: String,
    pub scout_b: String,
    pub chosen: String,
    pub reason: String,
}

/// The conflicts that the host has shown to the Editor in one task, and the Editor's decisions.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    conflicts: Vec<Conflict>,
    made: Vec<Decision>,
    /// The lines that a dry run recorded.
    restored: Vec<String>,
}

impl Decisions {
    /// Restores the recorded lines of a dry run.
    pub(super) fn restore(&mut self, lines: Vec<String>) {
        self.restored = lines;
    }

    /// Compares two reports and returns the conflicts that were not shown before.
    pub(super) fn compare(&mut self, a: &ReportA, b: &ReportB) -> Vec<Conflict> {
        let mut fresh = conflicts(a, b);
        fresh.retain(|conflict| !self.conflicts.contains(conflict));
        self.conflicts.extend(fresh.iter().cloned());
        fresh
    }

    /// Adds decisions; a later one about the same thing replaces the earlier one.
    pub(super) fn decide(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            self.made.retain(|earlier| earlier.about != decision.about);
            self.made.push(decision.clone());
        }
    }

    /// Whether a conflict was shown that no decision is about.
    pub(super) fn are_open(&self) -> bool {
        self.conflicts.iter().any(|conflict| !self.decided(conflict))
    }

    fn decided(&self, conflict: &Conflict) -> bool {
        self.made.iter().any(|decision| decision.about == conflict.about)
    }

    /// One line for each decision and for each conflict that is not decided.
    pub(super) fn lines(&self) -> Vec<String> {
        let made = self.made.iter().map(|decision| {
            let Decision { about, scout_a, scout_b, chosen, reason } = decision;
            let line =
                format!("{about}: scout-a says {scout_a}, scout-b says {scout_b}; chosen: {chosen}, because {reason}");
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        });
        let open = self.conflicts.iter().filter(|conflict| !self.decided(conflict));
        let open = open.map(|Conflict { about, scout_a, scout_b }| {
            format!("{about}: scout-a says {scout_a}, scout-b says {scout_b}; not decided")
        });
        self.restored.iter().cloned().chain(made).chain(open).collect()
    }
}

/// Paths that one statement lists; a longer list would hide what the conflict is about.
const PATHS: usize = 5;

fn conflicts(a: &ReportA, b: &ReportB) -> Vec<Conflict> {
    let (scout_a, scout_b) = (files_of_a(a), files_of_b(b));
    let differ = !scout_a.is_empty() && !scout_b.is_empty() && scout_a.is_disjoint(&scout_b);
    let conflict = Conflict {
        about: "which files are affected",
        scout_a: listed(&scout_a),
        scout_b: listed(&scout_b),
    };
    if differ { vec![conflict] } else { vec![] }
}

fn listed(paths: &BTreeSet<&str>) -> String {
    let mut shown: Vec<_> = paths.iter().take(PATHS).copied().collect();
    if paths.len() > PATHS {
        shown.push("…");
    }
    shown.join(", ")
}

fn files_of_a(a: &ReportA) -> BTreeSet<&str> {
    let relevant = a.repo_map.relevant_files.iter().map(|file| &file.path);
    let slices = a.change_boundaries.safe_slices.iter().flat_map(|slice| &slice.files);
    let graph = a.repo_map.dependency_graph.iter();
    let graph = graph.flat_map(|(file, others)| std::iter::once(file).chain(others));
    let risky = a.risk_zones.iter().map(|zone| &zone.file);
    relevant.chain(slices).chain(graph).chain(risky).map(String::as_str).collect()
}

fn files_of_b(b: &ReportB) -> BTreeSet<&str> {
    b.failure_analysis.affected_files.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn report_a(files: &[&str], tips: &[&str]) -> ReportA {
        let file = |path: &&str| json!({"path": path, "purpose": "", "relevance": "primary"});
        let files: Vec<Value> = files.iter().map(file).collect();
        let report = json!({
            "schema_version": "1",
            "repo_map": {"relevant_files": files, "entry_points": [], "dependency_graph": {}},
            "risk_zones": [],
            "change_boundaries": {"safe_slices": [], "ordering_constraints": []},
            "conventions": {"naming": "", "patterns": [], "anti_patterns": []},
            "prior_art": [], "verification_tips": tips, "hypotheses": [],
        });
        ReportA::parse(&report.to_string()).unwrap()
    }

    fn report_b(framework: &str, all: &str, affected: &[&str]) -> ReportB {
        let report = json!({
            "schema_version": "1",
            "build": {
                "detected_system": "custom", "prerequisites": [], "notes": "",
                "commands": {"install": null, "build": "", "clean": null}},
            "test": {
                "detected_framework": framework, "coverage_command": null, "notes": "",
                "commands": {"all": all, "unit": null, "integration": null}},
            "failure_analysis": {
                "root_cause": "", "affected_files": affected, "suggested_investigation": [],
                "is_flaky": false, "flaky_reason": null},
            "environment_issues": [],
        });
        ReportB::parse(&report.to_string()).unwrap()
    }

    /// EDITOR-17
    #[test]
    fn a_conflict_is_shown_once_and_recorded_with_its_decision() {
        let a = report_a(&["src/a.py", "src/c.py"], &[]);
        let b = report_b("pytest", "pytest -q", &["src/b.py"]);
        let mut decisions = Decisions::default();
        let shown = decisions.compare(&a, &b);
        assert_eq!(
            (shown[0].scout_a.as_str(), shown[0].scout_b.as_str()),
            ("src/a.py, src/c.py", "src/b.py")
        );
        assert!(decisions.are_open() && decisions.compare(&a, &b).is_empty());
        let states =
            "which files are affected: scout-a says src/a.py, src/c.py, scout-b says src/b.py";
        assert_eq!(decisions.lines(), [format!("{states}; not decided")]);
        let decision = |chosen: &str| Decision {
            about: shown[0].about.to_owned(),
            scout_a: shown[0].scout_a.clone(),
            scout_b: shown[0].scout_b.clone(),
            chosen: chosen.to_owned(),
            reason: "the log\nnames it".to_owned(),
        };
        decisions.decide(&[decision("src/a.py")]);
        decisions.decide(&[decision("src/b.py")]);
        assert!(!decisions.are_open());
        assert_eq!(
            decisions.lines(),
            [format!("{states}; chosen: src/b.py, because the log names it")]
        );
    }

    /// EDITOR-17: words of the reports are for the Editor alone.
    #[test]
    fn prose_agreement_and_an_empty_field_are_no_conflict() {
        let a = report_a(&["src/a.py"], &["`yarn jest` runs everything"]);
        for b in [
            report_b("pytest", "python -m pytest tests/unit", &["src/a.py", "src/c.py"]),
            report_b("pytest", "npm ci && pytest -q", &[]),
        ] {
            assert_eq!(conflicts(&a, &b), []);
        }
        assert_eq!(conflicts(&report_a(&[], &[]), &report_b("jest", "npx jest", &["x"])), []);
    }

    #[test]
    fn long_lists_are_cut() {
        let files: Vec<String> = (0..9).map(|n| format!("src/{n}.py")).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let found = conflicts(&report_a(&files, &[]), &report_b("custom", "", &["other.py"]));
        assert!(found[0].scout_a.ends_with("src/4.py, …"), "{found:?}");
    }
}
