//! Which server and model the user chose. Who chooses reads the environment; here it is only a value.

use super::anthropic_messages::AnthropicMessages;
use super::chat_completions::ChatCompletions;
use super::openai_responses::OpenAiResponses;
use super::wire::{Service, Wire};
use act_core::secret::Secret;

/// The model, its address without the part that each wire adds, and the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelAccess {
    /// Any server of OpenAI-compatible Chat Completions; the address includes its version (`/v1`).
    Custom { base_url: String, model: String, key: Option<Secret> },
    /// Messages; the address has no version in it.
    Anthropic { base_url: String, model: String, key: Secret },
    /// Responses; the address includes its version (`/v1`).
    OpenAi { base_url: String, model: String, key: Secret },
}

impl ModelAccess {
    /// What the wire is called and which variables it was chosen by.
    pub fn service(&self) -> Service {
        self.wire().service()
    }

    pub fn has_key(&self) -> bool {
        !matches!(self, Self::Custom { key: None, .. })
    }

    pub(super) fn wire(&self) -> Box<dyn Wire> {
        match self {
            Self::Custom { .. } => Box::new(ChatCompletions),
            Self::Anthropic { .. } => Box::new(AnthropicMessages),
            Self::OpenAi { .. } => Box::new(OpenAiResponses),
        }
    }
}
