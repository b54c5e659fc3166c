//! `act scout a|b|NAME [QUESTION]`: a Scout's report for a person or a program, without a task.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::repo_arg::RepoArg;
use super::{compared, facts_b, runtime};
use crate::output::{Line, Output, Tone};
use crate::task::{self, ScoutAnswer, ScoutArgs, ScoutFacts, WhichScout};
use act_component::{ComponentName, ValueError};
use act_core::Failure;
use act_core::exit::Exit;

/// The end of a log is where the failure stands; as much of it as a failed run hands on.
const LOG: u64 = 64 * 1024;
/// What standard input may hold before its end is taken.
const MAX_STDIN: u64 = 64 << 20;

const AFTER_HELP: &str = "\
Examples:
  act scout a \"where are dates parsed\"
  act scout b --facts --json                  what can be computed, without a model
  make test 2>&1 | act scout b --log - \"why does it fail\"
  act scout b --with next.wasm --compare \"how is it tested\"

Exit codes:
  0 a report, 1 refused, 4 no report after all attempts";

/// Ask a Scout about this repository
///
/// Scout A maps the code, Scout B finds out how it is built and tested and why it fails. Both only read.
/// Needs a model (not with --facts), but no agent.yaml and no Docker. With --with and --compare two components
/// answer one question, side by side: the one that a task would ask, and another one.
#[derive(Debug, clap::Args)]
#[command(after_long_help = AFTER_HELP)]
pub(super) struct Scout {
    /// Which one: a maps the code, b looks at build and tests, any other by the name it was approved under
    #[arg(value_name = "SCOUT", value_parser = which)]
    scout: WhichScout,
    /// What to find out; without it the usual survey
    question: Option<String>,
    /// Say what can be computed, without asking a model
    #[arg(long)]
    facts: bool,
    #[command(flatten)]
    at: RepoArg,
    /// A log with a failure to analyse; `-` reads it from standard input
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Another component to ask in its place; it must have been approved, and its file names it
    #[arg(long, value_name = "FILE", conflicts_with = "facts")]
    with: Option<PathBuf>,
    /// Ask both the same, and say how the reports differ and what each took
    #[arg(long, requires = "with")]
    compare: bool,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
    /// Show every attempt and every request
    #[arg(short, long)]
    pub(super) verbose: bool,
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
        let log = self.log.as_deref().map(read_log).transpose()?;
        let which = self.scout.clone();
        let with = self.with.clone();
        let args =
            ScoutArgs { scout: self.scout, question: self.question, repo: self.at.repo, log, with };
        if let Some(file) = self.with.filter(|_| self.compare) {
            let compared = runtime::block_on(task::compare(args, &file, output))??;
            return Ok(compared.map_or(Exit::Cancelled, |found| compared::show(&found, output)));
        }
        if self.facts {
            let facts = runtime::block_on(task::facts(args, output))??;
            show_facts(&which, &facts, output);
            return Ok(Exit::Ok);
        }
        let answer = runtime::block_on(task::scout(args, output))??;
        if output.is_json() {
            output.document(&answer);
        } else {
            show(&answer, output);
        }
        Ok(Exit::Ok)
    }
}

/// The last part of a log as text.
fn read_log(path: &Path) -> Result<String, Failure> {
    let end = |mut file: File| -> io::Result<Vec<u8>> {
        let mut bytes = vec![];
        let length = file.metadata()?.len();
        // A pipe has no length and no places.
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

/// What a person is shown of a list.
const SHOWN: usize = 12;

fn show_facts(scout: &WhichScout, facts: &ScoutFacts, output: &Output) {
    if output.is_json() {
        output.document(&facts.document);
        return;
    }
    let title = match scout {
        WhichScout::A => "Scout A, facts".to_owned(),
        WhichScout::B => "Scout B, facts".to_owned(),
        WhichScout::Named(name) => format!("Scout {name}, facts"),
    };
    output.result_line(
        &Line::of(Tone::Strong, title).and(Tone::Plain, format!(": {}", facts.summary)),
    );
    let of_b = (*scout == WhichScout::B).then(|| serde_json::from_value(facts.document.clone()));
    let lines = match of_b {
        Some(Ok(facts)) => facts_b::lines(&facts),
        _ => outline(&shortened(&facts.document)),
    };
    for line in lines {
        output.result_line(&line);
    }
}

/// With the beginnings of long lists, and how much there is more.
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

fn show(answer: &ScoutAnswer, output: &Output) {
    let title = match answer.scout.as_str() {
        letter @ ("a" | "b") => format!("Scout {}", letter.to_uppercase()),
        name => format!("Scout {name}"),
    };
    output.result_line(
        &Line::of(Tone::Strong, title).and(Tone::Plain, format!(": {}", answer.summary)),
    );
    for line in outline(&answer.report) {
        output.result_line(&line);
    }
}

/// A report as an outline; what is empty is left out.
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
                        let said = fields.iter().filter(|(_, value)| !is_empty(value));
                        let said: Vec<_> = said
                            .map(|(name, value)| {
                                let words = word(value).unwrap_or_else(|| value.to_string());
                                format!("{}: {words}", name.replace('_', " "))
                            })
                            .collect();
                        lines.push(Line::plain(format!("{indent}- {}", said.join("; "))));
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

/// What fits behind a name.
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
