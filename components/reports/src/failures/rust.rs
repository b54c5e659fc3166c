//! rustc, `cargo test` and nextest.

use super::log::Log;
use super::{Failing, Found, Heads, MARKS, Reading};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

fn panicked(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("thread '") && line.contains(" panicked at ")
}

pub(super) fn cargo_test(log: &Log) -> Option<Reading> {
    let nextest =
        log.last(|line| line.trim_start().starts_with("Summary [") && line.contains(" failed"));
    let end = log.last(|line| line.starts_with("test result: FAILED.")).or(nextest)?;
    let Found { mut failing, more } = match nextest {
        Some(end) => of_nextest(log, end),
        None => of_libtest(log, end),
    };
    for one in &mut failing {
        one.say(error_of(log, one.block.clone()));
    }
    let marks = log.lines(0..end).filter(|(_, line)| panicked(line)).map(|(at, _)| at);
    let marks = marks.take(MARKS).collect::<Vec<_>>();
    let first_error = marks.first().map(|at| message(log, *at));
    let first_error = first_error.or_else(|| {
        let error = log.lines(0..end).find(|(_, line)| line.starts_with("Error: "));
        error.map(|(_, line)| line.to_owned())
    });
    let region = log.position(|line| line == "failures:" || panicked(line)).unwrap_or(0)..end;
    Some(Reading {
        tool: "cargo test",
        end,
        first_error,
        marks,
        region,
        failing,
        more,
        ..Reading::default()
    })
}

/// The tests that libtest lists right before each result, with what it prints under `---- NAME stdout ----`.
fn of_libtest(log: &Log, end: usize) -> Found {
    let heading = |line: &str| {
        let name = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
        name.strip_suffix(" stdout").or_else(|| name.strip_suffix(" stderr")).map(str::to_owned)
    };
    let mut blocks = HashMap::<String, VecDeque<Range<usize>>>::new();
    let mut open: Option<(String, usize)> = None;
    let mut found = Found::default();
    for (at, line) in log.lines(0..end + 1) {
        let name = heading(line);
        if (name.is_some() || line == "failures:")
            && let Some((name, start)) = open.take()
        {
            blocks.entry(name).or_default().push_back(start..at);
        }
        if let Some(name) = name {
            open = Some((name, at));
        }
        if line.starts_with("test result: FAILED.") {
            for (at, name) in listed(log, at) {
                let block = blocks.get_mut(&name).and_then(VecDeque::pop_front);
                found.add(|| Failing::new(&name, None, block.unwrap_or(at..at + 1)));
            }
            // A table that is cleared keeps its size, and the next results would clear all of it again.
            blocks = HashMap::new();
        }
    }
    found
}

/// Returns the names right before a result. Output of tests is further up, so that no line of it is taken for a name.
fn listed(log: &Log, result: usize) -> Vec<(usize, String)> {
    let above = log.lines(0..result).rev().skip_while(|(_, line)| line.is_empty());
    let names = above.take_while(|(_, line)| line.starts_with("    "));
    let mut names = names.map(|(at, name)| (at, name.trim().to_owned())).collect::<Vec<_>>();
    names.reverse();
    names
}

/// Reads `FAIL [   0.156s] (11/44) shop tests::adds`, with the output below it. The summary repeats these lines.
fn of_nextest(log: &Log, end: usize) -> Found {
    let mut found = Found::default();
    let mut seen = std::collections::HashSet::new();
    let mut open = false;
    for (at, line) in log.lines(0..log.len()) {
        let text = line.trim_start();
        let status = text.split_once(" [").filter(|(word, rest)| {
            rest.contains("s] ")
                && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
        });
        let ends =
            status.is_some() || (text.starts_with("────────────") || text.starts_with("Summary ["));
        if ends && let Some(last) = found.failing.last_mut().filter(|_| open) {
            last.block.end = at;
            open = false;
        }
        if let Some(("FAIL", rest)) = status
            && let Some((_, name)) = rest.split_once("] ")
        {
            let name = match name.trim_start().strip_prefix('(') {
                Some(numbered) => numbered.split_once(')').map_or(name, |(_, name)| name),
                None => name,
            };
            let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
            if seen.insert(name.clone()) {
                open = found.add(|| Failing::new(&name, None, at..end.max(at + 1)));
            }
        }
    }
    found
}

/// Returns the reason that a failing test printed.
fn error_of(log: &Log, block: Range<usize>) -> Option<String> {
    if let Some((at, _)) = log.lines(block.clone()).find(|(_, line)| panicked(line)) {
        return Some(message(log, at));
    }
    let lines = || log.lines(block.start + 1..block.end).map(|(_, line)| line.trim());
    let error = lines().find(|line| line.starts_with("Error: ") || line.starts_with("error"));
    let error = error.or_else(|| lines().find(|line| line.starts_with("note: test did not panic")));
    error.or_else(|| lines().find(|line| !line.is_empty())).map(str::to_owned)
}

/// Returns the message of a panic: on the line after the location; before Rust 1.73 on the same line.
fn message(log: &Log, at: usize) -> String {
    let line = log.line(at);
    if let Some((_, rest)) = line.split_once("panicked at '")
        && let Some((text, _)) = rest.rsplit_once("', ")
    {
        return text.to_owned();
    }
    log.line(at + 1).trim().to_owned()
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
    let Heads { lines: errors, first, more, .. } = Heads::of(log, 0..end, is_error)?;
    let arrow = |at: &usize| {
        log.lines(at + 1..at + 4)
            .find(|(_, line)| line.trim_start().starts_with("--> "))
            .map(|(at, _)| at)
    };
    let marks = errors.iter().filter_map(arrow).collect::<Vec<_>>();
    let first_error = Some(log.line(first).to_owned());
    let failing = errors.iter().map(|at| {
        let blank = log.lines(*at..at + 100).find(|(_, line)| line.is_empty()).map(|(at, _)| at);
        Failing::new("", Some(log.line(*at).to_owned()), *at..blank.unwrap_or(end).min(end))
    });
    let failing = failing.collect();
    Some(Reading {
        tool: "rustc",
        end,
        first_error,
        marks,
        region: first..end,
        failing,
        more,
        ..Reading::default()
    })
}
