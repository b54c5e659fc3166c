//! Summaries of many files as a table of flat lists, which reaches a component with a copy for each list instead of one for
//! each text.

use super::SizedAnswer;
use crate::bindings::symbols::{ImportRow, Span, SummaryRow, SummaryTable, SymbolRow};
use crate::bindings::types::Refusal;
use act_symbols::{Brief, Import, Language, Summary, Symbol, SymbolKind};

/// Returns the rows of all answers up to the first one that did not fit into the answer of the call.
pub(super) fn of(answers: Vec<Result<SizedAnswer<Summary>, Refusal>>) -> SummaryTable {
    let mut table = SummaryTable {
        files: Vec::with_capacity(answers.len()),
        named: vec![],
        imports: vec![],
        names: vec![],
        texts: String::new(),
    };
    for answer in answers {
        let row = match answer {
            Ok(SizedAnswer { answer, .. }) => add(&mut table, &answer),
            Err(refusal) if is_later(&refusal) && !table.files.is_empty() => break,
            Err(refusal) => SummaryRow { refusal: case(&refusal), ..EMPTY },
        };
        table.files.push(row);
    }
    table
}

const NOTHING: Span = Span { start: 0, length: 0 };
const EMPTY: SummaryRow = SummaryRow {
    refusal: 0,
    language: 0,
    lines: 0,
    symbols: 0,
    exported: 0,
    tests: 0,
    complete: 0,
    named: NOTHING,
    imports: NOTHING,
    package_names: NOTHING,
};

/// Returns whether a file can be asked for again because it did not fit.
fn is_later(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Limit(why) if why.starts_with("call_bytes"))
}

/// The position of a refusal's case in the interface, counted from 1.
fn case(refusal: &Refusal) -> u32 {
    match refusal {
        Refusal::NotFound => 1,
        Refusal::Invalid(_) => 2,
        Refusal::Stale => 3,
        Refusal::Denied(_) => 4,
        Refusal::Limit(_) => 5,
        Refusal::Failed(_) => 6,
    }
}

fn add(table: &mut SummaryTable, Summary { brief, named }: &Summary) -> SummaryRow {
    let Brief { language, lines, symbols, exported, tests, imports, complete, .. } = brief;
    let (first_named, first_import) = (table.named.len(), table.imports.len());
    for symbol in named {
        let row = symbol_row(&mut table.texts, symbol);
        table.named.push(row);
    }
    for import in imports {
        let row = import_row(table, import);
        table.imports.push(row);
    }
    SummaryRow {
        refusal: 0,
        language: position(*language),
        lines: *lines,
        symbols: *symbols,
        exported: *exported,
        tests: *tests,
        complete: u32::from(*complete),
        named: span(first_named, named.len()),
        imports: span(first_import, imports.len()),
        package_names: text(&mut table.texts, &brief.package_names),
    }
}

fn symbol_row(texts: &mut String, symbol: &Symbol) -> SymbolRow {
    SymbolRow {
        name: text(texts, &symbol.name),
        container: text(texts, symbol.container.as_deref().unwrap_or_default()),
        kind: kind(symbol.kind),
        first_line: symbol.first_line,
        last_line: symbol.last_line,
        exported: u32::from(symbol.exported),
    }
}

fn import_row(table: &mut SummaryTable, import: &Import) -> ImportRow {
    let first = table.names.len();
    for name in &import.names {
        let name = text(&mut table.texts, name);
        table.names.push(name);
    }
    let target = text(&mut table.texts, &import.target);
    ImportRow { line: import.line, target, names: span(first, import.names.len()) }
}

/// Adds a text and returns its place.
fn text(texts: &mut String, text: &str) -> Span {
    let start = texts.len();
    texts.push_str(text);
    span(start, text.len())
}

/// An answer has a few megabytes, so its numbers fit.
fn span(start: usize, length: usize) -> Span {
    let number = |number| u32::try_from(number).unwrap_or(u32::MAX);
    Span { start: number(start), length: number(length) }
}

fn position(language: Language) -> u32 {
    let found = Language::words().iter().position(|word| *word == language.word());
    found.and_then(|at| u32::try_from(at).ok()).unwrap_or_default()
}

/// The position of a kind in the interface.
fn kind(kind: SymbolKind) -> u32 {
    match kind {
        SymbolKind::Function => 0,
        SymbolKind::Method => 1,
        SymbolKind::Type => 2,
        SymbolKind::Constant => 3,
        SymbolKind::Macro => 4,
        SymbolKind::Module => 5,
        SymbolKind::Test => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_symbols::{NameFilter, outline};

    fn summary(language: Language, path: &str, source: &str) -> SizedAnswer<Summary> {
        let parsed = outline(language, path, source.as_bytes(), &|| false).unwrap().outline;
        let wanted = NameFilter::new(&["total".to_owned()]).unwrap();
        SizedAnswer { answer: Summary::of(parsed, &wanted), size: source.len() as u64 }
    }

    fn at(table: &SummaryTable, Span { start, length }: Span) -> &str {
        &table.texts[start as usize..(start + length) as usize]
    }

    fn rows<T>(rows: &[T], Span { start, length }: Span) -> &[T] {
        &rows[start as usize..(start + length) as usize]
    }

    fn too_much() -> Refusal {
        Refusal::Limit("call_bytes: too much".to_owned())
    }

    // SYMBOLS-8
    #[test]
    fn a_table_says_of_each_file_what_its_summary_says() {
        let python =
            "from shop import price, tax\nclass Cart:\n    def total(self):\n        pass\n";
        let go = "package shop\nfunc Total() {}\nfunc add() {}\n";
        let table = of(vec![
            Ok(summary(Language::Python, "a.py", python)),
            Err(Refusal::NotFound),
            Ok(summary(Language::Go, "a.go", go)),
        ]);
        let [first, missing, last] = table.files[..] else { panic!("{table:?}") };
        assert_eq!((first.refusal, missing.refusal, last.refusal), (0, 1, 0));
        let language = |row: SummaryRow| Language::words()[row.language as usize];
        assert_eq!((language(first), language(last)), ("python", "go"));
        assert_eq!((first.lines, first.symbols, first.exported, first.complete), (4, 2, 2, 1));
        let [total] = rows(&table.named, first.named)[..] else { panic!("{table:?}") };
        assert_eq!((at(&table, total.name), at(&table, total.container)), ("total", "Cart"));
        assert_eq!((total.kind, total.first_line, total.last_line), (1, 3, 4));
        let [import] = rows(&table.imports, first.imports)[..] else { panic!("{table:?}") };
        let names = rows(&table.names, import.names).iter().map(|name| at(&table, *name));
        assert_eq!(at(&table, import.target), "shop");
        assert_eq!(names.collect::<Vec<_>>(), ["price", "tax"]);
        assert_eq!(at(&table, first.package_names), "");
        assert_eq!(at(&table, last.package_names), "Total\nadd\n");
        let [total] = rows(&table.named, last.named)[..] else { panic!("{table:?}") };
        assert_eq!((at(&table, total.name), at(&table, total.container)), ("Total", ""));
    }

    // SYMBOLS-8
    #[test]
    fn files_that_do_not_fit_are_missing_at_the_end_and_the_first_one_is_refused() {
        let fits = || Ok(summary(Language::Rust, "a.rs", "fn a() {}\n"));
        let later = || Err(too_much());
        assert_eq!(of(vec![fits(), later(), later()]).files.len(), 1);
        let refused = of(vec![later(), later()]);
        assert_eq!(refused.files.iter().map(|row| row.refusal).collect::<Vec<_>>(), [5]);
    }
}
