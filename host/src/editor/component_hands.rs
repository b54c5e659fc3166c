//! The Editor's hands as a component: its tools, each call in a store of its own, and the writer's record.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::hands::{Answer, ChangedFile, Hands};
use crate::component::{ComponentFailure, GuestFailure, LoadedComponent, Services};
use crate::event::{EventKind, Events};
use crate::model::ToolSpec;
use crate::workspace::RepoWriter;

/// A tool call has this long.
const CALL: Duration = Duration::from_secs(30);

pub struct ComponentHands {
    component: LoadedComponent,
    services: Services,
    writer: Arc<RepoWriter>,
    refused: AtomicU32,
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
        Self { component, services, writer, refused: AtomicU32::new(0) }
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

    /// A refused edit is a fact of the task, not only of the conversation.
    fn note_refusal(&self, tool: &str, arguments: &str, answer: &Answer) {
        const READING: [&str; 3] = ["list", "read", "search"];
        if READING.contains(&tool) {
            return;
        }
        let Ok(told) = serde_json::from_str::<serde_json::Value>(&answer.json) else { return };
        if told.get("ok") != Some(&serde_json::Value::Bool(false)) {
            return;
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        let asked = serde_json::from_str::<serde_json::Value>(arguments).unwrap_or_default();
        let text = |of: &serde_json::Value, names: &[&str]| {
            names.iter().find_map(|name| of.get(name)?.as_str()).unwrap_or_default().to_owned()
        };
        self.services.events.emit(EventKind::EditRefused {
            path: text(&asked, &["path", "from"]),
            op: tool.to_owned(),
            reason: text(&told, &["reason"]),
        });
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
        Box::pin(async move {
            let answer = self.perform(tool, arguments, cancel).await;
            self.note_refusal(tool, arguments, &answer);
            answer
        })
    }

    fn refused(&self) -> u32 {
        self.refused.load(Ordering::Relaxed)
    }

    fn changed(&self) -> Vec<ChangedFile> {
        self.writer.changed().into_iter().map(changed_file).collect()
    }
}

fn changed_file(file: crate::workspace::ChangedFile) -> ChangedFile {
    let op = match (&file.sha256_before, &file.sha256_now) {
        (None, _) => "created",
        (_, None) => "deleted",
        _ => "changed",
    };
    ChangedFile {
        path: file.path,
        op: op.to_owned(),
        sha256: file.sha256_now,
        guarded: file.guarded,
    }
}
