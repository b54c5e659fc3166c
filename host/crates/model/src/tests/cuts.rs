//! Streams that arrive whole, byte by byte, or not to their end: one result, or a stated refusal.

use super::*;
use crate::sse::Decoder;
use crate::wire::StreamParser;

fn stream(wire: Wire) -> Box<dyn StreamParser> {
    use crate::wire::Wire as _;
    match wire {
        Wire::ChatCompletions => crate::chat_completions::ChatCompletions::default().stream(),
        Wire::Messages => crate::anthropic_messages::AnthropicMessages.stream(),
        Wire::Responses => crate::openai_responses::OpenAiResponses.stream(),
    }
}

/// The turn's calls and assistant_items, once the bytes make a turn.
fn read(wire: Wire, bytes: &[u8], step: usize) -> Option<(Turn, Vec<String>)> {
    let (mut decoder, mut stream, mut payloads) = (Decoder::default(), stream(wire), vec![]);
    'bytes: for piece in bytes.chunks(step) {
        decoder.push(piece, &mut payloads).unwrap();
        for payload in payloads.drain(..) {
            if stream.payload(&payload).unwrap().is_break() {
                break 'bytes;
            }
        }
    }
    let complete = stream.complete();
    complete.then(|| stream.reply(&mut 0).unwrap()).map(|reply| (reply.turn, reply.assistant_items))
}

/// Every way in which a turn can end: calls with text and alone, text alone, nothing at all, the length limit
/// and a filter.
const TURNS: [&str; 6] = [
    "text: 'äöü: a whole sentence', calls: [{name: f, arguments: {path: 'a', n: [1, 2.50]}}, {name: g}]",
    "call: {name: f, arguments: {content: \"one\\n\\ndata: two\\r\\n\"}}",
    "text: \"data: {}\\n\\ndata: [DONE]\\n\\n\"",
    "finish: stop",
    "text: so far, call: {name: f}, finish: length",
    "text: no, finish: content_filter",
];

fn told(wire: Wire, turn: &str) -> String {
    let script = format!("turns: [{{role: editor, {turn}}}]");
    act_testing::stream_of(wire, &script, "editor")
}

/// Each wire with the stream of each kind of turn.
fn all() -> impl Iterator<Item = (Wire, String)> {
    Wire::ALL.into_iter().flat_map(|wire| TURNS.map(|turn| (wire, told(wire, turn))))
}

/// Where the event that ends the turn is complete.
fn end_of_turn(wire: Wire, body: &str) -> usize {
    let ends: &[&str] = match wire {
        Wire::ChatCompletions => &[r#""finish_reason":""#],
        Wire::Messages => &["data: {\"type\":\"message_stop\""],
        Wire::Responses => {
            &["data: {\"type\":\"response.completed\"", "data: {\"type\":\"response.incomplete\""]
        }
    };
    let at = ends.iter().find_map(|end| body.find(end)).unwrap();
    at + body[at..].find('\n').unwrap() + 1
}

#[test]
fn a_cut_at_any_byte_gives_the_whole_turn_or_none() {
    for (wire, body) in all() {
        let whole = read(wire, body.as_bytes(), body.len());
        let stop = whole.as_ref().unwrap().0.stop;
        assert_eq!(whole.as_ref().unwrap().0.calls.is_empty(), stop != Stop::Tools, "{body}");
        let complete = end_of_turn(wire, &body);
        for cut in 0..=body.len() {
            let bytes = &body.as_bytes()[..cut];
            let got = read(wire, bytes, 1);
            assert_eq!(got, read(wire, bytes, body.len()), "{wire:?}, cut at {cut}");
            assert_eq!(got, whole.clone().filter(|_| cut >= complete), "{wire:?}, cut at {cut}");
        }
    }
}

// Cuts the streams over HTTP, where the end of the body differs from the end of the turn.
#[test]
fn a_cut_between_two_events_is_a_cut_stream() {
    for (wire, body) in all() {
        let complete = end_of_turn(wire, &body);
        let whole = ask_raw(wire, sse(&body)).unwrap();
        let ends = body.match_indices("\n\n").map(|(at, _)| at + 2);
        for cut in std::iter::once(0).chain(ends) {
            match ask_raw(wire, sse(&body[..cut])) {
                Err(error) => {
                    assert!(cut < complete, "{wire:?}, cut at {cut}: {error}");
                    assert_eq!((error.kind, error.status), (ModelErrorKind::Cut, Some(200)));
                }
                Ok(turn) => {
                    assert!(cut >= complete, "{wire:?}, cut at {cut}");
                    // The counts of Chat Completions come after the turn and may be lost.
                    assert_eq!(Turn { usage: whole.usage, ..turn }, whole);
                }
            }
        }
    }
}

/// Sends the streams over HTTP in pieces of one byte each, as slow networks and proxies deliver it.
#[test]
fn a_stream_that_comes_byte_by_byte_is_the_same_turn() {
    for (wire, body) in all() {
        let whole = ask_raw(wire, sse(&body)).unwrap();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
        let mut bytes = head.as_bytes().to_vec();
        for byte in body.bytes() {
            bytes.extend([b'1', b'\r', b'\n', byte, b'\r', b'\n']);
        }
        bytes.extend(b"0\r\n\r\n");
        assert_eq!(ask_raw(wire, bytes).unwrap(), whole, "{wire:?}: {body}");
    }
}

/// Comments, names of events and line ends of every kind change nothing.
#[test]
fn the_dress_of_a_stream_does_not_matter() {
    for (wire, body) in all() {
        let whole = read(wire, body.as_bytes(), 7);
        let bare: String = body
            .lines()
            .filter(|line| line.starts_with("data: "))
            .map(|line| format!("{line}\n\n"))
            .collect();
        let crlf = body.replace('\n', "\r\n");
        let talkative = body.replace("\n\n", "\n\n: keep-alive\n\nevent: ping\n\n");
        for dressed in [bare, crlf, talkative] {
            assert_eq!(read(wire, dressed.as_bytes(), 3), whole, "{wire:?}");
        }
    }
}
