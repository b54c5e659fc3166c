//! What a program reads that looks at the tasks of every repository for hours, such as the pages of `act watch`.
//!
//! An [`Observer`] opens the ARTIFACT_DIR once, so that a question costs a query of the store and no more. Its documents are
//! those that the commands print with `--json`.

use std::path::Path;
use std::sync::Arc;

use chrono::Utc;

use crate::attention::{Attention, OpenQuestions, need_of};
use crate::audit::explain::{Explanation, explained_in};
use crate::audit::grants::{GrantsAt, grants_in};
use crate::audit::{AuditFilter, AuditList, Logbook, list_in};
use crate::cancel::{CancelTarget, Cancellation, cancel_in};
use crate::capabilities;
use crate::diff::{TaskDiff, diff};
use crate::failures::{FailureList, failures};
use crate::metrics::{Metrics, metrics_in};
use crate::prepare;
use crate::status::{History, Lookup, listed, position};
use act_component::registry::State;
use act_core::{Failure, RunId, Usd};
use act_records::artifacts::ArtifactDir;
use act_records::store::{RunRecord, Task, TaskRecord, TaskState};

/// Reads tasks, runs and the audit log of one ARTIFACT_DIR.
pub struct Observer {
    lookup: Lookup,
}

/// A task, and what its document does not show.
#[derive(Debug, Clone)]
pub struct TaskSeen {
    pub task: Task,
    pub dry_run: bool,
    /// Somebody has asked the task to end.
    pub cancel_requested: bool,
    /// Tokens that the task may spend; `None` without a limit of its own.
    pub max_tokens: Option<u64>,
    /// The cost that the requests of the task may reach; `None` without a limit of its own.
    pub max_cost: Option<Usd>,
}

/// A run as the store knows it, and its manifest once it has ended.
#[derive(Debug)]
pub struct RunSeen {
    pub record: Option<RunRecord>,
    pub manifest: Option<act_core::verification::Manifest>,
    /// The digest of the manifest in its file.
    pub manifest_sha256: Option<String>,
}

/// Something that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    pub kind: Attention,
    /// The task that it is about; `None` for a component.
    pub task_id: Option<String>,
    /// Path of the repository's root.
    pub repo: String,
    /// The paths of a permission, the name of a component, or the reason of the end.
    pub what: Option<String>,
}

/// All that waits for a person, as far as a page lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// At most 100, the most urgent kinds first.
    pub needs: Vec<Need>,
    /// There are more.
    pub more: bool,
}

/// Maximum number of needs that are listed. A person does not read further, and a store may hold 100,000 reports.
const MAX_NEEDS: usize = 100;

impl Observer {
    /// Opens the ARTIFACT_DIR of the environment.
    ///
    /// # Errors
    ///
    /// The ARTIFACT_DIR or the store cannot be used.
    pub fn open() -> Result<Self, Failure> {
        Self::of(prepare::artifacts_for(None)?)
    }

    /// Uses an ARTIFACT_DIR that is open.
    ///
    /// # Errors
    ///
    /// The store cannot be used.
    pub fn of(artifacts: Arc<ArtifactDir>) -> Result<Self, Failure> {
        Ok(Self { lookup: Lookup::within(artifacts, None)? })
    }

    pub fn artifacts(&self) -> &Arc<ArtifactDir> {
        &self.lookup.artifacts
    }

    /// Records the end of tasks whose process died.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written.
    pub fn record_dead_tasks(&self) -> Result<(), Failure> {
        self.lookup.record_dead_tasks(None)
    }

    /// Returns the newest tasks of all repositories.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn history(&self, limit: u32) -> Result<History, Failure> {
        self.lookup.record_dead_tasks(None)?;
        listed(&self.lookup, None, limit)
    }

    /// Returns a task by its id.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn task(&self, task_id: &str) -> Result<Option<TaskSeen>, Failure> {
        let Some(record) = self.lookup.store.task(task_id)? else { return Ok(None) };
        let place = match record.state {
            TaskState::Queued => position(&self.lookup, &record.repo, task_id)?,
            _ => None,
        };
        let (dry_run, cancel_requested) = (record.flags.dry_run, record.cancel_requested);
        let (max_tokens, max_cost) = (record.flags.max_tokens, record.flags.max_cost);
        let task = self.lookup.show(record, place);
        Ok(Some(TaskSeen { task, dry_run, cancel_requested, max_tokens, max_cost }))
    }

    /// Returns whether the store has a task, whether its record can be read or not.
    pub fn is_task(&self, task_id: &str) -> bool {
        self.lookup.store.task_order(task_id).is_ok_and(|order| order.is_some())
    }

    /// Returns at most `most` tasks that were accepted after a place in the order of all tasks, each with its own place.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn accepted_after(&self, order: i64, most: u32) -> Result<Vec<(i64, String)>, Failure> {
        Ok(self.lookup.store.accepted_after(order, most)?)
    }

    /// Returns the ids of the tasks that wait or run.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn unfinished(&self) -> Result<Vec<String>, Failure> {
        let unfinished = self.lookup.store.unfinished_everywhere()?;
        Ok(unfinished.into_iter().map(|task| task.task_id).collect())
    }

    /// Returns what waits for a person. `tasks` are the newest tasks, the newest first.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn needs(&self, tasks: &[Task]) -> Result<Needs, Failure> {
        let mut needs = vec![];
        let mut roots: Vec<&str> = vec![];
        for task in tasks {
            if !roots.contains(&task.repo.root()) {
                roots.push(task.repo.root());
            }
            needs.extend(self.need_of(task)?);
        }
        // A report may belong to a task that is older than the given ones.
        // One more than is listed shows that there are more.
        for report in self.lookup.store.newest_unresolved_stuck_reports(MAX_NEEDS + 1)? {
            if tasks.iter().all(|task| task.task_id != report.task_id)
                // The record of the task may be damaged.
                && let Ok(Some(record)) = self.lookup.store.task(&report.task_id)
            {
                needs.extend(self.need(&record)?);
            }
        }
        for root in roots.into_iter().take(MAX_REPOSITORIES) {
            needs.extend(unapproved(root));
        }
        needs.sort_by_key(|need| need.kind);
        let more = needs.len() > MAX_NEEDS;
        needs.truncate(MAX_NEEDS);
        Ok(Needs { needs, more })
    }

    /// Returns why one task waits for a person.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn need_of(&self, task: &Task) -> Result<Option<Need>, Failure> {
        let Some(record) = self.lookup.store.task(&task.task_id)? else { return Ok(None) };
        self.need(&record)
    }

    fn need(&self, record: &TaskRecord) -> Result<Option<Need>, Failure> {
        let questions = match record.state.is_final() {
            true => OpenQuestions::default(),
            // A journal that cannot be opened asks nothing.
            false => match self.lookup.artifacts.open_journal(&record.task_id) {
                Ok(Some(journal)) => OpenQuestions::read(journal),
                Ok(None) | Err(_) => OpenQuestions::default(),
            },
        };
        let attention =
            need_of(&self.lookup.store, record, self.lookup.life(record), questions.is_open())?;
        Ok(attention.map(|attention| {
            let what = match attention {
                Attention::Permission => Some(questions.paths().collect::<Vec<_>>().join(", ")),
                _ => record.reason.clone(),
            };
            need(attention, record, what)
        }))
    }

    /// Returns what a task changed, as [`diff`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`diff`]; the directory of the task is another repository by now.
    pub fn diff(&self, task: &Task) -> Result<TaskDiff, Failure> {
        diff(Path::new(task.repo.root()), Some(&task.task_id))
    }

    /// Returns the failures in the log of a run of a task.
    ///
    /// # Errors
    ///
    /// The run has no manifest, or its log cannot be read.
    pub fn failures(&self, task: &Task, run_id: &str) -> Result<FailureList, Failure> {
        failures(Path::new(task.repo.root()), Some(run_id))
    }

    /// Ends a task: a waiting one is removed from the queue, a running one is asked to end.
    ///
    /// # Errors
    ///
    /// There is no such task, it has ended, or the store cannot be written.
    pub fn cancel(&self, task_id: &str) -> Result<Cancellation, Failure> {
        cancel_in(&self.lookup, &CancelTarget::Id(task_id.to_owned()))
    }

    /// Returns what is known about a run.
    ///
    /// # Errors
    ///
    /// The store or the manifest cannot be read.
    pub fn run(&self, run_id: &RunId) -> Result<RunSeen, Failure> {
        let record = self.lookup.store.run(run_id.as_str())?;
        let manifest = self.lookup.artifacts.read_manifest(run_id).map_err(|error| {
            Failure::refused("run_unreadable", format!("the manifest of {run_id}: {error}"))
        })?;
        let (manifest, manifest_sha256) = match manifest {
            Some(found) => (Some(found.manifest), Some(found.sha256)),
            None => (None, None),
        };
        Ok(RunSeen { record, manifest, manifest_sha256 })
    }

    /// Returns what the audit log says about a run. The chain of the log is not verified.
    ///
    /// # Errors
    ///
    /// The log does not know the run, or cannot be read.
    pub fn explain(&self, run_id: &RunId) -> Result<Explanation, Failure> {
        explained_in(&self.logbook(), run_id.as_str())
    }

    /// Returns the figures of all tasks.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn metrics(&self) -> Result<Metrics, Failure> {
        metrics_in(&self.lookup)
    }

    /// Returns the records of the audit log that a filter selects, of all repositories.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn audit(&self, filter: &AuditFilter) -> Result<AuditList, Failure> {
        list_in(&self.logbook(), filter, None)
    }

    /// Returns the permissions of each component now.
    ///
    /// # Errors
    ///
    /// The log cannot be read.
    pub fn grants(&self) -> Result<GrantsAt, Failure> {
        grants_in(&self.logbook(), Utc::now())
    }

    fn logbook(&self) -> Logbook {
        Logbook::of(&self.lookup.artifacts)
    }
}

/// Maximum number of repositories whose `agent.yaml` is read for the components that it requests. Each costs some
/// milliseconds.
const MAX_REPOSITORIES: usize = 20;

fn need(kind: Attention, record: &TaskRecord, what: Option<String>) -> Need {
    let (task_id, repo) = (Some(record.task_id.clone()), record.repository().to_owned());
    Need { kind, task_id, repo, what }
}

/// Returns the components that a repository requests and that are not approved. A repository that is gone requests none.
fn unapproved(root: &str) -> Vec<Need> {
    // A repository without requests costs no look into the registry.
    if prepare::requests(Path::new(root)).is_empty() {
        return vec![];
    }
    let Ok(requested) = capabilities::requested(Path::new(root)) else { return vec![] };
    let waits = |state: State| matches!(state, State::Unapproved | State::Changed | State::Missing);
    let waiting = requested.components.into_iter().filter(|component| waits(component.state));
    let need = |name: String| Need {
        kind: Attention::Component,
        task_id: None,
        repo: root.to_owned(),
        what: Some(name),
    };
    waiting.map(|component| need(component.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finish::testing::{accepted, submitted};
    use act_core::Outcome;

    fn observer(task: &crate::finish::testing::TestTask) -> Observer {
        Observer::of(Arc::clone(&task.owned_task.context.artifacts)).unwrap()
    }

    #[test]
    fn an_observer_sees_the_tasks_of_every_repository_in_the_order_of_their_acceptance() {
        let task = accepted(true);
        let observer = observer(&task);
        let other = task.dir.path().join("other");
        std::fs::create_dir(&other).unwrap();
        let context = &task.owned_task.context;
        let context = crate::queue::TaskContext::new(
            Arc::clone(&context.store),
            Arc::clone(&context.artifacts),
            &other,
        )
        .unwrap();
        let second = submitted(&context, &other);
        let seen: Vec<_> =
            observer.history(10).unwrap().tasks.into_iter().map(|task| task.task_id).collect();
        assert_eq!(seen, [second.task_id.clone(), task.owned_task.task_id.clone()]);
        let all = observer.accepted_after(0, 10).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(observer.accepted_after(all[0].0, 10).unwrap(), all[1..]);
        assert_eq!(observer.unfinished().unwrap().len(), 2);
        assert!(observer.task("t-zzzzzz").unwrap().is_none());
        let waits = observer.task(&second.task_id).unwrap().unwrap().task;
        assert_eq!((waits.state, waits.position), (TaskState::Queued, Some(1)));
    }

    // NOTIFY-1, WATCH-40
    #[test]
    fn a_failure_of_the_machine_needs_a_person_until_a_later_task_came_to_its_own_end() {
        let task = accepted(true);
        let observer = observer(&task);
        let needs = || {
            let tasks = observer.history(10).unwrap().tasks;
            observer
                .needs(&tasks)
                .unwrap()
                .needs
                .into_iter()
                .map(|need| need.kind)
                .collect::<Vec<_>>()
        };
        let infra = Attention::InfraError;
        assert_eq!(needs(), []);
        task.owned_task.end(&Outcome::infra("engine_unavailable")).unwrap();
        assert_eq!(needs(), [infra]);
        let root = task.dir.path().join("repo");
        let next = |outcome: &Outcome| {
            let next = submitted(&task.owned_task.context, &root);
            assert_eq!(needs(), [infra], "a task that waits changes nothing");
            assert!(next.start().unwrap());
            next.end(outcome).unwrap();
        };
        next(&Outcome::cancelled());
        assert_eq!(needs(), [infra], "a task that was cancelled shows nothing about the machine");
        next(&Outcome::Success);
        assert_eq!(needs(), []);
    }

    // NOTIFY-1, WATCH-40
    #[test]
    fn a_running_task_needs_a_person_while_its_journal_has_an_open_question() {
        use std::io::Write;
        let task = accepted(true);
        let observer = observer(&task);
        let task_id = &task.owned_task.task_id;
        let seen = || {
            let task = observer.task(task_id).unwrap().unwrap().task;
            let need = observer.need_of(&task).unwrap();
            need.map(|need| (need.kind, need.what.unwrap()))
        };
        let mut journal = observer.artifacts().resume_journal(task_id).unwrap().file;
        let mut write = |line: &str| journal.write_all(line.as_bytes()).unwrap();
        assert_eq!(seen(), None);
        write("{\"type\":\"consent_asked\",\"path\":\".envrc\"}\n");
        let asks = (Attention::Permission, ".envrc".to_owned());
        assert_eq!(seen(), Some(asks));
        write("{\"type\":\"consent\",\"path\":\".envrc\",\"answer\":\"refused\"}\n");
        assert_eq!(seen(), None);
    }
}
