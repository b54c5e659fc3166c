//! What the Verifier asks of the repository; `workspace` answers.

use std::io;
use std::path::PathBuf;

/// The tree under verification. Every call looks at the disk anew and may block.
pub trait SourceTree: Send + Sync {
    /// The commit that is checked out, if there is one.
    fn head(&self) -> Option<String>;

    /// Digest of everything that the copy view holds.
    fn digest(&self) -> io::Result<String>;

    /// What the copy view holds, relative to the root: tracked and untracked-unignored files, and the
    /// ignored ones that `include` names.
    fn copy_set(&self, include: &[String]) -> io::Result<Vec<PathBuf>>;
}
