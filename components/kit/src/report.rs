//! Functions for the reports of all Scouts.

pub use act_reports::version::check_written_by_model as check_version;

use crate::world::Failure;
use serde_json::Value;

/// Returns the report's schema from a manifest. The model is given this one, so that it cannot differ from the one that
/// the host checks.
///
/// # Errors
///
/// [`Failure::Other`] when the manifest is no JSON.
pub fn schema(manifest: &str) -> Result<String, Failure> {
    serde_json::from_str::<Value>(manifest)
        .map(|manifest| manifest["report"].to_string())
        .map_err(|error| Failure::Other(error.to_string()))
}
