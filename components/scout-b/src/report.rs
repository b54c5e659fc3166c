//! The report, schema version 1: lenient about what is missing, strict about what is unknown. What the manifests
//! say stands; the model fills what they leave open.

use crate::detect::{Detected, Framework, System};
use crate::log::Sifted;
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnvironmentIssue {
    pub(crate) issue: String,
    #[serde(default)]
    pub(crate) severity: Severity,
    #[serde(default)]
    pub(crate) suggested_fix: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    Blocking,
    #[default]
    Warning,
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

    /// The report that facts alone give.
    pub(crate) fn of_facts(detected: &Detected, sifted: &Sifted) -> Self {
        Self {
            schema_version: Value::from("1"),
            build: Build {
                detected_system: detected.system,
                commands: BuildCommands {
                    install: detected.install.clone(),
                    build: detected.build.clone().unwrap_or_default(),
                    clean: detected.clean.clone(),
                },
                prerequisites: detected.prerequisites.clone(),
                notes: detected.notes.join("; "),
            },
            test: Test {
                detected_framework: detected.framework,
                commands: TestCommands {
                    all: detected.test.clone().unwrap_or_default(),
                    unit: detected.unit.clone(),
                    integration: detected.integration.clone(),
                },
                coverage_command: detected.coverage.clone(),
                notes: String::new(),
            },
            failure_analysis: FailureAnalysis {
                root_cause: sifted.first_error.clone().unwrap_or_default(),
                affected_files: sifted.files.clone(),
                ..FailureAnalysis::default()
            },
            environment_issues: sifted.issues.clone(),
        }
    }

    /// The model's report under the facts: where these say something, they stand.
    pub(crate) fn completed(self, facts: Self, detected: &Detected) -> Self {
        let mut out = facts;
        if detected.is_nothing() {
            out.build.detected_system = self.build.detected_system;
        }
        out.build.commands.install = out.build.commands.install.or(self.build.commands.install);
        out.build.commands.clean = out.build.commands.clean.or(self.build.commands.clean);
        // A detected system without a build command has none to be built with.
        if detected.is_nothing() {
            or_said(&mut out.build.commands.build, self.build.commands.build);
        }
        join(&mut out.build.prerequisites, self.build.prerequisites);
        or_both(&mut out.build.notes, self.build.notes);

        if detected.test.is_none() {
            out.test.detected_framework = self.test.detected_framework;
            or_said(&mut out.test.commands.all, self.test.commands.all);
        }
        out.test.commands.unit = out.test.commands.unit.or(self.test.commands.unit);
        out.test.commands.integration =
            out.test.commands.integration.or(self.test.commands.integration);
        out.test.coverage_command = out.test.coverage_command.or(self.test.coverage_command);
        or_both(&mut out.test.notes, self.test.notes);

        let files = std::mem::take(&mut out.failure_analysis.affected_files);
        let root_cause = std::mem::take(&mut out.failure_analysis.root_cause);
        out.failure_analysis = self.failure_analysis;
        or_said(&mut out.failure_analysis.root_cause, root_cause);
        if out.failure_analysis.affected_files.is_empty() {
            out.failure_analysis.affected_files = files;
        }
        for issue in self.environment_issues {
            if !out.environment_issues.iter().any(|known| known.issue == issue.issue) {
                out.environment_issues.push(issue);
            }
        }
        out
    }
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
