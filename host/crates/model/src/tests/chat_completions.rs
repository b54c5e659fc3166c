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
