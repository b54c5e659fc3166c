//! Checks every message that the tests of `act acp` received with the published types of the protocol.
//!
//!     act-acp-schema DIRECTORY     files of lines `{"method": ..., "message": ...}`, written by the tests
//!
//! A message must be read as its type, and come out of it as it went in: the types skip what they do not know.

use std::collections::BTreeMap;
use std::process::ExitCode;

use agent_client_protocol_schema::v1;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1) else {
        eprintln!("usage: act-acp-schema DIRECTORY");
        return ExitCode::from(2);
    };
    let (mut counts, mut faults) = (BTreeMap::<String, u64>::new(), 0);
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for file in files {
        let text = std::fs::read_to_string(file.path()).unwrap_or_default();
        for line in text.lines() {
            let kind = match checked(line) {
                Ok(kind) => kind,
                Err(why) => {
                    faults += 1;
                    eprintln!(
                        "{why}: {}",
                        &line[..line.floor_char_boundary(2_000.min(line.len()))]
                    );
                    continue;
                }
            };
            *counts.entry(kind).or_default() += 1;
        }
    }
    println!("{counts:?}");
    // The kinds that the tests are known to see; without one of them something was not checked.
    let expected = [
        "initialize",
        "session/new",
        "session/load",
        "session/list",
        "session/prompt",
        "session/set_mode",
        "session/set_config_option",
        "session/update",
        "session/request_permission",
        "error",
    ];
    let missing: Vec<_> = expected.iter().filter(|kind| !counts.contains_key(**kind)).collect();
    if !missing.is_empty() {
        eprintln!("no message of: {missing:?}");
    }
    if faults == 0 && missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Checks one line, and returns what kind of message it holds.
fn checked(line: &str) -> Result<String, String> {
    let line: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let (message, method) = (&line["message"], line["method"].as_str().unwrap_or_default());
    if !message["error"].is_null() {
        fits::<v1::Error>(&message["error"])?;
        return Ok("error".to_owned());
    }
    match method {
        "session/update" => fits::<v1::SessionNotification>(&message["params"]),
        "session/request_permission" => fits::<v1::RequestPermissionRequest>(&message["params"]),
        "initialize" => fits::<v1::InitializeResponse>(&message["result"]),
        "session/new" => fits::<v1::NewSessionResponse>(&message["result"]),
        "session/load" => fits::<v1::LoadSessionResponse>(&message["result"]),
        "session/list" => fits::<v1::ListSessionsResponse>(&message["result"]),
        "session/prompt" => fits::<v1::PromptResponse>(&message["result"]),
        "session/set_mode" => fits::<v1::SetSessionModeResponse>(&message["result"]),
        "session/set_config_option" => {
            fits::<v1::SetSessionConfigOptionResponse>(&message["result"])
        }
        method => Err(format!("an unknown method {method:?}")),
    }?;
    Ok(method.to_owned())
}

/// Checks that a value is read as this type, and that nothing of it is lost.
fn fits<T: DeserializeOwned + Serialize>(value: &Value) -> Result<(), String> {
    let typed: T = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    let known = serde_json::to_value(typed).map_err(|error| error.to_string())?;
    lost(value, &known, "message").map_or(Ok(()), Err)
}

/// Returns the first place where the types know less than what was sent.
fn lost(sent: &Value, known: &Value, place: &str) -> Option<String> {
    match (sent, known) {
        (Value::Object(sent), Value::Object(known)) => sent.iter().find_map(|(name, value)| {
            let place = format!("{place}.{name}");
            match known.get(name) {
                Some(known) => lost(value, known, &place),
                // These values are those of a field that is absent.
                None if value.is_null() || *value == json!([]) || *value == json!(false) => None,
                None if place.ends_with(".kind") && *value == json!("other") => None,
                None => Some(format!("{place} is unknown to the protocol")),
            }
        }),
        (Value::Array(sent), Value::Array(known)) if sent.len() == known.len() => {
            let mut pairs = sent.iter().zip(known).enumerate();
            pairs.find_map(|(at, (sent, known))| lost(sent, known, &format!("{place}[{at}]")))
        }
        (sent, known) => (sent != known).then(|| format!("{place}: {sent} is read as {known}")),
    }
}
