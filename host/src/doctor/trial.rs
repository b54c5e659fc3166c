//! One real request with one tool, and what its answer says about the server.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Check;
use crate::config::ModelAccess;
use crate::event::Events;
use crate::model::{Ask, ModelError, Stop, TokenLedger, ToolSpec, Turn};
use crate::task::staff;

const NAME: &str = "model_call";
const TOOL: &str = "answer";
const WORD: &str = "ready";

pub(super) async fn call(access: &ModelAccess) -> Check {
    let ledger = TokenLedger::default();
    let model = match staff::model(access, &ledger, &Events::silent()) {
        Ok(model) => model,
        Err(error) => return Check::red(NAME, error.to_string(), "check the model's variables"),
    };
    let tool = ToolSpec {
        name: TOOL.to_owned(),
        description: "Takes the answer.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"word": {"type": "string"}},
            "required": ["word"],
            "additionalProperties": false,
        })
        .to_string(),
    };
    let system = "You test whether tools can be called. Call the tool and write no text.";
    let mut conversation = model.open("doctor", system, &[tool]);
    conversation.say(&format!("Call the tool {TOOL} with the word \"{WORD}\"."));
    // No limit of tokens: models that think first would hit it before they call.
    let never = CancellationToken::new();
    judge(conversation.next(Ask { attempt: 1, ..Ask::default() }, &never).await)
}

/// What came back, in words (pure).
fn judge(answer: Result<Turn, ModelError>) -> Check {
    let turn = match answer {
        Err(error) => return Check::red(NAME, error.message, fix(error.status)),
        Ok(turn) => turn,
    };
    let spent = format!("{} tokens in, {} out", turn.usage.input, turn.usage.output);
    let Some(call) = turn.calls.first() else {
        let (message, fix) = without_call(&turn);
        return Check::red(NAME, message, fix);
    };
    let arguments: Option<Value> = serde_json::from_str(&call.arguments).ok();
    let word = arguments.as_ref().and_then(|arguments| arguments.get("word"));
    if call.name != TOOL || word.is_none() {
        return Check::red(
            NAME,
            format!("the model called {} with {}", call.name, cut(&call.arguments)),
            "it does not keep to the schema of a tool; take a model that is made for tools",
        );
    }
    Check::ok(NAME, format!("the model called the tool as it was asked to ({spent})"))
}

fn without_call(turn: &Turn) -> (String, &'static str) {
    let text = turn.text.trim();
    match turn.stop {
        Stop::Refused => ("the model refused".to_owned(), "take another model"),
        Stop::Length => (
            "the answer was cut off before a tool was called".to_owned(),
            "give the server a larger context or output limit",
        ),
        _ if text.contains(TOOL) && text.contains(['{', '<']) => (
            format!("the model wrote the tool call as text: {}", cut(text)),
            "switch tool calls on in the server (its chat template or tool parser), or take a model \
             that is made for tools",
        ),
        _ if text.is_empty() => (
            "the answer held neither text nor a tool call".to_owned(),
            "check that AGENT_LLM_BASE_URL is a Chat Completions server and that the model knows tools",
        ),
        _ => (
            format!("the model answered with text instead of a tool call: {}", cut(text)),
            "take a model that can call tools, or switch them on in the server",
        ),
    }
}

/// The message has the cause; this is where to look.
fn fix(status: Option<u16>) -> &'static str {
    match status {
        Some(404 | 405) => {
            "the path is wrong or the model unknown: AGENT_LLM_BASE_URL ends in /v1 as a rule, and \
             AGENT_LLM_MODEL is a name that the server lists"
        }
        Some(400 | 422) => {
            "the server takes no such request; it may know no tools or another model"
        }
        Some(401 | 403) => "check the key",
        Some(429) => "wait, or raise the limit with the provider",
        Some(500..) => "look at the server's log; a later try may succeed",
        Some(_) => "this is no Chat Completions server; check AGENT_LLM_BASE_URL",
        None => "check AGENT_LLM_BASE_URL and that the server runs",
    }
}

fn cut(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut cut: String = text.chars().take(LONGEST).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use crate::model::{ModelErrorKind, ModelUsage, ToolCall};

    fn turn(text: &str, call: Option<(&str, &str)>) -> Turn {
        let call = call.map(|(name, arguments)| ToolCall {
            id: "c1".into(),
            name: name.into(),
            arguments: arguments.into(),
        });
        let calls: Vec<_> = call.into_iter().collect();
        let stop = if calls.is_empty() { Stop::Done } else { Stop::Tools };
        Turn { text: text.into(), calls, stop, usage: ModelUsage::default() }
    }

    #[test]
    fn a_call_as_it_was_asked_for_is_fine() {
        // DOCTOR-7
        let check = judge(Ok(turn("", Some(("answer", r#"{"word":"ready"}"#)))));
        assert_eq!(check.level, Level::Ok, "{check:?}");
    }

    #[test]
    fn everything_else_is_red_and_explained() {
        // DOCTOR-7
        let refused = |status| ModelError {
            kind: ModelErrorKind::Rejected,
            message: "the model's server answered".into(),
            status,
            retry_after: None,
        };
        let cases = [
            (Ok(turn("{\"name\": \"answer\"}", None)), "as text", "tool parser"),
            (Ok(turn("Hello!", None)), "instead of a tool call", "tools"),
            (Ok(turn("", None)), "neither", "Chat Completions"),
            (Ok(turn("", Some(("answer", "no json")))), "no json", "schema"),
            (Ok(turn("", Some(("shell", "{}")))), "called shell", "schema"),
            (Err(refused(Some(404))), "answered", "/v1"),
            (Err(refused(Some(401))), "answered", "key"),
            (Err(refused(None)), "answered", "runs"),
        ];
        for (answer, message, fix) in cases {
            let check = judge(answer);
            assert_eq!(check.level, Level::Red, "{check:?}");
            assert!(check.message.contains(message), "{check:?}");
            assert!(check.fix.as_deref().unwrap().contains(fix), "{check:?}");
        }
    }
}
