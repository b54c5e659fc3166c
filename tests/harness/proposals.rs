//! A dry run that changes files in every way that a patch can hold.

use serde_json::{Value, json};

use super::script::{call, done, opening};
use super::{Act, Done, image};

pub(crate) const GREEN: &str =
    "grep -qx right answer.txt || { echo FAIL: $(cat answer.txt); exit 1; }";

pub(crate) fn repository() -> Act {
    Act::new()
        .file("answer.txt", "none\n")
        .file("old.txt", "one\ntwo\nthree\n")
        .file("dos.txt", "a\r\nb\r\nc")
        .file("gone.txt", "x\n")
        .pipeline(image(), &[("test", GREEN)])
}

/// Returns the turns that read a file and then change it.
pub(crate) fn after_reading(path: &str, tool: &str, arguments: Value) -> Vec<Value> {
    let mut arguments = arguments;
    arguments["expect_version"] = "{{last_version}}".into();
    vec![call("read", json!({"path": path})), call(tool, arguments)]
}

/// Returns turns with every kind of change that a patch can hold.
pub(crate) fn every_change() -> Vec<Value> {
    let mut turns = opening("write it");
    turns.extend(after_reading(
        "answer.txt",
        "full_rewrite",
        json!({"path": "answer.txt", "content": "right\n"}),
    ));
    turns.push(call("create", json!({"path": "new/ä b.txt", "content": "no end"})));
    turns.push(call("create", json!({"path": "empty.txt", "content": ""})));
    turns.extend(after_reading(
        "old.txt",
        "move",
        json!({"from": "old.txt", "to": "sub/moved.sh"}),
    ));
    turns.extend(after_reading("gone.txt", "delete", json!({"path": "gone.txt"})));
    turns.extend(after_reading(
        "dos.txt",
        "replace",
        json!({"path": "dos.txt", "old": "b\n", "new": "B\n"}),
    ));
    turns
}

pub(crate) fn proposal() -> Vec<Value> {
    every_change().into_iter().chain([done()]).collect()
}

/// Returns the id of the task that made the proposal.
pub(crate) fn named(done: &Done) -> String {
    let text = done.stderr_text();
    let (_, rest) = text.split_once("`act apply ").unwrap_or_else(|| panic!("{done}"));
    rest.split('`').next().unwrap().to_owned()
}
