//! What tools are called with: arguments of their schemas, some that are none, and a tool that is not there.

use serde_json::Value;

use super::check::Checks;
use super::probe::Probe;
use super::sample;
use act_agent::scout::OwnReport;
use act_component::{ComponentFailure, GuestFailure, ToolOutcome};
use act_model::ToolSpec;

const NO_TOOL: &str = "no_such_tool";

pub(super) async fn look(probe: &mut Probe<'_, act_component::ToolComponent>, checks: &mut Checks) {
    let tools = probe.component.manifest.tools.clone();
    for tool in &tools {
        let arguments = match made_up(tool) {
            Ok(arguments) => arguments,
            Err(why) => {
                checks.note("calls", Err(why));
                continue;
            }
        };
        let called = probe.call(&tool.name, &arguments).await;
        if !probe.goes_on() {
            return;
        }
        let why = |failure: ComponentFailure| format!("{} with {arguments}: {failure}", tool.name);
        checks.note("calls", called.map(drop).map_err(why));
    }
    for tool in &tools {
        for arguments in ["not json", "7"] {
            let called = probe.call(&tool.name, arguments).await;
            if !probe.goes_on() {
                return;
            }
            checks.note("bad_arguments", refused(tool, arguments, called));
        }
    }
    let called = probe.call(NO_TOOL, "{}").await;
    if probe.goes_on() {
        checks.note(
            "unknown_tool",
            match called {
                Err(ComponentFailure::Guest(
                    GuestFailure::UnknownTool | GuestFailure::BadArguments(_),
                )) => Ok(()),
                Err(other) => Err(format!("{NO_TOOL}: {other}")),
                Ok(_) => Err(format!("it has no tool {NO_TOOL}, and answered")),
            },
        );
    }
}

/// Arguments that fit the schema.
fn made_up(tool: &ToolSpec) -> Result<String, String> {
    let name = &tool.name;
    let schema = |error: String| format!("{name}: its schema cannot be used: {error}");
    let rules = OwnReport::new(Some(&tool.parameters)).map_err(schema)?;
    let parameters: Value =
        serde_json::from_str(&tool.parameters).map_err(|error| schema(error.to_string()))?;
    let arguments = sample::of(&parameters);
    rules.fits(&arguments).map_err(|why| {
        format!("{name}: {arguments} was made up and does not fit its schema ({why}); give the schema `examples`")
    })?;
    Ok(arguments.to_string())
}

fn refused(
    tool: &ToolSpec,
    arguments: &str,
    called: Result<ToolOutcome, ComponentFailure>,
) -> Result<(), String> {
    match called {
        Err(ComponentFailure::Guest(GuestFailure::BadArguments(_))) => Ok(()),
        Ok(outcome) if outcome.is_error => Ok(()),
        Ok(_) => Err(format!("{} took `{arguments}` as its arguments", tool.name)),
        Err(other) => Err(format!("{} with `{arguments}`: {other}", tool.name)),
    }
}
