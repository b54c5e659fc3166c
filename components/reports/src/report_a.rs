//! Scout A's report, schema version 1.

use crate::Judged;
use crate::version::{SchemaError, SchemaVersion, checked, nullable};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which files matter for a question, how they depend on each other, and where a change is risky.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "lenient", serde(default))]
pub struct ReportA {
    pub schema_version: SchemaVersion,
    pub repo_map: RepoMap,
    pub risk_zones: Vec<RiskZone>,
    pub change_boundaries: ChangeBoundaries,
    pub conventions: Conventions,
    pub prior_art: Vec<PriorArt>,
    pub verification_tips: Vec<String>,
    pub hypotheses: Vec<String>,
    /// Lines that answer the question best. The host shows their text to the Editor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excerpts: Vec<Excerpt>,
}

/// Lines of a file: counted from 1, both ends included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Excerpt {
    pub file: String,
    pub start_line: u32,
    pub end_line: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "lenient", serde(default))]
pub struct RepoMap {
    pub relevant_files: Vec<RelevantFile>,
    /// Paths. The part behind a `:` names a line or a symbol of the file.
    pub entry_points: Vec<String>,
    /// Maps a file to the files that it depends on.
    pub dependency_graph: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelevantFile {
    pub path: String,
    #[cfg_attr(feature = "lenient", serde(default))]
    pub purpose: String,
    #[cfg_attr(feature = "lenient", serde(default))]
    pub relevance: Judged<Relevance>,
}

words! {
    pub enum Relevance {
        Primary = "primary",
        Secondary = "secondary",
        Context = "context",
    }
}

words! {
    pub enum Level {
        Low = "low",
        Medium = "medium",
        High = "high",
    }
}

/// Lines of a file in which a change may break something: counted from 1, both ends included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RiskZone {
    pub file: String,
    pub start_line: u32,
    pub end_line: u32,
    #[cfg_attr(feature = "lenient", serde(default))]
    pub risk_level: Judged<Level>,
    #[cfg_attr(feature = "lenient", serde(default))]
    pub complexity: Judged<Level>,
    /// Files, modules or services, in words.
    #[cfg_attr(feature = "lenient", serde(default))]
    pub dependencies: Vec<String>,
    #[cfg_attr(feature = "lenient", serde(default))]
    pub invariants: Vec<String>,
    #[cfg_attr(feature = "lenient", serde(default))]
    pub rationale: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "lenient", serde(default))]
pub struct ChangeBoundaries {
    pub safe_slices: Vec<SafeSlice>,
    pub ordering_constraints: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SafeSlice {
    #[cfg_attr(feature = "lenient", serde(default))]
    pub id: String,
    #[cfg_attr(feature = "lenient", serde(default))]
    pub files: Vec<String>,
    #[cfg_attr(feature = "lenient", serde(default))]
    pub description: String,
    #[cfg_attr(feature = "lenient", serde(default))]
    pub complexity: Judged<Level>,
    #[serde(deserialize_with = "nullable")]
    #[cfg_attr(feature = "lenient", serde(default))]
    pub order: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "lenient", serde(default))]
pub struct Conventions {
    pub naming: String,
    pub patterns: Vec<String>,
    pub anti_patterns: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriorArt {
    pub file: String,
    #[cfg_attr(feature = "lenient", serde(default))]
    pub description: String,
    #[cfg_attr(feature = "lenient", serde(default))]
    pub relevance: String,
}

impl ReportA {
    /// Reads a report that a component returned.
    ///
    /// # Errors
    ///
    /// As [`checked`].
    pub fn parse(json: &str) -> Result<Self, SchemaError> {
        checked(json)
    }

    /// Summarises the report in one line, for events.
    #[allow(
        clippy::useless_conversion,
        reason = "a judgement is optional with the feature lenient"
    )]
    pub fn summary(&self) -> String {
        let primary: Judged<Relevance> = Relevance::Primary.into();
        let high: Judged<Level> = Level::High.into();
        let files = &self.repo_map.relevant_files;
        let primary = files.iter().filter(|file| file.relevance == primary);
        let high = self.risk_zones.iter().filter(|zone| zone.risk_level == high).count();
        format!(
            "{} relevant files ({} primary), {} risk zones ({high} high), {} safe slices",
            files.len(),
            primary.count(),
            self.risk_zones.len(),
            self.change_boundaries.safe_slices.len(),
        )
    }
}

/// Returns a report with every field, for tests.
#[cfg(any(test, feature = "schema"))]
pub fn example() -> serde_json::Value {
    serde_json::json!({
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
        "hypotheses": [],
        "excerpts": [{"file": "a.rs", "start_line": 1, "end_line": 2}]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // SCOUT-A-1
    #[test]
    fn a_full_report_is_read_and_written_as_it_was() {
        let report = ReportA::parse(&example().to_string()).unwrap();
        assert_eq!(serde_json::to_value(&report).unwrap(), example());
        assert_eq!(
            report.summary(),
            "1 relevant files (1 primary), 1 risk zones (1 high), 1 safe slices"
        );
    }

    // SCOUT-A-14: reports of components that were built before there were excerpts
    #[test]
    fn a_report_without_excerpts_is_read_and_written_as_it_was() {
        let mut before = example();
        before.as_object_mut().unwrap().remove("excerpts");
        let report = ReportA::parse(&before.to_string()).unwrap();
        assert_eq!(serde_json::to_value(&report).unwrap(), before);
    }
}
