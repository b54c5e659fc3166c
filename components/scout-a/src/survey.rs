//! Looks at every file once: its language and size, a summary of its outline, and the files that it imports. Summaries are
//! requested in parts and dropped again, so that memory grows with the number of files and not with their contents.

use crate::contents::Counts;
use crate::rank::is_beside;
use crate::re_exports::ReExports;
use crate::resolve::Resolver;
use crate::same_package::SamePackage;
use crate::terms::Terms;
use act_kit::inventory::{Inventory, language};
use act_kit::paths::directory;
use act_kit::reports::source::{Place, is_parsed, last_split, parsed_language, stem};
use act_kit::summaries::{Named, Summaries, Summary};
use act_kit::world::World;

/// Maximum number of bytes that are read to count the lines of files without a parser.
const COUNTED: u64 = 64 << 20;
/// Lines of a larger file are not counted. No parser takes it either (SYMBOLS-2).
const COUNTED_FILE: u64 = 1 << 20;
/// Maximum number of bytes of tests that are read for what they use of a package.
const USES: u64 = 4 << 20;
/// A file with more bytes per line on average counts as generated.
const LONG_LINES: u64 = 300;

/// The function with which a program starts.
const MAIN: &str = "main";

/// A file and its properties.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Unit {
    pub(crate) language: Option<&'static str>,
    pub(crate) lines: u32,
    /// Whether a parser read the file.
    pub(crate) parsed: bool,
    pub(crate) symbols: u32,
    pub(crate) exported: u32,
    /// Number of tests inside the file.
    pub(crate) tests: u32,
    /// Whether the file has a `main`.
    pub(crate) has_main: bool,
    /// Whether the path names a test.
    pub(crate) is_test: bool,
    pub(crate) generated: bool,
    /// True where a directory of the path holds source that is beside the product, such as examples.
    pub(crate) beside: bool,
    /// Words of the question in the directories and in the name up to its first dot, one bit for each.
    pub(crate) in_directory: u128,
    pub(crate) in_name: u128,
    /// Numbers of symbols with a word of the question in their names, by number of the word.
    pub(crate) symbol_words: Counts,
    /// Exact matches of the symbols. Few files have any, and a repository may have 100,000, so there is room only where there is one.
    exact: Option<Box<Exact>>,
    /// Whether the question names the path.
    pub(crate) is_named: bool,
}

/// Identifiers of the question that a file defines, and exact texts that are a symbol with its container (`Class.name`), one bit
/// for each.
#[derive(Debug, Clone, Default, PartialEq)]
struct Exact {
    defines: u128,
    qualified: u128,
}

impl Unit {
    pub(crate) fn defines(&self) -> u128 {
        self.exact.as_ref().map_or(0, |exact| exact.defines)
    }

    pub(crate) fn qualified(&self) -> u128 {
        self.exact.as_ref().map_or(0, |exact| exact.qualified)
    }

    fn take(&mut self, summary: &Summary<'_>, terms: &Terms) {
        self.parsed = true;
        self.lines = summary.lines();
        self.language = parsed_language(summary.language).or(self.language);
        (self.symbols, self.exported) = (summary.symbols(), summary.exported());
        self.tests = summary.tests();
        for symbol in summary.named() {
            self.has_main |= is_main(summary.language, &symbol);
            self.symbol(terms, &symbol);
        }
    }

    fn symbol(&mut self, terms: &Terms, symbol: &Named<'_>) {
        let mut bits = terms.bits(symbol.name);
        while bits != 0 {
            let at = bits.trailing_zeros() as u8;
            match self.symbol_words.iter_mut().find(|(known, _)| *known == at) {
                Some((_, count)) => *count += 1,
                None => self.symbol_words.push((at, 1)),
            }
            bits &= bits - 1;
        }
        for (at, _) in terms
            .names
            .iter()
            .enumerate()
            .filter(|(_, name)| is_in_lower_case(symbol.name, &name.text))
        {
            self.exact.get_or_insert_default().defines |= 1 << at;
        }
        let Some(container) = symbol.container.filter(|_| !terms.texts.is_empty()) else {
            return;
        };
        let (container, lower) = (container.to_lowercase(), symbol.name.to_lowercase());
        for (at, text) in terms.texts.iter().enumerate() {
            let rest =
                text.text.strip_prefix(&container).and_then(|rest| rest.strip_suffix(&lower));
            if rest.is_some_and(|joint| matches!(joint, "." | "::" | "#" | "->")) {
                self.exact.get_or_insert_default().qualified |= 1 << at;
            }
        }
    }
}

/// Returns whether a name in lower case is this text. The usual name is compared without another copy of it.
fn is_in_lower_case(name: &str, text: &str) -> bool {
    match name.is_ascii() {
        true => name.len() == text.len() && name.eq_ignore_ascii_case(text),
        false => name.to_lowercase() == text,
    }
}

/// An import: the importing and the imported file, as indices into the inventory.
pub(crate) type Edge = (u32, u32);

pub(crate) struct Survey {
    pub(crate) inventory: Inventory,
    pub(crate) units: Vec<Unit>,
    /// Sorted, without duplicates, and without imports of the own file.
    pub(crate) edges: Vec<Edge>,
    /// Whether files were left out.
    pub(crate) truncated: bool,
    /// Numbers of files that are too large for a parser, and of files that were not parsed as a whole.
    pub(crate) too_large: usize,
    pub(crate) incomplete: usize,
    /// Number of source files for which the time did not suffice.
    pub(crate) not_looked_at: usize,
}

impl Survey {
    /// Surveys the repository. Stops and sets `truncated` when less than `reserve` milliseconds of the query's time are left.
    pub(crate) fn of(world: World<'_>, inventory: Inventory, terms: &Terms, reserve: u64) -> Self {
        let languages = inventory.files.iter().map(|file| language(&file.path)).collect::<Vec<_>>();
        let parseable = (0..languages.len()).filter(|at| languages[*at].is_some_and(is_parsed));
        let mut parseable = parseable.collect::<Vec<_>>();
        // `SamePackage` needs the files of a directory in a row.
        parseable.sort_by_cached_key(|at| directory(&inventory.files[*at].path));
        let path = |at: &usize| inventory.files[*at].path.as_str();
        let wanted = terms.searched().into_iter().chain([MAIN]).collect::<Vec<_>>();
        // The host begins with the first part at once.
        let paths = parseable.iter().map(path).collect();
        let mut summaries = Summaries::of(world.repository, paths, &wanted);
        let mut units = units(&inventory, &languages, terms);
        let (mut edges, mut truncated) = (vec![], inventory.truncated || inventory.not_utf8 > 0);
        let mut incomplete = 0;
        let (mut re_exports, mut same_package) = (ReExports::default(), SamePackage::default());
        let resolver = Resolver::new(world.repository, &inventory);
        while !summaries.is_over() {
            if world.progress.time_left() < reserve {
                truncated = true;
                break;
            }
            summaries.next(&mut |number, summary| {
                let at = parseable[number];
                let path = path(&at);
                units[at].take(&summary, terms);
                same_package.add((at as u32, path), &summary, &mut edges);
                incomplete += usize::from(!summary.is_complete());
                for import in summary.imports() {
                    for to in resolver.files(path, summary.language, &import) {
                        re_exports.add(at as u32, to as u32, &import, &inventory, &mut edges);
                    }
                }
            });
        }
        let looked_at = summaries.done();
        drop((resolver, summaries));
        add_uses(world, &inventory, &mut re_exports, reserve);
        same_package.finish_directory(&mut edges);
        re_exports.resolve(&mut edges);
        edges.sort_unstable();
        edges.dedup();
        let large = |at: &&usize| !units[**at].parsed && inventory.files[**at].size > COUNTED_FILE;
        let too_large = parseable.iter().filter(large).count();
        let not_looked_at = parseable.len() - looked_at;
        let mut survey =
            Self { inventory, units, edges, truncated, too_large, incomplete, not_looked_at };
        survey.count_the_rest(world, reserve);
        for (unit, file) in survey.units.iter_mut().zip(&survey.inventory.files) {
            unit.generated |= file.size / u64::from(unit.lines.max(1)) > LONG_LINES;
        }
        survey
    }

    /// Counts the lines of source files without a parser.
    fn count_the_rest(&mut self, world: World<'_>, reserve: u64) {
        let mut left = COUNTED;
        if self.not_looked_at > 0 {
            return;
        }
        let rest = (0..self.units.len())
            .filter(|at| self.units[*at].language.is_some() && !self.units[*at].parsed)
            .filter(|at| self.inventory.files[*at].size <= COUNTED_FILE)
            .collect::<Vec<_>>();
        for (number, part) in rest.chunks(16).enumerate() {
            let bytes = part.iter().map(|at| self.inventory.files[*at].size).sum::<u64>();
            if left < bytes || world.progress.time_left() < reserve {
                self.truncated = true;
                self.not_looked_at = rest.len() - 16 * number;
                break;
            }
            left -= bytes;
            let paths = part.iter().map(|at| self.inventory.files[*at].path.as_str());
            let texts = world.repository.read(&paths.collect::<Vec<_>>(), COUNTED_FILE);
            for (at, text) in part.iter().zip(texts) {
                let count =
                    text.map_or(0, |text| text.split_inclusive(|byte| *byte == b'\n').count());
                self.units[*at].lines = count as u32;
            }
        }
    }

    pub(crate) fn path(&self, at: u32) -> &str {
        &self.inventory.files[at as usize].path
    }

    pub(crate) fn unit(&self, at: u32) -> &Unit {
        &self.units[at as usize]
    }

    /// Returns whether a file is source code that people wrote and no test.
    pub(crate) fn is_product(&self, at: u32) -> bool {
        let unit = self.unit(at);
        unit.language.is_some() && !unit.is_test && !unit.generated
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.units.len() as u32
    }

    pub(crate) fn imported_by(&self, from: u32) -> impl Iterator<Item = u32> + '_ {
        let start = self.edges.partition_point(|(at, _)| *at < from);
        self.edges[start..].iter().take_while(move |(at, _)| *at == from).map(|(_, to)| *to)
    }
}

/// Reads the tests that import whole packages, for what they use of them.
fn add_uses(world: World<'_>, inventory: &Inventory, re_exports: &mut ReExports, reserve: u64) {
    let mut left = USES;
    for part in re_exports.importers_of_whole().chunks(64) {
        let size = part.iter().map(|at| inventory.files[*at as usize].size).sum::<u64>();
        if size > left || world.progress.time_left() < reserve {
            break;
        }
        left -= size;
        let paths = part.iter().map(|at| inventory.files[*at as usize].path.as_str());
        let texts = world.repository.read(&paths.collect::<Vec<_>>(), COUNTED_FILE);
        for (at, text) in part.iter().zip(texts) {
            re_exports.add_uses(*at, &String::from_utf8_lossy(&text.unwrap_or_default()));
        }
    }
}

/// Returns what the path of each file says. Neighbours share what their directory says, which is looked at once for them.
fn units(inventory: &Inventory, languages: &[Option<&'static str>], terms: &Terms) -> Vec<Unit> {
    // `price.py` names `src/price.py`; a part of a name does not.
    let named = terms.texts.iter().map(|text| text.text.as_str());
    let named = named.filter(|text| text.contains('.')).collect::<Vec<_>>();
    let mut around = ("", about_directory("", terms), Place::of(""));
    let mut units = Vec::with_capacity(inventory.files.len());
    for (file, language) in inventory.files.iter().zip(languages) {
        let path = file.path.as_str();
        let (directories, name) = last_split(path, b'/').unwrap_or(("", path));
        if around.0 != directories {
            around = (directories, about_directory(directories, terms), Place::of(directories));
        }
        let (shared, place) = (around.1.clone(), around.2);
        units.push(Unit {
            in_name: terms.bits(stem(name)),
            is_named: named.iter().any(|text| ends_with_path(path, text)),
            language: *language,
            is_test: place.is_test(name),
            generated: shared.generated || is_generated_name(name),
            ..shared
        });
    }
    units
}

/// Returns what a directory says about each file in it.
fn about_directory(directories: &str, terms: &Terms) -> Unit {
    Unit {
        in_directory: terms.bits(directories),
        generated: is_generated_directory(directories),
        beside: is_beside(directories),
        ..Unit::default()
    }
}

/// Returns whether the last parts of a path are these, in either case.
fn ends_with_path(path: &str, end: &str) -> bool {
    let lower = path.to_lowercase();
    lower.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
}

/// Returns whether a name is that of generated code, by custom.
fn is_generated_name(name: &str) -> bool {
    // Most names have one dot and no underscore.
    let may_be = name.contains('_') || name.bytes().filter(|byte| *byte == b'.').count() > 1;
    let marks = [".min.", ".pb.", "_pb2", ".generated.", "_generated."];
    may_be && {
        let lower = name.to_lowercase();
        marks.iter().any(|mark| lower.contains(mark))
    }
}

/// Returns whether a directory holds generated or vendored code, by custom.
fn is_generated_directory(directories: &str) -> bool {
    directories.split('/').any(|part| {
        ["generated", "vendor", "third_party"].iter().any(|known| part.eq_ignore_ascii_case(known))
    })
}

fn is_main(language: &str, symbol: &Named<'_>) -> bool {
    symbol.name == MAIN
        && match language {
            "c" | "cpp" | "go" | "rust" => symbol.kind == "function" && symbol.container.is_none(),
            "java" => symbol.kind == "method",
            _ => false,
        }
}
