//! A component that was granted an origin reaches that origin and nothing else.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use act_component::{
    ComponentFailure, ComponentHost, Grant, Http, Outbound, ScoutComponent, ScoutQuestion,
    Services, Set, custom_section,
};
use act_core::event::Events;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::hostile::{Heard, PLENTY, bytes, host, nothing};
use crate::recorded::Recorded;

/// Answers on loopback: `/large` with many bytes, `/away` with a redirect, `/never` not at all, else `here`.
struct Server {
    port: u16,
    /// Method, path and host of each request.
    asked: Arc<Mutex<Vec<String>>>,
    /// A stalled request was closed by the other side.
    closed: Arc<Mutex<bool>>,
    /// Requests that have no answer yet, and how many of them there ever were together.
    at_once: Arc<(Mutex<(usize, usize)>, Condvar)>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            asked: Arc::default(),
            closed: Arc::default(),
            at_once: Arc::default(),
        };
        let (asked, closed) = (Arc::clone(&server.asked), Arc::clone(&server.closed));
        let at_once = Arc::clone(&server.at_once);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (asked, closed) = (Arc::clone(&asked), Arc::clone(&closed));
                let at_once = Arc::clone(&at_once);
                std::thread::spawn(move || serve(stream.unwrap(), &asked, &closed, &at_once));
            }
        });
        server
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(
    mut stream: TcpStream,
    asked: &Mutex<Vec<String>>,
    closed: &Mutex<bool>,
    (at_once, more): &(Mutex<(usize, usize)>, Condvar),
) {
    let mut head = vec![];
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let host = head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    let first = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    asked.lock().unwrap().push(format!("{first} {host}"));
    let (status, more, body) = match first.split(' ').nth(1).unwrap() {
        "/large" => ("200 OK", "", "x".repeat(100_000)),
        "/away" => ("302 Found", "location: /secret\r\n", String::new()),
        "/never" => {
            let ended = stream.read(&mut byte);
            *closed.lock().unwrap() = matches!(ended, Ok(0) | Err(_));
            return;
        }
        slow if slow.starts_with("/slow") => {
            let mut now = at_once.lock().unwrap();
            now.0 += 1;
            now.1 = now.1.max(now.0);
            more.notify_all();
            // Once two have come together there is time for one too many.
            let alone = |now: &mut (usize, usize)| now.1 < 2;
            drop(more.wait_timeout_while(now, PLENTY / 2, alone).unwrap());
            std::thread::sleep(Duration::from_millis(100));
            // The next request can only be sent after this one was answered.
            at_once.lock().unwrap().0 -= 1;
            ("200 OK", "", "here".to_owned())
        }
        _ => ("200 OK", "", "here".to_owned()),
    };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\n{more}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    let _ = stream.write_all(answer.as_bytes());
}

/// Every name is on loopback, and loopback may be reached.
fn loopback() -> Outbound {
    let resolve = |_: String, port| -> futures_util::future::BoxFuture<'static, _> {
        Box::pin(async move { Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]) })
    };
    Outbound::new(resolve, |_: IpAddr| true)
}

fn granted(origin: &str) -> Http {
    Http {
        origins: [origin.parse().unwrap()].into_iter().collect(),
        methods: ["GET", "POST"].map(|method| method.parse().unwrap()).into_iter().collect(),
        request_bytes: 10_000,
        response_bytes: 50_000,
        ..Http::default()
    }
}

fn load(origin: &str, methods: &[&str], outbound: Outbound) -> ScoutComponent {
    load_from(host().reaching(outbound), origin, methods, granted(origin))
}

fn load_from(host: ComponentHost, origin: &str, methods: &[&str], http: Http) -> ScoutComponent {
    let manifest = json!({
        "kind": "scout", "name": "caller", "version": "1", "about": "Calls.", "report": {},
        "needs": [{"grant": "http", "why": "to attack", "origins": [origin], "methods": methods}],
    });
    let packed = custom_section::pack(&bytes("hostile-http"), manifest.to_string().as_bytes());
    let grant = Grant { http: Some(http), ..Grant::default() };
    host.load(&packed, grant, &Events::silent()).unwrap().into_scout().unwrap()
}

fn asking(bytes: usize, requests: &[(&str, &str)]) -> ScoutQuestion {
    let context =
        requests.iter().map(|(method, to)| (method.to_string(), to.to_string())).collect();
    ScoutQuestion { text: bytes.to_string(), context, facts_only: false }
}

async fn ask(caller: &ScoutComponent, question: ScoutQuestion, heard: &Heard) -> Value {
    let services = Services { events: heard.events(), ..nothing() };
    let never = CancellationToken::new();
    let report = caller.ask(question, services, PLENTY, &never).await.unwrap();
    serde_json::from_str(&report).unwrap()
}

// CAPABILITY-33
#[tokio::test]
async fn security_line_29_only_the_exact_origin_is_reached() {
    let server = Server::start();
    let port = server.port;
    let exact = format!("http://api.example.com:{port}");
    let caller = load(&exact, &["GET"], loopback());
    let others = [
        format!("https://api.example.com:{port}/x"),
        "http://api.example.com/x".to_owned(),
        format!("http://api.example.com:{}/x", port ^ 1),
        format!("http://api.example.com.evil.test:{port}/x"),
        format!("http://evil.test:{port}/http://api.example.com:{port}"),
        format!("http://user@api.example.com:{port}/x"),
        format!("http://evil.test:80@api.example.com:{port}/x"),
        format!("http://api.example.com.:{port}/x"),
        format!("http://API.example.com:{port}/x"),
        format!("http://127.0.0.1:{port}/x"),
        format!("ftp://api.example.com:{port}/x"),
    ];
    let heard = Heard::default();
    let requests: Vec<_> = others.iter().map(|to| ("GET", to.as_str())).collect();
    let answers = ask(&caller, asking(0, &requests), &heard).await;
    for to in &others {
        assert!(answers[format!("GET {to}")]["error"].is_string(), "{to}: {answers:#}");
    }
    assert_eq!(server.asked(), Vec::<String>::new(), "nothing was sent");
    let denied = heard.denials();
    assert!(
        denied.contains(&("http".into(), format!("GET http://127.0.0.1:{port}"))),
        "{denied:?}"
    );

    let (good, post) = (format!("{exact}/x?y=1"), format!("{exact}/x"));
    let heard = Heard::default();
    let answers =
        ask(&caller, asking(0, &[("GET", &good), ("POST", &post), ("BREW", &post)]), &heard).await;
    assert_eq!(
        answers[format!("GET {good}")],
        json!({"status": 200, "body": "here"}),
        "{answers:#}"
    );
    assert!(answers[format!("POST {post}")]["error"].is_string(), "not declared: {answers:#}");
    assert!(answers[format!("BREW {post}")]["error"].is_string());
    assert_eq!(server.asked(), [format!("GET /x?y=1 api.example.com:{port}")]);
}

// CAPABILITY-33, security line 29
#[tokio::test]
async fn a_granted_name_that_is_not_public_is_not_connected_to() {
    let server = Server::start();
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        let origin = format!("http://{host}:{}", server.port);
        let caller = load(&origin, &["GET"], Outbound::default());
        let heard = Heard::default();
        let answers = ask(&caller, asking(0, &[("GET", &origin)]), &heard).await;
        let error = answers[format!("GET {origin}")]["error"].as_str().unwrap();
        assert!(error.contains("DestinationIpProhibited"), "{answers:#}");
        assert!(
            heard
                .denials()
                .iter()
                .any(|(grant, object)| grant == "http" && object.contains("not public"))
        );
    }
    // A name that suddenly leads inwards, between public ones.
    let resolve = |_: String, port| -> futures_util::future::BoxFuture<'static, _> {
        let (public, private) = (([1, 1, 1, 1], port), ([127, 0, 0, 1], port));
        Box::pin(async move { Ok(vec![SocketAddr::from(public), SocketAddr::from(private)]) })
    };
    let origin = format!("http://api.example.com:{}", server.port);
    let caller = load(&origin, &["GET"], Outbound::new(resolve, |address| !address.is_loopback()));
    let answers = ask(&caller, asking(0, &[("GET", &origin)]), &Heard::default()).await;
    assert!(answers.to_string().contains("DestinationIpProhibited"), "{answers:#}");
    assert_eq!(server.asked(), Vec::<String>::new());
}

// CAPABILITY-33
#[tokio::test]
async fn no_redirect_is_followed_and_bodies_have_caps() {
    let server = Server::start();
    let origin = format!("http://api.example.com:{}", server.port);
    let caller = load(&origin, &["GET", "POST"], loopback());
    let (away, large, post) =
        (format!("{origin}/away"), format!("{origin}/large"), format!("{origin}/x"));
    let heard = Heard::default();
    let answers = ask(&caller, asking(0, &[("GET", &away), ("GET", &large)]), &heard).await;
    assert_eq!(answers[format!("GET {away}")]["status"], 302, "{answers:#}");
    let error = answers[format!("GET {large}")]["error"].as_str().unwrap();
    assert!(error.contains("HttpResponseBodySize"), "{error}");
    assert!(!server.asked().iter().any(|asked| asked.contains("/secret")));
    // The audit log has such a word as a limit, not as a denial (AUDIT-4).
    assert!(heard.denials().contains(&("http.bytes".into(), origin.clone())));

    let before = server.asked().len();
    let answers = ask(&caller, asking(40_000, &[("POST", &post)]), &Heard::default()).await;
    assert!(answers[format!("POST {post}")]["error"].is_string(), "{answers:#}");
    assert_eq!(server.asked().len(), before, "what is too large is not sent at all");
    let answers = ask(&caller, asking(4_096, &[("POST", &post)]), &Heard::default()).await;
    assert_eq!(answers[format!("POST {post}")]["status"], 200, "{answers:#}");
}

#[tokio::test]
async fn security_line_21_the_deadline_holds_inside_a_stalled_request() {
    let server = Server::start();
    let origin = format!("http://api.example.com:{}", server.port);
    let caller = load(&origin, &["GET"], loopback());
    let never = CancellationToken::new();
    let to = format!("{origin}/never");
    let mut short = Duration::from_millis(500);
    // On a busy machine it may be over before the request is sent: then it was too short for this story.
    while server.asked().is_empty() {
        let ended = caller.ask(asking(0, &[("GET", &to)]), nothing(), short, &never).await;
        assert!(matches!(ended, Err(ComponentFailure::Deadline(_))), "{ended:?}");
        short *= 2;
        assert!(short < PLENTY, "nothing is ever sent");
    }
    let began = std::time::Instant::now();
    while !*server.closed.lock().unwrap() {
        assert!(began.elapsed() < PLENTY, "the connection stays open");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

// CAPABILITY-41
#[tokio::test]
async fn requests_are_bounded_in_number_together_and_in_their_bytes() {
    let server = Server::start();
    let origin = format!("http://api.example.com:{}", server.port);
    let bounded = |http: Http| load_from(host().reaching(loopback()), &origin, &["GET"], http);
    let slow: Vec<_> = (0..20).map(|n| format!("{origin}/slow{n}")).collect();
    let flood = ScoutQuestion {
        facts_only: true,
        ..asking(0, &slow.iter().map(|to| ("GET", to.as_str())).collect::<Vec<_>>())
    };
    let of = |answers: &Value, what: &str| {
        let all = answers.as_object().unwrap().values();
        all.filter(|answer| answer.to_string().contains(what)).count()
    };
    let heard = Heard::default();
    let caller = bounded(Http { requests: 12, at_once: 3, ..granted(&origin) });
    let answers = ask(&caller, flood.clone(), &heard).await;
    assert_eq!((of(&answers, "here"), of(&answers, "HttpRequestDenied")), (12, 8), "{answers:#}");
    assert_eq!(server.asked().len(), 12, "the others are never sent");
    let most = server.at_once.0.lock().unwrap().1;
    assert!((2..=3).contains(&most), "{most} at a time");
    assert!(heard.denials().contains(&("http.requests".into(), origin.clone())));

    let heard = Heard::default();
    let caller = bounded(Http { query_bytes: 1_000, ..granted(&origin) });
    let answers = ask(&caller, flood, &heard).await;
    let given = of(&answers, "here");
    assert!((1..20).contains(&given), "{answers:#}");
    assert_eq!(of(&answers, "BodySize"), 20 - given, "{answers:#}");
    assert!(heard.denials().contains(&("http.bytes".into(), origin.clone())));
}

// CAPABILITY-33
#[tokio::test]
async fn a_request_that_is_not_what_it_says_is_not_sent() {
    let server = Server::start();
    let origin = format!("http://api.example.com:{}", server.port);
    let caller = load(&origin, &["POST"], loopback());
    for path in ["/x?length=9999999", "/x?length=0", "/x?length=", "/x?broken"] {
        let to = format!("{origin}{path}");
        let answers = ask(&caller, asking(4_096, &[("POST", &to)]), &Heard::default()).await;
        assert!(answers[format!("POST {to}")]["error"].is_string(), "{path}: {answers:#}");
    }
    assert_eq!(server.asked(), Vec::<String>::new());
    let to = format!("{origin}/x?length=4096");
    let answers = ask(&caller, asking(4_096, &[("POST", &to)]), &Heard::default()).await;
    assert_eq!(answers[format!("POST {to}")]["status"], 200, "{answers:#}");
}

// AUDIT-29, security line 29
#[tokio::test]
async fn the_first_use_of_an_origin_is_on_record_before_it_is_connected_to() {
    let server = Server::start();
    let origin = format!("http://api.example.com:{}", server.port);
    let recorded = Arc::new(Recorded::new());
    let before: Arc<Mutex<Vec<usize>>> = Arc::default();
    let resolve = {
        let (recorded, before) = (Arc::clone(&recorded), Arc::clone(&before));
        move |_: String, port| -> futures_util::future::BoxFuture<'static, _> {
            before.lock().unwrap().push(recorded.of("origin_opened").len());
            Box::pin(async move { Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]) })
        }
    };
    let reached = recorded.host().reaching(Outbound::new(resolve, |_: IpAddr| true));
    let caller = load_from(reached, &origin, &["GET", "POST"], granted(&origin));
    let (one, two) = (format!("{origin}/x"), format!("{origin}/y"));
    ask(&caller, asking(4_096, &[("POST", &one), ("GET", &two)]), &Heard::default()).await;
    assert_eq!(*before.lock().unwrap(), [1, 1], "one record, and it was there first");
    let opened = recorded.of("origin_opened").remove(0);
    assert_eq!(
        (opened.object.as_deref(), opened.reason.as_deref()),
        (Some(&*origin), Some("POST"))
    );
    let over = recorded.of("query").remove(0);
    assert_eq!(over.counts["http_requests"], 2);
    assert!((8_192..9_000).contains(&over.counts["http_bytes_out"]), "{over:?}");
    assert!((8..1_000).contains(&over.counts["http_bytes_in"]), "{over:?}");

    // A request that cannot be recorded is not sent.
    recorded.break_it();
    let sent = server.asked().len();
    let heard = Heard::default();
    let services = Services { events: heard.events(), ..nothing() };
    let never = CancellationToken::new();
    let ended = caller.ask(asking(0, &[("GET", &one)]), services, PLENTY, &never).await;
    assert!(matches!(ended, Err(ComponentFailure::Unrecorded(_))), "{ended:?}");
    assert_eq!(server.asked().len(), sent);
}

// CAPABILITY-53
#[tokio::test(flavor = "multi_thread")]
async fn security_line_305_only_the_local_origin_that_was_named_is_reached() {
    let (server, other) = (Server::start(), Server::start());
    let origin = format!("http://127.0.0.1:{}", server.port);
    let elsewhere = format!("http://127.0.0.1:{}", other.port);
    let name = format!("http://localhost:{}", server.port);
    let http = |local: &[&str]| Http {
        origins: [&origin, &elsewhere, &name].map(|one| one.parse().unwrap()).into_iter().collect(),
        local: local.iter().map(|one| one.parse().unwrap()).collect(),
        ..granted(&origin)
    };
    let manifest = json!({
        "kind": "scout", "name": "caller", "version": "1", "about": "Calls.", "report": {},
        "needs": [{"grant": "http", "why": "to ask", "methods": ["GET"],
            "origins": [&origin, &elsewhere, &name]}],
    });
    let packed = custom_section::pack(&bytes("hostile-http"), manifest.to_string().as_bytes());
    let asked = async |host: ComponentHost, http: Http| {
        let grant = Grant { http: Some(http), ..Grant::default() };
        let scout = host.load(&packed, grant, &Events::silent()).unwrap().into_scout().unwrap();
        let question = asking(0, &[("GET", &origin), ("GET", &elsewhere), ("GET", &name)]);
        let token = CancellationToken::new();
        let answer = scout.ask(question, nothing(), PLENTY, &token).await.unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        [&origin, &elsewhere, &name].map(|one| answer[format!("GET {one}")]["body"].clone())
    };
    let here = json!("here");
    assert_eq!(asked(host(), http(&[])).await, [Value::Null, Value::Null, Value::Null]);
    assert_eq!(asked(host(), http(&[&origin])).await, [here, Value::Null, Value::Null]);
    assert_eq!(server.asked().len(), 1);
    assert!(other.asked().is_empty(), "{:?}", other.asked());
    // The administrator's ceiling allows none.
    let any = Http { origins: Set::Any, methods: Set::Any, ..Http::default() };
    let ceiling = Grant { http: Some(any), ..Grant::everything() };
    let denied = asked(host().below(ceiling), http(&[&origin])).await;
    assert_eq!(denied, [Value::Null, Value::Null, Value::Null]);
}
