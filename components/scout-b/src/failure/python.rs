//! pytest and unittest.

use super::Reading;
use super::log::Log;

/// Returns whether a line is the summary `1 failed, 2 passed in 0.03s`, with or without bars around it.
fn closing(line: &str) -> bool {
    let message = line.trim_matches(['=', ' ']);
    let counts = message.starts_with(|c: char| c.is_ascii_digit())
        && [" failed", " error", " errors"].iter().any(|word| message.contains(word));
    let time = message.rsplit_once(" in ").map(|(_, time)| time);
    counts && time.is_some_and(|time| time.starts_with(|c: char| c.is_ascii_digit()))
}

pub(super) fn pytest(log: &Log) -> Option<Reading> {
    let Some(end) = log.last(closing) else { return usage(log) };
    let summary = log.last(|line| is_bar(line, "short test summary info")).filter(|at| *at < end);
    let start =
        log.position(|line| is_bar(line, "FAILURES") || is_bar(line, "ERRORS")).unwrap_or(0);
    let mut tests = Vec::new();
    let mut message = None;
    for (_, line) in log.from(summary.map_or(end, |at| at + 1)).take_while(|(at, _)| *at < end) {
        let rest = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "));
        let Some(rest) = rest else { continue };
        let (test, why) = rest.split_once(" - ").unwrap_or((rest, ""));
        tests.push(test.to_owned());
        message = message.or(Some(why.to_owned()).filter(|why| !why.is_empty()));
    }
    if summary.is_none() {
        let header = |line: &str| {
            let name = line.strip_prefix("____")?.trim_matches('_');
            let name = name.strip_prefix(' ')?.strip_suffix(' ')?;
            Some(name.strip_prefix("ERROR collecting ").unwrap_or(name).to_owned())
        };
        tests.extend(
            log.from(start).take_while(|(at, _)| *at < end).filter_map(|(_, line)| header(line)),
        );
    }
    let within = || log.from(start).take_while(|(at, _)| *at < end);
    let error = within().find(|(_, line)| line.starts_with("E  "));
    // A syntax error is printed after its location and the code.
    let error = error.and_then(|(at, line)| match line[1..].trim().starts_with("File \"") {
        true => log.from(at).take_while(|(_, line)| line.starts_with("E  ")).last(),
        false => Some((at, line)),
    });
    let first_error = error.map(|(_, line)| line[1..].trim().to_owned()).or(message);
    let marks = raised(within());
    Some(Reading {
        tool: "pytest",
        end,
        tests,
        first_error,
        marks,
        region: start..end,
        ..Reading::default()
    })
}

/// Where errors were raised: on `tests/test_a.py:4: AssertionError` behind the error, or on the last
/// `src/a.py:6: in f` before it where tracebacks are short.
fn raised<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<usize> {
    let (mut marks, mut frame) = (Vec::new(), None);
    for (at, line) in lines {
        let mut parts = line.splitn(3, ':');
        let (path, number, what) = (parts.next(), parts.next(), parts.next());
        let location = path.is_some_and(|path| path.ends_with(".py"))
            && number.is_some_and(|number| number.parse::<u32>().is_ok());
        match what {
            Some(what) if location && what.starts_with(" in ") => frame = Some(at),
            Some(what) if location && !what.is_empty() => marks.push(at),
            _ if line.starts_with("E ") => marks.extend(frame.take()),
            _ => {}
        }
    }
    marks
}

fn is_bar(line: &str, word: &str) -> bool {
    line.starts_with("==") && line.trim_matches(['=', ' ']) == word
}

/// Reads a run in which no test ran: a wrong argument, a `conftest.py` that fails.
fn usage(log: &Log) -> Option<Reading> {
    let starts = |line: &str, words: &[&str]| words.iter().any(|word| line.starts_with(word));
    let conftest = log.last(|line| line.starts_with("ImportError while loading conftest"));
    let usage = log.last(|line| {
        starts(
            line,
            &[
                "ERROR: usage: pytest",
                "ERROR: file or directory not found:",
                "INTERNALERROR>",
                "ERROR: not found:",
            ],
        )
    });
    let at = conftest.or(usage)?;
    let error = log.from(at).find(|(_, line)| line.starts_with("E   "));
    let first = error.map_or(log.line(at), |(_, line)| line[1..].trim());
    let first_error = Some(first.trim_start_matches("ERROR: ").to_owned());
    Some(Reading {
        tool: "pytest",
        end: log.len(),
        first_error,
        region: at..log.len(),
        ..Reading::default()
    })
}

pub(super) fn unittest(log: &Log) -> Option<Reading> {
    let end = log.last(|line| {
        line.starts_with("FAILED (") && (line.contains("failures=") || line.contains("errors="))
    })?;
    let head = |line: &str| {
        let rest = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: "))?;
        Some(name(rest))
    };
    let (mut tests, mut marks, mut first_error) = (Vec::new(), Vec::new(), None);
    let mut start = end;
    for (at, line) in log.iter().take_while(|(at, _)| *at < end) {
        let Some(test) = head(line).filter(|_| at > 0 && log.line(at - 1).starts_with("====="))
        else {
            continue;
        };
        tests.push(test);
        start = start.min(at);
        let block = log
            .from(at + 2)
            .take_while(|(_, line)| !line.starts_with("=====") && !line.starts_with("Ran "));
        let block = block
            .take_while(|(at, line)| *at < end && !line.starts_with("-----"))
            .collect::<Vec<_>>();
        let frames = block.iter().filter(|(_, line)| line.trim_start().starts_with("File \""));
        marks.extend(frames.map(|(at, _)| *at).collect::<Vec<_>>().into_iter().rev());
        let raised = block.iter().rev().find(|(_, line)| {
            line.starts_with(|c: char| c.is_ascii_alphabetic())
                && line
                    .split([':', ' '])
                    .next()
                    .is_some_and(|word| word.ends_with("Error") || word.ends_with("Exception"))
        });
        if first_error.is_none() {
            first_error = raised.map(|(_, line)| (*line).to_owned());
        }
    }
    (!tests.is_empty()).then_some(Reading {
        tool: "unittest",
        end,
        tests,
        first_error,
        marks,
        region: start..end,
        ..Reading::default()
    })
}

/// Returns one name for `test_x (tests.test_a.A.test_x)` and the older `test_x (tests.test_a.A)`.
fn name(text: &str) -> String {
    let Some((test, rest)) = text.split_once(" (") else { return text.to_owned() };
    let (class, more) = rest.split_once(')').unwrap_or((rest, ""));
    let class = class.strip_prefix("unittest.loader._FailedTest.").unwrap_or(class);
    match () {
        () if class == "unittest.loader._FailedTest" => test.to_owned(),
        () if class == test || class.ends_with(&format!(".{test}")) => format!("{class}{more}"),
        () => format!("{class}.{test}{more}"),
    }
}
