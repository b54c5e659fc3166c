//! The report, schema version 1: lenient about what is missing, strict about what is unknown.

use crate::grounding::Faults;
use act_kit::grounding::Ground;
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
    /// With every file and range as the repository has it; an error that says what of it does not exist.
    pub(crate) fn grounded(mut self, ground: &Ground<'_>) -> Result<Self, String> {
        let mut faults = Faults::new(ground);
        for (at, file) in self.repo_map.relevant_files.iter_mut().enumerate() {
            faults.path(&format!("repo_map.relevant_files[{at}].path"), &mut file.path);
        }
        self.ground_entry_points(ground, &mut faults);
        for (mut from, mut to) in std::mem::take(&mut self.repo_map.dependency_graph) {
            let mut key = vec![from];
            faults.paths("repo_map.dependency_graph", &mut key);
            faults.paths("repo_map.dependency_graph", &mut to);
            if let Some(found) = key.pop() {
                from = found;
                self.repo_map.dependency_graph.insert(from, to);
            }
        }
        for (at, zone) in self.risk_zones.iter_mut().enumerate() {
            let field = format!("risk_zones[{at}]");
            if faults.path(&field, &mut zone.file) {
                let (start, end) = (zone.start_line, zone.end_line);
                match ground.lines(&zone.file, start, end) {
                    Some(range) => (zone.start_line, zone.end_line) = range,
                    None => faults
                        .add(format!("{field}: lines {start}-{end} are not in {:?}", zone.file)),
                }
            }
        }
        for (at, slice) in self.change_boundaries.safe_slices.iter_mut().enumerate() {
            faults.paths(&format!("change_boundaries.safe_slices[{at}].files"), &mut slice.files);
            if slice.id.is_empty() {
                slice.id = format!("slice-{}", at + 1);
            }
        }
        self.change_boundaries.safe_slices.retain(|slice| !slice.files.is_empty());
        for (at, art) in self.prior_art.iter_mut().enumerate() {
            faults.path(&format!("prior_art[{at}].file"), &mut art.file);
        }
        faults.outcome()?;
        Ok(self)
    }

    /// `path`, `path:line` or `path:symbol`; a place that the file does not have is left out, the file stays.
    fn ground_entry_points(&mut self, ground: &Ground<'_>, faults: &mut Faults<'_>) {
        let mut kept: Vec<String> = vec![];
        for entry in std::mem::take(&mut self.repo_map.entry_points) {
            let (path, place) = file_and_place(&entry, |path| ground.has(path));
            let mut path = vec![path.to_owned()];
            faults.paths("repo_map.entry_points", &mut path);
            let Some(mut path) = path.pop() else { continue };
            let there = match place.parse::<u32>() {
                Ok(line) => ground.lines(&path, line, line).is_some(),
                Err(_) => !place.is_empty() && defines(ground, &path, place),
            };
            if there {
                path = format!("{path}:{place}");
            }
            if !kept.contains(&path) {
                kept.push(path);
            }
        }
        self.repo_map.entry_points = kept;
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
        if self.repo_map.dependency_graph.is_empty() {
            self.repo_map.dependency_graph = facts.repo_map.dependency_graph;
        }
        fill(&mut self.risk_zones, facts.risk_zones);
        fill(&mut self.conventions.patterns, facts.conventions.patterns);
        fill(&mut self.verification_tips, facts.verification_tips);
        if self.conventions.naming.is_empty() {
            self.conventions.naming = facts.conventions.naming;
        }
        self
    }
}

/// Names of files hold colons as well; the longest that is a file counts.
fn file_and_place(entry: &str, has: impl Fn(&str) -> bool) -> (&str, &str) {
    let colons = entry.rmatch_indices(':').map(|(at, _)| (&entry[..at], entry[at + 1..].trim()));
    let known = std::iter::once((entry, "")).chain(colons).find(|(path, _)| has(path));
    known.or_else(|| entry.split_once(':')).unwrap_or((entry, ""))
}

/// Whether a parser sees a symbol of that name; `Container.name` and `name()` are understood.
fn defines(ground: &Ground<'_>, path: &str, symbol: &str) -> bool {
    let outline = ground.world.repository.outlines(&[path]).pop().flatten();
    let name = symbol.trim_end_matches("()").rsplit(['.', ':']).next().unwrap_or(symbol);
    outline.is_some_and(|outline| outline.symbols.iter().any(|symbol| symbol.name == name))
}
