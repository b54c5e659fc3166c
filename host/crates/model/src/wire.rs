//! The differences between providers: how a conversation becomes a request and a stream becomes a turn.
//!
//! Connections, deadlines, events, counts and the order of calls are the same for all and lie in the files beside this
//! one. A wire stores what its provider sent unchanged.

use std::ops::ControlFlow;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ModelError, ModelUsage, ToolResult, Turn, error};

/// The names under which the user knows a wire and its settings, for messages, and the path of its requests.
#[derive(Debug, Clone, Copy)]
pub struct Service {
    pub wire: &'static str,
    pub key_variable: &'static str,
    /// With what an address has or lacks at its end.
    pub address_variable: &'static str,
    /// Segments behind the base address.
    pub(super) path: &'static [&'static str],
}

pub(super) trait Wire: Send + Sync {
    fn service(&self) -> Service;
    /// The headers that only this provider wants, the one with the key among them; None if the key cannot
    /// be sent.
    fn headers(&self, key: Option<&str>) -> Option<HeaderMap>;
    fn prompt(&self, opening: &Opening<'_>) -> Box<dyn Prompt>;
    fn stream(&self) -> Box<dyn StreamParser>;
}

/// Parses one event of a stream; `wrong` is the message for an event of another shape.
pub(super) fn event<'a, T: Deserialize<'a>>(
    payload: &'a str,
    wrong: &str,
) -> Result<T, ModelError> {
    serde_json::from_str(payload)
        .map_err(|_| ModelError::malformed(format!("{wrong}: {}", error::excerpt(payload))))
}

/// The fixed beginning of a conversation.
pub(super) struct Opening<'a> {
    pub(super) model: &'a str,
    pub(super) role: &'a str,
    /// The system prompt, with the line that names the role.
    pub(super) system: &'a str,
    pub(super) tools: &'a [Offer<'a>],
}

/// A tool as it is offered; its schema is JSON without needless white space.
pub(super) struct Offer<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) schema: Box<RawValue>,
}

/// The conversation so far, in the format of the provider. It only grows.
pub(super) trait Prompt: Send {
    fn user(&mut self, text: &str);
    /// The answers to all calls of the last turn, in the order of the calls.
    fn results(&mut self, results: &[&ToolResult]);
    /// Adds the turn of the model, as its stream produced it.
    fn assistant(&mut self, items: Vec<String>);
    fn body(&self, limits: &Limits) -> Bytes;
}

/// Options of one request.
#[derive(Default)]
pub(super) struct Limits {
    pub(super) max_tokens: Option<u32>,
    pub(super) output: Option<Box<RawValue>>,
}

/// Builds a turn from the payloads of a stream.
pub(super) trait StreamParser: Send {
    fn payload(&mut self, payload: &str) -> Result<ControlFlow<()>, ModelError>;
    /// Returns whether the end of the turn has arrived; only token counts may follow.
    fn complete(&self) -> bool;
    fn counts(&self) -> Counts;
    /// Returns the finished turn. `invented` counts the ids of calls that arrived without a usable id.
    fn reply(self: Box<Self>, invented: &mut u64) -> Result<Reply, ModelError>;
}

/// A complete turn, and the items that represent it in later requests; there may be none.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) turn: Turn,
    /// JSON texts for [`Prompt::assistant`].
    pub(super) assistant_items: Vec<String>,
}

/// The token counts of the provider so far, and the bytes it has sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// All of the prompt, cached or not.
    pub(super) input: Option<u64>,
    pub(super) cached: u64,
    pub(super) output: Option<u64>,
    /// Bytes of text, reasoning and arguments.
    pub(super) written: usize,
}

impl Counts {
    /// Estimates missing counts at four bytes a token: a request that was cut off costs tokens as well.
    pub(super) fn usage(self, sent: usize) -> ModelUsage {
        let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX);
        let input = self.input.unwrap_or_else(|| tokens(sent));
        ModelUsage {
            input,
            cached: self.cached.min(input),
            output: self.output.unwrap_or_else(|| tokens(self.written)),
        }
    }
}

/// The body of a request as text: a fixed head, a list of items that only grows, and a tail for this request.
///
/// Everything before the tail is a byte prefix of the next body, so that the provider's prompt cache can hold all of it.
pub(super) struct GrowingBody {
    head: String,
    /// JSON texts, separated by commas.
    items: String,
}

impl GrowingBody {
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

/// Removes white space from JSON; the order of keys stays.
pub(super) fn compact(text: &str) -> Option<Box<RawValue>> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    serde_json::value::to_raw_value(&value).ok()
}

/// Serialises strings, and lists and structs of strings, which cannot fail.
pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
