//! Tests of Messages alone: its body, its cache marks and its blocks.

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::anthropic_messages::{Side, marks};
use crate::tests::{KEY, ask_and_go_on, ask_raw, call, client, events, result, server};
use crate::{Ask, ModelErrorKind, ModelUsage, Stop, ToolResult, ToolSpec};
use act_testing::Wire;

const WIRE: Wire = Wire::Messages;

#[tokio::test]
async fn the_request_has_tools_system_and_messages_in_the_order_of_the_cache() {
    let server = server("turns: [{role: scout-a, text: '{}'}]");
    let client = client(WIRE, &server);
    let tool = ToolSpec {
        name: "report".into(),
        description: "ends".into(),
        parameters: "{ \"type\": \"object\",\n \"properties\": {\"z\": {}, \"a\": {}} }".into(),
    };
    let mut chat = client.model.open("scout-a", "schema 1", &[tool]);
    chat.say("map it");
    chat.say(" ");
    let ask =
        Ask { max_tokens: Some(900), output: Some("{\"type\": \"object\"}".into()), attempt: 1 };
    chat.next(ask, &CancellationToken::new()).await.unwrap();
    let request = &server.requests()[0];
    let expected = concat!(
        r#"{"model":"m-1","stream":true,"#,
        r#""tools":[{"name":"report","description":"ends","input_schema":{"type":"object","properties":{"z":{},"a":{}}}}],"#,
        r#""tool_choice":{"type":"auto"},"#,
        r#""system":[{"type":"text","text":"act role: scout-a\nschema 1","cache_control":{"type":"ephemeral"}}],"#,
        r#""messages":[{"role":"user","content":[{"type":"text","text":"map it","cache_control":{"type":"ephemeral"}}]}],"#,
        r#""max_tokens":900,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}}"#,
    );
    assert_eq!(std::str::from_utf8(&request.raw).unwrap(), expected);
    assert_eq!(request.path, "/v1/messages");
    let header = |name: &str| request.headers.iter().find(|(known, _)| known == name);
    assert_eq!(header("x-api-key").unwrap().1, KEY);
    assert_eq!(header("anthropic-version").unwrap().1, "2023-06-01");
    assert_eq!(header("authorization"), None);
}

// MODEL-5
#[test]
fn blocks_go_back_as_they_came_and_results_come_right_behind() {
    let (turn, body) = ask_and_go_on(
        WIRE,
        events(&[
            r#"{"type":"message_start","message":{"role":"assistant","content":[],"usage":{"input_tokens":3,"cache_creation_input_tokens":4,"cache_read_input_tokens":5,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"let "}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"me"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"Eq+/=="}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"data":"op4que","type":"redacted_thinking","new":1.50}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"content_block_stop","index":2}"#,
            r#"{"type":"something_new","index":9}"#,
            r#"{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{},"caller":{"type":"direct"}}}"#,
            r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}"#,
            r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"n\": 1.5"}}"#,
            r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"0}"}}"#,
            r#"{"type":"content_block_stop","index":3}"#,
            r#"{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_2","name":"g","input":{}}}"#,
            r#"{"type":"content_block_stop","index":4}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":11}}"#,
            r#"{"type":"message_stop"}"#,
        ]),
    );
    assert_eq!(turn.calls, [call("toolu_1", "f", r#"{"n": 1.50}"#), call("toolu_2", "g", "{}")]);
    assert_eq!(turn.usage, ModelUsage { input: 12, cached: 5, cache_write: 4, output: 11 });
    let expected = json!([
        {"type": "thinking", "thinking": "let me", "signature": "Eq+/=="},
        serde_json::from_str::<Value>(r#"{"data":"op4que","type":"redacted_thinking","new":1.50}"#).unwrap(),
        {"type": "tool_use", "id": "toolu_1", "name": "f", "caller": {"type": "direct"}, "input": {"n": 1.5}},
        {"type": "tool_use", "id": "toolu_2", "name": "g", "input": {}},
    ]);
    assert_eq!(body["messages"][1], json!({"role": "assistant", "content": expected}));
    let answers = body["messages"][2]["content"].as_array().unwrap();
    let ids: Vec<_> = answers.iter().map(|block| block["tool_use_id"].clone()).collect();
    assert_eq!(ids, ["toolu_1", "toolu_2"]);
    assert!(
        body.to_string().contains(r#""new":1.50"#)
            || body["messages"][1]["content"][1]["new"] == 1.5
    );
}

#[tokio::test]
async fn arguments_that_are_no_object_go_back_as_a_mistake_and_refusals_are_marked() {
    let server = server(
        "turns: [{role: editor, call: {name: f, arguments: '{\"cut'}}, {role: editor, text: on}]",
    );
    let (client, cancel) = (client(WIRE, &server), CancellationToken::new());
    let mut chat = client.open();
    let turn = chat.next(Ask::default(), &cancel).await.unwrap();
    chat.answer(vec![ToolResult { is_error: true, ..result(&turn.calls[0].id) }]).unwrap();
    chat.next(Ask::default(), &cancel).await.unwrap();
    let messages = &server.requests()[1].body["messages"];
    let input = &messages[1]["content"].as_array().unwrap().last().unwrap()["input"];
    assert_eq!(*input, json!({"INVALID_JSON": "{\"cut"}));
    assert_eq!(messages[2]["content"][0]["is_error"], true);
}

/// The start of a turn and its end with this reason.
fn ended(block: &str, reason: &str) -> Vec<u8> {
    events(&[
        &format!(r#"{{"type":"content_block_start","index":0,"content_block":{block}}}"#),
        r#"{"type":"content_block_stop","index":0}"#,
        &format!(r#"{{"type":"message_delta","delta":{reason},"usage":{{"output_tokens":1}}}}"#),
        r#"{"type":"message_stop"}"#,
    ])
}

const TEXT: &str = r#"{"type":"text","text":"half a"}"#;

// security line 153
#[test]
fn every_reason_to_stop_is_one_of_ours() {
    for (reason, stop) in [
        ("end_turn", Stop::Done),
        ("stop_sequence", Stop::Done),
        ("pause_turn", Stop::Done),
        ("something_new", Stop::Done),
        ("max_tokens", Stop::Length),
        ("model_context_window_exceeded", Stop::Length),
        ("refusal", Stop::Refused),
    ] {
        let stream = ended(TEXT, &format!(r#"{{"stop_reason":"{reason}"}}"#));
        let (turn, body) = ask_and_go_on(WIRE, stream);
        assert_eq!((turn.stop, turn.text.as_str()), (stop, "half a"), "{reason}");
        // A refused turn is left out; every other turn is sent, and the next text of the user follows.
        let roles: Vec<_> =
            body["messages"].as_array().unwrap().iter().map(|it| it["role"].clone()).collect();
        let kept: &[&str] =
            if stop == Stop::Refused { &["user"] } else { &["user", "assistant", "user"] };
        assert_eq!(roles, kept, "{reason}");
    }
    let empty = r#"{"type":"text","text":""}"#;
    let refusal = r#"{"stop_reason":"refusal","stop_details":{"type":"refusal","category":null,"explanation":"not this"}}"#;
    assert_eq!(ask_raw(WIRE, ended(empty, refusal)).unwrap().text, "not this");
}

#[test]
fn a_turn_of_thoughts_alone_leaves_nothing_to_be_refused() {
    let thought = r#"{"type":"thinking","thinking":"hm","signature":"s"}"#;
    for reason in ["end_turn", "max_tokens"] {
        let stream = ended(thought, &format!(r#"{{"stop_reason":"{reason}"}}"#));
        let (turn, body) = ask_and_go_on(WIRE, stream);
        assert_eq!(turn.text, "");
        let texts = json!([{"type": "text", "text": "go"}, {"type": "text", "text": "on", "cache_control": {"type": "ephemeral"}}]);
        assert_eq!(body["messages"], json!([{"role": "user", "content": texts}]));
    }
}

#[test]
fn what_is_no_turn_is_refused() {
    let call = r#"{"type":"tool_use","id":"a","name":"f","input":{}}"#;
    let nameless = r#"{"type":"tool_use","id":"a","name":"","input":{}}"#;
    let tools = r#"{"stop_reason":"tool_use"}"#;
    let start = format!(r#"{{"type":"content_block_start","index":0,"content_block":{call}}}"#);
    let again = format!(r#"{{"type":"content_block_start","index":1,"content_block":{call}}}"#);
    let stop = |index| format!(r#"{{"type":"content_block_stop","index":{index}}}"#);
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#;
    for stream in [
        ended(TEXT, tools),
        ended(TEXT, r#"{"stop_reason":null}"#),
        ended(nameless, tools),
        events(&[&start, end, r#"{"type":"message_stop"}"#]),
        events(&[&start, &start]),
        events(&[&start, &stop(0), &again, &stop(1), end, r#"{"type":"message_stop"}"#]),
        events(&[
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}"#,
        ]),
        events(&[r#"{"type":"content_block_stop","index":0}"#]),
        events(&[r#"{"type":"message_stop"}"#]),
    ] {
        let text = String::from_utf8(stream.clone()).unwrap();
        assert_eq!(ask_raw(WIRE, stream).unwrap_err().kind, ModelErrorKind::Malformed, "{text}");
    }
}

#[test]
fn an_error_in_the_stream_is_judged_by_its_type() {
    for (kind, expected) in [
        ("overloaded_error", ModelErrorKind::Unavailable),
        ("api_error", ModelErrorKind::Unavailable),
        ("invalid_request_error", ModelErrorKind::Rejected),
        ("billing_error", ModelErrorKind::Rejected),
    ] {
        let error =
            format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"Overloaded"}}}}"#);
        let error = ask_raw(WIRE, events(&[r#"{"type":"ping"}"#, &error])).unwrap_err();
        assert_eq!(error.kind, expected, "{kind}");
        assert!(error.message.contains("Overloaded"), "{}", error.message);
    }
}

#[tokio::test]
async fn marks_move_along_with_the_conversation() {
    let server = server("turns: [{role: editor, call: {name: f}, repeat: 40}]");
    let (client, cancel) = (client(WIRE, &server), CancellationToken::new());
    let mut chat = client.open();
    for _ in 0..40 {
        let turn = chat.next(Ask::default(), &cancel).await.unwrap();
        chat.answer(turn.calls.iter().map(|call| result(&call.id)).collect()).unwrap();
    }
    let marked = |body: &Value| -> Vec<String> {
        let blocks = body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|it| it["content"].as_array().unwrap());
        blocks
            .filter(|block| block.get("cache_control").is_some())
            .map(|block| block["tool_use_id"].to_string())
            .collect()
    };
    let bodies: Vec<_> = server.requests().into_iter().map(|request| request.body).collect();
    for pair in bodies.windows(2) {
        let (before, after) = (marked(&pair[0]), marked(&pair[1]));
        // Where the last request ended is marked again: a sure hit.
        assert_eq!(before.last(), after.iter().rev().nth(1));
    }
}

proptest! {
    #[test]
    fn marks_are_few_ours_and_never_far_apart(
        turns in prop::collection::vec((1usize..40, 1usize..40), 1..8),
    ) {
        let mut sides = vec![Side::User];
        let mut answered = None;
        for (said, replied) in turns {
            let marks = marks(&sides, answered);
            prop_assert!((1..=3).contains(&marks.len()) && marks.is_sorted());
            prop_assert!(marks.iter().all(|at| sides[*at] == Side::User));
            prop_assert_eq!(*marks.last().unwrap(), sides.len() - 1);
            prop_assert!(answered.is_none_or(|at| marks.contains(&at)));
            answered = Some(sides.len() - 1);
            sides.extend(vec![Side::Model; said]);
            sides.extend(vec![Side::User; replied]);
        }
    }
}
