//! Finds the lines that a question is about: definitions of the names in it, then lines that mention them, in the best files
//! of the map. Source comes before tests, tests before other files, so that a change log never displaces the code.

use crate::facts::Known;
use act_kit::inventory::identifiers;
use act_kit::reports::report_a::Excerpt;
use act_kit::world::{Symbol, World};
use std::collections::HashSet;

/// Maximum numbers of files, of ranges in one file, and of lines in all of them. The Editor gets these lines before it has
/// asked for anything and sends them again with every request, so they are fewer than an answer to a question may have.
const FILES: usize = 4;
const RANGES: usize = 3;
const LINES: u32 = 90;
/// Lines of a definition that are shown, and lines around a mention.
const DEFINITION: u32 = 30;
const AROUND: u32 = 2;
/// Maximum number of search hits that are looked at.
const HITS: usize = 300;

/// Returns ranges in the order in which they help; none when the question names nothing.
pub(crate) fn of(world: World<'_>, known: &Known, question: &str) -> Vec<Excerpt> {
    let names = identifiers(question);
    if names.is_empty() {
        return vec![];
    }
    let regex = format!("\\b({})\\b", names.join("|"));
    let hits = world.repository.search(&regex, None, HITS).map_or(vec![], |found| found.items);
    let survey = &known.survey;
    let ranked = known.order.iter().filter(|at| known.ranks[**at as usize] > 0.0);
    let mentioned = hits.iter().map(|hit| hit.path.as_str()).collect::<HashSet<_>>();
    let mut files =
        ranked.copied().filter(|at| mentioned.contains(survey.path(*at))).collect::<Vec<_>>();
    // The order is stable: inside of each kind the rank decides.
    files.sort_by_key(|at| match survey.unit(*at) {
        _ if survey.is_product(*at) => 0,
        unit if unit.language.is_some() && !unit.generated => 1,
        _ => 2,
    });
    files.truncate(FILES);
    let paths = files.iter().map(|at| survey.path(*at)).collect::<Vec<_>>();
    let (mut found, mut left) = (vec![], LINES);
    let outlines = world.repository.outlines(&paths);
    for ((at, path), outline) in files.iter().zip(&paths).zip(outlines) {
        let symbols = outline.map(|outline| outline.symbols).unwrap_or_default();
        let lines = hits.iter().filter(|hit| hit.path == *path).map(|hit| hit.line);
        let total = known.survey.unit(*at).lines;
        for (start, end) in ranges(&names, &symbols, lines.collect(), total) {
            let end = end.min(start.saturating_add(left).saturating_sub(1));
            if end < start || left == 0 {
                return found;
            }
            left -= end - start + 1;
            found.push(Excerpt { file: (*path).to_owned(), start_line: start, end_line: end });
        }
    }
    found
}

/// Returns ranges of one file: the definitions of the names, then mentions outside of them. `lines` are the lines with a
/// name, `total` is the number of lines of the file, or 0 where it was not counted.
fn ranges(names: &[String], symbols: &[Symbol], lines: Vec<u32>, total: u32) -> Vec<(u32, u32)> {
    let defined = symbols.iter().filter(|symbol| names.contains(&symbol.name));
    let mut ranges = defined
        .map(|symbol| {
            let last = symbol.first_line.saturating_add(DEFINITION - 1);
            (symbol.first_line.max(1), symbol.last_line.min(last))
        })
        .filter(|(start, end)| start <= end)
        .take(RANGES)
        .collect::<Vec<_>>();
    for line in lines {
        let inside = |(start, end): &(u32, u32)| (*start..=*end).contains(&line);
        if ranges.iter().any(inside) {
            continue;
        }
        let start = line.saturating_sub(AROUND).max(1);
        let end = line.saturating_add(AROUND).min(total).max(line);
        let count = ranges.len();
        match ranges.last_mut() {
            // A mention next to the last range extends it.
            Some((first, last)) if (*first..=last.saturating_add(AROUND + 1)).contains(&start) => {
                *last = end;
            }
            _ if count < RANGES => ranges.push((start, end)),
            _ => break,
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &str, first_line: u32, last_line: u32) -> Symbol {
        Symbol { name: name.to_owned(), first_line, last_line, ..Symbol::default() }
    }

    #[test]
    fn definitions_come_first_and_mentions_in_them_are_not_repeated() {
        let names = ["total".to_owned()];
        let symbols = [symbol("other", 1, 5), symbol("total", 10, 14)];
        assert_eq!(
            ranges(&names, &symbols, vec![10, 12, 40, 44, 90], 91),
            [(10, 14), (38, 46), (88, 91)]
        );
        assert_eq!(ranges(&names, &[symbol("total", 1, 500)], vec![], 500), [(1, 30)]);
        assert_eq!(ranges(&names, &[], vec![9], 0), [(7, 9)], "the lines were not counted");
        assert_eq!(ranges(&names, &[], vec![1, 10, 20, 30, 40], 50).len(), RANGES);
    }
}
