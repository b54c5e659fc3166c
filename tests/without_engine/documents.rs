//! `act edit`: what is answered, what becomes of the file, and who wins when several want to be first.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::program;

/// A directory with one document, and artifacts of its own.
struct Desk {
    place: TempDir,
}

impl Desk {
    fn new(document: &Value) -> Self {
        let place = tempfile::Builder::new().prefix("act-test-").tempdir().unwrap();
        fs::create_dir(place.path().join("desk")).unwrap();
        fs::write(place.path().join("desk/doc.json"), document.to_string()).unwrap();
        Self { place }
    }

    fn path(&self) -> PathBuf {
        self.place.path().join("desk/doc.json")
    }

    fn document(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path()).unwrap()).unwrap()
    }

    fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(program());
        command.arg("edit").args(arguments).current_dir(self.place.path().join("desk"));
        command.env_clear().env("HOME", self.place.path().join("home"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// On the document, unless it is about none.
    fn with<A: AsRef<OsStr>>(&self, call: &str, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.command([call]);
        if !matches!(call, "queue" | "review") {
            command.args(["--file", "doc.json"]);
        }
        command.args(arguments);
        command
    }

    fn call<A: AsRef<OsStr>>(&self, call: &str, arguments: impl IntoIterator<Item = A>) -> Value {
        answer(&self.with(call, arguments).output().unwrap())
    }
}

/// One JSON document on stdout, nothing on stderr, and the exit code that belongs to it.
#[track_caller]
fn answer(output: &Output) -> Value {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let value: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let code = if value["ok"] == false { 1 } else { 0 };
    assert_eq!(output.status.code(), Some(code), "{value}");
    value
}

fn document() -> Value {
    json!({"doc_id": "d-1", "version": 3, "meta": {"title": "T"}, "lines": {"0": "a", "1": "b"}, "x": [1.5]})
}

fn expecting<'a>(version: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["--expect_version", version], more].concat()
}

#[test]
fn every_call_answers_and_acts_as_the_protocol_says() {
    // EDIT-18 to EDIT-27
    let desk = Desk::new(&document());
    let done = desk.call("edit_line", expecting("3", &["--index", "1", "--new", "--new line"]));
    assert_eq!(done, json!({"ok": true, "new_version": 4}));
    let done = desk.call("edit_line", ["--expect-version", "4", "--index", "0", "--new", ""]);
    assert_eq!(done, json!({"ok": true, "new_version": 5}));
    let expected = json!({"doc_id": "d-1", "version": 5, "meta": {"title": "T"},
        "lines": {"0": "", "1": "--new line"}, "x": [1.5]});
    assert_eq!(desk.call("show", [""; 0]), expected);
    assert_eq!(desk.document(), expected);

    let done = desk.call("full_rewrite", expecting("5", &["--content", "one\n\ntwo\n"]));
    assert_eq!(done, json!({"ok": true, "new_version": 6, "line_count": 4}));
    assert_eq!(desk.document()["lines"], json!({"0": "one", "1": "", "2": "two", "3": ""}));
    fs::write(desk.place.path().join("desk/text"), "from a file").unwrap();
    let done = desk.call("full_rewrite", expecting("6", &["--content-file", "text"]));
    assert_eq!(done, json!({"ok": true, "new_version": 7, "line_count": 1}));
    for (version, source) in [("7", "--content"), ("8", "--content-file")] {
        let mut command = desk.with("full_rewrite", expecting(version, &[source, "-"]));
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"x\ny").unwrap();
        assert_eq!(answer(&child.wait_with_output().unwrap())["line_count"], 2, "{source}");
    }

    let before = fs::read(desk.path()).unwrap();
    let done = desk.call("finish", expecting("9", &["--decision", "pass", "--notes", "good"]));
    assert_eq!(done, json!({"ok": true, "decision": "pass", "notes": "good"}));
    let done = desk.call("finish", expecting("9", &["--decision", "hold", "--notes", "or not"]));
    assert_eq!(done, json!({"ok": true, "decision": "hold", "notes": "or not"}));
    assert_eq!(fs::read(desk.path()).unwrap(), before);
    for (list, notes) in [("queue", "good"), ("review", "or not")] {
        let entries = desk.call(list, [""; 0])["entries"].as_array().unwrap().clone();
        assert_eq!(entries.len(), 1, "{list}");
        assert_eq!((&entries[0]["doc_id"], &entries[0]["version"]), (&json!("d-1"), &json!(9)));
        assert_eq!(entries[0]["notes"], notes);
    }
    assert!(
        desk.place
            .path()
            .join("home/.agent-artifacts/state/publishing/queue/000001.json")
            .is_file()
    );
}

/// Each of these is the refusal, and the file is not touched.
#[track_caller]
fn refused(desk: &Desk, call: &str, arguments: &[impl AsRef<OsStr>], expected: &Value) {
    let before =
        (fs::read(desk.path()).unwrap(), fs::metadata(desk.path()).unwrap().modified().unwrap());
    let answer = desk.call(call, arguments);
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&answer[name], value, "{name} of {answer}");
    }
    let after =
        (fs::read(desk.path()).unwrap(), fs::metadata(desk.path()).unwrap().modified().unwrap());
    assert_eq!(after, before, "{answer}");
    let names: Vec<_> = fs::read_dir(desk.place.path().join("desk")).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(!desk.place.path().join("home").exists(), "a refusal made an artifact directory");
}

/// Security line 176.
#[test]
fn a_refusal_has_its_reason_and_exit_code_1_and_touches_nothing() {
    let desk = Desk::new(&document());
    let line = |version, index, new| expecting(version, &["--index", index, "--new", new]);
    for (call, arguments, expected) in [
        (
            "edit_line",
            line("2", "0", "x"),
            json!({"ok": false, "reason": "version_mismatch", "current_version": 3}),
        ),
        (
            "edit_line",
            line("3", "2", "x"),
            json!({"ok": false, "reason": "index_out_of_bounds", "max_index": 1}),
        ),
        ("edit_line", line("3", "0", "x\ny"), json!({"ok": false, "reason": "new_has_newline"})),
        (
            "full_rewrite",
            expecting("4", &["--content", "x"]),
            json!({"ok": false, "reason": "version_mismatch", "current_version": 3}),
        ),
        (
            "full_rewrite",
            expecting("3", &["--content", ""]),
            json!({"ok": false, "reason": "content_empty"}),
        ),
        (
            "full_rewrite",
            expecting("3", &["--content-file", "missing"]),
            json!({"ok": false, "reason": "bad_arguments"}),
        ),
        (
            "finish",
            expecting("2", &["--decision", "pass"]),
            json!({"ok": false, "reason": "version_mismatch", "current_version": 3}),
        ),
        (
            "finish",
            expecting("3", &["--decision", "publish"]),
            json!({"ok": false, "reason": "invalid_decision"}),
        ),
    ] {
        refused(&desk, call, &arguments, &expected);
    }
    let empty = Desk::new(&json!({"doc_id": "e", "version": 1, "meta": {}, "lines": {}}));
    refused(
        &empty,
        "edit_line",
        &line("1", "0", "x"),
        &json!({"reason": "index_out_of_bounds", "max_index": -1}),
    );
    let broken = Desk::new(&json!({"doc_id": "e", "version": 1, "meta": {}, "lines": {"1": "a"}}));
    refused(&broken, "edit_line", &line("1", "0", "x"), &json!({"reason": "bad_document"}));
}

/// EDIT-27, EDIT-31: in a script with many calls.
#[test]
fn a_refusal_says_which_file_it_is_about() {
    let desk = Desk::new(&document());
    fs::write(desk.place.path().join("text"), "no document").unwrap();
    let show = |file: &str| answer(&desk.command(["show", "--file", file]).output().unwrap());
    for (file, reason, words) in [
        ("none.json", "not_found", "none.json: no such file; name a document with --file"),
        ("../text", "bad_document", "../text: the file is not a document"),
        ("..", "not_a_file", "..: the path names no file"),
    ] {
        let answer = show(file);
        assert_eq!(answer["reason"], reason, "{answer}");
        assert!(answer["message"].as_str().unwrap().starts_with(words), "{answer}");
    }
    let answer = desk.call("full_rewrite", expecting("3", &["--content-file", "../gone"]));
    assert_eq!(answer["reason"], "bad_arguments");
    assert!(
        answer["message"].as_str().unwrap().starts_with("../gone cannot be read: "),
        "{answer}"
    );
}

/// Security line 182.
#[test]
fn numbers_and_texts_at_the_edge_are_refused_and_never_wrap() {
    let desk = Desk::new(&document());
    for index in ["-1", "2", "18446744073709551615", "18446744073709551616", "-9223372036854775809"]
    {
        let expected = json!({"reason": "index_out_of_bounds", "max_index": 1});
        refused(&desk, "edit_line", &expecting("3", &["--index", index, "--new", "x"]), &expected);
    }
    for version in ["-1", "0", "18446744073709551615", "18446744073709551619"] {
        let expected = json!({"reason": "version_mismatch", "current_version": 3});
        refused(
            &desk,
            "edit_line",
            &expecting(version, &["--index", "0", "--new", "x"]),
            &expected,
        );
    }
    // Half of a surrogate pair, as some would encode it.
    let surrogate = OsString::from_vec(b"a\xed\xa0\x80".to_vec());
    let arguments = ["--expect_version", "3", "--index", "0", "--new"].map(OsString::from);
    let arguments = [&arguments[..], &[surrogate]].concat();
    refused(&desk, "edit_line", &arguments, &json!({"reason": "bad_arguments"}));

    let mut child = desk
        .with("full_rewrite", expecting("3", &["--content", "-"]))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"a\0b").unwrap();
    assert_eq!(answer(&child.wait_with_output().unwrap())["reason"], "bad_arguments");
    assert_eq!(desk.document(), document());

    let last = |version: u64| {
        Desk::new(&json!({"doc_id": "e", "version": version, "meta": {}, "lines": {"0": "a"}}))
    };
    let edit = |version| expecting(version, &["--index", "0", "--new", "x"]);
    let expected = json!({"reason": "version_exhausted"});
    refused(&last(i64::MAX as u64), "edit_line", &edit("9223372036854775807"), &expected);
    let expected = json!({"reason": "bad_document"});
    refused(&last(u64::MAX), "edit_line", &edit("18446744073709551615"), &expected);
}

#[test]
fn a_call_without_its_arguments_is_a_usage_error() {
    // CLI-3
    let desk = Desk::new(&document());
    for arguments in [
        &["edit_line", "--file", "doc.json", "--index", "0", "--new", "x"][..],
        &["edit_line", "--expect_version", "3", "--index", "0", "--new", "x"],
        &[
            "edit_line",
            "--file",
            "doc.json",
            "--expect_version",
            "three",
            "--index",
            "0",
            "--new",
            "x",
        ],
        &["full_rewrite", "--file", "doc.json", "--expect_version", "3"],
        &["finish", "--file", "doc.json", "--expect_version", "3"],
        &["publish"],
        &[],
    ] {
        let output = desk.command(arguments).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments:?}");
    }
}

#[test]
fn a_document_on_the_terminal_is_inert_and_still_json() {
    // security line 165
    let nasty = "\u{1b}[2J\u{9b}31m\u{202e}\u{7f}\u{e0041}";
    let desk = Desk::new(
        &json!({"doc_id": nasty, "version": 1, "meta": {nasty: nasty}, "lines": {"0": nasty}}),
    );
    let output = desk.with("show", [""; 0]).output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{7f}', '\u{e0041}']), "{text:?}");
    assert_eq!(answer(&output), desk.document());
}

fn succeeded(children: Vec<Child>) -> usize {
    let answers = children.into_iter().map(|child| answer(&child.wait_with_output().unwrap()));
    answers.filter(|answer| answer["ok"] == true).count()
}

/// Security line 177.
#[test]
fn of_editors_with_the_same_version_one_wins() {
    for count in [2, 20] {
        let desk = Desk::new(&document());
        let start = |at: usize| {
            let text = format!("editor {at}");
            let arguments = ["--expect_version", "3", "--index", "0", "--new", &text];
            desk.with("edit_line", arguments).spawn().unwrap()
        };
        assert_eq!(succeeded((0..count).map(start).collect()), 1, "of {count}");
        assert_eq!(desk.document()["version"], 4);
        assert_eq!(fs::read_dir(desk.place.path().join("desk")).unwrap().count(), 1);
    }
}

/// Security line 179.
#[test]
fn a_kill_leaves_the_old_or_the_new_document_and_no_pile() {
    let desk = Desk::new(&document());
    let content = "a line of some length\n".repeat(100_000);
    fs::write(desk.place.path().join("text"), &content).unwrap();
    let (mut old, mut new) = (0, 0);
    for round in 0..24_u32 {
        let version = desk.document()["version"].as_u64().unwrap();
        let text = version.to_string();
        let mut child = desk
            .with("full_rewrite", expecting(&text, &["--content-file", "../text"]))
            .spawn()
            .unwrap();
        // Spread over the time that an edit takes; where it hits does not matter for what must hold.
        for _ in 0..round * 400 {
            std::thread::yield_now();
        }
        let _ = child.kill();
        child.wait().unwrap();
        let after = desk.document();
        match after["version"].as_u64().unwrap() - version {
            0 => old += 1,
            1 => new += 1,
            more => panic!("{more} versions further"),
        }
        let left = fs::read_dir(desk.place.path().join("desk")).unwrap().count();
        assert!(left <= 2, "{left} files after {round} kills");
    }
    let version = desk.document()["version"].to_string();
    desk.call("full_rewrite", expecting(&version, &["--content", "end"]));
    assert_eq!(fs::read_dir(desk.place.path().join("desk")).unwrap().count(), 1);
    assert_eq!(old + new, 24);
}

const WORKERS: usize = 50;
const EDITS: u64 = 50;
const DOCUMENT: &str = "ACT_TEST_DOCUMENT";

/// Fifty processes, fifty edits each, everybody reading what the others write.
#[test]
fn fifty_processes_with_fifty_edits_each_lose_none() {
    let desk = Desk::new(&document());
    let worker = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "documents::one_of_fifty", "--test-threads", "1"]);
        command.env(DOCUMENT, desk.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let workers: Vec<_> = (0..WORKERS).map(|_| worker()).collect();
    for worker in workers {
        let output = worker.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
    }
    let edits = WORKERS as u64 * EDITS;
    assert_eq!(desk.document()["version"], 3 + edits);
    assert_eq!(fs::read_dir(desk.place.path().join("desk")).unwrap().count(), 1);
}

#[test]
#[ignore = "one of fifty processes that another test starts"]
fn one_of_fifty() {
    let path = std::env::var_os(DOCUMENT).unwrap();
    let path = Path::new(&path);
    for _ in 0..EDITS {
        let mut busy = 0;
        loop {
            let read = act_documents::show(path).unwrap();
            let began = Instant::now();
            match act_documents::edit_line(path, read.version(), 0, "by one of fifty") {
                Ok(_) => break,
                Err(refused) if refused.reason() == "version_mismatch" => {}
                // EDIT-29: no process that has waited less is refused.
                Err(refused) => {
                    assert_eq!(refused.reason(), "busy", "{refused}");
                    assert!(began.elapsed() >= Duration::from_secs(30), "{:?}", began.elapsed());
                    busy += 1;
                    assert!(busy < 3, "{busy} times in a row");
                }
            }
        }
    }
}

/// EDIT-40, security line 180: the edit gives the name to another file, and the other name would keep the old text.
#[test]
fn a_document_with_two_names_is_refused_and_stays_one() {
    let desk = Desk::new(&document());
    let other = desk.path().with_file_name("other.json");
    fs::hard_link(desk.path(), &other).unwrap();
    let before = fs::read(desk.path()).unwrap();
    let edit = ["--expect-version", "3", "--index", "0", "--new", "x"];
    let refused = desk.call("edit_line", edit);
    assert_eq!(refused["reason"], "not_a_file", "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("hard links"), "{refused}");
    assert_eq!(
        (fs::read(desk.path()).unwrap(), fs::read(&other).unwrap()),
        (before.clone(), before)
    );
    fs::remove_file(&other).unwrap();
    assert_eq!(desk.call("edit_line", edit)["ok"], true);
}
