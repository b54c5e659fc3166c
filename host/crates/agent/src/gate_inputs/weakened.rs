//! Compares the tests of a task with those of its start, without running them: tests and test files that are gone,
//! assertions that are removed or changed, new marks that skip a test or narrow a run, new early returns, fixtures that
//! changed, configurations that leave tests out, assertions that became conditional, and other values for what they check.
//!
//! A [`Reading`] is one version of a file, cut into its tests by the parsers of `act-symbols`; code outside of tests is one
//! more block. Two readings are compared block by block. [`TestReader`] remembers readings, because each edit compares again.
//! The comparison reads text and knows no meaning: an honest change is named as well, and the model then says why the task
//! wants it. A file without a parser is one block, in which each line counts. Examples in comments that a runner executes (Rust's
//! documentation tests, Python's doctest, the output of Go's examples) are code.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use act_reports::source::{self, is_test};
use act_symbols::{Language, Symbol, SymbolKind, outline};
use regex::Regex;
use similar::TextDiff;

use super::{FileChange, is_build_script, is_test_configuration};

/// A place where tests demand less than at the start of the task, or something else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weakening {
    pub path: String,
    /// The line in the file as it is now; `None` for what is gone.
    pub line: Option<u32>,
    /// The test; empty outside of tests.
    pub test: String,
    pub why: Why,
    /// The lines that show it, cut.
    pub detail: String,
}

/// The kind of a [`Weakening`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// A file of tests is gone.
    TestDeleted,
    /// A test is gone, or no runner collects it any more.
    TestsRemoved,
    /// A mark skips tests, expects them to fail, or narrows the run to some of them.
    TestSkipped,
    /// A test ends before its assertions.
    EarlyReturn,
    /// A condition that never holds, or a build condition, keeps a test from running.
    Disabled,
    /// A test catches the failures of its own assertions.
    FailureCaught,
    AssertionRemoved,
    AssertionChanged,
    /// An assertion is inside of a condition, a loop, a function or a handler that was not there.
    AssertionNested,
    /// What the old lines of a test use has another value or definition now.
    SubjectReplaced,
    /// A test lacks a value that it had: an expected result, a case of a table.
    ExpectationChanged,
    /// A line of a test is another one or gone, and nothing of the above tells more.
    TestChanged,
    /// A file of data that tests read was changed or deleted.
    FixtureChanged,
    /// The configuration of a test runner leaves tests out, or may.
    TestsExcluded,
}

impl Why {
    /// The stable word.
    pub fn word(self) -> &'static str {
        match self {
            Self::TestDeleted => "test_deleted",
            Self::TestsRemoved => "tests_removed",
            Self::TestSkipped => "test_skipped",
            Self::EarlyReturn => "early_return",
            Self::Disabled => "test_disabled",
            Self::FailureCaught => "failure_caught",
            Self::AssertionRemoved => "assertion_removed",
            Self::AssertionChanged => "assertion_changed",
            Self::AssertionNested => "assertion_nested",
            Self::SubjectReplaced => "subject_replaced",
            Self::ExpectationChanged => "expectation_changed",
            Self::TestChanged => "test_changed",
            Self::FixtureChanged => "fixture_changed",
            Self::TestsExcluded => "tests_excluded",
        }
    }
}

impl Weakening {
    /// Returns the same place without its line, by which it is recognised after an edit above it.
    pub fn without_line(&self) -> Self {
        Self { line: None, ..self.clone() }
    }

    /// Returns whether a text names the test or its file, the file with or without its ending.
    pub fn is_named_in(&self, text: &str) -> bool {
        let test = self.test.rsplit(" > ").next().unwrap_or_default();
        let file = source::name(&self.path);
        let stem = file.split('.').next().unwrap_or(file);
        [test, if stem.len() > 3 { stem } else { file }]
            .iter()
            .any(|name| !name.is_empty() && text.contains(name))
    }

    /// Returns the place and the kind without text of the file, for records that outlive the task.
    pub fn place(&self) -> String {
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        let test = if self.test.is_empty() { String::new() } else { format!(" {}", self.test) };
        format!("{}{line}{test} ({})", self.path, self.why.word())
    }
}

/// Writes `tests/a.py:12 test_total (assertion_removed): assert total == 5`.
impl fmt::Display for Weakening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place())?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

/// Bytes of a detail that are shown: two statements of a usual width.
const DETAIL: usize = 240;
/// Weakenings of one file that are listed. More of them say nothing new to a reviewer, who looks at the file.
const IN_ONE_FILE: usize = 40;
/// Weakenings of one task that are listed.
const IN_ONE_TASK: usize = 400;
/// Lines that one assertion may have.
const STATEMENT: usize = 40;
/// Lines above a definition that are searched for attributes and decorators: tables of cases may be long.
const ABOVE: usize = 200;
/// Readings that are remembered. A task that changes more files reads them again.
const REMEMBERED: usize = 2_000;
/// New tests that are compared with one that is gone. A task that renames more of them at once is named with the rest.
const COMPARED: usize = 200;
/// The part of lines, in percent, that two tests share when one is the other under a new name.
const SIMILAR: usize = 60;

/// Compares tests, and remembers what it has read.
#[derive(Debug, Default)]
pub struct TestReader {
    /// By path and digest.
    known: Mutex<BTreeMap<(String, String), Arc<Reading>>>,
}

impl TestReader {
    /// Returns every place where the tests of the changed files demand less than before, or something else, by path and line.
    pub fn weakened(&self, changes: &[FileChange<'_>]) -> Vec<Weakening> {
        let differs = |change: &&FileChange<'_>| change.sha256_before != change.sha256_now;
        let files: Vec<_> = changes.iter().filter(differs).map(|one| self.compared(one)).collect();
        let mut found = vec![];
        let tested = files.iter().flat_map(|file| file.before.words_of_tests()).collect();
        for file in &files {
            let mut here = file.weakened(&files, &tested);
            here.truncate(IN_ONE_FILE);
            found.append(&mut here);
        }
        found.sort();
        found.dedup();
        found.truncate(IN_ONE_TASK);
        found
    }

    /// Returns whether a change touches tests: the file belongs to tests, or a test inside of it differs.
    pub fn touches_tests(&self, change: &FileChange<'_>) -> bool {
        if is_test(change.path) {
            return true;
        }
        let file = self.compared(change);
        file.before.tests != file.now.tests
    }

    fn compared<'a>(&self, change: &FileChange<'a>) -> Compared<'a> {
        let before = self.read(change.path, change.sha256_before, change.text_before);
        let now = self.read(change.path, change.sha256_now, change.text_now);
        Compared { change: *change, before, now }
    }

    fn read(&self, path: &str, sha256: Option<&str>, text: Option<&str>) -> Arc<Reading> {
        let (Some(sha256), Some(text)) = (sha256, text) else { return Arc::default() };
        let key = (path.to_owned(), sha256.to_owned());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reading) = known.get(&key) {
            return Arc::clone(reading);
        }
        if known.len() >= REMEMBERED {
            known.clear();
        }
        let reading = Arc::new(Reading::of(path, text));
        known.insert(key, Arc::clone(&reading));
        reading
    }
}

/// One changed file at the start of the task and now.
struct Compared<'a> {
    change: FileChange<'a>,
    before: Arc<Reading>,
    now: Arc<Reading>,
}

impl Compared<'_> {
    fn path(&self) -> &str {
        self.change.path
    }

    /// `tested`: the words of the old tests of all changed files.
    fn weakened(&self, all: &[Self], tested: &BTreeSet<&str>) -> Vec<Weakening> {
        let mut found = self.excluded();
        let (existed, gone) =
            (self.change.sha256_before.is_some(), self.change.sha256_now.is_none());
        if (is_test(self.path()) || is_snapshot(self.path())) && existed && self.before.is_data {
            let detail = if gone { "the file is gone" } else { "" };
            found.push(self.finding(None, "", Why::FixtureChanged, detail));
            return found;
        }
        if is_test(self.path()) && existed && gone {
            // A file that was moved is compared with its new place.
            let mut first = self.before.tests.values().take(COMPARED);
            if first.all(|test| self.renamed(test, all).is_none()) && !self.moved_whole(all) {
                found.push(self.finding(None, "", Why::TestDeleted, ""));
                return found;
            }
        } else {
            // A file without tests of its own is loaded by the tests of other files.
            let tested = if self.now.tests.is_empty() { tested } else { &BTreeSet::new() };
            let words = Words { used: &self.before.words_of_tests(), tested };
            self.compare((&self.before.outside, ""), (&self.now.outside, ""), words, &mut found);
        }
        let in_test = Words { used: &BTreeSet::new(), tested: &BTreeSet::new() };
        for (name, before) in &self.before.tests {
            if found.len() > IN_ONE_FILE {
                break;
            }
            match self.now.tests.get(name) {
                Some(now) => {
                    if now.depth > before.depth {
                        let detail = "the test is inside of a block that was not there";
                        found.push(self.finding(Some(now.first), name, Why::Disabled, detail));
                    }
                    self.compare((before, name), (now, name), in_test, &mut found);
                    found.extend(self.defined_again(name));
                }
                None => match self.renamed(before, all) {
                    Some((file, other)) => {
                        if !file.collects_like(self, other, name) {
                            let detail = format!("{other} of {} may not run", file.path());
                            found.push(self.finding(None, name, Why::TestsRemoved, &detail));
                        }
                        let now = (&file.now.tests[other], other.as_str());
                        file.compare((before, name), now, in_test, &mut found);
                    }
                    None => {
                        found.push(self.finding(None, name, Why::TestsRemoved, ""));
                    }
                },
            }
        }
        for (name, now) in &self.now.tests {
            // A new test that does not run, or keeps others from running.
            let mut skips = now.marks.iter().filter(|mark| mark.why == Why::TestSkipped).peekable();
            let is_new = || !self.before.tests.contains_key(name) && !is_elsewhere(now, all);
            if found.len() <= IN_ONE_FILE && skips.peek().is_some() && is_new() {
                found.extend(
                    skips.map(|mark| self.finding(Some(mark.line), name, mark.why, &mark.text)),
                );
            }
        }
        found
    }

    /// Returns a later definition of the same name in the file, which is the only one that Python knows.
    fn defined_again(&self, name: &str) -> Option<Weakening> {
        let again = format!("{name}{AGAIN}2");
        let is_new = self.path().ends_with(".py") && !self.before.tests.contains_key(&again);
        let second = self.now.tests.get(&again).filter(|_| is_new)?;
        let detail = "a second definition of this name replaces it";
        Some(self.finding(Some(second.first), name, Why::TestsRemoved, detail))
    }

    /// Returns whether a runner that collects the test `name` of the file `was` also collects the test `other` here, by the
    /// names of files and types.
    fn collects_like(&self, was: &Self, other: &str, name: &str) -> bool {
        let in_type =
            |name: &str| name.rsplit_once(" > ").is_none_or(|(of, _)| of.starts_with("Test"));
        (is_collected(self.path()) || !is_collected(was.path()))
            && (!self.path().ends_with(".py") || in_type(other) || !in_type(name))
            // Go wants no small letter behind the word.
            && (!self.path().ends_with(".go")
                || !other.trim_start_matches("Test").starts_with(char::is_lowercase))
    }

    /// Returns whether a file without tests of its own, such as a helper, is there under another name.
    fn moved_whole(&self, all: &[Self]) -> bool {
        let (Some(was), true) = (self.change.sha256_before, self.before.tests.is_empty()) else {
            return false;
        };
        all.iter().any(|other| {
            other.change.sha256_before.is_none() && other.change.sha256_now == Some(was)
        })
    }

    /// Returns the test that this one has become: a new test of the same lines, or nearly, here or in another file.
    fn renamed<'c>(&'c self, before: &Block, all: &'c [Self]) -> Option<(&'c Self, &'c String)> {
        let new = |file: &'c Self| {
            let all = file.now.tests.iter().map(move |(name, test)| (file, name, test));
            all.filter(move |(_, name, _)| !file.before.tests.contains_key(*name))
        };
        let candidates = new(self).chain(all.iter().flat_map(new)).take(COMPARED);
        let mut like = candidates.filter(|(_, _, test)| before.is_like(test));
        like.next().map(|(file, name, _)| (file, name))
    }

    fn finding(&self, line: Option<u32>, test: &str, why: Why, detail: &str) -> Weakening {
        Weakening {
            path: self.path().to_owned(),
            line,
            test: test.to_owned(),
            why,
            detail: cut(detail),
        }
    }

    /// Compares a block, which is the test of this name or the code outside of tests, with what it was.
    fn compare(
        &self,
        (before, was): (&Block, &str),
        (now, test): (&Block, &str),
        outside: Words<'_>,
        found: &mut Vec<Weakening>,
    ) {
        if before == now {
            return;
        }
        let start = found.len();
        for why in [Why::TestSkipped, Why::EarlyReturn, Why::Disabled, Why::FailureCaught] {
            let of = |block: &Block| block.marks.iter().filter(move |mark| mark.why == why).count();
            let more = of(now).saturating_sub(of(before));
            let old: BTreeSet<_> = before.marks.iter().map(|mark| (mark.why, &mark.text)).collect();
            let marks = now.marks.iter().filter(|mark| mark.why == why);
            // Those with a new text first; where all texts were there before, the last ones.
            let (new, known): (Vec<_>, Vec<_>) =
                marks.partition(|mark| !old.contains(&(mark.why, &mark.text)));
            // Outside of tests a whole function on one line, such as a stub of a type, ends nothing early.
            let is_stub = |mark: &&Mark| {
                test.is_empty() && why == Why::EarlyReturn && is_match(&DEFINITION, &mark.text)
            };
            let new = new.into_iter().filter(|mark| !is_stub(mark));
            for mark in new.chain(known.into_iter().rev()).take(more) {
                found.push(self.finding(Some(mark.line), test, why, &mark.text));
            }
        }
        if found.len() == start {
            self.replaced(before, now, test, outside, found);
            let deeper = before.nested_deeper(now).into_iter();
            found
                .extend(deeper.map(|(line, text)| {
                    self.finding(Some(line), test, Why::AssertionNested, text)
                }));
        }
        let removed = without(&before.assertions, &now.assertions);
        let mut added = without(&now.assertions, &before.assertions);
        for (_, was) in removed {
            let nearest = added.iter().enumerate().max_by(|(_, one), (_, other)| {
                likeness(was, &one.1).total_cmp(&likeness(was, &other.1))
            });
            match nearest.map(|(at, _)| at) {
                Some(at) => {
                    let (line, is) = added.remove(at);
                    let detail = format!("{} became {}", cut_half(was), cut_half(is));
                    found.push(self.finding(Some(*line), test, Why::AssertionChanged, &detail));
                }
                None => {
                    let line =
                        (!now.lines.is_empty()).then_some(now.first).filter(|line| *line > 0);
                    found.push(self.finding(line, test, Why::AssertionRemoved, was));
                }
            }
        }
        // The title of a test may change.
        let name = was.rsplit(" > ").next().filter(|name| !name.is_empty());
        let is_name = |text: &str| Some(text.trim_matches(['"', '\'', '`'])) == name;
        let mut lost = before.literals_without(now);
        lost.retain(|text| !is_name(text));
        if found.len() == start && !lost.is_empty() {
            let line = Some(now.first).filter(|line| *line > 0);
            let lost = lost.iter().take(5).copied().collect::<Vec<_>>().join(", ");
            let detail = format!("no longer there: {lost}");
            found.push(self.finding(line, test, Why::ExpectationChanged, &detail));
        }
        if found.len() == start {
            let last = |name: &str| name.rsplit(" > ").next().unwrap_or_default().to_owned();
            let line = Some(now.first).filter(|line| *line > 0);
            if let Some(lost) = before.lost_line(now, &last(was), &last(test)) {
                found.push(self.finding(line, test, Why::TestChanged, lost));
            } else if let Some((line, text)) = before.deeper_line(now) {
                found.push(self.finding(Some(line), test, Why::TestChanged, text));
            } else if !test.is_empty() && before.is_reordered(now) {
                let detail = "its lines are in another order";
                found.push(self.finding(line, test, Why::TestChanged, detail));
            }
        }
    }

    /// Finds new lines that give another value or definition to what old lines use, and new decorators of an old test.
    fn replaced(
        &self,
        before: &Block,
        now: &Block,
        test: &str,
        outside: Words<'_>,
        found: &mut Vec<Weakening>,
    ) {
        let new = before.new_lines(now);
        let mut later = outside.used.clone();
        let of_block = before.lines.iter().flat_map(|line| words(line));
        let known: BTreeSet<&str> =
            of_block.chain(outside.used.iter().chain(outside.tested).copied()).collect();
        let lost: Vec<&String> =
            now.new_lines(before).into_iter().filter_map(|at| before.lines.get(at)).collect();
        let mut places = vec![];
        for (at, line) in now.lines.iter().enumerate().rev() {
            if !new.contains(&at) {
                later.extend(words(line));
                continue;
            }
            let defines = is_match(&DEFINES, line);
            // Another parameter of a test may be a fixture with the name of what the test checks.
            let adds =
                || !is_match(&FUNCTION, line) && lost.iter().any(|was| adds_entries(was, line));
            if (is_match(&ASSERTION, line) && !defines) || is_example(line) || adds() {
                continue;
            }
            let bound = bound_names(line);
            // An attribute of a module or a type is changed for all tests of the process.
            let substitutes = is_match(&SUBSTITUTE, line)
                || assigned(line).is_some_and(|it| {
                    it.contains('.') && !(it.starts_with("self.") || it.starts_with("this."))
                });
            let replaces = bound.iter().any(|name| later.contains(name))
                || (bound.contains(EVERYTHING) && !later.is_empty())
                || (is_match(&SURROUNDINGS, line)
                    && (self.configures_tests() || !later.is_empty()))
                || (line.starts_with("macro_rules!") && words(line).any(is_standard_macro))
                || (substitutes
                    && (self.configures_tests() || words(line).any(|word| known.contains(word))));
            let number = now.numbers.get(at).copied();
            // A mark that took the place of one of its name is compared like any other line.
            let name = |mark: &str| mark.split('(').next().map(str::to_owned);
            let marks = is_mark(line)
                && !is_match(&HARMLESS_MARK, line)
                && !lost.iter().any(|was| is_mark(was) && name(was) == name(line))
                && (!test.is_empty() || now.marks_old_suite(at, &new));
            if replaces {
                places.push(self.finding(number, test, Why::SubjectReplaced, line));
            } else if marks {
                places.push(self.finding(number, test, Why::Disabled, line));
            }
        }
        found.extend(places.into_iter().rev());
    }

    /// Returns whether a runner loads the file before other tests.
    fn configures_tests(&self) -> bool {
        let lower = self.path().to_lowercase();
        let name = lower.rsplit('/').next().unwrap_or_default();
        is_test_configuration(name) || name == "__init__.py"
    }

    /// The changed lines of a configuration by which a runner may leave tests out.
    fn excluded(&self) -> Vec<Weakening> {
        let path = self.path();
        let lower = path.to_lowercase();
        let name = lower.rsplit('/').next().unwrap_or_default();
        let (before, now) =
            (self.change.text_before.unwrap_or_default(), self.change.text_now.unwrap_or_default());
        let mut found = vec![];
        if self.change.sha256_before.is_none() && lower.contains("__mocks__/") {
            // jest takes the file in the place of the module of this name.
            found.push(self.finding(None, "", Why::SubjectReplaced, "a new file of mocks"));
        }
        if is_test_configuration(name) || is_build_script(&lower, name) {
            // Each line of a configuration that nothing but a runner reads may leave tests out.
            let of_runner = is_test_configuration(name) && !name.ends_with(".py");
            let runner = if is_test_configuration(name) { EXCLUDES.as_slice() } else { &[] };
            let is_about_tests = |line: &str| {
                let mut words = EXCLUDES_IN_BUILDS.iter().chain(runner);
                let is_comment = ["//", "#", ";"].iter().any(|mark| line.starts_with(mark));
                let is_code = line.contains(char::is_alphanumeric);
                !is_comment && is_code && (of_runner || words.any(|word| line.contains(word)))
            };
            let lines = |text: &str| {
                let lines = (1..).zip(text.lines()).map(|(at, line)| (at, line.trim().to_owned()));
                lines.filter(|(_, line)| is_about_tests(line)).collect::<Vec<(u32, String)>>()
            };
            let (before, now) = (lines(before), lines(now));
            for (line, text) in without(&now, &before) {
                found.push(self.finding(Some(*line), "", Why::TestsExcluded, text));
            }
            for (_, text) in without(&before, &now) {
                let detail = format!("removed: {text}");
                found.push(self.finding(None, "", Why::TestsExcluded, &detail));
            }
        }
        if path.ends_with(".rs") {
            let modules = |text: &str| test_modules(text);
            for module in modules(before).difference(&modules(now)) {
                let detail = format!("removed: {module}");
                found.push(self.finding(None, "", Why::TestsExcluded, &detail));
            }
        }
        found
    }
}

/// What is outside of a block that is compared.
#[derive(Clone, Copy)]
struct Words<'a> {
    /// The names that old code outside of the block uses.
    used: &'a BTreeSet<&'a str>,
    /// The words of the old tests of all changed files.
    tested: &'a BTreeSet<&'a str>,
}

/// Returns whether a new test is an old one of some file under another name or in another place.
fn is_elsewhere(now: &Block, all: &[Compared<'_>]) -> bool {
    let gone = all.iter().flat_map(|other| {
        other.before.tests.iter().filter(|(old, _)| !other.now.tests.contains_key(*old))
    });
    gone.take(COMPARED).any(|(_, before)| before.is_like(now))
}

/// Words of configurations of test runners that decide which tests run.
const EXCLUDES: [&str; 13] = [
    "bail",
    "collect_ignore",
    "def pytest_",
    "exitstatus",
    "grep",
    "ignore_collect",
    "ignore_patterns",
    "modifyitems",
    "pytest_plugins",
    "pytest_runtest",
    "roots",
    "spec",
    "xfail",
];
/// Such words that mean nothing else in build scripts, which configure runners as well.
const EXCLUDES_IN_BUILDS: [&str; 47] = [
    " -k ",
    "--deselect",
    "--ignore",
    "--last-failed",
    "--skip",
    "-run ",
    "[[test]]",
    "\"roots\"",
    "\"test\":",
    "\"test:",
    "GOFLAGS",
    "NODE_OPTIONS",
    "PYTEST_ADDOPTS",
    "PYTHONOPTIMIZE",
    "RUSTFLAGS",
    "addopts",
    "alias",
    "autotests",
    "coveragePathIgnore",
    "debug-assertions",
    "exclude",
    "doctest = false",
    "harness",
    "members",
    "moduleNameMapper",
    "modulePathIgnore",
    "norecursedirs",
    "onlyChanged",
    "overflow-checks",
    "passWithNoTests",
    "python_classes",
    "python_files",
    "python_functions",
    "required-features",
    "runTestsByPath",
    "setupFiles",
    "test = false",
    "testMatch",
    "testNamePattern",
    "testPathIgnore",
    "testRegex",
    "testRunner",
    "testpaths",
    "|| :",
    "|| exit 0",
    "workspaces",
    "|| true",
];

/// Stands between the name of a test and the number of its definition, where a file has several of that name.
const AGAIN: &str = " #";

/// One version of a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reading {
    /// The tests by name, with the names of the suites or types around them.
    tests: BTreeMap<String, Block>,
    /// The code of tests that is in no test: helpers, tables, suites.
    outside: Block,
    /// The file holds data and no code.
    is_data: bool,
}

/// The code of one test, without comments.
#[derive(Debug, Default, Eq)]
struct Block {
    /// The first line in the file, from 1.
    first: u32,
    /// Without the blanks around them.
    lines: Vec<String>,
    /// The number of each of these lines in the file.
    numbers: Vec<u32>,
    /// How deep the first line is inside of the file's blocks.
    depth: i32,
    /// How deep each of these lines is inside of conditions, functions and other blocks, counted from the first one.
    depths: Vec<i32>,
    assertions: Vec<(u32, String)>,
    marks: Vec<Mark>,
    /// Numbers, texts and other constants, with how often they occur.
    literals: BTreeMap<String, usize>,
}

/// Two blocks are equal when they have the same code, wherever it is in the file.
impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        self.lines == other.lines && self.depth == other.depth && self.depths == other.depths
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Mark {
    why: Why,
    line: u32,
    text: String,
}

impl Reading {
    fn of(path: &str, text: &str) -> Self {
        let language = Language::of(path, text.as_bytes());
        if source::language(path).is_none() && !is_script(path, text) {
            return Self { is_data: true, ..Self::default() };
        }
        let (lines, depths) = code_lines(path, text);
        let Some(language) = language else {
            return match is_test(path) {
                true => Self { outside: Block::of_script(&lines), ..Self::default() },
                false => Self::default(),
            };
        };
        let parsed = outline(language, path, text.as_bytes(), &|| false);
        let symbols = parsed.map(|parsed| parsed.outline.symbols).unwrap_or_default();
        let tests = tests_of(path, language, &symbols);
        let mut blocks: Vec<(String, Vec<(u32, &str)>)> = vec![];
        // The test of each line: the innermost one.
        let mut owner: Vec<Option<usize>> = vec![None; lines.len() + 1];
        for (at, test) in tests.iter().enumerate() {
            let first = with_attributes(&lines, &symbols, test.first_line);
            for line in first..=test.last_line {
                if let Some(owner) = owner.get_mut(line as usize) {
                    *owner = Some(at);
                }
            }
            blocks.push((full_name(test, &tests), vec![]));
        }
        let around = modules_with_tests(&lines, &symbols, &tests);
        let mut outside = vec![];
        for (number, line) in (1_u32..).zip(&lines) {
            match owner.get(number as usize).copied().flatten().and_then(|at| blocks.get_mut(at)) {
                Some((_, block)) => block.push((number, line.as_str())),
                // A macro of the crate is known to the tests below it, in this file and in others.
                None if is_test(path)
                    || is_example(line)
                    || (line.starts_with("macro_rules!") && words(line).any(is_standard_macro))
                    || around.iter().any(|range| range.contains(&number)) =>
                {
                    outside.push((number, line.as_str()));
                }
                None => {}
            }
        }
        let mut all = BTreeMap::new();
        for (name, lines) in blocks {
            let mut unique = name.clone();
            let mut again = 1;
            while all.contains_key(&unique) {
                again += 1;
                unique = format!("{name}{AGAIN}{again}");
            }
            all.insert(unique, Block::of(&lines, &depths, true));
        }
        // The depth of the first line outside of tests says nothing about the others.
        let outside = Block { depth: 0, ..Block::of(&outside, &depths, false) };
        Self { tests: all, outside, is_data: false }
    }

    /// The names and words in the code of the tests, and the names of what is around them.
    fn words_of_tests(&self) -> BTreeSet<&str> {
        let lines = self.tests.values().flat_map(|test| &test.lines);
        let names = self.tests.keys().flat_map(|name| words(name));
        lines.flat_map(|line| words(line)).chain(names).collect()
    }
}

/// The definitions that a runner collects as tests, outer ones first.
fn tests_of(path: &str, language: Language, symbols: &[Symbol]) -> Vec<Symbol> {
    // pytest collects no tests of a class with a constructor, and `run` of a `TestCase` runs what it likes.
    let takes_over = |symbol: &&Symbol| {
        language == Language::Python
            && ["__init__", "__new__", "__call__", "run"].contains(&symbol.name.as_str())
    };
    let odd_types: BTreeSet<&str> = symbols
        .iter()
        .filter(takes_over)
        .filter_map(|symbol| symbol.container.as_deref())
        .collect();
    let collects = |symbol: &&Symbol| {
        // A configuration of pytest may collect files of other names than the parser knows.
        let of_python = language == Language::Python
            && is_test(path)
            && matches!(symbol.kind, SymbolKind::Function | SymbolKind::Method)
            && symbol.name.starts_with("test");
        let is_odd = symbol.container.as_ref().is_some_and(|of| odd_types.contains(of.as_str()));
        (symbol.kind == SymbolKind::Test || of_python) && !is_odd
    };
    let mut tests: Vec<Symbol> = symbols.iter().filter(collects).cloned().collect();
    tests.sort_by_key(|test| (test.first_line, std::cmp::Reverse(test.last_line)));
    tests
}

/// The name of a test with the names of what is around it.
fn full_name(test: &Symbol, tests: &[Symbol]) -> String {
    let holds = |other: &&Symbol| {
        (other.first_line, other.last_line) != (test.first_line, test.last_line)
            && other.first_line <= test.first_line
            && other.last_line >= test.last_line
    };
    let around = tests.iter().filter(holds).map(|other| other.name.as_str());
    let container = test.container.iter().map(String::as_str);
    let names = container.chain(around).chain([test.name.as_str()]);
    names.collect::<Vec<_>>().join(" > ")
}

/// Returns the first line of the attributes and decorators above a definition, or its own.
fn with_attributes(lines: &[String], symbols: &[Symbol], first: u32) -> u32 {
    let ends: BTreeSet<u32> = symbols.iter().map(|symbol| symbol.last_line).collect();
    let mut begins = first;
    let mut line = first;
    for _ in 0..ABOVE {
        line = line.saturating_sub(1);
        let Some(text) = line.checked_sub(1).and_then(|at| lines.get(at as usize)) else { break };
        if text.is_empty() || ends.contains(&line) {
            break;
        }
        if text.starts_with('@') || text.starts_with("#[") {
            begins = line;
        }
    }
    begins
}

/// The lines of the modules of a source file that hold tests.
fn modules_with_tests(
    lines: &[String],
    symbols: &[Symbol],
    tests: &[Symbol],
) -> Vec<std::ops::RangeInclusive<u32>> {
    let modules = symbols.iter().filter(|symbol| symbol.kind == SymbolKind::Module);
    let holds = |module: &&Symbol| {
        tests
            .iter()
            .any(|test| module.first_line <= test.first_line && test.last_line <= module.last_line)
    };
    let range =
        |module: &Symbol| with_attributes(lines, symbols, module.first_line)..=module.last_line;
    modules.filter(holds).map(range).collect()
}

impl Block {
    /// Reads the lines of a test, or the code outside of tests, in a language with a parser. `depths` are those of all lines of
    /// the file.
    fn of(lines: &[(u32, &str)], depths: &[i32], is_test: bool) -> Self {
        let code: Vec<_> = lines.iter().filter(|(_, line)| !line.is_empty()).copied().collect();
        let depth =
            |number: u32| depths.get((number as usize).wrapping_sub(1)).copied().unwrap_or(0);
        let first = code.first().map_or(0, |(number, _)| *number);
        let mut block = Self {
            first,
            lines: code.iter().map(|(_, line)| (*line).to_owned()).collect(),
            numbers: code.iter().map(|(number, _)| *number).collect(),
            depth: depth(first),
            depths: code.iter().map(|(number, _)| depth(*number) - depth(first)).collect(),
            ..Self::default()
        };
        let mut at = 0;
        while let Some((number, line)) = code.get(at) {
            block.mark(*number, line);
            let follows =
                || code[at + 1..].iter().any(|(_, line)| line.contains(char::is_alphanumeric));
            if is_test && follows() {
                block.mark_end(*number, line, depth(*number) - depth(first));
            }
            block.add_literals(line);
            if !is_match(&ASSERTION, line) {
                at += 1;
                continue;
            }
            let from = match at.checked_sub(1).and_then(|above| code.get(above)) {
                // The condition of an assertion in Go.
                Some((_, above)) if is_condition(above) && !is_match(&ASSERTION, above) => at - 1,
                _ => at,
            };
            let length = statement(&code[at..]);
            let text: Vec<_> = code[from..at + length].iter().map(|(_, line)| *line).collect();
            block.assertions.push((*number, text.join(" ")));
            for (number, line) in &code[at + 1..at + length] {
                block.mark(*number, line);
                block.add_literals(line);
            }
            at += length;
        }
        block
    }

    /// Reads a script, in which each line may decide.
    fn of_script(lines: &[String]) -> Self {
        let lines: Vec<_> = (1_u32..).zip(lines.iter().map(String::as_str)).collect();
        let code = lines.iter().filter(|(_, line)| !line.is_empty());
        let assertions = code.map(|(number, line)| (*number, (*line).to_owned())).collect();
        Self { assertions, literals: BTreeMap::new(), ..Self::of(&lines, &[], false) }
    }

    fn mark(&mut self, line: u32, text: &str) {
        let mut add = |why| self.marks.push(Mark { why, line, text: text.to_owned() });
        (0..skips(text)).for_each(|_| add(Why::TestSkipped));
        if is_build_condition(text) {
            add(Why::Disabled);
        }
        for (why, pattern) in [
            (Why::EarlyReturn, &EARLY_RETURN),
            (Why::Disabled, &DISABLED),
            (Why::FailureCaught, &CAUGHT),
        ] {
            if is_match(pattern, text) {
                add(why);
            }
        }
    }

    /// Marks the end of a test, or of a round of its loops, before its last line. `depth` is that of the line inside of the test:
    /// a deeper return may belong to a function there.
    fn mark_end(&mut self, line: u32, text: &str, depth: i32) {
        let is_inner = || ["=>", "|", "func", "lambda"].iter().any(|inner| text.contains(inner));
        let ends =
            is_match(&ENDS_ROUND, text) || (depth == 1 && is_match(&RETURN, text) && !is_inner());
        if ends && !is_match(&EARLY_RETURN, text) {
            self.marks.push(Mark { why: Why::EarlyReturn, line, text: text.to_owned() });
        }
    }

    fn add_literals(&mut self, line: &str) {
        let imports = ["import ", "from ", "use ", "require", "package ", "#include", "mod "];
        let Some(literal) = LITERAL.as_ref() else { return };
        if imports.iter().any(|word| line.starts_with(word)) || line.contains("require(") {
            return;
        }
        for found in literal.find_iter(line) {
            *self.literals.entry(found.as_str().to_owned()).or_default() += 1;
        }
    }

    /// The constants that this block has more often than the other.
    fn literals_without(&self, other: &Self) -> Vec<&str> {
        let fewer = |(text, count): &(&String, &usize)| {
            other.literals.get(*text).is_none_or(|there| there < *count)
        };
        self.literals.iter().filter(fewer).map(|(text, _)| text.as_str()).collect()
    }

    /// The positions of the lines of the other block that this one lacks; lines of equal text are counted.
    fn new_lines(&self, other: &Self) -> BTreeSet<usize> {
        unmatched(&other.lines, &self.lines)
    }

    /// The assertions that are deeper inside of blocks in the other version, with their lines there.
    fn nested_deeper<'a>(&'a self, other: &'a Self) -> Vec<(u32, &'a str)> {
        let places = |block: &'a Self| {
            block.assertions.iter().map(|(line, text)| {
                let at = block.numbers.binary_search(line).ok();
                let depth = at.and_then(|at| block.depths.get(at)).copied().unwrap_or(0);
                (*line, text.as_str(), depth)
            })
        };
        deeper(places(self), places(other))
    }

    /// Returns the first line that the other version lacks, unless a line there only adds entries to it, or has the name `is`
    /// of the test now in the place of the name `was` that it had.
    fn lost_line(&self, other: &Self, was: &str, is: &str) -> Option<&str> {
        let added: Vec<&String> =
            self.new_lines(other).into_iter().filter_map(|at| other.lines.get(at)).collect();
        let lost = other.new_lines(self).into_iter().filter_map(|at| self.lines.get(at));
        let mut lost = lost.filter(|line| !is_match(&MEANS_NOTHING, line));
        let is_renamed = |line: &str, new: &str| {
            !was.is_empty() && line.contains(was) && line.replacen(was, is, 1) == new
        };
        let goes_on =
            |line: &str| added.iter().any(|new| adds_entries(line, new) || is_renamed(line, new));
        lost.find(|line| !goes_on(line)).map(String::as_str)
    }

    /// Returns the first line that is deeper inside of blocks in the other version, with its number there.
    fn deeper_line<'a>(&'a self, other: &'a Self) -> Option<(u32, &'a str)> {
        let places = |block: &'a Self| {
            let lines = block.numbers.iter().zip(&block.lines).zip(&block.depths);
            lines.map(|((number, line), depth)| (*number, line.as_str(), *depth))
        };
        let found = deeper(places(self), places(other));
        found.into_iter().find(|(_, line)| !is_match(&MEANS_NOTHING, line))
    }

    /// Returns whether lines that both versions have are in another order in the other one.
    fn is_reordered(&self, other: &Self) -> bool {
        let lost = other.new_lines(self);
        let mut kept =
            self.lines.iter().enumerate().filter(|(at, _)| !lost.contains(at)).peekable();
        for line in &other.lines {
            kept.next_if(|(_, old)| *old == line);
        }
        kept.peek().is_some()
    }

    /// Returns whether the attribute or decorator at this place belongs to a suite or a type that was there before.
    fn marks_old_suite(&self, at: usize, new: &BTreeSet<usize>) -> bool {
        let below = (at + 1..self.lines.len()).find(|at| !new.contains(at));
        let line = below.and_then(|at| self.lines.get(at));
        line.is_some_and(|line| is_match(&SUITE_BEGINS, line))
    }

    /// Returns whether the other block is this one, nearly.
    fn is_like(&self, other: &Self) -> bool {
        let shared = other.lines.len() - self.new_lines(other).len();
        200 * shared >= SIMILAR * (self.lines.len() + other.lines.len())
    }
}

/// Returns whether the second line is the first one with more entries of a list. An argument of a call is no entry, and neither
/// is one of a list of what is left out.
fn adds_entries(old: &str, new: &str) -> bool {
    fn parts(line: &str) -> impl Iterator<Item = &str> {
        line.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_')
            .flat_map(|part| match part.char_indices().next_back() {
                Some((at, last)) if at > 0 && !last.is_alphanumeric() && last != '_' => {
                    [&part[..at], &part[at..]]
                }
                _ => [part, ""],
            })
            .map(str::trim)
            .filter(|part| !part.is_empty())
    }
    if new.len() > LONGEST_LINE || is_match(&LEAVES_OUT, new) {
        return false;
    }
    let mut wanted = parts(old).peekable();
    let (mut more, mut is_argument) = (vec![], false);
    let defines = is_match(&FUNCTION, new);
    // For each open bracket, whether it holds the arguments of a call.
    let (mut calls, mut last) = (vec![], "");
    for part in parts(new) {
        match wanted.next_if_eq(&part) {
            Some(_) => {}
            None => {
                more.push(part);
                is_argument |= calls.last() == Some(&true) && !matches!(part, ")" | "]" | "}");
            }
        }
        match part {
            "(" | "[" | "{" => {
                let is_name = last.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '!');
                calls.push(part == "(" && is_name && !defines && !KEYWORDS.contains(&last));
            }
            ")" | "]" | "}" => drop(calls.pop()),
            _ => {}
        }
        last = part;
    }
    // A slice, a call or an operator is no entry.
    let is_entry = |part: &&str| {
        !matches!(*part, ":" | "." | "&" | "|" | "=" | ">" | "<" | "!" | "?" | ";" | "as")
    };
    wanted.peek().is_none() && !is_argument && more.contains(&",") && more.iter().all(is_entry)
}

/// Bytes of a line that is compared word by word.
const LONGEST_LINE: usize = 4_096;

/// The names and numbers in a line, without the keywords of the languages.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let line = &line[..line.floor_char_boundary(LONGEST_LINE)];
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty() && !KEYWORDS.contains(word))
}

const KEYWORDS: &[&str] = &[
    "and", "as", "assert", "async", "await", "bool", "class", "const", "def", "else", "error",
    "export", "fn", "for", "from", "func", "function", "if", "import", "in", "int", "is", "let",
    "mut", "new", "nil", "not", "null", "or", "pub", "return", "self", "static", "string",
    "struct", "switch", "this", "true", "type", "use", "var", "while", "with", "None",
];

/// The names that a line binds: by a definition, with its parameters, by an assignment, an import, a loop or `del`.
fn bound_names(line: &str) -> BTreeSet<&str> {
    let line = &line[..line.floor_char_boundary(LONGEST_LINE)];
    let Some(binds) = BINDS.as_ref() else { return BTreeSet::new() };
    let named = binds.captures_iter(line).flat_map(|found| {
        let groups = found.iter().skip(1).flatten().map(|group| group.as_str());
        groups.flat_map(words).collect::<Vec<_>>()
    });
    // The handle of a test in Go is the parameter of every function there.
    let mut names: BTreeSet<&str> =
        named.filter(|name| !["t", "b", "testing"].contains(name)).collect();
    if is_match(&IMPORTS_ALL, line) {
        names.insert(EVERYTHING);
    }
    if let Some(target) = assigned(line) {
        // What follows a colon is a type.
        let target = target.split_once(": ").map_or(target, |(names, _)| names);
        names.extend(words(target));
    }
    names
}

/// The name that stands for all names in an import.
const EVERYTHING: &str = "*";

/// An import of all names of another place, each of which may be one that tests use.
static IMPORTS_ALL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(r"^(pub )?use .*\*|^from \S+ import \*|^import static .*\*|^(import )?\. \x22")
});

/// The left side of the assignment in a line, if it has one.
fn assigned(line: &str) -> Option<&str> {
    let bytes = line.as_bytes();
    let (mut quote, mut open) = (None, 0);
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (Some(mark), _) if c == mark => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => quote = Some(c),
            (None, '(' | '[') => open += 1,
            (None, ')' | ']') => open -= 1,
            (None, '=') if open == 0 => {
                let next = bytes.get(at + 1).copied().unwrap_or(b' ');
                let before =
                    at.checked_sub(1).and_then(|at| bytes.get(at)).copied().unwrap_or(b' ');
                // Not a comparison or an arrow; `+=` and its like change a value as well.
                if matches!(next, b'=' | b'>') || matches!(before, b'=' | b'!' | b'<' | b'>') {
                    return None;
                }
                return Some(line[..at].trim_end_matches(':'));
            }
            _ => {}
        }
    }
    None
}

/// Returns whether a runner of the language finds tests in a file of this name, by the usual rules. Names of other languages
/// always count.
fn is_collected(path: &str) -> bool {
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let parts: Vec<&str> = directory.split('/').collect();
    if parts.iter().any(|part| IGNORED.contains(part) || part.starts_with('.')) {
        return false;
    }
    let stem = name.split('.').next().unwrap_or(name);
    match source::extension(path) {
        Some("py") => stem.starts_with("test_") || stem.ends_with("_test") || stem == "tests",
        Some("js" | "jsx" | "ts" | "tsx" | "mjs" | "cjs" | "mts" | "cts") => {
            name.contains(".test.") || name.contains(".spec.") || parts.contains(&"__tests__")
        }
        Some("go") => {
            let before = name.strip_suffix("_test.go").unwrap_or_default();
            let system = before.rsplit_once('_').map(|(_, system)| system);
            !before.is_empty()
                && !parts.iter().chain([&before]).any(|part| part.starts_with('_'))
                && system.is_none_or(|system| !SYSTEMS.contains(&system))
        }
        // Cargo builds each file directly below `tests`, and the `main.rs` of a directory there.
        Some("rs") => match parts.iter().rposition(|part| *part == "tests") {
            Some(at) => at + 1 == parts.len() || (at + 2 == parts.len() && name == "main.rs"),
            None => true,
        },
        _ => true,
    }
}

/// Directories in which the usual runners look for no tests.
const IGNORED: [&str; 7] =
    ["build", "dist", "node_modules", "target", "testdata", "vendor", "venv"];
/// Systems and processors for which alone Go builds a file with this end of its name.
const SYSTEMS: [&str; 22] = [
    "aix",
    "amd64",
    "android",
    "arm",
    "arm64",
    "darwin",
    "dragonfly",
    "freebsd",
    "illumos",
    "ios",
    "js",
    "linux",
    "mips",
    "netbsd",
    "openbsd",
    "plan9",
    "ppc64le",
    "riscv64",
    "s390x",
    "solaris",
    "wasm",
    "windows",
];

/// Returns the number of lines of the statement that begins here: until its brackets are closed and no method call follows.
fn statement(lines: &[(u32, &str)]) -> usize {
    let mut open = 0_i32;
    for (at, (_, line)) in lines.iter().enumerate().take(STATEMENT) {
        open += balance(line);
        let goes_on = lines.get(at + 1).is_some_and(|(_, next)| next.starts_with('.'));
        if open <= 0 && !goes_on {
            return at + 1;
        }
    }
    lines.len().clamp(1, STATEMENT)
}

/// Returns how many brackets a line opens more than it closes, outside of texts. A brace opens a block, not a statement.
fn balance(line: &str) -> i32 {
    let (mut open, mut quote, mut escaped) = (0, None, false);
    for c in line.chars() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(mark) if c == mark => quote = None,
            Some(_) => {}
            None => match c {
                '"' | '`' => quote = Some(c),
                '(' | '[' => open += 1,
                ')' | ']' => open -= 1,
                _ => {}
            },
        }
    }
    open
}

fn is_condition(line: &str) -> bool {
    line.starts_with("if ") || line.starts_with("if(") || line.starts_with("} else if")
}

fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

fn is_match(pattern: &LazyLock<Option<Regex>>, line: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(line))
}

/// Calls, macros and statements by which the usual frameworks demand something.
static ASSERTION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?x)
        (^|[^\w.])(debug_)?assert\w*[!.(\ ] | \.assert\w*\( | \bassert\.\w+ | \brequire\.\w+\( | ^require\w*\( |
        (^|[^\w.])expect\w*[(.] | \.should\b | \bpytest\.(raises|warns|fail|approx)\b | \bself\.(fail|assert\w*)\( |
        \b[tbf]\.(Error|Errorf|Fatal|Fatalf|Fail|FailNow)\( | \bcmp\.Diff\( | \breflect\.DeepEqual\( |
        \b(EXPECT|ASSERT|CHECK|REQUIRE|TEST_ASSERT)(_\w+)?\( | \b(cr|ck)_assert\w*\( |
        (^|[^\w])(panic|unreachable)!\( | \bverify\w*\( |
        \bt\.(is|not|true|false|truthy|falsy|equals?|notEquals?|same|deepEquals?|notDeepEqual|like|throws\w*|ok|notOk|regex|snapshot)\(
        ",
    )
});

/// A return without a result, or an exit, by which a test ends before its assertions.
static EARLY_RETURN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?x)
        \breturn\b\s*(;|\}|$|Ok(::<[^>]*>+)?\(\(\)\)|None\b|nil\b|true\b|True\b|0\b|undefined\b|null\b|Promise\.resolve\(|done\(\)) |
        \b(\w+\.Exit|sys\.exit|os\._exit|pytest\.exit|process(\.|::)exit|runtime\.Goexit)\( | (^|[^\w.])exit\s*\( | ^exit\s*\d |
        \b(exitCode|exitstatus)\s*=[^=] | \braise\s+SystemExit\b
        ",
    )
});

/// A return of any value, or `yield`, with which pytest runs nothing of a test.
static RETURN: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"(^|[{:;]\s*)return\b|^yield\b"));

/// The end of a round of a loop, or a jump.
static ENDS_ROUND: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^((el)?if\b.*[:{)]\s*)?(break|continue|goto)\b"));

/// The beginning of a function, or of one without a name.
static DEFINITION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(r"^((pub|async|export|static|default) )*(func|fn|function|def|lambda)\b|=>")
});

/// A condition that never holds, or a condition of the build.
static DISABLED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?x)
        \b(el)?(if|while)\s*\(?\s*(!\s*true|not\s+True|false|False|0)\b | \b(false|False)\s*(&&|and)\b | &&\s*false\b | \band\s+False\b |
        \|\|\s*true\b | \bor\s+True\b | \bcfg!\( | \bwhile\s+False\b
        ",
    )
});

static CAUGHT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"^\s*except\b|\bcatch\s*[({]|\.catch\(|\bsuppress\(|\bcatch_unwind\b|\bshould_panic\b|\brecover\(\)",
    )
});

/// Calls that put something else in the place of a value, a function or a module.
static SUBSTITUTE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?x)
        \bsetattr\b | \bdelattr\b | \bsetitem\b | \bpatch\w*\b | \bmock\w*\b | \bmocker\b | \bspy\w*\b | \bstub\w*\b | \bautouse\b |
        \bsys\.modules\b | \b__(builtins|dict|eq|class)__\b | \bdefineProperty\b | \bexpect\.extend\b | \bproxyquire\b |
        \brewire\b | \bsinon\b | \bexec\b | \beval\b | \bimportlib\b | \b__import__\b | \bctypes\b | \busefixtures\b | \bglobalThis\b | \bglobals\(\) | \bmonkeypatch\b | \b(jest|vi)\.(mock|doMock|spyOn|setMock|stubGlobal)
        ",
    )
});

/// Changes of what surrounds a test: the environment, the places of modules and the working directory decide what the test
/// finds, and name nothing of it.
static SURROUNDINGS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?x)
        \bos\.environ(\[.*\]\s*=[^=]|\.(update|setdefault|pop)\b) | \bputenv\( | \b(t|os)\.(Setenv|Unsetenv|Chdir)\( |
        \bprocess\.env(\.\w+|\[.*\])\s*=[^=] | \b(set|remove)_var\( | \bset_current_dir\( | \bchdir\( | \b(monkeypatch\.)?(set|del)env\( |
        \bsys\.path\b.*(\(|=) | \bsyspath_prepend\( | ^pytestmark\b | \brequire\.cache\b | \bmodule\.paths\b
        ",
    )
});

/// The beginning of a type or a module that holds tests.
static SUITE_BEGINS: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^((pub(\(\w+\))?|export|abstract|final|public) )*(class|mod)\b"));

/// Words of lists of what is not tested.
static LEAVES_OUT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(r"(?i)skip|ignor|exclu|xfail|allow|disabl|known|expected_fail|deselect|omit")
});

fn is_mark(line: &str) -> bool {
    line.starts_with('@') || line.starts_with("#[")
}

/// The macros of Rust's standard library by which tests fail.
fn is_standard_macro(name: &str) -> bool {
    ["assert", "assert_eq", "assert_ne", "debug_assert", "debug_assert_eq", "panic", "unreachable"]
        .contains(&name)
}

/// Attributes and decorators by which a test runs as before.
static HARMLESS_MARK: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?x)
        ^\#\[(\w+::)*(test|rstest|case|values|allow|expect|doc|traced_test)\b |
        ^@(\w+\.)*(asyncio|anyio|Test|ParameterizedTest|ValueSource|CsvSource|MethodSource|DisplayName|Override)\b
        ",
    )
});

/// Definitions with their parameters, imports, loops and deletions. The groups hold the names that they bind.
static BINDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?x)
        \b(?:def|fn|func|function|class|struct|enum|type|mod|trait|macro_rules!|static|const|let|var)\s+(?:mut\s+)?(?:\([^)]*\)\s*)?(\w+)\s*(\([^)]*\))? |
        ^(?:pub\s+)?use\s+(?:[\w:]*::)?(.*)$ | ^import\s+(.*)$ | ^from\s+\S+\s+import\s+(.*)$ | \bas\s+(\w+) |
        ^for\s+\(?(.*?)\s+(?:in|of)\b | ^del\s+(.*)$ | (\([^()]*\))\s*=>
        ",
    )
});

/// The beginning of a definition, an import or an extension of the assertions themselves.
static DEFINES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"^(pub |export |async )*(macro_rules|fn|def|func|function|class|struct|const|let|var|static|type|use|import|from|expect\.extend)\b",
    )
});

/// The beginning of a function with a name.
static FUNCTION: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^(pub |export |async )*(def|fn|func|function)\b"));

/// Lines that may go without a test demanding less: imports, brackets, and calls that only say how a test runs.
static MEANS_NOTHING: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"^(import|from|use|pub use|package|#include)\b|^(const|let|var)\b.*\brequire\(|^\W*$|^t\.(Parallel|Helper|Log|Logf)\(|^(pass$|print\(|println!\(|dbg!\(|console\.log\()|^try\b",
    )
});

/// Returns whether the line is a condition of the build other than that of every test.
fn is_build_condition(text: &str) -> bool {
    let condition = ["#[cfg(", "#![cfg(", "#[cfg_attr(", "#![cfg_attr("];
    condition.iter().any(|begin| text.starts_with(begin)) && !text.starts_with("#[cfg(test)]")
}

static LITERAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r#""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.){0,200}'|`[^`]*`|\b\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?\b|\b(?:true|false|True|False|None|null|nil|undefined)\b"#,
    )
});

static TEST_MODULE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?m)^\s*((?:#\[[^\]]*\]\s*)*#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([a-z]+\))?\s+)?mod\s+\w+\s*;)",
    )
});

/// The declarations, with their attributes, of the modules of tests that other files hold.
fn test_modules(text: &str) -> BTreeSet<String> {
    let Some(module) = TEST_MODULE.as_ref() else { return BTreeSet::new() };
    let declarations = module.captures_iter(text).filter_map(|found| found.get(1));
    let on_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    declarations.map(|found| on_one_line(found.as_str())).collect()
}

/// The entries of one list that the other lacks; entries of equal text are counted.
fn without<'a>(these: &'a [(u32, String)], those: &[(u32, String)]) -> Vec<&'a (u32, String)> {
    let missing = unmatched(these.iter().map(|(_, text)| text), those.iter().map(|(_, text)| text));
    missing.into_iter().filter_map(|at| these.get(at)).collect()
}

/// The positions of the texts of one list that the other lacks; equal texts are counted.
fn unmatched<'a, 'b>(
    these: impl IntoIterator<Item = &'a String>,
    those: impl IntoIterator<Item = &'b String>,
) -> BTreeSet<usize> {
    let mut left = BTreeMap::<&str, usize>::new();
    for text in those {
        *left.entry(text).or_default() += 1;
    }
    let is_missing = |(_, text): &(usize, &String)| match left.get_mut(text.as_str()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    these.into_iter().enumerate().filter(is_missing).map(|(at, _)| at).collect()
}

/// The lines that are deeper now than the line of the same text was before, with their numbers. Equal lines are compared in
/// their order.
fn deeper<'a>(
    before: impl Iterator<Item = (u32, &'a str, i32)>,
    now: impl Iterator<Item = (u32, &'a str, i32)>,
) -> Vec<(u32, &'a str)> {
    let mut depths = BTreeMap::<&str, VecDeque<i32>>::new();
    for (_, text, depth) in before {
        depths.entry(text).or_default().push_back(depth);
    }
    let is_deeper = |(line, text, is): (u32, &'a str, i32)| {
        let was = depths.get_mut(text)?.pop_front()?;
        (is > was).then_some((line, text))
    };
    now.filter_map(is_deeper).collect()
}

/// The part of words that two statements share.
fn likeness(one: &str, other: &str) -> f32 {
    let cut = |text: &str| text[..text.floor_char_boundary(LONGEST_LINE)].to_owned();
    TextDiff::from_words(cut(one), cut(other)).ratio()
}

fn cut(text: &str) -> String {
    shortened(text, DETAIL)
}

fn cut_half(text: &str) -> String {
    shortened(text, DETAIL / 2 - " became ".len())
}

fn shortened(text: &str, most: usize) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match text.len() <= most {
        true => text,
        false => format!("{}…", &text[..text.floor_char_boundary(most - '…'.len_utf8())]),
    }
}

/// Returns whether a file without an extension of a language is a script.
fn is_script(path: &str, text: &str) -> bool {
    let ends = ["bash", "bats", "t", "exp", "robot", "feature"];
    text.starts_with("#!") || source::extension(path).is_some_and(|end| ends.contains(&end))
}

/// Returns whether a file holds what tests expect, outside of the directories of tests.
fn is_snapshot(path: &str) -> bool {
    let name = source::name(path);
    [".snap", ".ambr", ".golden"].iter().any(|end| name.ends_with(end))
        || name.contains(".approved.")
}

/// Returns whether a line of [`code_lines`] is an example inside of a comment or a text that a runner executes.
fn is_example(line: &str) -> bool {
    ["///", "//!", "//=", ">>>"].iter().any(|mark| line.starts_with(mark))
}

/// How the languages write comments and texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    Python,
    Rust,
    Go,
    JavaScript,
    /// C, C++, Java and other languages with `//` and `/*`.
    C,
    /// `#` begins a comment. Each line of such a file counts, so texts over several lines do not matter.
    Hash,
}

impl Syntax {
    fn of(path: &str) -> Self {
        match source::language(path) {
            Some("Python") => Self::Python,
            Some("Rust") => Self::Rust,
            Some("Go") => Self::Go,
            Some("JavaScript" | "TypeScript") => Self::JavaScript,
            Some("Ruby" | "Shell" | "Perl" | "Elixir") | None => Self::Hash,
            Some(_) => Self::C,
        }
    }

    /// The end of the text that begins here, with the length of its beginning; `None` where none begins. A text that ends with
    /// its line has the end `"\n"` as well.
    fn text(self, rest: &str) -> Option<(usize, Text)> {
        let c = rest.chars().next()?;
        let text = |length: usize, end: &str, escapes: bool, lines: bool| {
            Some((length, Text { end: end.to_owned(), escapes, lines }))
        };
        match (self, c) {
            (Self::Python | Self::C, '"') if rest.starts_with("\"\"\"") => {
                text(3, "\"\"\"", true, true)
            }
            (Self::Python, '\'') if rest.starts_with("'''") => text(3, "'''", true, true),
            (Self::Rust, 'r') => {
                let hashes = rest[1..].chars().take_while(|c| *c == '#').count();
                let begins = rest[1 + hashes..].starts_with('"');
                begins.then(|| {
                    let end = format!("\"{}", "#".repeat(hashes));
                    (hashes + 2, Text { end, escapes: false, lines: true })
                })
            }
            (Self::Rust, '"') => text(1, "\"", true, true),
            (Self::Go, '`') => text(1, "`", false, true),
            (Self::JavaScript, '`') => text(1, "`", true, true),
            (_, '"') => text(1, "\"", true, false),
            (Self::Python | Self::JavaScript, '\'') => text(1, "'", true, false),
            // A character, and no lifetime.
            (Self::Rust | Self::Go | Self::C, '\'') => {
                let is_one = rest[1..].starts_with('\\')
                    || rest[1..].char_indices().nth(1).is_some_and(|(_, next)| next == '\'');
                if is_one { text(1, "'", true, false) } else { None }
            }
            _ => None,
        }
    }
}

/// A text in quotes, of which the end was not read yet.
#[derive(Debug, Clone)]
struct Text {
    end: String,
    /// A backslash takes its meaning from what follows.
    escapes: bool,
    /// The text may go on in the next line.
    lines: bool,
}

/// Reads the lines of a file one after the other, with what is open at the end of each.
struct Scanner {
    syntax: Syntax,
    /// Comments that are open; only Rust has comments inside of comments.
    comments: usize,
    /// The text that is open, with the position of the line where it begins.
    text: Option<(usize, Text)>,
    /// Braces that are open.
    open: i32,
    lines: Vec<String>,
    depths: Vec<i32>,
}

impl Scanner {
    fn line(&mut self, line: &str) {
        let at = self.lines.len();
        self.lines.push(String::new());
        // Braces with which the line begins count as closed.
        let begin = line.trim_start().chars();
        let begin = begin.take_while(|c| matches!(c, '}' | ')' | ']' | ';' | ','));
        let closed = begin.filter(|c| *c == '}').count();
        let closed = if self.comments > 0 || self.text.is_some() { 0 } else { closed };
        self.depths.push(self.open - i32::try_from(closed).unwrap_or(i32::MAX));
        let mut code = String::new();
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            let mut length = c.len_utf8();
            if self.comments > 0 {
                if rest.starts_with("*/") {
                    (self.comments, length) = (self.comments - 1, 2);
                } else if rest.starts_with("/*") && self.syntax == Syntax::Rust {
                    (self.comments, length) = (self.comments + 1, 2);
                }
            } else if let Some((_, text)) = &self.text {
                if text.escapes && c == '\\' {
                    length += rest[1..].chars().next().map_or(0, char::len_utf8);
                } else if rest.starts_with(&text.end) {
                    length = text.end.len();
                    code.push_str(&rest[..length]);
                    self.close(&mut code);
                    rest = &rest[length..];
                    continue;
                }
                code.push_str(&rest[..length]);
            } else if self.comment_begins(rest, &code) {
                break;
            } else if rest.starts_with("/*")
                && !matches!(self.syntax, Syntax::Python | Syntax::Hash)
            {
                (self.comments, length) = (1, 2);
            } else if let Some(skipped) = self.expression(rest, &code) {
                code.push_str(&rest[..skipped]);
                length = skipped;
            } else {
                let joins = |c: char| c.is_alphanumeric() || c == '_';
                // `br` begins a text as well, and the `r` of `bar` does not.
                let is_word = code.strip_suffix('b').unwrap_or(&code).ends_with(joins);
                let begins = self.syntax.text(rest).filter(|_| c != 'r' || !is_word);
                match (begins, c) {
                    (Some((skipped, text)), _) => {
                        self.text = Some((at, text));
                        length = skipped;
                    }
                    (None, '{') => self.open += 1,
                    (None, '}') => self.open -= 1,
                    (None, _) => {}
                }
                code.push_str(&rest[..length]);
            }
            rest = &rest[length..];
        }
        match &self.text {
            Some((_, text)) if !text.lines => self.text = None,
            _ => {}
        }
        self.add(&code);
        if self.text.is_some() {
            self.add(" ");
        }
    }

    /// Ends a text. The line where it began has all of it, and the last line has the code after it.
    fn close(&mut self, code: &mut String) {
        let Some((begun, _)) = self.text.take() else { return };
        if begun + 1 < self.lines.len()
            && let Some(line) = self.lines.get_mut(begun)
        {
            line.push_str(code);
            code.clear();
        }
    }

    /// Adds code to the line that is read, or to that where the open text begins.
    fn add(&mut self, code: &str) {
        let last = self.lines.len() - 1;
        let at = self.text.as_ref().map_or(last, |(begun, _)| *begun);
        if let Some(line) = self.lines.get_mut(at) {
            line.push_str(code);
        }
    }

    /// Returns whether the rest of a line is a comment that nothing reads.
    fn comment_begins(&self, rest: &str, code: &str) -> bool {
        match self.syntax {
            Syntax::Hash => rest.starts_with('#') && code.trim().is_empty(),
            Syntax::Python => rest.starts_with('#'),
            _ => {
                let is_tag = code.trim().is_empty()
                    && (rest.starts_with("//go:build") || rest.starts_with("// +build"));
                rest.starts_with("//") && !is_tag
            }
        }
    }

    /// Returns the length of the regular expression of JavaScript that begins here: it may hold quotes and `/*`.
    fn expression(&self, rest: &str, code: &str) -> Option<usize> {
        let before = code.trim_end();
        let may_begin = before.is_empty()
            || before.ends_with(['(', ',', '=', ':', '[', '!', '&', '|', '?', '{', '}', ';'])
            || before.ends_with("return");
        if self.syntax != Syntax::JavaScript || !rest.starts_with('/') || !may_begin {
            return None;
        }
        let (mut escaped, mut in_class) = (false, false);
        for (at, c) in rest.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '[' => in_class = true,
                ']' => in_class = false,
                '/' if !in_class => return Some(at + 1),
                _ => {}
            }
        }
        None
    }
}

/// The lines of a file without comments and the blanks around them, and how deep each is inside of blocks. A text over several
/// lines is in the line where it begins: quotes around lines of code take them out of a test.
fn code_lines(path: &str, text: &str) -> (Vec<String>, Vec<i32>) {
    let syntax = Syntax::of(path);
    let mut scanner =
        Scanner { syntax, comments: 0, text: None, open: 0, lines: vec![], depths: vec![] };
    text.lines().for_each(|line| scanner.line(line));
    let Scanner { mut lines, depths, .. } = scanner;
    for line in &mut lines {
        // A text that is a whole statement is documentation.
        let is_documentation = syntax == Syntax::Python
            && (line.trim_start().starts_with("\"\"\"") || line.trim_start().starts_with("'''"));
        *line = if is_documentation { String::new() } else { line.trim().to_owned() };
    }
    let depths = if syntax == Syntax::Python { by_indentation(text, &lines) } else { depths };
    for (at, example) in examples(syntax, text) {
        if let Some(line) = lines.get_mut(at).filter(|line| line.is_empty()) {
            *line = example;
        }
    }
    (lines, depths)
}

/// The lines of examples in comments that a runner executes, with their positions: Rust's documentation tests, doctest of Python,
/// and the output that an example of Go has.
fn examples(syntax: Syntax, text: &str) -> Vec<(usize, String)> {
    let (mut found, mut inside, mut runs) = (vec![], false, true);
    for (at, line) in text.lines().map(str::trim).enumerate() {
        match syntax {
            Syntax::Rust => {
                let begin = line.get(..3).filter(|begin| ["///", "//!"].contains(begin));
                let Some(begin) = begin else {
                    inside = false;
                    continue;
                };
                let content = line[3..].trim();
                if let Some(kind) = content.strip_prefix("```") {
                    inside = !inside;
                    let other = |word: &str| {
                        !["", "rust", "should_panic", "no_run", "compile_fail"].contains(&word)
                            && !word.starts_with("edition")
                    };
                    runs = !kind.split([',', ' ']).any(other);
                    if inside && runs {
                        found.push((at, format!("{begin} {content}")));
                    }
                } else if inside && runs && !content.is_empty() {
                    found.push((at, format!("{begin} {content}")));
                }
            }
            Syntax::Python => {
                let begins = line.starts_with(">>>");
                inside = begins || (inside && !line.is_empty() && !line.contains("\"\"\""));
                if inside {
                    found.push((at, if begins { line.to_owned() } else { format!(">>> {line}") }));
                }
            }
            Syntax::Go => {
                let comment = line.strip_prefix("//").map(str::trim);
                let begins = comment.is_some_and(|comment| {
                    let comment = comment.to_lowercase();
                    comment.starts_with("output:") || comment.starts_with("unordered output:")
                });
                inside = begins || (inside && comment.is_some());
                if inside {
                    found.push((at, format!("//= {}", comment.unwrap_or_default())));
                }
            }
            _ => {}
        }
    }
    found
}

/// How deep each line of Python is, whatever the width of an indentation.
fn by_indentation(text: &str, lines: &[String]) -> Vec<i32> {
    let mut around: Vec<usize> = vec![];
    let depth = |(line, code): (&str, &String)| {
        if !code.is_empty() {
            let width = line.chars().take_while(|c| c.is_whitespace());
            let width = width.map(|c| if c == '\t' { 8 } else { 1 }).sum();
            while around.last().is_some_and(|outer| *outer >= width) {
                around.pop();
            }
            around.push(width);
        }
        i32::try_from(around.len()).unwrap_or(i32::MAX)
    };
    text.lines().zip(lines).map(depth).collect()
}

/// Counts the marks that skip tests or narrow a run to some of them. The user only gets a hint, so a wrong mark does no harm.
fn skips(text: &str) -> usize {
    const MARKS: [&str; 36] = [
        "mark.skip",
        "mark.xfail",
        "pytest.skip",
        "pytest.xfail",
        "importorskip",
        "unittest.skip",
        "@skip(",
        "@skipIf(",
        "@skipUnless(",
        "self.skipTest(",
        "SkipTest",
        "expectedFailure",
        "collect_ignore",
        "this.skip()",
        "t.skip(",
        "skip: true",
        "skip:true",
        "xit(",
        "xtest(",
        "xdescribe(",
        "fit(",
        "fdescribe(",
        "#[ignore",
        "#[cfg(any())]",
        "//go:build",
        "// +build",
        "@Disabled",
        "@Ignore",
        "GTEST_SKIP",
        "DISABLED_",
        "only: true",
        "__test__",
        "def load_tests(",
        "func TestMain(",
        "func init(",
        "jest.retryTimes(",
    ];
    // `exit(` contains `xit(`, and `model.fit(` contains `fit(`.
    let whole = |mark: &str, at: usize| {
        let joins = |c: char| {
            c.is_alphanumeric()
                || c == '_'
                || (c == '.' && mark.ends_with('(') && !mark.contains('.'))
        };
        !text[..at].ends_with(joins)
    };
    let count = |mark: &&str| text.match_indices(*mark).filter(|(at, _)| whole(mark, *at)).count();
    let narrowed = NARROWED.as_ref().map_or(0, |narrowed| narrowed.find_iter(text).count());
    MARKS.iter().map(count).sum::<usize>() + narrowed
}

/// Tests and suites of JavaScript that do not run, are expected to fail, run alone or again: `it.skip`, `test.only.each`; calls
/// of Go and of pytest under any name of their handle: `tb.Skip()`, `skip('x')`.
static NARROWED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?x)
        \b(?:it|test|describe|suite|context|specify|bench)(?:\.\w+)*?\.(?:skip|only|todo|fixme|failing|fails|fail|skipIf|runIf)\b |
        \.Skip(?:f|Now)?\( | (?:^|[^\w.@])skip(?:if|If|_if)?\( | \bimport\b.*\b(?:skip|xfail|importorskip)\b |
        \bretr(?:y|ies)\s*[:=(]\s*\d
        ",
    )
});

#[cfg(test)]
mod tests {
    use super::*;

    fn change<'a>(path: &'a str, before: Option<&'a str>, now: Option<&'a str>) -> FileChange<'a> {
        // A text is its own digest here.
        let (sha256_before, sha256_now) = (before, now);
        FileChange { path, sha256_before, sha256_now, text_before: before, text_now: now }
    }

    fn weakened(changes: &[FileChange<'_>]) -> Vec<String> {
        let found = TestReader::default().weakened(changes);
        found.iter().map(ToString::to_string).collect()
    }

    fn one(path: &str, before: &str, now: &str) -> Vec<String> {
        weakened(&[change(path, Some(before), Some(now))])
    }

    const PYTHON: &str = "import pytest\nfrom shop import total\n\nCASES = [(1, 2), (3, 4)]\n\n\ndef test_total():\n    \
                          cart = [1, 2]\n    assert total(cart) == 3\n    assert total([]) == 0\n\n\n\
                          @pytest.mark.parametrize(\n    'a, b',\n    [(1, 2), (5, 6)],\n)\ndef test_pairs(a, b):\n    \
                          assert a + 1 == pytest.approx(b, abs=0.01)\n";

    // VERIFIER-40
    #[test]
    fn tests_of_pytest_that_demand_less_are_named_with_their_place() {
        let path = "tests/test_shop.py";
        let edited = |old: &str, new: &str| {
            assert!(PYTHON.contains(old), "{old}");
            one(path, PYTHON, &PYTHON.replacen(old, new, 1))
        };
        for (old, new, expected) in [
            (
                "    assert total([]) == 0\n",
                "",
                "tests/test_shop.py:7 test_total (assertion_removed): assert total([]) == 0",
            ),
            (
                "    assert total([]) == 0\n",
                "    # assert total([]) == 0\n",
                "tests/test_shop.py:7 test_total (assertion_removed): assert total([]) == 0",
            ),
            (
                "== 3",
                ">= 0",
                "tests/test_shop.py:9 test_total (assertion_changed): assert total(cart) == 3 became assert total(cart) >= 0",
            ),
            (
                "abs=0.01",
                "abs=100",
                "tests/test_shop.py:18 test_pairs (assertion_changed): assert a + 1 == pytest.approx(b, abs=0.01) \
                 became assert a + 1 == pytest.approx(b, abs=100)",
            ),
            (
                "def test_total",
                "@pytest.mark.skip(reason='slow')\ndef test_total",
                "tests/test_shop.py:7 test_total (test_skipped): @pytest.mark.skip(reason='slow')",
            ),
            (
                "def test_total",
                "@pytest.mark.xfail\ndef test_total",
                "tests/test_shop.py:7 test_total (test_skipped): @pytest.mark.xfail",
            ),
            (
                "    cart = [1, 2]\n",
                "    cart = [1, 2]\n    return\n",
                "tests/test_shop.py:9 test_total (early_return): return",
            ),
            (
                "    assert total(cart)",
                "    if False:\n        assert total(cart)",
                "tests/test_shop.py:9 test_total (test_disabled): if False:",
            ),
            ("def test_pairs", "def check_pairs", "tests/test_shop.py test_pairs (tests_removed)"),
            (
                "[(1, 2), (5, 6)]",
                "[(1, 2)]",
                "tests/test_shop.py:13 test_pairs (expectation_changed): no longer there: 5, 6",
            ),
            (
                "CASES = [(1, 2), (3, 4)]",
                "CASES = [(1, 2)]",
                "tests/test_shop.py:1 (expectation_changed): no longer there: 3, 4",
            ),
        ] {
            let found = edited(old, new);
            assert!(found.iter().any(|text| text == expected), "{old} {new}: {found:#?}");
        }
        let caught = PYTHON.replace(
            "    assert total(cart) == 3\n",
            "    try:\n        assert total(cart) == 3\n    except AssertionError:\n        pass\n",
        );
        let found = one(path, PYTHON, &caught);
        assert_eq!(
            found,
            ["tests/test_shop.py:11 test_total (failure_caught): except AssertionError:"]
        );
        // Code that became a text runs no more.
        let quoted = PYTHON.replace(
            "    assert total(cart) == 3\n    assert total([]) == 0\n",
            "    \"\"\"\n    assert total(cart) == 3\n    assert total([]) == 0\n    \"\"\"\n",
        );
        assert_eq!(one(path, PYTHON, &quoted).len(), 2);
        assert_eq!(
            weakened(&[change(path, Some(PYTHON), None)]),
            ["tests/test_shop.py (test_deleted)"]
        );
    }

    // VERIFIER-40
    #[test]
    fn what_adds_to_tests_or_moves_them_is_not_named() {
        let path = "tests/test_shop.py";
        for (old, new) in [
            (
                "    assert total([]) == 0\n",
                "    assert total([]) == 0\n    assert total([7]) == 7\n",
            ),
            ("@pytest", "def test_more():\n    assert total([9]) == 9\n\n\n@pytest"),
            ("def test_total", "def test_sum_of_a_cart"),
            ("    cart = [1, 2]\n", "\n    # a cart\n    cart = [1, 2]\n"),
            ("(5, 6)]", "(5, 6), (7, 8)]"),
        ] {
            assert!(PYTHON.contains(old), "{old}");
            let found = one(path, PYTHON, &PYTHON.replacen(old, new, 1));
            assert_eq!(found, [""; 0], "{old}");
        }
        assert_eq!(weakened(&[change(path, None, Some(PYTHON))]), [""; 0]);
        let moved = [
            change(path, Some(PYTHON), None),
            change("tests/unit/test_shop.py", None, Some(PYTHON)),
        ];
        assert_eq!(weakened(&moved), [""; 0]);
        let hidden =
            [change(path, Some(PYTHON), None), change("tests/shop_old.txt", None, Some(PYTHON))];
        assert_eq!(weakened(&hidden), ["tests/test_shop.py (test_deleted)"]);
        assert_eq!(one("src/shop.py", "LIMIT = 3\n", "LIMIT = 4\n"), [""; 0]);
    }

    const RUST: &str = "pub fn double(n: u8) -> u8 { n * 2 }\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    \
                        #[test]\n    fn doubles() -> Result<(), ()> {\n        assert_eq!(\n            double(2),\n            4,\n        \
                        );\n        assert!(double(0) == 0);\n        Ok(())\n    }\n}\n";

    // VERIFIER-40
    #[test]
    fn tests_inside_of_rust_that_demand_less_are_named() {
        let path = "src/lib.rs";
        for (old, new, expected) in [
            (
                "        assert_eq!(",
                "        return Ok(());\n        assert_eq!(",
                "src/lib.rs:9 tests > doubles (early_return): return Ok(());",
            ),
            (
                "    #[test]\n",
                "    #[test]\n    #[ignore]\n",
                "src/lib.rs:8 tests > doubles (test_skipped): #[ignore]",
            ),
            ("    #[test]\n", "", "src/lib.rs tests > doubles (tests_removed)"),
            (
                "            4,\n",
                "            5,\n",
                "src/lib.rs:9 tests > doubles (assertion_changed): assert_eq!( double(2), 4, ); became assert_eq!( double(2), 5, );",
            ),
            (
                "        assert!(double(0) == 0);\n",
                "",
                "src/lib.rs:7 tests > doubles (assertion_removed): assert!(double(0) == 0);",
            ),
            ("#[cfg(test)]", "#[cfg(any())]", "src/lib.rs:3 (test_disabled): #[cfg(any())]"),
            (
                "    #[test]\n",
                "    #[test]\n    #[should_panic]\n",
                "src/lib.rs:8 tests > doubles (failure_caught): #[should_panic]",
            ),
        ] {
            assert!(RUST.contains(old), "{old}");
            let found = one(path, RUST, &RUST.replacen(old, new, 1));
            assert!(found.iter().any(|text| text == expected), "{old}: {found:#?}");
        }
        assert_eq!(one(path, RUST, &RUST.replace("n * 2", "n << 1")), [""; 0]);
        let declares = "#[cfg(test)]\nmod tests;\n";
        assert_eq!(
            one(path, declares, "\n"),
            ["src/lib.rs (tests_excluded): removed: #[cfg(test)] mod tests;"]
        );
        let reader = TestReader::default();
        let touches = |now: &str| reader.touches_tests(&change(path, Some(RUST), Some(now)));
        assert!(touches(&RUST.replace("4,", "5,")));
        assert!(!touches(&RUST.replace("n * 2", "n << 1")));
    }

    const JEST: &str = "const { total } = require('./shop');\n\ndescribe('shop', () => {\n  it('adds', () => {\n    \
                        expect(total([1, 2]))\n      .toBe(3);\n  });\n  test('is close', () => {\n    \
                        expect(total([0.1])).toBeCloseTo(0.1, 5);\n  });\n});\n";

    // VERIFIER-40
    #[test]
    fn tests_of_javascript_that_demand_less_are_named() {
        let path = "src/shop.test.js";
        for (old, new, expected) in [
            (
                "it('adds'",
                "it.only('adds'",
                "src/shop.test.js:4 shop > adds (test_skipped): it.only('adds', () => {",
            ),
            (
                "it('adds'",
                "it.skip('adds'",
                "src/shop.test.js:4 shop > adds (test_skipped): it.skip('adds', () => {",
            ),
            (
                "describe('",
                "xdescribe('",
                "src/shop.test.js:3 (test_skipped): xdescribe('shop', () => {",
            ),
            (
                "toBe(3)",
                "toBeDefined()",
                "src/shop.test.js:5 shop > adds (assertion_changed): expect(total([1, 2])) .toBe(3); became \
                 expect(total([1, 2])) .toBeDefined();",
            ),
            (
                "0.1, 5",
                "0.1, 0",
                "src/shop.test.js:9 shop > is close (assertion_changed): expect(total([0.1])).toBeCloseTo(0.1, 5); became \
                 expect(total([0.1])).toBeCloseTo(0.1, 0);",
            ),
            (
                "    expect(total([0.1])",
                "    return;\n    expect(total([0.1])",
                "src/shop.test.js:9 shop > is close (early_return): return;",
            ),
            (
                "test('is close'",
                "check('is close'",
                "src/shop.test.js shop > is close (tests_removed)",
            ),
        ] {
            assert!(JEST.contains(old), "{old}");
            let found = one(path, JEST, &JEST.replacen(old, new, 1));
            assert!(found.iter().any(|text| text == expected), "{old}: {found:#?}");
        }
    }

    const GO: &str = "package shop\n\nimport \"testing\"\n\nfunc TestTotal(t *testing.T) {\n\tfor _, c := range []struct{ in, want int }{\n\t\t\
                      {1, 2},\n\t\t{3, 4},\n\t} {\n\t\tif got := Total(c.in); got != c.want {\n\t\t\tt.Errorf(\"got %d\", got)\n\t\t}\n\t}\n}\n";

    // VERIFIER-40
    #[test]
    fn tests_of_go_that_demand_less_are_named() {
        let path = "shop_test.go";
        for (old, new, expected) in [
            ("\tfor _", "\tt.Skip()\n\tfor _", "shop_test.go:6 TestTotal (test_skipped): t.Skip()"),
            ("\tfor _", "\treturn\n\tfor _", "shop_test.go:6 TestTotal (early_return): return"),
            ("TestTotal", "testTotal", "shop_test.go TestTotal (tests_removed)"),
            (
                "got != c.want",
                "got == 0",
                "shop_test.go:11 TestTotal (assertion_changed): if got := Total(c.in); got != c.want { t.Errorf(\"got %d\", got) \
                 became if got := Total(c.in); got == 0 { t.Errorf(\"got %d\", got)",
            ),
            (
                "\t\t{3, 4},\n",
                "",
                "shop_test.go:5 TestTotal (expectation_changed): no longer there: 3, 4",
            ),
            (
                "package shop",
                "//go:build ignore\n\npackage shop",
                "shop_test.go:1 (test_skipped): //go:build ignore",
            ),
        ] {
            assert!(GO.contains(old), "{old}");
            let found = one(path, GO, &GO.replacen(old, new, 1));
            assert!(found.iter().any(|text| text == expected), "{old}: {found:#?}");
        }
    }

    // VERIFIER-40
    #[test]
    fn fixtures_scripts_and_configurations_count_as_tests() {
        for (path, before, now, expected) in [
            (
                "tests/data/prices.json",
                "{\"a\": 1}\n",
                "{\"a\": 2}\n",
                "tests/data/prices.json (fixture_changed)",
            ),
            ("pkg/testdata/out.golden", "1\n", "2\n", "pkg/testdata/out.golden (fixture_changed)"),
            (
                "src/__snapshots__/a.snap",
                "1\n",
                "2\n",
                "src/__snapshots__/a.snap (fixture_changed)",
            ),
            (
                "tests/helpers.py",
                "def check(x):\n    assert x == 1\n",
                "def check(x):\n    pass\n",
                "tests/helpers.py:1 (assertion_removed): assert x == 1",
            ),
            (
                "tests/run.sh",
                "#!/bin/sh\nset -e\ngrep -qx right answer.txt\n",
                "#!/bin/sh\nset -e\ntrue\n",
                "tests/run.sh:3 (assertion_changed): grep -qx right answer.txt became true",
            ),
            (
                "pytest.ini",
                "[pytest]\n",
                "[pytest]\naddopts = --ignore=tests/test_slow.py\n",
                "pytest.ini:2 (tests_excluded): addopts = --ignore=tests/test_slow.py",
            ),
            (
                "package.json",
                "{\"jest\": {}}\n",
                "{\n\"jest\": {\n\"testPathIgnorePatterns\": [\"a\"]}}\n",
                "package.json:3 (tests_excluded): \"testPathIgnorePatterns\": [\"a\"]}}",
            ),
            (
                "Cargo.toml",
                "[lib]\n",
                "[lib]\ntest = false\n",
                "Cargo.toml:2 (tests_excluded): test = false",
            ),
            (
                "conftest.py",
                "\n",
                "collect_ignore = ['tests/test_a.py']\n",
                "conftest.py:1 (tests_excluded): collect_ignore = ['tests/test_a.py']",
            ),
        ] {
            let found = one(path, before, now);
            assert!(found.iter().any(|text| text == expected), "{path}: {found:#?}");
        }
        assert_eq!(
            weakened(&[change("tests/data/prices.json", Some("1"), None)]),
            ["tests/data/prices.json (fixture_changed): the file is gone"]
        );
        assert_eq!(weakened(&[change("tests/data/new.json", None, Some("1"))]), [""; 0]);
        assert_eq!(one("Makefile", "all:\n", "all:\n\tgrep x y\n"), [""; 0]);
        assert_eq!(one("src/data.json", "1", "2"), [""; 0]);
    }

    // VERIFIER-40
    #[test]
    fn a_hostile_file_costs_bounded_time_and_gives_a_bounded_list() {
        let began = std::time::Instant::now();
        let many: String =
            (0..6_000).map(|n| format!("def test_{n}():\n    assert f({n}) == {n}\n\n")).collect();
        let found = one("tests/test_a.py", &many, &many.replace("assert", "print"));
        assert_eq!(found.len(), IN_ONE_FILE);
        let deep = format!("def test_a():\n    assert {}\n", "(".repeat(200_000));
        one("tests/test_a.py", &deep, &deep.replace("test_a", "test_b"));
        let long = format!("def test_a():\n    assert x == '{}'\n", "\u{1b}[31m€".repeat(20_000));
        let found = one("tests/test_a.py", &long, "def test_a():\n    pass\n");
        assert!(found[0].len() < 400 && !found[0].contains('\u{1b}'), "{found:?}");
        let gone: String = (0..2_000).map(|n| format!("def test_{n}():\n    x{n}()\n\n")).collect();
        let new: String = (0..2_000).map(|n| format!("def test_n{n}():\n    y{n}()\n\n")).collect();
        one("tests/test_a.py", &gone, &new);
        // It takes seconds on a busy machine; a cost that grows with the square of the file takes hours.
        assert!(began.elapsed() < std::time::Duration::from_secs(300), "{:?}", began.elapsed());
    }

    /// An edit of a test, and the kind under which it is named.
    type Attack = (&'static str, &'static str, &'static str, Why);

    #[track_caller]
    fn are_named(path: &str, text: &str, attacks: &[Attack]) {
        let mut unseen = vec![];
        for (name, old, new, why) in attacks {
            assert!(text.contains(old), "{name}: {old}");
            let now = text.replacen(old, new, 1);
            let found = TestReader::default().weakened(&[change(path, Some(text), Some(&now))]);
            if !found.iter().any(|one| one.why == *why) {
                unseen.push(format!("{name} ({why:?}): {found:?}"));
            }
        }
        assert!(unseen.is_empty(), "{}", unseen.join("\n"));
    }

    const SUITE: &str = "import pytest\nfrom shop import half\n\nCASES = [(4, 2)]\n\n\nclass TestShop:\n    def test_half(self):\n        \
                         cart = make()\n        assert half(4) == 2\n        for a, b in CASES:\n            assert half(a) == b\n\n\n\
                         @pytest.mark.parametrize('a', [0])\ndef test_zero(a):\n    assert half(a) == 0\n";

    // VERIFIER-40
    #[test]
    fn attacks_on_tests_of_pytest_are_named() {
        use Why::*;
        are_named(
            "tests/test_shop.py",
            SUITE,
            &[
                (
                    "importorskip",
                    "CASES =",
                    "nothing = pytest.importorskip('nothing')\nCASES =",
                    TestSkipped,
                ),
                (
                    "skipUnless",
                    "class TestShop",
                    "@unittest.skipUnless(X, 'x')\nclass TestShop",
                    TestSkipped,
                ),
                (
                    "patched",
                    "        cart = make()",
                    "        monkeypatch.setattr('shop.half', lambda n: n // 2)\n        cart = make()",
                    SubjectReplaced,
                ),
                ("fixture", "test_half(self)", "test_half(self, half)", SubjectReplaced),
                (
                    "shadowed",
                    "        assert half(4)",
                    "        half = lambda n: 2\n        assert half(4)",
                    SubjectReplaced,
                ),
                ("imported", "from shop import half", "from fakes import half", SubjectReplaced),
                ("imported as", "CASES =", "import fakes as half\nCASES =", SubjectReplaced),
                ("or True", "== 2\n", "== 2 or True\n", AssertionChanged),
                (
                    "passed over",
                    "        assert half(4) == 2\n",
                    "        try:\n            assert half(4) == 2\n        except Exception:\n            pass\n",
                    FailureCaught,
                ),
                (
                    "expected to fail",
                    "        assert half(4) == 2\n",
                    "        with pytest.raises(AssertionError):\n            assert half(4) == 2\n",
                    AssertionNested,
                ),
                (
                    "suppressed",
                    "        assert half(4) == 2\n",
                    "        with suppress(AssertionError):\n            assert half(4) == 2\n",
                    FailureCaught,
                ),
                (
                    "condition",
                    "        assert half(4) == 2\n",
                    "        if os.environ.get('FULL'):\n            assert half(4) == 2\n",
                    AssertionChanged,
                ),
                (
                    "empty loop",
                    "        assert half(4) == 2\n",
                    "        for _ in []:\n            assert half(4) == 2\n",
                    AssertionNested,
                ),
                (
                    "never called",
                    "        assert half(4) == 2\n",
                    "        def check():\n            assert half(4) == 2\n",
                    AssertionNested,
                ),
                ("no cases", "in CASES:", "in CASES[:0]:", SubjectReplaced),
                ("no parameters", "[0])", "[])", ExpectationChanged),
                (
                    "if False",
                    "        assert half(4) == 2\n",
                    "        if False:\n            assert half(4) == 2\n",
                    Disabled,
                ),
                ("decorated", "    def test_half", "    @never\n    def test_half", Disabled),
                ("flaky", "def test_zero", "@pytest.mark.flaky(reruns=5)\ndef test_zero", Disabled),
                (
                    "set to none",
                    "@pytest.mark.parametrize",
                    "TestShop.test_half = None\n\n\n@pytest.mark.parametrize",
                    SubjectReplaced,
                ),
                (
                    "deleted",
                    "    assert half(a) == 0\n",
                    "    assert half(a) == 0\n\n\ndel TestShop\n",
                    SubjectReplaced,
                ),
                (
                    "__test__",
                    "    def test_half",
                    "    __test__ = False\n\n    def test_half",
                    TestSkipped,
                ),
                ("no suite", "class TestShop", "class ShopChecks", TestsRemoved),
                (
                    "defined twice",
                    "    assert half(a) == 0\n",
                    "    assert half(a) == 0\n\n\ndef test_zero():\n    pass\n",
                    TestsRemoved,
                ),
                (
                    "inner function",
                    "@pytest.mark.parametrize('a', [0])\ndef test_zero(a):\n    assert half(a) == 0\n",
                    "def later():\n    def test_zero(a):\n        assert half(a) == 0\n",
                    TestsRemoved,
                ),
                ("set-up", "cart = make()", "cart = None", TestChanged),
                (
                    "exit",
                    "        cart = make()\n",
                    "        pytest.exit('enough', returncode=0)\n        cart = make()\n",
                    EarlyReturn,
                ),
            ],
        );
    }

    const SPEC: &str = "const { half } = require('./shop');\n\nit('halves', async () => {\n  const cart = make();\n  expect(half(4)).toBe(2);\n  \
                        await expect(later(half)).resolves.toBe(2);\n});\n\nit.each([[0, 0]])('keeps %i', (a, b) => {\n  expect(half(a)).toBe(b);\n});\n";

    // VERIFIER-40
    #[test]
    fn attacks_on_tests_of_jest_are_named() {
        use Why::*;
        are_named(
            "src/shop.test.js",
            SPEC,
            &[
                ("todo", "it('halves'", "it.todo('halves'", TestSkipped),
                ("skip.each", "it.each", "it.skip.each", TestSkipped),
                ("failing", "it('halves'", "test.failing('halves'", TestSkipped),
                ("concurrent.skip", "it('halves'", "it.concurrent.skip('halves'", TestSkipped),
                (
                    "describe.skip",
                    "it('halves'",
                    "describe.skip('all', () => {});\nit('halves'",
                    TestSkipped,
                ),
                ("anything", "toBe(2);", "toEqual(expect.anything());", AssertionChanged),
                ("not awaited", "await expect", "expect", AssertionChanged),
                ("caught", ".resolves.toBe(2)", ".resolves.toBe(2).catch(() => {})", FailureCaught),
                (
                    "mocked",
                    "\nit('halves'",
                    "jest.mock('./shop', () => ({ half: () => 2 }));\n\nit('halves'",
                    SubjectReplaced,
                ),
                (
                    "spied",
                    "  const cart",
                    "  jest.spyOn(shop, 'half').mockReturnValue(2);\n  const cart",
                    SubjectReplaced,
                ),
                ("required", "require('./shop')", "require('./fake')", SubjectReplaced),
                (
                    "shadowed",
                    "  expect(half(4))",
                    "  const half = () => 2;\n  expect(half(4))",
                    SubjectReplaced,
                ),
                (
                    "own expect",
                    "\nit('halves'",
                    "const expect = () => ({ toBe() {} });\n\nit('halves'",
                    SubjectReplaced,
                ),
                (
                    "extended",
                    "\nit('halves'",
                    "expect.extend({ toBe: () => ({ pass: true }) });\n\nit('halves'",
                    SubjectReplaced,
                ),
                (
                    "later",
                    "  expect(half(4)).toBe(2);",
                    "  setTimeout(() => {\n    expect(half(4)).toBe(2);\n  });",
                    AssertionNested,
                ),
                (
                    "condition",
                    "  expect(half(4)).toBe(2);",
                    "  if (process.env.FULL) {\n    expect(half(4)).toBe(2);\n  }",
                    AssertionChanged,
                ),
                ("no cases", "[[0, 0]]", "[]", SubjectReplaced),
                ("again", "\nit('halves'", "jest.retryTimes(9);\n\nit('halves'", TestSkipped),
                ("set-up", "cart = make()", "cart = {}", TestChanged),
            ],
        );
    }

    const CRATE: &str = "pub fn half(n: u32) -> u32 { n / 2 }\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    #[test]\n    \
                         fn halves() -> Result<(), String> {\n        let cart = make();\n        assert_eq!(half(4), 2);\n        \
                         for (a, b) in cases() {\n            assert_eq!(half(a), b);\n        }\n        Ok(())\n    }\n}\n";

    // VERIFIER-40
    #[test]
    fn attacks_on_tests_of_cargo_are_named() {
        use Why::*;
        are_named(
            "src/lib.rs",
            CRATE,
            &[
                ("cfg any", "    #[test]", "    #[cfg(any())]\n    #[test]", Disabled),
                ("cfg of a system", "#[cfg(test)]", "#[cfg(all(test, windows))]", Disabled),
                ("cfg windows", "    #[test]", "    #[cfg(windows)]\n    #[test]", Disabled),
                (
                    "cfg_attr",
                    "    #[test]",
                    "    #[cfg_attr(all(), ignore)]\n    #[test]",
                    Disabled,
                ),
                (
                    "cfg!",
                    "        assert_eq!(half(4), 2);",
                    "        if cfg!(windows) { return Ok(()) }\n        assert_eq!(half(4), 2);",
                    Disabled,
                ),
                (
                    "typed return",
                    "        let cart",
                    "        return Ok::<(), String>(());\n        let cart",
                    EarlyReturn,
                ),
                (
                    "exit",
                    "        let cart",
                    "        std::process::exit(0);\n        let cart",
                    EarlyReturn,
                ),
                (
                    "own macro",
                    "    use super::*;",
                    "    use super::*;\n    macro_rules! assert_eq { ($($t:tt)*) => {} }",
                    SubjectReplaced,
                ),
                (
                    "own function",
                    "    use super::*;",
                    "    use super::*;\n    fn half(_: u32) -> u32 { 2 }",
                    SubjectReplaced,
                ),
                (
                    "other use",
                    "    use super::*;",
                    "    use super::*;\n    use crate::fake::half;",
                    SubjectReplaced,
                ),
                (
                    "closure",
                    "        assert_eq!(half(4), 2);",
                    "        let _later = || {\n            assert_eq!(half(4), 2);\n        };",
                    AssertionNested,
                ),
                (
                    "condition",
                    "        assert_eq!(half(4), 2);",
                    "        if full() {\n            assert_eq!(half(4), 2);\n        }",
                    AssertionChanged,
                ),
                (
                    "unwound",
                    "        assert_eq!(half(4), 2);",
                    "        let _ = catch_unwind(|| {\n            assert_eq!(half(4), 2);\n        });",
                    FailureCaught,
                ),
                ("no cases", "in cases()", "in cases().take(0)", SubjectReplaced),
                ("bare test", "    #[test]\n", "    #[allow(dead_code)]\n", TestsRemoved),
                ("set-up", "= make()", "= Cart::new()", TestChanged),
            ],
        );
    }

    const PACKAGE: &str = "package shop\n\nimport \"testing\"\n\nfunc TestHalf(t *testing.T) {\n\tt.Parallel()\n\tcart := make()\n\t\
                           if Half(4) != 2 {\n\t\tt.Errorf(\"not two: %v\", cart)\n\t}\n\tfor _, c := range cases {\n\t\tcheck(t, Half(c.in), c.want)\n\t}\n}\n";

    // VERIFIER-40
    #[test]
    fn attacks_on_tests_of_go_are_named() {
        use Why::*;
        are_named(
            "shop_test.go",
            PACKAGE,
            &[
                ("SkipNow", "\tt.Parallel()", "\tt.SkipNow()", TestSkipped),
                (
                    "short",
                    "\tt.Parallel()",
                    "\tif testing.Short() {\n\t\tt.Skip()\n\t}",
                    TestSkipped,
                ),
                ("build tag", "package shop", "//go:build windows\n\npackage shop", TestSkipped),
                (
                    "main",
                    "func TestHalf",
                    "func TestMain(m *testing.M) {\n}\n\nfunc TestHalf",
                    TestSkipped,
                ),
                (
                    "init",
                    "func TestHalf",
                    "func init() {\n\tos.Exit(0)\n}\n\nfunc TestHalf",
                    EarlyReturn,
                ),
                ("only logged", "t.Errorf", "t.Logf", AssertionRemoved),
                (
                    "own t",
                    "\tcart := make()",
                    "\tt = &testing.T{}\n\tcart := make()",
                    SubjectReplaced,
                ),
                (
                    "shadowed",
                    "\tif Half(4)",
                    "\tHalf := func(int) int { return 2 }\n\tif Half(4)",
                    SubjectReplaced,
                ),
                (
                    "recovered",
                    "\tcart := make()",
                    "\tdefer func() { recover() }()\n\tcart := make()",
                    FailureCaught,
                ),
                ("goexit", "\tcart := make()", "\truntime.Goexit()\n\tcart := make()", EarlyReturn),
                (
                    "another goroutine",
                    "\tif Half(4) != 2 {\n\t\tt.Errorf(\"not two: %v\", cart)\n\t}",
                    "\tgo func() {\n\tif Half(4) != 2 {\n\t\tt.Errorf(\"not two: %v\", cart)\n\t}\n\t}()",
                    AssertionNested,
                ),
                ("no cases", "range cases", "range cases[:0]", SubjectReplaced),
                ("case", "TestHalf", "Testhalf", TestsRemoved),
                ("helper", "\t\tcheck(t, Half(c.in), c.want)\n", "", TestChanged),
            ],
        );
        assert_eq!(one("shop_test.go", PACKAGE, &PACKAGE.replace("\tt.Parallel()\n", "")), [""; 0]);
    }

    // VERIFIER-40
    #[test]
    fn a_file_that_no_runner_collects_any_more_is_named() {
        for (from, to, text, is_named) in [
            ("tests/test_shop.py", "tests/shop_cases.py", SUITE, true),
            ("tests/test_shop.py", "tests/.old/test_shop.py", SUITE, true),
            ("tests/test_shop.py", "tests/unit/shop_test.py", SUITE, false),
            ("src/shop.test.js", "tests/shop.js", SPEC, true),
            ("src/shop.test.js", "src/shop.spec.js", SPEC, false),
            ("shop_test.go", "shop_windows_test.go", PACKAGE, true),
            ("shop_test.go", "testdata/shop_test.go", PACKAGE, true),
            ("shop_test.go", "half_test.go", PACKAGE, false),
            ("tests/shop.rs", "tests/old/shop.rs", CRATE, true),
            ("tests/shop.rs", "tests/half.rs", CRATE, false),
        ] {
            let found = weakened(&[change(from, Some(text), None), change(to, None, Some(text))]);
            assert_eq!(!found.is_empty(), is_named, "{to}: {found:?}");
        }
    }

    // VERIFIER-40
    #[test]
    fn configurations_that_change_what_a_run_means_are_named() {
        for (path, before, now, expected) in [
            (
                "conftest.py",
                "\n",
                "def pytest_collection_modifyitems(items):\n    items.clear()\n",
                "tests_excluded",
            ),
            (
                "conftest.py",
                "\n",
                "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n",
                "tests_excluded",
            ),
            (
                "conftest.py",
                "\n",
                "@pytest.fixture(autouse=True)\ndef fake(monkeypatch):\n    monkeypatch.setattr('shop.half', f)\n",
                "subject_replaced",
            ),
            (
                "jest.config.js",
                "x\n",
                "x\nmoduleNameMapper: { './shop': './fake' },\n",
                "tests_excluded",
            ),
            (
                "package.json",
                "{\n\"test\": \"jest\"\n}\n",
                "{\n\"test\": \"jest || true\"\n}\n",
                "tests_excluded",
            ),
            ("Makefile", "test:\n\tpytest\n", "test:\n\tpytest -k half\n", "tests_excluded"),
            (
                "Makefile",
                "test:\n\tgo test ./...\n",
                "test:\n\tgo test -run Half ./...\n",
                "tests_excluded",
            ),
            (
                "pytest.ini",
                "[pytest]\n",
                "[pytest]\npython_functions = check_*\n",
                "tests_excluded",
            ),
        ] {
            let found = one(path, before, now);
            assert!(found.iter().any(|text| text.contains(expected)), "{now}: {found:?}");
        }
        // A new file of this kind is compared with nothing.
        let new = "import shop\nshop.half = lambda n: 2\nsys.modules['shop'] = fake\n";
        assert!(!weakened(&[change("tests/conftest.py", None, Some(new))]).is_empty());
    }

    // VERIFIER-40
    #[test]
    fn honest_additions_to_old_tests_are_not_named() {
        for (path, text, old, new) in [
            (
                "tests/test_shop.py",
                SUITE,
                "        assert half(4) == 2\n",
                "        assert half(4) == 2\n        other = make()\n        assert half(6) == 3\n",
            ),
            (
                "tests/test_shop.py",
                SUITE,
                "from shop import half",
                "from shop import half, quarter",
            ),
            ("tests/test_shop.py", SUITE, "[0])", "[0, 2])"),
            ("src/shop.test.js", SPEC, "[[0, 0]]", "[[0, 0], [2, 1]]"),
            (
                "src/shop.test.js",
                SPEC,
                "\nit.each",
                "\nit('adds', () => {\n  const sum = add(1, 2);\n  expect(sum).toBe(3);\n});\n\nit.each",
            ),
            (
                "src/lib.rs",
                CRATE,
                "        Ok(())",
                "        let twice = 8;\n        assert_eq!(half(twice), 4);\n        Ok(())",
            ),
            (
                "shop_test.go",
                PACKAGE,
                "\nfunc TestHalf",
                "\nfunc TestQuarter(t *testing.T) {\n\tgot := Quarter(4)\n\tcheck(t, got, 1)\n}\n\nfunc TestHalf",
            ),
        ] {
            assert!(text.contains(old), "{old}");
            assert_eq!(one(path, text, &text.replacen(old, new, 1)), [""; 0], "{new}");
        }
    }

    // VERIFIER-40
    #[test]
    fn attacks_that_need_no_word_of_a_framework_are_named_in_python() {
        use Why::*;
        const TEXT: &str = "import pytest\nfrom shop import half\n\n\nclass TestShop:\n    def test_half(self):\n        cart = make()\n        \
                            check(half(4), 2)\n        for a in cart:\n            check(half(a), a)\n        assert half(0) == 0\n\n\n\
                            @pytest.mark.parametrize('a', [0])\ndef test_zero(a):\n    assert half(a) == 0\n";
        are_named(
            "tests/test_shop.py",
            TEXT,
            &[
                (
                    "name of a skip",
                    "import pytest\n",
                    "import pytest\nfrom pytest import skip as later\n",
                    TestSkipped,
                ),
                (
                    "alias of a skip",
                    "        cart = make()",
                    "        later = pytest.skip\n        cart = make()",
                    TestSkipped,
                ),
                (
                    "bare skip",
                    "        cart = make()",
                    "        skip('slow')\n        cart = make()",
                    TestSkipped,
                ),
                (
                    "raised skip",
                    "        cart = make()",
                    "        raise pytest.skip.Exception('x')\n        cart = make()",
                    TestSkipped,
                ),
                (
                    "quoted in an assignment",
                    "        assert half(0) == 0\n",
                    "        _ = \"\"\"\n        assert half(0) == 0\n        \"\"\"\n",
                    AssertionChanged,
                ),
                (
                    "check in a condition",
                    "        check(half(4), 2)",
                    "        if full():\n            check(half(4), 2)",
                    TestChanged,
                ),
                ("one more argument", "check(half(4), 2)", "check(half(4), 2, dry)", TestChanged),
                (
                    "next round",
                    "            check(half(a), a)",
                    "            continue\n            check(half(a), a)",
                    EarlyReturn,
                ),
                (
                    "left",
                    "            check(half(a), a)",
                    "            if a: break\n            check(half(a), a)",
                    EarlyReturn,
                ),
                (
                    "returned value",
                    "        check(half(4), 2)",
                    "        return cart\n        check(half(4), 2)",
                    EarlyReturn,
                ),
                (
                    "generator",
                    "        check(half(4), 2)",
                    "        yield\n        check(half(4), 2)",
                    EarlyReturn,
                ),
                (
                    "exit raised",
                    "        check(half(4), 2)",
                    "        raise SystemExit(0)\n        check(half(4), 2)",
                    EarlyReturn,
                ),
                ("coroutine", "    def test_half", "    async def test_half", TestChanged),
                ("fixture of a name", "def test_zero", "@pytest.fixture\ndef test_zero", Disabled),
                (
                    "used fixture",
                    "def test_zero",
                    "@pytest.mark.usefixtures('fakes')\ndef test_zero",
                    SubjectReplaced,
                ),
                (
                    "few examples",
                    "def test_zero",
                    "@settings(max_examples=1)\ndef test_zero",
                    Disabled,
                ),
                (
                    "no cases",
                    "def test_zero(a)",
                    "@pytest.mark.parametrize('b', [])\ndef test_zero(a, b)",
                    Disabled,
                ),
                ("decorated class", "class TestShop", "@never\nclass TestShop", Disabled),
                (
                    "mark of the file",
                    "\n\nclass TestShop",
                    "\npytestmark = [never]\n\nclass TestShop",
                    SubjectReplaced,
                ),
                (
                    "constructor",
                    "    def test_half",
                    "    def __init__(self):\n        pass\n\n    def test_half",
                    TestsRemoved,
                ),
                (
                    "own run",
                    "    def test_half",
                    "    def run(self, result=None):\n        pass\n\n    def test_half",
                    TestsRemoved,
                ),
                (
                    "all names",
                    "\n\nclass TestShop",
                    "\nfrom fakes import *\n\nclass TestShop",
                    SubjectReplaced,
                ),
                (
                    "path",
                    "from shop import half",
                    "import sys; sys.path.insert(0, 'fakes')\nfrom shop import half",
                    SubjectReplaced,
                ),
                (
                    "environment",
                    "        cart = make()",
                    "        os.environ['FAKE'] = '1'\n        cart = make()",
                    SubjectReplaced,
                ),
                (
                    "executed",
                    "        cart = make()",
                    "        exec('half = fake')\n        cart = make()",
                    SubjectReplaced,
                ),
                (
                    "attribute",
                    "        cart = make()",
                    "        shop.half = fake\n        cart = make()",
                    SubjectReplaced,
                ),
                (
                    "code object",
                    "        cart = make()",
                    "        half.__code__ = fake.__code__\n        cart = make()",
                    SubjectReplaced,
                ),
                (
                    "suite in a condition",
                    "@pytest.mark.parametrize('a', [0])\ndef test_zero(a):\n    assert half(a) == 0\n",
                    "if full:\n    @pytest.mark.parametrize('a', [0])\n    def test_zero(a):\n        assert half(a) == 0\n",
                    Disabled,
                ),
                (
                    "another order",
                    "        cart = make()\n        check(half(4), 2)\n",
                    "        check(half(4), 2)\n        cart = make()\n",
                    TestChanged,
                ),
                (
                    "always true",
                    "assert half(0) == 0",
                    "assert (half(0) == 0, 'zero')",
                    AssertionChanged,
                ),
                (
                    "with itself",
                    "assert half(0) == 0",
                    "assert half(0) == half(0)",
                    AssertionChanged,
                ),
                ("other input", "cart = make()", "cart = []", SubjectReplaced),
            ],
        );
        let listed = "KNOWN_BUGS = ['a']\n\n\ndef test_a():\n    run(KNOWN_BUGS)\n";
        let found = one("tests/test_a.py", listed, &listed.replace("['a']", "['a', 'b']"));
        assert_eq!(found.len(), 1, "{found:?}");
        let branch = "def test_a():\n    if fast():\n        a()\n    else:\n        b()\n";
        assert!(
            !one("tests/test_a.py", branch, &branch.replace("else:", "elif slow():")).is_empty()
        );
    }

    // VERIFIER-40
    #[test]
    fn attacks_that_need_no_word_of_a_framework_are_named_in_javascript_rust_and_go() {
        use Why::*;
        are_named(
            "src/shop.test.js",
            "const { half } = require('./shop');\n\nit('half', async () => {\n  expect.assertions(1);\n  const cart = make(/[/*'\"]/);\n  \
             check(half(4), 2);\n  expect(half(0)).toBe(0);\n});\n",
            &[
                ("count of assertions", "  expect.assertions(1);\n", "", AssertionRemoved),
                (
                    "comment behind code",
                    "*'\"]/);\n  check(half(4), 2);\n",
                    "*'\"]/); /*\n  check(half(4), 2); */\n",
                    ExpectationChanged,
                ),
                (
                    "template",
                    "  expect(half(0)).toBe(0);\n",
                    "  const later = `\n  expect(half(0)).toBe(0);\n  `;\n",
                    AssertionChanged,
                ),
                ("generator", "async () => {", "function* () {", TestChanged),
                ("options", "it('half', async", "it('half', { retry: 9 }, async", TestSkipped),
                (
                    "name of the test in a line",
                    "check(half(4), 2);",
                    "check(2, 2);",
                    ExpectationChanged,
                ),
                ("argument", "  check(half(4), 2);\n", "  check(half(4), 2, true);\n", TestChanged),
                (
                    "exit code",
                    "  check(half(4), 2);\n",
                    "  process.exitCode = 0;\n  check(half(4), 2);\n",
                    EarlyReturn,
                ),
                (
                    "returned promise",
                    "  check(half(4), 2);\n",
                    "  return done;\n  check(half(4), 2);\n",
                    EarlyReturn,
                ),
                (
                    "environment",
                    "  check(half(4), 2);\n",
                    "  process.env.FAKE = '1';\n  check(half(4), 2);\n",
                    SubjectReplaced,
                ),
            ],
        );
        are_named(
            "src/lib.rs",
            "/// ```\n/// assert_eq!(shop::half(4), 2);\n/// ```\npub fn half(n: u32) -> u32 { n / 2 }\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    \
             fn cart() -> Vec<u32> {\n        [4].to_vec()\n    }\n\n    #[test]\n    fn halves() -> Result<(), String> {\n        let cart = cart();\n        \
             check(half(4), 2);\n        assert_eq!(half(0), 0);\n        Ok(())\n    }\n}\n",
            &[
                ("example removed", "/// assert_eq!(shop::half(4), 2);\n", "", AssertionRemoved),
                (
                    "example not run",
                    "/// ```\n/// assert",
                    "/// ```ignore\n/// assert",
                    AssertionRemoved,
                ),
                (
                    "macro of the crate",
                    "pub fn half",
                    "macro_rules! assert_eq { ($($t:tt)*) => {} }\npub fn half",
                    SubjectReplaced,
                ),
                ("all names", "use super::*;", "use crate::fakes::*;", SubjectReplaced),
                ("helper", "[4].to_vec()", "Vec::default()", ExpectationChanged),
                (
                    "value returned",
                    "        check(half(4), 2);\n",
                    "        return Ok(Default::default());\n        check(half(4), 2);\n",
                    EarlyReturn,
                ),
                (
                    "exit in a condition",
                    "        check(half(4), 2);\n",
                    "        if slow() { std::process::exit(0) }\n        check(half(4), 2);\n",
                    EarlyReturn,
                ),
                (
                    "raw text",
                    "        assert_eq!(half(0), 0);\n",
                    "        let _ = r#\"\n        assert_eq!(half(0), 0);\n        \"#;\n",
                    AssertionChanged,
                ),
                (
                    "comment in a comment",
                    "        check(half(4), 2);\n",
                    "        let _ = 1; /* /* */\n        check(half(4), 2);\n        */\n",
                    ExpectationChanged,
                ),
            ],
        );
        are_named(
            "shop_test.go",
            "package shop\n\nimport (\n\t\"testing\"\n\n\t\"shop/price\"\n)\n\nfunc ExampleHalf() {\n\tfmt.Println(Half(4))\n\t// Output: 2\n}\n\n\
             func TestHalf(t *testing.T) {\n\tcheck(t, Half(4), 2)\n\tif err := quick.Check(f, &quick.Config{MaxCount: 1000}); err != nil {\n\t\tt.Error(err)\n\t}\n}\n",
            &[
                ("output of an example", "\t// Output: 2\n", "", ExpectationChanged),
                ("other output", "// Output: 2", "// Output: 3", ExpectationChanged),
                ("fewer runs", "MaxCount: 1000", "MaxCount: 1", AssertionChanged),
                (
                    "skip in a helper",
                    "func TestHalf",
                    "func later(tb testing.TB) {\n\ttb.Skip()\n}\n\nfunc TestHalf",
                    TestSkipped,
                ),
                (
                    "before all tests",
                    "func TestHalf",
                    "func init() {\n\tHalfOf = fake\n}\n\nfunc TestHalf",
                    TestSkipped,
                ),
                (
                    "raw text",
                    "\tcheck(t, Half(4), 2)\n",
                    "\t_ = `\n\tcheck(t, Half(4), 2)\n`\n",
                    ExpectationChanged,
                ),
                ("other package", "\"shop/price\"", "price \"shop/fake\"", ExpectationChanged),
                (
                    "environment",
                    "\tcheck(t",
                    "\tt.Setenv(\"FAKE\", \"1\")\n\tcheck(t",
                    SubjectReplaced,
                ),
                ("jump", "\tcheck(t", "\tgoto end\n\tcheck(t", EarlyReturn),
            ],
        );
        let found = weakened(&[
            change("shop_test.go", Some(GO), None),
            change("_shop_test.go", None, Some(GO)),
        ]);
        assert!(!found.is_empty(), "Go builds no file that begins with `_`");
        for (path, around, test) in [
            ("src/shop.test.js", "if (full)", "it('half', () => {\n  check();\n});\n"),
            ("tests/shop.rs", "fn outer()", "#[test]\nfn halves() {\n    check();\n}\n"),
        ] {
            let inside = format!("{around} {{\n{test}}}\n");
            assert!(!one(path, test, &inside).is_empty(), "{inside}");
        }
    }

    // VERIFIER-40
    #[test]
    fn attacks_outside_of_test_files_are_named() {
        for (path, before, now, expected) in [
            ("src/snapshots/shop__half.snap", Some("2\n"), "3\n", "fixture_changed"),
            (
                "tests/__init__.py",
                Some("\n"),
                "import shop\nshop.half = lambda n: 2\n",
                "subject_replaced",
            ),
            (
                "tests/__init__.py",
                None,
                "import shop\nshop.half = lambda n: 2\n",
                "subject_replaced",
            ),
            (
                "conftest.py",
                Some("\n"),
                "import os\nos.environ['FAKE'] = '1'\n",
                "subject_replaced",
            ),
            ("conftest.py", Some("\n"), "pytest_plugins = ['fakes']\n", "tests_excluded"),
            (
                "src/__mocks__/shop.js",
                None,
                "module.exports = { half: () => 2 };\n",
                "subject_replaced",
            ),
            (
                "vitest.config.ts",
                Some("a({\n})\n"),
                "a({\ninclude: ['src/a.test.ts'],\n})\n",
                "tests_excluded",
            ),
            ("jest.config.js", Some("a({\n})\n"), "a({\nautomock: true,\n})\n", "tests_excluded"),
            (
                "Cargo.toml",
                Some("[workspace]\nmembers = [\"a\", \"b\"]\n"),
                "[workspace]\nmembers = [\"a\"]\n",
                "tests_excluded",
            ),
            (
                "Cargo.toml",
                Some("[lib]\n"),
                "[lib]\n[profile.test]\noverflow-checks = false\n",
                "tests_excluded",
            ),
            (
                "tox.ini",
                Some("[testenv]\n"),
                "[testenv]\nsetenv = PYTHONOPTIMIZE=1\n",
                "tests_excluded",
            ),
            (
                "src/lib.rs",
                Some("#[cfg(test)]\nmod tests;\n"),
                "#[cfg(test)]\n#[path = \"few.rs\"]\nmod tests;\n",
                "tests_excluded",
            ),
            (
                "src/shop.py",
                Some("def half(n):\n    \"\"\"\n    >>> half(4)\n    2\n    \"\"\"\n"),
                "def half(n):\n    pass\n",
                "expectation_changed",
            ),
        ] {
            let found = weakened(&[change(path, before, Some(now))]);
            assert!(found.iter().any(|text| text.contains(expected)), "{path} {now}: {found:?}");
        }
        // A test that calls a new helper, which replaces what it tests.
        let calls = SUITE.replacen("cart = make()", "install()\n        cart = make()", 1);
        let helper = "import shop\n\n\ndef install():\n    shop.half = lambda n: 2\n";
        let found = weakened(&[
            change("tests/test_shop.py", Some(SUITE), Some(&calls)),
            change("tests/fakes.py", None, Some(helper)),
        ]);
        assert!(found.iter().any(|text| text.contains("subject_replaced")), "{found:?}");
    }

    // VERIFIER-40
    #[test]
    fn comments_and_texts_are_read_as_the_languages_read_them() {
        let code = |path: &str, text: &str| {
            let (lines, depths) = code_lines(path, text);
            lines.into_iter().zip(depths).filter(|(line, _)| !line.is_empty()).collect::<Vec<_>>()
        };
        let line = |text: &str, depth: i32| (text.to_owned(), depth);
        assert_eq!(
            code(
                "a.rs",
                "fn a() { // {\n  b('{', \"{\", r#\"\"{\"#); /* { /* */ { */\n  let _: &'static str = c;\n}\nd();\n"
            ),
            [
                line("fn a() {", 0),
                line("b('{', \"{\", r#\"\"{\"#);", 1),
                line("let _: &'static str = c;", 1),
                line("}", 0),
                line("d();", 0)
            ]
        );
        assert_eq!(
            code("a.js", "a(/\\/\\*'[/\"]/);\nb(`\n// {\n`, 'it\\'s');\nc = d / 2; // e\n"),
            [
                line("a(/\\/\\*'[/\"]/);", 0),
                line("b(` // { `", 0),
                line(", 'it\\'s');", 0),
                line("c = d / 2;", 0)
            ]
        );
        assert_eq!(
            code(
                "a.py",
                "def a():\n    '''A text.\n    # no code\n    '''\n    b = f'''\n    # {c}\n    '''  # d\n    e('#')\n"
            ),
            [line("def a():", 1), line("b = f'''     # {c}     '''", 2), line("e('#')", 2)]
        );
        assert_eq!(code("a.sh", "rm a/*\n# b\necho \"c # d\"\n").len(), 2);
        // What is never closed ends with the file.
        code("a.rs", "let a = r###\"");
        code("a.js", "a(`");
        code("a.py", "a = '''\\");
        code("a.go", "/*");
    }

    // VERIFIER-40
    #[test]
    fn honest_tests_that_mock_and_use_parameters_are_not_named() {
        let new = "import os\nimport shop\nimport pytest\n\npytestmark = pytest.mark.asyncio\nshop.half = None\n\n\n\
                   @pytest.fixture\ndef cart():\n    yield [1]\n\n\ndef test_half(monkeypatch, cart):\n    \
                   monkeypatch.setattr('shop.half', f)\n    for a in cart:\n        if a:\n            continue\n        assert a\n";
        let found = weakened(&[
            change("tests/test_new.py", None, Some(new)),
            change(
                "tests/test_shop.py",
                Some(SUITE),
                Some(&format!("{SUITE}    assert half(2) == 1\n")),
            ),
        ]);
        assert_eq!(found, [""; 0]);
        for (path, text, old, new) in [
            ("tests/test_shop.py", SUITE, "test_half(self)", "test_half(self, tmp_path)"),
            (
                "tests/test_shop.py",
                SUITE,
                "    assert half(a) == 0\n",
                "    assert half(a) == 0  # nothing\n",
            ),
            ("src/shop.test.js", SPEC, "'halves'", "'halves numbers'"),
            ("src/lib.rs", CRATE, "fn halves()", "fn numbers_are_halved()"),
            (
                "src/lib.rs",
                CRATE,
                "pub fn half",
                "/// ```\n/// let half = shop::half(2);\n/// ```\npub fn half",
            ),
        ] {
            assert!(text.contains(old), "{old}");
            assert_eq!(one(path, text, &text.replacen(old, new, 1)), [""; 0], "{new}");
        }
    }

    #[test]
    fn a_stub_on_one_line_is_no_early_return() {
        let test = "package a\n\nfunc TestA(t *testing.T) {\n\tcheck(t)\n}\n\n";
        let stub = format!(
            "{test}type stub struct{{}}\n\nfunc (stub) Set(string) error {{ return nil }}\n"
        );
        assert_eq!(one("a_test.go", test, &stub), Vec::<String>::new());
        let early = format!("{test}func check(t *testing.T) {{\n\treturn\n}}\n");
        assert_eq!(one("a_test.go", test, &early).len(), 1);
    }

    // VERIFIER-31
    #[test]
    fn marks_are_whole_words() {
        for (text, count) in [
            ("from pytest import mark\n@mark.skip\ndef test(): ...", 1),
            ("raise SkipTest", 1),
            ("model.fit(x); process.exit(1)", 0),
            ("fit('one', f); t.skip('x')", 2),
            ("#[cfg(any())]\nmod tests {}", 1),
            ("TEST(A, DISABLED_b) {}", 1),
        ] {
            assert_eq!(skips(text), count, "{text}");
        }
    }
}
