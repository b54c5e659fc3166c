//! Waiting for one's turn: first in the line of the repository, and its lock held.

use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::line::{self, Behind, Turn};
use super::patience::Patience;
use super::ticket::Ticket;
use crate::output::Output;
use act_core::Failure;
use act_core::event::{EventKind, Events};
use act_records::store::StoreError;
use act_workspace::{Acquired, RepoLock, RootMoved};

/// How often a waiting task looks; well under what a person notices.
const LOOK: Duration = Duration::from_millis(100);

/// How the waiting ended.
#[derive(Debug)]
pub(super) enum Came {
    /// First, and nobody else works in the repository. `waited`: things may have changed meanwhile.
    Turn { lock: RepoLock, waited: bool },
    /// First is a task whose process is dead; it has to be run before.
    Orphan { lock: RepoLock, task_id: String },
    /// Taken out of the line, or a signal came.
    Cancelled,
}

pub(super) struct Waiting<'a> {
    pub(super) ticket: &'a Ticket,
    pub(super) root: &'a Path,
    pub(super) events: &'a Events,
    /// What was last told.
    told: Option<Behind>,
    waited: bool,
    patience: Patience<'a>,
}

/// Why nobody can wait here any more.
enum Trouble {
    MayPass(String),
    Stays(Failure),
}

impl<'a> Waiting<'a> {
    pub(super) fn new(
        ticket: &'a Ticket,
        root: &'a Path,
        events: &'a Events,
        output: &'a Output,
    ) -> Self {
        let patience = Patience::new(output);
        Self { ticket, root, events, told: None, waited: false, patience }
    }

    /// Called again after an orphan has been run. What ails the store for a while is waited for.
    pub(super) async fn until(&mut self, cancel: &CancellationToken) -> Result<Came, Failure> {
        loop {
            match self.look() {
                Ok(Some(came)) => return Ok(came),
                Ok(None) => self.patience.is_over(),
                Err(Trouble::MayPass(why)) => self.trouble(&why),
                Err(Trouble::Stays(failure)) => return Err(failure),
            }
            tokio::select! {
                () = cancel.cancelled() => return Ok(Came::Cancelled),
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// That this is waited for.
    pub(super) fn trouble(&mut self, error: &dyn std::fmt::Display) {
        self.waited = true;
        self.patience.waits_on(error);
    }

    /// One look at the line, and the one step that it asks for.
    fn look(&mut self) -> Result<Option<Came>, Trouble> {
        let desk = &self.ticket.desk;
        let (line, me) = (desk.line()?, self.ticket.task_id.as_str());
        // First as well, but a verification or a task of another ARTIFACT_DIR works in the repository.
        let locked = Behind {
            position: line::position(&line, me),
            holder: None,
            stalled: false,
            works: true,
        };
        let take = || take(self.root, &desk.repo);
        let behind = match line::next(&line, me) {
            Turn::Gone => return Ok(Some(Came::Cancelled)),
            Turn::Bury(task_id) => {
                desk.bury(&task_id)?;
                return Ok(None);
            }
            Turn::BuryIfUnlocked(task_id) => match take()? {
                Some(_lock) => {
                    desk.bury(&task_id)?;
                    return Ok(None);
                }
                None => locked,
            },
            Turn::Ours => match take()? {
                Some(lock) => return Ok(Some(Came::Turn { lock, waited: self.waited })),
                None => locked,
            },
            Turn::Adopt(task_id) => match take()? {
                Some(lock) => return Ok(Some(Came::Orphan { lock, task_id })),
                None => locked,
            },
            Turn::Wait(behind) => behind,
        };
        self.tell(behind);
        Ok(None)
    }

    /// That a task before this one is run by this process.
    pub(super) fn adopted(&mut self, other: &str) {
        (self.told, self.waited) = (None, true);
        self.events.emit(EventKind::Adopted { other: other.to_owned() });
    }

    /// When it is news.
    fn tell(&mut self, behind: Behind) {
        if self.told.as_ref() == Some(&behind) {
            return;
        }
        self.events.emit(EventKind::Waiting {
            repo: self.root.display().to_string(),
            holder: behind.holder.clone(),
            position: behind.position,
            stalled: behind.stalled,
            works: behind.works,
        });
        (self.told, self.waited) = (Some(behind), true);
    }
}

/// The lock, if nobody holds it: of the very directory that the task was accepted for.
fn take(root: &Path, accepted: &str) -> Result<Option<RepoLock>, Trouble> {
    let lock = match RepoLock::try_acquire(root) {
        Ok(Acquired::Held(lock)) => lock,
        Ok(Acquired::Busy) => return Ok(None),
        Err(error) => return Err(trouble(root, &error)),
    };
    let found = lock.root().identity().map_err(|error| trouble(root, &error))?;
    match found.to_string() == accepted {
        true => Ok(Some(lock)),
        false => Err(Trouble::Stays(RootMoved::Replaced(root.to_owned()).into())),
    }
}

fn trouble(root: &Path, error: &std::io::Error) -> Trouble {
    let failure = unlockable(root, error);
    match Errno::from_io_error(error) {
        // Of this process or of the machine, not of the repository.
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::INTR) => {
            Trouble::MayPass(failure.message)
        }
        _ => Trouble::Stays(failure),
    }
}

/// Why there is no lock, when nobody holds it.
pub(super) fn unlockable(root: &Path, error: &std::io::Error) -> Failure {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    if matches!(error.kind(), NotFound | NotADirectory) {
        return RootMoved::Gone { path: root.to_owned(), why: error.to_string() }.into();
    }
    Failure::refused("lock_failed", format!("{} cannot be locked: {error}", root.display()))
        .hint("a repository must lie on a file system with flock")
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        match error.may_pass() {
            true => Self::MayPass(error.to_string()),
            false => Self::Stays(error.into()),
        }
    }
}
