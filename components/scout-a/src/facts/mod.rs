//! The facts: what is computed about the repository without a model. The same repository gives the same facts.
//!
//! Every list has a fixed order and a maximum size in bytes. `left_out` counts the entries that did not fit.

mod conventions;
mod entry_points;
mod exercised;
mod risk;

use crate::rank;
use crate::survey::Survey;
use crate::terms::{self, Matches, Terms};
use act_kit::inventory::{Inventory, identifiers};
use act_kit::reports::facts_a::{
    Convention, FactsA, Import, Inventory as Summary, Language, Mapped, Risk, Symbol,
};
use act_kit::reports::version::SCHEMA_VERSION;
use act_kit::world::{Outline, World};
use std::collections::BTreeMap;

pub(crate) use exercised::Tests;

/// Maximum sizes of the lists in the facts, in bytes.
const SYMBOLS: usize = 1_200_000;
const IMPORTS: usize = 600_000;
const TESTS: usize = 300_000;
const RISK: usize = 150_000;
const ENTRY_POINTS: usize = 40_000;
/// Maximum size of the map in tokens. A token is estimated as four bytes.
const MAP_TOKENS: usize = 2_000;
/// Maximum number of symbols that the map names for one file.
const MAP_SYMBOLS: usize = 10;
/// Maximum number of files in the map.
const MAP_FILES: usize = 80;
/// Maximum number of search hits for the question's identifiers that count.
const HITS: usize = 300;

/// Everything that was computed, before it is cut to the size of the facts or of a prompt.
pub(crate) struct Known {
    pub(crate) survey: Survey,
    pub(crate) terms: Terms,
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
        let survey = Survey::of(world, inventory, &terms, reserve);
        let mut about = {
            let matches = survey.units.iter().map(|unit| unit.matches).collect::<Vec<Matches>>();
            terms::scores(&terms, &matches)
        };
        if world.progress.time_left() > reserve {
            mentioned(world, &survey, question, &mut about);
        }
        let ranks = rank::ranks(&survey, &about);
        let order = rank::order(&ranks);
        let tests = Tests::of(&survey);
        Self { survey, terms, ranks, order, tests, reserve }
    }

    /// Returns the best files with the names that they define, best first, at most `most` bytes.
    pub(crate) fn map(&self, world: World<'_>, most: usize, files: usize) -> Vec<Mapped> {
        let best = self.order.iter().filter(|at| self.ranks[**at as usize] > 0.0).take(files);
        let best = best.copied().collect::<Vec<_>>();
        let paths = best.iter().map(|at| self.survey.path(*at)).collect::<Vec<_>>();
        let (mut map, mut size) = (vec![], 0);
        for (at, outline) in best.iter().zip(world.repository.outlines(&paths)) {
            let path = self.survey.path(*at).to_owned();
            let symbols = outline.map(|outline| self.telling(&outline)).unwrap_or_default();
            size += path.len() + symbols.iter().map(|name| name.len() + 2).sum::<usize>() + 12;
            if size > most {
                break;
            }
            let score = (self.ranks[*at as usize] * 1_000.0).round() / 1_000.0;
            map.push(Mapped { path, score, symbols });
        }
        map
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
            10 * Matches::of_symbol(&self.terms, &symbol.name)
                + 4 * usize::from(symbol.exported)
                + kind
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
        let map = self.map(world, MAP_TOKENS * 4, MAP_FILES);
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
        let imports = self.survey.edges.iter().map(|(from, to)| Import {
            from: self.survey.path(*from).to_owned(),
            to: self.survey.path(*to).to_owned(),
        });
        let (imports, missing) =
            fitting(imports, IMPORTS, |import| import.from.len() + import.to.len() + 22);
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
            imports,
            entry_points,
            tests,
            map,
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
        let importers = self.survey.edges.iter().filter(|(_, to)| *to == at).count();
        let importers =
            if importers > 0 { format!(", {importers} importers") } else { String::new() };
        let tested = if !unit.is_test && self.tests.is_exercised(at) { ", tested" } else { "" };
        format!(" ({} lines{importers}{tested})", unit.lines)
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
fn is_telling(symbol: &act_kit::world::Symbol) -> bool {
    let in_tests = symbol.container.as_deref() == Some("tests");
    symbol.kind != "test" && !in_tests && !(symbol.kind == "module" && symbol.name == "tests")
}

/// Raises the score of files that contain the question's identifiers.
fn mentioned(world: World<'_>, survey: &Survey, question: &str, about: &mut [f64]) {
    let identifiers = identifiers(question);
    if identifiers.is_empty() {
        return;
    }
    let regex = format!("\\b({})\\b", identifiers.join("|"));
    let Ok(found) = world.repository.search(&regex, None, HITS) else { return };
    let mut hits = BTreeMap::<&str, u32>::new();
    for hit in &found.items {
        *hits.entry(&hit.path).or_default() += 1;
    }
    for (path, count) in hits {
        let at = survey.inventory.files.binary_search_by(|file| file.path.as_str().cmp(path));
        if let Some(about) = at.ok().and_then(|at| about.get_mut(at)) {
            *about += 2.0 * (1.0 + f64::from(count)).ln();
        }
    }
}

/// Returns the items that fit into `most` bytes, and the number of those that do not.
fn fitting<T>(
    all: impl Iterator<Item = T>,
    most: usize,
    size: impl Fn(&T) -> usize,
) -> (Vec<T>, usize) {
    let (mut kept, mut missing, mut left) = (vec![], 0, most);
    for item in all {
        match left.checked_sub(size(&item)).filter(|_| missing == 0) {
            Some(rest) => {
                left = rest;
                kept.push(item);
            }
            None => missing += 1,
        }
    }
    (kept, missing)
}
