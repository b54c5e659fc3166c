//! Sends one real request with one tool, and draws conclusions about the server from the answer.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Check;
use crate::task::component_loader;
use act_config::ModelAccess;
use act_core::event::Events;
use act_model::{Ask, ModelError, ModelErrorKind, Service, Stop, TokenLedger, ToolSpec, Turn};

const NAME: &str = "model_call";
const TOOL: &str = "answer";
const WORD: &str = "ready";
/// Time limit: a server may have to load its model first. A task waits longer.
const LONGEST: Duration = Duration::from_secs(60);

pub(super) async fn call(access: &ModelAccess) -> Check {
    let ledger = TokenLedger::default();
    let model = match component_loader::model(access, &ledger, &Events::silent()) {
        Ok(model) => model,
        Err(error) => {
            let Service { address_variable, key_variable, .. } = access.service();
            let fix = format!("check {address_variable} and {key_variable}");
            return Check::red(NAME, error.to_string(), fix);
        }
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
    let answer = conversation.next(Ask { attempt: 1, ..Ask::default() }, &never);
    let answer = in_time(answer, LONGEST).await;
    judge(answer, access.service(), access.has_key())
}

/// The message before the request.
pub(super) fn waiting() -> String {
    format!("Asking the model (at most {} s)...", LONGEST.as_secs())
}

async fn in_time(
    answer: impl Future<Output = Result<Turn, ModelError>>,
    longest: Duration,
) -> Result<Turn, ModelError> {
    tokio::time::timeout(longest, answer).await.unwrap_or_else(|_| {
        Err(ModelError {
            kind: ModelErrorKind::Timeout,
            message: format!("no answer within {} s", longest.as_secs()),
            status: None,
            retry_after: None,
        })
    })
}

/// Turns the answer into a check.
fn judge(answer: Result<Turn, ModelError>, service: Service, has_key: bool) -> Check {
    let turn = match answer {
        Err(error) => {
            let fix = fix(&error, service, has_key);
            return Check::red(NAME, error.message, fix);
        }
        Ok(turn) => turn,
    };
    let spent = format!("{} tokens in, {} out", turn.usage.input, turn.usage.output);
    let Some(call) = turn.calls.first() else {
        let (message, fix) = without_call(&turn, service);
        return Check::red(NAME, message, fix);
    };
    let arguments: Option<Value> = serde_json::from_str(&call.arguments).ok();
    let word = arguments.as_ref().and_then(|arguments| arguments.get("word"));
    if call.name != TOOL || word.is_none() {
        return Check::red(
            NAME,
            format!("the model called {} with {}", call.name, cut(&call.arguments)),
            format!("it does not follow the schema of a tool; {ANOTHER}"),
        );
    }
    let wire = service.wire;
    Check::ok(NAME, format!("the model called the tool as requested, over {wire} ({spent})"))
}

const ANOTHER: &str = "set AGENT_LLM_MODEL to a model that supports tools";

fn without_call(turn: &Turn, service: Service) -> (String, String) {
    let text = turn.text.trim();
    let Service { wire, address_variable, .. } = service;
    match turn.stop {
        Stop::Refused => (
            format!("the model refused: {}", cut(text)),
            "set AGENT_LLM_MODEL to another model".to_owned(),
        ),
        Stop::Length => (
            "the answer was cut off before a tool was called".to_owned(),
            "give the server a larger context or output limit".to_owned(),
        ),
        _ if text.contains(TOOL) && text.contains(['{', '<']) => (
            format!("the model wrote the tool call as text: {}", cut(text)),
            format!(
                "enable tool calls in the server (its chat template or tool parser), or {ANOTHER}"
            ),
        ),
        _ if text.is_empty() => (
            "the answer contains neither text nor a tool call".to_owned(),
            format!("check that {address_variable} is a server of {wire}, or {ANOTHER}"),
        ),
        _ => (
            format!("the model answered with text instead of a tool call: {}", cut(text)),
            format!("{ANOTHER}, or switch tools on in the server"),
        ),
    }
}

/// The message has the cause; this is where to look.
fn fix(error: &ModelError, service: Service, has_key: bool) -> String {
    let Service { wire, key_variable, address_variable, .. } = service;
    match (error.kind, error.status) {
        (ModelErrorKind::TooLong, _) => {
            "a task needs far more room than this: give the server a larger context".to_owned()
        }
        (_, Some(401 | 403)) if has_key => format!("check the key in {key_variable}"),
        (_, Some(401 | 403)) => format!("set {key_variable}"),
        (_, Some(402)) => "look at the provider's billing page".to_owned(),
        (_, Some(404 | 405)) => format!(
            "the path is wrong or the model unknown: check {address_variable}, and that AGENT_LLM_MODEL \
             is a name that the server lists"
        ),
        (_, Some(400 | 422)) => format!(
            "the server takes no such request of {wire}: it may not know tools, or not the model in \
             AGENT_LLM_MODEL"
        ),
        (ModelErrorKind::Rejected, Some(429)) => "raise the limit with the provider".to_owned(),
        (_, Some(429)) => "wait, or raise the limit with the provider".to_owned(),
        (_, Some(500..)) => "look at the server's log; a later try may succeed".to_owned(),
        (ModelErrorKind::Timeout | ModelErrorKind::Cut, Some(_)) => {
            format!(
                "the server or a proxy in between broke off; look at the log of {address_variable}"
            )
        }
        (_, Some(_)) => format!("this is no server of {wire}; check {address_variable}"),
        (_, None) => format!("check {address_variable} and that the server runs"),
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
    use act_model::{ModelErrorKind, ModelUsage, ToolCall};

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

    fn services() -> [Service; 3] {
        let (base_url, model) = ("http://127.0.0.1:1".to_owned(), "m".to_owned());
        let key = act_core::secret::Secret::new("k");
        [
            ModelAccess::Custom { base_url: base_url.clone(), model: model.clone(), key: None },
            ModelAccess::Anthropic {
                base_url: base_url.clone(),
                model: model.clone(),
                key: key.clone(),
            },
            ModelAccess::OpenAi { base_url, model, key },
        ]
        .map(|access| access.service())
    }

    #[tokio::test]
    async fn a_server_that_says_nothing_is_not_waited_for_long() {
        // DOCTOR-9
        let silent = std::future::pending();
        let answer = in_time(silent, Duration::from_millis(1)).await;
        let check = judge(answer, services()[0], false);
        assert_eq!(check.level, Level::Red);
        assert!(check.message.contains("no answer within"), "{check:?}");
        assert!(check.fix.unwrap().contains("AGENT_LLM_BASE_URL"));
    }

    #[test]
    fn a_call_as_it_was_asked_for_is_fine() {
        // DOCTOR-7
        for service in services() {
            let check = judge(Ok(turn("", Some(("answer", r#"{"word":"ready"}"#)))), service, true);
            assert_eq!(check.level, Level::Ok, "{check:?}");
            assert!(check.message.contains(service.wire), "{check:?}");
        }
    }

    #[test]
    fn everything_else_is_red_and_explained_in_the_words_of_the_wire() {
        // DOCTOR-7
        use ModelErrorKind::{Cut, Malformed, Rejected, TooLong, Transport};
        let failed = |kind, status| ModelError {
            kind,
            message: "the model's server answered".into(),
            status,
            retry_after: None,
        };
        let mut refused = turn("I will not", None);
        refused.stop = Stop::Refused;
        for service in services() {
            let (address, key) = (service.address_variable, service.key_variable);
            let cases = [
                (Ok(turn("{\"name\": \"answer\"}", None)), "as text", "tool parser"),
                (Ok(turn("Hello!", None)), "instead of a tool call", "AGENT_LLM_MODEL"),
                (Ok(turn("", None)), "neither", service.wire),
                (Ok(turn("", Some(("answer", "no json")))), "no json", "AGENT_LLM_MODEL"),
                (Ok(turn("", Some(("shell", "{}")))), "called shell", "schema"),
                (Ok(refused.clone()), "I will not", "AGENT_LLM_MODEL"),
                (Err(failed(Rejected, Some(404))), "answered", address),
                (Err(failed(Rejected, Some(401))), "answered", key),
                (Err(failed(Rejected, Some(400))), "answered", service.wire),
                (Err(failed(TooLong, Some(400))), "answered", "larger context"),
                (Err(failed(Malformed, Some(200))), "answered", service.wire),
                (Err(failed(Cut, Some(200))), "answered", "broke off"),
                (Err(failed(Transport, None)), "answered", address),
            ];
            for (answer, message, fix) in cases {
                let check = judge(answer, service, true);
                assert_eq!(check.level, Level::Red, "{check:?}");
                assert!(check.message.contains(message), "{check:?}");
                assert!(check.fix.as_deref().unwrap().contains(fix), "{fix}: {check:?}");
            }
            // Nobody is sent to the variables of another wire.
            let text = judge(Err(failed(Rejected, Some(401))), service, false).fix.unwrap();
            assert_eq!(text, format!("set {key}"));
        }
    }
}
