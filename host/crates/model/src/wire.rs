//! The differences between providers: how a conversation becomes a request and a stream becomes a turn.
//!
//! Each of the three wires implements [`Wire`], [`Prompt`] and [`StreamParser`]. What they share is here; connections,
//! deadlines, events and the order of calls are in `http.rs` and `conversation.rs`. A wire stores what its provider sent
//! unchanged.

use std::ops::ControlFlow;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ModelError, ModelUsage, Stop, ToolCall, ToolResult, Turn, error};

/// The names of a wire and its settings, for messages, and the path of its requests.
#[derive(Debug, Clone, Copy)]
pub struct Service {
    pub wire: &'static str,
    pub key_variable: &'static str,
    /// The variable, and what its address ends with.
    pub address_variable: &'static str,
    /// Segments after the base address.
    pub(super) path: &'static [&'static str],
}

pub(super) trait Wire: Send + Sync {
    fn service(&self) -> Service;
    /// Returns the headers of this provider, with the key in one of them, or `None` when the key cannot be sent.
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

/// A tool as it is offered. Its schema is JSON without needless white space.
pub(super) struct Offer<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) schema: Box<RawValue>,
}

/// The conversation so far, in the format of the provider. It only grows.
pub(super) trait Prompt: Send {
    fn user(&mut self, text: &str);
    /// Adds the answers to all calls of the last turn, in the order of the calls.
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

/// A complete turn, and the items that represent it in later requests.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) turn: Turn,
    /// JSON texts for [`Prompt::assistant`]; there may be none.
    pub(super) assistant_items: Vec<String>,
}

/// The token counts of the provider so far, and the bytes it has sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Tokens of the whole prompt, cached or not.
    pub(super) input: Option<u64>,
    pub(super) cached: u64,
    /// Tokens of the prompt that were written to the provider's cache.
    pub(super) cache_write: u64,
    pub(super) output: Option<u64>,
    /// Bytes of text, reasoning and arguments.
    pub(super) written: usize,
}

impl Reply {
    pub(super) fn new(
        text: String,
        calls: Vec<ToolCall>,
        stop: Stop,
        assistant_items: Vec<String>,
    ) -> Self {
        // The client adds the counts of the whole request.
        let turn = Turn { text, calls, stop, usage: ModelUsage::default() };
        Self { turn, assistant_items }
    }
}

/// Collects the calls of a turn for a provider that gives each call an id of its own.
#[derive(Default)]
pub(super) struct Calls(Vec<ToolCall>);

impl Calls {
    /// Adds a call. Arguments that were left out are an empty object.
    ///
    /// # Errors
    ///
    /// Refuses a call without an id or a name, and a second call with the same id.
    pub(super) fn add(&mut self, id: &str, name: &str, arguments: &str) -> Result<(), ModelError> {
        if id.is_empty() || name.is_empty() {
            return Err(ModelError::malformed("a tool call has no id or no name"));
        }
        if self.0.iter().any(|call| call.id == id) {
            return Err(ModelError::malformed("two tool calls have the same id"));
        }
        let arguments = arguments_or_empty(arguments).to_owned();
        self.0.push(ToolCall { id: id.to_owned(), name: name.to_owned(), arguments });
        Ok(())
    }

    pub(super) fn done(self) -> Vec<ToolCall> {
        self.0
    }
}

/// Returns the arguments as the model wrote them, or an empty object when it wrote none.
pub(super) fn arguments_or_empty(arguments: &str) -> &str {
    if arguments.trim().is_empty() { "{}" } else { arguments }
}

/// The error of a turn that ends with tool calls and has none.
pub(super) fn no_calls() -> ModelError {
    ModelError::malformed("the turn ends with tool calls, but has none")
}

impl Counts {
    /// Estimates missing counts at four bytes a token: a request that was cut off costs tokens as well.
    pub(super) fn usage(self, sent: usize) -> ModelUsage {
        let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX);
        let input = self.input.unwrap_or_else(|| tokens(sent));
        ModelUsage {
            input,
            cached: self.cached.min(input),
            cache_write: self.cache_write.min(input),
            output: self.output.unwrap_or_else(|| tokens(self.written)),
        }
    }
}

/// The body of a request as text: a fixed head, a list of items that only grows, and a tail for this request. Messages has
/// a body of its own, because its cache marks move.
///
/// Everything before the tail is a byte prefix of the next body, so the provider's prompt cache can hold all of it.
pub(super) struct GrowingBody {
    head: String,
    /// JSON texts, separated by commas.
    items: String,
}

impl GrowingBody {
    /// Starts a body. `head` ends with the bracket that opens the list of items.
    pub(super) fn new(head: String) -> Self {
        Self { head, items: String::new() }
    }

    pub(super) fn add(&mut self, item: &str) {
        if !self.items.is_empty() {
            self.items.push(',');
        }
        self.items.push_str(item);
    }

    /// Closes the list, appends `tail`, which is empty or begins with a comma, and closes the body.
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
