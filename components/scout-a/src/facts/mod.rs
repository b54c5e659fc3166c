//! The facts: what is computed about the repository without a model. The same repository gives the same facts.
//!
//! Every list has a fixed order and a maximum size in bytes. `left_out` counts the entries that did not fit.

mod conventions;
mod entry_points;
mod exercised;
mod risk;

use crate::contents::Contents;
use crate::rank::Weights;
use crate::survey::Survey;
use crate::terms::Terms;
use crate::{contents, excerpts, rank};
use act_kit::inventory::Inventory;
use act_kit::reports::facts_a::{
    Convention, FactsA, Import, Inventory as Summary, Language, Mapped, Risk, Symbol,
};
use act_kit::reports::version::SCHEMA_VERSION;
use act_kit::world::{Outline, World};
use std::collections::BTreeMap;

pub(crate) use exercised::Tests;

/// Maximum sizes of the lists in the facts, in bytes. The best files for a question come first, and each of these bytes is
/// written, checked and parsed several times, so longer lists would cost a large repository more than they tell.
const SYMBOLS: usize = 300_000;
const IMPORTS: usize = 150_000;
const TESTS: usize = 150_000;
const RISK: usize = 60_000;
const ENTRY_POINTS: usize = 40_000;
/// Maximum size of the map in tokens. A token is estimated as four bytes.
const MAP_TOKENS: usize = 2_000;
/// Maximum number of symbols that the map names for one file.
const MAP_SYMBOLS: usize = 10;
/// Maximum numbers of source files, of tests and of other files in the map, and its size in bytes. The files that come
/// after `MAP_TOKENS` are listed without names.
const MAP_FILES: [usize; 3] = [100, 30, 20];
const MAP: usize = 20_000;

/// Milliseconds after the survey in which texts are read. Where the survey took all of its time, the texts of the best files
/// are read all the same, because the ranking is poor without them.
const TEXTS: u64 = 1_500;

/// Everything that was computed, before it is cut to the size of the facts or of a prompt.
pub(crate) struct Known {
    pub(crate) survey: Survey,
    pub(crate) terms: Terms,
    pub(crate) weights: Weights,
    pub(crate) ranks: Vec<f64>,
    /// Indices of the files, best rank first.
    pub(crate) order: Vec<u32>,
    pub(crate) tests: Tests,
    /// Milliseconds that the survey leaves for the steps after it.
    reserve: u64,
}

impl Known {
    pub(crate) fn of(world: World<'_>, inventory: Inventory, question: &str, reserve: u64) -> Self {
        let terms = Terms::of(question);
        let mut survey = Survey::of(world, inventory, &terms, reserve);
        let tests = Tests::of(&survey);
        let (mut texts, mut weights) = (Contents::default(), Weights::default());
        if !terms.is_empty() {
            let fit = rank::by_names(&survey, &terms);
            let left = reserve.saturating_sub(TEXTS);
            let (read, cut) = contents::of(world, &survey, &terms, &fit, left);
            survey.truncated |= cut;
            texts = read;
            weights = Weights::of(&survey, &terms, &texts);
        }
        let ranks = rank::ranks(&survey, &tests, &terms, &texts, &weights);
        let order = rank::order(&survey, &ranks);
        Self { survey, terms, weights, ranks, order, tests, reserve }
    }

    /// Returns the best of `files`, best first, with the names that they define: `named` bytes of names and paths, then
    /// paths alone, at most `most` bytes in all.
    pub(crate) fn map(
        &self,
        world: World<'_>,
        files: &[u32],
        named: usize,
        most: usize,
    ) -> Vec<Mapped> {
        let (mut map, mut size, mut with_names) = (vec![], 0, true);
        for part in files.chunks(32) {
            let paths = part.iter().map(|at| self.survey.path(*at)).collect::<Vec<_>>();
            let outlines = match with_names {
                true => world.repository.outlines(&paths),
                false => vec![],
            };
            let mut outlines = outlines.into_iter();
            for (at, path) in part.iter().zip(paths) {
                let mut symbols = outlines
                    .next()
                    .flatten()
                    .map(|outline| self.telling(&outline))
                    .unwrap_or_default();
                let names = symbols.iter().map(|name| name.len() + 2).sum::<usize>();
                with_names &= size + path.len() + names + 12 <= named;
                if !with_names {
                    symbols.clear();
                }
                size += path.len() + 12 + if with_names { names } else { 0 };
                if size > most {
                    return map;
                }
                let score = (self.ranks[*at as usize] * 1_000.0).round() / 1_000.0;
                map.push(Mapped { path: path.to_owned(), score, symbols });
            }
        }
        map
    }

    /// Returns the best files of each kind, source before tests before other files, without those that have nothing to do
    /// with the question. `most` is a number for each kind.
    pub(crate) fn best(&self, most: [usize; 3]) -> Vec<u32> {
        let mut left = most;
        let mut best = self.order.clone();
        best.retain(|at| {
            let unit = self.survey.unit(*at);
            let kind = match unit.language {
                _ if unit.is_named => 0,
                Some(_) => usize::from(unit.is_test),
                None => 2,
            };
            let fits = left[kind] > 0 && self.ranks[*at as usize] > 0.0;
            left[kind] -= usize::from(fits);
            fits
        });
        best
    }

    /// Returns the names in a file that say most about it.
    fn telling(&self, outline: &Outline) -> Vec<String> {
        let weight = |symbol: &act_kit::world::Symbol| {
            let kind = match symbol.kind.as_str() {
                "type" => 3,
                "function" | "macro" => 2,
                "method" => 1,
                _ => 0,
            };
            10 * self.terms.of_symbol(&symbol.name) + 4 * usize::from(symbol.exported) + kind
        };
        let mut symbols =
            outline.symbols.iter().filter(|symbol| is_telling(symbol)).collect::<Vec<_>>();
        symbols.sort_by_key(|symbol| (usize::MAX - weight(symbol), symbol.first_line));
        symbols.truncate(MAP_SYMBOLS);
        symbols.sort_by_key(|symbol| symbol.first_line);
        let mut names = symbols
            .into_iter()
            .map(|symbol| match &symbol.container {
                Some(container) => format!("{container}.{}", symbol.name),
                None => symbol.name.clone(),
            })
            .collect::<Vec<_>>();
        names.dedup();
        names
    }

    /// Returns the facts.
    pub(crate) fn facts(&self, world: World<'_>, question: &str) -> FactsA {
        let mut left_out = BTreeMap::new();
        let map = self.map(world, &self.best(MAP_FILES), MAP_TOKENS * 4, MAP);
        let mut cut = |name: &'static str, missing: usize| {
            if missing > 0 {
                left_out.insert(name.to_owned(), missing as u64);
            }
        };
        let (symbols, missing) = self.symbols(world);
        cut("symbols", missing);
        cut("files_too_large", self.survey.too_large);
        cut("files_incomplete", self.survey.incomplete);
        cut("not_looked_at", self.survey.not_looked_at);
        let edges = self.survey.edges.iter();
        let (imports, missing) = fitting(edges, IMPORTS, |(from, to)| {
            self.survey.path(*from).len() + self.survey.path(*to).len() + 22
        });
        let imports = imports.into_iter().map(|(from, to)| Import {
            from: self.survey.path(*from).to_owned(),
            to: self.survey.path(*to).to_owned(),
        });
        cut("imports", missing);
        let (tests, missing) = fitting(self.tests.listed(&self.survey), TESTS, |test| {
            test.path.len() + test.exercises.iter().map(|path| path.len() + 3).sum::<usize>() + 26
        });
        cut("tests", missing);
        let (risk, missing) =
            fitting(risk::of(&self.survey, &self.tests), RISK, |risk| risk.path.len() + 90);
        cut("risk", missing);
        let entry_points = entry_points::of(world.repository, &self.survey);
        let (entry_points, missing) =
            fitting(entry_points.into_iter(), ENTRY_POINTS, |path| path.len() + 3);
        cut("entry_points", missing);
        FactsA {
            schema_version: SCHEMA_VERSION.to_owned(),
            scout: "a".to_owned(),
            question: Some(question.to_owned()).filter(|question| !question.trim().is_empty()),
            truncated: self.survey.truncated || !left_out.is_empty(),
            inventory: self.summary(),
            symbols,
            imports: imports.collect(),
            entry_points,
            tests,
            map,
            excerpts: excerpts::of(world, self, excerpts::MOST),
            conventions: self.conventions(world),
            risk,
            left_out,
        }
    }

    pub(crate) fn conventions(&self, world: World<'_>) -> Vec<Convention> {
        conventions::of(world.repository, &self.survey)
    }

    pub(crate) fn entry_points(&self, world: World<'_>) -> Vec<String> {
        entry_points::of(world.repository, &self.survey)
    }

    pub(crate) fn risk(&self) -> Vec<Risk> {
        risk::of(&self.survey, &self.tests).collect()
    }

    /// Returns the rank of a file for the question, from 0 to 1; `None` for a path that is no file of the repository.
    pub(crate) fn score(&self, path: &str) -> Option<f64> {
        self.ranks.get(self.place(path)?).copied()
    }

    fn place(&self, path: &str) -> Option<usize> {
        self.survey.inventory.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()
    }

    /// Returns the languages with their numbers of files. The language with the most lines comes first.
    pub(crate) fn languages(&self) -> Vec<(String, u64)> {
        self.summary()
            .languages
            .into_iter()
            .map(|language| (language.name, language.files))
            .collect()
    }

    /// Returns a file's lines, its importers and whether a test exercises it, in words.
    pub(crate) fn figures(&self, path: &str) -> String {
        let at = self.place(path).map(|at| at as u32);
        let Some(at) = at.filter(|at| self.survey.unit(*at).parsed) else {
            return String::new();
        };
        let unit = self.survey.unit(at);
        let importers = self.importers(path);
        let importers =
            if importers > 0 { format!(", {importers} importers") } else { String::new() };
        let tested = if !unit.is_test && self.tests.is_exercised(at) { ", tested" } else { "" };
        format!(" ({} lines{importers}{tested})", unit.lines)
    }

    /// Returns the number of files that import a file.
    pub(crate) fn importers(&self, path: &str) -> usize {
        let at = self.place(path).map(|at| at as u32);
        self.survey.edges.iter().filter(|(_, to)| Some(*to) == at).count()
    }

    /// Returns the tests that exercise a source file, those first that are named after it or match the question best.
    pub(crate) fn tests_of(&self, path: &str, most: usize) -> Vec<&str> {
        let Some(at) = self.place(path).map(|at| at as u32) else { return vec![] };
        if self.survey.unit(at).is_test {
            return vec![];
        }
        let mut tests = self.tests.of_one(at);
        tests.retain(|test| *test != at);
        tests.sort_by(|a, b| {
            let rank = |at: &u32| self.ranks[*at as usize];
            let other = |at: &u32| !exercised::is_named_after(self.survey.path(*at), path);
            other(a).cmp(&other(b)).then(rank(b).total_cmp(&rank(a))).then(a.cmp(b))
        });
        tests.into_iter().take(most).map(|at| self.survey.path(at)).collect()
    }

    fn summary(&self) -> Summary {
        let mut languages = BTreeMap::<&'static str, Language>::new();
        for (unit, file) in self.survey.units.iter().zip(&self.survey.inventory.files) {
            let Some(name) = unit.language else { continue };
            let language = languages.entry(name).or_insert_with(|| Language {
                name: name.to_owned(),
                files: 0,
                lines: 0,
                bytes: 0,
            });
            language.files += 1;
            language.lines += u64::from(unit.lines);
            language.bytes += file.size;
        }
        let mut languages = languages.into_values().collect::<Vec<_>>();
        languages.sort_by(|a, b| b.lines.cmp(&a.lines).then(a.name.cmp(&b.name)));
        Summary {
            files: self.survey.units.len() as u64,
            bytes: self.survey.inventory.files.iter().map(|file| file.size).sum(),
            not_utf8: self.survey.inventory.not_utf8,
            languages,
        }
    }

    /// Returns the symbols of the best files that fit, sorted by path, and the number of symbols that did not fit.
    fn symbols(&self, world: World<'_>) -> (Vec<Symbol>, usize) {
        let all = self.survey.units.iter().map(|unit| unit.symbols as usize).sum::<usize>();
        let parsed = self.order.iter().copied().filter(|at| self.survey.unit(*at).symbols > 0);
        let parsed = parsed.collect::<Vec<_>>();
        let (mut listed, mut left) = (vec![], SYMBOLS);
        'parts: for part in parsed.chunks(64) {
            // A short answer is better than none, so the rest of the time is kept.
            if world.progress.time_left() < self.reserve / 2 {
                break;
            }
            let paths = part.iter().map(|at| self.survey.path(*at)).collect::<Vec<_>>();
            for (path, outline) in paths.iter().zip(world.repository.outlines(&paths)) {
                for symbol in outline.map(|outline| outline.symbols).unwrap_or_default() {
                    let container = symbol.container.as_ref().map_or(2, String::len);
                    let size = path.len() + symbol.name.len() + container + 130;
                    let Some(rest) = left.checked_sub(size) else { break 'parts };
                    left = rest;
                    listed.push(Symbol {
                        path: (*path).to_owned(),
                        name: symbol.name,
                        kind: symbol.kind,
                        container: symbol.container,
                        start_line: symbol.first_line,
                        end_line: symbol.last_line,
                        exported: symbol.exported,
                    });
                }
            }
        }
        listed.sort_by(|a, b| a.path.cmp(&b.path).then(a.start_line.cmp(&b.start_line)));
        let missing = all.saturating_sub(listed.len());
        (listed, missing)
    }
}

/// Returns whether a symbol says something about the product: tests and their modules do not.
pub(crate) fn is_telling(symbol: &act_kit::world::Symbol) -> bool {
    let in_tests = symbol.container.as_deref() == Some("tests");
    symbol.kind != "test" && !in_tests && !(symbol.kind == "module" && symbol.name == "tests")
}

/// Returns the items that fit into `most` bytes, and the number of those that do not.
fn fitting<T>(
    mut all: impl ExactSizeIterator<Item = T>,
    most: usize,
    size: impl Fn(&T) -> usize,
) -> (Vec<T>, usize) {
    let (mut kept, mut left) = (vec![], most);
    while let Some(item) = all.next() {
        match left.checked_sub(size(&item)) {
            Some(rest) => {
                left = rest;
                kept.push(item);
            }
            None => return (kept, 1 + all.len()),
        }
    }
    (kept, 0)
}
