//! javac, JUnit under Maven or Gradle, Maven itself.

use super::Reading;
use super::log::Log;

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
        let first_error = Some(text.to_owned());
        return Some(Reading { tool: "javac", end: at, first_error, ..Reading::default() });
    };
    let first_error = text(log.line(first));
    Some(Reading {
        tool: "javac",
        end,
        first_error,
        marks,
        region: first..first,
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
    let mut tests = Vec::new();
    let (mut marks, mut first_error, mut first) = (Vec::new(), None, end);
    for (at, line) in log.iter().take_while(|(at, _)| *at <= end) {
        let Some((head, _)) =
            line.split_once(" <<< ").filter(|_| !unlabelled(line).starts_with("Tests run:"))
        else {
            continue;
        };
        let head = unlabelled(head).split(" -- Time elapsed").next().unwrap_or(head);
        let head = head.split("  Time elapsed").next().unwrap_or(head).trim();
        tests.push(
            match head.split_once('(').filter(|(_, rest)| rest.contains('.') && rest.ends_with(')'))
            {
                Some((test, class)) => format!("{}.{test}", class.trim_end_matches(')')),
                None => head.to_owned(),
            },
        );
        first = first.min(at);
        if first_error.is_none() {
            first_error = log.next_text(at + 1).map(|(_, line)| line.trim().to_owned());
        }
        let stack = log.from(at + 1).take_while(|(_, line)| !line.trim().is_empty()).take(60);
        marks.extend(
            stack.filter(|(_, line)| line.trim_start().starts_with("at ")).map(|(at, _)| at),
        );
    }
    if tests.is_empty() {
        // The log was cut, and only the list at the end is left.
        let listed = |line: &str| {
            let line = line.strip_prefix("[ERROR]   ")?;
            let (test, text) = line.split_once(' ')?;
            let (test, _) = test.split_once(':')?;
            Some((test.to_owned(), text.to_owned()))
        };
        for (_, text) in log.iter().filter_map(|(at, line)| Some((at, listed(line)?))) {
            first_error.get_or_insert(text.1);
            tests.push(text.0);
        }
    }
    Some(Reading {
        tool: "junit",
        end,
        tests,
        first_error,
        marks,
        region: first..end,
        ..Reading::default()
    })
}

/// Reads `PriceTest > rounds() FAILED`.
fn gradle(log: &Log) -> Option<Reading> {
    let end = log.last(|line| line.contains(" tests completed, ") && line.contains(" failed"));
    let end = end.or_else(|| log.last(|line| line.contains("There were failing tests")))?;
    let (mut tests, mut marks, mut first_error) = (Vec::new(), Vec::new(), None);
    for (at, line) in log.iter().take_while(|(at, _)| *at < end) {
        let Some(name) = line.strip_suffix(" FAILED").filter(|name| name.contains(" > ")) else {
            continue;
        };
        tests.push(name.to_owned());
        let below =
            log.from(at + 1).take_while(|(_, line)| line.starts_with("    ")).collect::<Vec<_>>();
        first_error = first_error.or_else(|| below.first().map(|(_, line)| line.trim().to_owned()));
        marks.extend(below.iter().map(|(at, _)| *at));
    }
    (!tests.is_empty()).then_some(Reading {
        tool: "junit",
        end,
        tests,
        first_error,
        marks,
        region: end..end,
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
        first_error: Some(text.to_owned()),
        region: error..log.len(),
        ..Reading::default()
    })
}
