//! Makes up a value that fits a JSON Schema. It is always the same value: one that the author gives as `const`, `examples`,
//! `default` or `enum`, or else the simplest one. Fields for files hold the name of a file in the repository of the test.

use std::cell::Cell;

use regex_syntax::Parser;
use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Value};

use super::queries::A_FILE;

/// Maximum nesting of schemas. It is more than the types of a function may have (FOREIGN-5).
const MAX_DEPTH: usize = 64;
/// Number of references that are followed in full. After that only required properties are made.
const MAX_REFERENCES: usize = 2;
/// Maximum number of values in one sample.
const MAX_VALUES: usize = 10_000;
/// Maximum number of items in one array.
const MAX_ITEMS: u64 = 16;
/// Maximum number of characters in one string.
const MAX_CHARS: u64 = 4096;
/// Maximum number of parts of a pattern, each counted as often as it is repeated.
const MAX_STEPS: usize = 10_000;

/// Makes up a value for `schema`. The value need not fit a schema with rules that go beyond types, bounds and patterns.
pub(super) fn value(schema: &Value) -> Value {
    Maker { root: schema, left: Cell::new(MAX_VALUES) }.value(schema, "", Position::default())
}

/// Returns whether a field of this name holds names of files.
pub(super) fn names_files(field: &str) -> bool {
    matches!(field, "path" | "file") || field.ends_with("files") || field.ends_with("paths")
}

struct Maker<'a> {
    root: &'a Value,
    left: Cell<usize>,
}

#[derive(Default, Clone, Copy)]
struct Position {
    depth: usize,
    references: usize,
}

impl Position {
    fn inside(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    fn is_deep(self) -> bool {
        self.references > MAX_REFERENCES
    }
}

impl Maker<'_> {
    fn value(&self, schema: &Value, field: &str, position: Position) -> Value {
        let Some(left) = self.left.get().checked_sub(1).filter(|_| position.depth < MAX_DEPTH)
        else {
            return Value::Null;
        };
        self.left.set(left);
        let first = |list: &str| schema.get(list).and_then(|list| list.get(0));
        let given = schema.get("const").or_else(|| first("examples"));
        let given = given.or_else(|| schema.get("default")).or_else(|| first("enum"));
        if let Some(given) = given {
            return given.clone();
        }
        if let Some(same) = self.resolve(schema) {
            return self.value(
                same,
                field,
                Position { references: position.references + 1, ..position.inside() },
            );
        }
        let other = first("anyOf").or_else(|| first("oneOf")).or_else(|| first("allOf"));
        if let Some(other) = other {
            return self.value(other, field, position.inside());
        }
        match kind(schema) {
            "object" => self.object(schema, position),
            "array" => self.array(schema, field, position),
            "integer" | "number" => number(schema),
            "boolean" => true.into(),
            "string" => text(schema, field).into(),
            _ => Value::Null,
        }
    }

    fn object(&self, schema: &Value, position: Position) -> Value {
        let required = schema.get("required").and_then(Value::as_array);
        let must = |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
        let properties = schema.get("properties").and_then(Value::as_object);
        let wanted = properties.into_iter().flatten();
        let wanted = wanted.filter(|(name, _)| !position.is_deep() || must(name));
        let made = wanted
            .map(|(name, schema)| (name.clone(), self.value(schema, name, position.inside())));
        Value::Object(made.collect::<Map<_, _>>())
    }

    /// The items of `prefixItems`, and then as many of `items` as are required. Names of an `enum` are taken in turn, because
    /// the items may have to be unique.
    fn array(&self, schema: &Value, field: &str, position: Position) -> Value {
        let first = schema.get("prefixItems").and_then(Value::as_array);
        let first = first.into_iter().flatten();
        let mut made: Vec<_> =
            first.map(|schema| self.value(schema, field, position.inside())).collect();
        let wanted = u64::from(made.is_empty() && !position.is_deep());
        let (least, most) = (size(schema, "minItems"), size(schema, "maxItems"));
        let wanted =
            wanted.max(least.unwrap_or_default()).min(most.unwrap_or(MAX_ITEMS)).min(MAX_ITEMS);
        let missing = usize::try_from(wanted).unwrap_or_default().saturating_sub(made.len());
        if let Some(items) = schema.get("items").filter(|items| items.as_bool() != Some(false)) {
            match items.get("enum").and_then(Value::as_array) {
                Some(names) => made.extend(names.iter().cycle().take(missing).cloned()),
                None => {
                    let item = |_| self.value(items, field, position.inside());
                    made.extend((0..missing).map(item));
                }
            }
        }
        Value::Array(made)
    }

    fn resolve(&self, schema: &Value) -> Option<&Value> {
        self.root.pointer(schema.get("$ref")?.as_str()?.strip_prefix('#')?)
    }
}

fn size(schema: &Value, name: &str) -> Option<u64> {
    schema.get(name).and_then(Value::as_u64)
}

/// 1, or the bound that is nearest to it. Many functions fail for very large numbers.
fn number(schema: &Value) -> Value {
    let bound = |name: &str| schema.get(name).filter(|bound| bound.is_number());
    let value = |bound: &&Value| bound.as_f64().unwrap_or(1.0);
    let low = bound("minimum").filter(|bound| value(bound) > 1.0);
    let high = bound("maximum").filter(|bound| value(bound) < 1.0);
    low.or(high).cloned().unwrap_or_else(|| 1.into())
}

fn text(schema: &Value, field: &str) -> String {
    let least = size(schema, "minLength").unwrap_or_default().min(MAX_CHARS);
    let most = size(schema, "maxLength").unwrap_or(u64::MAX);
    let fits = |text: &str| (least..=most).contains(&(text.chars().count() as u64));
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        return matching(pattern).unwrap_or_default();
    }
    if names_files(field) && fits(A_FILE) {
        return A_FILE.to_owned();
    }
    let count = least.max(4).min(most);
    "text".chars().cycle().take(usize::try_from(count).unwrap_or_default()).collect()
}

/// The first type that is not `null`; an object if the schema names none.
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

/// The simplest text that a pattern matches. `None` if the pattern cannot be parsed or needs more than [`MAX_STEPS`]. Assertions
/// inside of a pattern, such as word boundaries, are ignored.
fn matching(pattern: &str) -> Option<String> {
    let mut text = PatternText { text: String::new(), left: MAX_STEPS };
    text.write(&Parser::new().parse(pattern).ok()?)?;
    Some(text.text)
}

struct PatternText {
    text: String,
    left: usize,
}

impl PatternText {
    fn write(&mut self, hir: &Hir) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => self.text.push_str(std::str::from_utf8(&literal.0).ok()?),
            HirKind::Class(Class::Unicode(class)) => {
                self.text.push(class.ranges().first()?.start());
            }
            HirKind::Class(Class::Bytes(class)) => {
                self.text.push(class.ranges().first()?.start().into());
            }
            HirKind::Repetition(repeated) => {
                for _ in 0..repeated.min {
                    self.write(&repeated.sub)?;
                }
            }
            HirKind::Capture(capture) => self.write(&capture.sub)?,
            HirKind::Concat(parts) => parts.iter().try_for_each(|part| self.write(part))?,
            HirKind::Alternation(parts) => self.write(parts.first()?)?,
        }
        Some(())
    }
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

        // COMPONENT-7: the schemas of a foreign component are those of act, and its author cannot give them `examples`
        #[test]
        fn whatever_a_foreign_function_takes_is_made_up_fits_and_converts(of in Parameters::any()) {
            let schema = of.schema();
            let made = super::value(&schema);
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
            assert_eq!(value(&schema), made, "{schema}");
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
        assert_eq!(value(&schema), made);
        assert_eq!(value(&json!({"type": "array"})), json!([]));
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        assert!(value(&schema).is_object());
        // Each step has ten continuations; without the bound this would not end.
        let many: Map<_, _> = (0..10).map(|i| (format!("n{i}"), json!({"$ref": "#"}))).collect();
        let schema = json!({"type": "object", "properties": many});
        assert!(jsonschema::is_valid(&schema, &value(&schema)));
    }

    // COMPONENT-7
    #[test]
    fn what_is_made_matches() {
        for pattern in [
            "^(0|[1-9][0-9]{0,19})$",
            "^[a-z][a-z0-9-]*$",
            "^run_[0-9]{8}_[0-9]{6}_[0-9a-f]{6}$",
            r"^\d+\.\d+(\.\d+)?$",
            "(?i)^(yes|no)$",
            "",
        ] {
            let made = matching(pattern).unwrap();
            assert!(regex::Regex::new(pattern).unwrap().is_match(&made), "{pattern}: {made}");
        }
        assert_eq!(matching("("), None);
        assert_eq!(matching("((a|b){4000}){4000}"), None);
        assert_eq!(matching("(a{1000}){1000}"), None);
    }
}
