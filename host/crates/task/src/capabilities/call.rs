//! `act components call`: one call of an approved tool, with its grants, on a copy in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::audit::anchor;
use crate::capabilities::unknown;
use crate::prepare::{self, AuditMode, ComponentLoader};
use crate::{run, scouting};
use act_component::registry::{Member, Registry};
use act_component::{ComponentFailure, ComponentHost, GuestFailure, Kind, ToolComponent, builtin};
use act_core::event::Events;
use act_core::exit::Exit;
use act_core::{Document, Failure, shell_word};
use act_model::TokenLedger;
use act_workspace::{Overlay, RepoWriter, WriteRules};

/// Maximum size of the arguments, as much as a task may pass to a component in one call.
const MAX_ARGUMENTS: usize = 8 << 20;

/// The arguments of `act components call`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub name: String,
    pub tool: String,
    /// The arguments of the tool, as JSON.
    pub arguments: String,
    pub start: PathBuf,
}

/// The answer of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct CallDocument {
    /// The name under which the component was approved.
    pub component: String,
    pub sha256: String,
    pub tool: String,
    /// The tool answered with an error, or its edit was refused.
    pub is_error: bool,
    /// What the Editor's model would read.
    pub answer: String,
    /// The files that the call would have changed. Nothing of it was written.
    pub would_change: Vec<String>,
}

impl Document for CallDocument {
    const NAME: &'static str = "components-call";
}

/// Calls a tool of an approved component, or of the built-in file tools. Its edits go to a copy in memory, which is dropped.
/// The call is recorded in the audit log.
///
/// # Errors
///
/// There is no such component or tool, the arguments are not JSON or do not fit (exit 1), the call failed (exit 4), or it was
/// cancelled (exit 130).
pub async fn call(call: Call, events: &Events) -> Result<CallDocument, Failure> {
    let Call { name, tool, arguments, start } = call;
    check_arguments(&arguments)?;
    let target = scouting::target(&start)?;
    let root = &target.root;
    let cancel = run::cancelled_by_signals()?;
    let audit = scouting::audit(&start, root)?;
    let requests = prepare::requests(&start);
    let (registry, members) = prepare::admitted(root, &requests, AuditMode::All(&audit))?;
    let member = tool_member(&registry, &members, &name)?;
    let needs_model = member.is_some_and(|member| member.admitted.grant().llm.is_some());
    let model = if needs_model {
        let access = prepare::model_access(&target.user)?;
        let deadlines = target.user.deadlines(&access, target.model_timeouts);
        Some(prepare::connect_model(&access, deadlines, &TokenLedger::default(), events)?)
    } else {
        None
    };
    prepare::refuse_keys("arguments", &arguments)?;
    let overlay = Overlay::default();
    let loader = ComponentLoader {
        host: ComponentHost::new(act_component::cache_dir().as_deref())
            .below(registry.policy.ceiling.clone())
            .audited(audit.clone()),
        members: &members,
        model,
        view: prepare::view(root)?.over(Some(&overlay)),
        wall: target.wall,
        events,
    };
    anchor::first(registry.policy.require_anchor, &audit, root, &cancel).await?;
    let component = match member {
        Some(member) => loader.load_member_tool(member)?,
        None => loader.load_tools(builtin::FILE_TOOLS)?,
    };
    has_tool(&component, &name, &tool)?;
    let writer = Arc::new(writer(root, overlay)?);
    let services = act_component::Services {
        view: Some(writer.view().clone()),
        versions: Some(writer.versions().clone()),
        writer: Some(Arc::clone(&writer)),
        ..loader.services(&name)
    };
    let wall = component.grant.limits.wall;
    let called = component.call(&tool, &arguments, services, wall, &cancel).await;
    audit.settle()?;
    anchor::anchor(&audit, root, &cancel, events).await;
    let outcome = called.map_err(|failure| failed(&name, &tool, failure))?;
    Ok(CallDocument {
        component: name,
        sha256: component.sha256.clone(),
        tool,
        is_error: outcome.is_error,
        answer: outcome.text,
        would_change: writer.changed().into_iter().map(|changed| changed.path).collect(),
    })
}

/// Checks that the arguments are JSON, so that a mistake on the command line is no failure of the component.
fn check_arguments(arguments: &str) -> Result<(), Failure> {
    let wrong = |why: String| {
        Err(Failure::refused("bad_arguments", format!("the arguments are not JSON: {why}"))
            .hint("write them as one word of the shell, such as '{\"path\": \"src\"}'"))
    };
    if arguments.len() > MAX_ARGUMENTS {
        return wrong(format!("they have more than {MAX_ARGUMENTS} bytes"));
    }
    match serde_json::from_str::<Value>(arguments) {
        Ok(_) => Ok(()),
        Err(error) => wrong(error.to_string()),
    }
}

/// Returns the approved tool component of this name; `None` for the built-in file tools.
fn tool_member<'m>(
    registry: &Registry,
    members: &'m [Member],
    name: &str,
) -> Result<Option<&'m Member>, Failure> {
    let known = members.iter().find(|member| member.name == name);
    match known {
        Some(member) if member.kind == Kind::Tool => Ok(Some(member)),
        Some(_) => {
            let message = format!("`{name}` is a Scout and has no tools");
            Err(Failure::refused("component_conflict", message)
                .hint(format!("`act scout {}` asks it", shell_word(name))))
        }
        None if name == builtin::FILE_TOOLS.name => Ok(None),
        None => match registry.grants.get(name) {
            Some(approval) => {
                let state = match &approval.revoked_at {
                    Some(_) => "was revoked",
                    None => "is approved for another repository only",
                };
                Err(Failure::refused("component_not_in_force", format!("`{name}` {state}"))
                    .hint("`act components` lists what is approved here"))
            }
            None => Err(unknown(name)),
        },
    }
}

fn has_tool(component: &ToolComponent, name: &str, tool: &str) -> Result<(), Failure> {
    let tools = &component.manifest.tools;
    if tools.iter().any(|one| one.name == tool) {
        return Ok(());
    }
    let names: Vec<_> = tools.iter().map(|one| one.name.as_str()).collect();
    Err(Failure::refused("unknown_tool", format!("`{name}` has no tool `{tool}`"))
        .hint(format!("its tools are {}", names.join(", "))))
}

/// Opens the repository with the rules of a task without `--allow-path`. Changes are written to the overlay.
fn writer(root: &Path, overlay: Overlay) -> Result<RepoWriter, Failure> {
    let rules = WriteRules::allowing(&[]).map_err(|error| Failure::usage(error.to_string()))?;
    let rules = rules
        .protecting(root, &prepare::own_directories())
        .guarding_targets(root, &prepare::view(root)?);
    let writer = RepoWriter::open_dry(root, rules, overlay);
    Ok(writer.map_err(prepare::failed("the repository cannot be opened"))?)
}

fn failed(name: &str, tool: &str, failure: ComponentFailure) -> Failure {
    let (code, exit) = match &failure {
        ComponentFailure::Guest(GuestFailure::BadArguments(_)) => ("bad_arguments", Exit::Refused),
        ComponentFailure::Guest(GuestFailure::UnknownTool) => ("unknown_tool", Exit::Refused),
        ComponentFailure::Cancelled => {
            let cancelled = Failure::refused("cancelled", "cancelled");
            return Failure { exit: Exit::Cancelled, ..cancelled };
        }
        _ => ("tool_failed", Exit::Infra),
    };
    let hint = match code {
        "bad_arguments" => {
            format!("`act components show {}` shows the parameters of its tools", shell_word(name))
        }
        _ => failure.hint().to_owned(),
    };
    let failed = Failure::refused(code, format!("{name}: {tool}: {failure}")).hint(hint);
    Failure { exit, ..failed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_of_a_call_is_published() {
        // EVENT-8
        schema::document_holds::<CallDocument>();
    }

    #[test]
    fn only_json_is_passed_on() {
        assert!(check_arguments(" {} ").is_ok());
        for wrong in ["", "{", "{} {}", "path=src"] {
            let refused = check_arguments(wrong).unwrap_err();
            assert_eq!(refused.code, "bad_arguments", "{wrong}");
        }
    }
}
