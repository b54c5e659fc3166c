//! javac, JUnit under Maven or Gradle, Maven itself.

use super::log::Log;
use super::{Failing, Reading};
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
    let marks = log.iter().filter(|(_, line)| errors(line)).map(|(at, _)| at).collect::<Vec<_>>();
    let Some((first, end)) = marks.first().copied().zip(marks.last().copied()) else {
        // An error about options has no location.
        let at = log.position(|line| line.starts_with("Usage: javac"))?;
        let text = log.line(at.checked_sub(1)?).strip_prefix("error: ")?;
        let failing = vec![Failing::new("", Some(text.to_owned()), at - 1..at)];
        return Some(Reading { tool: "javac", end: at, failing, ..Reading::default() });
    };
    let failing = marks.iter().map(|at| {
        // The line of code and the mark below it follow, or indented words such as `symbol: method x`.
        let code =
            |line: &str| line.starts_with(' ') || line.trim_end().ends_with([';', '{', '}', ')']);
        let more = log.lines(at + 1..at + 5).take_while(|(_, line)| !errors(line) && code(line));
        let end = more.last().map_or(*at, |(at, _)| at);
        Failing::new("", text(log.line(*at)), *at..end + 1)
    });
    let failing = failing.collect();
    Some(Reading { tool: "javac", end, failing, marks, region: first..first, ..Reading::default() })
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
    let mut failing = Vec::new();
    let mut marks = Vec::new();
    for (at, line) in log.lines(0..end + 1) {
        let Some((head, _)) =
            line.split_once(" <<< ").filter(|_| !unlabelled(line).starts_with("Tests run:"))
        else {
            continue;
        };
        let head = unlabelled(head).split(" -- Time elapsed").next().unwrap_or(head);
        let head = head.split("  Time elapsed").next().unwrap_or(head).trim();
        let name = match head
            .split_once('(')
            .filter(|(_, rest)| rest.contains('.') && rest.ends_with(')'))
        {
            Some((test, class)) => format!("{}.{test}", class.trim_end_matches(')')),
            None => head.to_owned(),
        };
        let block = at..below(log, at, 200);
        marks.extend(stack(log, block.clone()));
        let message = log.lines(at + 1..at + 200).find(|(_, line)| !line.trim().is_empty());
        failing.push(Failing::new(&name, message.map(|(_, line)| line.trim().to_owned()), block));
    }
    if failing.is_empty() {
        (failing, marks) = console(log, end);
    }
    if failing.is_empty() {
        // The log was cut, and only the list at the end is left.
        let listed = |line: &str| {
            let line = line.strip_prefix("[ERROR]   ")?;
            let (test, text) = line.split_once(' ')?;
            let (test, _) = test.split_once(':')?;
            Some((test.to_owned(), text.to_owned()))
        };
        for (at, line) in log.iter() {
            if let Some((test, text)) = listed(line) {
                failing.push(Failing::new(&test, Some(text), at..at + 1));
            }
        }
    }
    let first = failing.first().map_or(end, |one: &Failing| one.block.start).min(end);
    Some(Reading { tool: "junit", end, marks, region: first..end, failing, ..Reading::default() })
}

/// Returns where the lines below a heading end: at a blank line.
fn below(log: &Log, at: usize, most: usize) -> usize {
    let blank = log.lines(at + 1..at + most).find(|(_, line)| line.trim().is_empty());
    blank.map_or(log.len().min(at + most), |(at, _)| at)
}

fn stack(log: &Log, block: Range<usize>) -> Vec<usize> {
    let lines = log.lines(block).take(60);
    lines.filter(|(_, line)| line.trim_start().starts_with("at ")).map(|(at, _)| at).collect()
}

/// Reads the list of JUnit's own runner: `1) adds(shop.PriceTest)`.
fn console(log: &Log, end: usize) -> (Vec<Failing>, Vec<usize>) {
    let (mut failing, mut marks) = (Vec::<Failing>::new(), Vec::new());
    for (at, line) in log.lines(0..end) {
        let head =
            line.split_once(") ").filter(|(n, _)| n.parse::<usize>() == Ok(failing.len() + 1));
        let head = head.and_then(|(_, name)| name.split_once('('));
        if (head.is_some() || line.is_empty())
            && let Some(last) = failing.last_mut().filter(|last| last.block.end == end)
        {
            last.block.end = at;
        }
        if let Some((test, class)) = head {
            let name = format!("{}.{test}", class.trim_end_matches(')'));
            failing.push(Failing::new(&name, Some(log.line(at + 1).trim().to_owned()), at..end));
        }
    }
    failing.iter().for_each(|one| marks.extend(stack(log, one.block.clone())));
    (failing, marks)
}

/// Reads `PriceTest > rounds() FAILED`.
fn gradle(log: &Log) -> Option<Reading> {
    let end = log.last(|line| line.contains(" tests completed, ") && line.contains(" failed"));
    let end = end.or_else(|| log.last(|line| line.contains("There were failing tests")))?;
    let (mut failing, mut marks) = (Vec::new(), Vec::new());
    for (at, line) in log.lines(0..end) {
        let Some(name) = line.strip_suffix(" FAILED").filter(|name| name.contains(" > ")) else {
            continue;
        };
        let below = log.lines(at + 1..end).take_while(|(_, line)| line.starts_with("    "));
        let below = below.map(|(at, _)| at).collect::<Vec<_>>();
        let message = below.first().map(|at| log.line(*at).trim().to_owned());
        let block = at..below.last().map_or(at, |at| *at) + 1;
        marks.extend(below);
        failing.push(Failing::new(name, message, block));
    }
    (!failing.is_empty()).then_some(Reading {
        tool: "junit",
        end,
        marks,
        region: end..end,
        failing,
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
