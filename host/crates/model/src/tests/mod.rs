//! The client against real HTTP, the same stories over all three wires: the scripted server, and raw
//! sockets for what no server should do.

mod anthropic_messages;
mod budget;
mod chat_completions;
mod cuts;
mod faults;
mod openai_responses;
mod turns;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::*;
use act_core::event::{Event, EventKind, Events, Sink};
use act_core::secret::Secret;
use act_testing::{Script, ScriptedServer, Wire};

pub(super) const KEY: &str = "sk-canary-0123456789";
pub(super) const LONG: Duration = Duration::from_secs(30);

/// The emitted events.
#[derive(Clone, Default)]
pub(super) struct Seen(pub(super) Arc<Mutex<Vec<EventKind>>>);

impl Sink for Seen {
    fn event(&mut self, event: &Event) {
        self.0.lock().unwrap().push(event.kind.clone());
    }
}

/// A server that writes its requests to files at its end when `ACT_CONFORMANCE_DIR` is set.
pub(super) struct Server(ScriptedServer);

impl Deref for Server {
    type Target = ScriptedServer;

    fn deref(&self) -> &ScriptedServer {
        &self.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(directory) = std::env::var_os("ACT_CONFORMANCE_DIR") {
            self.0.write_requests(Path::new(&directory)).unwrap();
        }
    }
}

pub(super) fn server(script: &str) -> Server {
    Server(ScriptedServer::start(Script::from_yaml(script).unwrap()).unwrap())
}

pub(super) struct Client {
    pub(super) model: Arc<dyn Model>,
    pub(super) seen: Seen,
    pub(super) ledger: TokenLedger,
}

/// `origin` is an address without a path.
pub(super) fn access(wire: Wire, origin: &str) -> ModelAccess {
    ModelAccess::Server(endpoint(wire, origin).with_key(Secret::new(KEY)))
}

pub(super) fn endpoint(wire: Wire, origin: &str) -> ModelServer {
    let versioned = format!("{origin}/v1");
    match wire {
        Wire::ChatCompletions => ModelServer::new(WireName::ChatCompletions, versioned, "m-1"),
        Wire::Messages => ModelServer::new(WireName::Messages, origin, "m-1"),
        Wire::Responses => ModelServer::new(WireName::Responses, versioned, "m-1"),
    }
}

pub(super) fn client_with(
    wire: Wire,
    origin: &str,
    deadlines: Deadlines,
    ledger: TokenLedger,
) -> Client {
    client_of(access(wire, origin), deadlines, ledger)
}

pub(super) fn client_of(access: ModelAccess, deadlines: Deadlines, ledger: TokenLedger) -> Client {
    let seen = Seen::default();
    let events = Events::new("t-000000", vec![Box::new(seen.clone())]);
    let model = connect(access, deadlines, events, ledger.clone()).unwrap();
    Client { model, seen, ledger }
}

pub(super) fn client_at(wire: Wire, origin: &str) -> Client {
    client_with(wire, origin, Deadlines::default(), TokenLedger::default())
}

pub(super) fn client(wire: Wire, server: &ScriptedServer) -> Client {
    client_at(wire, &server.anthropic_base_url())
}

impl Client {
    pub(super) fn open(&self) -> Box<dyn Conversation> {
        let mut chat = self.model.open("editor", "be good", &[]);
        chat.say("go");
        chat
    }

    pub(super) async fn once(&self) -> Result<Turn, ModelError> {
        self.open().next(Ask::default(), &CancellationToken::new()).await
    }

    /// The way the Editor and the Scouts ask: up to three attempts on one conversation.
    pub(super) async fn attempts(&self, waits: &Waits) -> Result<Turn, ModelError> {
        with_attempts(
            waits,
            &CancellationToken::new(),
            &mut *self.open(),
            |chat, attempt, cancel| chat.next(Ask { attempt, ..Ask::default() }, cancel),
        )
        .await
    }

    /// Returns attempt, status and tokens of each request event.
    pub(super) fn requests(&self) -> Vec<(u32, Option<u16>, ModelUsage)> {
        let events = self.seen.0.lock().unwrap();
        events
            .iter()
            .map(|event| match event {
                EventKind::ModelRequest { attempt, status, usage, .. } => {
                    (*attempt, *status, *usage)
                }
                other => panic!("{other:?}"),
            })
            .collect()
    }
}

#[derive(Default)]
pub(super) struct Waits(pub(super) Mutex<Vec<Duration>>);

impl Timer for Waits {
    fn wait(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.0.lock().unwrap().push(time);
        Box::pin(async {})
    }
}

/// Answers each connection with one of the given byte strings and closes it; tells what was asked.
pub(super) fn raw_server(answers: Vec<Vec<u8>>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let reply = |answer: Vec<u8>| {
            let (mut stream, _) = listener.accept().unwrap();
            let request = read_request(&mut stream);
            let _ = stream.write_all(&answer);
            request
        };
        answers.into_iter().map(reply).collect()
    });
    (origin, thread)
}

pub(super) fn read_request(stream: &mut std::net::TcpStream) -> String {
    let mut seen = vec![];
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&seen).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.unwrap_or("0").parse().unwrap() {
                return text;
            }
        }
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the client left in the middle of its request");
        seen.extend_from_slice(&buffer[..read]);
    }
}

/// A stream that ends with its connection, as a whole HTTP answer.
pub(super) fn sse(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}")
        .into_bytes()
}

/// Events of the vendors' streams; their names are not looked at.
pub(super) fn events(events: &[&str]) -> Vec<u8> {
    sse(&events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>())
}

pub(super) fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Asks a raw server once.
pub(super) fn ask_raw(wire: Wire, stream: Vec<u8>) -> Result<Turn, ModelError> {
    let (origin, thread) = raw_server(vec![stream]);
    let result = runtime().block_on(client_at(wire, &origin).once());
    thread.join().unwrap();
    result
}

/// Lets a raw server answer once, answers the calls, goes on and looks at the body that is then sent.
pub(super) fn ask_and_go_on(wire: Wire, stream: Vec<u8>) -> (Turn, Value) {
    let (origin, thread) = raw_server(vec![stream, answer("400 Bad Request", "", "")]);
    let turn = runtime().block_on(async {
        let (client, cancel) = (client_at(wire, &origin), CancellationToken::new());
        let mut chat = client.open();
        let turn = chat.next(Ask::default(), &cancel).await.unwrap();
        chat.answer(turn.calls.iter().map(|call| result(&call.id)).collect()).unwrap();
        if turn.calls.is_empty() {
            chat.say("on");
        }
        let _ = chat.next(Ask::default(), &cancel).await;
        turn
    });
    let requests = thread.join().unwrap();
    let body = requests[1].split_once("\r\n\r\n").unwrap().1;
    (turn, serde_json::from_str(body).unwrap())
}

pub(super) fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }
}

pub(super) fn result(id: &str) -> ToolResult {
    ToolResult { id: id.into(), content: format!("{{\"ok\":\"{id}\"}}"), is_error: false }
}
