//! Bounds on a JSON Schema of a stranger, so that a value can be validated by it in bounded time.
//!
//! A validator visits a subschema again for each reference to it. A text of some kilobytes can therefore make it visit
//! billions of them, and no deadline ends a validator. The bound is computed from the schema alone, each subschema once.

use std::collections::HashMap;

use serde_json::Value;

/// Maximum size of the text of a schema, in bytes. Schemas of reports have some thousands.
pub const MAX_SCHEMA_BYTES: usize = 64 << 10;
/// Maximum number of values that a validator visits, once for each reference to them. Schemas of reports have some hundreds.
pub const MAX_VISITS: u64 = 10_000;
/// Maximum nesting of a schema, references included, because validators walk it by recursion.
const MAX_DEPTH: usize = 100;
/// What a regular expression counts as: compiling it and matching a text take longer than any other keyword.
const PATTERN: u64 = 100;
/// Maximum number of visits of one validation. They take some seconds.
const MAX_WORK: u64 = 100_000_000;
/// Bytes of text that count as one value.
const TEXT: usize = 8;

/// Why a schema is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaBoundsError {
    #[error("it has {0} bytes, over the limit of {MAX_SCHEMA_BYTES}")]
    TooLarge(usize),
    #[error("it is not JSON: {0}")]
    NotJson(String),
    #[error(
        "a validator would visit more than {MAX_VISITS} of its parts, the limit, counted once for each `$ref` to them; refer to fewer definitions"
    )]
    TooManyVisits,
    #[error("it nests more than {MAX_DEPTH} deep, the limit, `$ref` included")]
    TooDeep,
    #[error("`{0}` leads back to itself, and validating would have no limit; write out the levels")]
    Recursive(String),
    #[error(
        "`{0}` is a reference that is not followed; refer to a part of the schema, such as `#/$defs/name`"
    )]
    Reference(String),
}

/// Returns how many parts of a schema a validator visits for one value.
///
/// # Errors
///
/// The schema is beyond a bound, or has references for which no bound is known.
pub fn schema_visits(text: &str) -> Result<u64, SchemaBoundsError> {
    if text.len() > MAX_SCHEMA_BYTES {
        return Err(SchemaBoundsError::TooLarge(text.len()));
    }
    let schema: Value = serde_json::from_str(text)
        .map_err(|error| SchemaBoundsError::NotJson(error.to_string()))?;
    Walk { schema: &schema, known: HashMap::new(), open: vec![] }.visits(&schema, 0)
}

/// Returns whether a value can be validated by a schema with this number of visits in some seconds.
pub fn is_checkable(visits: u64, value: &Value) -> bool {
    visits.saturating_mul(size(value)) <= MAX_WORK
}

fn size(value: &Value) -> u64 {
    let text = |text: &str| (text.len() / TEXT) as u64;
    1 + match value {
        Value::String(string) => text(string),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| text(name) + size(value)).sum(),
        _ => 0,
    }
}

struct Walk<'a> {
    schema: &'a Value,
    /// The visits of the subschemas that references lead to.
    known: HashMap<&'a str, u64>,
    /// The references that are being followed.
    open: Vec<&'a str>,
}

impl<'a> Walk<'a> {
    fn visits(&mut self, value: &'a Value, depth: usize) -> Result<u64, SchemaBoundsError> {
        if depth > MAX_DEPTH {
            return Err(SchemaBoundsError::TooDeep);
        }
        let mut visits: u64 = 1;
        match value {
            Value::Array(items) => {
                for item in items {
                    visits += self.visits(item, depth + 1)?;
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    visits += self.keyword(name, field, depth)?;
                }
                // These keywords have a validator visit everything beside them once more.
                let again = ["unevaluatedProperties", "unevaluatedItems"];
                if again.iter().any(|keyword| fields.contains_key(*keyword)) {
                    visits *= 2;
                }
            }
            _ => {}
        }
        if visits > MAX_VISITS { Err(SchemaBoundsError::TooManyVisits) } else { Ok(visits) }
    }

    fn keyword(
        &mut self,
        name: &'a str,
        field: &'a Value,
        depth: usize,
    ) -> Result<u64, SchemaBoundsError> {
        match (name, field) {
            // A validator visits definitions only through references. Deeper ones may be fields of an object.
            ("$defs" | "definitions", Value::Object(_)) if depth == 0 => Ok(0),
            ("$ref", Value::String(reference)) => self.target(reference, depth + 1),
            // With these, a reference could lead elsewhere than it is followed here.
            ("$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                Err(SchemaBoundsError::Reference(shown(reference)))
            }
            ("$id" | "id", Value::String(id)) if depth > 0 && (name == "$id" || self.is_old()) => {
                Err(SchemaBoundsError::Reference(shown(id)))
            }
            ("pattern", Value::String(_)) => Ok(PATTERN),
            ("patternProperties", Value::Object(patterns)) => {
                Ok(PATTERN * patterns.len() as u64 + self.visits(field, depth + 1)?)
            }
            _ => self.visits(field, depth + 1),
        }
    }

    /// Returns whether `id` is a keyword, as it was until draft 4.
    fn is_old(&self) -> bool {
        let draft = self.schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
        draft.contains("draft-03") || draft.contains("draft-04")
    }

    fn target(&mut self, reference: &'a str, depth: usize) -> Result<u64, SchemaBoundsError> {
        if let Some(known) = self.known.get(reference) {
            return Ok(*known);
        }
        if self.open.contains(&reference) {
            return Err(SchemaBoundsError::Recursive(shown(reference)));
        }
        // A part with escaped characters is refused, because programs read the escapes differently.
        let pointer = reference.strip_prefix('#').filter(|pointer| !pointer.contains('%'));
        let target = pointer.and_then(|pointer| self.schema.pointer(pointer));
        let target = target.ok_or_else(|| SchemaBoundsError::Reference(shown(reference)))?;
        self.open.push(reference);
        let visits = self.visits(target, depth)?;
        self.open.pop();
        self.known.insert(reference, visits);
        Ok(visits)
    }
}

/// A reference as a message shows it.
fn shown(reference: &str) -> String {
    reference.chars().take(80).map(|c| if crate::is_hidden(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn visits(schema: &Value) -> Result<u64, SchemaBoundsError> {
        schema_visits(&schema.to_string())
    }

    /// A schema of definitions, each of which refers to the next one some times.
    fn tower(levels: usize, times: usize) -> Value {
        let mut schema = json!({"$ref": "#/$defs/d0", "$defs": {}});
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            schema["$defs"][format!("d{level}")] = json!({"allOf": vec![next; times]});
        }
        schema["$defs"][format!("d{levels}")] = json!({"type": "string"});
        schema
    }

    // CAPABILITY-51, security line 303
    #[test]
    fn a_small_schema_that_would_be_visited_for_ever_is_refused() {
        let attack = tower(13, 10);
        assert!(attack.to_string().len() < 8000, "{}", attack.to_string().len());
        assert_eq!(visits(&attack), Err(SchemaBoundsError::TooManyVisits));
        assert!(visits(&tower(3, 10)).is_ok());
        assert_eq!(visits(&tower(300, 1)), Err(SchemaBoundsError::TooDeep));
    }

    // CAPABILITY-51
    #[test]
    fn what_has_no_bound_is_refused() {
        for (schema, refused) in [
            (json!({"$ref": "#"}), "#"),
            (json!({"properties": {"children": {"items": {"$ref": "#"}}}}), "#"),
            (
                json!({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}}),
                "#/$defs/a",
            ),
        ] {
            let error = SchemaBoundsError::Recursive(refused.to_owned());
            assert_eq!(visits(&schema), Err(error), "{schema}");
        }
        for schema in [
            json!({"$ref": "https://example.com/x"}),
            json!({"$ref": "#/$defs/none"}),
            json!({"$ref": "#anchor", "$defs": {"a": {"$anchor": "anchor"}}}),
            json!({"$dynamicRef": "#/$defs/a", "$defs": {"a": {}}}),
            json!({"items": {"$id": "other", "$ref": "#/$defs/a"}, "$defs": {"a": {}}}),
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "items": {"id": "other"}}),
        ] {
            let refused = visits(&schema);
            assert!(
                matches!(refused, Err(SchemaBoundsError::Reference(_))),
                "{schema}: {refused:?}"
            );
        }
    }

    #[test]
    fn the_bounds_of_size_patterns_and_unevaluated_fields_hold() {
        let text = format!(r#"{{"title":"{}"}}"#, "x".repeat(MAX_SCHEMA_BYTES));
        assert_eq!(schema_visits(&text), Err(SchemaBoundsError::TooLarge(text.len())));
        let patterns = |count| json!({"allOf": vec![json!({"pattern": "^a"}); count]});
        assert!(visits(&patterns(90)).is_ok());
        assert_eq!(visits(&patterns(101)), Err(SchemaBoundsError::TooManyVisits));
        let mut nested = json!({"type": "object"});
        for _ in 0..20 {
            nested = json!({"allOf": [nested], "unevaluatedProperties": false});
        }
        assert_eq!(visits(&nested), Err(SchemaBoundsError::TooManyVisits));
    }

    #[test]
    fn ordinary_schemas_are_far_from_the_bounds() {
        let schema = json!({
            "$id": "https://example.com/report",
            "type": "object",
            "required": ["files", "id"],
            "properties": {
                "id": {"type": "string"},
                "definitions": {"type": "array", "items": {"$ref": "#/$defs/file"}},
                "files": {"type": "array", "items": {"$ref": "#/$defs/file"}},
            },
            "$defs": {"file": {"type": "object", "properties": {"path": {"type": "string", "pattern": "^[^/]"}}}},
        });
        let found = visits(&schema).unwrap();
        assert!((100..500).contains(&found), "{found}");
        let report = json!({"files": vec![json!({"path": "src/lib.rs"}); 1000]});
        assert!(is_checkable(found, &report));
        assert!(!is_checkable(MAX_VISITS, &json!(vec![0; 20_000])));
    }
}
