//! Finds the lines that a question is about: the definitions and sections of the best files whose text and names match best.
//! Weak matches give nothing, because the Editor sends these lines again with every request.
//!
//! A file is cut into parts: definitions, and the lines between them. A part is worth the rank of its file times its share
//! in what the file has of the question, so a small file gives most of its definitions and a large one its best. A long
//! definition is shown by its first lines and the blocks that match best, the best of all as a whole. Small definitions that
//! the best ones call are shown with them, because a reader of a call asks for them next.
//!
//! `scripts/bench localize` measures how many of the functions that a commit changed are shown.

use crate::contents;
use crate::facts::{Known, is_telling};
use act_kit::reports::report_a::Excerpt;
use act_kit::summaries::Summaries;
use act_kit::world::{Symbol, World};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of bytes for a reader without a model. The host shows 12 kB, and its headers may be somewhat longer.
pub(crate) const MOST: usize = 11_500;
/// Maximum number of files that are looked at. A file with a lower rank is not looked at.
const FILES: usize = 10;
const RANK: f64 = 0.3;
/// Maximum number of bytes of a file that are read.
const FILE: u64 = 512 << 10;
/// Bytes of a header beside the path, and of a line beside its text, as the host shows them.
const HEADER: usize = 45;
const NUMBER: usize = 7;
/// A longer definition is shown by its first lines and by its best blocks of lines.
const LONG: u32 = 60;
const FIRST: u32 = 4;
const BLOCK: usize = 12;
const BLOCKS: usize = 4;
/// Number of lines in a part without a definition, and of lines with text that it has at least beside definitions: a
/// closing brace and an export say nothing.
const SECTION: u32 = 30;
const LEAST: usize = 3;
/// Maximum number of comment lines above a definition that belong to it.
const COMMENT: usize = 12;
/// Number of words of a usual definition, which is not held against it.
const USUAL: f64 = 80.0;
/// Ranges with so few lines between them become one, and inside one definition with at most a block between them: what is
/// missing in the middle of a function has to be asked for.
const BETWEEN: u32 = 3;
/// Number of the best definitions that are shown as a whole where they have room together in this share of all bytes.
const WHOLES: usize = 4;
const WHOLE: f64 = 0.55;
/// Maximum number of bytes with which a file is completed of which more than half is shown.
const REST: usize = 2_500;
/// Definitions whose calls are followed: the best ones with at least this share of the best score.
const CALLERS: usize = 3;
const CALLER: f64 = 0.4;
/// Maximum number of names that are looked for, and of lines in a definition that is shown because it is called.
const CALLED_NAMES: usize = 60;
const CALLED_LINES: u32 = 40;
/// Files behind those that are looked at which may define what is called, and how many of them are read.
const CALLED_FILES: usize = 64;
const CALLED_READ: usize = 4;

// The weights below were chosen on 125 commits of five projects, and checked on 125 others.
/// A definition that the question names has at least this share of the best score in its file.
const NAMED: f64 = 0.8;
/// The scores of a file's parts are raised to this power, so that the best ones stand out.
const SHARPNESS: f64 = 2.5;
/// How much it is held against a part that other parts of its file match as well: the power of the sum of their scores.
const CROWD: f64 = 0.3;
/// How much a part's size is held against it: the power of its bytes, at least `SMALL` of them.
const SIZE: f64 = 0.3;
const SMALL: f64 = 300.0;
/// A part with a smaller share of the best score is left out.
const SHARE: f64 = 0.05;
/// A definition that a good one calls has at least this share of the caller's worth.
const CALLED: f64 = 0.25;

type Ranges = Vec<(u32, u32)>;

/// A definition with the comment above it, or lines between definitions. Lines count from 1, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part<'s> {
    /// The name of the definition, or of the type around the lines.
    name: &'s str,
    is_definition: bool,
    /// The first line without the comment.
    defined: u32,
    first: u32,
    last: u32,
}

/// What is shown of a part, and how well it matches.
struct Section {
    /// Position among the files that are looked at.
    file: usize,
    /// The name of the definition; empty for lines between definitions.
    name: String,
    /// The question names the definition.
    is_named: bool,
    whole: (u32, u32),
    /// Ranges to show, the longest first; the first choice that fits is shown.
    choices: Vec<Ranges>,
    score: f64,
}

impl Section {
    fn is_definition(&self) -> bool {
        !self.name.is_empty()
    }
}

/// The files that are looked at, with what is shown of a file.
struct Files<'k> {
    known: &'k Known,
    paths: Vec<&'k str>,
    texts: Vec<String>,
    symbols: Vec<Vec<Symbol>>,
}

impl<'k> Files<'k> {
    fn read(world: World<'_>, known: &'k Known, files: &[u32]) -> Self {
        let paths = files.iter().map(|at| known.survey.path(*at)).collect::<Vec<_>>();
        let outlines = world.repository.outlines(&paths).into_iter();
        let texts = world.repository.read(&paths, FILE).into_iter();
        let text = |text: Result<Vec<u8>, _>| {
            String::from_utf8_lossy(&text.unwrap_or_default()).into_owned()
        };
        Self {
            known,
            paths,
            texts: texts.map(text).collect(),
            symbols: outlines
                .map(|outline| outline.map(|outline| outline.symbols).unwrap_or_default())
                .collect(),
        }
    }

    fn add(&mut self, other: Self) {
        self.paths.extend(other.paths);
        self.texts.extend(other.texts);
        self.symbols.extend(other.symbols);
    }

    fn lines(&self, file: usize) -> Vec<&str> {
        self.texts[file].lines().collect()
    }

    /// Returns the bytes of ranges as the host shows them.
    fn bytes(&self, file: usize, ranges: &Ranges) -> usize {
        let lines = self.lines(file);
        let range = |(first, last): &(u32, u32)| {
            let lines = lines[*first as usize - 1..*last as usize].iter();
            HEADER + self.paths[file].len() + lines.map(|line| line.len() + NUMBER).sum::<usize>()
        };
        ranges.iter().map(range).sum::<usize>()
    }
}

/// Returns ranges of at most `most` bytes, those of the file with the best match first; none when nothing matches well.
pub(crate) fn of(world: World<'_>, known: &Known, most: usize) -> Vec<Excerpt> {
    let survey = &known.survey;
    let worth = |at: &u32| {
        let unit = survey.unit(*at);
        // Tests are named with what they exercise; their lines are seldom what the question is about.
        unit.language.is_some()
            && !unit.is_test
            && (known.ranks[*at as usize] >= RANK || unit.is_named)
    };
    let chosen = known.order.iter().copied().filter(worth).take(FILES).collect::<Vec<_>>();
    if chosen.is_empty() || known.terms.is_empty() {
        return vec![];
    }
    let mut files = Files::read(world, known, &chosen);
    let mut found = vec![];
    for (file, at) in chosen.iter().enumerate() {
        let mut sections = sections(known, file, &files.lines(file), &files.symbols[file]);
        weigh(&mut sections, known.ranks[*at as usize].max(RANK));
        found.extend(sections);
    }
    for section in &mut found {
        let size = files.bytes(section.file, &section.choices[0]);
        section.score /= (size as f64).max(SMALL).powf(SIZE);
    }
    raise_called(world, &mut files, &chosen, &mut found);
    let best = found.iter().map(|section| section.score).fold(0.0, f64::max);
    found.retain(|section| section.score >= SHARE * best);
    found.sort_by(|a, b| {
        b.score.total_cmp(&a.score).then((a.file, &a.choices).cmp(&(b.file, &b.choices)))
    });
    let mut room = (WHOLE * most as f64) as usize;
    for section in found.iter_mut().filter(|section| section.is_definition()).take(WHOLES) {
        let whole = vec![section.whole];
        if let Some(rest) = room.checked_sub(files.bytes(section.file, &whole)) {
            room = rest;
            section.choices.insert(0, whole);
        }
    }
    let (mut left, mut shown) = (most, vec![]);
    let mut whole = BTreeSet::new();
    for Section { file, choices, .. } in found {
        if whole.contains(&file) {
            continue;
        }
        let Some(ranges) = choices.into_iter().find(|one| files.bytes(file, one) <= left) else {
            continue;
        };
        left -= files.bytes(file, &ranges);
        shown.extend(ranges.into_iter().map(|(first, last)| (file, first, last)));
        // A file of which most is shown is shown whole: its last lines cost less than a request for them.
        let of_file = shown.iter().filter(|(of, ..)| *of == file);
        let has = files.bytes(file, &of_file.map(|(_, first, last)| (*first, *last)).collect());
        let all = (1, files.lines(file).len() as u32);
        let rest = files.bytes(file, &vec![all]).saturating_sub(has);
        if rest <= has.min(REST).min(left) {
            left -= rest;
            whole.insert(file);
            shown.retain(|(of, ..)| *of != file);
            shown.push((file, all.0, all.1));
        }
    }
    in_order(&files.paths, &shown)
}

/// Raises small definitions that the best ones call, in the files that are looked at and in others of the map.
fn raise_called(world: World<'_>, files: &mut Files<'_>, chosen: &[u32], found: &mut Vec<Section>) {
    let best = found.iter().map(|section| section.score).fold(0.0, f64::max);
    let mut callers = found
        .iter()
        .filter(|section| section.is_definition() && section.score >= CALLER * best)
        .collect::<Vec<_>>();
    callers.sort_by(|a, b| b.score.total_cmp(&a.score));
    callers.truncate(CALLERS);
    // The best caller of each name, by file and score.
    let mut called = BTreeMap::<String, (usize, f64)>::new();
    for Section { file, choices, score, name, .. } in callers {
        let lines = files.lines(*file);
        for (first, last) in &choices[0] {
            for line in &lines[*first as usize - 1..*last as usize] {
                for callee in calls(line).filter(|callee| callee != name) {
                    if called.len() < CALLED_NAMES {
                        called.entry(callee.to_owned()).or_insert((*file, *score));
                    }
                }
            }
        }
    }
    let known = files.known;
    let is_candidate = |symbol: &Symbol| {
        called.contains_key(&symbol.name)
            && symbol.last_line.saturating_sub(symbol.first_line) < CALLED_LINES
            && is_telling(symbol)
    };
    // A name that several files define says nothing about which of them is meant, unless the caller's own file defines it.
    let mut elsewhere = called.keys().map(String::as_str).collect::<BTreeSet<_>>();
    for symbol in files.symbols.iter().flatten() {
        elsewhere.remove(symbol.name.as_str());
    }
    let survey = &known.survey;
    let others = known.order.iter().copied();
    let others = others.filter(|at| survey.is_product(*at) && !chosen.contains(at));
    let others = others.take(CALLED_FILES).collect::<Vec<_>>();
    if !elsewhere.is_empty() && !others.is_empty() {
        let paths = others.iter().map(|at| survey.path(*at)).collect();
        let names = elsewhere.into_iter().collect::<Vec<_>>();
        let mut defines = vec![];
        Summaries::of(world.repository, paths, &names).each(&mut |at, summary| {
            if summary.named().any(|symbol| names.contains(&symbol.name)) {
                defines.push(others[at]);
            }
        });
        defines.truncate(CALLED_READ);
        files.add(Files::read(world, known, &defines));
    }
    let mut definitions = BTreeMap::<&str, Vec<(usize, &Symbol)>>::new();
    for (file, symbols) in files.symbols.iter().enumerate() {
        for symbol in symbols.iter().filter(|symbol| is_candidate(symbol)) {
            definitions.entry(&symbol.name).or_default().push((file, symbol));
        }
    }
    for (name, mut places) in definitions {
        let (caller, score) = called[name];
        if places.iter().any(|(file, _)| *file == caller) {
            places.retain(|(file, _)| *file == caller);
        }
        // Two types of one file may have a method of the same name; more of them are a convention.
        if places.len() > if places[0].0 == caller { 2 } else { 1 } {
            continue;
        }
        for (file, symbol) in places {
            let lines = files.lines(file);
            let (defined, last) =
                (symbol.first_line.max(1), symbol.last_line.min(lines.len() as u32));
            if defined > last {
                continue;
            }
            let whole = (with_comment(&lines, defined), last);
            let covers = |section: &&mut Section| {
                section.file == file && section.whole.0 <= defined && last <= section.whole.1
            };
            match found.iter_mut().find(covers) {
                Some(section) if section.is_definition() => {
                    section.score = section.score.max(CALLED * score);
                }
                _ => found.push(Section {
                    file,
                    name: name.to_owned(),
                    is_named: false,
                    whole,
                    choices: vec![vec![whole]],
                    score: CALLED * score,
                }),
            }
        }
    }
}

/// Returns the names before an opening parenthesis.
fn calls(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices('(').filter_map(move |(at, _)| {
        let before = &line[..at];
        let start = before
            .rfind(|c: char| !is_part(c))
            .map_or(0, |last| last + before[last..].chars().next().map_or(1, char::len_utf8));
        Some(&before[start..]).filter(|name| name.len() > 2)
    })
}

/// Turns the scores of one file's sections into their worth in a file of this rank.
fn weigh(sections: &mut [Section], rank: f64) {
    let best = sections.iter().map(|section| section.score).fold(0.0, f64::max);
    let definitions = sections.iter().filter(|section| section.is_definition()).count();
    for section in sections.iter_mut().filter(|section| section.is_definition()) {
        // The fewer definitions a file has, the likelier each of them is the one, whatever its words are.
        let few = best / (definitions as f64).sqrt();
        let named = if section.is_named { NAMED * best } else { 0.0 };
        section.score = section.score.max(few).max(named);
    }
    let sum = sections.iter().map(|section| section.score.powf(SHARPNESS)).sum::<f64>();
    for section in sections {
        section.score = rank * section.score.powf(SHARPNESS) / sum.powf(CROWD);
    }
}

/// Returns the parts of a file that match, with their scores by BM25.
fn sections(known: &Known, file: usize, lines: &[&str], symbols: &[Symbol]) -> Vec<Section> {
    let score = |name: &str, first: u32, last: u32| {
        let text = lines[first as usize - 1..last as usize].join("\n");
        let content = contents::of_text(&known.terms, &text);
        known.weights.of_section(&known.terms, name, &content, USUAL)
    };
    let mut found = vec![];
    for Part { name, is_definition, defined, first, last } in parts(lines, symbols) {
        let lower = name.to_lowercase();
        let is_named = is_definition && known.terms.names.iter().any(|name| name.text == lower);
        let mut section = Section {
            file,
            name: if is_definition { name.to_owned() } else { String::new() },
            is_named,
            whole: (first, last),
            choices: vec![vec![(first, last)]],
            score: score(name, first, last),
        };
        if last - first >= LONG {
            let starts = (defined..=last).step_by(BLOCK);
            let block = |from: u32| (from, last.min(from + BLOCK as u32 - 1));
            let blocks = starts.map(block).map(|(from, to)| (score("", from, to), from, to));
            let mut blocks = blocks.collect::<Vec<_>>();
            // Its length is not held against a definition that matches well in one place.
            let piece = |near: &[(f64, u32, u32)]| score("", near[0].1, near[2].2);
            let best = blocks.windows(3).map(piece).fold(0.0, f64::max);
            section.score = section.score.max(best);
            blocks.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            let with = |count: usize| {
                let blocks = blocks.iter().take(count).map(|(_, from, to)| (*from, *to));
                let first = std::iter::once((defined, defined + FIRST - 1));
                joined(first.chain(blocks).collect(), BLOCK as u32 + 1)
            };
            section.choices = vec![with(BLOCKS), with(1)];
        }
        found.push(section);
    }
    found.retain(|section| section.score > 0.0);
    found
}

/// Cuts a file into definitions and the lines between them, without tests. Definitions in a function belong to it, and
/// methods stand for their type.
fn parts<'s>(lines: &[&str], symbols: &'s [Symbol]) -> Vec<Part<'s>> {
    let total = lines.len() as u32;
    let contains = |outer: &Symbol, inner: &Symbol| {
        let range = |symbol: &Symbol| (symbol.first_line, symbol.last_line);
        range(outer) != range(inner)
            && outer.first_line <= inner.first_line
            && inner.last_line <= outer.last_line
    };
    let (mut parts, mut around, mut end) = (vec![], vec![], 0);
    let mut is_covered = vec![false; lines.len()];
    for (at, symbol) in symbols.iter().enumerate() {
        let (defined, last) = (symbol.first_line.max(1), symbol.last_line.min(total));
        if defined > last || last <= end {
            continue;
        }
        let is_body = matches!(symbol.kind.as_str(), "function" | "method");
        // Symbols are sorted by line, so that the next one is inside if any is.
        let has_inner = symbols.get(at + 1).is_some_and(|next| contains(symbol, next));
        if has_inner && !is_body && is_telling(symbol) {
            around.push(symbol);
            continue;
        }
        end = last;
        let first = with_comment(lines, defined);
        is_covered[first as usize - 1..last as usize].fill(true);
        if is_telling(symbol) {
            parts.push(Part { name: &symbol.name, is_definition: true, defined, first, last });
        }
    }
    let is_free = |line: u32| !is_covered[line as usize - 1];
    let is_blank = |line: &u32| lines[*line as usize - 1].trim().is_empty();
    let mut line = 1;
    while line <= total {
        let first = line;
        line += 1;
        if !is_free(first) || is_blank(&first) {
            continue;
        }
        let begins = |line: u32| around.iter().any(|symbol| symbol.first_line == line);
        while line <= total && line - first < SECTION && is_free(line) && !begins(line) {
            line += 1;
        }
        let last = (first..line).rev().find(|line| !is_blank(line)).unwrap_or(first);
        if !symbols.is_empty() && (first..=last).filter(|line| !is_blank(line)).count() < LEAST {
            continue;
        }
        let is_around = |symbol: &&&Symbol| (symbol.first_line..=symbol.last_line).contains(&first);
        let name = around.iter().rev().find(is_around).map_or("", |symbol| &symbol.name);
        parts.push(Part { name, is_definition: false, defined: first, first, last });
    }
    parts
}

/// Returns the first line of the comment that stands directly above a definition.
fn with_comment(lines: &[&str], defined: u32) -> u32 {
    let above = lines[..(defined as usize - 1).min(lines.len())].iter().rev().take(COMMENT);
    let is_comment = |line: &&&str| {
        let line = line.trim_start();
        ["//", "#", "/*", "*", "@", "--"].iter().any(|mark| line.starts_with(mark))
    };
    defined - above.take_while(is_comment).count() as u32
}

/// Sorts ranges, and joins those where the next one begins at most `between` lines after the end of the last.
fn joined(mut ranges: Ranges, between: u32) -> Ranges {
    ranges.sort_unstable();
    let mut joined: Ranges = vec![];
    for (first, last) in ranges {
        match joined.last_mut() {
            Some(before) if first <= before.1 + between => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    joined
}

/// Puts the ranges of a file together, in the order of lines, the file of the best part first.
fn in_order(paths: &[&str], shown: &[(usize, u32, u32)]) -> Vec<Excerpt> {
    let mut files = vec![];
    for (file, ..) in shown {
        if !files.contains(file) {
            files.push(*file);
        }
    }
    let mut excerpts = vec![];
    for file in files {
        let ranges = shown.iter().filter(|range| range.0 == file);
        for (start_line, end_line) in
            joined(ranges.map(|range| (range.1, range.2)).collect(), BETWEEN)
        {
            excerpts.push(Excerpt { file: paths[file].to_owned(), start_line, end_line });
        }
    }
    excerpts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &str, kind: &str, first_line: u32, last_line: u32) -> Symbol {
        let (name, kind) = (name.to_owned(), kind.to_owned());
        Symbol { name, kind, first_line, last_line, ..Symbol::default() }
    }

    fn section(score: f64, is_named: bool) -> Section {
        let choices = vec![vec![(1, 2)]];
        Section { file: 0, name: "it".to_owned(), is_named, whole: (1, 2), choices, score }
    }

    // SCOUT-A-14
    #[test]
    fn a_file_is_cut_into_definitions_and_the_lines_between_them() {
        let text = "use a;\nuse b;\nuse c;\n\nstruct Cart {\n  a: x,\n  b: y,\n  // Adds.\n  fn add() {\n    \
                    #define X\n  }\n  fn total() {}\n}\n\n#[test]\nfn it_adds() {}\n\n}\n";
        let lines = text.lines().collect::<Vec<_>>();
        let symbols = [
            symbol("Cart", "type", 5, 13),
            symbol("add", "method", 9, 11),
            symbol("X", "macro", 10, 10),
            symbol("total", "method", 12, 12),
            symbol("it_adds", "test", 15, 16),
        ];
        let parts = parts(&lines, &symbols);
        let shown = parts.iter().map(|part| (part.name, part.first, part.last)).collect::<Vec<_>>();
        assert_eq!(shown, [("add", 8, 11), ("total", 12, 12), ("", 1, 3), ("Cart", 5, 7)]);
        assert_eq!(parts[0].defined, 9);
        assert_eq!(with_comment(&["fn add() {}"], 1), 1);
    }

    #[test]
    fn each_definition_of_a_small_file_counts_and_of_a_large_one_the_best() {
        let worth = |count: usize| {
            let mut sections = (0..count).map(|_| section(0.1, false)).collect::<Vec<_>>();
            sections[0].score = 10.0;
            sections[1].is_named = true;
            weigh(&mut sections, 1.0);
            let best = sections[0].score;
            [1, 2].map(|at| sections[at].score / best)
        };
        let (small, large) = (worth(3), worth(100));
        assert!(small[1] > 0.2 && large[1] < SHARE, "{small:?} {large:?}");
        assert!(small[0] > 0.5 && large[0] > 0.5, "a named one counts in both");
    }

    #[test]
    fn calls_are_the_names_before_parentheses() {
        let found = calls("let é = new Cart(total(a), (b), self.add_all (x), pré(if (c)))");
        assert_eq!(found.collect::<Vec<_>>(), ["Cart", "total", "pré"]);
    }

    #[test]
    fn ranges_with_few_lines_between_them_become_one() {
        assert_eq!(joined(vec![(20, 30), (1, 4), (7, 9), (8, 8)], BETWEEN), [(1, 9), (20, 30)]);
        let shown = in_order(&["a", "b"], &[(1, 5, 6), (0, 1, 1), (1, 1, 2)]);
        let shown = shown.iter().map(|one| (one.file.as_str(), one.start_line, one.end_line));
        assert_eq!(shown.collect::<Vec<_>>(), [("b", 1, 6), ("a", 1, 1)]);
    }
}
