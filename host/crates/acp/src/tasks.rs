//! What a server needs of the rest of the program: the tasks of repositories.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use rustix::process::geteuid;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use act_core::Failure;
use act_core::event::Sink;
use act_core::exit::Exit;
use act_core::verification::Verification;
use act_task::{ApplyArgs, Client, PastSession, PastTask, RunArgs, SessionId, Wanted};

/// Runs tasks and reads those of earlier times.
pub trait Tasks: Send + Sync + 'static {
    /// Returns the root of the repository at or above `cwd`, if this user may work there.
    ///
    /// # Errors
    ///
    /// There is no repository (`no_repository`), or it belongs to another user (`repository_foreign`).
    fn repository(&self, cwd: &Path) -> Result<PathBuf, Failure>;

    /// Returns the number of tokens that a task of the repository may spend, if there is a limit.
    fn token_budget(&self, root: &Path) -> Option<u64>;

    /// Runs a task to its end.
    ///
    /// # Errors
    ///
    /// Returns the refusal of a task that was not accepted.
    fn run(
        &self,
        client: Client,
        args: RunArgs,
        sinks: Vec<Box<dyn Sink>>,
    ) -> BoxFuture<'static, Result<Exit, Failure>>;

    /// Returns the arguments of the task that applies the proposal of a dry run.
    ///
    /// # Errors
    ///
    /// There is no such proposal, or its dry run is not known any more.
    fn apply(&self, args: ApplyArgs) -> Result<RunArgs, Failure>;

    /// Runs the pipeline on the working tree. Returns `None` when cancelled.
    ///
    /// # Errors
    ///
    /// The configuration is refused, or a task runs in the repository.
    fn verify(
        &self,
        root: PathBuf,
        sinks: Vec<Box<dyn Sink>>,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Option<Verification>, Failure>>;

    /// Returns the sessions of a repository, the newest first, at most `most`.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    fn sessions(&self, root: &Path, most: usize) -> Result<Vec<PastSession>, Failure>;

    /// Returns the tasks of a session of a repository.
    ///
    /// # Errors
    ///
    /// The repository has no such session (`task_unknown`), or it cannot be read.
    fn session(&self, root: &Path, id: &SessionId) -> Result<Vec<PastTask>, Failure>;

    /// Returns whether `act cancel` was called for a task.
    fn cancel_was_requested(&self, root: &Path, task_id: &str) -> bool;
}

/// Drives the future of a task on a thread of its own, because it may not move between threads.
async fn alone<T, F>(make: impl FnOnce() -> F + Send + 'static) -> Result<T, Failure>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Failure>>,
{
    let runtime = Handle::current();
    let done = tokio::task::spawn_blocking(move || runtime.block_on(make())).await;
    done.unwrap_or_else(|stopped| match stopped.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(Failure::refused("cancelled", "the program ends")),
    })
}

/// The tasks of the user who started the program.
#[derive(Debug, Clone, Copy, Default)]
pub struct TasksOfThisUser;

impl Tasks for TasksOfThisUser {
    fn repository(&self, cwd: &Path) -> Result<PathBuf, Failure> {
        let none = || {
            let place = cwd.display();
            Failure::refused(
                "no_repository",
                format!("there is no repository at {place} or above it"),
            )
            .hint("open a directory with an agent.yaml or a .git; `act init` writes an agent.yaml")
        };
        let root = act_config::find_root(cwd).map_err(|_| none())?.ok_or_else(none)?.path;
        let owner = root.metadata().map_err(|_| none())?.uid();
        if owner != geteuid().as_raw() {
            let place = root.display();
            let message =
                format!("the repository {place} belongs to another user (number {owner})");
            return Err(Failure::refused("repository_foreign", message).hint(
                "its agent.yaml would run commands in your name; clone it, or work as that user",
            ));
        }
        Ok(root)
    }

    fn token_budget(&self, root: &Path) -> Option<u64> {
        let config = act_config::load(root).ok()?;
        act_task::in_force(config).ok()?.max_tokens()
    }

    fn run(
        &self,
        client: Client,
        args: RunArgs,
        sinks: Vec<Box<dyn Sink>>,
    ) -> BoxFuture<'static, Result<Exit, Failure>> {
        Box::pin(alone(move || act_task::run_for(client, args, sinks)))
    }

    fn apply(&self, args: ApplyArgs) -> Result<RunArgs, Failure> {
        act_task::apply(args)
    }

    fn verify(
        &self,
        root: PathBuf,
        sinks: Vec<Box<dyn Sink>>,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Result<Option<Verification>, Failure>> {
        Box::pin(alone(move || async move {
            act_task::verify_for(&root, Wanted::default(), sinks, &cancel).await
        }))
    }

    fn sessions(&self, root: &Path, most: usize) -> Result<Vec<PastSession>, Failure> {
        act_task::sessions(root, most)
    }

    fn session(&self, root: &Path, id: &SessionId) -> Result<Vec<PastTask>, Failure> {
        act_task::session(root, id)
    }

    fn cancel_was_requested(&self, root: &Path, task_id: &str) -> bool {
        act_task::cancel_was_requested(root, task_id)
    }
}
