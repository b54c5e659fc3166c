//! What a tool is called with and what it answers.

pub use crate::tool_bindings::agentcommand::repo::edit;
use crate::tool_bindings::exports::agentcommand::tool::tool as export;
use serde::de::DeserializeOwned;

/// What a call gave; `data` is what events want to know beside the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// For the model.
    pub text: String,
    /// JSON.
    pub data: Option<String>,
    /// The tool refused in a way that the model can act on.
    pub is_error: bool,
}

impl Outcome {
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Something that the model did wrong, and can do better.
    pub fn refusal(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }
}

/// Why no tool ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotRun {
    UnknownTool,
    /// Says which argument, and what was expected.
    BadArguments(String),
    Failed(String),
}

impl From<Outcome> for export::Outcome {
    fn from(Outcome { text, data, is_error }: Outcome) -> Self {
        Self { text, data, is_error }
    }
}

impl From<NotRun> for export::Failure {
    fn from(why: NotRun) -> Self {
        match why {
            NotRun::UnknownTool => Self::UnknownTool,
            NotRun::BadArguments(why) => Self::BadArguments(why),
            NotRun::Failed(why) => Self::Other(why),
        }
    }
}

/// Arguments as a model wrote them, naming the place of what does not fit. No text at all means no arguments, which is
/// how some models call a tool that needs none.
pub fn arguments<T: DeserializeOwned>(text: &str) -> Result<T, NotRun> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let mut reader = serde_json::Deserializer::from_str(text);
    let parsed = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let place = error.path().to_string();
        let why = error.into_inner();
        NotRun::BadArguments(if place == "." { why.to_string() } else { format!("{place}: {why}") })
    })?;
    reader.end().map_err(|error| NotRun::BadArguments(error.to_string()))?;
    Ok(parsed)
}
