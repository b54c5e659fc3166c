//! OpenAI Responses: a list of items that this side stores; the provider stores nothing.
//!
//! The parser takes each item from the event that ends it, byte for byte, because encrypted reasoning is complete only
//! there. Only `response.completed` and `response.incomplete` make a turn.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::client::bearer;
use crate::wire::{
    self, Calls, Counts, GrowingBody, Limits, Offer, Opening, Prompt, Reply, Service, StreamParser,
    Wire, json,
};
use crate::{ModelError, Stop, ToolCall, ToolResult, error, surrogates};

/// The model when the user names none.
pub const DEFAULT_MODEL: &str = "gpt-6.1-sol";
/// The address of the provider, with its version.
pub const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

pub(super) struct OpenAiResponses;

impl Wire for OpenAiResponses {
    fn service(&self) -> Service {
        Service {
            wire: "Responses",
            key_variable: "OPENAI_API_KEY",
            address_variable: "OPENAI_BASE_URL (it includes /v1)",
            path: &["responses"],
        }
    }

    fn headers(&self, key: Option<&str>) -> Option<HeaderMap> {
        bearer(key)
    }

    fn prompt(&self, opening: &Opening<'_>) -> Box<dyn Prompt> {
        Box::new(Items::new(opening))
    }

    fn stream(&self) -> Box<dyn StreamParser> {
        Box::new(Stream::default())
    }
}

struct Items(GrowingBody);

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'a str,
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
    /// False, because the schemas have optional properties, which the strict mode does not allow.
    strict: bool,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'a str,
    content: &'a str,
}

#[derive(Serialize)]
struct Output<'a> {
    r#type: &'a str,
    call_id: &'a str,
    output: &'a str,
}

impl Items {
    fn new(opening: &Opening<'_>) -> Self {
        let tools: Vec<_> = opening.tools.iter().map(tool).collect();
        let (tools, instructions) = (json(&tools), json(opening.system));
        let mut head = format!(
            r#"{{"model":{},"stream":true,"store":false,"include":["reasoning.encrypted_content"],"prompt_cache_key":{},"#,
            json(opening.model),
            json(&cache_key(opening.role, &tools, &instructions))
        );
        if !opening.tools.is_empty() {
            head.push_str(&format!(r#""tools":{tools},"tool_choice":"auto","#));
        }
        head.push_str(&format!(r#""instructions":{instructions},"input":["#));
        Self(GrowingBody::new(head))
    }
}

/// Returns a key that is equal for all conversations with the same beginning, so that they share one prompt cache. The wire
/// accepts 64 characters.
fn cache_key(role: &str, tools: &str, instructions: &str) -> String {
    let digest = Sha256::new().chain_update(tools).chain_update(instructions).finalize();
    let hex: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    let role: String = role.chars().filter(char::is_ascii_graphic).take(32).collect();
    format!("act:{role}:{hex}")
}

fn tool<'a>(offer: &'a Offer<'_>) -> Tool<'a> {
    let Offer { name, description, schema } = offer;
    Tool { r#type: "function", name, description, parameters: schema, strict: false }
}

impl Prompt for Items {
    fn user(&mut self, text: &str) {
        self.0.add(&json(&Message { role: "user", content: text }));
    }

    fn results(&mut self, results: &[&ToolResult]) {
        for ToolResult { id, content, .. } in results {
            // The wire has no field for `is_error`, so the content has to state it.
            let output = Output { r#type: "function_call_output", call_id: id, output: content };
            self.0.add(&json(&output));
        }
    }

    fn assistant(&mut self, items: Vec<String>) {
        for item in items {
            self.0.add(&item);
        }
    }

    fn body(&self, limits: &Limits) -> Bytes {
        let mut tail = String::new();
        if let Some(max) = limits.max_tokens {
            tail.push_str(&format!(r#","max_output_tokens":{max}"#));
        }
        if let Some(schema) = &limits.output {
            tail.push_str(&format!(
                r#","text":{{"format":{{"type":"json_schema","name":"answer","schema":{schema}}}}}"#
            ));
        }
        self.0.body(&tail)
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: String,
    output_index: Option<u64>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<Response<'a>>,
}

#[derive(Deserialize)]
struct Response<'a> {
    usage: Option<Value>,
    incomplete_details: Option<Value>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Item {
    r#type: String,
    #[serde(default)]
    call_id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    arguments: String,
    content: Option<Vec<Part>>,
}

#[derive(Deserialize)]
struct Part {
    r#type: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    refusal: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    Completed,
    /// Cut off, for the reason that the provider gives.
    Incomplete(String),
}

#[derive(Default)]
struct Stream {
    /// Items that have begun and not ended.
    open: BTreeSet<u64>,
    items: BTreeMap<u64, (Item, String)>,
    end: Option<End>,
    counts: Counts,
}

impl StreamParser for Stream {
    fn payload(&mut self, payload: &str) -> Result<ControlFlow<()>, ModelError> {
        let payload = &*surrogates::replace_lone(payload);
        let event: Event<'_> =
            wire::event(payload, "an event of the stream is not what Responses says")?;
        match event.r#type.as_str() {
            "response.output_item.added" => self.open.extend(event.output_index),
            "response.output_item.done" => {
                let (Some(index), Some(raw)) = (event.output_index, event.item) else {
                    return Err(ModelError::malformed(
                        "an item of the stream has no index or is missing",
                    ));
                };
                let item = serde_json::from_str(raw.get()).map_err(|_| {
                    ModelError::malformed("an item of the stream is not what Responses says")
                })?;
                self.open.remove(&index);
                if self.items.insert(index, (item, raw.get().to_owned())).is_some() {
                    return Err(ModelError::malformed(
                        "two items of the stream have the same index",
                    ));
                }
            }
            "response.completed" => return self.finish(event.response, End::Completed),
            "response.incomplete" => {
                let details = event.response.as_ref().and_then(|it| it.incomplete_details.as_ref());
                let reason = details.and_then(|details| details["reason"].as_str());
                let end = End::Incomplete(reason.unwrap_or_default().to_owned());
                return self.finish(event.response, end);
            }
            "response.failed" => {
                self.count(event.response.as_ref());
                let error = event.response.and_then(|response| response.error);
                return Err(error::of_stream_error(error.map_or("\"failed\"", RawValue::get)));
            }
            "error" => return Err(error::of_stream_error(payload)),
            // Pieces of an item that arrives whole later. Their size counts if the stream breaks before that.
            _ => self.counts.written += event.delta.map_or(0, |delta| delta.get().len()),
        }
        Ok(ControlFlow::Continue(()))
    }

    fn complete(&self) -> bool {
        self.end.is_some()
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn reply(self: Box<Self>, _invented: &mut u64) -> Result<Reply, ModelError> {
        let refusal =
            self.content(|part| (part.r#type == "refusal").then_some(part.refusal.as_str()));
        let text =
            self.content(|part| (part.r#type == "output_text").then_some(part.text.as_str()));
        let has_calls = self.items.values().any(|(item, _)| item.r#type == "function_call");
        let stop = match &self.end {
            Some(End::Incomplete(reason)) if reason == "content_filter" => Stop::Refused,
            Some(End::Incomplete(_)) => Stop::Length,
            _ if has_calls => Stop::Tools,
            _ if !refusal.is_empty() => Stop::Refused,
            _ => Stop::Done,
        };
        let calls = if stop == Stop::Tools { self.calls()? } else { vec![] };
        let assistant_items = match (&self.end, text.is_empty()) {
            (Some(End::Completed), _) => self.items.into_values().map(|(_, raw)| raw).collect(),
            // The items of a turn that was cut off may refer to items that are missing, so only the text is sent back.
            (_, false) if stop == Stop::Length => {
                vec![format!(r#"{{"role":"assistant","content":{}}}"#, json(&text))]
            }
            _ => vec![],
        };
        let text = if text.is_empty() { refusal } else { text };
        Ok(Reply::new(text, calls, stop, assistant_items))
    }
}

impl Stream {
    fn finish(
        &mut self,
        response: Option<Response<'_>>,
        end: End,
    ) -> Result<ControlFlow<()>, ModelError> {
        self.count(response.as_ref());
        if end == End::Completed && !self.open.is_empty() {
            return Err(ModelError::malformed(
                "the response is complete, but an item in it is not",
            ));
        }
        self.end = Some(end);
        Ok(ControlFlow::Break(()))
    }

    fn count(&mut self, response: Option<&Response<'_>>) {
        let Some(usage) = response.and_then(|response| response.usage.as_ref()) else { return };
        self.counts.input = usage["input_tokens"].as_u64();
        self.counts.output = usage["output_tokens"].as_u64();
        let details = |name: &str| usage["input_tokens_details"][name].as_u64().unwrap_or_default();
        self.counts.cached = details("cached_tokens");
        self.counts.cache_write = details("cache_write_tokens");
    }

    fn content(&self, piece: impl Fn(&Part) -> Option<&str>) -> String {
        let messages = self.items.values().filter(|(item, _)| item.r#type == "message");
        messages.flat_map(|(item, _)| item.content.iter().flatten()).filter_map(piece).collect()
    }

    fn calls(&self) -> Result<Vec<ToolCall>, ModelError> {
        let mut calls = Calls::default();
        for (item, _) in self.items.values().filter(|(item, _)| item.r#type == "function_call") {
            calls.add(&item.call_id, &item.name, &item.arguments)?;
        }
        Ok(calls.done())
    }
}
