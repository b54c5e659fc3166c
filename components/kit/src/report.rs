//! Functions for the reports of all Scouts.

pub use act_reports::version::check_written_by_model as check_version;

use crate::world::{Failure, Question};
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

impl Question {
    /// Returns whether the host wants a report that is made of facts alone, in the schema of every other report. With
    /// `facts-only` and without this context, the answer is the facts in their own schema.
    pub fn wants_report_of_facts(&self) -> bool {
        self.facts_only && self.context("form") == Some("report")
    }
}
