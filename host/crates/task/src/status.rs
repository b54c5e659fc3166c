//! `act status`, `act queue` and `act history`: the state of the tasks of a repository, and the lookup with which every
//! command about tasks begins.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::queue::{self, TaskContext};
use crate::repository::repository;
use crate::stuck_report::{self, StuckReportNote};
use crate::worktree::WorktreeSeen;
use crate::{prepare, worktree};
use act_audit::Audit;
use act_core::process::{Life, Process};
use act_core::{Document, Failure, Repo};
use act_records::artifacts::ArtifactDir;
use act_records::store::{DamagedTask, Store, Task, TaskRecord, TaskState};
use act_workspace::{NotesDir, RootIdentity};

/// The store and the artifacts, opened by a command that looks at tasks from any directory.
pub(super) struct Lookup {
    pub(super) artifacts: Arc<ArtifactDir>,
    pub(super) store: Arc<Store>,
    pub(super) this: Process,
    /// The root of the repository that the command was called in, if it was called in one.
    root: Option<PathBuf>,
}

impl Lookup {
    /// Opens the store, and records the end of tasks of the repository at `start` whose process died.
    ///
    /// # Errors
    ///
    /// The store or the ARTIFACT_DIR cannot be used.
    pub(super) fn open(start: &Path) -> Result<Self, Failure> {
        let root = act_config::find_root(start)?.map(|root| root.path);
        Self::within(prepare::artifacts_for(root.as_deref())?, root)
    }

    pub(super) fn within(
        artifacts: Arc<ArtifactDir>,
        root: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let (store, this) = (prepare::store(&artifacts)?, Process::this());
        let lookup = Self { artifacts, store, this, root };
        // Nothing is recorded about a root that cannot be opened any more.
        let repo = lookup.root.as_deref().and_then(|root| RootIdentity::of(root).ok());
        if let Some(repo) = repo {
            lookup.record_dead_tasks(Some(&repo.to_string()))?;
        }
        Ok(lookup)
    }

    /// Records the end of tasks of a repository, or of all, whose process died.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written.
    pub(super) fn record_dead_tasks(&self, repo: Option<&str>) -> Result<(), Failure> {
        Ok(queue::record_dead_tasks(&self.store, &self.artifacts, &self.this, repo)?)
    }

    /// Returns the context and the root of the repository.
    ///
    /// # Errors
    ///
    /// The command was called outside of a repository (`no_repository`).
    pub(super) fn context(&self) -> Result<(TaskContext, &Path), Failure> {
        let Some(root) = &self.root else {
            return Err(Failure::refused(
                "no_repository",
                "there is no repository here or in a parent directory",
            )
            .hint("change into one, or name it with --repo"));
        };
        Ok((TaskContext::new(Arc::clone(&self.store), Arc::clone(&self.artifacts), root)?, root))
    }

    /// Returns a task of the repository.
    ///
    /// # Errors
    ///
    /// There is no such task here (`task_unknown`), or the command was called outside of a repository.
    pub(super) fn own_task(&self, task_id: &str) -> Result<TaskRecord, Failure> {
        let (context, root) = self.context()?;
        let unknown = |message: String| Failure::refused("task_unknown", message);
        let Some(record) = self.store.task(task_id)? else {
            return Err(unknown(format!("there is no task {task_id}"))
                .hint("`act history` lists the tasks of this repository"));
        };
        if !record.belongs_to(&context.repo) {
            let (there, here) = (&record.root, root.display());
            return Err(unknown(format!("task {task_id} belongs to {there}, not to {here}"))
                .hint("change into that repository, or name it with --repo"));
        }
        Ok(record)
    }

    /// Returns the audit log.
    ///
    /// # Errors
    ///
    /// The state directory cannot be opened.
    pub(super) fn audit(&self) -> Result<Audit, Failure> {
        prepare::audit(&self.artifacts, &self.store)
    }

    /// Returns a task as commands print it; `position` is its place among those that wait.
    pub(super) fn show(&self, record: TaskRecord, position: Option<u32>) -> Task {
        let life = self.life(&record);
        Task::of(record, position, life)
    }

    /// Returns whether the process of a task lives.
    pub(super) fn life(&self, record: &TaskRecord) -> Life {
        queue::owner_life(&self.artifacts, &self.this, &record.owner, &record.task_id)
    }

    /// Returns the task that runs in a repository, and those that wait.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub(super) fn tasks_of(&self, repo: &str) -> Result<(Option<Task>, Vec<Task>), Failure> {
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

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Status {
    pub repo: Repo,
    pub running: Option<Task>,
    /// The waiting tasks, in the order in which they will start.
    pub queued: Vec<Task>,
    pub queued_count: usize,
    /// The task that ended last.
    pub last: Option<Task>,
    pub stuck_report: Option<StuckReportNote>,
    /// The directory of act's notes, from the repository's root; null when `agent/` and `.act/` are both the user's.
    pub notes_dir: Option<String>,
    /// Dry runs whose proposals were written in part, because the process that wrote them died. Omitted when there are
    /// none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub half_applied: Vec<String>,
    /// The worktrees in which tasks of the repository work; only with `--all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktrees: Option<Vec<WorktreeSeen>>,
}

impl Document for Status {
    const NAME: &'static str = "status";
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Queue {
    pub repo: Repo,
    pub running: Option<Task>,
    /// The waiting tasks, in the order in which they will start.
    pub queued: Vec<Task>,
    pub queued_count: usize,
}

impl Document for Queue {
    const NAME: &'static str = "queue";
}

/// Returns the state of the repository at `start`; with `all`, also of the worktrees in which its tasks work.
///
/// # Errors
///
/// There is no repository at `start`, or the store cannot be read.
pub fn status(start: &Path, all: bool) -> Result<Status, Failure> {
    let lookup = Lookup::open(start)?;
    let (context, root) = lookup.context()?;
    // This is read before the queue, so that a task which begins in between does not count as dead.
    let half_applied = context.store.half_applied(&context.repo)?.into_iter();
    let (running, queued) = lookup.tasks_of(&context.repo)?;
    let last = lookup.store.last_ended(&context.repo)?.map(|record| lookup.show(record, None));
    let found = stuck_report::find(&lookup.store, &context.repo, root)?;
    let stuck_report = found.map(|found| found.note);
    let notes_dir = NotesDir::name_in(root).ok().map(str::to_owned);
    // The proposal of a running task is being written now.
    let dead = |by: Option<&str>| by != running.as_ref().map(|task| task.task_id.as_str());
    let half_applied = half_applied.filter(|record| dead(record.applied_by.as_deref()));
    let half_applied = half_applied.map(|record| record.task_id).collect();
    let (repo, queued_count) = (repository(root), queued.len());
    let worktrees = all.then(|| worktree::seen(&lookup)).transpose()?;
    Ok(Status {
        repo,
        running,
        queued,
        queued_count,
        last,
        stuck_report,
        notes_dir,
        half_applied,
        worktrees,
    })
}

/// Returns the queue of the repository at `start`.
///
/// # Errors
///
/// There is no repository at `start`, or the store cannot be read.
pub fn queue(start: &Path) -> Result<Queue, Failure> {
    let lookup = Lookup::open(start)?;
    let (context, root) = lookup.context()?;
    let (running, queued) = lookup.tasks_of(&context.repo)?;
    let (repo, queued_count) = (repository(root), queued.len());
    Ok(Queue { repo, running, queued, queued_count })
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct History {
    /// The tasks, newest first, including those that wait or run.
    pub tasks: Vec<Task>,
    /// True if `--limit` left out older tasks.
    pub more: bool,
    /// Tasks whose rows in the store are damaged, among as many tasks as were asked for. Omitted when there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedTask>,
}

impl Document for History {
    const NAME: &'static str = "history";
}

/// Returns the tasks of the repository at `start`, or of all repositories: at most `limit`, newest first.
///
/// # Errors
///
/// The store cannot be read, or there is no repository at `start`.
pub fn history(start: &Path, all: bool, limit: u32) -> Result<History, Failure> {
    let lookup = Lookup::open(start)?;
    let repo = if all { None } else { Some(lookup.context()?.0.repo) };
    if all {
        // The tasks of every repository are shown, so they are recorded as well.
        lookup.record_dead_tasks(None)?;
    }
    listed(&lookup, repo.as_deref(), limit)
}

/// Returns the tasks of one repository or of all, as the store has them.
pub(super) fn listed(lookup: &Lookup, repo: Option<&str>, limit: u32) -> Result<History, Failure> {
    let mut tasks = vec![];
    let asked = limit.saturating_add(1);
    let (mut records, damaged) = lookup.store.history_with_damage(repo, asked)?;
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = records.len() + damaged.len() > most;
    records.truncate(most);
    for record in records {
        let position = match record.state {
            // A damaged row of the same repository hides the place, but not the task.
            TaskState::Queued => {
                position(lookup, &record.repo, &record.task_id).unwrap_or_default()
            }
            _ => None,
        };
        tasks.push(lookup.show(record, position));
    }
    Ok(History { tasks, more, damaged })
}

/// Returns the position of a task among those that wait in its repository, from 1.
pub(super) fn position(lookup: &Lookup, repo: &str, task_id: &str) -> Result<Option<u32>, Failure> {
    let queue = lookup.store.unfinished(repo)?;
    let waiting = queue.iter().filter(|task| task.state == TaskState::Queued);
    Ok((1..).zip(waiting).find(|(_, task)| task.task_id == task_id).map(|(at, _)| at))
}

#[cfg(test)]
mod status_tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schemas_are_published() {
        // EVENT-8
        schema::document_holds::<Status>();
        schema::document_holds::<Queue>();
    }
}

#[cfg(test)]
mod history_tests {
    use super::*;
    use act_core::event::schema;

    #[test]
    fn the_schema_is_published() {
        // EVENT-8
        schema::document_holds::<History>();
    }

    /// TASK-23
    #[test]
    fn a_dead_process_is_recorded_by_the_repository_of_its_task_and_by_a_look_at_all() {
        use crate::finish::testing::submitted;
        use act_core::process::Process;
        let dir = tempfile::tempdir().unwrap();
        let artifacts = dir.path().join("a");
        let repos = ["one", "two"].map(|name| dir.path().join(name));
        for repo in &repos {
            std::fs::create_dir_all(repo.join(".git")).unwrap();
        }
        let artifacts = Arc::new(ArtifactDir::open(&artifacts, &repos[0]).unwrap());
        let store = prepare::store(&artifacts).unwrap();
        // A process of an earlier start of the machine.
        let dead = Process { boot_id: "earlier".into(), ..Process::this() };
        let contexts = repos.each_ref().map(|repo| {
            let (store, artifacts) = (Arc::clone(&store), Arc::clone(&artifacts));
            TaskContext { this: dead.clone(), ..TaskContext::new(store, artifacts, repo).unwrap() }
        });
        let tasks = [0, 1].map(|at| submitted(&contexts[at], &repos[at]).task_id);
        let states = || tasks.each_ref().map(|id| store.task(id).unwrap().unwrap().state);
        Lookup::within(Arc::clone(&artifacts), None).unwrap();
        assert_eq!(states(), [TaskState::Queued; 2], "outside of every repository");
        let lookup = Lookup::within(artifacts, Some(repos[0].clone())).unwrap();
        assert_eq!(states(), [TaskState::Cancelled, TaskState::Queued]);
        lookup.record_dead_tasks(None).unwrap();
        assert_eq!(states(), [TaskState::Cancelled, TaskState::Cancelled]);
    }
}
