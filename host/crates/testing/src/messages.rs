//! Writes a turn as events of Anthropic Messages. A signed thought comes first.

use serde_json::{Value, json};

use act_model::ToolCall;
use act_model::scripted::{Spoken, text_pieces};

pub(super) fn stream(turn: &Spoken) -> String {
    let mut out = Events::default();
    let usage = json!({
        "input_tokens": turn.usage.input.saturating_sub(turn.usage.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": turn.usage.cached,
        "output_tokens": 1,
    });
    out.event(json!({"type": "message_start", "message": {
        "id": format!("msg_{}", turn.id), "type": "message", "role": "assistant", "model": turn.model,
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage,
    }}));
    out.event(json!({"type": "ping"}));
    let signature = format!("signature+of/{}==", turn.id);
    let signed = json!({"type": "signature_delta", "signature": signature});
    let thought = json!({"type": "thinking_delta", "thinking": "I see"});
    let start = json!({"type": "thinking", "thinking": "", "signature": ""});
    out.block(start, [thought, signed]);
    if !turn.text.is_empty() {
        let pieces = text_pieces(&turn.text);
        let delta = |piece| json!({"type": "text_delta", "text": piece});
        out.block(json!({"type": "text", "text": ""}), pieces.into_iter().map(delta));
    }
    for ToolCall { id, name, arguments } in &turn.calls {
        let delta = |piece| json!({"type": "input_json_delta", "partial_json": piece});
        let pieces = [""].into_iter().chain(text_pieces(arguments)).map(delta);
        out.block(json!({"type": "tool_use", "id": id, "name": name, "input": {}}), pieces);
    }
    let usual = if turn.calls.is_empty() { "stop" } else { "tool_calls" };
    let reason = match turn.finish.as_deref().unwrap_or(usual) {
        "stop" => "end_turn",
        "tool_calls" => "tool_use",
        "length" => "max_tokens",
        "content_filter" => "refusal",
        other => other,
    };
    out.event(json!({
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": null},
        "usage": {"output_tokens": turn.usage.output},
    }));
    out.event(json!({"type": "message_stop"}));
    out.text
}

#[derive(Default)]
struct Events {
    text: String,
    blocks: u32,
}

impl Events {
    fn event(&mut self, event: Value) {
        let name = event["type"].as_str().unwrap_or_default();
        self.text.push_str(&format!("event: {name}\ndata: {event}\n\n"));
    }

    fn block(&mut self, start: Value, deltas: impl IntoIterator<Item = Value>) {
        let index = self.blocks;
        self.blocks += 1;
        self.event(json!({"type": "content_block_start", "index": index, "content_block": start}));
        for delta in deltas {
            self.event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        self.event(json!({"type": "content_block_stop", "index": index}));
    }
}
