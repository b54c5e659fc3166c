//! Finds the lines that a question is about: the definitions and sections of the best files whose text and names match best.
//! Weak matches give nothing, because the Editor sends these lines again with every request.

use crate::contents;
use crate::facts::Known;
use act_kit::reports::report_a::Excerpt;
use act_kit::world::{Symbol, World};

/// Maximum numbers of files that are looked at, of sections, and of bytes with about `HEADER` for each section.
const FILES: usize = 10;
const SECTIONS: usize = 12;
const BYTES: usize = 7_500;
const HEADER: usize = 70;
/// A file with a lower rank is not looked at, and a section with a smaller share of the best score is left out.
const RANK: f64 = 0.3;
const SHARE: f64 = 0.35;
/// A longer definition is shown by its first lines and by the piece that matches best.
const LONG: u32 = 90;
const FIRST: u32 = 4;
const PIECE: u32 = 40;
/// Number of lines in a section of a file without definitions.
const SECTION: u32 = 30;
/// Maximum number of comment lines above a definition that belong to it.
const COMMENT: usize = 12;
/// Maximum number of bytes of a file that are read.
const FILE: u64 = 512 << 10;
/// Number of words of a usual definition, which is not held against it.
const USUAL: f64 = 80.0;
/// Sections with fewer lines between them become one.
const BETWEEN: u32 = 3;

/// A range of lines and how well it matches.
struct Section {
    file: u32,
    first: u32,
    last: u32,
    score: f64,
    /// The question names the definition.
    is_named: bool,
}

/// Returns ranges, those of the file with the best match first; none when nothing matches well.
pub(crate) fn of(world: World<'_>, known: &Known) -> Vec<Excerpt> {
    let survey = &known.survey;
    let worth = |at: &u32| {
        let unit = survey.unit(*at);
        // Tests are named with what they exercise; their lines are seldom what the question is about.
        unit.language.is_some()
            && !unit.is_test
            && (known.ranks[*at as usize] >= RANK || unit.is_named)
    };
    let files = known.order.iter().copied().filter(worth).take(FILES).collect::<Vec<_>>();
    if files.is_empty() || known.terms.is_empty() {
        return vec![];
    }
    let paths = files.iter().map(|at| survey.path(*at)).collect::<Vec<_>>();
    let outlines = world.repository.outlines(&paths);
    let texts = world.repository.read(&paths, FILE);
    let texts = texts.into_iter().map(|text| text.unwrap_or_default());
    let texts = texts.map(|text| String::from_utf8_lossy(&text).into_owned()).collect::<Vec<_>>();
    let mut found = vec![];
    for ((at, text), outline) in files.iter().zip(&texts).zip(outlines) {
        let symbols = outline.map(|outline| outline.symbols).unwrap_or_default();
        let lines = text.lines().collect::<Vec<_>>();
        found.extend(sections(known, *at, &lines, &symbols));
    }
    let best = found.iter().map(|section| section.score).fold(0.0, f64::max);
    for section in &mut found {
        let least = if section.is_named { SHARE * best } else { 0.0 };
        section.score = section.score.max(least);
    }
    found.sort_by(|a, b| {
        b.score.total_cmp(&a.score).then((a.file, a.first).cmp(&(b.file, b.first)))
    });
    found.retain(|section| section.score >= SHARE * best);
    let bytes = |section: &Section| {
        let at = files.iter().position(|at| *at == section.file).unwrap_or_default();
        let lines = texts[at].lines().skip(section.first as usize - 1);
        let lines = lines.take((section.last - section.first + 1) as usize);
        HEADER + lines.map(|line| line.len() + 6).sum::<usize>()
    };
    let mut left = BYTES;
    found.retain(|section| {
        let size = bytes(section);
        let fits = size <= left;
        left -= if fits { size } else { 0 };
        fits
    });
    found.truncate(SECTIONS);
    in_order(known, found)
}

/// Returns the definitions and sections of a file that match. In a long definition it is the piece that matches best, with
/// the definition's first lines.
fn sections(known: &Known, file: u32, lines: &[&str], symbols: &[Symbol]) -> Vec<Section> {
    let mut found = vec![];
    let total = lines.len() as u32;
    let rank = known.ranks[file as usize].max(RANK).sqrt();
    let score = |name: &str, first: u32, last: u32| {
        let text = lines[first as usize - 1..last as usize].join("\n");
        let content = contents::of_text(&known.terms, &text);
        let strong = !known.terms.weak();
        let different = content.words.iter().filter(|(at, _)| strong >> at & 1 == 1).count();
        // One common word is no match.
        let matches = different >= 2 || !content.names.is_empty() || !content.texts.is_empty();
        let score = known.weights.of_section(&known.terms, name, &content, USUAL);
        if matches { rank * score } else { 0.0 }
    };
    let mut add = |first: u32, last: u32, score: f64, is_named: bool| {
        if score > 0.0 {
            found.push(Section { file, first, last, score, is_named });
        }
    };
    for symbol in leaves(symbols) {
        let (defined, last) = (symbol.first_line.max(1), symbol.last_line.min(total));
        if defined > last {
            continue;
        }
        let first = with_comment(lines, defined);
        let lower = symbol.name.to_lowercase();
        let is_named = known.terms.names.iter().any(|name| name.text == lower);
        let whole = score(&symbol.name, first, last);
        if last - first < LONG {
            add(first, last, whole, is_named);
            continue;
        }
        let starts = (first..=last - PIECE + 1).step_by(10);
        let pieces = starts.map(|from| (from, score("", from, from + PIECE - 1)));
        let best =
            pieces.fold((first, 0.0), |best, piece| if piece.1 > best.1 { piece } else { best });
        // Its length is not held against a definition that matches well in one piece.
        let score = whole.max(best.1);
        add(defined, defined + FIRST - 1, score, is_named);
        add(best.0, best.0 + PIECE - 1, score, is_named);
    }
    if symbols.is_empty() {
        for first in (1..=total).step_by(SECTION as usize) {
            let last = total.min(first + SECTION - 1);
            add(first, last, score("", first, last), false);
        }
    }
    found
}

/// Returns the definitions that contain no other one.
fn leaves(symbols: &[Symbol]) -> impl Iterator<Item = &Symbol> {
    let contains = |outer: &Symbol, inner: &Symbol| {
        let range = |symbol: &Symbol| (symbol.first_line, symbol.last_line);
        range(outer) != range(inner)
            && outer.first_line <= inner.first_line
            && inner.last_line <= outer.last_line
    };
    // Symbols are sorted by line, so that the next one is inside if any is.
    symbols
        .iter()
        .enumerate()
        .filter(move |(at, symbol)| symbols.get(at + 1).is_none_or(|next| !contains(symbol, next)))
        .map(|(_, symbol)| symbol)
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

/// Puts the sections of a file together, in the order of lines, the file of the best section first.
fn in_order(known: &Known, found: Vec<Section>) -> Vec<Excerpt> {
    let mut files = vec![];
    for section in &found {
        if !files.contains(&section.file) {
            files.push(section.file);
        }
    }
    let mut excerpts: Vec<Excerpt> = vec![];
    for file in files {
        let mut ranges = found.iter().filter(|section| section.file == file).collect::<Vec<_>>();
        ranges.sort_by_key(|section| (section.first, section.last));
        let path = known.survey.path(file);
        for Section { first, last, .. } in ranges {
            match excerpts.last_mut().filter(|before| before.file == path) {
                Some(before) if *first <= before.end_line + BETWEEN => {
                    before.end_line = before.end_line.max(*last);
                }
                _ => excerpts.push(Excerpt {
                    file: path.to_owned(),
                    start_line: *first,
                    end_line: *last,
                }),
            }
        }
    }
    excerpts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &str, first_line: u32, last_line: u32) -> Symbol {
        Symbol { name: name.to_owned(), first_line, last_line, ..Symbol::default() }
    }

    #[test]
    fn methods_stand_for_their_class_and_comments_belong_to_what_is_below_them() {
        let symbols =
            [symbol("Cart", 1, 9), symbol("add", 2, 4), symbol("total", 5, 9), symbol("x", 11, 11)];
        let names = leaves(&symbols).map(|symbol| symbol.name.as_str()).collect::<Vec<_>>();
        assert_eq!(names, ["add", "total", "x"]);
        assert_eq!(with_comment(&["x = 1", "// Adds.", "# all", "fn add() {}"], 4), 2);
        assert_eq!(with_comment(&["fn add() {}"], 1), 1);
    }
}
