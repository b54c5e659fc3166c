//! `act scout a|b|NAME [QUESTION]`: the report of a Scout, without a task.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{CommonOptions, answer, block_on};
use crate::output::{Line, Output, Tone};
use act_agent::scout::Lines;
use act_agent::scout::facts_a::{Convention, FactsA, Mapped, Test};
use act_agent::scout::facts_b::{
    Command, Conflict, FactsB, Failure as LoggedFailure, Location, Pipeline, PipelineStep,
    Prerequisite, Problem, Project,
};
use act_component::{ComponentName, ValueError};
use act_core::Failure;
use act_core::exit::Exit;
use act_task::{self as task, Comparison, ScoutArgs, ScoutFacts, Side, WhichScout};

/// Bytes from the end of a log that the Scout gets, as many as a failed run gives it: the failure is at the end.
const LOG: u64 = 64 * 1024;
/// Maximum number of bytes that are read from a pipe to find its end.
const MAX_STDIN: u64 = 64 << 20;

const AFTER_HELP: &str = "\
Examples:
  act scout a \"where are dates parsed\"
  act scout a --facts \"where are dates parsed\"   the files and lines that fit, without a model
  act scout b --facts --json    computed facts only, without a model
  make test 2>&1 | act scout b --log - \"why does it fail\"
  act scout b --with next.wasm --compare \"how is it tested\"

Exit codes:
  0 a report, 1 refused, 4 no report after all attempts";

/// Ask a Scout about this repository
///
/// Scout A maps the code; Scout B finds out how it is built and tested and why it fails. Both only read. The command
/// needs a model (not with --facts), but no agent.yaml and no Docker. With --with FILE --compare the Scout in use and
/// the component in FILE answer the same question.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Scout {
    /// a maps the code, b examines build and tests; any other Scout by its approved name
    #[arg(value_name = "SCOUT", value_parser = which)]
    scout: WhichScout,
    /// The question; default: a general survey
    question: Option<String>,
    /// Print computed facts only; no model is used
    #[arg(long)]
    facts: bool,
    #[command(flatten)]
    common: CommonOptions,
    /// A log with the failure to analyse; `-` reads it from standard input
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Ask the component in this file instead; it must have been approved
    #[arg(long, value_name = "FILE", conflicts_with = "facts")]
    with: Option<PathBuf>,
    /// Ask both and compare reports, time and tokens
    #[arg(long, requires = "with")]
    compare: bool,
    /// Show every attempt and every request
    #[arg(short, long)]
    verbose: bool,
}

fn which(text: &str) -> Result<WhichScout, ValueError> {
    match text {
        "a" | "A" | "scout-a" => Ok(WhichScout::A),
        "b" | "B" | "scout-b" => Ok(WhichScout::B),
        name => name.parse::<ComponentName>().map(|name| WhichScout::Named(name.into())),
    }
}

impl Scout {
    pub(super) fn run(self, output: &Output) -> Result<Exit, Failure> {
        let Self { scout, question, facts, common, log, with, compare, .. } = self;
        let log = log.as_deref().map(read_log).transpose()?;
        let compared = with.clone().filter(|_| compare);
        let args = ScoutArgs { scout: scout.clone(), question, repo: common.repo, log, with };
        if let Some(file) = compared {
            let Some(found) = block_on(task::compare(args, &file, vec![output.progress_sink()]))??
            else {
                return Ok(Exit::Cancelled);
            };
            answer(output, &found, || comparison_lines(&found));
            let failed = found.installed.error.is_some() || found.with.error.is_some();
            return Ok(if failed { Exit::Infra } else { Exit::Ok });
        }
        if facts {
            let facts = block_on(task::facts(args, &output.events()))??;
            match output.is_json() {
                true => output.verbatim(&facts.document),
                false => {
                    facts_lines(&scout, &facts).iter().for_each(|line| output.result_line(line))
                }
            }
        } else {
            let report = block_on(task::scout(args, &output.events()))??;
            let name = &report.scout;
            let lines =
                || [vec![title(name, "", &report.summary)], outline(&report.report)].concat();
            answer(output, &report, lines);
        }
        Ok(Exit::Ok)
    }
}

/// Returns the first line of a report or of facts.
fn title(scout: &str, what: &str, summary: &str) -> Line {
    let scout = if matches!(scout, "a" | "b") { scout.to_uppercase() } else { scout.to_owned() };
    Line::of(Tone::Strong, format!("Scout {scout}{what}")).and(Tone::Plain, format!(": {summary}"))
}

/// Reads the last [`LOG`] bytes of a log as text.
fn read_log(path: &Path) -> Result<String, Failure> {
    let end = |mut file: File| -> io::Result<Vec<u8>> {
        let mut bytes = vec![];
        let length = file.metadata()?.len();
        // A pipe cannot be sought.
        if file.seek(SeekFrom::Start(length.saturating_sub(LOG))).is_err() {
            file.by_ref().take(MAX_STDIN).read_to_end(&mut bytes)?;
        } else {
            file.take(LOG).read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    };
    let bytes = if path == Path::new("-") {
        let mut bytes = vec![];
        io::stdin().lock().take(MAX_STDIN).read_to_end(&mut bytes).map(|_| bytes)
    } else {
        File::open(path).and_then(end)
    };
    let bytes = bytes.map_err(|error| {
        let message = format!("failed to read the log from {}: {error}", path.display());
        Failure::refused("log_unreadable", message).hint("name a file, or `-` for standard input")
    })?;
    let from = bytes.len().saturating_sub(usize::try_from(LOG).unwrap_or(usize::MAX));
    Ok(String::from_utf8_lossy(bytes.get(from..).unwrap_or_default()).into_owned())
}

/// Number of items of a list that are printed for people; `--json` prints all.
const SHOWN: usize = 12;

fn facts_lines(scout: &WhichScout, facts: &ScoutFacts) -> Vec<Line> {
    let document = || facts.document.clone();
    let (name, lines) = match scout {
        WhichScout::A => {
            let of_a = serde_json::from_value(document());
            ("a", of_a.map(|of_a| facts_of_a(&of_a, &facts.excerpts)).ok())
        }
        WhichScout::B => {
            ("b", serde_json::from_value(document()).map(|of_b| fact_lines(&of_b)).ok())
        }
        WhichScout::Named(name) => (name.as_str(), None),
    };
    let lines = lines.unwrap_or_else(|| outline(&shortened(&facts.document)));
    [vec![title(name, ", facts", &facts.summary)], lines].concat()
}

/// Number of names of one file, and of files that a test exercises, that are printed for people.
const NAMES: usize = 6;

/// Returns the facts of Scout A for people: what a task begins with, and where the rest is.
fn facts_of_a(facts: &FactsA, excerpts: &[Lines]) -> Vec<Line> {
    let mut out = vec![];
    let mut section = |name: &str, lines: Vec<Line>, count: usize| {
        if !lines.is_empty() {
            out.push(Line::plain(""));
            out.push(Line::of(Tone::Strong, name));
            out.extend(lines);
            out.extend(more(count, "files"));
        }
    };
    let listed = |names: &[String]| {
        let more = names.len().saturating_sub(NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", names[..names.len().min(NAMES)].join(", "))
    };
    let with = |path: &str, between: &str, names: &[String]| match names.is_empty() {
        true => Line::plain(format!("  {path}")),
        false => {
            Line::plain(format!("  {path}")).and(Tone::Faint, format!("{between}{}", listed(names)))
        }
    };
    let map = facts.map.iter().take(SHOWN);
    let map = map.map(|Mapped { path, symbols, .. }| with(path, "  ", symbols)).collect();
    section("map, best file first", map, facts.map.len());
    section("lines that match", excerpts.iter().flat_map(excerpt).collect(), 0);
    // The tests that match best come first, then those of the best files.
    let place = |path: &String| {
        let place = facts.map.iter().position(|mapped| mapped.path == *path);
        place.unwrap_or(usize::MAX)
    };
    let of_test = |test: &Test| (place(&test.path), test.exercises.iter().map(place).min());
    let mut tests: Vec<_> = facts.tests.iter().collect();
    tests.sort_by_key(|test| of_test(test));
    let shown = tests.iter().take(SHOWN);
    let shown = shown.map(|test| with(&test.path, " exercises ", &test.exercises)).collect();
    section("tests", shown, tests.len());
    section("conventions", facts.conventions.iter().map(convention).collect(), 0);
    let count = |name: &str, listed: usize| {
        let missing = facts.left_out.get(name).copied().unwrap_or_default();
        usize::try_from(missing).unwrap_or(usize::MAX).saturating_add(listed)
    };
    let rest = format!(
        "`--json` prints all of it, with {} definitions, {} imports, {} entry points and the risk of {} files.",
        count("symbols", facts.symbols.len()),
        count("imports", facts.imports.len()),
        count("entry_points", facts.entry_points.len()),
        count("risk", facts.risk.len()),
    );
    out.push(Line::plain(""));
    out.push(Line::of(Tone::Faint, rest));
    let unnamed = match facts.inventory.not_utf8 {
        0 => None,
        1 => Some("1 name is not UTF-8, so it is in no list.".to_owned()),
        more => Some(format!("{more} names are not UTF-8, so they are in no list.")),
    };
    out.extend(unnamed.map(|unnamed| Line::of(Tone::Caution, unnamed)));
    if let Some(unseen) = facts.left_out.get("not_looked_at").filter(|count| **count > 0) {
        let unseen = format!("The time did not suffice for {unseen} source files; ask again.");
        out.push(Line::of(Tone::Caution, unseen));
    }
    out
}

/// Returns lines of a file below its name, with their numbers.
fn excerpt(excerpt: &Lines) -> Vec<Line> {
    let Lines { path, first, lines } = excerpt;
    let end = u64::from(*first) + lines.len() as u64 - 1;
    let width = end.to_string().len();
    let mut out =
        vec![Line::plain(format!("  {path}")).and(Tone::Faint, format!(":{first}-{end}"))];
    for (number, text) in (u64::from(*first)..).zip(lines) {
        let number = Line::of(Tone::Faint, format!("  {number:>width$}  "));
        out.push(number.and(Tone::Plain, text.replace('\t', "    ")));
    }
    out
}

/// Returns a convention as a sentence, with the first place that shows it.
fn convention(convention: &Convention) -> Line {
    let Convention { topic, language, value, count, total, examples } = convention;
    let topic = topic.replace('_', " ");
    let language = language.as_ref().map_or(String::new(), |language| format!(" in {language}"));
    let text = Line::plain(format!("  {topic}{language}: {value}, in {count} of {total} cases"));
    match examples.first() {
        Some(example) => {
            text.and(Tone::Faint, format!(", as in {}:{}", example.path, example.line))
        }
        None => text,
    }
}

/// Returns the value with long lists cut to [`SHOWN`] items and the number of the others.
fn shortened(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut shown: Vec<_> = items.iter().take(SHOWN).map(shortened).collect();
            if items.len() > SHOWN {
                let more = items.len() - SHOWN;
                shown.push(Value::from(format!("… {more} more, shown with --json")));
            }
            Value::Array(shown)
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), shortened(value)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

/// Returns a report as an outline without empty values.
fn outline(report: &Value) -> Vec<Line> {
    let mut lines = vec![];
    for (name, value) in report.as_object().into_iter().flatten() {
        if is_empty(value) || name == "schema_version" {
            continue;
        }
        lines.push(Line::plain(""));
        lines.push(Line::of(Tone::Strong, name.replace('_', " ")));
        below(value, 1, &mut lines);
    }
    lines
}

fn below(value: &Value, depth: usize, lines: &mut Vec<Line>) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(_, value)| !is_empty(value)) {
                let name = name.replace('_', " ");
                match word(value) {
                    Some(word) => {
                        let text = format!("{indent}{name}: ");
                        lines.push(Line::of(Tone::Faint, text).and(Tone::Plain, word));
                    }
                    None => {
                        lines.push(Line::of(Tone::Faint, format!("{indent}{name}:")));
                        below(value, depth + 1, lines);
                    }
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                match item {
                    Value::Object(fields) => {
                        let filled = fields.iter().filter(|(_, value)| !is_empty(value));
                        let parts: Vec<_> = filled
                            .map(|(name, value)| {
                                let words = word(value).unwrap_or_else(|| value.to_string());
                                format!("{}: {words}", name.replace('_', " "))
                            })
                            .collect();
                        lines.push(Line::plain(format!("{indent}- {}", parts.join("; "))));
                    }
                    other => {
                        let text = word(other).unwrap_or_else(|| other.to_string());
                        lines.push(Line::plain(format!("{indent}- {text}")));
                    }
                }
            }
        }
        other => lines.push(Line::plain(format!("{indent}{}", word(other).unwrap_or_default()))),
    }
}

/// Returns a value that fits on the line of its name.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(yes) => Some(if *yes { "yes" } else { "no" }.to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let words: Vec<_> = items.iter().filter_map(Value::as_str).collect();
            Some(words.join(", "))
        }
        _ => None,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        _ => false,
    }
}

/// Width of the column of commands, before the column of their sources.
const COMMAND: usize = 48;

fn fact_lines(facts: &FactsB) -> Vec<Line> {
    let mut out = vec![];
    if let Some(failure) = &facts.failure {
        out.extend(failed(failure));
    }
    out.extend(facts.pipeline.iter().flat_map(of_pipeline));
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

fn of_pipeline(pipeline: &Pipeline) -> Vec<Line> {
    let by = if pipeline.by_init { "  agent.yaml, written by act init" } else { "  agent.yaml" };
    let title = Line::of(Tone::Strong, "pipeline").and(Tone::Plain, by);
    let mut out = vec![Line::plain(""), title];
    for PipelineStep { name, command, source } in pipeline.steps.iter().take(SHOWN) {
        out.extend(command_lines(name, command, source));
    }
    out.extend(more(pipeline.steps.len(), "steps"));
    out
}

/// Returns a command beside its name, with its place behind the first line.
fn command_lines(name: &str, command: &str, source: &Location) -> Vec<Line> {
    let mut lines = command.lines();
    let first = lines.next().unwrap_or_default();
    let first = Line::plain(format!("  {name:<12} {first:<COMMAND$} "));
    let first = first.and(Tone::Faint, place(source));
    let below = lines.take(SHOWN).map(|line| Line::plain(format!("  {:<12} {line}", "")));
    [first].into_iter().chain(below).collect()
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
        if let Some(Command { command, source, remark }) = command {
            out.extend(command_lines(name, command, source));
            out.extend(remark.iter().map(|remark| Line::plain(format!("  {:<12} {remark}", ""))));
        }
    }
    for Prerequisite { name, version, source } in project.prerequisites.iter().take(SHOWN) {
        let needed = version.as_ref().map_or(name.clone(), |version| format!("{name} {version}"));
        let text = format!("  {:<12} {needed:<COMMAND$} ", "needs");
        out.push(Line::plain(text).and(Tone::Faint, place(source)));
    }
    out
}

fn failed(failure: &LoggedFailure) -> Vec<Line> {
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
        say(issue.severity.word(), &issue.issue);
        say("", &format!("fix: {}", issue.suggested_fix));
    }
    say("flaky", failure.flaky_reason.as_deref().unwrap_or_default());
    out
}

fn more(count: usize, what: &str) -> Option<Line> {
    let more = count.checked_sub(SHOWN).filter(|more| *more > 0)?;
    Some(Line::plain(format!("  and {more} more {what}, shown with --json")))
}

fn place(place: &Location) -> String {
    format!("{}:{}", place.path, place.line)
}

/// Number of differences, and of characters of a value, that are printed for people.
const DIFFERENCES: usize = 40;
const VALUE: usize = 160;
/// Number of digits of a digest that are printed; they are enough to compare two components by eye.
const SHORT: usize = 12;

fn comparison_lines(found: &Comparison) -> Vec<Line> {
    let title = format!("Scout {}", found.scout);
    let mut lines =
        vec![Line::of(Tone::Strong, title).and(Tone::Plain, format!(": {}", found.question))];
    lines.extend(side("installed", &found.installed));
    lines.extend(side("with", &found.with));
    let Some(differences) = &found.differences else { return lines };
    if differences.is_empty() {
        lines.push(Line::of(Tone::Good, "The reports say the same"));
        return lines;
    }
    let count = differences.len() + found.more_differences;
    lines.push(Line::of(Tone::Strong, format!("{count} differences (installed, with)")));
    for difference in differences.iter().take(DIFFERENCES) {
        let field = Line::of(Tone::Faint, format!("  {}: ", difference.field));
        let values = format!("{}, {}", short(&difference.installed), short(&difference.with));
        lines.push(field.and(Tone::Plain, values));
    }
    if count > DIFFERENCES {
        lines.push(Line::of(
            Tone::Faint,
            format!("  {} more, shown with --json", count - DIFFERENCES),
        ));
    }
    lines
}

fn side(name: &str, side: &Side) -> Vec<Line> {
    let sha256 = side.sha256.get(..SHORT).unwrap_or(&side.sha256);
    let head = Line::of(Tone::Strong, format!("{name:<9} ")).and(Tone::Plain, &side.name);
    let said = match (&side.summary, &side.error) {
        (Some(summary), _) => (Tone::Plain, summary.clone()),
        (None, error) => (Tone::Bad, error.clone().unwrap_or_default()),
    };
    let sum =
        |of: fn(&act_core::event::ModelUsage) -> u64| side.tokens.values().map(of).sum::<u64>();
    let took = &side.took;
    let figures = format!(
        "  {} ms in {}, {:.1} MiB of memory, {} files with {} bytes, {} model calls, {} tokens in and {} out, {} denials",
        took.duration_ms,
        if took.attempts == 1 {
            "1 attempt".to_owned()
        } else {
            format!("{} attempts", took.attempts)
        },
        took.memory_bytes as f64 / f64::from(1 << 20),
        took.files,
        took.bytes,
        took.model_calls,
        sum(|usage| usage.input),
        sum(|usage| usage.output),
        took.denials,
    );
    let head = head.and(Tone::Faint, format!(" {sha256}  ")).and(said.0, said.1);
    let warning = side.warning.iter().map(|warning| Line::of(Tone::Bad, format!("  {warning}")));
    std::iter::once(head).chain(warning).chain([Line::of(Tone::Faint, figures)]).collect()
}

fn short(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        value => {
            let text = value.to_string();
            let cut: String = text.chars().take(VALUE).collect();
            if cut.len() < text.len() { format!("{cut}…") } else { cut }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_is_shown_as_an_outline_without_its_empty_parts() {
        let report = json!({
            "schema_version": "1",
            "build": {"system": "cargo", "clean": null, "commands": {"build": "cargo build"}},
            "hints": [],
            "files": [{"path": "a.rs", "uses": ["b", "c"], "why": ""}],
            "tips": ["one\u{1b}[2J", "two"],
        });
        let text: String = outline(&report).iter().map(|line| line.render(false)).collect();
        assert_eq!(
            text,
            "\nbuild\n  system: cargo\n  commands:\n    build: cargo build\n\nfiles\n  \
             - path: a.rs; uses: b, c\n\ntips\n  - one\n  - two\n"
        );
    }
}
