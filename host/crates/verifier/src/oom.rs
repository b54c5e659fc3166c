//! Whether the kernel killed something for memory. The kernel's own count tells, where it is in sight. Else
//! only the engine's event does while a container lives, since a step is an exec and the container's own flag
//! speaks of what has ended.

use std::collections::HashMap;
use std::time::Duration;

use bollard::query_parameters::EventsOptions;
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::engine::Engine;
use super::kill_counter::KillCounter;

/// How long an event may lag behind the exit code it explains.
const LAG: Duration = Duration::from_millis(300);

/// Listens to the `oom` events of one container, and stops when dropped.
pub(super) struct OomWatch {
    events: watch::Receiver<u64>,
    counter: Option<KillCounter>,
    _listener: AbortOnDropHandle<()>,
}

/// What was known at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kills {
    events: u64,
    counted: Option<u64>,
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
        let mut stream = Box::pin(engine.docker.events(Some(options)));
        let (sender, events) = watch::channel(0);
        let listener = tokio::spawn(async move {
            while let Some(Ok(_)) = stream.next().await {
                sender.send_modify(|count| *count += 1);
            }
        });
        Self { events, counter: None, _listener: AbortOnDropHandle::new(listener) }
    }

    /// Of the container that was started meanwhile.
    pub(super) fn count_with(&mut self, counter: Option<KillCounter>) {
        self.counter = counter;
    }

    /// Whether `since` is going to answer while the container lives.
    pub(super) fn is_counted(&self) -> bool {
        self.counter.as_ref().is_some_and(|counter| counter.count().is_some())
    }

    pub(super) fn so_far(&self) -> Kills {
        let counted = self.counter.as_ref().and_then(KillCounter::count);
        Kills { events: *self.events.borrow(), counted }
    }

    /// None when nobody has said so and nobody has counted.
    pub(super) fn since(&self, before: Kills) -> Option<bool> {
        let now = self.so_far();
        let counted = now.counted.zip(before.counted).map(|(now, before)| now > before);
        if now.events > before.events { Some(true) } else { counted }
    }

    /// Waits a moment for an event.
    pub(super) async fn event_since(&self, before: Kills) -> bool {
        let mut events = self.events.clone();
        let grown = events.wait_for(|count| *count > before.events);
        matches!(tokio::time::timeout(LAG, grown).await, Ok(Ok(_)))
    }
}

impl Kills {
    /// Then the container's own flag speaks of what came after.
    pub(super) fn none(self) -> bool {
        self.events == 0 && self.counted.unwrap_or(0) == 0
    }
}
