//! Joins the model's report with the facts. Commands and facts from the manifests and the log win; the model fills the
//! fields that they leave open.

use crate::conflicts;
use crate::draft::Rank;
use crate::facts::{Command, FactsB, Pipeline, Project, System, Topic};
use crate::opening::primary;
use crate::statement::line_of;
use crate::tree::Tree;
use act_kit::reports::failures::mentions;
use act_kit::reports::report_b::{
    BuildCommands, FailureAnalysis, Framework, ReportB, TestCommands,
};
use act_kit::reports::version::SCHEMA_VERSION;
use serde_json::Value;

/// Returns the word that the report's schema has for a framework; `custom` when it has none.
fn framework(name: &str) -> Framework {
    serde_json::from_value(Value::from(name)).unwrap_or_default()
}

/// Drops commands that name a target, script or file which does not exist, and says so in the notes. Commands that the
/// manifests declare are in the report anyway.
pub(crate) fn drop_missing_commands(report: &mut ReportB, tree: &Tree<'_>, package: Option<&str>) {
    let root = package.unwrap_or_default().trim_matches('/');
    let mut dropped = Vec::new();
    let mut missing = |field: &str, command: &str| {
        let statements = line_of(command, field, 1, root, Rank::Documents);
        let why = statements.iter().find_map(|parsed| conflicts::missing(tree, parsed));
        let why = why.as_ref().and_then(|why| why.split_once(" says ")).map(|(_, why)| why);
        dropped.extend(why.map(|why| format!("{field} is left out: {why}")));
        why.is_some()
    };
    let (build, test) = (&mut report.build.commands, &mut report.test.commands);
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
        ("test.coverage_command", &mut report.test.coverage_command),
    ] {
        if command.as_deref().is_some_and(|command| missing(field, command)) {
            *command = None;
        }
    }
    append(&mut report.build.notes, dropped.join("; "));
}

/// Checks that the lines which the report's texts name exist.
///
/// # Errors
///
/// Returns a sentence for the model about the first line that does not exist.
pub(crate) fn check_lines(report: &ReportB, tree: &Tree<'_>) -> Result<(), String> {
    let analysis = report.failure_analysis.iter();
    for text in analysis.flat_map(|analysis| &analysis.suggested_investigation) {
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

/// Returns a report that is made of facts alone.
pub(crate) fn of_facts(facts: &FactsB, package: Option<&str>) -> ReportB {
    let mut report = ReportB { schema_version: SCHEMA_VERSION.into(), ..ReportB::default() };
    if let Some(project) = primary(facts, package) {
        add_project(&mut report, project, facts.pipeline.as_ref());
    }
    report.build.notes = notes(facts, package).join("; ");
    if let Some(failure) = &facts.failure {
        let mut affected_files = vec![];
        add_missing(
            &mut affected_files,
            failure.locations.iter().map(|location| location.path.clone()).collect(),
        );
        let locations = failure.locations.iter().take(5);
        report.failure_analysis = Some(FailureAnalysis {
            root_cause: failure.first_error.clone(),
            affected_files,
            suggested_investigation: locations
                .map(|location| format!("{}:{}", location.path, location.line))
                .collect(),
            is_flaky: failure.is_flaky,
            flaky_reason: failure.flaky_reason.clone(),
        });
        report.environment_issues = failure.environment_issues.clone();
    }
    report
}

fn add_project(report: &mut ReportB, project: &Project, pipeline: Option<&Pipeline>) {
    let text = |command: &Option<Command>| {
        command.as_ref().filter(|command| is_line(command)).map(|command| command.command.clone())
    };
    let commands = &project.commands;
    report.build.detected_system = project.system;
    report.build.commands = BuildCommands {
        install: text(&commands.install),
        build: text(&commands.build).unwrap_or_default(),
        clean: text(&commands.clean),
    };
    let needed = project.prerequisites.iter().map(|needed| match &needed.version {
        Some(version) => format!("{} {version}", needed.name),
        None => needed.name.clone(),
    });
    report.build.prerequisites = needed.collect();
    report.build.prerequisites.dedup();
    report.test.detected_framework = framework(&project.framework);
    report.test.commands = TestCommands {
        all: text(&commands.test).unwrap_or_default(),
        unit: text(&commands.unit),
        integration: text(&commands.integration),
    };
    report.test.coverage_command = text(&commands.coverage);
    let tests = commands.test.iter();
    let place = tests.clone().filter(|test| !is_line(test)).map(|test| place(test, pipeline));
    let notes = place.chain(tests.filter_map(|test| test.remark.clone()));
    report.test.notes = notes.collect::<Vec<_>>().join("; ");
    if report.test.detected_framework == Framework::Custom && project.framework != "custom" {
        report.test.framework_name = Some(project.framework.clone());
    }
}

/// Returns whether a command is one line. A report shows every value on one line, and there several lines of a shell would be
/// another command.
fn is_line(command: &Command) -> bool {
    !command.command.trim().contains('\n')
}

/// Says where a command of several lines is.
fn place(command: &Command, pipeline: Option<&Pipeline>) -> String {
    let Command { source, .. } = command;
    let mut steps = pipeline.iter().flat_map(|pipeline| &pipeline.steps);
    let step = steps.find(|step| step.source == *source && !step.name.is_empty());
    let at = format!("{}:{}", source.path, source.line);
    match step {
        Some(step) => format!("the step `{}` ({at}) runs the tests", step.name),
        None => format!("the commands at {at} run the tests"),
    }
}

/// Joins the model's report with the one that was made of facts. The facts win where they have a value.
pub(crate) fn completed(report: ReportB, facts: ReportB) -> ReportB {
    let mut out = facts;
    out.answer = report.answer.filter(|answer| !answer.trim().is_empty());
    // A system that was detected and has no build command has nothing to build.
    if out.build.detected_system == System::Custom && out.build.prerequisites.is_empty() {
        out.build.detected_system = report.build.detected_system;
        fill(&mut out.build.commands.build, report.build.commands.build);
    }
    out.build.commands.install = out.build.commands.install.or(report.build.commands.install);
    out.build.commands.clean = out.build.commands.clean.or(report.build.commands.clean);
    add_missing(&mut out.build.prerequisites, report.build.prerequisites);
    append(&mut out.build.notes, report.build.notes);

    // A framework without a word in the schema is detected all the same.
    if out.test.detected_framework == Framework::Custom && out.test.framework_name.is_none() {
        out.test.detected_framework = report.test.detected_framework;
        out.test.framework_name = report.test.framework_name;
    }
    fill(&mut out.test.commands.all, report.test.commands.all);
    out.test.commands.unit = out.test.commands.unit.or(report.test.commands.unit);
    out.test.commands.integration =
        out.test.commands.integration.or(report.test.commands.integration);
    out.test.coverage_command = out.test.coverage_command.or(report.test.coverage_command);
    append(&mut out.test.notes, report.test.notes);

    out.failure_analysis = match (report.failure_analysis, out.failure_analysis) {
        (Some(reported), Some(parsed)) => Some(analysis(reported, parsed)),
        // Without a failing run a cause is what the question was about; an analysis without one says nothing.
        (Some(reported), None) if !reported.root_cause.is_empty() => Some(reported),
        (_, parsed) => parsed,
    };
    for issue in report.environment_issues {
        if !out.environment_issues.iter().any(|known| known.issue == issue.issue) {
            out.environment_issues.push(issue);
        }
    }
    out
}

/// Joins the model's analysis of a failure with the log's. Files that the log names are affected, whatever the model
/// reports, and come first; a sign of flakiness is not removed.
fn analysis(mut reported: FailureAnalysis, parsed: FailureAnalysis) -> FailureAnalysis {
    fill(&mut reported.root_cause, parsed.root_cause);
    let files = std::mem::replace(&mut reported.affected_files, parsed.affected_files);
    add_missing(&mut reported.affected_files, files);
    if reported.suggested_investigation.is_empty() {
        reported.suggested_investigation = parsed.suggested_investigation;
    }
    if parsed.is_flaky {
        reported.is_flaky = true;
        reported.flaky_reason = parsed.flaky_reason;
    }
    reported
}

/// Returns what the facts say besides commands, for the notes.
fn notes(facts: &FactsB, package: Option<&str>) -> Vec<String> {
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
    let mut conflicts = facts.conflicts.iter().collect::<Vec<_>>();
    conflicts.sort_by_key(|conflict| conflict.topic != Topic::Command.word());
    notes.extend(conflicts.into_iter().take(5).map(|conflict| conflict.message.clone()));
    let problems = facts.problems.iter().take(3);
    notes.extend(problems.map(|problem| format!("{}: {}", problem.path, problem.message)));
    notes
}

fn fill(text: &mut String, more: String) {
    if text.is_empty() {
        *text = more;
    }
}

fn append(text: &mut String, more: String) {
    if text.is_empty() {
        *text = more;
    } else if !more.is_empty() {
        text.push_str("; ");
        text.push_str(&more);
    }
}

fn add_missing(list: &mut Vec<String>, more: Vec<String>) {
    for item in more {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}
