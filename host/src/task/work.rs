//! The work of one task whose turn has come, to the word that says how it ended.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::earlier_report;
use super::last_word::LastWord;
use super::preflight::Ready;
use super::team::{self, Work};
use super::ticket::Ticket;
use crate::context::Notebook;
use crate::editor::{self, Brief, Finished, State};
use crate::event::{EventKind, Events};
use crate::exit::Exit;
use crate::model::TokenLedger;
use crate::output::Output;
use crate::workspace::{AgentDir, append_gitignore_once};

/// How often a running task looks whether it is to end.
const LOOK: Duration = Duration::from_millis(200);

/// From QUEUED to the end. The repository's lock is held by the caller.
pub(super) async fn start(
    ready: &Ready,
    ticket: &Ticket,
    last: LastWord,
    (ledger, events): (&TokenLedger, &Events),
    output: &Output,
    cancel: &CancellationToken,
) -> Exit {
    let notes = match AgentDir::open(&ready.config.root) {
        Ok(agent) => Notebook::new(agent).without(output.secrets().clone()),
        Err(error) => return last.refuse(&error.into()),
    };
    match ticket.start() {
        Ok(true) => {}
        // Taken out of the line in the last moment.
        Ok(false) => return last.say(cancelled()),
        Err(error) => return last.refuse(&error.into()),
    }
    let cancel = cancel.child_token();
    let asked = CancelledByOthers::watch(ticket, &cancel);
    let brief = brief(ready, ticket, output);
    let work = perform(ready, brief, notes, ledger, events, &cancel);
    let finished = AssertUnwindSafe(work).catch_unwind().await;
    drop(asked);
    last.say(finished.unwrap_or_else(|panic| unexpected(panic.as_ref())))
}

/// Looks whether `act cancel` has asked for the end, as long as it is not dropped.
struct CancelledByOthers(tokio::task::JoinHandle<()>);

impl CancelledByOthers {
    fn watch(ticket: &Ticket, cancel: &CancellationToken) -> Self {
        let (store, cancel) = (ticket.desk.store.clone(), cancel.clone());
        let task_id = ticket.task_id.clone();
        Self(tokio::spawn(async move {
            while !matches!(store.cancel_requested(&task_id), Ok(true)) {
                tokio::time::sleep(LOOK).await;
            }
            cancel.cancel();
        }))
    }
}

impl Drop for CancelledByOthers {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What the task is about, and the one thing of the past that it begins with.
fn brief(ready: &Ready, ticket: &Ticket, output: &Output) -> Brief {
    let (config, desk) = (&ready.config, &ticket.desk);
    let found =
        earlier_report::find(&desk.store, &desk.repo, &config.root).unwrap_or_else(|error| {
            output.caution(&format!("begins without the stuck report, if there is one: {error}"));
            None
        });
    Brief {
        task_id: ticket.task_id.clone(),
        request: ready.request.clone(),
        package: config.monorepo_package.clone(),
        stuck_report: earlier_report::unresolved(found),
    }
}

async fn perform(
    ready: &Ready,
    brief: Brief,
    notes: Notebook<AgentDir>,
    ledger: &TokenLedger,
    events: &Events,
    cancel: &CancellationToken,
) -> Finished {
    let (config, request) = (&ready.config, &ready.request);
    events.emit(EventKind::TaskStarted {
        repo: config.root.display().to_string(),
        pipeline_sha256: config.sha256.clone(),
    });
    events.emit(EventKind::Constraints {
        constraints: request.constraints().to_vec(),
        non_goals: request.non_goals().to_vec(),
        boundaries: request.boundaries().to_vec(),
        enforced: ready.enforced.clone(),
    });
    if let Err(error) = append_gitignore_once(&config.root) {
        // agent/ is left out of every view by name; only the user's own git would show it.
        events.emit(EventKind::Diagnosis { text: error.to_string() });
    }
    tokio::select! {
        () = cancel.cancelled() => return cancelled(),
        reaped = ready.engine.reap_orphans() => {
            if let Err(error) = reaped {
                let text = format!("left-over containers: {error}");
                events.emit(EventKind::Diagnosis { text });
            }
        }
    }
    let image = match ready.engine.ensure_image(&config.pipeline.image, events, cancel).await {
        Ok(Some(image)) => image,
        Ok(None) => return cancelled(),
        Err(error) => {
            let code = error.error_type.as_str();
            return editor::end_before_work(&brief, &notes, events, code, &error.message);
        }
    };
    let work = Work { ready, brief: brief.clone(), notes, image, ledger, events, cancel };
    match team::assemble(work) {
        Ok(editor) => editor.work().await,
        Err(error) => Finished {
            state: State::InfraError,
            run_id: None,
            reason: Some("unknown".into()),
            summary: Some(error.to_string()),
            report_path: None,
            gate_inputs_changed: vec![],
            edits_refused: Default::default(),
        },
    }
}

pub(super) fn cancelled() -> Finished {
    Finished {
        state: State::Cancelled,
        run_id: None,
        reason: Some("cancelled".into()),
        summary: None,
        report_path: None,
        gate_inputs_changed: vec![],
        edits_refused: Default::default(),
    }
}

/// A fault of ours; the panic hook has said where.
fn unexpected(panic: &(dyn std::any::Any + Send)) -> Finished {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message");
    Finished {
        state: State::InfraError,
        run_id: None,
        reason: Some("unexpected".into()),
        summary: Some(format!("a fault of act itself: {message}; please report it")),
        report_path: None,
        gate_inputs_changed: vec![],
        edits_refused: Default::default(),
    }
}
