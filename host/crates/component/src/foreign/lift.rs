//! Values that a component answered, as JSON in the same form that `lower` takes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value, json};
use wasmtime::component::Val;

use super::types::{SAFE, Type};

/// None where the value is not of the type, which the engine has already seen to.
pub(super) fn lift(of: &Type, value: &Val) -> Option<Value> {
    Some(match (of, value) {
        (Type::Bool, Val::Bool(bool)) => json!(bool),
        (Type::Int(_), value) => integer(value)?,
        // By way of its shortest text: as a longer number it would have digits that nobody wrote.
        (Type::F32, Val::Float32(number)) => float(number.to_string().parse().ok()?),
        (Type::F64, Val::Float64(number)) => float(*number),
        (Type::Char, Val::Char(char)) => json!(char),
        (Type::String, Val::String(text)) => json!(text),
        (Type::Bytes, Val::List(items)) => bytes(items)?,
        (Type::List(of), Val::List(items)) => {
            items.iter().map(|item| lift(of, item)).collect::<Option<_>>()?
        }
        (Type::Tuple(types), Val::Tuple(items)) if types.len() == items.len() => {
            types.iter().zip(items).map(|(of, item)| lift(of, item)).collect::<Option<_>>()?
        }
        (Type::Record(types), Val::Record(fields)) if types.len() == fields.len() => {
            let fields = types.iter().zip(fields);
            let lifted =
                fields.map(|((name, of), (_, value))| Some((name.clone(), lift(of, value)?)));
            Value::Object(lifted.collect::<Option<_>>()?)
        }
        (Type::Variant(cases), Val::Variant(name, value)) => {
            let (_, of) = cases.iter().find(|(case, _)| case == name)?;
            match (of, value) {
                (Some(of), Some(value)) => single(name, lift(of, value)?),
                (None, None) => json!(name),
                _ => return None,
            }
        }
        (Type::Enum(_), Val::Enum(name)) => json!(name),
        (Type::Flags(_), Val::Flags(names)) => json!(names),
        (Type::Option(_), Val::Option(None)) => Value::Null,
        (Type::Option(of), Val::Option(Some(value))) => {
            let value = lift(of, value)?;
            if of.may_be_null() { single("some", value) } else { value }
        }
        (Type::Result(ok, error), Val::Result(result)) => match result {
            Ok(value) => single("ok", payload(ok.as_deref(), value.as_deref())?),
            Err(value) => single("error", payload(error.as_deref(), value.as_deref())?),
        },
        _ => return None,
    })
}

/// One side of a result; `null` where it has no value.
pub(super) fn payload(of: Option<&Type>, value: Option<&Val>) -> Option<Value> {
    match (of, value) {
        (Some(of), Some(value)) => lift(of, value),
        (None, None) => Some(Value::Null),
        _ => None,
    }
}

fn single(name: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), value)]))
}

fn integer(value: &Val) -> Option<Value> {
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
        Ok(number) if i128::from(number).abs() <= SAFE => Some(json!(number)),
        _ => Some(json!(number.to_string())),
    }
}

fn float(number: f64) -> Value {
    match Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None if number.is_nan() => json!("NaN"),
        None if number > 0.0 => json!("Infinity"),
        None => json!("-Infinity"),
    }
}

/// Text where it is text that a reader can see, else encoded.
fn bytes(items: &[Val]) -> Option<Value> {
    let byte = |item: &Val| if let Val::U8(byte) = item { Some(*byte) } else { None };
    let bytes: Vec<u8> = items.iter().map(byte).collect::<Option<_>>()?;
    let hidden = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    Some(match std::str::from_utf8(&bytes) {
        Ok(text) if !text.contains(hidden) => json!(text),
        _ => single("base64", json!(STANDARD.encode(&bytes))),
    })
}
