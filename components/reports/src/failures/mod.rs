//! Reads what a failing step printed: which tool ran, how many tests failed and passed, each failure with its message and
//! its place, and the text that leads to the cause.
//!
//! - [`LogReader`] and [`Log`]: a log as lines of plain text, in bounded memory.
//! - [`Failures::of`]: the failures of a log, grouped, for the host's answers to a model.
//! - [`Ran::of`]: whether the log of a step that passed shows that a test ran.
//! - [`read`] and [`Reading`]: the same with the lines of the log, for Scout B.
//!
//! If a log holds the output of several tools, the one whose summary is last has failed. Tools that only pass on the failure
//! of another one (make, npm, Maven) count if no other tool is recognised.
//!
//! A log is written by an attacker. A reader passes over it a fixed number of times, and looks at a fixed number of lines
//! around each of at most 5,000 failures. Lines that several failures share are searched for frames at most twice the size
//! of the log in total. So time and memory grow as the log does; only the names of Go's tests are sorted. The names and
//! messages of failures are cut behind 300 bytes, and there are at most 60,000 marks.

mod counts;
mod go;
mod javascript;
mod jvm;
mod lines;
mod log;
mod native;
mod packages;
mod places;
mod python;
mod ran;
mod rust;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

pub use counts::Counts;
use lines::{Sign, is_noise, sign};
pub use log::{Log, LogReader, plain};
pub use places::{is_elsewhere, mentions};
pub use ran::Ran;

/// Maximum size of a test's name or a message in bytes.
const TEXT: usize = 300;
/// Maximum number of failures that are read in full. The largest run that we met had 1,033.
const FAILURES: usize = 5_000;
/// Maximum number of groups.
const GROUPS: usize = 20;
/// Maximum number of frames of one failure, and of lines that are searched for them.
const FRAMES: usize = 12;
const FRAME_LINES: usize = 400;
/// Maximum number of lines of a reading that are marked.
const MARKS: usize = FAILURES * FRAMES;
/// Maximum number of lines that count as failures where no tool is known.
const UNKNOWN: usize = 50;
/// Maximum size of the text of one failure in bytes; its beginning and its end are shown when it is longer.
const EXCERPT: usize = 4_000;
/// Maximum size of the log's end, without noise, in bytes.
const TAIL: usize = 8 * 1024;

/// Cuts a text at a character boundary and appends `…`.
fn cut(text: &str, most: usize) -> String {
    match text.len() <= most {
        true => text.to_owned(),
        false => format!("{}…", text.get(..text.floor_char_boundary(most)).unwrap_or_default()),
    }
}

/// The output of one tool, as it was parsed. Lines are numbered from 0.
#[derive(Debug, Default)]
pub struct Reading {
    pub tool: &'static str,
    /// The line with the tool's summary. The last summary in a log belongs to the tool that failed.
    end: usize,
    /// In the order of the log, at most 5,000.
    pub failing: Vec<Failing>,
    /// The number of failures that are not in the list.
    more: usize,
    /// The first error, where it is not the message of the first failure.
    first_error: Option<String>,
    /// Locations that are spread over several lines.
    pub locations: Vec<(String, u32)>,
    /// Lines with the most important locations, at most 60,000.
    pub marks: Vec<usize>,
    /// Lines with locations that may be important.
    pub region: Range<usize>,
}

/// One test that failed, or an error that no test reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failing {
    /// The test; empty for an error of a compiler or of a tool.
    pub name: String,
    pub message: String,
    /// The lines of the log about it.
    block: Range<usize>,
    /// The place, where the block does not show it.
    place: Option<(String, u32)>,
    /// A suite that failed because of a test inside of it.
    outer: bool,
}

impl Failing {
    fn new(name: &str, message: Option<String>, block: Range<usize>) -> Self {
        let message = cut(message.unwrap_or_default().trim(), TEXT);
        Self { name: cut(name.trim(), TEXT), message, block, place: None, outer: false }
    }

    /// Sets the message, without its end where it is long.
    fn say(&mut self, message: Option<String>) {
        self.message = cut(&message.unwrap_or_default(), TEXT);
    }
}

/// The failures that a reader has found: the first 5,000, and the number of all others.
#[derive(Debug, Default)]
struct Found {
    failing: Vec<Failing>,
    more: usize,
}

impl Found {
    /// Adds a failure, or only counts it when the list is full. Returns whether the failure is in the list.
    fn add(&mut self, one: impl FnOnce() -> Failing) -> bool {
        let room = !self.is_full();
        match room {
            true => self.failing.push(one()),
            false => self.more += 1,
        }
        room
    }

    fn is_full(&self) -> bool {
        self.failing.len() == FAILURES
    }

    /// Returns the number of the failures that were added.
    fn count(&self) -> usize {
        self.failing.len() + self.more
    }
}

/// The lines of a log that report an error each.
#[derive(Debug)]
struct Heads {
    /// The first 5,000.
    lines: Vec<usize>,
    first: usize,
    last: usize,
    /// The number of lines that are not in the list.
    more: usize,
}

impl Heads {
    /// Returns the lines of a range for which `what` holds, or `None` when there are none.
    fn of(log: &Log, range: Range<usize>, what: impl Fn(&str) -> bool) -> Option<Self> {
        let mut found = None::<Self>;
        for (at, _) in log.lines(range).filter(|(_, line)| what(line)) {
            let found =
                found.get_or_insert_with(|| Self { lines: vec![], first: at, last: at, more: 0 });
            found.last = at;
            match found.lines.len() < FAILURES {
                true => found.lines.push(at),
                false => found.more += 1,
            }
        }
        found
    }
}

impl Reading {
    /// The names of the tests that failed, each once for each time that a tool reports it.
    pub fn tests(&self) -> impl Iterator<Item = &str> {
        self.failing.iter().map(|one| one.name.as_str()).filter(|name| !name.is_empty())
    }

    /// The first error; empty when nothing looks like one.
    pub fn first_error(&self) -> String {
        let first = || self.failing.first().map(|one| one.message.clone());
        let text = self.first_error.clone().or_else(first).unwrap_or_default();
        cut(text.trim(), TEXT)
    }
}

type Reader = fn(&Log) -> Option<Reading>;

const READERS: [Reader; 15] = [
    python::pytest,
    python::unittest,
    javascript::jest,
    javascript::vitest,
    javascript::mocha,
    javascript::node_test,
    javascript::rspec,
    javascript::tsc,
    javascript::eslint,
    rust::cargo_test,
    rust::rustc,
    go::go,
    native::compiler,
    jvm::javac,
    jvm::tests,
];

/// Readers of tools that pass on failures. The first one that recognises its tool counts.
const PASSING_ON: [Reader; 5] =
    [packages::cargo, packages::pip, packages::npm, jvm::maven, native::make];

/// Parses a log of a step that failed.
pub fn read(log: &Log) -> Reading {
    let inner = READERS.iter().filter_map(|reader| reader(log)).max_by_key(|reading| reading.end);
    let reading = inner.or_else(|| PASSING_ON.iter().find_map(|reader| reader(log)));
    let mut reading = reading.unwrap_or_else(|| unknown(log));
    reading.marks.truncate(MARKS);
    reading
}

/// Texts that mark a line as an error when no tool is recognised.
const ERRORS: [&str; 14] = [
    "error:",
    "error[",
    "Error:",
    "ERROR:",
    "Exception",
    "FAILED",
    "FAIL:",
    "panicked at",
    "AssertionError",
    "assertion failed",
    "fatal:",
    "not found",
    "No such file",
    "Permission denied",
];

/// Takes the lines that report failures: first those that mark one, then those that only mention one, else the last line.
fn unknown(log: &Log) -> Reading {
    let error = log.position(|line| ERRORS.iter().any(|word| line.contains(word)));
    let mut failing = Vec::<Failing>::new();
    for wanted in [Sign::Failure, Sign::Mention] {
        if !failing.is_empty() {
            break;
        }
        for (at, line) in log.iter().filter(|(_, line)| sign(line) == wanted) {
            let one = Failing::new("", Some(line.to_owned()), at..at + 1);
            if !failing.iter().any(|known| known.message == one.message) {
                failing.push(one);
            }
            if failing.len() == UNKNOWN {
                break;
            }
        }
    }
    if failing.is_empty() {
        let last =
            log.iter().rev().find(|(_, line)| !line.trim().is_empty() && !lines::is_ruler(line));
        failing.extend(last.map(|(at, line)| Failing::new("", Some(line.to_owned()), at..at + 1)));
    }
    Reading {
        tool: "unknown",
        first_error: Some(error.map(|at| log.line(at).to_owned()).unwrap_or_default()),
        marks: error.into_iter().collect(),
        region: 0..log.len(),
        failing,
        ..Reading::default()
    }
}

/// A line of a file, from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub path: String,
    pub line: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.path, self.line)
    }
}

/// One failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The test; empty for an error of a compiler or of a tool.
    pub name: String,
    pub message: String,
    /// The deepest frame outside of tests, installed packages and standard libraries, else the deepest one in a test.
    pub place: Option<Place>,
    /// The frames in the repository, the deepest first.
    pub frames: Vec<Place>,
    /// The first and the last line of the log about it, from 1.
    pub lines: (usize, usize),
}

impl Failure {
    /// Names the failure for a comparison between two runs. Lines of a source file move, so they are no part of it.
    pub fn identity(&self) -> String {
        match (self.name.is_empty(), &self.place) {
            (false, _) => self.name.clone(),
            (true, Some(place)) => format!("{}: {}", place.path, self.message),
            (true, None) => self.message.clone(),
        }
    }

    /// Describes the failure on one line: the test, the message and the place.
    pub fn headline(&self) -> String {
        let mut text = match (self.name.is_empty(), self.message.is_empty()) {
            (false, false) => format!("{}: {}", self.name, self.message),
            (false, true) => self.name.clone(),
            (true, _) => self.message.clone(),
        };
        if let Some(place) = &self.place
            && !text.contains(&format!("{}:{}", place.path, place.line))
        {
            text.push_str(&format!(" ({place})"));
        }
        text
    }
}

/// Failures with the same message, apart from numbers, addresses, paths and quoted values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The message of the first failure.
    pub message: String,
    /// The indices of its failures, in the order of the log.
    pub failures: Vec<usize>,
    /// The lines of the log about the first failure, without noise.
    pub excerpt: String,
}

/// The failures of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failures {
    /// `unknown` when no tool is recognised.
    pub tool: &'static str,
    pub counts: Counts,
    /// In the order of the log, at most 5,000.
    pub failures: Vec<Failure>,
    /// The number of failures that are not in the list.
    pub more: usize,
    /// In the order of their first failures, at most 20; the last one holds the failures of all further groups.
    pub groups: Vec<Group>,
    /// The end of the log without noise and without the text of the failures.
    pub tail: String,
    /// The whole log without noise, where it is short.
    pub short: Option<String>,
    /// The number of lines of the log.
    pub lines: usize,
}

/// Maximum size in bytes of a log, without noise, that is shown as a whole.
const SHORT: usize = 1_500;

impl Failures {
    /// Parses a log of a step that failed. `own` returns the path in the repository that a path in the log means, or
    /// `None` for a path outside of it.
    pub fn of(log: &Log, own: &dyn Fn(&str) -> Option<String>) -> Self {
        let Reading { tool, failing, mut more, .. } = read(log);
        let mut seen = BTreeSet::new();
        let mut found = Vec::<(Failure, Range<usize>)>::new();
        let mut frames = FrameReader::new(log, tool, own);
        for one in failing.into_iter().filter(|one| !one.outer) {
            if found.len() == FAILURES {
                more += 1;
                continue;
            }
            let (block, failure) = (one.block.clone(), frames.failure(one));
            // A compiler reports an error for each target that has it.
            let again = failure.name.is_empty()
                && !seen.insert((failure.message.clone(), failure.place.clone()));
            if !again {
                found.push((failure, block));
            }
        }
        let mut counts = counts::of(log, Some(tool));
        if tool == "go test" || tool == "node:test" {
            // They count a test with the tests inside of it.
            let tests = found.iter().filter(|(one, _)| !one.name.is_empty()).count() + more;
            counts.failed = Some(tests as u64).filter(|count| *count > 0);
        }
        let groups = groups(log, &found);
        // A line of an unknown tool means something only among the lines around it.
        let known = tool != "unknown";
        let blocks = found.iter().filter(|_| known).map(|(_, block)| block.clone()).collect();
        let short = quiet(log, 0..log.len(), SHORT);
        Self {
            tool,
            counts,
            more,
            groups,
            tail: tail(log, blocks, known),
            short,
            lines: log.total(),
            failures: found.into_iter().map(|(failure, _)| failure).collect(),
        }
    }

    /// Failures of a step that says nothing about tests: one message.
    pub fn message(text: &str) -> Self {
        let failure = Failure {
            name: String::new(),
            message: cut(text.trim(), TEXT),
            place: None,
            frames: vec![],
            lines: (0, 0),
        };
        let failures = if text.trim().is_empty() { vec![] } else { vec![failure] };
        Self { tool: "unknown", failures, ..Self::default() }
    }

    /// Returns the number of tests or errors that failed.
    pub fn count(&self) -> usize {
        self.failures.len() + self.more
    }

    /// Describes the first failure on one line; empty for a log without text.
    pub fn headline(&self) -> String {
        self.failures.first().map(Failure::headline).unwrap_or_default()
    }

    /// Returns whether any failure has a place in the repository.
    pub fn has_place(&self) -> bool {
        self.failures.iter().any(|failure| failure.place.is_some())
    }
}

/// What a step that passed printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passed {
    pub counts: Counts,
    /// The last line that is neither blank nor a ruler, without the bars around it.
    pub last_line: String,
}

impl Passed {
    /// Reads the log of a step that passed.
    pub fn of(log: &Log) -> Self {
        let last = log.iter().rev().map(|(_, line)| line);
        let mut last = last.filter(|line| line.chars().any(char::is_alphanumeric));
        let last_line = last.next().map(|line| cut(line.trim_matches(['=', ' ', '\t']), 200));
        Self { counts: counts::of(log, None), last_line: last_line.unwrap_or_default() }
    }
}

/// Finds the frames of failures.
struct FrameReader<'a> {
    log: &'a Log,
    tool: &'a str,
    own: &'a dyn Fn(&str) -> Option<String>,
    /// The frames of each block that was read, and the place that a test declares. Several failures may share a block.
    known: HashMap<Range<usize>, (Vec<Place>, Option<Place>)>,
    /// The number of bytes that may still be read: blocks of different failures may overlap.
    left: usize,
}

impl<'a> FrameReader<'a> {
    fn new(log: &'a Log, tool: &'a str, own: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { log, tool, own, known: HashMap::new(), left: log.size().saturating_mul(2) }
    }

    fn own(&self, path: &str, line: u32) -> Option<Place> {
        let known = line > 0 && !is_elsewhere(path);
        let path = known.then(|| (self.own)(path)).flatten()?;
        Some(Place { path: cut(&path, TEXT), line })
    }

    fn failure(&mut self, one: Failing) -> Failure {
        let Failing { name, message, block, place, .. } = one;
        let place = place.and_then(|(path, line)| self.own(&path, line));
        let (of_block, declared) = match self.known.get(&block) {
            Some(known) => known.clone(),
            None => {
                let read = self.read(block.clone());
                self.known.insert(block.clone(), read.clone());
                read
            }
        };
        let mut frames = of_block;
        if let Some(place) = place.filter(|place| frames.first() != Some(place)) {
            frames.insert(0, place);
            frames.truncate(FRAMES);
        }
        if frames.is_empty() {
            frames.extend(declared);
        }
        let outside = frames.iter().find(|place| !crate::source::is_test(&place.path));
        let place = outside.or(frames.first()).cloned();
        let last = block.end.saturating_sub(1).max(block.start);
        let lines = (self.log.number(block.start), self.log.number(last));
        Failure { name, message, place, frames, lines }
    }

    /// Returns the frames of a block, the deepest first, and the place that its test declares.
    fn read(&mut self, block: Range<usize>) -> (Vec<Place>, Option<Place>) {
        let (mut frames, mut declared) = (Vec::<Place>::new(), None);
        for (_, line) in self.log.lines(block.start..block.end.min(block.start + FRAME_LINES)) {
            let Some(left) = self.left.checked_sub(line.len() + 1) else { break };
            self.left = left;
            if places::is_foreign_frame(line) {
                continue;
            }
            let text = line.trim_start();
            let declares = text.starts_with("test at ") || text.starts_with("location:");
            let found = match declares {
                true => mentions(text).into_iter().next(),
                false => places::frame(line),
            };
            let Some(place) = found.and_then(|(path, line)| self.own(&path, line)) else {
                continue;
            };
            if declares {
                declared = Some(place);
            } else if frames.last() != Some(&place) {
                frames.push(place);
            }
        }
        // Python prints the deepest frame last, all others print it first.
        if self.tool == "pytest" || self.tool == "unittest" {
            frames.reverse();
        }
        frames.truncate(FRAMES);
        (frames, declared)
    }
}

fn groups(log: &Log, found: &[(Failure, Range<usize>)]) -> Vec<Group> {
    let mut of_key = HashMap::<String, usize>::new();
    let mut groups = Vec::<Group>::new();
    for (index, (failure, block)) in found.iter().enumerate() {
        let key = normalised(&failure.message);
        let next = groups.len().min(GROUPS - 1);
        let at = *of_key.entry(key).or_insert(next);
        match groups.get_mut(at) {
            Some(group) => group.failures.push(index),
            None => groups.push(Group {
                message: failure.message.clone(),
                failures: vec![index],
                excerpt: excerpt(log, block.clone()),
            }),
        }
    }
    groups
}

/// Returns a message without what differs between failures of one cause: numbers, addresses, paths, quoted values.
fn normalised(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    let mut ahead = ' ';
    while let Some(c) = rest.chars().next() {
        let quote = matches!(c, '\'' | '"' | '`' | '‘' | '“') && !ahead.is_alphanumeric();
        let inner = rest.get(c.len_utf8()..).unwrap_or_default();
        let close = match c {
            '‘' => '’',
            '“' => '”',
            c => c,
        };
        if quote && let Some((_, behind)) = inner.split_once(close) {
            out.push_str("'…'");
            (rest, ahead) = (behind, close);
            continue;
        }
        if !ahead.is_alphanumeric() {
            let ends = |c: char| c.is_whitespace() || ",;()[]{}<>\"'`".contains(c);
            let word = rest.split(ends).next().unwrap_or_default();
            let number =
                word.trim_start_matches(['-', '+']).starts_with(|c: char| c.is_ascii_digit());
            if !word.is_empty() && (number || word.contains('/')) {
                out.push_str(if number { "N" } else { "P" });
                (rest, ahead) = (&rest[word.len()..], 'N');
                continue;
            }
        }
        if c.is_ascii_digit() {
            if ahead != 'N' {
                out.push('N');
            }
            ahead = 'N';
        } else {
            out.push(c);
            ahead = c;
        }
        rest = inner;
    }
    out
}

/// Returns the text of a failure without frames of toolchains; without its middle where it is long.
fn excerpt(log: &Log, block: Range<usize>) -> String {
    let lines = || {
        log.lines(block.clone()).map(|(_, line)| line).filter(|line| {
            !(places::is_foreign_frame(line)
                || places::is_std_symbol(line)
                || line.contains("_ _ _ _ _ _")
                || line.trim().is_empty())
        })
    };
    let mut ahead = Vec::new();
    let mut size = 0;
    let mut cut_off = 0;
    for line in lines() {
        size += line.len().min(TEXT) + 1;
        if size > EXCERPT / 2 {
            cut_off += 1;
        } else {
            ahead.push(cut(line, TEXT));
        }
    }
    let mut behind = Vec::new();
    size = 0;
    for line in lines().rev().take(cut_off) {
        size += line.len().min(TEXT) + 1;
        if size > EXCERPT / 2 {
            break;
        }
        behind.push(cut(line, TEXT));
        cut_off -= 1;
    }
    if cut_off > 0 {
        ahead.push(format!("… {cut_off} lines …"));
    }
    behind.reverse();
    ahead.extend(behind);
    ahead.join("\n")
}

/// Returns lines without noise, or `None` when they have more than `most` bytes.
fn quiet(log: &Log, range: Range<usize>, most: usize) -> Option<String> {
    let mut out = String::new();
    for (_, line) in log.lines(range).filter(|(_, line)| !is_noise(line)) {
        out.push_str(line);
        out.push('\n');
        if out.len() > most {
            return None;
        }
    }
    Some(out)
}

/// Returns the end of a log, without noise and without the blocks of failures.
fn tail(log: &Log, mut blocks: Vec<Range<usize>>, known: bool) -> String {
    blocks.sort_by_key(|block| block.start);
    let mut kept = Vec::new();
    let mut size = 0;
    let mut at = log.len();
    while at > 0 {
        at -= 1;
        while blocks.last().is_some_and(|block| block.start > at) {
            blocks.pop();
        }
        if blocks.last().is_some_and(|block| block.contains(&at)) {
            continue;
        }
        let line = log.line(at);
        if is_noise(line) || (known && repeats_a_failure(line)) {
            continue;
        }
        let line = cut(line, TEXT);
        size += line.len() + 1;
        if size > TAIL {
            break;
        }
        kept.push(line);
    }
    kept.reverse();
    kept.join("\n")
}

/// Returns whether a line only lists a test that failed, which the groups do as well.
fn repeats_a_failure(line: &str) -> bool {
    let text = line.trim_start();
    ["FAILED ", "ERROR ", "--- FAIL: ", "✕ ", "✖ ", "× ", "not ok ", "FAIL ["]
        .iter()
        .any(|start| text.starts_with(start))
        || (text.starts_with("test ") && text.ends_with("... FAILED"))
        || text.ends_with(" ... FAIL")
        || text.ends_with(" ... ERROR")
        || (text.ends_with("%]") && (text.contains(" FAILED ") || text.contains(" ERROR ")))
}
