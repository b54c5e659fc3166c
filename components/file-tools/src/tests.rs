//! The ten tools against a repository in memory.

use crate::run;
use act_kit::testing::Files;
use act_kit::tool::{NotRun, Operation, Reason};
use act_kit::world::{Outline, Symbol};
use serde_json::{Value, json};

trait Call {
    /// Calls a tool that does what is asked.
    fn call(&self, tool: &str, arguments: Value) -> String;

    /// Calls a tool that refuses.
    fn refuse(&self, tool: &str, arguments: Value) -> String;
}

impl Call for Files {
    fn call(&self, tool: &str, arguments: Value) -> String {
        let outcome = run(self, tool, &arguments.to_string()).unwrap();
        assert!(!outcome.is_error, "{tool} {arguments}: {}", outcome.text);
        outcome.text
    }

    fn refuse(&self, tool: &str, arguments: Value) -> String {
        let outcome = run(self, tool, &arguments.to_string()).unwrap();
        assert!(outcome.is_error, "{tool} {arguments}: {}", outcome.text);
        outcome.text
    }
}

/// `edit_lines` of one range at version 1.
fn lines(path: &str, start: impl Into<Value>, end: impl Into<Value>, new: &str) -> Value {
    let (start, end) = (start.into(), end.into());
    json!({"path": path, "expect_version": 1, "edits": [{"start": start, "end": end, "new": new}]})
}

// TOOLS-7
#[test]
fn read_shows_a_header_and_lines_from_one_with_both_ends() {
    let repository = Files::of(&[("a.py", "one\n  two\nthree\n"), ("empty", "")]);
    assert_eq!(
        repository.call("read", json!({"path": "./a.py"})),
        "a.py · version 1 · lines 1-3 of 3\n1| one\n2|   two\n3| three"
    );
    let part = |start: u64, end: u64| json!({"path": "a.py", "start": start, "end": end});
    let two = "a.py · version 1 · lines 2-2 of 3\n2|   two";
    assert_eq!(repository.call("read", part(2, 2)), two);
    let rest = "a.py · version 1 · lines 2-3 of 3\n2|   two\n3| three";
    assert_eq!(repository.call("read", part(2, 99)), rest);
    assert_eq!(repository.call("read", json!({"path": "empty"})), "empty · version 1 · 0 lines");
    for start in [json!(0), json!(4), json!(-1)] {
        let behind = repository.refuse("read", json!({"path": "a.py", "start": start}));
        assert_eq!(behind, "index_out_of_bounds: a.py has 3 lines, counted from 1");
    }
    assert!(repository.refuse("read", part(3, 2)).starts_with("bad_arguments: start 3 is behind"));
}

// TOOLS-7
#[test]
fn several_files_are_read_in_one_call_and_one_refusal_hides_no_other() {
    let repository = Files::of(&[("a", "1\n2\n3\n"), ("b", "x\r\n"), ("bin", "a\0")]);
    let files = |files: Value| json!({"files": files});
    let asked =
        files(json!([{"path": "a", "start": 2, "end": 2}, {"path": "gone"}, {"path": "b"}]));
    assert_eq!(
        repository.call("read", asked),
        "a · version 1 · lines 2-2 of 3\n2| 2\n\ngone · not_found: no file in view is gone\n\n\
         b · version 1 · lines 1-1 of 1 · CRLF\n1| x"
    );
    let none = files(json!([{"path": "bin"}, {"path": "gone"}]));
    assert!(repository.refuse("read", none).starts_with("binary: "));
    for wrong in [
        files(json!([])),
        files(json!(vec![json!({"path": "a"}); 33])),
        json!({}),
        json!({"start": 1}),
        json!({"path": "a", "files": []}),
        json!({"files": [{"path": "a"}], "end": 3}),
    ] {
        assert!(repository.refuse("read", wrong).starts_with("bad_arguments: name "));
    }
}

// TOOLS-7
#[test]
fn read_stops_at_its_bounds_and_says_where_to_go_on() {
    let long = (1..=1200).map(|n| format!("{n}\n")).collect::<String>();
    let wide = format!("{}\n", "x".repeat(1500)).repeat(60);
    let nearly = (1..=519).map(|n| format!("{n}\n")).collect::<String>();
    let files =
        [("long", &*long), ("wide", &*wide), ("one", &*"y".repeat(9000)), ("nearly", &*nearly)];
    let repository = Files::of(&files);
    let (mut seen, mut start) = (0, 1);
    loop {
        let page = repository.call("read", json!({"path": "long", "start": start}));
        seen += page.lines().filter(|line| line.contains("| ")).count();
        let Some((_, next)) = page.split_once("read on with start ") else { break };
        start = next.parse().unwrap();
    }
    assert_eq!((seen, start), (1200, 1001));
    let page = repository.call("read", json!({"path": "long", "end": 600}));
    assert!(page.ends_with("\n500| 500\n… 100 lines more; read on with start 501"), "{page}");
    let page = repository.call("read", json!({"path": "wide", "end": 60}));
    assert!(page.ends_with("\n… 44 lines more; read on with start 17"), "{page}");
    let page = repository.call("read", json!({"path": "one"}));
    assert!(page.ends_with("… [7000 bytes more]"), "{page}");
    // A rest that is shorter than the sentence about it is worth is shown.
    let page = repository.call("read", json!({"path": "nearly", "end": 519}));
    assert!(page.starts_with("nearly · version 1 · lines 1-519 of 519\n"), "{page}");
    let full = json!({"files": vec![json!({"path": "wide", "end": 60}); 5]});
    let page = repository.call("read", full);
    assert!(page.len() < 70 << 10 && page.contains("\n\nwide · budget: this answer is full"));
}

/// A function of two lines.
fn function(container: Option<&str>, name: &str, first_line: u32) -> Symbol {
    Symbol {
        name: name.to_owned(),
        kind: "function".to_owned(),
        container: container.map(str::to_owned),
        first_line,
        last_line: first_line + 1,
        exported: true,
    }
}

// TOOLS-18
#[test]
fn a_long_file_without_a_range_is_shown_by_its_outline() {
    let long = (1..=1200).map(|n| format!("{n}\n")).collect::<String>();
    let outlined = |symbols: Vec<Symbol>| {
        let outline = Outline { symbols, ..Outline::default() };
        Files::of(&[("a", &long)]).outlined("a", outline)
    };
    let few = outlined(vec![function(None, "f", 7), function(Some("T"), "g", 90)]);
    let page = few.call("read", json!({"path": "a"}));
    assert!(page.starts_with("a · version 1 · lines 1-30 of 1200\n1| 1\n"), "{page}");
    let outline = "\n30| 30\n… the outline of its 1200 lines; read the ranges you need\n\
                   7-8 function f\n90-91 function T.g";
    assert!(page.ends_with(outline), "{page}");
    let part = few.call("read", json!({"path": "a", "start": 1}));
    assert!(part.ends_with("\n200| 200\n… 1000 lines more; read on with start 201"), "{part}");

    // A long outline has the outer definitions alone, and a file that no parser reads has none.
    let inner = (1..=600).map(|n| function(Some("T"), &format!("inner_{n}"), n));
    let many = outlined(inner.chain([function(None, "outer", 700)]).collect());
    let page = many.call("read", json!({"path": "a"}));
    assert!(page.ends_with("\n700-701 function outer\n… 600 definitions more; search for them"));
    let plain = Files::of(&[("a", &long)]).call("read", json!({"path": "a"}));
    assert!(plain.ends_with("\n200| 200\n… 1000 lines more; read on with start 201"), "{plain}");
    let small = (1..=400).map(|n| format!("{n}\n")).collect::<String>();
    let whole = Files::of(&[("a", &small)]).call("read", json!({"path": "a"}));
    assert!(whole.ends_with("\n400| 400"), "{whole}");
}

// TOOLS-5
#[test]
fn a_file_that_comes_in_parts_is_read_whole() {
    let repository = Files::of(&[("a", "one\ntwo\nthree\n")]).with_read_limit(4);
    let answer = repository.call("edit_lines", lines("a", 3, 3, "3"));
    assert_eq!(answer, "edited a · version 2 · 3 lines");
    assert_eq!(repository.text("a").unwrap(), "one\ntwo\n3\n");
}

#[test]
fn binary_and_huge_files_are_refused() {
    let huge = "x".repeat((4 << 20) + 1);
    let repository = Files::of(&[("b", "a\0b"), ("huge", &huge)]);
    assert!(repository.refuse("read", json!({"path": "b"})).starts_with("binary: "));
    assert!(repository.refuse("read", json!({"path": "huge"})).starts_with("too_large: 4194305"));
}

// TOOLS-5
#[test]
fn no_edit_leaves_what_could_not_be_edited_again() {
    let full = format!("{}\nend\n", "x".repeat((4 << 20) - 5));
    let repository = Files::of(&[("full", &full)]);
    let refused = repository.refuse("edit_lines", lines("full", 2, 2, "longer"));
    assert!(refused.starts_with("too_large: ") && refused.ends_with("\n2| end"), "{refused}");
    assert_eq!(repository.text("full").unwrap(), full);
    let more = json!({"path": "new", "content": "x".repeat((4 << 20) + 1)});
    assert!(repository.refuse("create", more).starts_with("too_large: "));
    repository.call("edit_lines", lines("full", 2, 2, "now"));
}

// TOOLS-6
#[test]
fn a_large_directory_behind_a_link_is_folded_by_its_real_name() {
    for (name, real) in [("l", "deep/down/src"), ("a-much-longer-name", "x"), ("\u{fc}", "src")] {
        let repository = Files::default().linked(name, real);
        for n in 0..300 {
            repository.insert(&format!("{real}/many/{n}"), 1, vec![]);
        }
        repository.insert(&format!("{real}/a"), 1, vec![]);
        let folded = repository.call("list", json!({ "path": name }));
        assert_eq!(folded, format!("{real}/a\n{real}/many/ (300 files)"), "{name}");
    }
}

// TOOLS-6
#[test]
fn list_names_every_file_or_folds_a_large_tree() {
    let repository = Files::of(&[("a", ""), ("src/b", ""), ("src/c/d", "")]);
    assert_eq!(repository.call("list", json!({})), "a\nsrc/b\nsrc/c/d");
    assert_eq!(repository.call("list", json!({"path": "src/"})), "src/b\nsrc/c/d");
    let none = repository.refuse("list", json!({"path": "no"}));
    assert_eq!(none, "not_found: no has no file in view");
    assert_eq!(Files::default().call("list", json!({})), "no file is in view");
    for n in 0..300 {
        repository.insert(&format!("src/many/{n}"), 1, vec![]);
    }
    assert_eq!(repository.call("list", json!({})), "a\nsrc/ (302 files)");
    let folded = repository.call("list", json!({"path": "src"}));
    assert_eq!(folded, "src/b\nsrc/c/ (1 file)\nsrc/many/ (300 files)");
}

// TOOLS-6
#[test]
fn list_counts_the_names_that_are_not_utf8() {
    let odd = Files::of(&[("a", "")]).with_names_that_are_not_utf8(1);
    assert_eq!(
        odd.call("list", json!({})),
        "a\n… and 1 name that is not UTF-8, which no tool can open"
    );
    let alone = Files::default().with_names_that_are_not_utf8(2).call("list", json!({}));
    let expected = "no file is in view\n… and 2 names that are not UTF-8, which no tool can open";
    assert_eq!(alone, expected);
}

// TOOLS-8
#[test]
fn search_shows_lines_with_their_indentation_and_is_bounded() {
    let repository = Files::of(&[
        ("CHANGES.md", "needle\n"),
        ("b", &"needle\n".repeat(150)),
        ("src/a.py", "x\n  needle 1\n"),
        ("tests/a.py", &"needle\nno\n".repeat(80)),
    ]);
    let answer = repository.call("search", json!({"pattern": "needle"}));
    // Every file has a share of the 40 lines, in the order of a reader; the rest is named.
    assert!(answer.starts_with("b · version 1\n1| needle\n2| needle\n"), "{answer}");
    let parts = [
        "\n32| needle\n… 118 more at 33-150\nsrc/a.py · version 1\n2|   needle 1\n\
         tests/a.py · version 1\n1| needle\n3| needle\n",
        "\n11| needle\n… 74 more at 13, 15, 17, 19, 21, 23, ",
        ", 51, …\nCHANGES.md · version 1\n1| needle",
    ];
    for part in parts {
        assert!(answer.contains(part), "{part}\n{answer}");
    }
    let files: Vec<_> = (100..200).map(|n| (format!("{n}"), "needle\n".to_owned())).collect();
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let answer = Files::of(&files).call("search", json!({"pattern": "needle"}));
    assert!(
        answer.contains("\n139 · version 1\n1| needle\n… also in 140 (1), 141 (1), "),
        "{answer}"
    );
    assert!(answer.ends_with(", 159 (1) and 40 files more"), "{answer}");
    assert_eq!(repository.call("search", json!({"pattern": "absent"})), "no line matches");
    let within = |glob: &str| repository.call("search", json!({"pattern": "absent", "glob": glob}));
    assert_eq!(within("src/**"), "no line matches in the files of the glob");
    assert_eq!(within("lib/**"), "no file matches the glob, so nothing was searched");
    let answer = repository.refuse("search", json!({"pattern": "("}));
    assert_eq!(answer, "bad_arguments: unclosed group");
}

// TOOLS-8
#[test]
fn search_names_the_definitions_around_its_matches() {
    let text = "x\n".repeat(9) + &"needle\n".repeat(300);
    let symbol = |name: &str, first_line, last_line| {
        let symbol = function(Some("T"), name, first_line);
        Symbol { last_line, ..symbol }
    };
    let symbols = vec![symbol("all", 1, 309), symbol("f", 9, 12), symbol("g", 13, 14)];
    let outline = Outline { symbols, ..Outline::default() };
    let repository = Files::of(&[("a.py", &text)]).outlined("a.py", outline);
    let answer = repository.call("search", json!({"pattern": "needle"}));
    assert!(
        answer.contains("\n49| needle\nin 9-12 T.f, 13-14 T.g\n… 260 more at 50-309"),
        "{answer}"
    );
}

// TOOLS-8
#[test]
fn search_shows_the_lines_around_each_hit_once() {
    let text = (1..=30).map(|n| format!("  line {n}\n")).collect::<String>();
    let repository = Files::of(&[("a", &text.replace("line 5", "hit").replace("line 7", "hit"))]);
    let answer = repository.call("search", json!({"pattern": "hit", "context": 1}));
    assert_eq!(answer, "a · version 1\n4-   line 4\n5|   hit\n6-   line 6\n7|   hit\n8-   line 8");
    let far = Files::of(&[("a", &text.replace("line 5", "hit").replace("line 20", "hit"))]);
    let answer = far.call("search", json!({"pattern": "hit", "context": 99}));
    assert!(answer.contains("\n1-   line 1\n") && answer.ends_with("\n30-   line 30"), "{answer}");
    let answer = far.call("search", json!({"pattern": "hit", "context": 2}));
    assert!(answer.contains("\n7-   line 7\n…\n18-   line 18\n"), "{answer}");
}

// TOOLS-8
#[test]
fn a_literal_is_searched_as_it_is_and_case_may_be_ignored() {
    let repository = Files::of(&[("a", "f(x)\nF(X)\n")]);
    let literal = repository.call("search", json!({"pattern": "f(x)", "literal": true}));
    assert_eq!(literal, "a · version 1\n1| f(x)");
    let regex = crate::reading::escape("a.b(c)[d]{2}\\^$|+*?");
    assert_eq!(regex, r"a\.b\(c\)\[d\]\{2\}\\\^\$\|\+\*\?");
    let asked =
        repository.call("search", json!({"pattern": "f(x", "literal": true, "ignore_case": true}));
    assert_eq!(asked, "a · version 1\n1| f(x)\n2| F(X)");
}

// TOOLS-8
#[test]
fn a_long_line_is_cut_around_its_match() {
    let (early, short) = (format!("needle {}", "ü".repeat(200)), "x".repeat(193) + " needle");
    let late = format!("{}needle{}", "x".repeat(5000), "y".repeat(300));
    let last = format!("{}needle", "x".repeat(400));
    let files = [("a", &*early), ("b", &*short), ("c", &*late), ("d", &*last)];
    let answer = Files::of(&files).call("search", json!({"pattern": "needle"}));
    let lines: Vec<_> = answer.lines().skip(1).step_by(2).collect();
    assert_eq!(lines[0], format!("1| needle {}…", "ü".repeat(96)));
    assert_eq!(lines[1], format!("1| {short}"));
    assert_eq!(lines[2], format!("1| …{}needle{}… (column 5001)", "x".repeat(50), "y".repeat(144)));
    assert_eq!(lines[3], format!("1| …{}needle (column 401)", "x".repeat(50)));
}

// TOOLS-13
#[test]
fn numbers_that_no_file_has_are_refused_with_what_there_is() {
    let repository = Files::of(&[("a", "0\n1\n2\n")]);
    let far: Value = serde_json::from_str("18446744073709551616").unwrap();
    for none in [json!(-1), json!(u64::MAX), far] {
        let insert = json!({"path": "a", "expect_version": 1, "after": none, "new": "x"});
        for (tool, arguments) in [
            ("edit_lines", lines("a", none.clone(), 3, "x")),
            ("edit_lines", lines("a", 1, none.clone(), "x")),
            ("insert", insert),
        ] {
            let answer = repository.refuse(tool, arguments);
            let expected = "index_out_of_bounds: a has no such line; it has 3, counted from 1\na · version 1 · ";
            assert!(answer.starts_with(expected) && answer.contains("\n3| 2"), "{answer}");
        }
        let whole = json!({"path": "a", "expect_version": none, "content": "x"});
        let gone = json!({"path": "a", "expect_version": none});
        let moved = json!({"from": "a", "to": "b", "expect_version": none});
        let text = json!({"path": "a", "old": "1", "new": "x", "expect_version": none});
        let tools = [("full_rewrite", whole), ("delete", gone), ("move", moved), ("replace", text)];
        for (tool, arguments) in tools {
            let answer = repository.refuse(tool, arguments);
            let expected = "version_mismatch: a is at version 1 now; ";
            assert!(answer.starts_with(expected) && answer.contains("\n1| 0"), "{answer}");
        }
    }
    for none in [0, 4] {
        let answer = repository.refuse("edit_lines", lines("a", none, 3, "x"));
        assert!(answer.starts_with(&format!("index_out_of_bounds: a has no line {none}; ")));
    }
    assert_eq!(repository.text("a").unwrap(), "0\n1\n2\n");
}

// TOOLS-15
#[test]
fn replace_changes_the_one_place_of_a_text() {
    let repository =
        Files::of(&[("a", "one\r\n  two\r\nthree\r\n"), ("b", "x = 1\ny = 2\nx = 1\n")]);
    let answer = repository
        .call("replace", json!({"path": "a", "old": "one\n  two", "new": "1\n  2\n  2.5"}));
    assert_eq!(answer, "edited a · version 2 · 4 lines");
    assert_eq!(repository.text("a").unwrap(), "1\r\n  2\r\n  2.5\r\nthree\r\n");
    let twice = repository.refuse("replace", json!({"path": "b", "old": "x = 1", "new": "x = 3"}));
    assert_eq!(
        twice,
        "bad_arguments: old occurs more than once in b, at the lines 1, 3; add lines around it until it occurs \
         once, or set all\nb · version 1 · lines 1-3 of 3\n1| x = 1\n2| y = 2\n3| x = 1"
    );
    let all =
        json!({"path": "b", "old": "x = 1", "new": "x = 3", "all": true, "expect_version": 1});
    assert_eq!(repository.call("replace", all), "edited b · version 2 · 3 lines");
    assert_eq!(repository.text("b").unwrap(), "x = 3\ny = 2\nx = 3\n");
    let many = Files::of(&[("c", &"x\n".repeat(50))]);
    let many = many.refuse("replace", json!({"path": "c", "old": "x", "new": "y"}));
    assert!(many.contains("at the lines 1, 2, 3, 4, 5, …; "), "{many}");
}

// TOOLS-15
#[test]
fn replace_says_what_is_there_in_place_of_a_text_that_is_not() {
    let repository = Files::of(&[("a", "if x:\n\treturn  1\nend\n")]);
    let old = |old: &str| json!({"path": "a", "old": old, "new": "x"});
    let space = repository.refuse("replace", old("    return 1\n"));
    assert!(space.starts_with("not_found: old does not occur in a; the lines below have the same"));
    assert!(space.contains("\n2| \treturn  1\n"), "{space}");
    let gone = repository.refuse("replace", old("nothing like it"));
    assert_eq!(
        gone,
        "not_found: old does not occur in a; read the file again\na · version 1 · 3 lines"
    );
    assert!(repository.refuse("replace", old("")).starts_with("bad_arguments: old is empty; "));
    let mut stale = old("end");
    stale["expect_version"] = json!(7);
    let stale = repository.refuse("replace", stale);
    assert!(stale.starts_with("version_mismatch: a is at version 1 now; "), "{stale}");
    let nul = json!({"path": "a", "old": "end", "new": "\0"});
    assert!(repository.refuse("replace", nul).starts_with("bad_arguments: new: a NUL"));
    assert_eq!(repository.text("a").unwrap(), "if x:\n\treturn  1\nend\n");
}

// TOOLS-9
#[test]
fn edits_raise_the_version_and_use_the_one_before() {
    let repository = Files::of(&[("a", "0\n1\n2\n")]);
    let first = repository.call("edit_lines", lines("a", 2, 2, "x\ny"));
    assert_eq!(first, "edited a · version 2 · 4 lines");
    let stale = repository.refuse("edit_lines", lines("a", 2, 2, "z"));
    assert_eq!(
        stale,
        "version_mismatch: a is at version 2 now; base the edit on what it has now\n\
         a · version 2 · lines 1-4 of 4\n1| 0\n2| x\n3| y\n4| 2"
    );
    assert_eq!(repository.text("a").unwrap(), "0\nx\ny\n2\n");
    let answer = repository.call(
        "edit_lines",
        json!({"path": "a", "expect_version": 2, "edits": [
            {"start": 4, "end": 4, "new": "end"}, {"start": 1, "end": 1, "new": ""}]}),
    );
    assert_eq!(answer, "edited a · version 3 · 3 lines");
    assert_eq!(repository.text("a").unwrap(), "x\ny\nend\n");
    let insert = |version: u64, after: u64, new: &str| {
        let place = json!({"path": "a", "expect_version": version, "after": after, "new": new});
        repository.call("insert", place)
    };
    assert_eq!(insert(3, 0, "top\n"), "edited a · version 4 · 4 lines");
    assert_eq!(insert(4, 4, "last"), "edited a · version 5 · 5 lines");
    assert_eq!(repository.text("a").unwrap(), "top\nx\ny\nend\nlast\n");
    let whole = json!({"path": "a", "expect_version": 5, "content": "new"});
    assert_eq!(repository.call("full_rewrite", whole), "edited a · version 6 · 1 lines");
}

// TOOLS-16
#[test]
fn an_edit_that_changes_nothing_says_so_and_keeps_the_version() {
    let repository = Files::of(&[("a", "0\r\n1\r\n")]);
    for (tool, arguments) in [
        ("edit_lines", lines("a", 1, 1, "0\n")),
        ("insert", json!({"path": "a", "expect_version": 1, "after": 1, "new": ""})),
        ("replace", json!({"path": "a", "old": "0\n1", "new": "0\n1"})),
        ("full_rewrite", json!({"path": "a", "expect_version": 1, "content": "0\n1\n"})),
    ] {
        let answer = repository.call(tool, arguments);
        let expected = "unchanged a · version 1 · 2 lines: the file has this text already";
        assert_eq!(answer, expected, "{tool}");
    }
    assert_eq!(repository.version("a").unwrap().number, 1);
}

#[test]
fn a_refused_edit_shows_the_lines_around_its_place() {
    let repository = Files::of(&[("a", &(1..=20).map(|n| format!("{n}\n")).collect::<String>())]);
    let edits = |edits: Value| json!({"path": "a", "expect_version": 1, "edits": edits});
    let answer = repository.refuse(
        "edit_lines",
        edits(json!([{"start": 1, "end": 1, "new": ""}, {"start": 20, "end": 30, "new": ""}])),
    );
    assert_eq!(
        answer,
        "index_out_of_bounds: edit 2: a has no line 30; it has 20, counted from 1; no edit was made\n\
         a · version 1 · lines 17-20 of 20\n17| 17\n18| 18\n19| 19\n20| 20"
    );
    let answer = repository.refuse(
        "edit_lines",
        edits(json!([{"start": 9, "end": 12, "new": ""}, {"start": 8, "end": 9, "new": ""}])),
    );
    assert!(
        answer.starts_with(
            "bad_arguments: edit 1: the lines 9-12 overlap with the lines 8-9 of another edit; make them one \
             edit; no edit was made\na · version 1 · lines 6-"
        ),
        "{answer}"
    );
    let answer = repository.refuse("edit_lines", lines("a", 5, 4, "x"));
    assert!(
        answer.starts_with("bad_arguments: start 5 is behind end 4; to add lines, call insert\n")
    );
    assert!(
        repository.refuse("edit_lines", edits(json!([]))).starts_with("bad_arguments: edits: ")
    );
    assert_eq!(repository.version("a").unwrap().number, 1);
}

// security line 182; EDIT-17
#[test]
fn a_text_with_a_nul_and_numbers_that_are_no_place_are_refused_and_nothing_changes() {
    let repository = Files::of(&[("a", "one\ntwo\n")]);
    let nul = "a\0b";
    for (tool, arguments) in [
        ("edit_lines", lines("a", 1, 1, nul)),
        ("insert", json!({"path": "a", "expect_version": 1, "after": 0, "new": nul})),
        ("full_rewrite", json!({"path": "a", "expect_version": 1, "content": nul})),
        ("create", json!({"path": "b", "content": nul})),
    ] {
        assert!(repository.refuse(tool, arguments).starts_with("bad_arguments: "), "{tool}");
    }
    let empty = json!({"path": "a", "expect_version": 1, "content": ""});
    assert!(repository.refuse("full_rewrite", empty).starts_with("content_empty: "));
    for number in ["1.5", "\"0\""] {
        for arguments in [
            format!(r#"{{"path":"a","expect_version":1,"after":{number},"new":"x"}}"#),
            format!(r#"{{"path":"a","expect_version":{number},"after":0,"new":"x"}}"#),
        ] {
            let refused = run(&repository, "insert", &arguments);
            assert!(matches!(refused, Err(NotRun::BadArguments(_))), "{arguments}");
        }
    }
    let surrogate = r#"{"path":"a","expect_version":1,"after":0,"new":"\ud800"}"#;
    assert!(matches!(run(&repository, "insert", surrogate), Err(NotRun::BadArguments(_))));
    assert_eq!(
        (repository.text("a").unwrap().as_str(), repository.version("b")),
        ("one\ntwo\n", None)
    );
}

// TOOLS-10
#[test]
fn a_file_that_changes_under_the_edit_is_a_mismatch_with_fresh_lines() {
    let repository = Files::of(&[("a", "old\n")]);
    repository.write_before_next_change("a", b"theirs\n");
    let answer = repository.refuse("edit_lines", lines("a", 1, 1, "mine"));
    assert_eq!(
        answer,
        "version_mismatch: a is at version 2 now; base the edit on what it has now\n\
         a · version 2 · lines 1-1 of 1\n1| theirs"
    );
    assert_eq!(repository.text("a").unwrap(), "theirs\n");
}

// TOOLS-11
#[test]
fn files_are_created_deleted_and_moved() {
    let repository = Files::of(&[("a", "text\n"), ("b", "")]);
    let created = repository.call("create", json!({"path": "src/n", "content": "x\n"}));
    assert_eq!(created, "created src/n · version 1 · 1 lines");
    let taken = repository.refuse("create", json!({"path": "a", "content": ""}));
    assert_eq!(taken, "exists: a exists already; edit it, or choose another name");
    let gate = repository.refuse("create", json!({"path": "agent.yaml", "content": ""}));
    assert_eq!(gate, "protected: agent.yaml: the gate is the user's");
    let moved = repository.call("move", json!({"from": "a", "to": "c", "expect_version": 1}));
    assert_eq!(moved, "moved a to c · version 1");
    // EDIT-15: as other refused edits do.
    let stale = "version_mismatch: c is at version 1 now; base the edit on what it has now\n\
                 c · version 1 · lines 1-1 of 1\n1| text";
    let answer = repository.refuse("delete", json!({"path": "c", "expect_version": 7}));
    assert_eq!(answer, stale);
    let answer = repository.refuse("move", json!({"from": "c", "to": "d", "expect_version": 7}));
    assert_eq!(answer, stale);
    let deleted = repository.call("delete", json!({"path": "c", "expect_version": 1}));
    assert_eq!(deleted, "deleted c");
    assert!(repository.refuse("read", json!({"path": "c"})).starts_with("not_found: "));
}

// TOOLS-14
#[test]
fn a_path_that_names_nothing_is_answered_with_similar_names() {
    let repository = Files::of(&[("src/price.py", "x\n")]);
    let read = repository.refuse("read", json!({"path": "price.py"}));
    assert_eq!(read, "not_found: no file in view is price.py; similar: src/price.py");
    let edit =
        repository.refuse("replace", json!({"path": "src/prices.py", "old": "x", "new": "y"}));
    assert_eq!(edit, "not_found: no file in view is src/prices.py; similar: src/price.py");
}

// TOOLS-3
#[test]
fn paths_stay_in_the_repository() {
    let repository = Files::of(&[("a", "")]);
    for path in ["/etc/passwd", "../a", "src/../../a"] {
        let answer = repository.refuse("read", json!({"path": path}));
        assert!(answer.starts_with("outside_repo: "), "{path}");
        let answer = repository.refuse("create", json!({"path": path, "content": ""}));
        assert!(answer.starts_with("outside_repo: "), "{path}");
    }
    assert!(repository.refuse("read", json!({"path": "."})).starts_with("not_a_file: "));
}

// TOOLS-2
#[test]
fn wrong_arguments_are_named_with_their_place() {
    let why = |tool: &str, arguments: &str| match run(&Files::default(), tool, arguments) {
        Err(NotRun::BadArguments(why)) => why,
        other => panic!("{other:?}"),
    };
    let edits = r#"{"path":"a","expect_version":1,"edits":[{"start":0,"end":1,"new":""},{"start":"x","end":1,"new":""}]}"#;
    assert!(why("edit_lines", edits).starts_with("edits[1].start: invalid type: string \"x\""));
    assert!(why("replace", "{}").contains("missing field `path`"));
    assert!(
        why("read", r#"{"path":"a","line":3}"#).contains("unknown field `line`, expected one of ")
    );
    assert!(
        why("insert", r#"{"path":"a","expect_version":1,"after":-1.5,"new":""}"#)
            .starts_with("after: ")
    );
    assert!(why("list", "{} {}").contains("trailing characters"));
    assert_eq!(run(&Files::default(), "shell", "{}"), Err(NotRun::UnknownTool));
    assert!(run(&Files::default(), "list", "").is_ok());
}

/// Checks that every parameter of a schema is described.
fn assert_described(tool: &str, schema: &Value) {
    for (name, parameter) in schema["properties"].as_object().unwrap() {
        assert!(parameter["description"].is_string(), "{tool}: {name}");
        if parameter["items"]["properties"].is_object() {
            assert_described(tool, &parameter["items"]);
        }
    }
}

// TOOLS-1
#[test]
fn the_manifest_offers_exactly_the_tools_that_exist_and_stays_small() {
    let manifest: Value = serde_json::from_str(include_str!("../manifest.json")).unwrap();
    let tools = manifest["tools"].as_array().unwrap();
    for tool in tools {
        let name = tool["name"].as_str().unwrap();
        assert_ne!(run(&Files::default(), name, "{}"), Err(NotRun::UnknownTool), "{name}");
        assert_described(name, &tool["parameters"]);
        let reads = ["list", "read", "search"].contains(&name);
        assert_eq!(tool["read_only"] == true, reads, "{name}");
    }
    assert_eq!(tools.len(), 10);
    let size: usize = tools.iter().map(|tool| tool.to_string().len()).sum();
    assert!(size <= 4_000, "{size} bytes of every request");
}

// EDITOR-14
#[test]
fn an_edit_that_is_refused_here_is_reported_to_the_host_and_one_that_the_host_refused_is_not() {
    let repository = Files::of(&[("a", "one\n")]);
    let reported = |tool: &str, arguments: &str| {
        run(&repository, tool, arguments).ok();
        repository.take_refusals()
    };
    let one = |operation, path: &str, reason| vec![(operation, path.to_owned(), reason)];
    for (tool, arguments, expected) in [
        (
            "insert",
            r#"{"path":"a","expect_version":2,"after":0,"new":"x"}"#,
            one(Operation::Replace, "a", Reason::VersionMismatch),
        ),
        (
            "replace",
            r#"{"path":"a","old":"two","new":"x"}"#,
            one(Operation::Replace, "a", Reason::NotFound),
        ),
        (
            "move",
            r#"{"from":"a","to":"../b","expect_version":1}"#,
            one(Operation::Move, "a", Reason::OutsideRepo),
        ),
        ("create", r#"{"path":"b"}"#, one(Operation::Create, "b", Reason::BadArguments)),
        ("delete", "no json", one(Operation::Delete, "", Reason::BadArguments)),
        ("create", r#"{"path":"agent.yaml","content":"x"}"#, vec![]),
        ("create", r#"{"path":"a","content":"x"}"#, vec![]),
        ("delete", r#"{"path":"gone","expect_version":1}"#, vec![]),
        ("read", r#"{"path":"gone"}"#, vec![]),
        ("replace", r#"{"path":"a","old":"one","new":"one"}"#, vec![]),
        ("replace", r#"{"path":"a","old":"one","new":"x"}"#, vec![]),
    ] {
        assert_eq!(reported(tool, arguments), expected, "{tool} {arguments}");
    }
    repository.write_before_next_change("a", b"theirs\n");
    let stale = r#"{"path":"a","expect_version":2,"after":0,"new":"mine"}"#;
    assert_eq!(reported("insert", stale), vec![]);
}
