//! The report of a Scout that somebody added: JSON that fits the schema in its manifest.

use std::sync::Arc;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// Of what is wrong with a report, told to its author.
const MAX_ERRORS: usize = 5;
const MAX_LINE: usize = 200;

/// Clones share the schema.
#[derive(Debug, Clone)]
pub struct OwnReport(Option<Arc<Validator>>);

impl OwnReport {
    /// Patterns take linear time, and nothing is fetched for a schema.
    pub fn new(schema: Option<&str>) -> Result<Self, String> {
        let Some(schema) = schema else { return Ok(Self(None)) };
        let schema: Value = serde_json::from_str(schema).map_err(|error| error.to_string())?;
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        let validator = options.build(&schema).map_err(|error| error.to_string())?;
        Ok(Self(Some(Arc::new(validator))))
    }

    /// One line about the report, or what does not fit.
    pub fn check(&self, raw: &str) -> Result<String, String> {
        let report: Value =
            serde_json::from_str(raw).map_err(|error| format!("the report is no JSON: {error}"))?;
        self.fits(&report).map_err(|why| format!("the report does not fit its schema: {why}"))?;
        Ok(summary(&report))
    }

    /// Whether a value fits the schema, or where it does not.
    pub fn fits(&self, value: &Value) -> Result<(), String> {
        let errors = self.0.iter().flat_map(|schema| schema.iter_errors(value));
        let wrong: Vec<_> = errors
            .take(MAX_ERRORS)
            .map(|error| one_line(&format!("{}: {}", error.instance_path(), error.masked())))
            .collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }
}

/// Whether reports can be judged by it; none is judged by nothing.
pub fn report_schema(schema: Option<&str>) -> Result<(), String> {
    OwnReport::new(schema).map(|_| ())
}

/// What it calls its summary, else which parts it has.
fn summary(report: &Value) -> String {
    if let Some(summary) = report.get("summary").and_then(Value::as_str) {
        return one_line(summary);
    }
    match report {
        Value::Object(fields) => one_line(&fields.keys().cloned().collect::<Vec<_>>().join(", ")),
        other => one_line(&other.to_string()),
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_LINE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // CAPABILITY-28
    #[test]
    fn a_report_fits_the_schema_of_its_scout() {
        let schema = r#"{"type":"object","required":["files"],"additionalProperties":false,
            "properties":{"files":{"type":"array","items":{"type":"string"}},"summary":{"type":"string"}}}"#;
        let report = OwnReport::new(Some(schema)).unwrap();
        assert_eq!(report.check(r#"{"files":["a"],"summary":"two\nlines"}"#).unwrap(), "two lines");
        assert_eq!(report.check(r#"{"files":[]}"#).unwrap(), "files");
        for (bad, says) in [("[", "no JSON"), ("{}", "files"), (r#"{"files":[1]}"#, "/files/0")] {
            let wrong = report.check(bad).unwrap_err();
            assert!(wrong.contains(says), "{wrong}");
        }
        assert!(OwnReport::new(None).unwrap().check("[1]").is_ok());
        assert!(OwnReport::new(Some(r#"{"type":"nothing"}"#)).is_err());
        assert!(
            OwnReport::new(Some(r#"{"$ref":"https://example.com/x"}"#)).is_err(),
            "nothing is fetched"
        );
    }
}
