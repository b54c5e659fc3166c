//! Writes a turn as events of OpenAI Responses. An encrypted thought comes first.

use serde_json::{Value, json};

use act_model::ToolCall;
use act_model::scripted::{Spoken, text_pieces};

pub(super) fn stream(turn: &Spoken) -> String {
    let mut out = Events::default();
    let response = |status: &str| json!({"id": format!("resp_{}", turn.id), "object": "response", "created_at": 0, "model": turn.model, "status": status, "output": []});
    out.event(json!({"type": "response.created", "response": response("in_progress")}));
    out.event(json!({"type": "response.in_progress", "response": response("in_progress")}));

    let thought = |encrypted: &str| json!({"id": format!("rs_{}", turn.id), "type": "reasoning", "summary": [], "encrypted_content": encrypted});
    out.item(thought("incomplete"), thought(&format!("gAAAA{}==", turn.id)), vec![]);
    if !turn.text.is_empty() {
        let part = json!({"type": "output_text", "text": turn.text, "annotations": []});
        let message = |status: &str, content: Value| json!({"id": format!("msg_{}", turn.id), "type": "message", "role": "assistant", "status": status, "content": content});
        let delta = |piece| json!({"type": "response.output_text.delta", "content_index": 0, "delta": piece});
        let pieces = text_pieces(&turn.text).into_iter().map(delta).collect();
        out.item(message("in_progress", json!([])), message("completed", json!([part])), pieces);
    }
    for ToolCall { id, name, arguments } in &turn.calls {
        // A tool of a namespace, in which Codex has those of an MCP server, is NAMESPACE/NAME in a script.
        let (namespace, name) = match name.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, name.as_str()),
        };
        let call = |status: &str, arguments: &str| {
            let mut call = json!({"id": format!("fc_{id}"), "type": "function_call", "status": status, "call_id": id, "name": name, "arguments": arguments});
            if let Some(namespace) = namespace {
                call["namespace"] = namespace.into();
            }
            call
        };
        let delta =
            |piece| json!({"type": "response.function_call_arguments.delta", "delta": piece});
        let pieces = text_pieces(arguments).into_iter().map(delta).collect();
        out.item(call("in_progress", ""), call("completed", arguments), pieces);
    }

    let reason = match turn.finish.as_deref() {
        None | Some("stop" | "tool_calls") => None,
        Some("length") => Some("max_output_tokens"),
        Some(other) => Some(other),
    };
    let status = if reason.is_none() { "completed" } else { "incomplete" };
    let mut end = response(status);
    let usage = turn.usage;
    end["incomplete_details"] = reason.map_or(Value::Null, |reason| json!({"reason": reason}));
    end["usage"] = json!({
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input.saturating_add(usage.output),
    });
    out.event(json!({"type": format!("response.{status}"), "response": end}));
    out.text
}

#[derive(Default)]
struct Events {
    text: String,
    count: u64,
    items: u64,
}

impl Events {
    fn event(&mut self, mut event: Value) {
        event["sequence_number"] = self.count.into();
        self.count += 1;
        let name = event["type"].as_str().unwrap_or_default();
        self.text.push_str(&format!("event: {name}\ndata: {event}\n\n"));
    }

    fn item(&mut self, start: Value, end: Value, pieces: Vec<Value>) {
        let (index, id) = (self.items, end["id"].clone());
        self.items += 1;
        self.event(
            json!({"type": "response.output_item.added", "output_index": index, "item": start}),
        );
        for mut piece in pieces {
            piece["output_index"] = index.into();
            piece["item_id"] = id.clone();
            self.event(piece);
        }
        self.event(
            json!({"type": "response.output_item.done", "output_index": index, "item": end}),
        );
    }
}
