//! jest, vitest, mocha, node:test, rspec, tsc, eslint.

use super::log::Log;
use super::{Failing, Reading};
use std::collections::HashSet;
use std::ops::Range;

fn counted(line: &str, label: &str, word: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix(label) else { return false };
    rest.split([',', '|']).any(|part| {
        let part = part.trim();
        part.split_once(' ').is_some_and(|(count, rest)| {
            count.parse::<u64>().is_ok_and(|count| count > 0) && rest.trim_start().starts_with(word)
        })
    })
}

/// Returns the lines that are stack frames.
fn frames(log: &Log, from: usize, to: usize) -> Vec<usize> {
    let frame = |line: &str| {
        let line = line.trim_start();
        line.starts_with("at ") || line.starts_with('❯')
    };
    log.lines(from..to).filter(|(_, l)| frame(l)).map(|(at, _)| at).collect()
}

/// Returns the first line of a block that is not blank, with what was expected and received below it.
fn error(log: &Log, block: Range<usize>) -> Option<String> {
    let lines = || log.lines(block.clone()).map(|(_, line)| line.trim());
    let mut text = lines().find(|line| !line.is_empty())?.to_owned();
    if text.ends_with(':')
        && let Some(values) =
            lines().skip_while(|line| line.is_empty()).skip(1).find(|line| !line.is_empty())
    {
        // `Expected values to be strictly equal:` and, below a blank line, `1 !== 2`.
        text.push(' ');
        text.push_str(values);
    }
    if text.starts_with("expect(") {
        let values = ["Expected", "Received"];
        let values = lines().filter(|line| values.iter().any(|word| line.starts_with(word)));
        values.take(2).for_each(|value| {
            text.push_str("; ");
            text.push_str(value);
        });
    }
    Some(text)
}

pub(super) fn jest(log: &Log) -> Option<Reading> {
    let suites = |line: &str| counted(line, "Test Suites:", "failed") && line.contains(" total");
    let end = log.last(suites).or_else(|| {
        log.last(|line| counted(line, "Tests:", "failed") && line.contains(" total"))
    })?;
    let mut failing = Vec::<Failing>::new();
    let (mut suite, mut open) = (String::new(), false);
    // With many suites jest prints all failures again at the end.
    let mut seen = HashSet::new();
    for (at, line) in log.lines(0..end) {
        let head = line.strip_prefix("  ● ");
        let suite_begins = line.starts_with("FAIL ") || line.starts_with("PASS ");
        if (head.is_some() || suite_begins || line == "Summary of all failing tests")
            && let Some(last) = failing.last_mut().filter(|_| open)
        {
            last.block.end = at;
            open = false;
        }
        if let Some(rest) = line.strip_prefix("FAIL ") {
            // With several projects the line starts with the project's name. It ends with the duration.
            let path = rest
                .split_whitespace()
                .rfind(|word| word.contains(['/', '.']) && !word.starts_with('('));
            suite = path.unwrap_or(rest).to_owned();
        }
        let Some(name) = head else { continue };
        if name.starts_with("Console") || name.contains("Validation Warning") {
            continue;
        }
        if seen.insert((suite.clone(), name)) {
            let whole = name == "Test suite failed to run";
            failing.push(Failing::new(if whole { &suite } else { name }, None, at..end));
            open = true;
        }
    }
    for one in &mut failing {
        one.message = error(log, one.block.start + 1..one.block.end).unwrap_or_default();
    }
    let start = failing.first().map_or(0, |one| one.block.start);
    let first_error = failing.first().and_then(|one| log.next_text(one.block.start + 1));
    Some(Reading {
        tool: "jest",
        end,
        first_error: first_error.map(|(_, line)| line.trim().to_owned()),
        marks: frames(log, start, end),
        region: start..end,
        failing,
        ..Reading::default()
    })
}

pub(super) fn vitest(log: &Log) -> Option<Reading> {
    let summary = |line: &str| {
        ["Test Files ", "     Tests ", "      Tests ", "Tests "].iter().any(|label| {
            line.trim_start().starts_with(label.trim_start())
                && counted(line, label.trim(), "failed")
                && line.trim_end().ends_with(')')
        })
    };
    let errors = |line: &str| counted(line, "Errors", "error");
    let end = log.last(|line| summary(line) || errors(line))?;
    log.position(summary)?;
    let mut failing = Vec::<Failing>::new();
    // Tests that failed in the same way share one text, below all of their names.
    let (mut sharing, mut open) = (0, false);
    for (at, line) in log.lines(0..end) {
        let head = line.trim_start().strip_prefix("FAIL ");
        if open
            && (line.trim_start().starts_with("⎯⎯") || (head.is_some() && sharing == failing.len()))
        {
            close(&mut failing, at);
            open = false;
        }
        if let Some(rest) = head {
            let name = rest.trim();
            // A file that could not be loaded is printed with its own name in brackets.
            let name = name
                .split_once(" [")
                .filter(|(_, rest)| rest.ends_with(']'))
                .map_or(name, |(n, _)| n);
            failing.push(Failing::new(name.trim(), None, at..end));
            open = true;
        } else if !line.trim().is_empty() {
            sharing = failing.len();
        }
    }
    let mut shared: Option<(String, Range<usize>)> = None;
    for one in failing.iter_mut().rev() {
        let body = one.block.start + 1..one.block.end;
        let next = log.lines(body.clone()).find(|(_, line)| !line.trim().is_empty());
        let another = next.is_some_and(|(_, line)| line.trim_start().starts_with("FAIL "));
        match shared.as_ref().filter(|_| another) {
            Some((message, block)) => (one.message, one.block) = (message.clone(), block.clone()),
            None => {
                one.message = error(log, body).unwrap_or_default();
                shared = Some((one.message.clone(), one.block.clone()));
            }
        }
    }
    let start = failing.first().map_or(0, |one| one.block.start);
    Some(Reading {
        tool: "vitest",
        end,
        marks: frames(log, start, end),
        region: start..end,
        failing,
        ..Reading::default()
    })
}

/// Ends the blocks that are still open.
fn close(failing: &mut [Failing], at: usize) {
    for one in failing.iter_mut().rev() {
        if one.block.end <= at {
            break;
        }
        one.block.end = at;
    }
}

/// Reads a list of failures whose names begin with their numbers: `  1) prices adds:`. Returns the names with their blocks,
/// each with the number of lines that its name takes.
fn numbered(log: &Log, from: usize, to: usize) -> Vec<(String, usize, Range<usize>)> {
    let mut found = Vec::<(String, usize, Range<usize>)>::new();
    let mut open = false;
    for (at, line) in log.lines(from..to) {
        let text = line.trim();
        let number =
            text.split_once(") ").filter(|(n, _)| n.parse::<usize>() == Ok(found.len() + 1));
        if let Some((_, name)) = number.filter(|_| line.starts_with("  ")) {
            if let Some(last) = found.last_mut() {
                last.2.end = at;
            }
            open = !name.ends_with(':');
            found.push((name.trim_end_matches(':').to_owned(), 1, at..to));
        } else if open && let Some((name, lines, _)) = found.last_mut() {
            open = !text.is_empty() && *lines < 10 && !text.ends_with(':');
            if !text.is_empty() {
                *lines += 1;
                name.push(' ');
                name.push_str(text.trim_end_matches(':'));
            }
        }
    }
    found
}

pub(super) fn mocha(log: &Log) -> Option<Reading> {
    let failing = |line: &str| {
        let line = line.trim();
        line.strip_suffix(" failing").is_some_and(|count| count.parse::<u64>().is_ok_and(|n| n > 0))
    };
    let end = log.last(failing)?;
    let failing = numbered(log, end + 1, log.len()).into_iter().map(|(name, lines, block)| {
        let message = error(log, block.start + lines..block.end);
        Failing::new(&name, message, block)
    });
    let failing = failing.collect();
    let marks = frames(log, end, log.len());
    Some(Reading {
        tool: "mocha",
        end,
        marks,
        region: end..log.len(),
        failing,
        ..Reading::default()
    })
}

/// Reads the list below `Failures:`, and the examples that `rspec ./spec/a_spec.rb:3` would run again.
pub(super) fn rspec(log: &Log) -> Option<Reading> {
    let summary = |line: &str| {
        let count = line.split_once(" example").and_then(|(count, _)| count.parse::<u64>().ok());
        count.is_some() && line.contains(" failure") && !line.contains(" 0 failures")
    };
    let end = log.last(summary)?;
    let start = log.lines(0..end).rev().find(|(_, line)| *line == "Failures:")?.0;
    let failing = |(name, block): (String, Range<usize>)| {
        let lines = || log.lines(block.start + 1..block.end).map(|(_, line)| line.trim());
        let call = lines().find(|line| line.starts_with("Failure/Error:"));
        let below = lines().skip_while(|line| !line.starts_with("Failure/Error:")).skip(1);
        let message = below.take_while(|line| !line.starts_with('#')).find(|line| !line.is_empty());
        let message = message.or(call).map(str::to_owned);
        Failing::new(&name, message, block)
    };
    let title = |(_, _, block): (String, usize, Range<usize>)| {
        let name = log.line(block.start).split_once(") ").map_or("", |(_, name)| name.trim());
        (name.to_owned(), block)
    };
    let failing = numbered(log, start + 1, end).into_iter().map(title).map(failing).collect();
    Some(Reading { tool: "rspec", end, region: start..end, failing, ..Reading::default() })
}

pub(super) fn node_test(log: &Log) -> Option<Reading> {
    let fails = |line: &str| {
        let rest = line.strip_prefix("# fail ").or_else(|| line.strip_prefix("ℹ fail "));
        rest.is_some_and(|count| count.trim().parse::<u64>().is_ok_and(|count| count > 0))
    };
    let end = log.last(fails)?;
    if log.line(end).starts_with('#') { tap(log, end) } else { spec(log, end) }
}

/// Reads the list behind the summary. Each entry has its location above and its error below.
fn spec(log: &Log, end: usize) -> Option<Reading> {
    let list = log.last(|line| line.starts_with("✖ failing tests:")).unwrap_or(end);
    let mut failing = Vec::<Failing>::new();
    let mut marks = Vec::new();
    for (at, line) in log.from(list + 1) {
        let located = line.starts_with("test at ");
        let name = line.strip_prefix("✖ ");
        if located || name.is_some() {
            close(&mut failing, at);
        }
        if located {
            marks.push(at);
        }
        if let Some(name) = name {
            let name = name.rsplit_once(" (").map_or(name, |(name, _)| name);
            let head = if at > 0 && log.line(at - 1).starts_with("test at ") { at - 1 } else { at };
            failing.push(Failing::new(name, None, head..log.len()));
        }
    }
    for one in &mut failing {
        let body = log.lines(one.block.clone()).find(|(_, line)| line.starts_with("✖ "));
        let body = body.map_or(one.block.start, |(at, _)| at) + 1..one.block.end;
        one.message = error(log, body).unwrap_or_default();
        let message = one.message.trim_matches('\'');
        one.outer = message.ends_with(" subtest failed") || message.ends_with(" subtests failed");
    }
    marks.extend(frames(log, list, log.len()));
    Some(Reading {
        tool: "node:test",
        end: log.len(),
        marks,
        region: list..log.len(),
        failing,
        ..Reading::default()
    })
}

fn tap(log: &Log, end: usize) -> Option<Reading> {
    let (mut failing, mut marks) = (Vec::new(), Vec::new());
    for (at, line) in log.lines(0..end) {
        let text = line.trim_start();
        let Some((_, name)) = text.strip_prefix("not ok ").and_then(|rest| rest.split_once(" - "))
        else {
            continue;
        };
        let close = log.lines(at + 1..at + 61).find(|(_, line)| line.trim() == "...");
        let block = at..close.map_or(end.min(at + 61), |(at, _)| at);
        let field = |key: &str| {
            log.lines(block.clone()).find(|(_, line)| line.trim_start().starts_with(key))
        };
        // A suite fails when a test inside of it does.
        if field("failureType: 'subtestsFailed'").is_some() {
            continue;
        }
        marks.extend(field("location:").map(|(at, _)| at));
        let message = field("error:").and_then(|(at, line)| {
            let text =
                line.trim_start().trim_start_matches("error:").trim().trim_matches(['\'', '"']);
            if text.starts_with('|') {
                error(log, at + 1..block.end)
            } else {
                Some(text.to_owned())
            }
        });
        failing.push(Failing::new(name.split(" # ").next().unwrap_or(name), message, block));
    }
    Some(Reading { tool: "node:test", end, marks, region: 0..end, failing, ..Reading::default() })
}

pub(super) fn tsc(log: &Log) -> Option<Reading> {
    let is_error = |line: &str| {
        let at = line.find("error TS");
        at.is_some_and(|at| line[at + 8..].starts_with(|c: char| c.is_ascii_digit()))
    };
    let marks = log.iter().filter(|(_, line)| is_error(line)).map(|(at, _)| at).collect::<Vec<_>>();
    let (first, end) = (*marks.first()?, *marks.last()?);
    let text = |at: usize| {
        let line = log.line(at);
        line.find("error TS").map(|at| line[at..].to_owned())
    };
    let failing = marks.iter().map(|at| {
        // With `--pretty` the code follows behind a blank line; else more of the message, indented.
        let more = log.lines(at + 1..at + 8).take_while(|(_, line)| {
            !is_error(line)
                && (line.is_empty() || line.starts_with(|c: char| c == ' ' || c.is_ascii_digit()))
        });
        let end = more.filter(|(_, line)| !line.is_empty()).last().map_or(*at, |(at, _)| at);
        let place = super::places::mentions(log.line(*at)).into_iter().next();
        Failing { place, ..Failing::new("", text(*at), *at..end + 1) }
    });
    let failing = failing.collect();
    let region = first..first;
    Some(Reading { tool: "tsc", end, marks, region, failing, ..Reading::default() })
}

/// Reads problems that are listed below the path of their file: `  3:5  error  message  rule`.
pub(super) fn eslint(log: &Log) -> Option<Reading> {
    let end = log.last(|line| {
        line.starts_with("✖ ") && line.contains(" problem") && line.contains("error")
    })?;
    let mut reading = Reading { tool: "eslint", end, region: end..end, ..Reading::default() };
    let problem = |line: &str| {
        let mut words = line.split_whitespace();
        let location = words.next()?.split_once(':')?;
        let number =
            location.0.parse::<u32>().ok().filter(|_| location.1.parse::<u32>().is_ok())?;
        let error = words.next() == Some("error");
        error.then(|| (number, words.collect::<Vec<_>>().join(" ")))
    };
    let mut path = "";
    for (at, line) in log.lines(0..end) {
        match problem(line).filter(|_| line.starts_with("  ")) {
            Some((number, text)) => {
                let place = (path.to_owned(), number);
                reading.locations.push(place.clone());
                let failing = Failing::new("", Some(text), at..at + 1);
                reading.failing.push(Failing { place: Some(place), ..failing });
            }
            None if !line.starts_with(' ') && !line.is_empty() => path = line,
            None => {}
        }
    }
    (!reading.failing.is_empty()).then_some(reading)
}
