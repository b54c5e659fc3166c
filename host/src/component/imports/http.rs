//! `wasi:http` for a component that was granted origins. The grant is asked before anything is sent; sending happens
//! on the caller's side, so that deadline and cancellation close the connection.

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::http::{Request, Response};
use tokio::task::JoinHandle;
use wasmtime_wasi_http::{
    Error, RequestOptions, WasiBody, WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
};

use crate::component::admission::Capability;
use crate::component::grant::Http;
use crate::component::outbound::NoResponse;
use crate::component::state::{Query, State};
use crate::component::words::{Method, Origin};

const GRANT: &str = "http";
const BYTES: &str = "http.bytes";

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
        self.usage.origin(&origin);
        let (outbound, denials) = (self.outbound.clone(), self.denials.clone());
        let task = self.runtime.spawn(async move {
            let over = |size| {
                denials.deny(BYTES, &origin);
                Error::HttpRequestBodySize(Some(size))
            };
            let request = whole(request, http.request_bytes).await.map_err(over)?;
            let answered = outbound.send(&origin, request, http.response_bytes).await;
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

/// Collected up to the cap; otherwise how much there was by then.
async fn whole(request: Request<WasiBody>, most: u64) -> Result<Request<Bytes>, u64> {
    let (parts, mut body) = request.into_parts();
    let mut bytes = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() as u64 > most {
            return Err(bytes.len() as u64);
        }
    }
    Ok(Request::from_parts(parts, bytes.freeze()))
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
