//! The life of a task: what was asked, under which id, and how it is run.

mod args;
mod caches;
mod id;
mod preflight;
mod runner;
mod signals;
mod team;
mod turn;
mod verify;

pub use args::RunArgs;
pub use caches::{CacheList, Cleared, clear_caches, list_caches};
pub use id::TaskId;
pub use runner::run;
pub use verify::verify;
