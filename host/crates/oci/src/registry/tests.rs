//! A registry that does what no registry should, on this machine.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::DockerConfig;
use act_core::address::Zone;

const COMPONENT: &[u8] = b"bytes of a component";
/// An address that the tests take for a public one.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// What the server does with a request.
enum Does {
    Answers(Vec<u8>),
    /// Sends these bytes and then nothing, with an open connection.
    Stalls(Vec<u8>),
}

/// Returns an answer with a status line, headers and a body whose length is that of the bytes.
fn answer(status: &str, headers: &str, body: &[u8]) -> Does {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n",
        body.len()
    );
    Does::Answers([head.as_bytes(), body].concat())
}

/// A server with the requests that it got: first line, headers in lower case, and body.
#[derive(Clone)]
struct Server {
    address: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(host: Ipv4Addr, does: impl Fn(&str) -> Does + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let server =
            Self { address: listener.local_addr().unwrap().to_string(), seen: Arc::default() };
        let (seen, does) = (Arc::clone(&server.seen), Arc::new(does));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&seen), Arc::clone(&does)));
            }
        });
        server
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    fn reference(&self) -> Reference {
        format!("oci://{}/a/b:1", self.address).parse().unwrap()
    }

    /// Resolves and fetches the component.
    async fn pull(&self, access: Access) -> Result<Vec<u8>, RegistryError> {
        self.pull_as(&self.reference(), access).await
    }

    async fn pull_as(
        &self,
        reference: &Reference,
        access: Access,
    ) -> Result<Vec<u8>, RegistryError> {
        let registry = Registry::new(reference, Scope::Pull, access, surroundings())?;
        let resolved = registry.resolve().await?;
        registry.fetch(&resolved).await
    }
}

async fn serve(
    mut stream: TcpStream,
    seen: Arc<Mutex<Vec<String>>>,
    does: Arc<impl Fn(&str) -> Does + Send + Sync + 'static>,
) {
    let (mut request, mut piece) = (vec![], [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                break;
            }
        }
        match stream.read(&mut piece).await {
            Ok(read @ 1..) => request.extend_from_slice(&piece[..read]),
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    seen.lock().unwrap().push(request.clone());
    match does(&request) {
        Does::Answers(bytes) => {
            let _ = stream.write_all(&bytes).await;
        }
        Does::Stalls(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.read(&mut piece).await;
        }
    }
}

fn surroundings() -> Surroundings {
    let zone = |address: IpAddr| {
        if address == IpAddr::V4(PUBLIC) { Zone::Public } else { Zone::of(address) }
    };
    Surroundings { zone, patience: Duration::from_millis(700) }
}

fn layer(digest: &Digest, size: usize) -> Value {
    json!({"mediaType": "application/wasm", "digest": digest.to_string(), "size": size,
        "urls": ["http://127.0.0.1:1/elsewhere"]})
}

fn manifest_of(layers: &Value) -> Vec<u8> {
    json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": layers}).to_string().into_bytes()
}

fn manifest() -> Vec<u8> {
    manifest_of(&json!([layer(&Digest::of(COMPONENT), COMPONENT.len())]))
}

fn document(body: &[u8]) -> Does {
    answer("200 OK", &format!("content-type: {MANIFEST}\r\n"), body)
}

/// Returns what a sound registry does.
fn soundly(request: &str) -> Does {
    if request.contains("/manifests/") {
        document(&manifest())
    } else {
        answer("200 OK", "", COMPONENT)
    }
}

/// A password for the registry, in Docker's file.
fn password(host: &str) -> Access {
    // `me:canary-password` in Base64.
    let auths = json!({"auths": {host: {"auth": "bWU6Y2FuYXJ5LXBhc3N3b3Jk"}}});
    Access { docker: Some(DockerConfig::of(&auths.to_string())), ..Access::default() }
}

/// The header that a password makes.
const BASIC: &str = "Basic bWU6Y2FuYXJ5LXBhc3N3b3Jk";

fn is_authorized(request: &str) -> bool {
    request.lines().any(|line| line.to_ascii_lowercase().starts_with("authorization:"))
}

fn code<T>(result: Result<T, RegistryError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(error) => error.code(),
    }
}

const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;

// OCI-2
#[tokio::test]
async fn a_component_is_fetched_by_tag_and_by_digest_and_its_addresses_are_ignored() {
    let server = Server::start(LOOPBACK, soundly).await;
    assert_eq!(server.pull(Access::default()).await.as_deref(), Ok(COMPONENT));
    let digest = Digest::of(&manifest());
    let by_digest = format!("oci://{}/a/b@{digest}", server.address).parse().unwrap();
    let pulled = server.pull_as(&by_digest, Access::default()).await;
    assert_eq!(pulled.as_deref(), Ok(COMPONENT));
    let seen = server.seen();
    assert_eq!(seen.len(), 4, "{seen:#?}");
    assert!(seen[0].starts_with("GET /v2/a/b/manifests/1 "), "{}", seen[0]);
    assert!(seen[2].starts_with(&format!("GET /v2/a/b/manifests/{digest} ")), "{}", seen[2]);
    let other = Digest::of(b"other");
    let by_other = format!("oci://{}/a/b@{other}", server.address).parse().unwrap();
    let error = server.pull_as(&by_other, Access::default()).await.unwrap_err();
    assert!(error.to_string().contains(&other.to_string()), "{error}");
    assert_eq!(error.code(), "artifact_differs");
}

// OCI-2, security line 700
#[tokio::test]
async fn a_manifest_that_lies_about_size_or_digest_is_refused() {
    let sound = Digest::of(COMPONENT);
    for (digest, size) in [
        (Digest::of(b"other"), COMPONENT.len()),
        (sound.clone(), COMPONENT.len() + 1),
        (sound.clone(), COMPONENT.len() - 1),
        (sound.clone(), 0),
    ] {
        let lying = manifest_of(&json!([layer(&digest, size)]));
        let server =
            Server::start(LOOPBACK, move |request| match request.contains("/manifests/") {
                true => document(&lying),
                false => answer("200 OK", "", COMPONENT),
            })
            .await;
        let refused = code(server.pull(Access::default()).await);
        assert!(["artifact_differs", "artifact_too_large"].contains(&refused), "{size} {refused}");
    }
    // The registry says of a manifest that it has another digest than it has.
    let server = Server::start(LOOPBACK, |request| match request.contains("/manifests/") {
        true => {
            let claim = Digest::of(b"other");
            let headers = format!("content-type: {MANIFEST}\r\ndocker-content-digest: {claim}\r\n");
            answer("200 OK", &headers, &manifest())
        }
        false => answer("200 OK", "", COMPONENT),
    })
    .await;
    assert_eq!(code(server.pull(Access::default()).await), "artifact_differs");
}

// OCI-2, security line 701
#[tokio::test]
async fn what_is_larger_than_its_bound_ends_at_the_bound() {
    // A manifest without an end, with and without a length.
    let endless = |head: &'static str| {
        move |_: &str| {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {MANIFEST}\r\n{head}\r\n");
            Does::Answers([head.as_bytes(), &vec![b' '; (MAX_MANIFEST + 2) as usize]].concat())
        }
    };
    for head in ["connection: close\r\n", "content-length: 99999999999\r\n"] {
        let server = Server::start(LOOPBACK, endless(head)).await;
        assert_eq!(code(server.pull(Access::default()).await), "artifact_too_large", "{head}");
    }
    // A layer that goes on after its size.
    let server = Server::start(LOOPBACK, |request| match request.contains("/manifests/") {
        true => document(&manifest()),
        false => {
            let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec();
            Does::Answers([head, COMPONENT.repeat(1000)].concat())
        }
    })
    .await;
    assert_eq!(code(server.pull(Access::default()).await), "artifact_too_large");
    // A layer of more than 64 MiB is not even asked for.
    let large = manifest_of(&json!([layer(&Digest::of(b""), (64 << 20) + 1)]));
    let server = Server::start(LOOPBACK, move |_| document(&large)).await;
    assert_eq!(code(server.pull(Access::default()).await), "artifact_too_large");
    assert_eq!(server.seen().len(), 1);
}

// OCI-3, security line 702
#[tokio::test]
async fn an_index_is_followed_once() {
    let index_of = |kind: &str, bytes: &[u8]| {
        let inner = json!({"mediaType": kind, "digest": Digest::of(bytes).to_string(), "size": bytes.len()});
        json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [inner]})
            .to_string()
            .into_bytes()
    };
    let index = index_of(MANIFEST, &manifest());
    let sent = index.clone();
    let server = Server::start(LOOPBACK, move |request| match request {
        _ if request.contains("/manifests/1 ") => {
            answer("200 OK", &format!("content-type: {INDEX}\r\n"), &sent)
        }
        _ => soundly(request),
    })
    .await;
    let registry =
        Registry::new(&server.reference(), Scope::Pull, Access::default(), surroundings()).unwrap();
    let resolved = registry.resolve().await.unwrap();
    assert_eq!(resolved.digest, Digest::of(&index), "the digest of what the tag names");
    assert_eq!(registry.fetch(&resolved).await.as_deref(), Ok(COMPONENT));

    // An index behind an index, once declared as a manifest.
    let outer = index_of(MANIFEST, &index);
    for kind in [MANIFEST, INDEX] {
        let (outer, inner) = (outer.clone(), index.clone());
        let server =
            Server::start(LOOPBACK, move |request| match request.contains("/manifests/1 ") {
                true => answer("200 OK", &format!("content-type: {INDEX}\r\n"), &outer),
                false => answer("200 OK", &format!("content-type: {kind}\r\n"), &inner),
            })
            .await;
        assert_eq!(code(server.pull(Access::default()).await), "artifact_unknown");
        assert_eq!(server.seen().len(), 2);
    }
    // A manifest other than the one that the index names.
    let outer = index_of(MANIFEST, b"other");
    let server = Server::start(LOOPBACK, move |request| match request.contains("/manifests/1 ") {
        true => answer("200 OK", &format!("content-type: {INDEX}\r\n"), &outer),
        false => soundly(request),
    })
    .await;
    let refused = code(server.pull(Access::default()).await);
    assert!(["artifact_differs", "artifact_too_large"].contains(&refused), "{refused}");
}

// OCI-4, security line 703
#[tokio::test]
async fn a_server_that_stalls_anywhere_is_left_after_its_time() {
    let whole = b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.oci.image.manifest.v1+json\r\ncontent-length: 900\r\n\r\n{";
    for cut in [0, 9, whole.len()] {
        let bytes = whole[..cut].to_vec();
        let server = Server::start(LOOPBACK, move |_| Does::Stalls(bytes.clone())).await;
        let began = std::time::Instant::now();
        assert_eq!(code(server.pull(Access::default()).await), "registry_stalled", "{cut}");
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    // A stalled upload, and a layer whose second half never comes.
    let server = Server::start(LOOPBACK, |request| match request.contains("/manifests/") {
        true => document(&manifest()),
        false => Does::Stalls(b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nbytes".to_vec()),
    })
    .await;
    assert_eq!(code(server.pull(Access::default()).await), "registry_stalled");
}

// OCI-4
#[tokio::test]
async fn statuses_and_broken_connections_are_named() {
    for (status, expected) in [
        ("500 Oops", "registry_failed"),
        ("503 Busy", "registry_failed"),
        ("429 Slow", "registry_failed"),
        ("404 None", "artifact_missing"),
        ("403 No", "registry_denied"),
        ("204 Empty", "registry_failed"),
        ("304 Same", "registry_failed"),
    ] {
        let server = Server::start(LOOPBACK, move |_| {
            answer(status, "", b"{\"errors\":[{\"message\":\"\x1b[31mhostile\"}]}")
        })
        .await;
        let error = server.pull(Access::default()).await.unwrap_err();
        assert_eq!(error.code(), expected, "{status}: {error}");
        let text = format!("{error}");
        assert!(!text.contains("hostile") && !text.contains('\x1b'), "{text}");
    }
    let server = Server::start(LOOPBACK, |_| Does::Answers(b"HTTP/1.1 200 OK\r\n".to_vec())).await;
    assert_eq!(code(server.pull(Access::default()).await), "registry_failed");
    let nobody: Reference = "oci://127.0.0.1:1/a:1".parse().unwrap();
    assert_eq!(code(server.pull_as(&nobody, Access::default()).await), "registry_failed");
}

/// Returns what a registry does that wants a password.
fn with_password(request: &str) -> Does {
    if request.contains(BASIC) {
        return soundly(request);
    }
    answer("401 Unauthorized", "www-authenticate: Basic realm=\"x\"\r\n", b"")
}

// OCI-5
#[tokio::test]
async fn a_password_goes_to_its_registry_alone_and_only_when_it_is_asked_for() {
    let server = Server::start(LOOPBACK, with_password).await;
    let access = password(&server.address);
    assert_eq!(server.pull(access).await.as_deref(), Ok(COMPONENT));
    let seen = server.seen();
    assert!(!is_authorized(&seen[0]) && is_authorized(&seen[1]), "{seen:#?}");
    let error = server.pull(Access::default()).await.unwrap_err();
    assert_eq!(error.code(), "registry_denied");
    assert!(error.to_string().contains("no credentials"), "{error}");
    let other = password("other.example");
    assert_eq!(code(server.pull(other).await), "registry_denied");
    let wrong = Server::start(LOOPBACK, |_| {
        answer("401 Unauthorized", "www-authenticate: Basic realm=\"x\"\r\n", b"")
    })
    .await;
    let error = wrong.pull(password(&wrong.address)).await.unwrap_err();
    assert!(error.to_string().contains("with your credentials"), "{error}");
    assert!(!format!("{error:?}{error}").contains("canary"), "{error:?}");
    assert_eq!(wrong.seen().len(), 2, "asked twice, not for ever");
}

// OCI-5, security line 705
#[tokio::test]
async fn after_a_redirect_to_another_host_nothing_has_credentials() {
    let storage = Server::start(LOOPBACK, soundly).await;
    let to = storage.address.clone();
    let server = Server::start(LOOPBACK, move |request| {
        if request.contains("/blobs/") && request.contains(BASIC) {
            let location = format!("location: http://{to}/storage?signed=1\r\n");
            return answer("307 Temporary Redirect", &location, b"");
        }
        with_password(request)
    })
    .await;
    assert_eq!(server.pull(password(&server.address)).await.as_deref(), Ok(COMPONENT));
    let [request] = storage.seen().try_into().unwrap();
    assert!(request.starts_with("GET /storage?signed=1 ") && !is_authorized(&request), "{request}");

    // The other host sends the request back, where it has lost its authorization; and it asks for credentials itself.
    let back = Server::start(LOOPBACK, |_| answer("500 Unused", "", b"")).await;
    for status in ["302 Found", "401 Unauthorized"] {
        let own = Arc::new(Mutex::new(String::new()));
        let home = Arc::clone(&own);
        let storage = Server::start(LOOPBACK, move |_| {
            let home = home.lock().unwrap();
            let headers = format!(
                "location: http://{home}/v2/back\r\nwww-authenticate: Basic realm=\"x\"\r\n"
            );
            answer(status, &headers, b"")
        })
        .await;
        let to = storage.address.clone();
        let server = Server::start(LOOPBACK, move |request| {
            if request.contains("/v2/back") || !request.contains(BASIC) {
                return with_password(request);
            }
            answer("302 Found", &format!("location: http://{to}/x\r\n"), b"")
        })
        .await;
        own.lock().unwrap().clone_from(&server.address);
        assert_eq!(code(server.pull(password(&server.address)).await), "registry_denied");
        assert!(storage.seen().iter().all(|request| !is_authorized(request)));
        let returned = server.seen();
        let returned = returned.iter().filter(|request| request.contains("/v2/back"));
        assert!(returned.into_iter().all(|request| !is_authorized(request)));
    }
    assert!(back.seen().is_empty());
}

// OCI-6, security line 706
#[tokio::test]
async fn a_redirect_into_this_machine_or_its_network_is_refused() {
    let inside = Server::start(LOOPBACK, soundly).await;
    for to in [
        format!("http://{}/x", inside.address),
        format!("http://localhost:{}/x", inside.address.rsplit(':').next().unwrap()),
        "https://10.0.0.1/x".to_owned(),
        "https://192.168.7.1/x".to_owned(),
        "https://169.254.169.254/latest/meta-data".to_owned(),
        "https://[fe80::1]/x".to_owned(),
        "https://[::ffff:10.0.0.1]/x".to_owned(),
        "https://0.0.0.0/x".to_owned(),
        "http://192.0.2.1/x".to_owned(),
        "http://example.com/x".to_owned(),
        "ftp://example.com/x".to_owned(),
        "file:///etc/passwd".to_owned(),
        "https://me:pass@1.1.1.1/x".to_owned(),
    ] {
        let location = format!("location: {to}\r\n");
        let server = Server::start(PUBLIC, move |_| answer("302 Found", &location, b"")).await;
        assert_eq!(code(server.pull(Access::default()).await), "redirect_refused", "{to}");
    }
    assert!(inside.seen().is_empty());
    // The registry may be there itself.
    let (to, server) = (inside.address.clone(), LOOPBACK);
    let server = Server::start(server, move |_| {
        answer("302 Found", &format!("location: http://{to}/manifests/\r\n"), b"")
    })
    .await;
    let registry =
        Registry::new(&server.reference(), Scope::Pull, Access::default(), surroundings()).unwrap();
    assert!(registry.resolve().await.is_ok());
    // But not as a way from one private network into another.
    let server = Server::start(LOOPBACK, |_| {
        answer("302 Found", "location: https://169.254.169.254/\r\n", b"")
    })
    .await;
    assert_eq!(code(server.pull(Access::default()).await), "redirect_refused");
    // A circle ends.
    let server =
        Server::start(LOOPBACK, |_| answer("302 Found", "location: /again\r\n", b"")).await;
    assert_eq!(code(server.pull(Access::default()).await), "redirect_refused");
    assert_eq!(server.seen().len(), 6);
}

/// Starts a token service, and a registry that names it as `realm`.
async fn with_token(realm_at: Ipv4Addr, path: &'static str) -> (Server, Server) {
    let realm = Server::start(realm_at, |_| {
        answer("200 OK", "content-type: application/json\r\n", b"{\"token\":\"canary-token\"}")
    })
    .await;
    let at = realm.address.clone();
    let server = Server::start(LOOPBACK, move |request| {
        if request.contains("Bearer canary-token") {
            return soundly(request);
        }
        // The scope that the registry asks for is not the one that is used.
        let challenge = format!(
            "www-authenticate: Bearer realm=\"http://{at}{path}\",service=\"s&x=1\",scope=\"repository:all:*\"\r\n"
        );
        answer("401 Unauthorized", &challenge, b"")
    })
    .await;
    (realm, server)
}

// OCI-5, security line 707
#[tokio::test]
async fn a_token_service_gets_credentials_only_at_the_registrys_host_or_where_a_person_named_it() {
    // The registry's own host.
    let (realm, server) = with_token(LOOPBACK, "/token").await;
    assert_eq!(server.pull(password(&server.address)).await.as_deref(), Ok(COMPONENT));
    let [asked] = realm.seen().try_into().unwrap();
    assert!(
        asked.starts_with("GET /token?service=s%26x%3D1&scope=repository%3Aa%2Fb%3Apull "),
        "{asked}"
    );
    assert!(asked.contains(BASIC), "{asked}");
    assert!(server.seen().iter().all(|request| !request.contains("Basic")));

    // Another host: nothing is sent there while there is a password, and without one a token is asked for.
    let (realm, server) = with_token(PUBLIC, "/token").await;
    let error = server.pull(password(&server.address)).await.unwrap_err();
    let named = format!("http://{}/token", realm.address);
    assert_eq!((error.code(), realm.seen().len()), ("realm_refused", 0));
    assert!(error.to_string().contains(&named), "{error}");
    assert_eq!(server.pull(Access::default()).await.as_deref(), Ok(COMPONENT));
    assert!(realm.seen().iter().all(|request| !is_authorized(request)));

    // Where a person named it, to the letter.
    for (named, expected) in [(named.clone(), "ok"), (format!("{named}/other"), "realm_refused")] {
        let access = Access { realm: Some(named), ..password(&server.address) };
        assert_eq!(code(server.pull(access).await), expected);
    }
    let seen = realm.seen();
    assert_eq!(seen.iter().filter(|request| request.contains(BASIC)).count(), 1, "{seen:#?}");
}

// OCI-5, security line 707
#[tokio::test]
async fn a_challenge_or_token_that_is_not_understood_ends_the_transfer() {
    let long = format!("Bearer realm=\"http://127.0.0.1:1/{}\"", "x".repeat(100));
    for challenge in [
        "",
        "Digest realm=\"x\"",
        "Bearer",
        "Bearer realm=\"\"",
        "Bearer realm=\"/token\"",
        ",,,=\"",
        &long,
    ] {
        let header = format!("www-authenticate: {challenge}\r\n");
        let server = Server::start(LOOPBACK, move |_| answer("401 No", &header, b"")).await;
        let refused = code(server.pull(Access::default()).await);
        assert!(
            ["registry_denied", "registry_failed"].contains(&refused),
            "{challenge}: {refused}"
        );
    }
    for (body, expected) in [
        (b"".to_vec(), "registry_denied"),
        (b"{}".to_vec(), "registry_denied"),
        (b"{\"token\":\"a\\r\\nx: y\"}".to_vec(), "registry_denied"),
        (vec![b' '; 70_000], "artifact_too_large"),
    ] {
        let realm = Server::start(LOOPBACK, move |_| answer("200 OK", "", &body)).await;
        let header = format!("www-authenticate: Bearer realm=\"http://{}/t\"\r\n", realm.address);
        let server = Server::start(LOOPBACK, move |_| answer("401 No", &header, b"")).await;
        assert_eq!(code(server.pull(Access::default()).await), expected);
    }
    // A token service that sends the password on.
    let elsewhere = Server::start(LOOPBACK, soundly).await;
    let location = format!("location: http://{}/x\r\n", elsewhere.address);
    let realm = Server::start(LOOPBACK, move |_| answer("307 Go", &location, b"")).await;
    let header = format!("www-authenticate: Bearer realm=\"http://{}/t\"\r\n", realm.address);
    let server = Server::start(LOOPBACK, move |_| answer("401 No", &header, b"")).await;
    assert_eq!(code(server.pull(password(&server.address)).await), "registry_failed");
    assert!(elsewhere.seen().is_empty());
}

/// Returns what a registry does with a push.
fn takes(request: &str) -> Does {
    match request.split(' ').next().unwrap_or_default() {
        "HEAD" => answer("404 None", "", b""),
        "POST" => answer("202 Accepted", "location: /upload/1?state=x\r\n", b""),
        _ => answer("201 Created", "", b""),
    }
}

async fn push(server: &Server, access: Access) -> Result<Digest, RegistryError> {
    let registry = Registry::new(&server.reference(), Scope::Push, access, surroundings()).unwrap();
    registry.push(Contents { component: COMPONENT, imports: &[], exports: &[] }).await
}

// OCI-8
#[tokio::test]
async fn a_push_stores_layer_configuration_and_manifest_in_this_order() {
    let server = Server::start(LOOPBACK, takes).await;
    let digest = push(&server, Access::default()).await.unwrap();
    let seen = server.seen();
    let puts: Vec<_> = seen.iter().filter(|request| request.starts_with("PUT")).collect();
    let layer = Digest::of(COMPONENT).to_string().replace(':', "%3A");
    assert!(puts[0].starts_with(&format!("PUT /upload/1?state=x&digest={layer} ")), "{}", puts[0]);
    assert!(puts[0].ends_with("bytes of a component"), "{}", puts[0]);
    let manifest = puts[2].split_once("\r\n\r\n").unwrap().1;
    assert!(puts[2].starts_with("PUT /v2/a/b/manifests/1 "), "{}", puts[2]);
    assert_eq!(Digest::of(manifest.as_bytes()), digest);
    assert_eq!(digest, push(&server, Access::default()).await.unwrap(), "the same each time");
}

// OCI-8, security line 708
#[tokio::test]
async fn an_upload_goes_to_the_registry_alone_and_its_answers_are_checked() {
    let elsewhere = Server::start(LOOPBACK, takes).await;
    let to = elsewhere.address.clone();
    let server = Server::start(LOOPBACK, move |request| match request.starts_with("POST") {
        true => answer("202 Accepted", &format!("location: http://{to}/u\r\n"), b""),
        false => takes(request),
    })
    .await;
    assert_eq!(code(push(&server, Access::default()).await), "redirect_refused");
    let to = elsewhere.address.clone();
    let server = Server::start(LOOPBACK, move |request| match request.starts_with("PUT") {
        true => answer("307 Go", &format!("location: http://{to}/u\r\n"), b""),
        false => takes(request),
    })
    .await;
    assert_eq!(code(push(&server, Access::default()).await), "registry_failed");
    assert!(elsewhere.seen().is_empty());
    let other = format!("docker-content-digest: {}\r\n", Digest::of(b"other"));
    let server = Server::start(LOOPBACK, move |request| match request.contains("PUT /v2/") {
        true => answer("201 Created", &other, b""),
        false => takes(request),
    })
    .await;
    assert_eq!(code(push(&server, Access::default()).await), "artifact_differs");
    let server = Server::start(LOOPBACK, |request| match request.starts_with("PUT") {
        true => Does::Stalls(vec![]),
        false => takes(request),
    })
    .await;
    assert_eq!(code(push(&server, Access::default()).await), "registry_stalled");
}

// OCI-6
#[tokio::test]
async fn plain_http_is_spoken_to_this_machine_alone() {
    for (host, scheme) in [
        ("127.0.0.1:5000", "http"),
        ("localhost:5000", "http"),
        ("[::1]:5000", "http"),
        ("192.168.1.1:5000", "https"),
        ("localhost.example:5000", "https"),
        ("registry.example", "https"),
        ("docker.io", "https"),
    ] {
        let transport =
            Transport::new(host, "a", Scope::Pull, Access::default(), surroundings()).unwrap();
        assert_eq!(transport.url("/").unwrap().scheme(), scheme, "{host}");
    }
    let access = Access { ca: Some(vec![]), ..Access::default() };
    let transport = Transport::new("localhost", "a", Scope::Pull, access, surroundings()).unwrap();
    assert_eq!(transport.url("/").unwrap().scheme(), "https");
}
