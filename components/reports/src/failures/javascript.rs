//! jest, vitest, mocha, node:test, rspec, tsc, eslint.

use super::log::Log;
use super::{Below, FAILURES, Failing, Found, Heads, MARKS, Reading};
use std::collections::{HashMap, HashSet};
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
    log.lines(from..to).filter(|(_, l)| frame(l)).map(|(at, _)| at).take(MARKS).collect()
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
    let mut found = Found::default();
    let (mut suite, mut open) = ("", false);
    // With many suites jest prints all failures again at the end. A suite has a number, because its path may be long.
    let (mut suites, mut number, mut seen) = (HashMap::new(), 0, HashSet::new());
    for (at, line) in log.lines(0..end) {
        let head = line.strip_prefix("  ● ");
        let suite_begins = line.starts_with("FAIL ") || line.starts_with("PASS ");
        if (head.is_some() || suite_begins || line == "Summary of all failing tests")
            && let Some(last) = found.failing.last_mut().filter(|_| open)
        {
            last.block.end = at;
            open = false;
        }
        if let Some(rest) = line.strip_prefix("FAIL ") {
            // With several projects the line starts with the project's name. It ends with the duration.
            let path = rest
                .split_whitespace()
                .rfind(|word| word.contains(['/', '.']) && !word.starts_with('('));
            suite = path.unwrap_or(rest);
            let next = suites.len() + 1;
            number = *suites.entry(suite).or_insert(next);
        }
        let Some(name) = head else { continue };
        if name.starts_with("Console") || name.contains("Validation Warning") {
            continue;
        }
        if seen.insert((number, name)) {
            let whole = name == "Test suite failed to run";
            open = found.add(|| Failing::new(if whole { suite } else { name }, None, at..end));
        }
    }
    let Found { mut failing, more } = found;
    for one in &mut failing {
        one.say(error(log, one.block.start + 1..one.block.end));
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
        more,
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
    let mut found = Found::default();
    // Tests that failed in the same way share one text, below all of their names.
    let (mut sharing, mut open) = (0, false);
    for (at, line) in log.lines(0..end) {
        let head = line.trim_start().strip_prefix("FAIL ");
        if open
            && (line.trim_start().starts_with("⎯⎯") || (head.is_some() && sharing == found.count()))
        {
            close(&mut found.failing, at);
            open = false;
        }
        if let Some(rest) = head {
            let name = rest.trim();
            // A file that could not be loaded is printed with its own name in brackets.
            let name = name
                .split_once(" [")
                .filter(|(_, rest)| rest.ends_with(']'))
                .map_or(name, |(n, _)| n);
            open |= found.add(|| Failing::new(name.trim(), None, at..end));
        } else if !line.trim().is_empty() {
            sharing = found.count();
        }
    }
    let Found { mut failing, more } = found;
    let mut shared: Option<(String, Range<usize>)> = None;
    for one in failing.iter_mut().rev() {
        let body = one.block.start + 1..one.block.end;
        let next = log.lines(body.clone()).find(|(_, line)| !line.trim().is_empty());
        let another = next.is_some_and(|(_, line)| line.trim_start().starts_with("FAIL "));
        match shared.as_ref().filter(|_| another) {
            Some((message, block)) => (one.message, one.block) = (message.clone(), block.clone()),
            None => {
                one.say(error(log, body));
                shared = Some((one.message.clone(), one.block.clone()));
            }
        }
    }
    let start = failing.first().map_or(0, |one| one.block.start);
    Some(Reading {
        tool: "vitest",
        end,
        more,
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
/// each with the number of lines that its name takes, and the number of failures behind the first 5,000.
fn numbered(log: &Log, from: usize, to: usize) -> (Vec<(String, usize, Range<usize>)>, usize) {
    let mut found = Vec::<(String, usize, Range<usize>)>::new();
    let (mut open, mut more) = (false, 0);
    for (at, line) in log.lines(from..to) {
        let text = line.trim();
        let number =
            text.split_once(") ").filter(|(n, _)| n.parse::<usize>() == Ok(found.len() + more + 1));
        if let Some((_, name)) = number.filter(|_| line.starts_with("  ")) {
            if let Some(last) = found.last_mut().filter(|_| more == 0) {
                last.2.end = at;
            }
            if found.len() == FAILURES {
                (open, more) = (false, more + 1);
                continue;
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
    (found, more)
}

pub(super) fn mocha(log: &Log) -> Option<Reading> {
    let failing = |line: &str| {
        let line = line.trim();
        line.strip_suffix(" failing").is_some_and(|count| count.parse::<u64>().is_ok_and(|n| n > 0))
    };
    let end = log.last(failing)?;
    let (failing, more) = numbered(log, end + 1, log.len());
    let failing = failing.into_iter().map(|(name, lines, block)| {
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
        more,
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
    let (found, more) = numbered(log, start + 1, end);
    let failing = found.into_iter().map(title).map(failing).collect();
    Some(Reading { tool: "rspec", end, region: start..end, failing, more, ..Reading::default() })
}

pub(super) fn node_test(log: &Log) -> Option<Reading> {
    let fails = |line: &str| {
        let rest = line.strip_prefix("# fail ").or_else(|| line.strip_prefix("ℹ fail "));
        rest.is_some_and(|count| count.trim().parse::<u64>().is_ok_and(|count| count > 0))
    };
    let end = log.last(fails)?;
    if log.line(end).starts_with('#') { tap(log, end) } else { spec(log, end) }
}

/// The message of a test that never finished because the test or suite around it ended.
const CANCELLED: &str = "test did not finish before its parent and was cancelled";

/// Returns a text without the quotes around the whole of it.
fn unquoted(text: &str) -> &str {
    let inner =
        ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    inner.unwrap_or(text)
}

/// The name of a result: `✖ adds (0.2ms)`.
fn without_duration(name: &str) -> &str {
    name.rsplit_once(" (").map_or(name, |(name, _)| name)
}

/// Reads the list behind the summary. Each entry has its location above and its error below.
fn spec(log: &Log, end: usize) -> Option<Reading> {
    let list = log.last(|line| line.starts_with("✖ failing tests:")).unwrap_or(end);
    let mut found = Found::default();
    let mut marks = Vec::new();
    for (at, line) in log.from(list + 1) {
        let located = line.starts_with("test at ");
        let name = line.strip_prefix("✖ ");
        if located || name.is_some() {
            close(&mut found.failing, at);
        }
        if located && !found.is_full() {
            marks.push(at);
        }
        if let Some(name) = name {
            let head = if at > 0 && log.line(at - 1).starts_with("test at ") { at - 1 } else { at };
            found.add(|| Failing::new(without_duration(name), None, head..log.len()));
        }
    }
    let Found { mut failing, more } = found;
    for one in &mut failing {
        let body = log.lines(one.block.clone()).find(|(_, line)| line.starts_with("✖ "));
        let body = body.map_or(one.block.start, |(at, _)| at) + 1..one.block.end;
        let message = error(log, body).unwrap_or_default();
        let said = unquoted(&message);
        one.outer = said.ends_with(" subtest failed") || said.ends_with(" subtests failed");
        one.cancelled = said == CANCELLED;
        one.say(Some(if one.cancelled { said.to_owned() } else { message }));
    }
    let below = below(log, list, &failing);
    for one in &mut failing {
        one.below = below.get(one.name.as_str()).copied().unwrap_or_default();
    }
    marks.extend(frames(log, list, log.len()));
    Some(Reading {
        tool: "node:test",
        end: log.len(),
        marks,
        region: list..log.len(),
        failing,
        more,
        ..Reading::default()
    })
}

/// Returns what happened inside of the tests and suites above the list, by their names. A name that another result without
/// tests inside has as well is left out, because the list names no suite.
fn below(log: &Log, list: usize, failing: &[Failing]) -> HashMap<String, Below> {
    let cancelled: HashSet<&str> =
        failing.iter().filter(|one| one.cancelled).map(|one| one.name.as_str()).collect();
    let (mut around, mut alone) = (HashMap::<String, Below>::new(), HashSet::new());
    // The results that are open, with their indents and the numbers of failed and cancelled tests before them.
    let mut open = Vec::<(usize, &str, usize, usize)>::new();
    let (mut failed, mut ended) = (0, 0);
    for (_, line) in log.lines(0..list) {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let (begins, fails) = (text.strip_prefix("▶ "), text.strip_prefix("✖ "));
        let Some(name) = begins.or(fails).map(without_duration) else { continue };
        while open.last().is_some_and(|(depth, ..)| *depth > indent) {
            open.pop();
        }
        let last = open.pop_if(|(depth, opened, ..)| *depth == indent && *opened == name);
        match (last, begins) {
            (Some((_, _, failed_before, ended_before)), _) => {
                let now = match (failed > failed_before, ended > ended_before) {
                    (true, _) => Below::Failed,
                    (false, true) => Below::Cancelled,
                    (false, false) => Below::Nothing,
                };
                around.insert(name.to_owned(), now);
            }
            (None, Some(_)) => {
                open.pop_if(|(depth, ..)| *depth == indent);
                open.push((indent, name, failed, ended));
            }
            (None, None) => {
                alone.insert(name);
                match cancelled.contains(name) {
                    true => ended += 1,
                    false => failed += 1,
                }
            }
        }
    }
    around.retain(|name, _| !alone.contains(name.as_str()));
    around
}

fn tap(log: &Log, end: usize) -> Option<Reading> {
    fn test(line: &str) -> Option<&str> {
        let (_, name) = line.trim_start().strip_prefix("not ok ")?.split_once(" - ")?;
        Some(name)
    }
    let (mut found, mut marks) = (Found::default(), Vec::new());
    // The indents of the tests that failed or were cancelled inside of a test whose result is still to come.
    let mut inside = Vec::<(usize, Below)>::new();
    for (at, line) in log.lines(0..end) {
        let Some(name) = test(line) else { continue };
        let ends = |line: &str| line.trim() == "..." || test(line).is_some();
        let close = log.lines(at + 1..at + 61).find(|(_, line)| ends(line));
        let block = at..close.map_or(end.min(at + 61), |(at, _)| at);
        let field = |key: &str| {
            log.lines(block.clone()).find(|(_, line)| line.trim_start().starts_with(key))
        };
        let cancelled = field("failureType: 'cancelledByParent'").is_some();
        let indent = line.len() - line.trim_start().len();
        let mut below = Below::Nothing;
        while let Some((_, one)) = inside.pop_if(|(depth, _)| *depth > indent) {
            below = below.max(one);
        }
        // A suite fails when a test inside of it does.
        let outer = field("failureType: 'subtestsFailed'").is_some();
        let own = match (outer, cancelled) {
            (true, _) => below,
            (false, true) => below.max(Below::Cancelled),
            (false, false) => Below::Failed,
        };
        inside.push((indent, own));
        if outer {
            continue;
        }
        if found.is_full() {
            found.more += 1;
            continue;
        }
        marks.extend(field("location:").map(|(at, _)| at));
        let message = field("error:").and_then(|(at, line)| {
            let text = unquoted(line.trim_start().trim_start_matches("error:").trim());
            if text.starts_with('|') {
                error(log, at + 1..block.end)
            } else {
                Some(text.to_owned())
            }
        });
        found.add(|| {
            let name = name.split(" # ").next().unwrap_or(name);
            Failing { cancelled, below, ..Failing::new(name, message, block) }
        });
    }
    let Found { failing, more } = found;
    Some(Reading {
        tool: "node:test",
        end,
        marks,
        region: 0..end,
        failing,
        more,
        ..Reading::default()
    })
}

pub(super) fn tsc(log: &Log) -> Option<Reading> {
    let is_error = |line: &str| {
        let at = line.find("error TS");
        at.is_some_and(|at| line[at + 8..].starts_with(|c: char| c.is_ascii_digit()))
    };
    let heads = Heads::of(log, 0..log.len(), is_error)?;
    let text = |at: usize| {
        let line = log.line(at);
        line.find("error TS").map(|at| line[at..].to_owned())
    };
    let failing = heads.lines.iter().map(|at| {
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
    Some(Reading {
        tool: "tsc",
        end: heads.last,
        region: heads.first..heads.first,
        marks: heads.lines,
        failing,
        more: heads.more,
        ..Reading::default()
    })
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
            Some(_) if reading.failing.len() == FAILURES => reading.more += 1,
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
