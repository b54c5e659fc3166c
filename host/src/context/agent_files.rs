//! What this module needs of the directory `agent/`.

use std::io;

/// Access to the files of `agent/`. Names are plain file names. An implementation holds the directory by
/// handle and follows no link, whatever a repository has put there.
pub trait AgentFiles {
    /// Refused with `AlreadyExists` when the name is taken by anything, also by a dangling link.
    fn create_new(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// A reader sees the old bytes or the new ones. A link under that name is replaced, not followed.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Makes `context_latest.md` a link to `target`, in place of what stood there.
    fn link_latest(&self, target: &str) -> io::Result<()>;
    /// All names, in any order.
    fn list(&self) -> io::Result<Vec<String>>;
}
