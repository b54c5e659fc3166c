//! The repository as data. Only this module opens files below a repository's root.
//!
//! Everything starts from a handle on the root directory and goes down by handle: no path string is ever
//! handed to the system as a whole, and what was judged is what is used. Reading goes through [`RepoView`],
//! which follows links inside the root and judges the real name; writing never follows a link.

mod exclusion;
mod git_dir;
mod globs;
mod handle;
mod ignored;
mod listing;
mod reading;
mod scan;
mod search;
mod selection;
mod tracked;
mod versions;
mod view;
mod walk;

pub use exclusion::Rule;
pub use globs::{GlobError, PathGlobs};
pub use listing::{Entries, Entry, MAX_ENTRIES, list};
pub use reading::{Chunk, MAX_READ, ReadError, Slice, read};
pub use search::{Hit, Hits, MAX_HITS, Pattern, SearchError, search};
pub use selection::{Selection, SelectionError};
pub use versions::{Version, Versions, digest};
pub use view::{DirEntry, Kind, Last, Profile, RepoView, Seen, ViewError};
