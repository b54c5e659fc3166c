//! rustc, `cargo test` and nextest.

use super::Reading;
use super::log::Log;

pub(super) fn cargo_test(log: &Log) -> Option<Reading> {
    let nextest =
        log.last(|line| line.trim_start().starts_with("Summary [") && line.contains(" failed"));
    let end = log.last(|line| line.starts_with("test result: FAILED.")).or(nextest)?;
    let mut tests = Vec::new();
    for (at, line) in log.iter().take_while(|(at, _)| *at <= end) {
        if line.starts_with("test result: FAILED.") {
            tests.extend(listed(log, at));
        } else if let Some(rest) = line.trim_start().strip_prefix("FAIL [")
            && nextest.is_some()
            && let Some((_, name)) = rest.split_once("] ")
        {
            let words = name.split_whitespace().skip_while(|word| word.starts_with('('));
            tests.push(words.collect::<Vec<_>>().join(" "));
        }
    }
    let panicked = |line: &str| line.starts_with("thread '") && line.contains(" panicked at ");
    let marks = log.iter().filter(|(at, line)| *at < end && panicked(line)).map(|(at, _)| at);
    let marks = marks.collect::<Vec<_>>();
    let first_error = marks.first().map(|at| message(log, *at));
    let first_error = first_error.or_else(|| {
        let error = log.iter().find(|(at, line)| *at < end && line.starts_with("Error: "));
        error.map(|(_, line)| line.to_owned())
    });
    let region = log.position(|line| line == "failures:" || panicked(line)).unwrap_or(0)..end;
    Some(Reading {
        tool: "cargo test",
        end,
        tests,
        first_error,
        marks,
        region,
        ..Reading::default()
    })
}

/// Returns the names right before a result. Output of tests is further up, so that no line of it is taken for a name.
fn listed(log: &Log, result: usize) -> Vec<String> {
    let above = (0..result).rev().map(|at| log.line(at)).skip_while(|line| line.is_empty());
    let mut names = above.take_while(|line| line.starts_with("    ")).collect::<Vec<_>>();
    names.reverse();
    names.into_iter().map(|name| name.trim().to_owned()).collect()
}

/// Returns the message of a panic: on the line after the location; before Rust 1.73 on the same line.
fn message(log: &Log, at: usize) -> String {
    let line = log.line(at);
    if let Some((_, rest)) = line.split_once("panicked at '")
        && let Some((text, _)) = rest.rsplit_once("', ")
    {
        return text.to_owned();
    }
    log.line(at + 1).to_owned()
}

/// Lines that only summarise errors.
const ENDS: [&str; 4] = [
    "error: could not compile",
    "error: aborting due to",
    "error: build failed",
    "error: test failed",
];

pub(super) fn rustc(log: &Log) -> Option<Reading> {
    let end = log.last(|line| ENDS.iter().take(2).any(|end| line.starts_with(end)))?;
    let is_error = |line: &str| {
        (line.starts_with("error[") || line.starts_with("error: "))
            && !ENDS.iter().any(|end| line.starts_with(end))
    };
    let errors = log.iter().filter(|(at, line)| *at < end && is_error(line)).map(|(at, _)| at);
    let errors = errors.collect::<Vec<_>>();
    let arrow = |at: &usize| {
        log.from(at + 1)
            .take(3)
            .find(|(_, line)| line.trim_start().starts_with("--> "))
            .map(|(at, _)| at)
    };
    let marks = errors.iter().filter_map(arrow).collect::<Vec<_>>();
    let first = *errors.first()?;
    let first_error = Some(log.line(first).to_owned());
    Some(Reading {
        tool: "rustc",
        end,
        first_error,
        marks,
        region: first..end,
        ..Reading::default()
    })
}
