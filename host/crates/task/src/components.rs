//! Implements the Editor's traits for components: a Scout, and the tools.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use act_agent::editor::{Answer, Called, Session, Tool};
use act_agent::scout::{QueryFailure, Question, Scout};
use act_component::{
    BackgroundIndexing, ComponentFailure, GuestFailure, ScoutComponent, ScoutQuestion, Services,
    ToolComponent,
};
use act_core::event::Events;
use act_model::{Model, ModelErrorKind, ToolSpec};
use act_workspace::RepoWriter;

/// A Scout in a component, behind the trait of the agent crate.
pub struct ComponentScout {
    name: String,
    component: ScoutComponent,
    services: Services,
    about: Option<String>,
    /// The time limit of the component's own computing, and of each request to the model.
    wall: Duration,
    /// Indexes the files that the first question left, until the task ends.
    indexing: OnceLock<Option<BackgroundIndexing>>,
}

impl ComponentScout {
    pub fn new(name: &str, component: ScoutComponent, services: Services, wall: Duration) -> Self {
        let (name, indexing) = (name.to_owned(), OnceLock::new());
        Self { name, component, services, about: None, wall, indexing }
    }

    /// Introduces the Scout to the Editor with the description of its author. The two Scouts that every Editor knows
    /// need no introduction.
    #[must_use]
    pub fn introduced(mut self) -> Self {
        self.about = Some(self.component.manifest.about.clone());
        self
    }
}

impl Scout for ComponentScout {
    fn name(&self) -> &str {
        &self.name
    }

    fn sha256(&self) -> &str {
        &self.component.sha256
    }

    fn about(&self) -> Option<&str> {
        self.about.as_deref()
    }

    fn ask<'a>(
        &'a self,
        question: &'a Question,
        attempt: u32,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, QueryFailure>> {
        Box::pin(async move {
            let mut context = question.context.clone();
            let (text, facts_only) = (question.text.clone(), question.facts_only);
            if facts_only {
                context.push(("form".to_owned(), "report".to_owned()));
            }
            let asked = ScoutQuestion { text, context, facts_only };
            let services = Services { attempt, ..self.services.clone() };
            let answer = self.component.ask(asked, services, self.wall, cancel).await;
            self.indexing
                .get_or_init(|| self.component.index_in_background(self.services.view.as_ref()?));
            answer.map_err(|ended| failure(ended, facts_only))
        })
    }
}

fn failure(failure: ComponentFailure, facts_only: bool) -> QueryFailure {
    let is_unfit = match &failure {
        // A Scout without a report of facts refuses the question itself.
        ComponentFailure::Guest(_) if facts_only => true,
        ComponentFailure::Guest(GuestFailure::Model(_)) => true,
        _ => false,
    };
    QueryFailure {
        is_unfit,
        message: failure.to_string(),
        hint: failure.hint(),
        is_retryable: failure.is_retryable(),
        retry_after: failure.retry_after(),
        cancelled: matches!(failure, ComponentFailure::Cancelled),
        budget_spent: matches!(
            &failure,
            ComponentFailure::Model(error) if error.kind == ModelErrorKind::Budget
        ),
    }
}

/// Separates the name of a component from the name of its tool. The name of a component never contains it.
const SEPARATOR: &str = "__";

/// Returns the tools of the file tools, then those of the other components. Only the arguments of the file tools are
/// scoped to the package of a task.
pub(super) fn component_tools(
    files: ToolComponent,
    others: Vec<ToolComponent>,
    writer: &Arc<RepoWriter>,
    model: &Arc<dyn Model>,
    events: &Events,
) -> Vec<Arc<dyn Tool>> {
    let services = |component: &ToolComponent| Services {
        view: Some(writer.view().clone()),
        versions: Some(writer.versions().clone()),
        writer: Some(Arc::clone(writer)),
        model: Some((Arc::clone(model), component.manifest.name.clone())),
        attempt: 1,
        events: events.clone(),
    };
    let tools_of = |component: ToolComponent, is_file_tools: bool| {
        let (services, component) = (services(&component), Arc::new(component));
        let prefix = match is_file_tools {
            true => String::new(),
            false => format!("{}{SEPARATOR}", component.manifest.name),
        };
        let tools = component.manifest.tools.clone().into_iter();
        let tools = tools.map(move |spec| {
            let tool = spec.name.clone();
            let spec = ToolSpec { name: format!("{prefix}{tool}"), ..spec };
            let (component, services) = (Arc::clone(&component), services.clone());
            Arc::new(ComponentTool { spec, tool, component, services, is_file_tools })
                as Arc<dyn Tool>
        });
        tools.collect::<Vec<_>>()
    };
    let mut tools = tools_of(files, true);
    tools.extend(others.into_iter().flat_map(|other| tools_of(other, false)));
    tools
}

struct ComponentTool {
    /// The specification that the model gets.
    spec: ToolSpec,
    /// The name of the tool in its component.
    tool: String,
    component: Arc<ToolComponent>,
    services: Services,
    is_file_tools: bool,
}

impl Tool for ComponentTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn may_edit(&self) -> bool {
        let component = &self.component;
        component.grant.repo_write && !component.manifest.read_only.contains(&self.tool)
    }

    fn call<'a>(&'a self, arguments: &'a str, session: &'a Session<'_>) -> BoxFuture<'a, Called> {
        let (cancel, package) = (session.cancel(), session.package());
        async move {
            if !self.is_file_tools {
                return self.answer(arguments, cancel).await.into();
            }
            let arguments = scoped(package, &self.tool, arguments);
            self.answer(&arguments, cancel).await.into()
        }
        .boxed()
    }
}

impl ComponentTool {
    async fn answer(&self, arguments: &str, cancel: &CancellationToken) -> Answer {
        // The grant bounds the time, 30 s unless the user approved another number.
        let (services, wall) = (self.services.clone(), self.component.grant.limits.wall);
        match self.component.call(&self.tool, arguments, services, wall, cancel).await {
            Ok(outcome) => Answer::from_component(outcome.text, outcome.is_error),
            Err(ComponentFailure::Guest(GuestFailure::BadArguments(why))) => {
                Answer::refusal("bad_arguments", &why)
            }
            Err(ComponentFailure::Guest(GuestFailure::UnknownTool)) => {
                Answer::refusal("unknown_tool", &format!("there is no tool {}", self.tool))
            }
            Err(failure) => Answer::refusal("tool_failed", &failure.to_string()),
        }
    }
}

/// Returns the arguments of a file tool in a task that is scoped to a package: `list` and `search` mean the package
/// unless the model names a place. The tool itself refuses text that is not a JSON object.
fn scoped<'a>(package: Option<&str>, tool: &str, arguments: &'a str) -> Cow<'a, str> {
    let Some(package) = package else { return arguments.into() };
    let text = if arguments.trim().is_empty() { "{}" } else { arguments };
    let scoped = match tool {
        "list" => list_in(package, text),
        "search" => search_in(package, text),
        _ => None,
    };
    scoped.map_or_else(|| arguments.into(), Cow::Owned)
}

/// The arguments of `list`, as far as a package changes them.
#[derive(Serialize, Deserialize)]
struct ListArguments {
    #[serde(flatten)]
    others: Map<String, Value>,
    path: Option<String>,
}

/// The arguments of `search`, as far as a package changes them.
#[derive(Serialize, Deserialize)]
struct SearchArguments {
    #[serde(flatten)]
    others: Map<String, Value>,
    glob: Option<String>,
}

/// Returns the arguments of `list` in a package, or `None` where they stay as they are.
fn list_in(package: &str, arguments: &str) -> Option<String> {
    let mut list: ListArguments = serde_json::from_str(arguments).ok()?;
    if list.path.is_some() {
        return None;
    }
    list.path = Some(package.to_owned());
    serde_json::to_string(&list).ok()
}

/// Returns the arguments of `search` in a package, or `None` where they stay as they are.
fn search_in(package: &str, arguments: &str) -> Option<String> {
    let mut search: SearchArguments = serde_json::from_str(arguments).ok()?;
    let package = globset::escape(package);
    search.glob = Some(match search.glob {
        None => format!("/{package}"),
        Some(glob) if names_a_place(&glob) => return None,
        Some(glob) => format!("/{package}/**/{}", glob.strip_prefix("**/").unwrap_or(&glob)),
    });
    serde_json::to_string(&search).ok()
}

/// Returns whether a glob names a place: a `/` makes it a path from the root, except in a leading `**/`, which means
/// any depth.
fn names_a_place(glob: &str) -> bool {
    glob.strip_prefix("**/").unwrap_or(glob).trim_end_matches('/').contains('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EDITOR-15
    #[test]
    fn the_package_is_meant_where_no_place_is_named() {
        for (tool, arguments, expected) in [
            ("list", "", r#"{"path":"packages/core"}"#),
            ("list", r#"{"path":null}"#, r#"{"path":"packages/core"}"#),
            ("list", r#"{"path":"."}"#, r#"{"path":"."}"#),
            ("list", r#"{"path":"docs"}"#, r#"{"path":"docs"}"#),
            ("search", r#"{"pattern":"x"}"#, r#"{"pattern":"x","glob":"/packages/core"}"#),
            (
                "search",
                r#"{"pattern":"x","glob":"*.rs"}"#,
                r#"{"pattern":"x","glob":"/packages/core/**/*.rs"}"#,
            ),
            (
                "search",
                r#"{"pattern":"x","glob":"**/*.rs"}"#,
                r#"{"pattern":"x","glob":"/packages/core/**/*.rs"}"#,
            ),
            ("search", r#"{"glob":"docs/**"}"#, r#"{"glob":"docs/**"}"#),
            ("search", r#"{"glob":"/docs"}"#, r#"{"glob":"/docs"}"#),
            ("search", r#"{"glob":"**/docs/*.md"}"#, r#"{"glob":"**/docs/*.md"}"#),
            ("search", "no json", "no json"),
            ("search", r#"{"glob":5}"#, r#"{"glob":5}"#),
            ("list", r#"{"path":["a"]}"#, r#"{"path":["a"]}"#),
            ("read", "{}", "{}"),
        ] {
            assert_eq!(scoped(Some("packages/core"), tool, arguments), expected, "{arguments}");
            assert_eq!(scoped(None, tool, arguments), arguments);
        }
        assert_eq!(scoped(Some("a[b]"), "search", "{}"), r#"{"glob":"/a[[]b[]]"}"#);
    }
}
