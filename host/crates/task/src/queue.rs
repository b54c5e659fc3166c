//! The queue of a repository: a task from its acceptance to its stored end, which task is next, waiting for it, and tasks
//! whose process has died.
//!
//! A task runs in the process that accepted it, and nowhere else. When that process dies, the next act in the
//! repository records the end of the task: CANCELLED (`owner_died`) for one that waited, INFRA_ERROR (`interrupted`)
//! for one that ran.

use std::io;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rand::RngExt;
use rustix::io::Errno;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::sinks::JournalSink;
use crate::{prepare, worktree};
use act_audit::{Audit, AuditError};
use act_core::event::{Event, EventKind, Events, Sink};
use act_core::process::{Life, Process};
use act_core::{Failure, Outcome, fail_point, process, reason};
use act_records::artifacts::{ArtifactDir, Journal, Reserve};
use act_records::store::{
    Flags, Store, StoreError, Submission, TaskRecord, TaskState, UnfinishedTask, Worktree,
};
use act_workspace::{RepoLock, RootIdentity, RootMoved, head_commit};

/// How often a waiting task looks at the queue: often enough that a person notices no delay.
const POLL: Duration = Duration::from_millis(100);
/// How often the store is asked again after an error that may pass.
const RETRY: Duration = Duration::from_millis(250);

/// One task that waits or runs, as another process sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueueEntry {
    pub(super) task_id: String,
    pub(super) state: TaskState,
    /// The state of the process that owns the task.
    pub(super) life: Life,
}

/// Why a task has to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BlockedBy {
    /// Position of the waiting task among those that wait, from 1.
    pub(super) position: u32,
    /// The task that runs, or the first that waits; `None` when another ARTIFACT_DIR's process holds the lock.
    pub(super) holder: Option<String>,
    /// The holder's process has been stopped by a signal.
    pub(super) stalled: bool,
    /// The holder runs; false when it waits itself.
    pub(super) works: bool,
}

/// The next action of a waiting task after one look at the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NextAction {
    /// The task is first: it starts as soon as it has the repository's lock.
    Start,
    /// The task is no longer in the queue.
    Removed,
    /// The process of this other task is dead: its end is recorded.
    RecordDead(String),
    /// Nothing is known about the process of this running task; it is dead if the repository's lock is free.
    RecordDeadIfUnlocked(String),
    Wait(BlockedBy),
}

/// Returns the position of a task among those that wait, from 1; one more than their number when it does not wait.
pub(super) fn position(queue: &[QueueEntry], task_id: &str) -> u32 {
    let waiting = queue.iter().filter(|entry| entry.state == TaskState::Queued);
    let before = waiting.take_while(|entry| entry.task_id != task_id).count();
    u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1)
}

/// Decides what the waiting task `me` does (pure). `queue` is in order of acceptance.
pub(super) fn next_action(queue: &[QueueEntry], me: &str) -> NextAction {
    let waiting = || queue.iter().filter(|entry| entry.state == TaskState::Queued);
    if !waiting().any(|entry| entry.task_id == me) {
        return NextAction::Removed;
    }
    if let Some(dead) = queue.iter().find(|entry| entry.life == Life::Dead && entry.task_id != me) {
        return NextAction::RecordDead(dead.task_id.clone());
    }
    let blocked_by = |entry: &QueueEntry| {
        NextAction::Wait(BlockedBy {
            position: position(queue, me),
            holder: Some(entry.task_id.clone()),
            stalled: entry.life == Life::Stalled,
            works: entry.state == TaskState::Running,
        })
    };
    if let Some(running) = queue.iter().find(|entry| entry.state == TaskState::Running) {
        return match running.life {
            Life::Unknown => NextAction::RecordDeadIfUnlocked(running.task_id.clone()),
            Life::Dead | Life::Runs | Life::Stalled => blocked_by(running),
        };
    }
    match waiting().next() {
        Some(first) if first.task_id == me => NextAction::Start,
        Some(first) => blocked_by(first),
        None => NextAction::Removed,
    }
}

/// Returns whether the process that owns a task lives, from the process table and from the lock on the task's journal.
pub(super) fn owner_life(
    artifacts: &ArtifactDir,
    this: &Process,
    owner: &Process,
    task_id: &str,
) -> Life {
    match owner.life(this, process::look_up) {
        // A living owner holds the lock on the task's journal, and that is seen from every container of a machine.
        Life::Unknown if artifacts.is_abandoned(task_id) => Life::Dead,
        life => life,
    }
}

/// The repository's lock, given to the task that is first.
#[derive(Debug)]
pub(super) struct AcquiredLock {
    pub(super) lock: RepoLock,
    /// The task waited, so the configuration may have changed since it was accepted.
    pub(super) waited: bool,
}

/// A task that waits to be first in its repository and to get the lock.
pub(super) struct Waiting<'a> {
    owned_task: &'a OwnedTask,
    root: &'a Path,
    events: &'a Events,
    /// The obstacle that was reported last; only a change is reported again.
    reported: Option<BlockedBy>,
    waited: bool,
    retry: StoreRetry<'a>,
}

/// An error while waiting.
enum WaitError {
    /// The error may be temporary; the task continues to wait.
    MayPass(String),
    Permanent(Failure),
}

impl<'a> Waiting<'a> {
    pub(super) fn new(owned_task: &'a OwnedTask, root: &'a Path, events: &'a Events) -> Self {
        let retry = StoreRetry::new(events);
        Self { owned_task, root, events, reported: None, waited: false, retry }
    }

    /// Waits until the task is first and has the lock. Returns `None` when it was cancelled: by `cancel`, or because
    /// another process removed it from the queue. Errors of the store that may pass are retried.
    ///
    /// # Errors
    ///
    /// The repository is gone, was replaced or cannot be locked, or the store cannot be used.
    pub(super) async fn wait(
        mut self,
        cancel: &CancellationToken,
    ) -> Result<Option<AcquiredLock>, Failure> {
        loop {
            match self.poll() {
                Ok(Poll::Done(turn)) => return Ok(turn),
                Ok(Poll::Again) => self.retry.succeeded(),
                Err(WaitError::MayPass(why)) => {
                    self.waited = true;
                    self.retry.failed(&why);
                }
                Err(WaitError::Permanent(failure)) => return Err(failure),
            }
            tokio::select! {
                () = cancel.cancelled() => return Ok(None),
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }

    /// Looks at the queue once and takes the one step that follows.
    fn poll(&mut self) -> Result<Poll, WaitError> {
        let context = &self.owned_task.context;
        let (queue, me) = (context.queue()?, self.owned_task.task_id.as_str());
        let lock = || try_lock(self.root, &context.repo);
        // Another ARTIFACT_DIR's task or a verification holds the lock.
        let locked = || BlockedBy {
            position: position(&queue, me),
            holder: None,
            stalled: false,
            works: true,
        };
        let blocked_by = match next_action(&queue, me) {
            NextAction::Removed => return Ok(Poll::Done(None)),
            NextAction::RecordDead(task_id) => {
                context.record_dead(&task_id)?;
                return Ok(Poll::Again);
            }
            NextAction::RecordDeadIfUnlocked(task_id) => match lock()? {
                Some(_lock) => {
                    context.record_dead(&task_id)?;
                    return Ok(Poll::Again);
                }
                None => locked(),
            },
            NextAction::Start => match lock()? {
                Some(lock) => {
                    return Ok(Poll::Done(Some(AcquiredLock { lock, waited: self.waited })));
                }
                None => locked(),
            },
            NextAction::Wait(blocked_by) => blocked_by,
        };
        self.report(blocked_by);
        Ok(Poll::Again)
    }

    fn report(&mut self, blocked_by: BlockedBy) {
        if self.reported.as_ref() == Some(&blocked_by) {
            return;
        }
        self.events.emit(EventKind::Waiting {
            repo: self.root.display().to_string(),
            holder: blocked_by.holder.clone(),
            position: blocked_by.position,
            stalled: blocked_by.stalled,
            works: blocked_by.works,
        });
        (self.reported, self.waited) = (Some(blocked_by), true);
    }
}

/// The result of one look at the queue.
enum Poll {
    Again,
    Done(Option<AcquiredLock>),
}

/// Takes the lock of the directory that the task was accepted for; `None` while another process holds it.
fn try_lock(root: &Path, accepted: &str) -> Result<Option<RepoLock>, WaitError> {
    let lock = match RepoLock::try_acquire(root) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Ok(None),
        Err(error) => return Err(lock_error(root, &error)),
    };
    let found = lock.root().identity().map_err(|error| lock_error(root, &error))?;
    match found.to_string() == accepted {
        true => Ok(Some(lock)),
        false => Err(WaitError::Permanent(RootMoved::Replaced(root.to_owned()).into())),
    }
}

fn lock_error(root: &Path, error: &io::Error) -> WaitError {
    let failure = lock_failed(root, error);
    match Errno::from_io_error(error) {
        // The process or the machine is short of something; the repository itself is fine.
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::INTR) => {
            WaitError::MayPass(failure.message)
        }
        _ => WaitError::Permanent(failure),
    }
}

/// Returns the refusal for a repository that cannot be locked although no process holds its lock.
pub(super) fn lock_failed(root: &Path, error: &io::Error) -> Failure {
    use io::ErrorKind::{NotADirectory, NotFound};
    if matches!(error.kind(), NotFound | NotADirectory) {
        return RootMoved::Gone { path: root.to_owned(), why: error.to_string() }.into();
    }
    Failure::refused("lock_failed", format!("{} cannot be locked: {error}", root.display()))
        .hint("a repository must be on a file system that supports flock")
}

impl From<StoreError> for WaitError {
    fn from(error: StoreError) -> Self {
        match error.may_pass() {
            true => Self::MayPass(error.to_string()),
            false => Self::Permanent(error.into()),
        }
    }
}

/// Retries after errors that may pass, and reports each series of them once.
pub(super) struct StoreRetry<'a> {
    events: &'a Events,
    reported: bool,
}

impl<'a> StoreRetry<'a> {
    pub(super) fn new(events: &'a Events) -> Self {
        Self { events, reported: false }
    }

    fn failed(&mut self, error: &dyn std::fmt::Display) {
        if !std::mem::replace(&mut self.reported, true) {
            self.events.warn(format!(
                "{error}; the task stays in the queue and goes on as soon as it can (Ctrl-C to give up)"
            ));
        }
    }

    fn succeeded(&mut self) {
        self.reported = false;
    }

    /// Repeats `ask` until it succeeds or fails for good. Returns `None` when it is cancelled first.
    ///
    /// # Errors
    ///
    /// The store fails with an error that does not pass.
    pub(super) async fn ask<T>(
        &mut self,
        cancel: &CancellationToken,
        mut ask: impl FnMut() -> Result<T, StoreError>,
    ) -> Option<Result<T, StoreError>> {
        loop {
            match ask() {
                Err(error) if error.may_pass() => self.failed(&error),
                answer => return Some(answer),
            }
            tokio::select! {
                () = cancel.cancelled() => return None,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }
}

/// Records the end of every task of a repository and of its worktrees, or of all repositories, whose process is dead. A process
/// that may live is left alone.
///
/// # Errors
///
/// The store cannot be read or written.
pub(super) fn record_dead_tasks(
    store: &Store,
    artifacts: &ArtifactDir,
    this: &Process,
    repo: Option<&str>,
) -> Result<(), StoreError> {
    let unfinished = match repo {
        Some(repo) => store.unfinished_with_worktrees(repo)?,
        None => store.unfinished_everywhere()?,
    };
    for task in unfinished {
        if owner_life(artifacts, this, &task.owner, &task.task_id) == Life::Dead {
            record_dead(store, artifacts, &task)?;
        }
    }
    Ok(())
}

/// Records the end of one task whose process is dead. Does nothing when another process owns it by now. If the journal
/// already ends with a final state that the store has not, that one is recorded.
///
/// # Errors
///
/// The store cannot be written.
pub(super) fn record_dead(
    store: &Store,
    artifacts: &ArtifactDir,
    UnfinishedTask { task_id, state, owner }: &UnfinishedTask,
) -> Result<(), StoreError> {
    let line = artifacts.last_line(task_id).unwrap_or_default();
    let journaled = line.and_then(|line| final_state(&line, task_id));
    let how = journaled.clone().unwrap_or_else(|| match state {
        TaskState::Queued => Outcome::Cancelled { reason: Some(reason::OWNER_DIED.to_owned()) },
        _ => Outcome::infra(reason::INTERRUPTED),
    });
    if store.end(task_id, owner, &how)? && journaled.is_none() {
        // The store is what counts, and it has the end; the journal is best effort.
        let _ = append_last_event(store, artifacts, task_id, how);
    }
    Ok(())
}

#[derive(Deserialize)]
struct FinishedLine {
    r#type: String,
    task_id: String,
    state: String,
    reason: Option<String>,
}

/// Returns the end that the last line of a journal reports, if it is a `task_finished` with a final state (pure).
fn final_state(line: &str, task_id: &str) -> Option<Outcome> {
    let line: FinishedLine = serde_json::from_str(line).ok()?;
    let state = TaskState::parse(&line.state).filter(|state| state.is_final())?;
    let ours = line.r#type == "task_finished" && line.task_id == task_id;
    ours.then(|| Outcome::recorded(state, line.reason)).flatten()
}

/// Appends `task_finished` to the journal of a dead process's task, so that it ends like every other.
fn append_last_event(
    store: &Store,
    artifacts: &ArtifactDir,
    task_id: &str,
    how: Outcome,
) -> io::Result<()> {
    let Some(task) = store.task(task_id).map_err(io::Error::other)? else { return Ok(()) };
    let mut journal = artifacts.resume_journal(task_id)?;
    let kind = EventKind::TaskFinished {
        state: how.state(),
        exit_code: how.exit() as u8,
        run_id: task.run_ids.last().cloned(),
        reason: how.reason().map(str::to_owned),
        summary: None,
        report_path: None,
        tokens: task.tokens,
        cost_usd: task.cost,
        gate_inputs_changed: vec![],
        edits_refused: Default::default(),
    };
    let (seq, time, task_id) = (journal.lines + 1, act_core::clock::now(), task_id.to_owned());
    let line = Event { seq, time, task_id, kind }.to_json().unwrap_or_default();
    journal.file.write_all(format!("{line}\n").as_bytes())
}

/// The store, the artifacts and the audit log, for the tasks of one repository.
#[derive(Debug, Clone)]
pub(super) struct TaskContext {
    pub(super) store: Arc<Store>,
    pub(super) artifacts: Arc<ArtifactDir>,
    /// The identity of the root directory of the repository.
    pub(super) repo: String,
    /// The repository of which this one is a worktree that act made.
    pub(super) worktree: Option<Worktree>,
    pub(super) this: Process,
    /// The audit log.
    pub(super) audit: Audit,
    /// Room on the disk for the end of the task or verification, until that is stored.
    pub(super) room: Arc<Mutex<Option<Reserve>>>,
}

impl TaskContext {
    pub(super) fn new(
        store: Arc<Store>,
        artifacts: Arc<ArtifactDir>,
        root: &Path,
    ) -> Result<Self, Failure> {
        let identity = RootIdentity::of(root).map_err(|error| {
            Failure::refused("repository_unusable", format!("{}: {error}", root.display()))
        })?;
        let repo = identity.to_string();
        let audit = prepare::audit(&artifacts, &store)?;
        let this = Process::this();
        let worktree = worktree::at(&artifacts, root);
        Ok(Self { store, artifacts, repo, worktree, this, audit, room: Arc::default() })
    }

    /// Returns the identity of the repository itself, also in a worktree of it.
    pub(super) fn home(&self) -> &str {
        self.worktree.as_ref().map_or(&self.repo, |worktree| &worktree.home)
    }

    /// Reserves room on the disk for the end, so that what is reported can be stored.
    ///
    /// # Errors
    ///
    /// The disk is full (`store_unusable`).
    pub(super) fn reserve_room(&self) -> Result<(), Failure> {
        let room = self.artifacts.reserve().map_err(|error| {
            let state = self.artifacts.path().join("state");
            let message = format!(
                "{} has no room for the result: 1 MiB cannot be reserved: {error}",
                state.display()
            );
            Failure::refused("store_unusable", message)
                .hint("make room there, or set AGENT_ARTIFACT_DIR")
        })?;
        *self.room.lock().unwrap_or_else(PoisonError::into_inner) = Some(room);
        Ok(())
    }

    /// Gives the reserved room back, for the end that is stored now. Returns whether there was any.
    pub(super) fn use_room(&self) -> bool {
        self.room.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }

    /// Returns the audit log for records about the repository at its present commit.
    ///
    /// # Errors
    ///
    /// The log cannot be written.
    pub(super) fn audit_here(&self, root: &Path) -> Result<Audit, AuditError> {
        self.audit.ready()?;
        Ok(self.audit.about(act_audit::RepoIdentity {
            identity: self.repo.clone(),
            head: head_commit(root),
            worktree_of: self.worktree.as_ref().map(|worktree| worktree.home.clone()),
        }))
    }

    /// Accepts a task: stores it behind all others of the repository. Returns its position among those that wait, from 1. The row
    /// of a task in a worktree says so, whatever command has begun it.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub(super) fn submit_as(
        &self,
        id: TaskId,
        text: &str,
        flags: Flags,
        root: &Path,
    ) -> Result<(OwnedTask, u32), StoreError> {
        let flags = Flags { worktree: self.worktree.clone(), ..flags };
        // The journal is made before the row in the store: from another container only the lock on the
        // journal shows that this process lives.
        let journal = self.artifacts.create_journal(id.as_str());
        let position = self.store.submit(&Submission {
            task_id: id.as_str(),
            repo: &self.repo,
            root: &root.to_string_lossy(),
            text,
            flags: &flags,
            owner: &self.this,
        });
        if position.is_err() && journal.is_ok() {
            // A journal without a row is never read, so a failure does not matter.
            let _ = self.artifacts.remove_journal(id.as_str());
        }
        Ok((OwnedTask::new(self.clone(), id.as_str(), journal), position?))
    }

    /// Takes over the task that the parent process accepted (`--detach`). Returns `None` when the task has ended or was
    /// cancelled meanwhile.
    ///
    /// # Errors
    ///
    /// The store cannot be written.
    pub(super) fn take_over(
        &self,
        task_id: &str,
        from: &Process,
    ) -> Result<Option<OwnedTask>, StoreError> {
        let journal = self.artifacts.resume_journal(task_id);
        if self.store.take_over(task_id, from, &self.this)? {
            return Ok(Some(OwnedTask::new(self.clone(), task_id, journal)));
        }
        if self.store.task(task_id)?.is_none() && journal.is_ok() {
            // The task was cancelled in this moment.
            let _ = self.artifacts.remove_journal(task_id);
        }
        Ok(None)
    }

    /// Returns the tasks that wait or run in the repository, in order of acceptance.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub(super) fn queue(&self) -> Result<Vec<QueueEntry>, StoreError> {
        let entry = |task: UnfinishedTask| QueueEntry {
            life: owner_life(&self.artifacts, &self.this, &task.owner, &task.task_id),
            task_id: task.task_id,
            state: task.state,
        };
        Ok(self.store.unfinished(&self.repo)?.into_iter().map(entry).collect())
    }

    /// Records the end of a task whose process the caller knows to be dead.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written.
    pub(super) fn record_dead(&self, task_id: &str) -> Result<(), StoreError> {
        match self.store.task(task_id)? {
            Some(TaskRecord { task_id, state, owner, .. }) if !state.is_final() => {
                let task = UnfinishedTask { task_id, state, owner };
                record_dead(&self.store, &self.artifacts, &task)
            }
            _ => Ok(()),
        }
    }
}

#[derive(Debug)]
pub(super) struct OwnedTask {
    pub(super) context: TaskContext,
    pub(super) task_id: String,
    /// The task has started.
    running: AtomicBool,
    journal: Mutex<Option<io::Result<Journal>>>,
    /// Every event so far is in the journal.
    journaled: Arc<AtomicBool>,
    /// The lock on the journal, which shows other processes that this one lives. Held even if the journal cannot
    /// be written any more.
    lives: Option<OwnedFd>,
    /// The audit log for records of this task, once it has started.
    audit: OnceLock<Audit>,
}

/// The end that the store holds after a task has tried to store its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stored {
    AsWanted,
    /// Another end, which another process recorded before.
    Otherwise(Outcome),
}

impl OwnedTask {
    fn new(context: TaskContext, task_id: &str, journal: io::Result<Journal>) -> Self {
        Self {
            context,
            task_id: task_id.to_owned(),
            running: AtomicBool::new(false),
            lives: journal.as_ref().ok().and_then(|journal| journal.hold().ok()),
            journaled: Arc::new(AtomicBool::new(journal.is_ok())),
            journal: Mutex::new(Some(journal)),
            audit: OnceLock::new(),
        }
    }

    /// Returns the audit log for records of this task.
    ///
    /// # Errors
    ///
    /// The log cannot be written.
    pub(super) fn begin_audit(&self, root: &Path) -> Result<Audit, AuditError> {
        let audit = self.context.audit_here(root)?.of_task(&self.task_id);
        Ok(self.audit.get_or_init(|| audit).clone())
    }

    /// Returns the audit log of the task, or `None` before the task has started.
    pub(super) fn audit(&self) -> Option<&Audit> {
        self.audit.get()
    }

    /// Returns the sink that writes the journal, and the number of events that the journal holds already. Only
    /// the first call returns a sink.
    pub(super) fn journal(&self) -> (Option<Box<dyn Sink>>, u64) {
        let journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(journal) = journal else { return (None, 0) };
        let lines = journal.as_ref().map_or(0, |journal| journal.lines);
        let (file, complete) = (journal.map(|journal| journal.file), Arc::clone(&self.journaled));
        (Some(Box::new(JournalSink::new(file, prepare::secrets(), complete))), lines)
    }

    #[cfg(test)]
    pub(super) fn replace_journal(&self, file: std::fs::File) {
        *self.journal.lock().unwrap() = Some(Ok(Journal { file, lines: 0 }));
    }

    /// Returns whether every event so far is in the journal and on the disk.
    pub(super) fn is_journaled(&self) -> bool {
        let synced = |journal: &OwnedFd| rustix::fs::fdatasync(journal).is_ok();
        self.journaled.load(Ordering::SeqCst) && self.lives.as_ref().is_some_and(synced)
    }

    /// Returns the size of the journal.
    pub(super) fn journal_end(&self) -> Option<u64> {
        u64::try_from(rustix::fs::fstat(self.lives.as_ref()?).ok()?.st_size).ok()
    }

    /// Cuts the journal off at a size that it had, so that no later command reads an event that was not reported.
    pub(super) fn cut_journal(&self, end: Option<u64>) {
        if let (Some(journal), Some(end)) = (&self.lives, end) {
            // A part of a line that stays is recognised as such by its missing line feed.
            let _ = rustix::fs::ftruncate(journal, end);
            let _ = rustix::fs::seek(journal, rustix::fs::SeekFrom::Start(end));
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::SeqCst)
    }

    /// Marks the task as running. Returns false if it was cancelled while it waited. Safe to repeat after an
    /// error.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written.
    pub(super) fn start(&self) -> Result<bool, StoreError> {
        let TaskContext { store, this, .. } = &self.context;
        let mut started = store.start(&self.task_id, this)?;
        if !started {
            let ours = |task: TaskRecord| task.state == TaskState::Running && task.owner == *this;
            started = store.task(&self.task_id)?.is_some_and(ours);
        }
        self.running.store(started, Ordering::SeqCst);
        fail_point::reach("started");
        Ok(started)
    }

    /// Stores the end of the task. A task that is cancelled before its start is removed from the store. Safe to
    /// repeat after an error.
    ///
    /// # Errors
    ///
    /// The store cannot be written, or has lost the task (`StoreError::Lost`).
    pub(super) fn end(&self, how: &Outcome) -> Result<Stored, StoreError> {
        let TaskContext { store, artifacts, this, .. } = &self.context;
        if how.state() == TaskState::Cancelled && !self.is_running() {
            let given_up = store.give_up(&self.task_id, this)?;
            if given_up {
                // A journal without a row is never read, so a failure does not matter.
                let _ = artifacts.remove_journal(&self.task_id);
                return Ok(Stored::AsWanted);
            }
        } else {
            fail_point::reach("ending");
            let ended = store.end(&self.task_id, this, how)?;
            fail_point::reach("ended");
            if ended {
                return Ok(Stored::AsWanted);
            }
        }
        let task = store.task(&self.task_id)?;
        if task.is_none() && !self.is_running() {
            // `act cancel` took the waiting task out of the queue.
            return Ok(Stored::Otherwise(Outcome::cancelled()));
        }
        let ended = task.filter(|task| task.state.is_final());
        match ended.and_then(|task| Outcome::recorded(task.state, task.reason)) {
            Some(outcome) if outcome.state() == how.state() => Ok(Stored::AsWanted),
            Some(outcome) => Ok(Stored::Otherwise(outcome)),
            // The row is gone or belongs to another process, so this is not the database that the task
            // started with.
            None => Err(StoreError::Lost {
                path: store.path().to_owned(),
                task_id: self.task_id.clone(),
            }),
        }
    }
}

const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// The id of a task: `t-` and six random characters of `[a-z0-9]`, short enough to type. Random, so that processes
/// need not agree on a number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TaskId(String);

impl TaskId {
    pub fn random() -> Self {
        let mut rng = rand::rng();
        let random =
            (0..6).filter_map(|_| ALPHABET.get(rng.random_range(..ALPHABET.len())).copied());
        Self(std::iter::once("t-".chars()).flatten().chain(random.map(char::from)).collect())
    }

    /// Returns a text that has the form of a task id.
    pub fn parse(text: &str) -> Option<Self> {
        Self::is_one(text).then(|| Self(text.to_owned()))
    }

    /// Returns whether a text has the form of a task id.
    pub fn is_one(text: &str) -> bool {
        let random = text.strip_prefix("t-").unwrap_or_default();
        random.len() == 6 && random.bytes().all(|byte| ALPHABET.contains(&byte))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for TaskId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod queue_tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(task_id: &str, state: TaskState, life: Life) -> QueueEntry {
        QueueEntry { task_id: task_id.into(), state, life }
    }

    fn queued(task_id: &str, life: Life) -> QueueEntry {
        entry(task_id, TaskState::Queued, life)
    }

    fn running(life: Life) -> QueueEntry {
        entry("t-r", TaskState::Running, life)
    }

    fn wait(position: u32, holder: &str, stalled: bool) -> NextAction {
        let works = holder == "t-r";
        NextAction::Wait(BlockedBy { position, holder: Some(holder.into()), stalled, works })
    }

    #[test]
    fn the_first_task_starts_and_the_others_wait_for_it() {
        // TASK-21
        let queue = [queued("t-1", Life::Runs), queued("t-2", Life::Runs)];
        assert_eq!(next_action(&queue, "t-1"), NextAction::Start);
        assert_eq!(next_action(&queue, "t-2"), wait(2, "t-1", false));
        assert_eq!(next_action(&queue, "t-3"), NextAction::Removed);
        assert_eq!(next_action(&[], "t-3"), NextAction::Removed);
    }

    #[test]
    fn a_stopped_owner_is_waited_for_and_shown_a_dead_one_is_not() {
        // TASK-20, TASK-22, TASK-24
        let mine = queued("t-1", Life::Runs);
        let queue = |life| [running(life), mine.clone()];
        let dead = |task_id: &str| NextAction::RecordDead(task_id.into());
        assert_eq!(next_action(&queue(Life::Runs), "t-1"), wait(1, "t-r", false));
        assert_eq!(next_action(&queue(Life::Stalled), "t-1"), wait(1, "t-r", true));
        assert_eq!(next_action(&queue(Life::Dead), "t-1"), dead("t-r"));
        let if_unlocked = NextAction::RecordDeadIfUnlocked("t-r".into());
        assert_eq!(next_action(&queue(Life::Unknown), "t-1"), if_unlocked);
    }

    #[test]
    fn a_dead_owners_task_is_recorded_as_ended_wherever_it_waits() {
        // TASK-23
        let queue = [queued("t-1", Life::Dead), queued("t-2", Life::Runs)];
        let dead = NextAction::RecordDead("t-1".into());
        assert_eq!(next_action(&queue, "t-2"), dead);
        let behind = [queued("t-2", Life::Runs), queued("t-1", Life::Dead)];
        assert_eq!(next_action(&behind, "t-2"), dead);
        let busy = [running(Life::Runs), queue[0].clone(), queue[1].clone()];
        assert_eq!(next_action(&busy, "t-2"), dead);
        for life in [Life::Stalled, Life::Unknown] {
            let queue = [queued("t-1", life), queued("t-2", Life::Runs)];
            assert_eq!(next_action(&queue, "t-2"), wait(2, "t-1", life == Life::Stalled));
        }
    }

    fn lives() -> impl Strategy<Value = Life> {
        prop_oneof![Just(Life::Runs), Just(Life::Stalled), Just(Life::Dead), Just(Life::Unknown)]
    }

    proptest! {
        /// However many tasks look at the same queue, at most one of them starts, and never beside one that runs or
        /// before one that was accepted earlier.
        #[test]
        fn at_most_one_task_starts(
            works in proptest::option::of(lives()),
            waits in proptest::collection::vec(lives(), 0..8),
        ) {
            let mut queue: Vec<_> = works.map(running).into_iter().collect();
            let entries = waits.iter().enumerate();
            queue.extend(entries.map(|(at, life)| queued(&format!("t-{at}"), *life)));
            for at in 0..waits.len() {
                match next_action(&queue, &format!("t-{at}")) {
                    NextAction::Start => prop_assert!(at == 0 && works.is_none()),
                    NextAction::RecordDead(dead) => {
                        let life = queue.iter().find(|entry| entry.task_id == dead);
                        prop_assert_eq!(life.map(|entry| entry.life), Some(Life::Dead));
                        prop_assert_ne!(dead, format!("t-{at}"));
                    }
                    NextAction::RecordDeadIfUnlocked(_) => {
                        prop_assert_eq!(works, Some(Life::Unknown));
                    }
                    NextAction::Wait(blocked_by) => {
                        prop_assert_eq!(blocked_by.position as usize, at + 1);
                    }
                    NextAction::Removed => prop_assert!(false, "it waits"),
                }
            }
        }
    }

    #[test]
    fn the_last_line_of_a_journal_is_an_end_only_when_it_reports_one() {
        // TASK-24
        let line = |kind: &str, task: &str, state: &str| {
            format!(
                r#"{{"v":1,"type":"{kind}","task_id":"{task}","state":"{state}","exit_code":0,"reason":null,"x":1}}"#
            )
        };
        let success = final_state(&line("task_finished", "t-1", "SUCCESS"), "t-1").unwrap();
        assert_eq!(success, Outcome::Success);
        for other in [
            line("task_started", "t-1", "SUCCESS"),
            line("task_finished", "t-2", "SUCCESS"),
            line("task_finished", "t-1", "QUEUED"),
            line("task_finished", "t-1", "success"),
            "{}".to_owned(),
        ] {
            assert_eq!(final_state(&other, "t-1"), None, "{other}");
        }
    }
}

#[cfg(test)]
mod id_tests {
    use super::*;

    #[test]
    fn an_id_is_t_and_six_letters_or_digits() {
        // TASK-9
        for _ in 0..200 {
            let id = TaskId::random();
            let random = id.as_str().strip_prefix("t-").unwrap();
            assert_eq!(random.len(), 6);
            assert!(random.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()), "{id}");
        }
        assert_ne!(TaskId::random(), TaskId::random());
        assert!(TaskId::is_one(TaskId::random().as_str()));
        // security line 126
        for text in ["", "t-", "t-abc12", "t-abc1234", "t-ABC123", "t-abc/..", "abc123", "t-äbc1"]
        {
            assert!(!TaskId::is_one(text), "{text}");
        }
    }
}
