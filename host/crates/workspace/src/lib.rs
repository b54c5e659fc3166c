//! The repository: which files components can see, which a task may change, and which a verification covers.
//!
//! Only this crate opens files below the root of a repository. Everything is opened by handle, so what was judged is
//! what is used, and no path leads outside. Reading follows links inside the root and judges the real name; writing
//! never follows a link. The component crate, the Verifier, the agent and the program use the crate; it knows none of
//! them.
//!
//! - [`RepoView`] is the repository as a Scout or a tool sees it. [`read`], [`list`] and [`search`] work on it.
//! - [`RepoWriter::apply`] changes files. The way of a model's edit to the disk is `apply` → `check` (may this path be
//!   written, by [`WriteRules`]; is the file the [`Version`] that was read) → `make` → `Transaction::make` →
//!   `record`, which lists the files as changed. The component crate then writes the audit records.
//! - [`Overlay`] takes the changes of a dry run, and what a component writes to its scratch copy, instead of the disk.
//!   [`patch`] shows the changes of a dry run. [`RepoWriter::apply_proposal`] makes them later.
//! - [`Originals`] stores each file of the repository before its first change by a task, and [`patch_of_task`] shows the
//!   changes later.
//! - [`CopySet`] holds the files that a verification sees, and [`tree_digest`] is their identity. [`CopySet::marks`] says
//!   cheaply that none of them has changed.
//! - [`Committed`] holds the files of the last commit, from git's objects; [`uncommitted`] returns what differs from them.
//! - [`WorktreeSource`] has what a linked worktree of the repository needs, and tells git about a new one.
//! - [`history`] returns which files the newest commits changed.
//! - [`NotesDir`] is the directory that act itself writes, and [`RepoLock`] admits one task at a time.
//!
//! ```
//! use act_workspace::{Change, Profile, RepoView, RepoWriter, Slice, WriteRules, read};
//! # let directory = tempfile::tempdir().unwrap();
//! # let root = directory.path();
//! std::fs::write(root.join("a.txt"), "one\n").unwrap();
//! let writer = RepoWriter::open(root, WriteRules::default()).unwrap();
//! let expect = writer.version("a.txt").unwrap().unwrap();
//! let change = Change::Replace { path: "a.txt".into(), expect, bytes: b"two\n".to_vec() };
//! writer.apply(&[change], &|| false).unwrap();
//!
//! let view = RepoView::open(root, Profile::Tool).unwrap();
//! let chunk = read(&view, &Slice { path: "a.txt".into(), ..Slice::default() }, None).unwrap();
//! assert_eq!(chunk.bytes, b"two\n");
//! ```

mod committed;
mod copy_set;
mod exclusion;
mod git;
mod guarded;
mod history;
mod listing;
mod lock;
mod notes;
mod originals;
mod overlay;
mod paths;
mod proposal;
mod reading;
mod search;
#[cfg(test)]
mod testing;
mod transaction;
mod view;
mod worktree;
mod write_rules;
mod writer;

pub use committed::{Committed, CommittedFile, NotCommitted, is_stored_as_is, uncommitted};
pub use copy_set::{
    CopyEntry, CopyError, CopySet, READ_AT_ONCE, SpecialFiles, Tree, TreeBuilder, TreeFile,
    TreeMarks, UnverifiedFile, differing_files, special_files, tree_digest,
};
pub use exclusion::{HiddenFile, Rule, hidden_files};
pub use git::{GitPlace, git_place, git_state, head_commit, hooks_directory, prefix_in_git};
pub use guarded::{GUARDED, Guarded, is_guarded};
pub use history::{CommitFiles, History, HistoryLimits, history};
pub use listing::{Entries, Entry, MAX_ENTRIES, Selection, SelectionError, files, list};
pub use lock::{OpenRoot, RepoLock, RootIdentity, RootMoved};
pub use notes::{
    NOTES_DIRS, NotesDir, NotesError, add_gitignore_line, hidden_by_unanchored_line,
    hides_only_notes, notes_dir,
};
pub use originals::{NoPatch, Originals, TaskFiles, TaskPatch, files_of_task, patch_of_task};
pub use overlay::{Overlay, OverlayFull};
pub use paths::{GlobError, PathError, PathGlobs, RepoPath, is_at_or_below, is_repo_path};
pub use proposal::{Blob, ProposedFile, ProposedFileState, patch};
pub use reading::{
    BINARY_PROBE, Chunk, MAX_READ, OpenDirectory, OpenFile, ReadError, Reader, Slice, Version,
    Versions, bare_digest, digest, is_binary, read, version,
};
pub use search::{Hit, Hits, MAX_HIT_BYTES, MAX_HITS, Pattern, SearchError, search};
pub use view::{
    DirEntry, DirMark, DirPart, FollowLinks, Handle, Kind, OpenEntry, Profile, RepoView,
    Restriction, ViewError,
};
pub use worktree::{WorktreeSource, is_link_of};
pub use write_rules::{WriteRule, WriteRules, is_protected};
pub use writer::{
    Applied, Change, ChangedFile, Content, ContentChange, EditError, LeftState, MAX_WRITE,
    NotRolledBack, RepoWriter,
};
