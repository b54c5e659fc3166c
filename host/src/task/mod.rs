//! The life of a task: what was asked, under which id, and how it is run.

mod args;
mod caches;
mod id;
mod last_word;
mod preflight;
mod runner;
mod scouting;
mod signals;
pub(crate) mod staff;
mod team;
mod turn;
mod verify;

pub use args::RunArgs;
pub use caches::{CacheList, Cleared, clear_caches, list_caches};
pub use id::TaskId;
pub use runner::run;
pub use scouting::{ScoutAnswer, ScoutArgs, WhichScout, scout};
pub use verify::verify;
