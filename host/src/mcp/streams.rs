//! The streams between the server and its client: how the end of stdin is noticed, and how much may wait to be read.
//!
//! The crate `rmcp` reads requests as fast as they come, answers each in a thread of its own, and holds the answers until the
//! client reads them. A client that asks and never reads would fill the memory, so no more is read from it while too many
//! requests are not answered, or too many answers wait.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rmcp::RoleServer;
use rmcp::model::{
    ClientNotification, JsonRpcError, JsonRpcMessage, JsonRpcNotification, RequestId,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Requests without an answer, and messages that wait to be read by the client, beyond which nothing is read from it: with
/// results of at most 64 kB about 16 MB, and more than a client has calls in progress.
const MOST_UNREAD: usize = 256;
/// A client that reads nothing for this long, while so much waits, has gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// A transport whose messages are counted until they are written.
pub(super) struct Streams<T> {
    inner: T,
    unread: Arc<Unread>,
    /// The requests whose answer was not sent yet. A cancelled request gets none.
    unanswered: HashSet<RequestId>,
    /// Since when nothing has been read from the client.
    paused: Option<Instant>,
    /// How long that may last: [`PATIENCE`].
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
    pub(super) fn new(inner: T, gone: CancellationToken) -> Self {
        let (unread, unanswered) = Default::default();
        Self { inner, unread, unanswered, paused: None, patience: PATIENCE, gone }
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
        let received = match self.room().await {
            true => self.inner.receive().await,
            false => None,
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
        let mut streams = Streams::new(inner, gone.clone());
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
        let mut streams = Streams::new(inner, gone.clone());
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

    #[tokio::test]
    async fn the_end_of_stdin_is_noticed_at_once() {
        let (ours, theirs) = tokio::io::duplex(64);
        let (read, write) = tokio::io::split(ours);
        let gone = CancellationToken::new();
        let mut streams = Streams::new(AsyncRwTransport::new_server(read, write), gone.clone());
        drop(theirs);
        assert!(streams.receive().await.is_none());
        assert!(gone.is_cancelled());
    }
}
