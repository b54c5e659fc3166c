//! One turn of the script as the bytes of an HTTP answer.

use bytes::Bytes;
use serde_json::{Value, json};

use super::script::{End, Turn};
use super::substitute::Values;
use crate::event::ModelUsage;

/// Lengths of the pieces that texts and bodies are cut into, in turn: short and odd ones, so that lines,
/// characters and JSON are torn apart, and long ones, so that a large file does not take for ever.
const PIECES: [usize; 6] = [1, 3, 17, 5, 250, 1021];

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<Bytes>,
    /// What happens after the body, None when it is complete.
    pub(super) end: Option<End>,
    pub(super) delay_ms: u64,
}

/// `number` counts the requests of the role from 1 and makes the ids.
pub(super) fn answer(turn: &Turn, role: &str, number: u32, request: &str, model: &Value) -> Answer {
    let values = Values::new(turn.n, request);
    let fault = &turn.fault;
    let status = fault.status.unwrap_or(200);
    let text = match &fault.body {
        Some(body) => values.text(body),
        None if fault.status.is_some_and(|status| status >= 300) => {
            json!({"error": {"message": format!("scripted status {status}"), "type": "scripted"}})
                .to_string()
        }
        None => stream(turn, role, number, request, model, &values),
    };
    let kind = if status < 300 { "text/event-stream" } else { "application/json" };
    let mut headers: Vec<(String, String)> =
        vec![("x-request-id".into(), format!("req_{role}_{number}"))];
    if !fault.headers.keys().any(|name| name.eq_ignore_ascii_case("content-type")) {
        headers.push(("content-type".into(), kind.into()));
    }
    headers.extend(fault.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
    let mut bytes = Bytes::from(text);
    if let Some(End::Cut(at) | End::Reset(at) | End::Stall(at)) = fault.end {
        bytes.truncate(at);
    }
    Answer { status, headers, body: pieces(bytes), end: fault.end, delay_ms: fault.delay_ms }
}

/// What a role hears when its script is over.
pub(super) fn over() -> Turn {
    Turn { n: 1, text: Some("script is over".into()), ..Turn::default() }
}

fn stream(
    turn: &Turn,
    role: &str,
    number: u32,
    request: &str,
    model: &Value,
    values: &Values,
) -> String {
    let chunk = |choices: Value, usage: Option<Value>| {
        let mut chunk = json!({
            "id": format!("chatcmpl-{role}-{number}"),
            "object": "chat.completion.chunk",
            "created": 0,
            "model": model,
            "choices": choices,
        });
        if let Some(usage) = usage {
            chunk["usage"] = usage;
        }
        format!("data: {chunk}\n\n")
    };
    let delta =
        |delta: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), None);

    let mut out = delta(json!({"role": "assistant", "content": ""}));
    out.push_str(": still here\n\n");
    let mut said = 0;
    let text = values.text(turn.text.as_deref().unwrap_or_default());
    for piece in text_pieces(&text) {
        out.push_str(&delta(json!({"content": piece})));
    }
    said += text.len();
    for (index, call) in turn.calls.iter().enumerate() {
        let arguments = match &call.arguments {
            Value::Null => "{}".to_owned(),
            Value::String(raw) => values.text(raw),
            value => values.json(value).to_string(),
        };
        let id = format!("call_{role}_{number}_{index}");
        let function = json!({"name": call.name, "arguments": ""});
        out.push_str(&delta(json!({
            "tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]
        })));
        for piece in text_pieces(&arguments) {
            out.push_str(&delta(
                json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
            ));
        }
        said += call.name.len() + arguments.len();
    }
    let finish =
        turn.finish.as_deref().unwrap_or(if turn.calls.is_empty() { "stop" } else { "tool_calls" });
    out.push_str(&chunk(json!([{"index": 0, "delta": {}, "finish_reason": finish}]), None));
    // About four bytes to a token, as long as nobody wants other counts.
    let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX);
    let usage = turn.usage.unwrap_or(ModelUsage {
        input: tokens(request.len()),
        cached: 0,
        output: tokens(said),
    });
    let usage = json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input.saturating_add(usage.output),
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    });
    out.push_str(&chunk(json!([]), Some(usage)));
    out.push_str("data: [DONE]\n\n");
    out
}

fn text_pieces(text: &str) -> Vec<&str> {
    let mut rest = text;
    let mut pieces = vec![];
    for length in PIECES.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let end = rest.char_indices().nth(*length).map_or(rest.len(), |(end, _)| end);
        let (piece, tail) = rest.split_at(end);
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

fn pieces(mut bytes: Bytes) -> Vec<Bytes> {
    let mut pieces = vec![];
    for length in PIECES.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        pieces.push(bytes.split_to((*length).min(bytes.len())));
    }
    pieces
}
