//! `go test`, `go vet` and `go build`.

use super::log::Log;
use super::{FAILURES, Failing, Found, Heads, MARKS, Reading};
use std::collections::HashMap;
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
    let heads = Heads::of(log, 0..log.len(), compiles);
    let errors = heads.as_ref().map(|heads| heads.lines.as_slice()).unwrap_or_default();
    let tests_end = log.last(failed).or_else(|| log.last(|line| line == "FAIL"));
    let end = tests_end.or(heads.as_ref().map(|heads| heads.last))?;
    let tool = if tests_end.is_some() { "go test" } else { "go build" };
    let mut marks = errors.to_vec();
    let mut first_error = errors.first().map(|at| message(log.line(*at)));
    let mut first = end;
    let mut stack_end = 0;
    for (at, line) in log.lines(0..end + 1) {
        if line.trim_start().starts_with("--- FAIL: ") {
            first = first.min(at);
        } else if panics(line) {
            first_error.get_or_insert_with(|| line.to_owned());
            first = first.min(at);
            // In the stack trace each location has a line of its own.
            let stack = log.lines(stack_end.max(at + 1)..at + 61);
            marks.extend(stack.filter(|(_, line)| line.starts_with('\t')).map(|(at, _)| at));
            stack_end = at + 61;
        } else if is_test_output(line) {
            first_error.get_or_insert_with(|| message(line.trim_start()));
            if marks.len() < MARKS {
                marks.push(at);
            }
            first = first.min(at);
        }
    }
    let known =
        log.iter().any(|(_, line)| line.starts_with("--- FAIL") || line.starts_with("FAIL"));
    let Found { mut failing, mut more } = tests(log, end);
    failing.extend(errors.iter().map(|at| {
        let line = log.line(*at);
        Failing::new("", Some(message(line.strip_prefix("vet: ").unwrap_or(line))), *at..at + 1)
    }));
    failing.sort_by_key(|one| one.block.start);
    more += heads.as_ref().map_or(0, |heads| heads.more) + failing.len().saturating_sub(FAILURES);
    failing.truncate(FAILURES);
    (known || !errors.is_empty()).then_some(Reading {
        tool,
        end,
        first_error,
        marks,
        region: first..end,
        failing,
        more,
        ..Reading::default()
    })
}

/// The tests that failed, with their output. It is above the result with `-v` (`=== RUN`), else below it.
fn tests(log: &Log, end: usize) -> Found {
    let mut output = HashMap::<&str, Vec<Range<usize>>>::new();
    let mut panic = None::<Range<usize>>;
    let mut names = Vec::<(&str, usize)>::new();
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
            }
        }
    }
    // A test fails when a test inside of it does. Sorted, the names of the tests inside follow the name with its slash.
    let mut sorted = names.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    sorted.sort_unstable();
    sorted.dedup();
    let outer = |name: &str| {
        let inside = format!("{name}/");
        let next = sorted.partition_point(|other| *other < inside.as_str());
        sorted.get(next).is_some_and(|other| other.starts_with(&inside))
    };
    let mut found = Found::default();
    let mut panicked = panic.map(|block| (running, block));
    // The output of each name is read once, also when the name failed more often.
    let mut known = HashMap::<&str, Option<(Range<usize>, Option<String>)>>::new();
    for (name, at) in names.iter().copied().filter(|(name, _)| !outer(name)) {
        if let Some((_, block)) = panicked.take_if(|(running, _)| *running == name) {
            found.add(|| Failing::new(name, Some(panic_message(log, block.start)), block));
            continue;
        }
        found.add(|| {
            let said = known.entry(name).or_insert_with(|| {
                let ranges = output.get(name).map(Vec::as_slice).unwrap_or_default();
                let block = output_of(log, ranges)?;
                Some((block.clone(), test_message(log, block)))
            });
            match said.clone() {
                Some((block, message)) => Failing::new(name, message, block),
                None => Failing::new(name, test_message(log, at..at + 1), at..at + 1),
            }
        });
    }
    if let Some((running, block)) = panicked {
        found.add(|| Failing::new(running, Some(panic_message(log, block.start)), block));
    }
    found
}

/// Returns the first range with output of the test itself, else the first one with any.
fn output_of(log: &Log, ranges: &[Range<usize>]) -> Option<Range<usize>> {
    let said = |range: &&Range<usize>| log.lines((*range).clone()).any(|(_, line)| is_output(line));
    let range = ranges.iter().find(said).or(ranges.iter().find(|range| !range.is_empty()));
    range.cloned()
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
