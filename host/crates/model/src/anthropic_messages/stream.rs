//! From the events of a stream to one turn and the blocks that are sent back.
//!
//! Only `message_stop` makes a turn. Events of a kind nobody here knows are skipped, as the wire demands.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::blocks::{Block, Kind};
use crate::failure;
use crate::half;
use crate::wire::{self, Collect, Counts, Flow, Reply};
use crate::{ModelError, ModelUsage, Stop, ToolCall, Turn};

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
pub(super) struct Stream {
    blocks: BTreeMap<u64, Block>,
    ending: Ending,
    stopped: bool,
    /// Prompt tokens: read past the cache, written to it, read from it.
    input: [Option<u64>; 3],
    counts: Counts,
}

impl Collect for Stream {
    fn payload(&mut self, payload: &str) -> Result<Flow, ModelError> {
        let payload = &*half::mended(payload);
        let event: Event<'_> =
            wire::event(payload, "an event of the stream is not what Messages says")?;
        match event.r#type.as_str() {
            "message_start" => {
                if let Some(usage) = event.message.and_then(|message| message.usage) {
                    // The output is only begun here, so its count means nothing yet.
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
                return Ok(Flow::End);
            }
            "error" => return Err(failure::of_stream_error(payload)),
            _ => {}
        }
        Ok(Flow::More)
    }

    fn complete(&self) -> bool {
        self.stopped
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn reply(self: Box<Self>, _invented: &mut u64) -> Result<Reply, ModelError> {
        let has_calls = self.blocks.values().any(|block| block.kind() == Kind::Call);
        let reason = self.ending.stop_reason.as_deref().unwrap_or_default();
        let stop = match reason {
            "max_tokens" | "model_context_window_exceeded" => Stop::Length,
            "refusal" => Stop::Refused,
            _ if has_calls => Stop::Tools,
            "tool_use" => {
                return Err(ModelError::malformed("the turn ends with tool calls, but none came"));
            }
            // `pause_turn` too: what was said so far stands, and the caller says how it goes on.
            _ => Stop::Done,
        };
        let calls = if stop == Stop::Tools { self.calls()? } else { vec![] };
        let echo = self.echo(stop);
        let text = self.text(stop);
        Ok(Reply { turn: Turn { text, calls, stop, usage: ModelUsage::default() }, echo })
    }
}

impl Stream {
    fn block(&mut self, index: Option<u64>) -> Option<&mut Block> {
        self.blocks.get_mut(&index?).filter(|block| !block.ended)
    }

    /// Counts are sums so far, so the last one of each kind holds.
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
        }
    }

    fn calls(&self) -> Result<Vec<ToolCall>, ModelError> {
        let blocks = self.blocks.values().filter(|block| block.kind() == Kind::Call);
        let mut calls: Vec<ToolCall> = vec![];
        for block in blocks {
            let (id, name) = (block.field("id"), block.field("name"));
            if id.is_empty() || name.is_empty() || !block.ended {
                return Err(ModelError::malformed("a tool call has no id, no name or no end"));
            }
            if calls.iter().any(|call| call.id == id) {
                return Err(ModelError::malformed("two tool calls have the same id"));
            }
            let arguments = block.arguments().to_owned();
            calls.push(ToolCall { id: id.to_owned(), name: name.to_owned(), arguments });
        }
        Ok(calls)
    }

    /// What goes back. A refused turn leaves nothing: the wire would refuse the next one as well. Calls of
    /// a turn that was cut off are gone, and a message may not end in thinking.
    fn echo(&self, stop: Stop) -> Vec<String> {
        if stop == Stop::Refused {
            return vec![];
        }
        let keep =
            |block: &&Block| block.counts() && (stop == Stop::Tools || block.kind() != Kind::Call);
        let blocks: Vec<_> = self.blocks.values().filter(keep).collect();
        let end = blocks.iter().rposition(|block| block.kind() != Kind::Thinking);
        blocks[..end.map_or(0, |at| at + 1)].iter().map(|block| block.echo()).collect()
    }

    fn text(&self, stop: Stop) -> String {
        let texts = self.blocks.values().filter(|block| block.kind() == Kind::Text);
        let text: String = texts.map(|block| block.field("text")).collect();
        if stop != Stop::Refused || !text.is_empty() {
            return text;
        }
        let details = self.ending.stop_details.as_ref();
        details.and_then(|details| details["explanation"].as_str()).unwrap_or_default().to_owned()
    }
}
