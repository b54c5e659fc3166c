//! `go test`, `go vet` and `go build`.

use super::Reading;
use super::log::Log;

pub(super) fn go(log: &Log) -> Option<Reading> {
    let failed = |line: &str| line.starts_with("FAIL\t");
    let compiles = |line: &str| {
        let mut parts = line.splitn(4, ':');
        let path = parts.next().unwrap_or_default();
        let numbers = parts.by_ref().take(2).filter(|part| part.parse::<u32>().is_ok()).count();
        path.ends_with(".go") && !path.starts_with(' ') && numbers == 2
    };
    let errors =
        log.iter().filter(|(_, line)| compiles(line)).map(|(at, _)| at).collect::<Vec<_>>();
    let tests_end = log.last(failed).or_else(|| log.last(|line| line == "FAIL"));
    let end = tests_end.or_else(|| errors.last().copied())?;
    let tool = if tests_end.is_some() { "go test" } else { "go build" };
    let mut tests = Vec::<String>::new();
    let mut marks = errors.clone();
    let mut first_error = errors.first().map(|at| message(log.line(*at)));
    let mut first = end;
    for (at, line) in log.iter().take_while(|(at, _)| *at <= end) {
        if let Some(rest) = line.trim_start().strip_prefix("--- FAIL: ") {
            let name = rest.split(" (").next().unwrap_or(rest).to_owned();
            // A test fails when a test inside of it does.
            tests.retain(|outer| !name.starts_with(&format!("{outer}/")));
            tests.push(name);
            first = first.min(at);
        } else if line.starts_with("panic: ") || line.starts_with("fatal error: ") {
            first_error.get_or_insert_with(|| line.to_owned());
            first = first.min(at);
            // In the stack trace each location has a line of its own.
            let stack = log.from(at + 1).take(60).filter(|(_, line)| line.starts_with('\t'));
            marks.extend(stack.map(|(at, _)| at));
        } else if is_test_output(line) {
            first_error.get_or_insert_with(|| message(line.trim_start()));
            marks.push(at);
            first = first.min(at);
        }
    }
    let known =
        log.iter().any(|(_, line)| line.starts_with("--- FAIL") || line.starts_with("FAIL"));
    (known || !errors.is_empty()).then_some(Reading {
        tool,
        end,
        tests,
        first_error,
        marks,
        region: first..end,
        ..Reading::default()
    })
}

/// Reads `    price_test.go:12: got 1, want 2`.
fn is_test_output(line: &str) -> bool {
    let content = line.trim_start();
    let mut parts = content.splitn(3, ':');
    let path = parts.next().unwrap_or_default();
    line.starts_with("    ")
        && path.ends_with("_test.go")
        && !path.contains(' ')
        && parts.next().is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Returns the text behind the location.
fn message(line: &str) -> String {
    line.split_once(": ").map_or(line, |(_, content)| content).to_owned()
}
