//! OpenAI Responses: a list of items that this side keeps; the provider stores nothing.

mod prompt;
mod stream;
#[cfg(test)]
mod tests;

use reqwest::header::HeaderMap;

use super::client::bearer;
use super::wire::{Collect, Opening, Prompt, Service, Wire};

pub const DEFAULT_MODEL: &str = "gpt-6.1-sol";
pub const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

pub(super) struct OpenAiResponses;

impl Wire for OpenAiResponses {
    fn service(&self) -> Service {
        Service {
            wire: "Responses",
            key_variable: "OPENAI_API_KEY",
            address_variable: "OPENAI_BASE_URL (it includes /v1)",
            path: &["responses"],
        }
    }

    fn headers(&self, key: Option<&str>) -> Option<HeaderMap> {
        bearer(key)
    }

    fn prompt(&self, opening: &Opening<'_>) -> Box<dyn Prompt> {
        Box::new(prompt::Items::new(opening))
    }

    fn stream(&self) -> Box<dyn Collect> {
        Box::new(stream::Stream::default())
    }
}
