//! A value that fits a JSON Schema, made up without chance: what an author gives as `examples`, `default`, `const` or
//! `enum`, else the plainest there is. Names of files are those of the fixture.

use serde_json::{Map, Value};

use super::fixture::A_FILE;

const DEPTH: usize = 12;

/// One value for `schema`; it need not fit where the schema has rules that nobody can guess.
pub(super) fn of(schema: &Value) -> Value {
    Maker { root: schema }.value(schema, "", 0)
}

/// Whether a field of this name holds names of files.
pub(super) fn names_files(field: &str) -> bool {
    matches!(field, "path" | "file") || field.ends_with("files") || field.ends_with("paths")
}

struct Maker<'a> {
    root: &'a Value,
}

impl Maker<'_> {
    fn value(&self, schema: &Value, field: &str, depth: usize) -> Value {
        if depth > DEPTH {
            return Value::Null;
        }
        let first = |list: &str| schema.get(list).and_then(|list| list.get(0));
        let given = schema.get("const").or_else(|| first("examples"));
        let given = given.or_else(|| schema.get("default")).or_else(|| first("enum"));
        if let Some(given) = given {
            return given.clone();
        }
        let other = first("anyOf").or_else(|| first("oneOf")).or_else(|| first("allOf"));
        if let Some(other) = other.or_else(|| self.referred(schema)) {
            return self.value(other, field, depth + 1);
        }
        let least = |name: &str| schema.get(name).and_then(Value::as_u64).unwrap_or_default();
        match kind(schema) {
            "object" => {
                let properties = schema.get("properties").and_then(Value::as_object);
                let made = properties
                    .into_iter()
                    .flatten()
                    .map(|(name, schema)| (name.clone(), self.value(schema, name, depth + 1)));
                Value::Object(made.collect::<Map<_, _>>())
            }
            "array" => match schema.get("items") {
                Some(items) => {
                    let count = usize::try_from(least("minItems").clamp(1, 16)).unwrap_or(1);
                    Value::from(vec![self.value(items, field, depth + 1); count])
                }
                None => Value::Array(vec![]),
            },
            "integer" | "number" => schema.get("minimum").cloned().unwrap_or_else(|| 1.into()),
            "boolean" => true.into(),
            "string" if names_files(field) => A_FILE.into(),
            "string" => "text"
                .repeat(1 + usize::try_from(least("minLength").min(4096) / 4).unwrap_or(0))
                .into(),
            _ => Value::Null,
        }
    }

    fn referred(&self, schema: &Value) -> Option<&Value> {
        self.root.pointer(schema.get("$ref")?.as_str()?.strip_prefix('#')?)
    }
}

/// The first type that says something; an object where none is named.
fn kind(schema: &Value) -> &str {
    let named = match schema.get("type") {
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).find(|one| *one != "null"),
        Some(one) => one.as_str(),
        None if schema.get("items").is_some() => Some("array"),
        None => Some("object"),
    };
    named.unwrap_or("null")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_author_gives_comes_first_and_the_rest_is_plain() {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "lines": {"type": "array", "items": {"type": "integer", "minimum": 3}},
                "level": {"enum": ["low", "high"]},
                "word": {"type": ["null", "string"]},
                "glob": {"type": "string", "examples": ["*.py"]},
                "same": {"$ref": "#/$defs/it"},
                "either": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            },
            "$defs": {"it": {"const": "1"}},
        });
        let made = json!({"path": A_FILE, "lines": [3], "level": "low", "word": "text", "glob": "*.py",
            "same": "1", "either": true});
        assert_eq!(of(&schema), made);
        assert_eq!(of(&json!({"type": "array"})), json!([]));
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        assert!(of(&schema).is_object());
    }
}
