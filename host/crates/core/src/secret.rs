//! Keys: values that cannot be printed, and their redaction in texts for people, files or models.
//!
//! Only the code that writes the header of a request reads a key; all other code can only pass it on.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// Replaces a key in a text.
pub const REDACTED: &str = "[redacted]";

/// Minimum length in bytes. Shorter values are placeholders for local servers ("none", "x"); replacing them would only
/// make texts unreadable.
const SHORTEST: usize = 5;

/// Length in bytes from which a value cannot appear in a text by accident. Keys of providers are longer.
const UNMISTAKABLE: usize = 16;

/// Variables that hold keys, used or not.
const VARIABLES: [&str; 2] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"];

/// The keys that [`Secret::learned`] wrapped. They are of the process and not of one [`Secrets`], because a command may
/// print its key long after the sinks that redact it were opened.
static LEARNED: RwLock<Vec<Secret>> = RwLock::new(vec![]);

/// A key. It prints as [`REDACTED`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a key.
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// Wraps a key that does not come from a known variable of the environment but from a file or from a command. Every
    /// [`Secrets`] of this process redacts it from now on, those that exist already included.
    pub fn learned(value: impl Into<Arc<str>>) -> Self {
        let key = Self::new(value);
        let mut learned = LEARNED.write().unwrap_or_else(PoisonError::into_inner);
        if !learned.contains(&key) {
            learned.push(key.clone());
            // The longest first, as in `Secrets::new`.
            learned.sort_by_key(|key| std::cmp::Reverse(key.0.len()));
        }
        key
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
#[derive(Debug, Clone)]
pub struct Secrets {
    values: Arc<[Secret]>,
    /// Minimum length in bytes of a key that is redacted.
    shortest: usize,
}

impl Default for Secrets {
    fn default() -> Self {
        Self { values: Arc::default(), shortest: SHORTEST }
    }
}

impl Secrets {
    /// Collects keys; values that are too short to be keys are left out.
    pub fn new(values: impl IntoIterator<Item = Secret>) -> Self {
        let mut values: Vec<_> = values.into_iter().filter(|key| key.0.len() >= SHORTEST).collect();
        // The longest first, so that a key which contains another one disappears whole.
        values.sort_by_key(|key| std::cmp::Reverse(key.0.len()));
        Self { values: values.into(), shortest: SHORTEST }
    }

    /// Collects every key of an environment.
    pub fn of(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let set = VARIABLES.iter().filter_map(|name| lookup(name));
        Self::new(set.map(|key| Secret::new(key.trim())))
    }

    /// Returns the keys without placeholders for local servers, to check the texts of people.
    pub fn unmistakable(&self) -> Self {
        Self { values: Arc::clone(&self.values), shortest: UNMISTAKABLE }
    }

    /// Returns whether a text contains one of the keys.
    pub fn are_in(&self, text: &str) -> bool {
        matches!(self.redact(text), Cow::Owned(_))
    }

    /// Replaces each key in a text, in its plain form and as JSON escapes it.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        let learned = LEARNED.read().unwrap_or_else(PoisonError::into_inner);
        let keys = self.values.iter().chain(learned.iter());
        for key in keys.filter(|key| key.0.len() >= self.shortest) {
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
    fn a_key_that_is_learned_later_is_redacted_by_those_who_were_there_before() {
        let before = Secrets::new([]);
        let key = Secret::learned("sk-learned-key");
        assert_eq!(before.redact("a sk-learned-key b"), "a [redacted] b");
        assert_eq!(before.unmistakable().redact("a sk-learned-key b"), "a sk-learned-key b");
        assert_eq!(format!("{key}"), "[redacted]");
        Secret::learned("no");
        assert_eq!(before.redact("no"), "no");
    }

    #[test]
    fn placeholders_do_not_eat_ordinary_text() {
        assert_eq!(Secrets::new([Secret::new("none")]).redact("none of it"), "none of it");
    }
}
