//! Certificates that must not be trusted. Which authorities are trusted is a matter of the whole process,
//! so each question is asked by a child of the test, told by `SSL_CERT_FILE`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use act_core::event::Events;
use act_core::secret::Secret;
use act_model::{
    Ask, Deadlines, ModelAccess, Timer, TokenLedger, WireName, connect, with_attempts,
};
use futures_util::future::BoxFuture;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tokio_util::sync::CancellationToken;

const KEY: &str = "ak-canary-certificates";

const ANSWER: &str = concat!(
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
    "data: {\"type\":\"message_stop\"}\n\n",
);

struct ModelServer {
    port: u16,
    enough: Arc<AtomicBool>,
    /// The decrypted bytes of each connection.
    heard: JoinHandle<Vec<Vec<u8>>>,
}

impl ModelServer {
    fn start(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let enough = Arc::new(AtomicBool::new(false));
        let stop = enough.clone();
        let heard = std::thread::spawn(move || {
            let mut heard = vec![];
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                heard.push(answer(stream.unwrap(), config.clone()));
            }
            heard
        });
        Self { port, enough, heard }
    }

    /// Every connection before this one has been heard out by then.
    fn stop(self) -> Vec<Vec<u8>> {
        self.enough.store(true, Ordering::SeqCst);
        TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        self.heard.join().unwrap()
    }
}

fn answer(stream: TcpStream, config: Arc<ServerConfig>) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let mut tls = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let (mut seen, mut buffer) = (vec![], [0; 4096]);
    // A request ends with its body, which here is one JSON object.
    while !seen.ends_with(b"}") {
        match tls.read(&mut buffer) {
            Ok(length @ 1..) => seen.extend_from_slice(&buffer[..length]),
            _ => break,
        }
    }
    let _ = tls.write_all(ANSWER.as_bytes());
    tls.conn.send_close_notify();
    let _ = tls.flush();
    seen
}

/// Asks a server with this certificate for a turn, trusting `authority` alone.
fn ask(
    authority: &str,
    certificate: CertificateDer<'static>,
    key: &KeyPair,
) -> (String, Vec<Vec<u8>>) {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let server = ModelServer::start(certificate, key);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("authority.pem");
    std::fs::write(&file, authority).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "certificates::a_client_in_a_process_of_its_own"])
        .args(["--ignored", "--nocapture"])
        .env_clear()
        .env("SSL_CERT_FILE", file)
        .env("ACT_TEST_ORIGIN", format!("https://localhost:{}", server.port))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    (said, server.stop())
}

struct NoPause;

impl Timer for NoPause {
    fn wait(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

#[tokio::test]
#[ignore = "the other half of the tests below"]
async fn a_client_in_a_process_of_its_own() {
    let Ok(base_url) = std::env::var("ACT_TEST_ORIGIN") else { return };
    let endpoint =
        act_model::ModelServer::new(WireName::Messages, base_url, "m").with_key(Secret::new(KEY));
    let access = ModelAccess::Server(endpoint);
    let events = Events::new("t-000000", vec![]);
    let model = connect(access, Deadlines::default(), events, TokenLedger::default()).unwrap();
    let mut chat = model.open("editor", "s", &[]);
    chat.say("go");
    let cancel = CancellationToken::new();
    let turn = with_attempts(&NoPause, &cancel, &mut *chat, |chat, attempt, cancel| {
        chat.next(Ask { attempt, ..Ask::default() }, cancel)
    });
    match turn.await {
        Ok(_) => println!("outcome: a turn"),
        Err(error) => println!("outcome: {:?}: {error}", error.kind),
    }
}

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority() -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    Authority { pem, issuer: Issuer::new(params, key) }
}

fn named(name: &str) -> CertificateParams {
    CertificateParams::new(vec![name.to_owned()]).unwrap()
}

#[test]
fn a_certificate_of_a_trusted_authority_is_good() {
    let (authority, key) = (authority(), KeyPair::generate().unwrap());
    let certificate = named("localhost").signed_by(&key, &authority.issuer).unwrap();
    let (said, heard) = ask(&authority.pem, certificate.der().clone(), &key);
    assert!(said.contains("outcome: a turn"), "{said}");
    assert_eq!(heard.len(), 1);
    assert!(String::from_utf8_lossy(&heard[0]).contains(KEY));
}

// security line 158
#[test]
fn a_certificate_that_is_self_signed_expired_or_of_another_name_gets_no_key() {
    let (authority, key) = (authority(), KeyPair::generate().unwrap());
    let mut expired = named("localhost");
    expired.not_before = date_time_ymd(2019, 1, 1);
    expired.not_after = date_time_ymd(2020, 1, 1);
    for (what, certificate) in [
        ("self-signed", named("localhost").self_signed(&key).unwrap()),
        ("expired", expired.signed_by(&key, &authority.issuer).unwrap()),
        ("wrong name", named("other.example").signed_by(&key, &authority.issuer).unwrap()),
    ] {
        let (said, heard) = ask(&authority.pem, certificate.der().clone(), &key);
        assert!(
            said.contains(
                "outcome: Rejected: the certificate of the model's server is not trusted"
            ),
            "{what}: {said}"
        );
        // One connection, and nothing came through it: refused, not tried again without looking.
        assert_eq!(heard, [Vec::<u8>::new()], "{what}");
    }
}
