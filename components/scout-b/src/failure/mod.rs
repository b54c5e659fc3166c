//! Analyses a failing log: the tool, the failing tests, the first error, its locations in the repository, and what the
//! environment lacks. The log is untrusted text, so every location is looked up.
//!
//! If a log holds the output of several tools, the one whose summary is last has failed. Tools that only pass on the failure
//! of another one (make, npm, Maven) count if no other tool is recognised.

mod environment;
mod flaky;
mod go;
mod javascript;
mod jvm;
mod locations;
mod log;
mod native;
mod packages;
mod python;
mod rust;

use crate::tree::Tree;
use act_kit::quoting::cut;
use act_kit::reports::facts_b::Failure;
use locations::Locations;
pub(crate) use locations::mentions;
use log::Log;
use std::ops::Range;

const TESTS: usize = 100;
const LOCATIONS: usize = 20;
const TEXT: usize = 300;

/// The output of one tool, as it was parsed.
#[derive(Debug, Default)]
struct Reading {
    tool: &'static str,
    /// Index of the line with the tool's summary. The last summary in a log belongs to the tool that failed.
    end: usize,
    tests: Vec<String>,
    first_error: Option<String>,
    /// Locations that are spread over several lines.
    locations: Vec<(String, u32)>,
    /// Lines with the most important locations.
    marks: Vec<usize>,
    /// Lines with locations that may be important.
    region: Range<usize>,
}

type Reader = fn(&Log) -> Option<Reading>;

const READERS: [Reader; 14] = [
    python::pytest,
    python::unittest,
    javascript::jest,
    javascript::vitest,
    javascript::mocha,
    javascript::node_test,
    javascript::tsc,
    javascript::eslint,
    rust::cargo_test,
    rust::rustc,
    go::go,
    native::compiler,
    jvm::javac,
    jvm::tests,
];

/// Readers of tools that pass on failures. The first one that recognises its tool counts.
const PASSING_ON: [Reader; 5] =
    [packages::cargo, packages::pip, packages::npm, jvm::maven, native::make];

pub(crate) fn analyse(text: &str, tree: &Tree<'_>) -> Failure {
    let log = Log::of(text);
    let inner = READERS.iter().filter_map(|reader| reader(&log)).max_by_key(|reading| reading.end);
    let reading = inner.or_else(|| PASSING_ON.iter().find_map(|reader| reader(&log)));
    let mut reading = reading.unwrap_or_else(|| unknown(&log));
    reading.tests.dedup();
    let mut tests = Vec::<String>::new();
    for test in reading.tests.iter().map(|test| cut(test.trim(), TEXT)) {
        if tests.len() < TESTS && !test.is_empty() && !tests.contains(&test) {
            tests.push(test);
        }
    }
    let first_error = reading.first_error.map(|error| cut(error.trim(), TEXT));
    let mut locations = Locations::new(tree, &log);
    for (path, line) in &reading.locations {
        locations.add(path, *line);
    }
    for at in reading.marks.into_iter().chain(reading.region) {
        locations.add_line(at);
        if locations.found.len() >= LOCATIONS {
            break;
        }
    }
    let flaky_reason = flaky::reason(&log);
    Failure {
        tool: reading.tool.to_owned(),
        failing_tests: tests,
        first_error: first_error.unwrap_or_default(),
        locations: locations.found,
        environment_issues: environment::issues(&log, tree),
        is_flaky: flaky_reason.is_some(),
        flaky_reason,
    }
}

/// Texts that mark a line as an error when no tool is recognised.
const ERRORS: [&str; 14] = [
    "error:",
    "error[",
    "Error:",
    "ERROR:",
    "Exception",
    "FAILED",
    "FAIL:",
    "panicked at",
    "AssertionError",
    "assertion failed",
    "fatal:",
    "not found",
    "No such file",
    "Permission denied",
];

fn unknown(log: &Log) -> Reading {
    let error = log.position(|line| ERRORS.iter().any(|word| line.contains(word)));
    Reading {
        tool: "unknown",
        first_error: error.map(|at| log.line(at).to_owned()),
        marks: error.into_iter().collect(),
        region: 0..log.len(),
        ..Reading::default()
    }
}

#[cfg(test)]
mod tests;
