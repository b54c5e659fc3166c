//! `go test`, `go vet` and `go build`.

use super::log::Log;
use super::{Failing, Reading};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

fn compiles(line: &str) -> bool {
    let line = line.strip_prefix("vet: ").unwrap_or(line);
    let mut parts = line.splitn(4, ':');
    let path = parts.next().unwrap_or_default();
    let numbers = parts.by_ref().take(2).filter(|part| part.parse::<u32>().is_ok()).count();
    path.ends_with(".go") && !path.starts_with(' ') && numbers == 2
}

fn panics(line: &str) -> bool {
    line.starts_with("panic: ") || line.starts_with("fatal error: ")
}

pub(super) fn go(log: &Log) -> Option<Reading> {
    let failed = |line: &str| line.starts_with("FAIL\t");
    let errors =
        log.iter().filter(|(_, line)| compiles(line)).map(|(at, _)| at).collect::<Vec<_>>();
    let tests_end = log.last(failed).or_else(|| log.last(|line| line == "FAIL"));
    let end = tests_end.or_else(|| errors.last().copied())?;
    let tool = if tests_end.is_some() { "go test" } else { "go build" };
    let mut marks = errors.clone();
    let mut first_error = errors.first().map(|at| message(log.line(*at)));
    let mut first = end;
    for (at, line) in log.lines(0..end + 1) {
        if line.trim_start().starts_with("--- FAIL: ") {
            first = first.min(at);
        } else if panics(line) {
            first_error.get_or_insert_with(|| line.to_owned());
            first = first.min(at);
            // In the stack trace each location has a line of its own.
            let stack = log.lines(at + 1..at + 61).filter(|(_, line)| line.starts_with('\t'));
            marks.extend(stack.map(|(at, _)| at));
        } else if is_test_output(line) {
            first_error.get_or_insert_with(|| message(line.trim_start()));
            marks.push(at);
            first = first.min(at);
        }
    }
    let known =
        log.iter().any(|(_, line)| line.starts_with("--- FAIL") || line.starts_with("FAIL"));
    let mut failing = tests(log, end);
    failing.extend(errors.iter().map(|at| {
        let line = log.line(*at);
        Failing::new("", Some(message(line.strip_prefix("vet: ").unwrap_or(line))), *at..at + 1)
    }));
    failing.sort_by_key(|one| one.block.start);
    (known || !errors.is_empty()).then_some(Reading {
        tool,
        end,
        first_error,
        marks,
        region: first..end,
        failing,
        ..Reading::default()
    })
}

/// The tests that failed, with their output. It is above the result with `-v` (`=== RUN`), else below it.
fn tests(log: &Log, end: usize) -> Vec<Failing> {
    let mut output = HashMap::<&str, Vec<Range<usize>>>::new();
    let mut panic = None::<Range<usize>>;
    let (mut names, mut outer) = (Vec::<(&str, usize)>::new(), HashSet::<&str>::new());
    let mut open: Option<(&str, usize)> = None;
    // A panic belongs to the test that runs, or, in a package that failed before, to the last one that failed.
    let mut running: &str = "";
    for (at, line) in log.lines(0..end + 1) {
        let text = line.trim_start();
        let begins = ["=== RUN ", "=== CONT ", "=== NAME "];
        let begins = begins.iter().find_map(|word| text.strip_prefix(word)).map(str::trim);
        let result = text.strip_prefix("--- ").and_then(|rest| rest.split_once(": "));
        let result = result.filter(|(word, _)| ["FAIL", "PASS", "SKIP"].contains(word));
        let ends_output = begins.is_some()
            || result.is_some()
            || text.starts_with("=== PAUSE ")
            || ["FAIL", "PASS", "ok"].contains(&line.split(['\t', ' ']).next().unwrap_or_default());
        if (ends_output || panics(line))
            && let Some((name, start)) = open.take()
        {
            output.entry(name).or_default().push(start..at);
        }
        if ends_output && let Some(panic) = panic.as_mut().filter(|panic| panic.end == end + 1) {
            panic.end = at;
        }
        if panics(line) && panic.is_none() {
            panic = Some(at..end + 1);
        }
        if let Some(name) = begins {
            open = Some((name, at + 1));
            running = name;
        }
        if let Some((word, rest)) = result {
            let name = rest.split(" (").next().unwrap_or(rest);
            if word == "FAIL" {
                names.push((name, at));
                open = Some((name, at + 1));
                if panic.is_none() {
                    running = name;
                }
                // A test fails when a test inside of it does.
                outer.extend(name.match_indices('/').filter_map(|(at, _)| name.get(..at)));
            }
        }
    }
    let mut failing = Vec::new();
    let mut panicked = panic.map(|block| (running, block));
    for (name, at) in names.into_iter().filter(|(name, _)| !outer.contains(name)) {
        if let Some((_, block)) = panicked.take_if(|(running, _)| *running == name) {
            failing.push(Failing::new(name, Some(panic_message(log, block.start)), block));
            continue;
        }
        let ranges = output.get(name).map(Vec::as_slice).unwrap_or_default();
        let said =
            |range: &&Range<usize>| log.lines((*range).clone()).any(|(_, line)| is_output(line));
        let block = ranges.iter().find(said).or(ranges.iter().find(|range| !range.is_empty()));
        let block = block.cloned().unwrap_or(at..at + 1);
        failing.push(Failing::new(name, test_message(log, block.clone()), block));
    }
    if let Some((running, block)) = panicked {
        failing.push(Failing::new(running, Some(panic_message(log, block.start)), block));
    }
    failing
}

fn panic_message(log: &Log, at: usize) -> String {
    log.line(at).trim_end_matches(" [recovered]").to_owned()
}

fn test_message(log: &Log, block: Range<usize>) -> Option<String> {
    let line = log.lines(block.clone()).find(|(_, line)| is_output(line));
    let text = line
        .map(|(_, line)| message(line.trim_start()))
        .filter(|text| !text.ends_with(".go") && !is_place(text));
    // testify prints a table: `Error:      \tNot equal:`.
    let error = || {
        let line = log
            .lines(block.clone())
            .find_map(|(_, line)| line.trim().strip_prefix("Error:").map(str::trim));
        line.map(str::to_owned)
    };
    let any = || {
        log.lines(block.clone())
            .map(|(_, line)| line.trim())
            .find(|line| !line.is_empty())
            .map(str::to_owned)
    };
    text.or_else(error).or_else(any)
}

/// Returns whether a text is only `price_test.go:12:`.
fn is_place(text: &str) -> bool {
    text.split(':').next().is_some_and(|path| path.ends_with(".go")) && text.ends_with(':')
}

/// Reads `    price_test.go:12: got 1, want 2`, also from a helper in another file.
fn is_output(line: &str) -> bool {
    let mut parts = line.trim_start().splitn(3, ':');
    let path = parts.next().unwrap_or_default();
    line.starts_with("    ")
        && path.ends_with(".go")
        && !path.contains(' ')
        && parts.next().is_some_and(|number| number.parse::<u32>().is_ok())
}

fn is_test_output(line: &str) -> bool {
    is_output(line)
        && line.trim_start().split(':').next().is_some_and(|path| path.ends_with("_test.go"))
}

/// Returns the text behind the location.
fn message(line: &str) -> String {
    line.split_once(": ").map_or(line, |(_, content)| content).to_owned()
}
