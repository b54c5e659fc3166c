//! What documents say about a repository as it is now: its path and identity, the commit of `HEAD`, and whether files differ
//! from that commit.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use act_core::Repo;
use act_workspace::{RootIdentity, head_commit, uncommitted};

/// Maximum wait for the comparison with the last commit. Most take some milliseconds, and a command that looks something up
/// does not wait for the others.
const LONGEST_COMPARISON: Duration = Duration::from_millis(250);

/// A comparison of this process still runs. Another one would compete with it, and a process that serves a client could have
/// any number of them.
static COMPARES: AtomicBool = AtomicBool::new(false);

/// Returns the repository at `root` as it is now. git itself is never run.
pub fn repository(root: &Path) -> Repo {
    let head = head_commit(root);
    // Without a commit there is nothing to compare with.
    let dirty = head.as_ref().and_then(|_| is_dirty(root));
    Repo {
        path: Some(root.display().to_string()),
        identity: RootIdentity::of(root).ok().map(|identity| identity.to_string()),
        head,
        dirty,
    }
}

/// Returns whether files differ from the last commit, or `None` where that is not known in time.
fn is_dirty(root: &Path) -> Option<bool> {
    if COMPARES.swap(true, Ordering::AcqRel) {
        return None;
    }
    let (send, receive) = mpsc::channel();
    let (root, end) = (PathBuf::from(root), End);
    let compare = move || {
        let differs = uncommitted(&root).ok().map(|found| !found.is_empty());
        // The next comparison may begin as soon as this one has its answer.
        drop(end);
        send.send(differs).ok();
    };
    if std::thread::Builder::new().name("compare".to_owned()).spawn(compare).is_err() {
        return None;
    }
    receive.recv_timeout(LONGEST_COMPARISON).ok()?
}

/// Ends the time in which no other comparison begins, also after a panic, and where the thread never started.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        COMPARES.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // JSON-3
    #[test]
    fn a_directory_without_a_commit_has_neither_head_nor_dirty() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        std::fs::write(dir.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let repo = repository(dir.path());
        assert_eq!(repo.path.as_deref(), dir.path().to_str());
        assert!(repo.identity.is_some());
        assert_eq!((repo.head, repo.dirty), (None, None));
    }

    // JSON-3
    #[test]
    fn a_commit_whose_objects_cannot_be_read_is_named_and_compared_with_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        let head = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00";
        std::fs::write(dir.path().join(".git/HEAD"), head).unwrap();
        let repo = repository(dir.path());
        assert_eq!((repo.head.as_deref(), repo.dirty), (Some(head), None));
    }
}
