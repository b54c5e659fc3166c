//! Tests of Responses alone: its body, and items that are sent back unchanged.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::tests::{KEY, ask_and_go_on, ask_raw, call, client, events, server};
use crate::{Ask, ModelErrorKind, ModelUsage, Stop, ToolSpec};
use act_testing::Wire;

const WIRE: Wire = Wire::Responses;

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: "ends".into(),
        parameters: "{ \"type\": \"object\",\n \"properties\": {\"z\": {}, \"a\": {}} }".into(),
    }
}

#[tokio::test]
async fn the_request_stores_nothing_and_asks_for_encrypted_reasoning() {
    let server = server("turns: [{role: scout-a, text: '{}'}]");
    let client = client(WIRE, &server);
    let mut chat = client.model.open("scout-a", "schema 1", &[tool("report")]);
    chat.say("map it");
    let ask =
        Ask { max_tokens: Some(900), output: Some("{\"type\": \"object\"}".into()), attempt: 1 };
    chat.next(ask, &CancellationToken::new()).await.unwrap();
    let request = &server.requests()[0];
    let body = std::str::from_utf8(&request.raw).unwrap();
    let key = request.body["prompt_cache_key"].as_str().unwrap();
    let expected = [
        r#"{"model":"m-1","stream":true,"store":false,"include":["reasoning.encrypted_content"],"prompt_cache_key":"#,
        &format!("\"{key}\","),
        r#""tools":[{"type":"function","name":"report","description":"ends","parameters":{"type":"object","properties":{"z":{},"a":{}}},"strict":false}],"#,
        r#""tool_choice":"auto","instructions":"act role: scout-a\nschema 1","#,
        r#""input":[{"role":"user","content":"map it"}],"#,
        r#""max_output_tokens":900,"text":{"format":{"type":"json_schema","name":"answer","schema":{"type":"object"}}}}"#,
    ];
    assert_eq!(body, expected.concat());
    assert_eq!(request.path, "/v1/responses");
    let header = request.headers.iter().find(|(name, _)| name == "authorization").unwrap();
    assert_eq!(header.1, format!("Bearer {KEY}"));
}

#[tokio::test]
async fn conversations_that_begin_the_same_share_a_cache_key() {
    let server = server("turns: []");
    let client = client(WIRE, &server);
    let long = "component-".repeat(20);
    for (role, tools) in [
        ("editor", vec![tool("a")]),
        ("editor", vec![tool("a")]),
        ("editor", vec![tool("b")]),
        ("scout-a", vec![tool("a")]),
        (&long, vec![]),
    ] {
        let mut chat = client.model.open(role, "s", &tools);
        chat.say(&format!("task {}", server.counts().requests));
        chat.next(Ask::default(), &CancellationToken::new()).await.unwrap();
    }
    let keys: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.body["prompt_cache_key"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(keys[0], keys[1]);
    assert!(keys[0].starts_with("act:editor:") && keys[0] != keys[2] && keys[0] != keys[3]);
    assert!(keys.iter().all(|key| key.len() <= 64), "{keys:?}");
}

const REASONING: &str =
    r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAA=="}"#;
const CALL: &str = r#"{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_1","name":"f","arguments":"{\"n\": 1.50}","new":1e2}"#;

fn done(index: u32, item: &str) -> String {
    format!(r#"{{"type":"response.output_item.done","output_index":{index},"item":{item}}}"#)
}

fn message(part: &str) -> String {
    format!(
        r#"{{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{part}]}}"#
    )
}

const COMPLETED: &str = r#"{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":2}}}"#;

// MODEL-5
#[test]
fn items_go_back_as_their_last_event_had_them() {
    let (turn, body) = ask_and_go_on(
        WIRE,
        events(&[
            r#"{"type":"response.created","response":{"status":"in_progress","usage":null,"error":null}}"#,
            r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"part"}}"#,
            &done(0, REASONING),
            r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call"}}"#,
            r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"n\""}"#,
            r#"{"type":"response.something.new","output_index":7,"item":{"type":"x"}}"#,
            &done(1, CALL),
            COMPLETED,
        ]),
    );
    assert_eq!(turn.calls, [call("call_1", "f", r#"{"n": 1.50}"#)]);
    assert_eq!(
        (turn.stop, turn.usage),
        (Stop::Tools, ModelUsage { input: 9, cached: 4, cache_write: 0, output: 2 })
    );
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let answer = json!({"type": "function_call_output", "call_id": "call_1", "output": "{\"ok\":\"call_1\"}"});
    let user = json!({"role": "user", "content": "go"});
    assert_eq!(body["input"], json!([user, parsed(REASONING), parsed(CALL), answer]));
}

// security line 153
#[test]
fn every_way_to_end_is_one_of_ours() {
    let text = message(r#"{"type":"output_text","text":"half a","annotations":[]}"#);
    let refusal = message(r#"{"type":"refusal","refusal":"not this"}"#);
    let incomplete = |reason| {
        format!(
            r#"{{"type":"response.incomplete","response":{{"incomplete_details":{{"reason":"{reason}"}}}}}}"#
        )
    };
    let completed = COMPLETED.to_owned();
    for (item, end, stop, said, kept) in [
        (&text, completed.clone(), Stop::Done, "half a", 2),
        (&refusal, completed, Stop::Refused, "not this", 2),
        (&text, incomplete("max_output_tokens"), Stop::Length, "half a", 1),
        (&text, incomplete("something_new"), Stop::Length, "half a", 1),
        (&text, incomplete("content_filter"), Stop::Refused, "half a", 0),
    ] {
        let stream = events(&[&done(0, REASONING), &done(1, item), &end]);
        let (turn, body) = ask_and_go_on(WIRE, stream);
        assert_eq!((turn.stop, turn.text.as_str(), turn.calls.len()), (stop, said, 0), "{end}");
        assert_eq!(body["input"].as_array().unwrap().len(), kept + 2, "{end}");
    }
    // Reasoning without what followed it would be refused.
    let cut = events(&[&done(0, REASONING), &done(1, CALL), &incomplete("max_output_tokens")]);
    let (turn, body) = ask_and_go_on(WIRE, cut);
    assert_eq!((turn.stop, turn.calls.len()), (Stop::Length, 0));
    assert_eq!(body["input"].as_array().unwrap().len(), 2);
}

#[test]
fn what_is_no_turn_is_refused() {
    let nameless = r#"{"type":"function_call","call_id":"a","name":"","arguments":""}"#;
    let added =
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}"#;
    for stream in [
        events(&[added, COMPLETED]),
        events(&[&done(0, nameless), COMPLETED]),
        events(&[&done(0, CALL), &done(1, CALL), COMPLETED]),
        events(&[&done(0, CALL), &done(0, CALL)]),
        events(&[r#"{"type":"response.output_item.done","output_index":0}"#]),
        events(&[&done(0, "7")]),
    ] {
        let text = String::from_utf8(stream.clone()).unwrap();
        assert_eq!(ask_raw(WIRE, stream).unwrap_err().kind, ModelErrorKind::Malformed, "{text}");
    }
}

#[test]
fn a_failure_in_the_stream_is_judged_by_its_code() {
    let failed = |code| {
        format!(
            r#"{{"type":"response.failed","response":{{"status":"failed","error":{{"code":"{code}","message":"sorry"}}}}}}"#
        )
    };
    let error = |code| {
        format!(
            r#"{{"type":"error","code":"{code}","message":"sorry","param":null,"sequence_number":3}}"#
        )
    };
    for (event, kind) in [
        (failed("server_error"), ModelErrorKind::Unavailable),
        (failed("rate_limit_exceeded"), ModelErrorKind::Unavailable),
        (failed("invalid_prompt"), ModelErrorKind::Rejected),
        (error("server_is_overloaded"), ModelErrorKind::Unavailable),
        (error("organization_spend_limit_exceeded"), ModelErrorKind::Rejected),
        (error("context_length_exceeded"), ModelErrorKind::TooLong),
    ] {
        let error = ask_raw(WIRE, events(&[&event])).unwrap_err();
        assert_eq!(error.kind, kind, "{event}");
        assert!(error.message.contains("sorry"), "{}", error.message);
    }
}
