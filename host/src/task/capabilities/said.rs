//! What a component says to the Editor's model: tools with their descriptions, and the shape of a report. Nobody can
//! judge a component who has not read it.

use serde::Serialize;
use serde_json::Value;

use act_component::Manifest;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Said {
    pub tools: Vec<ToolSaid>,
    /// JSON Schema of a Scout's report; null where it has none.
    pub report: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ToolSaid {
    /// As its author calls it.
    pub name: String,
    pub description: String,
    /// JSON Schema.
    pub parameters: Value,
}

impl Said {
    pub(super) fn of(manifest: &Manifest) -> Self {
        // They were JSON when the manifest was read.
        let json = |text: &String| serde_json::from_str(text).unwrap_or_default();
        let tools = manifest.tools.iter().map(|tool| ToolSaid {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: json(&tool.parameters),
        });
        Self { tools: tools.collect(), report: manifest.report.as_ref().map(json) }
    }
}
