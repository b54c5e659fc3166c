//! What one query tells, until it is over for its caller: a thread that ends later ends in silence, so that
//! nothing follows a task's last event.

use std::sync::{Arc, Mutex, PoisonError};

use act_core::event::{EventKind, Events};

#[derive(Clone)]
pub(super) struct Voice(Arc<Mutex<Option<Events>>>);

impl Voice {
    pub(super) fn new(events: Events) -> Self {
        Self(Arc::new(Mutex::new(Some(events))))
    }

    pub(super) fn tell(&self, kind: EventKind) {
        if let Some(events) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            events.emit(kind);
        }
    }

    /// Returns when nobody is telling anything any more.
    pub(super) fn silence(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
