//! Sources with the outlines that a person would write. A line of the expectation is `LINES KIND CONTAINER.NAME`, with
//! `+` for what other files can name.

mod bounds;
mod c;
mod go;
mod java;
mod javascript;
mod python;
mod rust;

use super::*;

fn parsed(path: &str, source: &str) -> Outline {
    let language = Language::of(path, source.as_bytes()).unwrap();
    let parsed = outline(language, path, source.as_bytes(), &|| false).unwrap();
    assert!(parsed.lasting);
    parsed.outline
}

fn symbols(outline: &Outline) -> Vec<String> {
    let shown = |symbol: &Symbol| {
        let Symbol { name, kind, container, first_line, last_line, exported } = symbol;
        let container = container.as_ref().map_or(String::new(), |name| format!("{name}."));
        let lines = match first_line == last_line {
            true => first_line.to_string(),
            false => format!("{first_line}-{last_line}"),
        };
        let exported = if *exported { "+" } else { "" };
        format!("{lines} {} {exported}{container}{name}", kind.word())
    };
    outline.symbols.iter().map(shown).collect()
}

fn imports(outline: &Outline) -> Vec<String> {
    let shown = |import: &Import| {
        let names = import.names.join(",");
        let names = if names.is_empty() { names } else { format!(" ({names})") };
        format!("{} {}{names}", import.line, import.target)
    };
    outline.imports.iter().map(shown).collect()
}
