//! Short forms of outlines, for a caller that looks at many files: numbers of definitions, the imports, and the
//! definitions with wanted names.

use regex::Regex;
use serde::{Deserialize, Serialize};

use super::scope::are_bounded;
use super::{Import, Language, Outline, Symbol, SymbolKind};

/// The numbers and imports of an outline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brief {
    pub language: Language,
    pub lines: u32,
    /// The numbers of all definitions, of those that other files can name, and of tests.
    pub symbols: u32,
    pub exported: u32,
    pub tests: u32,
    pub imports: Vec<Import>,
    pub complete: bool,
    /// The names of all definitions in lower case, one a line.
    names: String,
    /// In Go, the names that the other files of the package can use without an import, one a line. Only they tell which file
    /// defines a name.
    pub package_names: String,
}

/// A brief with the definitions that a caller wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub brief: Brief,
    /// The definitions whose names are wanted.
    pub named: Vec<Symbol>,
}

/// Texts to look for in names. Case is ignored.
#[derive(Debug)]
pub struct NameFilter(Option<Regex>);

/// There are too many texts, or one is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {MAX_WANTED} names to look for, or one of more than {MAX_TEXT} bytes")]
pub struct TooManyNames;

pub const MAX_WANTED: usize = 256;
const MAX_TEXT: usize = 256;

impl Brief {
    pub fn of(outline: &Outline) -> Self {
        let count = |is: &dyn Fn(&Symbol) -> bool| {
            u32::try_from(outline.symbols.iter().filter(|symbol| is(symbol)).count())
                .unwrap_or(u32::MAX)
        };
        let names = outline.symbols.iter().map(|symbol| folded(&symbol.name) + "\n");
        let is_go = outline.language == Language::Go;
        let of_package = outline.symbols.iter().filter(|symbol| symbol.container.is_none());
        let package_names = of_package.filter(|_| is_go).flat_map(|symbol| [&symbol.name, "\n"]);
        Self {
            language: outline.language,
            lines: outline.lines,
            symbols: count(&|_| true),
            exported: count(&|symbol| symbol.exported),
            tests: count(&|symbol| symbol.kind == SymbolKind::Test),
            imports: outline.imports.clone(),
            complete: outline.complete,
            names: names.collect(),
            package_names: package_names.collect(),
        }
    }

    /// Returns whether the numbers of its parts are those of an outline.
    pub(super) fn is_bounded(&self) -> bool {
        are_bounded(&self.imports)
    }
}

impl Summary {
    pub fn of(outline: Outline, wanted: &NameFilter) -> Self {
        let brief = Brief::of(&outline);
        Self { brief, named: wanted.among(outline.symbols) }
    }
}

impl NameFilter {
    /// Empty texts are left out, because every name contains them.
    ///
    /// # Errors
    /// [`TooManyNames`], also when the texts are too large for one pattern.
    pub fn new(texts: &[String]) -> Result<Self, TooManyNames> {
        if texts.len() > MAX_WANTED || texts.iter().any(|text| text.len() > MAX_TEXT) {
            return Err(TooManyNames);
        }
        let texts = texts.iter().filter(|text| !text.is_empty());
        let texts = texts.map(|text| regex::escape(&folded(text))).collect::<Vec<_>>();
        match texts.is_empty() {
            true => Ok(Self(None)),
            false => Regex::new(&texts.join("|")).map(Some).map(Self).map_err(|_| TooManyNames),
        }
    }

    /// Returns whether a definition of the file may be wanted.
    pub fn is_in(&self, brief: &Brief) -> bool {
        self.0.as_ref().is_some_and(|wanted| wanted.is_match(&brief.names))
    }

    /// Returns the symbols that are wanted.
    pub fn among(&self, symbols: Vec<Symbol>) -> Vec<Symbol> {
        let Some(wanted) = &self.0 else { return vec![] };
        symbols.into_iter().filter(|symbol| wanted.is_match(&folded(&symbol.name))).collect()
    }
}

/// Returns the text in lower case. Each letter is converted alone, so that a part of a name gives a part of the result.
fn folded(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).map(|c| if c == 'ς' { 'σ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outline;

    fn parsed(source: &str) -> Outline {
        outline(Language::Rust, "a.rs", source.as_bytes(), &|| false).unwrap().outline
    }

    fn wanted(texts: &[&str]) -> NameFilter {
        NameFilter::new(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    // SYMBOLS-8
    #[test]
    fn a_summary_counts_definitions_and_gives_those_that_are_wanted() {
        let source =
            "use a::b;\npub fn parsePrice() {}\nfn other() {}\n#[test]\nfn price_holds() {}\n";
        let names = |texts: &[&str]| {
            let summary = Summary::of(parsed(source), &wanted(texts));
            let brief = &summary.brief;
            assert_eq!((brief.symbols, brief.exported, brief.tests), (3, 1, 1));
            assert_eq!((brief.lines, brief.imports.len(), brief.complete), (5, 1, true));
            assert!(wanted(texts).is_in(brief) || summary.named.is_empty());
            summary.named.into_iter().map(|symbol| symbol.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["PRICE"]), ["parsePrice", "price_holds"]);
        assert_eq!(names(&["price_h", "missing"]), ["price_holds"]);
        assert_eq!(names(&["r\nprice", "", "."]), [""; 0]);
        assert_eq!(names(&[]), [""; 0]);
    }

    #[test]
    fn only_in_go_the_brief_has_the_names_of_the_package() {
        let source = b"package shop\nfunc Total() {}\ntype Cart struct{}\nfunc (c Cart) Add() {}\n";
        let go = outline(Language::Go, "a.go", source, &|| false).unwrap().outline;
        assert_eq!(Brief::of(&go).package_names, "Total\nCart\n");
        assert_eq!(Brief::of(&parsed("fn a() {}\n")).package_names, "");
    }

    #[test]
    fn what_is_wanted_is_bounded() {
        let many = vec!["x".to_owned(); MAX_WANTED + 1];
        assert_eq!(NameFilter::new(&many).unwrap_err(), TooManyNames);
        assert_eq!(NameFilter::new(&["x".repeat(MAX_TEXT + 1)]).unwrap_err(), TooManyNames);
        assert!(NameFilter::new(&vec!["ﬀ".repeat(64); MAX_WANTED]).is_ok());
    }
}
