//! Requests to a registry: to whom, with which credentials, and how long.
//!
//! - Names are resolved here, and a connection goes to the addresses that were checked. A redirect to an address of this
//!   machine or a private network is followed only if the registry itself is there, because what answers there may trust
//!   whoever reaches it.
//! - Credentials go to the registry's own origin, and to its token service: at the same host, or named in `config.toml`. After a
//!   redirect to another origin no request of the same chain has credentials.
//! - Plain http is spoken to loopback addresses only. No proxy is used, because its connections could not be checked.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use reqwest::header::{
    AUTHORIZATION, CONTENT_LENGTH, HeaderMap, HeaderValue, LOCATION, WWW_AUTHENTICATE,
};
use reqwest::{Certificate, Client, Method, Response, StatusCode, Url};
use serde::Deserialize;
use tokio::time::{Instant, sleep_until, timeout};

use crate::credentials::{Credential, DockerConfig};
use crate::error::RegistryError;
use act_core::address::Zone;
use act_core::secret::Secret;

/// Longest wait for the next byte.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest time of all requests for one reference. 64 MiB take 15 minutes at 75 kB/s.
const LONGEST: Duration = Duration::from_secs(900);
/// Longest time for establishing a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Maximum number of redirects of one request. Registries redirect once, to where they store blobs.
const MAX_REDIRECTS: usize = 5;
/// Addresses of one name that are used.
const MAX_ADDRESSES: usize = 64;
/// Maximum number of bytes of the answer of a token service. A token has some thousand.
const MAX_TOKEN: u64 = 64 << 10;
/// Number of bytes that are sent at once.
const PIECE: usize = 64 << 10;
/// The API host of Docker's registry, whose references name `docker.io`, and its token service.
const DOCKER_HUB: (&str, &str, &str) =
    ("docker.io", "registry-1.docker.io", "https://auth.docker.io/token");

/// What a person set for a registry.
#[derive(Default)]
pub struct Access {
    /// Certificate authorities of this registry in PEM, instead of those of the platform.
    pub ca: Option<Vec<u8>>,
    /// The address of its token service, which may get credentials.
    pub realm: Option<String>,
    pub docker: Option<DockerConfig>,
}

/// What requests meet outside of this program; tests replace it.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings {
    pub(crate) zone: fn(IpAddr) -> Zone,
    pub(crate) patience: Duration,
}

impl Default for Surroundings {
    fn default() -> Self {
        Self { zone: Zone::of, patience: PATIENCE }
    }
}

/// What requests for a repository may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Pull,
    Push,
}

/// The connections for one reference.
pub(crate) struct Transport {
    /// The host as the reference names it, for messages, settings and credentials.
    host: String,
    origin: Url,
    scope: String,
    access: Access,
    surroundings: Surroundings,
    end: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    authorization: Option<Secret>,
    /// Whether a credential was used for it.
    with_credentials: bool,
    /// Where the registry is.
    zones: Vec<Zone>,
    clients: HashMap<String, Client>,
}

/// A request without its address.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Request {
    pub(crate) fn new(method: Method) -> Self {
        Self { method, headers: HeaderMap::new(), body: Bytes::new() }
    }

    pub(crate) fn header(mut self, name: reqwest::header::HeaderName, value: &'static str) -> Self {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    pub(crate) fn body(self, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..self }
    }
}

/// Who a server is, which decides whose certificates count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Server {
    Registry,
    /// The token service that a person named.
    NamedRealm,
    Other,
}

impl Transport {
    pub(crate) fn new(
        host: &str,
        repository: &str,
        scope: Scope,
        access: Access,
        surroundings: Surroundings,
    ) -> Result<Self, RegistryError> {
        let (hub, api, _) = DOCKER_HUB;
        let real = if host == hub { api } else { host };
        // A local registry speaks plain http, unless a person named its authority.
        let https = Url::parse(&format!("https://{real}/"));
        let plain = Url::parse(&format!("http://{real}/"));
        let origin = match (https, plain) {
            (Ok(https), Ok(plain)) => {
                if is_loopback(&plain) && access.ca.is_none() {
                    plain
                } else {
                    https
                }
            }
            _ => return Err(unreachable(host, "its name is no host")),
        };
        let actions = match scope {
            Scope::Pull => "pull",
            Scope::Push => "pull,push",
        };
        Ok(Self {
            host: host.to_owned(),
            origin,
            scope: format!("repository:{repository}:{actions}"),
            access,
            surroundings,
            end: Instant::now() + LONGEST,
            state: Mutex::default(),
        })
    }

    /// Returns the address of a path at the registry.
    pub(crate) fn url(&self, path: &str) -> Result<Url, RegistryError> {
        self.origin.join(path).map_err(|_| unreachable(&self.host, "its name is no host"))
    }

    /// Returns the address that the registry names for an upload.
    pub(crate) fn upload(&self, from: &Url, answer: &Response) -> Result<Url, RegistryError> {
        let url = location(from, answer).ok_or_else(|| self.status(answer.status()))?;
        if self.is_own(&url) {
            Ok(url)
        } else {
            Err(self.refuse(&url, "another host for an upload"))
        }
    }

    /// Sends a request to the registry, with authorization if it asks for it, and follows redirects of requests that only read.
    ///
    /// # Errors
    ///
    /// The registry cannot be reached, does not answer in time, refuses access, or redirects to where no request may go.
    pub(crate) async fn send(
        &self,
        url: Url,
        request: &Request,
    ) -> Result<Response, RegistryError> {
        let (mut url, mut is_first_origin, mut is_authorized) = (url, true, false);
        for _ in 0..=MAX_REDIRECTS {
            is_first_origin = is_first_origin && self.is_own(&url);
            let server = if is_first_origin { Server::Registry } else { Server::Other };
            let mut with_credentials = request.clone();
            let authorization = self.state().authorization.clone();
            if let Some(value) = authorization.filter(|_| is_first_origin) {
                let mut value = HeaderValue::from_str(value.expose())
                    .map_err(|_| RegistryError::Challenge { host: self.host.clone() })?;
                value.set_sensitive(true);
                with_credentials.headers.insert(AUTHORIZATION, value);
            }
            let answer = self.exchange(&url, with_credentials, server).await?;
            let status = answer.status();
            if status == StatusCode::UNAUTHORIZED && is_first_origin && !is_authorized {
                self.authorize(answer.headers()).await?;
                is_authorized = true;
                continue;
            }
            if status.is_redirection() {
                let reads = [Method::GET, Method::HEAD].contains(&request.method);
                let next = location(&url, &answer).filter(|_| reads);
                url = next.ok_or_else(|| self.status(status))?;
                continue;
            }
            return Ok(answer);
        }
        Err(self.refuse(&url, "after too many redirects"))
    }

    /// Reads a body of at most `most` bytes.
    pub(crate) async fn body(
        &self,
        mut answer: Response,
        what: &'static str,
        most: u64,
    ) -> Result<Vec<u8>, RegistryError> {
        let too_large = || RegistryError::TooLarge { what, most };
        if answer.content_length().is_some_and(|length| length > most) {
            return Err(too_large());
        }
        let mut bytes = vec![];
        loop {
            let piece = timeout(self.wait()?, answer.chunk()).await;
            match piece.map_err(|_| self.stalled())?.map_err(|error| self.failed(error))? {
                None => return Ok(bytes),
                Some(piece) if (bytes.len() + piece.len()) as u64 > most => return Err(too_large()),
                Some(piece) => bytes.extend_from_slice(&piece),
            }
        }
    }

    /// Returns the error for an answer that is none of those that the registry may give.
    pub(crate) fn unexpected(&self, status: StatusCode, what: impl Into<String>) -> RegistryError {
        let host = self.host.clone();
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let with_credentials = self.state().with_credentials;
                RegistryError::Denied { host, status: status.as_u16(), with_credentials }
            }
            StatusCode::NOT_FOUND => RegistryError::Missing { host, what: what.into() },
            _ => self.status(status),
        }
    }

    fn status(&self, status: StatusCode) -> RegistryError {
        RegistryError::Status { host: self.host.clone(), status: status.as_u16() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.origin.origin()
    }

    fn refuse(&self, to: &Url, why: &'static str) -> RegistryError {
        let to = to.origin().ascii_serialization();
        RegistryError::Redirect { host: self.host.clone(), to, why }
    }

    fn stalled(&self) -> RegistryError {
        let (host, waited) = (self.host.clone(), self.surroundings.patience);
        RegistryError::Stalled { host, waited }
    }

    fn failed(&self, error: reqwest::Error) -> RegistryError {
        // The innermost error says what happened; those around it say that a request failed.
        let error = error.without_url();
        let mut why: &dyn std::error::Error = &error;
        while let Some(source) = why.source() {
            why = source;
        }
        unreachable(&self.host, &why.to_string())
    }

    /// Returns how long the next byte may take.
    fn wait(&self) -> Result<Duration, RegistryError> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(RegistryError::TooSlow { host: self.host.clone(), limit: LONGEST });
        }
        Ok(left.min(self.surroundings.patience))
    }

    /// Sends one request and returns the beginning of its answer.
    async fn exchange(
        &self,
        url: &Url,
        request: Request,
        server: Server,
    ) -> Result<Response, RegistryError> {
        let client = self.client(url, server).await?;
        let Request { method, headers, body } = request;
        let sent = Arc::new(AtomicU64::new(0));
        let mut sending = client.request(method, url.clone()).headers(headers);
        if !body.is_empty() {
            sending = sending
                .header(CONTENT_LENGTH, body.len())
                .body(reqwest::Body::wrap_stream(in_pieces(body, Arc::clone(&sent))));
        }
        let answer = sending.send();
        tokio::pin!(answer);
        let (mut before, mut last) = (0, Instant::now());
        loop {
            let wait = self.wait()?;
            tokio::select! {
                answer = &mut answer => return answer.map_err(|error| self.failed(error)),
                () = sleep_until(last + wait) => {
                    // A body that is being sent is progress as well.
                    let now = sent.load(Ordering::Relaxed);
                    if now == before {
                        return Err(self.stalled());
                    }
                    (before, last) = (now, Instant::now());
                }
            }
        }
    }

    /// Returns a client that connects to checked addresses of this server only.
    async fn client(&self, url: &Url, server: Server) -> Result<Client, RegistryError> {
        if url.scheme() != "https" && !(url.scheme() == "http" && is_loopback(url)) {
            return Err(self.refuse(url, "which is not https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(self.refuse(url, "with a user or a password in the address"));
        }
        let key = url.origin().ascii_serialization();
        if let Some(client) = self.state().clients.get(&key) {
            return Ok(client.clone());
        }
        let addresses = self.addresses(url).await?;
        let zones: Vec<_> =
            addresses.iter().map(|one| (self.surroundings.zone)(one.ip())).collect();
        match server {
            Server::Registry => self.state().zones.clone_from(&zones),
            Server::NamedRealm => {}
            Server::Other => {
                let registry = self.state().zones.clone();
                let may = |zone: &Zone| {
                    *zone == Zone::Public || (*zone != Zone::Reserved && registry.contains(zone))
                };
                if !zones.iter().all(may) {
                    return Err(self.refuse(url, "whose address is not public"));
                }
            }
        }
        if url.scheme() == "http" && !addresses.iter().all(|one| one.ip().is_loopback()) {
            return Err(self.refuse(url, "which is not on this machine, without https"));
        }
        let client = self.build(url, &addresses, server)?;
        self.state().clients.insert(key, client.clone());
        Ok(client)
    }

    async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, RegistryError> {
        let host = url.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let port = url.port_or_known_default().unwrap_or_default();
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let found = timeout(self.wait()?, tokio::net::lookup_host((bare, port))).await;
        let found = found.map_err(|_| self.stalled())?;
        let found = found.map_err(|error| unreachable(host, &error.to_string()))?;
        let found: Vec<_> = found.take(MAX_ADDRESSES).collect();
        if found.is_empty() {
            return Err(unreachable(host, "its name has no address"));
        }
        Ok(found)
    }

    fn build(
        &self,
        url: &Url,
        addresses: &[SocketAddr],
        server: Server,
    ) -> Result<Client, RegistryError> {
        // An error means that the process has a provider already, which is then used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("act/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            .connect_timeout(CONNECT.min(self.surroundings.patience))
            .resolve_to_addrs(url.host_str().unwrap_or_default(), addresses);
        let certificates = || {
            let wrong = |why: String| RegistryError::Certificates { host: self.host.clone(), why };
            let pem = self.access.ca.as_deref().unwrap_or_default();
            let found = Certificate::from_pem_bundle(pem)
                .map_err(|error| wrong(error.without_url().to_string()))?;
            if found.is_empty() {
                return Err(wrong("the file has no certificate in PEM".to_owned()));
            }
            Ok(found)
        };
        builder = match (url.scheme(), &self.access.ca, server) {
            // Plain http without redirects meets no certificate.
            ("http", ..) => builder.tls_certs_only([]),
            (_, Some(_), Server::Registry) => builder.tls_certs_only(certificates()?),
            (_, Some(_), Server::NamedRealm) => builder.tls_certs_merge(certificates()?),
            _ => builder,
        };
        builder.build().map_err(|error| self.failed(error))
    }

    /// Gets an authorization as the registry's answer asks for it.
    async fn authorize(&self, headers: &HeaderMap) -> Result<(), RegistryError> {
        let challenge = || RegistryError::Challenge { host: self.host.clone() };
        let texts =
            headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let texts: Vec<_> = texts.collect();
        let challenges: Vec<_> = texts
            .iter()
            .filter_map(|text| http_auth::parse_challenges(text).ok())
            .flatten()
            .collect();
        let of =
            |scheme: &str| challenges.iter().find(|one| one.scheme.eq_ignore_ascii_case(scheme));
        let credential = self.credential().await?;
        let with_credentials = credential.is_some();
        let authorization = if let Some(bearer) = of("Bearer") {
            let parameter = |name: &str| {
                let found = bearer.params.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
                found.map(|(_, value)| value.to_unescaped())
            };
            let realm = parameter("realm").and_then(|realm| Url::parse(&realm).ok());
            let realm = realm.ok_or_else(challenge)?;
            self.token(realm, parameter("service"), credential).await?
        } else if of("Basic").is_some() {
            let status = StatusCode::UNAUTHORIZED;
            credential.ok_or_else(|| self.unexpected(status, ""))?.basic()
        } else {
            return Err(challenge());
        };
        let mut state = self.state();
        state.authorization = Some(authorization);
        state.with_credentials = with_credentials;
        Ok(())
    }

    /// Returns the credential of a person for the registry. A helper may block for as long as it asks that person.
    async fn credential(&self) -> Result<Option<Credential>, RegistryError> {
        let Some(docker) = self.access.docker.clone() else { return Ok(None) };
        let host = self.host.clone();
        let asked = tokio::task::spawn_blocking(move || docker.credential(&host)).await;
        asked.unwrap_or_else(|_| {
            let why = "the helper was stopped".to_owned();
            Err(RegistryError::Credentials { host: self.host.clone(), why })
        })
    }

    /// Gets a token from the token service that the registry names.
    async fn token(
        &self,
        mut realm: Url,
        service: Option<String>,
        credential: Option<Credential>,
    ) -> Result<Secret, RegistryError> {
        let challenge = || RegistryError::Challenge { host: self.host.clone() };
        let (hub, _, hub_realm) = DOCKER_HUB;
        let named = match &self.access.realm {
            Some(realm) => Some(realm.as_str()),
            None if self.host == hub => Some(hub_realm),
            None => None,
        };
        let is_named = named.and_then(|named| Url::parse(named).ok()).as_ref() == Some(&realm);
        // The same name at another port is another program, but one that whoever owns the name has put there.
        let is_own_host =
            realm.host_str() == self.origin.host_str() && realm.scheme() == self.origin.scheme();
        if credential.is_some() && !is_named && !is_own_host {
            realm.set_query(None);
            let (host, realm) = (self.host.clone(), realm.to_string());
            return Err(RegistryError::Realm { host, realm });
        }
        // The scope is ours: a registry must not choose what a token is good for.
        realm.query_pairs_mut().extend_pairs(service.map(|service| ("service", service)));
        realm.query_pairs_mut().append_pair("scope", &self.scope);
        let mut request = Request::new(Method::GET);
        let with_credentials = credential.is_some();
        if let Some(credential) = credential {
            let basic = HeaderValue::from_str(credential.basic().expose());
            let mut basic = basic.map_err(|_| challenge())?;
            basic.set_sensitive(true);
            request.headers.insert(AUTHORIZATION, basic);
        }
        let server = match (self.is_own(&realm), is_named) {
            (true, _) => Server::Registry,
            (false, true) => Server::NamedRealm,
            (false, false) => Server::Other,
        };
        let answer = self.exchange(&realm, request, server).await?;
        if answer.status() != StatusCode::OK {
            self.state().with_credentials = with_credentials;
            return Err(self.unexpected(answer.status(), "token for this name"));
        }
        let body = self.body(answer, "the token", MAX_TOKEN).await?;
        let answer: TokenAnswer = serde_json::from_slice(&body).map_err(|_| challenge())?;
        let token = answer.token.or(answer.access_token).unwrap_or_default();
        if token.is_empty() || !token.chars().all(|c| c.is_ascii_graphic()) {
            return Err(challenge());
        }
        Ok(Secret::learned(format!("Bearer {token}")))
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

fn unreachable(host: &str, why: &str) -> RegistryError {
    RegistryError::Unreachable { host: host.to_owned(), why: why.to_owned() }
}

/// Returns whether the host of an address is this machine by its name: a loopback address or `localhost`.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the address in the header `Location`, without a fragment.
fn location(from: &Url, answer: &Response) -> Option<Url> {
    let text = answer.headers().get(LOCATION)?.to_str().ok()?;
    let mut url = from.join(text).ok()?;
    url.set_fragment(None);
    Some(url)
}

/// Returns a body in pieces. `sent` counts the bytes that the connection has taken.
fn in_pieces(
    body: Bytes,
    sent: Arc<AtomicU64>,
) -> impl futures_util::Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static {
    stream::unfold(body, move |mut rest| {
        let sent = Arc::clone(&sent);
        async move {
            if rest.is_empty() {
                return None;
            }
            let piece = rest.split_to(rest.len().min(PIECE));
            sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
            Some((Ok(piece), rest))
        }
    })
}
