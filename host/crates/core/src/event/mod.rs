//! Events: typed facts about a task, the only source of progress on a terminal, of JSON lines and of journals.
//!
//! Code below the command line emits events and never formats or prints. Events carry plain data, so this module depends
//! on no other. Not `tracing`: events are part of the interface, with a schema and numbers without gaps.

pub mod json;
mod kind;
mod milestone;
#[cfg(any(test, feature = "testing"))]
pub mod schema;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};

pub use kind::{EventKind, ModelUsage, Notice, NoticeLevel, Patch, ProposedChange, StepOutput};
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

    /// Returns what the sink itself has to warn of, for instance that its file cannot be written; each warning once. The
    /// stream asks after each event, because a sink cannot emit into the stream that calls it.
    fn take_warning(&mut self) -> Option<String> {
        None
    }
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

    /// Sends an event to every sink, and then the warnings of the sinks themselves. After `task_finished` only notices are
    /// sent.
    pub fn emit(&self, kind: EventKind) {
        // A sink that panicked must not silence the others.
        let mut stream = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kinds = VecDeque::from([kind]);
        while let Some(kind) = kinds.pop_front() {
            stream.send(kind);
            let warnings = stream.sinks.iter_mut().filter_map(|sink| sink.take_warning());
            kinds.extend(warnings.map(|text| notice(NoticeLevel::Warning, text)));
        }
    }

    /// Warns the person at the terminal.
    pub fn warn(&self, text: impl Into<String>) {
        self.emit(notice(NoticeLevel::Warning, text.into()));
    }

    /// Informs the person at the terminal.
    pub fn inform(&self, text: impl Into<String>) {
        self.emit(notice(NoticeLevel::Info, text.into()));
    }
}

fn notice(level: NoticeLevel, text: String) -> EventKind {
    EventKind::Notice(Notice { level, text })
}

impl Stream {
    fn send(&mut self, kind: EventKind) {
        if self.ended && !matches!(kind, EventKind::Notice(_)) {
            return;
        }
        self.ended |= matches!(kind, EventKind::TaskFinished { .. });
        // A number for an event that programs do not get would be a gap for them.
        if !kind.is_for_people() {
            self.seq += 1;
        }
        let (seq, time, task_id) = (self.seq, crate::clock::now(), self.task_id.clone());
        let event = Event { seq, time, task_id, kind };
        for sink in &mut self.sinks {
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

    #[derive(Clone, Default)]
    struct Notices(Arc<Mutex<Vec<String>>>);

    impl Sink for Notices {
        fn event(&mut self, event: &Event) {
            if let EventKind::Notice(notice) = &event.kind {
                self.0.lock().unwrap().push(notice.text.clone());
            }
        }
    }

    struct Failing(Option<String>);

    impl Sink for Failing {
        fn event(&mut self, _: &Event) {}

        fn take_warning(&mut self) -> Option<String> {
            self.0.take()
        }
    }

    #[test]
    fn a_warning_reaches_people_even_after_the_end_and_no_program() {
        // EVENT-1, EVENT-3
        let (seen, notices) = (Seen::default(), Notices::default());
        let failing = Failing(Some("the disk is full".to_owned()));
        let sinks: [Box<dyn Sink>; 3] =
            [Box::new(failing), Box::new(seen.clone()), Box::new(notices.clone())];
        let events = Events::new("t-1", sinks.into());
        events.emit(Milestone::Analyzing.into());
        events.emit(finished());
        events.warn("old runs cannot be removed");
        assert_eq!(*notices.0.lock().unwrap(), ["the disk is full", "old runs cannot be removed"]);
        assert_eq!(seen.0.lock().unwrap().len(), 2);
    }
}
