//! The configured server and model: the choice of the user, the address, the headers and the wire.

use std::net::IpAddr;
use std::sync::Arc;

use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::anthropic_messages::AnthropicMessages;
use super::chat_completions::ChatCompletions;
use super::conversation::WireConversation;
use super::http::Http;
use super::key::{self, Key};
use super::openai_responses::OpenAiResponses;
use super::scripted::{Script, Transport};
use super::wire::{Service, Wire};
use super::{Conversation, Deadlines, Model, ModelError, ModelErrorKind, TokenLedger, ToolSpec};
use act_core::event::Events;
use act_core::secret::{Secret, Secrets};

/// The choice of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelAccess {
    Server(ModelServer),
    /// No server: this process plays the script.
    Scripted(Script),
}

/// A server and a model on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelServer {
    pub wire: WireName,
    /// The address without the path of the wire. It includes a version (`/v1`), except for Messages.
    pub base_url: String,
    pub model: String,
    pub key: Option<Key>,
    pub tools: ToolMode,
    pub origin: Origin,
}

/// One of the three wires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireName {
    ChatCompletions,
    Messages,
    Responses,
}

/// How a model calls tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolMode {
    /// By the calls of the wire.
    #[default]
    Native,
    /// By one JSON object as the text of its turn, whose schema each request demands. Only Chat Completions has it, for
    /// servers whose models write calls as text.
    Schema,
}

/// The place where the user set the server, for messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Origin {
    #[default]
    Environment,
    /// `config.toml`
    File,
}

impl ModelServer {
    /// Returns a server that is set in the environment, without a key and with native tools.
    pub fn new(wire: WireName, base_url: impl Into<String>, model: impl Into<String>) -> Self {
        let (tools, origin) = (ToolMode::default(), Origin::default());
        Self { wire, base_url: base_url.into(), model: model.into(), key: None, tools, origin }
    }

    /// Returns the server with a key.
    pub fn with_key(self, key: Secret) -> Self {
        Self { key: Some(Key::Value(key)), ..self }
    }

    /// Returns whether the server is on this machine.
    pub fn is_loopback(&self) -> bool {
        Url::parse(&self.base_url).is_ok_and(|url| is_loopback(&url))
    }
}

/// Returns whether an address is on this machine.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl ModelAccess {
    /// Returns the names of the wire and of its settings.
    pub fn service(&self) -> Service {
        let service = self.wire().service();
        match self {
            Self::Server(ModelServer { origin: Origin::File, .. }) => Service {
                key_variable: "the key under [model] in config.toml",
                address_variable: "`endpoint` under [model] in config.toml",
                ..service
            },
            _ => service,
        }
    }

    /// Returns whether requests carry a key.
    pub fn has_key(&self) -> bool {
        matches!(self, Self::Server(ModelServer { key: Some(_), .. }))
    }

    pub(super) fn wire(&self) -> Box<dyn Wire> {
        let Self::Server(server) = self else { return Box::new(ChatCompletions::default()) };
        match server.wire {
            WireName::ChatCompletions => Box::new(ChatCompletions(server.tools)),
            WireName::Messages => Box::new(AnthropicMessages),
            WireName::Responses => Box::new(OpenAiResponses),
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
    key: Option<Key>,
    /// The headers of every request. A key of a command joins them before the first one.
    headers: OnceCell<HeaderMap>,
    pub(super) wire: Box<dyn Wire>,
    pub(super) service: Service,
    pub(super) model: String,
}

impl Endpoint {
    fn new(
        access: ModelAccess,
        deadlines: Deadlines,
        events: Events,
        ledger: TokenLedger,
    ) -> Result<Self, ModelError> {
        let (wire, service) = (access.wire(), access.service());
        let (script, base_url, model, key) = match access {
            ModelAccess::Server(ModelServer { base_url, model, key, .. }) => {
                (None, base_url, model, key)
            }
            // The script takes the place of the network, so nothing is sent to this address.
            ModelAccess::Scripted(turns) => {
                let script = Some(Transport::new(turns));
                (script, "http://127.0.0.1/v1".into(), "scripted".into(), None)
            }
        };
        let url = address(&base_url, service)?;
        let (headers, secret) = match &key {
            Some(Key::Command(_)) => (OnceCell::new(), None),
            Some(Key::Value(key)) => {
                let headers = headers(wire.as_ref(), Some(key), service)?;
                (OnceCell::new_with(Some(headers)), Some(key.clone()))
            }
            None => (OnceCell::new_with(Some(headers(wire.as_ref(), None, service)?)), None),
        };
        let http = Http::new(script, deadlines, Secrets::new(secret), events, ledger);
        Ok(Self { http, url, key, headers, wire, service, model })
    }

    /// Returns the headers of a request. The first call runs the command of the key, if there is one.
    pub(super) async fn headers(
        &self,
        cancel: &CancellationToken,
    ) -> Result<HeaderMap, ModelError> {
        let read = self.headers.get_or_try_init(|| async {
            let key = match &self.key {
                Some(Key::Command(command)) => Some(key::read(command).await?),
                Some(Key::Value(key)) => Some(key.clone()),
                None => None,
            };
            headers(self.wire.as_ref(), key.as_ref(), self.service)
        });
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ModelError::new(ModelErrorKind::Cancelled, "cancelled")),
            headers = read => headers.cloned(),
        }
    }

    pub(super) fn has_key(&self) -> bool {
        self.key.is_some()
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
