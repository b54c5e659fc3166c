//! One conversation: what may be said when, and the request for the next turn.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::Target;
use super::history::History;
use super::stream::Stream;
use crate::model::http::Request;
use crate::model::{Ask, Conversation, ModelError, ToolResult, ToolSpec, Turn};

pub(super) struct Chat {
    target: Arc<Target>,
    role: String,
    /// An error when the tools cannot be offered; told by the first `next`.
    history: Result<History, ModelError>,
    /// Ids of the last turn's calls that wait for their answers.
    open: Vec<String>,
    /// What was said before the answers were in: results come right behind their calls.
    held: Vec<String>,
    /// How many ids had to be invented so far.
    invented: u64,
}

impl Chat {
    pub(super) fn new(target: Arc<Target>, role: &str, system: &str, tools: &[ToolSpec]) -> Self {
        let history = History::new(&target.model, role, system, tools);
        Self { target, role: role.to_owned(), history, open: vec![], held: vec![], invented: 0 }
    }
}

impl Conversation for Chat {
    fn say(&mut self, text: &str) {
        if !self.open.is_empty() {
            self.held.push(text.to_owned());
        } else if let Ok(history) = &mut self.history {
            history.add("user", None, text);
        }
    }

    fn answer(&mut self, results: Vec<ToolResult>) -> Result<(), ModelError> {
        let history = self.history.as_mut().map_err(|error| error.clone())?;
        let unknown = results.iter().find(|result| !self.open.contains(&result.id));
        if let Some(result) = unknown {
            return Err(ModelError::misused(format!("no call {} waits for an answer", result.id)));
        }
        // Found for every call, with equal numbers: each is answered exactly once.
        let ordered: Option<Vec<_>> =
            self.open.iter().map(|id| results.iter().find(|result| &result.id == id)).collect();
        let Some(ordered) = ordered.filter(|ordered| ordered.len() == results.len()) else {
            return Err(ModelError::misused("every call of the turn needs exactly one answer"));
        };
        for result in ordered {
            // The wire has no place for `is_error`; the content says it.
            history.add("tool", Some(&result.id), &result.content);
        }
        for text in self.held.drain(..) {
            history.add("user", None, &text);
        }
        self.open.clear();
        Ok(())
    }

    fn next<'a>(
        &'a mut self,
        ask: Ask,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Turn, ModelError>> {
        Box::pin(async move {
            let history = self.history.as_mut().map_err(|error| error.clone())?;
            if !self.open.is_empty() {
                return Err(ModelError::misused("the calls of the last turn are not answered"));
            }
            let request = Request {
                role: &self.role,
                attempt: ask.attempt.max(1),
                url: &self.target.url,
                headers: self.target.headers(),
                key: self.target.key_source(),
                body: history.body(&ask)?,
            };
            let mut stream = Stream::default();
            self.target.http.exchange(request, &mut stream, cancel).await?;
            let reply = stream
                .reply(&mut self.invented)
                .map_err(|error| self.target.http.presentable(error))?;
            if let Some(message) = &reply.message {
                history.add_raw(message);
            }
            self.open = reply.turn.calls.iter().map(|call| call.id.clone()).collect();
            Ok(reply.turn)
        })
    }
}
