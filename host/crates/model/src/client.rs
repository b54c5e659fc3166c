//! The configured server and model: the choice of the user, the address, the headers and the wire.

use std::sync::Arc;

use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};

use super::anthropic_messages::AnthropicMessages;
use super::chat_completions::ChatCompletions;
use super::conversation::WireConversation;
use super::http::Http;
use super::openai_responses::OpenAiResponses;
use super::scripted::{Script, Transport};
use super::wire::{Service, Wire};
use super::{Conversation, Deadlines, Model, ModelError, ModelErrorKind, TokenLedger, ToolSpec};
use act_core::event::Events;
use act_core::secret::{Secret, Secrets};

/// The choice of the user: the model, the address without the path of the wire, and the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelAccess {
    /// Any server of OpenAI-compatible Chat Completions; the address includes its version (`/v1`).
    Custom { base_url: String, model: String, key: Option<Secret> },
    /// Messages; the address has no version in it.
    Anthropic { base_url: String, model: String, key: Secret },
    /// Responses; the address includes its version (`/v1`).
    OpenAi { base_url: String, model: String, key: Secret },
    /// No server: this process plays the script.
    Scripted(Script),
}

impl ModelAccess {
    /// Returns the names of the wire and of its variables.
    pub fn service(&self) -> Service {
        self.wire().service()
    }

    /// Returns whether requests carry a key.
    pub fn has_key(&self) -> bool {
        !matches!(self, Self::Custom { key: None, .. } | Self::Scripted(_))
    }

    pub(super) fn wire(&self) -> Box<dyn Wire> {
        match self {
            Self::Custom { .. } | Self::Scripted(_) => Box::new(ChatCompletions),
            Self::Anthropic { .. } => Box::new(AnthropicMessages),
            Self::OpenAi { .. } => Box::new(OpenAiResponses),
        }
    }
}

/// Opens the model behind `access`. The first turn sends the first request. All conversations share connections, events and
/// counts.
///
/// # Errors
///
/// Refuses an address that is not a URL and a key that cannot be sent in a header.
pub fn connect(
    access: ModelAccess,
    deadlines: Deadlines,
    events: Events,
    ledger: TokenLedger,
) -> Result<Arc<dyn Model>, ModelError> {
    Ok(Arc::new(Client::new(access, deadlines, events, ledger)?))
}

pub(super) struct Client(pub(super) Arc<Endpoint>);

impl Client {
    pub(super) fn new(
        access: ModelAccess,
        deadlines: Deadlines,
        events: Events,
        ledger: TokenLedger,
    ) -> Result<Self, ModelError> {
        Endpoint::new(access, deadlines, events, ledger).map(|endpoint| Self(Arc::new(endpoint)))
    }
}

impl Model for Client {
    fn open(&self, role: &str, system: &str, tools: &[ToolSpec]) -> Box<dyn Conversation> {
        Box::new(WireConversation::new(self.0.clone(), role, system, tools))
    }
}

/// The target of requests and the wire that writes them.
pub(super) struct Endpoint {
    pub(super) http: Http,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) wire: Box<dyn Wire>,
    pub(super) service: Service,
    pub(super) has_key: bool,
    pub(super) model: String,
}

impl Endpoint {
    fn new(
        access: ModelAccess,
        deadlines: Deadlines,
        events: Events,
        ledger: TokenLedger,
    ) -> Result<Self, ModelError> {
        let wire = access.wire();
        let mut script = None;
        let (base_url, model, key) = match access {
            ModelAccess::Custom { base_url, model, key } => (base_url, model, key),
            ModelAccess::Anthropic { base_url, model, key }
            | ModelAccess::OpenAi { base_url, model, key } => (base_url, model, Some(key)),
            // The script takes the place of the network, so nothing is sent to this address.
            ModelAccess::Scripted(turns) => {
                script = Some(Transport::new(turns));
                ("http://127.0.0.1/v1".into(), "scripted".into(), None)
            }
        };
        let service = wire.service();
        let url = address(&base_url, service)?;
        let headers = headers(wire.as_ref(), key.as_ref(), service)?;
        let has_key = key.is_some();
        let http = Http::new(script, deadlines, Secrets::new(key), events, ledger);
        Ok(Self { http, url, headers, wire, service, has_key, model })
    }
}

fn address(base_url: &str, service: Service) -> Result<Url, ModelError> {
    let unusable = |what: &str| {
        let message = format!("the model's address {what}; set {}", service.address_variable);
        ModelError::new(ModelErrorKind::Rejected, message)
    };
    let mut url = Url::parse(base_url).map_err(|_| unusable("is not a URL"))?;
    url.path_segments_mut()
        .map_err(|()| unusable("has no path"))?
        .pop_if_empty()
        .extend(service.path);
    Ok(url)
}

fn headers(
    wire: &dyn Wire,
    key: Option<&Secret>,
    service: Service,
) -> Result<HeaderMap, ModelError> {
    let mut headers = wire.headers(key.map(Secret::expose)).ok_or_else(|| {
        let message = format!("the key cannot be sent in a header; check {}", service.key_variable);
        ModelError::new(ModelErrorKind::Rejected, message)
    })?;
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    Ok(headers)
}

/// Returns a header value that debug output hides.
pub(super) fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Returns the header with the key for the wires of OpenAI.
pub(super) fn bearer(key: Option<&str>) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    if let Some(key) = key {
        headers.insert(AUTHORIZATION, sensitive(&format!("Bearer {key}"))?);
    }
    Some(headers)
}
