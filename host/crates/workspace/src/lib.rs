//! The repository as data. Only this module opens files below a repository's root.
//!
//! Everything starts from a handle on the root directory and goes down by handle: a path is never handed to
//! the system in a way that could lead outside, and what was judged is what is used. Reading goes through
//! [`RepoView`], which follows links inside the root and judges the real name; writing never follows a link.

mod agent_dir;
mod apply;
mod change;
mod copy_set;
mod exclusion;
mod git;
mod gitignore_entry;
mod globs;
mod handle;
mod hidden;
mod ignored;
mod listing;
mod lock;
mod note;
mod notes_dir;
mod overlay;
mod own_places;
mod patch;
mod proposal;
mod protected;
mod reading;
mod repo_path;
mod resolve;
mod scan;
mod search;
mod selection;
mod special;
mod spelling;
mod stop;
mod tested;
#[cfg(test)]
mod testing;
mod texts;
mod transaction;
mod versions;
mod view;
mod walk;

pub use agent_dir::{AgentDir, HostWriteError};
pub use apply::{MAX_WRITE, RepoWriter};
pub use change::{Applied, Change, ChangedFile, EditError, Holds, Left};
pub use copy_set::{
    CopyEntry, CopyError, CopySet, READ_AT_ONCE, Tree, TreeBuilder, TreeFile, tree_digest,
};
pub use exclusion::Rule;
pub use git::{GitPlace, git_place, head_commit, prefix_in_git};
pub use gitignore_entry::{GitignoreEntry, append_gitignore_once, hidden_by_unanchored_line};
pub use globs::{GlobError, PathGlobs, is_at_or_below};
pub use hidden::{Hidden, hidden};
pub use listing::{Entries, Entry, MAX_ENTRIES, files, list};
pub use lock::{Acquired, HeldRoot, RepoLock, RootIdentity, RootMoved};
pub use notes_dir::{NOTES_DIRS, notes_dir};
pub use overlay::Overlay;
pub use patch::patch;
pub use proposal::{Blob, ProposedFile, Stands, is_repo_path};
pub use protected::{WriteRule, WriteRules, is_guarded, is_protected};
pub use reading::{BINARY_PROBE, Chunk, MAX_READ, ReadError, Slice, is_binary, read};
pub use repo_path::{PathError, RepoPath};
pub use search::{Hit, Hits, MAX_HIT_BYTES, MAX_HITS, Pattern, SearchError, search};
pub use selection::{Selection, SelectionError};
pub use special::{Special, special};
pub use tested::Untested;
pub use texts::{FileText, Held};
pub use versions::{Version, Versions, bare_digest, digest};
pub use view::{
    DirEntry, DirMark, DirPart, Kind, Last, Profile, RepoView, Restriction, Seen, ViewError,
};
