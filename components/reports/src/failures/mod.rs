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

use std::collections::{BTreeSet, HashMap, HashSet};
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
/// Maximum number and size in bytes of the lines with the values of the first failure.
const VALUES: usize = 4;
const VALUE: usize = 200;
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
    /// The test or suite failed only because a test inside of it did.
    outer: bool,
    /// The test never finished because the test or suite around it ended.
    cancelled: bool,
    below: Below,
}

/// What happened to the tests inside of a test or suite that failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Below {
    /// Nothing failed there; a test with no tests inside is such a one, too.
    #[default]
    Nothing,
    Cancelled,
    Failed,
}

impl Failing {
    fn new(name: &str, message: Option<String>, block: Range<usize>) -> Self {
        let message = cut(message.unwrap_or_default().trim(), TEXT);
        Self { name: cut(name.trim(), TEXT), message, block, ..Self::default() }
    }

    /// Returns whether the failure is one of a single test. What failed around other tests that did not pass is none: it
    /// is counted by them.
    fn is_test(&self) -> bool {
        !self.name.is_empty() && !self.cancelled && self.below == Below::Nothing
    }

    /// The place of the failure in the list: a failure around others says less than they do, and a test that was cancelled
    /// says nothing about its own code.
    fn rank(&self) -> u8 {
        match (self.cancelled, self.below) {
            (true, _) => 2,
            (false, Below::Failed) => 1,
            (false, Below::Nothing | Below::Cancelled) => 0,
        }
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

/// Failures of one cause: their messages are the same apart from the name of the test and from values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The message of the first failure.
    pub message: String,
    /// The indices of its failures, in the order of the log.
    pub failures: Vec<usize>,
    /// The lines of the log about the first failure, without noise and without its message. Empty where there is nothing
    /// more, and where tests inside of the failure show the cause.
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
    /// The lines about the first failure that state what was expected and what was there instead, at most 4.
    pub values: Vec<String>,
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
        Self::of_task(log, own, &|_| false)
    }

    /// Parses a log of a step that failed, as [`Failures::of`] does. Failures with a frame in a file for which `first` holds
    /// come first: a task's own tests say most about its change.
    pub fn of_task(
        log: &Log,
        own: &dyn Fn(&str) -> Option<String>,
        first: &dyn Fn(&str) -> bool,
    ) -> Self {
        let Reading { tool, failing, mut more, .. } = read(log);
        let mut seen = BTreeSet::new();
        let mut found = Vec::<(Failure, Range<usize>)>::new();
        let mut frames = FrameReader::new(log, tool, own);
        let mut failing = failing.into_iter().filter(|one| !one.outer).collect::<Vec<_>>();
        failing.sort_by_key(Failing::rank);
        let of_tests = failing.iter().filter(|one| one.is_test()).count();
        let cancelled = failing.iter().filter(|one| one.cancelled).count();
        let mut leading = 0;
        for one in failing {
            let leads = one.rank() == 0;
            if found.len() == FAILURES {
                more += 1;
                continue;
            }
            let (mut block, around) = (one.block.clone(), one.below == Below::Failed);
            let failure = frames.failure(one);
            if around {
                // The tests inside show the cause.
                block.end = block.start;
            }
            // A compiler reports an error for each target that has it.
            let again = failure.name.is_empty()
                && !seen.insert((failure.message.clone(), failure.place.clone()));
            if !again {
                found.push((failure, block));
                leading += usize::from(leads);
            }
        }
        if let Some(leading) = found.get_mut(..leading) {
            leading.sort_by_cached_key(|(one, _)| !one.frames.iter().any(|at| first(&at.path)));
        }
        let mut counts = counts::of(log, Some(tool));
        if tool == "go test" || tool == "node:test" {
            // They count a test with the tests inside of it.
            let some = |count: usize| Some(count as u64).filter(|count| *count > 0);
            counts.failed = some(of_tests + more);
            counts.cancelled = some(cancelled);
        }
        // A line of an unknown tool means something only among the lines around it.
        let known = tool != "unknown";
        let groups = groups(log, &found, known);
        let first = found.first().filter(|_| known);
        let values = first.map(|(one, block)| values(log, block.clone(), &one.message));
        let blocks = found.iter().filter(|_| known).map(|(_, block)| block.clone()).collect();
        let short = quiet(log, 0..log.len(), SHORT);
        Self {
            tool,
            counts,
            more,
            values: values.unwrap_or_default(),
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

/// Groups failures of one cause. `known`: the tool is known, so that a message is one and not any line of a log.
fn groups(log: &Log, found: &[(Failure, Range<usize>)], known: bool) -> Vec<Group> {
    let mut of_key = HashMap::<String, usize>::new();
    let mut groups = Vec::<Group>::new();
    // The message of the first failure of each group, in words, and its place.
    let mut first = Vec::<(Vec<String>, Option<&Place>)>::new();
    for (index, (failure, block)) in found.iter().enumerate() {
        let key = normalised(&failure.message, &failure.name);
        let place = failure.place.as_ref().filter(|place| !crate::source::is_test(&place.path));
        let at = of_key.get(&key).copied().unwrap_or_else(|| {
            let words = || key.split_whitespace();
            let alike = |(of_group, at): &(Vec<String>, Option<&Place>)| {
                // The same words at two places of the source are two causes.
                let apart = at.is_some_and(|at| place.is_some_and(|place| at != place));
                !apart && alike(of_group, &words().collect::<Vec<_>>())
            };
            let is_test = known && !failure.name.is_empty();
            let similar = first.iter().position(|group| is_test && alike(group));
            let at = similar.unwrap_or(groups.len().min(GROUPS - 1));
            if at == first.len() {
                first.push((words().map(str::to_owned).collect(), place));
            }
            at
        });
        of_key.insert(key, at);
        match groups.get_mut(at) {
            Some(group) => group.failures.push(index),
            None => groups.push(Group {
                message: failure.message.clone(),
                failures: vec![index],
                excerpt: excerpt(log, block.clone(), failure),
            }),
        }
    }
    groups
}

/// The least number of words that two messages of one cause share, beside half of the shorter one. With fewer words, as in
/// `a.b is not a function`, the words that differ are the cause.
const ALIKE_WORDS: usize = 5;

/// Returns whether two normalised messages end alike. Each test puts words of its own in front of an error that it passes on,
/// and the error may name types that are not quoted.
fn alike(one: &[String], other: &[&str]) -> bool {
    let shorter = one.len().min(other.len());
    let ends = one.iter().rev().zip(other.iter().rev());
    let same = ends.filter(|(one, other)| one.as_str() == **other);
    let (mut all, mut words) = (0, 0);
    for (word, _) in same {
        all += 1;
        words += usize::from(word.chars().filter(|c| c.is_alphabetic()).count() > 1);
    }
    words >= ALIKE_WORDS && all * 2 >= shorter
}

/// Parts of the name of a test that are looked for in its message.
const NAME_PARTS: usize = 8;

/// Replaces the name of a test and its parts in a message. Names of less than four bytes are words that say something else.
fn without_name(message: &str, name: &str) -> String {
    let parts = name.split(['/', '>', ':']).map(str::trim).take(NAME_PARTS);
    let mut text = message.to_owned();
    for part in std::iter::once(name).chain(parts).filter(|part| part.len() >= 4) {
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for (at, _) in text.match_indices(part) {
            let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let behind = at + part.len();
            if inside(text[..at].chars().next_back()) || inside(text[behind..].chars().next()) {
                continue;
            }
            out.push_str(&text[from..at]);
            out.push('T');
            from = behind;
        }
        out.push_str(&text[from..]);
        text = out;
    }
    text
}

/// Returns the end of the value in brackets with which a text begins, such as `[1 2]` or `{a: 1}`.
fn bracketed(text: &str) -> Option<&str> {
    let (open, close) = match text.chars().next()? {
        '[' => ('[', ']'),
        '{' => ('{', '}'),
        _ => return None,
    };
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return text.get(at + 1..);
            }
        }
    }
    None
}

/// Returns whether a word is a place: `price_test.go:12`.
fn is_place(word: &str) -> bool {
    let mut parts = word.split(':');
    let named = parts.next().is_some_and(|path| path.contains('.'));
    named && parts.next().is_some_and(|line| line.parse::<u32>().is_ok())
}

/// Returns a message without what differs between failures of one cause: the name of the test, numbers, addresses, paths,
/// flags, quoted values, values in brackets, and whether a value is true or nil.
fn normalised(message: &str, name: &str) -> String {
    let message = without_name(message, name);
    let mut out = String::with_capacity(message.len());
    let mut rest = message.as_str();
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
        // `error[E0308]` is a code, `map[a:1]` a value.
        let value = !ahead.is_alphanumeric() || out.ends_with("map") || c == '{';
        if value && let Some(behind) = bracketed(rest) {
            out.push_str("[…]");
            (rest, ahead) = (behind, ']');
            continue;
        }
        if let Some(behind) = rest.strip_prefix("<nil>") {
            out.push('V');
            (rest, ahead) = (behind, 'V');
            continue;
        }
        if !ahead.is_alphanumeric() {
            let ends = |c: char| c.is_whitespace() || ",;()[]{}<>\"'`".contains(c);
            let word = rest.split(ends).next().unwrap_or_default();
            let bare = word.trim_start_matches(['-', '+']);
            let number = bare.starts_with(|c: char| c.is_ascii_digit());
            let mark = match word {
                "" => None,
                _ if number => Some("N"),
                _ if word.contains('/') || is_place(word) => Some("P"),
                _ if word.starts_with('-') && bare.starts_with(char::is_alphabetic) => Some("F"),
                "true" | "false" | "nil" => Some("V"),
                _ => None,
            };
            if let Some(mark) = mark {
                out.push_str(mark);
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

/// Returns whether a line of a log says nothing but the message of a failure, behind a place that the failure names.
fn only_says(line: &str, failure: &Failure) -> bool {
    let line = line.trim();
    let line = line.strip_prefix("E ").map_or(line, str::trim_start);
    let line = line.trim_end_matches(['"', '\'']);
    let Some(ahead) = line.strip_suffix(failure.message.as_str()) else { return false };
    let ahead = ahead.trim_end_matches(['"', '\'', ' ']);
    let placed = failure.place.is_some() || !ahead.contains(|c: char| c.is_ascii_digit());
    !failure.message.is_empty()
        && placed
        && ahead.split_whitespace().all(|word| word.ends_with(':'))
}

/// The least size in bytes of an output with a place that is folded wherever the block repeats it.
const FOLDED_OUTPUT: usize = 20;

/// Folds lines that repeat: those that follow each other, and outputs with their place wherever they are.
fn folded<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<(&'a str, usize)> {
    let mut out = Vec::<(&str, usize)>::new();
    let mut outputs = HashMap::<&str, usize>::new();
    for line in lines {
        let text = line.trim();
        if let Some((last, times)) = out.last_mut()
            && *last == line
        {
            *times += 1;
            continue;
        }
        if text.len() >= FOLDED_OUTPUT && places::begins_with_place(text) {
            let at = *outputs.entry(line).or_insert(out.len());
            if let Some((_, times)) = out.get_mut(at) {
                *times += 1;
                continue;
            }
        }
        out.push((line, 1));
    }
    out
}

/// Returns the text of a failure without frames of toolchains and without the lines that only repeat its message; without
/// its middle where it is long. Lines that repeat are folded.
fn excerpt(log: &Log, block: Range<usize>, failure: &Failure) -> String {
    let lines = log.lines(block).map(|(_, line)| line).filter(|line| {
        !(places::is_foreign_frame(line)
            || places::is_std_symbol(line)
            || line.contains("_ _ _ _ _ _")
            || line.trim().is_empty())
    });
    let lines = folded(lines).into_iter();
    let lines = lines.filter(|(line, times)| *times > 1 || !only_says(line, failure));
    let lines = lines.map(|(line, times)| match times {
        1 => cut(line, TEXT),
        times => format!("{} ({times} times)", cut(line, TEXT)),
    });
    let lines = without_source(lines.collect());
    let mut size = 0;
    let ahead = lines.iter().take_while(|line| {
        size += line.len() + 1;
        size <= EXCERPT / 2
    });
    let (ahead, rest) = lines.split_at(ahead.count());
    size = 0;
    let behind = rest.iter().rev().take_while(|line| {
        size += line.len() + 1;
        size <= EXCERPT / 2
    });
    let (middle, behind) = rest.split_at(rest.len() - behind.count());
    let gap = (!middle.is_empty()).then(|| format!("… {} lines …", middle.len()));
    let parts = ahead.iter().chain(&gap).chain(behind);
    parts.map(String::as_str).collect::<Vec<_>>().join("\n")
}

/// Number of lines of a test before the one that failed.
const SOURCE: usize = 6;

/// Leaves out the source of a test, which pytest prints from its first decorator on, but for the lines before the one that
/// failed: whoever reads the failure has the test.
fn without_source(lines: Vec<String>) -> Vec<String> {
    let mut out = Vec::<String>::new();
    for line in lines {
        if line.starts_with("> ") {
            let is_source = |line: &&String| line.starts_with("    ");
            let source = out.iter().rev().take_while(is_source).count();
            if source > SOURCE + 1 {
                let rest = out.split_off(out.len() - SOURCE);
                out.truncate(out.len() + SOURCE - source);
                out.push(format!("… {} lines …", source - SOURCE));
                out.extend(rest);
            }
        }
        out.push(line);
    }
    out
}

/// Returns the lines of a failure that state what was expected and what was there instead, without those that its message
/// holds.
fn values(log: &Log, block: Range<usize>, message: &str) -> Vec<String> {
    let block = block.start..block.end.min(block.start + FRAME_LINES);
    let own = log.lines(block).filter_map(|(_, line)| lines::value(line));
    let own = own.filter(|text| !message.contains(text));
    own.take(VALUES).map(|text| cut(text, VALUE)).collect()
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

/// Returns the end of a log, without noise and without the lines of failures, which some tools print twice.
fn tail(log: &Log, mut blocks: Vec<Range<usize>>, known: bool) -> String {
    blocks.sort_by_key(|block| block.start);
    // Blocks overlap: each line is looked at once.
    let (mut shown, mut read) = (HashSet::new(), 0);
    for block in &blocks {
        let own = log.lines(block.start.max(read)..block.end);
        shown.extend(own.map(|(_, line)| line.trim()).filter(|line| !line.is_empty()));
        read = read.max(block.end);
    }
    let mut kept = Vec::new();
    let mut size = 0;
    let summary = python::summary(log).unwrap_or_default();
    for (at, line) in log.iter().rev() {
        let repeats = shown.contains(line.trim())
            || (known && (summary.contains(&at) || repeats_a_failure(line)));
        if repeats || is_noise(line) {
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
