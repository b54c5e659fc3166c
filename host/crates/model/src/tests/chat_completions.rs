//! Tests of Chat Completions alone: its body, and the mistakes of servers that its parser accepts.

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::tests::{KEY, ask_and_go_on, call, client, server, sse};
use crate::{Ask, ModelError, ModelErrorKind, Stop, ToolSpec, Turn};
use act_testing::Wire;

fn ask_raw(stream: Vec<u8>) -> Result<Turn, ModelError> {
    crate::tests::ask_raw(Wire::ChatCompletions, stream)
}

/// A turn and the assistant message that was sent back.
fn echo_of(stream: &str) -> (Turn, Value) {
    let (turn, body) = ask_and_go_on(Wire::ChatCompletions, sse(stream));
    (turn, body["messages"][2].clone())
}

#[tokio::test]
async fn the_request_is_the_plain_core_of_the_wire() {
    let server = server("turns: [{role: scout-a, text: '{}'}]");
    let client = client(Wire::ChatCompletions, &server);
    let tool = ToolSpec {
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

/// MODEL-36: cut inside of a character, or half of one; the turn goes on.
#[test]
fn a_text_that_is_cut_inside_of_a_character_is_joined() {
    let lines = [
        r#"data: {"choices":[{"delta":{"content":"hi \ud83d"}}]}"#,
        r#"data: {"choices":[{"delta":{"content":"\ude00 \ud800","reasoning_content":"so \udfff"}}]}"#,
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"[\"\ud83d"}}]}}]}"#,
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\ude00\"]"}}]},"finish_reason":"tool_calls"}]}"#,
    ];
    let (turn, message) = echo_of(&lines.map(|line| format!("{line}\n\n")).concat());
    assert_eq!(turn.text, "hi 😀 \u{fffd}");
    assert_eq!(turn.calls, [call("c", "f", "[\"😀\"]")]);
    assert_eq!(message["content"], turn.text);
    assert_eq!(message["reasoning_content"], "so \u{fffd}");
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

/// A conversation with tools by schema on a raw or scripted server at `origin`, and its client.
fn by_schema(origin: &str) -> (Box<dyn crate::Conversation>, crate::tests::Client) {
    let endpoint = crate::tests::endpoint(Wire::ChatCompletions, origin);
    let endpoint = crate::ModelServer { tools: crate::ToolMode::Schema, ..endpoint };
    let client = crate::tests::client_of(
        crate::ModelAccess::Server(endpoint),
        crate::Deadlines::default(),
        crate::TokenLedger::default(),
    );
    let tools = [("read", r#"{"type": "object", "required": ["path"]}"#), ("done", "{}")];
    let tools = tools.map(|(name, parameters)| ToolSpec {
        name: name.into(),
        description: format!("does {name}"),
        parameters: parameters.into(),
    });
    let mut chat = client.model.open("editor", "be good", &tools);
    chat.say("go");
    (chat, client)
}

// MODEL-52
#[tokio::test]
async fn with_tools_by_schema_a_turn_is_a_json_object_that_is_read_as_its_call() {
    let server = server(
        r#"turns:
          - {role: editor, text: ' {"tool": "read", "arguments": {"path": "ü", "n": 1.50}}'}
          - {role: editor, text: "```json\n{\"tool\":\"done\"}\n```"}
          - {role: editor, text: '{"report": 1}'}
          - {role: editor, text: '{"tool": "read", "arguments": {}} and more'}"#,
    );
    let cancel = CancellationToken::new();
    let (mut chat, _client) = by_schema(&server.anthropic_base_url());
    let first = chat.next(Ask::default(), &cancel).await.unwrap();
    let arguments = r#"{"path": "ü", "n": 1.50}"#;
    assert_eq!(first.calls, [call("act_call_1", "read", arguments)], "as the model wrote them");
    assert_eq!((first.stop, first.text.as_str()), (Stop::Tools, ""));
    chat.answer(vec![crate::tests::result("act_call_1")]).unwrap();
    let second = chat.next(Ask::default(), &cancel).await.unwrap();
    assert_eq!(second.calls, [call("act_call_2", "done", "{}")]);
    chat.answer(vec![crate::tests::result("act_call_2")]).unwrap();
    let wanted = Ask { output: Some(r#"{"title": "R"}"#.into()), ..Ask::default() };
    let third = chat.next(wanted, &cancel).await.unwrap();
    assert_eq!((third.stop, third.text.as_str()), (Stop::Done, r#"{"report": 1}"#));
    let fourth = chat.next(Ask::default(), &cancel).await.unwrap();
    assert_eq!((fourth.stop, fourth.calls.len()), (Stop::Done, 0), "text with more than a call");

    let requests = server.requests();
    let body: Value = serde_json::from_slice(&requests[0].raw).unwrap();
    assert!(body.get("tools").is_none() && body.get("tool_choice").is_none(), "{body}");
    let system = body["messages"][0]["content"].as_str().unwrap();
    assert!(system.starts_with("act role: editor\nbe good\n"), "{system}");
    for described in ["{\"tool\": NAME, \"arguments\"", "read: does read", r#""required":["path"]"#]
    {
        assert!(system.contains(described), "{described}: {system}");
    }
    let format = &body["response_format"];
    assert_eq!(format["type"], "json_schema");
    let choices = format["json_schema"]["schema"]["anyOf"].as_array().unwrap().clone();
    assert_eq!(choices[0]["properties"]["tool"]["const"], "read");
    assert_eq!(choices[0]["properties"]["arguments"]["required"][0], "path");
    assert_eq!(choices[0]["required"], serde_json::json!(["tool", "arguments"]));
    assert_eq!(choices.len(), 2);
    let schema = |at: usize| {
        let body: Value = serde_json::from_slice(&requests[at].raw).unwrap();
        body["response_format"]["json_schema"]["schema"]["anyOf"].as_array().unwrap().len()
    };
    assert_eq!(
        [schema(1), schema(2), schema(3)],
        [2, 3, 2],
        "the answer that was wanted is a choice"
    );

    let last: Value = serde_json::from_slice(&requests[3].raw).unwrap();
    let messages = last["messages"].as_array().unwrap();
    assert_eq!(
        messages[2]["content"],
        " {\"tool\": \"read\", \"arguments\": {\"path\": \"ü\", \"n\": 1.50}}"
    );
    assert_eq!(messages[3]["role"], "user");
    assert_eq!(messages[3]["content"], "The answer of the tool:\n{\"ok\":\"act_call_1\"}");
    assert!(messages.iter().all(|message| message.get("tool_calls").is_none()), "{last}");
    // MODEL-4
    let conversation = |raw: &[u8]| {
        let text = String::from_utf8(raw.to_vec()).unwrap();
        text[..text.find(r#"],"response_format""#).unwrap()].to_owned()
    };
    for pair in requests.windows(2) {
        assert!(conversation(&pair[1].raw).starts_with(&conversation(&pair[0].raw)));
    }
}

// MODEL-52
#[test]
fn with_tools_by_schema_a_cut_turn_and_a_call_of_the_wire_are_no_calls() {
    let ask = |chunks: &str| {
        let (origin, thread) = crate::tests::raw_server(vec![sse(chunks)]);
        let (mut chat, _client) = by_schema(&origin);
        let turn =
            crate::tests::runtime().block_on(chat.next(Ask::default(), &CancellationToken::new()));
        thread.join().unwrap();
        turn
    };
    let text = r#"data: {"choices":[{"delta":{"content":"{\"tool\":\"read\",\"arguments\":{}}"},"finish_reason":"length"}]}"#;
    let cut = ask(&format!("{text}\n\n")).unwrap();
    assert_eq!((cut.stop, cut.calls.len()), (Stop::Length, 0));
    let native = r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"read","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#;
    let refused = ask(&format!("{native}\n\n")).unwrap_err();
    assert_eq!(refused.kind, ModelErrorKind::Malformed);
    assert!(refused.message.contains("native"), "{}", refused.message);
    // A nesting that no parser follows is text, and nothing overflows.
    let deep = format!(r#"{{\"tool\":\"read\",\"arguments\":{}"#, "[".repeat(100_000));
    let deep = format!(
        r#"data: {{"choices":[{{"delta":{{"content":"{deep}"}},"finish_reason":"stop"}}]}}"#
    );
    let turn = ask(&format!("{deep}\n\n")).unwrap();
    assert_eq!((turn.stop, turn.calls.len()), (Stop::Done, 0));
}
