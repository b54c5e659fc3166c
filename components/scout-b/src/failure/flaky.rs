//! Finds signs that a failure depends on chance. They are only reported: a flaky test that fails has failed.

use act_kit::reports::failures::Log;

/// Texts in a line, and what they mean.
const SIGNS: [(&str, &str); 9] = [
    ("WARNING: DATA RACE", "the race detector found a data race"),
    ("race detected during execution of test", "the race detector found a data race"),
    ("WARNING: ThreadSanitizer: data race", "the race detector found a data race"),
    ("RETRY ERRORS", "a test failed and was tried again"),
    ("Address already in use", "a port was taken: tests or servers run beside each other"),
    ("EADDRINUSE", "a port was taken: tests or servers run beside each other"),
    ("address already in use", "a port was taken: tests or servers run beside each other"),
    ("database is locked", "a database was used by two at once"),
    ("Flakes: ", "a test failed and then passed when tried again"),
];

pub(super) fn reason(log: &Log) -> Option<String> {
    for (_, line) in log.iter() {
        let text = line.trim_start();
        let flakes = text.split_once("Flakes: ").map(|(_, count)| !count.starts_with('0'));
        let sign = SIGNS.iter().find(|(sign, _)| line.contains(sign));
        if let Some((_, meaning)) = sign.filter(|_| flakes != Some(false)) {
            return Some((*meaning).to_owned());
        }
        // nextest prints `FLAKY 2/3`, Playwright `1 flaky`, pytest's plugin `1 rerun`.
        let flaky = text.starts_with("FLAKY ") || text.ends_with(" flaky");
        let reruns = text.trim_matches(['=', ' ']).split(", ").any(|part| {
            let part = part.split(" in ").next().unwrap_or(part);
            part.strip_suffix(" rerun").is_some_and(|n| n.parse::<u32>().is_ok_and(|n| n > 0))
        });
        if flaky {
            return Some("a test failed and then passed when tried again".to_owned());
        }
        if reruns {
            return Some("tests were run again after they failed".to_owned());
        }
    }
    both(log)
}

/// Finds a test that passed and failed in the same log.
fn both(log: &Log) -> Option<String> {
    let result = |line: &str| {
        let text = line.trim_start();
        if let Some(rest) = text.strip_prefix("--- ") {
            let (word, name) = rest.split_once(": ")?;
            return Some((name.split(" (").next()?.to_owned(), word == "PASS"));
        }
        let (name, word) = text.rsplit_once(' ').filter(|_| text.contains("::"))?;
        match word {
            "PASSED" | "FAILED" => Some((name.trim().to_owned(), word == "PASSED")),
            _ => None,
        }
    };
    let mut seen = std::collections::BTreeMap::<String, bool>::new();
    for (_, line) in log.iter() {
        let Some((name, passed)) = result(line) else { continue };
        if seen.insert(name.clone(), passed).is_some_and(|before| before != passed) {
            return Some(format!(
                "{} passed and failed in one run",
                act_kit::quoting::cut(&name, 120)
            ));
        }
    }
    None
}
