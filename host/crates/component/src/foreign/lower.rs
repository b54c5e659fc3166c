//! JSON as a model wrote it, into values of a component. Every refusal says where.

use std::fmt::{self, Display, Formatter};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use wasmtime::component::Val;

use super::once;
use super::types::{Int, Type};

/// Values in one call, each of which takes far more memory than its text.
const MAX_VALUES: usize = 250_000;

/// What does not fit, from the inside out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misfit {
    place: Vec<String>,
    why: String,
}

impl Misfit {
    fn new(why: impl Into<String>) -> Self {
        Self { place: vec![], why: why.into() }
    }

    fn under(mut self, name: impl Into<String>) -> Self {
        self.place.push(name.into());
        self
    }
}

impl Display for Misfit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() {
            return f.write_str(&self.why);
        }
        let place: Vec<_> = self.place.iter().rev().map(String::as_str).collect();
        write!(f, "at `{}`: {}", place.join("/"), self.why)
    }
}

type Lowered<T = Val> = Result<T, Misfit>;

/// One value for each parameter, in their order.
pub(super) fn arguments(params: &[(String, Type)], text: &str) -> Lowered<Vec<Val>> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let given = once::read(text).map_err(|error| Misfit::new(format!("no JSON: {error}")))?;
    let mut left = MAX_VALUES;
    let fields = fields(params, &given, &mut left)?;
    Ok(fields.into_iter().map(|(_, value)| value).collect())
}

fn lower(of: &Type, value: &Value, left: &mut usize) -> Lowered {
    *left = left
        .checked_sub(1)
        .ok_or_else(|| Misfit::new(format!("more than {MAX_VALUES} values in one call")))?;
    match (of, value) {
        (Type::Bool, Value::Bool(bool)) => Ok(Val::Bool(*bool)),
        (Type::Int(int), value) => integer(*int, value),
        (Type::F32, value) => {
            let number = float(value)?;
            #[expect(clippy::cast_possible_truncation, reason = "the nearest one that there is")]
            let nearest = number as f32;
            if nearest.is_infinite() && number.is_finite() {
                return Err(Misfit::new(format!("{number} is too large for an f32")));
            }
            Ok(Val::Float32(nearest))
        }
        (Type::F64, value) => float(value).map(Val::Float64),
        (Type::Char, Value::String(text)) => {
            let mut chars = text.chars();
            match (chars.next(), chars.next()) {
                (Some(char), None) => Ok(Val::Char(char)),
                _ => Err(Misfit::new("expected exactly one character")),
            }
        }
        (Type::String, Value::String(text)) => Ok(Val::String(text.clone())),
        (Type::Bytes, value) => bytes(value, left),
        (Type::List(of), Value::Array(items)) => {
            let items = items.iter().enumerate();
            let items = items.map(|(i, item)| {
                lower(of, item, left).map_err(|misfit| misfit.under(i.to_string()))
            });
            items.collect::<Lowered<_>>().map(Val::List)
        }
        (Type::Tuple(types), Value::Array(items)) => {
            if items.len() != types.len() {
                let why = format!("expected {} items, found {}", types.len(), items.len());
                return Err(Misfit::new(why));
            }
            let items = types.iter().zip(items).enumerate();
            let items = items.map(|(i, (of, item))| {
                lower(of, item, left).map_err(|misfit| misfit.under(i.to_string()))
            });
            items.collect::<Lowered<_>>().map(Val::Tuple)
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
            let value = lower(of, value, left).map_err(|misfit| misfit.under(name))?;
            Ok(Val::Option(Some(Box::new(value))))
        }
        (Type::Option(of), value) if !of.may_be_null() => {
            lower(of, value, left).map(|value| Val::Option(Some(Box::new(value))))
        }
        (Type::Result(ok, error), Value::Object(side)) => {
            let side = only(side, "ok")
                .map(|found| (found, ok))
                .or_else(|_| only(side, "error").map(|found| (found, error)));
            let ((name, value), of) =
                side.map_err(|_| Misfit::new("expected an object with just `ok` or just `error`"))?;
            let value = match of.as_deref() {
                Some(of) => Some(lower(of, value, left).map_err(|misfit| misfit.under(name))?),
                None if value.is_null() => None,
                None => return Err(expected("null", value).under(name)),
            };
            let value = value.map(Box::new);
            Ok(Val::Result(if name == "ok" { Ok(value) } else { Err(value) }))
        }
        (of, value) => Err(expected(kind(of), value)),
    }
}

fn integer(int: Int, value: &Value) -> Lowered {
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
        return Err(Misfit::new(format!("{number} is not between {least} and {most}")));
    }
    let fits = || Misfit::new("a number that does not fit");
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

/// Written as it would be answered: no `+5`, `007` or `-0`.
fn plain_digits(text: &str) -> Option<i128> {
    let number: i128 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// `2.0` is a whole number to JSON Schema.
fn whole(number: f64) -> Option<i128> {
    #[expect(clippy::cast_precision_loss, reason = "a power of two")]
    let safe = super::types::SAFE as f64;
    #[expect(clippy::cast_possible_truncation, reason = "whole and in bounds")]
    (number.fract() == 0.0 && number.abs() <= safe).then_some(number as i128)
}

fn float(value: &Value) -> Lowered<f64> {
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

fn bytes(value: &Value, left: &mut usize) -> Lowered {
    let bytes = match value {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Object(encoded) => {
            let (_, text) = only(encoded, "base64")?;
            let text = text.as_str().ok_or_else(|| expected("a string", text).under("base64"))?;
            let decoded = STANDARD.decode(text);
            decoded.map_err(|error| Misfit::new(format!("no base64: {error}")).under("base64"))?
        }
        _ => return Err(expected("a string, or an object with `base64`", value)),
    };
    // Each is a value of its own on its way through the engine.
    let many = || Misfit::new(format!("{} bytes, over {MAX_VALUES} in one call", bytes.len()));
    *left = left.checked_sub(bytes.len()).ok_or_else(many)?;
    Ok(Val::List(bytes.into_iter().map(Val::U8).collect()))
}

fn fields(
    types: &[(String, Type)],
    value: &Value,
    left: &mut usize,
) -> Lowered<Vec<(String, Val)>> {
    let Value::Object(given) = value else { return Err(expected("an object", value)) };
    if let Some(unknown) = given.keys().find(|key| types.iter().all(|(name, _)| name != *key)) {
        let names: Vec<_> = types.iter().map(|(name, _)| format!("`{name}`")).collect();
        let known = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        return Err(Misfit::new(format!("unknown `{unknown}`; expected {known}")));
    }
    let field = |(name, of): &(String, Type)| {
        let value = match given.get(name) {
            Some(value) => lower(of, value, left).map_err(|misfit| misfit.under(name))?,
            None if matches!(of, Type::Option(_)) => Val::Option(None),
            None => return Err(Misfit::new(format!("`{name}` is missing"))),
        };
        Ok((name.clone(), value))
    };
    types.iter().map(field).collect()
}

fn variant(cases: &[(String, Option<Type>)], value: &Value, left: &mut usize) -> Lowered {
    let of = |name: &str| cases.iter().find(|(case, _)| case == name).map(|(_, of)| of.as_ref());
    let names = || {
        let names: Vec<_> = cases.iter().map(|(name, _)| format!("`{name}`")).collect();
        names.join(", ")
    };
    match value {
        Value::String(name) => match of(name) {
            Some(None) => Ok(Val::Variant(name.clone(), None)),
            Some(Some(_)) => Err(Misfit::new(format!("`{name}` has a value: {{\"{name}\": …}}"))),
            None => Err(Misfit::new(format!("unknown `{name}`; expected one of {}", names()))),
        },
        Value::Object(map) if map.len() == 1 => {
            let Some((name, value)) = map.iter().next() else {
                return Err(expected("a case", value));
            };
            match of(name) {
                Some(Some(of)) => {
                    let value = lower(of, value, left).map_err(|misfit| misfit.under(name))?;
                    Ok(Val::Variant(name.clone(), Some(Box::new(value))))
                }
                Some(None) => {
                    Err(Misfit::new(format!("`{name}` has no value: write just \"{name}\"")))
                }
                None => Err(Misfit::new(format!("unknown `{name}`; expected one of {}", names()))),
            }
        }
        _ => Err(expected("the name of a case, or an object with just that", value)),
    }
}

fn flags(names: &[String], items: &[Value]) -> Lowered<Vec<String>> {
    let mut set: Vec<String> = vec![];
    for (i, item) in items.iter().enumerate() {
        let under = |misfit: Misfit| misfit.under(i.to_string());
        let name = item.as_str().ok_or_else(|| under(expected("a string", item)))?;
        known(names, name).map_err(under)?;
        if set.iter().any(|other| other == name) {
            return Err(under(Misfit::new(format!("`{name}` stands there twice"))));
        }
        set.push(name.to_owned());
    }
    Ok(set)
}

fn known(names: &[String], name: &str) -> Lowered<()> {
    if names.iter().any(|known| known == name) {
        return Ok(());
    }
    let name: String = name.chars().take(60).collect();
    Err(Misfit::new(format!("unknown `{name}`; expected one of {}", names.join(", "))))
}

/// The value of an object's one member.
fn only<'a>(map: &'a Map<String, Value>, name: &'static str) -> Lowered<(&'static str, &'a Value)> {
    match map.get(name) {
        Some(value) if map.len() == 1 => Ok((name, value)),
        _ => Err(Misfit::new(format!("expected an object with just `{name}`"))),
    }
}

fn expected(what: &str, found: &Value) -> Misfit {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "another number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    Misfit::new(format!("expected {what}, found {found}"))
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
