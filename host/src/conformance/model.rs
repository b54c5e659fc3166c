//! The scripts of a test: what the model says to the component, in this process and without a server.

use std::io;
use std::sync::Arc;

use serde_json::{Value, json};

use super::sample;
use act_core::event::Events;
use act_model::TokenLedger;
use act_model::scripted::{Script, ScriptedModel};

/// Upper limit for the turns of a conversation in a test.
const TURNS: usize = 200;

pub(super) fn play(script: Script) -> io::Result<Arc<ScriptedModel>> {
    let model = ScriptedModel::new(script, Events::silent(), TokenLedger::default());
    model.map(Arc::new).map_err(io::Error::other)
}

/// A model that gives the same turn to every request.
fn repeated(role: &str, turn: Value) -> io::Result<Script> {
    let mut turn = turn;
    turn["role"] = role.into();
    turn["repeat"] = TURNS.into();
    Script::from_yaml(&json!({ "turns": [turn] }).to_string()).map_err(io::Error::other)
}

/// A model whose answers are useless.
pub(super) fn nonsense(role: &str) -> io::Result<Script> {
    repeated(role, json!({ "text": "I would rather talk about cats." }))
}

/// A model whose server is unavailable.
pub(super) fn unavailable(role: &str) -> io::Result<Script> {
    repeated(role, json!({ "status": 503, "body": "{}" }))
}

/// A model that answers well: it calls the tool `report` if the request offers it; otherwise it sends a text that fits
/// the schema of the request, or that of the report.
pub(super) fn helpful(role: &str, request: Option<&Value>, report: &Value) -> io::Result<Script> {
    let nothing = Value::Null;
    let request = request.unwrap_or(&nothing);
    let functions = request["tools"].as_array().into_iter().flatten().map(|tool| &tool["function"]);
    let offered = functions.into_iter().find(|function| function["name"] == "report");
    if let Some(function) = offered {
        let arguments = sample::of(&function["parameters"]);
        return repeated(role, json!({ "call": { "name": "report", "arguments": arguments } }));
    }
    let wanted = match &request["response_format"]["json_schema"]["schema"] {
        Value::Null => report,
        schema => schema,
    };
    repeated(role, json!({ "text": sample::of(wanted).to_string() }))
}
