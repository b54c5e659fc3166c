//! The answers of the Editor's tools in a task.

use std::fs;

use serde_json::Value;

use super::Done;

/// Returns the tools' answers in the last request of the Editor, in order.
pub(crate) fn answers(told: &Done) -> Vec<Value> {
    let last = told.requests_of("editor").pop().unwrap();
    let messages = last.body["messages"].as_array().unwrap().clone();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results
        .map(|message| serde_json::from_str(message["content"].as_str().unwrap()).unwrap())
        .collect()
}

/// Returns the reasons of the refusals among them.
pub(crate) fn reasons(told: &Done) -> Vec<String> {
    let refused = answers(told).into_iter().filter(|answer| answer["ok"] == false);
    refused.map(|answer| answer["reason"].as_str().unwrap().to_owned()).collect()
}

/// Returns the counts of refused edits in the last event.
pub(crate) fn refused(told: &Done) -> Value {
    let journal = told.repo().parent().unwrap().join("artifacts/state/journal");
    let file = fs::read_dir(journal).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(file).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    last["edits_refused"].clone()
}
