//! The two streams of the protocol: one message of JSON-RPC 2.0 on each line.
//!
//! Lines of the client are bounded while they are read. A thread of its own writes, behind a queue, so that no task waits for the
//! client. Updates are left out while the queue is full, and the client learns how many; answers and questions are never left
//! out, and no new message is read until the client has read the old ones.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use act_core::secret::Secrets;
use act_core::terminal_text;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

/// Maximum number of bytes of a line of the client: a task of 256 KiB with every character escaped, and some attached text.
pub(crate) const MAX_LINE: usize = 4 * 1024 * 1024;
/// Updates are left out while more bytes than this wait to be read.
const MAX_UPDATES: usize = 4 * 1024 * 1024;
/// No further message is read while more bytes than this wait to be read.
const MAX_WAITING: usize = 8 * 1024 * 1024;
/// How long the client may read nothing while [`MAX_WAITING`] is reached. Then it is taken for gone.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(10);
/// Lines of the client that are read before the first of them is handled.
const READ_AHEAD: usize = 16;

/// Codes of JSON-RPC and of the protocol.
pub(crate) mod code {
    pub(crate) const PARSE: i64 = -32700;
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    pub(crate) const UNKNOWN_METHOD: i64 = -32601;
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    pub(crate) const INTERNAL: i64 = -32603;
    pub(crate) const NOT_FOUND: i64 = -32002;
}

/// An error of JSON-RPC.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// An error with a stable word and what to do next.
    pub(crate) fn with(mut self, word: &str, hint: Option<&str>) -> Self {
        self.data = Some(json!({"code": word, "hint": hint}));
        self
    }

    fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let (Some(data), Some(error)) = (&self.data, error.as_object_mut()) {
            error.insert("data".to_owned(), data.clone());
        }
        error
    }
}

/// The id of a request: a number or a text, as the client wrote it.
pub(crate) type Id = Value;

/// A message of the client.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    Request {
        id: Id,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// The answer to a question of ours; `None` where the client answered with an error.
    Answer {
        id: Id,
        result: Option<Value>,
    },
    /// No message, and the error with which it is answered.
    Broken {
        id: Id,
        error: RpcError,
    },
}

/// Reads one line of the client.
pub(crate) fn parse(line: &[u8]) -> Incoming {
    let broken =
        |id, code, message: &str| Incoming::Broken { id, error: RpcError::new(code, message) };
    let Ok(text) = std::str::from_utf8(line) else {
        return broken(Value::Null, code::PARSE, "the message is not UTF-8");
    };
    let mut message = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(message)) => message,
        Ok(_) => {
            let message = "the message is no object of JSON-RPC 2.0; batches are not supported";
            return broken(Value::Null, code::INVALID_REQUEST, message);
        }
        Err(_) => return broken(Value::Null, code::PARSE, "the message is not JSON"),
    };
    let id = match message.remove("id") {
        None | Some(Value::Null) => None,
        Some(Value::Number(number)) => Some(Value::Number(number)),
        Some(Value::String(text)) if text.len() <= 256 => Some(Value::String(text)),
        Some(_) => {
            let message = "the id of a message is a number or a text of at most 256 bytes";
            return broken(Value::Null, code::INVALID_REQUEST, message);
        }
    };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        let message = "the message lacks `\"jsonrpc\": \"2.0\"`";
        return broken(id.unwrap_or(Value::Null), code::INVALID_REQUEST, message);
    }
    let params = message.remove("params").unwrap_or(Value::Null);
    let (result, failed) = (message.remove("result"), message.contains_key("error"));
    match (message.remove("method"), id) {
        (Some(Value::String(method)), Some(id)) => Incoming::Request { id, method, params },
        (Some(Value::String(method)), None) => Incoming::Notification { method, params },
        (None, Some(id)) if result.is_some() || failed => {
            Incoming::Answer { id, result: result.filter(|_| !failed) }
        }
        (_, id) => {
            let message = "the message is neither a request nor an answer";
            broken(id.unwrap_or(Value::Null), code::INVALID_REQUEST, message)
        }
    }
}

/// Starts the thread that reads the lines of the client. The channel ends with the stream.
///
/// # Errors
///
/// The thread cannot be started.
pub(crate) fn lines(input: Box<dyn Read + Send>) -> std::io::Result<mpsc::Receiver<Incoming>> {
    let (lines, received) = mpsc::channel(READ_AHEAD);
    std::thread::Builder::new().name("acp reader".to_owned()).spawn(move || {
        let mut input = BufReader::new(input);
        while let Ok(Some(line)) = next_line(&mut input) {
            let incoming = match line {
                Line::Whole(line) if line.iter().all(u8::is_ascii_whitespace) => continue,
                Line::Whole(line) => parse(&line),
                Line::TooLong => {
                    let message = format!("the message has more than {MAX_LINE} bytes");
                    let error = RpcError::new(code::PARSE, message);
                    Incoming::Broken { id: Value::Null, error }
                }
            };
            if lines.blocking_send(incoming).is_err() {
                return;
            }
        }
    })?;
    Ok(received)
}

enum Line {
    Whole(Vec<u8>),
    TooLong,
}

/// Reads a line of at most [`MAX_LINE`] bytes, and skips the rest of a longer one. Returns `None` at the end of the stream; a
/// line without its end is no message.
fn next_line(input: &mut impl BufRead) -> std::io::Result<Option<Line>> {
    let (mut line, mut too_long) = (vec![], false);
    loop {
        let piece = match input.fill_buf() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            piece => piece?,
        };
        if piece.is_empty() {
            return Ok(None);
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let length = end.unwrap_or(piece.len());
        too_long |= line.len() + length > MAX_LINE;
        if !too_long {
            line.extend(piece.iter().take(length));
        } else {
            line = vec![];
        }
        input.consume(end.map_or(length, |end| end + 1));
        if end.is_some() {
            return Ok(Some(if too_long { Line::TooLong } else { Line::Whole(line) }));
        }
    }
}

/// Writes messages to the client; clones share one queue.
#[derive(Clone)]
pub(crate) struct Wire(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    secrets: Secrets,
    /// The questions to the client that have no answer yet, by their ids.
    questions: Mutex<Questions>,
}

#[derive(Default)]
struct Questions {
    asked: u64,
    open: BTreeMap<String, oneshot::Sender<Option<Value>>>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The thread is writing a message.
    busy: bool,
    /// Number of messages written so far.
    written: u64,
    /// The updates of each session that were left out since the last one that was not.
    left_out: BTreeMap<String, u64>,
    broken: bool,
}

/// The client has not read for too long, or its stream is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

impl Wire {
    /// Starts the thread that writes.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub(crate) fn new(output: Box<dyn Write + Send>, secrets: Secrets) -> std::io::Result<Self> {
        let shared = Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            secrets,
            questions: Mutex::default(),
        };
        let wire = Self(Arc::new(shared));
        let writer = wire.clone();
        std::thread::Builder::new()
            .name("acp writer".to_owned())
            .spawn(move || writer.write_all(output))?;
        Ok(wire)
    }

    fn write_all(&self, mut output: Box<dyn Write + Send>) {
        loop {
            let mut queue = self.queue();
            let message = loop {
                if let Some(message) = queue.waiting.pop_front() {
                    break message;
                }
                queue = self.0.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            };
            queue.busy = true;
            drop(queue);
            let written = output.write_all(&message).and_then(|()| output.flush());
            let mut queue = self.queue();
            queue.busy = false;
            queue.bytes -= message.len();
            queue.written += 1;
            if written.is_err() {
                queue.broken = true;
                (queue.waiting, queue.bytes) = (VecDeque::new(), 0);
                return;
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a message as one line: without keys, and with every character that ends a line or acts on a terminal as an escape
    /// of JSON.
    fn line(&self, message: &Value) -> Vec<u8> {
        let text = message.to_string();
        let text = self.0.secrets.redact(&text);
        let mut line = terminal_text::json(&text).into_owned().into_bytes();
        line.push(b'\n');
        line
    }

    fn push(&self, queue: &mut Queue, message: &Value) {
        if queue.broken {
            return;
        }
        let line = self.line(message);
        queue.bytes += line.len();
        queue.waiting.push_back(line);
        self.0.changed.notify_all();
    }

    /// Sends the result of a request.
    pub(crate) fn answer(&self, id: &Id, result: &Result<Value, RpcError>) {
        let message = match result {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error.to_json()}),
        };
        self.push(&mut self.queue(), &message);
    }

    /// Sends an update of a session, or leaves it out if the client is too far behind.
    pub(crate) fn update(&self, session: &str, update: &Value) {
        let mut queue = self.queue();
        if queue.bytes > MAX_UPDATES {
            *queue.left_out.entry(session.to_owned()).or_default() += 1;
            return;
        }
        if let Some(count) = queue.left_out.remove(session) {
            let text =
                format!("({count} updates are missing here, because they were not read in time.)");
            let content = json!({"type": "text", "text": text});
            let missing = json!({"sessionUpdate": "agent_thought_chunk", "content": content});
            self.push(&mut queue, &notification(session, &missing));
        }
        self.push(&mut queue, &notification(session, update));
    }

    /// Asks the client for the permission that `params` describes. The answer is `None` if the client answers with an error; the
    /// receiver fails if the question is withdrawn.
    pub(crate) fn ask(&self, params: &Value) -> Question {
        let (sender, answer) = oneshot::channel();
        let mut questions = self.questions();
        questions.asked += 1;
        let id = format!("permission-{}", questions.asked);
        questions.open.insert(id.clone(), sender);
        drop(questions);
        let method = "session/request_permission";
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.push(&mut self.queue(), &message);
        Question { wire: self.clone(), id, answer }
    }

    /// Hands an answer of the client to whoever asked. An answer to no open question has no effect.
    pub(crate) fn answered(&self, id: &Id, result: Option<Value>) {
        let asked = id.as_str().and_then(|id| self.questions().open.remove(id));
        if let Some(asked) = asked {
            // The question may have been withdrawn in this moment.
            let _ = asked.send(result);
        }
    }

    fn questions(&self) -> MutexGuard<'_, Questions> {
        self.0.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until another message of the client may be read.
    ///
    /// # Errors
    ///
    /// The stream is closed, or the client has read nothing for too long.
    pub(crate) async fn room(&self) -> Result<(), Gone> {
        self.below(MAX_WAITING).await
    }

    /// Waits until updates are not left out.
    ///
    /// # Errors
    ///
    /// The stream is closed, or the client has read nothing for too long.
    pub(crate) async fn room_for_updates(&self) -> Result<(), Gone> {
        self.below(MAX_UPDATES / 2).await
    }

    async fn below(&self, most: usize) -> Result<(), Gone> {
        let (mut since, mut seen) = (Instant::now(), None);
        loop {
            let (bytes, written) = {
                let queue = self.queue();
                if queue.broken {
                    return Err(Gone);
                }
                (queue.bytes, queue.written)
            };
            if bytes <= most {
                return Ok(());
            }
            if seen.replace(written) != Some(written) {
                since = Instant::now();
            }
            if since.elapsed() > PATIENCE {
                return Err(Gone);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until everything is written, the stream is closed, or the time is over.
    pub(crate) async fn drain(&self, longest: Duration) {
        let end = Instant::now() + longest;
        while Instant::now() < end {
            {
                let queue = self.queue();
                if queue.broken || (queue.waiting.is_empty() && !queue.busy) {
                    return;
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns whether the client has closed its stream.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue().broken
    }
}

/// A question that has no answer yet. It is withdrawn when this is dropped: a later answer has no effect.
pub(crate) struct Question {
    wire: Wire,
    id: String,
    answer: oneshot::Receiver<Option<Value>>,
}

impl Question {
    /// Waits for the answer; `None` if there is none in this time, or if it is an error.
    pub(crate) async fn answer(mut self, longest: Duration) -> Option<Value> {
        tokio::time::timeout(longest, &mut self.answer).await.ok()?.ok()?
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.wire.questions().open.remove(&self.id);
    }
}

fn notification(session: &str, update: &Value) -> Value {
    let params = json!({"sessionId": session, "update": update});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::secret::Secret;

    fn error(line: &str) -> (Value, i64) {
        match parse(line.as_bytes()) {
            Incoming::Broken { id, error } => (id, error.code),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn what_is_no_message_has_an_error_and_its_id_where_it_has_one() {
        for line in ["{", "\u{0}", "{\"jsonrpc\":\"2.0\",\"id\":1,", "nonsense"] {
            assert_eq!(error(line), (Value::Null, code::PARSE), "{line}");
        }
        for line in
            ["[]", "1", "\"x\"", "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}]"]
        {
            assert_eq!(error(line), (Value::Null, code::INVALID_REQUEST), "{line}");
        }
        assert_eq!(error(r#"{"id":7,"method":"x"}"#), (json!(7), code::INVALID_REQUEST));
        assert_eq!(error(r#"{"jsonrpc":"2.0","id":7}"#), (json!(7), code::INVALID_REQUEST));
        for id in ["{}", "[1]", "true"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x"}}"#);
            assert_eq!(error(&line), (Value::Null, code::INVALID_REQUEST), "{line}");
        }
        assert_eq!(
            match parse(b"\xff") {
                Incoming::Broken { error, .. } => error.code,
                other => panic!("{other:?}"),
            },
            code::PARSE
        );
        let deep =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{}"#, "[".repeat(100_000));
        assert_eq!(error(&deep).1, code::PARSE);
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_one_is_read() {
        let long = "x".repeat(MAX_LINE + 1);
        let text = format!("{long}\n{{\"jsonrpc\":\"2.0\",\"method\":\"x\"}}\nhalf a line");
        let mut received = lines(Box::new(std::io::Cursor::new(text.into_bytes()))).unwrap();
        let first = received.blocking_recv().unwrap();
        let Incoming::Broken { id: Value::Null, error } = first else { panic!("{first:?}") };
        assert_eq!(error.code, code::PARSE);
        let second = received.blocking_recv().unwrap();
        assert_eq!(second, Incoming::Notification { method: "x".into(), params: Value::Null });
        assert_eq!(received.blocking_recv(), None);
    }

    /// Collects the written bytes. Each write blocks while a test holds the second lock.
    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>, Arc<Mutex<()>>);

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            drop(self.1.lock().unwrap());
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn text(text: &str) -> Value {
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
    }

    #[tokio::test]
    async fn a_message_is_one_line_whatever_it_says_and_holds_no_key() {
        let output = Output::default();
        let secrets = Secrets::new([Secret::new("sk-\"canary")]);
        let wire = Wire::new(Box::new(output.clone()), secrets).unwrap();
        wire.update("s", &text("a\nb\r\u{2028}\u{85}\u{1b}[2Jsk-\"canary"));
        wire.drain(Duration::from_secs(10)).await;
        let written = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
        assert_eq!(written.matches('\n').count(), 1);
        assert!(written.ends_with('\n'));
        assert!(!written.contains(['\r', '\u{2028}', '\u{85}', '\u{1b}']), "{written}");
        let message: Value = serde_json::from_str(&written).unwrap();
        let text = &message["params"]["update"]["content"]["text"];
        assert_eq!(text, "a\nb\r\u{2028}\u{85}\u{1b}[2J[redacted]");
    }

    #[tokio::test]
    async fn updates_are_left_out_for_a_client_that_reads_nothing_and_answers_are_not() {
        let output = Output::default();
        let held = output.1.clone();
        let wire = Wire::new(Box::new(output.clone()), Secrets::default()).unwrap();
        let lock = held.lock().unwrap();
        let long = "x".repeat(64 * 1024);
        for _ in 0..1_000 {
            wire.update("s", &text(&long));
        }
        wire.answer(&json!(1), &Ok(json!({})));
        assert!(wire.queue().bytes < MAX_UPDATES + 2 * long.len(), "{}", wire.queue().bytes);
        let missing = wire.queue().left_out["s"];
        assert!(missing > 900);
        drop(lock);
        wire.drain(Duration::from_secs(60)).await;
        wire.update("s", &text("last"));
        wire.drain(Duration::from_secs(60)).await;
        let written = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
        let last: Vec<_> = written.lines().rev().take(3).collect();
        assert!(last[0].contains("last"));
        assert!(last[1].contains(&format!("({missing} updates are missing here")), "{}", last[1]);
        assert!(last[2].contains(r#""id":1,"result":{}"#));
    }

    #[tokio::test]
    async fn an_answer_to_no_open_question_has_no_effect() {
        let wire = Wire::new(Box::new(std::io::sink()), Secrets::default()).unwrap();
        wire.answered(&json!("permission-1"), Some(json!("too early")));
        let question = wire.ask(&json!({}));
        for id in [json!("permission-2"), json!(1), Value::Null, json!("")] {
            wire.answered(&id, Some(json!("wrong")));
        }
        wire.answered(&json!("permission-1"), Some(json!("right")));
        wire.answered(&json!("permission-1"), Some(json!("again")));
        assert_eq!(question.answer(Duration::from_secs(9)).await, Some(json!("right")));
        let unanswered = wire.ask(&json!({}));
        assert_eq!(unanswered.answer(Duration::from_millis(1)).await, None);
        wire.answered(&json!("permission-2"), Some(json!("too late")));
        assert!(wire.questions().open.is_empty());
    }
}
