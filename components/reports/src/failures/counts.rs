//! Counts of tests that failed, were cancelled, passed and were left out, as the summaries of tools state them.

use super::log::Log;

/// The numbers of a summary; `None` where the tool does not state one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub failed: Option<u64>,
    /// Tests that never finished because the test or suite around them ended.
    pub cancelled: Option<u64>,
    pub passed: Option<u64>,
    pub skipped: Option<u64>,
}

impl Counts {
    /// Returns whether no number is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn new(failed: u64, passed: u64, skipped: u64) -> Self {
        let some = |count| Some(count).filter(|count| *count > 0);
        Self { failed: some(failed), cancelled: None, passed: Some(passed), skipped: some(skipped) }
    }

    /// Returns the sum of two counts.
    pub fn plus(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        Self {
            failed: sum(self.failed, other.failed),
            cancelled: sum(self.cancelled, other.cancelled),
            passed: sum(self.passed, other.passed),
            skipped: sum(self.skipped, other.skipped),
        }
    }
}

/// Writes `3 failed, 1 cancelled, 40 passed, 2 skipped`; nothing when no number is known.
impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            (self.failed, "failed"),
            (self.cancelled, "cancelled"),
            (self.passed, "passed"),
            (self.skipped, "skipped"),
        ];
        let parts = parts.iter().filter_map(|(count, word)| Some(format!("{} {word}", (*count)?)));
        f.write_str(&parts.collect::<Vec<_>>().join(", "))
    }
}

/// The tools whose summaries are read, with the counts so far and the last line of their summaries.
#[derive(Default)]
struct Tools(Vec<(&'static str, Counts, usize)>);

impl Tools {
    fn set(&mut self, tool: &'static str, counts: Counts, at: usize) {
        self.0.retain(|(known, ..)| *known != tool);
        self.0.push((tool, counts, at));
    }

    fn add(&mut self, tool: &'static str, counts: Counts, at: usize) {
        match self.0.iter_mut().find(|(known, ..)| *known == tool) {
            Some((_, sum, end)) => {
                *sum = sum.plus(counts);
                *end = at;
            }
            None => self.0.push((tool, counts, at)),
        }
    }
}

/// Returns the counts of a tool, or of the tool whose summary is last.
pub(super) fn of(log: &Log, tool: Option<&str>) -> Counts {
    let tools = summaries(log);
    let of_tool = tools.0.iter().filter(|(known, ..)| tool.is_none_or(|tool| tool == *known));
    of_tool.max_by_key(|(.., at)| *at).map(|(_, counts, _)| *counts).unwrap_or_default()
}

/// Returns the sum of the counts of all tools.
pub(super) fn of_all(log: &Log) -> Counts {
    summaries(log).0.iter().fold(Counts::default(), |sum, (_, counts, _)| sum.plus(*counts))
}

fn summaries(log: &Log) -> Tools {
    let mut tools = Tools::default();
    let mut ran = None;
    for (at, line) in log.iter() {
        let text = line.trim_start();
        if let Some(counts) = pytest(line) {
            tools.set("pytest", counts, at);
        } else if let Some(rest) = line.strip_prefix("Ran ") {
            ran = rest.split_once(" test").and_then(|(count, _)| count.parse::<u64>().ok());
        } else if let Some(all) =
            ran.filter(|_| line.starts_with("FAILED (") || line == "OK" || line.starts_with("OK ("))
        {
            let count = |key: &str| value(line, key);
            let failed = count("failures=") + count("errors=");
            let skipped = count("skipped=");
            let mut counts = Counts::new(failed, all.saturating_sub(failed + skipped), skipped);
            // Subtests fail one by one and are no tests of their own.
            counts.passed = counts.passed.filter(|_| failed + skipped <= all);
            tools.set("unittest", counts, at);
        } else if line.starts_with("test result: ") {
            tools.add("cargo test", phrase(line, "failed", "passed", "ignored"), at);
        } else if text.starts_with("Summary [") {
            tools.set("cargo test", phrase(line, "failed", "passed", "skipped"), at);
        } else if let Some(counts) = go(text) {
            tools.add("go test", counts, at);
        } else if text.starts_with("Tests:") && line.contains(" total") {
            tools.set("jest", phrase(line, "failed", "passed", "skipped"), at);
        } else if text.starts_with("Tests  ") && line.ends_with(')') {
            tools.set("vitest", phrase(line, "failed", "passed", "skipped"), at);
        } else if let Some(counts) = mocha(text) {
            tools.add("mocha", counts, at);
        } else if let Some(counts) = node(line) {
            tools.add("node:test", counts, at);
        } else if let Some(counts) = junit(text) {
            tools.add("junit", counts, at);
        } else if line.contains(" example")
            && line.contains(" failure")
            && line.starts_with(|c: char| c.is_ascii_digit())
        {
            let count = |word: &str| before(line, word).unwrap_or(0);
            let (failed, skipped) = (count("failure"), count("pending"));
            let passed = count("example").saturating_sub(failed + skipped);
            tools.set("rspec", Counts::new(failed, passed, skipped), at);
        }
    }
    tools
}

/// Reads `1 failed, 2 passed in 0.03s`, with or without bars around it.
fn pytest(line: &str) -> Option<Counts> {
    let (text, time) = line.trim_matches(['=', ' ']).rsplit_once(" in ")?;
    if !time.starts_with(|c: char| c.is_ascii_digit())
        || !text.starts_with(|c: char| c.is_ascii_digit())
    {
        return None;
    }
    let count = |words: &[&str]| {
        let parts = text.split(", ").filter_map(|part| part.split_once(' '));
        parts
            .filter(|(_, word)| words.contains(word))
            .filter_map(|(n, _)| n.parse::<u64>().ok())
            .sum::<u64>()
    };
    let known =
        ["failed", "passed", "error", "errors", "skipped", "deselected", "xfailed", "xpassed"];
    let is_summary = text.split(", ").all(|part| {
        part.split_once(' ').is_some_and(|(n, word)| {
            n.parse::<u64>().is_ok()
                && (known.contains(&word)
                    || ["warning", "warnings", "rerun"].contains(&word)
                    || word.starts_with("subtests"))
        })
    });
    is_summary.then(|| {
        Counts::new(
            count(&["failed", "error", "errors"]),
            count(&["passed", "xpassed"]),
            count(&["skipped", "xfailed"]),
        )
    })
}

/// Reads the numbers before three words of a line.
fn phrase(line: &str, failed: &str, passed: &str, skipped: &str) -> Counts {
    let count = |word: &str| before(line, word).unwrap_or(0);
    Counts::new(count(failed), count(passed), count(skipped))
}

/// Returns the number right before a word, which may have an ending: `3 failures` for `failure`.
fn before(line: &str, word: &str) -> Option<u64> {
    let mut words =
        line.split([' ', ',', ';', '|', '.', ':', '(', ')']).filter(|word| !word.is_empty());
    let mut number = None;
    words.find_map(|one| {
        let found = one.starts_with(word).then_some(number).flatten();
        number = one.parse::<u64>().ok();
        found
    })
}

/// Returns the number behind a key: 3 for `failures=3`.
fn value(line: &str, key: &str) -> u64 {
    let rest = line.split_once(key).map_or("", |(_, rest)| rest);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest.get(..digits).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn go(text: &str) -> Option<Counts> {
    let (word, _) = text.strip_prefix("--- ")?.split_once(": ")?;
    match word {
        "FAIL" => Some(Counts { failed: Some(1), ..Counts::default() }),
        "PASS" => Some(Counts { passed: Some(1), ..Counts::default() }),
        "SKIP" => Some(Counts { skipped: Some(1), ..Counts::default() }),
        _ => None,
    }
}

/// Reads `21 passing (22ms)`, `13 failing` and `2 pending`, each on a line of its own.
fn mocha(text: &str) -> Option<Counts> {
    let (count, rest) = text.split_once(' ')?;
    let count = count.parse::<u64>().ok()?;
    match rest.split(' ').next()? {
        "passing" if rest.ends_with(')') => {
            Some(Counts { passed: Some(count), ..Counts::default() })
        }
        "failing" if rest == "failing" => Some(Counts { failed: Some(count), ..Counts::default() }),
        "pending" if rest == "pending" => {
            Some(Counts { skipped: Some(count), ..Counts::default() })
        }
        _ => None,
    }
}

/// Reads `# pass 20` and `ℹ fail 13`.
fn node(line: &str) -> Option<Counts> {
    let rest = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ "))?;
    let (word, count) = rest.split_once(' ')?;
    let count = Some(count.parse::<u64>().ok()?).filter(|count| *count > 0);
    match word {
        "pass" => Some(Counts { passed: count, ..Counts::default() }),
        "fail" => Some(Counts { failed: count, ..Counts::default() }),
        "cancelled" => Some(Counts { cancelled: count, ..Counts::default() }),
        "skipped" => Some(Counts { skipped: count, ..Counts::default() }),
        _ => None,
    }
}

/// Reads the total of Maven, JUnit's own runner and Gradle.
fn junit(text: &str) -> Option<Counts> {
    let labels = ["[ERROR] ", "[INFO] ", "[WARNING] "];
    let text = labels.iter().find_map(|label| text.strip_prefix(label)).unwrap_or(text);
    if let Some(rest) = text.strip_prefix("OK (") {
        let count = rest.split_once(" test")?.0.parse().ok()?;
        return Some(Counts::new(0, count, 0));
    }
    if text.contains(" tests completed, ") {
        let count = |word: &str| before(text, word).unwrap_or(0);
        let (failed, skipped) = (count("failed"), count("skipped"));
        return Some(Counts::new(failed, count("tests").saturating_sub(failed + skipped), skipped));
    }
    // Maven prints a line for each class as well, with its time.
    if !text.starts_with("Tests run: ") || text.contains("Time elapsed") {
        return None;
    }
    let count = |key: &str| value(&text.replace(": ", ":"), key);
    let (failed, skipped) = (count("Failures:") + count("Errors:"), count("Skipped:"));
    Some(Counts::new(failed, count("Tests run:").saturating_sub(failed + skipped), skipped))
}
