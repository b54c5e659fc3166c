//! The queue of a repository: what waits, what runs, and the moves between them. Each move says from which
//! state and owner it starts; when that does not hold any more, nothing changes and it answers false.

use rusqlite::{OptionalExtension, Transaction, params};

use super::record::to_json;
use super::{Flags, Store, StoreError, Survives, TaskRecord, TaskState};
use act_core::Outcome;
use act_core::process::Process;

/// A task that has been accepted.
#[derive(Debug, Clone)]
pub struct Submission<'a> {
    pub task_id: &'a str,
    /// Identity and path of the repository's root.
    pub repo: &'a str,
    pub root: &'a str,
    pub text: &'a str,
    pub flags: &'a Flags,
    pub owner: &'a Process,
}

const OWNED: &str =
    "owner_pid = ?2 AND owner_start = ?3 AND owner_boot = ?4 AND owner_namespace = ?5";

impl Store {
    /// Behind all others; durable when this returns. Answers its position among the waiting, from 1.
    pub fn submit(&self, task: &Submission<'_>) -> Result<u32, StoreError> {
        self.write(Survives::Machine, |db| {
            let owner = task.owner;
            db.execute(
                "INSERT INTO tasks (task_id, repo, root, text, flags, state, submitted_at, owner_pid, \
                 owner_start, owner_boot, owner_namespace) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                params![
                    task.task_id,
                    task.repo,
                    task.root,
                    task.text,
                    to_json(task.flags),
                    TaskState::Queued.as_str(),
                    now(),
                    owner.pid,
                    owner.start_time,
                    owner.boot_id,
                    owner.pid_namespace
                ],
            )?;
            db.query_row(
                "SELECT count(*) FROM tasks WHERE repo = ?1 AND state = 'QUEUED'",
                [task.repo],
                |row| row.get(0),
            )
        })
    }

    /// What waits or runs in a repository, in order of acceptance.
    pub fn in_line(&self, repo: &str) -> Result<Vec<TaskRecord>, StoreError> {
        let select = TaskRecord::SELECT;
        self.read(|db| {
            let mut all = db.prepare(&format!(
                "{select} WHERE repo = ?1 AND state IN ('QUEUED', 'RUNNING') ORDER BY seq"
            ))?;
            all.query_map([repo], TaskRecord::read)?.collect()
        })
    }

    pub fn task(&self, task_id: &str) -> Result<Option<TaskRecord>, StoreError> {
        let select = TaskRecord::SELECT;
        self.read(|db| {
            let one = format!("{select} WHERE task_id = ?1");
            db.query_row(&one, [task_id], TaskRecord::read).optional()
        })
    }

    /// QUEUED to RUNNING, if `owner` has it, nothing runs in the repository and nothing waits before it.
    pub fn start(&self, task_id: &str, owner: &Process) -> Result<bool, StoreError> {
        self.write(Survives::Machine, |db| {
            let first = format!(
                "UPDATE tasks SET state = 'RUNNING', started_at = ?6 \
                 WHERE task_id = ?1 AND state = 'QUEUED' AND {OWNED} AND NOT EXISTS \
                 (SELECT 1 FROM tasks AS other WHERE other.repo = tasks.repo AND \
                  (other.state = 'RUNNING' OR (other.state = 'QUEUED' AND other.seq < tasks.seq)))"
            );
            moved(db, &first, task_id, owner, &now())
        })
    }

    /// Makes `child` the owner of a waiting task that `parent` accepted. Returns false when `parent` does not own a
    /// waiting task of this id.
    ///
    /// # Errors
    ///
    /// The database cannot be written.
    pub fn take_over(
        &self,
        task_id: &str,
        parent: &Process,
        child: &Process,
    ) -> Result<bool, StoreError> {
        self.write(Survives::Machine, |db| {
            let changed = db.execute(
                &format!(
                    "UPDATE tasks SET owner_pid = ?6, owner_start = ?7, owner_boot = ?8, \
                     owner_namespace = ?9 WHERE task_id = ?1 AND state = 'QUEUED' AND {OWNED}"
                ),
                params![
                    task_id,
                    parent.pid,
                    parent.start_time,
                    parent.boot_id,
                    parent.pid_namespace,
                    child.pid,
                    child.start_time,
                    child.boot_id,
                    child.pid_namespace
                ],
            )?;
            Ok(changed == 1)
        })
    }

    /// To its end, by the owner or in the name of a dead one. A success resolves the stuck report of its repository.
    pub fn end(&self, task_id: &str, owner: &Process, how: &Outcome) -> Result<bool, StoreError> {
        self.write(Survives::Machine, |db| {
            let changed = db.execute(
                &format!(
                    "UPDATE tasks SET state = ?6, exit_code = ?7, reason = ?8, finished_at = ?9 \
                     WHERE task_id = ?1 AND state IN ('QUEUED', 'RUNNING') AND {OWNED}"
                ),
                params![
                    task_id,
                    owner.pid,
                    owner.start_time,
                    owner.boot_id,
                    owner.pid_namespace,
                    how.state().as_str(),
                    how.exit() as u8,
                    how.reason(),
                    now()
                ],
            )?;
            if changed == 1 && how.state() == TaskState::Success {
                super::stuck_reports::resolve_of_task(db, task_id)?;
            }
            Ok(changed == 1)
        })
    }

    /// Removes a task that waits, as if it had never been.
    pub fn forget(&self, task_id: &str) -> Result<bool, StoreError> {
        self.write(Survives::Machine, |db| {
            let gone = "DELETE FROM tasks WHERE task_id = ?1 AND state = 'QUEUED'";
            Ok(db.execute(gone, [task_id])? == 1)
        })
    }

    /// The same by the one that owns it: not what another has taken over.
    pub fn give_up(&self, task_id: &str, owner: &Process) -> Result<bool, StoreError> {
        let Process { pid, start_time, boot_id, pid_namespace } = owner;
        self.write(Survives::Machine, |db| {
            let gone =
                format!("DELETE FROM tasks WHERE task_id = ?1 AND state = 'QUEUED' AND {OWNED}");
            Ok(db.execute(&gone, params![task_id, pid, start_time, boot_id, pid_namespace])? == 1)
        })
    }

    /// Tells the owner of a running task to end it.
    pub fn request_cancel(&self, task_id: &str) -> Result<bool, StoreError> {
        self.write(Survives::Machine, |db| {
            let wish =
                "UPDATE tasks SET cancel_requested = 1 WHERE task_id = ?1 AND state = 'RUNNING'";
            Ok(db.execute(wish, [task_id])? == 1)
        })
    }

    pub fn cancel_requested(&self, task_id: &str) -> Result<bool, StoreError> {
        self.read(|db| {
            let wished = "SELECT cancel_requested FROM tasks WHERE task_id = ?1";
            Ok(db.query_row(wished, [task_id], |row| row.get(0)).optional()?.unwrap_or(false))
        })
    }
}

fn moved(
    db: &Transaction<'_>,
    statement: &str,
    task_id: &str,
    owner: &Process,
    value: &str,
) -> rusqlite::Result<bool> {
    let Process { pid, start_time, boot_id, pid_namespace } = owner;
    let changed =
        db.execute(statement, params![task_id, pid, start_time, boot_id, pid_namespace, value])?;
    Ok(changed == 1)
}

pub(super) fn now() -> String {
    act_core::clock::milliseconds(act_core::clock::now())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{process, store, submit};
    use super::*;

    #[test]
    fn tasks_wait_in_order_of_acceptance_each_repository_for_itself() {
        // TASK-21
        let place = store();
        let store = &place.store;
        assert_eq!(submit(store, "r", "t-1", 1), 1);
        assert_eq!(submit(store, "r", "t-2", 2), 2);
        assert_eq!(submit(store, "other", "t-3", 3), 1);
        assert_eq!(submit(store, "r", "t-4", 4), 3);
        let names: Vec<_> =
            store.in_line("r").unwrap().into_iter().map(|task| task.task_id).collect();
        assert_eq!(names, ["t-1", "t-2", "t-4"]);
        assert!(store.start("t-1", &process(1)).unwrap());
        assert_eq!(submit(store, "r", "t-5", 5), 3, "what runs does not wait");
    }

    #[test]
    fn only_the_first_may_start_and_only_when_nothing_runs() {
        // TASK-11, TASK-21
        let place = store();
        let store = &place.store;
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
        let place = store();
        let store = &place.store;
        submit(store, "r", "t-1", 1);
        submit(store, "r", "t-2", 2);
        let forced = store.write(Survives::Machine, |db| {
            db.execute("UPDATE tasks SET state = 'RUNNING' WHERE repo = 'r'", [])
        });
        assert!(forced.is_err());
    }

    #[test]
    fn one_child_takes_a_waiting_task_over_and_no_child_a_running_one() {
        // TASK-28
        let place = store();
        let store = &place.store;
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
        let place = store();
        let store = &place.store;
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
        let place = store();
        let store = &place.store;
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
}
