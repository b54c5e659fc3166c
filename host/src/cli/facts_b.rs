//! Scout B's facts for a person: a part for each project, what disagrees, what failed.

use crate::output::{Line, Tone};
use act_agent::scout::facts_b::{
    Command, Conflict, FactsB, Failure, Place, Prerequisite, Problem, Project,
};
use act_agent::scout::report_b::Severity;

/// Shown of a list.
const SHOWN: usize = 12;
/// Columns of a command, before the place.
const COMMAND: usize = 48;

pub(super) fn lines(facts: &FactsB) -> Vec<Line> {
    let mut out = vec![];
    if let Some(failure) = &facts.failure {
        out.extend(failed(failure));
    }
    for project in facts.projects.iter().take(SHOWN) {
        out.extend(of_project(project));
    }
    out.extend(more(facts.projects.len(), "projects"));
    out.push(Line::plain(""));
    out.push(
        Line::of(Tone::Strong, "suggested image")
            .and(Tone::Plain, format!("  {}", facts.suggested_image)),
    );
    if !facts.conflicts.is_empty() {
        out.push(Line::plain(""));
        out.push(Line::of(Tone::Strong, "conflicts"));
        let conflicts = facts.conflicts.iter().take(SHOWN);
        out.extend(conflicts.map(|Conflict { message, .. }| Line::plain(format!("  - {message}"))));
        out.extend(more(facts.conflicts.len(), "conflicts"));
    }
    if !facts.problems.is_empty() {
        out.push(Line::plain(""));
        out.push(Line::of(Tone::Strong, "not understood"));
        let problems = facts.problems.iter().take(SHOWN).map(|Problem { path, line, message }| {
            let line = line.map_or(String::new(), |line| format!(":{line}"));
            Line::plain(format!("  - {path}{line}: {message}"))
        });
        out.extend(problems);
        out.extend(more(facts.problems.len(), "files"));
    }
    if facts.truncated {
        out.push(Line::plain("There is more than was looked at."));
    }
    out
}

fn of_project(project: &Project) -> Vec<Line> {
    let tests = if project.has_tests { "" } else { ", no tests found" };
    let what = match project.package_manager.as_str() {
        "none" => format!("{}{tests}", project.framework),
        manager => format!("{manager}, {}{tests}", project.framework),
    };
    let title = Line::of(Tone::Strong, project.root.clone()).and(Tone::Plain, format!("  {what}"));
    let mut out = vec![Line::plain(""), title];
    let commands = &project.commands;
    let named = [
        ("install", &commands.install),
        ("build", &commands.build),
        ("clean", &commands.clean),
        ("test", &commands.test),
        ("unit", &commands.unit),
        ("integration", &commands.integration),
        ("coverage", &commands.coverage),
    ];
    for (name, command) in named {
        if let Some(Command { command, source }) = command {
            let text = format!("  {name:<12} {command:<COMMAND$} ");
            out.push(Line::plain(text).and(Tone::Faint, place(source)));
        }
    }
    for Prerequisite { name, version, source } in project.prerequisites.iter().take(SHOWN) {
        let needed = version.as_ref().map_or(name.clone(), |version| format!("{name} {version}"));
        let text = format!("  {:<12} {needed:<COMMAND$} ", "needs");
        out.push(Line::plain(text).and(Tone::Faint, place(source)));
    }
    out
}

fn failed(failure: &Failure) -> Vec<Line> {
    let title = Line::of(Tone::Strong, "failure").and(Tone::Plain, format!("  {}", failure.tool));
    let mut out = vec![Line::plain(""), title];
    let mut say = |name: &str, text: &str| {
        if !text.is_empty() {
            out.push(Line::plain(format!("  {name:<12} {text}")));
        }
    };
    say("error", &failure.first_error);
    for test in failure.failing_tests.iter().take(SHOWN) {
        say("test", test);
    }
    if let Some(more) = failure.failing_tests.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        say("", &format!("and {more} more tests, shown with --json"));
    }
    for at in failure.locations.iter().take(SHOWN) {
        say("at", &place(at));
    }
    for issue in &failure.environment_issues {
        let severity = match issue.severity {
            Severity::Blocking => "blocking",
            Severity::Warning => "warning",
        };
        say(severity, &issue.issue);
        say("", &format!("fix: {}", issue.suggested_fix));
    }
    say("flaky", failure.flaky_reason.as_deref().unwrap_or_default());
    out
}

fn more(count: usize, what: &str) -> Option<Line> {
    let more = count.checked_sub(SHOWN).filter(|more| *more > 0)?;
    Some(Line::plain(format!("  and {more} more {what}, shown with --json")))
}

fn place(place: &Place) -> String {
    format!("{}:{}", place.path, place.line)
}
