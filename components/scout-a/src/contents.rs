//! Reads the text of the files once and counts what the question names in it. Texts are dropped at once; what remains of a
//! file is a few counts, for the whole file and for blocks of lines.

use crate::survey::Survey;
use crate::terms::Terms;
use crate::words;
use act_kit::world::World;

/// A repository with less text is read as a whole. Of a larger one only the files are read whose names and symbols fit best,
/// `BEST` bytes of them, because reading 100 MB takes seconds.
const WHOLE: u64 = 24 << 20;
const BEST: u64 = 6 << 20;
/// A larger file is data.
const FILE: u64 = 1 << 20;
/// Bytes and files of one request.
const REQUEST: u64 = 2 << 20;
const REQUEST_FILES: usize = 256;
/// Number of lines in a block. Two blocks in a row are about a function.
const BLOCK: usize = 15;
/// A file with a zero byte in its beginning is binary.
const BEGINNING: usize = 8_000;

/// Numbers of occurrences by number of the word, pair, name or text of the question; only those that occur.
pub(crate) type Counts = Vec<(u8, u32)>;

/// Counts of one file, or of a piece of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Content {
    /// Number of words.
    pub(crate) length: u32,
    pub(crate) words: Counts,
    pub(crate) pairs: Counts,
    pub(crate) names: Counts,
    pub(crate) texts: Counts,
    pub(crate) blocks: Vec<Block>,
}

/// What was counted in each file. Most files of a large repository are not read.
#[derive(Debug, Default)]
pub(crate) struct Contents(Vec<Option<Box<Content>>>);

impl Contents {
    /// Returns what was counted in a file; nothing for a file that was not read.
    pub(crate) fn of(&self, at: u32) -> &Content {
        static NOTHING: Content = Content {
            length: 0,
            words: vec![],
            pairs: vec![],
            names: vec![],
            texts: vec![],
            blocks: vec![],
        };
        self.0.get(at as usize).and_then(Option::as_deref).unwrap_or(&NOTHING)
    }
}

/// Some lines in a row. Words that say little are not counted here.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Block {
    pub(crate) length: u32,
    pub(crate) words: Counts,
}

/// Reads the files and returns what each has, in the order of the inventory, and whether files were left out for lack of
/// time. `fit` is how well the names in each file fit.
pub(crate) fn of(
    world: World<'_>,
    survey: &Survey,
    terms: &Terms,
    fit: &[f64],
    reserve: u64,
) -> (Contents, bool) {
    let files = &survey.inventory.files;
    let mut contents = Contents(vec![None; files.len()]);
    let mut chosen = survey.all().filter(|at| (1..=FILE).contains(&files[*at as usize].size));
    let mut chosen = chosen.by_ref().filter(|at| !survey.unit(*at).generated).collect::<Vec<_>>();
    let size = |at: &u32| files[*at as usize].size;
    if chosen.iter().map(size).sum::<u64>() > WHOLE {
        chosen.retain(|at| fit[*at as usize] > 0.0);
        chosen.sort_by(|a, b| fit[*b as usize].total_cmp(&fit[*a as usize]).then(a.cmp(b)));
        let mut left = BEST;
        chosen.retain(|at| {
            let fits = left >= size(at);
            left -= if fits { size(at) } else { 0 };
            fits
        });
        chosen.sort_unstable();
    }
    let mut counter = Counter::new(terms);
    let mut rest = chosen.as_slice();
    while !rest.is_empty() {
        if world.progress.time_left() < reserve {
            return (contents, true);
        }
        let mut bytes = 0;
        let fits = |at: &&u32| {
            bytes += size(at);
            bytes <= REQUEST
        };
        let count = rest.iter().take(REQUEST_FILES).take_while(fits).count().max(1);
        let (part, later) = rest.split_at(count);
        rest = later;
        let paths = part.iter().map(|at| survey.path(*at)).collect::<Vec<_>>();
        for (at, text) in part.iter().zip(world.repository.read(&paths, FILE)) {
            if let Ok(text) = text {
                contents.0[*at as usize] = Some(Box::new(counter.count(&text)));
            }
        }
    }
    (contents, false)
}

/// Counts of a text, by number of the word or pair.
struct Counter<'t> {
    terms: &'t Terms,
    weak: u128,
    words: Vec<u32>,
    pairs: Vec<u32>,
    block: Vec<u32>,
}

impl<'t> Counter<'t> {
    fn new(terms: &'t Terms) -> Self {
        let words = vec![0; terms.words.len()];
        let pairs = vec![0; terms.pairs.len()];
        Self { terms, weak: terms.weak(), block: words.clone(), words, pairs }
    }

    fn count(&mut self, text: &[u8]) -> Content {
        let mut content = Content::default();
        if text[..text.len().min(BEGINNING)].contains(&0) {
            return content;
        }
        let lines = text.split(|byte| *byte == b'\n').collect::<Vec<_>>();
        for block in lines.chunks(BLOCK) {
            let length = block.iter().map(|line| self.line(line)).sum();
            content.length += length;
            for (at, count) in self.block.iter().enumerate() {
                self.words[at] += count;
            }
            let mut words = taken(&mut self.block);
            words.retain(|(at, _)| self.weak >> at & 1 == 0);
            content.blocks.push(Block { length, words });
        }
        content.words = taken(&mut self.words);
        content.pairs = taken(&mut self.pairs);
        let has = content.words.iter().fold(0_u128, |bits, (at, _)| bits | 1 << at);
        let possible = |words: u128| words & !has == 0;
        let Terms { names, texts, .. } = self.terms;
        if names.iter().chain(texts).any(|text| possible(text.words)) {
            let lower = String::from_utf8_lossy(text).to_lowercase();
            let count = |(at, wanted): (usize, &crate::terms::Text), whole: bool| {
                let count =
                    if possible(wanted.words) { found(&lower, &wanted.text, whole) } else { 0 };
                (at as u8, count)
            };
            content.names = names.iter().enumerate().map(|name| count(name, true)).collect();
            content.texts = texts.iter().enumerate().map(|text| count(text, false)).collect();
            content.names.retain(|(_, count)| *count > 0);
            content.texts.retain(|(_, count)| *count > 0);
        }
        content
    }

    /// Counts the words of a line and returns their number.
    fn line(&mut self, line: &[u8]) -> u32 {
        let (mut length, mut before) = (0, None);
        words::each(line, |word| {
            length += 1;
            let at = self.terms.find(word);
            if let Some(at) = at {
                self.block[usize::from(at)] += 1;
                if let Some(before) = before {
                    let is = |pair: &(u8, u8, f64)| (pair.0, pair.1) == (before, at);
                    if let Some(pair) = self.terms.pairs.iter().position(is) {
                        self.pairs[pair] += 1;
                    }
                }
            }
            before = at;
        });
        length
    }
}

/// Returns the counts that are not zero, and sets all to zero.
fn taken(counts: &mut [u32]) -> Counts {
    let mut taken = vec![];
    for (at, count) in counts.iter_mut().enumerate() {
        if *count > 0 {
            taken.push((at as u8, std::mem::take(count)));
        }
    }
    taken
}

/// Counts the content of a piece of text.
pub(crate) fn of_text(terms: &Terms, text: &str) -> Content {
    Counter::new(terms).count(text.as_bytes())
}

/// Counts how often a text occurs; as a whole identifier if `whole`.
fn found(text: &str, wanted: &str, whole: bool) -> u32 {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    let is_whole = |at: usize| {
        !text[..at].ends_with(in_name) && !text[at + wanted.len()..].starts_with(in_name)
    };
    let places = text.match_indices(wanted).filter(|(at, _)| !whole || is_whole(*at));
    u32::try_from(places.count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_counted_by_words_pairs_names_and_exact_texts() {
        let terms = Terms::of("exit status of `run_it`: \"no such item\"");
        let content = of_text(
            &terms,
            "fn run_it() -> ExitStatus { // exits\n}\n// No such items; run_item\n",
        );
        let count = |counts: &Counts, at: Option<u8>| {
            counts.iter().find(|(found, _)| Some(*found) == at).map(|(_, count)| *count)
        };
        assert_eq!(count(&content.words, terms.find(b"exit")), Some(2));
        assert_eq!(count(&content.words, terms.find(b"status")), Some(1));
        assert_eq!((&content.names, &content.texts), (&vec![(0, 1)], &vec![(0, 1)]));
        assert_eq!(content.pairs[0], (0, 1), "`ExitStatus` has both words in a row: {content:?}");
        assert_eq!(of_text(&terms, "exit\0").words, []);
    }

    #[test]
    fn blocks_do_not_count_words_that_say_little() {
        let terms = Terms::of("the code");
        let content = of_text(&terms, &"the price\n".repeat(BLOCK + 1));
        assert_eq!(content.blocks.len(), 2);
        assert_eq!((content.length, &content.blocks[1].words), (2 * (BLOCK as u32 + 1), &vec![]));
    }
}
