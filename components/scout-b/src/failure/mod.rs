//! Analyses a failing log: the tool, the failing tests, the first error, its locations in the repository, and what the
//! environment lacks. [`act_kit::reports::failures`] parses the log. The log is untrusted text, so every location is looked
//! up.

mod environment;
mod flaky;
mod locations;

use crate::tree::Tree;
use act_kit::quoting::cut;
use act_kit::reports::facts_b::Failure;
use act_kit::reports::failures::{Log, read};
use locations::Locations;

/// Maximum size of a log in bytes: a longer log loses its beginning.
const LOG: usize = 256 * 1024;
const TESTS: usize = 100;
const LOCATIONS: usize = 20;
const TEXT: usize = 300;

pub(crate) fn analyse(text: &str, tree: &Tree<'_>) -> Failure {
    let from = text.ceil_char_boundary(text.len().saturating_sub(LOG));
    let log = Log::of(text.get(from..).unwrap_or_default());
    let reading = read(&log);
    let mut tests = Vec::<String>::new();
    for test in reading.tests().map(|test| cut(test, TEXT)) {
        if tests.len() < TESTS && !tests.contains(&test) {
            tests.push(test);
        }
    }
    let mut locations = Locations::new(tree, &log);
    for (path, line) in &reading.locations {
        locations.add(path, *line);
    }
    for at in reading.marks.iter().copied().chain(reading.region.clone()) {
        locations.add_line(at);
        if locations.found.len() >= LOCATIONS {
            break;
        }
    }
    let flaky_reason = flaky::reason(&log);
    Failure {
        tool: reading.tool.to_owned(),
        failing_tests: tests,
        first_error: reading.first_error(),
        locations: locations.found,
        environment_issues: environment::issues(&log, tree),
        is_flaky: flaky_reason.is_some(),
        flaky_reason,
    }
}

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
