//! A model that follows a script instead of thinking: turns by role, in the order in which the role asks.
//!
//! [`ScriptedModel`] plays a script inside of this process, behind the ordinary client: requests are written and
//! streams are read as for any Chat Completions server, only the network is left out. `act demo` and
//! `act components test` use it. The development crate `act-testing` serves the same scripts over HTTP, on all three
//! wires. The format of a script is described in `specs/scripted-model.md`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};
use serde_yaml::Spanned;

use super::client::Client;
use super::{
    Conversation, Deadlines, Model, ModelAccess, ModelError, TokenLedger, ToolCall, ToolSpec,
};
use act_core::event::{Events, ModelUsage};

/// Largest number of turns after loops are written out. It bounds the memory of a script with large loops.
const MAX_TURNS: usize = 100_000;

/// Lengths of the pieces that texts and streams are cut into, in turn. Short and odd lengths tear lines, characters and
/// JSON apart, as networks do; long ones keep a large file from taking thousands of pieces.
const PIECES: [usize; 6] = [1, 3, 17, 5, 250, 1021];

/// The turns of each role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    roles: BTreeMap<String, VecDeque<Turn>>,
}

/// Why a script cannot be used; line and column count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("script line {line}, column {column}: {message}")]
pub struct ScriptError {
    pub line: u64,
    pub column: u64,
    pub message: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Turn {
    /// The round of the loop, from 1; `{{n}}` in its texts.
    n: u32,
    text: Option<String>,
    calls: Vec<Call>,
    finish: Option<String>,
    usage: Option<ModelUsage>,
    fault: Fault,
}

/// One tool call. Arguments that are a text are sent unchanged, even when they are not JSON.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Fault {
    status: Option<u16>,
    headers: BTreeMap<String, String>,
    body: Option<String>,
    delay_ms: u64,
    end: Option<End>,
}

/// How an answer stops short after so many bytes of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The connection is closed as if the body were complete.
    Cut(usize),
    /// The connection breaks.
    Reset(usize),
    /// Nothing more is sent until the client closes the connection.
    Stall(usize),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    turns: Vec<Spanned<Entry>>,
}

/// A turn, or with `turns` a loop of turns.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    role: Option<String>,
    repeat: Option<u32>,
    turns: Option<Vec<Spanned<Entry>>>,
    text: Option<String>,
    call: Option<Call>,
    calls: Option<Vec<Call>>,
    finish: Option<String>,
    usage: Option<Usage>,
    status: Option<u16>,
    headers: Option<BTreeMap<String, String>>,
    body: Option<String>,
    delay_ms: Option<u64>,
    cut_after_bytes: Option<usize>,
    reset_after_bytes: Option<usize>,
    stall_after_bytes: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Usage {
    input: u64,
    #[serde(default)]
    cached: u64,
    output: u64,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    ///
    /// Names the line and column of the first key or value that is not part of the format.
    pub fn from_yaml(text: &str) -> Result<Self, ScriptError> {
        let options = serde_yaml::options! { strict_booleans: true, with_snippet: false };
        let file: File = serde_yaml::from_str_with_options(text, options).map_err(|error| {
            let at = error.location().unwrap_or(serde_yaml::Location::UNKNOWN);
            let message = error.render_with_formatter(&serde_yaml::UserMessageFormatter);
            ScriptError { line: at.line(), column: at.column(), message }
        })?;
        let mut script = Self::default();
        let mut count = 0;
        for entry in &file.turns {
            script.add(entry, None, &mut count)?;
        }
        Ok(script)
    }

    /// Returns how many turns each role has left; roles without any are not listed.
    pub fn left(&self) -> BTreeMap<String, usize> {
        let left = self.roles.iter().map(|(role, turns)| (role.clone(), turns.len()));
        left.filter(|(_, turns)| *turns > 0).collect()
    }

    /// Adds a turn as often as it repeats; inside a loop, `round` is the loop's.
    fn add(
        &mut self,
        at: &Spanned<Entry>,
        round: Option<u32>,
        count: &mut usize,
    ) -> Result<(), ScriptError> {
        let entry = &at.value;
        let wrong = |message: &str| ScriptError {
            line: at.referenced.line(),
            column: at.referenced.column(),
            message: message.to_owned(),
        };
        for own in 1..=entry.repeat.unwrap_or(1) {
            *count += 1;
            if *count > MAX_TURNS {
                return Err(wrong("more than 100000 turns"));
            }
            if let Some(turns) = &entry.turns {
                if round.is_some() || !entry.only_loops() {
                    return Err(wrong("a loop has `repeat` and `turns` and no loop inside"));
                }
                for turn in turns {
                    self.add(turn, Some(own), count)?;
                }
            } else {
                let role = entry.role.clone().ok_or_else(|| wrong("a turn needs a role"))?;
                let n = if entry.repeat.is_some() { own } else { round.unwrap_or(1) };
                let turn = entry.turn(n).map_err(wrong)?;
                self.roles.entry(role).or_default().push_back(turn);
            }
        }
        Ok(())
    }
}

impl Entry {
    fn only_loops(&self) -> bool {
        self.role.is_none() && !self.has_content()
    }

    fn has_content(&self) -> bool {
        self.text.is_some()
            || self.call.is_some()
            || self.calls.is_some()
            || self.finish.is_some()
            || self.status.is_some()
            || self.body.is_some()
    }

    fn turn(&self, n: u32) -> Result<Turn, &'static str> {
        if !self.has_content() {
            return Err("a turn needs one of text, call, calls, finish, status, body");
        }
        let ends = [
            self.cut_after_bytes.map(End::Cut),
            self.reset_after_bytes.map(End::Reset),
            self.stall_after_bytes.map(End::Stall),
        ];
        let mut ends = ends.into_iter().flatten();
        let end = ends.next();
        if ends.next().is_some() {
            return Err("a turn stops short in one way only");
        }
        let mut calls: Vec<Call> = self.call.iter().cloned().collect();
        calls.extend(self.calls.iter().flatten().cloned());
        let usage = |usage: &Usage| ModelUsage {
            input: usage.input,
            cached: usage.cached,
            cache_write: 0,
            output: usage.output,
        };
        Ok(Turn {
            n,
            text: self.text.clone(),
            calls,
            finish: self.finish.clone(),
            usage: self.usage.as_ref().map(usage),
            fault: Fault {
                status: self.status,
                headers: self.headers.clone().unwrap_or_default(),
                body: self.body.clone(),
                delay_ms: self.delay_ms.unwrap_or(0),
                end,
            },
        })
    }
}

/// How one wire writes a scripted turn. Here is [`ChatCompletions`]; `act-testing` adds the others.
pub trait Format {
    /// Returns the word after `act role: ` in the first line of the system prompt, or an empty text.
    fn role<'a>(&self, request: &'a Value) -> &'a str {
        let system = self.system(request).as_str().unwrap_or_default();
        system.lines().next().and_then(|line| line.strip_prefix("act role: ")).unwrap_or_default()
    }

    /// The system prompt of a request.
    fn system<'a>(&self, request: &'a Value) -> &'a Value;

    /// The header that names a request.
    fn id_header(&self) -> &'static str {
        "x-request-id"
    }

    /// The body of an answer with an error status.
    fn error(&self, kind: &str, message: &str) -> Value {
        json!({"error": {"type": kind, "message": message}})
    }

    /// The turn as the provider's event stream.
    fn stream(&self, turn: &Spoken) -> String;
}

/// The content of one turn, before a wire writes it.
#[derive(Debug)]
pub struct Spoken {
    /// `ROLE-NUMBER`, from which a wire makes its ids.
    pub id: String,
    pub model: Value,
    pub text: String,
    pub calls: Vec<ToolCall>,
    /// Why the turn ends, in the words of Chat Completions; `None` when it follows from the calls.
    pub finish: Option<String>,
    pub usage: ModelUsage,
}

/// One turn as the parts of an HTTP answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<Bytes>,
    /// How the body stops short; `None` when it is complete.
    pub end: Option<End>,
    pub delay_ms: u64,
}

/// A script in progress: each request of a role takes the role's next turn.
#[derive(Debug, Default)]
pub struct Player {
    script: Script,
    asked: BTreeMap<String, u32>,
}

impl Player {
    /// Starts a script.
    pub fn new(script: Script) -> Self {
        Self { script, asked: BTreeMap::new() }
    }

    /// Returns how many turns each role has left; roles without any are not listed.
    pub fn left(&self) -> BTreeMap<String, usize> {
        self.script.left()
    }

    /// Answers one request; `text` and `body` are the request as it was sent and as JSON.
    pub fn answer(&mut self, format: &dyn Format, text: &str, body: &Value) -> Answer {
        let role = format.role(body);
        let number = self.asked.entry(role.to_owned()).or_default();
        *number += 1;
        let number = *number;
        let turn = self.script.roles.get_mut(role).and_then(VecDeque::pop_front);
        let turn = turn.unwrap_or_else(|| Turn {
            n: 1,
            text: Some("script is over".into()),
            ..Turn::default()
        });
        turn.answer(format, role, number, text, &body["model"])
    }
}

impl Answer {
    /// Returns an answer that every wire reads as an error.
    pub fn refusal(status: u16, body: &Value) -> Self {
        Self {
            status,
            headers: vec![("content-type".into(), "application/json".into())],
            body: pieces(Bytes::from(body.to_string())),
            end: None,
            delay_ms: 0,
        }
    }
}

impl Turn {
    fn answer(
        &self,
        format: &dyn Format,
        role: &str,
        number: u32,
        request: &str,
        model: &Value,
    ) -> Answer {
        let values = Values::new(self.n, request);
        let fault = &self.fault;
        let status = fault.status.unwrap_or(200);
        let text = match &fault.body {
            Some(body) => values.text(body),
            None if fault.status.is_some_and(|status| status >= 300) => {
                format.error("scripted", &format!("scripted status {status}")).to_string()
            }
            None => format.stream(&self.spoken(role, number, request.len(), model, &values)),
        };
        let kind = if status < 300 { "text/event-stream" } else { "application/json" };
        let mut headers = vec![(format.id_header().to_owned(), format!("req_{role}_{number}"))];
        if !fault.headers.keys().any(|name| name.eq_ignore_ascii_case("content-type")) {
            headers.push(("content-type".into(), kind.into()));
        }
        headers.extend(fault.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        let mut bytes = Bytes::from(text);
        if let Some(End::Cut(at) | End::Reset(at) | End::Stall(at)) = fault.end {
            bytes.truncate(at);
        }
        Answer { status, headers, body: pieces(bytes), end: fault.end, delay_ms: fault.delay_ms }
    }

    fn spoken(
        &self,
        role: &str,
        number: u32,
        request: usize,
        model: &Value,
        values: &Values,
    ) -> Spoken {
        let text = values.text(self.text.as_deref().unwrap_or_default());
        let call = |(index, call): (usize, &Call)| ToolCall {
            id: format!("call_{role}_{number}_{index}"),
            name: call.name.clone(),
            arguments: match &call.arguments {
                Value::Null => "{}".to_owned(),
                Value::String(raw) => values.text(raw),
                value => values.json(value).to_string(),
            },
        };
        let calls: Vec<_> = self.calls.iter().enumerate().map(call).collect();
        let written =
            calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>();
        // About four bytes are a token, unless the script sets the counts.
        let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX);
        let usage = self.usage.unwrap_or(ModelUsage {
            input: tokens(request),
            cached: 0,
            cache_write: 0,
            output: tokens(text.len() + written),
        });
        let (id, finish) = (format!("{role}-{number}"), self.finish.clone());
        Spoken { id, model: model.clone(), text, calls, finish, usage }
    }
}

/// Cuts a text into pieces of odd lengths; together they are the text.
pub fn text_pieces(text: &str) -> Vec<&str> {
    let mut rest = text;
    let mut pieces = vec![];
    for length in PIECES.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let end = rest.char_indices().nth(*length).map_or(rest.len(), |(end, _)| end);
        let (piece, tail) = rest.split_at(end);
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

fn pieces(mut bytes: Bytes) -> Vec<Bytes> {
    let mut pieces = vec![];
    for length in PIECES.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        pieces.push(bytes.split_to((*length).min(bytes.len())));
    }
    pieces
}

#[expect(clippy::expect_used, reason = "constant patterns, compiled by every test")]
static RUN_ID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"run_\d{8}_\d{6}_[a-z0-9]{6}").expect("a valid pattern"));

/// The header of a file, and the first line of an edit's answer. A wire may escape characters beyond ASCII.
#[expect(clippy::expect_used, reason = "constant patterns, compiled by every test")]
static VERSION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:·|\\u00b7) version (\d+)").expect("a valid pattern"));

/// The values of the placeholders, taken from the request that asks for the turn.
struct Values {
    n: u32,
    run_ids: Vec<String>,
    last_version: Option<u64>,
}

impl Values {
    fn new(n: u32, request: &str) -> Self {
        let mut run_ids: Vec<String> = vec![];
        for id in RUN_ID.find_iter(request) {
            // Each id is listed once, in the order of its last mention.
            run_ids.retain(|known| known != id.as_str());
            run_ids.push(id.as_str().to_owned());
        }
        let last_version =
            VERSION.captures_iter(request).last().and_then(|found| found[1].parse().ok());
        Self { n, run_ids, last_version }
    }

    /// Fills in a text. A placeholder without a value stays, so that a mistake in a script shows.
    fn text(&self, text: &str) -> String {
        if !text.contains("{{") {
            return text.to_owned();
        }
        let mut text = text.replace("{{n}}", &self.n.to_string());
        if let Some(last) = self.run_ids.last() {
            text = text
                .replace("{{last_run_id}}", last)
                .replace("{{run_ids}}", &self.run_ids.join(", "));
        }
        if let Some(version) = self.last_version {
            text = text.replace("{{last_version}}", &version.to_string());
        }
        text
    }

    /// Fills in every text of a value. A text that consists of one counting placeholder becomes a number.
    fn json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => match (text.as_str(), self.last_version) {
                ("{{n}}", _) => self.n.into(),
                ("{{last_version}}", Some(version)) => version.into(),
                _ => self.text(text).into(),
            },
            Value::Array(items) => items.iter().map(|item| self.json(item)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone(), self.json(value))).collect()
            }
            other => other.clone(),
        }
    }
}

/// A turn as chunks of Chat Completions.
pub struct ChatCompletions;

impl Format for ChatCompletions {
    fn system<'a>(&self, request: &'a Value) -> &'a Value {
        &request["messages"][0]["content"]
    }

    fn stream(&self, turn: &Spoken) -> String {
        let chunk = |choices: Value, usage: Option<Value>| {
            let mut chunk = json!({
                "id": format!("chatcmpl-{}", turn.id),
                "object": "chat.completion.chunk",
                "created": 0,
                "model": turn.model,
                "choices": choices,
            });
            if let Some(usage) = usage {
                chunk["usage"] = usage;
            }
            format!("data: {chunk}\n\n")
        };
        let delta = |delta: Value| {
            chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), None)
        };

        let mut out = delta(json!({"role": "assistant", "content": ""}));
        out.push_str(": still here\n\n");
        for piece in text_pieces(&turn.text) {
            out.push_str(&delta(json!({"content": piece})));
        }
        for (index, ToolCall { id, name, arguments }) in turn.calls.iter().enumerate() {
            let function = json!({"name": name, "arguments": ""});
            out.push_str(&delta(json!({
                "tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]
            })));
            for piece in text_pieces(arguments) {
                out.push_str(&delta(
                    json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
                ));
            }
        }
        let usual = if turn.calls.is_empty() { "stop" } else { "tool_calls" };
        let finish = turn.finish.as_deref().unwrap_or(usual);
        out.push_str(&chunk(json!([{"index": 0, "delta": {}, "finish_reason": finish}]), None));
        let usage = turn.usage;
        let usage = json!({
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "total_tokens": usage.input.saturating_add(usage.output),
            "prompt_tokens_details": {"cached_tokens": usage.cached},
        });
        out.push_str(&chunk(json!([]), Some(usage)));
        out.push_str("data: [DONE]\n\n");
        out
    }
}

/// A model that plays a script in this process, with the ordinary client of Chat Completions in front of it.
///
/// ```
/// use act_core::event::Events;
/// use act_model::{Ask, Model, TokenLedger};
/// use act_model::scripted::{Script, ScriptedModel};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let script = Script::from_yaml("turns: [{role: editor, text: hello}]").unwrap();
/// let model = ScriptedModel::new(script, Events::silent(), TokenLedger::default()).unwrap();
/// let mut chat = model.open("editor", "Be brief.", &[]);
/// chat.say("Good morning");
/// let turn = chat.next(Ask::default(), &Default::default()).await.unwrap();
/// assert_eq!(turn.text, "hello");
/// # });
/// ```
pub struct ScriptedModel(Client);

impl ScriptedModel {
    /// Opens a model that plays `script`.
    ///
    /// # Errors
    ///
    /// The client in front of the script has the same checks as for a server; they hold for every script.
    pub fn new(script: Script, events: Events, ledger: TokenLedger) -> Result<Self, ModelError> {
        Client::new(ModelAccess::Scripted(script), Deadlines::default(), events, ledger).map(Self)
    }

    /// Returns the bodies of all requests so far, oldest first.
    pub fn requests(&self) -> Vec<Value> {
        let script = self.0.0.http.script.as_ref();
        script.map(|script| script.lock().requests.clone()).unwrap_or_default()
    }
}

impl Model for ScriptedModel {
    fn open(&self, role: &str, system: &str, tools: &[ToolSpec]) -> Box<dyn Conversation> {
        self.0.open(role, system, tools)
    }
}

/// Replaces the network: it takes bodies of requests and returns answers.
#[derive(Clone)]
pub(super) struct Transport(Arc<Mutex<Played>>);

#[derive(Default)]
struct Played {
    player: Player,
    requests: Vec<Value>,
}

impl Transport {
    pub(super) fn new(script: Script) -> Self {
        let player = Player::new(script);
        Self(Arc::new(Mutex::new(Played { player, requests: vec![] })))
    }

    fn lock(&self) -> MutexGuard<'_, Played> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers as the scripted HTTP server does, without its connection.
    pub(super) async fn send(&self, request: &[u8]) -> reqwest::Response {
        let body: Value = serde_json::from_slice(request).unwrap_or_default();
        let answer = {
            let mut played = self.lock();
            let text = String::from_utf8_lossy(request);
            let answer = played.player.answer(&ChatCompletions, &text, &body);
            played.requests.push(body);
            answer
        };
        tokio::time::sleep(Duration::from_millis(answer.delay_ms)).await;
        let end = futures_util::stream::once(async move {
            match answer.end {
                Some(End::Stall(_)) => std::future::pending().await,
                Some(End::Reset(_)) => Err(std::io::Error::other("scripted reset")),
                Some(End::Cut(_)) | None => Ok(Bytes::new()),
            }
        });
        let stream = futures_util::stream::iter(answer.body.into_iter().map(Ok)).chain(end);
        let mut response = http::Response::new(reqwest::Body::wrap_stream(stream));
        *response.status_mut() = http::StatusCode::from_u16(answer.status)
            .unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in answer.headers {
            let name = http::HeaderName::try_from(name);
            if let (Ok(name), Ok(value)) = (name, http::HeaderValue::try_from(value)) {
                response.headers_mut().insert(name, value);
            }
        }
        response.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(yaml: &str) -> ScriptError {
        Script::from_yaml(yaml).unwrap_err()
    }

    /// Texts of all turns of a role, with their round filled in.
    fn texts(script: &Script, role: &str) -> Vec<String> {
        let turns = script.roles.get(role).into_iter().flatten();
        turns.map(|turn| Values::new(turn.n, "").text(turn.text.as_deref().unwrap())).collect()
    }

    #[test]
    fn loops_are_written_out_in_order_and_count_their_rounds() {
        let script = Script::from_yaml(
            "turns:
              - {role: editor, text: first}
              - repeat: 2
                turns:
                  - {role: editor, text: 'a{{n}}'}
                  - {role: scout-a, text: 's{{n}}'}
              - {role: editor, repeat: 2, text: 'b{{n}}'}",
        )
        .unwrap();
        assert_eq!(texts(&script, "editor"), ["first", "a1", "a2", "b1", "b2"]);
        assert_eq!(texts(&script, "scout-a"), ["s1", "s2"]);
    }

    #[test]
    fn errors_name_the_line() {
        let unknown = refused("turns:\n  - {role: editor, text: a}\n  - {role: editor, txet: b}\n");
        assert_eq!((unknown.line, unknown.column), (3, 20), "{unknown}");
        assert!(unknown.to_string().starts_with("script line 3, column 20: "), "{unknown}");
        assert_eq!(
            refused("turns:\n  - {text: a}\n").to_string(),
            "script line 2, column 5: a turn needs a role"
        );
        assert_eq!(refused("turns:\n  - {role: editor}\n").line, 2);
        assert_eq!(
            refused("turns: [{role: e, text: a, cut_after_bytes: 1, stall_after_bytes: 2}]").line,
            1
        );
        assert_eq!(refused("turns: [{repeat: 200000, role: e, text: a}]").line, 1);
        assert_eq!(refused("turns:\n  - {repeat: 2, turns: [{repeat: 2, turns: []}]}").line, 2);
        assert_eq!(
            refused("turns:\n  - {role: e, text: a}\n  - {role: e, text: a, repeat: -1}").line,
            3
        );
    }

    #[test]
    fn placeholders_take_their_values_from_the_request() {
        let request = r#"{"messages":["run_20261121_100000_aaaaaa run_20261121_100001_bbbbbb",
            "edited a · version 3 · 2 lines","again run_20261121_100000_aaaaaa: b \u00b7 version 4, version 5"]}"#;
        let values = Values::new(7, request);
        assert_eq!(values.text("{{n}}: {{last_run_id}}"), "7: run_20261121_100000_aaaaaa");
        assert_eq!(
            values.text("{{run_ids}}"),
            "run_20261121_100001_bbbbbb, run_20261121_100000_aaaaaa"
        );
        assert_eq!(
            values.json(&json!({"a": ["{{last_version}}", "v{{last_version}}", "{{n}}", 1]})),
            json!({"a": [4, "v4", 7, 1]})
        );
        assert_eq!(Values::new(1, "").text("{{last_run_id}}"), "{{last_run_id}}");
    }
}
