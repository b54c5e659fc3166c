//! What happened, as typed facts: the only source of progress on a terminal, of JSON lines and of logs.
//!
//! Code that does something reports it here and never formats or prints. Events carry plain data, so this
//! module knows no other.

mod kind;

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};

pub use kind::{EventKind, ModelUsage, StepOutput};

/// One fact with its place in the order of a task.
#[derive(Debug, Clone)]
pub struct Event {
    pub seq: u64,
    pub time: DateTime<Utc>,
    pub task_id: String,
    pub kind: EventKind,
}

/// A reader of the stream. Called in order, one event at a time; must not block for long.
pub trait Sink: Send {
    fn event(&mut self, event: &Event);
}

/// The sending end; clones feed the same stream.
#[derive(Clone)]
pub struct Events {
    inner: Arc<Mutex<Stream>>,
}

struct Stream {
    task_id: String,
    seq: u64,
    sinks: Vec<Box<dyn Sink>>,
}

impl Events {
    pub fn new(task_id: impl Into<String>, sinks: Vec<Box<dyn Sink>>) -> Self {
        let stream = Stream { task_id: task_id.into(), seq: 0, sinks };
        Self { inner: Arc::new(Mutex::new(stream)) }
    }

    /// A stream that nobody reads.
    pub fn silent() -> Self {
        Self::new("", vec![])
    }

    pub fn emit(&self, kind: EventKind) {
        // A sink that panicked must not silence the others.
        let mut stream = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        stream.seq += 1;
        let event = Event {
            seq: stream.seq,
            time: crate::clock::now(),
            task_id: stream.task_id.clone(),
            kind,
        };
        for sink in &mut stream.sinks {
            sink.event(&event);
        }
    }
}
