//! Whether the kernel killed something for memory. While a container lives only the engine's event tells,
//! since a step is an exec and the container's own flag speaks of what has ended.

use std::collections::HashMap;
use std::time::Duration;

use bollard::query_parameters::EventsOptions;
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::engine::Engine;

/// How long an event may lag behind the exit code it explains.
const LAG: Duration = Duration::from_millis(300);

/// Counts the `oom` events of one container; stops when dropped.
pub(super) struct OomWatch {
    count: watch::Receiver<u64>,
    _listener: AbortOnDropHandle<()>,
}

impl OomWatch {
    /// For a container that was created and not started: nothing can be missed, as the engine replays.
    pub(super) fn new(engine: &Engine, container: &str) -> Self {
        let filter = |name: &str, value: &str| (name.to_owned(), vec![value.to_owned()]);
        let options = EventsOptions {
            since: Some("1".to_owned()),
            until: None,
            filters: Some(HashMap::from([
                filter("type", "container"),
                filter("container", container),
                filter("event", "oom"),
            ])),
        };
        let mut events = Box::pin(engine.docker.events(Some(options)));
        let (sender, count) = watch::channel(0);
        let listener = tokio::spawn(async move {
            while let Some(Ok(_)) = events.next().await {
                sender.send_modify(|count| *count += 1);
            }
        });
        Self { count, _listener: AbortOnDropHandle::new(listener) }
    }

    pub(super) fn count(&self) -> u64 {
        *self.count.borrow()
    }

    /// Waits a moment for an event beyond `seen`.
    pub(super) async fn more_than(&self, seen: u64) -> bool {
        let mut count = self.count.clone();
        let grown = count.wait_for(|count| *count > seen);
        matches!(tokio::time::timeout(LAG, grown).await, Ok(Ok(_)))
    }
}
