//! What differs from provider to provider: how a conversation becomes a request and a stream a turn.
//!
//! Everything else (connections, deadlines, events, counts, what may be said when) is the same for all and
//! lives beside this file. A wire keeps what its provider sent as it was sent.

use bytes::Bytes;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ModelError, ModelUsage, ToolResult, Turn, failure};

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
    fn stream(&self) -> Box<dyn Collect>;
}

/// One event of a stream. `wrong` is told where it has another shape, such as "an event is not what Messages says".
pub(super) fn event<'a, T: Deserialize<'a>>(
    payload: &'a str,
    wrong: &str,
) -> Result<T, ModelError> {
    serde_json::from_str(payload)
        .map_err(|_| ModelError::malformed(format!("{wrong}: {}", failure::excerpt(payload))))
}

/// What stands at the start of a conversation and never changes.
pub(super) struct Opening<'a> {
    pub(super) model: &'a str,
    pub(super) role: &'a str,
    /// With the line that names the role.
    pub(super) system: &'a str,
    pub(super) tools: &'a [Offer<'a>],
}

/// A tool as it is offered; its schema is JSON without needless white space.
pub(super) struct Offer<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) schema: Box<RawValue>,
}

/// What has been said so far, in the provider's words. It only grows.
pub(super) trait Prompt: Send {
    fn user(&mut self, text: &str);
    /// The answers to all calls of the last turn, in the order of the calls.
    fn results(&mut self, results: &[&ToolResult]);
    /// The model's own turn, as its stream made it.
    fn model(&mut self, echo: Vec<String>);
    fn body(&self, limits: &Limits) -> Bytes;
}

/// What one request asks for beside the conversation.
#[derive(Default)]
pub(super) struct Limits {
    pub(super) max_tokens: Option<u32>,
    pub(super) output: Option<Box<RawValue>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    More,
    /// Nothing of use can follow.
    End,
}

/// Gathers a turn from the payloads of a stream.
pub(super) trait Collect: Send {
    fn payload(&mut self, payload: &str) -> Result<Flow, ModelError>;
    /// The turn's end has arrived; what may still come are counts.
    fn complete(&self) -> bool;
    fn counts(&self) -> Counts;
    /// The finished turn. `invented` counts the ids given to calls that came without a usable one.
    fn reply(self: Box<Self>, invented: &mut u64) -> Result<Reply, ModelError>;
}

/// A whole turn and what stands for it in the conversation from now on, possibly nothing.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) turn: Turn,
    /// JSON texts, for `Prompt::model`.
    pub(super) echo: Vec<String>,
}

/// What the provider said about tokens so far, and how much it wrote.
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
    /// What was not counted is estimated at four bytes a token: a request that was cut off costs, too.
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
