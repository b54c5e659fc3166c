//! Anthropic Messages: content in blocks, marks for the prompt cache, one answer message for all calls.
//!
//! Requests: content blocks of alternating sides. The provider's cache holds everything before a mark and looks back a
//! limited number of blocks from each mark, so the marks move along: the end of the previous request is a sure hit, the
//! end of this request is the hit of the next one, and a mark between the two shortens the way after a long turn. Marks
//! are not part of the comparison, so a body without its marks only grows.
//!
//! Streams: only `message_stop` makes a turn. Events of an unknown kind are skipped, as the wire demands. A block that
//! arrived in one piece is sent back byte for byte; one that arrived in pieces is put together field by field.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::client::sensitive;
use crate::passthrough::{Passthrough, RawFields};
use crate::wire::{
    self, Calls, Counts, Limits, Offer, Opening, Prompt, Reply, Service, StreamParser, Wire,
    arguments_or_empty, json,
};
use crate::{ModelError, Stop, ToolCall, ToolResult, error, surrogates};

/// The model when the user names none.
pub const DEFAULT_MODEL: &str = "claude-opus-5-5";
/// The address of the provider, without a version.
pub const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";

/// The version of the wire, the only one there is.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

pub(super) struct AnthropicMessages;

impl Wire for AnthropicMessages {
    fn service(&self) -> Service {
        Service {
            wire: "Messages",
            key_variable: "ANTHROPIC_API_KEY",
            address_variable: "ANTHROPIC_BASE_URL (without /v1)",
            path: &["v1", "messages"],
        }
    }

    fn headers(&self, key: Option<&str>) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", VERSION);
        if let Some(key) = key {
            headers.insert("x-api-key", sensitive(key)?);
        }
        Some(headers)
    }

    fn prompt(&self, opening: &Opening<'_>) -> Box<dyn Prompt> {
        Box::new(Messages::new(opening))
    }

    fn stream(&self) -> Box<dyn StreamParser> {
        Box::new(Stream::default())
    }
}

/// The wire requires a limit. Thinking counts as well, so the limit is generous.
const MAX_TOKENS: u32 = 32_000;
/// Blocks between two marks, fewer than the 20 that the provider looks back from a mark.
const STEP: usize = 15;
const MARK: &str = r#""cache_control":{"type":"ephemeral"}"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    User,
    Model,
}

/// Content blocks as JSON objects. Consecutive blocks of one side form one message.
struct Messages {
    head: String,
    blocks: Vec<(Side, String)>,
    /// Index of the block that ended the last request which was answered with a turn.
    answered: Option<usize>,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'a str,
    text: &'a str,
}

#[derive(Serialize)]
struct Answer<'a> {
    r#type: &'a str,
    tool_use_id: &'a str,
    content: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

impl Messages {
    fn new(opening: &Opening<'_>) -> Self {
        let mut head = format!(r#"{{"model":{},"stream":true,"#, json(opening.model));
        if !opening.tools.is_empty() {
            let tools: Vec<_> = opening.tools.iter().map(tool).collect();
            head.push_str(&format!(r#""tools":{},"tool_choice":{{"type":"auto"}},"#, json(&tools)));
        }
        let system = marked(&json(&Text { r#type: "text", text: opening.system }));
        head.push_str(&format!(r#""system":[{system}],"messages":["#));
        Self { head, blocks: vec![], answered: None }
    }

    fn last_of_user(&self) -> Option<usize> {
        self.blocks.iter().rposition(|(side, _)| *side == Side::User)
    }
}

fn tool<'a>(offer: &'a Offer<'_>) -> Tool<'a> {
    Tool { name: offer.name, description: offer.description, input_schema: &offer.schema }
}

impl Prompt for Messages {
    fn user(&mut self, text: &str) {
        // The provider refuses a text without a visible character.
        if !text.trim().is_empty() {
            self.blocks.push((Side::User, json(&Text { r#type: "text", text })));
        }
    }

    fn results(&mut self, results: &[&ToolResult]) {
        for result in results {
            let ToolResult { id, content, is_error } = result;
            let answer =
                Answer { r#type: "tool_result", tool_use_id: id, content, is_error: *is_error };
            self.blocks.push((Side::User, json(&answer)));
        }
    }

    fn assistant(&mut self, items: Vec<String>) {
        self.answered = self.last_of_user();
        self.blocks.extend(items.into_iter().map(|block| (Side::Model, block)));
    }

    fn body(&self, limits: &Limits) -> Bytes {
        let sides: Vec<_> = self.blocks.iter().map(|(side, _)| *side).collect();
        let marks = marks(&sides, self.answered);
        let mut body = self.head.clone();
        let mut before = None;
        for (at, (side, block)) in self.blocks.iter().enumerate() {
            if before == Some(*side) {
                body.push(',');
            } else {
                let role = match side {
                    Side::User => "user",
                    Side::Model => "assistant",
                };
                body.push_str(if before.is_some() { "]}," } else { "" });
                body.push_str(&format!(r#"{{"role":"{role}","content":["#));
                before = Some(*side);
            }
            match marks.contains(&at) {
                true => body.push_str(&marked(block)),
                false => body.push_str(block),
            }
        }
        body.push_str(if before.is_some() { "]}]" } else { "]" });
        let max = limits.max_tokens.unwrap_or(MAX_TOKENS);
        body.push_str(&format!(r#","max_tokens":{max}"#));
        if let Some(schema) = &limits.output {
            body.push_str(&format!(
                r#","output_config":{{"format":{{"type":"json_schema","schema":{schema}}}}}"#
            ));
        }
        body.push('}');
        body.into()
    }
}

/// Returns the indexes of the blocks to mark, at most three beside the system prompt. Only blocks of the user's side are
/// marked, because the blocks of the model are sent back unchanged.
pub(super) fn marks(sides: &[Side], answered: Option<usize>) -> Vec<usize> {
    let user = |at: &usize| sides[*at] == Side::User;
    let Some(last) = (0..sides.len()).rev().find(user) else { return vec![] };
    let after = answered.map_or(0, |at| at + 1);
    let between = last.checked_sub(STEP).and_then(|end| (after..=end).rev().find(user));
    let mut marks: Vec<_> = answered.into_iter().chain(between).chain([last]).collect();
    marks.dedup();
    marks
}

/// Returns a block, a whole JSON object, with a mark at its end.
fn marked(block: &str) -> String {
    let open = block.strip_suffix('}').unwrap_or(block);
    format!("{open},{MARK}}}")
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: String,
    index: Option<u64>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    message: Option<Start>,
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Start {
    usage: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Ending {
    stop_reason: Option<String>,
    stop_details: Option<Value>,
}

#[derive(Default)]
struct Stream {
    blocks: BTreeMap<u64, Block>,
    ending: Ending,
    stopped: bool,
    /// Prompt tokens that the cache did not have, that were written to it, and that were read from it.
    input: [Option<u64>; 3],
    counts: Counts,
}

impl StreamParser for Stream {
    fn payload(&mut self, payload: &str) -> Result<ControlFlow<()>, ModelError> {
        let payload = &*surrogates::replace_lone(payload);
        let event: Event<'_> =
            wire::event(payload, "an event of the stream is not what Messages says")?;
        match event.r#type.as_str() {
            "message_start" => {
                if let Some(usage) = event.message.and_then(|message| message.usage) {
                    // The output has only begun, so its count is not used.
                    self.count_input(&usage);
                }
            }
            "content_block_start" => {
                let (Some(index), Some(raw)) = (event.index, event.content_block) else {
                    return Err(ModelError::malformed(
                        "a content block has no index or no content",
                    ));
                };
                if self.blocks.insert(index, Block::start(raw)?).is_some() {
                    return Err(ModelError::malformed("two content blocks have the same index"));
                }
            }
            "content_block_delta" => {
                let (Some(block), Some(raw)) = (self.block(event.index), event.delta) else {
                    return Err(ModelError::malformed("a piece belongs to no content block"));
                };
                let written = block.delta(raw)?;
                self.counts.written += written;
            }
            "content_block_stop" => match self.block(event.index) {
                Some(block) => block.ended = true,
                None => return Err(ModelError::malformed("a content block ends that never began")),
            },
            "message_delta" => {
                let ending = event.delta.map(|raw| serde_json::from_str::<Ending>(raw.get()));
                let ending = ending.transpose().map_err(|_| {
                    ModelError::malformed("the end of the turn is not what Messages says")
                })?;
                if let Some(ending) = ending.filter(|ending| ending.stop_reason.is_some()) {
                    self.ending = ending;
                }
                if let Some(usage) = event.usage {
                    self.count_input(&usage);
                    self.counts.output = usage["output_tokens"].as_u64().or(self.counts.output);
                }
            }
            "message_stop" if self.ending.stop_reason.is_none() => {
                return Err(ModelError::malformed("the turn stops without a stop_reason"));
            }
            "message_stop" => {
                self.stopped = true;
                return Ok(ControlFlow::Break(()));
            }
            "error" => return Err(error::of_stream_error(payload)),
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    }

    fn complete(&self) -> bool {
        self.stopped
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn reply(self: Box<Self>, _invented: &mut u64) -> Result<Reply, ModelError> {
        let has_calls = self.blocks.values().any(|block| block.kind == Kind::Call);
        let reason = self.ending.stop_reason.as_deref().unwrap_or_default();
        let stop = match reason {
            "max_tokens" | "model_context_window_exceeded" => Stop::Length,
            "refusal" => Stop::Refused,
            _ if has_calls => Stop::Tools,
            "tool_use" => return Err(wire::no_calls()),
            // `pause_turn` is among them: the caller decides how the conversation continues.
            _ => Stop::Done,
        };
        let calls = if stop == Stop::Tools { self.calls()? } else { vec![] };
        let assistant_items = self.assistant_items(stop);
        let text = self.text(stop);
        Ok(Reply::new(text, calls, stop, assistant_items))
    }
}

impl Stream {
    fn block(&mut self, index: Option<u64>) -> Option<&mut Block> {
        self.blocks.get_mut(&index?).filter(|block| !block.ended)
    }

    /// Each count is a sum so far, so the last one of each kind is in force.
    fn count_input(&mut self, usage: &Value) {
        const NAMES: [&str; 3] =
            ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
        for (count, name) in self.input.iter_mut().zip(NAMES) {
            *count = usage[name].as_u64().or(*count);
        }
        let [uncached, written, read] = self.input;
        if uncached.is_some() {
            let parts = [uncached, written, read].map(Option::unwrap_or_default);
            self.counts.input = Some(parts.into_iter().fold(0, u64::saturating_add));
            self.counts.cached = parts[2];
            self.counts.cache_write = parts[1];
        }
    }

    fn calls(&self) -> Result<Vec<ToolCall>, ModelError> {
        let mut calls = Calls::default();
        for block in self.blocks.values().filter(|block| block.kind == Kind::Call) {
            if !block.ended {
                return Err(ModelError::malformed("a tool call has no end"));
            }
            calls.add(block.field("id"), block.field("name"), &block.input)?;
        }
        Ok(calls.done())
    }

    /// Returns the blocks that later requests contain. A refused turn has none, because the provider would refuse the next
    /// request as well. Calls of a turn that was cut off are left out, and a message may not end in thinking.
    fn assistant_items(&self, stop: Stop) -> Vec<String> {
        if stop == Stop::Refused {
            return vec![];
        }
        let keep = |block: &&Block| {
            block.can_be_sent_back() && (stop == Stop::Tools || block.kind != Kind::Call)
        };
        let blocks: Vec<_> = self.blocks.values().filter(keep).collect();
        let end = blocks.iter().rposition(|block| block.kind != Kind::Thinking);
        blocks[..end.map_or(0, |at| at + 1)].iter().map(|block| block.assistant_item()).collect()
    }

    fn text(&self, stop: Stop) -> String {
        let texts = self.blocks.values().filter(|block| block.kind == Kind::Text);
        let text: String = texts.map(|block| block.field("text")).collect();
        if stop != Stop::Refused || !text.is_empty() {
            return text;
        }
        let details = self.ending.stop_details.as_ref();
        details.and_then(|details| details["explanation"].as_str()).unwrap_or_default().to_owned()
    }
}

struct Block {
    kind: Kind,
    raw: String,
    fields: Passthrough,
    /// Pieces were added to the block since its start.
    grown: bool,
    /// Pieces of a call's arguments.
    input: String,
    ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Call,
    /// Reasoning, readable or not.
    Thinking,
    Other,
}

impl Block {
    fn start(raw: &RawValue) -> Result<Self, ModelError> {
        let mut fields = parse(raw)?;
        let kind = match fields.get("type").map(|raw| raw.get()) {
            Some(r#""text""#) => Kind::Text,
            Some(r#""tool_use""#) => Kind::Call,
            Some(r#""thinking""# | r#""redacted_thinking""#) => Kind::Thinking,
            _ => Kind::Other,
        };
        let mut input = String::new();
        if kind == Kind::Call {
            // The input is complete here when no pieces follow.
            input = fields.remove("input").map_or("{}", |raw| raw.get()).to_owned();
        }
        let fields = Passthrough::new(fields);
        Ok(Self { kind, raw: raw.get().to_owned(), fields, grown: false, input, ended: false })
    }

    /// Adds a piece and returns the number of its bytes of content.
    fn delta(&mut self, raw: &RawValue) -> Result<usize, ModelError> {
        let mut piece = parse(raw)?;
        piece.remove("type");
        let written = piece.values().map(|raw| raw.get().len()).sum();
        if let Some(json) = piece.remove("partial_json") {
            let json: String = serde_json::from_str(json.get()).map_err(|_| {
                ModelError::malformed("a piece of a call's arguments is not a text")
            })?;
            if !json.is_empty() && !self.grown {
                self.input.clear();
                self.grown = true;
            }
            self.input.push_str(&json);
        }
        // Citations arrive one by one, and the block holds a list of them.
        if let Some(citation) = piece.remove("citation") {
            let list = format!("[{}]", citation.get());
            if let Ok(list) = serde_json::from_str::<&RawValue>(&list) {
                self.fields.merge([("citations".to_owned(), list)].into());
                self.grown = true;
            }
        }
        if !piece.is_empty() {
            self.fields.merge(piece);
            self.grown = true;
        }
        Ok(written)
    }

    fn field(&self, name: &str) -> &str {
        self.fields.text(name)
    }

    /// Returns whether the provider accepts the block in a later request: it refuses empty text and thinking without its
    /// signature.
    fn can_be_sent_back(&self) -> bool {
        match self.kind {
            Kind::Text => !self.field("text").trim().is_empty(),
            Kind::Thinking => !self.field("signature").is_empty() || !self.field("data").is_empty(),
            Kind::Call | Kind::Other => true,
        }
    }

    /// Returns the block as later requests contain it.
    fn assistant_item(&self) -> String {
        if !self.grown {
            return self.raw.clone();
        }
        let mut fields = String::new();
        self.fields.write(&mut fields);
        if self.kind == Kind::Call {
            fields.push_str(&format!(r#","input":{}"#, self.input_object()));
        }
        format!("{{{}}}", fields.trim_start_matches(','))
    }

    /// Returns the arguments as an object, because the provider accepts nothing else. Other text is wrapped, so that the
    /// model sees its mistake.
    fn input_object(&self) -> String {
        let input = arguments_or_empty(&self.input);
        match serde_json::from_str::<&RawValue>(input) {
            Ok(raw) if raw.get().starts_with('{') => raw.get().to_owned(),
            _ => format!(r#"{{"INVALID_JSON":{}}}"#, json(input)),
        }
    }
}

fn parse(raw: &RawValue) -> Result<RawFields<'_>, ModelError> {
    serde_json::from_str(raw.get())
        .map_err(|_| ModelError::malformed("a content block of the stream is not an object"))
}
