//! OpenAI-compatible Chat Completions: the conversation as a list of messages.
//!
//! The parser of streams forgives what servers commonly get wrong: calls that differ only in their ids, arguments as
//! objects, missing ids, `stop` where `tool_calls` is meant. It does not forgive a turn without `finish_reason`, and it
//! does not hand out the calls of a turn that a limit or a filter cut off. Unknown fields are stored unchanged and sent
//! back with the message.
//!
//! With [`ToolMode::Schema`] the request offers no tools. The system prompt describes them, `response_format` demands one
//! JSON object `{tool, arguments}`, the parser reads that object as the call, and the answer of the tool is a message of the
//! user role.

use std::ops::ControlFlow;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::client::bearer;
use crate::passthrough::{Passthrough, RawFields};
use crate::surrogates::{self, SplitSurrogate};
use crate::wire::{
    self, Counts, GrowingBody, Limits, Offer, Opening, Prompt, Reply, Service, StreamParser, Wire,
    arguments_or_empty, json,
};
use crate::{ModelError, Stop, ToolCall, ToolMode, ToolResult, error};

#[derive(Default)]
pub(super) struct ChatCompletions(pub(super) ToolMode);

impl Wire for ChatCompletions {
    fn service(&self) -> Service {
        Service {
            wire: "Chat Completions",
            key_variable: "OPENAI_API_KEY",
            address_variable: "AGENT_LLM_BASE_URL (it includes /v1)",
            path: &["chat", "completions"],
        }
    }

    fn headers(&self, key: Option<&str>) -> Option<HeaderMap> {
        bearer(key)
    }

    fn prompt(&self, opening: &Opening<'_>) -> Box<dyn Prompt> {
        Box::new(Messages::new(opening, self.0))
    }

    fn stream(&self) -> Box<dyn StreamParser> {
        Box::new(Stream { mode: self.0, ..Stream::default() })
    }
}

struct Messages {
    body: GrowingBody,
    /// The schemas of the calls, of which a turn is one, with [`ToolMode::Schema`].
    calls: Vec<String>,
    mode: ToolMode,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    content: &'a str,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'a str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
}

impl Messages {
    fn new(opening: &Opening<'_>, mode: ToolMode) -> Self {
        let mut head = format!(
            r#"{{"model":{},"stream":true,"stream_options":{{"include_usage":true}},"#,
            json(opening.model)
        );
        if mode == ToolMode::Native && !opening.tools.is_empty() {
            let tools: Vec<_> = opening.tools.iter().map(tool).collect();
            head.push_str(&format!(r#""tools":{},"tool_choice":"auto","#, json(&tools)));
        }
        head.push_str(r#""messages":["#);
        let calls = match mode {
            ToolMode::Native => vec![],
            ToolMode::Schema => opening.tools.iter().map(call_schema).collect(),
        };
        let mut messages = Self { body: GrowingBody::new(head), calls, mode };
        let described =
            if messages.calls.is_empty() { String::new() } else { description(opening.tools) };
        messages.add("system", None, &format!("{}{described}", opening.system));
        messages
    }

    /// Returns the schema that the text of the next turn has to fit. With [`ToolMode::Schema`] that is a call of one of the
    /// tools, or the answer that the caller wants.
    fn output(&self, wanted: Option<&RawValue>) -> Option<String> {
        let wanted = wanted.map(RawValue::get);
        if self.calls.is_empty() {
            return wanted.map(str::to_owned);
        }
        let choices: Vec<_> = self.calls.iter().map(String::as_str).chain(wanted).collect();
        Some(format!(r#"{{"type":"object","anyOf":[{}]}}"#, choices.join(",")))
    }

    fn add(&mut self, role: &str, tool_call_id: Option<&str>, content: &str) {
        self.body.add(&json(&Message { role, tool_call_id, content }));
    }
}

/// Returns the part of the system prompt that takes the place of the list of tools.
fn description(tools: &[Offer<'_>]) -> String {
    let mut text = "\n\nEach of your turns is one JSON object, {\"tool\": NAME, \"arguments\": {...}}, and nothing else. It calls \
                    that tool, and the answer of the tool is the next message. The tools, each with the JSON Schema of its \
                    arguments:\n"
        .to_owned();
    for Offer { name, description, schema } in tools {
        text.push_str(&format!("\n{name}: {description}\n{schema}\n"));
    }
    text
}

/// Returns the JSON Schema of a call of this tool.
fn call_schema(Offer { name, schema, .. }: &Offer<'_>) -> String {
    format!(
        r#"{{"type":"object","properties":{{"tool":{{"const":{}}},"arguments":{schema}}},"required":["tool","arguments"],"additionalProperties":false}}"#,
        json(name)
    )
}

fn tool<'a>(offer: &'a Offer<'_>) -> Tool<'a> {
    let Offer { name, description, schema } = offer;
    Tool { r#type: "function", function: Function { name, description, parameters: schema } }
}

impl Prompt for Messages {
    fn user(&mut self, text: &str) {
        self.add("user", None, text);
    }

    fn results(&mut self, results: &[&ToolResult]) {
        for result in results {
            // The wire has no field for `is_error`, so the content has to state it.
            match self.mode {
                ToolMode::Native => self.add("tool", Some(&result.id), &result.content),
                ToolMode::Schema => {
                    self.add("user", None, &format!("The answer of the tool:\n{}", result.content));
                }
            }
        }
    }

    fn assistant(&mut self, items: Vec<String>) {
        for message in items {
            self.body.add(&message);
        }
    }

    fn body(&self, limits: &Limits) -> Bytes {
        let mut tail = String::new();
        if let Some(max) = limits.max_tokens {
            tail.push_str(&format!(r#","max_tokens":{max}"#));
        }
        if let Some(schema) = self.output(limits.output.as_deref()) {
            tail.push_str(&format!(
                r#","response_format":{{"type":"json_schema","json_schema":{{"name":"answer","schema":{schema}}}}}"#
            ));
        }
        self.body.body(&tail)
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(default, borrow)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<Value>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<RawFields<'a>>,
    finish_reason: Option<String>,
}

#[derive(Default)]
struct Stream {
    mode: ToolMode,
    text: String,
    split: SplitSurrogate,
    /// The server sent content, which may be empty.
    has_content: bool,
    refusal: String,
    calls: Vec<Call>,
    extra: Passthrough,
    finish: Option<String>,
    counts: Counts,
}

/// A call as the text of a turn.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCall<'a> {
    tool: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    split: SplitSurrogate,
    /// Unknown fields of the call and of its `function`.
    extra: Passthrough,
    function_extra: Passthrough,
}

impl StreamParser for Stream {
    fn payload(&mut self, payload: &str) -> Result<ControlFlow<()>, ModelError> {
        if payload.trim() == "[DONE]" {
            return if self.complete() {
                Ok(ControlFlow::Break(()))
            } else {
                Err(ModelError::malformed(
                    "the stream says it is done, but the turn has no finish_reason",
                ))
            };
        }
        let chunk: Chunk<'_> =
            wire::event(payload, "a chunk of the stream is not what Chat Completions says")?;
        if let Some(error) = chunk.error {
            return Err(error::of_stream_error(error.get()));
        }
        if let Some(usage) = &chunk.usage {
            self.count(usage);
        }
        for choice in chunk.choices.unwrap_or_default() {
            if choice.index.unwrap_or(0) != 0 {
                continue;
            }
            if let Some(delta) = choice.delta {
                self.delta(delta)?;
            }
            if let Some(finish) = choice.finish_reason.filter(|finish| !finish.is_empty()) {
                self.finish = Some(finish);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn complete(&self) -> bool {
        self.finish.is_some()
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn reply(self: Box<Self>, invented: &mut u64) -> Result<Reply, ModelError> {
        self.into_reply(invented)
    }
}

impl Stream {
    /// Stores the counts. Some servers send them with every chunk, so the last ones are in force.
    fn count(&mut self, usage: &Value) {
        let known = |name: &str| usage[name].as_u64();
        self.counts.input = known("prompt_tokens").or(self.counts.input);
        self.counts.output = known("completion_tokens").or(self.counts.output);
        let details = &usage["prompt_tokens_details"];
        if let Some(cached) = details["cached_tokens"].as_u64() {
            self.counts.cached = cached;
        }
        if let Some(written) = details["cache_write_tokens"].as_u64() {
            self.counts.cache_write = written;
        }
    }

    fn delta(&mut self, mut delta: RawFields<'_>) -> Result<(), ModelError> {
        delta.remove("role");
        if let Some(content) = delta.remove("content") {
            match joined(&mut self.split, content)? {
                Value::Null => {}
                Value::String(piece) => {
                    self.has_content = true;
                    self.counts.written += piece.len();
                    self.text.push_str(&piece);
                }
                // Some servers send parts. Only parts with text are used.
                Value::Array(parts) => {
                    self.has_content = true;
                    self.text.extend(parts.iter().filter_map(|part| part["text"].as_str()));
                }
                _ => return Err(ModelError::malformed("the content of a chunk is not a text")),
            }
        }
        if let Some(Value::String(piece)) = delta.remove("refusal").map(parse).transpose()? {
            self.refusal.push_str(&piece);
        }
        if let Some(calls) = delta.remove("tool_calls") {
            let calls: Option<Vec<RawFields<'_>>> =
                serde_json::from_str(calls.get()).map_err(|_| {
                    ModelError::malformed("the tool calls of a chunk are not a list of objects")
                })?;
            for call in calls.unwrap_or_default() {
                self.call(call)?;
            }
        }
        self.counts.written += delta.values().map(|raw| raw.get().len()).sum::<usize>();
        self.extra.merge(delta);
        Ok(())
    }

    fn call(&mut self, mut piece: RawFields<'_>) -> Result<(), ModelError> {
        let index = piece.remove("index").map(parse).transpose()?.and_then(|index| index.as_u64());
        let id = text(piece.remove("id"))?;
        piece.remove("type");
        let mut function: RawFields<'_> = match piece.remove("function") {
            None => RawFields::new(),
            Some(raw) => serde_json::from_str::<Option<RawFields<'_>>>(raw.get())
                .map_err(|_| ModelError::malformed("the function of a tool call is not an object"))?
                .unwrap_or_default(),
        };
        let name = text(function.remove("name"))?;
        let arguments = function.remove("arguments");
        self.counts.written += name.len() + arguments.map_or(0, |raw| raw.get().len());
        let call = self.call_of(index, &id, &name);
        // Some servers repeat the id and the name, which must not become "planplan".
        for (known, new) in [(&mut call.id, id), (&mut call.name, name)] {
            if known.is_empty() {
                *known = new;
            }
        }
        if let Some(raw) = arguments {
            match joined(&mut call.split, raw)? {
                Value::Null => {}
                Value::String(piece) => call.arguments.push_str(&piece),
                _ => call.arguments.push_str(raw.get()),
            }
        }
        call.extra.merge(piece);
        call.function_extra.merge(function);
        Ok(())
    }

    /// Returns the call that a piece belongs to. With an index it is the call of that index, unless a new id and a name show
    /// that the server gives every call the same index. Without an index it is the last call, unless the piece has a name.
    fn call_of(&mut self, index: Option<u64>, id: &str, name: &str) -> &mut Call {
        let opens = |call: &Call| {
            !name.is_empty() && !id.is_empty() && !call.id.is_empty() && call.id != id
        };
        let found = match index {
            Some(_) => self
                .calls
                .iter()
                .rposition(|call| call.index == index)
                .filter(|&at| !opens(&self.calls[at])),
            None => self.calls.len().checked_sub(1).filter(|&at| {
                let last = &self.calls[at];
                name.is_empty() || (!id.is_empty() && last.id == id)
            }),
        };
        let at = found.unwrap_or_else(|| {
            self.calls.push(Call { index, ..Call::default() });
            self.calls.len() - 1
        });
        &mut self.calls[at]
    }

    fn into_reply(mut self, invented: &mut u64) -> Result<Reply, ModelError> {
        let finish = self.finish.take().unwrap_or_default();
        self.text.push_str(self.split.rest());
        for call in &mut self.calls {
            call.arguments.push_str(call.split.rest());
        }
        let stop = match finish.as_str() {
            "length" => Stop::Length,
            "content_filter" => Stop::Refused,
            "error" => return Err(error::of_stream_error("\"the provider failed in mid-turn\"")),
            _ if !self.refusal.is_empty() => Stop::Refused,
            _ if !self.calls.is_empty() => Stop::Tools,
            "tool_calls" | "function_call" => return Err(wire::no_calls()),
            _ => Stop::Done,
        };
        if self.mode == ToolMode::Schema {
            return self.into_written_reply(stop, invented);
        }
        if stop == Stop::Tools {
            self.complete_calls(invented)?;
        } else {
            self.calls.clear();
        }
        let message = self.message();
        let text = if self.text.is_empty() { self.refusal } else { self.text };
        let calls = self
            .calls
            .into_iter()
            .map(|call| ToolCall { id: call.id, name: call.name, arguments: call.arguments })
            .collect();
        Ok(Reply::new(text, calls, stop, message.into_iter().collect()))
    }

    /// Returns the turn of a model that writes its call as text. Text that is no call stays text.
    fn into_written_reply(self, stop: Stop, invented: &mut u64) -> Result<Reply, ModelError> {
        if stop == Stop::Tools {
            let message = "the server sent a tool call of the wire, though no tools were offered; set `tools` to native";
            return Err(ModelError::malformed(message));
        }
        let items: Vec<_> = self.message().into_iter().collect();
        let written = (stop == Stop::Done)
            .then(|| serde_json::from_str::<WrittenCall<'_>>(without_fence(&self.text)).ok())
            .flatten();
        let Some(WrittenCall { tool, arguments }) = written else {
            let text = if self.text.is_empty() { self.refusal } else { self.text };
            return Ok(Reply::new(text, vec![], stop, items));
        };
        *invented += 1;
        let arguments = arguments.map_or("{}", RawValue::get).to_owned();
        let call = ToolCall { id: format!("act_call_{invented}"), name: tool, arguments };
        Ok(Reply::new(String::new(), vec![call], Stop::Tools, items))
    }

    fn complete_calls(&mut self, invented: &mut u64) -> Result<(), ModelError> {
        if self.calls.iter().any(|call| call.name.is_empty()) {
            return Err(ModelError::malformed("a tool call has no name"));
        }
        for at in 0..self.calls.len() {
            let id = &self.calls[at].id;
            if id.is_empty() || self.calls[..at].iter().any(|earlier| &earlier.id == id) {
                *invented += 1;
                self.calls[at].id = format!("act_call_{invented}");
            }
            // Some servers parse the arguments that are sent back, so they have to be JSON.
            self.calls[at].arguments = arguments_or_empty(&self.calls[at].arguments).to_owned();
        }
        Ok(())
    }

    /// Returns the assistant message as later requests contain it, or `None` when it would be empty.
    fn message(&self) -> Option<String> {
        if self.text.is_empty() && self.calls.is_empty() && self.extra.is_empty() {
            return None;
        }
        // Only a message with calls may have no content.
        let content = if self.has_content || self.calls.is_empty() {
            json(&self.text)
        } else {
            "null".into()
        };
        let mut message = format!(r#"{{"role":"assistant","content":{content}"#);
        self.extra.write(&mut message);
        if !self.calls.is_empty() {
            let calls: Vec<String> = self.calls.iter().map(Call::json).collect();
            message.push_str(&format!(r#","tool_calls":[{}]"#, calls.join(",")));
        }
        message.push('}');
        Some(message)
    }
}

impl Call {
    fn json(&self) -> String {
        let mut text = format!(
            r#"{{"id":{},"type":"function","function":{{"name":{},"arguments":{}"#,
            json(&self.id),
            json(&self.name),
            json(&self.arguments)
        );
        self.function_extra.write(&mut text);
        text.push('}');
        self.extra.write(&mut text);
        text.push('}');
        text
    }
}

/// Returns a text without the Markdown fence around it. The grammar of llama.cpp allows a fence around an answer that has to
/// fit a schema.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```json").or_else(|| text.strip_prefix("```"));
    inner.and_then(|inner| inner.strip_suffix("```")).unwrap_or(text)
}

/// Parses the next piece of a text that may have been cut inside of a character.
fn joined(split: &mut SplitSurrogate, raw: &RawValue) -> Result<Value, ModelError> {
    serde_json::from_str(&split.join(raw.get()))
        .map_err(|_| ModelError::malformed("a chunk of the stream nests too deep"))
}

fn parse(raw: &RawValue) -> Result<Value, ModelError> {
    serde_json::from_str(&surrogates::replace_lone(raw.get()))
        .map_err(|_| ModelError::malformed("a chunk of the stream nests too deep"))
}

/// Returns a text, an empty text for null, and a number as text, because some servers use numbers as ids.
fn text(raw: Option<&RawValue>) -> Result<String, ModelError> {
    Ok(match raw.map(parse).transpose()? {
        Some(Value::String(text)) => text,
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    })
}
