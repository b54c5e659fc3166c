//! Ranks the files for a question.
//!
//! The first pass is BM25 with fields: words in the text, in the names of symbols, in the file's name and in its directories
//! add up before they saturate, so that a word in a name is worth several in the text. Added to it are the best piece of the
//! file, words that follow each other, and names and exact texts of the question. The second pass lets files share: a
//! test gives to what it exercises, a file to what it imports and to its importers. Weights were chosen on the histories
//! of 16 repositories (`scripts/bench localize`).
//!
//! Without a question the files are ranked by PageRank over the imports: what most others lean on comes first.

use crate::contents::{Content, Contents, Counts};
use crate::facts::Tests;
use crate::survey::{Survey, Unit};
use crate::terms::Terms;
use act_kit::inventory::name;
use std::cmp::Reverse;

/// BM25: how fast a word saturates, and how much a long text is held against the file, for texts, pieces and symbols.
const K1: f64 = 1.2;
const LONG_TEXT: f64 = 0.6;
const LONG_PIECE: f64 = 0.5;
const LONG_SYMBOLS: f64 = 0.5;
/// A word in another field counts as so many occurrences in the text.
const IN_DIRECTORY: f64 = 1.0;
const IN_NAME: f64 = 2.5;
const IN_SYMBOL: f64 = 1.0;
/// Shares of the other parts of a score.
const BEST_PIECE: f64 = 0.6;
const PAIR: f64 = 0.2;
const NAME: f64 = 0.8;
const TEXT: f64 = 0.8;
/// A symbol that the question names.
const DEFINES: f64 = 1.0;
/// A word in the name of a definition counts as so much of its weight, beside those in its text.
const IN_SECTION_NAME: f64 = 1.0;
/// Shares of the score of a test, of an importer, and of an imported file.
const FROM_TEST: f64 = 0.25;
const FROM_IMPORTER: f64 = 0.1;
const FROM_IMPORTED: f64 = 0.1;
/// Factors for files that are rarely what a change is about.
const ASIDE: f64 = 0.5;
const DECLARATIONS: f64 = 0.8;
const HEADER: f64 = 0.9;
const GENERATED: f64 = 0.3;
const DOCUMENT: f64 = 0.5;
/// Share of the PageRank in the best score, so that files without any match have an order.
const WALK: f64 = 0.02;

/// Directories whose source is beside the product.
const BESIDE: [&str; 22] = [
    "bench",
    "benches",
    "benchmark",
    "benchmarks",
    "contrib",
    "demo",
    "demos",
    "doc",
    "docs",
    "example",
    "examples",
    "fixture",
    "fixtures",
    "sample",
    "samples",
    "script",
    "scripts",
    "site",
    "tool",
    "tools",
    "vendor",
    "website",
];

/// Returns how well the names in each file fit: its path and its symbols.
pub(crate) fn by_names(survey: &Survey, terms: &Terms) -> Vec<f64> {
    let strong = !terms.weak();
    let fit = |at: u32| {
        let unit = survey.unit(at);
        let in_path = (unit.in_name | unit.in_directory) & strong;
        let symbols = unit.symbol_words.iter().filter(|(at, _)| strong >> at & 1 == 1).count();
        let kind = if survey.is_product(at) { 1.0 } else { 0.4 };
        kind * (2.0 * f64::from(in_path.count_ones())
            + symbols as f64
            + 4.0 * f64::from(unit.defines().count_ones()))
    };
    survey.all().map(fit).collect()
}

/// Returns the rank of each file for a question. The largest is 1.
pub(crate) fn ranks(
    survey: &Survey,
    tests: &Tests,
    terms: &Terms,
    contents: &Contents,
    weights: &Weights,
) -> Vec<f64> {
    let walk = walk(survey);
    if terms.is_empty() {
        return walk;
    }
    let own = own(survey, contents, weights);
    let mut scores = own.clone();
    share(survey, tests, &own, &mut scores);
    for (at, score) in survey.all().zip(&mut scores) {
        *score *= factor(survey, at);
    }
    let most = scores.iter().copied().fold(0.0, f64::max);
    if most == 0.0 {
        return walk;
    }
    scores
        .iter()
        .zip(&walk)
        .map(|(score, walk)| (score / most + WALK * walk) / (1.0 + WALK))
        .collect()
}

/// Returns the order of the files: source that people wrote, then tests, then the rest, in each of the three first the files
/// that the question names by their path, and then by rank and path. A named test or document stays behind the source,
/// because a task often says where to add a test or a note.
pub(crate) fn order(survey: &Survey, ranks: &[f64]) -> Vec<u32> {
    let key = |at: u32| {
        let unit = survey.unit(at);
        let kind = match unit.language {
            Some(_) if !unit.is_test => 0_u8,
            Some(_) => 1,
            None => 2,
        };
        // The bits of numbers that are not negative have the order of the numbers.
        (kind, !unit.is_named, Reverse(ranks[at as usize].to_bits()), at)
    };
    let mut order = survey.all().map(key).collect::<Vec<_>>();
    order.sort_unstable();
    order.into_iter().map(|(.., at)| at).collect()
}

/// The weight of each word, pair, identifier and exact text of the question: rare ones weigh more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Weights {
    words: Vec<f64>,
    pairs: Vec<f64>,
    names: Vec<f64>,
    texts: Vec<f64>,
}

impl Weights {
    pub(crate) fn of(survey: &Survey, terms: &Terms, contents: &Contents) -> Self {
        // Documents do not change how rare a word is in code.
        let code =
            survey.all().filter(|at| survey.unit(*at).language.is_some()).collect::<Vec<_>>();
        let code = if code.is_empty() { survey.all().collect() } else { code };
        let rarities = |count: usize, has: &dyn Fn(&Unit, &Content, u8) -> bool| {
            let rarity = |at: usize| {
                let has = |file: &&u32| has(survey.unit(**file), contents.of(**file), at as u8);
                let (all, having) = (code.len() as f64, code.iter().filter(has).count() as f64);
                match having {
                    0.0 => 0.0,
                    having => (1.0 + (all - having + 0.5) / (having + 0.5)).ln(),
                }
            };
            (0..count).map(rarity).collect::<Vec<_>>()
        };
        let words = rarities(terms.words.len(), &|unit, content, at| {
            bit(unit.in_name | unit.in_directory, at) || of(&content.words, at) > 0.0
        });
        let pairs = rarities(terms.pairs.len(), &|_, content, at| of(&content.pairs, at) > 0.0);
        let names = rarities(terms.names.len(), &|unit, content, at| {
            bit(unit.defines(), at) || of(&content.names, at) > 0.0
        });
        let texts = rarities(terms.texts.len(), &|unit, content, at| {
            bit(unit.qualified(), at) || of(&content.texts, at) > 0.0
        });
        Self {
            words: words
                .iter()
                .zip(&terms.words)
                .map(|(rarity, word)| rarity * word.weight)
                .collect(),
            pairs: pairs.iter().zip(&terms.pairs).map(|(rarity, pair)| rarity * pair.2).collect(),
            names,
            texts,
        }
    }

    /// Returns the score of a piece of text by the words in it that say something. `long` is how much its length is held
    /// against it, 1 for a usual one.
    fn piece(&self, words: &Counts, long: f64) -> f64 {
        let word = |(at, count): &(u8, u32)| {
            self.words[usize::from(*at)] * saturated(f64::from(*count) / long)
        };
        words.iter().map(word).sum()
    }

    /// Returns the score of the pairs, identifiers and exact texts in a text.
    fn exact(&self, content: &Content) -> f64 {
        let sum = |weights: &[f64], counts: &Counts| {
            counts
                .iter()
                .map(|(at, count)| weights[usize::from(*at)] * saturated(f64::from(*count)))
                .sum::<f64>()
        };
        PAIR * sum(&self.pairs, &content.pairs)
            + NAME * sum(&self.names, &content.names)
            + TEXT * sum(&self.texts, &content.texts)
    }

    /// Returns the score of a definition or a section: its text, and what its name says. `usual` is the number of words of a
    /// usual one.
    pub(crate) fn of_section(
        &self,
        terms: &Terms,
        symbol: &str,
        content: &Content,
        usual: f64,
    ) -> f64 {
        let long = 1.0 - LONG_PIECE + LONG_PIECE * f64::from(content.length) / usual;
        let strong = !terms.weak();
        let mut words = content.words.clone();
        words.retain(|(at, _)| bit(strong, *at));
        let in_name = terms.bits(symbol) & strong;
        let named = (0..self.words.len()).filter(|at| bit(in_name, *at as u8));
        let lower = symbol.to_lowercase();
        let defined = terms.names.iter().zip(&self.names).filter(|(name, _)| name.text == lower);
        self.piece(&words, long)
            + self.exact(content)
            + named.map(|at| self.words[at] * IN_SECTION_NAME).sum::<f64>()
            + defined.map(|(_, weight)| DEFINES * weight).sum::<f64>()
    }
}

/// Returns a bit. WebAssembly has no shift of 128 bits, so one half is shifted.
fn bit(bits: u128, at: u8) -> bool {
    let half = if at < 64 { bits as u64 } else { (bits >> 64) as u64 };
    half >> (at % 64) & 1 == 1
}

/// Returns the scores of the first pass.
fn own(survey: &Survey, contents: &Contents, weights: &Weights) -> Vec<f64> {
    let code = survey.all().filter(|at| survey.unit(*at).language.is_some());
    let code = code.map(|at| (survey.unit(at), contents.of(at))).collect::<Vec<_>>();
    let mean = |sum: f64| (sum / code.len().max(1) as f64).max(1.0);
    let text_length = mean(code.iter().map(|(_, content)| f64::from(content.length)).sum());
    let symbol_count = mean(code.iter().map(|(unit, _)| f64::from(unit.symbols)).sum());
    let lengths = code.iter().flat_map(|(_, content)| pieces(content)).map(|(length, _)| length);
    let (sum, count) = lengths.fold((0.0, 0.0), |(sum, count), length| (sum + length, count + 1.0));
    let piece_length = if count > 0.0 { sum / count } else { 1.0 };
    let score = |at: u32| {
        let (unit, content) = (survey.unit(at), contents.of(at));
        let long = |weight: f64, length: f64| 1.0 - weight + weight * length;
        let long_text = long(LONG_TEXT, f64::from(content.length) / text_length);
        let long_symbols = long(LONG_SYMBOLS, f64::from(unit.symbols) / symbol_count);
        let mut score = 0.0;
        for (at, weight) in weights.words.iter().enumerate() {
            let at = at as u8;
            let mut count = of(&content.words, at) / long_text;
            count += IN_SYMBOL * of(&unit.symbol_words, at) / long_symbols;
            count += if bit(unit.in_name, at) { IN_NAME } else { 0.0 };
            count += if bit(unit.in_directory, at) { IN_DIRECTORY } else { 0.0 };
            score += weight * saturated(count);
        }
        let piece = |(length, words): (f64, Counts)| {
            weights.piece(&words, long(LONG_PIECE, length / piece_length))
        };
        score += BEST_PIECE * pieces(content).map(piece).fold(0.0, f64::max);
        score += weights.exact(content);
        let defines = |bits: u128, weights: &[f64]| {
            let defined = weights.iter().enumerate().filter(|(at, _)| bit(bits, *at as u8));
            defined.map(|(_, weight)| DEFINES * weight).sum::<f64>()
        };
        score + defines(unit.defines(), &weights.names) + defines(unit.qualified(), &weights.texts)
    };
    survey.all().map(score).collect()
}

fn of(counts: &Counts, wanted: u8) -> f64 {
    counts.iter().find(|(at, _)| *at == wanted).map_or(0.0, |(_, count)| f64::from(*count))
}

/// BM25's saturation: many occurrences count little more than a few.
fn saturated(count: f64) -> f64 {
    count * (K1 + 1.0) / (count + K1)
}

/// Returns pieces of a file of about the length of a function, two blocks each: their lengths, and the counts of the words
/// that say something. Pieces without any are left out.
fn pieces(content: &Content) -> impl Iterator<Item = (f64, Counts)> + '_ {
    let blocks = &content.blocks;
    let piece = move |at: usize| {
        let (one, other) = (&blocks[at], blocks.get(at + 1));
        let mut words = one.words.clone();
        for (word, count) in other.map_or(&[][..], |other| &other.words) {
            match words.iter_mut().find(|(known, _)| known == word) {
                Some((_, sum)) => *sum += count,
                None => words.push((*word, *count)),
            }
        }
        (f64::from(one.length + other.map_or(0, |other| other.length)), words)
    };
    (0..blocks.len()).map(piece).filter(|(_, words)| !words.is_empty())
}

/// Adds to each file its share of the scores of the files around it.
fn share(survey: &Survey, tests: &Tests, own: &[f64], scores: &mut [f64]) {
    let count = own.len();
    let (mut test, mut importer, mut imported) =
        (vec![0.0_f64; count], vec![0.0; count], vec![0.0; count]);
    for (at, exercises) in tests.exercises().filter(|(at, _)| survey.unit(*at).is_test) {
        // A test of everything says little about each.
        let share = own[at as usize] / (exercises.len() as f64).sqrt();
        for to in exercises {
            test[*to as usize] = share.max(test[*to as usize]);
        }
    }
    let is_source = |at: u32| survey.unit(at).language.is_some() && !survey.unit(at).is_test;
    for (from, to) in survey.edges.iter().filter(|(from, to)| is_source(*from) && is_source(*to)) {
        let (from, to) = (*from as usize, *to as usize);
        importer[to] = own[from].max(importer[to]);
        imported[from] = own[to].max(imported[from]);
    }
    for (at, score) in scores.iter_mut().enumerate() {
        *score +=
            FROM_TEST * test[at] + FROM_IMPORTER * importer[at] + FROM_IMPORTED * imported[at];
    }
}

/// Returns whether one of these directories holds source that is beside the product.
pub(crate) fn is_beside(directories: &str) -> bool {
    let is = |part: &str| BESIDE.iter().any(|known| part.eq_ignore_ascii_case(known));
    directories.split('/').any(|part| part.starts_with('.') || is(part))
}

/// Returns the factor for the kind of a file, by its name.
fn factor(survey: &Survey, at: u32) -> f64 {
    let (unit, name) = (survey.unit(at), name(survey.path(at)));
    match () {
        () if unit.is_named => 1.0,
        () if unit.generated => GENERATED,
        () if unit.language.is_none() => DOCUMENT,
        () if unit.beside || name.starts_with('.') => ASIDE,
        () if [".d.ts", ".d.mts", ".d.cts", ".pyi"].iter().any(|end| name.ends_with(end)) => {
            DECLARATIONS
        }
        () if [".h", ".hh", ".hpp", ".hxx"].iter().any(|end| name.ends_with(end)) => HEADER,
        () => 1.0,
    }
}

/// Number of steps after which what is left of the start, 0.7 to the power of 16, is a third of a percent.
const STEPS: usize = 16;
/// Probability that the walk continues instead of starting again.
const ON: f64 = 0.7;
/// Weight of a step back to an importer, against a step along an import.
const BACK: f64 = 0.35;

/// Returns the PageRank of each file: a random walk that steps from a file to one that it imports, and sometimes back to an
/// importer. The largest is 1.
fn walk(survey: &Survey) -> Vec<f64> {
    let count = survey.units.len();
    let mut start = survey.all().map(|at| start(survey.unit(at))).collect::<Vec<_>>();
    normalize(&mut start);
    let mut out = vec![0.0; count];
    for (from, to) in &survey.edges {
        out[*from as usize] += 1.0;
        out[*to as usize] += BACK;
    }
    // The part of its rank that a file gives along each of its imports. Back to each importer it gives `BACK` of that.
    let parts = out.iter().map(|out| if *out > 0.0 { ON / out } else { 0.0 }).collect::<Vec<_>>();
    let mut rank = start.clone();
    for _ in 0..STEPS {
        let shares = rank.iter().zip(&parts).map(|(rank, part)| rank * part).collect::<Vec<_>>();
        // A file without imports and importers starts the walk again.
        let stuck = rank.iter().zip(&parts).filter(|(_, part)| **part == 0.0);
        let again = 1.0 - ON + ON * stuck.map(|(rank, _)| rank).sum::<f64>();
        for (rank, start) in rank.iter_mut().zip(&start) {
            *rank = start * again;
        }
        for (from, to) in &survey.edges {
            let (from, to) = (*from as usize, *to as usize);
            rank[to] += shares[from];
            rank[from] += shares[to] * BACK;
        }
    }
    let most = rank.iter().copied().fold(0.0, f64::max);
    if most > 0.0 {
        rank.iter_mut().for_each(|rank| *rank /= most);
    }
    rank
}

/// Returns how likely the walk starts at a file: unlikely for tests and generated files, never for documents.
fn start(unit: &Unit) -> f64 {
    match () {
        () if unit.language.is_none() => 0.0,
        () if unit.generated => 0.1,
        () if unit.is_test => 0.4,
        () => 1.0,
    }
}

fn normalize(shares: &mut [f64]) {
    let sum = shares.iter().sum::<f64>();
    let even = 1.0 / shares.len().max(1) as f64;
    shares.iter_mut().for_each(|share| *share = if sum > 0.0 { *share / sum } else { even });
}
