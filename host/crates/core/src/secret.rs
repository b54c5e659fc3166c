//! Keys: values that cannot be printed, and their removal from text on its way to people, files or models.
//!
//! A key is shown to exactly one place, the header of a request; everybody else can only hold it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// What replaces a key in text.
pub const REDACTED: &str = "[redacted]";

/// Shorter values are placeholders that local servers want ("none", "x"), and replacing them would only
/// make text unreadable.
const SHORTEST: usize = 5;

/// Bytes of a value that nobody writes by accident; keys of providers are longer.
const UNMISTAKABLE: usize = 16;

/// Variables that hold keys, used or not.
const VARIABLES: [&str; 2] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"];

#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one header that carries it.
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

/// Every key of this process; what is about to leave goes through `redact`.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    values: Arc<[Secret]>,
}

impl Secrets {
    pub fn new(values: impl IntoIterator<Item = Secret>) -> Self {
        let mut values: Vec<_> = values.into_iter().filter(|key| key.0.len() >= SHORTEST).collect();
        // The longest first, so that a key which contains another one disappears whole.
        values.sort_by_key(|key| std::cmp::Reverse(key.0.len()));
        Self { values: values.into() }
    }

    /// Every key of an environment.
    pub fn of(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let set = VARIABLES.iter().filter_map(|name| lookup(name));
        Self::new(set.map(|key| Secret::new(key.trim())))
    }

    /// Without those that are words or placeholders of a local server rather than keys, to judge what people write.
    pub fn unmistakable(&self) -> Self {
        let values = self.values.iter().filter(|key| key.0.len() >= UNMISTAKABLE);
        Self { values: values.cloned().collect() }
    }

    /// Whether a text shows one of them.
    pub fn are_in(&self, text: &str) -> bool {
        matches!(self.redact(text), Cow::Owned(_))
    }

    /// The text with each key replaced, as it is and as JSON would escape it.
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

    /// The same of what may be no text; bytes that are none stay as they are.
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
