//! Events: typed facts about a task, the only source of progress on a terminal, of JSON lines and of journals.
//!
//! Code below the command line emits events and never formats or prints. Events carry plain data, so this module depends
//! on no other. Not `tracing`: events are part of the interface, with a schema and numbers without gaps.

pub mod json;
mod kind;
mod milestone;
#[cfg(any(test, feature = "testing"))]
pub mod schema;

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};

pub use kind::{EventKind, ModelUsage, Patch, ProposedChange, StepOutput};
pub use milestone::Milestone;

/// One event with its number in the task.
#[derive(Debug, Clone)]
pub struct Event {
    pub seq: u64,
    pub time: DateTime<Utc>,
    pub task_id: String,
    pub kind: EventKind,
}

/// Receives the events of a task in order, one at a time; must not block for long.
pub trait Sink: Send {
    fn event(&mut self, event: &Event);
}

/// Emits events; clones share one stream.
#[derive(Clone)]
pub struct Events {
    inner: Arc<Mutex<Stream>>,
}

struct Stream {
    task_id: String,
    seq: u64,
    sinks: Vec<Box<dyn Sink>>,
    /// `task_finished` was emitted; later events are dropped.
    ended: bool,
}

impl Events {
    pub fn new(task_id: impl Into<String>, sinks: Vec<Box<dyn Sink>>) -> Self {
        Self::resumed(task_id, 0, sinks)
    }

    /// Continues a stream of another process, which has numbered `emitted` events.
    pub fn resumed(task_id: impl Into<String>, emitted: u64, sinks: Vec<Box<dyn Sink>>) -> Self {
        let stream = Stream { task_id: task_id.into(), seq: emitted, sinks, ended: false };
        Self { inner: Arc::new(Mutex::new(stream)) }
    }

    /// A stream without sinks.
    pub fn silent() -> Self {
        Self::new("", vec![])
    }

    /// Sends an event to every sink. Events after `task_finished` are dropped.
    pub fn emit(&self, kind: EventKind) {
        // A sink that panicked must not silence the others.
        let mut stream = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.ended {
            return;
        }
        stream.ended = matches!(kind, EventKind::TaskFinished { .. });
        // Programs do not get this event; a number for it would be a gap for them.
        if !matches!(kind, EventKind::StepOutput(_)) {
            stream.seq += 1;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<String>>>);

    impl Sink for Seen {
        fn event(&mut self, event: &Event) {
            self.0.lock().unwrap().extend(event.to_json());
        }
    }

    fn finished() -> EventKind {
        EventKind::TaskFinished {
            state: crate::TaskState::Success,
            exit_code: 0,
            run_id: None,
            reason: None,
            summary: None,
            report_path: None,
            tokens: Default::default(),
            gate_inputs_changed: vec![],
            edits_refused: Default::default(),
        }
    }

    #[test]
    fn numbers_have_no_gap_where_steps_print() {
        // EVENT-1
        let seen = Seen::default();
        let events = Events::new("t-1", vec![Box::new(seen.clone())]);
        events.emit(Milestone::Verifying.into());
        events.emit(EventKind::StepOutput(StepOutput(bytes::Bytes::from_static(b"x"))));
        events.emit(Milestone::VerificationFailed.into());
        let seen = seen.0.lock().unwrap();
        assert_eq!(seen.len(), 2);
        assert!(seen[1].contains(r#""seq":2"#), "{seen:?}");
    }

    #[test]
    fn nothing_is_told_after_the_end() {
        // EVENT-3
        let seen = Seen::default();
        let events = Events::new("t-1", vec![Box::new(seen.clone())]);
        events.emit(Milestone::Analyzing.into());
        events.emit(finished());
        events.emit(Milestone::Verifying.into());
        events.emit(finished());
        let seen = seen.0.lock().unwrap();
        assert_eq!(seen.len(), 2);
        assert!(seen[1].contains(r#""seq":2"#) && seen[1].contains("task_finished"), "{seen:?}");
    }
}
