//! Conversations with the one configured language model, over three wires: Chat Completions, Anthropic Messages and
//! OpenAI Responses.
//!
//! Callers see turns, tool calls and usage; wire formats, keys, addresses and provider blocks stay inside of this crate.
//! A conversation stores what the provider sent unchanged, so a prompt only grows and the provider's cache can hold all
//! of it.
//!
//! The entry points are [`connect`], which opens the [`Model`] behind a [`ModelAccess`]; [`Conversation`], which sends one
//! request for each turn; [`with_attempts`], the one rule for repeating a failed request; [`TokenLedger`], which counts
//! tokens and their cost and enforces the limits of a task; and [`scripted`], a model that follows a script. The agent, the host
//! functions of components and `act doctor` call this crate; only `client.rs` and `http.rs` know addresses and keys.

mod anthropic_messages;
mod chat_completions;
mod client;
mod conversation;
mod error;
mod http;
mod key;
mod ledger;
mod openai_responses;
mod passthrough;
mod price;
mod retry;
pub mod scripted;
mod sse;
mod surrogates;
#[cfg(test)]
mod tests;
mod wire;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

pub use anthropic_messages::{
    DEFAULT_BASE_URL as ANTHROPIC_BASE_URL, DEFAULT_MODEL as ANTHROPIC_MODEL,
};
pub use client::{ModelAccess, ModelServer, Origin, ToolMode, WireName, connect, is_loopback};
pub use http::{DeadlineSettings, Deadlines};
pub use key::Key;
pub use ledger::{Budget, TokenLedger};
pub use openai_responses::{DEFAULT_BASE_URL as OPENAI_BASE_URL, DEFAULT_MODEL as OPENAI_MODEL};
pub use price::{LongPrompt, Price, Rates};
pub use retry::{Retryable, Timer, TokioTimer, with_attempts};
pub use wire::Service;

pub use act_core::event::ModelUsage;

/// A tool that is offered to the model. `parameters` is a JSON Schema as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    pub parameters: String,
}

/// A tool call of the model. `arguments` is the JSON text that the model wrote, unchecked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// The result of one tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    pub id: String,
    pub content: String,
    pub is_error: bool,
}

/// Why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    Done,
    /// The turn calls tools.
    Tools,
    /// The turn reached the limit of its length.
    Length,
    /// The model refused, or a filter did.
    Refused,
}

/// A complete turn. A turn whose end did not arrive is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    pub text: String,
    pub calls: Vec<ToolCall>,
    pub stop: Stop,
    pub usage: ModelUsage,
}

/// Options of one request.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    pub max_tokens: Option<u32>,
    /// A JSON Schema for the text of the answer.
    pub output: Option<String>,
    /// 1 for the first attempt; only used in events.
    pub attempt: u32,
}

/// The configured model.
pub trait Model: Send + Sync {
    /// Opens an empty conversation. `act role: ROLE` is the first line of its system prompt.
    fn open(&self, role: &str, system: &str, tools: &[ToolSpec]) -> Box<dyn Conversation>;
}

/// One conversation. A failed `next` leaves the history as it was, so it can be repeated.
pub trait Conversation: Send {
    /// Adds a text of the user role; it is sent with the next request.
    fn say(&mut self, text: &str);
    /// Adds the results of all calls of the last turn, in any order.
    ///
    /// # Errors
    ///
    /// Refuses ids of unknown calls, and fewer or more results than calls.
    fn answer(&mut self, results: Vec<ToolResult>) -> Result<(), ModelError>;
    /// Sends one request without repetition and returns the model's turn. Cancelling closes the connection.
    ///
    /// # Errors
    ///
    /// Every failure is a [`ModelError`] whose kind tells whether a later attempt may succeed.
    fn next<'a>(
        &'a mut self,
        ask: Ask,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Turn, ModelError>>;
}

/// Why a request has no turn as its result.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub kind: ModelErrorKind,
    /// What happened and what to do next. Control characters are escaped, and it contains no key.
    pub message: String,
    pub status: Option<u16>,
    pub retry_after: Option<std::time::Duration>,
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelErrorKind {
    /// The connection was refused or reset, or the name was not found.
    Transport,
    /// The idle or the total deadline has passed.
    Timeout,
    /// The stream ended before the turn was complete.
    Cut,
    /// The answer does not follow the wire, or is too large.
    Malformed,
    /// The status may differ at a later attempt: 408, 409, 429, 5xx.
    Unavailable,
    /// The status will not change: other 4xx, redirects, a spent limit.
    Rejected,
    /// The conversation is too long for the model.
    TooLong,
    /// The caller used the conversation wrongly, for example with an unknown call id.
    Misused,
    /// The tokens or the money of the task are spent, so no request was sent.
    Budget,
    Cancelled,
}

impl ModelError {
    /// Returns whether another attempt may succeed.
    pub fn is_retryable(&self) -> bool {
        use ModelErrorKind::{Cut, Malformed, Timeout, Transport, Unavailable};
        matches!(self.kind, Transport | Timeout | Cut | Malformed | Unavailable)
    }
}
