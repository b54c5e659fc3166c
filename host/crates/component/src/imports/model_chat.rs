//! `model.chat`: conversations whose history the host holds. The guest sees no key, address or model name.
//!
//! A request leaves the store's thread: the caller's side makes it, so that deadline and cancellation close
//! the connection while the guest waits.

use tokio::sync::oneshot;
use wasmtime::component::Resource;

use super::denied;
use crate::bindings::chat::{
    Host, HostConversation, Stop, Tool, ToolCall, ToolResult, Turn, Usage,
};
use crate::bindings::types::Refusal;
use crate::failure::{Ended, Limit};
use crate::state::State;
use act_model::{Ask, Conversation, ModelError, ModelErrorKind};

/// A reply without a bound of its own may be as long as models write at all. A server may refuse a bound
/// over its model's own, so none is sent as long as the tokens left are more than this.
const LONGEST_REPLY: u32 = 128 << 10;

/// The guest's end of a conversation. None while a request is under way, and where nothing was granted.
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct Chat(Option<Box<dyn Conversation>>);

/// A turn that is wanted; the conversation comes back with the answer.
pub(crate) struct ModelRequest {
    pub(crate) conversation: Box<dyn Conversation>,
    pub(crate) ask: Ask,
    pub(crate) answer:
        oneshot::Sender<(Box<dyn Conversation>, Result<act_model::Turn, ModelError>)>,
}

impl State {
    /// What is put into a conversation stays in the host's memory, so there is an end to it.
    fn keep_text(&mut self, bytes: usize) -> wasmtime::Result<()> {
        let Some(talk) = &mut self.query.talk else { return Ok(()) };
        talk.text_left =
            talk.text_left.checked_sub(bytes as u64).ok_or(Ended::Over(Limit::Conversation))?;
        Ok(())
    }

    fn denied(&mut self) -> Refusal {
        self.query.denials.deny("llm", "model.chat");
        denied("llm")
    }
}

impl Host for State {}

impl HostConversation for State {
    fn new(&mut self, system: String, tools: Vec<Tool>) -> wasmtime::Result<Resource<Chat>> {
        let size = |tool: &Tool| tool.name.len() + tool.description.len() + tool.parameters.len();
        self.keep_text(system.len() + tools.iter().map(size).sum::<usize>())?;
        let tools: Vec<_> = tools.into_iter().map(tool_spec).collect();
        let open =
            self.query.talk.as_ref().map(|talk| talk.model.open(&talk.role, &system, &tools));
        Ok(self.table.push(Chat(open))?)
    }

    fn say(&mut self, chat: Resource<Chat>, text: String) -> wasmtime::Result<()> {
        self.keep_text(text.len())?;
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
        self.keep_text(results.iter().map(|result| result.id.len() + result.content.len()).sum())?;
        let Chat(Some(conversation)) = self.table.get_mut(&chat)? else {
            return Ok(Err(self.denied()));
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
        let spent = match &self.query.talk {
            None => return Ok(Err(self.denied())),
            Some(talk) if talk.calls_left == 0 => Some("llm.calls"),
            Some(talk) if talk.tokens_left == 0 => Some("llm.tokens"),
            Some(_) => None,
        };
        if let Some(limit) = spent {
            self.query.denials.deny(limit, "model.chat");
            return Ok(Err(Refusal::Limit(format!("{limit}: used up"))));
        }
        let (Some(talk), Chat(conversation)) = (&mut self.query.talk, self.table.get_mut(&chat)?)
        else {
            return Ok(Err(self.denied()));
        };
        let Some(conversation) = conversation.take() else { return Ok(Err(self.denied())) };
        talk.calls_left -= 1;
        self.query.usage.model();
        let tokens_left = u32::try_from(talk.tokens_left).unwrap_or(u32::MAX);
        let ask = Ask {
            max_tokens: max_tokens
                .or((tokens_left < LONGEST_REPLY).then_some(tokens_left))
                .map(|most| most.min(tokens_left)),
            output,
            attempt: talk.attempt,
        };
        let (answer, answered) = oneshot::channel();
        // When the caller's side is gone, so is the query.
        talk.requests
            .send(ModelRequest { conversation, ask, answer })
            .await
            .map_err(|_| Ended::Stopped)?;
        let (conversation, turn) = answered.await.map_err(|_| Ended::Stopped)?;
        self.table.get_mut(&chat)?.0 = Some(conversation);
        match turn {
            Ok(turn) => {
                let spent = turn.usage.input.saturating_add(turn.usage.output);
                talk.tokens_left = talk.tokens_left.saturating_sub(spent);
                talk.failed = None;
                self.query.usage.tokens(turn.usage.input, turn.usage.output);
                let call = |call: &act_model::ToolCall| {
                    call.id.len() + call.name.len() + call.arguments.len()
                };
                self.keep_text(turn.text.len() + turn.calls.iter().map(call).sum::<usize>())?;
                Ok(Ok(turn.into()))
            }
            Err(error) => {
                talk.failed = Some(error.clone());
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
        let act_model::ModelUsage { input, cached, output } = turn.usage;
        Self {
            text: turn.text,
            calls: turn.calls.into_iter().map(call).collect(),
            stop,
            usage: Usage { input, cached, output },
        }
    }
}
