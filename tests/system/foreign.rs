//! A component from elsewhere, from its file to an edit in a task.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::script::{call, done, opening, script};
use crate::harness::{Act, Done, image};

fn foreign(act: &Act) -> PathBuf {
    let path = act.repo().parent().unwrap().join("ordinary.wasm");
    fs::copy(Path::new(act_component::builtin::TEST_COMPONENTS).join("foreign.wasm"), &path)
        .unwrap();
    path
}

fn approve(act: &Act, path: &Path, more: &[&str]) -> Done {
    let sha256 = act_workspace::digest(&fs::read(path).unwrap());
    let words = ["components", "approve", path.to_str().unwrap(), "--sha256", &sha256];
    act.clone().act(words.iter().chain(more).copied())
}

// FOREIGN-1, FOREIGN-2, FOREIGN-3
#[test]
fn it_is_inspected_approved_and_listed_with_the_tools_that_its_types_make() {
    let act = Act::new().without_engine();
    let path = foreign(&act);
    let words = ["components", "inspect", path.to_str().unwrap()];
    let told = act.clone().act(words.iter().chain(&["--json"]).copied()).status(0);
    let document = told.document("components-inspect");
    assert_eq!((&document["kind"], &document["world"]), (&json!("tool"), &json!("foreign")));
    assert_eq!(document["problem"], Value::Null);
    assert!(document["tools"].as_array().unwrap().contains(&json!("files_write")), "{document:#}");
    assert_eq!(document["left_out"].as_array().unwrap().len(), 3);
    let told = act.clone().act(words).status(0).inert();
    told.stdout_has("left out").stdout_has("#make-counter: its result is or holds a resource");

    let told = approve(&act, &path, &["--name", "other", "--replaces", "file-tools"]).status(1);
    told.stderr_has("cannot replace file-tools");
    let told =
        approve(&act, &path, &["--name", "other"]).status(0).stdout_has("Approved other: nothing");
    told.stderr_has("`divide: func(a: s64, b: s64) -> result<s64, string>`").inert();
    let shown = act.clone().act(["components", "show", "other", "--json"]).status(0).json();
    assert_eq!(shown["component"]["world"], "foreign");
    assert!(shown["component"]["tools"].as_array().unwrap().contains(&json!("other__greet")));
    let log = act.act(["audit", "list", "--json"]).status(0).json();
    assert_eq!(log["records"][0]["subject"]["world"], "foreign", "{log:#}");
}

// FOREIGN-6, FOREIGN-9
#[test]
fn the_model_calls_its_functions_and_what_they_write_is_verified() {
    let act = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -qx right answer.txt")]);
    let path = foreign(&act);
    let need = |grant: &str| json!({"grant": grant, "why": "for a test"});
    let manifest = json!({"kind": "tool", "name": "ordinary", "version": "1", "about": "Ordinary.",
        "needs": [need("repo.read"), need("repo.write")]});
    let written = act.repo().parent().unwrap().join("manifest.json");
    fs::write(&written, manifest.to_string()).unwrap();
    let words =
        ["components", "pack", path.to_str().unwrap(), "--manifest", written.to_str().unwrap()];
    act.clone().act(words).status(0);
    approve(&act, &path, &["--name", "other"]).status(0).stdout_has("repo.read, repo.write");
    let turns = opening("write it").into_iter().chain([
        call("other__divide", json!({"a": 1, "b": 0})),
        call("other__divide", json!({"a": "1"})),
        call("other__files_write", json!({"path": "/repo/agent.yaml", "text": "{}"})),
        call("other__files_write", json!({"path": "/repo/answer.txt", "text": "right\n"})),
        call("verify", json!({})),
        done(),
    ]);
    let told = act.clone().script(&script(turns)).act(["run", "write the answer"]).status(0);
    let told = told.script_used_up();
    let asked = told.requests_of("editor");
    let all = asked.last().unwrap().body.to_string();
    for said in [
        "1 cannot be divided by 0",
        "bad_arguments",
        "`b` is missing",
        "protected",
        "edited answer.txt · version 2",
    ] {
        assert!(all.contains(said), "{said}: {all}");
    }
    assert_eq!(fs::read(act.repo().join("answer.txt")).unwrap(), b"right\n");
    let log = act.act(["audit", "list", "--json"]).status(0).json();
    let edits: Vec<_> = log["records"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|record| record["event"] == "edit" && record["subject"]["name"] == "other")
        .collect();
    assert_eq!(edits.len(), 1, "{log:#}");
    assert_eq!(
        (&edits[0]["object"], &edits[0]["reason"]),
        (&json!("answer.txt"), &json!("replace"))
    );
}
