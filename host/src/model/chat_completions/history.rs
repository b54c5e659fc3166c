//! The body of a request: a head that never changes, messages that only grow, a tail for this turn.
//!
//! The messages stand last but for the tail, so everything before it is a byte prefix of the next turn's
//! body and a provider's prompt cache can hold all of it.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::model::{Ask, ModelError, ToolSpec};

pub(super) struct History {
    head: String,
    /// Messages as JSON texts, separated by commas.
    messages: String,
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
    parameters: Box<RawValue>,
}

impl History {
    pub(super) fn new(
        model: &str,
        role: &str,
        system: &str,
        tools: &[ToolSpec],
    ) -> Result<Self, ModelError> {
        let mut head = format!(
            r#"{{"model":{},"stream":true,"stream_options":{{"include_usage":true}},"#,
            json(&model)
        );
        if !tools.is_empty() {
            let tools = tools.iter().map(tool).collect::<Result<Vec<_>, _>>()?;
            head.push_str(&format!(r#""tools":{},"tool_choice":"auto","#, json(&tools)));
        }
        head.push_str(r#""messages":["#);
        let mut history = Self { head, messages: String::new() };
        history.add("system", None, &format!("act role: {role}\n{system}"));
        Ok(history)
    }

    pub(super) fn add(&mut self, role: &str, tool_call_id: Option<&str>, content: &str) {
        self.add_raw(&json(&Message { role, tool_call_id, content }));
    }

    /// A message that is JSON already, such as the model's own.
    pub(super) fn add_raw(&mut self, message: &str) {
        if !self.messages.is_empty() {
            self.messages.push(',');
        }
        self.messages.push_str(message);
    }

    pub(super) fn body(&self, ask: &Ask) -> Result<Bytes, ModelError> {
        let mut body = String::with_capacity(self.head.len() + self.messages.len() + 64);
        body.push_str(&self.head);
        body.push_str(&self.messages);
        body.push(']');
        if let Some(max) = ask.max_tokens {
            body.push_str(&format!(r#","max_tokens":{max}"#));
        }
        if let Some(schema) = &ask.output {
            let schema = compact(schema)
                .ok_or_else(|| ModelError::misused("the output schema is not JSON"))?;
            body.push_str(&format!(
                r#","response_format":{{"type":"json_schema","json_schema":{{"name":"answer","schema":{schema}}}}}"#
            ));
        }
        body.push('}');
        Ok(body.into())
    }
}

fn tool(spec: &ToolSpec) -> Result<Tool<'_>, ModelError> {
    let parameters = compact(&spec.parameters).ok_or_else(|| {
        ModelError::misused(format!("the schema of tool {} is not JSON", spec.name))
    })?;
    let function = Function { name: &spec.name, description: &spec.description, parameters };
    Ok(Tool { r#type: "function", function })
}

/// Without the white space people put in; keys keep their order.
fn compact(text: &str) -> Option<Box<RawValue>> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    serde_json::value::to_raw_value(&value).ok()
}

/// JSON of what cannot fail: strings, lists and structs of them.
pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
