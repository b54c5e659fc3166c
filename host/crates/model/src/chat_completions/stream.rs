//! From the chunks of a stream to one turn and the assistant message that is sent back.
//!
//! Decides what is forgiven (calls told apart by new ids, arguments as objects, missing ids, `stop` where
//! `tool_calls` is meant) and what is not: a turn without `finish_reason` is no turn, and calls of a turn
//! that was cut off by a limit or a filter are not handed out. Fields nobody here knows are kept as they
//! came and go back with the message.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::body::json;
use crate::failure;
use crate::half::{self, Half};
use crate::opaque::{Extra, Fields};
use crate::wire::{self, Collect, Counts, Flow, Reply};
use crate::{ModelError, ModelUsage, Stop, ToolCall, Turn};

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
    delta: Option<Fields<'a>>,
    finish_reason: Option<String>,
}

#[derive(Default)]
pub(super) struct Stream {
    text: String,
    half: Half,
    /// Whether the server sent any content, were it empty.
    has_content: bool,
    refusal: String,
    calls: Vec<Call>,
    extra: Extra,
    finish: Option<String>,
    counts: Counts,
}

#[derive(Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    half: Half,
    /// Unknown fields of the call and of its `function`.
    extra: Extra,
    function_extra: Extra,
}

impl Collect for Stream {
    fn payload(&mut self, payload: &str) -> Result<Flow, ModelError> {
        if payload.trim() == "[DONE]" {
            return if self.complete() {
                Ok(Flow::End)
            } else {
                Err(ModelError::malformed(
                    "the stream says it is done, but the turn has no finish_reason",
                ))
            };
        }
        let chunk: Chunk<'_> =
            wire::event(payload, "a chunk of the stream is not what Chat Completions says")?;
        if let Some(error) = chunk.error {
            return Err(failure::of_stream_error(error.get()));
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
        Ok(Flow::More)
    }

    fn complete(&self) -> bool {
        self.finish.is_some()
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn reply(self: Box<Self>, invented: &mut u64) -> Result<Reply, ModelError> {
        self.turn(invented)
    }
}

impl Stream {
    /// Some servers send counts with every chunk, and zeros until they know them.
    fn count(&mut self, usage: &Value) {
        let known = |name: &str| usage[name].as_u64();
        self.counts.input = known("prompt_tokens").or(self.counts.input);
        self.counts.output = known("completion_tokens").or(self.counts.output);
        if let Some(cached) = usage["prompt_tokens_details"]["cached_tokens"].as_u64() {
            self.counts.cached = cached;
        }
    }

    fn delta(&mut self, mut delta: Fields<'_>) -> Result<(), ModelError> {
        delta.remove("role");
        if let Some(content) = delta.remove("content") {
            match joined(&mut self.half, content)? {
                Value::Null => {}
                Value::String(piece) => {
                    self.has_content = true;
                    self.counts.written += piece.len();
                    self.text.push_str(&piece);
                }
                // Some servers send parts; only the ones with text are of use.
                Value::Array(parts) => {
                    self.has_content = true;
                    self.text.extend(parts.iter().filter_map(|part| part["text"].as_str()));
                }
                _ => return Err(ModelError::malformed("the content of a chunk is no text")),
            }
        }
        if let Some(Value::String(piece)) = delta.remove("refusal").map(parse).transpose()? {
            self.refusal.push_str(&piece);
        }
        if let Some(calls) = delta.remove("tool_calls") {
            let calls: Option<Vec<Fields<'_>>> =
                serde_json::from_str(calls.get()).map_err(|_| {
                    ModelError::malformed("the tool calls of a chunk are no list of objects")
                })?;
            for call in calls.unwrap_or_default() {
                self.call(call)?;
            }
        }
        self.counts.written += delta.values().map(|raw| raw.get().len()).sum::<usize>();
        self.extra.merge(delta);
        Ok(())
    }

    fn call(&mut self, mut piece: Fields<'_>) -> Result<(), ModelError> {
        let index = piece.remove("index").map(parse).transpose()?.and_then(|index| index.as_u64());
        let id = text(piece.remove("id"))?;
        piece.remove("type");
        let mut function: Fields<'_> = match piece.remove("function") {
            None => Fields::new(),
            Some(raw) => serde_json::from_str::<Option<Fields<'_>>>(raw.get())
                .map_err(|_| ModelError::malformed("the function of a tool call is no object"))?
                .unwrap_or_default(),
        };
        let name = text(function.remove("name"))?;
        let arguments = function.remove("arguments");
        self.counts.written += name.len() + arguments.map_or(0, |raw| raw.get().len());
        let call = self.place(index, &id, &name);
        // Both come once; servers that repeat them must not make "planplan".
        for (known, new) in [(&mut call.id, id), (&mut call.name, name)] {
            if known.is_empty() {
                *known = new;
            }
        }
        if let Some(raw) = arguments {
            match joined(&mut call.half, raw)? {
                Value::Null => {}
                Value::String(piece) => call.arguments.push_str(&piece),
                _ => call.arguments.push_str(raw.get()),
            }
        }
        call.extra.merge(piece);
        call.function_extra.merge(function);
        Ok(())
    }

    /// The call that a piece belongs to: the one with its index, unless a new id and name say that the
    /// server gives every call the same index; without an index, the last one, unless it has a name.
    fn place(&mut self, index: Option<u64>, id: &str, name: &str) -> &mut Call {
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

    fn turn(mut self, invented: &mut u64) -> Result<Reply, ModelError> {
        let finish = self.finish.take().unwrap_or_default();
        self.text.push_str(self.half.rest());
        for call in &mut self.calls {
            call.arguments.push_str(call.half.rest());
        }
        let stop = match finish.as_str() {
            "length" => Stop::Length,
            "content_filter" => Stop::Refused,
            "error" => return Err(failure::of_stream_error("\"the provider failed in mid-turn\"")),
            _ if !self.refusal.is_empty() => Stop::Refused,
            _ if !self.calls.is_empty() => Stop::Tools,
            "tool_calls" | "function_call" => {
                return Err(ModelError::malformed("the turn ends with tool calls, but none came"));
            }
            _ => Stop::Done,
        };
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
        let turn = Turn { text, calls, stop, usage: ModelUsage::default() };
        Ok(Reply { turn, echo: message.into_iter().collect() })
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
            if self.calls[at].arguments.trim().is_empty() {
                // No arguments; servers that parse what is echoed want JSON all the same.
                self.calls[at].arguments = "{}".to_owned();
            }
        }
        Ok(())
    }

    /// The assistant message as the server is shown it from now on; none when it would be empty.
    fn message(&self) -> Option<String> {
        if self.text.is_empty() && self.calls.is_empty() && self.extra.is_empty() {
            return None;
        }
        // Only a message with calls may go without content.
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

/// The next piece of a text that may have been cut inside of a character.
fn joined(half: &mut Half, raw: &RawValue) -> Result<Value, ModelError> {
    serde_json::from_str(&half.join(raw.get()))
        .map_err(|_| ModelError::malformed("a chunk of the stream nests too deep"))
}

fn parse(raw: &RawValue) -> Result<Value, ModelError> {
    serde_json::from_str(&half::mended(raw.get()))
        .map_err(|_| ModelError::malformed("a chunk of the stream nests too deep"))
}

/// Text, or nothing for null; numbers as servers use them for ids.
fn text(raw: Option<&RawValue>) -> Result<String, ModelError> {
    Ok(match raw.map(parse).transpose()? {
        Some(Value::String(text)) => text,
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    })
}
