//! The work of one task whose turn has come, to the word that says how it ended.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::audit::edges;
use super::earlier_report;
use super::last_word::LastWord;
use super::patience::Patience;
use super::preflight::Ready;
use super::staff::failed;
use super::team::{self, Work};
use super::ticket::Ticket;
use crate::audit::{Audit, AuditError};
use crate::context::Notebook;
use crate::editor::{self, Brief, Finished, State};
use crate::event::{EventKind, Events};
use crate::exit::Exit;
use crate::model::TokenLedger;
use crate::output::Output;
use crate::workspace::{AgentDir, RepoLock, RootMoved, append_gitignore_once};

/// How often a running task looks whether it is to end.
const LOOK: Duration = Duration::from_millis(200);

/// From QUEUED to the end, with the repository's lock.
pub(super) async fn start(
    ready: &Ready,
    lock: &RepoLock,
    ticket: &Ticket,
    last: LastWord,
    (ledger, events): (&TokenLedger, &Events),
    output: &Output,
    cancel: &CancellationToken,
) -> Exit {
    if let Err(moved) = lock.root().stays() {
        return last.refuse(&moved.into());
    }
    let notes = match AgentDir::open(&ready.config.root) {
        Ok(agent) => Notebook::new(agent).without(output.secrets().clone()),
        Err(error) => return last.refuse(&error.into()),
    };
    match Patience::new(output).ask(cancel, || ticket.start()).await {
        Some(Ok(true)) => {}
        // Taken out of the line in the last moment.
        Some(Ok(false)) | None => return last.say(cancelled()),
        Some(Err(error)) => return last.refuse(&error.into()),
    }
    let cancel = cancel.child_token();
    let asked = CancelledByOthers::watch(ticket, &cancel);
    let brief = brief(ready, ticket, output);
    let audit = edges::begin(ready, ticket, &brief);
    let work = perform(ready, lock, brief, notes, (audit, ledger, events), &cancel);
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
    lock: &RepoLock,
    brief: Brief,
    notes: Notebook<AgentDir>,
    (audit, ledger, events): (Result<Audit, AuditError>, &TokenLedger, &Events),
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
    let audit = match audit {
        Ok(audit) => audit,
        Err(error) => {
            let (code, diagnosis) = (error.code(), edges::in_words(&error));
            return editor::end_before_work(&brief, &notes, events, None, (code, &diagnosis));
        }
    };
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
            let trouble = (code, error.message.as_str());
            return editor::end_before_work(&brief, &notes, events, audit.head(), trouble);
        }
    };
    let work = Work {
        ready: ready.clone(),
        held: lock.root().clone(),
        brief: brief.clone(),
        notes,
        image,
        audit,
        ledger: ledger.clone(),
        events: events.clone(),
        cancel: cancel.clone(),
    };
    let assembled = tokio::select! {
        // What is being compiled then ends with the process.
        () = cancel.cancelled() => return cancelled(),
        assembled = tokio::task::spawn_blocking(move || team::assemble(work)) => assembled,
    };
    let assembled = assembled.unwrap_or_else(|stopped| match stopped.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(stopped) => Err(failed("the team cannot be put together")(stopped)),
    });
    // What was opened by its path is the directory that is locked.
    match (lock.root().stays(), assembled) {
        (Ok(()), Ok(editor)) => editor.work().await,
        (Err(moved), _) => cannot_work(RootMoved::CODE, moved.to_string()),
        (_, Err(error)) => cannot_work("unknown", error.to_string()),
    }
}

fn cannot_work(reason: &str, why: String) -> Finished {
    Finished {
        state: State::InfraError,
        reason: Some(reason.to_owned()),
        summary: Some(why),
        ..cancelled()
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
    cannot_work("unexpected", format!("a fault of act itself: {message}; please report it"))
}
