//! The three wires that the server speaks. The path of a request selects its wire.

use serde_json::{Value, json};

use super::{messages, responses};
use act_model::scripted::{ChatCompletions, Format, Spoken};

/// The format of a provider.
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
    /// All wires.
    pub const ALL: [Self; 3] = [Self::ChatCompletions, Self::Messages, Self::Responses];

    pub(super) fn of(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wire| path.ends_with(wire.path()))
    }

    /// Returns the name of the wire in file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat_completions",
            Self::Messages => "messages",
            Self::Responses => "responses",
        }
    }

    /// The end of the paths of its requests.
    fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/chat/completions",
            Self::Messages => "/v1/messages",
            Self::Responses => "/responses",
        }
    }

    /// A request that only names its role.
    pub(super) fn request(self, role: &str) -> Value {
        let system = format!("act role: {role}");
        match self {
            Self::ChatCompletions => {
                json!({"model": "m-1", "messages": [{"role": "system", "content": system}]})
            }
            Self::Messages => json!({"model": "m-1", "system": [{"type": "text", "text": system}]}),
            Self::Responses => json!({"model": "m-1", "instructions": system}),
        }
    }

    /// Returns why the provider would refuse the request, as far as this server checks it.
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
}

impl Format for Wire {
    fn system<'a>(&self, request: &'a Value) -> &'a Value {
        match self {
            Self::ChatCompletions => ChatCompletions.system(request),
            Self::Messages => &request["system"][0]["text"],
            Self::Responses => &request["instructions"],
        }
    }

    fn id_header(&self) -> &'static str {
        match self {
            Self::Messages => "request-id",
            Self::ChatCompletions | Self::Responses => ChatCompletions.id_header(),
        }
    }

    fn error(&self, kind: &str, message: &str) -> Value {
        let Value::Object(body) = ChatCompletions.error(kind, message) else { return Value::Null };
        match self {
            Self::Messages => json!({"type": "error", "error": body["error"]}),
            Self::ChatCompletions | Self::Responses => body.into(),
        }
    }

    fn stream(&self, turn: &Spoken) -> String {
        match self {
            Self::ChatCompletions => ChatCompletions.stream(turn),
            Self::Messages => messages::stream(turn),
            Self::Responses => responses::stream(turn),
        }
    }
}
