//! `wasi:http` for a component that was granted origins. The grant is asked before anything is sent; sending happens
//! on the caller's side, so that deadline and cancellation close the connection.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::header::CONTENT_LENGTH;
use hyper::http::{Request, Response};
use tokio::task::JoinHandle;
use wasmtime_wasi_http::{
    Error, RequestOptions, WasiBody, WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
};

use crate::admission::Capability;
use crate::grant::Http;
use crate::http_left::{HttpLeft, Way, header_bytes};
use crate::outbound::NoResponse;
use crate::state::{Query, State};
use crate::words::{Method, Origin};

const GRANT: &str = "http";
const BYTES: &str = "http.bytes";
const REQUESTS: &str = "http.requests";

type Sent = Result<(Response<WasiBody>, Done), Error>;
type Done = Box<dyn Future<Output = Result<(), Error>> + Send>;

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { hooks: &mut self.query, table: &mut self.table, ctx: &mut self.http }
    }
}

impl WasiHttpHooks for Query {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        _options: Option<RequestOptions>,
        _processed: Done,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        let (http, origin) = match self.allowed(&request) {
            Ok(allowed) => allowed,
            Err(object) => {
                self.denials.deny(GRANT, &object);
                return Box::new(async { Err(Error::HttpRequestDenied) });
            }
        };
        let left = Arc::clone(&self.http_left);
        if !left.request() {
            self.denials.deny(REQUESTS, &origin);
            return Box::new(async { Err(Error::HttpRequestDenied) });
        }
        if let Err(why) = self.on_record(&origin, request.method().as_str()) {
            return Box::new(async { Err(Error::InternalError(Some(why))) });
        }
        let (outbound, denials) = (self.outbound.clone(), self.denials.clone());
        let task = self.runtime.spawn(async move {
            let refused = |why| {
                if matches!(why, Unsent::TooLarge(_)) {
                    denials.deny(BYTES, &origin);
                }
                unsent(why)
            };
            let request = whole(request, http.request_bytes, &left).await.map_err(refused)?;
            // Only now: a body that its guest is slow to write keeps nobody else waiting.
            let _turn = left.turns.acquire().await.map_err(|_| Error::InternalError(None))?;
            let answered = outbound.send(&origin, request, http.response_bytes, &left).await;
            answered.map_err(|why| {
                match why {
                    NoResponse::Private(_) => denials.deny(GRANT, &format!("{origin}: {why}")),
                    NoResponse::TooLarge(_) => denials.deny(BYTES, &origin),
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

/// A guest that goes away takes its request with it.
struct AbortOnDrop(JoinHandle<Result<Response<Bytes>, Error>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Query {
    /// No record, no request.
    fn on_record(&self, origin: &str, method: &str) -> Result<(), String> {
        let first = self.usage.origin(origin);
        let recorded = self.audited.as_ref().map(|audited| audited.reaches(origin, method, first));
        recorded.unwrap_or(Ok(())).map_err(|error| format!("it cannot be recorded: {error}"))
    }

    /// The origin as it was granted, letter by letter; else what was asked for.
    fn allowed(&self, request: &Request<WasiBody>) -> Result<(Http, String), String> {
        let uri = request.uri();
        let (scheme, authority) = (uri.scheme_str(), uri.authority().map(|one| one.as_str()));
        let text = format!("{}://{}", scheme.unwrap_or_default(), authority.unwrap_or_default());
        let object = format!("{} {text}", request.method());
        let (Some(http), Ok(origin), Ok(method)) = (
            self.grant.http.as_ref().filter(|_| self.grant.has(Capability::Http)),
            text.parse::<Origin>(),
            request.method().as_str().parse::<Method>(),
        ) else {
            return Err(object);
        };
        if !http.origins.contains(&origin) || !http.methods.contains(&method) {
            return Err(object);
        }
        Ok((http.clone(), text))
    }
}

/// Why a request does not go out.
enum Unsent {
    /// So much there was by then.
    TooLarge(u64),
    /// The guest said another length than its body has.
    OtherLength,
    /// Its body ended in an error, so that nobody knows what it was to be.
    Broken(Error),
}

/// Collected up to the caps, and exactly what the guest meant to send.
async fn whole(
    request: Request<WasiBody>,
    most: u64,
    left: &HttpLeft,
) -> Result<Request<Bytes>, Unsent> {
    let (mut parts, mut body) = request.into_parts();
    let address = parts.uri.path_and_query().map_or(0, |path| path.as_str().len());
    let head = (parts.method.as_str().len() + address) as u64 + header_bytes(&parts.headers);
    if !left.take(Way::Out, head) {
        return Err(Unsent::TooLarge(head));
    }
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Unsent::Broken)?.into_data() else { continue };
        let size = (bytes.len() + data.len()) as u64;
        if size > most || !left.take(Way::Out, data.len() as u64) {
            return Err(Unsent::TooLarge(size));
        }
        bytes.extend_from_slice(&data);
    }
    let other = |said: &str| said.parse() != Ok(bytes.len());
    let said = parts.headers.get_all(CONTENT_LENGTH).iter();
    if said.map(|said| said.to_str().unwrap_or_default()).any(other) {
        return Err(Unsent::OtherLength);
    }
    // Said once, by whoever sends.
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
