//! Values that exist only at run time, put into a turn's texts from the request that asks for it.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

#[expect(clippy::expect_used, reason = "constant patterns, compiled by every test")]
static RUN_ID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"run_\d{8}_\d{6}_[a-z0-9]{6}").expect("a valid pattern"));

/// A tool's result is JSON inside JSON, so its quotes come escaped.
#[expect(clippy::expect_used, reason = "constant patterns, compiled by every test")]
static VERSION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"\\*"(?:new_|current_)?version\\*"\s*:\s*(\d+)"#).expect("a valid pattern")
});

/// What one request offers.
pub(super) struct Values {
    n: u32,
    run_ids: Vec<String>,
    last_version: Option<u64>,
}

impl Values {
    pub(super) fn new(n: u32, request: &str) -> Self {
        let mut run_ids: Vec<String> = vec![];
        for id in RUN_ID.find_iter(request) {
            // Each once, the one named last at the end.
            run_ids.retain(|known| known != id.as_str());
            run_ids.push(id.as_str().to_owned());
        }
        let last_version =
            VERSION.captures_iter(request).last().and_then(|found| found[1].parse().ok());
        Self { n, run_ids, last_version }
    }

    /// A placeholder without a value stays as it is, so that it shows.
    pub(super) fn text(&self, text: &str) -> String {
        if !text.contains("{{") {
            return text.to_owned();
        }
        let mut text = text.replace("{{n}}", &self.n.to_string());
        if let Some(last) = self.run_ids.last() {
            text = text
                .replace("{{last_run_id}}", last)
                .replace("{{run_ids}}", &self.run_ids.join(", "));
        }
        if let Some(version) = self.last_version {
            text = text.replace("{{last_version}}", &version.to_string());
        }
        text
    }

    /// In every text of a value. A text that is nothing but a counting placeholder becomes a number.
    pub(super) fn json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => match (text.as_str(), self.last_version) {
                ("{{n}}", _) => self.n.into(),
                ("{{last_version}}", Some(version)) => version.into(),
                _ => self.text(text).into(),
            },
            Value::Array(items) => items.iter().map(|item| self.json(item)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone(), self.json(value))).collect()
            }
            other => other.clone(),
        }
    }
}
