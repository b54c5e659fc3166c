//! javac, JUnit under Maven or Gradle, Maven itself.

use super::log::Log;
use super::{FRAME_LINES, Failing, Found, Heads, Reading};
use std::ops::Range;

/// Removes the label that Maven puts before a line.
fn unlabelled(line: &str) -> &str {
    line.strip_prefix("[ERROR] ").or_else(|| line.strip_prefix("[ERROR]")).unwrap_or(line)
}

pub(super) fn javac(log: &Log) -> Option<Reading> {
    let text = |line: &str| {
        let line = unlabelled(line);
        if let Some((location, text)) = line.split_once(".java:[") {
            let text = text.split_once("] ")?.1;
            return (!location.contains(' ')).then(|| text.to_owned());
        }
        let (location, text) = line.split_once(": error: ")?;
        let (path, number) = location.rsplit_once(':')?;
        let java = [".java", ".kt"].iter().any(|end| path.ends_with(end));
        (java && number.parse::<u32>().is_ok()).then(|| text.to_owned())
    };
    let errors = |line: &str| !line.starts_with("[WARNING]") && text(line).is_some();
    let Some(heads) = Heads::of(log, 0..log.len(), errors) else {
        // An error about options has no location.
        let at = log.position(|line| line.starts_with("Usage: javac"))?;
        let text = log.line(at.checked_sub(1)?).strip_prefix("error: ")?;
        let failing = vec![Failing::new("", Some(text.to_owned()), at - 1..at)];
        return Some(Reading { tool: "javac", end: at, failing, ..Reading::default() });
    };
    let failing = heads.lines.iter().map(|at| {
        // The line of code and the mark below it follow, or indented words such as `symbol: method x`.
        let code =
            |line: &str| line.starts_with(' ') || line.trim_end().ends_with([';', '{', '}', ')']);
        let more = log.lines(at + 1..at + 5).take_while(|(_, line)| !errors(line) && code(line));
        let end = more.last().map_or(*at, |(at, _)| at);
        Failing::new("", text(log.line(*at)), *at..end + 1)
    });
    let failing = failing.collect();
    Some(Reading {
        tool: "javac",
        end: heads.last,
        failing,
        more: heads.more,
        marks: heads.lines,
        region: heads.first..heads.first,
        ..Reading::default()
    })
}

pub(super) fn tests(log: &Log) -> Option<Reading> {
    surefire(log).or_else(|| gradle(log))
}

/// Reads `[ERROR] com.example.PriceTest.rounds -- Time elapsed: 0.01 s <<< FAILURE!` and the exception below.
fn surefire(log: &Log) -> Option<Reading> {
    let total = |line: &str| {
        unlabelled(line).starts_with("Tests run:") && !line.contains("Failures: 0, Errors: 0")
    };
    let end = log.last(total)?;
    let heading = |line: &str| {
        let (head, _) = line.split_once(" <<< ")?;
        (!unlabelled(line).starts_with("Tests run:")).then_some(head.len())
    };
    let mut found = Found::default();
    let mut marks = Vec::new();
    for (at, line) in log.lines(0..end + 1) {
        let Some(head) = heading(line).and_then(|size| line.get(..size)) else { continue };
        if found.is_full() {
            found.more += 1;
            continue;
        }
        let head = unlabelled(head).split(" -- Time elapsed").next().unwrap_or(head);
        let head = head.split("  Time elapsed").next().unwrap_or(head).trim();
        let name = match head
            .split_once('(')
            .filter(|(_, rest)| rest.contains('.') && rest.ends_with(')'))
        {
            Some((test, class)) => format!("{}.{test}", class.trim_end_matches(')')),
            None => head.to_owned(),
        };
        let next = log
            .lines(at + 1..at + 200)
            .find(|(_, line)| line.trim().is_empty() || heading(line).is_some());
        let block = at..next.map_or(log.len().min(at + 200), |(at, _)| at);
        marks.extend(stack(log, block.clone()));
        let message = log.lines(at + 1..at + 200).find(|(_, line)| !line.trim().is_empty());
        let message = message.map(|(_, line)| line.trim().to_owned());
        found.add(|| Failing::new(&name, message, block));
    }
    if found.failing.is_empty() {
        (found, marks) = console(log, end);
    }
    if found.failing.is_empty() {
        // The log was cut, and only the list at the end is left.
        let listed = |line: &str| {
            let line = line.strip_prefix("[ERROR]   ")?;
            let (test, text) = line.split_once(' ')?;
            let (test, _) = test.split_once(':')?;
            Some((test.to_owned(), text.to_owned()))
        };
        for (at, line) in log.iter() {
            if let Some((test, text)) = listed(line) {
                found.add(|| Failing::new(&test, Some(text), at..at + 1));
            }
        }
    }
    let Found { failing, more } = found;
    let first = failing.first().map_or(end, |one| one.block.start).min(end);
    Some(Reading {
        tool: "junit",
        end,
        marks,
        region: first..end,
        failing,
        more,
        ..Reading::default()
    })
}

fn stack(log: &Log, block: Range<usize>) -> Vec<usize> {
    let lines = log.lines(block).take(60);
    lines.filter(|(_, line)| line.trim_start().starts_with("at ")).map(|(at, _)| at).collect()
}

/// Reads the list of JUnit's own runner: `1) adds(shop.PriceTest)`.
fn console(log: &Log, end: usize) -> (Found, Vec<usize>) {
    let (mut found, mut marks) = (Found::default(), Vec::new());
    for (at, line) in log.lines(0..end) {
        let head =
            line.split_once(") ").filter(|(n, _)| n.parse::<usize>() == Ok(found.count() + 1));
        let head = head.and_then(|(_, name)| name.split_once('('));
        if (head.is_some() || line.is_empty())
            && let Some(last) = found.failing.last_mut().filter(|last| last.block.end == end)
        {
            last.block.end = at;
        }
        if let Some((test, class)) = head {
            let name = format!("{}.{test}", class.trim_end_matches(')'));
            let message = log.line(at + 1).trim().to_owned();
            found.add(|| Failing::new(&name, Some(message), at..end));
        }
    }
    found.failing.iter().for_each(|one| marks.extend(stack(log, one.block.clone())));
    (found, marks)
}

/// Reads `PriceTest > rounds() FAILED`.
fn gradle(log: &Log) -> Option<Reading> {
    let end = log.last(|line| line.contains(" tests completed, ") && line.contains(" failed"));
    let end = end.or_else(|| log.last(|line| line.contains("There were failing tests")))?;
    fn test(line: &str) -> Option<&str> {
        line.strip_suffix(" FAILED").filter(|name| name.contains(" > "))
    }
    let (mut found, mut marks) = (Found::default(), Vec::new());
    for (at, line) in log.lines(0..end) {
        let Some(name) = test(line) else { continue };
        found.add(|| {
            let below = log.lines(at + 1..end.min(at + 1 + FRAME_LINES));
            let below =
                below.take_while(|(_, line)| line.starts_with("    ") && test(line).is_none());
            let below = below.map(|(at, _)| at).collect::<Vec<_>>();
            let message = below.first().map(|at| log.line(*at).trim().to_owned());
            let block = at..below.last().map_or(at, |at| *at) + 1;
            marks.extend(below);
            Failing::new(name, message, block)
        });
    }
    let Found { failing, more } = found;
    (!failing.is_empty()).then_some(Reading {
        tool: "junit",
        end,
        marks,
        region: end..end,
        failing,
        more,
        ..Reading::default()
    })
}

pub(super) fn maven(log: &Log) -> Option<Reading> {
    let end = log.last(|line| line.ends_with(" BUILD FAILURE"));
    let fatal = log.position(|line| line.starts_with("[FATAL] "));
    let error =
        fatal.or_else(|| log.position(|line| line.starts_with("[ERROR] ") && end.is_some()))?;
    let text = unlabelled(log.line(error)).trim_start_matches("[FATAL] ");
    Some(Reading {
        tool: "maven",
        end: end.unwrap_or(error),
        region: error..log.len(),
        failing: vec![Failing::new("", Some(text.to_owned()), error..log.len().min(error + 40))],
        ..Reading::default()
    })
}
