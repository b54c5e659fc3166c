//! A task without a terminal: this process accepts it, a child in a session of its own runs it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::audit::anchor;
use crate::queue::{OwnedTask, TaskContext, TaskId};
use crate::run::{Accepted, RunArgs};
use crate::{prepare, queue, run, worktree};
use act_core::event::Sink;
use act_core::exit::Exit;
use act_core::{Document, Failure, fail_point};

/// Longest time until the child has taken the task; it only has to open the database.
const LONGEST_START: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);

/// The document of `act run --detach --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Detached {
    pub task_id: String,
    /// Position among the waiting tasks of the repository when the task was accepted, from 1.
    pub position: u32,
}

impl Document for Detached {
    const NAME: &'static str = "detached";
}

/// Accepts a task and starts a process that runs it. Returns when that process owns the task.
///
/// # Errors
///
/// Returns the refusal of a task that was not accepted, or `detach_failed`; then no task waits.
pub async fn detach(args: RunArgs) -> Result<Detached, Failure> {
    let cancel = run::cancelled_by_signals()?;
    let checked = tokio::select! {
        ready = prepare::check(&args) => Some(ready?),
        () = cancel.cancelled() => None,
    };
    let Some(ready) = checked else { return Err(cancelled()) };
    let entered = worktree::entered(ready, args, &cancel).await?;
    let Some((ready, args, made)) = entered else { return Err(cancelled()) };
    let context = prepare::context(&ready)?;
    prepare::proposal(&ready, &context)?;
    anchor::first(ready.anchored, &context.audit, &ready.config.root, &cancel).await?;
    let id = made.as_ref().map_or_else(TaskId::random, |made| made.task_id().clone());
    let (owned_task, position) =
        context.submit_as(id, &args.text, args.flags(), &ready.config.root)?;
    let begun = match start(&owned_task, &ready.config.root) {
        Ok(child) => taken_over(&owned_task, child, &cancel).await,
        Err(error) => Err(NotTaken::Child(error.to_string())),
    };
    match begun {
        Ok(()) => {
            if let Some(made) = made {
                made.keep();
            }
            Ok(Detached { task_id: owned_task.task_id, position })
        }
        Err(failed) => {
            give_up(&owned_task)?;
            Err(match failed {
                NotTaken::Cancelled => cancelled(),
                NotTaken::Child(error) => Failure::refused(
                    "detach_failed",
                    format!("the background process could not be started: {error}"),
                )
                .hint("run it without --detach"),
            })
        }
    }
}

/// The reason why the child did not take the task.
enum NotTaken {
    Cancelled,
    Child(String),
}

fn cancelled() -> Failure {
    let message =
        "cancelled before the background process took over the task; the task was removed";
    Failure { exit: Exit::Cancelled, ..Failure::refused("cancelled", message) }
}

/// Removes the task from the store. It may belong to the child by now, which was killed.
fn give_up(owned_task: &OwnedTask) -> Result<(), Failure> {
    let TaskContext { store, artifacts, .. } = &owned_task.context;
    if store.forget(&owned_task.task_id)? {
        let _ = artifacts.remove_journal(&owned_task.task_id);
    }
    Ok(())
}

fn start(owned_task: &OwnedTask, root: &std::path::Path) -> std::io::Result<Child> {
    let mut child = Command::new(act_core::process::running_program()?);
    child.args([
        "take-over",
        &owned_task.task_id,
        "--from",
        &std::process::id().to_string(),
        "--repo",
    ]);
    child.arg(root).current_dir("/");
    child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

async fn taken_over(
    owned_task: &OwnedTask,
    mut child: Child,
    cancel: &CancellationToken,
) -> Result<(), NotTaken> {
    let start = Instant::now();
    loop {
        let context = &owned_task.context;
        match context
            .store
            .task(&owned_task.task_id)
            .map_err(|error| NotTaken::Child(error.to_string()))?
        {
            Some(task) if task.owner == context.this => {}
            // The child owns the task, or the task was cancelled.
            _ => return Ok(()),
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(NotTaken::Child(format!("it ended with {status}")));
        }
        if cancel.is_cancelled() || start.elapsed() > LONGEST_START {
            let _ = child.kill();
            let _ = child.wait();
            return Err(match cancel.is_cancelled() {
                true => NotTaken::Cancelled,
                false => NotTaken::Child("it did not start in time".to_owned()),
            });
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The arguments of the child.
#[derive(Debug, Clone)]
pub struct TakeOver {
    pub task_id: String,
    /// Number of the process that accepted the task.
    pub from: u32,
    pub repo: PathBuf,
}

/// Runs in the child: starts a session of its own, so that closing the terminal does not end it, and runs the task. Its
/// streams lead to `/dev/null`.
///
/// # Errors
///
/// The task is gone (`task_gone`), or the store cannot be used.
pub async fn take_over(args: TakeOver, sinks: Vec<Box<dyn Sink>>) -> Result<Exit, Failure> {
    // Fails only if the process already leads a session.
    let _ = rustix::process::setsid();
    fail_point::reach("taking_over");
    let cancel = run::cancelled_by_signals()?;
    let root = act_config::find_root(&args.repo)?.map_or(args.repo, |root| root.path);
    let artifacts = prepare::artifacts(&root)?;
    let context = prepare::open_context(&artifacts, &root)?;
    let gone = || Failure::refused("task_gone", "the task does not wait to be taken over any more");
    let record = context.store.task(&args.task_id)?.ok_or_else(gone)?;
    if record.owner.pid != args.from {
        return Err(gone());
    }
    let owned_task = context.take_over(&args.task_id, &record.owner)?.ok_or_else(gone)?;
    let args = RunArgs::of(&record, root);
    let position = queue::position(&context.queue()?, &owned_task.task_id);
    let root = args.repo.clone();
    match prepare::check(&args).await {
        Ok(ready) => {
            let accepted = Accepted { owned_task, position, args, ready };
            Ok(run::follow(accepted, sinks, &cancel).await)
        }
        Err(failure) => Ok(run::refuse(owned_task, &root, &failure, sinks).await),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_of_a_detached_task_is_published() {
        // EVENT-8
        schema::document_holds::<Detached>();
    }
}
