//! Sources that do not parse, that cost much to parse, or that are random.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::parse::worked;

#[test]
fn what_does_not_parse_as_a_whole_still_says_what_was_found() {
    let broken = parsed("a.py", "def one():\n    pass\n\n)))(((\n\ndef two():\n    pass\n");
    assert!(!broken.complete);
    assert!(symbols(&broken).contains(&"1-2 function +one".to_owned()), "{broken:?}");
    let latin = b"def caf\xe9(): pass\ndef one(): pass\n";
    let outline = outline(Language::Python, "a.py", latin, &|| false).unwrap().outline;
    assert!(outline.symbols.iter().any(|symbol| symbol.name == "one"), "{outline:?}");
}

fn bytes(path: &str, source: &[u8]) -> Outline {
    outline(Language::of(path, source).unwrap(), path, source, &|| false).unwrap().outline
}

// SYMBOLS-4
#[test]
fn no_name_is_invented_from_bytes_that_are_no_utf8_or_from_the_part_of_a_long_one() {
    let latin = bytes(
        "a.py",
        b"# \xe9\ndef h\xe9llo(): pass\ndef plain(): pass\nclass \xc9l:\n    def m(self): pass\n",
    );
    assert_eq!(symbols(&latin), ["3 function +plain", "5 method +m"], "{latin:?}");
    assert!(!latin.complete && latin.lines == 5);
    let long = bytes("a.py", format!("def {}(): pass\n", "a".repeat(300)).as_bytes());
    assert!(long.symbols[0].name.ends_with("a…") && !long.complete);
}

fn hostile() -> Vec<(&'static str, String)> {
    let mut sources = vec![];
    for path in ["a.rs", "a.py", "a.js", "a.ts", "a.tsx", "a.go", "a.java", "a.c", "a.cpp"] {
        for piece in [
            "(", "[", "{", "a(", "if x ", "\"", "`${", "<", "/*", "#", "a.", "r#\"", "@", "::",
            "'a ",
        ] {
            sources.push((path, piece.repeat(200_000 / piece.len())));
        }
        sources.push((path, "x".repeat(MAX_SOURCE)));
        sources.push((path, "a;".repeat(200_000)));
    }
    sources.push(("a.py", (0..900).map(|n| format!("{}if x:\n", " ".repeat(n))).collect()));
    sources.push(("a.rs", format!("use a::{{{}}};", "b::{c,".repeat(30_000))));
    sources.push(("a.rs", "mod a { ".repeat(30_000)));
    sources.push(("a.java", "class A { ".repeat(30_000)));
    sources.push(("a.js", "function f() { it('x', () => { ".repeat(10_000)));
    sources.push(("a.c", "int (*".repeat(30_000)));
    sources.push(("a.rs", format!("fn {}() {{}}", "long".repeat(10_000))));
    sources
}

// SYMBOLS-4
#[test]
fn hostile_sources_cost_little_and_stay_inside_the_bounds() {
    for (path, source) in hostile() {
        let started = worked();
        let language = Language::of(path, source.as_bytes()).unwrap();
        let parsed = outline(language, path, source.as_bytes(), &|| false).unwrap();
        let shown: String = source.chars().take(20).collect();
        // Processor time is compared, because machines are shared. A violation takes minutes or for ever.
        assert!(worked() - started < Duration::from_secs(30), "{path} {shown}");
        assert!(parsed.lasting, "the count sees it: {path} {shown}");
        let Outline { symbols, imports, lines, .. } = parsed.outline;
        assert!(symbols.len() <= 5_000 && imports.len() <= 2_000, "{path} {shown}");
        for symbol in symbols {
            assert!(symbol.name.len() <= 203, "{path} {shown}");
            assert!(
                1 <= symbol.first_line && symbol.last_line <= lines,
                "{path} {symbol:?} {lines}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // Every source gives the same outline twice, with lines inside the file and in order.
    #[test]
    fn outlines_are_the_same_twice_and_stay_inside_their_file(
        pieces in proptest::collection::vec(prop_oneof![
            Just("def f():\n  "), Just("class A {\n"), Just("}"), Just("fn x() {"), Just("import a.b"), Just("\n"),
            Just("use a::{b, c};"), Just("\"'"), Just("#include <x>"), Just("func (a) B() {"), Just("\r\n\t"), Just("é"),
        ], 0..40),
        at in 0_usize..9,
    ) {
        let path = ["a.rs", "a.py", "a.js", "a.ts", "a.tsx", "a.go", "a.java", "a.c", "a.cpp"][at];
        let source = pieces.concat();
        let first = parsed(path, &source);
        prop_assert_eq!(&first, &parsed(path, &source));
        prop_assert!(first.symbols.is_sorted_by_key(|symbol| symbol.first_line));
        for symbol in &first.symbols {
            prop_assert!(1 <= symbol.first_line && symbol.first_line <= symbol.last_line);
            prop_assert!(symbol.last_line <= first.lines, "{:?}", symbol);
        }
        for import in &first.imports {
            prop_assert!(1 <= import.line && import.line <= first.lines);
        }
    }
}

#[test]
fn a_parse_that_nobody_waits_for_ends() {
    let source = "fn a() { b(c); }\n".repeat(20_000);
    assert_eq!(outline(Language::Rust, "a.rs", source.as_bytes(), &|| true), None);
}

// SYMBOLS-4
#[test]
fn waiting_is_no_work() {
    let source = "def f(): pass\n".repeat(2_000);
    let asked = std::cell::Cell::new(0);
    // Each check takes a long time by the wall clock.
    let slow = || {
        asked.set(asked.get() + 1);
        if asked.get() < 7 {
            std::thread::sleep(Duration::from_secs(1));
        }
        false
    };
    let parsed = outline(Language::Python, "a.py", source.as_bytes(), &slow).unwrap();
    assert!(parsed.lasting && parsed.outline.complete, "{}", asked.get());
    assert_eq!(parsed.outline.symbols.len(), 2_000);
    assert!(asked.get() > 6, "the parser asked {} times", asked.get());
}
