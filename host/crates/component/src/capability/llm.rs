//! The capability `llm`: conversations with the configured model, through `model.chat`. The host holds the history, and
//! the component sees no key, no address and no name of a model.
//!
//! A request leaves the thread of the call: the caller's side makes it, so that a deadline or a cancellation closes
//! the connection while the component waits.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use wasmtime::component::{HasSelf, Linker, Resource};

use super::{Access, Capability, Grant, Import, Metered};
use crate::bindings::chat::{
    self, Host, HostConversation, Stop, Tool, ToolCall, ToolResult, Turn, Usage,
};
use crate::bindings::refusal_text;
use crate::bindings::types::Refusal;
use crate::bounds::{at_most, bounds};
use crate::call::State;
use crate::failure::{Ended, Limit};
use crate::limits::Limits;
use crate::meter::{Count, Meter};
use act_model::{Ask, Conversation, Model, ModelError, ModelErrorKind};

/// Longest reply of any model, in tokens. While more are left, a request without a bound of its own is sent without
/// one, because a server may refuse a bound above that of its model.
const LONGEST_REPLY: u32 = 128 << 10;

bounds! {
    /// Conversations with the configured model. The defaults are enough for the longest question to a built-in Scout.
    pub struct Llm, ceiling LlmCeiling {
        #[serde(deserialize_with = "at_most::<10_000, _, _>")]
        calls: u32 = 32;
        /// Tokens of one call, input and output together.
        #[serde(deserialize_with = "at_most::<1_000_000_000, _, _>")]
        tokens: u64 = 1_000_000;
    }
}

pub(crate) struct Rules;

impl super::Rules for Rules {
    type Bounds = Option<Llm>;
    type Ceiling = LlmCeiling;
    type Meters = LlmMeters;
    const MEANING: &'static str = "asks your model, within limits for each query";
    const IS_TABLE: bool = true;

    fn meters(llm: &Option<Llm>, limits: &Limits) -> LlmMeters {
        let (calls, tokens) = llm.as_ref().map_or((0, 0), |llm| (u64::from(llm.calls), llm.tokens));
        LlmMeters {
            calls: Meter::new("llm.calls", calls),
            tokens: Meter::new("llm.tokens", tokens),
            text: Meter::new("llm.text", limits.host_call_bytes.saturating_mul(2)),
            input: Count::default(),
            output: Count::default(),
        }
    }

    fn is_behind(import: &Import<'_>) -> bool {
        import.interface == "agentcommand:model/chat"
    }

    fn usual() -> Option<Llm> {
        Some(Llm::default())
    }

    fn in_words(llm: &Option<Llm>) -> Option<String> {
        llm.as_ref().map(|llm| format!("({} calls, {} tokens)", llm.calls, llm.tokens))
    }

    fn covers(grant: &Grant, _access: &Access) -> bool {
        grant.llm.is_some()
    }

    fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
        chat::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
    }
}

#[derive(Debug)]
pub(crate) struct LlmMeters {
    pub(crate) calls: Meter,
    pub(crate) tokens: Meter,
    /// Bytes of text in conversations. They stay in the host's memory until the call ends.
    text: Meter,
    input: Count,
    output: Count,
}

impl Metered for LlmMeters {
    fn is_used(&self) -> bool {
        self.calls.used() > 0
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("model_calls", self.calls.used()),
            ("tokens_in", self.input.get()),
            ("tokens_out", self.output.get()),
        ]
    }
}

impl LlmMeters {
    /// Counts what one request to the model cost.
    pub(crate) fn spend(&self, input: u64, output: u64) {
        self.tokens.spend(input.saturating_add(output));
        self.input.add(input);
        self.output.add(output);
    }
}

/// The model that one call may talk to.
pub(crate) struct ModelSession {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) role: String,
    pub(crate) attempt: u32,
    pub(crate) requests: mpsc::Sender<ModelRequest>,
    /// The error of the last request, if it failed.
    pub(crate) failed: Option<ModelError>,
}

/// The component's end of a conversation. `None` while a request is under way, and without a grant.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct Chat(Option<Box<dyn Conversation>>);

/// A request for the next turn. The conversation returns with the answer.
pub(crate) struct ModelRequest {
    pub(crate) conversation: Box<dyn Conversation>,
    pub(crate) ask: Ask,
    pub(crate) answer:
        oneshot::Sender<(Box<dyn Conversation>, Result<act_model::Turn, ModelError>)>,
}

impl State {
    /// Counts text that the host holds for conversations, and ends the component when it is too much.
    fn hold_text(&mut self, bytes: usize) -> wasmtime::Result<()> {
        if self.call.model.is_some() && !self.call.meters.llm.text.take(bytes as u64) {
            return Err(Ended::Over(Limit::Conversation).into());
        }
        Ok(())
    }

    fn no_model(&mut self) -> Refusal {
        self.call.refuse(Capability::Llm, "model.chat")
    }
}

impl Host for State {}

impl HostConversation for State {
    fn new(&mut self, system: String, tools: Vec<Tool>) -> wasmtime::Result<Resource<Chat>> {
        let size = |tool: &Tool| tool.name.len() + tool.description.len() + tool.parameters.len();
        self.hold_text(system.len() + tools.iter().map(size).sum::<usize>())?;
        let tools: Vec<_> = tools.into_iter().map(tool_spec).collect();
        let open = self
            .call
            .model
            .as_ref()
            .map(|session| session.model.open(&session.role, &system, &tools));
        Ok(self.table.push(Chat(open))?)
    }

    fn say(&mut self, chat: Resource<Chat>, text: String) -> wasmtime::Result<()> {
        self.hold_text(text.len())?;
        if let Chat(Some(conversation)) = self.table.get_mut(&chat)? {
            conversation.say(&text);
        }
        Ok(())
    }

    fn answer(
        &mut self,
        chat: Resource<Chat>,
        results: Vec<ToolResult>,
    ) -> wasmtime::Result<Result<(), Refusal>> {
        self.hold_text(results.iter().map(|result| result.id.len() + result.content.len()).sum())?;
        let Chat(Some(conversation)) = self.table.get_mut(&chat)? else {
            return Ok(Err(self.no_model()));
        };
        let results = results.into_iter().map(tool_result).collect();
        Ok(conversation.answer(results).map_err(refusal))
    }

    async fn next(
        &mut self,
        chat: Resource<Chat>,
        max_tokens: Option<u32>,
        output: Option<String>,
    ) -> wasmtime::Result<Result<Turn, Refusal>> {
        if self.call.model.is_none() {
            return Ok(Err(self.no_model()));
        }
        let meters = Arc::clone(&self.call.meters);
        let meters = &meters.llm;
        let spent = [&meters.calls, &meters.tokens].into_iter().find(|meter| meter.left() == 0);
        if let Some(meter) = spent {
            self.call.used_up(meter, "model.chat");
            return Ok(Err(Refusal::Limit(refusal_text(meter.name(), "used up"))));
        }
        let (Some(session), Chat(conversation)) =
            (&mut self.call.model, self.table.get_mut(&chat)?)
        else {
            return Ok(Err(self.no_model()));
        };
        let Some(conversation) = conversation.take() else { return Ok(Err(self.no_model())) };
        meters.calls.spend(1);
        let tokens_left = u32::try_from(meters.tokens.left()).unwrap_or(u32::MAX);
        let ask = Ask {
            max_tokens: max_tokens
                .or((tokens_left < LONGEST_REPLY).then_some(tokens_left))
                .map(|most| most.min(tokens_left)),
            output,
            attempt: session.attempt,
        };
        let (answer, answered) = oneshot::channel();
        // The receiver is dropped when the call is over for its caller.
        session
            .requests
            .send(ModelRequest { conversation, ask, answer })
            .await
            .map_err(|_| Ended::Stopped)?;
        let (conversation, turn) = answered.await.map_err(|_| Ended::Stopped)?;
        self.table.get_mut(&chat)?.0 = Some(conversation);
        match turn {
            Ok(turn) => {
                session.failed = None;
                meters.spend(turn.usage.input, turn.usage.output);
                let call = |call: &act_model::ToolCall| {
                    call.id.len() + call.name.len() + call.arguments.len()
                };
                self.hold_text(turn.text.len() + turn.calls.iter().map(call).sum::<usize>())?;
                Ok(Ok(turn.into()))
            }
            Err(error) => {
                session.failed = Some(error.clone());
                Ok(Err(refusal(error)))
            }
        }
    }

    fn drop(&mut self, chat: Resource<Chat>) -> wasmtime::Result<()> {
        self.table.delete(chat)?;
        Ok(())
    }
}

fn refusal(error: ModelError) -> Refusal {
    match error.kind {
        ModelErrorKind::Misused => Refusal::Invalid(error.message),
        _ => Refusal::Failed(error.message),
    }
}

fn tool_spec(tool: Tool) -> act_model::ToolSpec {
    act_model::ToolSpec {
        name: tool.name,
        description: tool.description,
        parameters: tool.parameters,
    }
}

fn tool_result(result: ToolResult) -> act_model::ToolResult {
    act_model::ToolResult { id: result.id, content: result.content, is_error: result.is_error }
}

impl From<act_model::Turn> for Turn {
    fn from(turn: act_model::Turn) -> Self {
        let stop = match turn.stop {
            act_model::Stop::Done => Stop::Done,
            act_model::Stop::Tools => Stop::Tools,
            act_model::Stop::Length => Stop::Length,
            act_model::Stop::Refused => Stop::Refused,
        };
        let call = |call: act_model::ToolCall| ToolCall {
            id: call.id,
            name: call.name,
            arguments: call.arguments,
        };
        let act_model::ModelUsage { input, cached, output, .. } = turn.usage;
        Self {
            text: turn.text,
            calls: turn.calls.into_iter().map(call).collect(),
            stop,
            usage: Usage { input, cached, output },
        }
    }
}
