//! The conversation as a list of messages.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::ToolResult;
use crate::body::{Growing, json};
use crate::wire::{Limits, Offer, Opening, Prompt};

pub(super) struct Messages(Growing);

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
    pub(super) fn new(opening: &Opening<'_>) -> Self {
        let mut head = format!(
            r#"{{"model":{},"stream":true,"stream_options":{{"include_usage":true}},"#,
            json(opening.model)
        );
        if !opening.tools.is_empty() {
            let tools: Vec<_> = opening.tools.iter().map(tool).collect();
            head.push_str(&format!(r#""tools":{},"tool_choice":"auto","#, json(&tools)));
        }
        head.push_str(r#""messages":["#);
        let mut messages = Self(Growing::new(head));
        messages.add("system", None, opening.system);
        messages
    }

    fn add(&mut self, role: &str, tool_call_id: Option<&str>, content: &str) {
        self.0.add(&json(&Message { role, tool_call_id, content }));
    }
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
            // The wire has no place for `is_error`; the content says it.
            self.add("tool", Some(&result.id), &result.content);
        }
    }

    fn model(&mut self, echo: Vec<String>) {
        for message in echo {
            self.0.add(&message);
        }
    }

    fn body(&self, limits: &Limits) -> Bytes {
        let mut tail = String::new();
        if let Some(max) = limits.max_tokens {
            tail.push_str(&format!(r#","max_tokens":{max}"#));
        }
        if let Some(schema) = &limits.output {
            tail.push_str(&format!(
                r#","response_format":{{"type":"json_schema","json_schema":{{"name":"answer","schema":{schema}}}}}"#
            ));
        }
        self.0.body(&tail)
    }
}
