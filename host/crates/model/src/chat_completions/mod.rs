//! Chat Completions: the wire of every OpenAI-compatible server.
//!
//! Sent is the plain core that foreign servers know; read is whatever they make of it.

mod prompt;
mod stream;
#[cfg(test)]
mod tests;

use reqwest::header::HeaderMap;

use super::client::bearer;
use super::wire::{Collect, Opening, Prompt, Service, Wire};

pub(super) struct ChatCompletions;

impl Wire for ChatCompletions {
    fn service(&self) -> Service {
        Service {
            wire: "Chat Completions",
            key_variable: "OPENAI_API_KEY",
            address_variable: "AGENT_LLM_BASE_URL (it includes /v1)",
            path: &["chat", "completions"],
        }
    }

    fn headers(&self, key: Option<&str>) -> Option<HeaderMap> {
        bearer(key)
    }

    fn prompt(&self, opening: &Opening<'_>) -> Box<dyn Prompt> {
        Box::new(prompt::Messages::new(opening))
    }

    fn stream(&self) -> Box<dyn Collect> {
        Box::new(stream::Stream::default())
    }
}
