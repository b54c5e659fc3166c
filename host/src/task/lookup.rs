//! What the commands that look at tasks begin with: the store, and the repository if there is one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::queue::TaskContext;
use super::{preflight, queue};
use act_audit::Audit;
use act_core::Failure;
use act_core::process::Process;
use act_records::artifacts::ArtifactDir;
use act_records::store::{Store, Task, TaskRecord, TaskState};

/// From anywhere.
pub(super) struct Lookup {
    pub(super) artifacts: Arc<ArtifactDir>,
    pub(super) store: Arc<Store>,
    pub(super) this: Process,
    /// Of the repository that the command was called in.
    root: Option<PathBuf>,
}

impl Lookup {
    /// Tasks of dead processes have ended when this returns.
    pub(super) fn open(start: &Path) -> Result<Self, Failure> {
        let root = act_config::find_root(start)?.map(|root| root.path);
        let artifacts = preflight::artifacts_for(root.as_deref())?;
        let (store, this) = (preflight::store(&artifacts)?, Process::this());
        queue::record_dead_tasks(&store, &artifacts, &this)?;
        Ok(Self { artifacts, store, this, root })
    }

    /// Returns the context of the repository; refused outside of one.
    pub(super) fn context(&self) -> Result<(TaskContext, &Path), Failure> {
        let Some(root) = &self.root else {
            return Err(Failure::refused("no_repository", "no repository here or above")
                .hint("go into one, or name it with --repo"));
        };
        Ok((TaskContext::new(Arc::clone(&self.store), Arc::clone(&self.artifacts), root)?, root))
    }

    /// The log that everything is recorded in.
    pub(super) fn audit(&self) -> Result<Audit, Failure> {
        preflight::audit(&self.artifacts, &self.store)
    }

    /// As it is told. `position` for one that waits.
    pub(super) fn show(&self, record: TaskRecord, position: Option<u32>) -> Task {
        let life = queue::owner_life(&self.artifacts, &self.this, &record.owner, &record.task_id);
        Task::of(record, position, life)
    }

    /// What waits or runs in a repository, as it is told.
    pub(super) fn line(&self, repo: &str) -> Result<(Option<Task>, Vec<Task>), Failure> {
        let (running, queued): (Vec<_>, Vec<_>) = self
            .store
            .unfinished_records(repo)?
            .into_iter()
            .partition(|record| record.state == TaskState::Running);
        let running = running.into_iter().next().map(|record| self.show(record, None));
        let queued = (1..).zip(queued).map(|(at, record)| self.show(record, Some(at)));
        Ok((running, queued.collect()))
    }
}
