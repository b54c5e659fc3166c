//! One YAML value with its type of YAML 1.2, so that no value is converted silently: `no` and `on` are texts, only `true`
//! and `false` are booleans, and a number is never a text.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde_yaml::Spanned;

use super::error::{ConfigError, Place, shown};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
}

pub(super) type Value = Spanned<Scalar>;

/// Longest duration: a week. Longer ones would be mistakes and could overflow clocks.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

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

pub(super) fn wrong(value: &Value, key: &str, expected: &str) -> ConfigError {
    ConfigError::WrongValue {
        place: Place::from(value.referenced),
        key: key.to_owned(),
        expected: expected.to_owned(),
        found: value.value.to_string(),
    }
}

/// Text without control characters, trimmed; None when nothing is left of it.
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

/// A script: text of any number of lines.
pub(super) fn script(value: Option<&Value>, key: &str) -> Result<Option<String>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    match &value.value {
        Scalar::Text(text) if text.contains('\0') => Err(wrong(value, key, "text without NUL")),
        Scalar::Text(text) => Ok((!text.trim().is_empty()).then(|| text.clone())),
        _ => Err(wrong(value, key, "text (write it in quotes)")),
    }
}

/// One of a few words; the first is the default.
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

/// A whole number from 1, or the word `none`, which is the same as leaving the key out.
pub(super) fn whole_or_none(value: Option<&Value>, key: &str) -> Result<Option<u64>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    if value.value == Scalar::Text("none".to_owned()) {
        return Ok(None);
    }
    whole(Some(value), key, 1..=u64::MAX)
        .map_err(|_| wrong(value, key, "a whole number from 1, or none"))
}

pub(super) fn boolean(value: Option<&Value>, key: &str) -> Result<Option<bool>, ConfigError> {
    match value {
        None => Ok(None),
        Some(Spanned { value: Scalar::Bool(value), .. }) => Ok(Some(*value)),
        Some(value) => Err(wrong(value, key, "true or false")),
    }
}

pub(super) fn milliseconds(
    value: Option<&Value>,
    key: &str,
) -> Result<Option<Duration>, ConfigError> {
    let largest = LONGEST.as_millis() as u64;
    let number = whole(value, key, 1..=largest).map_err(|error| match error {
        ConfigError::WrongValue { place, key, found, .. } => {
            let expected = format!("a whole number of milliseconds from 1 to {largest}");
            ConfigError::WrongValue { place, key, expected, found }
        }
        other => other,
    })?;
    Ok(number.map(Duration::from_millis))
}

/// A number of processors, also in parts.
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
