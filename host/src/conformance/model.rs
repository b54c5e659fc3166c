//! The model of a test: the scripted server on loopback, behind the ordinary client.

use std::io;
use std::sync::Arc;

use serde_json::{Value, json};

use super::sample;
use act_core::event::Events;
use act_model::scripted::{Script, ScriptedServer};
use act_model::{Deadlines, Model, ModelAccess, TokenLedger};

/// No conversation has more turns in a test.
const TURNS: usize = 200;

pub(super) struct TestModel {
    server: ScriptedServer,
    pub(super) client: Arc<dyn Model>,
}

impl TestModel {
    pub(super) fn start(script: Script) -> io::Result<Self> {
        let server = ScriptedServer::start(script)?;
        let access = ModelAccess::Custom {
            base_url: server.base_url(),
            model: "scripted".to_owned(),
            key: None,
        };
        let client = act_model::connect(
            access,
            Deadlines::default(),
            Events::silent(),
            TokenLedger::default(),
        )
        .map_err(io::Error::other)?;
        Ok(Self { server, client })
    }

    /// Bodies of what it was asked.
    pub(super) fn requests(&self) -> Vec<Value> {
        self.server.requests().into_iter().map(|request| request.body).collect()
    }
}

/// Says one thing over and over.
fn repeated(role: &str, turn: Value) -> io::Result<Script> {
    let mut turn = turn;
    turn["role"] = role.into();
    turn["repeat"] = TURNS.into();
    Script::from_yaml(&json!({ "turns": [turn] }).to_string()).map_err(io::Error::other)
}

/// Nothing that anybody could use.
pub(super) fn nonsense(role: &str) -> io::Result<Script> {
    repeated(role, json!({ "text": "I would rather talk about cats." }))
}

/// Not there.
pub(super) fn unavailable(role: &str) -> io::Result<Script> {
    repeated(role, json!({ "status": 503, "body": "{}" }))
}

/// What a good model says to such a request: the tool `report` where that is offered, else a text of the schema that was asked
/// for, else one of the report itself.
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
