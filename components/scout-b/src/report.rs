//! The report, schema version 1: lenient about what is missing, strict about what is unknown. What the manifests
//! say stands; the model fills what they leave open.

use crate::conflicts;
use crate::draft::Rank;
use crate::facts::{Facts, Project, System, Topic};
pub(crate) use crate::failure::EnvironmentIssue;
use crate::failure::mentions;
use crate::opening::primary;
use crate::statement::line_of;
use crate::tree::Tree;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Report {
    pub(crate) schema_version: Value,
    pub(crate) build: Build,
    pub(crate) test: Test,
    pub(crate) failure_analysis: FailureAnalysis,
    pub(crate) environment_issues: Vec<EnvironmentIssue>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Build {
    pub(crate) detected_system: System,
    pub(crate) commands: BuildCommands,
    pub(crate) prerequisites: Vec<String>,
    pub(crate) notes: String,
}

/// An empty `build` means that there is nothing to build.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct BuildCommands {
    pub(crate) install: Option<String>,
    pub(crate) build: String,
    pub(crate) clean: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Test {
    pub(crate) detected_framework: Framework,
    pub(crate) commands: TestCommands,
    pub(crate) coverage_command: Option<String>,
    pub(crate) notes: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TestCommands {
    pub(crate) all: String,
    pub(crate) unit: Option<String>,
    pub(crate) integration: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct FailureAnalysis {
    pub(crate) root_cause: String,
    pub(crate) affected_files: Vec<String>,
    pub(crate) suggested_investigation: Vec<String>,
    pub(crate) is_flaky: bool,
    pub(crate) flaky_reason: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Framework {
    #[serde(rename = "jest")]
    Jest,
    #[serde(rename = "pytest")]
    Pytest,
    #[serde(rename = "go test")]
    GoTest,
    #[serde(rename = "cargo test")]
    CargoTest,
    #[serde(rename = "junit")]
    Junit,
    #[serde(rename = "mocha")]
    Mocha,
    #[default]
    #[serde(rename = "custom")]
    Custom,
}

impl Framework {
    /// The word that the schema has for a framework.
    fn of(name: &str) -> Self {
        serde_json::from_value(Value::from(name)).unwrap_or_default()
    }
}

impl Report {
    /// Drops commands that name targets, scripts or files which are not there, and says so in the notes: what the
    /// manifests say is in the report anyway.
    pub(crate) fn keep_commands(&mut self, tree: &Tree<'_>, package: Option<&str>) {
        let root = package.unwrap_or_default().trim_matches('/');
        let mut dropped = Vec::new();
        let mut missing = |field: &str, command: &str| {
            let statements = line_of(command, field, 1, root, Rank::Documents);
            let why = statements.iter().find_map(|said| conflicts::missing(tree, said));
            let why = why.as_ref().and_then(|why| why.split_once(" says ")).map(|(_, why)| why);
            dropped.extend(why.map(|why| format!("{field} is left out: {why}")));
            why.is_some()
        };
        let (build, test) = (&mut self.build.commands, &mut self.test.commands);
        for (field, command) in
            [("build.commands.build", &mut build.build), ("test.commands.all", &mut test.all)]
        {
            if missing(field, command) {
                command.clear();
            }
        }
        for (field, command) in [
            ("build.commands.install", &mut build.install),
            ("build.commands.clean", &mut build.clean),
            ("test.commands.unit", &mut test.unit),
            ("test.commands.integration", &mut test.integration),
            ("test.coverage_command", &mut self.test.coverage_command),
        ] {
            if command.as_deref().is_some_and(|command| missing(field, command)) {
                *command = None;
            }
        }
        or_both(&mut self.build.notes, dropped.join("; "));
    }

    /// The lines that its texts name are there.
    pub(crate) fn stands(&self, tree: &Tree<'_>) -> Result<(), String> {
        for text in &self.failure_analysis.suggested_investigation {
            for (path, line) in mentions(text) {
                if let Some(lines) = tree.lines(path.trim_start_matches("./"))
                    && line > lines
                {
                    return Err(format!(
                        "failure_analysis.suggested_investigation: {path} has {lines} lines, not {line}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The report that facts alone give.
    pub(crate) fn of_facts(facts: &Facts, package: Option<&str>) -> Self {
        let mut report = Self { schema_version: Value::from("1"), ..Self::default() };
        if let Some(project) = primary(facts, package) {
            report.of_project(project);
        }
        report.build.notes = notes(facts, package).join("; ");
        if let Some(failure) = &facts.failure {
            let analysis = &mut report.failure_analysis;
            analysis.root_cause = failure.first_error.clone();
            for place in &failure.locations {
                if !analysis.affected_files.contains(&place.path) {
                    analysis.affected_files.push(place.path.clone());
                }
            }
            let places = failure.locations.iter().take(5);
            analysis.suggested_investigation =
                places.map(|place| format!("{}:{}", place.path, place.line)).collect();
            analysis.is_flaky = failure.is_flaky;
            analysis.flaky_reason = failure.flaky_reason.clone();
            report.environment_issues = failure.environment_issues.clone();
        }
        report
    }

    fn of_project(&mut self, project: &Project) {
        let said = |command: &Option<crate::facts::Command>| {
            command.as_ref().map(|command| command.command.clone())
        };
        let commands = &project.commands;
        self.build.detected_system = project.system;
        self.build.commands = BuildCommands {
            install: said(&commands.install),
            build: said(&commands.build).unwrap_or_default(),
            clean: said(&commands.clean),
        };
        let needed = project.prerequisites.iter().map(|needed| match &needed.version {
            Some(version) => format!("{} {version}", needed.name),
            None => needed.name.clone(),
        });
        self.build.prerequisites = needed.collect();
        self.build.prerequisites.dedup();
        self.test.detected_framework = Framework::of(&project.framework);
        self.test.commands = TestCommands {
            all: said(&commands.test).unwrap_or_default(),
            unit: said(&commands.unit),
            integration: said(&commands.integration),
        };
        self.test.coverage_command = said(&commands.coverage);
        if self.test.detected_framework == Framework::Custom && project.framework != "custom" {
            self.test.notes = format!("the framework is {}", project.framework);
        }
    }

    /// The model's report under the facts: where these say something, they stand.
    pub(crate) fn completed(self, facts: Self) -> Self {
        let mut out = facts;
        // A system that was detected and has no build command has nothing to build.
        if out.build.detected_system == System::Custom && out.build.prerequisites.is_empty() {
            out.build.detected_system = self.build.detected_system;
            or_said(&mut out.build.commands.build, self.build.commands.build);
        }
        out.build.commands.install = out.build.commands.install.or(self.build.commands.install);
        out.build.commands.clean = out.build.commands.clean.or(self.build.commands.clean);
        join(&mut out.build.prerequisites, self.build.prerequisites);
        or_both(&mut out.build.notes, self.build.notes);

        // A framework without a word in the schema is known all the same, and named in the notes.
        if out.test.detected_framework == Framework::Custom && out.test.notes.is_empty() {
            out.test.detected_framework = self.test.detected_framework;
        }
        or_said(&mut out.test.commands.all, self.test.commands.all);
        out.test.commands.unit = out.test.commands.unit.or(self.test.commands.unit);
        out.test.commands.integration =
            out.test.commands.integration.or(self.test.commands.integration);
        out.test.coverage_command = out.test.coverage_command.or(self.test.coverage_command);
        or_both(&mut out.test.notes, self.test.notes);

        let known = std::mem::replace(&mut out.failure_analysis, self.failure_analysis);
        let analysis = &mut out.failure_analysis;
        or_said(&mut analysis.root_cause, known.root_cause);
        // What the log names is affected whatever the model thinks of; its own come behind.
        let said = std::mem::replace(&mut analysis.affected_files, known.affected_files);
        join(&mut analysis.affected_files, said);
        if analysis.suggested_investigation.is_empty() {
            analysis.suggested_investigation = known.suggested_investigation;
        }
        if known.is_flaky {
            analysis.is_flaky = true;
            analysis.flaky_reason = known.flaky_reason;
        }
        for issue in self.environment_issues {
            if !out.environment_issues.iter().any(|known| known.issue == issue.issue) {
                out.environment_issues.push(issue);
            }
        }
        out
    }
}

/// What is said besides commands.
fn notes(facts: &Facts, package: Option<&str>) -> Vec<String> {
    let mut notes = Vec::new();
    let project = primary(facts, package);
    if let Some(project) = project.filter(|project| project.root != ".") {
        notes.push(format!("commands are for the directory {}", project.root));
    }
    let roots = facts.projects.iter().map(|project| project.root.as_str());
    let mut others = roots
        .filter(|root| project.is_none_or(|project| project.root != *root))
        .collect::<Vec<_>>();
    others.dedup();
    if !others.is_empty() {
        let more = others.len().saturating_sub(8);
        others.truncate(8);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        notes.push(format!("other projects: {}{more}", others.join(", ")));
    }
    let rank = |topic: Topic| topic != Topic::Command;
    let mut conflicts = facts.conflicts.iter().collect::<Vec<_>>();
    conflicts.sort_by_key(|conflict| rank(conflict.topic));
    notes.extend(conflicts.into_iter().take(5).map(|conflict| conflict.message.clone()));
    let problems = facts.problems.iter().take(3);
    notes.extend(problems.map(|problem| format!("{}: {}", problem.path, problem.message)));
    notes
}

fn or_said(text: &mut String, said: String) {
    if text.is_empty() {
        *text = said;
    }
}

fn or_both(text: &mut String, said: String) {
    if text.is_empty() {
        *text = said;
    } else if !said.is_empty() {
        text.push_str("; ");
        text.push_str(&said);
    }
}

fn join(list: &mut Vec<String>, said: Vec<String>) {
    for item in said {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}
