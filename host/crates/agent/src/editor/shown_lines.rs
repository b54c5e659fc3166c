//! The lines of files that a conversation has shown to the model. An answer of a tool names the lines that are shown further
//! up instead of repeating them, because every line of an answer is sent again with each later request.
//!
//! Answers are read as the file tools write them: a header such as `src/a.py · version 3 · lines 41-102 of 1005`, then lines
//! such as `41| text`, and `42- text` around a match of a search. The answer of a tool that writes otherwise stays as it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Bytes of an answer's lines about one file below which they are repeated: about what the sentence in their place costs,
/// and few lines are easier to read in one place.
const WORTH: usize = 240;
/// Lines in a row from which on a part of a range is named in its place. Fewer are repeated, because a gap of a few lines
/// costs the reader more than the bytes.
const RUN: usize = 8;
/// The end of a sentence that stands for lines.
const AGAIN: &str = "ask for them again to have them repeated";
/// Ranges that one sentence names. With more of them the lines are repeated.
const RANGES: usize = 24;

/// The lines of files that the model has been shown in one conversation.
#[derive(Debug, Default)]
pub(super) struct ShownLines {
    files: HashMap<String, BTreeMap<usize, Shown>>,
    /// The file of which lines were shown first, by a hash of the lines with their numbers.
    blocks: HashMap<u64, String>,
    /// The number of the turn, from 1.
    turn: u64,
}

/// A line that was shown.
#[derive(Debug)]
struct Shown {
    /// A hash of the text.
    text: u64,
    /// The turn in which an answer last named the line instead of repeating it.
    named_in: Option<u64>,
}

/// A line of an answer.
struct Row<'a> {
    number: usize,
    /// True for `41| text`, false for a line around a match.
    wanted: bool,
    text: &'a str,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let digits = line.find(|c: char| !c.is_ascii_digit())?;
        let number = line[..digits].parse().ok()?;
        let rest = &line[digits..];
        let (wanted, text) = match rest.strip_prefix("| ") {
            Some(text) => (true, text),
            None => (false, rest.strip_prefix("- ")?),
        };
        Some(Self { number, wanted, text })
    }
}

/// Returns the path in a header of lines.
fn header(line: &str) -> Option<&str> {
    let (path, rest) = line.split_once(" · version ")?;
    rest.starts_with(|c: char| c.is_ascii_digit()).then_some(path)
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

impl ShownLines {
    /// Begins a turn of the model. Lines that are asked for again in a later turn are shown again.
    pub(super) fn next_turn(&mut self) {
        self.turn += 1;
    }

    /// Notes the lines in the first message of a conversation.
    pub(super) fn note(&mut self, text: &str) {
        self.without_known(text);
    }

    /// Returns an answer without the lines that the conversation shows already with the same number and text, each of which is
    /// named instead, and notes the others.
    pub(super) fn without_known(&mut self, answer: &str) -> String {
        let mut kept: Vec<String> = vec![];
        let mut lines = answer.split('\n').peekable();
        while let Some(line) = lines.next() {
            kept.push(line.to_owned());
            let Some(path) = header(line).filter(|_| Row::parse(line).is_none()) else { continue };
            let mut block = vec![];
            while let Some(line) = lines.next_if(|line| *line == "…" || Row::parse(line).is_some())
            {
                block.push(line);
            }
            kept.extend(self.block(path, line.contains(" · lines "), &block));
        }
        kept.join("\n")
    }

    /// Takes the lines of one file: returns those that are new, and sentences about the others. In a range the sentence is
    /// where the lines are left out, among the matches of a search it is behind them.
    fn block(&mut self, path: &str, is_range: bool, lines: &[&str]) -> Vec<String> {
        let turn = self.turn;
        let rows: Vec<_> = lines.iter().map(|line| Row::parse(line)).collect();
        let size = |rows: &[&Row<'_>]| rows.iter().map(|row| row.text.len() + 6).sum::<usize>();
        let all: Vec<&Row<'_>> = rows.iter().flatten().collect();
        let known = self.files.entry(path.to_owned()).or_default();

        // The same lines of another file, such as two expected outputs that are equal.
        let is_new = all.iter().all(|row| !known.contains_key(&row.number));
        let twin = (size(&all) >= WORTH).then(|| hash(&lines.join("\n")));
        let first = twin.map(|twin| &*self.blocks.entry(twin).or_insert_with(|| path.to_owned()));
        if let Some(first) = first.filter(|first| is_new && *first != path) {
            for row in &all {
                let shown = Shown { text: hash(row.text), named_in: Some(turn) };
                known.insert(row.number, shown);
            }
            let ranges = ranges(all.iter().map(|row| row.number)).join(", ");
            return vec![format!("… lines {ranges} are the same as in {first} above; {AGAIN}")];
        }

        let is_known = |row: &Row<'_>| {
            known.get(&row.number).is_some_and(|shown| {
                shown.text == hash(row.text) && shown.named_in.is_none_or(|named| named == turn)
            })
        };
        let mut again: Vec<&Row<'_>> = all.iter().copied().filter(|row| is_known(row)).collect();
        if is_range {
            let runs = again.chunk_by(|row, next| row.number + 1 == next.number);
            let runs = runs.filter(|run| run.len() >= RUN && size(run) >= WORTH);
            again = runs.flatten().copied().collect();
        }
        let ranges = ranges(again.iter().filter(|row| row.wanted).map(|row| row.number));
        let is_worth = size(&again) >= WORTH && ranges.len() <= RANGES;
        let named: BTreeSet<usize> =
            again.iter().filter(|_| is_worth).map(|row| row.number).collect();
        let mut kept: Vec<String> = vec![];
        for (line, row) in lines.iter().zip(&rows) {
            match row {
                Some(row) if named.contains(&row.number) => {
                    if let Some(shown) = known.get_mut(&row.number) {
                        shown.named_in = Some(turn);
                    }
                    let first = row.number.to_string() + "-";
                    let range = ranges.iter().find(|range| range.starts_with(&first));
                    if let Some(range) = range.filter(|_| is_range) {
                        kept.push(format!(
                            "… lines {range} are shown above with the same text; {AGAIN}"
                        ));
                    }
                }
                Some(row) => {
                    known.insert(row.number, Shown { text: hash(row.text), named_in: None });
                    kept.push((*line).to_owned());
                }
                // A mark between distant lines is left out where no line precedes it.
                None if kept.last().is_some_and(|last| last != line) => {
                    kept.push((*line).to_owned());
                }
                None => {}
            }
        }
        if is_worth && !is_range {
            kept.pop_if(|line| line == "…");
            let ranges = match ranges.is_empty() {
                true => "the lines around".to_owned(),
                false => format!("lines {}", ranges.join(", ")),
            };
            kept.push(format!("… {ranges} are shown above with the same text; {AGAIN}"));
        }
        kept
    }
}

/// Numbers in ascending order as ranges: `12`, `40-44`.
fn ranges(numbers: impl Iterator<Item = usize>) -> Vec<String> {
    let mut ranges: Vec<(usize, usize)> = vec![];
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 >= number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let range = |(first, last)| match first == last {
        true => format!("{first}"),
        false => format!("{first}-{last}"),
    };
    ranges.into_iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(first: usize, last: usize) -> String {
        let lines: String =
            (first..=last).map(|n| format!("\n{n}| the text of line {n}")).collect();
        format!("src/a.py · version 1 · lines {first}-{last} of 90{lines}")
    }

    const NAMED: &str =
        "are shown above with the same text; ask for them again to have them repeated";

    /// EDITOR-73
    #[test]
    fn lines_that_are_shown_are_named_once_and_repeated_when_asked_for_again() {
        let mut shown = ShownLines::default();
        shown.next_turn();
        assert_eq!(shown.without_known(&part(10, 40)), part(10, 40));
        let header = "src/a.py · version 1 · lines 20-42 of 90";
        let named = format!(
            "{header}\n… lines 20-40 {NAMED}\n41| the text of line 41\n42| the text of line 42"
        );
        assert_eq!(shown.without_known(&part(20, 42)), named);
        shown.next_turn();
        assert_eq!(shown.without_known(&part(20, 40)), part(20, 40));
        shown.next_turn();
        assert!(shown.without_known(&part(20, 40)).ends_with(&format!("\n… lines 20-40 {NAMED}")));
    }

    /// EDITOR-73
    #[test]
    fn another_text_number_or_file_is_shown_and_so_are_a_few_lines() {
        let mut shown = ShownLines::default();
        shown.note(&part(10, 40));
        shown.next_turn();
        for other in [
            part(10, 40).replace("src/a.py", "src/b.py").replace("line 40", "line forty"),
            part(10, 40).replace("the text", "another text"),
            part(41, 80),
            part(10, 14),
        ] {
            assert_eq!(shown.without_known(&other), other);
        }
        let two = format!("{}\n\n{}", part(81, 90), part(41, 80).replace("version 1", "version 2"));
        let expected = format!(
            "{}\n\nsrc/a.py · version 2 · lines 41-80 of 90\n… lines 41-80 {NAMED}",
            part(81, 90)
        );
        assert_eq!(shown.without_known(&two), expected);
    }

    /// EDITOR-73
    #[test]
    fn a_file_with_the_text_of_another_names_that_one() {
        let mut shown = ShownLines::default();
        shown.next_turn();
        let other = part(10, 40).replace("src/a.py", "src/b.py");
        let both = shown.without_known(&format!("{}\n\n{other}", part(10, 40)));
        let named = format!("… lines 10-40 are the same as in src/a.py above; {AGAIN}");
        let header = "src/b.py · version 1 · lines 10-40 of 90";
        assert_eq!(both, format!("{}\n\n{header}\n{named}", part(10, 40)));
        shown.next_turn();
        assert_eq!(shown.without_known(&other), other);
    }

    /// EDITOR-73
    #[test]
    fn a_search_names_the_matches_that_are_shown() {
        let mut shown = ShownLines::default();
        shown.note(&part(10, 40));
        shown.next_turn();
        let line = |n: usize, mark: char| format!("\n{n}{mark} the text of line {n}");
        let near: String = (12..=24).map(|n| line(n, if n % 4 == 0 { '|' } else { '-' })).collect();
        let found = format!("src/a.py · version 1{near}\n…{}\n… 3 more at 70", line(60, '|'));
        let expected = format!(
            "src/a.py · version 1{}\n… lines 12, 16, 20, 24 {NAMED}\n… 3 more at 70",
            line(60, '|')
        );
        assert_eq!(shown.without_known(&found), expected);
        let other = "no line matches\n12| no header";
        assert_eq!(shown.without_known(other), other);
    }
}
