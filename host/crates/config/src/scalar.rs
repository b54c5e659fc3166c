//! One YAML value with its type of YAML 1.2, so that no value is converted silently: `no` and `on` are texts, only `true`
//! and `false` are booleans, and a number is never a text.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde_yaml::Spanned;

use super::ceiling::COST_LIMIT;
use super::error::{ConfigError, Position, shown};
use super::prices::cost_limit;
use act_core::Usd;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
}

pub(super) type Value = Spanned<Scalar>;

/// Maximum duration in milliseconds: a week. A longer one would be a mistake and could overflow clocks.
pub(super) const LONGEST_TIMEOUT: u64 = 7 * 24 * 3_600_000;

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl Visitor<'_> for Read {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a single value")
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar::Bool(value))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar::Integer(value.into()))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Scalar, E> {
                Ok(Scalar::Integer(value.into()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar::Float(value))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(value.to_owned()))
            }
        }

        deserializer.deserialize_any(Read)
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "the boolean {value}"),
            Self::Integer(value) => write!(f, "the number {value}"),
            Self::Float(value) => write!(f, "the number {value:?}"),
            Self::Text(value) => write!(f, "\"{}\"", shown(value)),
        }
    }
}

/// Returns the error for a value that does not fit its key.
pub(super) fn wrong(value: &Value, key: &str, expected: &str) -> ConfigError {
    ConfigError::WrongValue {
        position: Position::from(value.referenced),
        key: key.to_owned(),
        expected: expected.to_owned(),
        found: value.value.to_string(),
    }
}

/// Returns trimmed text without control characters, or `None` when it is empty.
pub(super) fn text(value: Option<&Value>, key: &str) -> Result<Option<String>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    let Scalar::Text(text) = &value.value else {
        return Err(wrong(value, key, "text (write it in quotes)"));
    };
    if text.chars().any(char::is_control) {
        return Err(wrong(value, key, "text on one line, without control characters"));
    }
    let text = text.trim();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// Returns a script, which is text of any number of lines, or `None` when it is empty.
pub(super) fn script(value: Option<&Value>, key: &str) -> Result<Option<String>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    match &value.value {
        Scalar::Text(text) if text.contains('\0') => Err(wrong(value, key, "text without NUL")),
        Scalar::Text(text) => Ok((!text.trim().is_empty()).then(|| text.clone())),
        _ => Err(wrong(value, key, "text (write it in quotes)")),
    }
}

/// Returns the meaning of one of a few words.
pub(super) fn word<T: Copy>(
    value: Option<&Value>,
    key: &str,
    words: &[(&str, T)],
) -> Result<Option<T>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    let found = words.iter().find(|(word, _)| value.value == Scalar::Text((*word).to_owned()));
    let names: Vec<_> = words.iter().map(|(word, _)| *word).collect();
    found.map(|(_, meaning)| Some(*meaning)).ok_or_else(|| wrong(value, key, &names.join(" or ")))
}

/// Returns a whole number in a range.
pub(super) fn whole(
    value: Option<&Value>,
    key: &str,
    allowed: RangeInclusive<u64>,
) -> Result<Option<u64>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    let number = match value.value {
        Scalar::Integer(number) => {
            u64::try_from(number).ok().filter(|number| allowed.contains(number))
        }
        _ => None,
    };
    number.map(Some).ok_or_else(|| {
        wrong(value, key, &format!("a whole number from {} to {}", allowed.start(), allowed.end()))
    })
}

/// Returns a whole number from 1. The word `none` means the same as a missing key.
pub(super) fn whole_or_none(value: Option<&Value>, key: &str) -> Result<Option<u64>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    if value.value == Scalar::Text("none".to_owned()) {
        return Ok(None);
    }
    whole(Some(value), key, 1..=u64::MAX)
        .map_err(|_| wrong(value, key, "a whole number from 1, or none"))
}

/// Returns a limit of the cost of a task. The word `none` means the same as a missing key. The shortest decimal text of a float is
/// the number that was written, so no digit is lost.
pub(super) fn cost_or_none(value: Option<&Value>, key: &str) -> Result<Option<Usd>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    let limit = match &value.value {
        Scalar::Text(word) if word == "none" => return Ok(None),
        Scalar::Integer(number) => cost_limit(&number.to_string()),
        Scalar::Float(number) => cost_limit(&number.to_string()),
        Scalar::Bool(_) | Scalar::Text(_) => None,
    };
    limit.map(Some).ok_or_else(|| wrong(value, key, &format!("{COST_LIMIT}, or none")))
}

/// Returns `true` or `false`.
pub(super) fn boolean(value: Option<&Value>, key: &str) -> Result<Option<bool>, ConfigError> {
    match value {
        None => Ok(None),
        Some(Spanned { value: Scalar::Bool(value), .. }) => Ok(Some(*value)),
        Some(value) => Err(wrong(value, key, "true or false")),
    }
}

/// Returns a duration of whole milliseconds, at most `largest`.
pub(super) fn milliseconds(
    value: Option<&Value>,
    key: &str,
    largest: u64,
) -> Result<Option<Duration>, ConfigError> {
    let number = whole(value, key, 1..=largest).map_err(|error| match error {
        ConfigError::WrongValue { position, key, found, .. } => {
            let expected = format!("a whole number of milliseconds from 1 to {largest}");
            ConfigError::WrongValue { position, key, expected, found }
        }
        other => other,
    })?;
    Ok(number.map(Duration::from_millis))
}

/// Returns a number of processors, which may be a fraction.
pub(super) fn cpus(value: Option<&Value>, key: &str) -> Result<Option<f64>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    let number = match value.value {
        Scalar::Integer(number) => number as f64,
        Scalar::Float(number) => number,
        _ => f64::NAN,
    };
    let fits = (0.01..=1024.0).contains(&number);
    if fits { Ok(Some(number)) } else { Err(wrong(value, key, "a number from 0.01 to 1024")) }
}
