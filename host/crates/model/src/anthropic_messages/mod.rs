//! Anthropic Messages: content in blocks, marks for the prompt cache, one answer message for all calls.

mod blocks;
mod prompt;
mod stream;
#[cfg(test)]
mod tests;

use reqwest::header::{HeaderMap, HeaderValue};

use super::client::sensitive;
use super::wire::{Collect, Opening, Prompt, Service, Wire};

pub const DEFAULT_MODEL: &str = "claude-opus-5-5";
pub const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";

/// The version of the wire, the only one there is.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

pub(super) struct AnthropicMessages;

impl Wire for AnthropicMessages {
    fn service(&self) -> Service {
        Service {
            wire: "Messages",
            key_variable: "ANTHROPIC_API_KEY",
            address_variable: "ANTHROPIC_BASE_URL (without /v1)",
            path: &["v1", "messages"],
        }
    }

    fn headers(&self, key: Option<&str>) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", VERSION);
        if let Some(key) = key {
            headers.insert("x-api-key", sensitive(key)?);
        }
        Some(headers)
    }

    fn prompt(&self, opening: &Opening<'_>) -> Box<dyn Prompt> {
        Box::new(prompt::Messages::new(opening))
    }

    fn stream(&self) -> Box<dyn Collect> {
        Box::new(stream::Stream::default())
    }
}
