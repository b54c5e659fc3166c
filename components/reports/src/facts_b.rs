//! Scout B's facts, schema version 1: how the repository says that it is built and tested, and what a log shows.
//!
//! The comments on fields are the descriptions in `specs/schemas/scout-b-facts.json`.

use crate::one_line;
use crate::report_b::{EnvironmentIssue, System};
use crate::version::{SchemaError, checked, nullable};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FactsB {
    pub schema_version: String,
    /// `b`.
    pub scout: String,
    /// The pipeline in `agent.yaml`, which decides when a task is done. Missing where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<Pipeline>,
    /// The root's first, then by directory.
    pub projects: Vec<Project>,
    /// To verify in: the user's own, one that CI or a Dockerfile uses, or a public one of a version that fits.
    pub suggested_image: String,
    pub conflicts: Vec<Conflict>,
    /// Files that could not be understood.
    pub problems: Vec<Problem>,
    /// There is more than was looked at.
    pub truncated: bool,
    /// Only where a log was given.
    #[serde(deserialize_with = "nullable")]
    pub failure: Option<Failure>,
}

/// The steps of `agent.yaml`, as they are written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pipeline {
    /// `act init` wrote the file from facts like these, so its steps are no evidence for how the repository is tested.
    pub by_init: bool,
    pub steps: Vec<PipelineStep>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PipelineStep {
    pub name: String,
    /// May have several lines.
    pub command: String,
    pub source: Location,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Project {
    /// Directory in which its commands run; `.` for the repository's.
    pub root: String,
    pub system: System,
    /// `none` where there is none.
    pub package_manager: String,
    /// By its own name, also where a report has none for it; `custom` where none is recognised.
    pub framework: String,
    pub commands: Commands,
    pub prerequisites: Vec<Prerequisite>,
    pub has_tests: bool,
    /// The manifest that makes it a project.
    pub source: Location,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Commands {
    #[serde(deserialize_with = "nullable")]
    pub install: Option<Command>,
    #[serde(deserialize_with = "nullable")]
    pub build: Option<Command>,
    #[serde(deserialize_with = "nullable")]
    pub clean: Option<Command>,
    #[serde(deserialize_with = "nullable")]
    pub test: Option<Command>,
    #[serde(deserialize_with = "nullable")]
    pub unit: Option<Command>,
    #[serde(deserialize_with = "nullable")]
    pub integration: Option<Command>,
    #[serde(deserialize_with = "nullable")]
    pub coverage: Option<Command>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Command {
    pub command: String,
    /// Where it is said; for what one does by custom, where the tool is declared.
    pub source: Location,
    /// A sentence that a user of the command has to know: it needs a browser, or it runs fewer tests than another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// A line of a file, from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Place"))]
pub struct Location {
    pub path: String,
    pub line: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Prerequisite {
    pub name: String,
    /// As written: a version or a range.
    #[serde(deserialize_with = "nullable")]
    pub version: Option<String>,
    pub source: Location,
}

/// What the repository says about itself in two ways.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conflict {
    /// `package_manager`, `version`, `command` or `workspace`.
    pub topic: String,
    pub message: String,
    pub sources: Vec<Location>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Problem {
    pub path: String,
    #[serde(deserialize_with = "nullable")]
    pub line: Option<u32>,
    pub message: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// `unknown` when no tool is recognised.
    pub tool: String,
    pub failing_tests: Vec<String>,
    /// Empty when nothing looks like an error.
    pub first_error: String,
    /// Of the repository, the most telling first.
    pub locations: Vec<Location>,
    pub environment_issues: Vec<EnvironmentIssue>,
    /// Told, and nothing else: a flaky test that fails still fails the run.
    pub is_flaky: bool,
    #[serde(deserialize_with = "nullable")]
    pub flaky_reason: Option<String>,
}

impl Project {
    fn locations(&self) -> Vec<&Location> {
        let Commands { install, build, clean, test, unit, integration, coverage } = &self.commands;
        let commands = [install, build, clean, test, unit, integration, coverage];
        let commands = commands.into_iter().flatten().map(|command| &command.source);
        let needed = self.prerequisites.iter().map(|needed| &needed.source);
        commands.chain(needed).chain([&self.source]).collect()
    }
}

impl FactsB {
    /// Reads facts that a component returned.
    ///
    /// # Errors
    ///
    /// As [`checked`].
    pub fn parse(json: &str) -> Result<Self, SchemaError> {
        checked(json)
    }

    /// Returns every location that the facts name.
    pub fn locations(&self) -> impl Iterator<Item = &Location> {
        let projects = self.projects.iter().flat_map(Project::locations);
        let conflicts = self.conflicts.iter().flat_map(|conflict| &conflict.sources);
        let failure = self.failure.iter().flat_map(|failure| &failure.locations);
        let steps = self.pipeline.iter().flat_map(|pipeline| &pipeline.steps);
        let steps = steps.map(|step| &step.source);
        steps.chain(projects).chain(conflicts).chain(failure)
    }

    /// Summarises the facts in one line. Control characters are replaced, because the texts come from the repository
    /// and from a log.
    pub fn summary(&self) -> String {
        let mut summary = match self.projects.as_slice() {
            [] => "no project found".to_owned(),
            [only] => format!("{} project", only.package_manager),
            several => format!("{} projects", several.len()),
        };
        let test = self.projects.iter().find_map(|project| project.commands.test.as_ref());
        if let Some(test) = test {
            summary.push_str(&format!(", tested by `{}`", one_line(&test.command, 80)));
        }
        if !self.conflicts.is_empty() {
            summary.push_str(&format!(", {} conflicts", self.conflicts.len()));
        }
        if let Some(failure) = &self.failure {
            let failed = match failure.failing_tests.len() {
                0 => String::new(),
                1 => ", 1 test failed".to_owned(),
                n => format!(", {n} tests failed"),
            };
            let error = one_line(&failure.first_error, 160);
            summary.push_str(&format!("; {}{failed}: {error}", one_line(&failure.tool, 20)));
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts() -> serde_json::Value {
        let at = |path: &str| json!({"path": path, "line": 3});
        json!({
            "schema_version": "1", "scout": "b",
            "projects": [{
                "root": ".", "system": "npm", "package_manager": "npm", "framework": "vitest",
                "commands": {
                    "install": null, "build": null, "clean": null,
                    "test": {"command": "npm test", "source": at("package.json")},
                    "unit": null, "integration": null, "coverage": null},
                "prerequisites": [{"name": "node", "version": null, "source": at(".nvmrc")}],
                "has_tests": true, "source": at("package.json")}],
            "suggested_image": "node:22",
            "conflicts": [{"topic": "version", "message": "x", "sources": [at("Dockerfile")]}],
            "problems": [{"path": "b", "line": null, "message": "no"}],
            "truncated": false,
            "failure": {
                "tool": "vitest", "failing_tests": ["a"], "first_error": "one\ntwo",
                "locations": [at("a.ts")], "environment_issues": [], "is_flaky": false,
                "flaky_reason": null}
        })
    }

    // SCOUT-B-8
    #[test]
    fn facts_are_read_and_written_as_they_were_and_every_place_is_known() {
        let facts = facts();
        let read = FactsB::parse(&facts.to_string()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), facts);
        let locations: Vec<_> = read.locations().map(|location| location.path.as_str()).collect();
        assert_eq!(locations, ["package.json", ".nvmrc", "package.json", "Dockerfile", "a.ts"]);
        assert_eq!(
            read.summary(),
            "npm project, tested by `npm test`, 1 conflicts; vitest, 1 test failed: one two"
        );
    }
}
