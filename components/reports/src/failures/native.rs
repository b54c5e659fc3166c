//! gcc, clang, the linker, make.

use super::log::Log;
use super::{FAILURES, Failing, Heads, Reading};

const SOURCES: [&str; 13] =
    ["c", "cc", "cpp", "cxx", "c++", "h", "hh", "hpp", "hxx", "m", "mm", "S", "inl"];

pub(super) fn compiler(log: &Log) -> Option<Reading> {
    let errors = Heads::of(log, 0..log.len(), |line| error(line).is_some());
    let linker = |line: &str| {
        line.contains("undefined reference to ")
            || line.contains("Undefined symbols for architecture")
            || line.starts_with("collect2: error:")
            || (line.contains("ld: ")
                && (line.contains("cannot find") || line.contains("multiple definition")))
    };
    let links = Heads::of(log, 0..log.len(), linker);
    let both = || errors.iter().chain(&links);
    let first = both().map(|heads| heads.first).min()?;
    let end = both().map(|heads| heads.last).max()?;
    let clang = log.last(|line| line.ends_with(" generated.") && line.contains("error"));
    let clang = clang.or_else(|| {
        log.position(|line| {
            line.starts_with("clang: error:") || line.starts_with("clang++: error:")
        })
    });
    let mut marks = both().flat_map(|heads| heads.lines.iter().copied()).collect::<Vec<_>>();
    let mut at_once = marks.clone();
    at_once.sort_unstable();
    at_once.dedup();
    let more = both().map(|heads| heads.more).sum::<usize>();
    let more = more + at_once.len().saturating_sub(FAILURES);
    at_once.truncate(FAILURES);
    let failing = at_once.iter().map(|at| {
        let message = error(log.line(*at)).unwrap_or_else(|| log.line(*at).to_owned());
        // The compiler quotes the line of code with its number, and marks the place below it.
        let code = |line: &str| {
            line.split_once('|').is_some_and(|(number, _)| {
                number.trim().parse::<u32>().is_ok() || number.trim().is_empty()
            })
        };
        let quoted = log.lines(at + 1..at + 8).take_while(|(_, line)| {
            line.starts_with(' ') && (code(line) || line.trim_start().starts_with(['^', '~']))
        });
        let end = quoted.last().map_or(*at, |(at, _)| at);
        let place = super::places::mentions(log.line(*at)).into_iter().next();
        Failing { place, ..Failing::new("", Some(message), *at..end + 1) }
    });
    let failing = failing.collect();
    marks.dedup();
    Some(Reading {
        tool: if clang.is_some() { "clang" } else { "gcc" },
        end: end.max(clang.unwrap_or(0)),
        marks,
        region: first..first,
        failing,
        more,
        ..Reading::default()
    })
}

/// Reads `path:3:5: error: text` about a source in C or a similar language.
fn error(line: &str) -> Option<String> {
    let (location, message) =
        line.split_once(": error: ").or_else(|| line.split_once(": fatal error: "))?;
    let path = location.split(':').next()?;
    let extension = path.rsplit_once('.')?.1;
    let numbers = location.split(':').skip(1).collect::<Vec<_>>();
    let numbered =
        !numbers.is_empty() && numbers.iter().all(|number| number.parse::<u32>().is_ok());
    (SOURCES.contains(&extension) && numbered).then(|| message.to_owned())
}

pub(super) fn make(log: &Log) -> Option<Reading> {
    let stopped = |line: &str| {
        let line = line.trim_start_matches("g");
        line.starts_with("make") && line.contains("]: *** ") || line.starts_with("make: *** ")
    };
    let Heads { lines: marks, first, last: end, .. } = Heads::of(log, 0..log.len(), stopped)?;
    let message = log.line(first).split_once("*** ").map_or("", |(_, message)| message);
    // `[Makefile:3: test] Error 1` means that a command failed. The output of the command is above.
    let before =
        log.lines(0..first).rev().map(|(_, line)| line).find(|line| !line.trim().is_empty());
    let first_error = match message.starts_with('[') {
        true => before
            .filter(|line| !line.starts_with("make[") && !line.contains("***"))
            .unwrap_or(message),
        false => message,
    };
    let failing =
        vec![Failing::new("", Some(first_error.to_owned()), first.saturating_sub(20)..first + 1)];
    Some(Reading {
        tool: "make",
        end,
        failing,
        marks,
        region: first.saturating_sub(20)..end,
        ..Reading::default()
    })
}
