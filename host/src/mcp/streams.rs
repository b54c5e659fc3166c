//! The streams between the server and its client: how the end of stdin is noticed, how much may wait to be read, and that a
//! message which is nested too deep has an answer.
//!
//! The crate `rmcp` reads requests as fast as they come, answers each in a thread of its own, and holds the answers until the
//! client reads them. A client that asks and never reads would fill the memory, so no more is read from it while too many
//! requests are not answered, or too many answers wait.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rmcp::RoleServer;
use rmcp::model::{
    ClientNotification, ErrorData, JsonRpcError, JsonRpcMessage, JsonRpcNotification, RequestId,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Requests without an answer, and messages that wait to be read by the client, beyond which nothing is read from it: with
/// results of at most 64 kB about 16 MB, and more than a client has calls in progress.
const MOST_UNREAD: usize = 256;
/// A client that reads nothing for this long, while so much waits, has gone.
const PATIENCE: Duration = Duration::from_secs(5);
/// Levels of a message that the parser of `rmcp` reads; it drops a deeper one without an answer.
const MAX_DEPTH: u32 = 127;

/// Counts the messages that were nested too deep and have no answer yet.
#[derive(Default)]
pub(super) struct TooDeep {
    count: AtomicUsize,
    /// There is one more.
    found: Notify,
}

/// Passes the bytes of the client on, and notices lines that are nested too deep.
pub(super) struct Shallow<R> {
    inner: R,
    depth: u32,
    in_text: bool,
    escaped: bool,
    is_too_deep: bool,
    too_deep: Arc<TooDeep>,
}

impl<R> Shallow<R> {
    pub(super) fn new(inner: R) -> (Self, Arc<TooDeep>) {
        let too_deep = Arc::new(TooDeep::default());
        let counter = Arc::clone(&too_deep);
        let (in_text, escaped, is_too_deep) = (false, false, false);
        (Self { inner, depth: 0, in_text, escaped, is_too_deep, too_deep }, counter)
    }

    fn take(&mut self, byte: u8) {
        match byte {
            // No line goes on in the next one, whatever it holds.
            b'\n' => {
                if self.is_too_deep {
                    self.too_deep.count.fetch_add(1, Ordering::SeqCst);
                    self.too_deep.found.notify_one();
                }
                (self.depth, self.in_text, self.escaped, self.is_too_deep) =
                    (0, false, false, false);
            }
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_text => self.escaped = true,
            b'"' => self.in_text = !self.in_text,
            _ if self.in_text => {}
            b'[' | b'{' => {
                self.depth = self.depth.saturating_add(1);
                self.is_too_deep |= self.depth > MAX_DEPTH;
            }
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Shallow<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        for byte in buffer.filled().get(before..).unwrap_or_default() {
            self.take(*byte);
        }
        read
    }
}

/// A transport whose messages are counted until they are written.
pub(super) struct Streams<T> {
    inner: T,
    unread: Arc<Unread>,
    /// The requests whose answer was not sent yet. A cancelled request gets none.
    unanswered: HashSet<RequestId>,
    too_deep: Arc<TooDeep>,
    /// Since when nothing has been read from the client.
    paused: Option<Instant>,
    /// The longest time for that: [`PATIENCE`].
    patience: Duration,
    /// Is cancelled when the client has gone.
    gone: CancellationToken,
}

#[derive(Default)]
struct Unread {
    count: AtomicUsize,
    /// A message was written.
    written: Notify,
}

/// One message that waits to be written; dropping it also counts a message that is not sent any more.
struct Waiting(Arc<Unread>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::SeqCst);
        self.0.written.notify_one();
    }
}

impl<T> Streams<T> {
    pub(super) fn new(inner: T, too_deep: Arc<TooDeep>, gone: CancellationToken) -> Self {
        let (unread, unanswered) = Default::default();
        Self { inner, unread, unanswered, too_deep, paused: None, patience: PATIENCE, gone }
    }

    /// Waits until the client has read enough. Returns whether it is still there.
    async fn room(&mut self) -> bool {
        loop {
            if self.unanswered.len() + self.unread.count.load(Ordering::SeqCst) < MOST_UNREAD {
                self.paused = None;
                return true;
            }
            // The wait may be dropped and begun again; the time of its beginning stays.
            let since = *self.paused.get_or_insert_with(Instant::now);
            let left = self.patience.saturating_sub(since.elapsed());
            if tokio::time::timeout(left, self.unread.written.notified()).await.is_err() {
                return false;
            }
            self.paused = None;
        }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Streams<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        match &item {
            JsonRpcMessage::Response(answer) => drop(self.unanswered.remove(&answer.id)),
            JsonRpcMessage::Error(JsonRpcError { id: Some(id), .. }) => {
                self.unanswered.remove(id);
            }
            _ => {}
        }
        self.unread.count.fetch_add(1, Ordering::SeqCst);
        let waiting = Waiting(Arc::clone(&self.unread));
        let sending = self.inner.send(item);
        async move {
            let _waiting = waiting;
            sending.await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let received = loop {
            if !self.room().await {
                break None;
            }
            if self.too_deep.count.load(Ordering::SeqCst) > 0 {
                self.too_deep.count.fetch_sub(1, Ordering::SeqCst);
                // The message was not parsed, so its id is not known (JSON-RPC 2.0, section 5.1).
                let why = format!("the message is nested deeper than {MAX_DEPTH} levels");
                let error = JsonRpcError::new(None, ErrorData::parse_error(why, None));
                // This future may be dropped at any time, and the answer is sent all the same.
                drop(tokio::spawn(self.send(JsonRpcMessage::Error(error))));
                continue;
            }
            tokio::select! {
                received = self.inner.receive() => break received,
                () = self.too_deep.found.notified() => {}
            }
        };
        match &received {
            None => self.gone.cancel(),
            Some(JsonRpcMessage::Request(request)) => {
                self.unanswered.insert(request.id.clone());
            }
            Some(JsonRpcMessage::Notification(JsonRpcNotification {
                notification: ClientNotification::CancelledNotification(cancelled),
                ..
            })) => {
                if let Some(id) = &cancelled.params.request_id {
                    self.unanswered.remove(id);
                }
            }
            Some(_) => {}
        }
        received
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::transport::async_rw::AsyncRwTransport;
    use serde_json::json;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    fn answer(id: i64) -> TxJsonRpcMessage<RoleServer> {
        serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "result": {}})).unwrap()
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_not_read_from_and_is_gone_after_a_time() {
        let (ours, theirs) = tokio::io::duplex(64);
        let (read, write) = tokio::io::split(ours);
        let gone = CancellationToken::new();
        let inner = AsyncRwTransport::new_server(read, write);
        let mut streams = Streams::new(inner, Arc::default(), gone.clone());
        streams.patience = Duration::from_millis(500);
        let (read, mut write) = tokio::io::split(theirs);
        let mut client = BufReader::new(read);
        let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";

        write.write_all(ping).await.unwrap();
        assert!(streams.receive().await.is_some(), "nothing waits yet");
        let sends: Vec<_> = (0..256).map(|id| tokio::spawn(streams.send(answer(id)))).collect();
        write.write_all(ping).await.unwrap();
        // One message that is read makes room for the next one.
        let mut line = String::new();
        client.read_line(&mut line).await.unwrap();
        assert!(line.contains("result"), "{line}");
        assert!(streams.receive().await.is_some());
        assert!(!gone.is_cancelled());

        let more: Vec<_> = (0..256).map(|id| tokio::spawn(streams.send(answer(id)))).collect();
        assert!(streams.receive().await.is_none(), "nothing was read for a time");
        assert!(gone.is_cancelled());
        more.iter().chain(&sends).for_each(tokio::task::JoinHandle::abort);
        drop((write, client));
    }

    #[tokio::test]
    async fn requests_without_an_answer_count_as_well_unless_they_were_cancelled() {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(ours);
        let gone = CancellationToken::new();
        let inner = AsyncRwTransport::new_server(read, write);
        let mut streams = Streams::new(inner, Arc::default(), gone.clone());
        streams.patience = Duration::from_millis(300);
        let (_read, mut write) = tokio::io::split(theirs);
        let ping = |id: usize| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n");
        let cancel = |id: usize| {
            let params = json!({"requestId": id});
            let method = "notifications/cancelled";
            format!("{}\n", json!({"jsonrpc": "2.0", "method": method, "params": params}))
        };
        for id in 0..600 {
            write.write_all(ping(id).as_bytes()).await.unwrap();
            write.write_all(cancel(id).as_bytes()).await.unwrap();
            assert!(streams.receive().await.is_some() && streams.receive().await.is_some());
        }
        for id in 0..256 {
            write.write_all(ping(id).as_bytes()).await.unwrap();
            assert!(streams.receive().await.is_some(), "{id}");
        }
        // One that is answered makes room for the next one.
        write.write_all(ping(300).as_bytes()).await.unwrap();
        streams.send(answer(0)).await.unwrap();
        assert!(streams.receive().await.is_some());
        write.write_all(ping(301).as_bytes()).await.unwrap();
        assert!(streams.receive().await.is_none(), "too many wait for their answers");
        assert!(gone.is_cancelled());
    }

    // attack 651
    #[tokio::test]
    async fn a_message_that_is_nested_too_deep_is_answered_with_a_parse_error() {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(ours);
        let (read, too_deep) = Shallow::new(read);
        let inner = AsyncRwTransport::new_server(read, write);
        let mut streams = Streams::new(inner, too_deep, CancellationToken::new());
        let (read, mut write) = tokio::io::split(theirs);
        let mut client = BufReader::new(read);
        let nested = |depth: usize, text: &str| {
            let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1));
            let params = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{open}{text}{close}}}"
            );
            params + "\n"
        };
        let ping = b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n";
        // Brackets in a text are no levels.
        let text = format!("\"\\\"{}\"", "[".repeat(1000));
        for (line, is_deep) in
            [(nested(128, ""), true), (nested(100_000, "1"), true), (nested(100, &text), false)]
        {
            write.write_all(line.as_bytes()).await.unwrap();
            write.write_all(ping).await.unwrap();
            while let Some(message) = streams.receive().await {
                let JsonRpcMessage::Request(request) = message else { continue };
                if request.id == RequestId::Number(2) {
                    break;
                }
            }
            if is_deep {
                // The answer is sent while the server waits for the next message.
                let mut answer = String::new();
                let receive = async { while streams.receive().await.is_some() {} };
                tokio::select! {
                    read = client.read_line(&mut answer) => assert!(read.unwrap() > 0),
                    () = receive => {}
                }
                let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
                assert_eq!(
                    (&answer["id"], &answer["error"]["code"]),
                    (&json!(null), &json!(-32700))
                );
            }
        }
        assert_eq!(streams.too_deep.count.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn the_end_of_stdin_is_noticed_at_once() {
        let (ours, theirs) = tokio::io::duplex(64);
        let (read, write) = tokio::io::split(ours);
        let gone = CancellationToken::new();
        let mut streams =
            Streams::new(AsyncRwTransport::new_server(read, write), Arc::default(), gone.clone());
        drop(theirs);
        assert!(streams.receive().await.is_none());
        assert!(gone.is_cancelled());
    }
}
