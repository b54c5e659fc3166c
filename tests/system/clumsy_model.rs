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
        edit("edit_line", json!({"index": 3, "new": "x"})),
        edit("edit_line", json!({"index": -1, "new": "x"})),
        edit("edit_line", json!({"index": 0, "new": "two\nlines"})),
        edit("edit_lines", json!({"start": 2, "end": 1, "new": "x"})),
        edit("edit_lines", json!({"start": 1, "end": 99, "new": "x"})),
        edit(
            "edit_many",
            json!({"edits": [
            {"start": 0, "end": 1, "new": "good"}, {"start": 0, "end": 2, "new": "overlaps"}]}),
        ),
        edit("edit_many", json!({"edits": []})),
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
        "new_has_newline",
        "bad_arguments",
        "index_out_of_bounds",
        "bad_arguments",
        "bad_arguments",
        "content_empty",
        "bad_arguments",
    ];
    assert_eq!(reasons(&told), expected);
    let first = &answers(&told)[1];
    assert_eq!(first["max_index"], 2, "{first}");
    assert_eq!(first["lines"], json!({"0": "zero", "1": "one", "2": "two"}));
    let counts = json!({
        "bad_arguments": 4, "content_empty": 1, "index_out_of_bounds": 3, "new_has_newline": 1});
    assert_eq!(refused(&told), counts);
    let summary = told.read("agent/summary.md");
    assert!(summary.contains("## Edits that were refused\n\n- `bad_arguments: 4`\n"), "{summary}");
}

/// EDIT-5, EDIT-15: a version of long ago is answered with what is there now; the next edit fits.
#[test]
fn stale_versions_are_refused_with_the_lines_of_now() {
    let line = |version: Value, new: &str| {
        call(
            "edit_line",
            json!({"path": "list.txt", "expect_version": version, "index": 1, "new": new}),
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
    assert_eq!(answers[3]["current_version"], 2, "{}", answers[3]);
    assert_eq!(answers[3]["lines"]["1"], "first");
    assert_eq!(answers[5]["new_version"], 3, "{}", answers[5]);
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
    // plan, both Scouts, read, and the edit that is on its way.
    let asked = |counts: act_testing::Counts| counts.requests >= 5;
    assert!(running.model().wait(std::time::Duration::from_secs(120), asked));
    fs::write(running.repo().join("list.txt"), "the user's\n").unwrap();
    running.model().release();
    let told = running.wait().status(0).script_used_up();
    assert_eq!(told.read("list.txt"), "the user's\n");
    let answer = &answers(&told)[2];
    assert_eq!(answer["reason"], "version_mismatch", "{answer}");
    assert_eq!(answer["lines"], json!({"0": "the user's"}));
}

/// EDIT-4, EDIT-17, TOOLS-5: binary and oversized files keep their bytes, and no edit makes a text file binary.
#[test]
fn binary_and_oversized_files_are_left_alone() {
    let picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    let huge = vec![b'x'; (4 << 20) + 1];
    let line = |path: &str| {
        call("edit_line", json!({"path": path, "expect_version": 1, "index": 0, "new": "x"}))
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
        call(
            "edit_line",
            json!({"path": "answer.txt", "expect_version": 1, "index": 0, "new": "\0"}),
        ),
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
        call(
            "edit_line",
            json!({"path": "mixed.txt", "expect_version": 1, "index": 1, "new": "TWO"}),
        ),
        call(
            "edit_lines",
            json!({"path": "mixed.txt", "expect_version": 2, "start": 4, "end": 4, "new": "new"}),
        ),
        call(
            "edit_line",
            json!({"path": "mixed.txt", "expect_version": 3, "index": 0, "new": "one\r"}),
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
    assert_eq!(reasons(&told), ["new_has_newline"]);
}

/// EDIT-13: several edits of one file in one call, all or none of them.
#[test]
fn many_edits_of_a_file_are_made_together_or_not_at_all() {
    let many = |version: u64, edits: Value| {
        call("edit_many", json!({"path": "list.txt", "expect_version": version, "edits": edits}))
    };
    let turns = [
        call("read", json!({"path": "list.txt"})),
        many(
            1,
            json!([{"start": 0, "end": 1, "new": "ZERO"}, {"start": 5, "end": 6, "new": "no"}]),
        ),
        many(
            1,
            json!([{"start": 2, "end": 3, "new": "TWO\nAND A HALF"}, {"start": 0, "end": 1, "new": ""}]),
        ),
    ];
    let act = repository().file("list.txt", "zero\none\ntwo\n");
    let told = act.script(&after(turns)).run("write the answer").status(0).script_used_up();
    assert_eq!(told.read("list.txt"), "one\nTWO\nAND A HALF\n");
    let answers = answers(&told);
    assert_eq!(
        (&answers[2]["reason"], &answers[2]["edit"]),
        (&json!("index_out_of_bounds"), &json!(1))
    );
    assert_eq!((&answers[3]["new_version"], &answers[3]["line_count"]), (&json!(2), &json!(3)));
}
