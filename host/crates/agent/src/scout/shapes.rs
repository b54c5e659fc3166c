//! The host reads reports and facts strictly, and publishes the schemas of the facts.

use act_core::event::schema;
use act_reports::{FactsA, FactsB};

#[test]
fn the_schemas_of_the_facts_are_published() {
    // EVENT-8
    schema::holds::<FactsA>("scout-a-facts");
    schema::holds::<FactsB>("scout-b-facts");
}

mod report_a {
    use act_reports::ReportA;
    use serde_json::{Value, json};

    fn full() -> Value {
        json!({
            "schema_version": "1",
            "repo_map": {
                "relevant_files": [{"path": "a.rs", "purpose": "adds", "relevance": "primary"}],
                "entry_points": ["a.rs:main"], "dependency_graph": {"a.rs": ["b.rs"]}},
            "risk_zones": [{
                "file": "a.rs", "start_line": 1, "end_line": 2, "risk_level": "high", "complexity": "low",
                "dependencies": [], "invariants": ["sums"], "rationale": "money"}],
            "change_boundaries": {
                "safe_slices": [{"id": "s", "files": ["a.rs"], "description": "x", "complexity": "medium", "order": null}],
                "ordering_constraints": []},
            "conventions": {"naming": "snake", "patterns": [], "anti_patterns": []},
            "prior_art": [{"file": "b.rs", "description": "x", "relevance": "same"}],
            "verification_tips": ["run it"],
            "hypotheses": []
        })
    }

    #[test]
    fn unknown_and_missing_fields_and_words_are_refused_by_name() {
        let refused = |change: fn(&mut Value)| {
            let mut report = full();
            change(&mut report);
            ReportA::parse(&report.to_string()).unwrap_err().to_string()
        };
        assert!(refused(|r| r["extra"] = json!(1)).contains("unknown field `extra`"));
        assert!(refused(|r| r["risk_zones"][0]["why"] = json!("")).contains("unknown field `why`"));
        assert!(
            refused(|r| r["risk_zones"][0]["risk_level"] = json!("huge"))
                .contains("unknown variant `huge`")
        );
        assert!(
            refused(|r| {
                r["change_boundaries"]["safe_slices"][0].as_object_mut().unwrap().remove("order");
            })
            .contains("missing field `order`")
        );
    }
}

mod report_b {
    use act_reports::ReportB;
    use serde_json::{Value, json};

    fn full() -> Value {
        json!({
            "schema_version": "1",
            "build": {
                "detected_system": "custom",
                "commands": {"install": null, "build": "", "clean": null},
                "prerequisites": ["python"], "notes": ""},
            "test": {
                "detected_framework": "go test",
                "commands": {"all": "go test ./...", "unit": null, "integration": "x"},
                "coverage_command": null, "notes": ""},
            "failure_analysis": {
                "root_cause": "off by\none", "affected_files": ["a.go"], "suggested_investigation": [],
                "is_flaky": false, "flaky_reason": null},
            "environment_issues": [{"issue": "no gcc", "severity": "blocking", "suggested_fix": "another image"}]
        })
    }

    #[test]
    fn unknown_and_missing_fields_and_words_are_refused_by_name() {
        let refused = |change: fn(&mut Value)| {
            let mut report = full();
            change(&mut report);
            ReportB::parse(&report.to_string()).unwrap_err().to_string()
        };
        assert!(refused(|r| r["test"]["skip"] = json!([])).contains("unknown field `skip`"));
        assert!(
            refused(|r| r["build"]["detected_system"] = json!("bazel"))
                .contains("unknown variant `bazel`")
        );
        assert!(
            refused(|r| {
                r["build"]["commands"].as_object_mut().unwrap().remove("install");
            })
            .contains("missing field `install`")
        );
    }
}
