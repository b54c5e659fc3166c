//! What happened, as typed facts: the only source of progress on a terminal, of JSON lines and of logs.
//!
//! Code that does something reports it here and never formats or prints. Events carry plain data, so this
//! module knows no other.

pub mod json;
mod kind;
mod milestone;
#[cfg(any(test, feature = "testing"))]
pub mod schema;

use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};

pub use kind::{EventKind, ModelUsage, Patch, ProposedChange, StepOutput};
pub use milestone::Milestone;

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
    /// `task_finished` has been told; nothing comes after it.
    ended: bool,
}

impl Events {
    pub fn new(task_id: impl Into<String>, sinks: Vec<Box<dyn Sink>>) -> Self {
        Self::resumed(task_id, 0, sinks)
    }

    /// A stream that another process began; `told` events have been numbered.
    pub fn resumed(task_id: impl Into<String>, told: u64, sinks: Vec<Box<dyn Sink>>) -> Self {
        let stream = Stream { task_id: task_id.into(), seq: told, sinks, ended: false };
        Self { inner: Arc::new(Mutex::new(stream)) }
    }

    /// A stream that nobody reads.
    pub fn silent() -> Self {
        Self::new("", vec![])
    }

    /// Tells every reader. What comes after `task_finished` is told to nobody.
    pub fn emit(&self, kind: EventKind) {
        // A sink that panicked must not silence the others.
        let mut stream = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.ended {
            return;
        }
        stream.ended = matches!(kind, EventKind::TaskFinished { .. });
        // Not part of what programs read: a number of its own would be a gap there.
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
