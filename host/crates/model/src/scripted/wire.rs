//! The three formats the server speaks, told apart by the path of a request.

use serde_json::Value;

use super::answer::Said;
use super::{chat_completions, messages, responses};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI-compatible Chat Completions.
    ChatCompletions,
    /// Anthropic Messages.
    Messages,
    /// OpenAI Responses.
    Responses,
}

impl Wire {
    pub const ALL: [Self; 3] = [Self::ChatCompletions, Self::Messages, Self::Responses];

    pub(super) fn of(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wire| path.ends_with(wire.path()))
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat_completions",
            Self::Messages => "messages",
            Self::Responses => "responses",
        }
    }

    /// How the paths of its requests end.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/chat/completions",
            Self::Messages => "/v1/messages",
            Self::Responses => "/responses",
        }
    }

    /// The word behind `act role: ` in the first line of the system prompt; empty when there is none.
    pub(super) fn role(self, body: &Value) -> &str {
        let system = match self {
            Self::ChatCompletions => &body["messages"][0]["content"],
            Self::Messages => &body["system"][0]["text"],
            Self::Responses => &body["instructions"],
        };
        let first = system.as_str().unwrap_or_default().lines().next().unwrap_or_default();
        first.strip_prefix("act role: ").unwrap_or_default()
    }

    /// Why the provider itself would refuse the request, as far as it is looked at here.
    pub(super) fn refusal(self, body: &Value) -> Option<&'static str> {
        let empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
        match self {
            Self::ChatCompletions | Self::Messages if empty(&body["messages"]) => {
                Some("there are no messages in the request")
            }
            Self::Messages if !body["max_tokens"].is_u64() => Some("max_tokens is missing"),
            Self::Responses if empty(&body["input"]) => Some("there is no input in the request"),
            _ => None,
        }
    }

    /// The body of an error answer.
    pub(super) fn error(self, kind: &str, message: &str) -> Value {
        let error = serde_json::json!({"type": kind, "message": message});
        match self {
            Self::Messages => serde_json::json!({"type": "error", "error": error}),
            Self::ChatCompletions | Self::Responses => serde_json::json!({"error": error}),
        }
    }

    /// The header that names a request.
    pub(super) fn id_header(self) -> &'static str {
        match self {
            Self::Messages => "request-id",
            Self::ChatCompletions | Self::Responses => "x-request-id",
        }
    }

    pub(super) fn stream(self, said: &Said) -> String {
        match self {
            Self::ChatCompletions => chat_completions::stream(said),
            Self::Messages => messages::stream(said),
            Self::Responses => responses::stream(said),
        }
    }
}
