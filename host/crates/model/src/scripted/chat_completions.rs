//! A turn as chunks of Chat Completions.

use serde_json::{Value, json};

use super::answer::{Said, SaidCall, text_pieces};

pub(super) fn stream(said: &Said) -> String {
    let chunk = |choices: Value, usage: Option<Value>| {
        let mut chunk = json!({
            "id": format!("chatcmpl-{}", said.id),
            "object": "chat.completion.chunk",
            "created": 0,
            "model": said.model,
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
    for piece in text_pieces(&said.text) {
        out.push_str(&delta(json!({"content": piece})));
    }
    for (index, SaidCall { id, name, arguments }) in said.calls.iter().enumerate() {
        let function = json!({"name": name, "arguments": ""});
        out.push_str(&delta(json!({
            "tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]
        })));
        for piece in text_pieces(arguments) {
            out.push_str(&delta(
                json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
            ));
        }
    }
    let usual = if said.calls.is_empty() { "stop" } else { "tool_calls" };
    let finish = said.finish.as_deref().unwrap_or(usual);
    out.push_str(&chunk(json!([{"index": 0, "delta": {}, "finish_reason": finish}]), None));
    let usage = said.usage;
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
