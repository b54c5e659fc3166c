//! Keys: values that cannot be printed, and their redaction in texts for people, files or models.
//!
//! Only the code that writes the header of a request reads a key; all other code can only pass it on.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Replaces a key in a text.
pub const REDACTED: &str = "[redacted]";

/// Minimum length in bytes. Shorter values are placeholders for local servers ("none", "x"); replacing them would only
/// make texts unreadable.
const SHORTEST: usize = 5;

/// Length in bytes from which a value cannot appear in a text by accident. Keys of providers are longer.
const UNMISTAKABLE: usize = 16;

/// Variables that hold keys, used or not.
const VARIABLES: [&str; 2] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"];

/// A key. It prints as [`REDACTED`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a key.
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// Returns the value, for the header of a request.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

/// Every key of this process. Texts are passed through `redact` before they leave it.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    values: Arc<[Secret]>,
}

impl Secrets {
    /// Collects keys; values that are too short to be keys are left out.
    pub fn new(values: impl IntoIterator<Item = Secret>) -> Self {
        let mut values: Vec<_> = values.into_iter().filter(|key| key.0.len() >= SHORTEST).collect();
        // The longest first, so that a key which contains another one disappears whole.
        values.sort_by_key(|key| std::cmp::Reverse(key.0.len()));
        Self { values: values.into() }
    }

    /// Collects every key of an environment.
    pub fn of(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let set = VARIABLES.iter().filter_map(|name| lookup(name));
        Self::new(set.map(|key| Secret::new(key.trim())))
    }

    /// Returns the keys without placeholders for local servers, to check the texts of people.
    pub fn unmistakable(&self) -> Self {
        let values = self.values.iter().filter(|key| key.0.len() >= UNMISTAKABLE);
        Self { values: values.cloned().collect() }
    }

    /// Returns whether a text contains one of the keys.
    pub fn are_in(&self, text: &str) -> bool {
        matches!(self.redact(text), Cow::Owned(_))
    }

    /// Replaces each key in a text, in its plain form and as JSON escapes it.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for key in self.values.iter() {
            let escaped = serde_json::Value::from(key.expose()).to_string();
            let escaped = &escaped[1..escaped.len() - 1];
            for form in [escaped, key.expose()] {
                if text.contains(form) {
                    text = Cow::Owned(text.replace(form, REDACTED));
                }
            }
        }
        text
    }

    /// Replaces each key in bytes that may not be UTF-8; other bytes are unchanged.
    pub fn redact_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            out.extend(self.redact(chunk.valid()).as_bytes());
            out.extend(chunk.invalid());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // security line 162
    #[test]
    fn a_key_cannot_be_printed() {
        let key = Secret::new("sk-canary-1234");
        assert_eq!(
            format!("{key} {key:?} {:?}", Some(&key)),
            "[redacted] [redacted] Some([redacted])"
        );
        assert!(!format!("{:?}", Secrets::new([key])).contains("canary"));
    }

    #[test]
    fn every_occurrence_is_replaced_also_when_escaped() {
        let secrets = Secrets::new([Secret::new("sk-12"), Secret::new("sk-12\"34")]);
        let text = secrets.redact(r#"a sk-12"34 b sk-12\"34 c sk-12."#);
        assert_eq!(text, "a [redacted] b [redacted] c [redacted].");
    }

    #[test]
    fn placeholders_do_not_eat_ordinary_text() {
        assert_eq!(Secrets::new([Secret::new("none")]).redact("none of it"), "none of it");
    }
}
