//! A component that its authors published for other hosts, not a byte of it changed: `wasm-tools` out of jco's npm package. Nobody
//! gave it a manifest, and it knows nothing of us.

use std::fs;

use serde_json::json;

use crate::examples::examples;
use crate::harness::script::{attempt, call, done, opening, script};
use crate::harness::{Act, image};

// FOREIGN-13
#[test]
fn a_published_component_answers_the_model_as_it_is() {
    let path = examples().join("wasm-tools.wasm");
    if !path.exists() {
        act_core::testing::skip("npm does not give @bytecodealliance/jco@1.1.1");
        return;
    }
    let path = path.to_str().unwrap();
    let act = Act::new()
        .file("answer.txt", "none\n")
        .pipeline(image(), &[("test", "grep -q i32.const answer.txt")]);
    act.clone().act(["components", "test", path]).status(0).stdout_has("12 of 12 checks passed");
    let sha256 = act_workspace::digest(&fs::read(path).unwrap());
    let words = ["components", "approve", path, "--name", "wt", "--sha256", &sha256];
    act.clone().act(words).status(0).stdout_has("Approved wt: nothing");

    let module = r#"(module (func (export "f") (result i32) i32.const 7))"#;
    let empty = json!({"binary": {"base64": "AGFzbQEAAAA="}});
    let calls = [
        call("wt__tools_parse", json!({"wat": module})),
        call("wt__tools_print", empty.clone()),
        call("wt__tools_parse", json!({"wat": "(module"})),
        call("wt__tools_metadata_show", empty),
    ];
    let turns = opening("write it").into_iter().chain(calls).chain(attempt("i32.const 7\n"));
    let turns = turns.chain([done()]);
    let told = act.clone().script(&script(turns)).act(["run", "write the answer"]).status(0);
    let told = told.script_used_up();
    let asked = told.requests_of("editor").last().unwrap().body.clone();
    let answers: Vec<&str> = asked["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .filter_map(|message| message["content"].as_str())
        .collect();
    let begins = |with: &str| answers.iter().any(|answer| answer.starts_with(with));
    for with in [
        r#"{"base64":"AGFzbQEAAAA"#,
        "(module",
        "tool_failed: Error",
        r#"[{"name":null,"meta-type":"module""#,
    ] {
        assert!(begins(with), "{with}: {answers:#?}");
    }
    // It was lent nothing, and asked for nothing.
    let log = act.act(["audit", "list", "--json", "--component", "wt"]).status(0);
    let log = log.json();
    let records = log["records"].as_array().unwrap();
    assert!(records.iter().any(|record| record["subject"]["sha256"] == sha256.as_str()));
    assert!(records.iter().all(|record| record["decision"] != "deny"), "{log:#}");
}
