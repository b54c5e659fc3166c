//! jest, vitest, mocha, node:test, tsc, eslint.

use super::Reading;
use super::log::Log;

fn counted(line: &str, label: &str, word: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix(label) else { return false };
    rest.split([',', '|']).any(|part| {
        let part = part.trim();
        part.split_once(' ').is_some_and(|(count, rest)| {
            count.parse::<u64>().is_ok_and(|count| count > 0) && rest.trim_start().starts_with(word)
        })
    })
}

/// Returns whether a line is a stack frame or a quoted line of code.
fn frames(log: &Log, from: usize, to: usize) -> Vec<usize> {
    let frame = |line: &str| {
        let line = line.trim_start();
        line.starts_with("at ") || line.starts_with('❯')
    };
    log.from(from)
        .take_while(|(at, _)| *at < to)
        .filter(|(_, l)| frame(l))
        .map(|(at, _)| at)
        .collect()
}

pub(super) fn jest(log: &Log) -> Option<Reading> {
    let suites = |line: &str| counted(line, "Test Suites:", "failed") && line.contains(" total");
    let end = log.last(suites).or_else(|| {
        log.last(|line| counted(line, "Tests:", "failed") && line.contains(" total"))
    })?;
    let mut tests = Vec::new();
    let (mut first, mut first_error, mut suite) = (None, None, String::new());
    for (at, line) in log.iter().take_while(|(at, _)| *at < end) {
        if let Some(rest) = line.strip_prefix("FAIL ") {
            // With several projects the line starts with the project's name. It ends with the duration.
            let path = rest
                .split_whitespace()
                .rfind(|word| word.contains(['/', '.']) && !word.starts_with('('));
            suite = path.unwrap_or(rest).to_owned();
        }
        let Some(name) = line.strip_prefix("  ● ") else { continue };
        if name.starts_with("Console") || name.contains("Validation Warning") {
            continue;
        }
        let whole = name == "Test suite failed to run";
        tests.push(if whole { suite.clone() } else { name.to_owned() });
        first.get_or_insert(at);
        if first_error.is_none() {
            first_error = log.next_text(at + 1).map(|(_, line)| line.trim().to_owned());
        }
    }
    let start = first.unwrap_or(0);
    let region = start..end;
    Some(Reading {
        tool: "jest",
        end,
        tests,
        first_error,
        marks: frames(log, start, end),
        region,
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
    let mut tests = Vec::new();
    let (mut first, mut first_error) = (None, None);
    for (at, line) in log.iter().take_while(|(at, _)| *at < end) {
        let Some(rest) = line.trim_start().strip_prefix("FAIL ") else { continue };
        let name = rest.trim();
        // A file that could not be loaded is printed with its own name in brackets.
        let name =
            name.split_once(" [").filter(|(_, rest)| rest.ends_with(']')).map_or(name, |(n, _)| n);
        tests.push(name.trim().to_owned());
        first.get_or_insert(at);
        if first_error.is_none() {
            let next = log.next_text(at + 1).map(|(_, line)| line.trim().to_owned());
            first_error = next.filter(|line| !line.starts_with("FAIL "));
        }
    }
    let start = first.unwrap_or(0);
    let region = start..end;
    Some(Reading {
        tool: "vitest",
        end,
        tests,
        first_error,
        marks: frames(log, start, end),
        region,
        ..Reading::default()
    })
}

pub(super) fn mocha(log: &Log) -> Option<Reading> {
    let failing = |line: &str| {
        let line = line.trim();
        line.strip_suffix(" failing").is_some_and(|count| count.parse::<u64>().is_ok_and(|n| n > 0))
    };
    let end = log.last(failing)?;
    let mut tests = Vec::new();
    let (mut parts, mut open, mut first_error) = (Vec::<String>::new(), false, None);
    for (_, line) in log.from(end + 1) {
        let text = line.trim();
        let number = text.split_once(") ").filter(|(n, _)| n.parse::<u32>().is_ok());
        if let Some((_, name)) = number.filter(|_| line.starts_with("  ") && !open) {
            open = !name.ends_with(':');
            parts = vec![name.trim_end_matches(':').to_owned()];
            if !open {
                tests.push(parts.join(" "));
            }
        } else if open {
            if text.is_empty() || parts.len() > 10 {
                open = false;
                tests.push(parts.join(" "));
                continue;
            }
            parts.push(text.trim_end_matches(':').to_owned());
            if text.ends_with(':') {
                open = false;
                tests.push(parts.join(" "));
            }
        } else if first_error.is_none() && !tests.is_empty() && !text.is_empty() {
            first_error = Some(text.to_owned());
        }
    }
    let marks = frames(log, end, log.len());
    Some(Reading {
        tool: "mocha",
        end,
        tests,
        first_error,
        marks,
        region: end..log.len(),
        ..Reading::default()
    })
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
    let mut tests = Vec::new();
    let (mut marks, mut first_error) = (Vec::new(), None);
    for (at, line) in log.from(list + 1) {
        if let Some(name) = line.strip_prefix("✖ ") {
            let name = name.rsplit_once(" (").map_or(name, |(name, _)| name);
            tests.push(name.to_owned());
            if first_error.is_none() {
                first_error = log.next_text(at + 1).map(|(_, line)| line.trim().to_owned());
            }
        } else if line.starts_with("test at ") {
            marks.push(at);
        }
    }
    marks.extend(frames(log, list, log.len()));
    Some(Reading {
        tool: "node:test",
        end: log.len(),
        tests,
        first_error,
        marks,
        region: list..log.len(),
        ..Reading::default()
    })
}

fn tap(log: &Log, end: usize) -> Option<Reading> {
    let (mut tests, mut marks, mut first_error) = (Vec::new(), Vec::new(), None);
    for (at, line) in log.iter().take_while(|(at, _)| *at < end) {
        let text = line.trim_start();
        let Some((_, name)) = text.strip_prefix("not ok ").and_then(|rest| rest.split_once(" - "))
        else {
            continue;
        };
        let block = log
            .from(at + 1)
            .take_while(|(_, line)| line.trim() != "...")
            .take(60)
            .collect::<Vec<_>>();
        let field = |key: &str| {
            block
                .iter()
                .find(|(_, line)| line.trim_start().starts_with(key))
                .map(|(at, line)| (*at, *line))
        };
        // A suite fails when a test inside of it does.
        if field("failureType: 'subtestsFailed'").is_some() {
            continue;
        }
        tests.push(name.split(" # ").next().unwrap_or(name).to_owned());
        marks.extend(field("location:").map(|(at, _)| at));
        let error = field("error:").map(|(at, line)| {
            let text = line.trim_start().trim_start_matches("error:").trim().trim_matches('\'');
            if text.starts_with('|') { log.line(at + 1).trim().to_owned() } else { text.to_owned() }
        });
        first_error = first_error.or(error);
    }
    Some(Reading {
        tool: "node:test",
        end,
        tests,
        first_error,
        marks,
        region: 0..end,
        ..Reading::default()
    })
}

pub(super) fn tsc(log: &Log) -> Option<Reading> {
    let is_error = |line: &str| {
        let at = line.find("error TS");
        at.is_some_and(|at| line[at + 8..].starts_with(|c: char| c.is_ascii_digit()))
    };
    let marks = log.iter().filter(|(_, line)| is_error(line)).map(|(at, _)| at).collect::<Vec<_>>();
    let (first, end) = (*marks.first()?, *marks.last()?);
    let line = log.line(first);
    let first_error = line.find("error TS").map(|at| line[at..].to_owned());
    Some(Reading {
        tool: "tsc",
        end,
        first_error,
        marks,
        region: first..first,
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
    for (_, line) in log.iter().take_while(|(at, _)| *at < end) {
        match problem(line).filter(|_| line.starts_with("  ")) {
            Some((number, text)) => {
                reading.first_error.get_or_insert(text);
                reading.locations.push((path.to_owned(), number));
            }
            None if !line.starts_with(' ') && !line.is_empty() => path = line,
            None => {}
        }
    }
    reading.first_error.is_some().then_some(reading)
}
