//! The Editor's hands as a component: its tools, each call in a store of its own, and the writer's record.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::hands::{Answer, Hands};
use crate::component::{ComponentFailure, GuestFailure, LoadedComponent, Services};
use crate::event::Events;
use crate::model::ToolSpec;
use crate::workspace::{ChangedFile, RepoWriter};

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

    async fn perform(&self, tool: &str, arguments: &str, cancel: &CancellationToken) -> Answer {
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
}
