//! gcc, clang, the linker, make.

use super::Reading;
use super::log::Log;

const SOURCES: [&str; 13] =
    ["c", "cc", "cpp", "cxx", "c++", "h", "hh", "hpp", "hxx", "m", "mm", "S", "inl"];

pub(super) fn compiler(log: &Log) -> Option<Reading> {
    let errors = log.iter().filter(|(_, line)| error(line).is_some()).map(|(at, _)| at);
    let errors = errors.collect::<Vec<_>>();
    let linker = |line: &str| {
        line.contains("undefined reference to ")
            || line.contains("Undefined symbols for architecture")
            || line.starts_with("collect2: error:")
            || (line.contains("ld: ")
                && (line.contains("cannot find") || line.contains("multiple definition")))
    };
    let links = log.iter().filter(|(_, line)| linker(line)).map(|(at, _)| at).collect::<Vec<_>>();
    let first = errors.iter().chain(&links).min().copied()?;
    let end = errors.iter().chain(&links).max().copied()?;
    let clang = log.last(|line| line.ends_with(" generated.") && line.contains("error"));
    let clang = clang.or_else(|| {
        log.position(|line| {
            line.starts_with("clang: error:") || line.starts_with("clang++: error:")
        })
    });
    let first_error = error(log.line(first)).unwrap_or_else(|| log.line(first).to_owned());
    Some(Reading {
        tool: if clang.is_some() { "clang" } else { "gcc" },
        end: end.max(clang.unwrap_or(0)),
        first_error: Some(first_error),
        marks: errors.into_iter().chain(links).collect(),
        region: first..first,
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
    let marks = log.iter().filter(|(_, line)| stopped(line)).map(|(at, _)| at).collect::<Vec<_>>();
    let (first, end) = (*marks.first()?, *marks.last()?);
    let message = log.line(first).split_once("*** ").map_or("", |(_, message)| message);
    // `[Makefile:3: test] Error 1` means that a command failed. The output of the command is above.
    let before = (0..first).rev().map(|at| log.line(at)).find(|line| !line.trim().is_empty());
    let first_error = match message.starts_with('[') {
        true => before
            .filter(|line| !line.starts_with("make[") && !line.contains("***"))
            .unwrap_or(message),
        false => message,
    };
    let first_error = Some(first_error.to_owned());
    Some(Reading {
        tool: "make",
        end,
        first_error,
        marks,
        region: first.saturating_sub(20)..end,
        ..Reading::default()
    })
}
