//! The question as a list of things to look for: words with weights, words that follow each other, identifiers, and exact
//! texts such as paths, versions, dotted names and quotations.

use crate::words;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Maximum numbers of words, of pairs of words, of identifiers and of exact texts that count. A bit of a `u128` stands for
/// a word.
const WORDS: usize = 100;
const PAIRS: usize = 80;
const NAMES: usize = 12;
const TEXTS: usize = 12;
/// Lengths of an identifier or an exact text in bytes. A longer one is data.
const LENGTHS: std::ops::RangeInclusive<usize> = 3..=80;
/// Maximum number of words in a search for symbols. The host takes 256 texts of 256 bytes.
const SEARCHED: usize = 60;

/// Weights of a word in the first line and in the rest of a question, and of a word that says little. A repeated word
/// counts `AGAIN` more for each time, up to `TIMES`.
const FIRST: f64 = 1.0;
const REST: f64 = 0.5;
const WEAK: f64 = 0.2;
const AGAIN: f64 = 0.5;
const TIMES: f64 = 4.0;

/// A word of the question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Word {
    pub(crate) stem: Vec<u8>,
    pub(crate) weight: f64,
    /// Whether the word says little about code.
    pub(crate) weak: bool,
    first: bool,
}

/// The names and words in a question.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Terms {
    pub(crate) words: Vec<Word>,
    by_stem: HashMap<Vec<u8>, u8>,
    /// The first two bytes that a word may begin with, so that most words of a text are skipped without being stemmed.
    beginnings: Vec<bool>,
    /// Words of the question that follow each other: their numbers, and a weight.
    pub(crate) pairs: Vec<(u8, u8, f64)>,
    /// Identifiers in lower case.
    pub(crate) names: Vec<Text>,
    /// Exact texts in lower case.
    pub(crate) texts: Vec<Text>,
}

/// A text to find as it is, and the words in it: a file that lacks one of them does not have the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) words: u128,
}

impl Terms {
    pub(crate) fn of(question: &str) -> Self {
        let question = without_noise(question);
        let mut terms = Self::default();
        let mut counts = BTreeMap::<u8, (f64, f64)>::new();
        for (number, line) in question.lines().enumerate() {
            let mut before = None;
            words::each(line.as_bytes(), |word| {
                let mut stem = word.to_ascii_lowercase();
                let weak = words::is_weak(&stem);
                words::stem(&mut stem);
                let Some(at) = terms.add(stem, weak, number == 0) else { return };
                let (first, rest) = counts.entry(at).or_default();
                *(if number == 0 { first } else { rest }) += 1.0;
                if weak {
                    return;
                }
                if let Some(before) = before.replace(at).filter(|before| *before != at) {
                    terms.pair(before, at);
                }
            });
        }
        let times =
            |count: f64| if count > 0.0 { 1.0 + AGAIN * (count.min(TIMES) - 1.0) } else { 0.0 };
        for (at, (first, rest)) in counts {
            let word = &mut terms.words[usize::from(at)];
            let sum = FIRST * times(first) + REST * times(rest);
            let weight = if first > 0.0 && rest > 0.0 { (0.8 * sum).max(FIRST) } else { sum };
            word.weight = if word.weak { WEAK * weight } else { weight };
        }
        for (one, other, weight) in &mut terms.pairs {
            let first = |at: &u8| terms.words[usize::from(*at)].first;
            *weight = if first(one) && first(other) { 1.0 } else { 0.5 };
        }
        terms.names = terms.bounded(identifiers(&question), NAMES);
        terms.texts = terms.bounded(exact(&question), TEXTS);
        terms
    }

    fn add(&mut self, stem: Vec<u8>, weak: bool, first: bool) -> Option<u8> {
        if let Some(at) = self.by_stem.get(&stem) {
            let word = &mut self.words[usize::from(*at)];
            (word.weak, word.first) = (word.weak && weak, word.first || first);
            return Some(*at);
        }
        let at = u8::try_from(self.words.len()).ok().filter(|at| usize::from(*at) < WORDS)?;
        if self.beginnings.is_empty() {
            self.beginnings = vec![false; 1 << 16];
        }
        self.beginnings[beginning(&stem)] = true;
        // `ties` has the stem `ty`.
        if let [one, b'y', ..] = stem[..] {
            self.beginnings[beginning(&[one, b'i'])] = true;
        }
        self.by_stem.insert(stem.clone(), at);
        self.words.push(Word { stem, weight: 0.0, weak, first });
        Some(at)
    }

    fn pair(&mut self, one: u8, other: u8) {
        let known = self.pairs.iter().any(|pair| (pair.0, pair.1) == (one, other));
        if !known && self.pairs.len() < PAIRS {
            self.pairs.push((one, other, 0.0));
        }
    }

    fn bounded(&self, found: Vec<String>, most: usize) -> Vec<Text> {
        let mut texts: Vec<Text> = vec![];
        for text in found {
            let text = text.to_lowercase();
            if LENGTHS.contains(&text.len()) && texts.iter().all(|known| known.text != text) {
                texts.push(Text { words: self.bits(&text), text });
            }
        }
        texts.truncate(most);
        texts
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the number of a word in either case, before stemming.
    pub(crate) fn find(&self, word: &[u8]) -> Option<u8> {
        if !self.beginnings.get(beginning(word)).copied()? {
            return None;
        }
        let mut stem = word.to_ascii_lowercase();
        words::stem(&mut stem);
        self.by_stem.get(&stem).copied()
    }

    /// Returns the words of a name, one bit for each.
    pub(crate) fn bits(&self, name: &str) -> u128 {
        let mut bits = 0;
        words::each(name.as_bytes(), |word| {
            bits |= self.find(word).map_or(0, |at| 1 << at);
        });
        bits
    }

    /// Returns the words that say little, one bit for each.
    pub(crate) fn weak(&self) -> u128 {
        let weak = self.words.iter().enumerate().filter(|(_, word)| word.weak);
        weak.fold(0, |bits, (at, _)| bits | 1 << at)
    }

    /// Returns texts of which the name of a matching symbol contains one, in either case.
    pub(crate) fn searched(&self) -> Vec<&str> {
        let words = self.words.iter().filter(|word| !word.weak && word.stem.len() >= 3);
        let words = words.filter_map(|word| str::from_utf8(&word.stem).ok());
        // The stem of `queries` is `query`, which is no part of `queries`.
        let words =
            words.map(|stem| stem.strip_suffix('y').filter(|rest| rest.len() >= 3).unwrap_or(stem));
        words.take(SEARCHED).collect()
    }

    /// Returns how well the name of a symbol matches.
    pub(crate) fn of_symbol(&self, name: &str) -> usize {
        let lower = name.to_lowercase();
        let named = self.names.iter().any(|name| name.text == lower);
        let words = (self.bits(name) & !self.weak()).count_ones();
        words as usize + if named { 4 } else { 0 }
    }
}

fn beginning(word: &[u8]) -> usize {
    let byte =
        |at: usize| usize::from(word.get(at).copied().unwrap_or_default().to_ascii_lowercase());
    byte(0) << 8 | byte(1)
}

/// Removes what names no code: links, lines such as `Signed-off-by:`, hashes of commits, numbers of issues.
fn without_noise(question: &str) -> String {
    let is_signature = |line: &&str| {
        let name = line.trim_start().split(':').next().unwrap_or_default();
        line.contains(':') && name.to_lowercase().ends_with("-by") && !name.contains(' ')
    };
    let mut text = String::new();
    for line in question.trim().lines().filter(|line| !is_signature(line)) {
        for word in line.split_inclusive(char::is_whitespace) {
            let bare = word.trim().trim_matches(|c: char| !c.is_alphanumeric() && c != '#');
            let is_hash = (7..=40).contains(&bare.len())
                && bare.bytes().all(|byte| byte.is_ascii_hexdigit())
                && bare.bytes().any(|byte| byte.is_ascii_digit());
            let is_issue = bare.strip_prefix('#').is_some_and(|rest| rest.parse::<u64>().is_ok());
            let kept = match word.find("http://").or_else(|| word.find("https://")) {
                Some(link) => &word[..link],
                None if is_hash || is_issue => "",
                None => word,
            };
            text.push_str(kept);
            if kept.len() < word.len() {
                text.push(' ');
            }
        }
        text.push('\n');
    }
    text
}

/// Returns the words of a question that are written like identifiers.
fn identifiers(question: &str) -> Vec<String> {
    let like_code = |word: &&str| {
        let has_capital =
            word.chars().skip(1).any(char::is_uppercase) && word.chars().any(char::is_lowercase);
        !word.starts_with(|c: char| c.is_ascii_digit())
            && (word.trim_matches('_').contains('_')
                || has_capital
                || question.contains(&format!("`{word}`"))
                || question.contains(&format!("{word}(")))
    };
    let examples = defined_in_examples(question);
    let split = question.split(|c: char| !c.is_alphanumeric() && c != '_');
    split
        .filter(|word| LENGTHS.contains(&word.len()))
        .filter(like_code)
        .filter(|word| !examples.contains(word) || question.contains(&format!("`{word}`")))
        .map(str::to_owned)
        .collect()
}

/// Returns the names that examples between lines of three backticks define themselves: they are not what is looked for.
fn defined_in_examples(question: &str) -> HashSet<&str> {
    let examples = question.split("```").skip(1).step_by(2);
    let mut defined = HashSet::new();
    for line in examples.flat_map(str::lines) {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        while let Some(word) = words.next() {
            if matches!(word, "class" | "def" | "fn" | "func" | "function" | "struct") {
                defined.extend(words.next());
            }
        }
    }
    defined
}

/// Returns texts that are worth finding as they are: names that are joined by `.`, `::`, `/`, `-`, versions, and quotations.
fn exact(question: &str) -> Vec<String> {
    let mut texts = vec![];
    let is_joint = |c: char| matches!(c, '.' | ':' | '/' | '-' | '>' | '#');
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '@') || is_joint(c);
    for word in question.split(|c: char| !is_part(c)) {
        let word = word.trim_matches(is_joint);
        if word.contains(is_joint) {
            texts.push(word.to_owned());
        }
    }
    for line in question.lines() {
        for quote in ['`', '"'] {
            // Every second part is inside the quotation marks.
            let parts = line.split(quote).collect::<Vec<_>>();
            let inner = parts.iter().take(parts.len().saturating_sub(1)).skip(1).step_by(2);
            let inner = inner.map(|part| part.trim()).filter(|part| part.len() <= 60);
            let is_word = |text: &str| text.chars().all(|c| c.is_alphanumeric() || c == '_');
            texts.extend(inner.filter(|part| !is_word(part)).map(str::to_owned));
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight(terms: &Terms, word: &str) -> Option<f64> {
        terms.find(word.as_bytes()).map(|at| terms.words[usize::from(at)].weight)
    }

    #[test]
    fn words_of_the_first_line_weigh_most_and_common_words_little() {
        let terms =
            Terms::of("Fix the caching of prices\n\nA cart is slow.\nCo-authored-by: Ann <a@b.c>");
        assert_eq!(weight(&terms, "caches"), Some(FIRST), "{terms:?}");
        assert_eq!(weight(&terms, "cart"), Some(REST));
        assert_eq!(weight(&terms, "the"), Some(WEAK * FIRST));
        assert_eq!(weight(&terms, "ann"), None);
    }

    #[test]
    fn names_and_exact_texts_are_found_as_they_are_written() {
        let terms = Terms::of(
            "`total` of PriceList in src/price.py: \"no such item\", strings.Cut, 1.25 \
             (#12, 0123abcdef, https://example.com/parse_it)",
        );
        let texts = |found: &[Text]| found.iter().map(|text| text.text.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&terms.names), ["total", "pricelist"]);
        assert_eq!(texts(&terms.texts), ["src/price.py", "strings.cut", "1.25", "no such item"]);
        assert_eq!(weight(&terms, "abcdef"), None);
    }

    #[test]
    fn names_that_an_example_defines_itself_are_not_looked_for() {
        let terms = Terms::of(
            "run_it fails:\n```\ndef run_all(a):\n    run_it(a)\nclass My_Cart:\n```\nSee `My_Cart`.",
        );
        let names = terms.names.iter().map(|name| name.text.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["run_it", "my_cart"]);
    }

    // The host refuses all search texts when one of them is too long.
    #[test]
    fn data_in_a_question_is_no_name() {
        let blob = "0a".repeat(200);
        let terms = Terms::of(&format!("why does `{}{blob}_x` break?", "x".repeat(90)));
        assert_eq!(terms.names, []);
        let many = (0..500).map(|n| format!("word{}q ", "x".repeat(n % 30))).collect::<String>();
        assert!(Terms::of(&many).searched().iter().all(|text| text.len() <= 80));
    }
}
