//! The ten tools against a repository in memory.

use crate::run;
use act_kit::testing::Files;
use act_kit::tool::{NotRun, Operation, Outcome, Reason};
use serde_json::{Value, json};

trait Call {
    fn call(&self, tool: &str, arguments: Value) -> Value;
}

impl Call for Files {
    fn call(&self, tool: &str, arguments: Value) -> Value {
        let Outcome { text, is_error } = run(self, tool, &arguments.to_string()).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["ok"], json!(!is_error));
        value
    }
}

// TOOLS-7
#[test]
fn read_shows_the_version_and_lines_from_zero() {
    let repository = Files::of(&[("a.py", "one\ntwo\nthree\n")]);
    assert_eq!(
        repository.call("read", json!({"path": "./a.py"})),
        json!({"ok": true, "path": "a.py", "version": 1, "line_count": 3,
               "lines": {"0": "one", "1": "two", "2": "three"}})
    );
    let part = repository.call("read", json!({"path": "a.py", "start": 1, "end": 2}));
    assert_eq!(part["lines"], json!({"1": "two"}));
    let beyond = repository.call("read", json!({"path": "a.py", "start": 1, "end": 99}));
    assert_eq!(beyond["lines"], json!({"1": "two", "2": "three"}));
    let behind = repository.call("read", json!({"path": "a.py", "start": 9}));
    assert_eq!(behind, json!({"ok": false, "reason": "index_out_of_bounds", "max_index": 2}));
}

#[test]
fn read_stops_at_its_bounds_and_says_where_to_go_on() {
    let long = (0..1200).map(|n| format!("{n}\n")).collect::<String>();
    let wide = format!("{}\n", "x".repeat(1500)).repeat(40);
    let repository = Files::of(&[("long", &long), ("wide", &wide), ("one", &"y".repeat(9000))]);
    let mut seen = 0;
    let mut start = json!(0);
    while !start.is_null() {
        let page = repository.call("read", json!({"path": "long", "start": start}));
        seen += page["lines"].as_object().unwrap().len();
        start = page["next_start"].clone();
    }
    assert_eq!(seen, 1200);
    let page = repository.call("read", json!({"path": "wide"}));
    assert_eq!((page["next_start"].as_u64(), page["line_count"].as_u64()), (Some(16), Some(40)));
    let page = repository.call("read", json!({"path": "one"}));
    assert!(page["lines"]["0"].as_str().unwrap().ends_with("… [7000 bytes more]"));
}

// TOOLS-5
#[test]
fn a_file_that_comes_in_parts_is_read_whole() {
    let repository = Files::of(&[("a", "one\ntwo\nthree\n")]).with_read_limit(4);
    let answer = repository
        .call("edit_line", json!({"path": "a", "expect_version": 1, "index": 2, "new": "3"}));
    assert_eq!(answer["new_version"], 2);
    assert_eq!(repository.text("a").unwrap(), "one\ntwo\n3\n");
}

#[test]
fn binary_and_huge_files_are_refused() {
    let huge = "x".repeat((4 << 20) + 1);
    let repository = Files::of(&[("b", "a\0b"), ("huge", &huge)]);
    assert_eq!(
        repository.call("read", json!({"path": "b"})),
        json!({"ok": false, "reason": "binary"})
    );
    let answer = repository.call("read", json!({"path": "huge"}));
    assert_eq!(answer["reason"], "too_large");
}

// TOOLS-5
#[test]
fn no_edit_leaves_what_could_not_be_edited_again() {
    let full = format!("{}\nend\n", "x".repeat((4 << 20) - 5));
    let repository = Files::of(&[("full", &full)]);
    let edit = |new: &str| {
        let place = json!({"path": "full", "expect_version": 1, "index": 1, "new": new});
        repository.call("edit_line", place)
    };
    let refused = edit("longer");
    assert_eq!((&refused["reason"], &refused["max_size"]), (&json!("too_large"), &json!(4 << 20)));
    assert_eq!(refused["lines"]["1"], "end");
    assert_eq!(repository.text("full").unwrap(), full);
    let more = json!({"path": "new", "content": "x".repeat((4 << 20) + 1)});
    assert_eq!(repository.call("create", more)["reason"], "too_large");
    assert_eq!(edit("now")["new_version"], 2);
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
        let expected = json!([format!("{real}/a"), format!("{real}/many/ (300 files)")]);
        assert_eq!(folded["entries"], expected, "{name}");
    }
}

// TOOLS-6
#[test]
fn list_names_every_file_or_folds_a_large_tree() {
    let repository = Files::of(&[("a", ""), ("src/b", ""), ("src/c/d", "")]);
    let all = repository.call("list", json!({}));
    assert_eq!(all, json!({"ok": true, "path": "", "entries": ["a", "src/b", "src/c/d"]}));
    let some = repository.call("list", json!({"path": "src/"}));
    assert_eq!(some["entries"], json!(["src/b", "src/c/d"]));
    assert_eq!(repository.call("list", json!({"path": "no"}))["reason"], "not_found");
    for n in 0..300 {
        repository.insert(&format!("src/many/{n}"), 1, vec![]);
    }
    let folded = repository.call("list", json!({}));
    assert_eq!(folded["entries"], json!(["a", "src/ (302 files)"]));
    let folded = repository.call("list", json!({"path": "src"}));
    assert_eq!(folded["entries"], json!(["src/b", "src/c/ (1 file)", "src/many/ (300 files)"]));
}

// TOOLS-8
#[test]
fn search_shows_lines_from_zero_and_is_bounded() {
    let repository = Files::of(&[("a", "x\nneedle 1\n"), ("b", &"needle\n".repeat(150))]);
    let answer = repository.call("search", json!({"pattern": "needle"}));
    assert_eq!(answer["hits"]["a"], json!({"1": "needle 1"}));
    assert_eq!(answer["hits"]["b"].as_object().unwrap().len(), 99);
    assert_eq!(answer["truncated"], true);
    let answer = repository.call("search", json!({"pattern": "("}));
    assert_eq!(
        answer,
        json!({"ok": false, "reason": "bad_arguments", "message": "unclosed group"})
    );
}

// TOOLS-8
#[test]
fn a_hit_that_is_cut_says_so() {
    let long = format!("needle {}", "ü".repeat(200));
    let repository = Files::of(&[("a", &long), ("b", &format!("needle {}", "x".repeat(193)))]);
    let answer = repository.call("search", json!({"pattern": "needle"}));
    let text = answer["hits"]["a"]["0"].as_str().unwrap();
    assert_eq!(text, format!("needle {}… [cut]", "ü".repeat(96)));
    assert_eq!(answer["hits"]["b"]["0"].as_str().unwrap().len(), 200);
}

// TOOLS-13
#[test]
fn numbers_that_no_file_has_are_refused_with_what_there_is() {
    let repository = Files::of(&[("a", "0\n1\n2\n")]);
    let far: Value = serde_json::from_str("18446744073709551616").unwrap();
    for none in [json!(-1), json!(u64::MAX), far] {
        let index = json!({"path": "a", "expect_version": 1, "index": none, "new": "x"});
        let start = json!({"path": "a", "expect_version": 1, "start": none, "end": 1, "new": ""});
        let edits = json!([{"start": 0, "end": none, "new": ""}]);
        let many = json!({"path": "a", "expect_version": 1, "edits": edits});
        for (tool, arguments) in [("edit_line", index), ("edit_lines", start), ("edit_many", many)]
        {
            let answer = repository.call(tool, arguments);
            assert_eq!(answer["reason"], "index_out_of_bounds", "{tool} {none}: {answer}");
            assert_eq!((&answer["max_index"], &answer["line_count"]), (&json!(2), &json!(3)));
            assert!(answer["lines"].is_object(), "{answer}");
        }
        let line = json!({"path": "a", "expect_version": none, "index": 1, "new": "x"});
        let whole = json!({"path": "a", "expect_version": none, "content": "x"});
        let gone = json!({"path": "a", "expect_version": none});
        let moved = json!({"from": "a", "to": "b", "expect_version": none});
        let tools =
            [("edit_line", line), ("full_rewrite", whole), ("delete", gone), ("move", moved)];
        for (tool, arguments) in tools {
            let answer = repository.call(tool, arguments);
            assert_eq!(answer["reason"], "version_mismatch", "{tool} {none}: {answer}");
            assert_eq!(answer["current_version"], 1, "{answer}");
            assert!(answer["lines"].is_object(), "{answer}");
        }
    }
    assert_eq!(repository.text("a").unwrap(), "0\n1\n2\n");
}

// TOOLS-9
#[test]
fn edits_raise_the_version_and_use_the_one_before() {
    let repository = Files::of(&[("a", "0\n1\n2\n")]);
    let edit = |arguments: Value| repository.call("edit_lines", arguments);
    let first =
        edit(json!({"path": "a", "expect_version": 1, "start": 1, "end": 2, "new": "x\ny"}));
    assert_eq!(first, json!({"ok": true, "path": "a", "new_version": 2, "line_count": 4}));
    let stale = edit(json!({"path": "a", "expect_version": 1, "start": 1, "end": 2, "new": "z"}));
    assert_eq!(
        stale,
        json!({"ok": false, "reason": "version_mismatch", "current_version": 2, "line_count": 4,
               "lines": {"0": "0", "1": "x", "2": "y", "3": "2"}})
    );
    assert_eq!(repository.text("a").unwrap(), "0\nx\ny\n2\n");
    let answer = repository.call(
        "edit_many",
        json!({"path": "a", "expect_version": 2, "edits": [
            {"start": 3, "end": 4, "new": "end"}, {"start": 0, "end": 1, "new": ""}]}),
    );
    assert_eq!(answer["new_version"], 3);
    assert_eq!(repository.text("a").unwrap(), "x\ny\nend\n");
    let answer = repository
        .call("full_rewrite", json!({"path": "a", "expect_version": 3, "content": "new"}));
    assert_eq!((answer["new_version"].as_u64(), answer["line_count"].as_u64()), (Some(4), Some(1)));
}

#[test]
fn a_refused_edit_shows_the_lines_around_its_place() {
    let repository = Files::of(&[("a", &(0..20).map(|n| format!("{n}\n")).collect::<String>())]);
    let answer = repository.call(
        "edit_many",
        json!({"path": "a", "expect_version": 1, "edits": [
            {"start": 0, "end": 1, "new": ""}, {"start": 19, "end": 30, "new": ""}]}),
    );
    assert_eq!(
        (answer["reason"].as_str(), answer["edit"].as_u64()),
        (Some("index_out_of_bounds"), Some(1))
    );
    assert_eq!(answer["lines"], json!({"16": "16", "17": "17", "18": "18", "19": "19"}));
    let answer = repository
        .call("edit_line", json!({"path": "a", "expect_version": 1, "index": 5, "new": "a\nb"}));
    assert_eq!(answer["reason"], "new_has_newline");
    assert_eq!(answer["lines"].as_object().unwrap().len(), 7);
}

// security line 182; EDIT-17
#[test]
fn a_text_with_a_nul_and_numbers_that_are_no_place_are_refused_and_nothing_changes() {
    let repository = Files::of(&[("a", "one\ntwo\n")]);
    let nul = "a\0b";
    for (tool, arguments) in [
        ("edit_line", json!({"path": "a", "expect_version": 1, "index": 0, "new": nul})),
        ("edit_lines", json!({"path": "a", "expect_version": 1, "start": 0, "end": 1, "new": nul})),
        (
            "edit_many",
            json!({"path": "a", "expect_version": 1, "edits": [{"start": 0, "end": 1, "new": nul}]}),
        ),
        ("full_rewrite", json!({"path": "a", "expect_version": 1, "content": nul})),
        ("create", json!({"path": "b", "content": nul})),
    ] {
        assert_eq!(repository.call(tool, arguments)["reason"], "bad_arguments", "{tool}");
    }
    for number in ["1.5", "\"0\""] {
        for arguments in [
            format!(r#"{{"path":"a","expect_version":1,"index":{number},"new":"x"}}"#),
            format!(r#"{{"path":"a","expect_version":{number},"index":0,"new":"x"}}"#),
        ] {
            let refused = run(&repository, "edit_line", &arguments);
            assert!(matches!(refused, Err(NotRun::BadArguments(_))), "{arguments}");
        }
    }
    let surrogate = r#"{"path":"a","expect_version":1,"index":0,"new":"\ud800"}"#;
    assert!(matches!(run(&repository, "edit_line", surrogate), Err(NotRun::BadArguments(_))));
    for index in [2, usize::MAX] {
        let answer = repository.call(
            "edit_line",
            json!({"path": "a", "expect_version": 1, "index": index, "new": "x"}),
        );
        assert_eq!(
            (&answer["reason"], &answer["max_index"]),
            (&json!("index_out_of_bounds"), &json!(1))
        );
    }
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
    let answer = repository
        .call("edit_line", json!({"path": "a", "expect_version": 1, "index": 0, "new": "mine"}));
    assert_eq!(
        answer,
        json!({"ok": false, "reason": "version_mismatch", "current_version": 2, "line_count": 1,
               "lines": {"0": "theirs"}})
    );
    assert_eq!(repository.text("a").unwrap(), "theirs\n");
}

// TOOLS-11
#[test]
fn files_are_created_deleted_and_moved() {
    let repository = Files::of(&[("a", "text\n"), ("b", "")]);
    let created = repository.call("create", json!({"path": "src/n", "content": "x\n"}));
    assert_eq!(created, json!({"ok": true, "path": "src/n", "new_version": 1}));
    let taken = repository.call("create", json!({"path": "a", "content": ""}));
    assert_eq!(taken, json!({"ok": false, "reason": "exists", "path": "a"}));
    let gate = repository.call("create", json!({"path": "agent.yaml", "content": ""}));
    assert_eq!(gate["reason"], "protected");
    let moved = repository.call("move", json!({"from": "a", "to": "c", "expect_version": 1}));
    assert_eq!(moved, json!({"ok": true, "path": "c", "new_version": 1}));
    let stale = repository.call("delete", json!({"path": "c", "expect_version": 7}));
    let now = json!({"ok": false, "reason": "version_mismatch", "current_version": 1});
    assert_eq!(stale["reason"], now["reason"]);
    assert_eq!(stale["current_version"], now["current_version"]);
    // EDIT-15: as other refused edits do.
    assert_eq!(stale["line_count"], repository.text("c").unwrap().lines().count());
    assert_eq!(stale["lines"]["0"], repository.text("c").unwrap().lines().next().unwrap());
    let stale = repository.call("move", json!({"from": "c", "to": "d", "expect_version": 7}));
    assert_eq!(stale["lines"]["0"], repository.text("c").unwrap().lines().next().unwrap());
    let deleted = repository.call("delete", json!({"path": "c", "expect_version": 1}));
    assert_eq!(deleted, json!({"ok": true, "path": "c"}));
    assert_eq!(repository.call("read", json!({"path": "c"}))["reason"], "not_found");
}

// TOOLS-3
#[test]
fn paths_stay_in_the_repository() {
    let repository = Files::of(&[("a", "")]);
    for path in ["/etc/passwd", "../a", "src/../../a"] {
        let answer = repository.call("read", json!({"path": path}));
        assert_eq!(answer["reason"], "outside_repo", "{path}");
        let answer = repository.call("create", json!({"path": path, "content": ""}));
        assert_eq!(answer["reason"], "outside_repo", "{path}");
    }
    assert_eq!(repository.call("read", json!({"path": "."}))["reason"], "not_a_file");
}

// TOOLS-2
#[test]
fn wrong_arguments_are_named_with_their_place() {
    let why = |tool: &str, arguments: &str| match run(&Files::default(), tool, arguments) {
        Err(NotRun::BadArguments(why)) => why,
        other => panic!("{other:?}"),
    };
    let edits = r#"{"path":"a","expect_version":1,"edits":[{"start":0,"end":1,"new":""},{"start":"x","end":1,"new":""}]}"#;
    assert!(why("edit_many", edits).starts_with("edits[1].start: invalid type: string \"x\""));
    assert!(why("read", "{}").contains("missing field `path`"));
    assert!(
        why("read", r#"{"path":"a","line":3}"#)
            .contains("unknown field `line`, expected one of `path`")
    );
    assert!(
        why("edit_line", r#"{"path":"a","expect_version":1,"index":-1.5,"new":""}"#)
            .starts_with("index: ")
    );
    assert!(why("list", "{} {}").contains("trailing characters"));
    assert_eq!(run(&Files::default(), "shell", "{}"), Err(NotRun::UnknownTool));
    assert!(run(&Files::default(), "list", "").is_ok());
}

// TOOLS-1
#[test]
fn the_manifest_offers_exactly_the_tools_that_exist_and_stays_small() {
    let manifest: Value = serde_json::from_str(include_str!("../manifest.json")).unwrap();
    let tools = manifest["tools"].as_array().unwrap();
    for tool in tools {
        let name = tool["name"].as_str().unwrap();
        assert_ne!(run(&Files::default(), name, "{}"), Err(NotRun::UnknownTool), "{name}");
    }
    assert_eq!(tools.len(), 10);
    let size: usize = tools.iter().map(|tool| tool.to_string().len()).sum();
    assert!(size <= 3_072, "{size} bytes of every first prompt");
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
            "edit_line",
            r#"{"path":"a","expect_version":2,"index":0,"new":"x"}"#,
            one(Operation::Replace, "a", Reason::VersionMismatch),
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
        ("edit_line", r#"{"path":"a","expect_version":1,"index":0,"new":"x"}"#, vec![]),
    ] {
        assert_eq!(reported(tool, arguments), expected, "{tool} {arguments}");
    }
    repository.write_before_next_change("a", b"theirs\n");
    let stale = r#"{"path":"a","expect_version":2,"index":0,"new":"mine"}"#;
    assert_eq!(reported("edit_line", stale), vec![]);
}
