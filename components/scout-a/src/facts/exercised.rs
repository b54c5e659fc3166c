//! Finds which files a test exercises: those that it imports, the one that it is named after, and for tests inside a
//! source file that file.

use crate::survey::Survey;
use act_kit::inventory::name;
use act_kit::paths::directory;
use act_kit::reports::facts_a::Test;
use act_kit::reports::source;
use std::collections::{BTreeSet, HashMap};

/// Maximum number of files that one test is listed to exercise.
const MOST: usize = 30;

/// Tests and the files that they exercise, as indices into the inventory.
pub(crate) struct Tests {
    of: Vec<(u32, Vec<u32>)>,
    exercised: BTreeSet<u32>,
}

impl Tests {
    pub(crate) fn of(survey: &Survey) -> Self {
        let mut by_stem = HashMap::<&str, Vec<u32>>::new();
        for at in survey.all().filter(|at| survey.is_product(*at)) {
            by_stem.entry(stem(survey.path(at))).or_default().push(at);
        }
        let mut of = vec![];
        for at in survey.all() {
            let unit = survey.unit(at);
            if !is_test_file(survey, at) {
                continue;
            }
            let mut exercises = BTreeSet::new();
            if unit.is_test {
                exercises.extend(survey.imported_by(at).filter(|to| survey.is_product(*to)));
                // A test that includes a header exercises the source file of the same name.
                let sources = exercises.iter().flat_map(|to| source_of(survey, &by_stem, *to));
                let sources = sources.collect::<Vec<_>>();
                exercises.extend(sources);
                exercises.extend(namesake(survey, &by_stem, at));
            } else {
                exercises.insert(at);
            }
            of.push((at, exercises.into_iter().take(MOST).collect::<Vec<_>>()));
        }
        let exercised = of.iter().flat_map(|(_, exercises)| exercises.iter().copied()).collect();
        Self { of, exercised }
    }

    pub(crate) fn is_exercised(&self, at: u32) -> bool {
        self.exercised.contains(&at)
    }

    /// Returns the tests that exercise at least one of these files. The tests that exercise most of them come first.
    pub(crate) fn for_any<'s>(&self, survey: &'s Survey, wanted: &[u32]) -> Vec<&'s str> {
        let count = |exercises: &[u32]| exercises.iter().filter(|at| wanted.contains(at)).count();
        let mut found =
            self.of.iter().map(|(at, exercises)| (count(exercises), *at)).collect::<Vec<_>>();
        found.retain(|(count, _)| *count > 0);
        found.sort_by_key(|(count, at)| (usize::MAX - count, *at));
        found.into_iter().map(|(_, at)| survey.path(at)).collect()
    }

    /// Returns the tests that exercise a file.
    pub(super) fn of_one(&self, wanted: u32) -> Vec<u32> {
        let tests = self.of.iter().filter(|(_, exercises)| exercises.contains(&wanted));
        tests.map(|(at, _)| *at).collect()
    }

    /// Returns each test with the files that it exercises.
    pub(crate) fn exercises(&self) -> impl Iterator<Item = (u32, &[u32])> {
        self.of.iter().map(|(at, exercises)| (*at, exercises.as_slice()))
    }

    pub(crate) fn paths<'s>(&self, survey: &'s Survey) -> impl Iterator<Item = &'s str> {
        self.of.iter().map(|(at, _)| survey.path(*at))
    }

    pub(super) fn listed(&self, survey: &Survey) -> impl ExactSizeIterator<Item = Test> {
        self.of.iter().map(|(at, exercises)| Test {
            path: survey.path(*at).to_owned(),
            exercises: exercises.iter().map(|at| survey.path(*at).to_owned()).collect(),
        })
    }
}

/// Returns whether a file contains tests. Helper files and documents in a test directory do not count.
fn is_test_file(survey: &Survey, at: u32) -> bool {
    let unit = survey.unit(at);
    match unit.parsed {
        true => unit.tests > 0 || (unit.is_test && is_named_test(survey.path(at))),
        false => unit.is_test && unit.language.is_some(),
    }
}

/// Returns whether a file is named like a test. `conftest.py` is not.
fn is_named_test(path: &str) -> bool {
    named_after(path).is_some() || matches!(stem(path), "test" | "tests")
}

/// Returns the file name up to its first dot.
fn stem(path: &str) -> &str {
    source::stem(name(path))
}

/// Returns whether a test has the name of a source file.
pub(super) fn is_named_after(test: &str, source: &str) -> bool {
    named_after(test) == Some(stem(source))
}

fn named_after(path: &str) -> Option<&str> {
    let stem = stem(path);
    let marked = name(path).contains(".test.") || name(path).contains(".spec.");
    stem.strip_prefix("test_")
        .or_else(|| stem.strip_suffix("_test"))
        .or_else(|| stem.strip_suffix("_tests"))
        .or_else(|| stem.strip_suffix("Test").filter(|rest| !rest.is_empty()))
        .or_else(|| stem.strip_suffix("Tests").filter(|rest| !rest.is_empty()))
        .or(marked.then_some(stem))
}

/// Returns the file that a test is named after: the one beside it, or the only one of that name in its language.
fn namesake(survey: &Survey, by_stem: &HashMap<&str, Vec<u32>>, at: u32) -> Option<u32> {
    let path = survey.path(at);
    let candidates = by_stem.get(named_after(path)?)?.iter().copied();
    let same = candidates.filter(|other| survey.unit(*other).language == survey.unit(at).language);
    let same = same.collect::<Vec<_>>();
    let beside = same.iter().find(|other| directory(survey.path(**other)) == directory(path));
    beside.copied().or_else(|| same.first().copied().filter(|_| same.len() == 1))
}

fn source_of<'a>(
    survey: &'a Survey,
    by_stem: &'a HashMap<&str, Vec<u32>>,
    header: u32,
) -> impl Iterator<Item = u32> + 'a {
    let is_header =
        |path: &str| name(path).rsplit('.').next().is_some_and(|end| end.starts_with('h'));
    let path = survey.path(header);
    let c = matches!(survey.unit(header).language, Some("C" | "C++")) && is_header(path);
    let same =
        by_stem.get(stem(path)).filter(|same| c && same.len() <= 4).into_iter().flatten().copied();
    same.filter(move |at| matches!(survey.unit(*at).language, Some("C" | "C++")))
}
