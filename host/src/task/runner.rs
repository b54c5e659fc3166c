//! One task from the command line to its end: refused, or run to a state that has an exit code.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::last_word::LastWord;
use super::preflight::{self, Ready};
use super::team::{self, Work};
use super::{RunArgs, TaskId, signals, turn};
use crate::config;
use crate::context::Notebook;
use crate::editor::{self, Brief, Finished, State};
use crate::event::{EventKind, Events};
use crate::exit::Exit;
use crate::model::TokenLedger;
use crate::output::{Failure, Output};
use crate::workspace::{AgentDir, append_gitignore_once};

pub async fn run(args: RunArgs, output: &Output) -> Result<Exit, Failure> {
    let cancel = signals::cancelled_by_signals().map_err(|error| {
        Failure::refused("no_signals", format!("signals cannot be caught: {error}"))
    })?;
    let id = TaskId::random();
    let ledger = TokenLedger::limited(args.max_tokens);
    let mut sinks = output.sinks();
    let mut ready = tokio::select! {
        ready = preflight::check(&args) => ready?,
        () = cancel.cancelled() => {
            let events = Events::new(id.as_str(), sinks);
            return Ok(LastWord::new(events, ledger).say(cancelled()));
        }
    };
    let lock = turn::take(&ready.config.root)?;
    let journal = output.journal(ready.artifacts.create_journal(id.as_str()));
    // The file first: what a person or a program was told is in it.
    sinks.splice(..0, journal);
    let events = Events::new(id.as_str(), sinks);
    let last = LastWord::new(events.clone(), ledger.clone());
    // How many others wait is not known.
    let position = lock.is_some().then_some(1);
    events.emit(EventKind::TaskQueued { text: ready.request.text().to_owned(), position });
    let _lock = match lock {
        Some(lock) => lock,
        None => match turn::wait(&ready.config.root, &events, &cancel).await {
            Ok(None) => return Ok(last.say(cancelled())),
            Ok(Some(lock)) => {
                // Its turn came later: what the file says now is what counts.
                match config::load(&args.repo) {
                    Ok(config) if config.root == ready.config.root => ready.config = config,
                    Ok(config) => return Ok(last.refuse(&moved(&config))),
                    Err(error) => return Ok(last.refuse(&error.into())),
                }
                lock
            }
            Err(failure) => return Ok(last.refuse(&failure)),
        },
    };
    let notes = match AgentDir::open(&ready.config.root) {
        Ok(agent) => Notebook::new(agent).without(output.secrets().clone()),
        Err(error) => return Ok(last.refuse(&error.into())),
    };

    let work = AssertUnwindSafe(perform(&ready, id.as_str(), notes, &ledger, &events, &cancel));
    let finished = work.catch_unwind().await.unwrap_or_else(|panic| unexpected(panic.as_ref()));
    Ok(last.say(finished))
}

async fn perform(
    ready: &Ready,
    task_id: &str,
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
    });
    if let Err(error) = append_gitignore_once(&config.root) {
        // agent/ is left out of every view by name; only the user's own git would show it.
        events.emit(EventKind::Diagnosis { text: error.to_string() });
    }
    let brief = Brief {
        task_id: task_id.to_owned(),
        request: request.clone(),
        package: config.monorepo_package.clone(),
        stuck_report: None,
    };
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

fn cancelled() -> Finished {
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

/// Everything was checked for another directory than the one that counts now.
fn moved(config: &config::Config) -> Failure {
    let message = format!("the repository is now {}", config.root.display());
    Failure::refused("repository_moved", message).hint("run the task again")
}
