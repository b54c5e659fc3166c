//! Chat Completions: the wire of every OpenAI-compatible server.
//!
//! Sent is the plain core that foreign servers know; read is whatever they make of it.

mod conversation;
mod history;
mod opaque;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};

use super::failure::KeySource;
use super::http::Http;
use super::{Conversation, Deadlines, Model, ModelError, ModelErrorKind, TokenLedger, ToolSpec};
use crate::event::Events;
use crate::secret::{Secret, Secrets};

/// Where the model is; the address includes its version (`/v1`).
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub base_url: String,
    pub model: String,
    pub key: Option<Secret>,
}

/// One configured server and model. Clones and conversations share connections, events and counts.
#[derive(Clone)]
pub struct ChatCompletions {
    target: Arc<Target>,
}

struct Target {
    http: Http,
    url: Url,
    model: String,
    key: Option<HeaderValue>,
}

impl ChatCompletions {
    pub fn new(
        endpoint: Endpoint,
        deadlines: Deadlines,
        events: Events,
        ledger: TokenLedger,
    ) -> Result<Self, ModelError> {
        let unusable = |message: &str| ModelError::new(ModelErrorKind::Rejected, message);
        let mut url = Url::parse(&endpoint.base_url)
            .map_err(|_| unusable("the model's address is no URL; set AGENT_LLM_BASE_URL"))?;
        url.path_segments_mut()
            .map_err(|()| unusable("the model's address has no path; set AGENT_LLM_BASE_URL"))?
            .pop_if_empty()
            .extend(["chat", "completions"]);
        let key = match &endpoint.key {
            None => None,
            Some(key) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))
                    .map_err(|_| {
                        unusable("the key cannot be sent in a header; check OPENAI_API_KEY")
                    })?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let http = Http::new(deadlines, Secrets::new(endpoint.key), events, ledger);
        Ok(Self { target: Arc::new(Target { http, url, model: endpoint.model, key }) })
    }
}

impl Target {
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(key) = &self.key {
            headers.insert(AUTHORIZATION, key.clone());
        }
        headers
    }

    fn key_source(&self) -> KeySource {
        KeySource { variable: "OPENAI_API_KEY", present: self.key.is_some() }
    }
}

impl Model for ChatCompletions {
    fn open(&self, role: &str, system: &str, tools: &[ToolSpec]) -> Box<dyn Conversation> {
        Box::new(conversation::Chat::new(self.target.clone(), role, system, tools))
    }
}
