//! Scout B's report, schema version 1.

use crate::one_line;
use crate::version::{SchemaError, SchemaVersion, checked, nullable};
use serde::{Deserialize, Serialize};

/// How the repository is built and tested, and why a run failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "lenient", serde(default))]
pub struct ReportB {
    pub schema_version: SchemaVersion,
    /// The answer to the question, in a few sentences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    pub build: Build,
    pub test: Test,
    /// Null where no run has failed.
    #[serde(deserialize_with = "nullable")]
    pub failure_analysis: Option<FailureAnalysis>,
    #[cfg_attr(feature = "lenient", serde(deserialize_with = "complete_issues"))]
    pub environment_issues: Vec<EnvironmentIssue>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "lenient", serde(default))]
pub struct Build {
    pub detected_system: System,
    pub commands: BuildCommands,
    pub prerequisites: Vec<String>,
    pub notes: String,
}

words! {
    #[derive(Default)]
    pub enum System {
        Npm = "npm",
        Yarn = "yarn",
        Pnpm = "pnpm",
        Make = "make",
        Cargo = "cargo",
        Go = "go",
        Gradle = "gradle",
        Maven = "maven",
        #[default]
        Custom = "custom",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "lenient", serde(default))]
pub struct BuildCommands {
    #[serde(deserialize_with = "nullable")]
    pub install: Option<String>,
    /// Empty when there is nothing to build.
    pub build: String,
    #[serde(deserialize_with = "nullable")]
    pub clean: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "lenient", serde(default))]
pub struct Test {
    pub detected_framework: Framework,
    /// The framework's own name where the schema has no word for it, such as `vitest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub framework_name: Option<String>,
    pub commands: TestCommands,
    #[serde(deserialize_with = "nullable")]
    pub coverage_command: Option<String>,
    pub notes: String,
}

words! {
    #[derive(Default)]
    pub enum Framework {
        Jest = "jest",
        Pytest = "pytest",
        GoTest = "go test",
        CargoTest = "cargo test",
        Junit = "junit",
        Mocha = "mocha",
        #[default]
        Custom = "custom",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "lenient", serde(default))]
pub struct TestCommands {
    /// Empty when there is nothing to test.
    pub all: String,
    #[serde(deserialize_with = "nullable")]
    pub unit: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub integration: Option<String>,
}

/// Why a run failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "lenient", serde(default))]
pub struct FailureAnalysis {
    pub root_cause: String,
    pub affected_files: Vec<String>,
    pub suggested_investigation: Vec<String>,
    /// For information only: a flaky test that fails still fails the run.
    pub is_flaky: bool,
    #[serde(deserialize_with = "nullable")]
    pub flaky_reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnvironmentIssue {
    pub issue: String,
    pub severity: Severity,
    pub suggested_fix: String,
}

/// Reads the environment issues that a model wrote, and drops those without a severity or a fix.
#[cfg(feature = "lenient")]
fn complete_issues<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Vec<EnvironmentIssue>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Written {
        issue: String,
        severity: Option<Severity>,
        suggested_fix: Option<String>,
    }
    let written = Vec::<Written>::deserialize(from)?.into_iter();
    let complete = written.filter_map(|Written { issue, severity, suggested_fix }| {
        Some(EnvironmentIssue { issue, severity: severity?, suggested_fix: suggested_fix? })
    });
    Ok(complete.collect())
}

words! {
    pub enum Severity {
        Blocking = "blocking",
        Warning = "warning",
    }
}

impl ReportB {
    /// Reads a report that a component returned.
    ///
    /// # Errors
    ///
    /// As [`checked`].
    pub fn parse(json: &str) -> Result<Self, SchemaError> {
        checked(json)
    }

    /// Summarises the report in one line, for events. Control characters are replaced, because the texts may come
    /// from a log.
    pub fn summary(&self) -> String {
        let (build, test) = (self.build.detected_system, self.test.detected_framework);
        let mut summary = format!("{}, {}", build.word(), test.word());
        if !self.test.commands.all.is_empty() {
            summary.push_str(&format!(" by `{}`", one_line(&self.test.commands.all, 80)));
        }
        let cause = self.failure_analysis.as_ref().map(|analysis| analysis.root_cause.as_str());
        if let Some(cause) = cause.filter(|cause| !cause.is_empty()) {
            summary.push_str(&format!("; cause: {}", one_line(cause, 160)));
        }
        let blocking = self
            .environment_issues
            .iter()
            .filter(|issue| issue.severity == Severity::Blocking)
            .count();
        if blocking > 0 {
            summary.push_str(&format!("; {blocking} blocking environment issues"));
        }
        summary
    }
}

/// Returns a report with every field, for tests.
#[cfg(any(test, feature = "schema"))]
pub fn example() -> serde_json::Value {
    serde_json::json!({
        "schema_version": "1",
        "answer": "by go test",
        "build": {
            "detected_system": "custom",
            "commands": {"install": null, "build": "", "clean": null},
            "prerequisites": ["python"], "notes": ""},
        "test": {
            "detected_framework": "go test",
            "framework_name": "ginkgo",
            "commands": {"all": "go test ./...", "unit": null, "integration": "x"},
            "coverage_command": null, "notes": ""},
        "failure_analysis": {
            "root_cause": "off by\none", "affected_files": ["a.go"], "suggested_investigation": [],
            "is_flaky": false, "flaky_reason": null},
        "environment_issues": [{"issue": "no gcc", "severity": "blocking", "suggested_fix": "another image"}]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // SCOUT-B-1
    #[test]
    fn a_full_report_is_read_and_written_as_it_was() {
        let report = ReportB::parse(&example().to_string()).unwrap();
        assert_eq!(serde_json::to_value(&report).unwrap(), example());
        assert_eq!(
            report.summary(),
            "custom, go test by `go test ./...`; cause: off by one; 1 blocking environment issues"
        );
    }

    // SCOUT-B-19: reports of components that were built before there was an answer
    #[test]
    fn a_report_without_an_answer_is_read_and_null_is_no_failing_run() {
        let mut before = example();
        before.as_object_mut().unwrap().remove("answer");
        before["test"].as_object_mut().unwrap().remove("framework_name");
        before["failure_analysis"] = serde_json::Value::Null;
        let report = ReportB::parse(&before.to_string()).unwrap();
        assert_eq!(report.failure_analysis, None);
        assert_eq!(serde_json::to_value(&report).unwrap(), before);
        before.as_object_mut().unwrap().remove("failure_analysis");
        let missing = ReportB::parse(&before.to_string());
        assert_eq!(missing.is_ok(), cfg!(feature = "lenient"), "{missing:?}");
    }
}
