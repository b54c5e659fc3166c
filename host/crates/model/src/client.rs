//! One configured server and model: its address, its headers and the wire it speaks.

use std::sync::Arc;

use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};

use super::conversation::Talk;
use super::http::Http;
use super::wire::{Service, Wire};
use super::{
    Conversation, Deadlines, Model, ModelAccess, ModelError, ModelErrorKind, TokenLedger, ToolSpec,
};
use act_core::event::Events;
use act_core::secret::{Secret, Secrets};

/// The model behind `access`. Nothing is sent before the first turn is asked for. All conversations share
/// connections, events and counts.
pub fn connect(
    access: ModelAccess,
    deadlines: Deadlines,
    events: Events,
    ledger: TokenLedger,
) -> Result<Arc<dyn Model>, ModelError> {
    let wire = access.wire();
    let (base_url, model, key) = match access {
        ModelAccess::Custom { base_url, model, key } => (base_url, model, key),
        ModelAccess::Anthropic { base_url, model, key }
        | ModelAccess::OpenAi { base_url, model, key } => (base_url, model, Some(key)),
    };
    let service = wire.service();
    let url = address(&base_url, service)?;
    let headers = headers(wire.as_ref(), key.as_ref(), service)?;
    let has_key = key.is_some();
    let http = Http::new(deadlines, Secrets::new(key), events, ledger);
    Ok(Arc::new(Client(Arc::new(Target { http, url, headers, wire, service, has_key, model }))))
}

struct Client(Arc<Target>);

impl Model for Client {
    fn open(&self, role: &str, system: &str, tools: &[ToolSpec]) -> Box<dyn Conversation> {
        Box::new(Talk::new(self.0.clone(), role, system, tools))
    }
}

/// Where requests go and how they are written.
pub(super) struct Target {
    pub(super) http: Http,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) wire: Box<dyn Wire>,
    pub(super) service: Service,
    pub(super) has_key: bool,
    pub(super) model: String,
}

fn address(base_url: &str, service: Service) -> Result<Url, ModelError> {
    let unusable = |what: &str| {
        let message = format!("the model's address {what}; set {}", service.address_variable);
        ModelError::new(ModelErrorKind::Rejected, message)
    };
    let mut url = Url::parse(base_url).map_err(|_| unusable("is no URL"))?;
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

/// A value that shows itself in no debug output.
pub(super) fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The header of OpenAI and of those who copy it.
pub(super) fn bearer(key: Option<&str>) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    if let Some(key) = key {
        headers.insert(AUTHORIZATION, sensitive(&format!("Bearer {key}"))?);
    }
    Some(headers)
}
