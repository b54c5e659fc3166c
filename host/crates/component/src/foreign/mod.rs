//! Components that know nothing of us: their exported functions are their tools.
//!
//! `read` finds the functions in a component's type and refuses what cannot be told in JSON; `schema` describes a
//! function's parameters to the model; `once` reads JSON, `lower` and `lift` turn JSON into values and back; `call` carries a call out. What
//! such a component is offered and denied is decided where it is for every other one.

mod call;
mod lift;
mod lower;
mod once;
mod read;
mod schema;
mod types;

pub(super) use call::call;
pub(super) use read::read;
pub(super) use types::Function;

use act_model::ToolSpec;

/// The world of a component that has none of ours.
pub(super) const WORLD: &str = "foreign";

/// A function that is no tool, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LeftOut {
    pub function: String,
    pub why: String,
}

/// What the model reads of each function.
pub(super) fn tools(functions: &[Function]) -> Vec<ToolSpec> {
    let tool = |function: &Function| ToolSpec {
        name: function.tool.clone(),
        description: function.to_string(),
        parameters: schema::parameters(&function.params).to_string(),
    };
    functions.iter().map(tool).collect()
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod arbitrary;
#[cfg(test)]
mod tests;
