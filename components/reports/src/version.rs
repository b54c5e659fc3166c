//! The schema version, which is checked before anything else of a report is read.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use std::fmt;

/// The version of all four schemas. A change that breaks readers raises it.
pub const SCHEMA_VERSION: &str = "1";

/// The version as a report holds it. A model may leave it out or write a number, so a Scout takes any JSON value and
/// judges it with [`check_written_by_model`].
#[cfg(not(feature = "lenient"))]
pub type SchemaVersion = String;
/// The version as a report holds it. A model may leave it out or write a number, so a Scout takes any JSON value and
/// judges it with [`check_written_by_model`].
#[cfg(feature = "lenient")]
pub type SchemaVersion = serde_json::Value;

/// The reason why a text is no report. The Scout is shown it when it is asked again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaError {
    /// The text is no JSON object.
    Json(String),
    /// The schema version is another one, or missing.
    Version {
        /// The version as it is written in the report.
        found: String,
    },
    /// A field is missing, unknown or of the wrong type.
    Schema(String),
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(why) => write!(f, "the report is no JSON: {why}"),
            Self::Version { found } => write!(
                f,
                "the report has schema_version {found}; this program reads \"{SCHEMA_VERSION}\""
            ),
            Self::Schema(why) => write!(f, "the report does not fit the schema: {why}"),
        }
    }
}

impl std::error::Error for SchemaError {}

#[derive(Deserialize)]
struct Versioned {
    schema_version: Option<serde_json::Value>,
}

/// Reads a report or facts after checking the version. A report of another version would otherwise be refused for fields
/// that it may rightly have.
///
/// # Errors
///
/// [`SchemaError::Json`] when the text is no JSON object, [`SchemaError::Version`] when its version is not
/// [`SCHEMA_VERSION`], [`SchemaError::Schema`] when a field does not fit `T`.
pub fn checked<T: DeserializeOwned>(json: &str) -> Result<T, SchemaError> {
    let versioned: Versioned =
        serde_json::from_str(json).map_err(|error| SchemaError::Json(error.to_string()))?;
    match versioned.schema_version {
        Some(serde_json::Value::String(version)) if version == SCHEMA_VERSION => {}
        Some(found) => return Err(SchemaError::Version { found: found.to_string() }),
        None => return Err(SchemaError::Version { found: "missing".to_owned() }),
    }
    serde_json::from_str(json).map_err(|error| SchemaError::Schema(error.to_string()))
}

/// Accepts the version that a model wrote into its report: none, `"1"` or `1`.
///
/// # Errors
///
/// Returns a sentence for the model when the value is any other version.
pub fn check_written_by_model(written: &serde_json::Value) -> Result<(), String> {
    let is_known = match written {
        serde_json::Value::Null => true,
        serde_json::Value::String(version) => version == SCHEMA_VERSION,
        serde_json::Value::Number(version) => version.as_u64() == Some(1),
        _ => false,
    };
    match is_known {
        true => Ok(()),
        false => Err(format!("schema_version is {written}, not \"{SCHEMA_VERSION}\"")),
    }
}

/// Reads a field that may be null. Unlike a plain `Option` it may not be missing, unless the struct has defaults.
pub(crate) fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Option::deserialize(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    // SCOUT-7
    #[test]
    fn another_version_is_named_before_anything_else_is_read() {
        let error = |json: &str| checked::<serde_json::Value>(json).unwrap_err().to_string();
        assert_eq!(
            error(r#"{"schema_version":"2","new":1}"#),
            "the report has schema_version \"2\"; this program reads \"1\""
        );
        assert!(error(r#"{"schema_version":1}"#).contains("schema_version 1;"));
        assert!(error("{}").contains("schema_version missing;"));
        assert!(error("[]").starts_with("the report is no JSON"));
        assert!(checked::<serde_json::Value>(r#"{"schema_version":"1"}"#).is_ok());
    }

    #[test]
    fn a_model_may_leave_the_version_out_or_write_a_number() {
        for known in ["null", "1", "\"1\""] {
            let known = serde_json::from_str(known).unwrap();
            assert_eq!(check_written_by_model(&known), Ok(()), "{known}");
        }
        for other in ["2", "\"2\"", "1.0", "[]", "true"] {
            let other = serde_json::from_str(other).unwrap();
            assert!(check_written_by_model(&other).unwrap_err().starts_with("schema_version is "));
        }
    }
}
