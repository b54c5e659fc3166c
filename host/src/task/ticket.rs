//! The row of one task, as the process that owns it sees it: from acceptance to its end.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::line::Seat;
use super::{RunArgs, TaskId, interrupted, preflight};
use crate::artifacts::ArtifactDir;
use crate::audit::{Audit, AuditError, Place};
use crate::fail_point;
use crate::output::Failure;
use crate::process::{self, Process};
use crate::store::{Ended, Flags, Store, StoreError, Submission, TaskRecord, TaskState};
use crate::workspace::{RootIdentity, head_commit};

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
        Ok(self.audit.about(Place { identity: self.repo.clone(), head: head_commit(root) }))
    }

    /// Accepted when this returns; behind all others.
    pub(super) fn submit(&self, args: &RunArgs, root: &Path) -> Result<(Ticket, u32), StoreError> {
        let id = TaskId::random();
        let position = self.store.submit(&Submission {
            task_id: id.as_str(),
            repo: &self.repo,
            root: &root.to_string_lossy(),
            text: &args.text,
            flags: &Flags { allow_paths: args.allow_paths.clone(), max_tokens: args.max_tokens },
            owner: &self.this,
        })?;
        Ok((Ticket::new(self.clone(), id.as_str()), position))
    }

    /// Takes over what another process accepted; none when somebody else was faster.
    pub(super) fn adopt(
        &self,
        task_id: &str,
        from: &Process,
    ) -> Result<Option<Ticket>, StoreError> {
        let adopted = self.store.adopt(task_id, from, &self.this)?;
        Ok(adopted.then(|| Ticket::new(self.clone(), task_id)))
    }

    pub(super) fn line(&self) -> Result<Vec<Seat>, StoreError> {
        let seat = |place: crate::store::Place| Seat {
            life: place.owner.life(&self.this, process::look),
            task_id: place.task_id,
            state: place.state,
        };
        Ok(self.store.line(&self.repo)?.into_iter().map(seat).collect())
    }

    /// The end of a running task whose process is dead, for one who knows that.
    pub(super) fn bury(&self, task_id: &str) -> Result<(), StoreError> {
        match self.store.task(task_id)? {
            Some(TaskRecord { state: TaskState::Running, owner, .. }) => {
                interrupted::end(&self.store, task_id, &owner)
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
    /// In whose name it is recorded, once its turn has come.
    audit: OnceLock<Audit>,
}

impl Ticket {
    fn new(desk: Desk, task_id: &str) -> Self {
        let (task_id, running) = (task_id.to_owned(), AtomicBool::new(false));
        Self { desk, task_id, running, audit: OnceLock::new() }
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

    /// Whether it could: it was not taken out of the line meanwhile.
    pub(super) fn start(&self) -> Result<bool, StoreError> {
        let started = self.desk.store.start(&self.task_id, &self.desk.this)?;
        self.running.store(started, Ordering::SeqCst);
        fail_point::reach("started");
        Ok(started)
    }

    /// Written down before anybody is told. Given up before its turn it leaves no trace.
    pub(super) fn end(&self, how: &Ended) -> Result<(), StoreError> {
        let Desk { store, artifacts, this, .. } = &self.desk;
        if how.state == TaskState::Cancelled && !self.running.load(Ordering::SeqCst) {
            store.forget(&self.task_id)?;
            // Best effort: without its row nobody looks for it.
            let _ = artifacts.remove_journal(&self.task_id);
            return Ok(());
        }
        fail_point::reach("ending");
        store.end(&self.task_id, this, how)?;
        fail_point::reach("ended");
        Ok(())
    }
}
