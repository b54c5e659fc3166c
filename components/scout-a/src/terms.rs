//! Finds the words of a question in the names of files and symbols. A word that few files have weighs more.

use std::collections::BTreeSet;

/// Maximum number of words of a question that count.
const MOST: usize = 32;
/// Maximum length of a word in bytes. A longer one is data and no name.
const LONGEST: usize = 80;

/// Words that are ignored.
const COMMON: [&str; 62] = [
    "about",
    "after",
    "all",
    "and",
    "any",
    "are",
    "because",
    "been",
    "before",
    "but",
    "can",
    "change",
    "code",
    "could",
    "does",
    "every",
    "file",
    "files",
    "find",
    "fix",
    "for",
    "from",
    "function",
    "get",
    "give",
    "has",
    "have",
    "how",
    "into",
    "its",
    "make",
    "map",
    "must",
    "need",
    "not",
    "of",
    "only",
    "repository",
    "set",
    "should",
    "some",
    "test",
    "tests",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "this",
    "used",
    "uses",
    "using",
    "what",
    "when",
    "where",
    "which",
    "why",
    "will",
    "with",
    "without",
    "would",
];

/// The words and names of a question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    words: Vec<String>,
    /// Whole names, in lower case.
    names: Vec<String>,
}

/// The words that a file matches, one bit for each, by where they were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Matches {
    stem: u32,
    directories: u32,
    /// Names of the question that are symbols of the file.
    named: u32,
    parts: u32,
}

impl Terms {
    pub(crate) fn of(question: &str) -> Self {
        let split = question.split(|c: char| !c.is_alphanumeric() && c != '_');
        let mut words = BTreeSet::new();
        let mut names = BTreeSet::new();
        for name in split.filter(|name| (1..=LONGEST).contains(&name.len())) {
            let parts = parts(name);
            if name.len() >= 3 && !COMMON.contains(&name.to_lowercase().as_str()) {
                names.insert(name.to_lowercase());
            }
            words.extend(parts.into_iter().filter(|word| !COMMON.contains(&word.as_str())));
        }
        let most = |set: BTreeSet<String>| set.into_iter().take(MOST).collect();
        Self { words: most(words), names: most(names) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the texts that the name of a matching symbol contains, in either case.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.words.iter().chain(&self.names).map(String::as_str)
    }
}

impl Matches {
    pub(crate) fn of_path(terms: &Terms, path: &str) -> Self {
        let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
        let stem = name.split('.').next().unwrap_or(name);
        let bits = |text: &str| terms.bits(&parts(text));
        Self { stem: bits(stem), directories: bits(directories), ..Self::default() }
    }

    /// Adds the matches of a symbol's name.
    pub(crate) fn symbol(&mut self, terms: &Terms, name: &str) {
        if terms.is_empty() {
            return;
        }
        let lower = name.to_lowercase();
        if let Some(at) = terms.names.iter().position(|name| *name == lower) {
            self.named |= 1 << at;
        }
        self.parts |= terms.bits(&parts(name));
    }

    /// Returns how well the name of a symbol matches.
    pub(crate) fn of_symbol(terms: &Terms, name: &str) -> usize {
        let mut matches = Self::default();
        matches.symbol(terms, name);
        (matches.named.count_ones() * 4 + matches.parts.count_ones()) as usize
    }
}

impl Terms {
    fn bits(&self, parts: &[String]) -> u32 {
        let has = |word: &String| parts.iter().any(|part| part == word);
        let bits =
            self.words.iter().enumerate().filter(|(_, word)| has(word)).map(|(at, _)| 1 << at);
        bits.fold(0, |all, bit| all | bit)
    }
}

/// Returns how much each file is about the question; 0 for no match.
pub(crate) fn scores(terms: &Terms, matches: &[Matches]) -> Vec<f64> {
    let rarity = |bits: &dyn Fn(&Matches) -> u32, at: usize| {
        let having = matches.iter().filter(|matches| bits(matches) & 1 << at != 0).count();
        (1.0 + matches.len() as f64 / (1.0 + having as f64)).ln()
    };
    let word = |m: &Matches| m.stem | m.directories | m.parts;
    let words = (0..terms.words.len()).map(|at| rarity(&word, at)).collect::<Vec<_>>();
    let names = (0..terms.names.len()).map(|at| rarity(&|m| m.named, at)).collect::<Vec<_>>();
    let sum = |bits: u32, weights: &[f64]| {
        let weights = weights.iter().enumerate().filter(|(at, _)| bits & 1 << at != 0);
        weights.map(|(_, weight)| *weight).sum::<f64>()
    };
    let score = |m: &Matches| {
        3.0 * sum(m.stem, &words)
            + sum(m.directories & !m.stem, &words)
            + 4.0 * sum(m.named, &names)
            + sum(m.parts, &words)
    };
    matches.iter().map(score).collect()
}

/// Splits a name into words: `parsePrice`, `parse_price` and `parse-price` are `parse` and `price`. Words of fewer than three
/// letters, and a plural's `s`, are left out.
pub(crate) fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![];
    let mut part = String::new();
    let mut before_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && before_lower) {
            push(&mut parts, &mut part);
        }
        before_lower = c.is_lowercase() || c.is_numeric();
        if c.is_alphanumeric() {
            part.extend(c.to_lowercase());
        }
    }
    push(&mut parts, &mut part);
    parts
}

fn push(parts: &mut Vec<String>, part: &mut String) {
    let word = std::mem::take(part);
    if word.len() < 3 {
        return;
    }
    let singular = word.strip_suffix('s').filter(|rest| rest.len() > 2 && !rest.ends_with('s'));
    parts.push(singular.map_or_else(|| word.clone(), str::to_owned));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_where_people_see_words() {
        let cases = [
            ("parsePrice", vec!["parse", "price"]),
            ("parse_prices", vec!["parse", "price"]),
            ("HTTPServer", vec!["httpserver"]),
            ("class-address", vec!["class", "address"]),
            ("a_b", vec![]),
        ];
        for (name, expected) in cases {
            assert_eq!(parts(name), expected, "{name}");
        }
    }

    // The host refuses all search texts when one of them is too long.
    #[test]
    fn data_in_a_question_is_no_name() {
        let blob = "0a".repeat(200);
        let terms = Terms::of(&format!("why does {blob} break parse_price?"));
        assert_eq!(terms, Terms::of("why does break parse_price?"));
    }

    #[test]
    fn a_rare_word_in_a_name_weighs_more_than_a_common_one_in_a_directory() {
        let terms = Terms::of("Why does the price rounding of `round_price` in the shop fail?");
        let paths = ["shop/price.py", "shop/cart.py", "shop/round.py", "other.py"];
        let mut matches = paths.map(|path| Matches::of_path(&terms, path)).to_vec();
        matches[1].symbol(&terms, "round_price");
        let scores = scores(&terms, &matches);
        assert!(scores[1] > scores[0] && scores[0] > scores[3], "{scores:?}");
        assert_eq!(scores[3], 0.0);
    }
}
