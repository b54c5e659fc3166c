//! The tools of components as the Editor's model calls them: the file tools under their plain names, any others as
//! `NAME__TOOL`. Each call runs in a store of its own.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use act_agent::editor::{Abort, Answer, Session, Tool, ToolOutput};
use act_component::{ComponentFailure, GuestFailure, HostContext, ToolComponent};
use act_core::event::{EventKind, Events};
use act_model::{Model, ToolSpec};
use act_workspace::RepoWriter;

/// The time that one call may take.
const CALL: Duration = Duration::from_secs(30);
/// Separates the name of a component from that of its tool. No component has it in its name.
const SEPARATOR: &str = "__";

/// The tools of the file tools, then those of the others. Only the file tools may be scoped to a package, and a refusal of
/// theirs counts as a refused edit.
pub(super) fn component_tools(
    files: ToolComponent,
    others: Vec<ToolComponent>,
    writer: &Arc<RepoWriter>,
    model: &Arc<dyn Model>,
    events: &Events,
) -> Vec<Arc<dyn Tool>> {
    let services = |component: &ToolComponent| HostContext {
        view: Some(writer.view().clone()),
        versions: Some(writer.versions().clone()),
        writer: Some(Arc::clone(writer)),
        model: Some((Arc::clone(model), component.manifest.name.clone())),
        attempt: 1,
        events: events.clone(),
    };
    let tools_of = |component: ToolComponent, edits_files: bool| {
        let (services, component) = (services(&component), Arc::new(component));
        let prefix = match edits_files {
            true => String::new(),
            false => format!("{}{SEPARATOR}", component.manifest.name),
        };
        let tools = component.manifest.tools.clone().into_iter();
        let tools = tools.map(move |spec| {
            let tool = spec.name.clone();
            let spec = ToolSpec { name: format!("{prefix}{tool}"), ..spec };
            let (component, services) = (Arc::clone(&component), services.clone());
            Arc::new(ComponentTool { spec, tool, component, services, edits_files })
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
    services: HostContext,
    edits_files: bool,
}

impl Tool for ComponentTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn call<'a>(
        &'a self,
        arguments: &'a str,
        session: &'a mut Session<'_>,
    ) -> BoxFuture<'a, Result<ToolOutput, Abort>> {
        let (cancel, package) = (session.cancel(), session.package());
        async move {
            if !self.edits_files {
                return Ok(self.answer(arguments, cancel).await.into());
            }
            let arguments = scoped(package, &self.tool, arguments);
            Ok(self.answer_of_file_tool(&arguments, cancel).await.into())
        }
        .boxed()
    }
}

impl ComponentTool {
    /// Counts a refusal of the tool itself; the writer counts and reports its own.
    async fn answer_of_file_tool(&self, arguments: &str, cancel: &CancellationToken) -> Answer {
        let Some(writer) = &self.services.writer else {
            return self.answer(arguments, cancel).await;
        };
        let before = writer.refused();
        let answer = self.answer(arguments, cancel).await;
        if answer.is_error
            && !cancel.is_cancelled()
            && before == writer.refused()
            && let Some(refused) = refused_edit(&self.tool, arguments, &answer.json)
        {
            writer.refuse(refused.reason);
            let RefusedEdit { path, op, reason } = refused;
            self.component.record_refused_edit(&path, op, reason);
            let (op, reason) = (op.to_owned(), reason.to_owned());
            self.services.events.emit(EventKind::EditRefused { path, op, reason });
        }
        answer
    }

    async fn answer(&self, arguments: &str, cancel: &CancellationToken) -> Answer {
        let services = self.services.clone();
        match self.component.call(&self.tool, arguments, services, CALL, cancel).await {
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

/// The arguments of a file tool in a task that is scoped to a package: `list` and `search` mean the package unless the
/// model names a place. Text that is no JSON object is left for the tool to refuse.
fn scoped<'a>(package: Option<&str>, tool: &str, arguments: &'a str) -> Cow<'a, str> {
    let Some(package) = package else { return arguments.into() };
    let text = if arguments.trim().is_empty() { "{}" } else { arguments };
    let Ok(mut arguments_read) = serde_json::from_str::<Map<String, Value>>(text) else {
        return arguments.into();
    };
    let (name, place) = match (tool, arguments_read.get("glob")) {
        ("list", _) if arguments_read.get("path").is_none_or(Value::is_null) => {
            ("path", package.to_owned())
        }
        ("search", None | Some(Value::Null)) => ("glob", format!("/{}", globset::escape(package))),
        ("search", Some(Value::String(glob))) if !names_a_place(glob) => {
            let name = glob.strip_prefix("**/").unwrap_or(glob);
            ("glob", format!("/{}/**/{name}", globset::escape(package)))
        }
        _ => return arguments.into(),
    };
    arguments_read.insert(name.to_owned(), place.into());
    Value::Object(arguments_read).to_string().into()
}

/// A glob with a `/` is a path from the root, except where it only says `**/`, at any depth.
fn names_a_place(glob: &str) -> bool {
    glob.strip_prefix("**/").unwrap_or(glob).trim_end_matches('/').contains('/')
}

#[derive(Debug, PartialEq, Eq)]
struct RefusedEdit {
    path: String,
    /// As the writer would have named it.
    op: &'static str,
    reason: &'static str,
}

/// Bytes of a path that are reported.
const PATH: usize = 200;

const REASONS: [&str; 17] = [
    "version_mismatch",
    "index_out_of_bounds",
    "new_has_newline",
    "content_empty",
    "bad_arguments",
    "not_found",
    "exists",
    "protected",
    "guarded",
    "boundary",
    "outside_repo",
    "excluded",
    "binary",
    "too_large",
    "not_a_file",
    "budget",
    "tool_failed",
];

/// Reads a refused edit off a call and its answer; `None` when the tool changes nothing. A component words its answer as
/// it likes, so only known reasons are counted under their own name.
fn refused_edit(tool: &str, arguments: &str, answer: &str) -> Option<RefusedEdit> {
    let op = match tool {
        "edit_line" | "edit_lines" | "edit_many" | "full_rewrite" => "replace",
        "create" => "create",
        "delete" => "delete",
        "move" => "move",
        _ => return None,
    };
    let answer: Value = serde_json::from_str(answer).unwrap_or_default();
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let text = |value: &Value, name: &str| value.get(name)?.as_str().map(str::to_owned);
    let path = text(&arguments, "path").or_else(|| text(&arguments, "from")).unwrap_or_default();
    let word = text(&answer, "reason").unwrap_or_default();
    let reason = REASONS.into_iter().find(|known| *known == word).unwrap_or("other");
    let cut = path.floor_char_boundary(PATH.min(path.len()));
    Some(RefusedEdit { path: path[..cut].to_owned(), op, reason })
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
            ("read", "{}", "{}"),
        ] {
            assert_eq!(scoped(Some("packages/core"), tool, arguments), expected, "{arguments}");
            assert_eq!(scoped(None, tool, arguments), arguments);
        }
        assert_eq!(scoped(Some("a[b]"), "search", "{}"), r#"{"glob":"/a[[]b[]]"}"#);
    }

    fn edit(path: &str, op: &'static str, reason: &'static str) -> Option<RefusedEdit> {
        Some(RefusedEdit { path: path.to_owned(), op, reason })
    }

    /// EDITOR-14
    #[test]
    fn what_a_tool_refused_is_counted_under_a_word_of_the_contract() {
        let stale = r#"{"ok":false,"reason":"version_mismatch","current_version":2}"#;
        assert_eq!(
            refused_edit("edit_line", r#"{"path":"a"}"#, stale),
            edit("a", "replace", "version_mismatch")
        );
        assert_eq!(
            refused_edit("move", r#"{"from":"a","to":"b"}"#, stale),
            edit("a", "move", "version_mismatch")
        );
        assert_eq!(refused_edit("read", r#"{"path":"a"}"#, stale), None);
        assert_eq!(refused_edit("create", "no json", "neither"), edit("", "create", "other"));
        let invented = r#"{"reason":"\u001b[2Jowned"}"#;
        assert_eq!(refused_edit("delete", "{}", invented), edit("", "delete", "other"));
        let long = format!(r#"{{"path":"{}"}}"#, "é".repeat(300));
        assert_eq!(refused_edit("create", &long, stale).unwrap().path.len(), 200);
    }
}
