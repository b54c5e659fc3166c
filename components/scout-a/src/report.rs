//! The report, schema version 1: lenient about what is missing, strict about what is unknown.

use scouting::grounding::Ground;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Report {
    pub(crate) schema_version: Value,
    pub(crate) repo_map: RepoMap,
    pub(crate) risk_zones: Vec<RiskZone>,
    pub(crate) change_boundaries: ChangeBoundaries,
    pub(crate) conventions: Conventions,
    pub(crate) prior_art: Vec<PriorArt>,
    pub(crate) verification_tips: Vec<String>,
    pub(crate) hypotheses: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RepoMap {
    pub(crate) relevant_files: Vec<RelevantFile>,
    pub(crate) entry_points: Vec<String>,
    pub(crate) dependency_graph: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RelevantFile {
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) purpose: String,
    #[serde(default)]
    pub(crate) relevance: Relevance,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Relevance {
    Primary,
    Secondary,
    #[default]
    Context,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Low,
    #[default]
    Medium,
    High,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RiskZone {
    pub(crate) file: String,
    pub(crate) start_line: u32,
    pub(crate) end_line: u32,
    #[serde(default)]
    pub(crate) risk_level: Level,
    #[serde(default)]
    pub(crate) complexity: Level,
    #[serde(default)]
    pub(crate) dependencies: Vec<String>,
    #[serde(default)]
    pub(crate) invariants: Vec<String>,
    #[serde(default)]
    pub(crate) rationale: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ChangeBoundaries {
    pub(crate) safe_slices: Vec<SafeSlice>,
    pub(crate) ordering_constraints: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SafeSlice {
    #[serde(default)]
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) files: Vec<String>,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) complexity: Level,
    #[serde(default)]
    pub(crate) order: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Conventions {
    pub(crate) naming: String,
    pub(crate) patterns: Vec<String>,
    pub(crate) anti_patterns: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriorArt {
    pub(crate) file: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) relevance: String,
}

impl Report {
    /// The version, if there is one, must be ours.
    pub(crate) fn check(&self) -> Result<(), String> {
        let ours = match &self.schema_version {
            Value::Null => true,
            Value::String(version) => version == "1",
            Value::Number(version) => version.as_u64() == Some(1),
            _ => false,
        };
        if ours {
            Ok(())
        } else {
            Err(format!("schema_version is {}, not \"1\"", self.schema_version))
        }
    }

    /// Without the files and lines that do not exist. A report that named files, none of which is there, is wrong.
    pub(crate) fn grounded(mut self, ground: &Ground<'_>) -> Result<Self, String> {
        let named = self.repo_map.relevant_files.len();
        self.repo_map.relevant_files.retain_mut(|file| keep(ground, &mut file.path));
        if named > 0 && self.repo_map.relevant_files.is_empty() {
            return Err("repo_map.relevant_files: none of these files exists".to_owned());
        }
        ground.keep_paths(&mut self.repo_map.entry_points);
        let graph = std::mem::take(&mut self.repo_map.dependency_graph);
        for (mut from, mut to) in graph {
            if keep(ground, &mut from) {
                ground.keep_paths(&mut to);
                self.repo_map.dependency_graph.insert(from, to);
            }
        }
        self.risk_zones.retain_mut(|zone| {
            let range = keep(ground, &mut zone.file)
                .then(|| ground.lines(&zone.file, zone.start_line, zone.end_line))
                .flatten();
            (zone.start_line, zone.end_line) = range.unwrap_or_default();
            range.is_some()
        });
        for (at, slice) in self.change_boundaries.safe_slices.iter_mut().enumerate() {
            ground.keep_paths(&mut slice.files);
            if slice.id.is_empty() {
                slice.id = format!("slice-{}", at + 1);
            }
        }
        self.change_boundaries.safe_slices.retain(|slice| !slice.files.is_empty());
        self.prior_art.retain_mut(|art| keep(ground, &mut art.file));
        Ok(self)
    }

    /// What the model left out and facts can say.
    pub(crate) fn completed(mut self, facts: Self) -> Self {
        fn fill<T>(said: &mut Vec<T>, fact: Vec<T>) {
            if said.is_empty() {
                *said = fact;
            }
        }
        self.schema_version = facts.schema_version;
        fill(&mut self.repo_map.relevant_files, facts.repo_map.relevant_files);
        fill(&mut self.repo_map.entry_points, facts.repo_map.entry_points);
        fill(&mut self.verification_tips, facts.verification_tips);
        if self.conventions.naming.is_empty() {
            self.conventions.naming = facts.conventions.naming;
        }
        self
    }
}

fn keep(ground: &Ground<'_>, path: &mut String) -> bool {
    match ground.path(path) {
        Some(clean) => {
            *path = clean;
            true
        }
        None => false,
    }
}
