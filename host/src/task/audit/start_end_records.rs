//! What the audit log hears of a task as a whole: that it began and by which gate, and how it ended.

use crate::task::Mode;
use crate::task::preflight::Ready;
use crate::task::queue::OwnedTask;
use act_agent::editor::TaskInput;
use act_audit::{Audit, AuditError, Entry, Event};
use act_core::Outcome;
use act_workspace::digest;

/// On the disk when this returns; without it the task does nothing.
pub(in crate::task) fn begin(
    ready: &Ready,
    owned_task: &OwnedTask,
    brief: &TaskInput,
) -> Result<Audit, AuditError> {
    let config = &ready.config;
    let audit = owned_task.begin_audit(&config.root)?;
    let text = digest(brief.request.text().as_bytes());
    // The edits of a dry run are recorded like any; they changed nothing.
    let mode = match &ready.mode {
        Mode::Run { .. } => vec![],
        Mode::DryRun => vec!["dry_run"],
        Mode::Apply { dry_run } => vec!["apply", dry_run],
    };
    let started = Entry::new(Event::TaskStarted).digest("text", Some(&text)).names(mode);
    audit.append(started)?;
    let steps = config.pipeline.steps.len() as u64;
    let snapshot = Entry::new(Event::GateSnapshot).object("agent.yaml").count("steps", steps);
    audit.append(snapshot.digest("pipeline", Some(&config.sha256)))?;
    audit.settle()?;
    Ok(audit)
}

/// Of a task that began.
pub(in crate::task) fn end(
    owned_task: &OwnedTask,
    outcome: &Outcome,
    run_id: Option<&str>,
) -> Result<(), AuditError> {
    let Some(audit) = owned_task.audit() else { return Ok(()) };
    let entry = Entry::new(Event::TaskFinished)
        .object(outcome.state().as_str())
        .count("exit_code", outcome.exit() as u64)
        .names(run_id);
    audit.append(outcome.reason().map_or(entry.clone(), |reason| entry.reason(reason)))?;
    audit.settle()
}

pub(in crate::task) fn in_words(error: &AuditError) -> String {
    format!("{error}; {}", error.hint())
}
