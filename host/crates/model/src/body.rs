//! Bodies of requests as text: a head that never changes, items that only grow, a tail for this turn.
//!
//! The items stand last but for the tail, so everything before it is a byte prefix of the next turn's body
//! and a provider's prompt cache can hold all of it.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

pub(super) struct Growing {
    head: String,
    /// JSON texts, separated by commas.
    items: String,
}

impl Growing {
    /// `head` ends where the list of items begins, with its bracket.
    pub(super) fn new(head: String) -> Self {
        Self { head, items: String::new() }
    }

    pub(super) fn add(&mut self, item: &str) {
        if !self.items.is_empty() {
            self.items.push(',');
        }
        self.items.push_str(item);
    }

    /// `tail` begins with a comma or is empty; the list and the whole are closed here.
    pub(super) fn body(&self, tail: &str) -> Bytes {
        let mut body = String::with_capacity(self.head.len() + self.items.len() + tail.len() + 2);
        body.push_str(&self.head);
        body.push_str(&self.items);
        body.push(']');
        body.push_str(tail);
        body.push('}');
        body.into()
    }
}

/// Without the white space people put in; keys keep their order.
pub(super) fn compact(text: &str) -> Option<Box<RawValue>> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    serde_json::value::to_raw_value(&value).ok()
}

/// JSON of what cannot fail: strings, lists and structs of them.
pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
