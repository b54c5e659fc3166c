//! Sends one request, reads its stream under deadlines and a size limit, and reports it as an event.
//!
//! The rules for all providers are here: no redirects, no repetition, certificates are checked, plain http never uses a
//! proxy, cancelling closes the connection, and no message contains a key.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Response, Url};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::error;
use super::scripted::Transport;
use super::sse::Decoder;
use super::wire::{Reply, Service, StreamParser};
use super::{ModelError, ModelErrorKind, ModelUsage, TokenLedger, Turn};
use act_core::event::{EventKind, Events};
use act_core::secret::Secrets;

/// Maximum number of bytes of an answer.
const MAX_REPLY: usize = 8 << 20;
/// Maximum number of bytes that are read of the body of an error status.
const MAX_REFUSAL: usize = 64 << 10;
/// Maximum wait for the end of the body. It usually arrives with the last bytes, and only a connection whose body was read
/// to its end can be used again.
const LAST_BYTES: Duration = Duration::from_millis(20);

/// How long a request may take, in its parts and as a whole.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    pub connect: Duration,
    /// Until the first line of the stream. A local model may read a long prompt for minutes.
    pub first: Duration,
    /// Between two lines of the stream.
    pub idle: Duration,
    pub total: Duration,
    /// Between the end of the turn and its token counts, which are all that may follow it.
    pub counts: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first: Duration::from_secs(300),
            idle: Duration::from_secs(90),
            total: Duration::from_secs(600),
            counts: Duration::from_secs(5),
        }
    }
}

/// The time limits that a file sets; `None` where it sets none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeadlineSettings {
    /// `timeouts.model_first_byte`
    pub first: Option<Duration>,
    /// `timeouts.model_silence`
    pub idle: Option<Duration>,
    /// `timeouts.model_total`
    pub total: Option<Duration>,
}

impl Deadlines {
    /// Returns the time limits for a server on this machine. Without a graphics card it may read a long prompt at 25 tokens
    /// a second, and its time costs nothing.
    pub fn on_loopback() -> Self {
        Self {
            first: Duration::from_secs(1800),
            idle: Duration::from_secs(300),
            total: Duration::from_secs(3600),
            ..Self::default()
        }
    }

    /// Returns these time limits with those that the user set in their place.
    pub fn replaced(self, by: DeadlineSettings) -> Self {
        Self {
            first: by.first.unwrap_or(self.first),
            idle: by.idle.unwrap_or(self.idle),
            total: by.total.unwrap_or(self.total),
            ..self
        }
    }

    /// Returns the smaller of these time limits and those that a repository set, which can only shorten.
    pub fn shortened(self, by: DeadlineSettings) -> Self {
        let replaced = self.replaced(by);
        Self {
            first: replaced.first.min(self.first),
            idle: replaced.idle.min(self.idle),
            total: replaced.total.min(self.total),
            ..self
        }
    }
}

/// The HTTP client of an endpoint. The first request creates it, so that a command without a model does not pay for it.
pub(super) struct Http {
    client: OnceLock<Client>,
    /// Answers in place of the network.
    pub(super) script: Option<Transport>,
    deadlines: Deadlines,
    secrets: Secrets,
    events: Events,
    ledger: TokenLedger,
}

/// One request, and the names under which events and messages report it.
pub(super) struct Request<'a> {
    pub(super) role: &'a str,
    pub(super) attempt: u32,
    pub(super) url: &'a Url,
    pub(super) headers: HeaderMap,
    pub(super) service: Service,
    pub(super) has_key: bool,
    pub(super) body: Bytes,
}

/// The facts about a request for its event.
#[derive(Default)]
struct Trace {
    status: Option<u16>,
    request_id: Option<String>,
    /// The model may have read the prompt, so its tokens are counted even when the request fails.
    costs: bool,
}

impl Http {
    pub(super) fn new(
        script: Option<Transport>,
        deadlines: Deadlines,
        secrets: Secrets,
        events: Events,
        ledger: TokenLedger,
    ) -> Self {
        Self { client: OnceLock::new(), script, deadlines, secrets, events, ledger }
    }

    /// Sends a request and returns the turn that its stream contains. Nothing is sent once the token budget is spent.
    pub(super) async fn exchange(
        &self,
        request: Request<'_>,
        mut parser: Box<dyn StreamParser>,
        invented: &mut u64,
        cancel: &CancellationToken,
    ) -> Result<Reply, ModelError> {
        self.ledger.allow()?;
        let began = Instant::now();
        let mut trace = Trace::default();
        let (role, attempt, sent) = (request.role, request.attempt, request.body.len());
        let total = began + self.deadlines.total;
        let read = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ModelError::new(ModelErrorKind::Cancelled, "cancelled")),
            read = self.run(request, parser.as_mut(), &mut trace, total) => read,
        };
        let usage = if trace.costs { parser.counts().usage(sent) } else { ModelUsage::default() };
        let reply = read.and_then(|()| parser.reply(invented)).map_err(|error| {
            self.presentable(ModelError { status: error.status.or(trace.status), ..error })
        });
        let cost_usd = self.ledger.add(role, usage);
        self.events.emit(EventKind::ModelRequest {
            role: role.to_owned(),
            request_id: trace.request_id,
            status: trace.status,
            attempt,
            usage,
            cost_usd,
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            error: reply.as_ref().err().map(|error| error.message.clone()),
        });
        reply.map(|reply| Reply { turn: Turn { usage, ..reply.turn }, ..reply })
    }

    /// Removes keys and control characters from the message of an error.
    fn presentable(&self, error: ModelError) -> ModelError {
        ModelError { message: error::escape_hidden(&self.secrets.redact(&error.message)), ..error }
    }

    async fn run(
        &self,
        request: Request<'_>,
        parser: &mut dyn StreamParser,
        trace: &mut Trace,
        total: Instant,
    ) -> Result<(), ModelError> {
        let (service, has_key) = (request.service, request.has_key);
        let first = total.min(Instant::now() + self.deadlines.first);
        let sending = async {
            match &self.script {
                Some(script) => Ok(Ok(script.send(&request.body).await)),
                None => {
                    let client = self.client(request.url)?;
                    let post = client.post(request.url.clone()).headers(request.headers);
                    Ok(post.body(request.body).send().await)
                }
            }
        };
        trace.costs = true;
        let answer = timeout_at(first, sending).await.map_err(|_| late("no answer"))?;
        let answer = answer.inspect_err(|_: &ModelError| trace.costs = false)?;
        let response = answer.map_err(|error| {
            trace.costs = !error.is_connect();
            error::of_connection(error, false, service)
        })?;
        trace.status = Some(response.status().as_u16());
        trace.request_id = self.request_id(response.headers());
        let (status, headers) = (response.status(), response.headers().clone());
        let foreign = foreign_type(&headers);
        if status.is_success() && foreign.is_none() {
            return self.read(response, parser, service, first, total).await;
        }
        trace.costs = status.is_success();
        let body = beginning(response, total.min(Instant::now() + self.deadlines.idle)).await;
        if let Some(kind) = foreign.filter(|_| status.is_success()) {
            let text = error::excerpt(&String::from_utf8_lossy(&body));
            return Err(ModelError::malformed(format!(
                "the model's server answered with {kind} instead of an event stream: {text}; check {}",
                service.address_variable
            )));
        }
        let now = act_core::clock::now();
        Err(error::of_status(status, &headers, &body, (service, has_key), now))
    }

    /// Reads the stream until the turn and its counts are complete.
    async fn read(
        &self,
        response: Response,
        parser: &mut dyn StreamParser,
        service: Service,
        first: Instant,
        total: Instant,
    ) -> Result<(), ModelError> {
        let mut body = response.bytes_stream();
        let mut decoder = Decoder::default();
        let mut payloads = vec![];
        let mut size = 0;
        let mut deadline = first;
        let mut ended = None;
        loop {
            let bytes = match timeout_at(deadline, body.next()).await {
                Ok(Some(Ok(bytes))) => bytes,
                _ if parser.complete() => return Ok(()),
                Ok(Some(Err(error))) => return Err(error::of_connection(error, true, service)),
                Ok(None) => {
                    let message =
                        "the stream ended before the turn was complete; nothing of it is used";
                    return Err(ModelError::new(ModelErrorKind::Cut, message));
                }
                Err(_) => return Err(late("the stream stood still")),
            };
            size += bytes.len();
            if size > MAX_REPLY {
                return Err(ModelError::malformed("the answer is larger than 8 MiB"));
            }
            let alive = decoder
                .push(&bytes, &mut payloads)
                .map_err(|error| ModelError::malformed(error.to_string()))?;
            for payload in payloads.drain(..) {
                if parser.payload(&payload)?.is_break() {
                    let rest = async { while let Some(Ok(_)) = body.next().await {} };
                    let _ = tokio::time::timeout(LAST_BYTES, rest).await;
                    return Ok(());
                }
            }
            // A sign of life extends the wait for the turn, but not the wait for what may follow it: a server that sends comments
            // for ever would hold every turn.
            if parser.complete() {
                let end = *ended.get_or_insert_with(Instant::now);
                deadline = total.min(end + self.deadlines.counts);
            } else if alive {
                deadline = total.min(Instant::now() + self.deadlines.idle);
            }
        }
    }

    fn client(&self, url: &Url) -> Result<&Client, ModelError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        // It fails when the process has a provider already, which is then used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("act/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .connect_timeout(self.deadlines.connect)
            .tcp_nodelay(true);
        if url.scheme() == "http" {
            // Loopback needs no proxy, and a proxy would read the prompt. Plain http without redirects meets no
            // certificate, and reading those of the platform would take longer than the rest of the setup.
            // A connection of its own for each request costs nothing there, and small servers close an idle one while the next
            // request is on its way.
            builder = builder.no_proxy().tls_certs_only([]).pool_max_idle_per_host(0);
        }
        let client = builder.build().map_err(|error| {
            let message = format!("cannot set up a connection: {}", error.without_url());
            ModelError::new(ModelErrorKind::Rejected, message)
        })?;
        Ok(self.client.get_or_init(|| client))
    }

    fn request_id(&self, headers: &HeaderMap) -> Option<String> {
        let id =
            headers.get("x-request-id").or_else(|| headers.get("request-id"))?.to_str().ok()?;
        let id: String = id.chars().filter(char::is_ascii_graphic).take(128).collect();
        (!id.is_empty()).then(|| self.secrets.redact(&id).into_owned())
    }
}

fn late(what: &str) -> ModelError {
    let message = format!("{what} within the time allowed for the model");
    ModelError::new(ModelErrorKind::Timeout, message)
}

/// Returns a content type that is not an event stream. A missing one is accepted.
fn foreign_type(headers: &HeaderMap) -> Option<String> {
    let kind = headers.get(CONTENT_TYPE)?;
    let text = String::from_utf8_lossy(kind.as_bytes()).trim().to_ascii_lowercase();
    (!text.starts_with("text/event-stream")).then(|| error::excerpt(&text))
}

/// Reads the body of an error status up to the limit, the deadline or the first error.
async fn beginning(response: Response, deadline: Instant) -> Vec<u8> {
    let mut body = response.bytes_stream();
    let mut read = vec![];
    while let Ok(Some(Ok(bytes))) = timeout_at(deadline, body.next()).await {
        let room = MAX_REFUSAL - read.len();
        read.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if read.len() == MAX_REFUSAL {
            break;
        }
    }
    read
}
