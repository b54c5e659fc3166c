//! What parsers say of many files at once. The host's answer is a table of flat lists; a [`Summary`] is the view of one file in
//! it, without a copy of its texts.

use crate::bindings::agentcommand::repo::symbols::{Span, SummaryRow, SummaryTable};
use crate::world::Repository;
use std::collections::VecDeque;

/// The kinds of definitions by their positions in the interface.
pub(crate) const KINDS: [&str; 7] =
    ["function", "method", "type", "constant", "macro", "module", "test"];

/// The summary of one file.
#[derive(Clone, Copy)]
pub struct Summary<'t> {
    table: &'t SummaryTable,
    row: &'t SummaryRow,
    /// The word of the language.
    pub language: &'t str,
}

/// A definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named<'t> {
    pub name: &'t str,
    /// The type or module around it.
    pub container: Option<&'t str>,
    pub kind: &'static str,
}

/// An import as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported<'t> {
    pub target: &'t str,
    /// The imported names, where they are written apart from the target.
    pub names: Vec<&'t str>,
}

/// The summaries of many files, part by part. While the component works on one part, the host looks for the next ones.
pub struct Summaries<'r> {
    repository: &'r dyn Repository,
    languages: Vec<String>,
    paths: Vec<&'r str>,
    names: Vec<String>,
    /// The parts that the host expects to be asked for, the next one first.
    expected: VecDeque<Vec<String>>,
    /// Number of files that are in these parts or were asked for.
    prepared: usize,
    done: usize,
}

impl<'r> Summaries<'r> {
    /// Number of files of a part: less than a second's work where none of them is known.
    const PART: usize = 512;
    /// Number of parts that the host looks for in advance. With a second one it has work while the component waits for the first.
    const EXPECTED: usize = 2;

    /// Prepares the summaries of files. They name the definitions whose names contain one of `names`, in either case.
    pub fn of(repository: &'r dyn Repository, paths: Vec<&'r str>, names: &[&str]) -> Self {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let languages = repository.languages();
        let expected = VecDeque::with_capacity(Self::EXPECTED);
        let mut summaries =
            Self { repository, languages, paths, names, expected, prepared: 0, done: 0 };
        summaries.prepare();
        summaries
    }

    /// Returns the number of files that were asked for.
    pub fn done(&self) -> usize {
        self.done
    }

    pub fn is_over(&self) -> bool {
        self.expected.is_empty()
    }

    /// Asks for the next part, and calls `found` with the position and the summary of each file of it that has one, in order.
    pub fn next(&mut self, found: &mut dyn FnMut(usize, Summary<'_>)) {
        let (first, part) = (self.done, self.expected.pop_front().unwrap_or_default());
        self.done += part.len();
        self.prepare();
        let mut at = 0;
        while at < part.len() {
            let table = self.repository.summary_table(&part[at..], &self.names);
            if table.files.is_empty() {
                break;
            }
            for (row, summary) in of(&table, &self.languages) {
                found(first + at + row, summary);
            }
            at += table.files.len();
        }
    }

    /// Goes through all parts.
    pub fn each(mut self, found: &mut dyn FnMut(usize, Summary<'_>)) {
        while !self.is_over() {
            self.next(found);
        }
    }

    /// Announces parts to the host.
    fn prepare(&mut self) {
        while self.expected.len() < Self::EXPECTED && self.prepared < self.paths.len() {
            let next = self.paths.iter().skip(self.prepared).take(Self::PART);
            let part: Vec<_> = next.map(|path| (*path).to_owned()).collect();
            self.prepared += part.len();
            self.repository.expect_summaries(&part, &self.names);
            self.expected.push_back(part);
        }
    }
}

/// Returns the summaries in a table with the positions of their files. `languages` are those of the host.
fn of<'t>(
    table: &'t SummaryTable,
    languages: &'t [String],
) -> impl Iterator<Item = (usize, Summary<'t>)> {
    let rows = table.files.iter().enumerate().filter(|(_, row)| row.refusal == 0);
    rows.map(|(at, row)| {
        let language = languages.get(row.language as usize).map_or("", String::as_str);
        (at, Summary { table, row, language })
    })
}

impl<'t> Summary<'t> {
    pub fn lines(&self) -> u32 {
        self.row.lines
    }

    /// Returns the number of definitions.
    pub fn symbols(&self) -> u32 {
        self.row.symbols
    }

    /// Returns the number of definitions that other files can name.
    pub fn exported(&self) -> u32 {
        self.row.exported
    }

    /// Returns the number of definitions that are tests.
    pub fn tests(&self) -> u32 {
        self.row.tests
    }

    /// Returns whether the file was parsed as a whole.
    pub fn is_complete(&self) -> bool {
        self.row.complete == 1
    }

    /// Returns the definitions that were asked for.
    pub fn named(&self) -> impl Iterator<Item = Named<'t>> + use<'t> {
        let table = self.table;
        part(&table.named, self.row.named).iter().map(|row| Named {
            name: text(table, row.name),
            container: Some(text(table, row.container)).filter(|text| !text.is_empty()),
            kind: KINDS.get(row.kind as usize).copied().unwrap_or_default(),
        })
    }

    pub fn imports(&self) -> impl Iterator<Item = Imported<'t>> + use<'t> {
        let table = self.table;
        part(&table.imports, self.row.imports).iter().map(|row| {
            let names = part(&table.names, row.names).iter().map(|name| text(table, *name));
            Imported { target: text(table, row.target), names: names.collect() }
        })
    }

    /// Returns what the other files of the package can name without an import, one name a line, in languages in which only the
    /// definitions tell which file that is.
    pub fn package_names(&self) -> &'t str {
        text(self.table, self.row.package_names)
    }
}

fn part<T>(rows: &[T], Span { start, length }: Span) -> &[T] {
    let end = start.saturating_add(length);
    rows.get(start as usize..end as usize).unwrap_or_default()
}

fn text(table: &SummaryTable, Span { start, length }: Span) -> &str {
    let end = start.saturating_add(length);
    table.texts.get(start as usize..end as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::Summaries;
    use crate::testing::Files;
    use crate::world::{Import, Outline, Symbol};

    #[test]
    fn each_part_is_expected_before_it_is_asked_for_and_every_file_comes_once() {
        let names: Vec<_> = (0..1_100).map(|n| format!("f{n:04}.py")).collect();
        let mut files =
            Files::of(&names.iter().map(|name| (name.as_str(), "")).collect::<Vec<_>>());
        for name in &names {
            let outline = Outline { language: "python".to_owned(), ..Outline::default() };
            files = files.outlined(name, outline);
        }
        let paths = names.iter().map(String::as_str).collect();
        let mut summaries = Summaries::of(&files, paths, &["cart"]);
        let (mut seen, mut parts) = (vec![], vec![]);
        while !summaries.is_over() {
            assert!(files.expected() > summaries.done(), "the next part is expected");
            summaries.next(&mut |at, _| seen.push(at));
            parts.push(summaries.done());
        }
        assert_eq!(seen, (0..1_100).collect::<Vec<_>>());
        assert_eq!(parts, [512, 1_024, 1_100]);
        assert_eq!(files.expected(), 1_100);
    }

    #[test]
    fn a_summary_shows_its_own_part_of_the_table() {
        let outline = |language: &str, name: &str, target: &str, names: &[&str]| Outline {
            language: language.to_owned(),
            symbols: vec![Symbol {
                name: name.to_owned(),
                kind: "type".to_owned(),
                ..Symbol::default()
            }],
            imports: vec![Import {
                line: 1,
                target: target.to_owned(),
                names: names.iter().map(|name| (*name).to_owned()).collect(),
            }],
            ..Outline::default()
        };
        let files = Files::of(&[("a.py", "x\n"), ("b.txt", ""), ("c.go", "y\nz\n")])
            .outlined("a.py", outline("python", "Cart", "shop", &["price", "tax"]))
            .outlined("c.go", outline("go", "Price", "fmt", &[]));
        let mut seen = vec![];
        let paths = vec!["a.py", "b.txt", "c.go"];
        Summaries::of(&files, paths, &["CART"]).each(&mut |at, summary| {
            let named = summary.named().map(|named| format!("{} {}", named.kind, named.name));
            let imports =
                summary.imports().map(|import| (import.target.to_owned(), import.names.join("+")));
            seen.push((
                (at, summary.language.to_owned(), summary.lines()),
                (named.collect::<Vec<_>>(), imports.collect::<Vec<_>>()),
                summary.package_names().to_owned(),
            ));
        });
        let import = |target: &str, names: &str| vec![(target.to_owned(), names.to_owned())];
        assert_eq!(
            seen,
            [
                (
                    (0, "python".to_owned(), 1),
                    (vec!["type Cart".to_owned()], import("shop", "price+tax")),
                    String::new(),
                ),
                ((2, "go".to_owned(), 2), (vec![], import("fmt", "")), "Price\n".to_owned()),
            ]
        );
    }
}
