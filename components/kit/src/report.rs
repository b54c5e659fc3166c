//! What every Scout's report has in common: its schema stands in the manifest, and its version is known.

use crate::world::Failure;
use serde_json::Value;

/// The schema that the manifest declares, which is the one that the model is given.
pub fn schema(manifest: &str) -> Result<String, Failure> {
    serde_json::from_str::<Value>(manifest)
        .map(|manifest| manifest["report"].to_string())
        .map_err(|error| Failure::Other(error.to_string()))
}

/// The version, if the model wrote one, must be 1.
pub fn check_version(said: &Value) -> Result<(), String> {
    let ours = match said {
        Value::Null => true,
        Value::String(version) => version == "1",
        Value::Number(version) => version.as_u64() == Some(1),
        _ => false,
    };
    if ours { Ok(()) } else { Err(format!("schema_version is {said}, not \"1\"")) }
}
