//! The Editor's hands as components: the file tools, and any others under names of their own; each call in a store
//! of its own, and one record of what was written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::hands::{Answer, Hands};
use super::refused_edit::{RefusedEdit, refused_edit};
use act_component::{ComponentFailure, GuestFailure, HostContext, ToolComponent};
use act_core::event::{EventKind, Events};
use act_model::{Model, ToolSpec};
use act_workspace::{ChangedFile, FileText, RepoWriter, Untested};

/// A tool call has this long.
const CALL: Duration = Duration::from_secs(30);
/// Between the name of a component and that of its tool. No component has it in its name.
const JOINT: &str = "__";

pub struct ComponentHands {
    /// Its tools have plain names.
    files: ToolComponent,
    others: Vec<ToolComponent>,
    model: Option<Arc<dyn Model>>,
    services: HostContext,
    writer: Arc<RepoWriter>,
}

impl ComponentHands {
    pub fn new(files: ToolComponent, writer: Arc<RepoWriter>, events: Events) -> Self {
        let services = HostContext {
            view: Some(writer.view().clone()),
            versions: Some(writer.versions().clone()),
            writer: Some(Arc::clone(&writer)),
            model: None,
            attempt: 1,
            events,
        };
        Self { files, others: vec![], model: None, services, writer }
    }

    /// With more tools, as `NAME__TOOL`, and the model for those to whom it was granted.
    #[must_use]
    pub fn with(mut self, others: Vec<ToolComponent>, model: Arc<dyn Model>) -> Self {
        (self.others, self.model) = (others, Some(model));
        self
    }

    /// Refusals of the writer were counted and told where they happened; those of the tool itself are here.
    async fn perform(&self, tool: &str, arguments: &str, cancel: &CancellationToken) -> Answer {
        if let Some((name, tool)) = tool.split_once(JOINT)
            && let Some(other) = self.others.iter().find(|other| other.manifest.name == name)
        {
            return self.ask(other, tool, arguments, cancel).await;
        }
        let before = self.writer.refused();
        let answer = self.ask(&self.files, tool, arguments, cancel).await;
        if answer.is_error
            && !cancel.is_cancelled()
            && before == self.writer.refused()
            && let Some(refused) = refused_edit(tool, arguments, &answer.json)
        {
            self.writer.refuse(refused.reason);
            let RefusedEdit { path, op, reason } = refused;
            self.files.record_refused_edit(&path, op, reason);
            let (op, reason) = (op.to_owned(), reason.to_owned());
            self.services.events.emit(EventKind::EditRefused { path, op, reason });
        }
        answer
    }

    async fn ask(
        &self,
        component: &ToolComponent,
        tool: &str,
        arguments: &str,
        cancel: &CancellationToken,
    ) -> Answer {
        let role = component.manifest.name.clone();
        let model = self.model.as_ref().map(|model| (Arc::clone(model), role));
        let services = HostContext { model, ..self.services.clone() };
        match component.call(tool, arguments, services, CALL, cancel).await {
            Ok(outcome) => Answer::said(outcome.text, outcome.is_error),
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
        let plain = self.files.manifest.tools.iter().cloned();
        let others = self.others.iter().flat_map(|other| {
            let name = &other.manifest.name;
            other.manifest.tools.iter().map(move |tool| ToolSpec {
                name: format!("{name}{JOINT}{}", tool.name),
                ..tool.clone()
            })
        });
        plain.chain(others).collect()
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

    fn untested(&self) -> Vec<Untested> {
        self.writer.untested()
    }

    fn refused(&self) -> BTreeMap<String, u64> {
        let refused = self.writer.refused().into_iter();
        refused.map(|(rule, count)| (rule.to_owned(), count)).collect()
    }
}
