//! The repository as data. Only this module opens files below a repository's root.
//!
//! Everything starts from a handle on the root directory and goes down by handle: no path string is ever
//! handed to the system as a whole, and what was judged is what is used. Reading goes through [`RepoView`],
//! which follows links inside the root and judges the real name; writing never follows a link.

mod exclusion;
mod handle;
mod view;

pub use exclusion::Rule;
pub use view::{DirEntry, Kind, Last, Profile, RepoView, Seen, ViewError};
