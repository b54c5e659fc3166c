//! Requests of components to the network. A request resolves the name of the origin, checks that every address is
//! public, and connects to one of the checked addresses and to no other. No redirect is followed.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use hyper::http::{Request, Response};
use reqwest::{Client, Url};

use crate::capability::{Direction, HttpMeters, Origin, header_bytes};
use act_core::address::Zone;

/// Longest time for establishing a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Addresses of one name that are used. A name with more has the others ignored.
const MAX_ADDRESSES: usize = 64;

type Clients = HashMap<(String, Vec<SocketAddr>), Client>;

type Resolve =
    dyn Fn(String, u16) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>> + Send + Sync;

/// The way to the network: a resolver of names, and a check of their addresses.
#[derive(Clone)]
pub struct Outbound {
    resolve: Arc<Resolve>,
    reachable: fn(IpAddr) -> bool,
    /// The clients of one call, by origin and checked addresses.
    clients: Arc<Mutex<Clients>>,
}

impl Default for Outbound {
    fn default() -> Self {
        let system = |host: String, port| -> BoxFuture<'static, _> {
            Box::pin(async move {
                Ok(tokio::net::lookup_host((host, port)).await?.take(MAX_ADDRESSES).collect())
            })
        };
        Self { resolve: Arc::new(system), reachable: is_public, clients: Arc::default() }
    }
}

/// The reason why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoResponse {
    #[error("its address {0} is not public")]
    Private(IpAddr),
    #[error("its name has no address")]
    NoAddress,
    #[error("the response is larger than {0} bytes")]
    TooLarge(u64),
    #[error("its address is not one of the granted origin")]
    Address,
    #[error("{0}")]
    Failed(String),
}

/// What the grant allows of one response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResponseBounds {
    /// Maximum size of the body, in bytes.
    pub(crate) most: u64,
    /// The origin may have a loopback address.
    pub(crate) is_local: bool,
}

impl Outbound {
    /// Replaces the resolver and the check of addresses, so that tests reach their own servers.
    pub fn new(
        resolve: impl Fn(String, u16) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>>
        + Send
        + Sync
        + 'static,
        reachable: fn(IpAddr) -> bool,
    ) -> Self {
        Self { resolve: Arc::new(resolve), reachable, clients: Arc::default() }
    }

    /// Returns a copy without clients, so that two calls share neither connections nor addresses.
    pub(crate) fn for_one_call(&self) -> Self {
        Self { clients: Arc::default(), ..self.clone() }
    }

    /// Sends one request to a granted origin and returns the whole response. Dropping the future closes the connection.
    ///
    /// # Errors
    ///
    /// [`NoResponse`]: the address is not the origin's, or neither public nor a granted one of this machine, the response is
    /// larger than the bounds or `left` allow, or the connection failed.
    pub(crate) async fn send(
        &self,
        origin: &str,
        request: Request<Bytes>,
        ResponseBounds { most, is_local }: ResponseBounds,
        left: &HttpMeters,
    ) -> Result<Response<Bytes>, NoResponse> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let slash = if path.starts_with('/') { "" } else { "/" };
        let url = Url::parse(&format!("{origin}{slash}{path}")).map_err(|_| NoResponse::Address)?;
        if url.origin().ascii_serialization() != origin || !url.username().is_empty() {
            return Err(NoResponse::Address);
        }
        let client = self.client(origin, &url, is_local).await?;
        let (parts, body) = request.into_parts();
        let mut headers = parts.headers;
        // The client sets the host of the origin.
        headers.remove(reqwest::header::HOST);
        let failed = |error: reqwest::Error| NoResponse::Failed(error.without_url().to_string());
        let asked = client.request(parts.method, url).headers(headers).body(body).send();
        let answered = asked.await.map_err(failed)?;
        let mut response = Response::builder().status(answered.status());
        if let Some(headers) = response.headers_mut() {
            headers.clone_from(answered.headers());
        }
        if !left.take(Direction::In, header_bytes(answered.headers())) {
            return Err(NoResponse::TooLarge(most));
        }
        let mut whole = BytesMut::new();
        let mut stream = answered.bytes_stream();
        while let Some(piece) = stream.next().await {
            let piece = piece.map_err(failed)?;
            let size = (whole.len() + piece.len()) as u64;
            if size > most || !left.take(Direction::In, piece.len() as u64) {
                return Err(NoResponse::TooLarge(most));
            }
            whole.extend_from_slice(&piece);
        }
        response.body(whole.freeze()).map_err(|error| NoResponse::Failed(error.to_string()))
    }

    /// Returns a client that connects only to checked addresses of the origin. Every request resolves the name again
    /// and checks the addresses again. Requests of one call to the same addresses share a client.
    async fn client(&self, origin: &str, url: &Url, is_local: bool) -> Result<Client, NoResponse> {
        let host = url.host_str().ok_or(NoResponse::Address)?;
        let addresses = self.addresses(url, host, is_local).await?;
        let clients = || self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let pin = (origin.to_owned(), addresses);
        if let Some(client) = clients().get(&pin) {
            return Ok(client.clone());
        }
        let client = pinned(url, host, &pin.1)?;
        Ok(clients().entry(pin).or_insert(client).clone())
    }

    /// Resolves a host and checks all of its addresses. Only a literal loopback address is one of this machine: a name could
    /// lead to another service each time.
    async fn addresses(
        &self,
        url: &Url,
        host: &str,
        is_local: bool,
    ) -> Result<Vec<SocketAddr>, NoResponse> {
        let port = url.port_or_known_default().ok_or(NoResponse::Address)?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let addresses = match bare.parse::<IpAddr>() {
            Ok(address) if is_local && address.is_loopback() => {
                return Ok(vec![SocketAddr::new(address, port)]);
            }
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => (self.resolve)(host.to_owned(), port)
                .await
                .map_err(|error| NoResponse::Failed(error.to_string()))?,
        };
        if addresses.is_empty() {
            return Err(NoResponse::NoAddress);
        }
        if let Some(private) = addresses.iter().find(|address| !(self.reachable)(address.ip())) {
            return Err(NoResponse::Private(private.ip()));
        }
        Ok(addresses)
    }
}

/// Builds a client that connects to these addresses and to no other.
fn pinned(url: &Url, host: &str, addresses: &[SocketAddr]) -> Result<Client, NoResponse> {
    // An error means that the process has a provider already, which is then used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_proxy()
        .connect_timeout(CONNECT)
        .resolve_to_addrs(host, addresses);
    if url.scheme() == "http" {
        // No redirect is followed, so this client never meets a certificate.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| NoResponse::Failed(error.without_url().to_string()))
}

/// Returns true if the host part of an origin is a loopback, private or link-local address. Such an origin is refused
/// even if it is granted. The addresses of a DNS name are checked when it is resolved.
pub fn never_reached(origin: &Origin) -> bool {
    let Ok(url) = Url::parse(origin.as_str()) else { return true };
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse() {
        Ok(address) => !is_public(address),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

fn is_public(address: IpAddr) -> bool {
    Zone::of(address) == Zone::Public
}

#[cfg(test)]
mod tests {
    use super::*;

    // CAPABILITY-33, security line 29
    #[test]
    fn an_origin_that_is_visibly_not_public_is_never_reached() {
        for (origin, never) in [
            ("http://127.0.0.1:9911", true),
            ("https://localhost", true),
            ("https://a.localhost", true),
            ("https://[fe80::1]", true),
            ("https://169.254.169.254", true),
            ("https://1.1.1.1", false),
            ("https://api.example.com", false),
        ] {
            assert_eq!(never_reached(&origin.parse().unwrap()), never, "{origin}");
        }
    }
}
