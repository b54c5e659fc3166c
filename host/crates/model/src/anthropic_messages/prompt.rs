//! The conversation as blocks of alternating sides, and where the prompt cache is marked.
//!
//! The cache holds what stands before a mark and looks back a limited number of blocks from each, so marks
//! move along: the end of the request before is a sure hit, the end of this one is what the next will hit,
//! and one between them shortens the way after a long turn. Marks are not part of what is compared, so a
//! body without them still only grows.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::ToolResult;
use crate::body::json;
use crate::wire::{Limits, Offer, Opening, Prompt};

/// The wire wants a bound. Thinking counts as well, so it is generous.
const MAX_TOKENS: u32 = 32_000;
/// Less than the 20 blocks that are looked back on.
const STEP: usize = 15;
const MARK: &str = r#""cache_control":{"type":"ephemeral"}"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    User,
    Model,
}

/// Content blocks as JSON objects; neighbours of one side are one message.
pub(super) struct Messages {
    head: String,
    blocks: Vec<(Side, String)>,
    /// The block that ended the last request which got its turn.
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
    pub(super) fn new(opening: &Opening<'_>) -> Self {
        let mut head = format!(r#"{{"model":{},"stream":true,"#, json(opening.model));
        if !opening.tools.is_empty() {
            let tools: Vec<_> = opening.tools.iter().map(tool).collect();
            // One call a turn: an edit moves the lines that a second one would name.
            head.push_str(&format!(
                r#""tools":{},"tool_choice":{{"type":"auto","disable_parallel_tool_use":true}},"#,
                json(&tools)
            ));
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
        // A text without a visible character is refused by the wire.
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

    fn model(&mut self, echo: Vec<String>) {
        self.answered = self.last_of_user();
        self.blocks.extend(echo.into_iter().map(|block| (Side::Model, block)));
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

/// The blocks to be marked, three at most beside the system prompt. Only our own side is marked: what the
/// model said goes back untouched.
pub(super) fn marks(sides: &[Side], answered: Option<usize>) -> Vec<usize> {
    let user = |at: &usize| sides[*at] == Side::User;
    let Some(last) = (0..sides.len()).rev().find(user) else { return vec![] };
    let after = answered.map_or(0, |at| at + 1);
    let between = last.checked_sub(STEP).and_then(|end| (after..=end).rev().find(user));
    let mut marks: Vec<_> = answered.into_iter().chain(between).chain([last]).collect();
    marks.dedup();
    marks
}

/// A block that is a whole object, with a mark at its end.
fn marked(block: &str) -> String {
    let open = block.strip_suffix('}').unwrap_or(block);
    format!("{open},{MARK}}}")
}
