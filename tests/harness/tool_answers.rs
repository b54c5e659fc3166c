//! The answers of the Editor's tools in a task.

use std::fs;

use serde_json::Value;

use super::Done;

/// Returns the tools' answers in the last request of the Editor, in order.
pub(crate) fn answers(told: &Done) -> Vec<String> {
    let last = told.requests_of("editor").pop().unwrap();
    let messages = last.body["messages"].as_array().unwrap().clone();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

/// Returns the stable word that an answer begins with, or `None` for an answer that is no error.
pub(crate) fn reason(answer: &str) -> Option<&str> {
    let (word, _) = answer.split_once(": ")?;
    word.chars().all(|c| c.is_ascii_lowercase() || c == '_').then_some(word)
}

/// Returns the reasons of the refusals among them.
pub(crate) fn reasons(told: &Done) -> Vec<String> {
    answers(told).iter().filter_map(|answer| reason(answer)).map(str::to_owned).collect()
}

/// Returns the counts of refused edits in the last event.
pub(crate) fn refused(told: &Done) -> Value {
    let journal = told.repo().parent().unwrap().join("artifacts/state/journal");
    let file = fs::read_dir(journal).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(file).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    last["edits_refused"].clone()
}
