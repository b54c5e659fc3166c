//! A model that means well and gets things wrong: each mistake is answered, nothing of it reaches a file, and
//! the task ends by its ordinary rules.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::harness::script::{attempt, call, done, opening, script};
use crate::harness::tool_answers::{answers, reasons, refused};
use crate::harness::{Act, image};
use serde_json::{Value, json};

/// Green when `answer.txt` says `right`.
fn repository() -> Act {
    Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")])
}

/// The story around mistakes: plan, the mistakes, an attempt that is right, the end.
fn after(mistakes: impl IntoIterator<Item = Value>) -> String {
    let turns = opening("write it").into_iter().chain(mistakes);
    script(turns.chain(attempt("right\n")).chain([done()]))
}

/// EDIT-7, EDIT-13, EDIT-15, EDITOR-14, TOOLS-13
#[test]
fn wrong_indices_are_refused_with_the_lines_that_are_there() {
    let edit = |name: &str, more: Value| {
        let mut arguments = json!({"path": "list.txt", "expect_version": 1});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call(name, arguments)
    };
    let mistakes = [
        edit("insert", json!({"after": 4, "new": "x"})),
        edit("insert", json!({"after": -1, "new": "x"})),
        edit("replace", json!({"old": "o", "new": "0"})),
        edit("edit_lines", json!({"edits": [{"start": 3, "end": 2, "new": "x"}]})),
        edit("edit_lines", json!({"edits": [{"start": 1, "end": 99, "new": "x"}]})),
        edit(
            "edit_lines",
            json!({"edits": [
            {"start": 1, "end": 1, "new": "good"}, {"start": 1, "end": 2, "new": "overlaps"}]}),
        ),
        edit("edit_lines", json!({"edits": []})),
        edit("full_rewrite", json!({"content": ""})),
        call("create", json!({"path": "n".repeat(256), "content": "x"})),
    ];
    let act = repository().file("list.txt", "zero\none\ntwo\n");
    let told = act.script(&after(mistakes)).run("write the answer").status(0).script_used_up();
    assert_eq!(told.read("list.txt"), "zero\none\ntwo\n");
    assert_eq!(told.read("answer.txt"), "right\n");
    let expected = [
        "index_out_of_bounds",
        "index_out_of_bounds",
        "bad_arguments",
        "bad_arguments",
        "index_out_of_bounds",
        "bad_arguments",
        "bad_arguments",
        "content_empty",
        "bad_arguments",
    ];
    assert_eq!(reasons(&told), expected);
    let first = &answers(&told)[1];
    let expected = "index_out_of_bounds: list.txt has no line 4; it has 3, counted from 1\n\
                    list.txt · version 1 · lines 1-3 of 3\n1| zero\n2| one\n3| two";
    assert_eq!(first, expected);
    let counts = json!({"bad_arguments": 5, "content_empty": 1, "index_out_of_bounds": 3});
    assert_eq!(refused(&told), counts);
    let summary = told.read("agent/summary.md");
    assert!(summary.contains("## Edits that were refused\n\n- `bad_arguments: 5`\n"), "{summary}");
}

/// EDIT-5, EDIT-15: a version of long ago is answered with what is there now; the next edit fits.
#[test]
fn stale_versions_are_refused_with_the_lines_of_now() {
    let line = |version: Value, new: &str| {
        call(
            "edit_lines",
            json!({"path": "list.txt", "expect_version": version, "edits": [{"start": 2, "end": 2, "new": new}]}),
        )
    };
    let turns = [
        call("read", json!({"path": "list.txt"})),
        line(json!(1), "first"),
        line(json!(1), "again"),
        line(json!(7), "from the future"),
        line(json!("{{last_version}}"), "second"),
        call("delete", json!({"path": "list.txt", "expect_version": 1})),
        call("move", json!({"from": "list.txt", "to": "x", "expect_version": 1})),
    ];
    let act = repository().file("list.txt", "zero\none\ntwo\n");
    let told = act.script(&after(turns)).run("write the answer").status(0).script_used_up();
    assert_eq!(told.read("list.txt"), "zero\nsecond\ntwo\n");
    assert_eq!(reasons(&told), ["version_mismatch"; 4]);
    let answers = answers(&told);
    assert!(answers[3].contains("\nlist.txt · version 2 · lines 1-3 of 3\n"), "{}", answers[3]);
    assert!(answers[3].contains("\n2| first\n"), "{}", answers[3]);
    assert!(answers[5].starts_with("edited list.txt · version 3 · 3 lines"), "{}", answers[5]);
    assert_eq!(refused(&told), json!({"version_mismatch": 4}));
}

/// Security line 66: what the user writes between the model's look and its edit is never lost.
#[test]
fn a_file_that_the_user_changed_meanwhile_keeps_his_bytes() {
    let arguments = json!({"path": "list.txt", "expect_version": 1, "content": "mine\n"});
    let mut rewrite = call("full_rewrite", arguments);
    rewrite["delay_ms"] = 600_000.into();
    let turns = [call("read", json!({"path": "list.txt"})), rewrite];
    let act = repository().file("list.txt", "theirs\n");
    let running = act.script(&after(turns)).start(["run", "write the answer"]);
    // The plan, the read, and the edit that is on its way.
    let asked = |counts: act_testing::Counts| counts.requests >= 3;
    assert!(running.model().wait(std::time::Duration::from_secs(120), asked));
    fs::write(running.repo().join("list.txt"), "the user's\n").unwrap();
    running.model().release();
    let told = running.wait().status(0).script_used_up();
    assert_eq!(told.read("list.txt"), "the user's\n");
    let answer = &answers(&told)[2];
    assert!(answer.starts_with("version_mismatch: "), "{answer}");
    assert!(answer.ends_with("\n1| the user's"), "{answer}");
}

/// EDIT-4, EDIT-17, TOOLS-5: binary and oversized files keep their bytes, and no edit makes a text file binary.
#[test]
fn binary_and_oversized_files_are_left_alone() {
    let picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    let huge = vec![b'x'; (4 << 20) + 1];
    let line = |path: &str| {
        call("insert", json!({"path": path, "expect_version": 1, "after": 0, "new": "x"}))
    };
    let whole = |path: &str, content: &str| {
        call("full_rewrite", json!({"path": path, "expect_version": 1, "content": content}))
    };
    let mistakes = [
        call("read", json!({"path": "picture.png"})),
        line("picture.png"),
        whole("picture.png", "text"),
        call("read", json!({"path": "huge.txt"})),
        line("huge.txt"),
        whole("answer.txt", "right\n\0"),
        call("create", json!({"path": "new.txt", "content": "a\0b"})),
        call("insert", json!({"path": "answer.txt", "expect_version": 1, "after": 0, "new": "\0"})),
    ];
    let act = repository().file("picture.png", picture).file("huge.txt", &huge);
    let told = act.script(&after(mistakes)).run("write the answer").status(0).script_used_up();
    let expected = ["binary", "binary", "binary", "too_large", "too_large"];
    let expected: Vec<_> = expected.into_iter().chain(["bad_arguments"; 3]).collect();
    assert_eq!(reasons(&told), expected);
    assert_eq!(fs::read(told.repo().join("picture.png")).unwrap(), picture);
    assert_eq!(fs::read(told.repo().join("huge.txt")).unwrap(), huge);
    assert!(!told.repo().join("new.txt").exists());
    assert_eq!(told.read("answer.txt"), "right\n");
}

/// EDIT-1, EDIT-3, EDIT-6, EDIT-11, EDIT-12, EDIT-16: what an edit does not name stays byte for byte, and so
/// do mode, mark and the missing end of the last line.
#[test]
fn foreign_line_ends_marks_modes_and_bytes_survive() {
    let mixed = b"\xEF\xBB\xBFone\r\ntwo\nlatin \xE9\r\n\r\nlast";
    let after_it = b"\xEF\xBB\xBFone\r\nTWO\nlatin \xE9\r\n\r\nnew\r\nlast";
    let turns = [
        call("read", json!({"path": "mixed.txt"})),
        call("replace", json!({"path": "mixed.txt", "old": "two\nlatin", "new": "TWO\nlatin"})),
        call("insert", json!({"path": "mixed.txt", "expect_version": 2, "after": 4, "new": "new"})),
        call(
            "edit_lines",
            json!({"path": "mixed.txt", "expect_version": 3, "edits": [{"start": 1, "end": 1, "new": "one\r\n"}]}),
        ),
        call(
            "full_rewrite",
            json!({"path": "dos.txt", "expect_version": 1, "content": "a\nb\nc\n"}),
        ),
    ];
    let act = repository().file("mixed.txt", mixed).file("dos.txt", "a\r\nb\r\n");
    let script_file = act.repo().join("mixed.txt");
    fs::set_permissions(&script_file, fs::Permissions::from_mode(0o754)).unwrap();
    let told = act.script(&after(turns)).run("write the answer").status(0).script_used_up();
    assert_eq!(fs::read(told.repo().join("mixed.txt")).unwrap(), after_it);
    assert_eq!(told.read("dos.txt"), "a\r\nb\r\nc\r\n");
    let mode = fs::metadata(told.repo().join("mixed.txt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o754);
    assert_eq!(reasons(&told), [""; 0]);
    let unchanged = "unchanged mixed.txt · version 3 · 6 lines: ";
    assert!(answers(&told)[4].starts_with(unchanged), "{}", answers(&told)[4]);
}

/// EDIT-13: several edits of one file in one call, all or none of them.
#[test]
fn many_edits_of_a_file_are_made_together_or_not_at_all() {
    let many = |version: u64, edits: Value| {
        call("edit_lines", json!({"path": "list.txt", "expect_version": version, "edits": edits}))
    };
    let turns = [
        call("read", json!({"path": "list.txt"})),
        many(
            1,
            json!([{"start": 1, "end": 1, "new": "ZERO"}, {"start": 6, "end": 6, "new": "no"}]),
        ),
        many(
            1,
            json!([{"start": 3, "end": 3, "new": "TWO\nAND A HALF"}, {"start": 1, "end": 1, "new": ""}]),
        ),
    ];
    let act = repository().file("list.txt", "zero\none\ntwo\n");
    let told = act.script(&after(turns)).run("write the answer").status(0).script_used_up();
    assert_eq!(told.read("list.txt"), "one\nTWO\nAND A HALF\n");
    let answers = answers(&told);
    assert!(answers[2].starts_with("index_out_of_bounds: edit 2: "), "{}", answers[2]);
    assert!(answers[3].starts_with("edited list.txt · version 2 · 3 lines\n"), "{}", answers[3]);
}
