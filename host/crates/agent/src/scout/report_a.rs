//! Scout A's report, schema version 1, as the host believes it: every field there, no field unknown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::version::{SchemaError, checked};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportA {
    pub schema_version: String,
    pub repo_map: RepoMap,
    pub risk_zones: Vec<RiskZone>,
    pub change_boundaries: ChangeBoundaries,
    pub conventions: Conventions,
    pub prior_art: Vec<PriorArt>,
    pub verification_tips: Vec<String>,
    pub hypotheses: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepoMap {
    pub relevant_files: Vec<RelevantFile>,
    /// Paths; what follows a `:` names a place inside the file.
    pub entry_points: Vec<String>,
    /// A file, and the files that it depends on.
    pub dependency_graph: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelevantFile {
    pub path: String,
    pub purpose: String,
    pub relevance: Relevance,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Relevance {
    Primary,
    Secondary,
    Context,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub enum Level {
    Low,
    Medium,
    High,
}

/// Lines from 1, both ends included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskZone {
    pub file: String,
    pub start_line: u32,
    pub end_line: u32,
    pub risk_level: Level,
    pub complexity: Level,
    /// In words: files, modules or services.
    pub dependencies: Vec<String>,
    pub invariants: Vec<String>,
    pub rationale: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeBoundaries {
    pub safe_slices: Vec<SafeSlice>,
    pub ordering_constraints: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SafeSlice {
    pub id: String,
    pub files: Vec<String>,
    pub description: String,
    pub complexity: Level,
    #[serde(deserialize_with = "super::version::nullable")]
    pub order: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conventions {
    pub naming: String,
    pub patterns: Vec<String>,
    pub anti_patterns: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriorArt {
    pub file: String,
    pub description: String,
    pub relevance: String,
}

impl ReportA {
    pub fn parse(json: &str) -> Result<Self, SchemaError> {
        checked(json)
    }

    /// One line for events.
    pub fn summary(&self) -> String {
        let primary =
            self.repo_map.relevant_files.iter().filter(|file| file.relevance == Relevance::Primary);
        let high = self.risk_zones.iter().filter(|zone| zone.risk_level == Level::High).count();
        format!(
            "{} relevant files ({} primary), {} risk zones ({high} high), {} safe slices",
            self.repo_map.relevant_files.len(),
            primary.count(),
            self.risk_zones.len(),
            self.change_boundaries.safe_slices.len(),
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

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

    // SCOUT-A-1
    #[test]
    fn a_full_report_is_read_and_written_as_it_was() {
        let report = ReportA::parse(&full().to_string()).unwrap();
        assert_eq!(serde_json::to_value(&report).unwrap(), full());
        assert_eq!(
            report.summary(),
            "1 relevant files (1 primary), 1 risk zones (1 high), 1 safe slices"
        );
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
