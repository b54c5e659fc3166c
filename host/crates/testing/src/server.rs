//! The server. It has a thread and a runtime of its own, so that blocking and async callers can use it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::StreamExt;
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response, StatusCode};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::wire::Wire;
use act_model::scripted::{Answer, End, Format, Player, Script};

/// Maximum number of bytes of a request. A larger one is answered with 413.
const MAX_REQUEST: usize = 64 << 20;

/// One recorded request.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The role in the first line of the system prompt; empty when it names none.
    pub role: String,
    pub path: String,
    /// The body as JSON; null when it was not JSON.
    pub body: Value,
    pub raw: Bytes,
    pub headers: Vec<(String, String)>,
    /// The time when its last byte arrived.
    pub time: DateTime<Utc>,
    /// The time when the last byte of its answer was passed to the connection; `None` until then.
    pub answered: Option<DateTime<Utc>>,
}

/// Counts of events so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub requests: usize,
    /// Answers that were delayed or stalled when their client closed the connection.
    pub hang_ups: usize,
}

/// A running server. Dropping it stops it.
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Cancelled by `release`.
    released: CancellationToken,
}

struct State {
    player: Player,
    recorded: Vec<Recorded>,
    hang_ups: usize,
}

impl ScriptedServer {
    /// Listens on a free port of the loopback interface.
    ///
    /// # Errors
    ///
    /// Fails when no port, thread or runtime is available.
    pub fn start(script: Script) -> std::io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let state = State { player: Player::new(script), recorded: vec![], hang_ups: 0 };
        let released = CancellationToken::new();
        let shared =
            Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), released });
        let stop = CancellationToken::new();
        let serving = (shared.clone(), stop.clone());
        let thread =
            std::thread::Builder::new().name("scripted model".into()).spawn(move || {
                let (shared, stop) = serving;
                runtime.block_on(stop.run_until_cancelled(serve(listener, shared)));
            })?;
        Ok(Self { address, shared, stop, thread: Some(thread) })
    }

    /// Returns the address for `AGENT_LLM_BASE_URL` and `OPENAI_BASE_URL`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the address for `ANTHROPIC_BASE_URL`.
    pub fn anthropic_base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns every request so far, in the order of arrival.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.lock().recorded.clone()
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        self.shared.lock().counts()
    }

    /// Blocks until `enough` holds, for at most `limit`; returns whether it holds.
    pub fn wait(&self, limit: Duration, enough: impl Fn(Counts) -> bool) -> bool {
        let state = self.shared.lock();
        let waited =
            self.shared.changed.wait_timeout_while(state, limit, |state| !enough(state.counts()));
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        enough(state.counts())
    }

    /// Ends every delay, also those of later turns, for a test that acts while an answer is delayed.
    pub fn release(&self) {
        self.shared.released.cancel();
    }

    /// Writes each body that a wire accepted to a file of its own, named by wire and digest.
    ///
    /// # Errors
    ///
    /// Fails when a file cannot be written.
    pub fn write_requests(&self, directory: &std::path::Path) -> std::io::Result<()> {
        std::fs::create_dir_all(directory)?;
        for request in self.requests() {
            let Some(wire) = Wire::of(&request.path) else { continue };
            let digest = Sha256::digest(&request.raw);
            let hex: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
            let name = format!("{}-{hex}.json", wire.name());
            std::fs::write(directory.join(name), &request.raw)?;
        }
        Ok(())
    }

    /// Returns how many turns each role has left; roles without any are not listed.
    pub fn left(&self) -> BTreeMap<String, usize> {
        self.shared.lock().player.left()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl State {
    fn counts(&self) -> Counts {
        Counts { requests: self.recorded.len(), hang_ups: self.hang_ups }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index of the request in the list.
    fn record(&self, request: Recorded) -> usize {
        let mut state = self.lock();
        state.recorded.push(request);
        self.changed.notify_all();
        state.recorded.len() - 1
    }
}

async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let shared = shared.clone();
        tokio::spawn(async move {
            let service =
                hyper::service::service_fn(move |request| respond(request, shared.clone()));
            let io = hyper_util::rt::TokioIo::new(stream);
            // A client may close the connection at any time, so an error is ignored.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
        });
    }
}

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, std::io::Error>;

async fn respond(
    request: Request<Incoming>,
    shared: Arc<Shared>,
) -> Result<Response<Body>, Infallible> {
    let mut notice = Notice { shared: shared.clone(), request: None, over: false };
    let (head, body) = request.into_parts();
    let Ok(raw) = Limited::new(body, MAX_REQUEST).collect().await else {
        return Ok(response(refusal(413, "the request is too large"), notice));
    };
    let (raw, time) = (raw.to_bytes(), act_core::clock::now());
    let body: Value = serde_json::from_slice(&raw).unwrap_or_default();
    let path = head.uri.path().to_owned();
    let wire = Wire::of(&path);
    let role = wire.map_or("", |wire| wire.role(&body)).to_owned();
    let header = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    notice.request = Some(shared.record(Recorded {
        role: role.clone(),
        path: path.clone(),
        body: body.clone(),
        raw: raw.clone(),
        headers: head.headers.iter().map(header).collect(),
        time,
        answered: None,
    }));
    let Some(wire) = wire.filter(|_| head.method == hyper::Method::POST) else {
        return Ok(response(refusal(404, "no model is served here"), notice));
    };
    if let Some(message) = wire.refusal(&body) {
        return Ok(response(refusal(400, message), notice));
    }
    let request = String::from_utf8_lossy(&raw);
    let answer = shared.lock().player.answer(&wire, &request, &body);
    if answer.delay_ms > 0 {
        let delay = Duration::from_millis(answer.delay_ms);
        let _ = tokio::time::timeout(delay, shared.released.cancelled()).await;
    }
    Ok(response(answer, notice))
}

/// Returns an error answer in a shape that every wire reads.
fn refusal(status: u16, message: &str) -> Answer {
    Answer::refusal(status, &Wire::Messages.error("invalid_request_error", message))
}

fn response(answer: Answer, mut notice: Notice) -> Response<Body> {
    let frames = answer.body.into_iter().map(|bytes| Ok(Frame::data(bytes)));
    let end = answer.end;
    if !matches!(end, Some(End::Stall(_))) {
        notice.over = true;
    }
    let last = futures_util::stream::once(async move {
        let notice = notice;
        match end {
            Some(End::Stall(_)) => std::future::pending().await,
            Some(End::Reset(_)) => Err(std::io::Error::other("scripted reset")),
            Some(End::Cut(_)) | None => {
                notice.answered();
                Ok(Frame::data(Bytes::new()))
            }
        }
    });
    let body = StreamBody::new(futures_util::stream::iter(frames).chain(last));
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() =
        StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        let name = hyper::header::HeaderName::try_from(name);
        let value = hyper::header::HeaderValue::try_from(value);
        if let (Ok(name), Ok(value)) = (name, value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Lives as long as an answer; records when the answer was complete, or that the client left before.
struct Notice {
    shared: Arc<Shared>,
    /// Index in the list of recorded requests.
    request: Option<usize>,
    over: bool,
}

impl Notice {
    fn answered(&self) {
        let mut state = self.shared.lock();
        if let Some(request) = self.request.and_then(|at| state.recorded.get_mut(at)) {
            request.answered = Some(act_core::clock::now());
        }
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        if !self.over {
            self.shared.lock().hang_ups += 1;
            self.shared.changed.notify_all();
        }
    }
}
