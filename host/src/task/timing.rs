//! The reader of events that keeps how long Scouts and verifications took.

use super::owned_task::TaskContext;
use super::recorder::Trouble;
use crate::output::Output;
use act_core::event::{Event, EventKind, Sink};
use act_records::store::{Measured, StoreError};

pub(super) struct TimingSink {
    context: TaskContext,
    task_id: Option<String>,
    /// Of the verification that runs.
    attempt: u32,
    trouble: Trouble,
}

impl TimingSink {
    /// Of a task or of `act verify`.
    pub(super) fn new(context: &TaskContext, task_id: Option<&str>, output: &Output) -> Self {
        let (context, trouble) = (context.clone(), Trouble::new(output));
        Self { context, task_id: task_id.map(str::to_owned), attempt: 0, trouble }
    }
}

impl Sink for TimingSink {
    fn event(&mut self, event: &Event) {
        let (what, duration) = match &event.kind {
            EventKind::VerifyStarted { attempt, .. } => {
                // A verification outside of a task is no attempt.
                self.attempt = if self.task_id.is_some() { *attempt } else { 0 };
                return;
            }
            EventKind::VerifyFinished { duration_ms, .. } => {
                (Measured::Verify { attempt: self.attempt }, *duration_ms)
            }
            EventKind::ScoutFinished { scout, outcome, duration_ms, .. }
                if outcome != "cancelled" =>
            {
                (Measured::Scout { name: scout.clone() }, *duration_ms)
            }
            _ => return,
        };
        match self.context.store.measured(self.task_id.as_deref(), &what, duration) {
            // One figure less; nobody is held up for it.
            Err(StoreError::Busy { .. }) => {}
            told => self.trouble.or_say(told),
        }
    }
}
