//! Tests of failures between client and server, over all three wires.

use super::*;

fn key_variable(wire: Wire) -> &'static str {
    match wire {
        Wire::ChatCompletions | Wire::Responses => "OPENAI_API_KEY",
        Wire::Messages => "ANTHROPIC_API_KEY",
    }
}

fn address_variable(wire: Wire) -> &'static str {
    match wire {
        Wire::ChatCompletions => "AGENT_LLM_BASE_URL",
        Wire::Messages => "ANTHROPIC_BASE_URL",
        Wire::Responses => "OPENAI_BASE_URL",
    }
}

// security line 142
#[tokio::test]
async fn a_rate_limit_is_waited_for_as_long_as_the_server_says() {
    for wire in Wire::ALL {
        let server = server(
            "turns: [{role: editor, status: 429, headers: {retry-after: '2'}}, {role: editor, text: done}]",
        );
        let waits = Waits::default();
        client(wire, &server).attempts(&waits).await.unwrap();
        assert_eq!(*waits.0.lock().unwrap(), [Duration::from_secs(2)]);
    }
}

#[tokio::test]
async fn a_spent_limit_is_one_request_although_it_looks_like_a_rate_limit() {
    for (wire, body) in [
        (
            Wire::Messages,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"enforced_spend_limit_reached"}}}"#,
        ),
        (
            Wire::Responses,
            r#"{"error":{"message":"m","type":"insufficient_quota","param":null,"code":"project_spend_limit_exceeded"}}"#,
        ),
        (
            Wire::ChatCompletions,
            r#"{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        ),
    ] {
        let server =
            server(&format!("turns: [{{role: editor, status: 429, repeat: 3, body: '{body}'}}]"));
        let error = client(wire, &server).attempts(&Waits::default()).await.unwrap_err();
        assert_eq!(
            (error.kind, server.counts().requests),
            (ModelErrorKind::Rejected, 1),
            "{wire:?}"
        );
        assert!(error.message.contains("limit or quota"), "{}", error.message);
    }
}

// security line 144
#[tokio::test]
async fn an_overloaded_server_gets_three_requests_and_no_fourth() {
    for wire in Wire::ALL {
        for status in [500, 503, 529] {
            let failing = format!("{{role: editor, status: {status}, repeat: 2}}");
            let twice = server(&format!("turns: [{failing}, {{role: editor, text: done}}]"));
            let client_twice = client(wire, &twice);
            assert_eq!(client_twice.attempts(&Waits::default()).await.unwrap().text, "done");
            let attempts: Vec<_> = client_twice
                .requests()
                .into_iter()
                .map(|(number, status, _)| (number, status))
                .collect();
            assert_eq!(attempts, [(1, Some(status)), (2, Some(status)), (3, Some(200))]);

            let always = server(&format!("turns: [{{role: editor, status: {status}, repeat: 9}}]"));
            let error = client(wire, &always).attempts(&Waits::default()).await.unwrap_err();
            assert_eq!((error.kind, error.status), (ModelErrorKind::Unavailable, Some(status)));
            assert_eq!(always.counts().requests, 3);
        }
    }
}

// security line 145
#[tokio::test]
async fn a_refusal_that_cannot_heal_is_one_request() {
    for wire in Wire::ALL {
        for status in [400, 401, 403, 404] {
            let server = server(&format!(
                "turns: [{{role: editor, status: {status}, body: '{{\"error\":{{\"message\":\"bad key {KEY}\"}}}}'}}]"
            ));
            let error = client(wire, &server).attempts(&Waits::default()).await.unwrap_err();
            assert_eq!((error.kind, error.status), (ModelErrorKind::Rejected, Some(status)));
            assert!(error.message.contains("bad key [redacted]"), "{}", error.message);
            let named = match status {
                401 | 403 => key_variable(wire),
                404 => address_variable(wire),
                _ => "AGENT_LLM_MODEL",
            };
            assert!(error.message.contains(named), "{wire:?}: {}", error.message);
            assert_eq!(server.counts().requests, 1);
        }
    }
}

#[tokio::test]
async fn the_first_request_over_plain_http_leaves_no_connection_for_the_second() {
    // MODEL-20
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let body = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        // The first connection stays open and is not read again.
        let mut open = vec![];
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&mut stream);
            stream.write_all(answer.as_bytes()).unwrap();
            open.push(stream);
        }
        open.len()
    });
    let deadlines = Deadlines { first: LONG, ..Deadlines::default() };
    let ledger = TokenLedger::default();
    let client = client_with(Wire::ChatCompletions, &origin, deadlines, ledger);
    for _ in 0..2 {
        assert_eq!(client.once().await.unwrap().text, "x");
    }
    assert_eq!(server.join().unwrap(), 2);
}

// security line 146
#[tokio::test]
async fn broken_connections_are_counted_attempts() {
    // No number that the system gives to another test's server.
    let closed = "127.0.0.1:1";
    for wire in Wire::ALL {
        let server = server(
            "turns: [{role: editor, text: abc, reset_after_bytes: 90, repeat: 2}, {role: editor, text: done}]",
        );
        assert_eq!(client(wire, &server).attempts(&Waits::default()).await.unwrap().text, "done");
        assert_eq!(server.counts().requests, 3);

        for origin in [format!("http://{closed}"), "http://model.invalid".into()] {
            let (waits, client) = (Waits::default(), client_at(wire, &origin));
            let error = client.attempts(&waits).await.unwrap_err();
            let said = (error.kind, error.status);
            assert_eq!(said, (ModelErrorKind::Transport, None), "{}", error.message);
            assert_eq!((waits.0.lock().unwrap().len(), client.requests().len()), (2, 3));
        }
    }
}

// security line 147
#[tokio::test]
async fn a_stream_that_ends_inside_a_call_gives_no_call_and_the_repetition_gives_one() {
    let arguments =
        "{name: full_rewrite, arguments: {path: a.txt, content: 'some words that are cut in two'}}";
    for (wire, cut) in
        [(Wire::ChatCompletions, 900), (Wire::Messages, 1400), (Wire::Responses, 1700)]
    {
        let server = server(&format!(
            "turns: [{{role: editor, call: {arguments}, cut_after_bytes: {cut}}}, {{role: editor, call: {arguments}}}]"
        ));
        let (client, cancel) = (client(wire, &server), CancellationToken::new());
        let mut chat = client.open();
        let error = chat.next(Ask::default(), &cancel).await.unwrap_err();
        assert_eq!((error.kind, error.status), (ModelErrorKind::Cut, Some(200)));
        let turn = chat.next(Ask::default(), &cancel).await.unwrap();
        assert_eq!(turn.calls.len(), 1);
        let [first, second] = &server.requests()[..] else { panic!() };
        assert_eq!(first.raw, second.raw, "the cut turn left nothing behind");
    }
}

// security line 150
#[test]
fn what_is_no_event_stream_is_a_failed_attempt_with_a_short_excerpt() {
    use ModelErrorKind::{Cut, Malformed, Transport};
    let html = format!("<html>\u{1b}[31m{}</html>", "wide ".repeat(500));
    let whole = "content-type: application/json\r\n";
    for wire in Wire::ALL {
        for (answer, kind) in [
            (sse("data: {not json}\n\n"), Malformed),
            (sse("data: 7\n\n"), Malformed),
            (answer("200 OK", "content-type: text/html\r\n", &html), Malformed),
            (answer("200 OK", whole, "{\"choices\":[],\"content\":[]}"), Malformed),
            (answer("200 OK", "content-type: text/event-stream\r\n", ""), Cut),
            (answer("200 OK", "", ""), Cut),
            (b"gibberish\r\n\r\n".to_vec(), Transport),
        ] {
            let error = ask_raw(wire, answer).unwrap_err();
            assert_eq!(error.kind, kind, "{wire:?}: {}", error.message);
            assert!(error.is_retryable());
            let inert = error.message.len() < 500 && !error.message.contains('\u{1b}');
            assert!(inert, "{}", error.message);
        }
    }
}

// security line 151, as far as the wire goes: the arguments are the caller's to judge, and a conversation
// with such a call in it goes on
#[tokio::test]
async fn arguments_are_handed_out_as_they_came() {
    for wire in Wire::ALL {
        let server = server(
            "turns: [{role: editor, calls: [{name: nobody, arguments: '{\"cut'}, {name: x, arguments: [1]}]}, {role: editor, text: sorry}]",
        );
        let (client, cancel) = (client(wire, &server), CancellationToken::new());
        let mut chat = client.open();
        let turn = chat.next(Ask::default(), &cancel).await.unwrap();
        let arguments: Vec<_> = turn.calls.iter().map(|call| call.arguments.as_str()).collect();
        assert_eq!(arguments, ["{\"cut", "[1]"]);
        let refused = |call: &ToolCall| ToolResult { is_error: true, ..result(&call.id) };
        chat.answer(turn.calls.iter().map(refused).collect()).unwrap();
        assert_eq!(chat.next(Ask::default(), &cancel).await.unwrap().text, "sorry");
    }
}

// security line 153
#[tokio::test]
async fn a_turn_that_was_stopped_early_has_no_calls_and_says_why() {
    for wire in Wire::ALL {
        for (finish, stop) in [("length", Stop::Length), ("content_filter", Stop::Refused)] {
            let server = server(&format!(
                "turns: [{{role: editor, text: so far, call: {{name: f}}, finish: {finish}}}, {{role: editor, text: on}}]"
            ));
            let (client, cancel) = (client(wire, &server), CancellationToken::new());
            let mut chat = client.open();
            let turn = chat.next(Ask::default(), &cancel).await.unwrap();
            assert_eq!((turn.stop, turn.calls.len()), (stop, 0), "{wire:?}");
            // No call waits for an answer, and the conversation contains no call.
            chat.say("go on");
            assert_eq!(chat.next(Ask::default(), &cancel).await.unwrap().text, "on");
            let body = String::from_utf8(server.requests()[1].raw.to_vec()).unwrap();
            assert!(!body.contains("call_editor"), "{wire:?}: {body}");
        }
        let empty = server("turns: [{role: editor, finish: stop}, {role: editor, text: on}]");
        let (client, cancel) = (client(wire, &empty), CancellationToken::new());
        let mut chat = client.open();
        let turn = chat.next(Ask::default(), &cancel).await.unwrap();
        assert_eq!((turn.stop, turn.text.as_str()), (Stop::Done, ""));
        chat.say("go on");
        chat.next(Ask::default(), &cancel).await.unwrap();
    }
}

// security line 154
#[test]
fn a_reply_beyond_the_cap_is_a_failed_attempt() {
    let fill = "x".repeat(1 << 20);
    for wire in Wire::ALL {
        // An unknown field or event is harmless on every wire.
        let piece = format!("data: {{\"type\":\"new\",\"choices\":[],\"note\":\"{fill}\"}}\n\n");
        let error = ask_raw(wire, sse(&piece.repeat(10))).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Malformed);
        assert!(error.message.contains("8 MiB"), "{}", error.message);
    }
}

// security line 156
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_stands_still_or_drips_is_given_up() {
    let short = Duration::from_millis(200);
    let impatient = |wire, origin: &str, deadlines| {
        client_with(wire, origin, deadlines, TokenLedger::default())
    };
    for wire in Wire::ALL {
        let stalled = "turns: [{role: editor, text: abc, stall_after_bytes: 400, repeat: 99}]";
        for in_all in [false, true] {
            let server = server(stalled);
            let mut short = short;
            // On a busy machine it may be over before the request is sent: then it was too short for this story.
            while server.counts().requests == 0 {
                let deadlines = match in_all {
                    false => Deadlines { idle: short, ..Deadlines::default() },
                    true => Deadlines { total: short, ..Deadlines::default() },
                };
                let client = impatient(wire, &server.anthropic_base_url(), deadlines);
                assert_eq!(client.once().await.unwrap_err().kind, ModelErrorKind::Timeout);
                short *= 2;
                assert!(short < LONG, "nothing is ever sent");
            }
            let closed = server.wait(LONG, |seen| seen.hang_ups >= seen.requests);
            assert!(closed, "the connection is closed");
        }
        let silent = server("turns: [{role: editor, text: abc, delay_ms: 60000}]");
        let deadlines = Deadlines { first: short, ..Deadlines::default() };
        let client = impatient(wire, &silent.anthropic_base_url(), deadlines);
        let error = client.once().await.unwrap_err();
        assert_eq!((error.kind, error.status), (ModelErrorKind::Timeout, None));
    }

    // One byte after the other keeps the connection alive, but no line ends.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let dripping = std::thread::spawn(move || {
        for _ in Wire::ALL {
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&mut stream);
            stream.write_all(&sse(": hello\n\n: ")).unwrap();
            while stream.write_all(b"x").and_then(|()| stream.flush()).is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
    for wire in Wire::ALL {
        let deadlines = Deadlines { idle: short, ..Deadlines::default() };
        let error = impatient(wire, &origin, deadlines).once().await.unwrap_err();
        assert_eq!((error.kind, error.status), (ModelErrorKind::Timeout, Some(200)));
    }
    dripping.join().unwrap();
}

// security line 159
#[tokio::test]
async fn redirects_are_not_followed() {
    let other = server("turns: []");
    for wire in Wire::ALL {
        for status in ["302 Found", "307 Temporary Redirect"] {
            let location = format!("location: {}/chat/completions\r\n", other.base_url());
            let (origin, thread) = raw_server(vec![answer(status, &location, "")]);
            let error = client_at(wire, &origin).attempts(&Waits::default()).await.unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Rejected);
            assert!(error.message.contains(address_variable(wire)), "{}", error.message);
            assert_eq!(thread.join().unwrap().len(), 1);
        }
    }
    assert_eq!(other.counts().requests, 0);
}

// security line 162, at the client's level
#[test]
fn the_key_is_in_no_message_event_or_debug_output() {
    let assistant_items = format!("your headers: x-api-key: {KEY}, authorization: Bearer {KEY}");
    for wire in Wire::ALL {
        let in_stream = format!(
            "data: {{\"type\":\"error\",\"error\":{{\"message\":\"{assistant_items}\"}},\"message\":\"{assistant_items}\"}}\n\n"
        );
        for reply in [
            answer("400 Bad Request", &format!("x-request-id: {KEY}\r\n"), &assistant_items),
            answer("200 OK", &format!("content-type: {KEY}\r\n"), &assistant_items),
            sse(&in_stream),
            sse(&format!("data: {{\"{KEY}\n\n")),
        ] {
            let (origin, thread) = raw_server(vec![reply]);
            let client = client_at(wire, &origin);
            let error = runtime().block_on(client.once()).unwrap_err();
            // The only place where it is.
            assert!(thread.join().unwrap()[0].contains(KEY));
            let all = format!("{error} {error:?} {:?}", client.seen.0.lock().unwrap());
            assert!(!all.contains("canary") && all.contains("[redacted]"), "{all}");
        }
        assert!(!format!("{:?}", access(wire, "u")).contains("canary"));
    }
}

// MODEL-21, security line 157
#[tokio::test(flavor = "multi_thread")]
async fn comments_after_the_end_of_a_turn_do_not_hold_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream);
        let turn =
            "data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\n";
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        stream.write_all(format!("{head}{turn}").as_bytes()).unwrap();
        // Far more comments than fit into the wait, until the client closes the connection.
        (0..2_000)
            .take_while(|_| {
                std::thread::sleep(Duration::from_millis(10));
                stream.write_all(b": waiting\n\n").is_ok()
            })
            .count()
    });
    let deadlines = Deadlines { counts: Duration::from_millis(200), ..Deadlines::default() };
    let client = client_with(Wire::ChatCompletions, &origin, deadlines, TokenLedger::default());
    assert_eq!(client.once().await.unwrap().text, "x");
    assert!(server.join().unwrap() < 2_000);
}
