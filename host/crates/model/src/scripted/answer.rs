//! One turn of the script as the bytes of an HTTP answer.

use bytes::Bytes;
use serde_json::Value;

use super::script::{End, Turn};
use super::substitute::Values;
use super::wire::Wire;
use act_core::event::ModelUsage;

/// Lengths of the pieces that texts and bodies are cut into, in turn: short and odd ones, so that lines,
/// characters and JSON are torn apart, and long ones, so that a large file does not take for ever.
const PIECES: [usize; 6] = [1, 3, 17, 5, 250, 1021];

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<Bytes>,
    /// What happens after the body, None when it is complete.
    pub(super) end: Option<End>,
    pub(super) delay_ms: u64,
}

/// Who asks, on which wire and for the how-manieth time.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) wire: Wire,
    pub(super) role: &'a str,
    /// Counts the requests of the role from 1 and makes the ids.
    pub(super) number: u32,
    pub(super) model: &'a Value,
    pub(super) request: &'a str,
}

/// What the model says, whatever the wire.
pub(super) struct Said {
    /// `ROLE-NUMBER`, for ids.
    pub(super) id: String,
    pub(super) model: Value,
    pub(super) text: String,
    pub(super) calls: Vec<SaidCall>,
    /// In the words of Chat Completions; None when it follows from the calls.
    pub(super) finish: Option<String>,
    pub(super) usage: ModelUsage,
}

pub(super) struct SaidCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

pub(super) fn answer(turn: &Turn, asked: Asked<'_>) -> Answer {
    let Asked { wire, role, number, .. } = asked;
    let values = Values::new(turn.n, asked.request);
    let fault = &turn.fault;
    let status = fault.status.unwrap_or(200);
    let text = match &fault.body {
        Some(body) => values.text(body),
        None if fault.status.is_some_and(|status| status >= 300) => {
            wire.error("scripted", &format!("scripted status {status}")).to_string()
        }
        None => wire.stream(&said(turn, asked, &values)),
    };
    let kind = if status < 300 { "text/event-stream" } else { "application/json" };
    let mut headers = vec![(wire.id_header().to_owned(), format!("req_{role}_{number}"))];
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

/// What a role hears when its script is over.
pub(super) fn over() -> Turn {
    Turn { n: 1, text: Some("script is over".into()), ..Turn::default() }
}

pub(super) fn said(turn: &Turn, asked: Asked<'_>, values: &Values) -> Said {
    let Asked { role, number, model, request, .. } = asked;
    let text = values.text(turn.text.as_deref().unwrap_or_default());
    let call = |(index, call): (usize, &super::script::Call)| SaidCall {
        id: format!("call_{role}_{number}_{index}"),
        name: call.name.clone(),
        arguments: match &call.arguments {
            Value::Null => "{}".to_owned(),
            Value::String(raw) => values.text(raw),
            value => values.json(value).to_string(),
        },
    };
    let calls: Vec<_> = turn.calls.iter().enumerate().map(call).collect();
    let spoken = calls.iter().map(|call| call.name.len() + call.arguments.len()).sum::<usize>();
    // About four bytes to a token, as long as nobody wants other counts.
    let tokens = |bytes: usize| u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX);
    let usage = turn.usage.unwrap_or(ModelUsage {
        input: tokens(request.len()),
        cached: 0,
        output: tokens(text.len() + spoken),
    });
    let (id, finish) = (format!("{role}-{number}"), turn.finish.clone());
    Said { id, model: model.clone(), text, calls, finish, usage }
}

pub(super) fn text_pieces(text: &str) -> Vec<&str> {
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
