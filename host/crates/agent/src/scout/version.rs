//! What holds for the reports of both Scouts: JSON of schema version 1, checked before anything else is read.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};

/// The version that both schemas have. A change that breaks readers raises it.
pub const SCHEMA_VERSION: &str = "1";

/// A report that is none; the text goes back to the Scout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("the report is no JSON: {0}")]
    Json(String),
    #[error("the report has schema_version {found}; this program reads \"{SCHEMA_VERSION}\"")]
    Version { found: String },
    #[error("the report does not fit the schema: {0}")]
    Schema(String),
}

#[derive(Deserialize)]
struct Versioned {
    schema_version: Option<serde_json::Value>,
}

/// Version first: a report of another version would otherwise be blamed for fields it may rightly have.
pub(super) fn checked<T: DeserializeOwned>(json: &str) -> Result<T, SchemaError> {
    let versioned: Versioned =
        serde_json::from_str(json).map_err(|error| SchemaError::Json(error.to_string()))?;
    match versioned.schema_version {
        Some(serde_json::Value::String(version)) if version == SCHEMA_VERSION => {}
        Some(found) => return Err(SchemaError::Version { found: found.to_string() }),
        None => return Err(SchemaError::Version { found: "missing".to_owned() }),
    }
    serde_json::from_str(json).map_err(|error| SchemaError::Schema(error.to_string()))
}

/// A field that may be null but not be missing.
pub(super) fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
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
}
