//! Tasks: one row for each, the queue of a repository, and the moves between the states of a task.
//!
//! Each move names the state and the owner from which it starts. When the row has another state or owner by then, nothing
//! changes and the method returns false.

use std::collections::BTreeMap;

use act_core::event::{ModelUsage, TaskWorktree};
use act_core::process::{Life, Process};
use act_core::{Document, Outcome, Repo, TaskState, Usd};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Row, params};
use serde::{Deserialize, Serialize};

use super::{Result, Store, Synchronous, json, now, to_json, written_files};

/// Maximum number of verifications of a task.
const MAX_ATTEMPTS: u32 = 12;

/// The flags of `act run`, so that another process can run the task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flags {
    /// Globs of guarded paths that this task may change.
    pub allow_paths: Vec<String>,
    /// Globs of test files that this task may change although the tests of its start then fail.
    pub allow_test_changes: Vec<String>,
    /// Tokens that all roles together may spend.
    pub max_tokens: Option<u64>,
    /// The most that all requests together may cost.
    pub max_cost: Option<Usd>,
    /// The task ends with a proposal.
    pub dry_run: bool,
    /// The task runs the pipeline before the first edit.
    pub baseline: bool,
    /// The dry run whose proposal the task applies.
    pub apply: Option<String>,
    /// The model does not get the instructions of the repository.
    pub no_agents_md: bool,
    /// The name of an engine in `engines.toml`.
    pub engine: Option<String>,
    /// The session of the client that asked for the task, such as an editor.
    pub session: Option<String>,
    /// The worktree in which the task works; `None` for one that works in the repository itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Worktree>,
}

/// A linked worktree that act made for one task, and the repository to which it belongs. The path of the worktree is the root
/// in the row of its task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    /// Path of the root of the repository.
    pub of: String,
    /// Identity of that root.
    pub home: String,
    /// The commit with which the worktree began.
    pub head: String,
    /// The worktree began with the uncommitted changes of the repository as well.
    pub dirty: bool,
}

impl Worktree {
    /// Returns what events and documents say of the worktree whose root is `path`.
    pub fn at(&self, path: &str) -> TaskWorktree {
        let Self { head, dirty, .. } = self;
        TaskWorktree { path: path.to_owned(), head: head.clone(), dirty: *dirty }
    }
}

/// A task that `act run` accepts.
#[derive(Debug, Clone)]
pub struct Submission<'a> {
    pub task_id: &'a str,
    /// Identity of the repository's root directory.
    pub repo: &'a str,
    /// Path of the repository's root directory.
    pub root: &'a str,
    pub text: &'a str,
    pub flags: &'a Flags,
    pub owner: &'a Process,
}

/// How far a running task is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    pub phase: Option<String>,
    pub attempt: u32,
    pub replans: u32,
    pub tokens: BTreeMap<String, ModelUsage>,
    /// What the requests so far cost; `None` where that is not known.
    pub cost: Option<Usd>,
}

/// The row of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskRecord {
    /// The order of acceptance, which does not depend on clocks.
    pub seq: i64,
    pub task_id: String,
    /// Identity of the repository's root directory.
    pub repo: String,
    /// Path of the repository's root when the task was submitted. It may lead to another directory by now.
    pub root: String,
    pub text: String,
    pub flags: Flags,
    pub state: TaskState,
    pub phase: Option<String>,
    pub attempt: u32,
    pub replans: u32,
    pub submitted_at: String,
    pub started_at: Option<String>,
    pub finished_at: Option<String>,
    pub exit_code: Option<u8>,
    pub reason: Option<String>,
    /// The process that waits with the task or runs it, or the last one when the task has ended.
    pub owner: Process,
    pub tokens: BTreeMap<String, ModelUsage>,
    /// What its requests cost; `None` where that is not known.
    pub cost: Option<Usd>,
    pub cancel_requested: bool,
    /// The verifications of the task, oldest first.
    pub run_ids: Vec<String>,
    /// Those of them that began with a warm base.
    pub warm_run_ids: Vec<String>,
    /// What its tests prove, in stable words.
    pub evidence: Option<String>,
    /// The commit of `HEAD` when the task began.
    pub head: Option<String>,
    /// Files differed from that commit then; `None` where that is not known.
    pub dirty: Option<bool>,
}

/// A task that waits or runs, without its text, because the queue is read several times a second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedTask {
    pub task_id: String,
    /// QUEUED or RUNNING.
    pub state: TaskState,
    pub owner: Process,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Task {
    pub task_id: String,
    pub state: TaskState,
    /// Position among the waiting tasks of the repository, from 1; null unless QUEUED.
    pub position: Option<u32>,
    pub text: String,
    /// The current milestone; null unless RUNNING.
    pub phase: Option<String>,
    /// Number of verifications so far; 0 before the first.
    pub attempt: u32,
    pub max_attempts: u32,
    pub replans: u32,
    /// Ids of the runs of the task, oldest first.
    pub run_ids: Vec<String>,
    /// Those of `run_ids` that began with a warm base. A success that such a run proved is less than one of a cold run.
    pub warm_run_ids: Vec<String>,
    /// What the tests of the task prove, such as `red_first` or `not_shown, old_tests fail`; null without a success.
    pub evidence: Option<String>,
    /// ISO 8601 in UTC, to the millisecond, like the next two fields.
    pub submitted_at: String,
    pub started_at: Option<String>,
    pub finished_at: Option<String>,
    /// Exit code of the process that ran the task.
    pub exit_code: Option<u8>,
    /// Why the task ended, as a stable word; null for SUCCESS.
    pub reason: Option<String>,
    /// Process that waits with the task or runs it; null once the task has ended.
    pub owner_pid: Option<u32>,
    /// `runs`, `stalled` (stopped by a signal), `dead` or `unknown`; null once the task has ended.
    pub owner: Option<&'static str>,
    pub tokens: BTreeMap<String, ModelUsage>,
    /// What the requests of the task cost so far, in US dollars; null where that is not known.
    pub cost_usd: Option<Usd>,
    /// The repository, with its path at the submission and its state at the start of the task. For a task in a worktree `head` and
    /// `dirty` are those of the worktree.
    pub repo: Repo,
    /// The linked worktree in which the task works; omitted for a task that works in the repository itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<TaskWorktree>,
}

impl Document for Task {
    const NAME: &'static str = "task";
}

impl Task {
    /// Returns what `status`, `queue` and `history` show of a record.
    pub fn of(record: TaskRecord, position: Option<u32>, life: Life) -> Self {
        let ended = record.state.is_final();
        let worktree = record.flags.worktree.as_ref();
        Self {
            worktree: worktree.map(|worktree| worktree.at(&record.root)),
            repo: Repo {
                path: Some(record.repository().to_owned()),
                identity: Some(worktree.map_or(&record.repo, |worktree| &worktree.home).clone()),
                head: record.head.clone(),
                dirty: record.dirty,
            },
            task_id: record.task_id,
            state: record.state,
            position: position.filter(|_| record.state == TaskState::Queued),
            text: record.text,
            phase: record.phase.filter(|_| record.state == TaskState::Running),
            attempt: record.attempt,
            max_attempts: MAX_ATTEMPTS,
            replans: record.replans,
            run_ids: record.run_ids,
            warm_run_ids: record.warm_run_ids,
            evidence: record.evidence,
            submitted_at: record.submitted_at,
            started_at: record.started_at,
            finished_at: record.finished_at,
            exit_code: record.exit_code,
            reason: record.reason,
            owner_pid: (!ended).then_some(record.owner.pid),
            owner: (!ended).then_some(match life {
                Life::Runs => "runs",
                Life::Stalled => "stalled",
                Life::Dead => "dead",
                Life::Unknown => "unknown",
            }),
            tokens: record.tokens,
            cost_usd: record.cost,
        }
    }
}

impl TaskRecord {
    /// Returns the path of the root of the repository to which the task belongs, also where it works in a worktree of it.
    pub fn repository(&self) -> &str {
        self.flags.worktree.as_ref().map_or(&self.root, |worktree| &worktree.of)
    }

    /// Returns whether the task belongs to the repository with this identity: it works there, or in a worktree of it.
    pub fn belongs_to(&self, repo: &str) -> bool {
        self.repo == repo || self.flags.worktree.as_ref().is_some_and(|of| of.home == repo)
    }

    /// A query of tasks, to which conditions are appended.
    const SELECT: &str = "SELECT *, (SELECT json_group_array(run_id) FROM \
        (SELECT run_id FROM runs WHERE runs.task_id = tasks.task_id ORDER BY rowid)) \
        AS run_ids, (SELECT json_group_array(run_id) FROM \
        (SELECT run_id FROM runs WHERE runs.task_id = tasks.task_id AND warm ORDER BY rowid)) \
        AS warm_run_ids FROM tasks";

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let tokens: BTreeMap<String, ModelUsage> = json(row, "tokens")?;
        // A task that has sent no request has cost nothing.
        let cost = cost(row)?.or(tokens.is_empty().then_some(Usd::ZERO));
        Ok(Self {
            seq: row.get("seq")?,
            task_id: row.get("task_id")?,
            repo: row.get("repo")?,
            root: row.get("root")?,
            text: row.get("text")?,
            flags: json(row, "flags")?,
            state: state(row)?,
            phase: row.get("phase")?,
            attempt: row.get("attempt")?,
            replans: row.get("replans")?,
            submitted_at: row.get("submitted_at")?,
            started_at: row.get("started_at")?,
            finished_at: row.get("finished_at")?,
            exit_code: row.get("exit_code")?,
            reason: row.get("reason")?,
            owner: owner(row)?,
            tokens,
            cost,
            cancel_requested: row.get("cancel_requested")?,
            run_ids: json(row, "run_ids")?,
            warm_run_ids: json(row, "warm_run_ids")?,
            evidence: row.get("evidence")?,
            head: row.get("head")?,
            dirty: row.get("dirty")?,
        })
    }
}

/// A task whose row holds a value that act would not have written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema), schemars(inline))]
pub struct DamagedTask {
    pub task_id: String,
    /// The value that cannot be read.
    pub why: String,
}

impl UnfinishedTask {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { task_id: row.get("task_id")?, state: state(row)?, owner: owner(row)? })
    }
}

/// Reads the columns of the owner of a task or a run.
pub(super) fn owner(row: &Row<'_>) -> rusqlite::Result<Process> {
    Ok(Process {
        pid: row.get("owner_pid")?,
        start_time: row.get("owner_start")?,
        boot_id: row.get("owner_boot")?,
        pid_namespace: row.get("owner_namespace")?,
    })
}

/// Reads the column `cost_nanos`.
pub(super) fn cost(row: &Row<'_>) -> rusqlite::Result<Option<Usd>> {
    let nanos: Option<i64> = row.get("cost_nanos")?;
    Ok(nanos.and_then(|nanos| u64::try_from(nanos).ok()).map(Usd::from_nanos))
}

/// Reads the column `state`.
pub(super) fn state(row: &Row<'_>) -> rusqlite::Result<TaskState> {
    row.get("state").map(|Column(state)| state)
}

/// A wrapper, because a trait of rusqlite cannot be implemented for a type of another crate.
struct Column(TaskState);

impl FromSql for Column {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        TaskState::parse(value.as_str()?).map(Self).ok_or(FromSqlError::InvalidType)
    }
}

const OWNED: &str =
    "owner_pid = ?2 AND owner_start = ?3 AND owner_boot = ?4 AND owner_namespace = ?5";

impl Store {
    /// Adds a task behind all others of its repository and returns its position among those that wait, from 1.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn submit(&self, task: &Submission<'_>) -> Result<u32> {
        self.write(Synchronous::Full, |db| {
            let Process { pid, start_time, boot_id, pid_namespace } = task.owner;
            let queued = TaskState::Queued.as_str();
            let home = task.flags.worktree.as_ref().map(|worktree| worktree.home.as_str());
            db.execute(
                "INSERT INTO tasks (task_id, repo, root, text, flags, state, submitted_at, owner_pid, \
                 owner_start, owner_boot, owner_namespace, home) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                params![
                    task.task_id, task.repo, task.root, task.text, to_json(task.flags), queued, now(), pid,
                    start_time, boot_id, pid_namespace, home
                ],
            )?;
            let waiting = "SELECT count(*) FROM tasks WHERE repo = ?1 AND state = 'QUEUED'";
            db.query_row(waiting, [task.repo], |row| row.get(0))
        })
    }

    /// Returns a task by its id.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn task(&self, task_id: &str) -> Result<Option<TaskRecord>> {
        let query = format!("{} WHERE task_id = ?1", TaskRecord::SELECT);
        self.one(&query, [task_id], TaskRecord::read)
    }

    /// Returns the place of a task in the order in which the tasks of all repositories were accepted.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn task_order(&self, task_id: &str) -> Result<Option<i64>> {
        self.one("SELECT seq FROM tasks WHERE task_id = ?1", [task_id], |row| row.get(0))
    }

    /// Returns the ids of at most `most` tasks that were accepted after the place `order`, each with its own place, in order of
    /// acceptance.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn accepted_after(&self, order: i64, most: u32) -> Result<Vec<(i64, String)>> {
        let query = "SELECT seq, task_id FROM tasks WHERE seq > ?1 ORDER BY seq LIMIT ?2";
        self.all(query, (order, most), |row| Ok((row.get("seq")?, row.get("task_id")?)))
    }

    /// Returns the tasks that wait or run in a repository, in order of acceptance.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn unfinished(&self, repo: &str) -> Result<Vec<UnfinishedTask>> {
        let query = "SELECT task_id, state, owner_pid, owner_start, owner_boot, owner_namespace FROM tasks \
                     WHERE repo = ?1 AND state IN ('QUEUED', 'RUNNING') ORDER BY seq";
        self.all(query, [repo], UnfinishedTask::read)
    }

    /// Returns the tasks of all repositories that wait or run, in order of acceptance, without those whose rows are damaged.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn unfinished_everywhere(&self) -> Result<Vec<UnfinishedTask>> {
        let query = "SELECT task_id, state, owner_pid, owner_start, owner_boot, owner_namespace FROM tasks \
                     WHERE state IN ('QUEUED', 'RUNNING') ORDER BY seq";
        let rows = self.all(query, [], |row| Ok(UnfinishedTask::read(row).ok()))?;
        Ok(rows.into_iter().flatten().collect())
    }

    /// Returns the tasks that wait or run in a repository and in its worktrees, in order of acceptance.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn unfinished_with_worktrees(&self, repo: &str) -> Result<Vec<UnfinishedTask>> {
        let query = "SELECT task_id, state, owner_pid, owner_start, owner_boot, owner_namespace FROM tasks \
                     WHERE (repo = ?1 OR home = ?1) AND state IN ('QUEUED', 'RUNNING') ORDER BY seq";
        self.all(query, [repo], UnfinishedTask::read)
    }

    /// Returns the whole records of the tasks that wait or run in a repository, in order of acceptance.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn unfinished_records(&self, repo: &str) -> Result<Vec<TaskRecord>> {
        let conditions = "WHERE repo = ?1 AND state IN ('QUEUED', 'RUNNING') ORDER BY seq";
        self.all(&format!("{} {conditions}", TaskRecord::SELECT), [repo], TaskRecord::read)
    }

    /// Returns at most `limit` tasks of one repository, those in its worktrees among them, or of all repositories: the newest
    /// first. Tasks that wait or run are among them.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn history(&self, repo: Option<&str>, limit: u32) -> Result<Vec<TaskRecord>> {
        let conditions = "WHERE ?1 IS NULL OR repo = ?1 OR home = ?1 ORDER BY seq DESC LIMIT ?2";
        self.all(&format!("{} {conditions}", TaskRecord::SELECT), (repo, limit), TaskRecord::read)
    }

    /// Returns the same tasks as [`Store::history`], and apart from them those whose rows are damaged.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn history_with_damage(
        &self,
        repo: Option<&str>,
        limit: u32,
    ) -> Result<(Vec<TaskRecord>, Vec<DamagedTask>)> {
        let conditions = "WHERE ?1 IS NULL OR repo = ?1 OR home = ?1 ORDER BY seq DESC LIMIT ?2";
        let query = format!("{} {conditions}", TaskRecord::SELECT);
        let rows = self.all(&query, (repo, limit), |row| {
            let task_id = row.get("task_id")?;
            Ok(TaskRecord::read(row)
                .map_err(|error| DamagedTask { task_id, why: error.to_string() }))
        })?;
        let (mut tasks, mut damaged) = (vec![], vec![]);
        for row in rows {
            match row {
                Ok(task) => tasks.push(task),
                Err(row) => damaged.push(row),
            }
        }
        Ok((tasks, damaged))
    }

    /// Returns the task of a repository that ended last. Tasks that ran ended in the order in which they were accepted,
    /// whatever clocks say; one whose process died while it waited counts only where there is no other.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn last_ended(&self, repo: &str) -> Result<Option<TaskRecord>> {
        let conditions = "WHERE repo = ?1 AND state NOT IN ('QUEUED', 'RUNNING') \
                          ORDER BY reason IS 'owner_died', seq DESC LIMIT 1";
        self.one(&format!("{} {conditions}", TaskRecord::SELECT), [repo], TaskRecord::read)
    }

    /// Returns the path that a repository had when a task was last submitted there, or in a worktree of it.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn last_root(&self, repo: &str) -> Result<Option<String>> {
        let query = "SELECT coalesce(json_extract(flags, '$.worktree.of'), root) FROM tasks \
                     WHERE repo = ?1 OR home = ?1 ORDER BY repo = ?1 DESC, seq DESC LIMIT 1";
        self.one(query, [repo], |row| row.get(0))
    }

    /// Moves a task from QUEUED to RUNNING, if `owner` owns it, no task runs in the repository and none waits before it.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn start(&self, task_id: &str, owner: &Process) -> Result<bool> {
        let Process { pid, start_time, boot_id, pid_namespace } = owner;
        let statement = format!(
            "UPDATE tasks SET state = 'RUNNING', started_at = ?6 \
             WHERE task_id = ?1 AND state = 'QUEUED' AND {OWNED} AND NOT EXISTS \
             (SELECT 1 FROM tasks AS other WHERE other.repo = tasks.repo AND \
              (other.state = 'RUNNING' OR (other.state = 'QUEUED' AND other.seq < tasks.seq)))"
        );
        let params = params![task_id, pid, start_time, boot_id, pid_namespace, now()];
        Ok(self.change(&statement, params)? == 1)
    }

    /// Stores from which state of the repository a task has started.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn started_from(
        &self,
        task_id: &str,
        head: Option<&str>,
        dirty: Option<bool>,
    ) -> Result<()> {
        let statement = "UPDATE tasks SET head = ?2, dirty = ?3 WHERE task_id = ?1";
        self.change(statement, params![task_id, head, dirty]).map(drop)
    }

    /// Makes `child` the owner of a waiting task that `parent` accepted. Returns false when `parent` does not own a
    /// waiting task of this id.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn take_over(&self, task_id: &str, parent: &Process, child: &Process) -> Result<bool> {
        let Process { pid, start_time, boot_id, pid_namespace } = parent;
        let statement = format!(
            "UPDATE tasks SET owner_pid = ?6, owner_start = ?7, owner_boot = ?8, owner_namespace = ?9 \
             WHERE task_id = ?1 AND state = 'QUEUED' AND {OWNED}"
        );
        let params = params![
            task_id,
            pid,
            start_time,
            boot_id,
            pid_namespace,
            child.pid,
            child.start_time,
            child.boot_id,
            child.pid_namespace
        ];
        Ok(self.change(&statement, params)? == 1)
    }

    /// Stores how far a task is. A task that has just ended still gets its last figures.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn progress(&self, task_id: &str, so_far: &Progress) -> Result<()> {
        let Progress { phase, attempt, replans, tokens, cost } = so_far;
        // SQLite has no larger numbers. Any larger cost is stored as nine thousand million dollars.
        let cost = cost.map(|cost| i64::try_from(cost.nanos()).unwrap_or(i64::MAX));
        let statement = "UPDATE tasks SET phase = ?2, attempt = ?3, replans = ?4, tokens = ?5, cost_nanos = ?6 \
                         WHERE task_id = ?1";
        self.write(Synchronous::Normal, |db| {
            db.execute(statement, params![task_id, phase, attempt, replans, to_json(tokens), cost])
        })?;
        Ok(())
    }

    /// Stores what the tests of a task prove.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn evidence(&self, task_id: &str, words: &str) -> Result<()> {
        self.change("UPDATE tasks SET evidence = ?2 WHERE task_id = ?1", params![task_id, words])?;
        Ok(())
    }

    /// Ends a task, for its owner or in the name of a dead one. A success resolves the stuck report of its repository.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn end(&self, task_id: &str, owner: &Process, how: &Outcome) -> Result<bool> {
        let Process { pid, start_time, boot_id, pid_namespace } = owner;
        let (state, exit_code) = (how.state(), how.exit() as u8);
        let statement = format!(
            "UPDATE tasks SET state = ?6, exit_code = ?7, reason = ?8, finished_at = ?9 \
             WHERE task_id = ?1 AND state IN ('QUEUED', 'RUNNING') AND {OWNED}"
        );
        self.write(Synchronous::Full, |db| {
            let params = params![
                task_id,
                pid,
                start_time,
                boot_id,
                pid_namespace,
                state.as_str(),
                exit_code,
                how.reason(),
                now()
            ];
            let ended = db.execute(&statement, params)? == 1;
            if ended && state == TaskState::Success {
                written_files::resolve_of_task(db, task_id)?;
            }
            Ok(ended)
        })
    }

    /// Deletes a task that waits. No trace of it remains.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn forget(&self, task_id: &str) -> Result<bool> {
        let statement = "DELETE FROM tasks WHERE task_id = ?1 AND state = 'QUEUED'";
        Ok(self.change(statement, [task_id])? == 1)
    }

    /// Deletes a task that waits and that `owner` still owns.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn give_up(&self, task_id: &str, owner: &Process) -> Result<bool> {
        let Process { pid, start_time, boot_id, pid_namespace } = owner;
        let statement =
            format!("DELETE FROM tasks WHERE task_id = ?1 AND state = 'QUEUED' AND {OWNED}");
        Ok(self.change(&statement, params![task_id, pid, start_time, boot_id, pid_namespace])? == 1)
    }

    /// Asks the owner of a running task to end it. Returns false when the task does not run.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn request_cancel(&self, task_id: &str) -> Result<bool> {
        let statement =
            "UPDATE tasks SET cancel_requested = 1 WHERE task_id = ?1 AND state = 'RUNNING'";
        Ok(self.change(statement, [task_id])? == 1)
    }

    /// Returns whether the task was asked to end.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn cancel_requested(&self, task_id: &str) -> Result<bool> {
        let query = "SELECT cancel_requested FROM tasks WHERE task_id = ?1";
        Ok(self.one(query, [task_id], |row| row.get(0))?.unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use act_core::event::schema;

    use super::super::testing::{process, store, submit};
    use super::*;

    #[test]
    fn tasks_wait_in_order_of_acceptance_each_repository_for_itself() {
        // TASK-21
        let store = &store();
        assert_eq!(submit(store, "r", "t-1", 1), 1);
        assert_eq!(submit(store, "r", "t-2", 2), 2);
        assert_eq!(submit(store, "other", "t-3", 3), 1);
        assert_eq!(submit(store, "r", "t-4", 4), 3);
        let names: Vec<_> =
            store.unfinished_records("r").unwrap().into_iter().map(|task| task.task_id).collect();
        assert_eq!(names, ["t-1", "t-2", "t-4"]);
        assert!(store.start("t-1", &process(1)).unwrap());
        assert_eq!(submit(store, "r", "t-5", 5), 3, "what runs does not wait");
    }

    #[test]
    fn only_the_first_may_start_and_only_when_nothing_runs() {
        // TASK-11, TASK-21
        let store = &store();
        submit(store, "r", "t-1", 1);
        submit(store, "r", "t-2", 2);
        assert!(!store.start("t-2", &process(2)).unwrap(), "it is second");
        assert!(!store.start("t-1", &process(2)).unwrap(), "it is another's");
        assert!(store.start("t-1", &process(1)).unwrap());
        assert!(!store.start("t-1", &process(1)).unwrap(), "never twice");
        assert!(!store.start("t-2", &process(2)).unwrap(), "one runs");
        assert!(store.end("t-1", &process(1), &Outcome::Success).unwrap());
        assert!(!store.start("t-1", &process(1)).unwrap(), "never again");
        assert!(store.start("t-2", &process(2)).unwrap());
    }

    #[test]
    fn the_tables_themselves_refuse_a_second_running_task() {
        // TASK-11
        let store = &store();
        submit(store, "r", "t-1", 1);
        submit(store, "r", "t-2", 2);
        let forced = store.write(Synchronous::Full, |db| {
            db.execute("UPDATE tasks SET state = 'RUNNING' WHERE repo = 'r'", [])
        });
        assert!(forced.is_err());
    }

    #[test]
    fn one_child_takes_a_waiting_task_over_and_no_child_a_running_one() {
        // TASK-28
        let store = &store();
        submit(store, "r", "t-1", 1);
        assert!(store.take_over("t-1", &process(1), &process(2)).unwrap());
        assert!(!store.take_over("t-1", &process(1), &process(3)).unwrap(), "too late");
        assert!(!store.start("t-1", &process(1)).unwrap(), "not its any more");
        assert!(!store.give_up("t-1", &process(1)).unwrap(), "nor to give up");
        assert!(store.start("t-1", &process(2)).unwrap());
        assert!(!store.take_over("t-1", &process(2), &process(3)).unwrap());
        let task = store.task("t-1").unwrap().unwrap();
        assert_eq!((task.state, task.owner), (TaskState::Running, process(2)));
        assert_eq!((task.flags.max_tokens, task.text.as_str()), (Some(9), "do it"));
    }

    #[test]
    fn an_end_is_final_and_said_once() {
        // TASK-24
        let store = &store();
        submit(store, "r", "t-1", 1);
        store.start("t-1", &process(1)).unwrap();
        let interrupted = Outcome::infra("interrupted");
        assert!(!store.end("t-1", &process(2), &interrupted).unwrap(), "not its owner");
        assert!(store.end("t-1", &process(1), &interrupted).unwrap());
        assert!(!store.end("t-1", &process(1), &Outcome::Success).unwrap());
        let task = store.task("t-1").unwrap().unwrap();
        assert_eq!((task.state, task.exit_code), (TaskState::InfraError, Some(4)));
        assert_eq!(task.reason.as_deref(), Some("interrupted"));
        assert!(task.started_at.is_some() && task.finished_at.is_some());
    }

    #[test]
    fn a_waiting_task_is_forgotten_a_running_one_is_told() {
        // TASK-25
        let store = &store();
        submit(store, "r", "t-1", 1);
        submit(store, "r", "t-2", 2);
        store.start("t-1", &process(1)).unwrap();
        assert!(!store.forget("t-1").unwrap() && store.forget("t-2").unwrap());
        assert_eq!(store.task("t-2").unwrap(), None);
        assert!(!store.cancel_requested("t-1").unwrap());
        assert!(store.request_cancel("t-1").unwrap());
        assert!(store.cancel_requested("t-1").unwrap());
        assert!(!store.request_cancel("t-2").unwrap());
        assert_eq!(submit(store, "r", "t-3", 3), 1);
    }

    #[test]
    fn the_newest_is_first_and_says_how_far_it_came() {
        // TASK-26, STORE-5
        let store = &store();
        for (task_id, repo) in [("t-1", "r"), ("t-2", "other"), ("t-3", "r")] {
            submit(store, repo, task_id, 1);
        }
        store.start("t-1", &process(1)).unwrap();
        store.run_started("run_a", Some("t-1"), "r", false, &process(1)).unwrap();
        store.run_started("run_b", Some("t-1"), "r", true, &process(1)).unwrap();
        store.run_finished("run_a", "FAIL", None).unwrap();
        let usage = ModelUsage { input: 3, cached: 2, cache_write: 0, output: 1 };
        let so_far = Progress {
            phase: Some("Implementing changes...".into()),
            attempt: 2,
            replans: 1,
            tokens: BTreeMap::from([("editor".to_owned(), usage)]),
            cost: Some(Usd::from_nanos(7)),
        };
        store.progress("t-1", &so_far).unwrap();
        let unpriced = Progress { cost: None, ..so_far.clone() };
        let names = |repo, limit| -> Vec<_> {
            let history = store.history(repo, limit).unwrap();
            history.into_iter().map(|task| task.task_id).collect()
        };
        assert_eq!(names(None, 10), ["t-3", "t-2", "t-1"]);
        assert_eq!(names(None, 1), ["t-3"]);
        assert_eq!(names(Some("r"), 10), ["t-3", "t-1"]);
        let task = store.task("t-1").unwrap().unwrap();
        assert_eq!((task.attempt, task.replans, task.phase), (2, 1, so_far.phase));
        assert_eq!(task.run_ids, ["run_a", "run_b"]);
        assert_eq!(task.warm_run_ids, ["run_b"]);
        assert_eq!((&task.tokens, task.cost), (&so_far.tokens, so_far.cost));
        assert_eq!((task.head, task.dirty), (None, None), "not stored yet");
        store.started_from("t-1", Some("c0ffee"), Some(true)).unwrap();
        let shown = Task::of(store.task("t-1").unwrap().unwrap(), None, Life::Runs);
        let (path, identity) = (Some("/home/me/repo".to_owned()), Some("r".to_owned()));
        let head = Some("c0ffee".to_owned());
        assert_eq!(shown.repo, Repo { path, identity, head, dirty: Some(true) });
        store.progress("t-1", &unpriced).unwrap();
        assert_eq!(store.task("t-1").unwrap().unwrap().cost, None, "unknown, and not zero");
        assert_eq!(store.task("t-2").unwrap().unwrap().cost, Some(Usd::ZERO), "no request");
        assert!(store.run("run_b").unwrap().unwrap().finished_at.is_none());
        assert_eq!(store.last_ended("r").unwrap(), None);
        let how = Outcome::Success;
        store.end("t-1", &process(1), &how).unwrap();
        assert_eq!(store.last_ended("r").unwrap().unwrap().task_id, "t-1");
    }

    #[test]
    fn the_schema_of_a_task_is_published() {
        // EVENT-8
        schema::document_holds::<Task>();
    }
}
