//! The server: walls first, then routes.
//!
//! Every request passes [`Shared::answer`]. It compares the host, refuses what another page sends, asks for the session, and only
//! then looks at the path. Answers carry the same headers, whatever they are.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::cursor::Position;
use crate::journals::Journals;
use crate::pages::{self, Page};
use crate::patient::Patient;
use crate::session::{Admitted, Sessions};
use crate::stream::{self, Readers};
use act_core::secret::Secrets;
use act_core::{Document, Failure, RunId, Schema};
use act_records::store::{Task, TaskState};
use act_task::{AuditFilter, Observer, TaskId};

/// The bounds of the server for its peers. Every number has a default, and tests use smaller ones.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of a request's line and headers. A cursor of 400 journals has 14 KiB.
    pub header_bytes: usize,
    /// Headers of a request; browsers send about fifteen.
    pub headers: usize,
    /// Time for the header of a request, also for the next one on an idle connection.
    pub header_time: Duration,
    /// Time in which a peer must show a session. A browser sends its first request within milliseconds.
    pub stranger_time: Duration,
    /// Time in which a peer must take something of its answer.
    pub patience: Duration,
    /// Connections at a time. A further one takes the place of the oldest without a session, or waits.
    pub connections: usize,
    /// Requests on one connection, so that no peer keeps one for ever.
    pub requests: usize,
    /// Streams of events at a time.
    pub streams: usize,
    /// Streams of one session: a browser opens six connections to a host, so one stays free.
    pub session_streams: usize,
    /// Time between two heartbeats of a stream.
    pub heartbeat: Duration,
    /// Time in which a token must be used.
    pub token_life: Duration,
    /// Time between two looks for tasks whose process died, while somebody reads the stream.
    pub dead_tasks: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes: 32 << 10,
            headers: 64,
            header_time: Duration::from_secs(20),
            stranger_time: Duration::from_secs(3),
            patience: Duration::from_secs(30),
            connections: 128,
            requests: 1000,
            streams: 64,
            session_streams: 5,
            heartbeat: Duration::from_secs(15),
            token_life: Duration::from_secs(60),
            dead_tasks: Duration::from_secs(5),
        }
    }
}

/// Where the server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Door {
    /// A port of the loopback interface; 0 for a free one.
    Port(u16),
    /// A Unix socket, whose directory belongs to the user alone.
    Socket(PathBuf),
}

/// Bytes of a form.
const MAX_FORM: usize = 4 << 10;
/// Time for the bytes of a form.
const FORM_TIME: Duration = Duration::from_secs(10);
/// Pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);
/// Tasks of `/api/tasks` and of the page, if the request names no number.
const TASKS: u32 = 50;
/// Maximum number of tasks of an answer.
const MAX_TASKS: u32 = 500;
/// Bytes of a piece of a log.
const PIECE: u64 = 256 << 10;
/// Records of the audit log on a page.
const RECORDS: usize = 200;
/// The cookie with the session.
const COOKIE: &str = "act_watch";
/// Random bytes in the name of the host: enough that no other page on this machine has the name.
const NAME: usize = 10;

/// Returns random digits for the name of the host, which knows no upper case.
fn name() -> String {
    act_fs::hex(&rand::random::<[u8; NAME]>())
}

/// A server that listens.
pub struct Server {
    listener: Listener,
    shared: Arc<Shared>,
}

enum Listener {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        path: PathBuf,
        /// The file system and number of the socket, which another server may have put its own in place of.
        identity: Option<(u64, u64)>,
    },
}

struct Shared {
    observer: Arc<Observer>,
    journals: Arc<Journals>,
    sessions: Sessions,
    readers: Arc<Readers>,
    memo: Arc<pages::Memo>,
    secrets: Secrets,
    limits: Limits,
    /// The names of the host with its port; none at a socket.
    names: Option<Names>,
}

struct Names {
    /// `act-RANDOM.localhost:PORT`, to which alone the browser sends the cookie.
    own: String,
    /// `127.0.0.1:PORT`, for browsers that do not know `localhost` below other names.
    literal: String,
}

impl Server {
    /// Opens the door, and looks at the journals for the first time.
    ///
    /// # Errors
    ///
    /// The port or the socket cannot be used or the journals cannot be watched (`watch_unusable`), or the store cannot be
    /// read.
    pub async fn listen(
        door: &Door,
        observer: Observer,
        secrets: Secrets,
        limits: Limits,
    ) -> Result<Self, Failure> {
        let (listener, names) = match door {
            Door::Port(port) => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).await;
                let unusable = |error: io::Error| {
                    Failure::refused("watch_unusable", format!("port {port} of 127.0.0.1: {error}"))
                        .hint("name another port with --port, or leave it out for a free one")
                };
                let listener = listener.map_err(unusable)?;
                let port = listener.local_addr().map_err(unusable)?.port();
                let own = format!("act-{}.localhost:{port}", name());
                let names = Names { own, literal: format!("127.0.0.1:{port}") };
                (Listener::Tcp(listener), Some(names))
            }
            Door::Socket(path) => {
                let listener = socket(path)?;
                let identity = identity(path);
                (Listener::Unix { listener, path: path.clone(), identity }, None)
            }
        };
        let observer = Arc::new(observer);
        let journals = Journals::new(Arc::clone(&observer))?;
        journals.follow().map_err(|error| {
            Failure::refused("watch_unusable", format!("the journals cannot be watched: {error}"))
                .hint("raise fs.inotify.max_user_instances if it is used up")
        })?;
        let sessions = Sessions::new(limits.token_life);
        let (readers, memo) = <(Arc<_>, Arc<_>)>::default();
        let shared = Shared { observer, journals, sessions, readers, memo, secrets, limits, names };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Returns an address with a new token; at a socket, its path.
    pub fn address(&self) -> String {
        match (&self.listener, &self.shared.names) {
            (Listener::Unix { path, .. }, _) => path.display().to_string(),
            (_, Some(names)) => {
                format!("http://{}/enter/{}", names.own, self.shared.sessions.token())
            }
            (_, None) => String::new(),
        }
    }

    /// Returns how long the token of an address works; `None` at a socket, which needs none.
    pub fn token_life(&self) -> Option<Duration> {
        self.shared.names.as_ref().map(|_| self.shared.limits.token_life)
    }

    /// Returns the number of streams that are open.
    pub fn streams(&self) -> usize {
        self.shared.readers.count()
    }

    /// Answers until the future is dropped.
    pub async fn serve(&self) {
        tokio::select! {
            () = self.accept() => {}
            () = Arc::clone(&self.shared).record_dead_tasks() => {}
        }
    }

    async fn accept(&self) {
        let mut seats = Seats::new(self.shared.limits.connections);
        loop {
            let accepted = match &self.listener {
                Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                    let _ = stream.set_nodelay(true);
                    Stream::Tcp(stream)
                }),
                Listener::Unix { listener, .. } => {
                    listener.accept().await.map(|(stream, _)| Stream::Unix(stream))
                }
            };
            let stream = match accepted {
                // The mode of the socket keeps others out already; root passes any mode.
                Ok(Stream::Unix(stream)) if !is_own(&stream) => continue,
                Ok(stream) => stream,
                Err(_) => {
                    // The process may have no free file descriptor for a while.
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let (peer, permit) = seats.take().await;
            let (shared, strangers) = (Arc::clone(&self.shared), Arc::clone(&seats.strangers));
            seats.open.spawn(async move {
                match stream {
                    Stream::Tcp(stream) => shared.connection(stream, &peer).await,
                    Stream::Unix(stream) => shared.connection(stream, &peer).await,
                }
                strangers.forget(&peer);
                drop(permit);
            });
        }
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

fn is_own(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().map(|peer| peer.uid()).is_ok_and(|uid| uid == own)
}

/// The peer of one connection.
#[derive(Default)]
struct Peer {
    /// The peer has sent a request with a session, or has opened one.
    is_admitted: AtomicBool,
    /// Ends the connection, because its place is needed.
    leave: Notify,
}

/// The places for connections. Everybody on the machine can connect, so those who show no session must not keep the others out:
/// when all places are taken, the connection that has been without a session for the longest time ends.
struct Seats {
    permits: Arc<Semaphore>,
    strangers: Arc<Strangers>,
    /// The connections, which end with the server.
    open: tokio::task::JoinSet<()>,
}

/// The peers that may be without a session, the oldest first.
#[derive(Default)]
struct Strangers(Mutex<VecDeque<Arc<Peer>>>);

impl Seats {
    fn new(most: usize) -> Self {
        let (strangers, open) = Default::default();
        Self { permits: Arc::new(Semaphore::new(most)), strangers, open }
    }

    /// Waits for a place.
    async fn take(&mut self) -> (Arc<Peer>, Option<OwnedSemaphorePermit>) {
        while self.open.try_join_next().is_some() {}
        if self.permits.available_permits() == 0 {
            self.strangers.drop_oldest();
        }
        // The semaphore is never closed, so there is always a permit.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        let peer = Arc::new(Peer::default());
        self.strangers.lock().push_back(Arc::clone(&peer));
        (peer, permit)
    }
}

impl Strangers {
    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<Peer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drop_oldest(&self) {
        let mut strangers = self.lock();
        strangers.retain(|peer| !peer.is_admitted.load(Ordering::SeqCst));
        if let Some(oldest) = strangers.pop_front() {
            oldest.leave.notify_one();
        }
    }

    fn forget(&self, peer: &Arc<Peer>) {
        self.lock().retain(|known| !Arc::ptr_eq(known, peer));
    }
}

impl Peer {
    /// Waits until the peer has to go: its place is needed, or it has shown no session for too long.
    async fn has_to_go(&self, stranger_time: Duration) {
        if tokio::time::timeout(stranger_time, self.leave.notified()).await.is_err()
            && self.is_admitted.load(Ordering::SeqCst)
        {
            self.leave.notified().await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Listener::Unix { path, identity: own, .. } = &self.listener
            && own.is_some()
            && *own == identity(path)
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Returns the file system and number of what a path names, without following a link.
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Creates a socket with mode 0600 in a directory that nobody else can enter.
fn socket(path: &Path) -> Result<UnixListener, Failure> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let refused = |why: String| {
        Failure::refused("watch_unusable", format!("{}: {why}", path.display()))
            .hint("name a socket in a directory that belongs to you and has mode 0700; `chmod 0700 DIRECTORY` closes one")
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let dir = act_fs::Dir::open(parent).map_err(|error| refused(error.to_string()))?;
    let stat = rustix::fs::fstat(&dir).map_err(|error| refused(error.to_string()))?;
    let (mode, own) = (stat.st_mode & 0o777, rustix::process::geteuid().as_raw());
    if stat.st_uid != own {
        let owner =
            format!("its directory belongs to user {} and not to you, user {own}", stat.st_uid);
        return Err(refused(owner));
    }
    if mode & 0o077 != 0 {
        return Err(refused(format!(
            "other users can enter its directory, which has mode 0{mode:o}"
        )));
    }
    // Only a socket can be one that a killed server left. A connection to a file of another kind is refused as well.
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(refused("there is a file that is no socket".to_owned()));
        }
        Ok(_) => {
            // A socket that a killed server left answers nobody.
            let answer = std::os::unix::net::UnixStream::connect(path);
            if answer.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
                let _ = std::fs::remove_file(path);
            }
        }
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(|error| refused(error.to_string()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .map_err(|error| refused(error.to_string()))?;
    Ok(listener)
}

type Body = UnsyncBoxBody<Bytes, Infallible>;
type Answer = Response<Body>;

/// A request whose walls are passed.
struct Visit<'r> {
    shared: &'r Arc<Shared>,
    admitted: Admitted,
    host: String,
    query: Vec<(String, String)>,
}

/// A piece of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LogPiece {
    pub run_id: String,
    /// Name of the step; null for the log of all steps.
    pub step: Option<String>,
    /// Place of the piece in the log, in bytes.
    pub from: u64,
    /// Place behind the piece, from which the next one is asked for.
    pub to: u64,
    /// Bytes of the log so far.
    pub end: u64,
    /// The piece as UTF-8; invalid bytes are replaced.
    pub log: String,
}

impl Document for LogPiece {
    const NAME: &'static str = "watch-log";
}

impl Shared {
    async fn connection<S>(self: Arc<Self>, stream: S, peer: &Arc<Peer>)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let limits = self.limits.clone();
        let io = TokioIo::new(Patient::new(stream, limits.patience));
        let requests = Arc::new(AtomicUsize::new(0));
        let of_requests = Arc::clone(peer);
        let service = hyper::service::service_fn(move |request| {
            let (shared, requests) = (Arc::clone(&self), Arc::clone(&requests));
            let peer = Arc::clone(&of_requests);
            async move {
                let is_last = requests.fetch_add(1, Ordering::SeqCst) + 1 >= shared.limits.requests;
                let mut answer = shared.answer(request, &peer).await;
                if is_last {
                    let close = HeaderValue::from_static("close");
                    answer.headers_mut().insert(header::CONNECTION, close);
                }
                Ok::<_, Infallible>(answer)
            }
        });
        let served = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_time)
            .max_buf_size(limits.header_bytes)
            .max_headers(limits.headers)
            .serve_connection(io, service);
        tokio::select! {
            // A peer may go away at any time, so an error is ignored.
            _ = served => {}
            () = peer.has_to_go(limits.stranger_time) => {}
        }
    }

    /// While somebody reads the stream, the end of a task whose process died is recorded, which appends it to the journal.
    async fn record_dead_tasks(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.limits.dead_tasks).await;
            if self.readers.count() > 0 {
                let observer = Arc::clone(&self.observer);
                let _ = tokio::task::spawn_blocking(move || observer.record_dead_tasks()).await;
            }
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>, peer: &Peer) -> Answer {
        let head = request.method() == Method::HEAD;
        let mut answer = match self.host(&request) {
            _ if is_huge(&request, self.limits.header_bytes) => {
                plain(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "The header is too long.\n")
            }
            Some(host) => self.pass(request, host, peer).await,
            None => plain(StatusCode::MISDIRECTED_REQUEST, "This name is not served here.\n"),
        };
        guard(answer.headers_mut());
        if head {
            *answer.body_mut() = empty();
        }
        answer
    }

    /// Returns the name of the host if it is one of ours. A page whose own name was pointed at this machine (DNS rebinding)
    /// sends that name.
    fn host(&self, request: &Request<Incoming>) -> Option<String> {
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return None };
        let host = host.to_str().ok()?;
        // The address of a request to a proxy would name another host.
        if request.uri().authority().is_some() {
            return None;
        }
        let is_ours = match &self.names {
            Some(names) => host == names.own || host == names.literal,
            None => is_loopback_name(host),
        };
        is_ours.then(|| host.to_owned())
    }

    async fn pass(
        self: &Arc<Self>,
        request: Request<Incoming>,
        host: String,
        peer: &Peer,
    ) -> Answer {
        let path = request.uri().path().to_owned();
        let is_post = request.method() == Method::POST;
        if !is_post && request.method() != Method::GET && request.method() != Method::HEAD {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "Only GET, HEAD and POST are served.\n");
        }
        if is_from_elsewhere(request.headers(), is_post, &host) {
            return plain(StatusCode::FORBIDDEN, "Another page sent this request.\n");
        }
        match path.as_str() {
            "/style.css" => return file("text/css; charset=utf-8", pages::STYLE),
            "/script.js" => return file("text/javascript; charset=utf-8", pages::SCRIPT),
            "/icon.svg" => return file("image/svg+xml", pages::ICON),
            _ => {}
        }
        // Programs that look at an address with HEAD do not use its token up.
        if let Some(token) = path.strip_prefix("/enter/")
            && request.method() == Method::GET
        {
            return self.enter(token, request.headers(), peer);
        }
        let admitted = match &self.names {
            None => Some(self.sessions.of_socket()),
            Some(_) => cookie(request.headers()).and_then(|cookie| self.sessions.of_cookie(cookie)),
        };
        let Some(admitted) = admitted else {
            return html(StatusCode::UNAUTHORIZED, pages::closed(), &self.secrets);
        };
        peer.is_admitted.store(true, Ordering::SeqCst);
        let query = request.uri().query().map(form).unwrap_or_default();
        let visit = Visit { shared: self, admitted, host, query };
        let segments: Vec<_> = path.split('/').skip(1).map(str::to_owned).collect();
        let segments: Vec<_> = segments.iter().map(String::as_str).collect();
        if is_post {
            return visit.change(&segments, request).await;
        }
        match segments.as_slice() {
            ["api", "events"] => visit.events(request.headers()),
            ["api", rest @ ..] => visit.api(rest).await,
            segments => visit.page(segments).await,
        }
    }

    /// Uses a token up and sends the browser to an address without it.
    fn enter(&self, token: &str, headers: &HeaderMap, peer: &Peer) -> Answer {
        let Some(session) = self.sessions.enter(token) else {
            return html(StatusCode::UNAUTHORIZED, pages::closed(), &self.secrets);
        };
        peer.is_admitted.store(true, Ordering::SeqCst);
        // A browser that comes from the file of `--open` would not send the cookie to the address that it is redirected to,
        // because another site began the navigation. A page that goes on by itself begins a new one.
        let from_elsewhere = headers
            .get("sec-fetch-site")
            .is_some_and(|site| site != "none" && site != "same-origin");
        let mut answer = match from_elsewhere {
            true => html(StatusCode::OK, pages::entered(), &self.secrets),
            false => {
                let mut answer = plain(StatusCode::SEE_OTHER, "");
                answer.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/"));
                answer
            }
        };
        let cookie = format!("{COOKIE}={session}; HttpOnly; SameSite=Strict; Path=/");
        if let Ok(value) = HeaderValue::from_str(&cookie) {
            answer.headers_mut().insert(header::SET_COOKIE, value);
        }
        answer
    }
}

/// Returns whether the header of a request is longer than allowed. hyper stops reading there, but takes what one read returned.
fn is_huge(request: &Request<Incoming>, most: usize) -> bool {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    target + headers.sum::<usize>() > most
}

/// Returns whether a name can only be one of this machine.
fn is_loopback_name(host: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

/// Returns whether another page made the browser send a request. A person may follow a link from anywhere; everything else must
/// come from a page of ours. A change needs more: the origin must be ours.
fn is_from_elsewhere(headers: &HeaderMap, is_post: bool, host: &str) -> bool {
    let is = |name: &str, wanted: &str| headers.get(name).is_some_and(|value| value == wanted);
    let site = headers.get("sec-fetch-site");
    let is_own = site.is_none_or(|site| site == "same-origin" || (site == "none" && !is_post));
    let is_link = !is_post && is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document");
    let own_origin = |origin: &HeaderValue| origin == format!("http://{host}").as_str();
    let origin = headers.get(header::ORIGIN);
    let origin =
        if is_post { origin.is_some_and(own_origin) } else { origin.is_none_or(own_origin) };
    !(origin && (is_own || is_link))
}

/// Returns the session in the cookies of a request.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|cookies| cookies.split(';')).map(str::trim);
    pairs.find_map(|pair| pair.strip_prefix(COOKIE)?.strip_prefix('='))
}

/// Reads names and values in the form in which browsers send them.
fn form(text: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

/// Adds what every answer carries.
fn guard(headers: &mut HeaderMap) {
    const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                          img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
    let all = [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "interest-cohort=()"),
    ];
    for (name, value) in all {
        // A page with a form sets a policy of its own.
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

fn empty() -> Body {
    Full::new(Bytes::new()).boxed_unsync()
}

fn answer(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()).boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

fn plain(status: StatusCode, text: &'static str) -> Answer {
    answer(status, "text/plain; charset=utf-8", text)
}

fn file(kind: &'static str, text: &'static str) -> Answer {
    answer(StatusCode::OK, kind, text)
}

fn html(status: StatusCode, page: maud::Markup, secrets: &Secrets) -> Answer {
    let page = page.into_string();
    answer(status, "text/html; charset=utf-8", secrets.redact(&page).into_owned())
}

/// Returns the status of a failure.
fn status(failure: &Failure) -> StatusCode {
    match failure.code {
        "task_unknown" | "run_unknown" | "run_id_invalid" | "not_found" => StatusCode::NOT_FOUND,
        "nothing_to_cancel" | "originals_gone" | "changed_since" => StatusCode::CONFLICT,
        "cursor_invalid" => StatusCode::BAD_REQUEST,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn not_found() -> Failure {
    Failure::refused("not_found", "there is no such address").hint("the tasks are at /")
}

pub(crate) fn task_unknown(task_id: &str) -> Failure {
    Failure::refused("task_unknown", format!("there is no task {task_id}"))
        .hint("`act history --all` lists the tasks")
}

impl Visit<'_> {
    /// Runs a question to store and files on a thread that may block.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Observer) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let observer = Arc::clone(&self.shared.observer);
        tokio::task::spawn_blocking(move || question(&observer)).await.unwrap_or_else(|_| {
            Err(Failure::refused("unexpected", "the question was not answered"))
        })
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn events(&self, headers: &HeaderMap) -> Answer {
        let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
        // A browser sends the header when it comes back; the page names the place where it was made.
        let position = match last.filter(|last| !last.is_empty()).or(self.value("after")) {
            None => Some(self.shared.journals.now()),
            Some("start") => Some(Position::default()),
            Some(cursor) => Position::parse(cursor),
        };
        let Some(position) = position else {
            let failure = Failure::refused("cursor_invalid", "this is no cursor of the stream")
                .hint("leave Last-Event-ID out, or ask for ?after=start");
            return self.failure(&failure);
        };
        let Limits { streams, session_streams, heartbeat, .. } = self.shared.limits;
        let seat = self.shared.readers.sit(self.admitted.number, streams, session_streams);
        let Some(seat) = seat else {
            // A refused reader leaves its connection to others, whose number is bounded as well.
            let mut answer = plain(StatusCode::SERVICE_UNAVAILABLE, "Too many streams are open.\n");
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            return answer;
        };
        let journals = Arc::clone(&self.shared.journals);
        let secrets = self.shared.secrets.clone();
        let frames = stream::events(seat, journals, position, heartbeat, secrets);
        let body = StreamBody::new(frames.map(|bytes| Ok(Frame::data(bytes))));
        let mut answer = Response::new(body.boxed_unsync());
        let kind = HeaderValue::from_static("text/event-stream");
        answer.headers_mut().insert(header::CONTENT_TYPE, kind);
        answer
    }

    async fn api(&self, path: &[&str]) -> Answer {
        let answered = match path {
            ["tasks"] => {
                let limit = self.value("limit").and_then(|limit| limit.parse().ok());
                let limit = limit.unwrap_or(TASKS).clamp(1, MAX_TASKS);
                self.ask(move |observer| observer.history(limit)).await.map(|list| self.json(&list))
            }
            ["tasks", id] => self.task(id).await.map(|task| self.json(&task)),
            ["tasks", id, "diff"] => match self.task(id).await {
                Ok(task) => {
                    let diff = self.ask(move |observer| observer.diff(&task)).await;
                    diff.map(|diff| self.json(&diff))
                }
                Err(failure) => Err(failure),
            },
            ["runs", id] => match self.run(id).await {
                Ok((_, run)) => match run.manifest {
                    // The manifest is evidence and has the format of its file.
                    Some(manifest) => {
                        let text = serde_json::to_string(&manifest).unwrap_or_default();
                        Ok(self.json_text(StatusCode::OK, &text))
                    }
                    None => {
                        Err(Failure::refused("run_unknown", format!("run {id} has no manifest"))
                            .hint("a run has one when it has ended"))
                    }
                },
                Err(failure) => Err(failure),
            },
            ["runs", id, "explain"] => match run_id(id) {
                Ok(run) => self
                    .ask(move |observer| observer.explain(&run))
                    .await
                    .map(|found| self.json(&found)),
                Err(failure) => Err(failure),
            },
            ["runs", id, "log"] => self.log(id).await.map(|piece| self.json(&piece)),
            ["metrics"] => self.ask(Observer::metrics).await.map(|metrics| self.json(&metrics)),
            ["audit", "denials"] => self.denials().await.map(|list| self.json(&list)),
            ["audit", "grants"] => self.ask(Observer::grants).await.map(|list| self.json(&list)),
            _ => Err(not_found()),
        };
        answered.unwrap_or_else(|failure| self.failure(&failure))
    }

    async fn denials(&self) -> Result<act_task::AuditList, Failure> {
        let filter = AuditFilter { denied: true, limit: RECORDS, ..AuditFilter::default() };
        self.ask(move |observer| observer.audit(&filter)).await
    }

    async fn task(&self, id: &str) -> Result<Task, Failure> {
        let id = id.to_owned();
        if !TaskId::is_one(&id) {
            return Err(task_unknown("of that name"));
        }
        self.ask(move |observer| {
            observer.record_dead_tasks()?;
            observer.task(&id)?.map(|seen| seen.task).ok_or_else(|| task_unknown(&id))
        })
        .await
    }

    async fn run(&self, id: &str) -> Result<(RunId, act_task::RunSeen), Failure> {
        let run = run_id(id)?;
        self.ask(move |observer| {
            let seen = observer.run(&run)?;
            if seen.record.is_none() && seen.manifest.is_none() {
                return Err(Failure::refused("run_unknown", format!("there is no run {run}"))
                    .hint("`act history --all` lists the tasks with their runs"));
            }
            Ok((run, seen))
        })
        .await
    }

    /// Returns the piece of a log that the query names: from a place on, or the end.
    async fn log(&self, id: &str) -> Result<LogPiece, Failure> {
        let run = run_id(id)?;
        let step = self.value("step").filter(|step| !step.is_empty()).map(str::to_owned);
        let from: Option<u64> = self.value("from").and_then(|from| from.parse().ok());
        let is_for_page = self.value("clean").is_some();
        let mut piece = self.ask(move |observer| piece(observer, &run, step, from)).await?;
        if is_for_page {
            // A page shows text: sequences for terminals are left out, and hidden characters have their codes.
            piece.log = act_core::terminal_text::block(&piece.log).into_owned();
        }
        Ok(piece)
    }

    /// Answers with a document, as a command with `--json` prints it.
    fn json(&self, document: &impl Document) -> Answer {
        self.json_text(StatusCode::OK, &Schema::Second.to_json(document))
    }

    /// Answers with the refusal that a command with `--json` prints.
    fn failure(&self, failure: &Failure) -> Answer {
        self.json_text(status(failure), &Schema::Second.to_json(&failure.document()))
    }

    fn json_text(&self, status: StatusCode, text: &str) -> Answer {
        let json = act_core::terminal_text::json(text).into_owned();
        let json = self.shared.secrets.redact(&json).into_owned();
        answer(status, "application/json", json + "\n")
    }

    fn frame(&self) -> Page {
        Page {
            cursor: self.shared.journals.now().encode(),
            form: self.admitted.form.clone(),
            memo: Arc::clone(&self.shared.memo),
            is_literal: self.shared.names.as_ref().is_some_and(|names| names.literal == self.host),
        }
    }

    async fn page(&self, path: &[&str]) -> Answer {
        // The cursor is taken before the data, so that what happens in between is sent and not missed.
        let frame = self.frame();
        let answered = match path {
            [""] => self.ask(move |observer| pages::tasks(&frame, observer)).await,
            ["tasks", id] => {
                let id = (*id).to_owned();
                self.ask(move |observer| pages::task(&frame, observer, &id)).await
            }
            ["tasks", id, "cancel"] => {
                let id = (*id).to_owned();
                let asked = self.ask(move |observer| pages::cancel(&frame, observer, &id)).await;
                match asked {
                    Ok(page) => {
                        let mut answer = html(StatusCode::OK, page, &self.shared.secrets);
                        // With `no-referrer` a browser sends no origin with a form, and the origin is a wall. The page has no
                        // address that a referrer could give away, and none leaves for another origin.
                        let policy = HeaderValue::from_static("same-origin");
                        answer.headers_mut().insert(header::REFERRER_POLICY, policy);
                        return answer;
                    }
                    Err(failure) => Err(failure),
                }
            }
            ["runs", id] => {
                let run = run_id(id);
                let query = pages::LogQuery {
                    step: self.value("step").filter(|step| !step.is_empty()).map(str::to_owned),
                    words: self.value("q").filter(|words| !words.is_empty()).map(str::to_owned),
                    from: self.value("from").and_then(|from| from.parse().ok()),
                };
                match run {
                    Ok(run) => {
                        self.ask(move |observer| pages::run(&frame, observer, &run, &query)).await
                    }
                    Err(failure) => Err(failure),
                }
            }
            ["runs", id, "files", name] => return self.file(id, name).await,
            ["audit"] => self.ask(move |observer| pages::audit(&frame, observer)).await,
            ["metrics"] => self.ask(move |observer| pages::metrics(&frame, observer)).await,
            _ => Err(not_found()),
        };
        match answered {
            Ok(page) => html(StatusCode::OK, page, &self.shared.secrets),
            Err(failure) => {
                html(status(&failure), pages::failed(&self.frame(), &failure), &self.shared.secrets)
            }
        }
    }

    /// Sends a file that the manifest of a run names, as text, in pieces.
    async fn file(&self, id: &str, name: &str) -> Answer {
        let (id, name) = (id.to_owned(), name.to_owned());
        let opened = self
            .ask(move |observer| {
                let run = run_id(&id)?;
                named_file(observer, &run, &name)
            })
            .await;
        let (file, length) = match opened {
            Ok(found) => found,
            Err(failure) => return self.failure(&failure),
        };
        let pieces = futures_util::stream::unfold((file, 0_u64), move |(file, at)| async move {
            let left = usize::try_from(length.saturating_sub(at).min(PIECE)).unwrap_or_default();
            let read = tokio::task::spawn_blocking(move || {
                let mut bytes = vec![0; left];
                let read = file.read_at(&mut bytes, at).unwrap_or_default();
                bytes.truncate(read);
                (file, bytes)
            });
            let (file, bytes) = read.await.ok()?;
            let next = at + bytes.len() as u64;
            (!bytes.is_empty()).then(|| (Ok(Frame::data(Bytes::from(bytes))), (file, next)))
        });
        let mut answer = Response::new(StreamBody::new(pieces).boxed_unsync());
        let headers = answer.headers_mut();
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        headers.insert(header::CONTENT_TYPE, text);
        headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
        answer
    }

    /// The only change: a task is cancelled.
    async fn change(&self, path: &[&str], request: Request<Incoming>) -> Answer {
        let ["tasks", id, "cancel"] = path else { return self.failure(&not_found()) };
        let kind = request.headers().get(header::CONTENT_TYPE);
        let is_form = kind.is_some_and(|kind| kind == "application/x-www-form-urlencoded");
        let body = Limited::new(request.into_body(), MAX_FORM).collect();
        let body = match tokio::time::timeout(FORM_TIME, body).await {
            Ok(Ok(body)) if is_form => body.to_bytes(),
            _ => return plain(StatusCode::BAD_REQUEST, "This is no form of ours.\n"),
        };
        let fields = form(&String::from_utf8_lossy(&body));
        let sent = fields.iter().find(|(name, _)| name == "form");
        if !sent.is_some_and(|(_, sent)| self.admitted.owns(sent)) {
            return plain(StatusCode::FORBIDDEN, "The form is not from this session.\n");
        }
        if !TaskId::is_one(id) {
            return self.failure(&not_found());
        }
        let task_id = (*id).to_owned();
        match self.ask(move |observer| observer.cancel(&task_id)).await {
            Ok(cancelled) => {
                let mut answer = plain(StatusCode::SEE_OTHER, "");
                // A task that was removed from the queue has no page any more.
                let to = match cancelled.was {
                    TaskState::Queued => HeaderValue::from_str("/"),
                    _ => HeaderValue::from_str(&format!("/tasks/{id}")),
                };
                answer
                    .headers_mut()
                    .insert(header::LOCATION, to.unwrap_or(HeaderValue::from_static("/")));
                answer
            }
            Err(failure) => {
                let page = pages::failed(&self.frame(), &failure);
                html(status(&failure), page, &self.shared.secrets)
            }
        }
    }
}

fn run_id(text: &str) -> Result<RunId, Failure> {
    RunId::parse(text).map_err(|error| {
        Failure::refused("run_id_invalid", error.to_string()).hint("`act history` lists runs")
    })
}

/// Reads a piece of a log, from a place on or the end.
pub(crate) fn piece(
    observer: &Observer,
    run: &RunId,
    step: Option<String>,
    from: Option<u64>,
) -> Result<LogPiece, Failure> {
    let file = observer.artifacts().open_log(run.as_str(), step.as_deref())?;
    let unreadable = |error: io::Error| Failure::refused("run_unreadable", error.to_string());
    let end = file.metadata().map_err(unreadable)?.len();
    let from = from.unwrap_or(end.saturating_sub(PIECE)).min(end);
    let mut bytes = vec![0; usize::try_from((end - from).min(PIECE)).unwrap_or_default()];
    let read = file.read_at(&mut bytes, from).map_err(unreadable)?;
    bytes.truncate(read);
    let mut before = vec![0; usize::try_from(from.min(LONGEST_CHARACTER - 1)).unwrap_or_default()];
    let begin = from - before.len() as u64;
    file.read_exact_at(&mut before, begin).map_err(unreadable)?;
    let whole = whole_characters(&before, &bytes);
    let (from, to) = (from + whole.start as u64, from + whole.end as u64);
    let log = String::from_utf8_lossy(bytes.get(whole).unwrap_or_default()).into_owned();
    Ok(LogPiece { run_id: run.as_str().to_owned(), step, from, to, end, log })
}

/// Bytes of the longest character of UTF-8.
const LONGEST_CHARACTER: u64 = 4;

/// Returns the part of a piece without a character that its borders cut: one that began in the bytes `before` it belongs to the
/// piece before, and one that has not ended to the next piece. Other bytes that are no UTF-8 stay, and so does a character that
/// is all there is, because a reader could not go on otherwise.
fn whole_characters(before: &[u8], bytes: &[u8]) -> std::ops::Range<usize> {
    // Returns the bytes at the end that may be the beginning of a character.
    let unfinished = |bytes: &[u8]| {
        let last = bytes.utf8_chunks().last().map(|chunk| chunk.invalid().to_vec());
        last.filter(|last| {
            std::str::from_utf8(last).is_err_and(|wrong| wrong.error_len().is_none())
        })
    };
    let start = unfinished(before).map_or(0, |begun| {
        // The rest of the character is at most three bytes.
        let rest = (1..=bytes.len().min(3)).find(|rest| {
            let character = [&begun[..], bytes.get(..*rest).unwrap_or_default()].concat();
            std::str::from_utf8(&character).is_ok()
        });
        rest.unwrap_or_default()
    });
    let end = bytes.len() - unfinished(bytes).map_or(0, |begun| begun.len());
    match start < end {
        true => start..end,
        false => 0..bytes.len(),
    }
}

/// Opens a file that the manifest of a run names: the log of a step, or that of all. Returns it with its length.
fn named_file(
    observer: &Observer,
    run: &RunId,
    name: &str,
) -> Result<(std::fs::File, u64), Failure> {
    let unreadable = |error: io::Error| Failure::refused("run_unreadable", error.to_string());
    let manifest = observer.run(run)?.manifest.ok_or_else(not_found)?;
    let named = pages::files_of(&manifest).into_iter().any(|known| known == name);
    if !named {
        return Err(not_found());
    }
    let mut places = observer.artifacts().places(run).map_err(unreadable)?.into_iter();
    let file = places.find_map(|place| place.log(name).ok()).ok_or_else(not_found)?;
    let length = file.metadata().map_err(unreadable)?.len();
    Ok((file, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_as_browsers_send_it() {
        let pairs = form("a=1+2&b=%C3%A4%2b&c&d=%+f&e=%zz&=x");
        let expected =
            [("a", "1 2"), ("b", "ä+"), ("c", ""), ("d", "% f"), ("e", "%zz"), ("", "x")];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_piece_holds_the_characters_that_begin_in_it_and_end_in_it() {
        let text = "aä€😀z".as_bytes();
        // A border in every place: the pieces before and behind make up the text without a broken character.
        for border in 0..=text.len() {
            let (before, behind) = text.split_at(border);
            let first = whole_characters(&[], before);
            let from = border - before.len().min(3);
            let second = whole_characters(&text[from..border], behind);
            for piece in [&before[first.clone()], &behind[second.clone()]] {
                assert!(std::str::from_utf8(piece).is_ok(), "{border}: {piece:?}");
            }
            assert_eq!(second.end, behind.len());
            let left = border - first.end + second.start;
            let cut = std::str::from_utf8(&text[first.end..first.end + left]).unwrap();
            assert!(cut.chars().count() <= 1, "{border}: {cut}");
        }
        // Bytes that are no UTF-8 stay, and so does what would leave nothing.
        assert_eq!(whole_characters(&[], b"\xff\xfea"), 0..3);
        assert_eq!(whole_characters(b"\xff", b"\x80a"), 0..2);
        assert_eq!(whole_characters(&[], b"\xe2\x82"), 0..2);
    }
}
