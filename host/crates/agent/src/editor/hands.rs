//! What the Editor edits with: the tools of a component, and the record of what they changed.

use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use act_model::ToolSpec;
use act_workspace::{ChangedFile, FileText, Untested};

/// What a tool answers, as JSON text for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub json: String,
    pub is_error: bool,
}

#[derive(Deserialize)]
struct Head {
    ok: bool,
    reason: Option<String>,
}

impl Head {
    fn of(text: &str) -> Option<Self> {
        // A struct may also be read from a list.
        text.trim_start().starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
    }

    fn fits(&self, is_error: bool) -> bool {
        self.ok != is_error && (self.ok || self.reason.is_some())
    }
}

/// What has no such head of its own, with one.
#[derive(Serialize)]
struct Told<'a> {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RawValue>,
}

impl Answer {
    /// What a component said. Whatever its author makes it say, the model reads `{ok:true,…}` or
    /// `{ok:false,reason,…}`.
    pub fn said(text: String, is_error: bool) -> Self {
        if Head::of(&text).is_some_and(|head| head.fits(is_error)) {
            return Self { json: text, is_error };
        }
        // Byte for byte where it is JSON, else as a text.
        let json = serde_json::from_str(&text).or_else(|_| serde_json::value::to_raw_value(&text));
        let said: Option<&RawValue> = json.as_deref().ok();
        let told = match is_error {
            false => Told { ok: true, reason: None, result: said, error: None },
            true => Told { ok: false, reason: Some("tool_failed"), result: None, error: said },
        };
        Self { json: serde_json::to_string(&told).unwrap_or_default(), is_error }
    }

    pub fn refusal(reason: &str, message: &str) -> Self {
        let json = serde_json::json!({"ok": false, "reason": reason, "message": message});
        Self { json: json.to_string(), is_error: true }
    }
}

pub trait Hands: Send + Sync {
    fn tools(&self) -> Vec<ToolSpec>;
    /// Never fails as a call: a trap or a limit is an answer that the model can act on.
    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a str,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Answer>;
    /// Files that differ from what they were when the task began, by path.
    fn changed(&self) -> Vec<ChangedFile>;
    /// What a changed file held before the task and holds by it.
    fn text(&self, path: &str) -> FileText;
    /// Changed files that a verification would not see now.
    fn untested(&self) -> Vec<Untested>;
    /// How many edits each rule refused, by its word.
    fn refused(&self) -> BTreeMap<String, u64>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_component_says_reaches_the_model_as_an_answer() {
        // CAPABILITY-29
        let said = |text: &str, is_error| Answer::said(text.to_owned(), is_error).json;
        for whole in [r#"{ "ok": true, "x": [1] }"#, r#"{"ok":true,"new_version":2}"#] {
            assert_eq!(said(whole, false), whole);
        }
        let refused = r#"{"ok":false,"reason":"not_found","message":"m"}"#;
        assert_eq!(said(refused, true), refused);
        for (text, is_error, answer) in [
            ("no notes", false, r#"{"ok":true,"result":"no notes"}"#),
            ("", false, r#"{"ok":true,"result":""}"#),
            ("[1,2]", false, r#"{"ok":true,"result":[1,2]}"#),
            (r#"{"ok":"yes"}"#, false, r#"{"ok":true,"result":{"ok":"yes"}}"#),
            ("[true]", false, r#"{"ok":true,"result":[true]}"#),
            (
                "123456789012345678901234567890",
                false,
                r#"{"ok":true,"result":123456789012345678901234567890}"#,
            ),
            (
                r#"{"ok":false}"#,
                true,
                r#"{"ok":false,"reason":"tool_failed","error":{"ok":false}}"#,
            ),
            (r#"{"ok":false}"#, false, r#"{"ok":true,"result":{"ok":false}}"#),
            ("no such file", true, r#"{"ok":false,"reason":"tool_failed","error":"no such file"}"#),
            (r#"{"ok":true}"#, true, r#"{"ok":false,"reason":"tool_failed","error":{"ok":true}}"#),
        ] {
            assert_eq!(said(text, is_error), answer);
        }
    }
}
