//! A task without a terminal: this process accepts it, a child in a session of its own runs it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::audit::anchoring;
use super::queue::{OwnedTask, TaskContext};
use super::run::{self, Accepted};
use super::{RunArgs, preflight, signals};
use act_core::Failure;
use act_core::event::Sink;
use act_core::exit::Exit;
use act_core::fail_point;

/// For the child to begin; it only has to open the database.
const LONGEST_START: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

/// What `act run --detach --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Detached {
    pub task_id: String,
    /// Among the waiting tasks of the repository when it was accepted, from 1.
    pub position: u32,
}

/// Accepted, and owned by a process that survives this one, when this returns.
pub async fn detach(args: RunArgs) -> Result<Detached, Failure> {
    let cancel = signals::cancelled_by_signals()?;
    let checked = tokio::select! {
        ready = preflight::check(&args) => Some(ready?),
        () = cancel.cancelled() => None,
    };
    let Some(ready) = checked else { return Err(cancelled()) };
    let context = preflight::context(&ready)?;
    preflight::proposal(&ready, &context)?;
    anchoring::first(ready.anchored, &context.audit, &ready.config.root, &cancel).await?;
    let (owned_task, position) = context.submit(&args, &ready.config.root)?;
    let begun = match start(&owned_task, &ready.config.root) {
        Ok(child) => taken_over(&owned_task, child, &cancel).await,
        Err(error) => Err(Failed::Child(error.to_string())),
    };
    match begun {
        Ok(()) => Ok(Detached { task_id: owned_task.task_id, position }),
        Err(failed) => {
            give_up(&owned_task)?;
            Err(match failed {
                Failed::Cancelled => cancelled(),
                Failed::Child(error) => Failure::refused(
                    "detach_failed",
                    format!("no process of its own could be started: {error}"),
                )
                .hint("run it without --detach"),
            })
        }
    }
}

/// Why nobody took it over.
enum Failed {
    Cancelled,
    Child(String),
}

fn cancelled() -> Failure {
    let message =
        "cancelled before a process of its own had the task; nothing waits and nothing runs";
    Failure { exit: Exit::Cancelled, ..Failure::refused("cancelled", message) }
}

/// Without a trace; by now it may be the child's, which has been killed.
fn give_up(owned_task: &OwnedTask) -> Result<(), Failure> {
    let TaskContext { store, artifacts, .. } = &owned_task.context;
    if store.forget(&owned_task.task_id)? {
        let _ = artifacts.remove_journal(&owned_task.task_id);
    }
    Ok(())
}

fn start(owned_task: &OwnedTask, root: &std::path::Path) -> std::io::Result<Child> {
    let mut child = Command::new(std::env::current_exe()?);
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
) -> Result<(), Failed> {
    let start = Instant::now();
    loop {
        let context = &owned_task.context;
        match context
            .store
            .task(&owned_task.task_id)
            .map_err(|error| Failed::Child(error.to_string()))?
        {
            Some(task) if task.owner == context.this => {}
            // Its own, or cancelled by then.
            _ => return Ok(()),
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(Failed::Child(format!("it ended with {status}")));
        }
        if cancel.is_cancelled() || start.elapsed() > LONGEST_START {
            let _ = child.kill();
            let _ = child.wait();
            return Err(match cancel.is_cancelled() {
                true => Failed::Cancelled,
                false => Failed::Child("it does not begin".to_owned()),
            });
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What the child was told.
#[derive(Debug, Clone)]
pub struct TakeOver {
    pub task_id: String,
    /// The process that accepted it.
    pub from: u32,
    pub repo: PathBuf,
}

/// The child: a session of its own, then the task like any other. Nobody reads its streams.
pub async fn take_over(wish: TakeOver, sinks: Vec<Box<dyn Sink>>) -> Result<Exit, Failure> {
    // Fails only for the leader of one, which has it already.
    let _ = rustix::process::setsid();
    fail_point::reach("taking_over");
    let cancel = signals::cancelled_by_signals()?;
    let root = act_config::find_root(&wish.repo)?.map_or(wish.repo, |root| root.path);
    let artifacts = preflight::artifacts(&root)?;
    let context = preflight::open_context(&artifacts, &root)?;
    let gone = || Failure::refused("task_gone", "the task is not there to be taken over");
    let record = context.store.task(&wish.task_id)?.ok_or_else(gone)?;
    if record.owner.pid != wish.from {
        return Err(gone());
    }
    let owned_task = context.take_over(&wish.task_id, &record.owner)?.ok_or_else(gone)?;
    let args = RunArgs::of(&record, root);
    let position = super::queue::position(&context.queue()?, &owned_task.task_id);
    match preflight::check(&args).await {
        Ok(ready) => {
            let accepted = Accepted { owned_task, position, args, ready };
            Ok(run::follow(accepted, sinks, &cancel).await)
        }
        Err(failure) => Ok(run::refuse(owned_task, &failure, sinks)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_of_a_detached_task_is_published() {
        // EVENT-8
        schema::holds::<Detached>("detached");
    }
}
