//! Tasks in a package of a monorepo: what is seen without a place being named, and what may be written.

use crate::harness::script::{call, done, opening, script};
use crate::harness::{Act, image};
use serde_json::{Value, json};

use super::clumsy_model::{answers, refused};

/// Two packages with the same files; the pipeline runs in `packages/core`.
fn monorepo() -> Act {
    let yaml = json!({
        "verification": {
            "container_image": image(),
            "steps": [{"name": "test", "command": "grep -qx right answer.txt"}],
        },
        "monorepo": {"package": "packages/core"},
    });
    Act::new().file("agent.yaml", yaml.to_string()).files(&[
        ("answer.txt", "root\n"),
        ("Cargo.lock", "lock\n"),
        ("packages/core/answer.txt", "none\n"),
        ("packages/core2/answer.txt", "two\n"),
        ("packages/other/answer.txt", "other\n"),
    ])
}

fn write(path: &str, content: &str) -> Value {
    call("full_rewrite", json!({"path": path, "expect_version": 1, "content": content}))
}

/// EDITOR-15
#[test]
fn list_and_search_mean_the_package_unless_a_place_is_named() {
    let turns = opening("write it").into_iter().chain([
        call("list", json!({})),
        call("list", json!({"path": "packages/other"})),
        call("list", json!({"path": "."})),
        call("search", json!({"pattern": "."})),
        call("search", json!({"pattern": ".", "glob": "*.txt"})),
        call("search", json!({"pattern": ".", "glob": "packages/other/**"})),
        write("packages/core/answer.txt", "right\n"),
        call("verify", json!({})),
        done(),
    ]);
    let told = monorepo().script(&script(turns)).run("write the answer").status(0);
    let answers = answers(&told.script_used_up());
    let entries = |at: usize| answers[at]["entries"].clone();
    assert_eq!(entries(1), json!(["packages/core/answer.txt"]));
    assert_eq!(entries(2), json!(["packages/other/answer.txt"]));
    assert!(entries(3).as_array().unwrap().len() >= 5, "{}", entries(3));
    let hits =
        |at: usize| answers[at]["hits"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(hits(4), ["packages/core/answer.txt"]);
    assert_eq!(hits(5), ["packages/core/answer.txt"]);
    assert_eq!(hits(6), ["packages/other/answer.txt"]);
}

/// WORKSPACE-37: outside the package nothing is written, by any route, unless the user named the path.
#[test]
fn writes_outside_the_package_are_refused_and_the_loop_goes_on() {
    let turns = opening("write it").into_iter().chain([
        write("packages/other/answer.txt", "owned\n"),
        write("packages/core2/answer.txt", "owned\n"),
        write("answer.txt", "owned\n"),
        call("create", json!({"path": "new.txt", "content": "owned\n"})),
        call("delete", json!({"path": "answer.txt", "expect_version": 1})),
        call("move", json!({"from": "packages/core/answer.txt", "to": "x", "expect_version": 1})),
        call("move", json!({"from": "answer.txt", "to": "packages/core/x", "expect_version": 1})),
        write("Cargo.lock", "new lock\n"),
        write("packages/core/answer.txt", "right\n"),
        call("verify", json!({})),
        done(),
    ]);
    let act = monorepo().script(&script(turns));
    let told = act.act(["run", "write the answer", "--allow-path", "/Cargo.lock"]).status(0);
    let told = told.script_used_up();
    for (path, content) in [
        ("answer.txt", "root\n"),
        ("Cargo.lock", "new lock\n"),
        ("packages/core/answer.txt", "right\n"),
        ("packages/core2/answer.txt", "two\n"),
        ("packages/other/answer.txt", "other\n"),
    ] {
        assert_eq!(told.read(path), content, "{path}");
    }
    assert!(!told.repo().join("new.txt").exists() && !told.repo().join("x").exists());
    assert_eq!(refused(&told), json!({"boundary": 7}));
    let first = told.requests_of("editor")[0].body.to_string();
    assert!(first.contains("Scope: the package `packages/core`"), "{first}");
}
