//! The capability `http`: requests to granted origins, through `wasi:http`. A request that the grant does not cover is
//! denied before anything is sent. The caller's runtime sends requests, so that a deadline or a cancellation closes the
//! connection.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::header::CONTENT_LENGTH;
use hyper::http::{HeaderMap, Request, Response};
use reqwest::Url;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use wasmtime::component::Linker;
use wasmtime_wasi_http::{
    Error, RequestOptions, WasiBody, WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
};

use super::{Access, Capability, Grant, Import, Metered, Need, joined};
use crate::bounds::{Bound, Element, Set, at_most, bounds};
use crate::call::{CallContext, State};
use crate::limits::Limits;
use crate::meter::{Count, Meter};
use crate::outbound::{NoResponse, ResponseBounds};
use crate::values::value;

/// Largest body that may be granted, in bytes. The host holds the body of each request that is under way in memory.
const BODY: u64 = 32 << 20;

value!(
    /// `scheme://host[:port]` in the one form that is compared: lower case, no default port, no path.
    Origin,
    is_origin
);
value!(
    /// Method of a request, in capital letters.
    Method,
    is_method
);

fn is_origin(text: &str) -> Result<(), String> {
    let refused = |why: &str| Err(format!("`{}` is not an origin: {why}", text.escape_debug()));
    let Ok(url) = Url::parse(text) else {
        return refused("write `https://HOST` or `https://HOST:PORT`");
    };
    if !matches!(url.scheme(), "http" | "https") {
        return refused("only http and https are supported");
    }
    if text.contains(['*', '%']) {
        return refused("it must name one host");
    }
    if url.host_str().is_none_or(|host| host.ends_with('.')) {
        return refused("a host does not end with a dot");
    }
    let exact = url.origin().ascii_serialization();
    if exact != text {
        return refused(&format!("write `{exact}`"));
    }
    Ok(())
}

value!(
    /// An [`Origin`] with a literal loopback address, such as `http://127.0.0.1:8080`. A name could lead elsewhere.
    LocalOrigin,
    is_local_origin
);

fn is_local_origin(text: &str) -> Result<(), String> {
    is_origin(text)?;
    if loopback_host(text) {
        return Ok(());
    }
    Err(format!(
        "`{}` is not the origin of a loopback address: write `http://127.0.0.1:PORT` or `http://[::1]:PORT`, and no name",
        text.escape_debug()
    ))
}

/// Returns whether the host of an address is a literal loopback address.
fn loopback_host(address: &str) -> bool {
    let host = Url::parse(address).ok().and_then(|url| url.host_str().map(str::to_owned));
    let host = host.unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_method(text: &str) -> Result<(), String> {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    if KNOWN.contains(&text) {
        return Ok(());
    }
    Err(format!("`{}` is not a method; the methods are {}", text.escape_debug(), KNOWN.join(", ")))
}

impl Element for Origin {}
impl Element for Method {}
impl Element for LocalOrigin {}

bounds! {
    /// Requests to these origins and to no other. The default has no origin.
    pub struct Http, ceiling HttpCeiling {
        origins: Set<Origin> = Set::default();
        methods: Set<Method> = Set::default();
        /// Those of the origins that may be on this machine. Every other origin must be public.
        #[serde(default, skip_serializing_if = "Set::is_empty")]
        local: Set<LocalOrigin> = Set::default();
        /// Bytes of the body of one request.
        #[serde(deserialize_with = "at_most::<{ BODY }, _, _>")]
        request_bytes: u64 = 1 << 20;
        /// Bytes of the body of one response.
        #[serde(deserialize_with = "at_most::<{ BODY }, _, _>")]
        response_bytes: u64 = 8 << 20;
        /// Requests of one call.
        #[serde(default = "default_requests", deserialize_with = "at_most::<100_000, _, _>")]
        requests: u32 = 100;
        /// Requests that may be under way at the same time. Others wait.
        #[serde(default = "default_at_once", deserialize_with = "at_most::<32, _, _>")]
        at_once: u32 = 8;
        /// Bytes of all requests and responses of one call: addresses, headers and bodies.
        #[serde(default = "default_query_bytes", deserialize_with = "at_most::<{ 4 << 30 }, _, _>")]
        query_bytes: u64 = 64 << 20;
    }
}

fn default_requests() -> u32 {
    Http::default().requests
}

fn default_at_once() -> u32 {
    Http::default().at_once
}

fn default_query_bytes() -> u64 {
    Http::default().query_bytes
}

impl Http {
    fn covers(&self, origin: &Origin, method: &Method) -> bool {
        self.origins.contains(origin) && self.methods.contains(method)
    }

    /// Returns whether the origin may be on this machine. It must be listed: a party that forbids nothing allows no local
    /// origin by that.
    pub fn allows_local(&self, origin: &str) -> bool {
        self.local.values().any(|local| local.as_str() == origin)
    }
}

pub(crate) struct Rules;

impl super::Rules for Rules {
    type Bounds = Option<Http>;
    type Ceiling = HttpCeiling;
    type Meters = HttpMeters;
    const MEANING: &'static str = "sends requests to these addresses, within limits for each query";
    const IN_BASE_WORLD: bool = false;
    const IS_TABLE: bool = true;

    fn meters(http: &Option<Http>, _limits: &Limits) -> HttpMeters {
        let (requests, bytes, at_once) =
            http.as_ref().map_or((0, 0, 0), |http| (http.requests, http.query_bytes, http.at_once));
        // If no request may be under way, a request would wait for ever.
        let requests = if at_once == 0 { 0 } else { requests };
        HttpMeters {
            requests: Meter::new("http.requests", u64::from(requests)),
            bytes: Meter::new("http.bytes", bytes),
            sent: Count::default(),
            received: Count::default(),
            at_once: Semaphore::new((at_once as usize).min(Semaphore::MAX_PERMITS)),
            origins: Mutex::default(),
        }
    }

    fn is_behind(import: &Import<'_>) -> bool {
        import.package == "wasi:http"
    }

    fn requested(need: &Need) -> Option<Http> {
        let usual = ["GET", "HEAD"].into_iter().filter_map(|method| method.parse().ok());
        let methods = match need.methods.as_slice() {
            [] => usual.collect(),
            methods => methods.iter().cloned().collect(),
        };
        let origins = need.origins.iter().cloned().collect();
        Some(Http { origins, methods, ..Http::unlimited() })
    }

    fn usual() -> Option<Http> {
        Some(Http { origins: Set::Any, methods: Set::Any, ..Http::default() })
    }

    fn check(need: &Need) -> Result<(), (&'static str, &'static str)> {
        if need.origins.is_empty() {
            return Err(("needs.origins", "name each origin, such as `https://api.example.com`"));
        }
        Ok(())
    }

    fn in_words(http: &Option<Http>) -> Option<String> {
        let http = http.as_ref()?;
        let local = match http.local.values().next() {
            Some(_) => format!("; on this machine: {}", joined(http.local.values())),
            None => String::new(),
        };
        let (methods, origins) = (joined(http.methods.values()), joined(http.origins.values()));
        Some(format!("({methods} to {origins}{local})"))
    }

    fn covers(grant: &Grant, access: &Access) -> bool {
        grant.http.as_ref().is_some_and(|http| match access {
            Access::Request { origin, method } => http.covers(origin, method),
            _ => true,
        })
    }

    fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
        wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)
    }
}

/// The amounts that one call may still send and receive, shared by all of its requests. Bytes are counted before the
/// host holds them, so that a component that never reads its responses occupies no more memory than its grant allows.
#[derive(Debug)]
pub(crate) struct HttpMeters {
    requests: Meter,
    bytes: Meter,
    sent: Count,
    received: Count,
    /// A request waits here until one of those under way has ended.
    at_once: Semaphore,
    origins: Mutex<BTreeSet<String>>,
}

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Out,
    In,
}

impl Metered for HttpMeters {
    fn is_used(&self) -> bool {
        !self.origins.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("http_requests", self.requests.used()),
            ("http_bytes_out", self.sent.get()),
            ("http_bytes_in", self.received.get()),
        ]
    }

    fn names(&self) -> Vec<String> {
        self.origins()
    }
}

impl HttpMeters {
    /// Takes bytes in one direction, if that many are left.
    #[must_use]
    pub(crate) fn take(&self, direction: Direction, bytes: u64) -> bool {
        let enough = self.bytes.take(bytes);
        if enough {
            match direction {
                Direction::Out => self.sent.add(bytes),
                Direction::In => self.received.add(bytes),
            }
        }
        enough
    }

    #[cfg(test)]
    pub(crate) fn requests(&self) -> &Meter {
        &self.requests
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> &Meter {
        &self.bytes
    }

    pub(crate) fn origins(&self) -> Vec<String> {
        self.origins.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Notes a request to an origin and returns whether it is the first of the call.
    fn is_first(&self, origin: &str) -> bool {
        self.origins.lock().unwrap_or_else(PoisonError::into_inner).insert(origin.to_owned())
    }
}

/// Bytes of the names and values of headers.
pub(crate) fn header_bytes(headers: &HeaderMap) -> u64 {
    headers.iter().map(|(name, value)| (name.as_str().len() + value.len()) as u64).sum()
}

type SendResult = Result<(Response<WasiBody>, Done), Error>;
type Done = Box<dyn Future<Output = Result<(), Error>> + Send>;

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { hooks: &mut self.call, table: &mut self.table, ctx: &mut self.http }
    }
}

impl WasiHttpHooks for CallContext {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        _options: Option<RequestOptions>,
        _processed: Done,
    ) -> Box<dyn Future<Output = SendResult> + Send> {
        let (http, origin) = match self.allowed(&request) {
            Ok(allowed) => allowed,
            Err(object) => {
                self.deny(Capability::Http, &object);
                return Box::new(async { Err(Error::HttpRequestDenied) });
            }
        };
        let meters = Arc::clone(&self.meters);
        if !meters.http.requests.take(1) {
            self.used_up(&meters.http.requests, &origin);
            return Box::new(async { Err(Error::HttpRequestDenied) });
        }
        if let Err(why) = self.record_request(&origin, request.method().as_str()) {
            return Box::new(async { Err(Error::InternalError(Some(why))) });
        }
        let (outbound, denials) = (self.outbound.clone(), self.denials.clone());
        let task = self.runtime.spawn(async move {
            let refused = |why| {
                if matches!(why, Unsent::TooLarge(_)) {
                    denials.used_up(&meters.http.bytes, &origin);
                }
                unsent(why)
            };
            let left = &meters.http;
            let request = whole(request, http.request_bytes, left).await.map_err(refused)?;
            // The permit is taken after the body is complete, so that a slow body keeps no other request waiting.
            let _permit = left.at_once.acquire().await.map_err(|_| Error::InternalError(None))?;
            let bounds =
                ResponseBounds { most: http.response_bytes, is_local: http.allows_local(&origin) };
            let answered = outbound.send(&origin, request, bounds, left).await;
            answered.map_err(|why| {
                match why {
                    NoResponse::Private(_) => {
                        denials.deny(Capability::Http, &format!("{origin}: {why}"));
                    }
                    NoResponse::TooLarge(_) => denials.used_up(&left.bytes, &origin),
                    _ => {}
                }
                error(why)
            })
        });
        let mut task = AbortOnDrop(task);
        Box::new(async move {
            let answered = (&mut task.0).await.map_err(|_| Error::InternalError(None))??;
            let body = |bytes| Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
            Ok((answered.map(body), Box::new(async { Ok(()) }) as Done))
        })
    }
}

/// Aborts the request when the component drops it.
struct AbortOnDrop(JoinHandle<Result<Response<Bytes>, Error>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl CallContext {
    /// Records a request before it is sent. A request that cannot be recorded is not sent.
    fn record_request(&self, origin: &str, method: &str) -> Result<(), String> {
        let first = self.meters.http.is_first(origin);
        let recorded = self.audit.as_ref().map(|audit| audit.record_request(origin, method, first));
        recorded.unwrap_or(Ok(())).map_err(|error| format!("it cannot be recorded: {error}"))
    }

    /// Returns the bounds and the origin of a request that the grant covers, or else the request as a denial names it.
    fn allowed(&self, request: &Request<WasiBody>) -> Result<(Http, String), String> {
        let uri = request.uri();
        let (scheme, authority) = (uri.scheme_str(), uri.authority().map(|one| one.as_str()));
        let text = format!("{}://{}", scheme.unwrap_or_default(), authority.unwrap_or_default());
        let object = format!("{} {text}", request.method());
        let (Some(http), Ok(origin), Ok(method)) =
            (&self.grant.http, text.parse::<Origin>(), request.method().as_str().parse::<Method>())
        else {
            return Err(object);
        };
        if !http.covers(&origin, &method) {
            return Err(object);
        }
        Ok((http.clone(), text))
    }
}

/// The reason why a request is not sent.
enum Unsent {
    /// The body had this many bytes when it passed a bound.
    TooLarge(u64),
    /// The header names another length than the body has.
    OtherLength,
    /// The body ended in an error, so its end is unknown.
    Broken(Error),
}

/// Collects the body of a request within the bounds.
async fn whole(
    request: Request<WasiBody>,
    most: u64,
    left: &HttpMeters,
) -> Result<Request<Bytes>, Unsent> {
    let (mut parts, mut body) = request.into_parts();
    let address = parts.uri.path_and_query().map_or(0, |path| path.as_str().len());
    let head = (parts.method.as_str().len() + address) as u64 + header_bytes(&parts.headers);
    if !left.take(Direction::Out, head) {
        return Err(Unsent::TooLarge(head));
    }
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Unsent::Broken)?.into_data() else { continue };
        let size = (bytes.len() + data.len()) as u64;
        if size > most || !left.take(Direction::Out, data.len() as u64) {
            return Err(Unsent::TooLarge(size));
        }
        bytes.extend_from_slice(&data);
    }
    let mut lengths = parts.headers.get_all(CONTENT_LENGTH).iter();
    if lengths.any(|length| length.to_str().unwrap_or_default().parse() != Ok(bytes.len())) {
        return Err(Unsent::OtherLength);
    }
    // The client sets the header.
    parts.headers.remove(CONTENT_LENGTH);
    Ok(Request::from_parts(parts, bytes.freeze()))
}

fn unsent(why: Unsent) -> Error {
    match why {
        Unsent::TooLarge(size) => Error::HttpRequestBodySize(Some(size)),
        Unsent::OtherLength => Error::HttpRequestBodySize(None),
        Unsent::Broken(error) => error,
    }
}

fn error(why: NoResponse) -> Error {
    match why {
        NoResponse::Private(_) => Error::DestinationIpProhibited,
        NoResponse::NoAddress => Error::DestinationNotFound,
        NoResponse::TooLarge(most) => Error::HttpResponseBodySize(Some(most)),
        NoResponse::Address => Error::HttpRequestUriInvalid,
        NoResponse::Failed(_) => Error::ConnectionTerminated,
    }
}
