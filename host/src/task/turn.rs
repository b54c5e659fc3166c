//! Waiting for one's turn: one task at a time in a repository, whoever started it.

use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::event::{EventKind, Events};
use crate::output::Failure;
use crate::workspace::{Acquired, RepoLock};

/// How often a waiting task looks; well under what a person notices.
const LOOK: Duration = Duration::from_millis(200);

/// The lock, if nobody holds it.
pub(super) fn take(root: &Path) -> Result<Option<RepoLock>, Failure> {
    match RepoLock::try_acquire(root) {
        Ok(Acquired::Held(lock)) => Ok(Some(lock)),
        Ok(Acquired::Busy) => Ok(None),
        Err(error) => {
            let message = format!("{} cannot be locked: {error}", root.display());
            Err(Failure::refused("lock_failed", message)
                .hint("a repository must lie on a file system with flock"))
        }
    }
}

/// The lock, once its holder has let go; none when cancelled while waiting.
pub(super) async fn wait(
    root: &Path,
    events: &Events,
    cancel: &CancellationToken,
) -> Result<Option<RepoLock>, Failure> {
    let repo = root.display().to_string();
    events.emit(EventKind::Waiting { repo, holder: None });
    loop {
        tokio::select! {
            () = cancel.cancelled() => return Ok(None),
            () = tokio::time::sleep(LOOK) => {}
        }
        if let Some(lock) = take(root)? {
            return Ok(Some(lock));
        }
    }
}
