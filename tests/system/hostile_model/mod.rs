//! A model that follows hostile text, and repositories that contain traps.

mod gate_inputs;
mod obeys_the_readme;
mod paths;
mod planted_links;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::script::call;

/// Every route to one path: the file is created, replaced by text, by lines and whole, deleted, and moved onto.
fn by_every_route(path: &str) -> Vec<Value> {
    let edit = |name: &str, more: Value| {
        let mut arguments = json!({"path": path, "expect_version": 1});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call(name, arguments)
    };
    vec![
        call("create", json!({"path": path, "content": "owned\n"})),
        edit("full_rewrite", json!({"content": "owned\n"})),
        edit("insert", json!({"after": 0, "new": "owned"})),
        edit("edit_lines", json!({"edits": [{"start": 1, "end": 1, "new": "owned"}]})),
        edit("replace", json!({"old": "\n", "new": "owned", "all": true})),
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

/// How many edits the audit log says were denied, by their reason. Each says who wanted what.
fn denied(told: &crate::harness::Done) -> Value {
    let log = told.repo().parent().unwrap().join("artifacts/state/audit.jsonl");
    let mut counts = BTreeMap::<String, u64>::new();
    for line in fs::read_to_string(log).unwrap().lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        if record["event"] == "edit_refused" {
            assert_eq!(record["decision"], "deny", "{record}");
            assert!(
                record["subject"]["name"].is_string() && record["object"].is_string(),
                "{record}"
            );
            *counts.entry(record["reason"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    json!(counts)
}

/// Returns the files of the repository except `.git` and `agent/`, by path.
fn tree(root: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(path) = todo.pop() {
        for entry in fs::read_dir(&path).unwrap().map(|entry| entry.unwrap()) {
            let name = entry.path().strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            match entry.file_type().unwrap().is_dir() {
                true if name == ".git" || name == "agent" => {}
                true => todo.push(entry.path()),
                false => {
                    let bytes = fs::read(entry.path()).unwrap();
                    all.insert(name, String::from_utf8_lossy(&bytes).into_owned());
                }
            }
        }
    }
    all
}
