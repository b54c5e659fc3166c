//! Documents and events on stdout, checked against the published schemas.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::Done;

pub(crate) fn parse(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Parses the lines of stdout and checks them: the published schema, consecutive numbers, one task.
pub(crate) fn lines(told: &Done) -> Vec<Value> {
    let lines = parse(&told.stdout_text());
    let schema = schema("run");
    for (at, line) in lines.iter().enumerate() {
        schema.validate(line).unwrap_or_else(|error| panic!("{error}: {line}\n{told}"));
        assert_eq!(line["v"], 1, "{line}");
        if line["type"] != "refused" {
            assert_eq!(line["seq"], at + 1, "{line}");
            assert_eq!(line["task_id"], lines[0]["task_id"], "{line}");
        }
    }
    lines
}

pub(crate) fn schema(name: &str) -> jsonschema::Validator {
    let path = act_core::testing::checkout().join(format!("specs/schemas/{name}.json"));
    let schema = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

impl Done {
    /// Parses the one document on stdout and checks it against its schema.
    #[track_caller]
    pub(crate) fn document(&self, name: &str) -> Value {
        let document = self.json();
        schema(name).validate(&document).unwrap_or_else(|error| panic!("{error}\n{self}"));
        document
    }
}
