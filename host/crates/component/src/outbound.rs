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
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Url};

use crate::capability::{Direction, HttpMeters, Origin, header_bytes};
use act_core::address::Zone;

/// Longest time for establishing a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Addresses of one name that are used. A name with more has the others ignored.
const MAX_ADDRESSES: usize = 64;

type Resolver =
    dyn Fn(String, u16) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>> + Send + Sync;

/// The way to the network: a resolver of names, and a check of their addresses.
#[derive(Clone)]
pub struct Outbound {
    resolve: Arc<Resolver>,
    reachable: fn(IpAddr) -> bool,
    /// The clients of one call. They are more than one only if a name changes its addresses during the call, or an origin
    /// with a certificate follows one without.
    clients: Arc<Mutex<Vec<Pinned>>>,
}

/// A client that connects to checked addresses and to no others.
struct Pinned {
    client: Client,
    addresses: Arc<Addresses>,
    /// The client has the certificates of the system, which take time to read.
    checks_certificates: bool,
}

/// The checked addresses of each name. A name keeps its addresses, because the client may hold a connection to one of them.
#[derive(Default)]
struct Addresses(Mutex<HashMap<String, Vec<IpAddr>>>);

impl Addresses {
    /// Adds the addresses of a name. Returns false if the name has others already.
    fn pin(&self, host: &str, addresses: &[IpAddr]) -> bool {
        let mut pinned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match pinned.get(host) {
            Some(known) => known == addresses,
            None => {
                pinned.insert(host.to_owned(), addresses.to_vec());
                true
            }
        }
    }
}

/// The only way in which a client finds the address of a name.
impl Resolve for Addresses {
    fn resolve(&self, name: Name) -> Resolving {
        let pinned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match pinned.get(name.as_str()) {
            // The client sets the port of the origin.
            Some(known) => {
                let known: Vec<_> = known.iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
                Ok(Box::new(known.into_iter()) as Addrs)
            }
            None => Err("its addresses were not checked".into()),
        };
        Box::pin(std::future::ready(found))
    }
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
        let client = self.client(&url, is_local).await?;
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
    /// and checks the addresses again. The requests of one call share a client, and so its connections.
    async fn client(&self, url: &Url, is_local: bool) -> Result<Client, NoResponse> {
        let host = url.host_str().ok_or(NoResponse::Address)?;
        let addresses = self.addresses(url, host, is_local).await?;
        let is_secure = url.scheme() != "http";
        // Held while a client is made, so that requests at the same time wait for one and share it.
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |pinned: &&Pinned| {
            (pinned.checks_certificates || !is_secure) && pinned.addresses.pin(host, &addresses)
        };
        if let Some(pinned) = clients.iter().find(fits) {
            return Ok(pinned.client.clone());
        }
        let pinned = Pinned::new(is_secure)?;
        pinned.addresses.pin(host, &addresses);
        let client = pinned.client.clone();
        clients.push(pinned);
        Ok(client)
    }

    /// Resolves a host and checks all of its addresses. Only a literal loopback address is one of this machine: a name could
    /// lead to another service each time.
    async fn addresses(
        &self,
        url: &Url,
        host: &str,
        is_local: bool,
    ) -> Result<Vec<IpAddr>, NoResponse> {
        let port = url.port_or_known_default().ok_or(NoResponse::Address)?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let addresses = match bare.parse::<IpAddr>() {
            Ok(address) if is_local && address.is_loopback() => return Ok(vec![address]),
            Ok(address) => vec![address],
            Err(_) => (self.resolve)(host.to_owned(), port)
                .await
                .map_err(|error| NoResponse::Failed(error.to_string()))?
                .iter()
                .map(SocketAddr::ip)
                .collect(),
        };
        if addresses.is_empty() {
            return Err(NoResponse::NoAddress);
        }
        if let Some(private) = addresses.iter().find(|address| !(self.reachable)(**address)) {
            return Err(NoResponse::Private(*private));
        }
        Ok(addresses)
    }
}

impl Pinned {
    /// Makes a client that has no addresses yet.
    ///
    /// # Errors
    ///
    /// [`NoResponse::Failed`] if the certificates of the system cannot be read.
    fn new(checks_certificates: bool) -> Result<Self, NoResponse> {
        // An error means that the process has a provider already, which is then used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let addresses = Arc::<Addresses>::default();
        let mut builder = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            .connect_timeout(CONNECT)
            .dns_resolver(Arc::clone(&addresses));
        if !checks_certificates {
            // No redirect is followed, so this client never meets a certificate.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build();
        let client = client.map_err(|error| NoResponse::Failed(error.without_url().to_string()))?;
        Ok(Self { client, addresses, checks_certificates })
    }
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

    // CAPABILITY-33
    #[tokio::test]
    async fn origins_of_one_call_share_a_client_until_a_name_has_other_addresses() {
        use std::sync::atomic::{AtomicU8, Ordering};
        let last = Arc::new(AtomicU8::new(1));
        let resolve = {
            let last = Arc::clone(&last);
            move |_: String, port| -> BoxFuture<'static, _> {
                let address = SocketAddr::from(([1, 1, 1, last.load(Ordering::Relaxed)], port));
                Box::pin(async move { Ok(vec![address]) })
            }
        };
        let call = Outbound::new(resolve, is_public).for_one_call();
        let clients = async |origins: &[&str]| {
            for origin in origins {
                call.client(&Url::parse(origin).unwrap(), false).await.unwrap();
            }
            call.clients.lock().unwrap().len()
        };
        let origins = ["https://a.example", "https://b.example:8443", "http://b.example"];
        assert_eq!(clients(&origins).await, 1);
        last.store(2, Ordering::Relaxed);
        assert_eq!(clients(&["https://c.example"]).await, 1, "a name that is new");
        assert_eq!(clients(&["https://a.example"]).await, 2, "a name that has moved");
        assert_eq!(clients(&origins).await, 2);
        assert_eq!(call.for_one_call().clients.lock().unwrap().len(), 0);
    }

    // CAPABILITY-33, security line 29
    #[tokio::test]
    async fn a_client_finds_no_address_that_was_not_checked() {
        let addresses = Addresses::default();
        assert!(addresses.pin("a.example", &[IpAddr::from([1, 1, 1, 1])]));
        assert!(!addresses.pin("a.example", &[IpAddr::from([127, 0, 0, 1])]));
        let found = async |name: &str| {
            let found = addresses.resolve(name.parse().unwrap()).await;
            found.map(Iterator::collect::<Vec<_>>).map_err(|error| error.to_string())
        };
        assert_eq!(found("a.example").await, Ok(vec![SocketAddr::from(([1, 1, 1, 1], 0))]));
        for name in ["localhost", "b.example", "A.example"] {
            assert_eq!(found(name).await, Err("its addresses were not checked".into()), "{name}");
        }
    }

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
