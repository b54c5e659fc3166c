//! pytest and unittest.

use super::log::Log;
use super::{FRAME_LINES, Failing, Found, MARKS, Reading};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// Returns whether a line is the summary `1 failed, 2 passed in 0.03s`, with or without bars around it.
fn closing(line: &str) -> bool {
    let message = line.trim_matches(['=', ' ']);
    let counts = message.starts_with(|c: char| c.is_ascii_digit())
        && [" failed", " error", " errors"].iter().any(|word| message.contains(word));
    let time = message.rsplit_once(" in ").map(|(_, time)| time);
    counts && time.is_some_and(|time| time.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns the lines in which pytest repeats the message of each failure, from their title to its last line.
pub(super) fn summary(log: &Log) -> Option<Range<usize>> {
    let end = log.last(closing)?;
    let title = log.last(|line| is_bar(line, "short test summary info"))?;
    (title < end).then_some(title..end)
}

pub(super) fn pytest(log: &Log) -> Option<Reading> {
    let Some(end) = log.last(closing) else { return usage(log) };
    let summary = summary(log).map(|lines| lines.start);
    let start =
        log.position(|line| is_bar(line, "FAILURES") || is_bar(line, "ERRORS")).unwrap_or(0);
    let blocks = blocks(log, start..summary.unwrap_or(end));
    let mut found = Found::default();
    let mut message = None;
    let mut of_name = HashMap::<&str, VecDeque<&(String, Range<usize>)>>::new();
    for block in &blocks {
        of_name.entry(&block.0).or_default().push_back(block);
    }
    for (at, line) in log.lines(summary.map_or(end, |at| at + 1)..end) {
        let rest = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "));
        let Some(rest) = rest else { continue };
        let (test, why) = rest.split_once(" - ").unwrap_or((rest, ""));
        message = message.or(Some(why.to_owned()).filter(|why| !why.is_empty()));
        // The heading of a block has the test without its file, with dots: `TestPrices.test_total[3]`.
        let heading =
            test.split_once("::").map_or(test.to_owned(), |(_, name)| name.replace("::", "."));
        let block = of_name.get_mut(heading.as_str()).and_then(VecDeque::pop_front);
        found.add(|| match block {
            Some((_, block)) => {
                Failing::new(test, raised_message(log, block.clone()), block.clone())
            }
            None => Failing::new(test, Some(why.to_owned()), at..at + 1),
        });
    }
    if summary.is_none() {
        for (name, block) in &blocks {
            found.add(|| Failing::new(name, raised_message(log, block.clone()), block.clone()));
        }
    }
    let Found { failing, more } = found;
    let within = || log.lines(start..end);
    let error = within().find(|(_, line)| line.starts_with("E  "));
    let first_error = error.map(|(at, _)| error_of_run(log, at)).or(message);
    let marks = raised(within());
    Some(Reading {
        tool: "pytest",
        end,
        more,
        first_error,
        marks,
        region: start..end,
        failing,
        ..Reading::default()
    })
}

/// The traceback of each test below its heading: `____ TestPrices.test_total[3] ____`.
fn blocks(log: &Log, region: Range<usize>) -> Vec<(String, Range<usize>)> {
    let heading = |line: &str| {
        let name = line.strip_prefix('_')?.trim_matches('_');
        let name = name.strip_prefix(' ')?.strip_suffix(' ')?;
        let ruler = name.chars().all(|c| c == '_' || c == ' ');
        let ahead = ["ERROR collecting ", "ERROR at setup of ", "ERROR at teardown of "];
        let name = ahead.iter().find_map(|ahead| name.strip_prefix(ahead)).unwrap_or(name);
        (!ruler).then(|| name.to_owned())
    };
    let mut blocks = Vec::<(String, Range<usize>)>::new();
    let mut open = false;
    for (at, line) in log.lines(region.clone()) {
        let section = line.starts_with("===") && line.ends_with("===");
        let name = heading(line);
        if (section || name.is_some())
            && let Some((_, block)) = blocks.last_mut().filter(|_| open)
        {
            block.end = at;
            open = false;
        }
        if let Some(name) = name {
            blocks.push((name, at..region.end));
            open = true;
        }
    }
    blocks
}

/// Returns the error of a traceback: the last one, because earlier ones were handled on the way.
fn raised_message(log: &Log, block: Range<usize>) -> Option<String> {
    let is_error = |line: &str| line.starts_with("E  ");
    let last = log.lines(block.clone()).rev().find(|(_, line)| is_error(line))?.0;
    let from = log.lines(block.start..last).rev().find(|(_, line)| !is_error(line));
    Some(error_of_run(log, from.map_or(block.start, |(at, _)| at + 1)))
}

/// Returns the text of an error from its first line. A syntax error is printed after its place and the code.
fn error_of_run(log: &Log, at: usize) -> String {
    let text = |line: &str| line.get(1..).unwrap_or_default().trim().to_owned();
    let first = text(log.line(at));
    match first.starts_with("File \"") {
        true => {
            let run = log.lines(at..at + 200).take_while(|(_, line)| line.starts_with("E  "));
            run.last().map_or(first, |(_, line)| text(line))
        }
        false => first,
    }
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
            Some(_) if marks.len() == MARKS => break,
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
    let end = log.len().min(at + 400);
    let first = raised_message(log, at..end).unwrap_or_else(|| log.line(at).to_owned());
    let first_error = Some(first.trim_start_matches("ERROR: ").to_owned());
    let failing = vec![Failing::new("", first_error.clone(), at..end)];
    Some(Reading {
        tool: "pytest",
        end: log.len(),
        first_error,
        region: at..log.len(),
        failing,
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
    let (mut found, mut marks) = (Found::default(), Vec::new());
    let mut open = false;
    for (at, line) in log.lines(0..end) {
        if line.starts_with("=====") || line.starts_with("Ran ") || (open && ends_block(log, at)) {
            if let Some(last) = found.failing.last_mut().filter(|_| open) {
                last.block.end = at;
            }
            open = false;
        }
        if let Some(test) = head(line).filter(|_| at > 0 && log.line(at - 1).starts_with("=====")) {
            open = found.add(|| Failing::new(&test, None, at..end));
        }
    }
    let Found { mut failing, more } = found;
    for one in &mut failing {
        let frames = log.lines(one.block.clone());
        let frames = frames.filter(|(_, line)| line.trim_start().starts_with("File \""));
        marks.extend(frames.map(|(at, _)| at).rev().take(FRAME_LINES));
        one.say(unittest_message(log, one.block.clone()));
    }
    let start = failing.first()?.block.start;
    Some(Reading {
        tool: "unittest",
        end,
        more,
        marks,
        region: start..end,
        failing,
        ..Reading::default()
    })
}

/// The second rule of a block ends it; the first one is below its heading.
fn ends_block(log: &Log, at: usize) -> bool {
    log.line(at).starts_with("-----")
        && at.checked_sub(2).is_none_or(|above| !log.line(above).starts_with("====="))
}

fn unittest_message(log: &Log, block: Range<usize>) -> Option<String> {
    let raised = |line: &str| {
        let word = line.split([':', ' ']).next().unwrap_or_default();
        line.starts_with(|c: char| c.is_ascii_alphabetic())
            && (word.ends_with("Error") || word.ends_with("Exception"))
    };
    let body = block.start + 2..block.end;
    let error = log.lines(body.clone()).rev().find(|(_, line)| raised(line));
    // An exception may have any name; its line is the first one behind the frames that is not indented.
    let after_frames = || {
        let frame =
            log.lines(body.clone()).rev().find(|(_, line)| line.starts_with("  File \""))?;
        log.lines(frame.0 + 1..body.end)
            .find(|(_, line)| !line.starts_with(' ') && !line.is_empty())
    };
    error.or_else(after_frames).map(|(_, line)| line.to_owned())
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
