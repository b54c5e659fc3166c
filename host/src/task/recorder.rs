//! The readers of events that keep the store up to date: which runs there are, how far the task is, and how long
//! Scouts and verifications took.

use std::sync::Arc;

use super::queue::TaskContext;
use act_core::event::Event;
use act_core::event::EventKind;
use act_core::event::Sink;
use act_core::fail_point;
use act_model::TokenLedger;
use act_records::store::Measured;
use act_records::store::NewStuckReport;
use act_records::store::Progress;
use act_records::store::Store;
use act_records::store::StoreError;

/// Which runs there are, of a task or of `act verify`, and which stuck report a task wrote.
pub(super) struct RunSink {
    context: TaskContext,
    task_id: Option<String>,
    trouble: StoreTrouble,
}

impl RunSink {
    pub(super) fn new(context: &TaskContext, task_id: Option<&str>) -> Self {
        let (context, task_id) = (context.clone(), task_id.map(str::to_owned));
        Self { context, task_id, trouble: StoreTrouble::default() }
    }
}

impl RunSink {
    /// From now on the file is ours, and the task's runs are pinned.
    fn report_written(&self, path: &str, sha256: &str) -> Result<(), StoreError> {
        let (TaskContext { store, repo, .. }, Some(task_id)) = (&self.context, &self.task_id)
        else {
            return Ok(());
        };
        let runs = store.runs_of(task_id)?.into_iter();
        let run_ids: Vec<_> = runs.map(|run| run.run_id).collect();
        store.add_stuck_report(&NewStuckReport { task_id, repo, path, sha256, run_ids: &run_ids })
    }
}

impl Sink for RunSink {
    fn event(&mut self, event: &Event) {
        let TaskContext { store, repo, this, .. } = &self.context;
        let (stored, place) = match &event.kind {
            EventKind::VerifyStarted { run_id, .. } => {
                (store.run_started(run_id, self.task_id.as_deref(), repo, this), "verify_started")
            }
            EventKind::VerifyFinished { run_id, status, audit_head, .. } => (
                store.run_finished(run_id, status.as_str(), audit_head.as_deref()),
                "verify_finished",
            ),
            EventKind::ReportWritten { path, sha256 } => {
                (self.report_written(path, sha256), "report_written")
            }
            _ => return,
        };
        fail_point::reach(place);
        self.trouble.check(stored);
    }

    fn take_warning(&mut self) -> Option<String> {
        self.trouble.warning.take()
    }
}

/// How far a task is.
pub(super) struct ProgressSink {
    store: Arc<Store>,
    task_id: String,
    ledger: TokenLedger,
    so_far: Progress,
    trouble: StoreTrouble,
}

impl ProgressSink {
    pub(super) fn new(context: &TaskContext, task_id: &str, ledger: &TokenLedger) -> Self {
        Self {
            store: Arc::clone(&context.store),
            task_id: task_id.to_owned(),
            ledger: ledger.clone(),
            so_far: Progress::default(),
            trouble: StoreTrouble::default(),
        }
    }
}

impl Sink for ProgressSink {
    fn event(&mut self, event: &Event) {
        let news = take(&mut self.so_far, &event.kind);
        if !news {
            return;
        }
        self.so_far.tokens = self.ledger.by_role();
        match self.store.progress(&self.task_id, &self.so_far) {
            // Each one says all; what is last is said when the task ends.
            Err(StoreError::Busy { .. }) => {}
            stored => self.trouble.check(stored),
        }
    }

    fn take_warning(&mut self) -> Option<String> {
        self.trouble.warning.take()
    }
}

/// Whether an event is news about how far the task is (pure).
fn take(so_far: &mut Progress, kind: &EventKind) -> bool {
    match kind {
        EventKind::Milestone { attempt: Some(attempt), .. } => so_far.attempt = *attempt,
        EventKind::Milestone { text, attempt: None } => so_far.phase = Some(text.clone()),
        EventKind::Replan { number, .. } => so_far.replans = *number,
        EventKind::ModelRequest { .. } | EventKind::TaskFinished { .. } => {}
        _ => return false,
    }
    true
}

/// The first error of the store in a sink, which becomes a warning; the task continues.
#[derive(Default)]
struct StoreTrouble {
    reported: bool,
    warning: Option<String>,
}

impl StoreTrouble {
    fn check(&mut self, stored: Result<(), StoreError>) {
        let Err(error) = stored else { return };
        if !std::mem::replace(&mut self.reported, true) {
            self.warning = Some(format!("cannot save the progress of this task: {error}"));
        }
    }
}

pub(super) struct TimingSink {
    context: TaskContext,
    task_id: Option<String>,
    /// Of the verification that runs.
    attempt: u32,
    trouble: StoreTrouble,
}

impl TimingSink {
    /// Of a task or of `act verify`.
    pub(super) fn new(context: &TaskContext, task_id: Option<&str>) -> Self {
        let (context, task_id) = (context.clone(), task_id.map(str::to_owned));
        Self { context, task_id, attempt: 0, trouble: StoreTrouble::default() }
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
            stored => self.trouble.check(stored),
        }
    }

    fn take_warning(&mut self) -> Option<String> {
        self.trouble.warning.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::Milestone;

    #[test]
    fn attempts_and_milestones_are_told_apart() {
        // TASK-27
        let mut so_far = Progress::default();
        let story = [
            Milestone::Implementing.into(),
            Milestone::Attempt { number: 2, of: 12 }.into(),
            EventKind::Diagnosis { text: "x".into() },
            EventKind::Replan { number: 1, attempt: 3, strategy: "s".into(), requery: vec![] },
        ];
        let news: Vec<_> = story.iter().map(|kind| take(&mut so_far, kind)).collect();
        assert_eq!(news, [true, true, false, true]);
        assert_eq!(so_far.phase.as_deref(), Some("Implementing changes..."));
        assert_eq!((so_far.attempt, so_far.replans), (2, 1));
    }
}
