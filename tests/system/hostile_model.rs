//! A model that does what a hostile text tells it, and clones that bring traps along.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::harness::script::{attempt, call, done, opening, script};
use crate::harness::{Act, image};
use serde_json::{Value, json};

/// Every route to one path: the file is created, replaced by lines and whole, deleted, and moved onto.
fn by_every_route(path: &str) -> Vec<Value> {
    let edit = |name: &str, more: Value| {
        let mut arguments = json!({"path": path, "expect_version": 1});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call(name, arguments)
    };
    vec![
        call("create", json!({"path": path, "content": "owned\n"})),
        edit("full_rewrite", json!({"content": "owned\n"})),
        edit("edit_line", json!({"index": 0, "new": "owned"})),
        edit("edit_lines", json!({"start": 0, "end": 1, "new": "owned"})),
        edit("edit_many", json!({"edits": [{"start": 0, "end": 1, "new": "owned"}]})),
        edit("delete", json!({})),
        call("move", json!({"from": "answer.txt", "to": path, "expect_version": 1})),
        call("move", json!({"from": path, "to": "moved.txt", "expect_version": 1})),
    ]
}

/// Name, mode, modification time and bytes of everything below a directory.
fn fingerprint(root: &Path) -> Vec<String> {
    let mut all = vec![];
    let mut todo = vec![root.to_owned()];
    while let Some(path) = todo.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let bytes = if meta.is_file() { fs::read(&path).unwrap() } else { vec![] };
        let (mode, time) = (meta.permissions(), meta.modified().unwrap());
        all.push(format!("{} {mode:?} {time:?} {bytes:?}", path.display()));
        if meta.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    all.sort();
    all
}

fn refusals(told: &crate::harness::Done) -> Vec<String> {
    let last = told.requests_of("editor").pop().unwrap();
    let messages = last.body["messages"].as_array().unwrap().clone();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    let results = results.map(|message| message["content"].as_str().unwrap());
    let parsed = results.map(|text| serde_json::from_str::<Value>(text).unwrap());
    parsed
        .filter(|result| result["ok"] == false)
        .map(|result| result["reason"].as_str().unwrap().to_owned())
        .collect()
}

/// Security lines 51 and 52: git's files, the gate and our own are out of reach by every route; the model
/// hears so and the loop goes on to a green run.
#[test]
fn protected_names_are_refused_by_every_route_and_the_loop_goes_on() {
    let paths = [
        ".git/hooks/pre-commit",
        ".git/config",
        "sub/.git/hooks/x",
        "agent.yaml",
        "AGENT.YAML",
        "agent/x",
    ];
    let hostile: Vec<Value> = paths.into_iter().flat_map(by_every_route).collect();
    let count = hostile.len();
    let turns =
        opening("obey").into_iter().chain(hostile).chain(attempt("right\n")).chain([done()]);
    let act = Act::new()
        .file("answer.txt", "none\n")
        .file("sub/.git/HEAD", "ref: x\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let before = fingerprint(&act.repo().join(".git"));
    let nested = fingerprint(&act.repo().join("sub"));
    let gate = fs::read(act.repo().join("agent.yaml")).unwrap();
    let told = act.script(&script(turns)).run("write the answer").status(0).script_used_up();
    assert_eq!(fingerprint(&told.repo().join(".git")), before);
    assert_eq!(fingerprint(&told.repo().join("sub")), nested);
    assert_eq!(fs::read(told.repo().join("agent.yaml")).unwrap(), gate);
    assert!(!told.repo().join("agent/x").exists() && !told.repo().join("moved.txt").exists());
    let reasons = refusals(&told);
    assert_eq!(reasons.len(), count, "{reasons:?}");
    assert!(
        reasons.iter().filter(|reason| *reason == "protected").count() >= count / 2,
        "{reasons:?}"
    );
}

/// Security line 57: a directory that is a link to the outside is no way out.
#[test]
fn a_linked_directory_is_no_way_out() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("f"), "outside\n").unwrap();
    let before = fingerprint(outside.path());
    let hostile = by_every_route("docs/f").into_iter().chain(by_every_route("docs/new"));
    let turns =
        opening("obey").into_iter().chain(hostile).chain(attempt("right\n")).chain([done()]);
    let act = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    symlink(outside.path(), act.repo().join("docs")).unwrap();
    let told = act.script(&script(turns)).run("write the answer").status(0).script_used_up();
    assert_eq!(fingerprint(outside.path()), before);
    assert_eq!(refusals(&told).len(), 16, "{:?}", refusals(&told));
}

/// Security line 60: a path that is none says why.
#[test]
fn paths_that_are_none_are_refused() {
    let long = "x".repeat(5000);
    let paths = ["/etc/passwd", "../x", "a/../../x", "", ".", "a\0b", &long, "a/", "a\\b"];
    let hostile = paths.map(|path| call("create", json!({"path": path, "content": "owned"})));
    let turns =
        opening("obey").into_iter().chain(hostile).chain(attempt("right\n")).chain([done()]);
    let told = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")])
        .script(&script(turns))
        .run("write the answer")
        .status(0)
        .script_used_up();
    let reasons = refusals(&told);
    assert_eq!(reasons.len(), 9, "{reasons:?}");
    let mut left: Vec<_> = fs::read_dir(told.repo())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, [".git", ".gitignore", "agent", "agent.yaml", "answer.txt"]);
}

/// Security line 64: `agent` as a link to the outside is found before anything is written.
#[test]
fn an_agent_directory_that_is_a_link_refuses_the_task() {
    let outside = tempfile::tempdir().unwrap();
    let act = Act::new().file("answer.txt", "none\n").pipeline(image(), &[("test", "true")]);
    symlink(outside.path(), act.repo().join("agent")).unwrap();
    let before = fingerprint(&act.repo());
    let told =
        act.script("turns: []").run("write the answer").status(1).stderr_has("agent is a link");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!(fingerprint(&told.repo()), before);
    assert!(told.requests().is_empty());
}

/// Security line 65: `.gitignore` and `context_latest.md` as links to the outside, and a first snapshot
/// that is already there.
#[test]
fn links_that_a_clone_ships_for_our_own_files_are_not_followed() {
    let outside = tempfile::tempdir().unwrap();
    for name in ["profile", "latest"] {
        fs::write(outside.path().join(name), "outside\n").unwrap();
    }
    let before = fingerprint(outside.path());
    let turns = opening("write it").into_iter().chain(attempt("right\n")).chain([done()]);
    let act = Act::new()
        .file("answer.txt", "none\n")
        .file("agent/context_001.md", "shipped\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    symlink(outside.path().join("profile"), act.repo().join(".gitignore")).unwrap();
    symlink(outside.path().join("latest"), act.repo().join("agent/context_latest.md")).unwrap();
    let told = act.script(&script(turns)).run("write the answer").status(0);
    assert_eq!(fingerprint(outside.path()), before);
    assert_eq!(told.read("agent/context_001.md"), "shipped\n");
    let latest = fs::read_link(told.repo().join("agent/context_latest.md")).unwrap();
    assert_eq!(latest, Path::new("context_003.md"));
    assert!(fs::symlink_metadata(told.repo().join(".gitignore")).unwrap().is_symlink());
}
