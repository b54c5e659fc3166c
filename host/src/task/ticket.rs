//! The row of one task, as the process that owns it sees it: from acceptance to its end.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::queue::{self, QueueEntry};
use super::{RunArgs, TaskId, preflight};
use crate::output::Output;
use act_audit::{Audit, AuditError};
use act_core::Failure;
use act_core::event::Sink;
use act_core::exit::Exit;
use act_core::fail_point;
use act_core::process::Process;
use act_records::artifacts::{ArtifactDir, Journal};
use act_records::store::{Ended, Place, Store, StoreError, Submission, TaskRecord, TaskState};
use act_workspace::{RootIdentity, head_commit};

/// Where tasks of one repository are kept.
#[derive(Debug, Clone)]
pub(super) struct Desk {
    pub(super) store: Arc<Store>,
    pub(super) artifacts: Arc<ArtifactDir>,
    /// Identity of the repository's root.
    pub(super) repo: String,
    pub(super) this: Process,
    /// Where everything that is done here is recorded.
    pub(super) audit: Audit,
}

impl Desk {
    pub(super) fn new(
        store: Arc<Store>,
        artifacts: Arc<ArtifactDir>,
        root: &Path,
    ) -> Result<Self, Failure> {
        let identity = RootIdentity::of(root).map_err(|error| {
            Failure::refused("repository_unusable", format!("{}: {error}", root.display()))
        })?;
        let repo = identity.to_string();
        let audit = preflight::audit(&artifacts, &store)?;
        Ok(Self { store, artifacts, repo, this: Process::this(), audit })
    }

    /// The log, about the repository as it stands; refused where nothing can be recorded.
    pub(super) fn audit_here(&self, root: &Path) -> Result<Audit, AuditError> {
        self.audit.ready()?;
        Ok(self.audit.about(act_audit::RepoIdentity {
            identity: self.repo.clone(),
            head: head_commit(root),
        }))
    }

    /// Accepted when this returns; behind all others.
    pub(super) fn submit(&self, args: &RunArgs, root: &Path) -> Result<(Ticket, u32), StoreError> {
        let id = TaskId::random();
        // Before its row: from another container only the lock on it shows that this process lives.
        let journal = self.artifacts.create_journal(id.as_str());
        let position = self.store.submit(&Submission {
            task_id: id.as_str(),
            repo: &self.repo,
            root: &root.to_string_lossy(),
            text: &args.text,
            flags: &args.flags(),
            owner: &self.this,
        });
        if position.is_err() && journal.is_ok() {
            // Best effort: nobody looks for one without a row.
            let _ = self.artifacts.remove_journal(id.as_str());
        }
        Ok((Ticket::new(self.clone(), id.as_str(), journal), position?))
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
    ) -> Result<Option<Ticket>, StoreError> {
        let journal = self.artifacts.resume_journal(task_id);
        if self.store.take_over(task_id, from, &self.this)? {
            return Ok(Some(Ticket::new(self.clone(), task_id, journal)));
        }
        if self.store.task(task_id)?.is_none() && journal.is_ok() {
            // Cancelled in this moment, without a trace.
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
        let entry = |place: Place| QueueEntry {
            life: queue::owner_life(&self.artifacts, &self.this, &place.owner, &place.task_id),
            task_id: place.task_id,
            state: place.state,
        };
        Ok(self.store.line(&self.repo)?.into_iter().map(entry).collect())
    }

    /// Records the end of a task whose process the caller knows to be dead.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written.
    pub(super) fn record_dead(&self, task_id: &str) -> Result<(), StoreError> {
        match self.store.task(task_id)? {
            Some(TaskRecord { task_id, state, owner, .. }) if !state.is_final() => {
                let place = Place { task_id, state, owner };
                queue::record_dead(&self.store, &self.artifacts, &place)
            }
            _ => Ok(()),
        }
    }
}

#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) desk: Desk,
    pub(super) task_id: String,
    /// Its turn has come.
    running: AtomicBool,
    journal: Mutex<Option<io::Result<Journal>>>,
    /// Everything so far is in the journal.
    journaled: Arc<AtomicBool>,
    /// Held as long as this lives, whatever becomes of the journal.
    _lives: Option<OwnedFd>,
    /// In whose name it is recorded, once its turn has come.
    audit: OnceLock<Audit>,
}

/// Whether an end that was to be kept is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kept {
    Yes,
    /// It had ended before, in the eyes of others.
    Otherwise(Ended),
}

impl Ticket {
    fn new(desk: Desk, task_id: &str, journal: io::Result<Journal>) -> Self {
        Self {
            desk,
            task_id: task_id.to_owned(),
            running: AtomicBool::new(false),
            _lives: journal.as_ref().ok().and_then(|journal| journal.hold().ok()),
            journaled: Arc::new(AtomicBool::new(journal.is_ok())),
            journal: Mutex::new(Some(journal)),
            audit: OnceLock::new(),
        }
    }

    /// The log in its name, about the repository as it is now.
    pub(super) fn begin_audit(&self, root: &Path) -> Result<Audit, AuditError> {
        let audit = self.desk.audit_here(root)?.of_task(&self.task_id);
        Ok(self.audit.get_or_init(|| audit).clone())
    }

    /// The same; none before that.
    pub(super) fn audit(&self) -> Option<&Audit> {
        self.audit.get()
    }

    /// The reader that writes the journal, and how many events are in it already. For once.
    pub(super) fn journal(&self, output: &Output) -> (Option<Box<dyn Sink>>, u64) {
        let journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(journal) = journal else { return (None, 0) };
        let lines = journal.as_ref().map_or(0, |journal| journal.lines);
        let journaled = Arc::clone(&self.journaled);
        let sink = output.journal(journal.map(|journal| journal.file), move || {
            journaled.store(false, Ordering::SeqCst);
        });
        (sink, lines)
    }

    #[cfg(test)]
    pub(super) fn replace_journal(&self, file: std::fs::File) {
        *self.journal.lock().unwrap() = Some(Ok(Journal { file, lines: 0 }));
    }

    /// Whether every event so far is in the journal.
    pub(super) fn is_journaled(&self) -> bool {
        self.journaled.load(Ordering::SeqCst)
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::SeqCst)
    }

    /// Whether it could: it was not taken out of the line meanwhile. May be asked again after an error.
    pub(super) fn start(&self) -> Result<bool, StoreError> {
        let Desk { store, this, .. } = &self.desk;
        let mut started = store.start(&self.task_id, this)?;
        if !started {
            let ours = |task: TaskRecord| task.state == TaskState::Running && task.owner == *this;
            started = store.task(&self.task_id)?.is_some_and(ours);
        }
        self.running.store(started, Ordering::SeqCst);
        fail_point::reach("started");
        Ok(started)
    }

    /// Written down before anybody is told. Given up before its turn it leaves no trace. May be asked again after an
    /// error.
    pub(super) fn end(&self, how: &Ended) -> Result<Kept, StoreError> {
        let Desk { store, artifacts, this, .. } = &self.desk;
        if how.state == TaskState::Cancelled && !self.is_running() {
            let given_up = store.give_up(&self.task_id, this)?;
            if given_up {
                // Best effort: without its row nobody looks for it.
                let _ = artifacts.remove_journal(&self.task_id);
                return Ok(Kept::Yes);
            }
        } else {
            fail_point::reach("ending");
            let ended = store.end(&self.task_id, this, how)?;
            fail_point::reach("ended");
            if ended {
                return Ok(Kept::Yes);
            }
        }
        Ok(match store.task(&self.task_id)? {
            // Cancelled from outside, without a trace.
            None if !self.is_running() => Kept::Otherwise(Ended {
                state: TaskState::Cancelled,
                exit_code: Exit::Cancelled as u8,
                reason: Some("cancelled".to_owned()),
            }),
            Some(task) if task.state == how.state => Kept::Yes,
            Some(task) if task.state.is_final() => Kept::Otherwise(Ended {
                state: task.state,
                exit_code: task.exit_code.unwrap_or(Exit::Infra as u8),
                reason: task.reason,
            }),
            // The row is gone, or another process owns it: this is not the database that the task began with.
            _ => {
                return Err(StoreError::Lost {
                    path: store.path().to_owned(),
                    task_id: self.task_id.clone(),
                });
            }
        })
    }
}
