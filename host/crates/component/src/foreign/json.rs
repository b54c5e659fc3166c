//! JSON for the values of foreign components. The schema of a type allows exactly what [`arguments`] converts, and
//! [`to_json`] writes the same form.

use std::fmt::{self, Display, Formatter};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, json};
use wasmtime::component::Val;

use super::{Int, Type};

/// Maximum number of values in one call. Each value takes far more memory than its text.
const MAX_VALUES: usize = 250_000;
/// Largest whole number that every reader of JSON keeps exactly.
const MAX_SAFE_INTEGER: i128 = (1 << 53) - 1;

pub(super) fn schema(of: &Type) -> Value {
    match of {
        Type::Bool => json!({"type": "boolean"}),
        Type::Int(int) => integer_schema(*int),
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
        Type::Record(fields) => parameters_schema(fields),
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
    /// Returns whether `null` is one of the values. An option of such a type is written as an object with `some`, because two
    /// nested `null` would look the same.
    pub(super) fn may_be_null(&self) -> bool {
        matches!(self, Self::Option(_))
    }
}

fn integer_schema(int: Int) -> Value {
    let (least, most) = int.bounds();
    // Both bounds fit into a JSON number of serde_json.
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

/// The schema of a record or of a function's parameters: an object with one property for each. Optional fields are not
/// required.
pub(super) fn parameters_schema(fields: &[(String, Type)]) -> Value {
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

/// Why a JSON value does not fit its type, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConversionError {
    /// The names and indexes on the way to the value, the innermost first.
    path: Vec<String>,
    why: String,
}

impl ConversionError {
    fn new(why: impl Into<String>) -> Self {
        Self { path: vec![], why: why.into() }
    }

    fn under(mut self, name: impl Into<String>) -> Self {
        self.path.push(name.into());
        self
    }
}

impl Display for ConversionError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.why);
        }
        let path: Vec<_> = self.path.iter().rev().map(String::as_str).collect();
        write!(f, "at `{}`: {}", path.join("/"), self.why)
    }
}

type Converted<T = Val> = Result<T, ConversionError>;

/// Converts the arguments that a model wrote to one value for each parameter, in the order of the parameters.
///
/// # Errors
///
/// A [`ConversionError`] for the first value that does not fit.
pub(super) fn arguments(params: &[(String, Type)], text: &str) -> Converted<Vec<Val>> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let given = parse(text).map_err(|error| ConversionError::new(format!("not JSON: {error}")))?;
    let mut left = MAX_VALUES;
    let fields = fields(params, &given, &mut left)?;
    Ok(fields.into_iter().map(|(_, value)| value).collect())
}

/// Converts one value. `left` is the number of values that may still be converted.
fn from_json(of: &Type, value: &Value, left: &mut usize) -> Converted {
    *left = left.checked_sub(1).ok_or_else(|| {
        ConversionError::new(format!("more than {MAX_VALUES} values in one call"))
    })?;
    match (of, value) {
        (Type::Bool, Value::Bool(bool)) => Ok(Val::Bool(*bool)),
        (Type::Int(int), value) => integer(*int, value),
        (Type::F32, value) => {
            let number = float(value)?;
            #[expect(clippy::cast_possible_truncation, reason = "the nearest one that there is")]
            let nearest = number as f32;
            if nearest.is_infinite() && number.is_finite() {
                return Err(ConversionError::new(format!("{number} is too large for an f32")));
            }
            Ok(Val::Float32(nearest))
        }
        (Type::F64, value) => float(value).map(Val::Float64),
        (Type::Char, Value::String(text)) => {
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (Some(char), None) => Ok(Val::Char(char)),
                _ => Err(ConversionError::new("expected exactly one character")),
            }
        }
        (Type::String, Value::String(text)) => Ok(Val::String(text.clone())),
        (Type::Bytes, value) => bytes(value, left),
        (Type::List(of), Value::Array(items)) => {
            let items = items.iter().enumerate();
            let items = items.map(|(i, item)| {
                from_json(of, item, left).map_err(|error| error.under(i.to_string()))
            });
            items.collect::<Converted<_>>().map(Val::List)
        }
        (Type::Tuple(types), Value::Array(items)) => {
            if items.len() != types.len() {
                let why = format!("expected {} items, found {}", types.len(), items.len());
                return Err(ConversionError::new(why));
            }
            let items = types.iter().zip(items).enumerate();
            let items = items.map(|(i, (of, item))| {
                from_json(of, item, left).map_err(|error| error.under(i.to_string()))
            });
            items.collect::<Converted<_>>().map(Val::Tuple)
        }
        (Type::Record(types), value) => fields(types, value, left).map(Val::Record),
        (Type::Variant(cases), value) => variant(cases, value, left),
        (Type::Enum(names), Value::String(name)) => {
            known(names, name).map(|()| Val::Enum(name.clone()))
        }
        (Type::Flags(names), Value::Array(items)) => flags(names, items).map(Val::Flags),
        (Type::Option(_), Value::Null) => Ok(Val::Option(None)),
        (Type::Option(of), Value::Object(some)) if of.may_be_null() => {
            let (name, value) = only(some, "some")?;
            let value = from_json(of, value, left).map_err(|error| error.under(name))?;
            Ok(Val::Option(Some(Box::new(value))))
        }
        (Type::Option(of), value) if !of.may_be_null() => {
            from_json(of, value, left).map(|value| Val::Option(Some(Box::new(value))))
        }
        (Type::Result(ok, error), Value::Object(side)) => {
            let side = only(side, "ok")
                .map(|found| (found, ok))
                .or_else(|_| only(side, "error").map(|found| (found, error)));
            let ((name, value), of) = side.map_err(|_| {
                ConversionError::new("expected an object with just `ok` or just `error`")
            })?;
            let value = match of.as_deref() {
                Some(of) => Some(from_json(of, value, left).map_err(|error| error.under(name))?),
                None if value.is_null() => None,
                None => return Err(expected("null", value).under(name)),
            };
            let value = value.map(Box::new);
            Ok(Val::Result(if name == "ok" { Ok(value) } else { Err(value) }))
        }
        (of, value) => Err(expected(kind(of), value)),
    }
}

fn integer(int: Int, value: &Value) -> Converted {
    let (least, most) = int.bounds();
    let number = match value {
        Value::Number(number) => number
            .as_i64()
            .map(i128::from)
            .or_else(|| number.as_u64().map(i128::from))
            .or_else(|| number.as_f64().and_then(whole)),
        Value::String(digits) if int.is_wide() => plain_digits(digits),
        _ => None,
    };
    let number = number.ok_or_else(|| expected("a whole number", value))?;
    if number < least || number > most {
        return Err(ConversionError::new(format!("{number} is not between {least} and {most}")));
    }
    let fits = || ConversionError::new("a number that does not fit");
    Ok(match int {
        Int::S8 => Val::S8(number.try_into().map_err(|_| fits())?),
        Int::U8 => Val::U8(number.try_into().map_err(|_| fits())?),
        Int::S16 => Val::S16(number.try_into().map_err(|_| fits())?),
        Int::U16 => Val::U16(number.try_into().map_err(|_| fits())?),
        Int::S32 => Val::S32(number.try_into().map_err(|_| fits())?),
        Int::U32 => Val::U32(number.try_into().map_err(|_| fits())?),
        Int::S64 => Val::S64(number.try_into().map_err(|_| fits())?),
        Int::U64 => Val::U64(number.try_into().map_err(|_| fits())?),
    })
}

/// Parses digits in the form in which [`to_json`] writes them, so not `+5`, `007` or `-0`.
fn plain_digits(text: &str) -> Option<i128> {
    let number: i128 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// Converts a number like `2.0`, which is a whole number in JSON Schema.
fn whole(number: f64) -> Option<i128> {
    #[expect(clippy::cast_precision_loss, reason = "a power of two")]
    let max = MAX_SAFE_INTEGER as f64;
    #[expect(clippy::cast_possible_truncation, reason = "whole and in bounds")]
    (number.fract() == 0.0 && number.abs() <= max).then_some(number as i128)
}

fn float(value: &Value) -> Converted<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(word) => match word.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
    .ok_or_else(|| expected("a number, or `NaN`, `Infinity` or `-Infinity` as a string", value))
}

fn bytes(value: &Value, left: &mut usize) -> Converted {
    let bytes = match value {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Object(encoded) => {
            let (_, text) = only(encoded, "base64")?;
            let text = text.as_str().ok_or_else(|| expected("a string", text).under("base64"))?;
            let decoded = STANDARD.decode(text);
            decoded.map_err(|error| {
                ConversionError::new(format!("not base64: {error}")).under("base64")
            })?
        }
        _ => return Err(expected("a string, or an object with `base64`", value)),
    };
    // The engine takes each byte as a value of its own.
    let many =
        || ConversionError::new(format!("{} bytes, over {MAX_VALUES} in one call", bytes.len()));
    *left = left.checked_sub(bytes.len()).ok_or_else(many)?;
    Ok(Val::List(bytes.into_iter().map(Val::U8).collect()))
}

fn fields(
    types: &[(String, Type)],
    value: &Value,
    left: &mut usize,
) -> Converted<Vec<(String, Val)>> {
    let Value::Object(given) = value else { return Err(expected("an object", value)) };
    if let Some(unknown) = given.keys().find(|key| types.iter().all(|(name, _)| name != *key)) {
        let names: Vec<_> = types.iter().map(|(name, _)| format!("`{name}`")).collect();
        let known = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        return Err(ConversionError::new(format!("unknown `{unknown}`; expected {known}")));
    }
    let field = |(name, of): &(String, Type)| {
        let value = match given.get(name) {
            Some(value) => from_json(of, value, left).map_err(|error| error.under(name))?,
            None if matches!(of, Type::Option(_)) => Val::Option(None),
            None => return Err(ConversionError::new(format!("`{name}` is missing"))),
        };
        Ok((name.clone(), value))
    };
    types.iter().map(field).collect()
}

fn variant(cases: &[(String, Option<Type>)], value: &Value, left: &mut usize) -> Converted {
    let of = |name: &str| cases.iter().find(|(case, _)| case == name).map(|(_, of)| of.as_ref());
    let names = || {
        let names: Vec<_> = cases.iter().map(|(name, _)| format!("`{name}`")).collect();
        names.join(", ")
    };
    match value {
        Value::String(name) => match of(name) {
            Some(None) => Ok(Val::Variant(name.clone(), None)),
            Some(Some(_)) => {
                Err(ConversionError::new(format!("`{name}` has a value: {{\"{name}\": …}}")))
            }
            None => {
                Err(ConversionError::new(format!("unknown `{name}`; expected one of {}", names())))
            }
        },
        Value::Object(map) if map.len() == 1 => {
            let Some((name, value)) = map.iter().next() else {
                return Err(expected("a case", value));
            };
            match of(name) {
                Some(Some(of)) => {
                    let value = from_json(of, value, left).map_err(|error| error.under(name))?;
                    Ok(Val::Variant(name.clone(), Some(Box::new(value))))
                }
                Some(None) => Err(ConversionError::new(format!(
                    "`{name}` has no value: write just \"{name}\""
                ))),
                None => Err(ConversionError::new(format!(
                    "unknown `{name}`; expected one of {}",
                    names()
                ))),
            }
        }
        _ => Err(expected("the name of a case, or an object with just that", value)),
    }
}

fn flags(names: &[String], items: &[Value]) -> Converted<Vec<String>> {
    let mut set: Vec<String> = vec![];
    for (i, item) in items.iter().enumerate() {
        let under = |error: ConversionError| error.under(i.to_string());
        let name = item.as_str().ok_or_else(|| under(expected("a string", item)))?;
        known(names, name).map_err(under)?;
        if set.iter().any(|other| other == name) {
            return Err(under(ConversionError::new(format!("`{name}` occurs twice"))));
        }
        set.push(name.to_owned());
    }
    Ok(set)
}

fn known(names: &[String], name: &str) -> Converted<()> {
    if names.iter().any(|known| known == name) {
        return Ok(());
    }
    let name: String = name.chars().take(60).collect();
    Err(ConversionError::new(format!("unknown `{name}`; expected one of {}", names.join(", "))))
}

/// The value of an object that has just this member.
fn only<'a>(
    map: &'a Map<String, Value>,
    name: &'static str,
) -> Converted<(&'static str, &'a Value)> {
    match map.get(name) {
        Some(value) if map.len() == 1 => Ok((name, value)),
        _ => Err(ConversionError::new(format!("expected an object with just `{name}`"))),
    }
}

fn expected(what: &str, found: &Value) -> ConversionError {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "another number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    ConversionError::new(format!("expected {what}, found {found}"))
}

fn kind(of: &Type) -> &'static str {
    match of {
        Type::Bool => "a boolean",
        Type::Char => "one character",
        Type::String | Type::Enum(_) => "a string",
        Type::List(_) | Type::Tuple(_) | Type::Flags(_) => "an array",
        Type::Option(_) => "null, or an object with just `some`",
        Type::Result(..) => "an object with just `ok` or just `error`",
        Type::Int(_) | Type::F32 | Type::F64 => "a number",
        Type::Bytes | Type::Record(_) | Type::Variant(_) => "an object",
    }
}

/// Converts a value that a component returned. `None` if the value does not have the type, which the engine rules out.
pub(super) fn to_json(of: &Type, value: &Val) -> Option<Value> {
    Some(match (of, value) {
        (Type::Bool, Val::Bool(bool)) => json!(bool),
        (Type::Int(_), value) => integer_to_json(value)?,
        // The detour over the shortest text keeps `0.1` from becoming `0.10000000149011612`.
        (Type::F32, Val::Float32(number)) => float_to_json(number.to_string().parse().ok()?),
        (Type::F64, Val::Float64(number)) => float_to_json(*number),
        (Type::Char, Val::Char(char)) => json!(char),
        (Type::String, Val::String(text)) => json!(text),
        (Type::Bytes, Val::List(items)) => bytes_to_json(items)?,
        (Type::List(of), Val::List(items)) => {
            items.iter().map(|item| to_json(of, item)).collect::<Option<_>>()?
        }
        (Type::Tuple(types), Val::Tuple(items)) if types.len() == items.len() => {
            types.iter().zip(items).map(|(of, item)| to_json(of, item)).collect::<Option<_>>()?
        }
        (Type::Record(types), Val::Record(fields)) if types.len() == fields.len() => {
            let fields = types.iter().zip(fields);
            let converted =
                fields.map(|((name, of), (_, value))| Some((name.clone(), to_json(of, value)?)));
            Value::Object(converted.collect::<Option<_>>()?)
        }
        (Type::Variant(cases), Val::Variant(name, value)) => {
            let (_, of) = cases.iter().find(|(case, _)| case == name)?;
            match (of, value) {
                (Some(of), Some(value)) => single(name, to_json(of, value)?),
                (None, None) => json!(name),
                _ => return None,
            }
        }
        (Type::Enum(_), Val::Enum(name)) => json!(name),
        (Type::Flags(_), Val::Flags(names)) => json!(names),
        (Type::Option(_), Val::Option(None)) => Value::Null,
        (Type::Option(of), Val::Option(Some(value))) => {
            let value = to_json(of, value)?;
            if of.may_be_null() { single("some", value) } else { value }
        }
        (Type::Result(ok, error), Val::Result(result)) => match result {
            Ok(value) => single("ok", payload(ok.as_deref(), value.as_deref())?),
            Err(value) => single("error", payload(error.as_deref(), value.as_deref())?),
        },
        _ => return None,
    })
}

/// Converts one side of a result; `null` if it has no value.
pub(super) fn payload(of: Option<&Type>, value: Option<&Val>) -> Option<Value> {
    match (of, value) {
        (Some(of), Some(value)) => to_json(of, value),
        (None, None) => Some(Value::Null),
        _ => None,
    }
}

fn single(name: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), value)]))
}

fn integer_to_json(value: &Val) -> Option<Value> {
    let number = match value {
        Val::S8(number) => i128::from(*number),
        Val::U8(number) => i128::from(*number),
        Val::S16(number) => i128::from(*number),
        Val::U16(number) => i128::from(*number),
        Val::S32(number) => i128::from(*number),
        Val::U32(number) => i128::from(*number),
        Val::S64(number) => i128::from(*number),
        Val::U64(number) => i128::from(*number),
        _ => return None,
    };
    match i64::try_from(number) {
        Ok(number) if i128::from(number).abs() <= MAX_SAFE_INTEGER => Some(json!(number)),
        _ => Some(json!(number.to_string())),
    }
}

fn float_to_json(number: f64) -> Value {
    match Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None if number.is_nan() => json!("NaN"),
        None if number > 0.0 => json!("Infinity"),
        None => json!("-Infinity"),
    }
}

/// Writes bytes as a string if they are printable UTF-8, or else as base64.
fn bytes_to_json(items: &[Val]) -> Option<Value> {
    let byte = |item: &Val| if let Val::U8(byte) = item { Some(*byte) } else { None };
    let bytes: Vec<u8> = items.iter().map(byte).collect::<Option<_>>()?;
    let hidden = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    Some(match std::str::from_utf8(&bytes) {
        Ok(text) if !text.contains(hidden) => json!(text),
        _ => single("base64", json!(STANDARD.encode(&bytes))),
    })
}

/// Parses JSON and refuses an object that has the same key twice, because readers disagree on which of the two values counts.
pub(super) fn parse(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str::<UniqueKeys>(text).map(|json| json.0)
}

struct UniqueKeys(Value);

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(UniqueKeysVisitor).map(Self)
    }
}

struct UniqueKeysVisitor;

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, bool: bool) -> Result<Value, E> {
        Ok(bool.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = vec![];
        while let Some(UniqueKeys(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some((name, UniqueKeys(value))) = fields.next_entry::<String, _>()? {
            if all.contains_key(&name) {
                let name: String = name.chars().take(60).collect();
                return Err(A::Error::custom(format!("`{name}` occurs twice")));
            }
            all.insert(name, value);
        }
        Ok(all.into())
    }
}
