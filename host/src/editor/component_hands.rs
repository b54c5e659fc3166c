//! The Editor's hands as a component: its tools, each call in a store of its own, and the writer's record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::hands::{Answer, Hands};
use super::refused_edit::{RefusedEdit, refused_edit};
use crate::component::{ComponentFailure, GuestFailure, LoadedComponent, Services};
use crate::event::{EventKind, Events};
use crate::model::ToolSpec;
use crate::workspace::{ChangedFile, FileText, RepoWriter};

/// A tool call has this long.
const CALL: Duration = Duration::from_secs(30);

pub struct ComponentHands {
    component: LoadedComponent,
    services: Services,
    writer: Arc<RepoWriter>,
}

impl ComponentHands {
    pub fn new(component: LoadedComponent, writer: Arc<RepoWriter>, events: Events) -> Self {
        let services = Services {
            view: Some(writer.view().clone()),
            versions: Some(writer.versions().clone()),
            writer: Some(Arc::clone(&writer)),
            model: None,
            attempt: 1,
            events,
        };
        Self { component, services, writer }
    }

    /// Refusals of the writer were counted and told where they happened; those of the tool itself are here.
    async fn perform(&self, tool: &str, arguments: &str, cancel: &CancellationToken) -> Answer {
        let before = self.writer.refused();
        let answer = self.ask(tool, arguments, cancel).await;
        if answer.is_error
            && !cancel.is_cancelled()
            && before == self.writer.refused()
            && let Some(refused) = refused_edit(tool, arguments, &answer.json)
        {
            self.writer.refuse(refused.reason);
            let RefusedEdit { path, op, reason } = refused;
            self.component.tell_refused_edit(&path, op, reason);
            let (op, reason) = (op.to_owned(), reason.to_owned());
            self.services.events.emit(EventKind::EditRefused { path, op, reason });
        }
        answer
    }

    async fn ask(&self, tool: &str, arguments: &str, cancel: &CancellationToken) -> Answer {
        let services = self.services.clone();
        match self.component.call(tool, arguments, services, CALL, cancel).await {
            Ok(outcome) => Answer { json: outcome.text, is_error: outcome.is_error },
            Err(ComponentFailure::Guest(GuestFailure::BadArguments(why))) => {
                Answer::refusal("bad_arguments", &why)
            }
            Err(ComponentFailure::Guest(GuestFailure::UnknownTool)) => {
                Answer::refusal("unknown_tool", &format!("there is no tool {tool}"))
            }
            Err(failure) => Answer::refusal("tool_failed", &failure.to_string()),
        }
    }
}

impl Hands for ComponentHands {
    fn tools(&self) -> Vec<ToolSpec> {
        let tools = self.component.manifest.tools.iter();
        tools
            .map(|tool| ToolSpec {
                name: tool.name.clone(),
                description: tool.description.clone(),
                parameters: tool.parameters.to_string(),
            })
            .collect()
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: &'a str,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Answer> {
        Box::pin(self.perform(tool, arguments, cancel))
    }

    fn changed(&self) -> Vec<ChangedFile> {
        self.writer.changed()
    }

    fn text(&self, path: &str) -> FileText {
        self.writer.text(path)
    }

    fn refused(&self) -> BTreeMap<String, u64> {
        let refused = self.writer.refused().into_iter();
        refused.map(|(rule, count)| (rule.to_owned(), count)).collect()
    }
}
