//! The conversation as a list of input items.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::ToolResult;
use crate::body::{Growing, json};
use crate::wire::{Limits, Offer, Opening, Prompt};

pub(super) struct Items(Growing);

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'a str,
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
    /// The schemas have optional properties, which the strict mode has not.
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
    pub(super) fn new(opening: &Opening<'_>) -> Self {
        let tools: Vec<_> = opening.tools.iter().map(tool).collect();
        let (tools, instructions) = (json(&tools), json(opening.system));
        let mut head = format!(
            r#"{{"model":{},"stream":true,"store":false,"include":["reasoning.encrypted_content"],"prompt_cache_key":{},"#,
            json(opening.model),
            json(&cache_key(opening.role, &tools, &instructions))
        );
        if !opening.tools.is_empty() {
            // One call a turn: an edit moves the lines that a second one would name.
            head.push_str(&format!(
                r#""tools":{tools},"tool_choice":"auto","parallel_tool_calls":false,"#
            ));
        }
        head.push_str(&format!(r#""instructions":{instructions},"input":["#));
        Self(Growing::new(head))
    }
}

/// The same for every conversation that begins the same, so that they meet in one cache; short, because the
/// wire takes 64 characters.
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
            // The wire has no place for `is_error`; the content says it.
            let output = Output { r#type: "function_call_output", call_id: id, output: content };
            self.0.add(&json(&output));
        }
    }

    fn model(&mut self, echo: Vec<String>) {
        for item in echo {
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
