//! A value that fits a JSON Schema, made up without chance: what an author gives as `examples`, `default`, `const` or
//! `enum`, else the plainest there is. Names of files are those of the fixture.

use std::cell::Cell;

use serde_json::{Map, Value};

use super::fixture::A_FILE;

/// Types inside each other, which is more than those of a function may have (FOREIGN-5).
const DEPTH: usize = 64;
/// Schemas that refer to themselves are followed this often, and then only where they must be.
const REFERRED: usize = 2;
/// Values in one sample.
const VALUES: usize = 10_000;
/// Items of one array, characters of one text.
const ITEMS: u64 = 16;
const CHARS: u64 = 4096;

/// One value for `schema`; it need not fit where the schema has rules that nobody can guess.
pub(super) fn of(schema: &Value) -> Value {
    Maker { root: schema, left: Cell::new(VALUES) }.value(schema, "", At::default())
}

/// Whether a field of this name holds names of files.
pub(super) fn names_files(field: &str) -> bool {
    matches!(field, "path" | "file") || field.ends_with("files") || field.ends_with("paths")
}

struct Maker<'a> {
    root: &'a Value,
    left: Cell<usize>,
}

#[derive(Default, Clone, Copy)]
struct At {
    depth: usize,
    referred: usize,
}

impl At {
    fn inside(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    fn is_deep(self) -> bool {
        self.referred > REFERRED
    }
}

impl Maker<'_> {
    fn value(&self, schema: &Value, field: &str, at: At) -> Value {
        let Some(left) = self.left.get().checked_sub(1).filter(|_| at.depth < DEPTH) else {
            return Value::Null;
        };
        self.left.set(left);
        let first = |list: &str| schema.get(list).and_then(|list| list.get(0));
        let given = schema.get("const").or_else(|| first("examples"));
        let given = given.or_else(|| schema.get("default")).or_else(|| first("enum"));
        if let Some(given) = given {
            return given.clone();
        }
        if let Some(same) = self.referred(schema) {
            return self.value(same, field, At { referred: at.referred + 1, ..at.inside() });
        }
        let other = first("anyOf").or_else(|| first("oneOf")).or_else(|| first("allOf"));
        if let Some(other) = other {
            return self.value(other, field, at.inside());
        }
        match kind(schema) {
            "object" => self.object(schema, at),
            "array" => self.array(schema, field, at),
            "integer" | "number" => number(schema),
            "boolean" => true.into(),
            "string" => text(schema, field).into(),
            _ => Value::Null,
        }
    }

    fn object(&self, schema: &Value, at: At) -> Value {
        let required = schema.get("required").and_then(Value::as_array);
        let must = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
        let properties = schema.get("properties").and_then(Value::as_object);
        let wanted = properties.into_iter().flatten();
        let wanted = wanted.filter(|(name, _)| !at.is_deep() || must(name));
        let made =
            wanted.map(|(name, schema)| (name.clone(), self.value(schema, name, at.inside())));
        Value::Object(made.collect::<Map<_, _>>())
    }

    /// What stands first has schemas of its own; the rest is one of each kind, so that it may have to be different.
    fn array(&self, schema: &Value, field: &str, at: At) -> Value {
        let first = schema.get("prefixItems").and_then(Value::as_array);
        let first = first.into_iter().flatten();
        let mut made: Vec<_> = first.map(|schema| self.value(schema, field, at.inside())).collect();
        let wanted = u64::from(made.is_empty() && !at.is_deep());
        let (least, most) = (size(schema, "minItems"), size(schema, "maxItems"));
        let wanted = wanted.max(least.unwrap_or_default()).min(most.unwrap_or(ITEMS)).min(ITEMS);
        let missing = usize::try_from(wanted).unwrap_or_default().saturating_sub(made.len());
        if let Some(items) = schema.get("items").filter(|items| items.as_bool() != Some(false)) {
            match items.get("enum").and_then(Value::as_array) {
                Some(names) => made.extend(names.iter().cycle().take(missing).cloned()),
                None => {
                    let item = |_| self.value(items, field, at.inside());
                    made.extend((0..missing).map(item));
                }
            }
        }
        Value::Array(made)
    }

    fn referred(&self, schema: &Value) -> Option<&Value> {
        self.root.pointer(schema.get("$ref")?.as_str()?.strip_prefix('#')?)
    }
}

fn size(schema: &Value, name: &str) -> Option<u64> {
    schema.get(name).and_then(Value::as_u64)
}

/// 1, or the bound that is nearest to it: few functions are at ease with the largest numbers there are.
fn number(schema: &Value) -> Value {
    let bound = |name: &str| schema.get(name).filter(|bound| bound.is_number());
    let value = |bound: &&Value| bound.as_f64().unwrap_or(1.0);
    let low = bound("minimum").filter(|bound| value(bound) > 1.0);
    let high = bound("maximum").filter(|bound| value(bound) < 1.0);
    low.or(high).cloned().unwrap_or_else(|| 1.into())
}

fn text(schema: &Value, field: &str) -> String {
    let least = size(schema, "minLength").unwrap_or_default().min(CHARS);
    let most = size(schema, "maxLength").unwrap_or(u64::MAX);
    let fits = |text: &str| (least..=most).contains(&(text.chars().count() as u64));
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        return super::pattern::text(pattern).unwrap_or_default();
    }
    if names_files(field) && fits(A_FILE) {
        return A_FILE.to_owned();
    }
    let count = least.max(4).min(most);
    "text".chars().cycle().take(usize::try_from(count).unwrap_or_default()).collect()
}

/// The first type that says something; an object where none is named.
fn kind(schema: &Value) -> &str {
    let named = match schema.get("type") {
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).find(|one| *one != "null"),
        Some(one) => one.as_str(),
        None if schema.get("items").or_else(|| schema.get("prefixItems")).is_some() => {
            Some("array")
        }
        None => Some("object"),
    };
    named.unwrap_or("null")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use act_agent::scout::OwnReport;
    use act_component::ArbitraryParameters as Parameters;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

        // COMPONENT-7: the schemas of a foreign component are ours, and nobody can give them `examples`
        #[test]
        fn whatever_a_foreign_function_takes_is_made_up_fits_and_converts(of in Parameters::any()) {
            let schema = of.schema();
            let made = super::of(&schema);
            let rules = OwnReport::new(Some(&schema.to_string())).unwrap();
            prop_assert_eq!(rules.fits(&made), Ok(()), "{} for {}", made, schema);
            prop_assert_eq!(of.convert(&made.to_string()), Ok(()), "{} for {}", made, schema);
        }
    }

    // COMPONENT-7
    #[test]
    fn bounds_patterns_and_what_stands_first_in_an_array_are_kept() {
        for (schema, made) in [
            (json!({"type": "string", "maxLength": 1}), json!("t")),
            (json!({"type": "string", "minLength": 6}), json!("textte")),
            (json!({"type": "string", "pattern": "^v[0-9]+$"}), json!("v0")),
            (json!({"type": "integer", "minimum": -9, "maximum": 9}), json!(1)),
            (json!({"type": "integer", "minimum": -9, "maximum": -3}), json!(-3)),
            (
                json!({"prefixItems": [{"const": 1}, {"type": "boolean"}], "items": false}),
                json!([1, true]),
            ),
            (
                json!({"items": {"enum": ["a", "b"]}, "uniqueItems": true, "minItems": 2}),
                json!(["a", "b"]),
            ),
            (json!({"items": {"type": "null"}, "maxItems": 0}), json!([])),
        ] {
            assert_eq!(of(&schema), made, "{schema}");
            assert!(jsonschema::is_valid(&schema, &made), "{schema}");
        }
    }

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
        // Ten ways on at every step: what must not be there ends it.
        let many: Map<_, _> = (0..10).map(|i| (format!("n{i}"), json!({"$ref": "#"}))).collect();
        let schema = json!({"type": "object", "properties": many});
        assert!(jsonschema::is_valid(&schema, &of(&schema)));
    }
}
