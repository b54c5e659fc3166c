//! A function's parameters as a JSON Schema for the model. What it allows and what `lower` takes are the same.

use serde_json::{Map, Value, json};

use super::types::{Int, Type};

/// An object with one property for each parameter; those that may be left out are not required.
pub(super) fn parameters(params: &[(String, Type)]) -> Value {
    record(params)
}

pub(super) fn schema(of: &Type) -> Value {
    match of {
        Type::Bool => json!({"type": "boolean"}),
        Type::Int(int) => integer(*int),
        Type::F32 | Type::F64 => {
            json!({"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]})
        }
        Type::Char => json!({"type": "string", "minLength": 1, "maxLength": 1}),
        Type::String => json!({"type": "string"}),
        Type::Bytes => json!({"anyOf": [
            {"type": "string", "description": "text, as UTF-8"},
            object(&[("base64", json!({"type": "string"}))], &["base64"]),
        ]}),
        Type::List(of) => json!({"type": "array", "items": schema(of)}),
        Type::Tuple(types) => json!({
            "type": "array",
            "prefixItems": types.iter().map(schema).collect::<Vec<_>>(),
            "minItems": types.len(),
            "maxItems": types.len(),
        }),
        Type::Record(fields) => record(fields),
        Type::Variant(cases) => any_of(cases.iter().map(|(name, of)| case(name, of.as_ref()))),
        Type::Enum(names) => json!({"enum": names}),
        Type::Flags(names) => {
            json!({"type": "array", "items": {"enum": names}, "uniqueItems": true})
        }
        Type::Option(of) if of.may_be_null() => {
            any_of([json!({"type": "null"}), object(&[("some", schema(of))], &["some"])])
        }
        Type::Option(of) => any_of([schema(of), json!({"type": "null"})]),
        Type::Result(ok, error) => {
            let side = |name, of: &Option<Box<Type>>| {
                let payload = of.as_deref().map_or_else(|| json!({"type": "null"}), schema);
                object(&[(name, payload)], &[name])
            };
            any_of([side("ok", ok), side("error", error)])
        }
    }
}

impl Type {
    /// `null` is one of its values, so that another `null` around it would not be told apart.
    pub(super) fn may_be_null(&self) -> bool {
        matches!(self, Self::Option(_))
    }
}

fn integer(int: Int) -> Value {
    let (least, most) = int.bounds();
    // Both fit into what a JSON number of serde holds.
    let number = |bound: i128| {
        i64::try_from(bound).map(Value::from).unwrap_or_else(|_| Value::from(u64::MAX))
    };
    let number = json!({"type": "integer", "minimum": number(least), "maximum": number(most)});
    if !int.is_wide() {
        return number;
    }
    let digits = if least == 0 { "^(0|[1-9][0-9]{0,19})$" } else { "^(0|-?[1-9][0-9]{0,18})$" };
    any_of([number, json!({"type": "string", "pattern": digits})])
}

fn case(name: &str, of: Option<&Type>) -> Value {
    match of {
        None => json!({"const": name}),
        Some(of) => object(&[(name, schema(of))], &[name]),
    }
}

fn record(fields: &[(String, Type)]) -> Value {
    let properties: Vec<_> = fields.iter().map(|(name, of)| (name.as_str(), schema(of))).collect();
    let required = fields.iter().filter(|(_, of)| !matches!(of, Type::Option(_)));
    let required: Vec<_> = required.map(|(name, _)| name.as_str()).collect();
    object(&properties, &required)
}

fn object(properties: &[(&str, Value)], required: &[&str]) -> Value {
    let properties: Map<_, _> =
        properties.iter().map(|(name, of)| ((*name).to_owned(), of.clone())).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn any_of(schemas: impl IntoIterator<Item = Value>) -> Value {
    json!({"anyOf": schemas.into_iter().collect::<Vec<_>>()})
}
