//! What the host reads off the Scouts' reports for the Editor, beside the reports: where to begin, and whether
//! tests are owed. Pure.

use serde_json::{Value, json};

use crate::scout::report_a::{Level, ReportA, SafeSlice};
use crate::scout::report_b::{Framework, ReportB, System};

/// The slice to begin with: first in Scout A's order, then the simplest, then the smallest. None where there
/// is no choice.
pub(super) fn first_slice(a: &ReportA) -> Option<&SafeSlice> {
    let slices = &a.change_boundaries.safe_slices;
    let hard = |slice: &SafeSlice| match slice.complexity {
        Level::Low => 0,
        Level::Medium => 1,
        Level::High => 2,
    };
    let key =
        |slice: &&SafeSlice| (slice.order.is_none(), slice.order, hard(slice), slice.files.len());
    slices.iter().min_by_key(key).filter(|_| slices.len() > 1)
}

/// For a repository that has no tests: what is to be added, and how it runs.
pub(super) fn tests_owed(b: &ReportB) -> Value {
    let todo = match framework(b) {
        Some(name) => format!(
            "the repository has no tests: add some for what you change, with {name}, where the pipeline or \
             its own command runs them"
        ),
        None => {
            "the repository has no tests and no test framework was found: add a small one that its \
                 language brings along, or say in `done` why not"
                .to_owned()
        }
    };
    let command = Some(&b.test.commands.all).filter(|command| !command.trim().is_empty());
    match command {
        Some(command) => json!({"todo": todo, "command": command}),
        None => json!({"todo": todo}),
    }
}

fn framework(b: &ReportB) -> Option<&'static str> {
    Some(match (b.test.detected_framework, b.build.detected_system) {
        (Framework::Jest, _) => "jest",
        (Framework::Pytest, _) => "pytest",
        (Framework::GoTest, _) | (_, System::Go) => "go test",
        (Framework::CargoTest, _) | (_, System::Cargo) => "cargo test",
        (Framework::Junit, _) | (_, System::Gradle | System::Maven) => "junit",
        (Framework::Mocha, _) => "mocha",
        (Framework::Custom, _) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(id: &str, files: usize, complexity: &str, order: Option<i64>) -> Value {
        let files: Vec<_> = (0..files).map(|n| format!("{n}.rs")).collect();
        json!({"id": id, "files": files, "description": "", "complexity": complexity, "order": order})
    }

    fn report_a(slices: &[Value]) -> ReportA {
        let report = json!({
            "schema_version": "1",
            "repo_map": {"relevant_files": [], "entry_points": [], "dependency_graph": {}},
            "risk_zones": [],
            "change_boundaries": {"safe_slices": slices, "ordering_constraints": []},
            "conventions": {"naming": "", "patterns": [], "anti_patterns": []},
            "prior_art": [], "verification_tips": [], "hypotheses": [],
        });
        ReportA::parse(&report.to_string()).unwrap()
    }

    /// EDITOR-18
    #[test]
    fn the_first_slice_is_scout_as_else_the_simplest_and_smallest() {
        let first = |slices: &[Value]| first_slice(&report_a(slices)).map(|slice| slice.id.clone());
        let ordered = [slice("b", 1, "low", Some(2)), slice("a", 9, "high", Some(1))];
        assert_eq!(first(&ordered).as_deref(), Some("a"));
        let half = [slice("b", 1, "low", None), slice("a", 9, "high", Some(7))];
        assert_eq!(first(&half).as_deref(), Some("a"));
        let free =
            [slice("c", 2, "low", None), slice("b", 1, "low", None), slice("a", 1, "medium", None)];
        assert_eq!(first(&free).as_deref(), Some("b"));
        assert_eq!(first(&free[..1]), None);
    }

    /// EDITOR-16
    #[test]
    fn owed_tests_name_the_framework_that_was_detected() {
        let report = |framework: &str, system: &str, all: &str| {
            let report = json!({
                "schema_version": "1",
                "build": {
                    "detected_system": system, "prerequisites": [], "notes": "",
                    "commands": {"install": null, "build": "", "clean": null}},
                "test": {
                    "detected_framework": framework, "coverage_command": null, "notes": "",
                    "commands": {"all": all, "unit": null, "integration": null}},
                "failure_analysis": {
                    "root_cause": "", "affected_files": [], "suggested_investigation": [],
                    "is_flaky": false, "flaky_reason": null},
                "environment_issues": [],
            });
            tests_owed(&ReportB::parse(&report.to_string()).unwrap())
        };
        let pytest = report("pytest", "custom", "pytest -q");
        assert!(pytest["todo"].as_str().unwrap().contains("with pytest"));
        assert_eq!(pytest["command"], "pytest -q");
        assert!(report("custom", "cargo", "")["todo"].as_str().unwrap().contains("cargo test"));
        let none = report("custom", "make", " ");
        assert!(
            none["todo"].as_str().unwrap().contains("no test framework")
                && none.get("command").is_none()
        );
    }
}
