//! The client against real HTTP: the scripted server, and raw sockets for what no server should do.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::event::{Event, EventKind, ModelUsage, Sink};
use crate::model::scripted::{Script, ScriptedServer};
use crate::model::{Ask, ModelError, Pause, Stop, ToolCall, ToolResult, Turn, with_attempts};

const KEY: &str = "sk-canary-0123456789";
const LONG: Duration = Duration::from_secs(30);

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<EventKind>>>);

impl Sink for Seen {
    fn event(&mut self, event: &Event) {
        self.0.lock().unwrap().push(event.kind.clone());
    }
}

struct Client {
    model: ChatCompletions,
    seen: Seen,
    ledger: TokenLedger,
}

fn client(base_url: &str) -> Client {
    client_with(base_url, Deadlines::default())
}

fn client_with(base_url: &str, deadlines: Deadlines) -> Client {
    let (seen, ledger) = (Seen::default(), TokenLedger::default());
    let events = Events::new("t-000000", vec![Box::new(seen.clone())]);
    let endpoint =
        Endpoint { base_url: base_url.into(), model: "m-1".into(), key: Some(Secret::new(KEY)) };
    let model = ChatCompletions::new(endpoint, deadlines, events, ledger.clone()).unwrap();
    Client { model, seen, ledger }
}

impl Client {
    async fn once(&self) -> Result<Turn, ModelError> {
        let mut chat = self.model.open("editor", "be good", &[]);
        chat.say("go");
        chat.next(Ask::default(), &CancellationToken::new()).await
    }

    /// The way the Editor and the Scouts ask: up to three attempts on one conversation.
    async fn attempts(&self, waits: &Waits) -> Result<Turn, ModelError> {
        let cancel = CancellationToken::new();
        let mut chat = self.model.open("editor", "be good", &[]);
        chat.say("go");
        with_attempts(waits, &cancel, &mut *chat, |chat, attempt, cancel| {
            chat.next(Ask { attempt, ..Ask::default() }, cancel)
        })
        .await
    }
}

#[derive(Default)]
struct Waits(Mutex<Vec<Duration>>);

impl Pause for Waits {
    fn pause(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.0.lock().unwrap().push(time);
        Box::pin(async {})
    }
}

fn server(script: &str) -> ScriptedServer {
    ScriptedServer::start(Script::from_yaml(script).unwrap()).unwrap()
}

/// Answers each connection with one of the given byte strings and closes it; tells how many came.
fn raw_server(answers: Vec<Vec<u8>>) -> (String, std::thread::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let count = answers.len();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&mut stream);
            let _ = stream.write_all(&answer);
        }
        count
    });
    (url, thread)
}

fn read_request(stream: &mut std::net::TcpStream) -> String {
    let mut seen = vec![];
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&seen).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() >= length.parse().unwrap() {
                return text;
            }
        }
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the client left in the middle of its request");
        seen.extend_from_slice(&buffer[..read]);
    }
}

/// A stream that ends with its connection, as a whole HTTP answer.
fn sse(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}")
        .into_bytes()
}

fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Asks a raw server once.
fn ask_raw(stream: Vec<u8>) -> Result<Turn, ModelError> {
    let (url, thread) = raw_server(vec![stream]);
    let result = runtime().block_on(client(&url).once());
    thread.join().unwrap();
    result
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }
}

fn result(id: &str) -> ToolResult {
    ToolResult { id: id.into(), content: format!("{{\"ok\":\"{id}\"}}"), is_error: false }
}

fn echoed(server: &ScriptedServer, request: usize) -> Value {
    server.requests()[request].body["messages"].clone()
}

#[tokio::test]
async fn a_turn_with_text_calls_and_usage_arrives_whole() {
    let server = server(
        "turns: [{role: editor, text: 'Grüße, I plan', calls: [{name: plan, arguments: {a: [1, \"ü\"]}}, {name: list}],
                  usage: {input: 100, cached: 40, output: 7}}]",
    );
    let client = client(&server.base_url());
    let turn = client.once().await.unwrap();
    assert_eq!(
        turn,
        Turn {
            text: "Grüße, I plan".into(),
            calls: vec![
                call("call_editor_1_0", "plan", r#"{"a":[1,"ü"]}"#),
                call("call_editor_1_1", "list", "{}")
            ],
            stop: Stop::Tools,
            usage: ModelUsage { input: 100, cached: 40, output: 7 },
        }
    );
    let [EventKind::ModelRequest { role, request_id, status, attempt, usage, .. }] =
        &client.seen.0.lock().unwrap()[..]
    else {
        panic!("not exactly one event");
    };
    assert_eq!(
        (role.as_str(), request_id.as_deref(), *status, *attempt),
        ("editor", Some("req_editor_1"), Some(200), 1)
    );
    assert_eq!(*usage, turn.usage);
    assert_eq!(client.ledger.by_role()["editor"], turn.usage);
}

// SCRIPT-4
#[tokio::test]
async fn past_the_end_of_its_script_a_role_hears_that_it_is_over() {
    let server = server("turns: [{role: scout-a, text: x}]");
    let turn = client(&server.base_url()).once().await.unwrap();
    assert_eq!(
        (turn.text.as_str(), turn.stop, turn.calls.len()),
        ("script is over", Stop::Done, 0)
    );
}

#[tokio::test]
async fn the_request_is_the_plain_core_of_the_wire() {
    let server = server("turns: [{role: scout-a, text: '{}'}]");
    let client = client(&server.base_url());
    let tool = crate::model::ToolSpec {
        name: "report".into(),
        description: "ends".into(),
        parameters: "{ \"type\": \"object\",\n \"properties\": {\"z\": {}, \"a\": {}} }".into(),
    };
    let mut chat = client.model.open("scout-a", "schema 1", &[tool]);
    chat.say("map it");
    let ask =
        Ask { max_tokens: Some(900), output: Some("{\"type\": \"object\"}".into()), attempt: 1 };
    chat.next(ask, &CancellationToken::new()).await.unwrap();
    let request = &server.requests()[0];
    let expected = concat!(
        r#"{"model":"m-1","stream":true,"stream_options":{"include_usage":true},"#,
        r#""tools":[{"type":"function","function":{"name":"report","description":"ends","#,
        r#""parameters":{"type":"object","properties":{"z":{},"a":{}}}}}],"tool_choice":"auto","#,
        r#""messages":[{"role":"system","content":"act role: scout-a\nschema 1"},{"role":"user","content":"map it"}],"#,
        r#""max_tokens":900,"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"}}}}"#,
    );
    assert_eq!(std::str::from_utf8(&request.raw).unwrap(), expected);
    assert_eq!(request.path, "/v1/chat/completions");
    let header =
        |name: &str| request.headers.iter().find(|(known, _)| known == name).unwrap().1.clone();
    assert_eq!(header("authorization"), format!("Bearer {KEY}"));
    assert_eq!(header("accept"), "text/event-stream");
}

// MODEL-4: what was sent before is a byte prefix of what is sent next.
#[tokio::test]
async fn the_prompt_only_grows() {
    let server = server(
        "turns:
          - {role: editor, text: thinking, calls: [{name: a}, {name: b}]}
          - {role: editor, call: {name: c, arguments: {x: 1}}}
          - {role: editor, text: done}",
    );
    let client = client(&server.base_url());
    let mut chat = client.model.open("editor", "be good", &[]);
    chat.say("go");
    let cancel = CancellationToken::new();
    chat.next(Ask::default(), &cancel).await.unwrap();
    chat.say("held back");
    // In the other order than asked; the wire keeps the order of the calls.
    chat.answer(vec![result("call_editor_1_1"), result("call_editor_1_0")]).unwrap();
    chat.next(Ask::default(), &cancel).await.unwrap();
    chat.answer(vec![result("call_editor_2_0")]).unwrap();
    chat.next(Ask::default(), &cancel).await.unwrap();

    let bodies: Vec<_> = server.requests().into_iter().map(|request| request.raw).collect();
    for pair in bodies.windows(2) {
        let grown = pair[0].strip_suffix(b"]}").unwrap();
        assert!(pair[1].starts_with(grown));
    }
    let roles: Vec<_> =
        echoed(&server, 1).as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user"]);
    let ids: Vec<_> = [3, 4].map(|at| echoed(&server, 1)[at]["tool_call_id"].clone()).into();
    assert_eq!(ids, ["call_editor_1_0", "call_editor_1_1"]);
}

#[tokio::test]
async fn answers_must_fit_the_calls() {
    let server = server("turns: [{role: editor, calls: [{name: a}, {name: b}]}]");
    let client = client(&server.base_url());
    let mut chat = client.model.open("editor", "s", &[]);
    chat.say("go");
    let cancel = CancellationToken::new();
    chat.next(Ask::default(), &cancel).await.unwrap();
    let (a, b) = ("call_editor_1_0", "call_editor_1_1");
    for wrong in [
        vec![],
        vec![result(a)],
        vec![result(a), result(a)],
        vec![result(a), result(b), result(b)],
        vec![result(a), result("x")],
    ] {
        assert_eq!(chat.answer(wrong).unwrap_err().kind, ModelErrorKind::Misused);
    }
    let early = chat.next(Ask::default(), &cancel).await.unwrap_err();
    assert_eq!(early.kind, ModelErrorKind::Misused);
    assert_eq!(server.seen().requests, 1);
    chat.answer(vec![result(a), result(b)]).unwrap();
}

// security line 142
#[tokio::test]
async fn a_rate_limit_is_waited_for_as_long_as_the_server_says() {
    let server = server(
        "turns: [{role: editor, status: 429, headers: {retry-after: '2'}}, {role: editor, text: done}]",
    );
    let waits = Waits::default();
    client(&server.base_url()).attempts(&waits).await.unwrap();
    assert_eq!(*waits.0.lock().unwrap(), [Duration::from_secs(2)]);
}

// security line 144
#[tokio::test]
async fn an_overloaded_server_gets_three_requests_and_no_fourth() {
    for status in [500, 503, 529] {
        let turns =
            format!("{{role: editor, status: {status}, repeat: 2}}, {{role: editor, text: done}}");
        let twice = server(&format!("turns: [{turns}]"));
        let client_twice = client(&twice.base_url());
        assert_eq!(client_twice.attempts(&Waits::default()).await.unwrap().text, "done");
        let attempts: Vec<_> = client_twice
            .seen
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|event| match event {
                EventKind::ModelRequest { attempt, status, .. } => (*attempt, *status),
                _ => panic!(),
            })
            .collect();
        assert_eq!(attempts, [(1, Some(status)), (2, Some(status)), (3, Some(200))]);

        let always = server(&format!("turns: [{{role: editor, status: {status}, repeat: 9}}]"));
        let error = client(&always.base_url()).attempts(&Waits::default()).await.unwrap_err();
        assert_eq!((error.kind, error.status), (ModelErrorKind::Unavailable, Some(status)));
        assert_eq!(always.seen().requests, 3);
    }
}

// security line 145
#[tokio::test]
async fn a_refusal_that_cannot_heal_is_one_request() {
    for status in [400, 401, 403, 404] {
        let server = server(&format!(
            "turns: [{{role: editor, status: {status}, body: '{{\"error\":{{\"message\":\"bad key {KEY}\"}}}}'}}]"
        ));
        let error = client(&server.base_url()).attempts(&Waits::default()).await.unwrap_err();
        assert_eq!((error.kind, error.status), (ModelErrorKind::Rejected, Some(status)));
        assert!(error.message.contains("bad key [redacted]"), "{}", error.message);
        if matches!(status, 401 | 403) {
            assert!(error.message.contains("OPENAI_API_KEY"), "{}", error.message);
        }
        assert_eq!(server.seen().requests, 1);
    }
}

// security line 146
#[tokio::test]
async fn broken_connections_are_counted_attempts() {
    let server = server(
        "turns: [{role: editor, text: abc, reset_after_bytes: 90, repeat: 2}, {role: editor, text: done}]",
    );
    assert_eq!(client(&server.base_url()).attempts(&Waits::default()).await.unwrap().text, "done");
    assert_eq!(server.seen().requests, 3);

    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in [format!("http://{closed}/v1"), "http://model.invalid/v1".into()] {
        let waits = Waits::default();
        let client = client(&url);
        let error = client.attempts(&waits).await.unwrap_err();
        assert_eq!(
            (error.kind, error.status),
            (ModelErrorKind::Transport, None),
            "{}",
            error.message
        );
        assert_eq!(waits.0.lock().unwrap().len(), 2);
        assert_eq!(client.seen.0.lock().unwrap().len(), 3);
    }
}

// security line 147
#[tokio::test]
async fn a_stream_that_ends_inside_a_call_gives_no_call_and_the_repetition_gives_one() {
    let arguments =
        "{name: full_rewrite, arguments: {path: a.txt, content: 'some words that are cut in two'}}";
    let server = server(&format!(
        "turns: [{{role: editor, call: {arguments}, cut_after_bytes: 900}}, {{role: editor, call: {arguments}}}]"
    ));
    let client = client(&server.base_url());
    let mut chat = client.model.open("editor", "s", &[]);
    chat.say("go");
    let cancel = CancellationToken::new();
    let error = chat.next(Ask::default(), &cancel).await.unwrap_err();
    assert_eq!((error.kind, error.status), (ModelErrorKind::Cut, Some(200)));
    let turn = chat.next(Ask::default(), &cancel).await.unwrap();
    assert_eq!(turn.calls.len(), 1);
    let [first, second] = &server.requests()[..] else { panic!() };
    assert_eq!(first.raw, second.raw, "the cut turn left nothing behind");
}

// security line 150
#[test]
fn what_is_no_event_stream_is_a_failed_attempt_with_a_short_excerpt() {
    let html = format!("<html>\u{1b}[31m{}</html>", "wide ".repeat(500));
    for (answer, kind) in [
        (sse("data: {not json}\n\n"), ModelErrorKind::Malformed),
        (sse("data: {\"choices\":7}\n\n"), ModelErrorKind::Malformed),
        (sse("data: [DONE]\n\n"), ModelErrorKind::Malformed),
        (answer("200 OK", "content-type: text/html\r\n", &html), ModelErrorKind::Malformed),
        (
            answer("200 OK", "content-type: application/json\r\n", "{\"choices\":[]}"),
            ModelErrorKind::Malformed,
        ),
        (answer("200 OK", "content-type: text/event-stream\r\n", ""), ModelErrorKind::Cut),
        (answer("200 OK", "", ""), ModelErrorKind::Cut),
        (b"gibberish\r\n\r\n".to_vec(), ModelErrorKind::Transport),
    ] {
        let error = ask_raw(answer).unwrap_err();
        assert_eq!(error.kind, kind, "{}", error.message);
        assert!(error.can_heal());
        assert!(
            error.message.len() < 500 && !error.message.contains('\u{1b}'),
            "{}",
            error.message
        );
    }
}

// security line 151, as far as the wire goes: the arguments are the caller's to judge
#[tokio::test]
async fn arguments_are_handed_out_as_they_came() {
    let server = server(
        "turns: [{role: editor, calls: [{name: nobody, arguments: '{\"cut'}, {name: x, arguments: [1]}]}]",
    );
    let turn = client(&server.base_url()).once().await.unwrap();
    let arguments: Vec<_> = turn.calls.iter().map(|call| call.arguments.as_str()).collect();
    assert_eq!(arguments, ["{\"cut", "[1]"]);
}

// security line 153
#[test]
fn a_turn_that_was_stopped_early_has_no_calls_and_says_why() {
    let half = r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}}]}"#;
    for (finish, stop) in [("length", Stop::Length), ("content_filter", Stop::Refused)] {
        let end = format!(r#"data: {{"choices":[{{"delta":{{}},"finish_reason":"{finish}"}}]}}"#);
        let turn = ask_raw(sse(&format!("{half}\n\n{end}\n\ndata: [DONE]\n\n"))).unwrap();
        assert_eq!((turn.stop, turn.calls.len()), (stop, 0));
    }
    let refusal =
        r#"data: {"choices":[{"delta":{"refusal":"I will not"},"finish_reason":"stop"}]}"#;
    let turn = ask_raw(sse(&format!("{refusal}\n\n"))).unwrap();
    assert_eq!((turn.stop, turn.text.as_str()), (Stop::Refused, "I will not"));
    let empty = r#"data: {"choices":[{"delta":{"content":null},"finish_reason":"stop"}]}"#;
    let turn = ask_raw(sse(&format!("{empty}\n\n"))).unwrap();
    assert_eq!((turn.stop, turn.text.as_str()), (Stop::Done, ""));
}

// security line 154
#[test]
fn a_reply_beyond_the_cap_is_a_failed_attempt() {
    let piece = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n",
        "x".repeat(1 << 20)
    );
    let error = ask_raw(sse(&piece.repeat(10))).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Malformed);
    assert!(error.message.contains("8 MiB"), "{}", error.message);
}

// security line 156
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_stands_still_or_drips_is_given_up() {
    let short = Duration::from_millis(200);
    let stalled = "turns: [{role: editor, text: abc, stall_after_bytes: 400}]";
    for deadlines in [
        Deadlines { idle: short, ..Deadlines::default() },
        Deadlines { total: short, ..Deadlines::default() },
    ] {
        let server = server(stalled);
        let error = client_with(&server.base_url(), deadlines).once().await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Timeout);
        assert!(server.wait(LONG, |seen| seen.hang_ups == 1), "the connection is closed");
    }
    let silent = server("turns: [{role: editor, text: abc, delay_ms: 60000}]");
    let deadlines = Deadlines { first: short, ..Deadlines::default() };
    let error = client_with(&silent.base_url(), deadlines).once().await.unwrap_err();
    assert_eq!((error.kind, error.status), (ModelErrorKind::Timeout, None));

    // One byte after the other keeps the connection alive, but no line ends.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let dripping = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream);
        stream.write_all(&sse(": hello\n\n: ")).unwrap();
        while stream.write_all(b"x").and_then(|()| stream.flush()).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let deadlines = Deadlines { idle: short, ..Deadlines::default() };
    let error = client_with(&url, deadlines).once().await.unwrap_err();
    assert_eq!((error.kind, error.status), (ModelErrorKind::Timeout, Some(200)));
    dripping.join().unwrap();
}

// security line 159
#[tokio::test]
async fn redirects_are_not_followed() {
    let other = server("turns: []");
    for status in ["302 Found", "307 Temporary Redirect"] {
        let location = format!("location: {}/chat/completions\r\n", other.base_url());
        let (url, thread) = raw_server(vec![answer(status, &location, "")]);
        let error = client(&url).attempts(&Waits::default()).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Rejected);
        assert!(error.message.contains("AGENT_LLM_BASE_URL"), "{}", error.message);
        assert_eq!(thread.join().unwrap(), 1);
    }
    assert_eq!(other.seen().requests, 0);
}

// security line 162, at the client's level
#[test]
fn the_key_is_in_no_message_event_or_debug_output() {
    let echo = format!("your headers: authorization: Bearer {KEY}");
    let in_stream = format!("data: {{\"error\":{{\"message\":\"{echo}\"}}}}\n\n");
    for reply in [
        answer("400 Bad Request", &format!("x-request-id: {KEY}\r\n"), &echo),
        answer("200 OK", &format!("content-type: {KEY}\r\n"), &echo),
        sse(&in_stream),
        sse(&format!("data: {{\"{KEY}\n\n")),
    ] {
        let (url, thread) = raw_server(vec![reply]);
        let client = client(&url);
        let error = runtime().block_on(client.once()).unwrap_err();
        thread.join().unwrap();
        let all = format!("{error} {error:?} {:?}", client.seen.0.lock().unwrap());
        assert!(!all.contains("canary") && all.contains("[redacted]"), "{all}");
    }
    let endpoint =
        Endpoint { base_url: "u".into(), model: "m".into(), key: Some(Secret::new(KEY)) };
    assert!(!format!("{endpoint:?}").contains("canary"));
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_closes_the_connection() {
    let server = server("turns: [{role: editor, text: abc, stall_after_bytes: 400}]");
    let client = client(&server.base_url());
    let cancel = CancellationToken::new();
    let asking = {
        let (model, cancel) = (client.model.clone(), cancel.clone());
        // Spawned as a session's future may be: it can move between threads.
        tokio::spawn(async move {
            let mut chat = model.open("editor", "s", &[]);
            chat.say("go");
            with_attempts(&Waits::default(), &cancel, &mut *chat, |chat, attempt, cancel| {
                chat.next(Ask { attempt, ..Ask::default() }, cancel)
            })
            .await
        })
    };
    assert!(server.wait(LONG, |seen| seen.requests == 1));
    cancel.cancel();
    assert_eq!(asking.await.unwrap().unwrap_err().kind, ModelErrorKind::Cancelled);
    assert!(server.wait(LONG, |seen| seen.hang_ups == 1));
    let events = client.seen.0.lock().unwrap();
    assert_eq!(events.len(), 1, "a cancelled request is told too");
}

// --- what is forgiven, and what goes back ---

/// Lets a raw server answer once, then asks again and looks at the assistant message that was sent back.
fn echo_of(stream: &str) -> (Turn, Value) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let stream = sse(stream);
    let thread = std::thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        read_request(&mut first);
        first.write_all(&stream).unwrap();
        drop(first);
        let (mut second, _) = listener.accept().unwrap();
        read_request(&mut second)
    });
    let turn = runtime().block_on(async {
        let client = client(&url);
        let cancel = CancellationToken::new();
        let mut chat = client.model.open("editor", "s", &[]);
        chat.say("go");
        let turn = chat.next(Ask::default(), &cancel).await.unwrap();
        chat.answer(turn.calls.iter().map(|call| result(&call.id)).collect()).unwrap();
        let _ = chat.next(Ask::default(), &cancel).await;
        turn
    });
    let request = thread.join().unwrap();
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    (turn, body["messages"][2].clone())
}

#[test]
fn unknown_fields_go_back_as_they_came() {
    let (turn, message) = echo_of(concat!(
        r#"data: {"choices":[{"delta":{"role":"assistant","reasoning_content":"first, ","note":1.50,"details":[{"t":1e2}]}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{"reasoning_content":"then","details":[{"t":2}],"nothing":null}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":""},"extra_content":{"sig":"a=="}}]},"finish_reason":"tool_calls"}]}"#,
        "\n\ndata: [DONE]\n\n",
    ));
    assert_eq!(turn.calls, [call("c1", "f", "{}")]);
    let expected = concat!(
        r#"{"role":"assistant","content":null,"details":[{"t":1e2},{"t":2}],"note":1.50,"reasoning_content":"first, then","#,
        r#""tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"sig":"a=="}}]}"#,
    );
    assert_eq!(message, serde_json::from_str::<Value>(expected).unwrap());
}

#[test]
fn the_habits_of_local_servers_are_forgiven() {
    // One line end between events, CRLF, `stop` with calls, an object for arguments, no ids, no end marker.
    let lines = [
        r#"data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"a","arguments":{"x": 1}}}]}}],"usage":null}"#,
        r#"data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"name":"b","arguments":"{\"y\""}}]}}]}"#,
        r#"data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"name":"b","arguments":":2}"}}]}}]}"#,
        r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    ];
    for end in ["\n", "\r\n", "\r\n\r\n"] {
        let (turn, _) = echo_of(&lines.map(|line| format!("{line}{end}")).concat());
        assert_eq!(turn.stop, Stop::Tools);
        assert_eq!(
            turn.calls,
            [call("act_call_1", "a", r#"{"x": 1}"#), call("act_call_2", "b", r#"{"y":2}"#)]
        );
    }
}

#[test]
fn calls_that_share_an_index_or_an_id_are_told_apart() {
    let (turn, _) = echo_of(concat!(
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"p","function":{"name":"a","arguments":"{}"}}]}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"q","function":{"name":"b","arguments":"{}"}}]}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{"tool_calls":[{"id":"q","function":{"name":"b","arguments":""}},{"function":{"name":"c","arguments":"[]"}}]},"finish_reason":"stop"}]}"#,
        "\n\n",
    ));
    assert_eq!(
        turn.calls,
        [call("p", "a", "{}"), call("q", "b", "{}"), call("act_call_1", "c", "[]")]
    );
}

#[test]
fn a_turn_without_an_end_is_no_turn() {
    let text = r#"data: {"choices":[{"delta":{"content":"all of it"}}]}"#;
    assert_eq!(ask_raw(sse(&format!("{text}\n\n"))).unwrap_err().kind, ModelErrorKind::Cut);
    let none = r#"data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#;
    assert_eq!(ask_raw(sse(&format!("{none}\n\n"))).unwrap_err().kind, ModelErrorKind::Malformed);
}

#[test]
fn an_error_in_the_stream_is_no_turn_even_after_its_end() {
    let stream = concat!(
        r#"data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#,
        "\n\n",
        r#"data: {"error":{"message":"engine died","code":500}}"#,
        "\n\n",
    );
    let error = ask_raw(sse(stream)).unwrap_err();
    assert_eq!((error.kind, error.status), (ModelErrorKind::Unavailable, Some(500)));
    assert!(error.message.contains("engine died"));
}

/// Cut at every byte: nothing, or the very turn; and never before the end of the turn was on the wire.
#[test]
fn a_cut_at_any_byte_gives_the_whole_turn_or_an_error() {
    use crate::model::http::{Collect, Flow};
    use crate::model::sse::Decoder;
    let body = concat!(
        r#"data: {"choices":[{"delta":{"content":"é","tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\":"}}]}}]}"#,
        "\r\n\r\n: ping\n\n",
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
        "\n\n",
        r#"data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#,
        "\n\ndata: [DONE]\n\n",
    );
    let decode = |bytes: &[u8], step: usize| {
        let (mut decoder, mut stream, mut payloads) =
            (Decoder::default(), stream::Stream::default(), vec![]);
        for piece in bytes.chunks(step) {
            decoder.push(piece, &mut payloads).unwrap();
            for payload in payloads.drain(..) {
                if stream.payload(&payload).unwrap() == Flow::End {
                    break;
                }
            }
        }
        stream.complete().then(|| stream.reply(&mut 0).unwrap().turn.calls)
    };
    let whole = vec![call("c", "f", r#"{"a":1}"#)];
    let reason = body.find("finish_reason").unwrap();
    let complete = reason + body[reason..].find('\n').unwrap() + 1;
    for cut in 0..=body.len() {
        let got = decode(&body.as_bytes()[..cut], 1);
        assert_eq!(got, decode(&body.as_bytes()[..cut], body.len()));
        assert_eq!(got, (cut >= complete).then(|| whole.clone()), "cut at {cut}");
    }
}
