//! A Scout's report as the Editor's model is told it: what the schema has a place for and the Scout left empty says
//! nothing, nor does the version that was checked, and every later request would carry it. Snapshots keep the report
//! byte for byte.

use serde_json::{Map, Value};

use crate::context::ScoutPayload;

/// Of the Scouts whose schema is ours. In a schema of somebody else's, empty may mean something.
const OURS: [&str; 2] = ["scout-a", "scout-b"];

/// Without version, nulls and what is empty, where the schema is ours. Reports were checked before, so each parses.
pub(super) fn told(report: &ScoutPayload) -> Value {
    let raw = &report.payload;
    let mut parsed = serde_json::from_str(raw).unwrap_or_else(|_| Value::String(raw.clone()));
    if !OURS.contains(&report.scout.as_str()) {
        return parsed;
    }
    if let Value::Object(fields) = &mut parsed {
        fields.shift_remove("schema_version");
    }
    filled(parsed)
}

fn filled(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name, filled(value)));
            Value::Object(fields.filter(|(_, value)| says(value)).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(filled).collect()),
        other => other,
    }
}

fn says(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn payload(scout: &str, payload: &Value) -> ScoutPayload {
        ScoutPayload {
            scout: scout.into(),
            sha256: String::new(),
            question: String::new(),
            payload: payload.to_string(),
        }
    }

    // EDITOR-5
    #[test]
    fn what_is_empty_is_not_told_where_the_schema_is_ours() {
        let report = json!({
            "schema_version": "1", "build": {"commands": {"install": null, "build": "make"}, "notes": ""},
            "failure_analysis": {"root_cause": "", "is_flaky": false, "flaky_reason": null},
            "environment_issues": [], "slices": [{"files": [""], "order": 0, "id": ""}]});
        let full = json!({
            "build": {"commands": {"build": "make"}},
            "failure_analysis": {"is_flaky": false}, "slices": [{"files": [""], "order": 0}]});
        assert_eq!(told(&payload("scout-b", &report)), full);
        assert_eq!(told(&payload("licences", &report)), report);
    }
}
