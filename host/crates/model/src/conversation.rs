//! One conversation over any wire: the order of texts, calls and results, and one request for each turn.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::client::Endpoint;
use super::http::Request;
use super::wire::{Limits, Offer, Opening, Prompt, compact};
use super::{Ask, Conversation, ModelError, ToolResult, ToolSpec, Turn};

pub(super) struct WireConversation {
    endpoint: Arc<Endpoint>,
    role: String,
    /// An error when the tools cannot be offered. The first `next` returns it.
    prompt: Result<Box<dyn Prompt>, ModelError>,
    /// The ids of the last turn's calls, until their results arrive.
    unanswered: Vec<String>,
    /// Texts of the user role that arrived before the results. The wires require results directly after their calls.
    deferred: Vec<String>,
    /// Number of call ids that this side invented so far.
    invented: u64,
}

impl WireConversation {
    pub(super) fn new(
        endpoint: Arc<Endpoint>,
        role: &str,
        system: &str,
        tools: &[ToolSpec],
    ) -> Self {
        let prompt = offers(tools).map(|tools| {
            let system = format!("act role: {role}\n{system}");
            let opening = Opening { model: &endpoint.model, role, system: &system, tools: &tools };
            endpoint.wire.prompt(&opening)
        });
        Self {
            endpoint,
            role: role.to_owned(),
            prompt,
            unanswered: vec![],
            deferred: vec![],
            invented: 0,
        }
    }
}

fn offers(tools: &[ToolSpec]) -> Result<Vec<Offer<'_>>, ModelError> {
    let mut offers = vec![];
    for ToolSpec { name, description, parameters } in tools {
        let schema = compact(parameters)
            .ok_or_else(|| ModelError::misused(format!("the schema of tool {name} is not JSON")))?;
        offers.push(Offer { name, description, schema });
    }
    Ok(offers)
}

fn limits(ask: &Ask) -> Result<Limits, ModelError> {
    let schema = |text: &String| {
        compact(text).ok_or_else(|| ModelError::misused("the output schema is not JSON"))
    };
    let output = ask.output.as_ref().map(schema).transpose()?;
    Ok(Limits { max_tokens: ask.max_tokens, output })
}

impl Conversation for WireConversation {
    fn say(&mut self, text: &str) {
        if !self.unanswered.is_empty() {
            self.deferred.push(text.to_owned());
        } else if let Ok(prompt) = &mut self.prompt {
            prompt.user(text);
        }
    }

    fn answer(&mut self, results: Vec<ToolResult>) -> Result<(), ModelError> {
        let prompt = self.prompt.as_mut().map_err(|error| error.clone())?;
        let unknown = results.iter().find(|result| !self.unanswered.contains(&result.id));
        if let Some(result) = unknown {
            return Err(ModelError::misused(format!("no call {} waits for an answer", result.id)));
        }
        // Every call has a result and the numbers are equal, so each call is answered exactly once.
        let ordered: Option<Vec<_>> = self
            .unanswered
            .iter()
            .map(|id| results.iter().find(|result| &result.id == id))
            .collect();
        let Some(ordered) = ordered.filter(|ordered| ordered.len() == results.len()) else {
            return Err(ModelError::misused("every call of the turn needs exactly one answer"));
        };
        prompt.results(&ordered);
        for text in self.deferred.drain(..) {
            prompt.user(&text);
        }
        self.unanswered.clear();
        Ok(())
    }

    fn next<'a>(
        &'a mut self,
        ask: Ask,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Turn, ModelError>> {
        Box::pin(async move {
            let endpoint = &self.endpoint;
            let prompt = self.prompt.as_mut().map_err(|error| error.clone())?;
            if !self.unanswered.is_empty() {
                return Err(ModelError::misused("the calls of the last turn are not answered"));
            }
            let headers = endpoint.headers(cancel).await?;
            let request = Request {
                role: &self.role,
                attempt: ask.attempt.max(1),
                url: &endpoint.url,
                headers,
                service: endpoint.service,
                has_key: endpoint.has_key(),
                body: prompt.body(&limits(&ask)?),
            };
            let stream = endpoint.wire.stream();
            let reply = endpoint.http.exchange(request, stream, &mut self.invented, cancel).await?;
            if !reply.assistant_items.is_empty() {
                prompt.assistant(reply.assistant_items);
            }
            self.unanswered = reply.turn.calls.iter().map(|call| call.id.clone()).collect();
            Ok(reply.turn)
        })
    }
}
